"""State of a launch under the checks: records as they arrive, barriers, and findings."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import (
    BLOCK,
    BULK_WORDS,
    LOCAL_WINDOW,
    MAX_CLUSTER,
    SHARED_OFFSETS,
    SHARED_WINDOW,
    TAG_GATHER,
    TAG_PATTERN,
    head_words,
)
from warpwright.engine.device_memory import Allocation
from warpwright.engine.execute import block_index
from warpwright.engine.faults import thread_of
from warpwright.engine.kernels import Traced
from warpwright.errors import UnsupportedError
from warpwright.isa import mbarrier as mb
from warpwright.isa.ops import SHARED_RANK_SHIFT
from warpwright.isa.program import Program
from warpwright.native.direct import bare
from warpwright.timing.records import AT_BARRIER, AT_BYTES, AT_HEAD, AT_RANKS
from warpwright.tools.checks import block_runner as tu
from warpwright.tools.checks import shadow as sh
from warpwright.tools.checks.bulk_copy_races import check_bulk_copy
from warpwright.tools.checks.checked_execution import Block, Warp
from warpwright.tools.checks.events import SIGNALLING_STORE, Column, Event, Events, is_mbarrier, is_only_copied
from warpwright.tools.checks.findings import Dim3, Finding, Place, place
from warpwright.tools.checks.happens_before import BULK_STORES, CP_ASYNC, EMPTY, SHARED, BlockClocks, Clock
from warpwright.tools.checks.skipped_barriers import Detours, Walked, blocks_of, lanes_of_record
from warpwright.tools.checks.traffic import SCRATCH_WORDS
from warpwright.tools.checks.vector_races import WINDOW_WORDS, WINDOWS

if TYPE_CHECKING:
    from warpwright.tools.checks.checked_launch import CheckedLaunch
    from warpwright.tools.checks.uninitialized_use import Verdict

WAITS = {
    CP_ASYNC: "the copy is not waited for: cp.async.wait_group (or wait_all) of the thread, then a barrier for others",
    BULK_STORES: "the copy is not waited for: cp.async.bulk.wait_group.read of the thread that issued it, then a barrier for others",
    0: "the copy is not waited for: every thread that touches its bytes waits on its mbarrier first",
}
"""What orders accesses after a copy, by kind of column; 0: those of mbarriers."""
MAY_BE_OLD = (
    "what the other block released was read, but there is no __threadfence() after that read, which would order this access: "
    "its sector was read in this launch before it was written, so that an L1 may hold the old line (a volatile read passes L1 by)"
)
UNACQUIRED = (
    "PTX orders this access only after a __threadfence() that follows the read of what the other block released; a card issues in order, "
    "and nothing had brought the old line into an L1"
)
GUARDS = (
    "the value only decides whether an atomic of the same word follows, which looks again: it may be old; "
    "an atomic or volatile read is no race"
)
UNSHOWN = (
    "asynchronous copies see threads' writes only after a fence.proxy.async: by the writer before the barrier, or by the "
    "issuer of the copy after it"
)
NARROW = (
    "an access of block scope (atomicAdd_block, cuda::thread_scope_block) excludes those of its own block alone: "
    "several blocks need device scope (atomicAdd)"
)
WARP_DIVERGES, BLOCK_DIVERGES = "Divergent thread(s) in warp", "Divergent thread(s) in block"
WASTE = 2.0
"""perfcheck names an access that moves this many times what its bytes need."""


class _Resident:
    """What the checks keep of a resident block; ``begin`` makes it that of another one."""

    def __init__(self, block: Block, events: Events, warps: int, detours: Detours, oldest: int, lanes: int) -> None:
        size = int(block.words[BLOCK.slot("shared_bytes")])
        shift = 0 if events.narrow_shared else 2
        self.cells = np.zeros(sh.words_of((size >> shift) + 1), np.int64)
        self.written = np.zeros((size + 15) // 8 * 8, np.uint8)
        self.states = s = np.zeros((warps, sh.S_WORDS), np.int64)
        s[:, sh.S_WARP_IN_BLOCK], s[:, sh.S_WARPS], s[:, sh.S_SHARED_BYTES] = range(warps), warps, size
        s[:, sh.S_LANES_OF_WAVE] = lanes
        s[:, sh.S_SHARED_CELLS], s[:, sh.S_SHARED_SHIFT] = self.cells.ctypes.data, shift
        s[:, sh.S_SHARED_WRITTEN], s[:, sh.S_GLOBAL_OLDEST] = self.written.ctypes.data, oldest
        self.clocks = BlockClocks(warps, s[:, sh.S_EPOCH], oldest, lanes)
        self.walked = Walked(detours, warps)
        self.places = np.zeros((tu.BARRIERS, tu.MOST_PLACES + 1), np.int64)
        self.wanted = np.zeros(tu.BARRIERS, np.int64)
        """The count that each barrier's first arrival named."""
        self.others = np.zeros((2, warps), np.int64)
        """Host pointers to what each warp knows of other blocks, for weak and for strong accesses."""
        self.seen: list[Clock] = [EMPTY] * warps
        """Kept, since pointers lead to them."""
        self.told: list[tuple[Clock, Clock]] = []
        """What the pointers were made of."""

        self.visits = np.zeros((MAX_CLUSTER * warps, sh.VISIT_WORDS), np.int64)
        """The last accesses of its shared memory by warps of other blocks."""
        clocks, walked = self.clocks, self.walked
        places = {
            **{tu.T_STATES: s, tu.T_KNOWN: clocks.known, tu.T_LANES: clocks.lanes, tu.T_ARRIVED: clocks.arrived},
            **{tu.T_WANTED: self.wanted},
            **{tu.T_FOREIGN: self.others[0], tu.T_SEEN: self.others[1], tu.T_PLACES: self.places},
            **{tu.T_WITH_OTHERS: walked.with_others, tu.T_AT_BRANCH: walked.at_branch, tu.T_ROUND_IT: walked.round_it},
            **{tu.T_TIMES_ROUND: walked.times_round, tu.T_CAME: walked.came, tu.T_EXPECTED: walked.expected},
        }
        words = {slot: int(array.ctypes.data) for slot, array in places.items()} | {tu.T_COLUMNS: clocks.known.shape[1]}
        self._slots, self._words = list(words), np.array(list(words.values()), np.int64)
        """What a block's words say of these arrays."""
        self._copies = clocks.column(CP_ASYNC, 0) + np.arange(warps)

    def begin(self, block: Block, unknown: int, after: int) -> None:
        """Nothing is known of the block yet.

        Args:
            unknown: host pointer to zeros, one for each warp of the launch.
            after: an epoch that those of the block are later than.
        """
        s = self.states
        self.written.fill(0)
        self.places.fill(0)
        self.wanted.fill(0)
        self.mbarriers: dict[int, int | None] = {}
        """By word: objects that were initialised, as their last change left them where that is known."""
        self.walked.begin()
        self.locations: dict[int, Any] = {}
        self.visits.fill(0)
        self.waits: dict[int, Clock] = {}
        """By warp that has arrived at its cluster's barrier and not waited yet, what it will know."""
        first = self.clocks.begin(block.number, after)
        s[:, sh.S_SHARED_OLDEST] = first
        s[:, sh.S_EVENT : sh.S_EVENT_END + 1] = 0
        s[:, sh.S_BLOCK] = 0
        s[:, sh.S_RECORDS] = [w.trace_address for w in block.warps]
        s[:, sh.S_FIRST_WARP] = block.number * len(s)
        s[:, sh.S_WARP] = s[:, sh.S_FIRST_WARP] + s[:, sh.S_WARP_IN_BLOCK]
        s[:, sh.S_SHARED_HOST] = block.words[BLOCK.slot("shared_base")]
        s[:, sh.S_COPY] = ((s[:, sh.S_LAUNCH_WARPS] + self._copies << s[:, sh.S_HALVES]) + 1) << 32 | first
        self.others.fill(unknown)
        s[:, sh.S_SEEN] = unknown
        self.told = [(EMPTY, EMPTY)] * len(s)
        block.turn[self._slots] = self._words

    def member(self) -> tuple[int, ...]:
        """The block's row of ``shadow.M_*``."""
        size, cells, written, host = (
            int(self.states[0, word])
            for word in (sh.S_SHARED_BYTES, sh.S_SHARED_CELLS, sh.S_SHARED_WRITTEN, sh.S_SHARED_HOST)
        )
        return size, cells, written, host, int(self.visits.ctypes.data)


