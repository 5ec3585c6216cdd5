"""A study in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table as Printed
from rich.text import Text

from warpwright.studies.page import difference, figure
from warpwright.studies.study import Result, Study, differences, grid


def print_result(console: Console, asked: Study, found: Result) -> None:
    """Print each table with ours, the paper's and the difference of every cell; differences beyond their tolerance are red."""
    console.print(f"{asked.name}: {asked.summary} ({asked.source})", markup=False)
    for table in found.tables:
        rows, columns, cells = grid(table.cells)
        printed = Printed(
            title=", ".join(filter(None, (table.title, table.unit))), title_justify="left", header_style="bold"
        )
        printed.add_column("")
        for column in columns:
            for heading in (column, "paper", ""):
                printed.add_column(heading, justify="right")
        for row in rows:
            line: list[str | Text] = [row]
            for column in columns:
                cell = cells.get((row, column))
                if cell is None:
                    line += ["", "", ""]
                else:
                    line += [
                        figure(cell.ours),
                        f"{cell.paper:g}",
                        Text(difference(cell), style="" if cell.holds else "red"),
                    ]
            printed.add_row(*line)
        console.print(printed)
        if text := differences(table):
            console.print(text)
    for remark in found.remarks:
        console.print(remark, markup=False)
    missed = found.missed_count
    total = len(found.cells())
    console.print(f"{total - missed} of {total} cells are within their tolerance")
