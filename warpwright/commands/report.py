"""``warpwright report``: runs a program and writes a page about its launches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpwright.commands.launch_output import write_pages
from warpwright.commands.options import GpuOption
from warpwright.commands.output import MISUSED, console, fail
from warpwright.commands.program_execution import check_options, compile_ahead, guarded, repeated, silently
from warpwright.quantity_text import time_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from warpwright.run import Run
    from warpwright.tools.checks import Finding
    from warpwright.tools.report.comparison import Comparison, Row
    from warpwright.tools.report.relieved import Ranking
    from warpwright.tools.report.resources import Resource


def report(
    context: typer.Context,
    program: Annotated[str, typer.Argument(help="Python program that uses warpwright.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    gpu: GpuOption = None,
    what_if: Annotated[
        bool,
        typer.Option(
            help="Run the program again for each resource that may limit its longest launches, with it relieved: twice the width, or half the latency."
        ),
    ] = True,
    trace: Annotated[Path | None, typer.Option(help="Also write a trace of the blocks, for ui.perfetto.dev.")] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Launches of an earlier run (warpwright run --json FILE) to compare with these."
        ),
    ] = None,
    compare_gpu: Annotated[
        str | None,
        typer.Option("--compare-gpu", metavar="CHIP", help="Also run on this chip, and show both side by side."),
    ] = None,
) -> None:
    """Run a program and write a page that shows where the cycles of its launches went and what would help."""
    from warpwright.programs import is_python_file
    from warpwright.session import session

    check_options(context, gpu, None, program, output, trace)
    compile_ahead(None)
    rows = _baseline_rows(baseline, compare_gpu)
    if not is_python_file(program):
        raise fail(
            f"{program} is not a Python file (*.py); for other programs use: warpwright run --report PAGE.html COMMAND",
            MISUSED,
        )
    arguments = list(context.args)
    session.notes_origins = True
    runs = guarded(Path(program), arguments, gpu, "full")
    if not runs:
        raise fail("the program launched no kernel")
    comparison = None
    if baseline is not None or compare_gpu is not None:
        comparison = _compared(
            rows or silently(Path(program), arguments, compare_gpu, "full"), runs, baseline, compare_gpu
        )
    rankings = _again(Path(program), arguments, gpu, runs) if what_if else {}
    write_pages(output, runs, program, rankings, trace, comparison)


def _baseline_rows(baseline: Path | None, compare_gpu: str | None) -> list[Row]:
    """The launches of ``--baseline``, read before the program runs."""
    from warpwright.chips import ChipError
    from warpwright.errors import UnsupportedError
    from warpwright.session import known_chips
    from warpwright.tools.report.comparison import read_rows

    if baseline is not None and compare_gpu is not None:
        raise fail("--baseline and --compare-gpu both name what to compare with: give one of them", MISUSED)
    try:
        known_chips(compare_gpu)
        rows = [] if baseline is None else read_rows(baseline)
    except ChipError as error:
        raise fail(str(error), MISUSED) from None
    except UnsupportedError as error:
        raise fail(str(error)) from None
    if baseline is not None and not rows:
        raise fail(f"the baseline {baseline} has no launch to compare with")
    return rows


def _compared(
    other: Sequence[Row] | Sequence[Run], runs: list[Run], baseline: Path | None, chip: str | None
) -> Comparison:
    """Compare launches with those of a file or another chip, and print a summary."""
    from warpwright.errors import UnsupportedError
    from warpwright.tools.report.comparison import compared_with
    from warpwright.tools.report.quantities import change_of

    try:
        found = compared_with(other, runs, baseline.name if baseline is not None else "")
    except UnsupportedError as error:
        raise fail(f"{error}{f' on {chip}' if chip else ''}") from None
    total = found.total
    gone, new = found.unmatched
    without = f"; without a partner: {gone} and {new}" if gone or new else ""
    console().print(
        f"{found.name_before}: {time_text(total.before)}, {found.name_now}: {time_text(total.now)} "
        f"({change_of('seconds', total.before, total.now)}){without}",
        markup=False,
        soft_wrap=True,
    )
    return found


def _again(program: Path, arguments: list[str], gpu: str | None, runs: list[Run]) -> dict[int, Ranking]:
    """Repeat the program for each resource that may limit its longest launches, with it relieved; empty if there is none."""
    from warpwright.session import session
    from warpwright.tools.report.relieved import (
        RepeatFailedError,
        chip_count,
        notable_launches,
        rank,
        trials,
        wasteful,
    )

    wanted = trials(runs, notable_launches(runs))
    if not wanted:
        return {}
    note = console(stderr=True)

    def again(resource: Resource, overrides: Mapping[str, Any]) -> list[Run]:
        note.print(f"running again with {resource.change}", markup=False)
        session.overrides = overrides
        try:
            return repeated(program, arguments, gpu)
        except RepeatFailedError as error:
            note.print(f"the program fails with {resource.change}: {error}", markup=False, soft_wrap=True)
            raise
        finally:
            session.overrides = {}

    if tried := chip_count(wanted):
        names = ", ".join(runs[i].kernel for i in wanted)
        note.print(
            f"timing {names} with {tried} resources relieved in turn (--no-what-if omits this)",
            markup=False,
            soft_wrap=True,
        )
    findings: list[Finding] = []
    unchecked = ""
    try:
        findings = _accesses(program, arguments, gpu, runs)
    except RepeatFailedError as error:
        note.print(f"the program fails with perfcheck: {error}", markup=False, soft_wrap=True)
        unchecked = f"Accesses were not checked: the program fails with perfcheck ({error})."
    rankings = rank(runs, wanted, again, lambda run: wasteful(findings, run), unchecked)
    for ranking in rankings.values():
        console().print(f"{ranking.kernel}: {ranking.headline}", markup=False, soft_wrap=True)
    return rankings


def _accesses(program: Path, arguments: list[str], gpu: str | None, runs: list[Run]) -> list[Finding]:
    """What perfcheck finds in the kernels of the program; its launches are timed too, because the program may read their times.

    Raises:
        RepeatFailedError: the program fails with the check.
    """
    from warpwright.session import session
    from warpwright.tools.report.relieved import has_checks

    if not all(run.device is not None and has_checks(run.device) for run in runs):
        return []
    session.check = "perfcheck"
    try:
        repeated(program, arguments, gpu)
        return session.findings()
    finally:
        session.check = None
        session.checkers.clear()
