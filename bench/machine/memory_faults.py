"""Which accesses outside an allocation fault: allocates some arrays, frees some of them, and accesses one word at a distance from the start of the first.

``python -m bench.machine.memory_faults --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` runs each case in a process of its own, on a card or on a model (``--model h200``).
"""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.device import Card, Device, DeviceError, Model
from bench.machine.card_program import builds, cubin_parser

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True)
class Case:
    """Arrays of these sizes are allocated, those with these numbers are freed, and a word at this distance from the start of the first one is accessed."""

    name: str
    sizes: tuple[int, ...]
    distance_bytes: int
    freed: tuple[int, ...] = ()


CASES = (
    Case("inside", (8,), 4),
    Case("directly after the end", (8,), 8),
    Case("middle of the page", (8,), MIB),
    Case("last word of the page", (8,), 2 * MIB - 4),
    Case("first word after the page", (8,), 2 * MIB),
    Case("before the first array", (8,), -4),
    Case("next array of the page", (8, 8), 512),
    Case("after the end of 1 MiB", (MIB,), MIB),
    Case("last word of its page", (MIB,), 2 * MIB - 4),
    Case("first word after its page", (MIB,), 2 * MIB),
    Case("after the end of 3 MiB", (3 * MIB,), 3 * MIB),
    Case("last word of its two pages", (3 * MIB,), 4 * MIB - 4),
    Case("first word after its two pages", (3 * MIB,), 4 * MIB),
    Case("freed, alone in its page", (8,), 0, (0,)),
    Case("freed, another one in its page", (8, 8), 0, (0,)),
    Case("both freed", (8, 8), 0, (0, 1)),
    Case("freed large array", (MIB,), 0, (0,)),
)


def outcome(model: str | None, memory_faults: str, cubin: bytes, kernel: str, case: Case) -> str:
    """``works``, or ``faults`` and the error; requires a process that has not used the device before."""
    device: Device = Model(model, memory_faults=memory_faults) if model else Card()
    module = device.load(cubin)
    arrays = [device.alloc(size) for size in case.sizes]
    address = arrays[0].address
    for number in case.freed:
        arrays[number].free()
    try:
        module.launch(kernel, 1, 1, [np.uint64(address), np.int64(case.distance_bytes)])
    except (DeviceError, RuntimeError) as error:
        return f"faults: {str(error).splitlines()[0]}"
    return "works"


def main() -> None:
    parser = cubin_parser(__doc__)
    parser.add_argument("--memory-faults", default="page", help="of the model: page or allocation")
    options = parser.parse_args()
    if builds(Path(__file__), options):
        return
    cubin = options.cubin.read_bytes()
    rows = []
    for kernel in ("writes", "reads"):
        for case in CASES:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                found = pool.apply(outcome, (options.model, options.memory_faults, cubin, kernel, case))
            rows.append([kernel, case.name, found])
            print(*rows[-1], sep=": ", flush=True)
    if options.out:
        command = "python -m bench.machine.memory_faults --cubin FILE --out FILE"
        options.out.write_text(json.dumps({"command": command, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
