"""A study: cells with a simulated value, the paper's value and a tolerance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import numpy.typing as npt

from warpwright.quantity_text import share_text


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of a paper and of the model."""

    row: str
    column: str
    ours: float
    paper: float
    tolerance: float
    """Largest difference allowed: relative, or in the unit of the cell if ``absolute``."""
    absolute: bool = False

    @property
    def difference(self) -> float:
        """Ours less the paper's; relative unless ``absolute``."""
        return self.ours - self.paper if self.absolute else self.ours / self.paper - 1

    @property
    def holds(self) -> bool:
        """Whether the cell is within its tolerance."""
        return abs(self.difference) <= self.tolerance


@dataclass(slots=True)
class Table:
    """Cells of one unit, by row and column."""

    title: str
    unit: str
    cells: list[Cell]
    heat_map: bool = False
    """Whether the paper draws it as a heat map."""
    note: str = ""


@dataclass(slots=True)
class Plot:
    """A figure with a line of points per series."""

    title: str
    x_title: str
    y_title: str
    series: dict[str, list[tuple[float, float]]]
    """Points (x, y) by name, in the order of x."""


@dataclass(slots=True)
class Pictures:
    """Pictures side by side, enlarged so that pixels can be seen."""

    title: str
    images: dict[str, npt.NDArray[np.uint8]]
    """Bytes (height, width, 4) by name."""


@dataclass(slots=True)
class Result:
    """The results of a study."""

    tables: list[Table] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What cannot be concluded, and why."""
    plots: list[Plot] = field(default_factory=list)
    """Figures on the page."""
    pictures: list[Pictures] = field(default_factory=list)
    maps: list[Table] = field(default_factory=list)
    """Heat maps of values that the paper draws and does not print: on the page, and not among the cells; ``paper`` is ours."""

    def cells(self) -> list[Cell]:
        """The cells of all tables."""
        return [cell for table in self.tables for cell in table.cells]

    @property
    def missed_count(self) -> int:
        """Cells beyond their tolerance."""
        return sum(not cell.holds for cell in self.cells())


Step = Callable[[str], None]
"""Told what is measured next."""


@dataclass(frozen=True, slots=True)
class Study:
    """A study by its name."""

    name: str
    source: str
    """The paper and its table or figure."""
    summary: str
    run: Callable[[Step], Result]


STUDIES: dict[str, Study] = {}


def study(name: str, source: str) -> Callable[[Callable[[Step], Result]], Callable[[Step], Result]]:
    """Enter a function, whose docstring begins with the summary, as a study."""

    def enter(run: Callable[[Step], Result]) -> Callable[[Step], Result]:
        summary = (run.__doc__ or "").strip().splitlines()[0].rstrip(".")
        STUDIES[name] = Study(name, source, summary, run)
        return run

    return enter


def grid(cells: Sequence[Cell]) -> tuple[list[str], list[str], dict[tuple[str, str], Cell]]:
    """Rows, columns and the cells by both, in their order."""
    rows = list(dict.fromkeys(cell.row for cell in cells))
    columns = list(dict.fromkeys(cell.column for cell in cells))
    return rows, columns, {(cell.row, cell.column): cell for cell in cells}


def spread(cells: Sequence[Cell]) -> Iterator[tuple[str, float]]:
    """Median and largest relative difference of cells, by what they are called."""
    sizes = sorted(abs(cell.difference) for cell in cells if not cell.absolute)
    if sizes:
        middle = len(sizes) // 2
        yield "median", sizes[middle] if len(sizes) % 2 else (sizes[middle - 1] + sizes[middle]) / 2
        yield "largest", sizes[-1]


def ordered(cells: Sequence[Cell]) -> tuple[int, int]:
    """Pairs of cells that differ in the paper: how many have the paper's order, and how many there are."""
    pairs = [
        (one.ours - other.ours) * (one.paper - other.paper) > 0
        for one, other in combinations(cells, 2)
        if one.paper != other.paper
    ]
    return sum(pairs), len(pairs)


def differences(table: Table) -> str:
    """The line below a table of relative cells: median and largest difference, and the pairs of cells in the paper's order; empty for others."""
    cells = [cell for cell in table.cells if not cell.absolute]
    errors = ", ".join(f"{name} {share_text(value)}" for name, value in spread(cells))
    same, pairs = ordered(cells)
    order = f"; order: {same:,} of {pairs:,} pairs of cells as in the paper" if len(cells) > 2 and pairs else ""
    return f"difference: {errors}{order}" if errors else ""
