"""The cost of recursive functions: calls, the stack, and lanes that return from different depths.

``python -m bench.machine.recursion --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Device
from bench.machine.card_program import measure_cubin

DEPTHS = {
    "fibonacci_calls": (0, 1, 2, 3, 5, 8),
    "chain_calls": (0, 1, 2, 4, 8, 16),
    "stacked_calls": (0, 1, 2, 4, 8, 12),
    "halves_calls": (0, 1, 2, 4, 8, 16),
}
"""Arguments of each function; the largest also bounds those that differ between lanes."""
GRIDS = ((1, 32), (1, 128), (264, 64))
REPEATS = 5


def lanes(depths: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Arguments of a warp's lanes: all the same, or two, four or up to 32 different ones."""
    lane = np.arange(32)
    most = depths[-1]
    found = {f"all {n}": np.full(32, n) for n in depths}
    found |= {f"{most} and {most // 2}": np.where(lane % 2, most, most // 2)}
    found |= {f"{most} and one 0": np.where(lane == 5, 0, most)}
    found |= {f"one {most} and 1": np.where(lane == 5, most, 1)}
    found |= {"four": most - most // 4 * (lane % 4)}
    found |= {"all differ": lane % (most + 1)}
    found |= {"random": np.random.default_rng(7).integers(0, most, 32)}
    return found


def measure(device: Device, cubin: bytes, grids: Sequence[tuple[int, int]] = GRIDS) -> list[dict[str, Any]]:
    """Cycles of the call in a warp's first lane, median and maximum over all warps, for each kernel, grid (blocks, threads) and kind of arguments."""
    module = device.load(cubin)
    out, results = device.upload(np.zeros(4096, np.uint32)), device.upload(np.zeros(264 * 64, np.int32))
    arguments = device.upload(np.zeros(264 * 64, np.int32))
    rows = []
    for kernel, depths in DEPTHS.items():
        for blocks, threads in grids:
            for name, values in lanes(depths).items():
                arguments.write(np.tile(values.astype(np.int32), blocks * threads // 32))
                each = []
                for _ in range(1 if device.kind == "model" else REPEATS):
                    module.launch(kernel, blocks, threads, [out, results, arguments])
                    spans = out.read(np.uint32, blocks * threads // 16).reshape(-1, 2).astype(np.int64)
                    each.append(spans[:, 1] - spans[:, 0])
                span = np.median(each, axis=0)
                row = {"kernel": kernel, "blocks": blocks, "threads": threads, "arguments": name}
                rows.append({**row, "median": float(np.median(span)), "longest": float(span.max())})
    return rows


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure)
