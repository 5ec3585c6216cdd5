"""``warpwright chips``: lists the chips, or shows one with the sources of its numbers."""

from __future__ import annotations

from typing import Annotated

import typer

from warpwright.commands.output import MISUSED, console, fail


def chips(
    name: Annotated[str | None, typer.Argument(help="Chip whose numbers are shown with their sources.")] = None,
) -> None:
    """List the chips, or show one."""
    from rich.table import Table

    from warpwright.chips import ChipError, chip_names, describe, kind_counts, load_chip
    from warpwright.chips.kinds import KINDS

    out = console()
    if name is None:
        table = Table(header_style="bold")
        for heading in ("chip", "product", "architecture", "compute capability"):
            table.add_column(heading)
        for heading in ("SMs", "MHz", "L2 MiB", "memory GiB", "GB/s"):
            table.add_column(heading, justify="right")
        for chip in map(load_chip, chip_names()):
            identity = chip.identity
            table.add_row(
                *(chip.name, identity.product, identity.architecture, identity.compute_capability),
                *(str(chip.sm.sm_count), f"{chip.clocks.sm_clock_mhz:,}", f"{chip.l2.l2_kib / 1024:g}"),
                *(f"{chip.dram.dram_kib / (1 << 20):g}", f"{chip.dram.dram_gb_per_s:,.0f}"),
            )
        out.print(table)
        return
    try:
        shown = load_chip(name)
    except ChipError as error:
        raise fail(str(error), MISUSED) from None
    table = Table(title=f"{shown.name}: {shown.identity.product}", title_justify="left", header_style="bold")
    for heading in ("section", "field"):
        table.add_column(heading)
    table.add_column("value", justify="right", overflow="fold")
    table.add_column("kind")
    table.add_column("source", overflow="fold")
    section = ""
    for row in describe(shown):
        table.add_row(row.section if row.section != section else "", row.field, row.value, row.kind, row.source)
        section = row.section
    out.print(table)
    counts = kind_counts(shown)
    counted = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    out.print(f"{sum(counts.values())} numbers: {counted}")
    for kind in counts:
        out.print(f"{kind}: {KINDS[kind]}", style="dim")
