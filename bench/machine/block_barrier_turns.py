"""In which order an SM passes the barriers of the blocks that share it: clocks of every warp of one SM at 31, 124 and 496 barriers in a row.

The blocks of an SM do not pass their barriers at the same pace: some run ahead, and the others wait.  Neither the rate of the whole SM nor the median of its blocks shows which.

``python -m bench.machine.block_barrier_turns --build CUBIN``; ``--cubin CUBIN --out FILE`` measures a card, with ``--model h200`` the model.  FILE's ``.npz`` has an array for each
kernel, shape and launch: blocks × warps × 32 clocks, in cycles, of the SM that ran block 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.device import Device, open_device, smi
from bench.machine.card_program import builds, cubin_parser

SHAPES = [
    (8, 32), (16, 32), (32, 32), (8, 64), (16, 64), (32, 64), (4, 128), (8, 128), (16, 128), (4, 256), (8, 256), (2, 512), (4, 512),
    (1, 1024), (2, 1024),
]  # fmt: skip
"""Blocks per SM and threads per block."""
KERNELS = {"turns_1": 1, "turns_4": 4, "turns_16": 16}
"""Number of barriers between two reads of the clock."""
TURNS = 3


def clocks(device: Device, cubin: bytes) -> Iterator[tuple[str, np.ndarray]]:
    """For each kernel, shape and launch, its name and the clocks of one SM's warps: blocks × warps × 32 cycles after the earliest of them."""
    module = device.load(cubin)
    sm_count = int(device.describe()["sm_count"])
    for per_sm, threads in SHAPES:
        blocks, warps = per_sm * sm_count, threads // 32
        sms, out = (device.upload(np.zeros(count, np.uint32)) for count in (blocks, 32 * blocks * warps))
        for kernel in KERNELS:
            for turn in range(1 if device.kind == "model" else TURNS):
                module.launch(kernel, blocks, threads, [sms, out])
                where = sms.read(np.uint32, blocks)
                found = out.read(np.uint32, 32 * blocks * warps).reshape(blocks, warps, 32)[where == where[0]]
                yield f"{kernel} {per_sm}x{threads} {turn}", found - found.min()
        sms.free()
        out.free()


def summary(found: np.ndarray, each: int) -> str:
    """Text with the SM's cycles per barrier of a block, and the cycles at which its blocks end, in order, at most eight of them."""
    ends = np.sort(found[:, :, 31].max(axis=1))
    shown = ends if len(ends) <= 8 else ends[:: len(ends) // 8]
    return (
        f"{ends[-1] / (31 * each * len(ends)):7.2f} a block's barrier; blocks end at {' '.join(str(e) for e in shown)}"
    )


def main() -> None:
    options = cubin_parser(__doc__).parse_args()
    if builds(Path(__file__), options):
        return
    device = open_device("model", options.model) if options.model else open_device("card")
    arrays, rows = {}, {}
    for name, found in clocks(device, options.cubin.read_bytes()):
        arrays[name] = found
        kernel = name.split()[0]
        rows[name] = summary(found, KERNELS[kernel])
        print(f"{name:24} {rows[name]}", flush=True)
    if options.out:
        np.savez_compressed(options.out.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]
        about = {**device.describe(), "command": "python -m bench.machine.block_barrier_turns --cubin CUBIN --out FILE"}
        after = smi() if device.kind == "card" else {}
        options.out.write_text(json.dumps({**about, "rows": rows, "after": after}, indent=1) + "\n")


if __name__ == "__main__":
    main()
