"""The command line: runs a program on a chip, compares chips, lists chips.

Modules that are slow to import are imported by the command that needs them.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from warpwright.commands.campaign import campaign
from warpwright.commands.mig import mig
from warpwright.commands.options import (
    CheckOption,
    CheckpointOption,
    ClockOption,
    CsvOption,
    EveryOption,
    GpuOption,
    InjectOption,
    JsonOption,
    LevelOption,
    ParquetOption,
    RecordOption,
    ReportOption,
    SystemOption,
    TimeoutOption,
    TimingOption,
)
from warpwright.commands.resume import resume

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

    from warpwright.graphics.recording import Replay
    from warpwright.run import Run
    from warpwright.tools.checks import Finding
    from warpwright.tools.report.comparison import Comparison, Row
    from warpwright.tools.report.frame_page import FramePictures
    from warpwright.tools.report.relieved import Ranking
    from warpwright.tools.report.resources import Resource

INTERRUPTED = 130
"""Exit code after Ctrl-C, as in a shell: 128 + SIGINT."""
FAILED = 1
MISUSED = 2
"""Exit code for an invalid command line, as for unknown options."""
MOST_ROWS = 40
"""Rows of the table of launches; a larger number of launches is grouped by kernel."""

app = typer.Typer(
    name="warpwright",
    help="A GPU that anyone can run anywhere: CUDA kernels executed and timed, cycle by cycle, on a chosen chip.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


_found: list[Finding] = []
"""Findings of the checks in child processes."""


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, emoji=False)
    # A table in a file or a pipe is not limited to the width of a terminal.
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(stderr=stderr, highlight=False, emoji=False, width=140)
    return console


def _fail(message: str, code: int = FAILED) -> typer.Exit:
    _console(stderr=True).print(message, style="red", markup=False, soft_wrap=True)
    return typer.Exit(code)


class Refused(Exception):
    """A chip cannot do what a program asks of it; says where and why."""


def _guarded(
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
    from warpwright.errors import KilledError, UnsupportedError, WarpwrightError
    from warpwright.session import session

    try:
        return programs.execute(program, arguments, chip, timing, finished)
    except KilledError:
        raise typer.Exit from None
    except KeyboardInterrupt:
        raise _stopped() from None
    except SystemExit:
        _name_order([str(program), *arguments], chip)
        raise
    except WarpwrightError as error:
        where = programs.line_of(error, program)
        if refusal is not None and isinstance(error, UnsupportedError):
            raise refusal(f"{where}{error}") from None
        raise _fail(f"{where}{error}") from None
    except Exception as error:
        own = programs.own_frames(error, program)
        sys.excepthook(type(error), error.with_traceback(own), own)
        _name_order([str(program), *arguments], chip)
        raise typer.Exit(FAILED) from None
    finally:
        if session.replaced:
            asked = ", ".join(sorted(session.replaced))
            _console(stderr=True).print(
                f"note: the program requests {asked}; --gpu replaces it with {chip}", markup=False
            )
            session.replaced.clear()


def _stopped() -> typer.Exit:
    """Report that Ctrl-C or the time limit ended the program, and where its warps were."""
    from warpwright.session import TIMED_OUT, session

    what = "the time limit has passed" if session.timed_out else "interrupted"
    where = f"; {session.stopped_at}" if session.stopped_at else ""
    return _fail(f"{what}{where}", TIMED_OUT if session.timed_out else INTERRUPTED)


class _ProgramCommand(TyperCommand):
    """Options after a Python file may be Warpwright's; everything after another program belongs to that program."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = [p for p in self.params if p.param_type_name == "option"]
        takes_value = {name for p in options if not getattr(p, "is_flag", False) for name in p.opts}
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] != "--":
            at += 2 if args[at] in takes_value else 1
        if at < len(args) and args[at] != "--" and not args[at].endswith(".py"):
            args = [*args[:at], "--", *args[at:]]
        return super().parse_args(ctx, args)


