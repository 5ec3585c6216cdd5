"""Runs programs for commands: errors become messages, and the program's launches are returned."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from warpwright.commands.output import FAILED, INTERRUPTED, MISUSED, check_output, console, fail

if TYPE_CHECKING:
    from warpwright.run import Run
    from warpwright.tools.checks import Finding


class Refused(Exception):
    """A chip lacks what a program needs; the message says where and what."""


def check_options(
    context: typer.Context, chip: str | None, timing: str | None, program: str, *outputs: Path | None
) -> None:
    """Reject invalid options before the program is started."""
    from warpwright.chips import ChipError
    from warpwright.driver import settings
    from warpwright.driver.visible_devices import share_percent
    from warpwright.programs import ProgramError, find_program
    from warpwright.session import known_chips

    if program.startswith("-"):
        raise fail(unknown_option(program, context), MISUSED)
    try:
        find_program(program)
    except ProgramError as error:
        raise fail(str(error), MISUSED) from None
    if timing not in (None, "full", "sampled", "off"):
        raise fail(f"--timing must be full, sampled or off, not {timing}", MISUSED)
    for output in outputs:
        if output is not None:
            check_output(output)
    try:
        known_chips(chip)
    except ChipError as error:
        raise fail(str(error), MISUSED) from None
    try:
        settings.refuse_invalid()
        share_percent()
    except ValueError as error:
        raise fail(str(error), MISUSED) from None


def compile_ahead(timing: str | None) -> None:
    """Begin to compile the cycle model if this machine has not done so; the program is prepared in the meantime."""
    if timing != "off":
        from warpwright.timing.compile_ahead import begin

        begin()


def unknown_option(word: str, context: typer.Context) -> str:
    """A message about an option that the present command does not have, with the nearest of its own."""
    from warpwright.chips.chip import suggest

    names = [name for parameter in context.command.params for name in parameter.opts if name.startswith("--")]
    return f"unknown option {word}{suggest(word.split('=')[0], names) or ';'} see {context.command_path} -h"


def guarded(
    program: Path,
    arguments: list[str],
    chip: str | None,
    timing: str | None,
    refusal: type[Refused] | None = None,
    finished: list[Run] | None = None,
) -> list[Run]:
    """:func:`programs.execute`, with errors printed as messages and no traceback after Ctrl-C.

    The program's own exceptions are shown as Python shows them, from the program's first frame on.  ``refusal`` is raised for what the chip does not
    have, where it is given.  ``finished`` takes the launches of a program that fails, too.
    """
    from warpwright import programs
    from warpwright.errors import UnsupportedError, WarpwrightError

    with _replacements_noted(chip), _stops_reported(program):
        try:
            return programs.execute(program, arguments, chip, timing, finished)
        except SystemExit:
            advise_on_order([str(program), *arguments], chip)
            raise
        except WarpwrightError as error:
            where = programs.line_of(error, program)
            if refusal is not None and isinstance(error, UnsupportedError):
                raise refusal(f"{where}{error}") from None
            raise fail(f"{where}{error}") from None
        except Exception as error:
            own = programs.own_frames(error, program)
            sys.excepthook(type(error), error.with_traceback(own), own)
            advise_on_order([str(program), *arguments], chip)
            raise typer.Exit(FAILED) from None


@contextlib.contextmanager
def _replacements_noted(chip: str | None) -> Iterator[None]:
    """After a program, print a note if it requested chips other than that of ``--gpu``, or machines."""
    from warpwright.session import session

    try:
        yield
    finally:
        if session.replaced:
            asked = ", ".join(sorted(session.replaced))
            console(stderr=True).print(
                f"note: the program requests {asked}; --gpu replaces it with {chip}", markup=False
            )
            session.replaced.clear()
        if session.machines:
            made = ", ".join(sorted(session.machines))
            console(stderr=True).print(
                f"note: the program makes the machine {made}, whose GPUs --gpu does not replace; --system replaces the machine",
                markup=False,
            )
            session.machines.clear()


@contextlib.contextmanager
def _stops_reported(program: Path) -> Iterator[None]:
    """End the command, without a traceback, if Ctrl-C, the time limit or the debugger's user ends the program."""
    from warpwright import programs
    from warpwright.errors import KilledError
    from warpwright.session import session

    try:
        yield
    except KilledError:
        raise typer.Exit from None
    except KeyboardInterrupt as stop:
        raise stopped(programs.outside_launch(stop, program, session.launched)) from None


