"""Barriers of blocks and grids by the warps per SM, and a comparison of all levels: Table 8 and Figures 6, 7, 12 and 13.

Figures 6, 7, 12 and 13 are drawings: the study compares the paper's statements about them, and their numbers if they are in its tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpwright.studies.multi_grid import multi_grid_us
from warpwright.studies.study import Cell, Plot, Result, Step, Table, study
from warpwright.studies.synchronisation import (
    CLOCKS_MHZ,
    TABLE_5,
    THREADS_PER_SM,
    block_cycles,
    block_latency,
    block_rate,
    grid_latency_us,
)
from warpwright.studies.warp_level import PAPER, TABLE_4, nanoseconds

GRID_TOLERANCE = 0.15
BLOCK_TOLERANCE = 0.10
LINE_TOLERANCE = 0.05
WARPS_PER_SM = 64
# Blocks of an SM: least and most microseconds.
TABLE_8 = {
    "v100": {1: (1.435, 2.199), 2: (1.838, 3.485), 4: (2.847, 4.536), 8: (5.055, 6.649), 16: (9.207, 10.393), 32: (21.061, 24.785)},
    "p100": {1: (1.762, 2.254), 2: (2.050, 3.493), 4: (3.421, 4.852), 8: (6.420, 8.478), 16: (13.228, 16.627), 32: (31.345, 35.134)},
}  # fmt: skip
# Warp-barriers per nanosecond of an SM whose warps are all active (Table 7, blocks of more than 64 threads).
SATURATED = {"v100": (0.626, 0.658), "p100": (0.102, 0.111)}


def _sizes(blocks: int) -> list[int]:
    return [threads for threads in (32, 64, 128, 256, 512, 1024) if blocks * threads <= THREADS_PER_SM]


@study("sync-table8", f"{PAPER}, Table 8")
def grid_ranges(step: Step) -> Result:
    """Least and most time of a grid barrier over the block's sizes, by blocks of an SM."""
    found = Result()
    for chip, rows in TABLE_8.items():
        cells = []
        for blocks, papers in rows.items():
            step(f"{chip}, {blocks} blocks on each SM")
            times = [grid_latency_us(chip, blocks, threads) for threads in _sizes(blocks)]
            for name, ours, paper in zip(("least", "most"), (min(times), max(times)), papers, strict=True):
                cells.append(Cell(f"{blocks} × SMs", name, ours, paper, GRID_TOLERANCE))
        found.tables.append(Table(f"Grid barrier on {chip}", "µs", cells))
    return found


def _points(step: Step, chip: str) -> list[tuple[int, int]]:
    step(chip)
    return [(blocks, threads) for blocks in (1, 2, 4, 8, 16, 32) for threads in _sizes(blocks)]


def _correlation(points: Sequence[tuple[float, float]]) -> float:
    """Pearson's, of a list of pairs."""
    return float(np.corrcoef(np.array(points).T)[0, 1])


@study("sync-figure6", f"{PAPER}, Figure 6")
def latency_by_warps(step: Step) -> Result:
    """Latency of block barriers over the warps of an SM."""
    found, cells = Result(), []
    for chip in CLOCKS_MHZ:
        points = sorted(
            (blocks * threads / 32, block_cycles(chip, blocks, threads)) for blocks, threads in _points(step, chip)
        )
        ours, paper = [], []
        for threads, (latency, rate) in TABLE_5[chip].items():
            blocks = min(WARPS_PER_SM // 2, THREADS_PER_SM // threads)
            warps = threads / 32
            ours += [(warps, block_latency(chip, threads)), (blocks * warps, block_cycles(chip, blocks, threads))]
            paper += [(warps, latency), (blocks * warps, blocks * CLOCKS_MHZ[chip] / rate)]
        row = "correlation with the warps of an SM"
        cells.append(Cell(row, chip, _correlation(ours), _correlation(paper), LINE_TOLERANCE, True))
        found.remarks.append(f"Correlation of all {len(points)} points on {chip}: {_correlation(points):.3f}.")
        found.plots.append(Plot(f"Block barriers on {chip}", "warps of an SM", "cycles", {"model": points}))
    found.tables.append(Table("The twelve points of Table 5", "correlation", cells))
    found.remarks.append(
        "The paper draws its points without printing them and calls most of them close to a line. Twelve follow from its Table 5: one block's latency, and the rate with as"
        " many blocks as fit. On V100 they are not close to one: 32 blocks of one warp take 191 cycles, one block of 32 warps 84."
    )
    return found


@study("sync-figure7", f"{PAPER}, Figure 7")
def rate_by_warps(step: Step) -> Result:
    """Rate of block barriers, counted in warps, over the active warps of an SM."""
    found, cells = Result(), []
    for chip, (least, most) in SATURATED.items():
        points = []
        for blocks, threads in _points(step, chip):
            warps = blocks * threads / 32
            points.append((warps, warps * CLOCKS_MHZ[chip] / block_cycles(chip, blocks, threads)))
        points.sort()
        for threads in (128, 256, 512, 1024):
            ours = block_rate(chip, threads) * threads / 32 / 1e3
            nearest = min(max(ours, least), most)
            cells.append(Cell(f"blocks of {threads}", chip, ours, nearest, BLOCK_TOLERANCE))
        found.plots.append(Plot(f"Warp-barriers on {chip}", "warps of an SM", "per µs", {"model": points}))
    found.tables.append(Table("Rate of an SM full of warps, to the nearest end of the paper's range", "per ns", cells))
    return found


def _all_levels(step: Step, chip: str, system: str) -> Result:
    clock = CLOCKS_MHZ[chip]
    ours = nanoseconds(chip)
    cells = []
    for row, (cycles, _) in TABLE_4[chip].items():
        absolute = cycles == 1
        tolerance = 1e3 / clock if absolute else BLOCK_TOLERANCE
        cells.append(Cell(row, "ns", ours[row], 1e3 * cycles / clock, tolerance, absolute))
    series: dict[str, list[tuple[float, float]]] = {"block": [], "grid": [], "several grids": []}
    for threads, (block_cycles_paper, _) in TABLE_5[chip].items():
        step(f"{chip}, {threads} threads")
        latency = 1e3 * block_latency(chip, threads) / clock
        cells.append(Cell(f"block of {threads}", "ns", latency, 1e3 * block_cycles_paper / clock, BLOCK_TOLERANCE))
        series["block"].append((threads, latency))
        series["grid"].append((threads, 1e3 * grid_latency_us(chip, 0, threads)))
        series["several grids"].append((threads, 1e3 * multi_grid_us(system, 1, 0, threads)))
    found = Result([Table("Latency with one block", "ns", cells)])
    found.plots.append(Plot(f"All levels on {chip}, one block", "threads of the block", "ns", series))
    shown = ", ".join(
        f"{name} {rows[0][1]:.0f} to {rows[-1][1]:.0f}" for name, rows in series.items() if name != "block"
    )
    found.remarks.append(
        f"The paper draws grids of one block and does not print them; ours, ns, 32 to 1,024 threads: {shown}."
    )
    return found


@study("sync-figure12", f"{PAPER}, Figure 12")
def all_levels_v100(step: Step) -> Result:
    """Latency of barriers at all levels on one V100 with one block."""
    return _all_levels(step, "v100", "dgx-1")


@study("sync-figure13", f"{PAPER}, Figure 13")
def all_levels_p100(step: Step) -> Result:
    """Latency of barriers at all levels on one P100 with one block."""
    return _all_levels(step, "p100", "p100x2-pcie")
