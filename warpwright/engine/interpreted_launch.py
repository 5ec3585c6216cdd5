"""Runs a launch in the NumPy interpreter: a second opinion on compiled code, with the same errors."""

from __future__ import annotations

from warpwright.engine.abi import Status
from warpwright.engine.cycle_detection import Recurrence, memory_digest
from warpwright.engine.execute import Cancelled, Counts
from warpwright.engine.faults import (
    Stop,
    WaitingWarp,
    deadlock_error,
    fault_error,
    positions,
    standstill_error,
    trap_error,
)
from warpwright.engine.interpreter import ClusterState, Kernel, Launch, Outcome
from warpwright.engine.interpreter.gather_scatter import global_memory
from warpwright.engine.interpreter.grid import PASSES_BEFORE_NEXT_BLOCK, BlockRun, runs_of
from warpwright.engine.interpreter.livelock import FIRST_PASS, groups_of, memories, warps_digest
from warpwright.engine.lane_positions import Group
from warpwright.engine.launch import LaunchContext, shared_bytes
from warpwright.errors import ExecutionError


class InterpretedExecution:
    """One functional launch in the interpreter.

    Args:
        context: the launch structure.
        kernel: the lowered program.
        resident_blocks: how many blocks the chip holds at once.
        judged: end a launch that comes back to a state that it was in.
    """

    def __init__(self, context: LaunchContext, kernel: Kernel, resident_blocks: int, judged: bool) -> None:
        self.context = context
        self.kernel = kernel
        self.resident_blocks = max(1, resident_blocks)
        self.judged = judged
        self.counts = Counts()

    @property
    def blocks_done(self) -> int:
        """Blocks that have ended so far."""
        return self.counts.blocks_done

    def run(self) -> Counts:
        """Run every block, one after the other; further ones join when those that run only spin.

        Raises:
            Cancelled: when the launch structure's ``cancel`` was set.
            ExecutionError: a fault, trap or deadlock.
        """
        context = self.context
        launch = Launch(
            self.kernel,
            context.geometry,
            global_memory(context.memory),
            context.banks,
            context["sm_count"],
            context.services,
            context.textures,
            context.sms,
        )
        resident: list[BlockRun] = []
        following, fruitless = 0, 0
        past = Recurrence(FIRST_PASS)
        together = context.geometry.cluster_blocks
        clusters = context.geometry.blocks // together
        while following < clusters or resident:
            room = len(resident) + together <= self.resident_blocks
            may_join = not resident or (fruitless >= PASSES_BEFORE_NEXT_BLOCK and room)
            if may_join and following < clusters:
                resident.extend(runs_of(ClusterState(launch, following)))
                following += 1
                fruitless = 0
            fruitless += 1
            for run in tuple(resident):
                if context.cancelled:
                    raise Cancelled(positions(context.program, run.block.index, _standing(run), len(resident)))
                outcome = run.step()
                if outcome is None:
                    continue
                fruitless = 0
                resident.remove(run)
                self.counts.blocks_done += 1
                self.counts.warp_instructions += outcome.instructions
                self.counts.thread_instructions += outcome.thread_instructions
                if outcome.status is not Status.EXIT:
                    raise self._error(outcome)
            if (
                self.judged
                and resident
                and past.found(
                    fruitless, lambda: warps_digest(resident), lambda: memory_digest(context.memory, memories(resident))
                )
            ):
                first = resident[0]
                raise standstill_error(context.program, first.block.index, _standing(first), len(resident))
        return self.counts

    def _error(self, outcome: Outcome) -> ExecutionError:
        context = self.context
        program, geometry = context.program, context.geometry
        if outcome.status is Status.DEADLOCK:
            waits = [
                WaitingWarp(w.warp_in_block, w.state, w.barrier, w.barrier_threads, w.instruction, w.lanes)
                for w in outcome.waits
            ]
            return deadlock_error(program, geometry, outcome.block, waits)
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
    """The numbers of a block's warps, and where their lanes are."""
    return [(w.warp_in_block, groups_of(w)) for w in run.block.warps]
