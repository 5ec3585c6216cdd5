"""``warpwright run``: runs a program and prints its launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from warpwright.commands.check_findings import show_findings, start_checks
from warpwright.commands.launch_output import (
    data_files,
    export,
    show_frames,
    show_launches,
    write_frame_pages,
    write_pages,
)
from warpwright.commands.option_records import with_options
from warpwright.commands.options import (
    CachesOption,
    CheckOption,
    CheckpointOption,
    ClockOption,
    CsvOption,
    ErrorCodeOption,
    EveryOption,
    GpuOption,
    InjectOption,
    JsonOption,
    LevelOption,
    LibraryModelOption,
    MemoryFaultsOption,
    ParquetOption,
    RecordOption,
    ReportOption,
    SystemOption,
    TimeoutOption,
    TimingOption,
)
from warpwright.commands.output import FAILED, INTERRUPTED, MISUSED, fail
from warpwright.commands.program_execution import (
    advise_on_order,
    check_options,
    compile_ahead,
    ended_by_signal,
    launches_of,
)
from warpwright.commands.run_settings import (
    caches_of,
    checkpoints_saved,
    errors_injected,
    gpus_of,
    graphics_kept,
    host_clock_of,
    library_times_of,
    memory_faults_of,
    time_limit,
)

if TYPE_CHECKING:
    from warpwright.tools.checks import Finding


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of ``warpwright run``."""

    gpu: GpuOption = None
    system: SystemOption = None
    timing: TimingOption = None
    caches: CachesOption = None
    memory_faults: MemoryFaultsOption = None
    check: CheckOption = None
    check_level: LevelOption = None
    report: ReportOption = None
    host_clock: ClockOption = "host"
    library_model: LibraryModelOption = None
    record: RecordOption = None
    checkpoint: CheckpointOption = None
    checkpoint_every: EveryOption = None
    inject: InjectOption = None
    error_exitcode: ErrorCodeOption = FAILED
    timeout: TimeoutOption = None
    json: JsonOption = None
    csv: CsvOption = None
    parquet: ParquetOption = None


@with_options(RunOptions)
def run(
    context: typer.Context,
    program: Annotated[
        str, typer.Argument(help="Python file, or any command: python -m …, pytest …, ./program built with nvcc.")
    ],
    options: RunOptions,
) -> None:
    """Run a program on the simulated GPU and print its launches. Arguments after the program are passed to it.

    With --check, the findings are printed, and the exit code is 1 if there is an error among them. Launches are then timed only with
    --timing full or --report: each runs twice, first checked, then timed.
    """
    from warpwright.environment import setting
    from warpwright.programs import is_python_file
    from warpwright.session import TIMED_OUT, session

    o, report = options, options.report
    data = data_files(o.json, o.csv, o.parquet)
    gpu, timing = gpus_of(o.system, o.gpu), o.timing
    check_options(context, gpu, timing, program, report, *data)
    # The variable alone would check the program's launches without showing what was found.
    check = o.check or setting("CHECK", str, "") or None
    if check is None or timing is not None or report is not None:
        compile_ahead(timing)
    session.notes_origins = report is not None or any(data)
    if check is not None:
        start_checks(check, o.check_level or setting("CHECK_LEVEL", str, "") or None)
        timing = timing or ("full" if report is not None else None)
    elif o.check_level is not None:
        raise fail("--check-level has no effect without --check: add --check", MISUSED)
    with (
        time_limit(o.timeout),
        host_clock_of(o.host_clock, timing),
        caches_of(o.caches, timing),
        memory_faults_of(o.memory_faults, check, o.checkpoint),
        errors_injected(o.inject, check),
        library_times_of(o.library_model, gpu, timing),
        checkpoints_saved(program, timing, check, o.checkpoint, o.checkpoint_every),
        graphics_kept(o.record, report, gpu, timing),
    ):
        runs, findings, code = launches_of(program, list(context.args), gpu, timing)
    own = is_python_file(program)
    killed = "" if own else ended_by_signal(code)
    frames = show_frames(program)
    if runs or not (frames or killed or (own and code) or code in (INTERRUPTED, TIMED_OUT)):
        show_launches(runs)
    export(data, runs)
    if report is not None and runs:
        write_pages(report, runs, program)
    if report is not None:
        write_frame_pages(report, frames, bool(runs))
    if killed:
        fail(killed)
    failed = _conclude([program, *context.args], gpu, code, bool(runs), findings if check is not None else None)
    if code := code or (o.error_exitcode if failed else 0):
        raise typer.Exit(code)


def _conclude(command: list[str], gpu: str | None, code: int, launched: bool, findings: list[Finding] | None) -> bool:
    """Show the findings of a checked program, or why another may have failed; returns whether they contain errors or a launch failed, even if the program ignored it.

    Args:
        findings: those of child processes; None without ``--check``.
    """
    from warpwright.programs import is_python_file
    from warpwright.session import session

    own = is_python_file(command[0])
    killed = not own and bool(ended_by_signal(code))
    unchecked = killed or (own and code and not session.checkers)
    wrong = False
    if findings is not None and (findings or not unchecked):
        wrong = show_findings(findings) != 0
        code = code or int(wrong)
    if code and not killed and not own and findings is None:
        session.launched = launched
        advise_on_order(command, gpu)
    return wrong or bool(session.failed_launches)
