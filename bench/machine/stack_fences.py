"""Fences of all warps of an SM after four stores to the stack, as in a barrier that is called, after one to global memory, and after none; loads of the stack after fences.

``python -m bench.machine.stack_fences --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.device import Device
from bench.machine.card_program import measure_cubin

KERNELS = ("fences_alone", "fences_behind_stack", "fences_behind_stores")
SHAPES = ((1, 1), (1, 16), (1, 32), (2, 16), (2, 32), (4, 8), (4, 16), (8, 8), (16, 4), (32, 2))
"""Blocks of each SM, and warps of each block."""
REPEATS = (4, 36)
RELOADS = ("nothing", "threadfence", "acquire", "acq_rel")
RELOADING_WARPS = (1, 8, 32)
"""Warps of each SM."""


def measure(device: Device, cubin: bytes) -> dict[str, list[float]]:
    """Cycles of one round of fences and a block barrier on an SM, by kernel and ``SHAPES``; the mean and the least cycles of a stack load, by what comes before it and ``RELOADING_WARPS``."""
    module, sm_count = device.load(cubin), int(device.describe()["sm_count"])
    turns = 1 if device.kind == "model" else 3
    out = device.upload(np.zeros(4 * 64 * sm_count, np.uint32))
    words = device.upload(np.zeros(4 * 2048 * sm_count, np.uint32))
    found: dict[str, list[float]] = {}
    for kernel in KERNELS:
        for blocks, warps in SHAPES:
            spans = []
            for repeats in REPEATS:
                each = []
                for _ in range(turns):
                    module.launch(kernel, blocks * sm_count, 32 * warps, [out, words, np.int32(repeats)])
                    read = out.read(np.uint32, 4 * blocks * sm_count * warps).reshape(-1, 4).astype(np.int64)
                    mine = read[read[:, 2] == read[0, 2]]
                    each.append(float(mine[:, 1].max() - mine[:, 0].min()))
                spans.append(float(np.median(each)))
            found.setdefault(kernel, []).append((spans[1] - spans[0]) / (REPEATS[1] - REPEATS[0]))
    for kind in RELOADS:
        for warps in RELOADING_WARPS:
            module.launch(f"reload_after_{kind}", sm_count, 32 * warps, [out, words, np.int32(16)])
            read = out.read(np.uint32, 2 * sm_count * warps).reshape(-1, 2)
            found[f"reload after {kind}, {warps} warps"] = [round(float(read[:, 0].mean()), 1), float(read[:, 1].min())]
    return found


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure, shapes=SHAPES)
