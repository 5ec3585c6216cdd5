"""Runs blocks of a grid in the interpreter, warp by warp."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from warpwright.engine.abi import Status
from warpwright.engine.geometry import Dim3
from warpwright.engine.interpreter.cluster import BlockState, ClusterState
from warpwright.engine.interpreter.convergence import AT_BARRIER, AT_CLUSTER
from warpwright.engine.interpreter.gather_scatter import mask_bits
from warpwright.engine.interpreter.stack import run_stacked
from warpwright.engine.interpreter.volta import run_groups
from warpwright.engine.interpreter.warp import Fault, Launch, OverLimit, Paused, Stopped, WarpState

PASSES_BEFORE_NEXT_BLOCK = 32
"""Number of passes without progress over the resident blocks before another block becomes resident."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A warp that cannot continue: why and where."""

    warp_in_block: int
    state: str
    """``exited``, ``barrier``, ``cluster`` or ``converge``."""
    barrier: int
    barrier_threads: int
    instruction: int
    lanes: int


@dataclass(slots=True)
class Outcome:
    """The outcome of a launch or a block."""

    status: Status
    """EXIT, FAULT, TRAP, DEADLOCK or YIELD (the instruction limit was reached)."""
    block: Dim3 = (0, 0, 0)
    warp_in_block: int = 0
    fault: Fault | None = None
    waits: list[Wait] = field(default_factory=list)
    """For a deadlock: every warp of the block."""
    arrived: list[int] = field(default_factory=list)
    """Threads that have arrived at each named barrier of the block."""
    instructions: int = 0
    """Warp-instructions executed."""
    thread_instructions: int = 0


def run_warp(w: WarpState) -> Status:
    """Run a warp until it exits, waits at a block barrier, yields to other warps, faults or deadlocks.

    Raises:
        Paused: the launch is watched; the next call continues with the instruction before which the warp was stopped.
    """
    stacked = w.launch.kernel.stacked
    with np.errstate(all="ignore"):
        try:
            status = run_stacked(w) if stacked else run_groups(w)
        except Stopped as stopped:
            status = stopped.status
        except Paused as pause:
            if stacked:
                w.pcs[w.running] = pause.index
            else:
                w.going = pause.index, pause.lanes
            raise
    w.turn_back_edges = 0
    return status


class BlockRun:
    """A running block: every call of :meth:`step` runs each of its warps once."""

    def __init__(self, block: BlockState) -> None:
        self.block = block
        self.cluster = [self]
        """The other running blocks of its cluster."""
        self.statuses = [Status.YIELD] * len(block.warps)
        self.stuck = False
        """No warp can continue unless another block of the cluster does."""
        self.turn = 0
        """The next warp to run in this pass."""

    def step(self) -> Outcome | None:
        """Run each warp that can continue until it stops; returns the outcome once the block has ended.

        Raises:
            Paused: if a warp was stopped in the middle; the next call continues with it.
        """
        block = self.block
        while self.turn < len(block.warps):
            n, warp = self.turn, block.warps[self.turn]
            if self.statuses[n] in (Status.EXIT, Status.DEADLOCK, Status.BARRIER):
                self.turn += 1
                continue
            status = run_warp(warp)
            self.turn += 1
            limits = block.launch.limits
            if limits is not None:
                warp.check_limits(limits)
                if status is Status.YIELD and warp.gave_way_at < 0:
                    raise OverLimit
            self.statuses[n] = status
            if status is Status.BARRIER:
                block.complete_counts()
            if status in (Status.FAULT, Status.TRAP):
                return self.outcome(status, n)
        self.turn = 0
        if all(s is Status.EXIT for s in self.statuses):
            block.ended = True
            return self.outcome(Status.EXIT, 0)
        if block.complete_barriers():
            self.wake()
        elif block.cluster.complete_barrier():
            for run in self.cluster:
                run.wake()
        elif not any(s is Status.YIELD for s in self.statuses):
            waits = any((warp.waiting == AT_CLUSTER).any() for warp in block.warps)
            self.stuck = True
            if not waits or all(run.stuck or run.block.ended for run in self.cluster):
                first = next(n for n, s in enumerate(self.statuses) if s is not Status.EXIT)
                return self.outcome(Status.DEADLOCK, first)
        return None

    def wake(self) -> None:
        """Let warps that waited at a barrier run."""
        self.stuck = False
        self.statuses = [Status.YIELD if s in (Status.BARRIER, Status.DEADLOCK) else s for s in self.statuses]

    def outcome(self, status: Status, warp: int) -> Outcome:
        block = self.block
        stand = zip(block.warps, self.statuses, strict=True) if status is Status.DEADLOCK else ()
        return Outcome(
            status,
            block.index,
            warp,
            block.warps[warp].fault,
            [describe_wait(w, s) for w, s in stand],
            list(block.arrived),
            sum(w.instructions for w in block.warps),
            sum(w.thread_instructions for w in block.warps),
        )


