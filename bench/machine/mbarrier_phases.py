"""Cycles of an mbarrier's phase: arrivals and waits of the warps of many blocks, with and without work before them, a producer with consumers, and rates of single operations.

``python -m bench.machine.mbarrier_phases --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model
(a chip file with ``base = "h200"`` and ``sm_count = 2`` gives the same results, because SMs share nothing here).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Device, Module
from bench.machine.card_program import measure_cubin

PHASES = ("phases_t_n", "phases_w_n", "phases_w_n_test", "phases_t_f", "phases_w_f", "phases_w_s", "phases_w_d")
RINGS = ("ring_1", "ring_2", "ring_4")
RATES = [
    f"rates_{kind}_{where}"
    for kind in ("arrive", "arrive_all", "end", "look", "test")
    for where in ("block", "warp", "sub_core")
]
OPERATIONS = 8
"""Of a repeat of ``RATES``."""
SHAPES = ((1, 1), (1, 2), (1, 4), (1, 8), (1, 16), (1, 32), (2, 8), (2, 32), (4, 16), (8, 8), (16, 4), (32, 2), (32, 1))
"""Blocks of each SM, and warps of each block."""
REPEATS = {"card": (8, 72), "model": (8, 24)}
TURNS = {"card": 5, "model": 1}


class Phases:
    """Launches of the kernels that fill all SMs; the first warp's SM is read."""

    def __init__(self, device: Device, module: Module) -> None:
        self.kind, self.module, self.sm_count = device.kind, module, int(device.describe()["sm_count"])
        self.out = device.upload(np.zeros(4 * 64 * self.sm_count, np.uint32))

    def _spans(self, kernel: str, blocks: int, warps: int, repeats: int) -> tuple[float, float, int]:
        """Mean cycles and fourth numbers of the SM's warps, and how many warps there are; of ``RATES`` those that take part."""
        each: list[tuple[float, float, int]] = []
        for _ in range(TURNS[self.kind]):
            self.module.launch(kernel, blocks * self.sm_count, 32 * warps, [self.out, np.int32(repeats)])
            read = self.out.read(np.uint32, 4 * blocks * self.sm_count * warps).reshape(-1, 4).astype(np.int64)
            mine = read[read[:, 2] == read[0, 2]]
            if kernel in RATES:
                mine = mine[mine[:, 3] == 1]
            each.append((float((mine[:, 1] - mine[:, 0]).mean()), float(mine[:, 3].mean()), len(mine)))
        span, number, count = np.median(np.array(each), axis=0)
        return float(span), float(number), int(count)

    def row(self, kernel: str, blocks: int, warps: int) -> list[float]:
        """Cycles of a phase, and waits in vain of a warp per phase; of ``RATES`` the cycles of a warp's operation and the number of warps."""
        few, many = REPEATS[self.kind]
        first, second = (self._spans(kernel, blocks, warps, repeats) for repeats in (few, many))
        cycles = (second[0] - first[0]) / (many - few)
        if kernel in RATES:
            return [round(cycles / OPERATIONS, 2), second[2]]
        return [round(cycles, 2), round((second[1] - first[1]) / (many - few), 3)]


def measure(device: Device, cubin: bytes) -> dict[str, Any]:
    """Rows of ``Phases.row`` for each of ``SHAPES``, by kernel; a ring has no shape of one warp."""
    run = Phases(device, device.load(cubin))
    found: dict[str, Any] = {}
    for kernel in [*PHASES, *RINGS, *RATES]:
        shapes = [(blocks, warps) for blocks, warps in SHAPES if warps > 1 or kernel not in RINGS]
        found[kernel] = [run.row(kernel, blocks, warps) for blocks, warps in shapes]
    return found


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure, shapes=SHAPES)
