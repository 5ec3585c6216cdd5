"""Task graphs of the A100 whitepaper (Figures 28 to 30): what a launch costs the host, and what comes between two kernels, as a graph and in streams.

An H200 has run the same shapes (``bench/data/h200/graphs.json``); of V100 and A100 the paper's text has orderings only, because its figures give no numbers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

from warpwright.chips import load_chip
from warpwright.errors import UnsupportedError
from warpwright.studies.study import Cell, Result, Step, Table, study

PAPER = "NVIDIA A100 Tensor Core GPU Architecture"
TOLERANCE = 0.15
KERNEL_SECONDS = 2e-6
CARD_CYCLES = 4000
"""Of the H200's kernels of 2 us."""
CARD_US = {
    "line of 1": ("1x1", 4.64, 4.928),
    "line of 2": ("2x1", 7.424, 8.32),
    "line of 4": ("4x1", 13.056, 15.232),
    "line of 8": ("8x1", 23.616, 29.024),
    "line of 16": ("16x1", 45.216, 56.608),
    "line of 32": ("32x1", 87.872, 111.84),
    "line of 64": ("64x1", 173.6, 221.888),
    "fork of 2": ("1x2", 10.304, 12.224),
    "fork of 4": ("1x4", 10.976, 15.456),
    "fork of 8": ("1x8", 12.48, 18.72),
    "fork of 16": ("1x16", 13.856, 21.984),
    "4 forks of 2": ("4x2", 26.656, 34.112),
    "4 forks of 4": ("4x4", 29.344, 50.112),
    "8 forks of 2": ("8x2", 49.344, 63.328),
    "8 forks of 4": ("8x4", 53.824, 96.608),
}
"""The shape, and microseconds between events as a graph and in streams."""
EMPTY_US = {
    "line of 1": (2.528, 2.688),
    "line of 2": (3.2, 4.16),
    "line of 4": (4.384, 6.56),
    "line of 8": (6.432, 11.808),
    "line of 16": (10.528, 22.304),
    "line of 32": (18.592, 42.304),
    "line of 64": (34.784, 82.976),
    "fork of 2": (3.872, 5.792),
    "fork of 4": (5.216, 9.504),
    "fork of 8": (6.528, 12.864),
    "fork of 16": (7.968, 16.16),
    "4 forks of 2": (9.216, 15.712),
    "4 forks of 4": (11.2, 32.288),
    "8 forks of 2": (15.584, 29.568),
    "8 forks of 4": (20.16, 60.128),
}
"""The same of empty kernels."""
STRAIGHT, COMPLEX = "line of 21", "4 forks of 4"
"""Shapes of as many kernels."""
FIGURE_SHAPES = {
    STRAIGHT: ("21x1", 21, 21),
    COMPLEX: ("4x4", 21, 9),
    "fork of 16": ("1x16", 18, 3),
    "8 forks of 2": ("8x2", 25, 17),
}
"""The shape, its kernels, and those on its longest path."""

Times = dict[str, dict[str, dict[str, float]]]


