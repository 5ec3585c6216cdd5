"""One launch under the checks, or several that run at once on different devices: run once, or in several orders of its warps; reports faults and deadlocks as findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from warpwright.engine.allocation import Allocation
from warpwright.engine.execute import Counts
from warpwright.engine.kernels import compiled_execution, may_wait_for_others, traced
from warpwright.engine.launch import NOT_COOPERATIVE, LaunchContext, lacks_grid_barrier
from warpwright.engine.module import LoadedKernel
from warpwright.engine.services import HeapCall, existing_heap
from warpwright.engine.standstill import Among
from warpwright.errors import DeadlockError, ExecutionError, IllegalInstructionError, MemoryFaultError, TrapError
from warpwright.tools.checks import heap
from warpwright.tools.checks.checked_execution import CheckedExecution, run_grids
from warpwright.tools.checks.findings import Finding, Place, place
from warpwright.tools.checks.joined_grids import Joined
from warpwright.tools.checks.mbarriers import unrecorded
from warpwright.tools.checks.uninitialized_use import Before, Verdict, reads_shared
from warpwright.tools.checks.warp_syncs import constant_masks
from warpwright.tools.checks.watch import Watch

if TYPE_CHECKING:
    from warpwright.tools.checks.checker import Checker

SCHEDULES = 8
"""Number of orders of warps that schedcheck tries besides the usual one."""


class CheckedLaunch:
    """One launch under the checks."""

    def __init__(
        self,
        checker: Checker,
        loaded: LoadedKernel,
        context: LaunchContext,
        resident_blocks: int,
        ptx: str | None,
    ) -> None:
        self.checker = checker
        self.ptx = ptx
        self.context = context
        context.exact_shared = True
        self.loaded = loaded
        self.resident_blocks = resident_blocks
        self.number = checker.launches
        self.host = checker.host
        self._execution: Any = None
        if "memcheck" in checker.checks:
            heap.guard(context, self._report_free)

    @property
    def blocks_done(self) -> int:
        return int(self._execution.blocks_done) if self._execution is not None else 0

    def run(self) -> Counts:
        """Run every block; findings go to the checker.

        Raises:
            Cancelled, ExecutionError: as for any launch; a fault is also a finding.
        """
        checks = set(self.checker.checks)
        try:
            if "schedcheck" in checks:
                return self._explore(checks)
            return self._once(checks)
        except DeadlockError as error:
            if not (error.repeats and self.checker.repeats_without):
                reached = may_wait_for_others(self.loaded) and any(a.mapped for a in self.context.memory)
                self.checker.deadlock(error, self.number, self.host, error.repeats and reached)
            raise
        except ExecutionError as error:
            self.report(error)
            raise

    def report(self, error: ExecutionError) -> None:
        """Report the error that ended the launch as a finding."""
        if isinstance(error, MemoryFaultError):
            self._report_fault(error)
        elif isinstance(error, (IllegalInstructionError, TrapError)):
            self._report_stop(error)
        elif isinstance(error, DeadlockError):
            self.checker.deadlock(error, self.number, self.host)

    def _once(self, checks: set[str], seed: int | None = None) -> Counts:
        if not checks & {"racecheck", "synccheck", "initcheck", "perfcheck"} and seed is None:
            self._execution = compiled_execution(self.loaded, self.context, self.resident_blocks, 1)
            return self._execution.run()
        self.checker.forget_written()
        repeats = self.checker.repeats
        start = repeats.start(self.loaded, self.context) if seed is None else None
        races = self.checker.stream_races if "racecheck" in checks else None
        shown = repeats.shown(start) if start is not None else None
        if shown is not None and (races is None or races.repeated(start)):
            self.checker.add(replace(finding, launch=self.number, host=self.host) for finding in shown)
            self._execution = compiled_execution(self.loaded, self.context, self.resident_blocks, 1)
            return self._execution.run()
        masks = constant_masks(self.loaded.program, self.ptx) if "synccheck" in checks else None
        # Only racecheck and synccheck follow mbarriers, but a kernel is then compiled once for all checks.
        kernel = traced(self.loaded, self.context, masks, policies=False, mbarriers=unrecorded(self.loaded.program))
        before = None
        if "initcheck" in checks and reads_shared(kernel):
            before = Before(self, kernel, repeats.touched(start) if start is not None else None)
        watch = Watch(self, kernel, checks)
        self._execution = CheckedExecution(self.context, kernel, self.resident_blocks, watch, seed)
        found: list[Finding] = []
        verdict = Verdict(None, "whether the results depend on it was not tested: the launch did not end")
        try:
            if races is not None:
                races.begin(watch.live)
            counts: Counts = self._execution.run()
            if before is not None and watch.read_unwritten_shared():
                verdict = before.verdict(watch.touched(), counts)
        finally:
            found = watch.findings(verdict)
            self.checker.add(replace(finding) for finding in found)
        if races is not None:
            races.end(watch, start)
        if start is not None:
            repeats.keep(start, self.loaded, kernel, watch.touched(), counts, found)
        return counts

    def _explore(self, checks: set[str]) -> Counts:
        """Check that other orders of warps leave the same memory contents."""
        memory = self.context.memory
        before = [(a, memory.snapshot(a)) for a in memory]
        results: list[bytes] = []
        for trial in range(SCHEDULES):
            self._once(set(), self.checker.seed + trial)
            results.append(b"".join(memory.snapshot(a).tobytes() for a, _ in before))
            for allocation, contents in before:
                memory.restore(allocation, contents)
        counts = self._once(checks)
        final = b"".join(memory.snapshot(a).tobytes() for a, _ in before)
        for trial, result in enumerate(results):
            if result != final:
                self.checker.add([self._depends(final, result, [a for a, _ in before], self.checker.seed + trial)])
                break
        return counts

    def _depends(self, final: bytes, other: bytes, allocations: Sequence[Allocation], seed: int) -> Finding:
        differs = np.flatnonzero(np.frombuffer(final, np.uint8) != np.frombuffer(other, np.uint8))
        first, start = int(differs[0]), 0
        for allocation in allocations:
            if first < start + allocation.size_bytes:
                break
            start += allocation.size_bytes
        details = (
            f"first difference: byte {first - start:,} of {allocation.name}",
            f"order of warps: seed {seed} against ascending numbers",
            "floating-point atomics may differ in their last bits; anything else is a race",
        )
        title = f"Result depends on the order of warps: {len(differs):,} bytes of memory differ"
        kernel = Place("", self.loaded.kernel.plain_name, "", 0, "", (0, 0, 0), (0, 0, 0))
        return Finding("schedcheck", "warning", title, (kernel,), details, launch=self.number, host=self.host)

    def _report_stop(self, error: ExecutionError) -> None:
        """Report that a thread stopped the launch: a trap, or an instruction that cannot be executed."""
        title, *rest = str(error).splitlines()
        told = tuple(line.strip() for line in rest)
        check = "memcheck"
        if isinstance(error, TrapError) and lacks_grid_barrier(self.context) and "synccheck" in self.checker.checks:
            check, title, told = (
                "synccheck",
                "Barrier error detected. Grid barrier in ordinary launch",
                (*told, NOT_COOPERATIVE),
            )
        if check in self.checker.checks:
            self.checker.add([Finding(check, "error", title, (), told, 1, None, self.number, self.host)])

    def _report_free(self, title: str, by: HeapCall, why: str) -> None:
        self.checker.add(
            [Finding("memcheck", "error", title, (heap.caller(by),), (why,), 1, None, self.number, self.host)]
        )

    def _report_fault(self, error: MemoryFaultError) -> None:
        if "memcheck" not in self.checker.checks:
            return
        title = f"Invalid __{error.space}__ {error.access} of size {error.bytes} bytes"
        details = [
            f"Address {error.address:#x} is {'misaligned' if error.misaligned else 'out of bounds'}",
            self._in_heap(error.address) or error.reason,
        ]
        program = self.loaded.program
        where = next((i for i, x in enumerate(program.instructions) if x.address == error.instruction), 0)
        one = place(program, where, "", error.block, error.thread)
        self.checker.add(
            [Finding("memcheck", "error", title, (one,), tuple(details), 1, error.address, self.number, self.host)]
        )

    def _in_heap(self, address: int) -> str:
        """Describe an address in the heap of device malloc that is outside all its allocations."""
        found = existing_heap(self.context.memory)
        if found is None or not found.allocation.address <= address < found.allocation.end:
            return ""
        return found.explain(address)


NOT_TRIED = "whether the results depend on it was not tested: the launch is on several devices"
"""Of reads of unwritten memory: to test that, a single launch is repeated with other contents in this memory."""


class CheckedGrids:
    """Launches on several devices that run at once (``joined_grids.py``) as one :class:`warpwright.engine.kernels.Execution`.

    Args:
        launches: one for each device, in the order of the launches.
        among: describes a launch among the others, by its number and the numbers of those that have ended.
    """

    def __init__(self, launches: Sequence[CheckedLaunch], among: Callable[[int, Sequence[int]], Among]) -> None:
        self.launches, self._among = launches, among
        self._executions: list[CheckedExecution] = []

    @property
    def blocks_done(self) -> int:
        return sum(one.blocks_done for one in self._executions)

    def run(self) -> list[Counts]:
        """Run every block of all grids; findings go to the checkers.

        Raises:
            Cancelled, ExecutionError: as for any launch; a fault is also a finding.
        """
        checkers = [launch.checker for launch in self.launches]
        for checker in checkers:
            checker.forget_written()
        joined = Joined(
            len(self.launches),
            self.launches[0].context.geometry.blocks,
            {address: written for checker in checkers for address, written in checker.written.items()},
            {address: origin for checker in checkers for address, origin in checker.origins.items()},
        )
        joined.shadows.begin([])
        watches = []
        for launch in self.launches:
            program = launch.loaded.program
            masks = constant_masks(program, launch.ptx) if "synccheck" in launch.checker.checks else None
            kernel = traced(launch.loaded, launch.context, masks, policies=False, mbarriers=unrecorded(program))
            checks = set(launch.checker.checks) - {"schedcheck"}
            watch = Watch(launch, kernel, checks, joined)
            joined.watches.append(watch)
            watches.append(watch)
            self._executions.append(CheckedExecution(launch.context, kernel, launch.resident_blocks, watch))
        try:
            return run_grids(self._executions, self._among)
        except ExecutionError as error:
            failed = [grid.failed is error for grid in self._executions]
            self.launches[failed.index(True)].report(error)
            raise
        finally:
            verdict = Verdict(None, NOT_TRIED)
            for launch, watch in zip(self.launches, watches, strict=True):
                launch.checker.add(replace(finding) for finding in watch.findings(verdict))
