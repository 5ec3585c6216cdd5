"""Runs a launch for the checks: traced warps in turn, barriers, and a seeded order of warps if requested.

Blocks become resident as in a launch without checks: one at a time as long as it makes progress, twice as many each time all warps only spin, and all at once
if the grid synchronises; the blocks of a cluster become resident together.  With a seed, blocks and warps take their turns in a random order that the seed
determines.
"""

from __future__ import annotations

import ctypes
import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import BLOCK, LAUNCH, NAMED_BARRIERS, SPILL_HEADER_BYTES, WARP, Status
from warpwright.engine.compiled_launch import stop_error
from warpwright.engine.constant_bank0 import is_cooperative, shared_bytes, stack_bytes
from warpwright.engine.cycle_detection import Recurrence, memory_digest
from warpwright.engine.execute import Cancelled, Counts, block_index
from warpwright.engine.faults import positions
from warpwright.engine.geometry import Dim3
from warpwright.engine.jit.workspace import Outcome, WarpState
from warpwright.engine.kernels import Traced
from warpwright.engine.lane_positions import StandingBlock
from warpwright.engine.launch import LaunchContext, aligned_words
from warpwright.engine.standstill import Among, standstill_error
from warpwright.errors import DeadlockError, ExecutionError
from warpwright.native.direct import bare
from warpwright.tools.checks import block_runner as tu

Words = npt.NDArray[np.int64]
TRACE_LIMIT_WORDS = 4096
STATES = ("running", "barrier", "exited", "stuck", "cluster")
ROUNDS_BEFORE_NEXT_BLOCK = 4
FIRST_PASS = 8
"""Number of rounds in which all warps only spin before their states are compared."""
_SLOTS = {name: WARP.slot(name) for name in WARP}
_EXECUTED = [WARP.slot("instructions"), WARP.slot("thread_instructions")]
_INDEX = [BLOCK.slot(name) for name in ("index_x", "index_y", "index_z", "linear_index")]
_RANK = [
    BLOCK.slot("cluster_rank"),
    *(BLOCK.slot(f"cluster_{what}_{axis}") for what in ("index", "id") for axis in "xyz"),
]


@dataclass(slots=True)
class Warp:
    """A resident warp."""

    words: Words
    """The fields of its WARP structure."""
    trace: Words
    in_block: int
    run: Words
    """States of the block's warps."""
    address: int = field(init=False)
    """Host address of the WARP structure."""
    trace_address: int = field(init=False)
    _fields: memoryview = field(init=False)

    def __post_init__(self) -> None:
        self.address = int(self.words.ctypes.data)
        self.trace_address = int(self.trace.ctypes.data)
        # Python reads a word of it in a third of the time that a NumPy array takes.
        self._fields = self.words.data.cast("B").cast("Q")

    def __getitem__(self, name: str) -> int:
        return int(self._fields[_SLOTS[name]])

    def __setitem__(self, name: str, value: int) -> None:
        self._fields[_SLOTS[name]] = value

    @property
    def state(self) -> int:
        """RUNNING, AT_BARRIER, EXITED, STUCK or AT_CLUSTER."""
        return int(self.run[self.in_block])

    @property
    def living(self) -> int:
        """Mask of the lanes that have not exited."""
        return self["lanes"] & ~self["exited"]