def stopped(outside: str = "") -> typer.Exit:
    """Report that Ctrl-C or the time limit ended the program, and where its warps were.

    Args:
        outside: what the program was doing if no launch was stopped.
    """
    from warpwright.session import TIMED_OUT, session

    what = "the time limit has passed" if session.timed_out else "interrupted"
    at = session.stopped_at or outside
    where = f"; {at}" if at else ""
    return fail(f"{what}{where}", TIMED_OUT if session.timed_out else INTERRUPTED)


def advise_on_order(words: list[str], chip: str | None) -> None:
    """After a failure with launches and without checks, print how to find out whether the order of threads is the cause."""
    from warpwright.session import session

    checked = session.check is not None or bool(session.checkers)
    if not session.launched or checked or any(failed.hangs for failed in session.failed_launches):
        return  # a deadlock's message and findings have already given their own advice
    where = f"--system {session.system} " if session.system else f"--gpu {chip} " if chip else ""
    console(stderr=True).print(
        "note: the program failed. If threads race, its result depends on their order, which differs between timing modes, chips and runs; "
        f"this finds races: warpwright run {where}--check racecheck {shlex.join(words)}",
        markup=False,
        soft_wrap=True,
    )


def launches_of(
    program: str,
    arguments: list[str],
    chip: str | None,
    timing: str | None,
    refusal: type[Refused] | None = None,
    own_process: bool = False,
) -> tuple[list[Run], list[Finding], int]:
    """Run a Python file in this process, or another program in its own; return launches, findings of child processes and exit code.

    All three are returned also of a program that fails, after its error is printed.

    Args:
        own_process: a Python file gets a process of its own too.
    """
    from warpwright import programs
    from warpwright.session import session

    # Left by an earlier program if a process runs several, as tests do.
    session.failed_launches.clear()
    session.collectives.clear()
    session.checkers.clear()
    words = [program, *arguments]
    if own_process and programs.is_python_file(program):
        words = [sys.executable, *words]
    elif programs.is_python_file(program):
        runs: list[Run] = []
        code = 0
        with programs.child_results(chip, timing) as children:
            try:
                guarded(Path(program), arguments, chip, timing, refusal, runs)
            except typer.Exit as end:
                code = end.exit_code
            except SystemExit as end:
                code = _exit_code(end)
        return runs + children.runs, children.findings, code
    try:
        children, code = programs.execute_command(words, chip, timing)
    except programs.ProgramError as error:
        raise fail(str(error), MISUSED) from None
    return children.runs, children.findings, code


def silently(program: Path, arguments: list[str], gpu: str | None, timing: str) -> list[Run]:
    """Run a program once more; its first run has printed its results."""
    with contextlib.redirect_stdout(io.StringIO()):
        return guarded(program, arguments, gpu, timing)


def repeated(program: Path, arguments: list[str], gpu: str | None) -> list[Run]:
    """Run a program that has ended without an error once more, timed in full and without its output.

    Raises:
        RepeatFailedError: the program fails this time.
    """
    from warpwright import programs
    from warpwright.errors import WarpwrightError
    from warpwright.session import session
    from warpwright.tools.report.relieved import RepeatFailedError

    with _stops_reported(program), contextlib.redirect_stdout(io.StringIO()):
        try:
            return programs.execute(program, arguments, gpu, "full")
        except SystemExit as end:
            raise RepeatFailedError(f"sys.exit({end.code!r})") from None
        except Exception as error:
            kind = "" if isinstance(error, WarpwrightError) else type(error).__name__
            message = str(error).partition("\n")[0]
            what = ": ".join(part for part in (kind, message) if part)
            raise RepeatFailedError(f"{programs.line_of(error, program)}{what}") from None
        finally:
            session.replaced.clear()


def _exit_code(end: SystemExit) -> int:
    """The exit code of ``sys.exit(…)``; its text, if it has one, is printed as Python prints it."""
    if end.code is None or isinstance(end.code, int):
        return (end.code or 0) & 0xFF
    typer.echo(end.code, err=True)
    return FAILED


def ended_by_signal(code: int) -> str:
    """A message about a program that a signal ended, whose launches and findings may be missing; empty for another exit code."""
    import signal

    try:
        name = signal.Signals(code - 128).name if code > 128 else ""
    except ValueError:
        return ""
    if not name or code == INTERRUPTED:
        return ""
    why = (
        ": the system kills programs when memory is short; the checks take several times the memory of the arrays"
        if name == "SIGKILL"
        else ""
    )
    return f"{name} ended the program before its launches and findings were all reported{why}"