@cache
def measured(chip: str, cycles: int, shapes: tuple[str, ...]) -> Times:
    """Microseconds of shapes on a chip: the program, in a process of its own.

    Raises:
        UnsupportedError: it has failed.
    """
    program = Path(__file__).with_name("graph_program.py")
    arch = load_chip(chip).arch
    arguments = ["--gpu", chip, "--host-clock", "simulated"]
    command = [
        sys.executable,
        "-m",
        "warpwright",
        "run",
        *arguments,
        str(program),
        str(arch),
        str(cycles),
        ",".join(shapes),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise UnsupportedError(f"the program of this study has failed on {chip}: {done.stderr or done.stdout}")
    found: Times = json.loads(lines[-1])
    return found


def _beside_card(cycles: int, card_us: dict[str, tuple[float, float]]) -> list[Cell]:
    shapes = tuple(shape for shape, _, _ in CARD_US.values())
    found = measured("h200", cycles, shapes)
    return [
        Cell(name, how, found[CARD_US[name][0]][how]["device_us"], card, TOLERANCE)
        for name, both in card_us.items()
        for how, card in zip(("graph", "streams"), both, strict=True)
    ]


def _speedups(chip: str) -> dict[str, tuple[float, float]]:
    """Of a graph over streams, by shape: the host's calls, and what the device takes beside the kernels of the longest path."""
    cycles = round(KERNEL_SECONDS * load_chip(chip).clocks.sm_clock_mhz * 1e6)
    found = measured(chip, cycles, tuple(shape for shape, _, _ in FIGURE_SHAPES.values()))
    speedups = {}
    for name, (shape, _, path) in FIGURE_SHAPES.items():
        graph, streams = found[shape]["graph"], found[shape]["streams"]
        besides = [one["device_us"] - path * KERNEL_SECONDS * 1e6 for one in (streams, graph)]
        speedups[name] = streams["call_us"] / graph["call_us"], besides[0] / besides[1]
    return speedups


def _so(row: str, column: str, holds: bool) -> Cell:
    return Cell(row, column, int(holds), 1, 0, True)


def _orderings(
    figure: int, volta: dict[str, tuple[float, float]], ampere: dict[str, tuple[float, float]]
) -> list[Cell]:
    cells = []
    for name in FIGURE_SHAPES:
        cells.append(_so("a graph is faster, V100", name, volta[name][figure] > 1))
        cells.append(_so("a graph is faster, A100", name, ampere[name][figure] > 1))
        # In a line there are no dependencies to follow beyond the next: Figure 30's gain is that of forks.
        if figure == 0 or name != STRAIGHT:
            cells.append(_so("A100 gains more than V100", name, ampere[name][figure] > volta[name][figure]))
    cells.append(
        _so("A100 gains more by forks than by a line", COMPLEX, ampere[COMPLEX][figure] > ampere[STRAIGHT][figure])
    )
    return cells


@study("graph-launch", f"{PAPER}, Figures 28 to 30")
def graph_launch(step: Step) -> Result:
    """Task graphs and streams: times of 15 shapes beside an H200's, and the orderings of V100 and A100."""
    step("h200, kernels of 2 us")
    in_time = _beside_card(CARD_CYCLES, {name: (graph, streams) for name, (_, graph, streams) in CARD_US.items()})
    step("h200, empty kernels")
    empty = _beside_card(0, EMPTY_US)
    step("v100")
    volta = _speedups("v100")
    step("a100")
    ampere = _speedups("a100")
    cycles = round(KERNEL_SECONDS * load_chip("a100").clocks.sm_clock_mhz * 1e6)
    line = measured("a100", cycles, tuple(shape for shape, _, _ in FIGURE_SHAPES.values()))["21x1"]
    shares = {
        how: (line[how]["call_us"] / 21, line[how]["device_us"] / 21 - KERNEL_SECONDS * 1e6)
        for how in ("streams", "graph")
    }
    breakdown = [
        _so("a graph takes less of the host for each kernel", "A100", shares["graph"][0] < shares["streams"][0]),
        _so("and less between two kernels", "A100", shares["graph"][1] < shares["streams"][1]),
    ]
    counts = {kind: sum(cell.holds for cell in in_time if cell.column == kind) for kind in ("graph", "streams")}
    remarks = [
        f"Of the 15 shapes with kernels of 2 us, {counts['graph']} as graphs and {counts['streams']} in streams are within 15 % of the H200's. In chains of forks of empty kernels, each"
        " fork and join takes the card 0.5 to 1.1 us longer as a graph than the model.",
        "A line of 21 kernels of 2 us on A100: "
        + "; ".join(
            f"{how} {call:.2f} us of the host and {gap:.2f} us between two for each kernel"
            for how, (call, gap) in shares.items()
        )
        + ".",
        *(
            f"{chip}: "
            + ", ".join(
                f"{name} {found[name][0]:.1f} times less of the host, {found[name][1]:.1f} times less between kernels"
                for name in FIGURE_SHAPES
            )
            + "."
            for chip, found in (("V100", volta), ("A100", ampere))
        ),
        "The figures print no numbers. That A100's host submits a graph in one operation, and follows the dependencies of a fork without the streams' waits, is the paper's text; what V100 takes for a node, 0.2 us of the"
        " host, is assumed, and its branches begin as those of streams do. The orderings of Figures 29 and 30 follow from these.",
    ]
    return Result(
        [
            Table("H200, kernels of 2 us", "us", in_time),
            Table("H200, empty kernels", "us", empty),
            Table("Figure 28", "1 if so", breakdown),
            Table("Figure 29, the host's calls", "1 if so", _orderings(0, volta, ampere)),
            Table("Figure 30, from grid to grid", "1 if so", _orderings(1, volta, ampere)),
        ],
        remarks,
    )
