"""``warpwright compare``: runs a program on several chips and prints its launches side by side."""

from __future__ import annotations

import shlex
from collections.abc import Container
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpwright.commands.error_lines import Copy, copied_stderr
from warpwright.commands.launch_output import note_omitted
from warpwright.commands.options import TimingOption
from warpwright.commands.output import FAILED, MISUSED, console, fail
from warpwright.commands.program_execution import Refused, check_options, compile_ahead, launches_of

if TYPE_CHECKING:
    from rich.console import Console

    from warpwright.run import Run


def compare(
    context: typer.Context,
    chips: Annotated[list[str], typer.Argument(help="Chips, then -- and the program with its arguments.")],
    timing: TimingOption = None,
    report: Annotated[Path | None, typer.Option(help="Also write an HTML page that explains the differences.")] = None,
) -> None:
    """Run a program on several chips and compare its launches: compare v100 a100 -- FILE.py, or … -- ./PROGRAM"""
    from warpwright.programs import has_begun_driver
    from warpwright.session import session
    from warpwright.tools.chip_differences import match_launches
    from warpwright.tools.chip_table import fitting_table

    names, command = _split([*chips, *context.args])
    program, *arguments = command
    for name in names:
        check_options(context, name, timing, program, report)
    title = _title(program, arguments)
    compile_ahead(timing)
    session.notes_origins = report is not None
    out = console()
    by_chip: dict[str, list[Run]] = {}
    refused: dict[str, str] = {}
    said: dict[str, str] = {}  # error lines of the program, by the chip on which it failed
    failed = 0  # exit code of the program on the first chip where it failed
    had_driver = has_begun_driver()
    for name in dict.fromkeys(names):
        out.print(f"[bold]{name}[/bold]")
        try:
            # A process's driver keeps the chip with which the program on the one before began it.
            apart = has_begun_driver() and not had_driver
            with copied_stderr() if report is not None else nullcontext(Copy()) as written:
                by_chip[name], _, code = launches_of(program, arguments, name, timing, Refused, apart)
        except Refused as why:
            refused[name] = str(why)
            continue
        others = "" if code else _other_chips(by_chip[name], name)
        if code or others:
            failed = failed or code or FAILED
            refused[name] = others or f"{title} ended with exit code {code}"
            if code:
                said[name] = written.error()
            del by_chip[name]
    launches = match_launches(by_chip)
    if launches:
        table, without = fitting_table(launches, list(by_chip), title, out)
        out.print(table)
        note_omitted(without, out)
    elif not refused:
        out.print("the program launched no kernel")
    _print_refused(refused, said, out)
    if report is not None:
        from warpwright.tools.report.chips_page import write_chips_page

        reasons = {name: f"{refusal}\n{said.get(name, '')}".rstrip() for name, refusal in refused.items()}
        write_chips_page(report, launches, reasons, title)
        out.print(f"wrote {report}", markup=False, soft_wrap=True)
    elif launches and any(launch.figures() for launch in launches):
        out.print("why they differ: add --report PAGE.html")
    if failed or (not launches and refused):
        raise typer.Exit(failed or FAILED)


def _print_refused(refused: dict[str, str], failed: Container[str], out: Console) -> None:
    """Print why chips do not run the program; it has printed more on those on which it failed."""
    for name, refusal in refused.items():
        where = "; see its output above" if name in failed else ""
        out.print(f"{name} does not run it: {refusal}{where}", markup=False)


def _other_chips(runs: list[Run], asked: str) -> str:
    """Why the runs are refused if none was on a requested chip, for example because the program made a machine; otherwise empty."""
    from warpwright.chips import load_chip
    from warpwright.gpu_options import DEFAULT_CHIP
    from warpwright.session import chips_named

    chosen = {run.chip for run in runs}
    others = chosen - {load_chip(name or DEFAULT_CHIP).name for name in chips_named(asked)}
    if not others or others != chosen:
        return ""
    return f"the program chose other chips for its launches ({', '.join(sorted(others))})"


def _title(program: str, arguments: list[str]) -> str:
    """A Python file, or a command with its arguments: ``python model.py`` says more than the interpreter's path."""
    from warpwright.programs import is_python_file

    return program if is_python_file(program) else shlex.join([Path(program).name, *arguments])


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The chips, and the program with its arguments: after ``--``, or from the first Python file on."""
    from warpwright.programs import is_python_file

    if "--" in words:
        split = words.index("--")
        names, command = words[:split], words[split + 1 :]
    else:
        split = next((i for i, w in enumerate(words) if is_python_file(w)), len(words))
        names, command = words[:split], words[split:]
    if not names or not command:
        raise fail("give chips, then the program: warpwright compare v100 a100 -- FILE.py", MISUSED)
    return names, command
