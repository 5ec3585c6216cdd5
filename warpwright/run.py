"""One launch from start to end: packs the arguments, runs the kernel with or without timing, and copies results back.

The kernel runs in a worker thread, in compiled code that does not hold the GIL; the main thread waits, shows
progress and handles Ctrl-C.
"""

from __future__ import annotations

import ctypes
import difflib
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from warpwright import html_tables
from warpwright.chips import Chip, Occupancy
from warpwright.engine.abi import LAUNCH
from warpwright.engine.arguments import pack
from warpwright.engine.bulk_native import BulkCopies
from warpwright.engine.cancellation import cancellable
from warpwright.engine.child_launches import Child, DeviceLaunches
from warpwright.engine.compiled_launch import CompiledExecution
from warpwright.engine.device_memory import Allocation
from warpwright.engine.execute import Cancelled, Counts
from warpwright.engine.faults import miscount_text, overrun_text
from warpwright.engine.kernels import (
    Execution,
    compiled_execution,
    copies_in_bulk,
    interpreted_execution,
    is_brief,
    lowered_of,
    memory_reads,
    reads_cycles,
    traced,
    waits_for_cluster,
    watches_memory,
)
from warpwright.engine.launch import (
    GRID_WORKSPACE_BYTES,
    NOT_COOPERATIVE,
    Dim3,
    LaunchContext,
    check_cooperative,
    is_cooperative,
    lacks_grid_barrier,
    launch_shared_bytes,
    place_graph,
    place_parameters,
    place_workspace,
    reads_parameters_by_address,
)
from warpwright.engine.launch_snapshot import LaunchSnapshot, hindrance
from warpwright.engine.launch_thread import POLL_SECONDS, worker
from warpwright.engine.services import LaunchServices, emit, heap_of
from warpwright.engine.textures.launch_textures import LaunchTextures, uses_textures
from warpwright.engine.tiers import TieredExecution, functional_execution
from warpwright.errors import (
    UNTIMED,
    AssertionFailedError,
    ExecutionError,
    MetricNotFoundError,
    TrapError,
    UnsupportedError,
    only_checked,
)
from warpwright.faults.exposed_launch import injected_execution
from warpwright.isa.machine_code import FIRST_FERMI
from warpwright.isa.program import Program
from warpwright.isa.schedule import SCOREBOARD_NOTE
from warpwright.isa.services import LAUNCHES
from warpwright.library_times import LibraryTime
from warpwright.messages import report
from warpwright.quantity_text import share_text, time_text
from warpwright.ranges import Origin
from warpwright.repeatable_launch import Repeat
from warpwright.session import session

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from warpwright.api import GPU, Launcher
    from warpwright.timing.block_sampling import Plan
    from warpwright.timing.block_sources import Grid
    from warpwright.timing.interface import Sampling, Supervision, TimingResult
    from warpwright.timing.read_pieces import ReadPieces, Reads
    from warpwright.timing.timing_cache import Key
    from warpwright.timing.unchanged_launches import Look
    from warpwright.tools.report.attribution import Attribution

QUIET_SECONDS = 1.0
"""A launch shorter than this shows no progress."""
SAMPLED_THREADS = 1 << 26
"""Grids of this many threads are sampled unless ``timing`` is given: two million warps take a minute or more of full timing."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a running launch, for display."""

    kernel: str
    phase: str
    """``compiling`` (the kernel, for the host), ``interpreting`` (until compiling it pays off), ``model`` (waits for the cycle model, which is compiled once on a machine) or
    ``running``."""
    seconds: float
    """Host time since the launch began."""
    blocks_done: int
    blocks: int
    cycles: int = 0
    """Simulated cycles so far; 0 with timing off."""
    finished: bool = False
    idle_seconds: float = 0.0
    """Host time since the number of ended blocks was last seen to change."""
    instructions: int = 0
    """In the kernel's machine code; the time of compiling grows with them."""
    waited_seconds: float = 0.0
    """Host time before the first block ran, while the kernel was compiled or the launch waited for the cycle model."""
    longest_gap_seconds: float = 0.0
    """Longest host time so far between two changes of the number of ended blocks."""
    together: bool = False
    """Whether all blocks run at once, so that the first ones that end do not show when the others will."""


class Metrics(dict[str, float]):
    """Counters by Nsight Compute's names; an unknown name raises an error that lists similar ones."""

    def __missing__(self, name: str) -> float:
        near = difflib.get_close_matches(name, self, n=3, cutoff=0.5)
        hint = f"; nearest: {', '.join(near)}" if near else "; run.metrics lists what there is"
        raise MetricNotFoundError(f"this run has no metric {name!r}{hint}")


