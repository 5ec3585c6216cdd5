"""Histograms in global memory, the example of the A100 whitepaper's Figure 34, by kernel, data and policy: what L2 keeps of the bins, with and without access-policy windows and set-asides.

``python -m bench.machine.histograms --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model a100`` (or ``v100``, ``h200``) on the model.
The paper gives the number of integers and of bins, but neither its kernel nor its data.  Bins take half of L2, as the paper's do on A100.
"""

from __future__ import annotations

import argparse
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.machine.card_program import builds, cubin_parser

MIB = 1 << 20
KERNELS = {"quads": 4, "streamed": 4, "words": 1, "threads": 1, "matched": 1, "answered": 1}
"""Integers that a thread takes at a time."""
DATA = ("even", "turns of 1", "turns of 2", "turns of 4", "normal", "exponential", "sorted")
THREADS = 256
CARD_ELEMENTS, MODEL_ELEMENTS = 256 * MIB, 8 * MIB
WAYS = 16


@dataclass(frozen=True, slots=True)
class Policy:
    """Sixteenths of L2 that are set aside, and whether the bins persist."""

    ways: int
    window: bool


POLICIES = [
    Policy(0, False),
    Policy(10, True),
    Policy(8, True),
    *(Policy(ways, False) for ways in (4, 5, 6, 7, 8, 9, 10)),
]
"""H200 can set aside ten sixteenths."""


def drawn(kind: str, bins: int, count: int) -> npt.NDArray[np.uint32]:
    """Integers [count] below ``bins``: drawn evenly, around the middle or falling off from 0; in ascending order; ``turns of N``: in ascending order over and over, each N times in a row."""
    rng = np.random.default_rng(34)
    if kind == "even":
        return rng.integers(0, bins, count, dtype=np.uint32)
    if kind == "sorted" or kind.startswith("turns"):
        i = np.arange(count, dtype=np.uint32)
        if kind == "sorted":
            return (i.astype(np.uint64) * np.uint64(bins) // np.uint64(count)).astype(np.uint32)
        return i // np.uint32(kind.split()[-1]) % np.uint32(bins)
    if kind == "normal":
        values = bins / 2 + bins / 8 * rng.standard_normal(count, dtype=np.float32)
    else:
        values = bins / 10 * rng.standard_exponential(count, dtype=np.float32)
    return np.clip(values, 0, bins - 1).astype(np.uint32)


def blocks(kernel: str, elements: int, sm_count: int) -> int:
    """Blocks of a launch: enough to fill the SMs, or one thread for each integer."""
    return elements // THREADS if kernel == "threads" else sm_count * 2048 // THREADS


def cases() -> list[tuple[str, str, Policy]]:
    """Data, kernel and policy: all kernels with even data and data in turns, two with the others; set-asides without a window for even data alone."""
    found = []
    for data in DATA:
        kernels = list(KERNELS) if data in ("even", "turns of 1", "turns of 2") else ["quads", "words"]
        for kernel in kernels:
            alone = data == "even" and kernel == "words"
            found += [(data, kernel, policy) for policy in (POLICIES if alone else POLICIES[:3])]
    return found


def on_card(cubin: bytes) -> list[dict[str, Any]]:
    """Microseconds of each case, the median of three launches."""
    from bench.machine.l2_policies import NORMAL, PERSISTING, Bench

    bench = Bench(cubin, quick=False)
    l2_bytes, sm_count = bench.attribute("l2_bytes"), int(bench.card.describe()["sm_count"])
    bins = 5_000_000 * l2_bytes // (40 * MIB)
    data, table = bench.card.alloc(4 * CARD_ELEMENTS), bench.card.alloc(4 * bins)
    table.zero()
    rows: list[dict[str, Any]] = []
    last = ""
    for kind, kernel, policy in cases():
        if kind != last:
            data.write(drawn(kind, bins, CARD_ELEMENTS))
            last = kind
        bench.reset()
        bench.window()
        bench.set_aside(policy.ways * l2_bytes // WAYS)
        if policy.window:
            bench.window(table.address, table.nbytes, 1.0, PERSISTING, NORMAL)
        launch = (kernel, blocks(kernel, CARD_ELEMENTS, sm_count), THREADS, data, np.uint32(CARD_ELEMENTS), table)
        bench.launch(*launch)
        took = sorted(bench.microseconds(lambda asked=launch: bench.launch(*asked)) for _ in range(3))[1]  # type: ignore[misc]
        rows.append(_row(kind, kernel, policy, bins, CARD_ELEMENTS, took))
    return rows


def on_model(chip: str, cubin: bytes, asked: list[tuple[str, str, Policy]], elements: int) -> list[dict[str, Any]]:
    """Microseconds of each case on the model: the second of two launches."""
    import warpwright as ww

    rows = []
    for kind, kernel, policy in asked:
        gpu = ww.GPU(chip, timing="full", caches="kept")
        l2_bytes = gpu.chip.l2.l2_kib << 10
        bins = 5_000_000 * max(l2_bytes, 40 * MIB) // (40 * MIB)
        values = gpu.array(drawn(kind, bins, elements))
        table = gpu.zeros(bins, np.uint32)
        gpu.set_aside(min(policy.ways * l2_bytes // WAYS, gpu.chip.l2.l2_set_aside_max_kib << 10))
        window = ww.AccessWindow(table.device_address(), table.nbytes, 1.0) if policy.window else None
        grid = blocks(kernel, elements, gpu.chip.sm.sm_count)
        launch = gpu.compile(cubin)[kernel][grid, THREADS].with_window(window)
        for _ in range(2):
            run = launch(values, np.uint32(elements), table)
        assert int(table.numpy().sum()) == 2 * elements
        rows.append(_row(kind, kernel, policy, bins, elements, run.seconds * 1e6))
    return rows


def _row(kind: str, kernel: str, policy: Policy, bins: int, elements: int, us: float) -> dict[str, Any]:
    row = {"data": kind, "kernel": kernel, "ways": policy.ways, "window": policy.window, "bins": bins, "elements": elements,
           "us": round(us, 2), "sums_per_ns": round(elements / us / 1e3, 2)}  # fmt: skip
    print(row, flush=True)
    return row


def main() -> None:
    parser = cubin_parser(__doc__)
    parser.add_argument("--data", nargs="+", choices=DATA, default=["even"], help="with --model")
    parser.add_argument("--kernels", nargs="+", choices=tuple(KERNELS), default=["words"], help="with --model")
    parser.add_argument("--mib", type=int, default=MODEL_ELEMENTS // MIB, help="with --model: Mi of integers")
    options: argparse.Namespace = parser.parse_args()
    if builds(Path(__file__), options):
        return
    cubin = options.cubin.read_bytes()
    if options.model:
        policies = POLICIES[: 1 if options.model == "v100" else 3]
        asked = list(itertools.product(options.data, options.kernels, policies))
        about = {"device": f"warpwright {options.model}"}
        rows = on_model(options.model, cubin, asked, options.mib * MIB)
    else:
        from bench.device import smi

        about, rows = smi(), on_card(cubin)
    if options.out:
        command = "python -m bench.machine.histograms --cubin FILE --out FILE"
        options.out.write_text(json.dumps({**about, "command": command, "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
