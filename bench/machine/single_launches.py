"""What Nsight Compute counts in single launches with cold caches: elapsed cycles beyond the SMs' active ones, by grid and by the accesses under way at the end, and stores that write sectors only in part.

``python -m bench.machine.single_launches --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card (with ``ncu``), and
``--cubin FILE --model h200`` on the model.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.corpus_card import under_ncu, value
from bench.device import open_device
from bench.machine.card_program import builds, cubin_parser

MIB = 1 << 20
METRICS = (
    *("gpc__cycles_elapsed.max", "sm__cycles_active.max", "sm__cycles_active.avg", "sm__cycles_active.min"),
    *("dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_sectors.sum", "lts__t_sectors_op_write.sum"),
)
REPEATS = 3
BUFFER_MIB = 192


class Launch(NamedTuple):
    """One launch: ``block`` is the number of threads per block; ``arguments`` follow the kernel's ``buffers`` buffers."""

    kernel: str
    grid: int
    block: int
    buffers: int
    arguments: tuple[int, ...]
    shared_bytes: int = 0


def launches() -> Iterator[Launch]:
    """All launches, in order."""
    for grid in (1, 2, 4, 8, 16, 32, 64, 80, 100, 120, 128, 131, 132, 133, 144, 198, 264, 528, 1056, 2112, 4224):
        yield Launch("waits", grid, 128, 0, (4000,))
    for grid, block in ((1, 32), (132, 32), (132, 1024), (264, 1024), (1056, 256)):
        yield Launch("waits", grid, block, 0, (4000,))
    for shared_bytes in (1024, 32 << 10, 48 << 10):
        yield Launch("waits", 132, 128, 0, (4000,), shared_bytes)
    for cycles in (0, 1000, 16000):
        yield Launch("waits", 132, 128, 0, (cycles,))
        yield Launch("waits", 1, 128, 0, (cycles,))
    for grid in (1, 16, 132, 1056):
        yield Launch("waits_and_stores", grid, 128, 1, (4000,))
    for kernel in ("reads", "writes", "copies"):
        for mib in (4, 32):
            for tail in (0, 3000):
                yield Launch(kernel, 1056, 256, 2, (mib * MIB // 16, tail))
                yield Launch(kernel, mib * MIB // 16 // 256, 256, 2, (mib * MIB // 16, tail))
    for mib in (2, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 64):
        yield Launch("words", 3907, 256, 1, (1_000_000, mib * MIB // 4))
    for mib in (2, 4, 8, 16, 32):
        yield Launch("permuted", 3907, 256, 1, (min(1_000_000, mib * MIB // 4), mib * MIB // 4))
    for stride in (2, 4, 8, 16, 32):
        yield Launch("strided", 3907, 256, 1, (1_000_000, stride))


def run_on(device: Any, cubin: bytes, repeats: int) -> None:
    """Launch everything on a card; this part runs under ncu."""
    module = device.load(cubin)
    buffers = [device.alloc(BUFFER_MIB * MIB) for _ in range(2)]
    for one in launches():
        for _ in range(repeats):
            arguments = [*buffers[: one.buffers], *(np.int32(a) for a in one.arguments)]
            module.launch(one.kernel, one.grid, one.block, arguments, one.shared_bytes)
    for buffer in buffers:
        buffer.free()


def on_model(chip: str, source: Path) -> list[dict[str, Any]]:
    """Each launch and its metrics on the model."""
    import warpwright as ww

    gpu = ww.GPU(chip)
    module = gpu.compile(source)
    buffers = [gpu.array(np.zeros(BUFFER_MIB * MIB, np.uint8)) for _ in range(2)]
    rows = []
    for one in launches():
        arguments = [*buffers[: one.buffers], *(np.int32(a) for a in one.arguments)]
        run = module[one.kernel][one.grid, one.block, one.shared_bytes](*arguments)
        rows.append({**one._asdict(), **{name: float(run.metrics[name]) for name in METRICS if name in run.metrics}})
        print(rows[-1], flush=True)
    return rows


def on_card(cubin: Path) -> list[dict[str, Any]]:
    """Each launch and the medians of its metrics on a card; ``elapsed`` and ``active`` list the cycles of every repetition."""
    own = ["bench.machine.single_launches", "--cubin", str(cubin), "--launch"]
    measured, text = under_ncu(own, METRICS)
    every = list(launches())
    if len(measured) != REPEATS * len(every):
        raise SystemExit(f"{len(measured)} launches were profiled instead of {REPEATS * len(every)}: {text[-1000:]}")
    rows = []
    for number, one in enumerate(every):
        group = measured[REPEATS * number : REPEATS * (number + 1)]
        found = {name: [float(value(row, name)) for row in group] for name in METRICS}
        medians = {name: statistics.median(values) for name, values in found.items()}
        rows.append({**one._asdict(), **medians, "elapsed": found[METRICS[0]], "active": found[METRICS[1]]})
    return rows


def main() -> None:
    parser = cubin_parser(__doc__)
    parser.add_argument("--launch", action="store_true", help="launch on a card and print nothing")
    options = parser.parse_args()
    if builds(Path(__file__), options):
        return
    if options.launch:
        run_on(open_device("card"), options.cubin.read_bytes(), REPEATS)
        return
    rows = on_model(options.model, Path(__file__).with_suffix(".cu")) if options.model else on_card(options.cubin)
    command = "python -m bench.machine.single_launches --cubin FILE --out FILE"
    if options.out:
        options.out.write_text(json.dumps({"command": command, "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
