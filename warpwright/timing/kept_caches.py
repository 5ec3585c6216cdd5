"""Caches that a device keeps between launches: L2's lines, the GPCs' translations and DRAM's open rows.

A single launch begins with cold caches, as Nsight Compute measures by default.  In a program, each launch finds the contents that earlier ones left
(``ncu --cache-control none``): a device that keeps its caches has one `KeptCaches`, which every timed launch takes over and returns.

L2's lines stay where they are in the state's buffer, which therefore belongs to the device; L2 keeps times by the device's own clock
(``chip.epoch``), so that nothing has to be moved.  L1, the constant and the instruction caches begin each launch empty, as on a card; the code itself is taken
to be in L2.

Copies and fills between launches use L2 too (`bench.machine.streams` on an H200, 16 MiB each): the next kernel hits the lines that a fill or a copy within the
device has written or read; data sent by the host comes from DRAM.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np
import numpy.typing as npt

from warpwright.timing import buffer_reuse
from warpwright.timing import state as s
from warpwright.timing.access_policy import LEVEL_LAST, LEVEL_SHIFT
from warpwright.timing.l2 import DIRTY, TAG_SHIFT
from warpwright.timing.tlb import FIRST, LAST_MISS

HISTORY = 2
"""Number of preceding launches that must match for the time of an earlier launch to be reused (``timing_cache.py``)."""
LONG_AGO = -(1 << 40)
_ROWS, _CHANNELS, _PAGES = "dram_banks", "dram_state", "tlb"


def _queues(state: s.State) -> npt.NDArray[np.int64]:
    """Queued writes by channel, place and field; no places if a batch is the whole queue."""
    m, first = state.words, state.areas["dram_queues"]
    channels = int(m[s.chip.channels_per_slice] * m[s.chip.slices])
    places = int(m[s.chip.dram_batch]) * s.WAITING_WRITES if m[s.chip.dram_batch_rows] else 0
    size = s.QueuedWrite.size
    return m[first : first + channels * places * size].reshape(channels, places, size)


class KeptCaches:
    """The caches of one device between two launches; empty at first."""

    def __init__(self, line_bytes: int) -> None:
        self._line_bytes = line_bytes
        self._history: tuple[Hashable, ...] = ()
        self._since = 0
        self._words: npt.NDArray[np.int64] | None = None
        self._l2 = range(0)
        self._areas: dict[str, npt.NDArray[np.int64]] = {}
        self._queued = np.zeros((0, 0, 0), np.int64)
        self._epoch_cycles = 0
        self._brought: list[tuple[int, int, int]] = []
        self._ways = 1
        self._ranges = np.zeros((0, s.BR_WORDS), np.int64)

    def take(self, count: int, l2: range) -> npt.NDArray[np.int64]:
        """``count`` words whose part ``l2`` holds L2's lines, the others anything."""
        words = self._words
        if words is None or len(words) < count or l2 != self._l2:
            # Half as many again, so that a program of growing kernels seldom moves its L2.
            words = buffer_reuse.aligned(count + count // 2 if self._words is not None else count)
            if self._words is not None and l2 == self._l2:
                words[l2.start : l2.stop] = self._words[l2.start : l2.stop]
            else:
                self._areas.clear()
            self._l2 = l2
        self._words = None  # a launch that fails leaves the caches empty
        self._whole = words
        return words[:count]

    def restore(self, state: s.State) -> None:
        """Fill in the state that the previous launch left, in the clock of a launch that begins now."""
        m = state.words
        m[s.chip.epoch] = self._epoch_cycles
        for name, kept in self._areas.items():
            first = state.areas[name]
            m[first : first + len(kept)] = kept
        if self._areas:
            _queues(state)[:, : self._queued.shape[1]] = self._queued
        self._ranges = np.array(list(self._taken_in(state)), np.int64).reshape(-1, s.BR_WORDS)
        self._brought.clear()
        m[s.chip.brought], m[s.chip.brought_count] = self._ranges.ctypes.data, len(self._ranges)

    def _taken_in(self, state: s.State) -> Iterator[tuple[int, int, int]]:
        """Ranges that L2 has yet to process: of a long range only the end stays, and many lines are dropped at once."""
        m = state.words
        ways = int(m[s.chip.l2_ways])
        sets = self._sets(m, ways)
        lines = sets.shape[0] * ways
        for first, end, how in self._brought:
            if how == s.BR_DROPPED and end - first > lines:
                held = sets[:, 0, :] >> TAG_SHIFT
                sets.transpose(0, 2, 1)[(held >= first) & (held < end)] = 0
            else:
                yield max(first, end - lines), end, how

    def leave(self, state: s.State) -> None:
        """Keep the state that a finished launch leaves."""
        m = state.words
        elapsed = int(m[s.chip.now])
        self._epoch_cycles += elapsed
        self._areas = {
            _PAGES: self._pages(state, elapsed),
            _ROWS: self._rows(state, elapsed),
            _CHANNELS: self._channels(state, elapsed),
        }
        most = int(self._areas[_CHANNELS][s.Channel.requests :: s.Channel.size].max())
        self._queued = _queues(state)[:, :most].copy()
        self._words = self._whole
        self._ways = int(m[s.chip.l2_ways])

    def used(self, address: int, size_bytes: int, how: int) -> None:
        """A copy or a fill has used memory of the device: ``BR_READ``, ``BR_WRITTEN`` or, past L2, ``BR_DROPPED``."""
        if size_bytes > 0:
            first, end = address // self._line_bytes, -(-(address + size_bytes) // self._line_bytes)
            self._brought.append((first, end, how))
            self._since = hash((self._since, address, size_bytes, how))

    def launched(self, what: Hashable) -> None:
        """Record a launch: ``what`` determines its time, apart from the caches' contents."""
        self._history = (*self._history, (self._since, what))[-HISTORY:]
        self._since = 0

    @property
    def found(self) -> Hashable:
        """What came before the next launch: the last launches, and all copies and fills since the first of them."""
        return self._history, self._since

    def drop(self) -> None:
        """Begin again with cold caches."""
        self._words, self._history = None, ()
        self._areas.clear()
        self._brought.clear()

    def _sets(self, words: npt.NDArray[np.int64], ways: int) -> npt.NDArray[np.int64]:
        """L2's sets: tags, stamps and fills of their ways."""
        sets = words[self._l2.start : self._l2.stop]
        size = s.L2_WAY_WORDS * ways
        return sets[: len(sets) // size * size].reshape(-1, s.L2_WAY_WORDS, ways)

    def write_back(self) -> None:
        """No line is dirty from now on: dirty lines have been written to DRAM between two launches."""
        if self._words is not None:
            self._sets(self._words, self._ways)[:, 0, :] &= ~DIRTY
        self._since = hash((self._since, "written back"))

    def reset_persisting(self) -> None:
        """Persisting lines are normal ones from now on."""
        if self._words is None:
            return
        stamps = self._sets(self._words, self._ways)[:, 1, :]
        stamps[stamps >> LEVEL_SHIFT == LEVEL_LAST] -= 1 << LEVEL_SHIFT
        self._since = hash((self._since, "persisting lines reset"))

    @staticmethod
    def _pages(state: s.State, elapsed: int) -> npt.NDArray[np.int64]:
        first, slots = state.areas[_PAGES], int(state.words[s.chip.tlb_slots])
        gpcs = int(state.words[s.chip.gpcs])
        kept = state.words[first : first + gpcs * slots].reshape(gpcs, slots).copy()
        kept[:, LAST_MISS] = LONG_AGO
        kept[:, FIRST + 1 :: 2] -= elapsed
        return kept.reshape(-1)

    @staticmethod
    def _rows(state: s.State, elapsed: int) -> npt.NDArray[np.int64]:
        m, first = state.words, state.areas[_ROWS]
        count = int(m[s.chip.channels_per_slice] * m[s.chip.slices] * m[s.chip.dram_bank_count])
        kept = m[first : first + 2 * count].copy()
        kept[1::2] -= elapsed
        return kept

    @staticmethod
    def _channels(state: s.State, elapsed: int) -> npt.NDArray[np.int64]:
        """Writes that wait in each channel; its counters belong to the launch that has ended."""
        m, first = state.words, state.areas[_CHANNELS]
        count = int(m[s.chip.channels_per_slice] * m[s.chip.slices])
        now = m[first : first + count * s.Channel.size].reshape(count, s.Channel.size)
        kept = np.zeros_like(now)
        for field in (s.Channel.writes, s.Channel.requests, s.Channel.queued, s.Channel.read, s.Channel.left):
            kept[:, field] = now[:, field]
        # What waited for a place has found one before the next launch.
        kept[:, s.Channel.requests] = np.minimum(kept[:, s.Channel.requests], m[s.chip.dram_batch])
        for field in (s.Channel.batch, s.Channel.written, s.Channel.full):
            kept[:, field] = np.maximum(now[:, field] - elapsed, 0)
        kept[:, s.Channel.first] = LONG_AGO  # memory in use is refreshed continuously
        return kept.reshape(-1)