@app.command(context_settings=_PASS_ON, cls=_ProgramCommand)
def run(
    context: typer.Context,
    program: Annotated[
        str, typer.Argument(help="Python file, or any command: python -m …, pytest …, ./program built with nvcc.")
    ],
    gpu: GpuOption = None,
    system: SystemOption = None,
    timing: TimingOption = None,
    check: CheckOption = None,
    check_level: LevelOption = None,
    report: ReportOption = None,
    host_clock: ClockOption = "host",
    record: RecordOption = None,
    checkpoint: CheckpointOption = None,
    checkpoint_every: EveryOption = None,
    inject: InjectOption = None,
    timeout: TimeoutOption = None,
    json: JsonOption = None,
    csv: CsvOption = None,
    parquet: ParquetOption = None,
) -> None:
    """Run a program on the simulated GPU and print its launches. Arguments after the program are passed to it.

    With --check, the findings are printed, and the exit code is 1 if there is an error among them. Launches are then timed only with
    --timing full or --report: each runs twice, first checked, then timed.
    """
    from warpwright.programs import is_python_file
    from warpwright.session import session

    data = _outputs(json, csv, parquet)
    gpu = _gpus_of(system, gpu)
    _check_options(gpu, timing, program, report, *data)
    if record is not None:
        _start_recording(record, gpu, timing)
    if check is not None:
        _start_checks(check, check_level)
        timing = timing or ("full" if report is not None else None)
    elif check_level is not None:
        raise _fail("--check-level has no effect without --check: add --check", MISUSED)
    with (
        _time_limit(timeout),
        _host_clock(host_clock, timing),
        _errors_injected(inject, check),
        _checkpoints(program, timing, checkpoint, checkpoint_every),
    ):
        try:
            runs, findings, code = _launches_of(program, list(context.args), gpu, timing)
        finally:
            session.record = None
    _found.extend(findings)
    own = is_python_file(program)
    killed = "" if own else _ended_by_signal(code)
    if runs or not (killed or (own and code)):
        _show_launches(runs)
    _export(data, runs)
    _write_page(report, runs, program)
    if killed:
        _fail(killed)
    if code := _conclude([program, *context.args], gpu, code, bool(runs), check is not None):
        raise typer.Exit(code)


def _conclude(command: list[str], gpu: str | None, code: int, launched: bool, checked: bool) -> int:
    """Show the findings, or why a program may have failed; the exit code, which is a failed program's own."""
    from warpwright.programs import is_python_file
    from warpwright.session import session

    own = is_python_file(command[0])
    killed = not own and bool(_ended_by_signal(code))
    unchecked = killed or (own and code and not session.checkers)
    if checked and (_found or not unchecked):
        found = _show_findings()
        return code or found
    if code and not killed and not own:
        session.launched = launched
        _name_order(command, gpu)
    return code


def _write_page(path: Path | None, runs: list[Run], program: str) -> None:
    """Write the page of ``run --report``, where it is asked for and there is a launch to show."""
    if path is None:
        return
    if runs:
        _write(path, runs, program)
    else:
        _fail(f"{path} was not written: no launch of the program ended")


def _start_recording(path: Path, gpu: str | None, timing: str | None) -> None:
    """Have the program's graphics device write what it is given to a file."""
    from warpwright.driver.drm.attach import has_graphics
    from warpwright.session import chips_named, session

    if not has_graphics(chips_named(gpu)[0]):
        raise _fail("--record needs a chip with graphics: --gpu g80, g80-ultra or fx5600", MISUSED)
    if timing == "full":
        raise _fail(
            "--record leaves simulated times out: record with --timing off, then warpwright replay --timing full",
            MISUSED,
        )
    if not path.absolute().parent.is_dir():
        raise _fail(f"--record {path}: there is no folder {path.absolute().parent}", MISUSED)
    session.record = str(path.absolute())


def _pictures_of(replay: Replay) -> list[FramePictures]:
    """Where the pictures of a replay's device will be, once it has one."""
    from warpwright.tools.report.frame_page import FramePictures

    found: list[FramePictures] = []
    replay.on_device = lambda device: found.append(FramePictures(device))
    return found


@app.command()
def replay(
    recording: Annotated[Path, typer.Argument(help="File that warpwright run --record has written.")],
    image: Annotated[Path | None, typer.Option(metavar="PNG", help="Write what was drawn last as an image.")] = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="CHIP", help="The chip whose cycles --timing full gives; g80 by default.")
    ] = None,
    timing: TimingOption = None,
    report: Annotated[
        Path | None, typer.Option(metavar="HTML", help="Also write a page of the frame, draw by draw, with cycles.")
    ] = None,
) -> None:
    """Execute a recorded command stream again, without the program and its driver; --timing full gives its cycles."""
    from warpwright.chips import load_chip
    from warpwright.errors import WarpwrightError
    from warpwright.graphics.recording import Replay, last_image, png
    from warpwright.graphics.timed.frame import described, frame_of

    if image is not None and not image.absolute().parent.is_dir():
        raise _fail(f"--image {image}: there is no folder {image.absolute().parent}", MISUSED)
    try:
        chip = load_chip(gpu or "g80")
        if gpu and timing != "full" and not report:
            raise _fail(
                f"--gpu {gpu} says whose cycles --timing full (or --report) gives: add one of them, or leave --gpu away",
                MISUSED,
            )
        done = Replay(recording, chip if timing == "full" or report else None)
        pictures = _pictures_of(done) if report else None
        done.run()
    except WarpwrightError as error:
        raise _fail(str(error)) from None
    device = done.device
    if device is None:
        raise _fail(f"{recording} is empty")
    same = {
        None: "its end was not recorded",
        True: "memory ends as recorded",
        False: "memory ends otherwise than recorded",
    }
    draws = device.three_d.draws
    _console().print(
        f"{done.submissions} submissions with {draws} {'draw' if draws == 1 else 'draws'}; {same[done.is_same]}",
        markup=False,
    )
    if device.timer is not None:
        for line in described(frame_of(device.timer)):
            _console().print(line, markup=False, soft_wrap=True)
    if report is not None and pictures is not None:
        from warpwright.tools.report.frame_page import write_frame_page

        write_frame_page(report, device, pictures[0].finish(), recording.name)
        _console().print(f"wrote {report}", markup=False, soft_wrap=True)
    if image is not None:
        pixels = last_image(device)
        if pixels is None:
            raise _fail("nothing was drawn: there is no image to write")
        image.write_bytes(png(pixels))
    if done.is_same is False:
        raise typer.Exit(FAILED)