def runs_of(cluster: ClusterState) -> list[BlockRun]:
    """A run for each block of a cluster."""
    found = [BlockRun(block) for block in cluster.blocks]
    for run in found:
        run.cluster = found
    return found


def describe_wait(w: WarpState, status: Status) -> Wait:
    """Why a warp of a deadlocked block waits."""
    if status is Status.EXIT:
        return Wait(w.warp_in_block, "exited", 0, 0, -1, 0)
    for_cluster = bool((w.waiting == AT_CLUSTER).any())
    kind = AT_CLUSTER if for_cluster else AT_BARRIER if status is Status.BARRIER else -1
    lanes = ~w.exited if kind == -1 else w.waiting == kind
    first = int(lanes.argmax())
    place = w.launch.kernel.addresses[int(w.pcs[first])]
    state = {AT_BARRIER: "barrier", AT_CLUSTER: "cluster"}.get(kind, "converge")
    return Wait(
        w.warp_in_block, state, int(w.barrier_id[first]), int(w.barrier_threads[first]), place, mask_bits(lanes)
    )


def run_block(launch: Launch, index: Dim3, trace: bool = False) -> tuple[Outcome, BlockState]:
    """Run one block (in a launch without clusters) to its end; with ``trace`` each warp keeps its records in
    ``trace``."""
    x, y, _ = launch.geometry.grid
    block = ClusterState(launch, index[0] + x * (index[1] + y * index[2]), trace).blocks[0]
    run = BlockRun(block)
    while True:
        outcome = run.step()
        if outcome is not None:
            return outcome, block


def run_grid(launch: Launch, resident_blocks: int = 1 << 30, instruction_limit: int | None = None) -> Outcome:
    """Run every block in order of its index.

    One block (or cluster) is resident at first; another joins whenever the resident ones only spin, up to
    ``resident_blocks``, so that blocks may wait for each other.  The first block that ends with an error ends the
    launch.
    """
    pending = iter(range(launch.geometry.blocks // launch.geometry.cluster_blocks))
    resident: list[BlockRun] = []
    total = Outcome(Status.EXIT)
    fruitless = 0
    while True:
        if not resident or (fruitless >= PASSES_BEFORE_NEXT_BLOCK and len(resident) < resident_blocks):
            number = next(pending, None)
            if number is not None:
                resident += runs_of(ClusterState(launch, number))
                fruitless = 0
            elif not resident:
                return total
        fruitless += 1
        for run in list(resident):
            outcome = run.step()
            if outcome is None:
                continue
            fruitless = 0
            resident.remove(run)
            total.instructions += outcome.instructions
            total.thread_instructions += outcome.thread_instructions
            if outcome.status is not Status.EXIT:
                outcome.instructions = total.instructions
                outcome.thread_instructions = total.thread_instructions
                return outcome
        if instruction_limit is not None and launch.clock > instruction_limit:
            total.status = Status.YIELD
            return total