@dataclass(slots=True, eq=False)
class Block:
    """A resident block; when it has ended, it is reused for the next one."""

    words: Words
    shared: npt.NDArray[np.uint8]
    warps: list[Warp]
    structures: npt.NDArray[np.int64]
    """The WARP structures, one row each."""
    private: tuple[Words, ...]
    """Other memory that its warps write."""
    run: Words
    order: Words
    """Order of the warps in a pass."""
    counts: Words
    """Number of threads that have arrived at each barrier."""
    votes: Words
    turn: Words
    """The state of ``turn.run_block``."""
    fill: npt.NDArray[np.uint8] | None = None
    """Contents of shared memory when the block begins; None for zeros."""
    number: int = -1
    rank: int = 0
    """Its rank in the cluster."""
    cluster: list[Block] = field(default_factory=list, repr=False)
    """The blocks of its cluster by rank, including this one and those that have ended."""
    ended: bool = False
    turn_address: int = field(init=False)
    """Host pointer of ``turn``."""
    _fresh: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self._fresh = self.structures.copy()
        t = self.turn
        self.turn_address = int(t.ctypes.data)
        t[tu.T_WARPS], t[tu.T_STRUCTURES] = len(self.warps), self.structures.ctypes.data
        t[tu.T_STRIDE] = self.structures.strides[0]
        t[tu.T_RUN], t[tu.T_ORDER] = self.run.ctypes.data, self.order.ctypes.data
        t[tu.T_COUNTS], t[tu.T_VOTES] = self.counts.ctypes.data, self.votes.ctypes.data

    def begin(self, number: int, index: tuple[int, int, int], sm: int) -> None:
        """Become the block with a given number, at its start."""
        self.number = number
        self.rank, self.cluster, self.ended = 0, [self], False
        self.words[_INDEX] = (*index, number)
        self.structures[:] = self._fresh
        self.structures[:, _SLOTS["sm_id"]] = sm
        self.shared.fill(0)
        if self.fill is not None:
            self.shared[: len(self.fill)] = self.fill
        for memory in self.private:
            memory.fill(0)
        self.run.fill(tu.RUNNING)
        self.counts.fill(0)
        self.votes.fill(0)
        self.turn[[tu.T_PHASE, tu.T_TELLS, tu.T_IDLE]] = tu.BEGIN, 0, 0


def join(blocks: list[Block], number: int, shape: Dim3, clusters: Dim3) -> None:
    """Set the cluster of its blocks, given by rank: their ranks, and the cluster's index in the grid."""
    slot = BLOCK.slot("cluster_blocks")
    for rank, block in enumerate(blocks):
        block.rank, block.cluster = rank, blocks
        block.words[_RANK] = (rank, *block_index(rank, shape), *block_index(number, clusters))
        block.words[slot : slot + len(blocks)] = [b.words.ctypes.data for b in blocks]


class TooLong(Exception):
    """A launch has exceeded its limit of instructions."""


class Watcher(Protocol):
    """Observes an execution."""

    def prepare(self, launch: Words) -> None:
        """Fill in the words of ``turn.L_*`` that control reading."""

    def admitted(self, cluster: Sequence[Block]) -> None:
        """The blocks of a cluster (a single block in launches without clusters) became resident."""

    def met(self, cluster: Sequence[Block]) -> None:
        """Every live thread of a cluster has arrived at its barrier, which is about to release them."""

    def look(self, block: Block, warp: Warp, reason: int) -> None:
        """``turn.run_block`` returned with OUTSIDE, READING, ARRIVED or COMPLETED."""

    def ended(self, block: Block) -> None:
        """Every warp of a block has ended."""


