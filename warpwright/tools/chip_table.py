"""The table of ``warpwright compare``: a row for each launch and chip, with ratios and the figures that explain them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from warpwright.tools.chip_differences import Figures, Launch, size, times
from warpwright.tools.tables import format_seconds

if TYPE_CHECKING:
    from warpwright.run import Run

COLUMNS = ("load", "store", "L1 hit", "L2 hit", "DRAM", "warps")
"""Bytes of a warp's access, hit rates, traffic and share of the peak, warps of an SM at work."""


def explaining_cells(f: Figures) -> list[str]:
    """The cells of ``COLUMNS``."""
    l2 = "none" if f.l2_hit_percent is None else f"{f.l2_hit_percent:.0f}%"
    return [
        f"{f.load_bytes:.0f} B" if f.load_bytes else "-",
        f"{f.store_bytes:.0f} B" if f.store_bytes else "-",
        "none" if f.l2_hit_percent is None else f"{f.l1_hit_percent:.0f}%",
        l2,
        f"{size(f.dram_bytes)}, {f.dram_percent:.0f}%",
        f"{f.active_warps:.0f} of {f.chip.sm.max_warps_per_sm}",
    ]


def ratios(found: Mapping[str, Figures]) -> dict[str, tuple[str, str]]:
    """How many times as fast a chip is as the first one, and as the one before it."""
    first: Figures | None = None
    before: Figures | None = None
    told = {}
    for chip, f in found.items():
        told[chip] = tuple("" if o is None else times(o.seconds / f.seconds) for o in (first, before))
        first, before = first or f, f
    return {chip: (a, b) for chip, (a, b) in told.items()}


def chip_table(launches: Sequence[Launch], chips: Sequence[str], title: str) -> Table:
    """All launches on all chips; chips that ran a launch without timing have its instructions alone."""
    table = Table(title=title, title_justify="left", header_style="bold")
    timed = any(run.timed for launch in launches for run in launch.runs.values())
    table.add_column("kernel, grid, block" if len(launches) > 1 or not timed else "chip", overflow="fold")
    for heading in ("instructions", *(("cycles", "time", f"× {chips[0]}", "× before", *COLUMNS) if timed else ())):
        table.add_column(heading, justify="right")
    if timed:
        table.add_column("limited by", overflow="fold", min_width=16)
    for launch in launches:
        table.add_section()
        table.add_row(f"[bold]{launch.kernel}[/bold] {launch.grid} {launch.block}")
        found = launch.figures()
        compared = ratios(found)
        for chip in chips:
            run = launch.runs.get(chip)
            if run is None:
                table.add_row(f"  {chip}", "-")
            elif chip not in found:
                table.add_row(f"  {chip}", f"{run.instructions:,}")
            else:
                table.add_row(f"  {chip}", *_cells(run, found[chip], compared[chip]))
    return table


def _cells(run: Run, f: Figures, compared: tuple[str, str]) -> list[str]:
    by = " by a scoreboard" if f.note else ""
    cycles = f"{'≈ ' if run.sampling else ''}{f.cycles:,}{by}"
    return [f"{f.instructions:,}", cycles, format_seconds(f.seconds), *compared, *explaining_cells(f), f.reason]