@dataclass(slots=True)
class Run:
    """The results of one launch: cycles, counters, findings.

    ``cycles``, ``seconds`` and ``bottleneck`` belong to timing="full"; without timing they raise
    :class:`UnsupportedError`.
    """

    kernel: str
    chip: str
    grid: Dim3
    block: Dim3
    dynamic_shared_bytes: int
    registers: int
    """Per thread."""
    shared_bytes: int
    """Per block, static and dynamic."""
    resident: Occupancy
    """Blocks that an SM holds at once, and what bounds them."""
    instructions: int
    """Warp-instructions executed."""
    thread_instructions: int
    wall_seconds: float
    """Host time of the launch without compiling."""
    compile_seconds: float
    timing: TimingResult | None = None
    sm_clock_mhz: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=Metrics)
    """By Nsight Compute's names."""
    device: Chip | None = field(default=None, repr=False)
    """The chip's record."""
    program: Program | None = field(default=None, repr=False)
    """The decoded kernel, for reports by instruction and source line."""
    origin: Origin | None = None
    """The ranges, the module and the operator that the program made it in, where they are noted (``run --report``)."""
    library: LibraryTime | None = None
    """For a launch from a drop-in library under ``--library-model``: the measured ratio that its time is multiplied by."""
    repeated: bool = False
    """True if an earlier launch began in the same state and this one reuses its time (``timing/timing_cache.py``)."""
    skipped: bool = False
    """True if, in addition, it was not executed: an earlier launch found the same memory and left it as it was (``timing/unchanged_launches.py``)."""
    timed_in_full: str = ""
    """With ``timing="sampled"``: why the launch was timed in full; empty if it was sampled, or if only the size of its grid prevents that."""
    caches: str = "cold"
    """``"kept"`` if it found in L2 what earlier launches, copies and fills had left; ``"cold"`` if it began with empty caches, as a sampled launch always does."""
    gpu_number: int = 0
    """Number of its GPU among the program's devices."""
    children: list[Run] = field(default_factory=list, repr=False)
    """Launches made by the kernel, in order; they ran after it."""
    gpu_type: type[GPU] | None = field(default=None, repr=False)
    """Makes a GPU like the one on which it ran; None for a run of another process."""
    repeat: Repeat | None = field(default=None, repr=False, compare=False)
    """Launches again with the same arguments; None for a run of another process or of a program's own driver calls."""
    why_untimed: str = field(default=UNTIMED, repr=False, compare=False)
    """For a run without timing: why, and what to do."""

    def _timed(self, what: str) -> TimingResult:
        if self.timing is None:
            raise UnsupportedError(f"this run of {self.kernel} has no {what}: {self.why_untimed}")
        return self.timing

    @property
    def cycles(self) -> int:
        """SM cycles from launch to the end of the last block (``gpc__cycles_elapsed.max``)."""
        return self._timed("cycles").cycles

    @property
    def seconds(self) -> float:
        """Simulated time of the kernel, or of NVIDIA's library in its place (``library``)."""
        ratio = self.library.ratio if self.library is not None else None
        return self._timed("seconds").seconds * (1.0 if ratio is None else ratio)

    @property
    def seconds_with_children(self) -> float:
        """Simulated time of the kernel and of all kernels that it launched, in sequence."""
        return self.seconds + sum(child.seconds_with_children for child in self.children)

    @property
    def bottleneck(self) -> str:
        """One sentence that names what limits the kernel."""
        return self._timed("bottleneck").bottleneck

    @property
    def sampling(self) -> Sampling | None:
        """The timed part of a sampled launch and its expected error; None if every block was timed, or none."""
        return self.timing.sampling if self.timing is not None else None

    @property
    def schedule(self) -> str:
        """What decided when instructions may issue: ``"control bits"`` of the machine code, or a ``"scoreboard"`` (PTX executed directly, and G80's machine code)."""
        return "control bits" if self.program is None or self.program.control_bits else "scoreboard"

    @property
    def schedule_note(self) -> str:
        """A note on the origin of the cycles; empty if they are those of machine code."""
        ptx = self.timing is not None and self.schedule == "scoreboard" and self.program is not None
        return SCOREBOARD_NOTE if ptx and self.program is not None and self.program.arch >= FIRST_FERMI else ""

    @property
    def timed(self) -> bool:
        """True if the run has cycles."""
        return self.timing is not None

    @property
    def shared(self) -> bool:
        """True if other launches shared the chip: the run then has a time, instructions and stall reasons, but no counters of caches or DRAM."""
        return self.timing is not None and not self.timing.sm

    @property
    def occupancy(self) -> float:
        """Theoretical occupancy: the fraction, 0 to 1, of an SM's warp slots that this launch can fill."""
        return self.resident.fraction

    @property
    def ipc(self) -> float:
        """Warp-instructions per cycle of the whole chip."""
        return self.instructions / max(1, self.cycles)

    @property
    def simulation_speed(self) -> float:
        """Warp-instructions simulated per second of host time."""
        return self.instructions / self.wall_seconds if self.wall_seconds > 0 else 0.0

    def attribution(self) -> Attribution:
        """Where the cycles went: stall reasons, cost per instruction and line, utilisation of each unit, and the limit.

        Raises:
            UnsupportedError: the GPU was made with timing="off".
        """
        from warpwright.tools.report.attribution import attribute

        return attribute(self)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "",
        what_if: Callable[[GPU], object] | None = None,
        baseline: Run | str | os.PathLike[str] | None = None,
    ) -> Path:
        """Write a self-contained HTML page that shows the launch.

        Args:
            what_if: a function that repeats the launch, with its arrays, on the GPU that it is passed.  With it, the page
                ranks the resources that may limit the launch by the cycles that relieving each of them saves.
            baseline: an earlier run, one on another chip, or a file of ``warpwright run --json``, which the page shows beside this one.

        Raises:
            UnsupportedError: the GPU was made with timing="off", or the baseline cannot be read or has no cycles.
        """
        from warpwright.tools.report.comparison import compared_with
        from warpwright.tools.report.page import write_report
        from warpwright.tools.report.relieved import ranked

        rankings = {0: ranked(what_if, self)} if what_if is not None else {}
        comparison = None if baseline is None else compared_with(baseline, [self])
        return write_report(path, [self], title=title, rankings=rankings, comparison=comparison)

    def to_dict(self) -> dict[str, Any]:
        """Return the launch as one flat row: geometry, time and every counter by Nsight Compute's name.

        ``pandas.DataFrame([run.to_dict() for run in gpu.launches])`` is the table of all launches.
        """
        from warpwright.tools.export import launch_record

        return launch_record(self)

    def _repr_html_(self) -> str:
        rows = [
            ("grid, block", f"{self.grid}, {self.block}"),
            ("registers per thread", f"{self.registers}"),
            ("occupancy", share_text(self.occupancy)),
            ("warp instructions", f"{self.instructions:,}"),
        ]
        if self.timing is not None:
            estimate = f" ({self.sampling})" if self.sampling is not None else ""
            rows.insert(0, ("cycles", f"{self.cycles:,}{estimate}"))
            scale = f", {self.library}" if self.library is not None else ""
            rows.insert(1, ("time", f"{time_text(self.seconds)}{scale}"))
            if self.schedule_note:
                rows.insert(2, ("timed", self.schedule_note))
            rows.append(("bound by", self.bottleneck))
        table = html_tables.table(f"{self.kernel} on {self.chip}", rows)
        if self.timing is None or self.shared or self.program is None or self.device is None:
            return table
        from warpwright.tools.report.page import report_html

        return table + html_tables.frame(f"Report of {self.kernel} on {self.chip}", report_html([self]))

    def __repr__(self) -> str:
        timed = f", {self.cycles:,} cycles" if self.timing is not None else ""
        if self.sampling is not None:
            timed += f" ({self.sampling})"
        if self.schedule_note:
            timed += " by a scoreboard"
        return f"<run of {self.kernel} on {self.chip}, grid {self.grid}, block {self.block}{timed}>"


