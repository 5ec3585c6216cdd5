"""``warpwright study``: measures on the simulated machines what a paper measured."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from warpwright.commands.output import FAILED, INTERRUPTED, MISUSED, check_output, console, fail


def study(
    name: Annotated[str | None, typer.Argument(help="Study to run; without one, all are listed.")] = None,
    report: Annotated[Path | None, typer.Option(help="Also write the tables and heat maps as an HTML page.")] = None,
) -> None:
    """Repeat a paper's measurement on the simulated machines, and print both; the exit code is 1 if a cell is beyond its tolerance."""
    from rich.table import Table

    from warpwright.errors import UnsupportedError
    from warpwright.studies.catalogue import STUDIES
    from warpwright.studies.study_tables import print_result

    out = console()
    if name is None:
        table = Table(header_style="bold")
        for heading in ("study", "measures", "paper"):
            table.add_column(heading, overflow="fold")
        for known in _in_order(STUDIES):
            table.add_row(known, STUDIES[known].summary, STUDIES[known].source)
        out.print(table)
        return
    if name not in STUDIES:
        raise fail(_no_study(name, STUDIES), MISUSED)
    if report is not None:
        check_output(report)
    from warpwright.studies.page import study_page

    try:
        with console(stderr=True).status("", spinner="dots") as status:
            found = STUDIES[name].run(
                lambda what: status.update(what) if out.is_terminal else typer.echo(what, err=True)
            )
    except UnsupportedError as error:
        raise fail(f"{name}: {error}") from None
    except KeyboardInterrupt:
        raise fail("interrupted", INTERRUPTED) from None
    print_result(out, STUDIES[name], found)
    if report is not None:
        report.write_text(study_page(STUDIES[name], found), encoding="utf-8")
        out.print(f"wrote {report}", markup=False, soft_wrap=True)
    if found.missed_count:
        raise typer.Exit(FAILED)


def _in_order(names: Iterable[str]) -> list[str]:
    """Names in alphabetical order, with the numbers in them in numerical order."""
    return sorted(names, key=lambda one: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", one)])


def _no_study(name: str, names: Iterable[str]) -> str:
    """The message for an unknown name: the studies whose names begin with it, or all of them, with numbers in order."""
    from warpwright.chips.chip import suggest

    ordered = _in_order(names)
    begun = [one for one in ordered if one.startswith(name)]
    if begun:
        return f"there is no study {name}; studies whose names begin with it: {', '.join(begun)}"
    return f"there is no study {name}{suggest(name, ordered) or ';'} studies: {', '.join(ordered)}"