def _ended_by_signal(code: int) -> str:
    """What to say of a program that a signal ended, whose launches and findings may be missing; empty for another exit code."""
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


def _gpus_of(system: str | None, gpu: str | None) -> str | None:
    """The text of ``--gpu`` for the machine of ``--system``, which becomes the session's."""
    from warpwright.errors import WarpwrightError
    from warpwright.session import session
    from warpwright.system import load_machine

    session.system = None
    if system is None:
        return gpu
    if gpu is not None:
        raise _fail("--system names the GPUs: leave --gpu away", MISUSED)
    try:
        machine = load_machine(system)
    except WarpwrightError as error:
        raise _fail(str(error)) from None
    session.system = system
    return ",".join(machine.gpus)


def _name_order(words: list[str], chip: str | None) -> None:
    """After a failure with launches and without checks: how to find out whether the order of threads is its cause."""
    from warpwright.session import session

    if not session.launched or session.check is not None:
        return
    where = f"--gpu {chip} " if chip else ""
    _console(stderr=True).print(
        "note: the program failed. If threads race, its result depends on their order, which differs between timing modes, chips and runs; "
        f"this finds races: warpwright run {where}--check racecheck {shlex.join(words)}",
        markup=False,
        soft_wrap=True,
    )


@contextlib.contextmanager
def _host_clock(name: str, timing: str | None) -> Iterator[None]:
    """The program reads the simulated clock, if it is asked for, within the block."""
    from warpwright.session import session

    if name not in ("host", "simulated"):
        raise _fail(f"--host-clock {name} is not known: host or simulated", MISUSED)
    if name == "simulated" and timing == "off":
        raise _fail("--host-clock simulated needs times: leave --timing off away", MISUSED)
    if name == "simulated" and sys.platform != "linux":
        raise _fail("--host-clock simulated needs Linux", MISUSED)
    session.simulates_host_clock = name == "simulated"
    try:
        yield
    finally:
        session.simulates_host_clock = False


@contextlib.contextmanager
def _checkpoints(program: str, timing: str | None, path: Path | None, every: int | None) -> Iterator[None]:
    """Launches of the program are saved in the middle within the block."""
    if path is None:
        if every is not None:
            raise _fail("--checkpoint-every has no effect without --checkpoint: add --checkpoint FILE", MISUSED)
        yield
        return
    from warpwright.checkpoint import Checkpoints
    from warpwright.programs import is_python_file
    from warpwright.session import session

    if not is_python_file(program):
        raise _fail("--checkpoint saves launches of Python programs that use warpwright.GPU: give a FILE.py", MISUSED)
    if timing == "off":
        raise _fail("--checkpoint saves launches that are timed in full: leave out --timing off", MISUSED)
    if not path.absolute().parent.is_dir():
        raise _fail(f"--checkpoint {path}: there is no folder {path.absolute().parent}", MISUSED)
    session.checkpoints = Checkpoints(path.absolute(), every_cycles=every or 1_000_000)
    try:
        yield
    finally:
        session.checkpoints = None


@contextlib.contextmanager
def _errors_injected(text: str | None, check: str | None) -> Iterator[None]:
    """Every GPU of the program meets the errors of ``--inject`` within the block; what its counters say is printed at the end."""
    if text is None:
        yield
        return
    from warpwright.faults import InjectionError, parse_injections
    from warpwright.session import session

    if check is not None:
        raise _fail("--inject and --check exclude each other: leave one of them away", MISUSED)
    try:
        parse_injections(text)
    except InjectionError as error:
        raise _fail(str(error), MISUSED) from None
    session.inject = text
    try:
        yield
    finally:
        session.inject = None
        for device in session.devices_with_errors:
            for line in device.log.summary():
                _console(stderr=True).print(f"{device.chip.name}: {line}", markup=False, soft_wrap=True)
        session.devices_with_errors.clear()


