"""The table of ``warpwright compare``: a row for each launch and chip, with ratios and the figures that explain them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.measure import measure_renderables
from rich.table import Table

from warpwright.quantity_text import figures, share_text, size_text, time_text
from warpwright.tools.chip_differences import Figures, Launch

if TYPE_CHECKING:
    from rich.console import Console

    from warpwright.run import Run

COLUMNS = ("load", "store", "L1 hit", "L2 hit", "DRAM", "warps")
"""Bytes of a warp's access, hit rates, traffic and share of the peak, warps of an SM at work."""

LEFT_OUT_FIRST = ("× before", "store", "load", "L1 hit", "L2 hit", "warps", "DRAM", "instructions")
"""Columns that a narrow terminal goes without, in this order."""

NAME_WIDTH = 24
"""Characters to which a kernel's name may be folded."""

LEAST_WORDS_WIDTH = 16
"""Of the column that has a sentence."""


def explaining_cells(f: Figures) -> list[str]:
    """The cells of ``COLUMNS``."""
    l2 = "none" if f.l2_hit_percent is None else share_text(f.l2_hit_percent / 100)
    return [
        f"{f.load_bytes:,.0f} B" if f.load_bytes else "-",
        f"{f.store_bytes:,.0f} B" if f.store_bytes else "-",
        "none" if f.l2_hit_percent is None else share_text(f.l1_hit_percent / 100),
        l2,
        f"{size_text(f.dram_bytes)}, {share_text(f.dram_percent / 100)}",
        f"{f.active_warps:.0f} of {f.chip.sm.max_warps_per_sm}",
    ]


def ratios(found: Mapping[str, Figures]) -> dict[str, tuple[str, str]]:
    """How many times as fast a chip is as the first one, and as the one before it."""
    first: Figures | None = None
    before: Figures | None = None
    told = {}
    for chip, f in found.items():
        told[chip] = tuple("" if o is None else figures(o.seconds / f.seconds) for o in (first, before))
        first, before = first or f, f
    return {chip: (a, b) for chip, (a, b) in told.items()}


def chip_table(launches: Sequence[Launch], chips: Sequence[str], title: str, without: Collection[str] = ()) -> Table:
    """All launches on all chips; chips that ran a launch without timing have its instructions alone."""
    table = Table(title=title, title_justify="left", header_style="bold")
    timed = any(run.timed for launch in launches for run in launch.runs.values())
    headings = _headings(chips, timed)
    shown = [n for n, heading in enumerate(headings) if heading not in without]
    table.add_column("kernel, grid, block", overflow="fold")
    for n in shown:
        # A number that is cut short would be another number.
        table.add_column(headings[n], justify="right", no_wrap=True)
    if timed:
        table.add_column("limited by", overflow="fold", min_width=LEAST_WORDS_WIDTH)
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
                table.add_row(f"  {chip}", *([f"{run.instructions:,}"] if "instructions" not in without else []))
            else:
                *cells, reason = _cells(run, found[chip], compared[chip])
                table.add_row(f"  {chip}", *(cells[n] for n in shown), reason)
    return table


def fitting_table(
    launches: Sequence[Launch], chips: Sequence[str], title: str, console: Console
) -> tuple[Table, list[str]]:
    """:func:`chip_table` with as many columns as the console has room for, and the headings of the columns left out."""
    without: list[str] = []
    table = chip_table(launches, chips, title)
    present = _headings(chips, timed=len(table.columns) > 2)
    left = [heading for heading in (*LEFT_OUT_FIRST, f"× {chips[0]}") if heading in present]
    while not _fit(table, console) and left:
        without.append(left.pop(0))
        table = chip_table(launches, chips, title, without)
    return table, without


def _headings(chips: Sequence[str], timed: bool) -> list[str]:
    """Of the columns of numbers."""
    return ["instructions", *(("cycles", "time", f"× {chips[0]}", "× before", *COLUMNS) if timed else ())]


def _fit(table: Table, console: Console) -> bool:
    """Whether there is room for whole numbers; sets the widths of the first and the last column, which may be folded."""
    widths = [
        measure_renderables(console, console.options, [column.header, *column.cells]).normalize()
        for column in table.columns
    ]
    if len(widths) < 3 or not str(table.columns[-1].header).startswith("limited"):
        return True  # instructions alone
    room = console.width - sum(w.maximum for w in widths[1:-1]) - 3 * len(widths) - 1
    chip_width = max(len(str(cell)) for cell in table.columns[0].cells if str(cell).startswith("  "))
    least_name = max(chip_width, min(widths[0].minimum, NAME_WIDTH))
    name = min(widths[0].maximum, max(least_name, room - 2 * LEAST_WORDS_WIDTH))
    table.columns[0].width = name
    table.columns[-1].width = max(LEAST_WORDS_WIDTH, min(widths[-1].maximum, room - name))
    return room >= least_name + LEAST_WORDS_WIDTH


def _cells(run: Run, f: Figures, compared: tuple[str, str]) -> list[str]:
    by = " by a scoreboard" if f.note else ""
    cycles = f"{'≈ ' if run.sampling else ''}{f.cycles:,}{by}"
    return [f"{f.instructions:,}", cycles, time_text(f.seconds), *compared, *explaining_cells(f), f.reason]
