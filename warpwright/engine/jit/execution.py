"""A functional launch in compiled code: host threads that share the grid, and stops told as errors."""

from __future__ import annotations

import os
import threading

import numpy as np

from warpwright.engine.abi import Status
from warpwright.engine.execute import Cancelled, Counts
from warpwright.engine.faults import Stop, WaitingWarp, deadlock_error, fault_error, trap_error
from warpwright.engine.jit.compile import CompiledKernel
from warpwright.engine.jit.workspace import Outcome, WarpState, Workspace
from warpwright.engine.launch import LaunchContext
from warpwright.errors import ExecutionError

BLOCKS_PER_THREAD = 4
"""A launch with fewer blocks than this for each further host thread uses fewer threads."""


class CompiledExecution:
    """One functional launch.

    Args:
        context: the launch structure.
        kernel: compiled for the launch's block shape, without trace.
        resident_blocks: how many blocks the chip holds at once.
        threads: host threads; by default as many as the process may use.
    """

    def __init__(
        self, context: LaunchContext, kernel: CompiledKernel, resident_blocks: int, threads: int | None = None
    ) -> None:
        self.context = context
        self.kernel = kernel
        blocks = context.geometry.blocks
        if threads is None:
            threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.threads = max(1, min(threads, blocks // BLOCKS_PER_THREAD))
        self.resident_blocks = max(1, min(resident_blocks, blocks))
        self.counts = Counts()

    def run(self) -> Counts:
        """Run every block.

        Raises:
            Cancelled: when the launch structure's ``cancel`` was set.
            ExecutionError: a fault, trap or deadlock; with several host threads the one of the lowest block.
        """
        context = self.context
        shared = context.program.shared_static_bytes + context.geometry.dynamic_shared_bytes
        local = context["local_bytes_per_thread"]
        blocks = context.geometry.blocks
        rooms = [Workspace(self.kernel, shared, local, self.resident_blocks) for _ in range(self.threads)]
        if self.threads == 1:
            outcomes = [rooms[0].run(context.address, 0, blocks)]
        else:
            counter = np.zeros(1, dtype=np.int64)
            found: list[Outcome | None] = [None] * self.threads

            def work(n: int) -> None:
                outcome = rooms[n].run(context.address, 0, blocks, int(counter.ctypes.data))
                found[n] = outcome
                if outcome.status is not Status.EXIT:
                    # The launch is lost: the others stop where they next look.
                    counter[0] = blocks

            helpers = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(1, self.threads)]
            for helper in helpers:
                helper.start()
            work(0)
            for helper in helpers:
                helper.join()
            outcomes = [o for o in found if o is not None]
        for outcome in outcomes:
            self.counts.blocks_done += outcome.blocks_done
            self.counts.warp_instructions += outcome.warp_instructions
            self.counts.thread_instructions += outcome.thread_instructions
        stopped = [o for o in outcomes if o.status is not Status.EXIT]
        if stopped:
            raise self._error(min(stopped, key=lambda o: o.block_index[::-1]))
        if any(o.cancelled for o in outcomes):
            raise Cancelled
        return self.counts

    def _error(self, outcome: Outcome) -> ExecutionError:
        context = self.context
        program, geometry = context.program, context.geometry
        if outcome.status is Status.DEADLOCK:
            return deadlock_error(program, geometry, outcome.block_index, [_waiting(w) for w in outcome.warps])
        warp = outcome.stopped
        assert warp is not None
        stop = Stop(
            block=outcome.block_index,
            warp_in_block=warp.warp_in_block,
            lanes=warp["fault_lanes"] & 0xFFFFFFFF,
            instruction=warp["fault_instruction"],
            kind=warp["fault_kind"],
            address=warp["fault_address"],
            bytes=warp["fault_bytes"],
        )
        if outcome.status is Status.TRAP:
            return trap_error(program, geometry, stop)
        shared = program.shared_static_bytes + geometry.dynamic_shared_bytes
        return fault_error(program, geometry, context.memory, stop, shared)


def _waiting(warp: WarpState) -> WaitingWarp:
    state = {"exited": "exited", "barrier": "barrier"}.get(warp.state, "converge")
    lanes = warp["barrier_lanes"] if state == "barrier" else warp["fault_lanes"]
    return WaitingWarp(
        warp.warp_in_block,
        state,
        warp["barrier_id"] & 15,
        warp["barrier_threads"],
        warp["fault_instruction"] or -1,
        lanes & 0xFFFFFFFF,
    )