def launch(launcher: Launcher, arguments: Sequence[Any]) -> Run:
    """Run a configured kernel with its arguments.

    Raises:
        ArgumentError: the arguments do not fit the kernel's parameters.
        LaunchError: a cooperative grid does not fit the chip.
        ExecutionError: a fault, a trap or a deadlock.
        KeyboardInterrupt: Ctrl-C; host arrays keep their values and the GPU stays usable.
    """
    kernel, memory = launcher.kernel, launcher.kernel.gpu.memory
    bound, words = launcher.bound(arguments)
    packed = pack(kernel.parameters, kernel.name, words, memory)
    try:
        run = _run(bound, packed.parameters)
        packed.copy_back()
    finally:
        packed.release()
    run.repeat = Repeat(launch, launcher, arguments)
    clock = session.host_clock
    if clock is not None and clock.simulated and run.timed:
        costs = launcher.chip.launch
        took_us = costs.launch_call_us + costs.launch_latency_us + run.seconds_with_children * 1e6
        clock.ps += round(took_us * 1e6)
    return run


def launch_packed(
    launcher: Launcher,
    parameters: bytes | bytearray,
    *,
    cooperative: bool | None = None,
    origin: Origin | None = None,
    library: LibraryTime | None = None,
    checked: bool = True,
) -> Run:
    """Run a configured kernel with packed parameter bytes, and record it like any other launch.

    Args:
        cooperative: True refuses a grid that does not fit the chip at once, even when the kernel never synchronises it; False gives
            ``grid.sync()`` no workspace, so that it traps; None, a cooperative launch where the kernel synchronises its grid.
        origin: where the program made it.
        library: what its time is scaled by.
        checked: False runs it without the checks of its GPU.
    """
    run = _run(launcher, parameters, cooperative, checked)
    run.origin, run.library = origin, library
    if session.on_launch is not None:
        session.on_launch(run)
    return run


def _run(
    launcher: Launcher, parameters: bytes | bytearray, cooperative: bool | None = None, checked: bool = True
) -> Run:
    """Run a launch: checked if the GPU has checks and ``checked`` is true, timed, or first checked and then timed from the same state."""
    gpu = launcher.kernel.gpu
    if session.debugger is not None:
        return _run_once(launcher, parameters, cooperative, checked=False, timed=False)
    if gpu.injected is not None and gpu.injected.active:
        return _run_with_errors(launcher, parameters, cooperative)
    if gpu.injected is not None:
        gpu.injected.launches += 1
    if gpu.checker is None or not checked:
        return _run_once(launcher, parameters, cooperative, checked=False, timed=gpu.timing != "off")
    if not (gpu.timing != "off" or session.times_checked):
        return _run_once(launcher, parameters, cooperative, checked=True, timed=False)
    if "malloc" in launcher.kernel._loaded.program.services:
        # Its heap is part of the state.
        heap_of(gpu.memory)
    peers = gpu.memory.peers()
    reason = hindrance(launcher.kernel._loaded.program, gpu.memory, peers)
    if reason:
        report(f"a launch of {launcher.kernel.name} is checked but not timed: {reason}")
        run = _run_once(launcher, parameters, cooperative, checked=True, timed=False)
        run.why_untimed = only_checked(reason)
        return run
    before = [LaunchSnapshot(memory) for memory in (gpu.memory, *peers)]
    _run_once(launcher, parameters, cooperative, checked=True, timed=False)
    for snapshot in before:
        snapshot.restore()
    return _run_once(launcher, parameters, cooperative, checked=False, timed=True, says=False)


