"""Phases of a launch: the overhead before its first block, SMs that fill, SMs that all have work, the tail, and its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from warpwright.tools.report.attribution import sm_count
from warpwright.tools.report.markup import bar, datum, panel, percent, rows_table

if TYPE_CHECKING:
    from warpwright.run import Run

MEANINGS = (
    ("launch", "before the first block begins"),
    ("filling", "until every SM that gets work has its first block"),
    ("full", "every SM that gets work has a block"),
    ("tail", "from the first SM that has no block left to the end of the last block"),
    ("end", "after the last block"),
)
"""The phases, in order, and where each ends."""


@dataclass(frozen=True, slots=True)
class Phases:
    """A launch's cycles by phase; they add up to all of its cycles."""

    cycles: tuple[int, ...]
    """Of each phase of :data:`MEANINGS`."""
    tail_idle: float
    """Share of the tail in which an SM that got work has none left, mean of these SMs; 0 without a tail."""


def phases(run: Run) -> Phases | None:
    """The phases of a launch, or None if not all of its blocks have recorded times."""
    assert run.timing is not None
    blocks = run.timing.blocks
    if run.sampling is not None or blocks is None or len(blocks) != _block_count(run) or not (blocks[:, 2] > 0).all():
        return None
    used = np.unique(blocks[:, 0])
    on_sm = [blocks[blocks[:, 0] == sm] for sm in used]
    firsts = np.array([rows[:, 1].min() for rows in on_sm])
    lasts = np.array([rows[:, 2].max() for rows in on_sm])
    begin, filled, end = int(firsts.min()), int(firsts.max()), int(lasts.max())
    filled = min(filled, end)
    emptied = max(int(lasts.min()), filled)
    tail = end - emptied
    idle = float(np.mean(end - np.maximum(lasts, emptied))) / tail if tail else 0.0
    return Phases((begin, filled - begin, emptied - filled, tail, run.cycles - end), idle)


def _block_count(run: Run) -> int:
    return run.grid[0] * run.grid[1] * run.grid[2]


def _waves(run: Run) -> str:
    at_once = run.resident.blocks_per_sm * sm_count(run)
    blocks = _block_count(run)
    return f"{blocks:,} blocks, of which the chip holds {at_once:,} at once: {blocks / at_once:.2f} waves."


def phases_panel(run: Run, anchor: str) -> str:
    """The launch's waves and its phases."""
    waves = _waves(run)
    found = phases(run)
    if found is None:
        note = f"{waves} The phases are not known: not every block was recorded."
        return panel("Launch and tail", f'<p class="note">{note}</p>', anchor)
    rows = [
        f"<tr><td>{name}<small>{meaning}</small></td><td>{bar(cycles / run.cycles)}</td>"
        + datum(f"phase: {name}", cycles, f"{cycles:,}")
        + f'<td class="num">{percent(cycles / run.cycles)}</td></tr>'
        for (name, meaning), cycles in zip(MEANINGS, found.cycles, strict=True)
    ]
    if found.cycles[3]:
        waves += (
            f" In the tail, SMs that got work have none left for {percent(found.tail_idle)} of the time on average."
        )
    return panel("Launch and tail", rows_table(waves, ("phase", "", "cycles", "share"), rows, "bars"), anchor)
