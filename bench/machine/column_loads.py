"""Loads of columns by all SMs: cycles if 1, 4 or 8 SMs request each sector of a line, from L2 or DRAM, at about the same time.

``python -m bench.machine.column_loads --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Device
from bench.machine.card_program import measure_cubin

MIB = 1 << 20
SWEPT_MIB = 256
ROWS = 4096
CASES = ((1024, 4), (20_000, 4), (20_000, 32), (20_000, 128))
"""Bytes between two rows, and between the words of neighbouring blocks."""
BLOCKS = (1, 8, 33, 132)
THREADS = (256, 1024)
REPEATS = 5


def measure(device: Device, cubin: bytes) -> list[dict[str, Any]]:
    """Cycles of the mean and of the slowest block, in the median of ``REPEATS`` launches."""
    module = device.load(cubin)
    repeats = 1 if device.kind == "model" else REPEATS
    data = device.alloc(ROWS * max(pitch for pitch, _ in CASES) + MIB)
    other = device.alloc(SWEPT_MIB * MIB)
    if device.kind != "model":
        data.zero()
        other.zero()
    arrived, out = device.upload(np.zeros(32, np.uint32)), device.upload(np.zeros(2 * max(BLOCKS), np.uint32))
    begun, rows = 0, []
    for pitch, apart in CASES:
        for blocks in BLOCKS:
            for threads in THREADS:
                found = []
                for _ in range(repeats):
                    if device.kind != "model":  # the model's launches begin with empty caches
                        module.launch("sweep", 1056, 256, [other, np.uint32(SWEPT_MIB * MIB >> 4), out])
                    begun += 2 * blocks
                    numbers = (np.uint32(value) for value in (ROWS, pitch, apart, begun))
                    module.launch("columns", blocks, threads, [out, arrived, data, *numbers])
                    found.append(out.read(np.uint32, 2 * blocks).reshape(-1, 2).astype(np.int64))
                for kind, name in enumerate(("cold", "warm")):
                    taken = sorted((one[:, kind] for one in found), key=lambda one: float(one.mean()))[repeats // 2]
                    row = {"pitch": pitch, "apart": apart, "blocks": blocks, "threads": threads, "l2": name}
                    rows.append({**row, "mean": round(float(taken.mean())), "longest": int(taken.max())})
                    print(rows[-1], flush=True)
    for buffer in (data, other, arrived, out):
        buffer.free()
    return rows


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure, rows_read=ROWS)