def _run_with_errors(launcher: Launcher, parameters: bytes | bytearray, cooperative: bool | None) -> Run:
    """Run a launch on a device with errors: without timing, and then from the same state with timing if no result changed."""
    gpu = launcher.kernel.gpu
    faults = gpu.faults
    timed = gpu.timing != "off"
    changes = not faults.ecc and any(one.launch == faults.launches for one in faults.waiting)
    if timed and (changes or (faults.exposures and not faults.ecc)):
        raise UnsupportedError(
            f"{launcher.kernel.name}: flips that no code corrects can only be injected without timing: add timing='off' (--timing off)"
        )
    if not timed:
        return _run_once(launcher, parameters, cooperative, checked=False, timed=False)
    refuse_snapshot(launcher)
    with faults.quiet():
        before = LaunchSnapshot(gpu.memory)
    _run_once(launcher, parameters, cooperative, checked=False, timed=False)
    with faults.quiet():
        before.restore()
    return _run_once(launcher, parameters, cooperative, checked=False, timed=True, says=False)


def refuse_snapshot(launcher: Launcher) -> None:
    """Refuse a launch that cannot run twice from the same state.

    Raises:
        UnsupportedError: says why.
    """
    reason = hindrance(launcher.kernel._loaded.program, launcher.kernel.gpu.memory)
    if reason:
        raise UnsupportedError(
            f"{launcher.kernel.name}: errors cannot be injected and timed: {reason}; add timing='off'"
        )


def _run_once(
    launcher: Launcher,
    parameters: bytes | bytearray,
    cooperative: bool | None,
    *,
    checked: bool,
    timed: bool,
    says: bool = True,
) -> Run:
    """Run it.

    Args:
        says: pass on the kernel's output.
    """
    gpu = launcher.kernel.gpu
    with assembled(launcher, parameters, cooperative, says=says) as (context, launches):
        job = Job(launcher, context, checked, timed)
        if checked and gpu.checker is not None:
            gpu.checker.launching()
        job.run()
    run = job.result()
    if launches is not None:
        run.children = [_run_child(launcher, child) for child in launches.children]
    return run


@contextmanager
def assembled(
    launcher: Launcher, parameters: bytes | bytearray, cooperative: bool | None, *, says: bool = True
) -> Iterator[tuple[LaunchContext, DeviceLaunches | None]]:
    """A launch with everything that it needs while it runs: its context, and the kernels that it may launch.

    Raises:
        LaunchError: a cooperative grid does not fit the chip.
        ExecutionError: what the launch raises, with what the context knows about it.
    """
    kernel, geometry = launcher.kernel, launcher.geometry
    gpu, program, memory = kernel.gpu, kernel._loaded.program, kernel.gpu.memory
    workspace: Allocation | None = None
    window: Allocation | None = None
    launches: DeviceLaunches | None = None
    synchronises = is_cooperative(program) and cooperative is not False
    if synchronises or cooperative:
        check_cooperative(geometry, launcher.resident, launcher.chip, kernel.name)
    if synchronises:
        workspace = memory.allocate(GRID_WORKSPACE_BYTES, f"grid barrier of {kernel.name}")
    try:
        if "malloc" in program.services:
            # Its heap must be among the allocations that the launch sees.
            heap_of(memory)
        if LAUNCHES in program.services:
            launches = DeviceLaunches(memory, lambda address: _kernel_at(launcher, address))
        context, window = launch_context(launcher, parameters, workspace)
        copies = _provide(launcher, context, launches)
        context.is_cooperative = synchronises
        try:
            yield context, launches
        except TrapError as error:
            if context.services is not None and context.services.assertions:
                raise AssertionFailedError("\n".join(context.services.assertions)) from None
            if lacks_grid_barrier(context):
                raise TrapError(f"{error}\n  {NOT_COOPERATIVE}") from None
            raise
        finally:
            if context.services is not None and says:
                emit(context.services, gpu.on_output or _print)
        for provided in (context.services, context.textures, copies):
            if provided is not None and provided.failure is not None:
                raise provided.failure
    finally:
        for allocation in (workspace, window):
            if allocation is not None:
                memory.free(allocation)
        if launches is not None:
            launches.release()


def _provide(launcher: Launcher, context: LaunchContext, launches: DeviceLaunches | None) -> BulkCopies | None:
    """Give a launch the services, textures and bulk copies that its kernel uses; the last of them."""
    gpu, loaded = launcher.kernel.gpu, launcher.kernel._loaded
    if loaded.program.services:
        context.services = LaunchServices(context, launches)
        function = context.services.native()
        context.words[LAUNCH.slot("service")] = ctypes.cast(function, ctypes.c_void_p).value or 0
        context.keep.append(function)
    if uses_textures(loaded.program):
        context.textures = LaunchTextures(context)
        if gpu.engine != "interpreter":
            context.textures.provide(context)
    if not copies_in_bulk(loaded):
        return None
    copies = BulkCopies(context)
    copier = copies.native()
    context.words[LAUNCH.slot("bulk")] = ctypes.cast(copier, ctypes.c_void_p).value or 0
    context.keep.append(copier)
    return copies


