"""A resident block under the checks: cells of its shared memory, clocks of its warps, and what they know of other blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import BLOCK, MAX_CLUSTER, NAMED_BARRIERS
from warpwright.isa.program import Program
from warpwright.tools.checks import block_runner as tu
from warpwright.tools.checks import shadow as sh
from warpwright.tools.checks.checked_execution import Block
from warpwright.tools.checks.events import Events
from warpwright.tools.checks.happens_before import CP_ASYNC, EMPTY, BlockClocks, Clock
from warpwright.tools.checks.mbarriers import Mbarriers
from warpwright.tools.checks.skipped_barriers import Detours, Walked


class ResidentBlock:
    """The checks' state of a resident block; ``begin`` reuses it for another block."""

    def __init__(
        self,
        block: Block,
        events: Events,
        warps: int,
        detours: Detours,
        oldest: int,
        program: Program,
        unknown: npt.NDArray[np.int64],
    ) -> None:
        """``unknown``: an array of zeros, one per warp of the launch."""
        lanes, self._architecture = program.lanes, program.arch
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
        self.places = np.zeros((NAMED_BARRIERS, tu.MOST_PLACES + 1), np.int64)
        self.wanted = np.zeros(NAMED_BARRIERS, np.int64)
        """The count that each barrier's first arrival named."""
        self.others = np.zeros((2, warps), np.int64)
        """Host pointers to what each warp knows of other blocks, for weak and for strong accesses."""
        self.seen: list[Clock] = [EMPTY] * warps
        """Kept alive, because there are pointers to them."""
        self.told: list[tuple[Clock, Clock]] = []
        """The clocks from which the pointers were created."""
        self._unknown = int(unknown.ctypes.data)
        """What a warp initially knows of the warps of other blocks."""
        self._blocks = len(unknown) // warps
        self.visits = np.zeros((MAX_CLUSTER * warps, sh.VISIT_WORDS), np.int64)
        """The last accesses to its shared memory by warps of other blocks."""
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
        """The words of a block that point to these arrays."""
        self._copies = clocks.column(CP_ASYNC, 0) + np.arange(warps)

    def begin(self, block: Block, after: int, first_block: int = 0) -> None:
        """Reset the state for a block.

        Args:
            after: an epoch that precedes all of its own.
            first_block: number of the grid's first block among those of all grids that are checked together (``joined_grids.py``).
        """
        s = self.states
        self.written.fill(0)
        self.places.fill(0)
        self.wanted.fill(0)
        self.mbarriers = Mbarriers(self._architecture)
        self.walked.begin()
        self.locations: dict[int, Any] = {}
        self.visits.fill(0)
        self.waits: dict[int, Clock] = {}
        """For each warp that has arrived at its cluster's barrier but not waited yet, what it will know."""
        first = self.clocks.begin(first_block + block.number, after)
        s[:, sh.S_SHARED_OLDEST] = first
        s[:, sh.S_EVENT : sh.S_EVENT_END + 1] = 0
        s[:, sh.S_BLOCK] = 0
        s[:, sh.S_RECORDS] = [w.trace_address for w in block.warps]
        s[:, sh.S_FIRST_WARP] = self.clocks.number * len(s)
        s[:, sh.S_WARP] = s[:, sh.S_FIRST_WARP] + s[:, sh.S_WARP_IN_BLOCK]
        s[:, sh.S_SHARED_HOST] = block.words[BLOCK.slot("shared_base")]
        s[:, sh.S_COPY] = ((s[:, sh.S_LAUNCH_WARPS] + self._copies << s[:, sh.S_HALVES]) + 1) << 32 | first
        self.others.fill(self._unknown)
        s[:, sh.S_SEEN] = self._unknown
        self.told = [(EMPTY, EMPTY)] * len(s)
        block.turn[self._slots] = self._words

    def member(self) -> tuple[int, ...]:
        """The block's row of ``shadow.M_*``."""
        size, cells, written, host = (
            int(self.states[0, word])
            for word in (sh.S_SHARED_BYTES, sh.S_SHARED_CELLS, sh.S_SHARED_WRITTEN, sh.S_SHARED_HOST)
        )
        return size, cells, written, host, int(self.visits.ctypes.data)

    def note_others(self, block: Block, warp: int) -> None:
        """Update, for machine code, what a warp knows of other blocks."""
        foreign, released = self.clocks.foreign[warp], self.clocks.seen[warp]
        if self.told[warp] == (foreign, released):
            return
        self.told[warp] = foreign, released
        seen = self.seen[warp] = foreign.joined(released)
        self.others[:, warp] = self._dense(foreign), self._dense(seen)
        self.states[warp, sh.S_SEEN] = self.others[1, warp]
        block.turn[tu.T_TELLS] = 1

    def _dense(self, clock: Clock) -> int:
        """Host pointer to one epoch per warp of the launch."""
        return int(clock.dense(self._blocks, len(self.states)).ctypes.data) if clock.rows else self._unknown
