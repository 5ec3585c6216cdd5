"""Runs a launch in the NumPy interpreter: a second opinion on compiled code, with the same errors."""

from __future__ import annotations

import copy
from typing import Any

from warpwright.engine.abi import Status
from warpwright.engine.constant_bank0 import shared_bytes
from warpwright.engine.cycle_detection import Recurrence, memory_digest
from warpwright.engine.execute import Cancelled, Counts
from warpwright.engine.faults import (
    Stop,
    WaitingWarp,
    deadlock_error,
    fault_error,
    positions,
    trap_error,
)
from warpwright.engine.interpreter import ClusterState, Environment, Kernel, Launch, Outcome
from warpwright.engine.interpreter.gather_scatter import global_memory
from warpwright.engine.interpreter.grid import PASSES_BEFORE_NEXT_BLOCK, BlockRun, runs_of
from warpwright.engine.interpreter.livelock import FIRST_PASS, groups_of, memories, warps_digest
from warpwright.engine.lane_positions import Group, StandingBlock
from warpwright.engine.launch import LaunchContext
from warpwright.engine.standstill import standstill_error
from warpwright.errors import ExecutionError


class InterpretedExecution:
    """One functional launch in the interpreter.

    Args:
        context: the launch structure.
        kernel: the lowered program.
        resident_blocks: number of blocks that the chip holds at once.
        judged: whether to end a launch that returns to an earlier state.
    """

    def __init__(self, context: LaunchContext, kernel: Kernel, resident_blocks: int, judged: bool) -> None:
        self.context = context
        self.kernel = kernel
        self.resident_blocks = max(1, resident_blocks)
        self.judged = judged
        self.launch = Launch(
            kernel,
            context.geometry,
            global_memory(context.memory),
            context.banks,
            Environment(context["sm_count"], context.sms, context.services, context.textures),
        )
        self.counts = Counts()
        self.resident: list[BlockRun] = []
        self.following = 0
        """Number of clusters that have become resident so far."""
        self._fruitless = 0
        self._left: list[BlockRun] = []
        """Blocks that have not yet had their turn in this pass."""
        self._past = Recurrence(FIRST_PASS)

    @property
    def blocks_done(self) -> int:
        """Blocks that have ended so far."""
        return self.counts.blocks_done

    def run(self) -> Counts:
        """Run every block in sequence; further blocks join if the resident ones only spin.

        Raises:
            Cancelled: if the launch structure's ``cancel`` was set.
            ExecutionError: a fault, trap or deadlock.
        """
        while self.advance():
            pass
        return self.counts

    def advance(self) -> bool:
        """Give each resident block a turn, and let one more join if allowed; returns False once every block has ended.

        Raises:
            Paused: if the launch is watched and a warp was stopped; the next call continues with it.
        """
        if not self._left and not self._begin_pass():
            return False
        while self._left:
            run = self._left[0]
            if self.context.cancelled:
                where = positions(self.context.program, run.block.index, _standing(run), len(self.resident))
                raise Cancelled(where)
            outcome = run.step()
            del self._left[0]
            if outcome is None:
                continue
            self._fruitless = 0
            self.resident.remove(run)
            self.counts.blocks_done += 1
            self.counts.warp_instructions += outcome.instructions
            self.counts.thread_instructions += outcome.thread_instructions
            if outcome.status is not Status.EXIT:
                raise self.error_of(outcome)
        if self.judged and self.resident:
            self._judge()
        return True

    def _begin_pass(self) -> bool:
        together = self.context.geometry.cluster_blocks
        room = len(self.resident) + together <= self.resident_blocks
        may_join = not self.resident or (self._fruitless >= PASSES_BEFORE_NEXT_BLOCK and room)
        if may_join and self.following < self.context.geometry.blocks // together:
            self.resident.extend(runs_of(ClusterState(self.launch, self.following)))
            self.following += 1
            self._fruitless = 0
        self._fruitless += 1
        self._left = list(self.resident)
        return bool(self.resident)

    def _judge(self) -> None:
        def warps() -> bytes:
            return warps_digest(self.resident)

        def memory() -> bytes:
            return memory_digest(self.context.memory, memories(self.resident))

        if self._past.found(self._fruitless, warps, memory):
            geometry = self.context.geometry
            standing = [StandingBlock(run.block.index, _standing(run)) for run in self.resident]
            raise standstill_error(self.context, standing, geometry.blocks - self.following * geometry.cluster_blocks)

    def state(self) -> tuple[Any, ...]:
        """The state of every resident warp and the progress of the launch, without global memory; for
        :meth:`become`."""
        runs = (self.resident, self._left)
        return copy.deepcopy((*runs, self.following, self._fruitless, self.counts, self.launch.clock))

    def become(self, state: tuple[Any, ...]) -> None:
        """Restore the warps to a saved state."""
        self.resident, self._left, self.following, self._fruitless, self.counts, self.launch.clock = copy.deepcopy(
            state
        )
        self._past = Recurrence(FIRST_PASS)

    def error_of(self, outcome: Outcome) -> ExecutionError:
        """The exception for a block that ended with an error."""
        context = self.context
        program, geometry = context.program, context.geometry
        if outcome.status is Status.DEADLOCK:
            waits = [
                WaitingWarp(w.warp_in_block, w.state, w.barrier, w.barrier_threads, w.instruction, w.lanes)
                for w in outcome.waits
            ]
            return deadlock_error(program, outcome.block, waits, outcome.arrived)
        fault = outcome.fault
        assert fault is not None
        stop = Stop(
            outcome.block,
            outcome.warp_in_block,
            fault.lanes,
            fault.instruction,
            int(fault.kind),
            fault.address,
            fault.bytes,
        )
        if outcome.status is Status.TRAP:
            return trap_error(program, geometry, stop)
        return fault_error(program, geometry, context.memory, stop, shared_bytes(program, geometry))


def _standing(run: BlockRun) -> list[tuple[int, list[Group]]]:
    """The numbers of a block's warps, and the positions of their lanes."""
    return [(w.warp_in_block, groups_of(w)) for w in run.block.warps]
