"""Runs a launch in compiled code without timing, on one host thread, or on several if the result cannot depend on it.

Threads draw blocks in order from one counter.  More than one thread is used only if requested, and only for kernels
without atomics or volatile accesses to global memory, because the blocks of other kernels may communicate, so that
their order matters.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from warpwright.engine.abi import Status
from warpwright.engine.constant_bank0 import is_cooperative, shared_bytes, stack_bytes
from warpwright.engine.execute import Cancelled, Counts
from warpwright.engine.faults import (
    Stop,
    WaitingWarp,
    deadlock_error,
    fault_error,
    positions,
    trap_error,
    wrap_error,
)
from warpwright.engine.jit.codegen import CompiledKernel
from warpwright.engine.jit.workspace import Outcome, Workspace
from warpwright.engine.launch import LaunchContext, aligned_words
from warpwright.engine.standstill import standstill_error
from warpwright.errors import ExecutionError, IllegalInstructionError, UnsupportedError


def _clock_of_this_thread() -> Callable[[], float]:
    """Its CPU time, which other threads may read too, in seconds: on a busy machine it is much less than the time that passes."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.perf_counter
    clock = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(clock)


class CompiledExecution:
    """One functional launch in compiled code.

    Args:
        context: the launch structure.
        kernel: compiled for the launch's block shape, without tracing.
        resident_blocks: number of blocks that the chip holds at once.
        threads: host threads.
    """

    def __init__(self, context: LaunchContext, kernel: CompiledKernel, resident_blocks: int, threads: int) -> None:
        self.context = context
        self.kernel = kernel
        geometry, program = context.geometry, context.program
        self.threads = min(threads, geometry.blocks // geometry.cluster_blocks)
        shared = context.shared_bytes
        slots = max(geometry.cluster_blocks, min(resident_blocks, geometry.blocks))
        self.spaces = [Workspace.take(kernel, shared, stack_bytes(program), slots) for _ in range(self.threads)]
        self._ended = 0
        self._clock: Callable[[], float] = time.perf_counter
        self._began = 0.0

    @property
    def blocks_done(self) -> int:
        """Blocks that have ended so far."""
        return self._ended + sum(space.blocks_done for space in self.spaces)

    def run(self, first: int = 0) -> Counts:
        """Run every block from number ``first`` on, once; raises as ``run_range`` does."""
        geometry = self.context.geometry
        total = self.run_range(first, geometry.blocks // geometry.cluster_blocks - first)
        spaces, self.spaces, self._ended = self.spaces, [], total.blocks_done
        for space in spaces:
            space.give_back()
        return total

    def run_range(self, first: int, count: int) -> Counts:
        """Run ``count`` blocks (or clusters, in launches with clusters) from the linear number ``first`` on.

        Raises:
            Cancelled: when the launch structure's ``cancel`` was set.
            ExecutionError: a fault, trap or deadlock.
        """
        self._clock = _clock_of_this_thread() if self.threads == 1 else time.perf_counter
        self._began = self._clock()
        outcomes = (
            self._run_threads(first, count)
            if self.threads > 1
            else [self.spaces[0].run(self.context.address, first, count, together=self._together(count))]
        )
        if self.kernel.improvement is not None:
            self.kernel.improvement.ran_seconds += self._clock() - self._began
            self.kernel.improvement.begin_if_due()
        cancelled = [o for o in outcomes if o.cancelled]
        if cancelled:
            told = min(cancelled, key=lambda o: (not o.warps, o.block_index[::-1]))
            resident = sum(o.resident_blocks for o in cancelled)
            raise Cancelled(positions(self.context.program, told.block_index, told.positions(), resident))
        if self.kernel.whole is not None and self.kernel.whole.failure is not None:
            raise self.kernel.whole.failure
        stopped = [o for o in outcomes if o.status is not Status.EXIT]
        if stopped:
            # Threads draw blocks in order, so the lowest failing block is the same for any number of threads.
            raise stop_error(self.context, min(stopped, key=lambda o: o.block_index[::-1]))
        total = Counts()
        for o in outcomes:
            total.warp_instructions += o.warp_instructions
            total.thread_instructions += o.thread_instructions
            total.blocks_done += o.blocks_done
        return total

    def improve_if_long(self) -> None:
        """Called now and then while it runs, by another thread: has optimised code made for a kernel that runs for long."""

        def renew() -> None:
            for space in self.spaces:
                space.renew()

        if self.kernel.improvement is not None and self._began:
            self.kernel.improvement.begin_if_due(self._clock() - self._began, renew)

    def _together(self, count: int) -> int:
        """Number of blocks that become resident at the start: all ``count`` if the kernel has a grid barrier."""
        return count if is_cooperative(self.context.program) else 1

    def _run_threads(self, first: int, count: int) -> list[Outcome]:
        counter = aligned_words(64)
        counter[0] = first
        outcomes: list[Outcome] = []
        failures: list[BaseException] = []

        def work(space: Workspace) -> None:
            try:
                outcomes.append(space.run(self.context.address, first, count, int(counter.ctypes.data)))
            except BaseException as failure:
                failures.append(failure)

        workers = [threading.Thread(target=work, args=(s,), name="warpwright blocks") for s in self.spaces]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if failures:
            raise failures[0]
        return outcomes


def stop_error(context: LaunchContext, outcome: Outcome) -> ExecutionError | UnsupportedError:
    """The exception for a run of blocks that did not complete."""
    program, geometry = context.program, context.geometry
    block = outcome.block_index
    if outcome.status is Status.DEADLOCK:
        waits = []
        for w in outcome.warps:
            state = w.state if w.state in ("barrier", "exited", "cluster") else "converge"
            lanes = w["barrier_lanes"] if state in ("barrier", "cluster") else w["lanes"] & ~w["exited"]
            waits.append(
                WaitingWarp(
                    w.warp_in_block,
                    state,
                    w["barrier_id"] & 15 if state == "barrier" else 0,
                    w["barrier_threads"] if state == "barrier" else 0,
                    w["fault_instruction"] if w["fault_instruction"] else -1,
                    lanes & (1 << program.lanes) - 1,
                )
            )
        return deadlock_error(program, block, waits, outcome.arrived)
    if outcome.status is Status.STANDSTILL:
        return standstill_error(context, outcome.standing, outcome.waiting * geometry.cluster_blocks)
    warp = outcome.stopped
    if warp is None:
        return IllegalInstructionError(f"kernel {program.name} stopped with status {outcome.status.name}")
    stop = Stop(
        block,
        warp.warp_in_block,
        warp["fault_lanes"] & (1 << program.lanes) - 1,
        warp["fault_instruction"],
        warp["fault_kind"],
        warp["fault_address"],
        warp["fault_bytes"],
    )
    if outcome.status is Status.INTERPRET:
        return wrap_error(program, geometry, stop)
    if outcome.status is Status.TRAP:
        return trap_error(program, geometry, stop)
    if outcome.status is Status.FAULT:
        return fault_error(program, geometry, context.memory, stop, shared_bytes(program, geometry))
    return IllegalInstructionError(
        f"kernel {program.name}: a warp stopped with status {outcome.status.name}, which has no place here"
    )
