"""Running a launch without time: blocks one after the other, warps of a block in turn, until every thread has ended.

A block runs alone as long as it can go on.  When all of its warps only spin (a lock or a flag that another block must
write, a grid barrier), further blocks are started and take turns with it, up to what the chip holds at once, as on the
chip.  A block whose warps all wait for what cannot come is a deadlock and is reported with who waits for what.

The order is fixed, so that a launch gives the same result every time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from warpwright.engine.abi import BLOCK, WARP, Status
from warpwright.engine.faults import Stop, WaitingWarp, deadlock_error, fault_error, trap_error
from warpwright.engine.launch import WARP_THREADS, Dim3, LaunchContext, Words, aligned_words
from warpwright.errors import ExecutionError, IllegalInstructionError

SPIN_ROUNDS = 32
"""Rounds in which every warp of a block only yields before another block is started beside it."""
BARRIER_ARRIVE = 1
BARRIER_POPC, BARRIER_AND, BARRIER_OR = 2, 3, 4

WarpFunction = Callable[[int], int]
"""Runs the warp at a host pointer until it stops; returns a :class:`Status`."""


class Cancelled(Exception):
    """The launch was cancelled by the host."""


class WarpRunner(Protocol):
    """What executes warps: compiled code or the interpreter."""

    spill_bytes: int

    def run_warp(self, warp: int) -> int: ...


@dataclass(slots=True)
class Counts:
    """What a functional launch counted."""

    warp_instructions: int = 0
    thread_instructions: int = 0
    blocks_done: int = 0


@dataclass(slots=True)
class ResidentBlock:
    """One block with its structures; warps are rows of ``warp_words``."""

    index: Dim3
    words: Words
    warp_words: Words
    """Shape (warps, words of WARP)."""
    shared: Words
    local: Words
    spill: Words
    waiting: list[bool] = field(default_factory=list)
    ended: list[bool] = field(default_factory=list)
    stuck: list[bool] = field(default_factory=list)
    """Warps whose own lanes wait for each other."""
    spins: int = 0

    def field_of(self, warp: int, name: str) -> int:
        return int(self.warp_words[warp, WARP.slot(name)])

    def unsigned(self, warp: int, name: str) -> int:
        return int(self.warp_words[warp, WARP.slot(name)]) & 0xFFFF_FFFF_FFFF_FFFF

    @property
    def done(self) -> bool:
        return all(self.ended)


def block_index(linear: int, grid: Dim3) -> Dim3:
    """blockIdx of the linear-th block."""
    return linear % grid[0], linear // grid[0] % grid[1], linear // (grid[0] * grid[1])


class Execution:
    """One functional launch.

    Args:
        context: the launch structure with program, geometry and memory.
        runner: executes warps.
        resident_blocks: how many blocks the chip holds at once.
    """

    def __init__(self, context: LaunchContext, runner: WarpRunner, resident_blocks: int) -> None:
        self.context = context
        self.runner = runner
        self.resident_blocks = max(1, resident_blocks)
        self.counts = Counts()
        geometry, program = context.geometry, context.program
        self.warps = geometry.warps_per_block
        self.shared_bytes = program.shared_static_bytes + geometry.dynamic_shared_bytes
        self._free: list[ResidentBlock] = []

    # --- one block's structures -------------------------------------------------------------------
    def _make(self) -> ResidentBlock:
        warps, row = self.warps, WARP.size_bytes // 8
        local_bytes = self.context["local_bytes_per_thread"] * WARP_THREADS
        spill_bytes = (self.runner.spill_bytes + 63) // 64 * 64
        block = ResidentBlock(
            (0, 0, 0),
            aligned_words(BLOCK.size_bytes),
            aligned_words(WARP.size_bytes * warps).reshape(warps, row),
            aligned_words((self.shared_bytes + 127) // 64 * 64),
            aligned_words(local_bytes * warps + 64),
            aligned_words(spill_bytes * warps + 64),
        )
        block.words[BLOCK.slot("shared_base")] = block.shared.ctypes.data
        block.words[BLOCK.slot("shared_bytes")] = self.shared_bytes
        block.words[BLOCK.slot("warps")] = block.warp_words.ctypes.data
        block.words[BLOCK.slot("warp_count")] = warps
        threads = self.context.geometry.threads_per_block
        for w in range(warps):
            own = block.warp_words[w]
            own[WARP.slot("launch")] = self.context.address
            own[WARP.slot("block")] = block.words.ctypes.data
            own[WARP.slot("warp_in_block")] = w
            own[WARP.slot("lanes")] = (1 << min(WARP_THREADS, threads - w * WARP_THREADS)) - 1
            own[WARP.slot("local_base")] = block.local.ctypes.data + w * local_bytes
            own[WARP.slot("spill")] = block.spill.ctypes.data + w * spill_bytes
        return block

    def _start(self, linear: int) -> ResidentBlock:
        block = self._free.pop() if self._free else self._make()
        block.index = block_index(linear, self.context.geometry.grid)
        for name, value in zip(("index_x", "index_y", "index_z"), block.index, strict=True):
            block.words[BLOCK.slot(name)] = value
        block.words[BLOCK.slot("linear_index")] = linear
        first = BLOCK.slot("barriers")
        block.words[first : first + 32] = 0
        fresh = slice(WARP.slot("resume"), WARP.slot("exited") + 1)
        block.warp_words[:, fresh] = 0
        block.warp_words[:, WARP.slot("barrier_id") : WARP.slot("sm_id")] = 0
        block.warp_words[:, WARP.slot("sm_id")] = linear % max(1, self.context["sm_count"])
        block.shared[:] = 0
        block.waiting = [False] * self.warps
        block.ended = [False] * self.warps
        block.stuck = [False] * self.warps
        block.spins = 0
        return block

    # --- running ----------------------------------------------------------------------------------
    def run(self) -> Counts:
        """Run every block.

        Raises:
            Cancelled: when the launch structure's ``cancel`` was set.
            ExecutionError: a fault, trap or deadlock.
        """
        total = self.context.geometry.blocks
        active: list[ResidentBlock] = []
        following = 0
        while following < total or active:
            spinning = all(b.spins >= SPIN_ROUNDS for b in active)
            if following < total and (not active or (spinning and len(active) < self.resident_blocks)):
                active.append(self._start(following))
                following += 1
                for b in active:
                    b.spins = 0
            for block in tuple(active):
                self._turn(block)
                if block.done:
                    active.remove(block)
                    self._finish(block)
        return self.counts

    def _finish(self, block: ResidentBlock) -> None:
        self.counts.blocks_done += 1
        self.counts.warp_instructions += int(block.warp_words[:, WARP.slot("instructions")].sum())
        self.counts.thread_instructions += int(block.warp_words[:, WARP.slot("thread_instructions")].sum())
        self._free.append(block)

    def _turn(self, block: ResidentBlock) -> None:
        """Run each warp of a block once, as far as it goes; a block that only yields counts a spin."""
        progressed = False
        while True:
            ran = False
            for w in range(self.warps):
                if block.ended[w] or block.waiting[w] or block.stuck[w]:
                    continue
                ran = True
                progressed |= self._step(block, w)
            progressed |= self._release_barriers(block)
            if block.done:
                return
            if not ran and not progressed:
                self._report_deadlock(block)
            if not progressed:
                block.spins += 1
                return
            block.spins = 0
            progressed = False

    def _step(self, block: ResidentBlock, w: int) -> bool:
        """Run one warp until it stops; true unless it only yielded."""
        if self.context.cancelled:
            raise Cancelled
        status = self.runner.run_warp(int(block.warp_words[w].ctypes.data))
        if self.context.cancelled:
            raise Cancelled
        if status == Status.EXIT:
            block.ended[w] = True
            return True
        if status == Status.BARRIER:
            self._arrive(block, w)
            return True
        if status in (Status.YIELD, Status.SLEEP):
            return False
        if status == Status.DEADLOCK:
            block.stuck[w] = True
            return True
        raise self._error(block, w, status)

    def _error(self, block: ResidentBlock, w: int, status: int) -> ExecutionError:
        context = self.context
        stop = Stop(
            block=block.index,
            warp_in_block=w,
            lanes=block.unsigned(w, "fault_lanes") & 0xFFFF_FFFF,
            instruction=block.unsigned(w, "fault_instruction"),
            kind=block.field_of(w, "fault_kind"),
            address=block.unsigned(w, "fault_address"),
            bytes=block.field_of(w, "fault_bytes"),
        )
        if status == Status.FAULT:
            return fault_error(context.program, context.geometry, context.memory, stop, self.shared_bytes)
        if status == Status.TRAP:
            return trap_error(context.program, context.geometry, stop)
        return IllegalInstructionError(
            f"kernel {context.program.name}: a warp stopped with status {Status(status).name}, which has no place here"
        )

    # --- barriers ---------------------------------------------------------------------------------
    def _arrive(self, block: ResidentBlock, w: int) -> None:
        number = block.field_of(w, "barrier_id") & 15
        lanes = block.unsigned(w, "barrier_lanes") & 0xFFFF_FFFF
        vote = block.unsigned(w, "barrier_vote") & lanes
        mode = block.field_of(w, "barrier_mode")
        block.words[BLOCK.slot("barriers") + number] += lanes.bit_count()
        # For "and" the running count is of lanes that said no, so that zero means all.
        counted = lanes.bit_count() - vote.bit_count() if mode == BARRIER_AND else vote.bit_count()
        block.words[BLOCK.slot("votes") + number] += counted
        block.waiting[w] = mode != BARRIER_ARRIVE

    def _live_threads(self, block: ResidentBlock) -> int:
        lanes, exited = WARP.slot("lanes"), WARP.slot("exited")
        return sum(
            (int(row[lanes]) & ~int(row[exited]) & 0xFFFF_FFFF).bit_count()
            for row, ended in zip(block.warp_words, block.ended, strict=True)
            if not ended
        )

    def _release_barriers(self, block: ResidentBlock) -> bool:
        """Complete every barrier that all of its threads have reached; true when there was one."""
        released = False
        for number in {block.field_of(w, "barrier_id") & 15 for w in range(self.warps) if block.waiting[w]}:
            members = [
                w for w in range(self.warps) if block.waiting[w] and block.field_of(w, "barrier_id") & 15 == number
            ]
            expected = max(block.field_of(w, "barrier_threads") for w in members) or self._live_threads(block)
            if int(block.words[BLOCK.slot("barriers") + number]) < expected:
                continue
            votes = int(block.words[BLOCK.slot("votes") + number])
            block.words[BLOCK.slot("barriers") + number] = 0
            block.words[BLOCK.slot("votes") + number] = 0
            for w in members:
                mode = block.field_of(w, "barrier_mode")
                result = {BARRIER_POPC: votes, BARRIER_AND: int(votes == 0), BARRIER_OR: int(votes > 0)}.get(mode, 0)
                block.warp_words[w, WARP.slot("barrier_result")] = result
                block.waiting[w] = False
            released = True
        return released

    def _report_deadlock(self, block: ResidentBlock) -> None:
        warps = []
        for w in range(self.warps):
            state = "exited" if block.ended[w] else "barrier" if block.waiting[w] else "converge"
            lanes = "barrier_lanes" if state == "barrier" else "fault_lanes"
            warps.append(
                WaitingWarp(
                    w,
                    state,
                    block.field_of(w, "barrier_id") & 15,
                    block.field_of(w, "barrier_threads"),
                    block.field_of(w, "fault_instruction") or -1,
                    block.unsigned(w, lanes) & 0xFFFF_FFFF,
                )
            )
        raise deadlock_error(self.context.program, self.context.geometry, block.index, warps)