@dataclass
class _Cluster:
    """What the checks keep of a resident cluster of several blocks."""

    members: npt.NDArray[np.int64]
    """Rows of ``shadow.M_*`` by rank."""
    arrived: Clock = EMPTY
    """What the warps knew that have arrived at its barrier."""
    places: set[int] = field(default_factory=set)
    """Basic blocks that they came from."""


class Watch:
    """Reads the records of one launch as it runs and tells what was found."""

    def __init__(self, launch: CheckedLaunch, kernel: Traced, checks: set[str]) -> None:
        self.launch = launch
        self.blocks = kernel.blocks
        self.context = launch.context
        self.checks = checks
        self.program: Program = launch.context.program
        if self.program.lanes > sh.MOST_LANES:
            raise UnsupportedError(
                f"kernel {self.program.name} runs in waves of {self.program.lanes} lanes, and the checks follow those of up to "
                f"{sh.MOST_LANES}: run it without check="
            )
        self.halves = int(self.program.lanes > sh.HALF_LANES)
        self.events = launch.checker.events(self.program, kernel, launch.ptx)
        self.detours = launch.checker.detours(launch.loaded, kernel, launch.ptx)
        geometry = self.context.geometry
        self.warps = geometry.warps_per_block
        self.options = (
            (sh.CHECK_RACES if "racecheck" in checks else 0)
            | (sh.CHECK_UNDEFINED if "initcheck" in checks else 0)
            | (sh.COUNT_TRAFFIC if "perfcheck" in checks else 0)
            | (sh.CHECK_CONSTANTS if "memcheck" in checks and self.events.limited_constants else 0)
            | (sh.KEEP_SECTORS if "racecheck" in checks and self.events.fences else 0)
        )
        self.table = np.zeros(sh.FINDINGS_AT + 1, np.int64)
        self.counters = np.zeros((len(self.program.instructions), sh.COUNTERS), np.int64)
        self.scratch = np.zeros(SCRATCH_WORDS, np.int64)
        self.windows = np.zeros((WINDOWS, WINDOW_WORDS), np.int64)
        self.unknown = np.zeros(geometry.blocks * self.warps, np.int64)
        """What a warp knows of those of other blocks before it hears of any."""
        self._unknown_at = int(self.unknown.ctypes.data)
        self.resident: dict[int, _Resident] = {}
        self.spare: list[_Resident] = []
        """Of blocks that have ended."""
        self.locations: dict[int, Any] = {}
        self.live = list(self.context.memory)
        self.shadows = launch.checker.shadows
        self.shadows.begin(self.live)
        self.allocations = np.zeros((len(self.live), sh.ALLOCATION_WORDS), np.int64)
        for row, allocation in enumerate(self.live):
            written = launch.checker.written.get(allocation.address)
            at = int(written.ctypes.data) if written is not None else 0
            self.allocations[row] = (allocation.address, allocation.end, *self.shadows.of(allocation), at, 0)
        self.block_at = {b.first + b.count - 1: b.number for b in self.blocks}
        """Index of a basic block's last instruction: its number."""
        self.divergent: dict[tuple[str, int], Finding] = {}
        self.ends: list[Finding] = []
        """Accesses of shared memory whose block had perhaps ended."""
        self._check_bulk_copy = bare(check_bulk_copy)
        self.clusters: dict[int, _Cluster] = {}
        """Of launches with clusters, by their first block."""
        self._latest = 0
        """Last epoch of any block that has ended."""
        self.issuers: dict[tuple[int, int], int] = {}
        """Warp of the launch that issued the last copy of a column of the block's clocks."""

    # --- Watcher ------------------------------------------------------------------------------------------------
    def prepare(self, launch: npt.NDArray[np.int64]) -> None:
        """Put into the words of ``turn.L_*`` what records are read by."""
        launch[tu.L_STARTS], launch[tu.L_EVENTS] = self.events.starts.ctypes.data, self.events.rows.ctypes.data
        launch[tu.L_ALLOCATIONS], launch[tu.L_FINDINGS] = self.allocations.ctypes.data, self.table.ctypes.data
        launch[tu.L_COUNTERS], launch[tu.L_SCRATCH] = self.counters.ctypes.data, self.scratch.ctypes.data
        launch[tu.L_WAYS], launch[tu.L_WAY_TABLE] = len(self.detours.ways), self.detours.table.ctypes.data
        launch[tu.L_WALKS] = bool(self.detours.matters.any())
        launch[tu.L_WAY_BLOCKS] = self.detours.matters.ctypes.data
        objects = "synccheck" in self.checks and any(x.opcode == "SYNCS" for x in self.program.instructions)
        launch[tu.L_READS] = bool(self.options or self.events.copies or objects)
        launch[tu.L_SYNCHECK] = "synccheck" in self.checks

    def admitted(self, cluster: Sequence[Block]) -> None:
        """The blocks of a cluster became resident."""
        after = 0
        if len(cluster) > 1:
            # Stamps of every warp of a cluster are in every block's cells: its blocks begin with the same epoch.
            epochs = (int(max(r.clocks.epochs.max(), r.clocks.copies.max())) for r in self.resident.values())
            after = max((self._latest, *epochs))
        for block in cluster:
            self._admitted(block, after)
        if len(cluster) > 1:
            members = [self.resident[block.number].member() for block in cluster]
            members += [(0,) * sh.MEMBER_WORDS] * (MAX_CLUSTER - len(members))
            formed = self.clusters[cluster[0].number] = _Cluster(np.array(members, np.int64))
            for block in cluster:
                s = self.resident[block.number].states
                s[:, sh.S_MEMBERS], s[:, sh.S_RANK] = formed.members.ctypes.data, block.rank

    def _admitted(self, block: Block, after: int) -> None:
        """A block became resident, whose epochs are later than one."""
        if self.spare:
            resident = self.spare.pop()
        else:
            resident = _Resident(block, self.events, self.warps, self.detours, self.shadows.oldest, self.program.lanes)
            s = resident.states
            s[:, sh.S_HOST], s[:, sh.S_OPTIONS] = self.context.memory.host_minus_device, self.options
            s[:, sh.S_LAUNCH_WARPS], s[:, sh.S_ALLOCATIONS] = len(self.unknown), len(self.live)
            s[:, sh.S_WINDOWS] = self.windows.ctypes.data
            s[:, sh.S_HALVES] = self.halves
        resident.begin(block, self._unknown_at, after)
        self.resident[block.number] = resident

    def look(self, block: Block, warp: Warp, reason: int) -> None:
        """See to what ``turn.run_block`` leaves to Python."""
        resident = self.resident[block.number]
        if reason == tu.READING:
            self._read(block, resident, warp)
        elif reason == tu.OUTSIDE:
            self._outside(block, warp)
        elif reason == tu.MISSING:
            self._missing(block, warp, int(block.turn[tu.T_MISSING]), int(block.turn[tu.T_MISSING_AT]))
        elif reason == tu.ARRIVED and warp["barrier_mode"] >= tu.CLUSTER_ARRIVE:
            self._at_cluster(block, resident, warp)
        elif reason == tu.ARRIVED:
            self._arrived(block, resident, warp)
        else:
            self._completes(block, resident, int(block.turn[tu.T_BARRIER]))

    def ended(self, block: Block) -> None:
        """Every warp of a block has ended."""
        if len(block.cluster) > 1 and self.options & sh.CHECK_RACES:
            self._left(block, self.resident[block.number])
        resident = self.resident.pop(block.number)
        last = resident.clocks.end()
        self._latest = max(self._latest, last)
        self.shadows.passed(last)
        self.spare.append(resident)
        if all(one is block or one.ended for one in block.cluster):
            self.clusters.pop(block.cluster[0].number, None)

    # --- clusters -------------------------------------------------------------------------------------------------
    def _at_cluster(self, block: Block, resident: _Resident, warp: Warp) -> None:
        """A warp has arrived at its cluster's barrier, or waits there."""
        if warp["barrier_mode"] == tu.CLUSTER_ARRIVE:
            cluster = self.clusters[block.cluster[0].number]
            cluster.arrived = cluster.arrived.joined(resident.clocks.clock(warp.in_block))
            cluster.places.add(int(block.turn[tu.T_LAST]))
        elif warp.state != tu.AT_CLUSTER:
            self._passes_cluster(block, resident, warp)

    def _passes_cluster(self, block: Block, resident: _Resident, warp: Warp) -> None:
        """A warp goes on from its cluster's barrier: it knows what all knew that arrived there."""
        clock = resident.waits.pop(warp.in_block, None)
        if clock is None:
            return
        resident.clocks.learn(warp.in_block, clock)
        s = resident.states[warp.in_block]
        lanes = warp["barrier_lanes"]
        if lanes == (1 << self.program.lanes) - 1:
            s[sh.S_WHOLE] = s[sh.S_EPOCH]
        else:
            resident.clocks.lanes_meet(warp.in_block, lanes)
        self._note_others(block, resident, warp.in_block)

    def met(self, cluster: Sequence[Block]) -> None:
        """A cluster's barrier completes."""
        state = self.clusters[cluster[0].number]
        for block in cluster:
            if block.ended:
                continue
            resident = self.resident[block.number]
            if "synccheck" in self.checks:
                self._went_round(block, resident, block.warps, [self._end_of(n) for n in sorted(state.places)])
                resident.walked.with_others.fill(0)
            for warp in block.warps:
                resident.waits[warp.in_block] = state.arrived
                if warp.state == tu.AT_CLUSTER:
                    self._passes_cluster(block, resident, warp)
        state.arrived = EMPTY
        state.places.clear()

    def _left(self, block: Block, resident: _Resident) -> None:
        """A block of a cluster has ended: does it know of all accesses of its shared memory by the others?"""
        found: set[int] = set()
        for stamp, instruction, address, lane in resident.visits.tolist():
            if not stamp or instruction in found:
                continue
            warp = ((stamp >> 32) - 1) >> self.halves
            number, in_block = divmod(warp, self.warps)
            rows = (foreign.rows.get(number) for foreign in resident.clocks.foreign)
            if any(row is not None and row[in_block] > stamp & sh.EPOCH_BITS for row in rows):
                continue
            found.add(instruction)
            word = self._access_word(instruction)
            details = (
                f"{self._of_cluster(address)}, which ends without waiting for the access: it may have ended before",
                "blocks of a cluster: a cluster.sync() (barrier.cluster) after the access keeps the other block alive until then",
            )
            self.ends.append(
                Finding(
                    "racecheck",
                    "error",
                    f"Error: Race reported between {word} access and the end of the block whose memory it is",
                    (self.place_of(instruction, f"{word} access", warp, lane),),
                    details,
                    1,
                    address,
                    self.launch.number,
                    self.launch.host,
                )
            )

    def _of_cluster(self, address: int) -> str:
        """A byte of the shared memory of a cluster's block."""
        return f"byte {address & SHARED_OFFSETS:,} of shared memory of block {(address - SHARED_WINDOW) >> SHARED_RANK_SHIFT} of the cluster"

    # --- records ------------------------------------------------------------------------------------------------
    def _read(self, block: Block, resident: _Resident, warp: Warp) -> None:
        """What reading a warp's records stopped for."""
        s = resident.states[warp.in_block]
        reason = block.turn[tu.T_REASON]
        if reason == sh.SYNCHRONISE:
            self._synchronise(block, resident, warp, s)
        elif reason == sh.BULK_COPY:
            self._bulk_copy(block, resident, warp, s)
        elif reason == sh.SHADOW:
            self._give_shadow(int(s[sh.S_ARGUMENT]), 2)
        elif reason == sh.NARROW:
            self._give_shadow(int(s[sh.S_ARGUMENT]), 0)
        else:
            raise UnsupportedError(f"the checks do not understand a trace record of kernel {self.program.name}")
        clocks = resident.clocks
        s[sh.S_COPY] = self._stamp(clocks, clocks.column(CP_ASYNC, warp.in_block))
        self._note_others(block, resident, warp.in_block)

    def _note_others(self, block: Block, resident: _Resident, warp: int) -> None:
        """Tell machine code what a warp knows of other blocks by now."""
        foreign, released = resident.clocks.foreign[warp], resident.clocks.seen[warp]
        if resident.told[warp] == (foreign, released):
            return
        resident.told[warp] = foreign, released
        seen = resident.seen[warp] = foreign.joined(released)
        resident.others[:, warp] = self._dense(foreign), self._dense(seen)
        resident.states[warp, sh.S_SEEN] = resident.others[1, warp]
        block.turn[tu.T_TELLS] = 1

    def _dense(self, clock: Clock) -> int:
        """Host pointer to an epoch for each warp of the launch."""
        table = clock.dense(self.context.geometry.blocks, self.warps) if clock.rows else self.unknown
        return int(table.ctypes.data)

    def _give_shadow(self, row: int, shift: int) -> None:
        """Cells for an allocation: by words, or by bytes."""
        self.allocations[row, sh.A_CELLS : sh.A_SECTORS + 1] = self.shadows.give(self.live[row], shift)

    def _synchronise(self, block: Block, resident: _Resident, one: Warp, s: npt.NDArray[np.int64]) -> None:
        warp = one.in_block
        row = self.events.rows[s[sh.S_ARGUMENT]]
        clocks = resident.clocks
        event, scope = Event(int(row[Column.EVENT])), int(row[Column.SCOPE])
        if event is Event.FENCE:
            clocks.fence(warp, bool(scope))
            if scope:
                # Barriers pass on what was fenced: Python wants to hear of arrivals.
                block.turn[tu.T_TELLS] = 1
            return
        if event is Event.PROXY:
            clocks.show(warp)
            return
        if event is Event.COMMIT:
            clocks.commit(warp, int(row[Column.BYTES]), BULK_STORES if scope else CP_ASYNC)
            return
        if event is Event.WAIT:
            clocks.wait(warp, int(row[Column.BYTES]), scope)
            return
        if event is Event.LOOK:
            clocks.look(warp, set(resident.locations), resident.locations)
            clocks.lanes_look(warp, int(s[sh.S_LANES]))
            return
        words = {a & ~3 for a in _lane_addresses(one.trace, int(s[sh.S_RECORD]), self.program.lanes)}
        in_block = row[Column.STRONG] == 2
        opcode = self.program.instructions[int(row[Column.INSTRUCTION])].opcode
        lanes = lanes_of_record(one.trace, int(s[sh.S_RECORD]), self.program.lanes)
        if opcode == "LDS" and in_block:
            # A test of an mbarrier, which reads its upper word.
            words = {word & ~7 for word in words}
            clocks.lanes_look(warp, lanes)
        if opcode == "ARRIVES":
            words = {SHARED_WINDOW + (word & SHARED_OFFSETS) for word in words}
            clocks.arrive_with_copies(warp, words, resident.locations)
            return
        if opcode == SIGNALLING_STORE:
            for member in self._shared_words(block, words, False):
                clocks.tell(warp, self.resident[block.cluster[member].number].locations)
            return
        index = int(row[Column.INSTRUCTION])
        reads, writes = event is not Event.STORE, event is not Event.LOAD
        for member, some in self._shared_words(block, words, bool(scope)).items():
            target = self.resident[block.cluster[member].number]
            clocks.strong_access(warp, some, target.locations, reads, writes, bool(in_block), SHARED)
            if opcode == "SYNCS" and "synccheck" in self.checks:
                self._mbarrier(block, target, block.cluster[member], one, index, some, lanes)
        elsewhere = {w for w in words if not SHARED_WINDOW <= w < LOCAL_WINDOW}
        if elsewhere:
            clocks.strong_access(warp, elsewhere, self.locations, reads, writes, bool(in_block))
        if is_mbarrier(self.program.instructions[index]):
            clocks.lanes_arrive(warp, lanes)

    def _shared_words(self, block: Block, words: set[int], own: bool) -> dict[int, set[int]]:
        """Those of the words that are of shared memory, as of a block's own, by the rank of the block whose they are.

        Args:
            own: they are the block's own, whatever rank the addresses hold.
        """
        found: dict[int, set[int]] = {}
        for word in words:
            if SHARED_WINDOW <= word < LOCAL_WINDOW:
                rank = block.rank if own else (word - SHARED_WINDOW) >> SHARED_RANK_SHIFT
                found.setdefault(rank, set()).add(SHARED_WINDOW + (word & SHARED_OFFSETS))
        return found

    def _mbarrier(
        self, block: Block, resident: _Resident, target: Block, warp: Warp, index: int, words: set[int], lanes: int
    ) -> None:
        """Lanes have changed an mbarrier of sm_90: one that was initialised, and not by more arrivals than its phase waits for.

        Args:
            resident, target: of the block whose mbarrier it is.
        """
        initialises = "EXCH" in self.program.instructions[index].modifiers
        for word in words:
            offset = word - SHARED_WINDOW
            now = int(target.shared[offset : offset + 8].view(np.uint64)[0])
            before = resident.mbarriers.get(word)
            if not initialises and word not in resident.mbarriers:
                why = f"nothing has initialised the mbarrier at byte {offset:,} of shared memory (mbarrier.init)"
                self._barrier_error(block, warp, "Invalid arguments", [index], lanes, (why,))
            elif not (initialises or before is None or mb.waits_for_bytes(before)) and mb.passed_over(before, now):
                why = "more arrivals at once than the phase still waits for: some count for the next one"
                self._barrier_error(block, warp, "Invalid arguments", [index], lanes, (why,))
            resident.mbarriers[word] = now

    def _stamp(self, clocks: BlockClocks, column: int) -> int:
        """Of a copy that a column of the block's clocks counts."""
        number = self.context.geometry.blocks * self.warps + column
        return ((number << self.halves) + 1) << 32 | int(clocks.copies[column])

    def _bulk_copy(self, block: Block, resident: _Resident, one: Warp, s: npt.NDArray[np.int64]) -> None:
        """Check the copy whose record comes next, and tell its mbarrier."""
        clocks, warp = resident.clocks, one.in_block
        record = one.trace[s[sh.S_POSITION] : s[sh.S_POSITION] + BULK_WORDS]
        s[sh.S_POSITION] += BULK_WORDS
        s[sh.S_EVENT] += 1
        if int(record[AT_HEAD]) & 0xFFFFFFFF == 0:
            return
        offset = int(record[AT_BARRIER])
        word = SHARED_WINDOW + (offset & ~3)
        told = [one for one in block.cluster if int(record[AT_RANKS]) >> one.rank & 1] if offset >= 0 else []
        stamps = np.zeros(MAX_CLUSTER + 1, np.int64)
        for one_told in told:
            of = self.resident[one_told.number].clocks
            stamps[one_told.rank] = self._stamp(of, of.barrier_column(word))
            self.issuers[one_told.number, of.barrier_column(word)] = block.number * self.warps + warp
        column = clocks.barrier_column(word) if block in told else clocks.column(BULK_STORES, warp)
        self.issuers[block.number, column] = block.number * self.warps + warp
        # Who reads for another block's mbarrier hears nothing of it: the read counts as the thread's own.
        foreign = bool(told) and block not in told
        stamps[MAX_CLUSTER] = (
            (int(s[sh.S_WARP]) << self.halves) + 1 << 32 | int(s[sh.S_EPOCH])
            if foreign
            else self._stamp(clocks, column)
        )
        event = self.events.rows[s[sh.S_ARGUMENT]]
        instruction, reduces = int(event[Column.INSTRUCTION]), int(event[Column.STRONG])
        while self.options:
            own = (clocks.known[warp].ctypes.data, clocks.lanes[warp].ctypes.data, int(resident.others[reduces, warp]))
            tables = np.array([*own, self.allocations.ctypes.data, self.table.ctypes.data], np.int64)
            lacking = self._check_bulk_copy(
                s.ctypes.data, instruction, reduces, record.ctypes.data, stamps.ctypes.data, tables.ctypes.data
            )
            if lacking < 0:
                break
            self._give_shadow(int(lacking), 2)
        for one_told in told:
            hears = self.resident[one_told.number]
            state = one_told.shared[offset : offset + 8].view(np.uint64)
            by = (-int(record[AT_BYTES]) & mb.BYTES_MASK) << mb.OPERAND_BYTES_AT
            state[0] = mb.changed(int(state[0]), by)
            hears.clocks.told(word, hears.locations)

    # --- barriers -------------------------------------------------------------------------------------------------
    def _arrived(self, block: Block, resident: _Resident, warp: Warp) -> None:
        """A warp has come to a barrier: one that knows of other blocks, or lacks some of its lanes."""
        resident.clocks.arrive(warp.in_block, warp["barrier_id"] & 15)
        lanes = warp["barrier_lanes"] & 0xFFFFFFFF
        if "synccheck" in self.checks and block.turn[tu.T_MISCOUNTS]:
            self._miscounts(block, resident, warp)
        if "synccheck" in self.checks and warp["barrier_mode"] != tu.ARRIVE:
            apart = int(block.turn[tu.T_APART])
            if apart:
                self._divergence(block, warp, WARP_DIVERGES, [self._end_of(int(block.turn[tu.T_APART_AT]))], apart)
            elif lanes != warp.living:
                at = self._end_of(int(block.turn[tu.T_LAST]))
                self._divergence(block, warp, WARP_DIVERGES, [at], warp.living & ~lanes)

    def _miscounts(self, block: Block, resident: _Resident, warp: Warp) -> None:
        """A warp names a number of threads for a barrier that is none, or not that of the warps before it."""
        last = int(block.turn[tu.T_LAST])
        row = resident.places[warp["barrier_id"] & 15]
        before = [int(n) for n in row[1 : 1 + row[0]] if n != last]
        place_of = [self._end_of(n) for n in (*before[:1], last)]
        threads = warp["barrier_threads"] or self.program.lanes * self.warps
        if block.turn[tu.T_MISCOUNTS] == tu.NO_WARPS:
            place_of = place_of[-1:]
            why = f"{threads} threads: the number of threads must be a multiple of {self.program.lanes}; a card refuses it as an illegal instruction"
        else:
            there = place(self.program, place_of[-1], "", (0, 0, 0), (0, 0, 0)).at()
            why = f"{threads} threads at {there}, another number here: every thread that comes to a barrier must name the same"
        self._barrier_error(block, warp, "Invalid arguments", place_of, warp["barrier_lanes"] & 0xFFFFFFFF, (why,))

    def _completes(self, block: Block, resident: _Resident, barrier: int) -> None:
        """A block barrier is about to let its warps go on."""
        waiting = [w for w in block.warps if w.state == tu.AT_BARRIER and w["barrier_id"] & 15 == barrier]
        places = sorted(self._end_of(int(n)) for n in resident.places[barrier, 1 : 1 + resident.places[barrier, 0]])
        if "synccheck" in self.checks and all(w["barrier_threads"] == 0 for w in waiting):
            # A barrier other than __syncthreads()'s has places that belong together: warps of several roles meet there.
            if barrier == 0 and self._lines(places) > 1:
                self._divergence(block, waiting[0], BLOCK_DIVERGES, places)
            self._went_round(block, resident, waiting, places)
        resident.clocks.complete(barrier, [w.in_block for w in waiting])
        for warp in waiting:
            self._note_others(block, resident, warp.in_block)

    def _lines(self, instructions: list[int]) -> int:
        """How many lines of source barriers are in: compilers make several instructions of one, some without a line."""
        if len(instructions) < 2:
            return len(instructions)
        places = [place(self.program, i, "", (0, 0, 0), (0, 0, 0)) for i in instructions]
        return len({p.line for p in places if p.line})

    def _end_of(self, block: int) -> int:
        """Index of the last instruction of a basic block."""
        return self.blocks[block].first + self.blocks[block].count - 1

    def _went_round(self, block: Block, resident: _Resident, waiting: list[Warp], places: list[int]) -> None:
        """Threads that have ended, having gone round the barrier at which the others of their block met."""
        present = {w.in_block for w in waiting}
        for warp in block.warps:
            for at in places:
                absent = resident.walked.went_round(warp.in_block, self.block_at[at], warp["exited"])
                if absent:
                    what = WARP_DIVERGES if warp.in_block in present else BLOCK_DIVERGES
                    self._divergence(block, warp, what, [at], absent)
                    resident.walked.forget(warp.in_block, absent)

    def _outside(self, block: Block, warp: Warp) -> None:
        """Lanes that came to a WARPSYNC whose mask lacks them (``engine/jit/convergence.py`` notes the first place)."""
        lanes, address = warp["outside_lanes"], warp["outside_instruction"]
        if not lanes:
            return
        warp["outside_lanes"] = 0
        index = next(i for i, x in enumerate(self.program.instructions) if x.address == address)
        self._barrier_error(
            block, warp, "Invalid arguments", [self._called_from(warp, index, lanes)], lanes,
            ("the mask of a *_sync operation must name every thread that comes to it",),
        )  # fmt: skip

    def _missing(self, block: Block, warp: Warp, lanes: int, at: int) -> None:
        """Lanes that went round a warp-wide operation whose mask names them."""
        lane = (lanes & -lanes).bit_length() - 1
        first = self._thread(warp.in_block, lane)
        details = (
            f"{lanes.bit_count()} thread(s) that the mask names went round it, thread {first} first",
            "all threads that the mask of a *_sync operation names carry it out together, unless they have ended",
        )
        self._barrier_error(block, warp, WARP_DIVERGES, [self.detours.syncs[at]], lanes, details)

    def _called_from(self, warp: Warp, index: int, outside: int) -> int:
        """The call by which a warp came to an instruction of a function of the compiler's own, or the instruction itself.

        The compiler keeps WARPSYNC of an unknown mask out of line, in a function without lines of source.
        """
        address = self.program.instructions[index].address
        call = index
        for number, lanes in blocks_of(warp.trace, warp["trace_used"], self.program.lanes):
            block = self.blocks[number]
            last = self._end_of(number)
            if self.program.instructions[last].opcode == "CALL":
                call = last
            elif block.first <= index <= last and lanes & outside and call != index:
                # Of the calls so far, the last one: compilers keep such functions free of calls.
                entered = max((f for f in self.program.functions if f <= address), default=0)
                first = self.blocks[self.blocks[self.block_at[call]].successors[0]].first
                return call if self.program.instructions[first].address == entered else index
        return index

    def _divergence(self, block: Block, warp: Warp, what: str, places: list[int], absent: int = 0) -> None:
        """Threads that are not at a barrier: those of ``absent``, or warps that are at another one."""
        if absent:
            lane = (absent & -absent).bit_length() - 1
            details: tuple[str, ...] = (
                f"{absent.bit_count()} thread(s) of the warp did not come with the others, thread {self._thread(warp.in_block, lane)} first",
                "a barrier inside a branch must be reached by every thread of the block",
            )
        else:
            others = ", ".join(place(self.program, p, "", (0, 0, 0), (0, 0, 0)).at() for p in places[1:])
            details = (f"other warps came to this barrier from another place: {others}",)
        self._barrier_error(block, warp, what, places, absent or warp.living or 1, details)

    def _barrier_error(
        self, block: Block, warp: Warp, what: str, places: list[int], lanes: int, details: tuple[str, ...]
    ) -> None:
        """A finding of synccheck at the first place, of the first of the lanes; a later one there counts on."""
        key = (what, places[0])
        if key in self.divergent:
            self.divergent[key].count += 1
            return
        index = block_index(block.number, self.context.geometry.grid)
        lane = (lanes & -lanes).bit_length() - 1
        one = place(self.program, places[0], "", index, self._thread(warp.in_block, lane))
        self.divergent[key] = Finding(
            "synccheck", "error", f"Barrier error detected. {what}.", (one,), details, 1, None,
            self.launch.number, self.launch.host,
        )  # fmt: skip

    # --- results ----------------------------------------------------------------------------------------------------
    def read_unwritten_shared(self) -> bool:
        """Whether any block read shared memory that nothing had written."""
        return any(int(row[sh.F_KIND]) == sh.UNDEFINED and row[sh.F_SPACE] < 0 for row in self._rows())

    def _rows(self) -> npt.NDArray[np.int64]:
        """Findings of machine code."""
        return self.table[: self.table[sh.FINDINGS_AT] * sh.FINDING_WORDS].reshape(-1, sh.FINDING_WORDS)

    def findings(self, unwritten: Verdict) -> list[Finding]:
        """What this launch showed, in the order in which it showed.

        Args:
            unwritten: what shared memory that nothing wrote does to the results.
        """
        for resident in self.resident.values():  # of a launch that a fault ended
            self.shadows.passed(resident.clocks.end())
        found = [self._finding(row, unwritten) for row in self._rows()]
        return [*self.divergent.values(), *found, *self.ends, *self._waste()]

    def touched(self) -> list[Allocation]:
        """Allocations that accesses met; all of them when no records were read."""
        if not self.options:
            return self.live
        return [a for a, row in zip(self.live, self.allocations, strict=True) if row[sh.A_TOUCHED]]

    def _thread(self, warp_in_block: int, lane: int) -> Dim3:
        return thread_of(self.context.geometry, warp_in_block, lane)

    def place_of(self, instruction: int, what: str, warp: int, lane: int) -> Place:
        """The place of an instruction, and a lane of a warp of the launch."""
        index = block_index(warp // self.warps, self.context.geometry.grid)
        return place(self.program, instruction, what, index, self._thread(warp % self.warps, lane))

    def _only_copies(self, instruction: int) -> bool:
        return is_only_copied(self.program.instructions, instruction)

    def _access_word(self, instruction: int) -> str:
        rows = self.events.rows
        mine = rows[rows[:, Column.INSTRUCTION] == instruction]
        kinds = {Event(int(k)) for k in mine[:, Column.EVENT]}
        reduces = Event.BULK in kinds and mine[:, Column.STRONG].any()
        return "Atomic" if Event.ATOMIC in kinds or reduces else "Write" if kinds == {Event.STORE} else "Read"

    def _finding(self, row: npt.NDArray[np.int64], unwritten: Verdict) -> Finding:
        kind, space, address = int(row[sh.F_KIND]), int(row[sh.F_SPACE]), int(row[sh.F_ADDRESS])
        unacquired, guards, narrow = kind & sh.UNACQUIRED, kind & sh.GUARDS, kind & sh.NARROW_SCOPE
        kind &= sh.HAZARD
        shared = space < 0
        where = f"byte {address & SHARED_OFFSETS:,} of shared memory" if shared else self._where(address)
        if space <= sh.ANY:
            where = self._of_cluster(
                SHARED_WINDOW + ((sh.ANY - space) << SHARED_RANK_SHIFT) + (address & SHARED_OFFSETS)
            )
        count = int(row[sh.F_COUNT])
        if kind == sh.UNDEFINED:
            return self._unwritten(row, unwritten, where)
        if kind == sh.BEYOND:
            return self._beyond_constants(row)
        names = {sh.RAW: "RAW", sh.WAR: "WAR", sh.WAW: "WAW"}
        launch_warps = self.context.geometry.blocks * self.warps
        copy = int(row[sh.F_OTHER_WARP]) - launch_warps
        kind_of_copy = copy // self.warps
        if copy >= 0:
            number = int(row[sh.F_WARP]) // self.warps
            own = number * self.warps + copy % self.warps
            row = row.copy()
            row[sh.F_OTHER_WARP] = own if kind_of_copy == CP_ASYNC else self.issuers[number, copy]
        severity = ("error", "warning", "info")[int(row[sh.F_SEVERITY])]
        before, now = int(row[sh.F_BEFORE]), int(row[sh.F_NOW])
        earlier = "Read" if kind == sh.WAR else self._access_word(before).replace("Read", "Write")
        reads = kind == sh.RAW or (kind == sh.UNSHOWN and severity == "error")
        later = "Read" if reads else self._access_word(now).replace("Read", "Write")
        places = (
            self.place_of(before, f"{earlier} access", int(row[sh.F_OTHER_WARP]), int(row[sh.F_OTHER_LANE])),
            self.place_of(now, f"{later} access", int(row[sh.F_WARP]), int(row[sh.F_LANE])),
        )
        if copy >= 0:
            advice = WAITS.get(kind_of_copy, WAITS[0])
        elif kind == sh.UNSHOWN:
            advice = UNSHOWN
        elif unacquired:
            advice = UNACQUIRED if severity == "info" else MAY_BE_OLD
        else:
            advice = GUARDS if guards else NARROW if narrow else self._missing_order(row)
        hazard = f"{names[kind]} hazard" if kind in names else "Not shown"
        details = [f"{hazard} at {address:#x}: {where}", advice]
        if severity == "info" and not unacquired and not guards:
            details.append("both wrote the same value")
        title = f"{severity.capitalize()}: Race reported between {earlier} access and {later} access"
        if kind == sh.UNSHOWN:
            title = f"{severity.capitalize()}: Missing fence.proxy.async between {earlier} access and asynchronous copy"
        elif copy >= 0:
            title = f"{severity.capitalize()}: Race reported between asynchronous {earlier} access and {later} access"
        return Finding(
            "racecheck", severity, title, places, tuple(details), count, address, self.launch.number, self.launch.host
        )

    def _unwritten(self, row: npt.NDArray[np.int64], unwritten: Verdict, where: str) -> Finding:
        """A read of memory that nothing wrote."""
        space, address, count = int(row[sh.F_SPACE]), int(row[sh.F_ADDRESS]), int(row[sh.F_COUNT])
        shared = space < 0
        memory = "__shared__" if shared else "__global__"
        title = f"Uninitialized {memory} memory read of size {int(row[sh.F_BYTES])} bytes"
        byte = not shared and row[sh.F_SEVERITY] == sh.INFO
        padding = not shared and row[sh.F_SEVERITY] == sh.WARNING and self._only_copies(int(row[sh.F_NOW]))
        severity = unwritten.severity if shared else "info" if padding or byte else "error"
        one = self.place_of(int(row[sh.F_NOW]), "", int(row[sh.F_WARP]), int(row[sh.F_LANE]))
        details = [f"Address {address:#x}: {where}"]
        if shared:
            details.append(unwritten.sentence)
        else:
            inside = self.live[space]
            origin = self.launch.checker.origins.get(inside.address, "")
            details.append(
                f"allocated at {origin}; nothing wrote these bytes since" if origin else "nothing wrote these bytes"
            )
        if padding:
            details.append("they are between written bytes and are only copied: padding of a structure?")
        if byte:
            details.append("one of the two bytes was written: a value of one byte, read with the padding after it?")
        return Finding(
            "initcheck",
            severity,
            title,
            (one,),
            tuple(details),
            count,
            address,
            self.launch.number,
            self.launch.host,
        )

    def _beyond_constants(self, row: npt.NDArray[np.int64]) -> Finding:
        """A read after the module's __constant__ variables."""
        address, count = int(row[sh.F_ADDRESS]), int(row[sh.F_COUNT])
        title = f"Invalid __constant__ read of size {int(row[sh.F_BYTES])} bytes"
        one = self.place_of(int(row[sh.F_NOW]), "", int(row[sh.F_WARP]), int(row[sh.F_LANE]))
        told = (
            f"Address {address:#x} is out of bounds",
            "it is past the end of the module's __constant__ variables; a card reads 0 there",
        )
        return Finding("memcheck", "error", title, (one,), told, count, address, self.launch.number, self.launch.host)

    def _missing_order(self, row: npt.NDArray[np.int64]) -> str:
        """What would order two accesses, by how far apart their threads are."""
        other, warp = int(row[sh.F_OTHER_WARP]), int(row[sh.F_WARP])
        if other == warp:
            return "threads of one warp: __syncwarp() between the accesses orders them"
        if other // self.warps == warp // self.warps:
            return "threads of one block: __syncthreads() between the accesses orders them"
        if row[sh.F_SPACE] < 0:
            return "threads of two blocks of a cluster: cluster.sync() (barrier.cluster) between the accesses, or an mbarrier, orders them"
        return (
            "threads of different blocks: only an atomic or volatile flag with __threadfence() on both sides, "
            "or another launch, orders them"
        )

    def _where(self, address: int) -> str:
        inside = self.context.memory.find(address)
        return f"byte {address - inside.address:,} of {inside.name}" if inside is not None else "no allocation"

    def _waste(self) -> list[Finding]:
        """perfcheck: accesses that move much more than their bytes need."""
        found = []
        for index in np.flatnonzero(self.counters[:, sh.N_REQUESTS]):
            requests, sectors, ideal, waves, ideal_waves = (int(v) for v in self.counters[index])
            one = self.place_of(int(index), "", 0, 0)
            if sectors >= WASTE * ideal > 0:
                title = (
                    f"Uncoalesced access: {sectors / requests:.1f} sectors a request, {ideal / requests:.1f} would do"
                )
                details = (f"{32 * sectors:,} bytes moved for {requests:,} requests",)
                found.append(
                    Finding(
                        "perfcheck", "warning", title, (one,), details, 1, None, self.launch.number, self.launch.host
                    )
                )
            if waves >= WASTE * ideal_waves > 0:
                title = f"Bank conflicts: {waves / requests:.1f} wavefronts a request, {ideal_waves / requests:.1f} would do"
                details = (f"{waves - ideal_waves:,} wavefronts more than needed in {requests:,} requests",)
                found.append(
                    Finding(
                        "perfcheck", "warning", title, (one,), details, 1, None, self.launch.number, self.launch.host
                    )
                )
        return found


def _lane_addresses(trace: npt.NDArray[np.int64], at: int, width: int) -> list[int]:
    """Addresses of the lanes that take part in the access record at word ``at``; ``width``: of a wave."""
    word, after = int(trace[at]), at + head_words(width)
    mask = lanes_of_record(trace, at, width)
    lanes = [lane for lane in range(width) if mask >> lane & 1]
    if (word >> 60) & 15 == TAG_GATHER:
        return [int(trace[after + lane]) for lane in lanes]
    if (word >> 60) & 15 == TAG_PATTERN:
        distances = np.ctypeslib.as_array((ctypes.c_int64 * width).from_address(int(trace[after + 1])))
        return [int(trace[after]) + int(distances[lane]) for lane in lanes]
    stride = (word >> 32) & 0xFFFFFF
    stride -= (stride & 0x800000) << 1
    return [int(trace[after]) + lane * stride for lane in lanes]
