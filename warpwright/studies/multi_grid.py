"""Barriers of the grids of several GPUs: Table 9 and Figures 9 to 11 of "A Study of Synchronization Methods in Modern GPUs".

Figures 9 and 10 are heat maps that the paper's text does not print: Table 9 has the ends of their ranges.  The barrier's code is NVIDIA's and is not published; here it is
that of ``toolchain/device_runtime.py``.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from warpwright.multi_gpu import System
from warpwright.studies.study import Cell, Plot, Result, Step, Table, study
from warpwright.studies.synchronisation import CLOCKS_MHZ, THREADS_PER_SM, routine_code

PAPER = "Zhang et al., A Study of Synchronization Methods in Modern GPUs, 2019"
SYSTEMS = {"v100": "dgx-1", "p100": "p100x2-pcie"}
"""The paper does not state how its two P100s are connected."""
RANGE_TOLERANCE = 0.15
SAME_TOLERANCE = 0.15
BARRIERS = (2, 4)
# Of two GPUs: which cells of the heat map, least and most microseconds.
TABLE_9 = {
    "v100": {
        "at most 4 blocks and 16 warps": (6.02, 9.12), "in between": (11.39, 16.40),
        "16 blocks or more, or 64 warps": (22.00, 58.32),
    },
    "p100": {
        "at most 2 blocks and 32 warps": (7.26, 9.08), "in between": (10.73, 20.96), "more than 8 blocks": (33.18, 74.89),
    },
}  # fmt: skip
CASES = {"fastest": (1, 32), "general": (4, 256), "slowest": (32, 64)}
"""Points of Figure 11: blocks per SM and threads per block."""


@cache
def multi_grid_us(system: str, gpus: int, blocks_per_sm: int, threads: int) -> float:
    """Microseconds of a barrier of several GPUs' grids at the paper's clock; one block of each where ``blocks_per_sm`` is 0."""
    node = System(system)
    chip = node.gpus[0].chip
    code = routine_code(str(chip.arch))
    cycles = []
    for repeats in BARRIERS:
        launches = []
        for gpu in node.gpus[:gpus]:
            kernel = gpu.compile(code)["grids"]
            launches.append((kernel[blocks_per_sm * chip.sm.sm_count or 1, threads], (np.int32(repeats),)))
        cycles.append(max(run.cycles for run in node.launch(*launches, cooperative=True)))
    return (cycles[1] - cycles[0]) / (BARRIERS[1] - BARRIERS[0]) / CLOCKS_MHZ[node.machine.gpus[0]]


def _class(chip: str, blocks: int, warps: int) -> str:
    """The row of Table 9 that a cell of the heat map belongs to."""
    first, between, last = TABLE_9[chip]
    if chip == "v100":
        if blocks <= 4 and warps <= 16:
            return first
        return last if blocks >= 16 or warps == 64 else between
    if blocks <= 2 and warps <= 32:
        return first
    return last if blocks > 8 else between


def _map(step: Step, chip: str, gpus: int) -> dict[tuple[int, int], float]:
    found = {}
    for blocks in (1, 2, 4, 8, 16, 32):
        step(f"{gpus} {chip}, {blocks} blocks on each SM")
        for threads in (32, 64, 128, 256, 512, 1024):
            if blocks * threads <= THREADS_PER_SM:
                found[blocks, threads] = multi_grid_us(SYSTEMS[chip], gpus, blocks, threads)
    return found


def _ranges(chip: str, cells: dict[tuple[int, int], float]) -> list[Cell]:
    found = []
    for row, papers in TABLE_9[chip].items():
        times = [
            time for (blocks, threads), time in cells.items() if _class(chip, blocks, blocks * threads // 32) == row
        ]
        for name, ours, paper in zip(("least", "most"), (min(times), max(times)), papers, strict=True):
            found.append(Cell(row, name, ours, paper, RANGE_TOLERANCE))
    return found


@study("sync-table9", f"{PAPER}, Table 9")
def ranges(step: Step) -> Result:
    """Least and most time of a barrier of two GPUs' grids, by blocks and warps of an SM."""
    found = Result()
    for chip in TABLE_9:
        found.tables.append(Table(f"Two {chip}", "µs", _ranges(chip, _map(step, chip, 2))))
    found.remarks.append(
        "NVIDIA's code of this barrier is not published: the model runs its own (two barriers of each grid around a tree of stores between peers). Ranges of the paper are over cells that it does not print."
    )
    return found


def _heat_maps(step: Step, chip: str, counts: tuple[int, ...]) -> Result:
    found = Result()
    for gpus in counts:
        cells = _map(step, chip, gpus)
        if gpus == 2:
            found.tables.append(Table(f"Ranges of two {chip}, of Table 9", "µs", _ranges(chip, cells)))
        drawn = [Cell(f"{b} × SMs", f"{t}", time, time, math.inf) for (b, t), time in cells.items()]
        found.maps.append(Table(f"{gpus} {chip}: blocks of an SM, threads of a block", "µs", drawn, heat_map=True))
        rows = {
            blocks: [time for (b, _), time in cells.items() if b == blocks]
            for blocks in dict.fromkeys(b for b, _ in cells)
        }
        printed = "; ".join(f"{blocks}: {', '.join(f'{time:.3g}' for time in row)}" for blocks, row in rows.items())
        found.remarks.append(f"{gpus} {chip}, µs with 32, 64 … threads, by blocks of an SM: {printed}.")
    found.remarks.append("The paper draws these maps without printing their numbers in its text.")
    return found


@study("sync-figure9", f"{PAPER}, Figure 9")
def p100_maps(step: Step) -> Result:
    """Heat maps of barriers of one and two P100's grids."""
    return _heat_maps(step, "p100", (1, 2))


@study("sync-figure10", f"{PAPER}, Figure 10")
def v100_maps(step: Step) -> Result:
    """Heat maps of barriers of 1, 2, 5, 6 and 8 V100s' grids."""
    return _heat_maps(step, "v100", (1, 2, 5, 6, 8))


@study("sync-figure11", f"{PAPER}, Figure 11")
def gpu_counts(step: Step) -> Result:
    """Barriers of 1 to 8 V100s' grids: 2 to 5 alike, 6 to 8 alike, with a gap after 1 and after 5."""
    series: dict[str, list[tuple[float, float]]] = {}
    cells = []
    for case, (blocks, threads) in CASES.items():
        times = {}
        for gpus in range(1, 9):
            step(f"{case}, {gpus} GPUs")
            times[gpus] = multi_grid_us("dgx-1", gpus, blocks, threads)
        series[case] = [(float(gpus), time) for gpus, time in times.items()]
        cells.append(Cell(case, "5 to 2 GPUs", times[5] / times[2], 1.0, SAME_TOLERANCE))
        cells.append(Cell(case, "8 to 6 GPUs", times[8] / times[6], 1.0, SAME_TOLERANCE))
    found = Result([Table("Alike", "ratio of times", cells)])
    found.plots.append(Plot("V100s of a DGX-1", "GPUs", "µs", series))
    for case, rows in series.items():
        found.remarks.append(f"{case}, µs with 1 to 8 GPUs: {', '.join(f'{time:.3g}' for _, time in rows)}.")
    found.remarks.append(
        "The paper guesses at a bad implementation behind the gap from 5 to 6 GPUs. It is where the first GPU has no NVLink to the next one: GPUs 5, 6 and 7 of a DGX-1 are one step farther."
    )
    return found
