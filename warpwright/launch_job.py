"""One launch in progress: it runs with or without timing, in a worker thread, while the main thread waits.

Compiled code does not hold the GIL; the main thread shows progress and handles Ctrl-C.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from warpwright.engine.abi import LAUNCH
from warpwright.engine.cancellation import cancellable
from warpwright.engine.compiled_launch import CompiledExecution
from warpwright.engine.constant_bank0 import is_cooperative
from warpwright.engine.execute import Cancelled, Counts
from warpwright.engine.faults import miscount_text, overrun_text
from warpwright.engine.geometry import launch_shared_bytes
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
from warpwright.engine.launch import LaunchContext
from warpwright.engine.launch_thread import POLL_SECONDS, worker
from warpwright.engine.tiers import TieredExecution, functional_execution
from warpwright.errors import ExecutionError
from warpwright.faults.exposed_launch import injected_execution
from warpwright.run import Metrics, Progress, Run
from warpwright.session import session

if TYPE_CHECKING:
    from warpwright.kernel import Launcher
    from warpwright.timing.block_sampling import Plan
    from warpwright.timing.block_sources import Grid
    from warpwright.timing.interface import Supervision, TimingResult
    from warpwright.timing.read_pieces import ReadPieces, Reads
    from warpwright.timing.timing_cache import Key
    from warpwright.timing.unchanged_launches import Look


QUIET_SECONDS = 1.0
"""A launch shorter than this shows no progress."""
SAMPLED_THREADS = 1 << 26
"""Grids of this many threads are sampled unless ``timing`` is given: two million warps take a minute or more of full timing."""


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
        if self.samples_steps():
            return "its steps between grid barriers did not repeat before its end"
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