def launch_context(
    launcher: Launcher, parameters: bytes | bytearray, workspace: Allocation | None = None
) -> tuple[LaunchContext, Allocation | None]:
    """Return the LAUNCH structure of a launch, and the memory of its parameters if the kernel reads them by address.

    Args:
        workspace: memory of the grid's barrier, if the kernel has one.
    """
    kernel = launcher.kernel
    gpu, loaded = kernel.gpu, kernel._loaded
    program, memory = loaded.program, gpu.memory
    kernel._loaded_module.prepare(loaded)
    constants = kernel._loaded_module.constants
    common, template = launcher.prepared(constants.address if constants is not None else 0, len(parameters))
    bank0 = bytearray(common)
    bank0[program.parameter_base_bytes : program.parameter_base_bytes + len(parameters)] = parameters
    if workspace is not None:
        place_workspace(program, bank0, workspace.address)
    place_graph(program, bank0, memory)
    window: Allocation | None = None
    if reads_parameters_by_address(program):
        window = memory.allocate(len(bank0), f"parameters of {kernel.name}")
        place_parameters(program, bank0, window.address)
        memory.view(window.address, len(bank0))[...] = bank0
    context = template.context(bank0)
    context.window, context.set_aside_bytes = launcher.window, gpu.set_aside_bytes
    context.grid_barrier = workspace.address if workspace is not None else 0
    context.passing = tuple(one.address for one in (workspace, window) if one is not None)
    return context, window


def _kernel_at(launcher: Launcher, address: int) -> tuple[str, int]:
    """Symbol and bytes of parameters of a kernel that another launches."""
    symbol = launcher.kernel._loaded.kernels_at[address]
    record = launcher.kernel._loaded_module.compiled.kernels[symbol]
    return symbol, max((p.offset_bytes + p.size_bytes for p in record.parameters), default=0)


def _run_child(parent: Launcher, child: Child) -> Run:
    """Run a launch made by a kernel, and record it like any launch."""
    kernel = type(parent.kernel)(parent.kernel.module, child.symbol)
    launcher = type(parent)(kernel, child.grid, child.block, child.shared, partition=parent.partition)
    return launch_packed(launcher, child.parameters)


def _print(text: bytes) -> None:
    sys.stdout.write(text.decode(errors="replace"))
    sys.stdout.flush()


