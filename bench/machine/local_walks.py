"""Loads and stores of per-thread arrays in local memory, and successive stores of bytes and words by each lane: cycles per turn, by the number of warps per SM and of SMs.

``python -m bench.machine.local_walks --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Device
from bench.machine.card_program import measure_cubin

KERNELS = ("stores", "stores_apart", "copies", "copies_apart", "swaps_apart")
LANES = ("lane_bytes", "lane_words")
PITCH = 512
TURNS = 128
BLOCKS = (1, 132)
WARPS = (1, 2, 4, 8, 16)
REPEATS = 3


def measure(device: Device, cubin: bytes) -> list[dict[str, Any]]:
    """Cycles per turn of the mean and of the slowest warp, in the median of ``REPEATS`` launches."""
    module = device.load(cubin)
    repeats = 1 if device.kind == "model" else REPEATS
    arrived, out = device.upload(np.zeros(32, np.uint32)), device.upload(np.zeros(132 * 32, np.uint32))
    data = device.alloc(132 * max(WARPS) * 32 * PITCH)
    data.zero()
    begun, rows = 0, []
    for kernel in (*KERNELS, *LANES):
        for blocks in BLOCKS:
            for warps in WARPS:
                found = []
                for _ in range(repeats + 1):
                    begun += blocks
                    numbers = [np.uint32(TURNS), *([np.uint32(PITCH)] if kernel in LANES else []), np.uint32(begun)]
                    module.launch(
                        kernel, blocks, 32 * warps, [out, arrived, *([data] if kernel in LANES else []), *numbers]
                    )
                    found.append(out.read(np.uint32, blocks * 32).reshape(blocks, 32)[:, :warps].astype(np.int64))
                taken = sorted(found[1:], key=lambda one: float(one.mean()))[repeats // 2] / TURNS
                row = {"kernel": kernel, "blocks": blocks, "warps": warps}
                rows.append({**row, "mean": round(float(taken.mean()), 2), "longest": round(float(taken.max()), 2)})
                print(rows[-1], flush=True)
    for buffer in (arrived, out, data):
        buffer.free()
    return rows


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure, caches="kept", turns=TURNS, pitch=PITCH)
