"""Watches a launch under the checks: processes records as they arrive and barriers, and collects findings."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import (
    BULK_WORDS,
    LOCAL_WINDOW,
    MAX_CLUSTER,
    SHARED_WINDOW,
    TAG_GATHER,
    TAG_PATTERN,
    head_words,
)
from warpwright.engine.allocation import Allocation
from warpwright.engine.blocks import initialises_mbarrier
from warpwright.engine.execute import block_index
from warpwright.engine.faults import thread_of
from warpwright.engine.kernels import Traced
from warpwright.errors import UnsupportedError
from warpwright.isa import mbarrier as mb
from warpwright.isa.program import Program
from warpwright.native.direct import bare
from warpwright.timing.records import AT_BARRIER, AT_BYTES, AT_HEAD, AT_RANKS
from warpwright.tools.checks import block_runner as tu
from warpwright.tools.checks import shadow as sh
from warpwright.tools.checks.bulk_copy_races import check_bulk_copy
from warpwright.tools.checks.checked_execution import Block, Warp
from warpwright.tools.checks.clusters import Clusters, Visit
from warpwright.tools.checks.events import SIGNALLING_STORE, Column, Event
from warpwright.tools.checks.findings import Dim3, Finding, Place, place
from warpwright.tools.checks.happens_before import BULK_STORES, CP_ASYNC, EMPTY, SHARED, BlockClocks
from warpwright.tools.checks.mbarriers import Mbarrier, mbarrier_at
from warpwright.tools.checks.noted_findings import NotedFindings
from warpwright.tools.checks.resident_block import ResidentBlock
from warpwright.tools.checks.skipped_barriers import blocks_of, lanes_of_record
from warpwright.tools.checks.traffic import SCRATCH_WORDS
from warpwright.tools.checks.vector_races import WINDOW_WORDS, WINDOWS
from warpwright.tools.checks.warp_syncs import barrier_site

if TYPE_CHECKING:
    from warpwright.tools.checks.checked_launch import CheckedLaunch
    from warpwright.tools.checks.joined_grids import Joined
    from warpwright.tools.checks.uninitialized_use import Verdict

WARP_DIVERGES, BLOCK_DIVERGES = "Divergent thread(s) in warp", "Divergent thread(s) in block"


class Watch:
    """Reads the records of one launch as it runs and collects findings."""

    def __init__(self, launch: CheckedLaunch, kernel: Traced, checks: set[str], joined: Joined | None = None) -> None:
        """``joined``: what it shares with the watches of the grids that run on other devices at the same time."""
        self.launch = launch
        self.joined = joined
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
        self.first_block = len(joined.watches) * geometry.blocks if joined is not None else 0
        """Number of the grid's first block among those of all grids."""
        blocks = geometry.blocks * (joined.grids if joined is not None else 1)
        self.unknown = np.zeros(blocks * self.warps, np.int64)
        """What a warp initially knows of the warps of other blocks."""
        self.resident: dict[int, ResidentBlock] = {}
        self.spare: list[ResidentBlock] = []
        """State objects of blocks that have ended, for reuse."""
        self.locations: dict[int, Any] = joined.locations if joined is not None else {}
        self.live = list(self.context.memory)
        self.shadows = joined.shadows if joined is not None else launch.checker.shadows
        if joined is None:
            self.shadows.begin(self.live)
        maps = launch.checker.written if joined is None else joined.written
        self.allocations = np.zeros((len(self.live), sh.ALLOCATION_WORDS), np.int64)
        for row, allocation in enumerate(self.live):
            written = maps.get(allocation.address)
            at = int(written.ctypes.data) if written is not None else 0
            self.allocations[row] = (allocation.address, allocation.end, *self.shadows.of(allocation), at, 0)
        self.block_at = {b.first + b.count - 1: b.number for b in self.blocks}
        """Number of a basic block, by the index of its last instruction."""
        self.divergent: dict[tuple[str, int], Finding] = {}
        self.ends: list[Visit] = []
        """Accesses to shared memory whose block may have ended."""
        self._check_bulk_copy = bare(check_bulk_copy)
        self.clusters = Clusters(self.resident, self.program.lanes)
        self.issuers: dict[tuple[int, int], int] = {}
        """The warp of the launch that issued the last copy in a column of the block's clocks."""
        self._words = NotedFindings(launch, self.events, self.live, self.issuers, joined)

    # --- Watcher ------------------------------------------------------------------------------------------------
    def prepare(self, launch: npt.NDArray[np.int64]) -> None:
        """Fill in the words of ``turn.L_*`` that control reading."""
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
        after = self.clusters.first_epoch(cluster)
        for block in cluster:
            self._admitted(block, after)
        self.clusters.admitted(cluster)

    def _admitted(self, block: Block, after: int) -> None:
        """A block became resident; its epochs are later than a given one."""
        if self.spare:
            resident = self.spare.pop()
        else:
            resident = ResidentBlock(
                block, self.events, self.warps, self.detours, self.shadows.oldest, self.program, self.unknown
            )
            s = resident.states
            s[:, sh.S_HOST], s[:, sh.S_OPTIONS] = self.context.memory.host_minus_device, self.options
            s[:, sh.S_LAUNCH_WARPS], s[:, sh.S_ALLOCATIONS] = len(self.unknown), len(self.live)
            s[:, sh.S_WINDOWS] = self.windows.ctypes.data
            s[:, sh.S_HALVES] = self.halves
        resident.begin(block, after, self.first_block)
        self.resident[block.number] = resident

    def look(self, block: Block, warp: Warp, reason: int) -> None:
        """Process what ``turn.run_block`` leaves to Python."""
        resident = self.resident[block.number]
        if reason == tu.READING:
            self._read(block, resident, warp)
        elif reason == tu.OUTSIDE:
            self._outside(block, warp)
        elif reason == tu.MISSING:
            self._missing(block, warp, int(block.turn[tu.T_MISSING]), int(block.turn[tu.T_MISSING_AT]))
        elif reason == tu.ARRIVED and warp["barrier_mode"] >= tu.CLUSTER_ARRIVE:
            self.clusters.at_barrier(block, warp)
        elif reason == tu.ARRIVED:
            self._arrived(block, resident, warp)
        else:
            self._completes(block, resident, int(block.turn[tu.T_BARRIER]))

    def ended(self, block: Block) -> None:
        """Every warp of a block has ended."""
        if len(block.cluster) > 1 and self.options & sh.CHECK_RACES:
            self.ends += self.clusters.not_awaited(block)
        resident = self.resident.pop(block.number)
        last = resident.clocks.end()
        self.clusters.ended(block, last)
        self.shadows.passed(last)
        self.spare.append(resident)

    def met(self, cluster: Sequence[Block]) -> None:
        """A cluster's barrier completes."""
        if "synccheck" in self.checks:
            places = [self._end_of(n) for n in self.clusters.places(cluster)]
            for block in cluster:
                if not block.ended:
                    resident = self.resident[block.number]
                    self._went_round(block, resident, block.warps, places)
                    resident.walked.with_others.fill(0)
        self.clusters.met(cluster)

    # --- records ------------------------------------------------------------------------------------------------
    def _read(self, block: Block, resident: ResidentBlock, warp: Warp) -> None:
        """Process the event for which reading a warp's records stopped."""
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
        resident.note_others(block, warp.in_block)

    def _give_shadow(self, row: int, shift: int) -> None:
        """Create cells for an allocation, per word or per byte."""
        self.allocations[row, sh.A_CELLS : sh.A_SECTORS + 1] = self.shadows.give(self.live[row], shift)
        if self.joined is not None:
            self.joined.share_cells(self.live[row])

    def use_cells(self, allocation: Allocation) -> None:
        """Use the cells that a joined watch has created for an allocation."""
        for row in np.flatnonzero(self.allocations[:, sh.A_FIRST] == allocation.address):
            self.allocations[row, sh.A_CELLS : sh.A_SECTORS + 1] = self.shadows.of(allocation)

    def _synchronise(self, block: Block, resident: ResidentBlock, one: Warp, s: npt.NDArray[np.int64]) -> None:
        warp = one.in_block
        row = self.events.rows[s[sh.S_ARGUMENT]]
        clocks = resident.clocks
        event, scope = Event(int(row[Column.EVENT])), int(row[Column.SCOPE])
        if event is Event.FENCE:
            clocks.fence(warp, bool(scope))
            if scope:
                # Barriers pass on what was fenced, so Python must be told of arrivals.
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
        if event is Event.PRODUCTS:
            clocks.end_products(warp)
            return
        if event is Event.PRODUCTS_WAIT:
            clocks.wait_for_products(warp, scope)
            return
        if int(row[Column.INSTRUCTION]) in self.events.mbarriers:
            self._at_mbarrier(block, one, s, row)
            return
        addresses = _lane_addresses(one.trace, int(s[sh.S_RECORD]), self.program.lanes)
        # A poll may read one half of a word that atomics change as a whole.
        words = {word for a in addresses for word in range(a & ~3, a + int(row[Column.BYTES]), 4)}
        in_block = row[Column.STRONG] == 2
        if self.program.instructions[int(row[Column.INSTRUCTION])].opcode == SIGNALLING_STORE:
            before = clocks.arrival(warp)
            for owner, _ in self.clusters.owners(block, words, own=False):
                self.resident[owner.number].mbarriers.signalled(before, owner.shared)
            return
        reads, writes = event is not Event.STORE, event is not Event.LOAD
        for owner, some in self.clusters.owners(block, words, own=bool(scope)):
            target = self.resident[owner.number]
            clocks.strong_access(warp, some, target.locations, reads, writes, bool(in_block), SHARED)
        elsewhere = {w for w in words if not SHARED_WINDOW <= w < LOCAL_WINDOW}
        if elsewhere:
            clocks.strong_access(warp, elsewhere, self.locations, reads, writes, bool(in_block))

    def _at_mbarrier(self, block: Block, one: Warp, s: npt.NDArray[np.int64], row: npt.NDArray[np.int64]) -> None:
        """Lanes of a warp have initialised, changed or tested mbarriers."""
        clocks, warp = self.resident[block.number].clocks, one.in_block
        index = int(row[Column.INSTRUCTION])
        instruction = self.program.instructions[index]
        lanes: dict[int, int] = {}
        record, width = int(s[sh.S_RECORD]), self.program.lanes
        taking_part = lanes_of_record(one.trace, record, width)
        numbers = (lane for lane in range(width) if taking_part >> lane & 1)
        for lane, address in zip(numbers, _lane_addresses(one.trace, record, width), strict=True):
            lanes[address & ~7] = lanes.get(address & ~7, 0) | 1 << lane
        tests, initialises = row[Column.EVENT] == Event.LOAD, initialises_mbarrier(instruction)
        with_copies = instruction.opcode == "ARRIVES"
        before = EMPTY
        if not tests and not initialises:
            before = clocks.arrival_with_copies(warp) if with_copies else clocks.arrival(warp)
        for word, mask in lanes.items():
            for owner, (local, *_) in self.clusters.owners(block, {word}, bool(row[Column.SCOPE]) or with_copies):
                mbarriers = self.resident[owner.number].mbarriers
                if owner is block and not initialises and "synccheck" in self.checks:
                    self._used_early(block, one, index, mask, mbarriers.objects.get(local), local)
                if tests:
                    if owner is block and local in mbarriers.objects:
                        mbarriers.objects[local].tested(clocks, warp, mask)
                    continue
                now = mbarrier_at(owner.shared, local)
                if initialises:
                    mbarriers.begin(local, now, clocks, warp, index)
                    continue
                if instruction.opcode == "SYNCS" and "synccheck" in self.checks:
                    self._misused(block, one, index, mask, mbarriers.objects.get(local), local, now)
                found, ends = mbarriers.at(local, now, mask.bit_count())
                found.arrive(before)
                if owner is block:
                    found.arrive_lanes(clocks, warp, mask)
                found.become(now, ends)

    def _misused(
        self, block: Block, warp: Warp, index: int, lanes: int, held: Mbarrier | None, word: int, now: int
    ) -> None:
        """Check that an sm_90 mbarrier was initialised before lanes changed it, and that there were no more arrivals than its phase waits for.

        Args:
            held: what is known of the object before the change.
            word, now: its address in shared memory, and its value after the change.
        """
        if held is None:
            why = f"nothing has initialised the mbarrier at byte {word - SHARED_WINDOW:,} of shared memory (mbarrier.init)"
        elif not mb.waits_for_bytes(held.value) and mb.passed_over(held.value, now):
            why = "more arrivals at once than the phase still waits for: some count for the next one"
        else:
            return
        self._barrier_error(block, warp, "Invalid arguments", [index], lanes, (why,))

    def _used_early(self, block: Block, warp: Warp, index: int, lanes: int, held: Mbarrier | None, word: int) -> None:
        """Check that lanes use an sm_90 mbarrier after its initialisation; threads that still wait for a phase of an earlier initialisation do not.

        Args:
            held: what is known of the object.
            word: its address in shared memory.
        """
        begun = held.begun if held is not None else None
        if begun is None or begun.precedes(self.resident[block.number].clocks, warp.in_block):
            return
        there = place(self.program, begun.instruction, "", (0, 0, 0), (0, 0, 0)).at()
        where = f"the mbarrier at byte {word - SHARED_WINDOW:,} of shared memory"
        why = (
            f"{where} was initialised again at {there}, while this thread still used it: threads that had arrived may wait forever; "
            "all threads must have left it before (__syncthreads(), then mbarrier.init, then __syncthreads())"
            if begun.again
            else f"nothing orders this after the initialisation of {where} at {there}: __syncthreads() after mbarrier.init would"
        )
        self._barrier_error(block, warp, "Invalid arguments", [index], lanes, (why,))

    def _stamp(self, clocks: BlockClocks, column: int) -> int:
        """The stamp of a copy that is counted in a column of the block's clocks."""
        number = len(self.unknown) + column
        return ((number << self.halves) + 1) << 32 | int(clocks.copies[column])

    def _bulk_copy(self, block: Block, resident: ResidentBlock, one: Warp, s: npt.NDArray[np.int64]) -> None:
        """Check the copy whose record comes next, and notify its mbarrier."""
        clocks, warp = resident.clocks, one.in_block
        record = one.trace[s[sh.S_POSITION] : s[sh.S_POSITION] + BULK_WORDS]
        s[sh.S_POSITION] += BULK_WORDS
        s[sh.S_EVENT] += 1
        if int(record[AT_HEAD]) & 0xFFFFFFFF == 0:
            return
        offset = int(record[AT_BARRIER])
        word = SHARED_WINDOW + (offset & ~7)
        told = [one for one in block.cluster if int(record[AT_RANKS]) >> one.rank & 1] if offset >= 0 else []
        stamps = np.zeros(MAX_CLUSTER + 1, np.int64)
        for one_told in told:
            of = self.resident[one_told.number].clocks
            stamps[one_told.rank] = self._stamp(of, of.barrier_column(word))
            self.issuers[of.number, of.barrier_column(word)] = clocks.number * self.warps + warp
        column = clocks.barrier_column(word) if block in told else clocks.column(BULK_STORES, warp)
        self.issuers[clocks.number, column] = clocks.number * self.warps + warp
        # A block that reads on behalf of another block's mbarrier is not notified, so the read counts as the thread's own.
        foreign = bool(told) and block not in told
        stamps[MAX_CLUSTER] = (
            (int(s[sh.S_WARP]) << self.halves) + 1 << 32 | int(s[sh.S_EPOCH])
            if foreign
            else self._stamp(clocks, column)
        )
        event = self.events.rows[s[sh.S_ARGUMENT]]
        instruction, reduces = int(event[Column.INSTRUCTION]), int(event[Column.STRONG])
        reads = clocks.known_reads(warp)
        while self.options:
            own = (clocks.known[warp].ctypes.data, clocks.lanes[warp].ctypes.data, int(resident.others[reduces, warp]))
            tables = np.array([*own, self.allocations.ctypes.data, self.table.ctypes.data, reads.ctypes.data], np.int64)
            lacking = self._check_bulk_copy(
                s.ctypes.data, instruction, reduces, record.ctypes.data, stamps.ctypes.data, tables.ctypes.data
            )
            if lacking < 0:
                break
            self._give_shadow(int(lacking), 2)
        for one_told in told:
            hears = self.resident[one_told.number]
            by = (-int(record[AT_BYTES]) & mb.BYTES_MASK) << mb.OPERAND_BYTES_AT
            now = mb.changed(mbarrier_at(one_told.shared, word), by)
            one_told.shared[offset : offset + 8].view(np.uint64)[0] = now
            found, ends = hears.mbarriers.at(word, now, 0)
            found.arrive(hears.clocks.copied(word))
            found.become(now, ends)

    # --- barriers -------------------------------------------------------------------------------------------------
    def _arrived(self, block: Block, resident: ResidentBlock, warp: Warp) -> None:
        """A warp that knows of other blocks, or lacks some of its lanes, has reached a barrier."""
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

    def _miscounts(self, block: Block, resident: ResidentBlock, warp: Warp) -> None:
        """A warp names an invalid number of threads for a barrier, or a different one than earlier warps."""
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

    def _completes(self, block: Block, resident: ResidentBlock, barrier: int) -> None:
        """A block barrier is about to release its warps."""
        waiting = [w for w in block.warps if w.state == tu.AT_BARRIER and w["barrier_id"] & 15 == barrier]
        places = sorted(self._end_of(int(n)) for n in resident.places[barrier, 1 : 1 + resident.places[barrier, 0]])
        if "synccheck" in self.checks and all(w["barrier_threads"] == 0 for w in waiting):
            # Warps with different roles meet at barriers other than __syncthreads()'s, so several places belong together.
            if barrier == 0 and len(places) > 1:
                sites = [site for p in places if (site := barrier_site(self.program, p)) is not None]
                if self._lines(sites) > 1:
                    self._divergence(block, waiting[0], BLOCK_DIVERGES, sites)
            self._went_round(block, resident, waiting, places)
        resident.clocks.complete(barrier, [w.in_block for w in waiting])
        for warp in waiting:
            resident.note_others(block, warp.in_block)

    def _lines(self, instructions: list[int]) -> int:
        """Number of source lines that contain barriers; compilers generate several instructions from one barrier, some without a line."""
        places = [place(self.program, i, "", (0, 0, 0), (0, 0, 0)) for i in instructions]
        return len({p.line for p in places if p.line})

    def _end_of(self, block: int) -> int:
        """Index of the last instruction of a basic block."""
        return self.blocks[block].first + self.blocks[block].count - 1

    def _went_round(self, block: Block, resident: ResidentBlock, waiting: list[Warp], places: list[int]) -> None:
        """Report ended threads that went round the barrier at which the others of their block met."""
        present = {w.in_block for w in waiting}
        for warp in block.warps:
            for at in places:
                absent = resident.walked.went_round(warp.in_block, self.block_at[at], warp["exited"])
                if absent:
                    what = WARP_DIVERGES if warp.in_block in present else BLOCK_DIVERGES
                    self._divergence(block, warp, what, [at], absent)
                    resident.walked.forget(warp.in_block, absent)

    def _outside(self, block: Block, warp: Warp) -> None:
        """Report lanes that reached a WARPSYNC whose mask lacks them (``engine/jit/convergence.py`` records the first place)."""
        lanes, address = warp["outside_lanes"], warp["outside_instruction"]
        if not lanes:
            return
        warp["outside_lanes"] = 0
        index = next(i for i, x in enumerate(self.program.instructions) if x.address == address)
        self._barrier_error(
            block, warp, "Invalid arguments", [self._called_from(warp, index, lanes)], lanes,
            ("the mask of a *_sync operation must name every thread that reaches it",),
        )  # fmt: skip

    def _missing(self, block: Block, warp: Warp, lanes: int, at: int) -> None:
        """Report lanes that went round a warp-wide operation whose mask names them."""
        lane = (lanes & -lanes).bit_length() - 1
        first = self._thread(warp.in_block, lane)
        details = (
            f"{lanes.bit_count()} thread(s) named by the mask went around it, thread {first} first",
            "all threads named by the mask of a *_sync operation must execute it together, unless they have exited",
        )
        self._barrier_error(block, warp, WARP_DIVERGES, [self.detours.syncs[at]], lanes, details)

    def _called_from(self, warp: Warp, index: int, outside: int) -> int:
        """If an instruction is in a function of the compiler's own, the call by which the warp got there; otherwise the instruction itself.

        The compiler puts WARPSYNC with an unknown mask out of line, in a function without source lines.
        """
        address = self.program.instructions[index].address
        call = index
        for number, lanes in blocks_of(warp.trace, warp["trace_used"], self.program.lanes):
            block = self.blocks[number]
            last = self._end_of(number)
            if self.program.instructions[last].opcode == "CALL":
                call = last
            elif block.first <= index <= last and lanes & outside and call != index:
                # The last call so far, because such functions do not contain calls.
                entered = max((f for f in self.program.functions if f <= address), default=0)
                first = self.blocks[self.blocks[self.block_at[call]].successors[0]].first
                return call if self.program.instructions[first].address == entered else index
        return index

    def _divergence(self, block: Block, warp: Warp, what: str, places: list[int], absent: int = 0) -> None:
        """Report threads that are not at a barrier: those in ``absent``, or warps that are at another barrier."""
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
        """Add a synccheck finding at the first place, for the first of the lanes; a later one there increases its count."""
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
        """The findings of this launch, in the order in which they were found.

        Args:
            unwritten: the effect of unwritten shared memory on the results.
        """
        for resident in self.resident.values():  # of a launch that ended with a fault
            self.shadows.passed(resident.clocks.end())
        found = [self._words.noted(row, unwritten) for row in self._rows()]
        ends = [self._words.not_awaited(visit) for visit in self.ends]
        return [*self.divergent.values(), *found, *ends, *self._words.waste(self.counters)]

    def touched(self) -> list[Allocation]:
        """Allocations that were accessed; all of them if no records were read."""
        if not self.options:
            return self.live
        return [a for a, row in zip(self.live, self.allocations, strict=True) if row[sh.A_TOUCHED]]

    def place_of(self, instruction: int, what: str, warp: int, lane: int) -> Place:
        """The place of an instruction with a lane of a warp of the launch."""
        return self._words.place_of(instruction, what, warp, lane)

    def _thread(self, warp_in_block: int, lane: int) -> Dim3:
        return thread_of(self.context.geometry, warp_in_block, lane)


def _lane_addresses(trace: npt.NDArray[np.int64], at: int, width: int) -> list[int]:
    """Addresses of the lanes that take part in the access record at word ``at``; ``width`` is the wave's."""
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