class CheckedExecution:
    """One functional launch of a traced kernel, block by block, with a watcher.

    Args:
        seed: determines the order of blocks and warps; None for ascending numbers.
        fill: contents of shared memory when a block begins, instead of zeros.
        limit: number of warp-instructions after which the launch is stopped.
    """

    def __init__(
        self,
        context: LaunchContext,
        kernel: Traced,
        resident_blocks: int,
        watcher: Watcher,
        seed: int | None = None,
        fill: npt.NDArray[np.uint8] | None = None,
        limit: int | None = None,
    ) -> None:
        self.context = context
        self.watcher = watcher
        self.blocks_done = 0
        self._run_block = bare(tu.run_block)
        self._spill_bytes = (kernel.spill_bytes + 63) // 64 * 64 + 64
        self._trace_words = TRACE_LIMIT_WORDS + kernel.trace_words + 64
        self._unit = context.geometry.cluster_blocks
        """Number of blocks that become resident together."""
        self._room = max(self._unit, min(resident_blocks, context.geometry.blocks))
        self._random = random.Random(seed) if seed is not None else None
        self._fill, self._limit = fill, limit
        self.counts = Counts()
        self._ended: list[Block] = []
        self._resident: list[Block] = []
        self._kernel = kernel
        self._lasting = kernel.saved_positions.lasting(SPILL_HEADER_BYTES, kernel.spill_bytes)
        self._words = launch = np.zeros(tu.L_WORDS, np.int64)
        launch[tu.L_FUNCTION], launch[tu.L_SEEDED] = kernel.address, seed is not None
        launch[tu.L_CANCEL] = context.address + LAUNCH["cancel"]
        lanes = context.program.lanes
        launch[tu.L_RECORD_WORDS], launch[tu.L_LANES] = tu.record_lengths(lanes).ctypes.data, lanes
        self._launch_address = int(launch.ctypes.data)
        watcher.prepare(launch)
        self._past = Recurrence(FIRST_PASS)
        self._waiting = list(range(context.geometry.blocks // self._unit - 1, -1, -1))
        """Clusters (blocks in launches without clusters) that have not begun, the next one last."""
        if self._random is not None:
            self._random.shuffle(self._waiting)
        # A different order needs several resident blocks, so that their warps can interleave.
        self._wanted = self._random.randint(1, min(8, self._room)) if self._random is not None else 1
        """Number of blocks that are to be resident."""
        if is_cooperative(context.program):
            self._wanted = self._room
        self._fruitless = 0
        """Number of rounds since one in which a warp did more than spin."""
        self.failed: ExecutionError | None = None
        """The error that a grid ended with in :func:`run_grids`."""

    @property
    def ended(self) -> bool:
        """Whether every block has ended."""
        return not self._waiting and not self._resident

    def run(self) -> Counts:
        """Run every block.

        Raises:
            Cancelled: when the launch structure's ``cancel`` was set.
            ExecutionError: a fault, trap or deadlock.
            TooLong: the limit was passed.
        """
        while not self.ended:
            if self.round():
                continue
            if not self.runs():
                raise self._error(self._resident[0], None, Status.DEADLOCK)
            if self._never_ends([self], self._fruitless):
                raise self.standstill()
        return self.counts

    def round(self) -> bool:
        """Let every resident block run as far as possible; returns whether any did more than spin, or more blocks are to become resident.

        Raises:
            Cancelled, ExecutionError, TooLong: as :meth:`run`.
        """
        resident = self._resident
        while self._waiting and len(resident) + self._unit <= self._room and len(resident) < self._wanted:
            resident += self._admit(self._waiting.pop())
        if self._random is not None:
            self._random.shuffle(resident)
        fruitful = False
        for block in tuple(resident):
            ended, moved = self._turn(block)
            fruitful |= moved
            if ended:
                resident.remove(block)
                self._end(block)
            fruitful |= self._unit > 1 and self._met(block.cluster)
            if self._limit is not None and self._executed(resident) > self._limit:
                raise TooLong
        if fruitful:
            self._fruitless = 0
            if self._random is None and len(resident) < self._wanted:
                self._wanted = max(1, len(resident))
            return True
        self._fruitless += 1
        if self._fruitless >= ROUNDS_BEFORE_NEXT_BLOCK and len(resident) < self._room and self._waiting and self.runs():
            self._wanted, self._fruitless = 2 * len(resident), 0
            return True
        return False

    def runs(self) -> bool:
        """Whether any resident warp can run."""
        return any((b.run == tu.RUNNING).any() for b in self._resident)

    def _executed(self, resident: list[Block]) -> int:
        """Number of warp-instructions executed so far."""
        return self.counts.warp_instructions + sum(int(b.structures[:, _EXECUTED[0]].sum()) for b in resident)

    def _never_ends(self, grids: Sequence[CheckedExecution], fruitless: int) -> bool:
        """Whether every warp of grids that run at once only repeats itself; random orders do not repeat."""
        if self._random is not None or not self._kernel.judged:
            return False
        return self._past.found(
            fruitless,
            lambda: b"".join(grid._warps_digest() for grid in grids),
            lambda: b"".join(memory_digest(grid.context.memory, grid._memories(grid._resident)) for grid in grids),
        )

    def _warps_digest(self) -> bytes:
        digest = hashlib.blake2b(digest_size=16)
        for block in self._resident:
            digest.update(repr((block.number, block.counts.tolist())).encode())
            for w in block.warps:
                digest.update(repr((w.state, w["resume"], w["exited"])).encode())
                save = self._save(w)
                for at, size in self._lasting:
                    digest.update(save[at : at + size])
        return digest.digest()

    def _memories(self, resident: list[Block]) -> Iterator[npt.NDArray[np.uint8]]:
        local_bytes = stack_bytes(self.context.program) * self.context.program.lanes
        for block in resident:
            yield block.shared
            for w in block.warps:
                yield np.ctypeslib.as_array((ctypes.c_uint8 * local_bytes).from_address(w["local_base"]))

    def _save(self, warp: Warp) -> bytes:
        return ctypes.string_at(warp["spill"], self._kernel.spill_bytes)

    # --- a block ------------------------------------------------------------------------------------------
    def _admit(self, number: int) -> list[Block]:
        """Make the blocks of a cluster resident, reusing blocks that have ended."""
        geometry, sms = self.context.geometry, self.context.sms
        blocks = []
        for rank in range(self._unit):
            block = self._ended.pop() if self._ended else self._place()
            linear = geometry.clustered_block(number * self._unit + rank)
            block.begin(linear, block_index(linear, geometry.grid), int(sms[linear % len(sms)]))
            blocks.append(block)
        if self._unit > 1:
            join(blocks, number, geometry.cluster_shape, geometry.clusters)
        self.watcher.admitted(blocks)
        return blocks

    def _met(self, cluster: Sequence[Block]) -> bool:
        """Release a cluster's warps from its barrier if every live thread has arrived; returns whether it did."""
        warps = [warp for block in cluster if not block.ended for warp in block.warps]
        if not any(w["cluster_arrived"] for w in warps) or any(w.living & ~w["cluster_arrived"] for w in warps):
            return False
        self.watcher.met(cluster)
        for warp in warps:
            warp["cluster_arrived"] = 0
            if warp.state == tu.AT_CLUSTER:
                warp.run[warp.in_block] = tu.RUNNING
        return True

    def _place(self) -> Block:
        """Room for a resident block."""
        context = self.context
        program, geometry = context.program, context.geometry
        size = shared_bytes(program, geometry)
        # One extra double word, because values at the end are read as double words.
        shared = aligned_words((size + 127) // 64 * 64).view(np.uint8)[: size + 8]
        block_words = aligned_words(BLOCK.size_bytes)
        warps = geometry.warps_per_block
        stride = (WARP.size_bytes + 63) // 64 * 64
        local = (stack_bytes(program) * program.lanes + 63) // 64 * 64
        structures = aligned_words(stride * warps)
        spills, locals_ = aligned_words(self._spill_bytes * warps), aligned_words(local * warps + 64)
        values = {
            **{"warp_count": warps, "shared_base": shared.ctypes.data, "shared_bytes": size},
            "warps": structures.ctypes.data,
            "cluster_blocks": block_words.ctypes.data,  # of its cluster of one
        }
        for name, value in values.items():
            block_words[BLOCK.slot(name)] = value
        made = []
        run = np.zeros(warps, np.int64)
        for n in range(warps):
            words = structures[n * stride // 8 : (n + 1) * stride // 8]
            trace = np.zeros(self._trace_words, np.int64)
            warp = Warp(words, trace, n, run)
            threads = min(geometry.threads_per_block - program.lanes * n, program.lanes)
            fields = {
                **{"launch": context.address, "block": block_words.ctypes.data, "warp_in_block": n},
                **{"lanes": (1 << threads) - 1, "local_base": locals_.ctypes.data + n * local},
                **{"trace_base": trace.ctypes.data, "trace_limit": TRACE_LIMIT_WORDS},
                "spill": spills.ctypes.data + n * self._spill_bytes,
            }
            for name, value in fields.items():
                warp[name] = value
            made.append(warp)
        return Block(
            *(
                block_words,
                shared,
                made,
                structures.reshape(warps, -1),
                (spills, locals_),
                run,
                np.zeros(warps, np.int64),
            ),
            *(np.zeros(NAMED_BARRIERS, np.int64), np.zeros(NAMED_BARRIERS, np.int64), np.zeros(tu.T_WORDS, np.int64)),
            self._fill,
        )

    def _turn(self, block: Block) -> tuple[bool, bool]:
        """Run the block's warps as far as possible; returns (has it ended, did it do more than spin)."""
        turn = block.turn
        turn[tu.T_FRUITFUL] = 0
        if self._random is not None:
            order = [w.in_block for w in block.warps if w.state == tu.RUNNING]
            self._random.shuffle(order)
            block.order[: len(order)] = order
            turn[tu.T_ORDERED] = len(order)
        while True:
            reason = self._run_block(block.turn_address, self._launch_address)
            if reason == tu.ENDED:
                return True, True
            if reason == tu.PASSED:
                return False, bool(turn[tu.T_FRUITFUL])
            warp = block.warps[turn[tu.T_WARP]]
            if reason == tu.CANCELLED:
                raise Cancelled(self._positions())
            if reason == tu.DEADLOCKED:
                raise self._error(block, None, Status.DEADLOCK)
            if reason == tu.FAILED:
                raise self._error(block, warp, Status(int(turn[tu.T_STATUS])))
            self.watcher.look(block, warp, reason)

    def _end(self, block: Block) -> None:
        self.blocks_done += 1
        self.counts.blocks_done += 1
        warp_instructions, thread_instructions = block.structures[:, _EXECUTED].sum(axis=0).tolist()
        self.counts.warp_instructions += warp_instructions
        self.counts.thread_instructions += thread_instructions
        self.watcher.ended(block)
        block.ended = True
        for other in (one for one in block.cluster if one is not block):
            # They no longer reach it.
            other.words[BLOCK.slot("cluster_blocks") + block.rank] = 0
        self._ended.append(block)

    def _positions(self) -> str:
        """Positions of the warps of the first resident block."""
        first = min(self._resident, key=lambda block: block.number)
        found = [(state.warp_in_block, state.groups) for state in self._located(first)]
        index = block_index(first.number, self.context.geometry.grid)
        return positions(self.context.program, index, found, len(self._resident))

    def _located(self, block: Block) -> list[WarpState]:
        """A block's warps with the positions of their lanes."""
        states = self._states(block)
        for state, warp in zip(states, block.warps, strict=True):
            state.locate(self._kernel.saved_positions, np.frombuffer(self._save(warp), np.uint8))
        return states

    def _states(self, block: Block) -> list[WarpState]:
        return [WarpState(w.in_block, STATES[w.state], w.words.copy()) for w in block.warps]

    def standstill(self, among: Among | None = None) -> DeadlockError:
        """The error of a grid whose warps only repeat themselves."""
        resident = self._resident
        standing = []
        for block in resident:
            groups = [(state.warp_in_block, state.groups) for state in self._located(block)]
            standing.append(StandingBlock(block_index(block.number, self.context.geometry.grid), groups))
        waiting = self.context.geometry.blocks - self.blocks_done - len(resident)
        return standstill_error(self.context, standing, waiting, among)

    def _error(self, block: Block, stopped: Warp | None, status: Status) -> Exception:
        states = self._states(block)
        outcome = Outcome(
            status,
            block_index=block_index(block.number, self.context.geometry.grid),
            warps=states,
            arrived=[int(n) for n in block.counts],
            stopped=states[stopped.in_block] if stopped is not None else None,
        )
        return stop_error(self.context, outcome)


def run_grids(grids: Sequence[CheckedExecution], among: Callable[[int, Sequence[int]], Among]) -> list[Counts]:
    """Run the grids of several devices, which may wait for each other, by turns; returns their counts, in the order of ``grids``.

    Args:
        among: describes a grid among the others, by its number and the numbers of those that have ended.

    Raises:
        Cancelled: a launch structure's ``cancel`` was set.
        ExecutionError: a fault, trap or deadlock; it is also the ``failed`` of the grid that it occurred in.
    """
    fruitless = 0
    while going := [grid for grid in grids if not grid.ended]:
        fruitful = False
        for grid in going:
            try:
                fruitful |= grid.round()
            except ExecutionError as error:
                error.args = ("\n  ".join([str(error), *_beside(grid, grids, among).lines]),)
                grid.failed = error
                raise
        fruitless = 0 if fruitful else fruitless + 1
        if not fruitful and (not any(grid.runs() for grid in going) or going[0]._never_ends(going, fruitless)):
            # A grid of which some blocks have ended is more likely to be the one that the others wait for.
            shown = max(going, key=lambda grid: grid.blocks_done)
            shown.failed = shown.standstill(_beside(shown, grids, among))
            raise shown.failed
    return [grid.counts for grid in grids]


def _beside(
    grid: CheckedExecution, grids: Sequence[CheckedExecution], among: Callable[[int, Sequence[int]], Among]
) -> Among:
    return among(grids.index(grid), [number for number, one in enumerate(grids) if one.ended])