class Job:
    """One launch, as seen by the worker thread that runs it and by the thread that waits for it."""

    def __init__(self, launcher: Launcher, context: LaunchContext, checked: bool, timed: bool) -> None:
        self.launcher = launcher
        self.checked, self.timed = checked, timed
        self.context = context
        self.counts = Counts()
        self.timing: TimingResult | None = None
        self.repeated = self.skipped = False
        self.failure: BaseException | None = None
        self.positions = ""
        """Where the warps were when the host stopped the launch."""
        self.completion = ""
        """What becomes of the code that was being compiled then."""
        self.compile_seconds = 0.0
        self.wall_seconds = 0.0
        self.begins: Key | None = None
        """What decides, with memory, how long it takes."""
        self.exactly: Hashable = None
        """What decides, together with memory, what it does, and together with memory and caches, how long it takes."""
        self._same: Key | None = None
        self._seen: Look | None = None
        self._reads: ReadPieces | None = None
        self.phase = "compiling"
        self.execution_phase: Callable[[], str] = lambda: "running"
        """The phase of an execution that compiles its kernel only when that pays off."""
        self.blocks_done: Callable[[], int] = lambda: 0
        self.improve: Callable[[], None] = lambda: None
        """Called while it runs: a launch that runs for long gets better code."""
        self.cycles = 0
        self._blocks_seen, self._seen_at = 0, 0.0
        """Ended blocks, and the host time of the launch at which a report first had them."""
        self._waited_seconds = self._longest_gap_seconds = 0.0

    def run(self) -> None:
        """Run in a worker thread and wait for it; its exceptions are raised here."""
        gpu = self.launcher.kernel.gpu
        if session.debugger is not None or (
            not self.timed
            and gpu.engine != "interpreter"
            and is_brief(self.launcher.kernel._loaded, self.context.geometry)
        ):
            # Handing it to another thread would cost more than the launch; a debugger's terminal belongs to this one.
            self._work()
            if self.failure is not None:
                raise self.failure
            return
        show = session.on_progress or self.launcher.progress_line()
        began = time.perf_counter()
        shown = False
        thread = worker()
        thread.begin(self._work)
        try:
            # Short launches end within the first wait, so that polling costs them nothing.
            done = thread.finished(POLL_SECONDS)
            while not done and time.perf_counter() - began < QUIET_SECONDS:
                self.improve()
                done = thread.finished(POLL_SECONDS)
            while not done:
                session.check_deadline()
                self.improve()
                if show is not None:
                    shown = True
                    show(self._progress(time.perf_counter() - began))
                done = thread.finished(POLL_SECONDS)
        except KeyboardInterrupt as stop:
            # Stop the kernel before memory goes.
            self.context.cancel()
            thread.wait()
            session.stopped_at = self.positions or self._stage()
            stop.args = (self.positions,) if self.positions else stop.args
            raise
        except BaseException:
            # Of the progress display.
            self.context.cancel()
            raise
        finally:
            thread.end()
            if shown and show is not None:
                show(self._progress(time.perf_counter() - began, finished=True))
        if self.failure is not None:
            raise self.failure

    def _stage(self) -> str:
        """What a launch was doing that has no warps yet; empty for one that has."""
        if self.phase == "running":
            return ""
        what = "the cycle model" if self.phase == "model" else "its machine code"
        rest = f"; {self.completion}" if self.completion else ""
        return f"kernel {self.launcher.kernel.name} had not begun: {what} was being compiled{rest}"

    def _progress(self, seconds: float, finished: bool = False) -> Progress:
        done = self.blocks_done()
        phase = self.execution_phase() if self.phase == "running" else self.phase
        if done != self._blocks_seen:
            self._longest_gap_seconds = max(self._longest_gap_seconds, seconds - self._seen_at)
            self._blocks_seen, self._seen_at = done, seconds
        elif phase in ("compiling", "model") and not done:
            self._waited_seconds = self._seen_at = seconds
        return Progress(
            self.launcher.kernel.name,
            phase,
            seconds,
            done,
            self.context.geometry.blocks,
            self.cycles,
            finished,
            seconds - self._seen_at,
            len(self.context.program.instructions),
            self._waited_seconds,
            self._longest_gap_seconds,
            self._together(),
        )

    def _together(self) -> bool:
        """Whether all blocks run at once."""
        room = self.launcher.resident.blocks_per_sm * self.launcher.chip.sm.sm_count
        at_once = self.timed or is_cooperative(self.context.program)
        return at_once and self.context.geometry.blocks <= room

    def _work(self) -> None:
        try:
            with cancellable(lambda: self.context.cancelled):
                if self.timed:
                    self._timed()
                else:
                    self._functional()
        except Cancelled as stop:
            # Before the kernel ran.
            self.completion, self.failure = stop.where, KeyboardInterrupt()
        except BaseException as failure:
            self.failure = failure
            session.failed_here += isinstance(failure, ExecutionError)
            if self.context.memory.pages is not None:
                self.context.memory.pages.forget_overrun()

    def _functional(self) -> None:
        gpu, loaded = self.launcher.kernel.gpu, self.launcher.kernel._loaded
        at_once = self.launcher.resident.blocks_per_sm * self.launcher.chip.sm.sm_count
        began = time.perf_counter()
        execution: Execution
        if session.debugger is not None:
            ptx = self.launcher.kernel._loaded_module.compiled.ptx
            execution = session.debugger.execution(loaded, self.context, at_once, ptx)
        elif self.checked and gpu.checker is not None:
            execution = gpu.checker.execution(
                loaded, self.context, at_once, self.launcher.kernel._loaded_module.compiled.ptx
            )
        elif gpu.injected is not None and gpu.injected.active:
            execution = injected_execution(loaded, self.context, at_once, gpu.injected)
        elif gpu.engine == "interpreter":
            execution = interpreted_execution(loaded, self.context, at_once)
        elif gpu.engine == "tiered":
            execution = functional_execution(loaded, self.context, at_once, gpu.functional_threads)
        else:
            execution = compiled_execution(loaded, self.context, at_once, gpu.functional_threads)
        self._start(began)
        self.blocks_done = lambda: execution.blocks_done
        if isinstance(execution, TieredExecution):
            tiered = execution
            self.execution_phase = lambda: tiered.phase
        if isinstance(execution, (TieredExecution, CompiledExecution)):
            self.improve = execution.improve_if_long
        try:
            self.counts = execution.run()
        except Cancelled as stop:
            self.positions = stop.where
            raise KeyboardInterrupt from None
        if isinstance(execution, TieredExecution):
            self.compile_seconds += execution.compile_seconds
        self.wall_seconds = time.perf_counter() - began - self.compile_seconds

    def _start(self, began: float) -> None:
        self.compile_seconds = time.perf_counter() - began
        self.phase = "running"

    def _timed(self) -> None:
        began = time.perf_counter()
        from warpwright.timing import compile_ahead

        compile_ahead.begin_once()
        from warpwright.timing.block_sampling import simulate_sampled
        from warpwright.timing.block_sources import Grid
        from warpwright.timing.interface import Progress as TimingProgress
        from warpwright.timing.interface import Supervision, TimingCancelled, TimingError
        from warpwright.timing.launch_errors import explain, positions_at

        context, loaded = self.context, self.launcher.kernel._loaded
        gpu = self.launcher.kernel.gpu
        if self._repeats_another(began):
            return
        kernel = traced(loaded, context)
        chosen = self._plan()
        if chosen is not None:
            at_once = self.launcher.resident.blocks_per_sm * self.launcher.chip.sm.sm_count
            rest = compiled_execution(loaded, context, at_once, gpu.functional_threads)
            self.improve = rest.improve_if_long
        self._start(began)

        def follow(progress: TimingProgress) -> None:
            self.phase, self.cycles = progress.phase, progress.cycles
            self.blocks_done = lambda: progress.blocks_done

        host = Supervision(
            # What kernels print and where malloc puts things is the same in every run on one thread alone.
            threads=1 if context.program.services or context.textures is not None else gpu.threads,
            progress=follow,
            cancel=lambda: context.cancelled,
            reads=self._reads,
        )
        try:
            grid = Grid(context.program, lowered_of(loaded), kernel, context)
            if chosen is None:
                self.timing, self.counts = self._simulate_whole(grid, host)
            else:
                self.timing, self.counts = simulate_sampled(
                    self.launcher.chip, chosen, grid, rest.run_range, host, policies=gpu.policies
                )
                self.forget_caches(self.timing)
        except Cancelled as stop:
            self.positions = stop.where
            raise KeyboardInterrupt from None
        except TimingCancelled as stop:
            self.positions = positions_at(stop, context)
            raise KeyboardInterrupt from None
        except TimingError as error:
            raise explain(error, context, kernel) from None
        self.wall_seconds = self.timing.wall_seconds
        if gpu.repeats is not None:
            gpu.repeats.keep(self._same, self.timing, loaded, *self._how())
            self._note_end()

    def _how(self) -> tuple[Any, ...]:
        """What it is timed with."""
        return self.launcher.chip, self.launcher.kernel.gpu.policies, self.launcher.partition

    def _repeats_another(self, began: float) -> bool:
        """Whether the launch has an earlier one's time: with its results, or having been executed for its own."""
        gpu, loaded = self.launcher.kernel.gpu, self.launcher.kernel._loaded
        repeats = gpu.repeats
        if repeats is None:
            return False
        may_be_unchanged = self.begin(self._how())
        assert self.begins is not None
        if may_be_unchanged and self._leaves_memory(began):
            return True
        if self.context.memory.pages_move:
            # Its time depends on where pages are, and it moves them.
            return False
        self._same = repeats.key(loaded, self.begins, alike=gpu.timing == "sampled")
        before = repeats.find(self._same)
        if before is None:
            return False
        self._functional()
        self.repeated = True
        repeats.confirm(self._same, self.counts.warp_instructions)
        self.timing = replace(before, wall_seconds=self.wall_seconds, cpu_seconds=self.wall_seconds)
        self.forget_caches(before)
        self._note_end()
        return True

    def _leaves_memory(self, began: float) -> bool:
        """Whether the launch has been skipped, because it would leave memory as it is."""
        from warpwright.timing.read_pieces import ReadPieces
        from warpwright.timing.unchanged_launches import least_seconds

        gpu = self.launcher.kernel.gpu
        assert self.begins is not None
        # Where caches are kept, the second launch finds others than the first.
        estimate = least_seconds(self.context) if gpu.kept_caches is None else 0.0
        self._seen = gpu.unchanged.look(self.exactly, self.begins.found, [self.context], estimate)
        if self._seen.known is not None:
            self.skip(*self._seen.known.results[0], began)
            return True
        if self._seen.memory is not None:
            self._reads = ReadPieces(self.context.memory)
        return False

    def forget_caches(self, timing: TimingResult) -> None:
        """Begin with cold caches after a sampled launch: its sections ran on parts of the chip, so what it leaves is not known."""
        kept = self.launcher.kernel.gpu.kept_caches
        if kept is not None and timing.sampling is not None:
            kept.drop()

    def _note_end(self) -> None:
        """Keep the results for launches that find what this one has found."""
        if self._seen is not None and self.timing is not None:
            results = [(self.timing, self.counts)]
            unchanged = self.launcher.kernel.gpu.unchanged
            loaded = self.launcher.kernel._loaded
            unchanged.keep(self._seen, [self.context], results, loaded, *self._how(), reads=self._what_was_read())

    def _what_was_read(self) -> Reads | None:
        """What the launch has read of memory; None: not known."""
        from warpwright.timing.read_pieces import NothingRead

        reads = memory_reads(self.launcher.kernel._loaded)
        if not reads.weak_loads and not reads.others:
            return NothingRead()
        assert self.timing is not None
        issues = self.timing.instruction_issues if self.timing.sampling is None else None
        return self._reads if issues is not None and not issues[reads.others].any() else None

    def begin(self, how: tuple[Any, ...]) -> bool:
        """Note how the launch begins; whether it may turn out to leave all memory as it is."""
        from warpwright.timing.unchanged_launches import may_be_unchanged

        context, gpu, loaded = self.context, self.launcher.kernel.gpu, self.launcher.kernel._loaded
        assert gpu.repeats is not None
        alike = gpu.timing == "sampled"
        self.begins = gpu.repeats.beginning(loaded, context, *how, kept=gpu.kept_caches, alike=alike)
        # Launches on other arrays may have each other's time, but not each other's results.
        self.exactly = (self.begins.launch, context.constants_digest()) if alike else self.begins.launch
        return gpu.checkpoints is None and may_be_unchanged(context)

    def skip(self, timing: TimingResult, counts: Counts, began: float) -> None:
        """Have the time and the counts of the launch that did what this one would do."""
        self._start(began)
        self.repeated, self.skipped, self.counts = True, True, counts
        self.wall_seconds = time.perf_counter() - began
        self.timing = replace(timing, wall_seconds=self.wall_seconds, cpu_seconds=self.wall_seconds)
        self.forget_caches(timing)

    def _simulate_whole(self, grid: Grid, host: Supervision) -> tuple[TimingResult, Counts]:
        """Time every block of the launch."""
        from warpwright.timing.simulate import simulate
        from warpwright.timing.step_sampling import simulate_steps

        gpu = self.launcher.kernel.gpu
        host = replace(host, saver=self._saver())
        run = simulate_steps if self.samples_steps() else simulate
        timing = run(self.launcher.chip, grid, host, policies=gpu.policies, kept=gpu.kept_caches)
        self.forget_caches(timing)
        metrics = timing.metrics
        counts = Counts(
            int(metrics.get("smsp__inst_executed.sum", 0)),
            int(metrics.get("smsp__thread_inst_executed.sum", 0)),
            self.context.geometry.blocks,
        )
        return timing, counts

    def samples_steps(self) -> bool:
        """Whether the launch is timed only until its steps between grid barriers repeat themselves."""
        from warpwright.timing.step_sampling import repeats_steps

        gpu, loaded = self.launcher.kernel.gpu, self.launcher.kernel._loaded
        if gpu.timing != "sampled" or gpu.checkpoints is not None:
            return False
        return repeats_steps(self.context) and not copies_in_bulk(loaded) and not waits_for_cluster(loaded)

    def _saver(self) -> Callable[[Any, Callable[[], bool]], None] | None:
        """The object that writes checkpoints of the launch, if they are requested."""
        launcher, checkpoints = self.launcher, self.launcher.kernel.gpu.checkpoints
        if checkpoints is None:
            return None
        return lambda launch, advance: checkpoints.run(launcher, launch, advance)

    def _plan(self) -> Plan | None:
        """How the launch is sampled; None if it is timed in full."""
        from warpwright.timing.block_sampling import plan

        gpu, geometry = self.launcher.kernel.gpu, self.context.geometry
        large = gpu.samples_large and geometry.blocks * geometry.threads_per_block >= SAMPLED_THREADS
        if (gpu.timing != "sampled" and not large) or self._not_sampled():
            return None
        return plan(self.launcher.chip, geometry.blocks, self.launcher.resident)

    def _not_sampled(self) -> str:
        """Why no launch of the kernel is sampled by blocks; empty if it may be."""
        loaded = self.launcher.kernel._loaded
        reasons = {
            "its blocks meet at grid barriers": is_cooperative(self.context.program),
            "the blocks of a cluster run together": self.context.geometry.cluster_blocks > 1,
            "pages of its managed memory migrate": self.context.memory.pages_move,
            "its bulk copies complete at times of their own": copies_in_bulk(loaded),
            "it polls memory": watches_memory(loaded),
            "it reads the SM's clock": reads_cycles(loaded),
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def in_full_because(self) -> str:
        """Why the launch was timed in full although sampling was requested; empty if it was sampled, if only the size of its grid prevents that, or if sampling was not requested."""
        from warpwright.timing.block_sampling import plan

        if self.launcher.kernel.gpu.timing != "sampled" or self.timing is None or self.timing.sampling is not None:
            return ""
        waits = is_cooperative(self.context.program) or watches_memory(self.launcher.kernel._loaded)
        small = plan(self.launcher.chip, self.context.geometry.blocks, self.launcher.resident) is None
        return "" if small and not waits else self._not_sampled()

    def _report_overrun(self) -> None:
        """Warn of an access outside all allocations that a card would not detect."""
        context, gpu = self.context, self.launcher.kernel.gpu
        overrun = context.memory.pages.take_overrun(context.address) if context.memory.pages is not None else None
        if overrun is not None:
            message = overrun_text(context.program, context.geometry, context.memory, overrun)
            gpu.report_overrun(context.program.name, message)

    def _report_miscount(self) -> None:
        """Report a barrier with an invalid number of threads, which a card would refuse."""
        noted = self.context.words[LAUNCH.slot("miscounted")]
        if noted:
            name = self.context.program.name
            self.launcher.kernel.gpu.report_miscount(name, miscount_text(self.context.program, int(noted)))

    def result(self) -> Run:
        """Return the record of the launch."""
        self._report_overrun()
        self._report_miscount()
        kernel, geometry, resident = self.launcher.kernel, self.launcher.geometry, self.launcher.resident
        chip = self.launcher.chip
        program = self.context.program
        metrics = Metrics(self.launcher.metrics)
        metrics["smsp__inst_executed.sum"] = self.counts.warp_instructions
        metrics["smsp__thread_inst_executed.sum"] = self.counts.thread_instructions
        if self.timing is not None:
            metrics.update(self.timing.metrics)
        return Run(
            kernel=kernel.name,
            chip=chip.name,
            grid=geometry.grid,
            block=geometry.block,
            dynamic_shared_bytes=geometry.dynamic_shared_bytes,
            registers=program.registers,
            shared_bytes=launch_shared_bytes(program, geometry),
            resident=resident,
            instructions=self.counts.warp_instructions,
            thread_instructions=self.counts.thread_instructions,
            wall_seconds=self.wall_seconds,
            compile_seconds=self.compile_seconds,
            timing=self.timing,
            sm_clock_mhz=chip.clocks.sm_clock_mhz,
            metrics=metrics,
            device=chip,
            program=program,
            repeated=self.repeated,
            skipped=self.skipped,
            timed_in_full=self.in_full_because(),
            caches="cold" if kernel.gpu.kept_caches is None or (self.timing and self.timing.sampling) else "kept",
            gpu_number=kernel.gpu.number,
            gpu_type=type(kernel.gpu),
        )
