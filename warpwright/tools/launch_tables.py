"""Tables of launches of one program on one chip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from warpwright.run import Run

DRAM_BYTES = ("dram__bytes_read.sum", "dram__bytes_write.sum")
"""Nsight Compute's counters of DRAM traffic."""


def dims(shape: tuple[int, int, int]) -> str:
    """``256`` or ``64x64`` or ``8x8x2``: trailing ones are left out."""
    parts = list(shape)
    while len(parts) > 1 and parts[-1] == 1:
        parts.pop()
    return "x".join(f"{p:,}" if len(parts) == 1 else str(p) for p in parts)


def format_seconds(seconds: float) -> str:
    """Three figures with a fitting unit: ``12.3 µs``."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}" if seconds / scale < 1000 else f"{seconds / scale:,.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def format_count(count: float) -> str:
    """Three figures with a prefix: ``2.4 M``."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.3g}"


def format_rate(per_second: float) -> str:
    """Instructions in a second: ``2.4 M/s``."""
    count = format_count(per_second)
    return f"{count}/s" if count[-1].isalpha() else f"{count} /s"


def dram_gb_per_s(run: Run) -> float | None:
    """DRAM traffic of a timed run over its time, or None when it was not counted."""
    if not run.timed or not all(name in run.metrics for name in DRAM_BYTES) or run.seconds <= 0:
        return None
    return sum(run.metrics[name] for name in DRAM_BYTES) / run.seconds / 1e9


def short_reason(run: Run) -> str:
    """The bottleneck without its remarks: what is before the first semicolon or parenthesis."""
    return run.bottleneck.split(";")[0].split(" (")[0]


def grouped_table(runs: Sequence[Run], title: str) -> Table:
    """One row for the launches of a kernel with one grid and block, the longest in all first: for many launches."""
    table = Table(title=title, title_justify="left", header_style="bold")
    timed = any(r.timed for r in runs)
    table.add_column("kernel", overflow="fold")
    for heading in (
        "launches",
        "grid",
        "block",
        "regs",
        "occupancy",
        "instructions",
        *(("cycles", "time") if timed else ()),
    ):
        table.add_column(heading, justify="right")
    groups: dict[tuple[str, tuple[int, int, int], tuple[int, int, int]], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.kernel, run.grid, run.block), []).append(run)

    def weight(some: Sequence[Run]) -> float:
        return sum(r.seconds if r.timed else 0.0 for r in some) or 1e-12 * sum(r.instructions for r in some)

    for some in sorted(groups.values(), key=weight, reverse=True):
        first = some[0]
        cells = [first.kernel, f"{len(some):,}", dims(first.grid), dims(first.block), str(first.registers)]
        cells += [f"{first.occupancy:.0%}", f"{sum(r.instructions for r in some):,}"]
        if timed:
            known = [r for r in some if r.timed]
            estimated = "≈ " if any(r.sampling for r in known) else ""
            cells += [f"{estimated}{sum(r.cycles for r in known):,}", format_seconds(sum(r.seconds for r in known))]
        table.add_row(*cells)
    return table


def launch_table(runs: Sequence[Run], title: str) -> Table:
    """One row per launch, in order."""
    table = Table(title=title, title_justify="left", header_style="bold")
    timed = any(r.timed for r in runs)
    table.add_column("kernel", overflow="fold")
    for heading in ("grid", "block", "regs", "occupancy"):
        table.add_column(heading, justify="right")
    if timed:
        for heading in ("cycles", "time", "IPC", "DRAM GB/s"):
            table.add_column(heading, justify="right")
        table.add_column("bottleneck", overflow="fold", min_width=16)
    table.add_column("instructions", justify="right")
    table.add_column("simulated", justify="right")
    for run in runs:
        cells = [run.kernel, dims(run.grid), dims(run.block), str(run.registers), f"{run.occupancy:.0%}"]
        if timed and run.timed:
            rate = dram_gb_per_s(run)
            cells += [
                f"{'≈ ' if run.sampling else ''}{run.cycles:,}",
                format_seconds(run.seconds),
                f"{run.ipc:.2f}",
                "" if rate is None else f"{rate:,.0f}",
                short_reason(run),
            ]
        elif timed:
            cells += ["", "", "", "", ""]
        table.add_row(*cells, f"{run.instructions:,}", format_rate(run.simulation_speed))
    return table
