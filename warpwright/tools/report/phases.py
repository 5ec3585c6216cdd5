"""Phases of a launch: the overhead before its first block, SMs that fill, SMs that all have work, the tail, and its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpwright.quantity_text import figures, share_text
from warpwright.tools.report.markup import bar, datum, panel, rows_table

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


def phases(blocks: NDArray[Any] | None, count: int, cycles: int) -> Phases | None:
    """The phases of a launch, or None if not all of its blocks have recorded times.

    Args:
        blocks: SM, first and last cycle of each block.
        count: blocks of the grid.
        cycles: of the launch.
    """
    if blocks is None or len(blocks) != count or not (blocks[:, 2] > 0).all():
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
    return Phases((begin, filled - begin, emptied - filled, tail, cycles - end), idle)


def phases_panel(found: Phases | None, count: int, at_once: int, anchor: str) -> str:
    """The phases of a launch, and its waves: ``count`` blocks on a chip that holds ``at_once``."""
    waves = f"{count:,} blocks, of which the chip holds {at_once:,} at once: {figures(count / at_once)} waves."
    if found is None:
        note = f"{waves} The phases are not known: not every block was recorded."
        return panel("Launch and tail", f'<p class="note">{note}</p>', anchor)
    whole = sum(found.cycles)
    rows = [
        f"<tr><td>{name}<small>{meaning}</small></td><td>{bar(cycles / whole)}</td>"
        + datum(f"phase: {name}", cycles, f"{cycles:,}")
        + f'<td class="num">{share_text(cycles / whole)}</td></tr>'
        for (name, meaning), cycles in zip(MEANINGS, found.cycles, strict=True)
    ]
    if found.cycles[3]:
        waves += (
            f" In the tail, SMs that got work have none left for {share_text(found.tail_idle)} of the time on average."
        )
    return panel("Launch and tail", rows_table(waves, ("phase", "", "cycles", "share"), rows, "bars"), anchor)