@contextlib.contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    from warpwright.session import session

    try:
        with session.time_limit(seconds):
            yield
    except KeyboardInterrupt:
        raise _stopped() from None


def _outputs(*paths: Path | None) -> dict[Path, str]:
    """Return the files for results as data, after checking their formats."""
    from warpwright.tools.export import ExportError, check_format

    kinds = ("json", "csv", "parquet")
    given = [(kind, path) for kind, path in zip(kinds, paths, strict=True) if path is not None]
    for kind, _ in given:
        try:
            check_format(kind)
        except ExportError as error:
            raise _fail(str(error), MISUSED) from None
    return {path: kind for kind, path in given}


def _export(outputs: Mapping[Path, str], runs: list[Run]) -> None:
    """Write one row per launch into each file."""
    from warpwright.tools.export import write_launches

    for path, kind in outputs.items():
        try:
            write_launches(path, kind, runs)
        except OSError as error:
            raise _fail(f"cannot write {path}: {error.strerror or error}") from None
        _console(stderr=True).print(f"wrote {path}", markup=False, soft_wrap=True)


def _launches_of(
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

    words = [program, *arguments]
    if own_process and programs.is_python_file(program):
        words = [sys.executable, *words]
    elif programs.is_python_file(program):
        runs: list[Run] = []
        code = 0
        with programs.child_results(chip, timing) as children:
            try:
                _guarded(Path(program), arguments, chip, timing, refusal, runs)
            except typer.Exit as end:
                code = end.exit_code
            except SystemExit as end:
                code = _exit_code(end)
        return runs + children.runs, children.findings, code
    try:
        children, code = programs.execute_command(words, chip, timing)
    except programs.ProgramError as error:
        raise _fail(str(error), MISUSED) from None
    return children.runs, children.findings, code


def _exit_code(end: SystemExit) -> int:
    """The exit code of ``sys.exit(…)``; its text, if it has one, is printed as Python prints it."""
    if end.code is None or isinstance(end.code, int):
        return (end.code or 0) & 0xFF
    typer.echo(end.code, err=True)
    return FAILED


def _start_checks(check: str, level: str | None) -> None:
    """Have every GPU of this process and its children run the checks."""
    from warpwright.errors import UnsupportedError
    from warpwright.session import session
    from warpwright.tools.checks import parse, parse_level

    try:
        parse(check)
        if level is not None:
            parse_level(level)
    except UnsupportedError as refused:
        raise _fail(str(refused), MISUSED) from None
    session.check, session.check_level = check, level


def _show_findings() -> int:
    """Print the findings of the checks; return 1 if there is an error among them."""
    from warpwright.session import session
    from warpwright.tools.checks import MAY_DIFFER, arranged, depends_on_order, summary

    if sys.platform == "linux":
        from warpwright.driver import recording

        recording.report_leaks()
    found = arranged([*session.findings(), *_found])
    console = _console()
    for finding in found:
        console.print(str(finding), markup=False, soft_wrap=True)
    if depends_on_order(found):
        console.print(MAY_DIFFER, markup=False, soft_wrap=True)
    console.print(summary(found), markup=False, soft_wrap=True)
    session.check = session.check_level = None
    session.checkers.clear()
    _found.clear()
    return FAILED if any(f.severity == "error" for f in found) else 0


def _check_options(chip: str | None, timing: str | None, program: str, *outputs: Path | None) -> None:
    """Reject invalid options before the program is started."""
    from warpwright.chips import ChipError
    from warpwright.programs import ProgramError, find_program
    from warpwright.session import known_chips

    if program.startswith("-"):
        raise _fail(f"unknown option {program}: see warpwright run --help", MISUSED)
    try:
        find_program(program)
    except ProgramError as error:
        raise _fail(str(error), MISUSED) from None
    if timing not in (None, "full", "sampled", "off"):
        raise _fail(f"--timing must be full, sampled or off, not {timing}", MISUSED)
    for output in outputs:
        if output is not None:
            _check_output(output)
    try:
        known_chips(chip)
    except ChipError as error:
        raise _fail(str(error)) from None


def _check_output(path: Path) -> None:
    """Reject a file that cannot be written, before the work for it is done."""
    if path.is_dir():
        raise _fail(f"cannot write {path}: it is a folder", MISUSED)
    if not path.parent.is_dir():
        raise _fail(f"cannot write {path}: there is no folder {path.parent}", MISUSED)


@app.command(context_settings=_PASS_ON, cls=_ProgramCommand)
def debug(
    context: typer.Context,
    program: Annotated[str, typer.Argument(help="Python file, or any command.")],
    gpu: GpuOption = None,
    commands: Annotated[
        list[str] | None, typer.Option("--ex", metavar="COMMAND", help="Command to carry out first.")
    ] = None,
    batch: Annotated[bool, typer.Option("--batch", help="Run on without a stop after the last --ex command.")] = False,
    port: Annotated[
        int | None,
        typer.Option(
            "--dap", metavar="PORT", min=1, max=65535, help="Wait for an editor at this port (Debug Adapter Protocol)."
        ),
    ] = None,
) -> None:
    """Debug the kernels of a program: breakpoints, steps forwards and backwards, registers, memory. Arguments after the program are passed to it.

    The first launch stops before its first instruction; there, help lists the commands. Kernels run in the interpreter, without timing.
    """
    from warpwright.programs import execute_command, is_python_file
    from warpwright.tools.debugger import child, console, dap, debugger

    _check_options(gpu, None, program)
    words = [program, *context.args]
    if not is_python_file(program):
        os.environ[child.VARIABLE] = child.setting(commands or [], batch, port)
        try:
            _, code = execute_command(words, gpu, "off")
        finally:
            del os.environ[child.VARIABLE]
        if code:
            raise typer.Exit(code)
        return
    if port is not None:
        server = dap.Server()
        _console(stderr=True).print(f"waiting for an editor at 127.0.0.1:{port} (Debug Adapter Protocol)")
        server.listen(port)
        try:
            with debugger.debugging(server.debugger):
                _guarded(Path(program), words[1:], gpu, "off")
        except typer.Exit as end:
            server.finished(end.exit_code)
            raise
        server.finished()
        return
    front_end = console.Console(commands or [], batch)
    try:
        with debugger.debugging(front_end.debugger):
            runs = _guarded(Path(program), words[1:], gpu, "off")
    except typer.Exit:
        if front_end.killed:
            return
        raise
    if not runs:
        raise _fail("the program launched no kernel")


@app.command(name="report", context_settings=_PASS_ON)
def report_command(
    context: typer.Context,
    program: Annotated[str, typer.Argument(help="Python program that uses warpwright.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    gpu: GpuOption = None,
    what_if: Annotated[
        bool,
        typer.Option(
            help="Run the program again with each resource relieved that may limit its longest launch: twice the width, or half the latency."
        ),
    ] = True,
    trace: Annotated[Path | None, typer.Option(help="Also write a trace of the blocks, for ui.perfetto.dev.")] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Launches of an earlier run (warpwright run --json FILE) to show beside these."
        ),
    ] = None,
    compare_gpu: Annotated[
        str | None,
        typer.Option("--compare-gpu", metavar="CHIP", help="Run on this chip, too, and show both beside each other."),
    ] = None,
) -> None:
    """Run a program and write a page that shows where the cycles of its launches went and what would help."""
    from warpwright.programs import is_python_file

    _check_options(gpu, None, program, output, trace)
    rows = _baseline_rows(baseline, compare_gpu)
    if not is_python_file(program):
        raise _fail(
            f"{program} is not a Python file (*.py); for other programs use: warpwright run --report PAGE.html COMMAND",
            MISUSED,
        )
    arguments = list(context.args)
    runs = _guarded(Path(program), arguments, gpu, "full")
    if not runs:
        raise _fail("the program launched no kernel")
    comparison = None
    if baseline is not None or compare_gpu is not None:
        comparison = _compared(
            rows or _silently(Path(program), arguments, compare_gpu, "full"), runs, baseline, compare_gpu
        )
    rankings = _again(Path(program), arguments, gpu, runs) if what_if else {}
    _write(output, runs, program, rankings, trace, comparison)


def _baseline_rows(baseline: Path | None, compare_gpu: str | None) -> list[Row]:
    """The launches of ``--baseline``, read before the program runs."""
    from warpwright.chips import ChipError
    from warpwright.errors import UnsupportedError
    from warpwright.session import known_chips
    from warpwright.tools.report.comparison import read_rows

    if baseline is not None and compare_gpu is not None:
        raise _fail("--baseline and --compare-gpu both name the other side: give one of them", MISUSED)
    try:
        known_chips(compare_gpu)
        rows = [] if baseline is None else read_rows(baseline)
    except (ChipError, UnsupportedError) as error:
        raise _fail(str(error)) from None
    if baseline is not None and not rows:
        raise _fail(f"the baseline {baseline} has no launch to compare with")
    return rows


def _compared(
    other: Sequence[Row] | Sequence[Run], runs: list[Run], baseline: Path | None, chip: str | None
) -> Comparison:
    """Launches beside those of a file or another chip, summed up on the terminal."""
    from warpwright.errors import UnsupportedError
    from warpwright.tools.report.comparison import compared_with
    from warpwright.tools.report.quantities import change_of
    from warpwright.tools.tables import format_seconds

    try:
        found = compared_with(other, runs, baseline.name if baseline is not None else "")
    except UnsupportedError as error:
        raise _fail(f"{error}{f' on {chip}' if chip else ''}") from None
    total = found.total
    gone, new = found.unmatched
    without = f"; without a partner: {gone} and {new}" if gone or new else ""
    _console().print(
        f"{found.name_before}: {format_seconds(total.before)}, {found.name_now}: {format_seconds(total.now)} "
        f"({change_of('seconds', total.before, total.now)}){without}",
        markup=False,
        soft_wrap=True,
    )
    return found


def _again(program: Path, arguments: list[str], gpu: str | None, runs: list[Run]) -> dict[int, Ranking]:
    """Repeat the program with each resource relieved that may limit its longest launch; empty, with a note, if that is not possible."""
    from warpwright.errors import LaunchError
    from warpwright.session import session
    from warpwright.tools.report.relieved import candidates, rank

    longest = max((i for i in range(len(runs)) if not runs[i].shared), key=lambda i: runs[i].seconds, default=None)
    if longest is None or runs[longest].device is None:
        return {}
    note = _console(stderr=True)
    tried = len(candidates(runs[longest]))

    def again(resource: Resource, overrides: Mapping[str, Any]) -> list[Run]:
        note.print(f"running again with {resource.change}", markup=False)
        session.overrides = overrides
        try:
            return _silently(program, arguments, gpu, "full")
        finally:
            session.overrides = {}

    if tried:
        note.print(
            f"timing {runs[longest].kernel} with {tried} resources relieved in turn (--no-what-if omits this)",
            markup=False,
        )
    try:
        ranking = rank(runs, longest, again, _accesses(program, arguments, gpu, runs[longest]))
    except LaunchError as error:
        note.print(f"no what-if: {error}", markup=False, soft_wrap=True)
        return {}
    _console().print(f"{runs[longest].kernel}: {ranking.headline}", markup=False, soft_wrap=True)
    return {longest: ranking}


def _silently(program: Path, arguments: list[str], gpu: str | None, timing: str) -> list[Run]:
    """Run a program once more; its first run has printed its results."""
    import io

    with contextlib.redirect_stdout(io.StringIO()):
        return _guarded(program, arguments, gpu, timing)


def _accesses(program: Path, arguments: list[str], gpu: str | None, run: Run) -> list[str]:
    """What perfcheck finds in a kernel of the program."""
    from warpwright.session import session
    from warpwright.tools.report.relieved import has_checks, wasteful

    if run.device is None or not has_checks(run.device):
        return []
    session.check = "perfcheck"
    try:
        _silently(program, arguments, gpu, "off")
        return wasteful(session.findings(), run)
    finally:
        session.check = None
        session.checkers.clear()


def _write(
    path: Path,
    runs: list[Run],
    title: str,
    rankings: Mapping[int, Ranking] | None = None,
    trace: Path | None = None,
    comparison: Comparison | None = None,
) -> None:
    from warpwright.errors import WarpwrightError
    from warpwright.tools.report import write_report, write_trace

    try:
        written = [write_report(path, runs, title=title, rankings=rankings, comparison=comparison)]
        if trace is not None:
            written.append(write_trace(trace, runs))
    except (OSError, WarpwrightError) as error:
        raise _fail(str(error)) from None
    for one in written:
        _console().print(f"wrote {one}", markup=False, soft_wrap=True)


def _graphics_used() -> str:
    """What to say of a program of this process that used the graphics device; empty for another."""
    objects = sys.modules.get("warpwright.driver.drm.objects")
    device = objects.used_device() if objects is not None else None
    if device is None:
        return ""
    draws = device.three_d.draws
    said = f"{device.submissions} submissions with {draws} {'draw' if draws == 1 else 'draws'}"
    if device.timer is None:
        return f"{said}, without cycles: --timing full gives them (docs/model/graphics.md)"
    from warpwright.graphics.timed.frame import described, frame_of

    return "\n".join([said, *described(frame_of(device.timer))])


def _show_launches(runs: list[Run]) -> None:
    from warpwright.tools.report.evidence import evidence_of
    from warpwright.tools.tables import grouped_table, launch_table

    console = _console()
    if not runs:
        console.print(_graphics_used() or "the program launched no kernel", markup=False, soft_wrap=True)
        return
    by_chip: dict[str, list[Run]] = {}
    for r in runs:
        by_chip.setdefault(r.chip, []).append(r)
    for chip, some in by_chip.items():
        console.print(launch_table(some, chip) if len(some) <= MOST_ROWS else grouped_table(some, chip))
        timed = [r for r in some if r.timed and not r.shared and r.program is not None and r.device is not None]
        if timed:
            longest = max(timed, key=lambda r: r.seconds)
            console.print(f"{longest.kernel}: {evidence_of(longest).sentence}")
    if repeated := sum(r.repeated for r in runs):
        console.print(f"{repeated:,} of {len(runs):,} launches repeat an earlier one and reuse its time")


class _CompareCommand(TyperCommand):
    """Keeps the ``--`` between the chips and the program, whose options belong to it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            args = [*args[:at], "--", "--", *args[at + 1 :]]
        return super().parse_args(ctx, args)


@app.command(context_settings=_PASS_ON, cls=_CompareCommand)
def compare(
    context: typer.Context,
    chips: Annotated[list[str], typer.Argument(help="Chips, then -- and the program with its arguments.")],
    timing: TimingOption = None,
    report: Annotated[Path | None, typer.Option(help="Also write an HTML page that explains the differences.")] = None,
) -> None:
    """Run a program on several chips and print its launches below each other: compare v100 a100 -- FILE.py, or … -- ./PROGRAM"""
    from warpwright.programs import has_begun_driver, is_python_file
    from warpwright.tools.chip_differences import match_launches
    from warpwright.tools.chip_table import fitting_table

    words = [*chips, *context.args]
    if "--" in words:
        split = words.index("--")
        names, command = words[:split], words[split + 1 :]
    else:
        split = next((i for i, w in enumerate(words) if is_python_file(w)), len(words))
        names, command = words[:split], words[split:]
    if not names or not command:
        raise _fail("give chips, then the program: warpwright compare v100 a100 -- FILE.py", MISUSED)
    program, *arguments = command
    for name in names:
        _check_options(name, timing, program, report)
    console = _console()
    by_chip: dict[str, list[Run]] = {}
    refused: dict[str, str] = {}
    had_driver = has_begun_driver()
    for name in dict.fromkeys(names):
        console.print(f"[bold]{name}[/bold]")
        try:
            # A process's driver keeps the chip with which the program on the one before began it.
            apart = has_begun_driver() and not had_driver
            by_chip[name], _, code = _launches_of(program, arguments, name, timing, Refused, apart)
        except Refused as why:
            refused[name] = str(why)
            continue
        if code:
            raise _fail(f"{program} ended with exit code {code} on {name}", code)
    launches = match_launches(by_chip)
    if launches:
        table, without = fitting_table(launches, list(by_chip), program, console)
        console.print(table)
        if without:
            console.print(f"left out to fit {console.width} columns: {', '.join(without)}", markup=False)
    elif not refused:
        console.print("the program launched no kernel")
    for name, refusal in refused.items():
        console.print(f"{name} does not run it: {refusal}", markup=False)
    if report is not None and launches:
        from warpwright.tools.report.chips_page import write_chips_page

        write_chips_page(report, launches, refused, program)
        console.print(f"wrote {report}", markup=False, soft_wrap=True)
    elif launches and any(launch.figures() for launch in launches):
        console.print("why they differ: add --report PAGE.html")
    if not launches and refused:
        raise typer.Exit(FAILED)


@app.command()
def sweep(
    specification: Annotated[Path, typer.Argument(help="TOML file: programs, chips, overrides and arguments.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the results (default: SPECIFICATION.sweep).")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes (default: one per core).")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Run on a Dask cluster: tcp://HOST:8786.")] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also run the points again that failed.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print how many points there are.")] = False,
) -> None:
    """Run all combinations of programs, chips, overrides and arguments; the same command goes on where it was stopped."""
    from warpwright.sweeps.specification import SweepError, points_of, read_specification
    from warpwright.sweeps.sweep import sweep as run_sweep
    from warpwright.tools.progress import duration

    console = _console()
    try:
        if dry_run:
            console.print(f"{len(points_of(read_specification(specification), Path.cwd())):,} points")
            return
        done = run_sweep(specification, output, workers=workers, scheduler=scheduler, retry_failed=retry_failed)
    except SweepError as error:
        raise _fail(str(error), MISUSED) from None
    except KeyboardInterrupt:
        raise _fail("interrupted; the same command goes on from here", INTERRUPTED) from None
    before = len(done.points) - done.ran_count
    told = f"{len(done.points):,} points: {done.ran_count:,} run in {duration(done.wall_seconds)}"
    told += f", {before:,} finished before" if before else ""
    told += f", {done.failed_count:,} without a result" if done.failed_count else ""
    console.print(told)
    console.print(
        f"wrote {done.folder / 'results'}/*.parquet and {done.folder / 'index.html'}", markup=False, soft_wrap=True
    )
    if done.failed_count:
        raise typer.Exit(FAILED)


app.command()(campaign)
app.add_typer(mig)
app.command()(resume)


@app.command()
def study(
    name: Annotated[str | None, typer.Argument(help="Study to run; all are listed without one.")] = None,
    report: Annotated[Path | None, typer.Option(help="Also write the tables and heat maps as an HTML page.")] = None,
) -> None:
    """Measure on the simulated machines what a paper measured, and print both; the exit code is 1 if a cell is beyond its tolerance."""
    from rich.table import Table

    from warpwright.studies.catalogue import STUDIES
    from warpwright.studies.tables import print_result

    console = _console()
    if name is None:
        table = Table(header_style="bold")
        for heading in ("study", "measures", "paper"):
            table.add_column(heading, overflow="fold")
        for one in STUDIES.values():
            table.add_row(one.name, one.summary, one.source)
        console.print(table)
        return
    if name not in STUDIES:
        raise _fail(f"there is no study {name}; there are {', '.join(STUDIES)}", MISUSED)
    if report is not None:
        _check_output(report)
    from warpwright.studies.page import study_page

    try:
        with _console(stderr=True).status("", spinner="dots") as status:
            found = STUDIES[name].run(
                lambda what: status.update(what) if console.is_terminal else typer.echo(what, err=True)
            )
    except KeyboardInterrupt:
        raise _fail("interrupted", INTERRUPTED) from None
    print_result(console, STUDIES[name], found)
    if report is not None:
        report.write_text(study_page(STUDIES[name], found), encoding="utf-8")
        console.print(f"wrote {report}", markup=False, soft_wrap=True)
    if found.missed_count:
        raise typer.Exit(FAILED)


@app.command()
def chips(
    name: Annotated[str | None, typer.Argument(help="Chip whose numbers are shown with their sources.")] = None,
) -> None:
    """List the chips, or show one."""
    from rich.table import Table

    from warpwright.chips import ChipError, chip_names, describe, kind_counts, load_chip

    console = _console()
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
                *(f"{chip.dram.dram_kib / (1 << 20):.0f}", f"{chip.dram.dram_gb_per_s:,.0f}"),
            )
        console.print(table)
        return
    try:
        shown = load_chip(name)
    except ChipError as error:
        raise _fail(str(error)) from None
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
    console.print(table)
    counts = kind_counts(shown)
    counted = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    console.print(f"{sum(counts.values())} numbers: {counted} (docs/reference.md#chip)")


system_app = typer.Typer(help="List the machines of several GPUs, or show one.", no_args_is_help=True)
app.add_typer(system_app, name="system")


@system_app.command(name="list")
def list_systems() -> None:
    """List the machines."""
    from rich.table import Table

    from warpwright.system import load_machine, machine_names, route

    table = Table(header_style="bold")
    for heading in ("machine", "product", "GPUs", "GPU 0 to GPU 1"):
        table.add_column(heading)
    for machine in map(load_machine, machine_names()):
        way = route(machine, 0, 1) if len(machine.gpus) > 1 else None
        joined = f"{way.topology}, {way.copy_gb_per_s:,.1f} GB/s" if way is not None else ""
        table.add_row(machine.name, machine.product, f"{len(machine.gpus)} x {machine.gpus[0]}", joined)
    _console().print(table)


@system_app.command(name="show")
def show_system(name: Annotated[str, typer.Argument(help="Machine (name or TOML file).")]) -> None:
    """Show a machine's topology, as nvidia-smi topo -m, and the numbers of its links with their sources."""
    from rich.table import Table

    from warpwright.errors import WarpwrightError
    from warpwright.system import load_machine, topology_matrix
    from warpwright.system.machine import LINK_FIELDS

    try:
        machine = load_machine(name)
    except WarpwrightError as error:
        raise _fail(str(error)) from None
    console = _console()
    console.print(f"{machine.name}: {machine.product}", markup=False)
    typer.echo(topology_matrix(machine))
    table = Table(header_style="bold")
    for heading in ("link", "field", "value", "kind", "source"):
        table.add_column(heading, overflow="fold")
    for link in {cable.link.name: cable.link for cable in machine.cables}.values():
        for field in LINK_FIELDS:
            key = f"links.{link.name}.{field}"
            if key in machine.kinds:
                value = f"{getattr(link, field):g}"
                table.add_row(link.name, field, value, machine.kinds[key], machine.sources[key])
    console.print(table)


@app.command()
def version() -> None:
    """Print the version."""
    from warpwright.version import __version__

    typer.echo(f"warpwright {__version__}")


def _version_option(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version_option, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A GPU that anyone can run anywhere: CUDA kernels executed and timed, cycle by cycle, on a chosen chip."""


def main() -> None:
    """Entry point; Ctrl-C ends it without a traceback, with exit code 130."""
    try:
        app(standalone_mode=True)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
