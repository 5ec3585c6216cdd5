"""Happens-before between warps: what a warp knows of the others through barriers, fences and atomics.

Every warp counts its synchronisations (its *epoch*). A clock has, for each warp of the launch, the epoch before which everything that the warp did is known.
Clocks are passed on

* at a block barrier, from every warp that arrives to every warp that waits;
* from a fence, by a later strong store or atomic of the same warp or of a warp that it has since met at a block barrier (release), to a warp that reads the
  written word and then fences (acquire);
* at the barrier of a cluster, from every warp of its blocks that arrives to every warp that waits;
* at an mbarrier, from the arrivals of a phase to whoever tests it after the phase is complete (``mbarriers.py``);
* at other strong accesses of block scope, from one access of the word to the next within the block (for a word of shared memory, within the cluster).

Asynchronous copies have separate clock columns: one for the ``cp.async`` of each warp and one for its bulk stores, both known to the warp after it waits for
the group, and one for each mbarrier, known to threads that test the mbarrier. What threads wrote must be made visible to bulk copies by a proxy fence; a
further column per warp records up to which epoch that has been done. All of these columns are passed on like the warps' own.

A product of a warpgroup (``wgmma``) is one operation of four warps. It follows the accesses to registers that precede it in each of them (``wgmma.fence``), so the
loads of its operands have been performed once any of the four has waited for it. A column per warp has the number of its groups of products that
are complete; it orders the warp's reads, but not its writes.

This is the causality order of PTX (ISA 8.8, "Memory Consistency Model") at warp granularity; ``shadow.py`` orders the
lanes of one warp.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import NAMED_BARRIERS
from warpwright.isa.ops import WARP_LANES

Row = npt.NDArray[np.int64]
COPY_KINDS = 4
"""Groups of columns after the warps' own: ``cp.async`` by warp, bulk stores by warp, what proxy fences have made visible of each warp, and its products."""
CP_ASYNC, BULK_STORES, SHOWN, PRODUCTS = 1, 2, 3, 4
GROUP_WARPS = 4
"""Warps of a warpgroup (PTX ISA, ``wgmma``)."""
SHARED = -1
"""Used in place of a block's number for releases at a word of shared memory, which reach the whole cluster."""
MBARRIERS = 64
"""Number of columns for mbarriers; further mbarriers of a block share the last one."""


class Clock:
    """Epochs by block, as one row of warps each; immutable once shared."""

    __slots__ = ("_dense", "_last", "rows")

    def __init__(self, rows: dict[int, Row] | None = None) -> None:
        self.rows: dict[int, Row] = rows if rows is not None else {}
        self._dense: Row | None = None
        self._last: tuple[Clock, Clock] | None = None
        """The last clock that this one was joined with, and the result, because spinning warps repeat the same join."""

    def joined(self, other: Clock) -> Clock:
        """The later epoch of each warp; this clock itself if the other has nothing later."""
        if not other.rows or other is self:
            return self
        if not self.rows:
            return other
        if self._last is None or self._last[0] is not other:
            self._last = other, self._join(other)
        return self._last[1]

    def _join(self, other: Clock) -> Clock:
        later: dict[int, Row] = {}
        for block, row in other.rows.items():
            mine = self.rows.get(block)
            if mine is None:
                later[block] = row
            elif mine is not row and (row > mine).any():
                later[block] = np.maximum(mine, row)
        return Clock({**self.rows, **later}) if later else self

    def with_row(self, block: int, row: Row) -> Clock:
        """A copy with a block's row replaced."""
        return Clock({**self.rows, block: row})

    def dense(self, blocks: int, warps: int) -> Row:
        """One epoch for each warp of the launch."""
        if self._dense is None:
            table = np.zeros((blocks, warps), np.int64)
            for block, row in self.rows.items():
                table[block] = row[:warps]
            self._dense = table.reshape(-1)
        return self._dense


EMPTY = Clock()


@dataclass(slots=True)
class _Location:
    """The releases at a word."""

    device: Clock = EMPTY
    block: dict[int, Clock] = field(default_factory=dict)
    """Releases of block scope, by block."""


class BlockClocks:
    """The clocks of a resident block's warps; ``begin`` reuses them for another block. A block's epochs are later than those of earlier blocks, so leftovers of
    their clocks precede everything in this one.

    Args:
        epochs: the epoch of each warp, shape (warps,).
        oldest: the launch's first epoch.
        lanes: lanes of a warp.
    """

    def __init__(self, warps: int, epochs: Row, oldest: int, lanes: int = WARP_LANES) -> None:
        self.warps = warps
        columns = (1 + COPY_KINDS) * warps + MBARRIERS
        self.epochs = epochs
        self._last = oldest - 1
        self.known: npt.NDArray[np.int64] = np.zeros((warps, columns), np.int64)
        self.copies: Row = np.zeros(columns, np.int64)
        """Current epochs of the columns of copies."""
        self.lanes: npt.NDArray[np.int64] = np.zeros((warps, lanes, lanes), np.int64)
        self._product_ends: list[list[int]] = [[] for _ in range(warps)]
        """By warp, the epoch in which it issued the last product of each group in this block."""
        self._products_before = 0
        """Number from which this block counts its groups of products; what is left of earlier blocks is not above it."""
        self.arrived: npt.NDArray[np.int64] = np.zeros((NAMED_BARRIERS, columns), np.int64)
        """What the warps that have arrived at each barrier knew (``block_runner.py``)."""

    def end(self) -> int:
        """End the block; returns its last epoch."""
        self._last = int(max(self.epochs.max(), self.copies.max()))
        return self._last

    def begin(self, number: int, after: int = 0) -> int:
        """Begin another block; returns its first epoch.

        Args:
            after: an epoch that precedes the first one.
        """
        warps = self.warps
        self.number = number
        first = max(self._last, after) + 1
        self.epochs.fill(first)
        self.copies.fill(first)
        self.arrived.fill(0)
        self._groups: list[list[tuple[int, int, int]]] = [[] for _ in range(warps)]
        """By warp, the groups that have not been waited for: dependence counter, column, epoch."""
        self._products_before += max(map(len, self._product_ends))
        self._product_ends = [[] for _ in range(warps)]
        self._barriers: dict[int, int] = {}
        self.foreign: list[Clock] = [EMPTY] * warps
        self.seen: list[Clock] = [EMPTY] * warps
        """What strong accesses are ordered after. It includes releases that were read without a fence since; weak reads may still find old values in L1."""
        self._arrived: dict[int, Clock] = {}
        self._arrived_seen: dict[int, Clock] = {}
        self._arrived_released: dict[int, Clock] = {}
        self._released: list[Clock] = [EMPTY] * warps
        self._released_in_block: list[Clock] = [EMPTY] * warps
        self._to_acquire: list[Clock] = [EMPTY] * warps
        return first

    def clock(self, warp: int) -> Clock:
        """Everything that a warp knows, including its own past."""
        row = self.known[warp].copy()
        row[warp] = self.epochs[warp]
        return self.foreign[warp].with_row(self.number, row)

    def learn(self, warp: int, clock: Clock) -> None:
        """Join a clock into a warp's knowledge."""
        own = clock.rows.get(self.number)
        if own is not None:
            np.maximum(self.known[warp], own, out=self.known[warp])
        if len(clock.rows) > (own is not None):
            rest = clock if own is None else Clock({b: r for b, r in clock.rows.items() if b != self.number})
            self.foreign[warp] = self.foreign[warp].joined(rest)

    # --- asynchronous copies --------------------------------------------------------------------------
    def column(self, kind: int, warp: int) -> int:
        return kind * self.warps + warp

    def barrier_column(self, word: int) -> int:
        """The column of the copies that signal an mbarrier."""
        number = self._barriers.setdefault(word, len(self._barriers))
        return (1 + COPY_KINDS) * self.warps + min(number, MBARRIERS - 1)

    def commit(self, warp: int, counter: int, kind: int) -> None:
        """A warp ends a group of copies."""
        column = self.column(kind, warp)
        self._groups[warp].append((counter, column, int(self.copies[column])))
        self.copies[column] += 1

    def wait(self, warp: int, counter: int, left: int) -> None:
        """A warp waits until at most a given number of groups of a counter (-1 for any) are pending."""
        mine = [group for group in self._groups[warp] if counter in (-1, group[0])]
        for group in mine[: max(len(mine) - left, 0)]:
            _, column, epoch = group
            self.known[warp, column] = max(self.known[warp, column], epoch + 1)
            self._groups[warp].remove(group)

    def show(self, warp: int) -> None:
        """A proxy fence: what the warp did and knows of becomes visible to bulk copies."""
        self.epochs[warp] += 1
        shown = self.known[warp, SHOWN * self.warps : (SHOWN + 1) * self.warps]
        np.maximum(shown, self.known[warp, : self.warps], out=shown)
        shown[warp] = self.epochs[warp]

    def copied(self, word: int) -> Clock:
        """A copy has completed bytes of an mbarrier's phase; returns the clock that says so."""
        column = self.barrier_column(word)
        self.copies[column] += 1
        row = np.zeros(self.known.shape[1], np.int64)
        row[column] = self.copies[column]
        return Clock({self.number: row})

    def arrival(self, warp: int) -> Clock:
        """A warp arrives at an mbarrier; returns what precedes that."""
        self.epochs[warp] += 1
        return self.clock(warp)

    def arrival_with_copies(self, warp: int) -> Clock:
        """The same for an arrival that takes effect when the warp's earlier ``cp.async`` copies have completed."""
        column = self.column(CP_ASYNC, warp)
        before = int(self.known[warp, column])
        self.copies[column] += 1
        self.known[warp, column] = self.copies[column]
        clock = self.arrival(warp)
        self.known[warp, column] = before
        return clock

    # --- products of a warpgroup --------------------------------------------------------------------------
    def end_products(self, warp: int) -> None:
        """A warp issues the last product of a group."""
        self._product_ends[warp].append(int(self.epochs[warp]))
        self.epochs[warp] += 1

    def wait_for_products(self, warp: int, left: int) -> None:
        """A warp waits until at most a given number of its groups of products are pending: the others are complete, so all warps of the warpgroup have issued them, even those
        whose records have not been read that far."""
        done = self._products_before + len(self._product_ends[warp]) - left
        first = warp - warp % GROUP_WARPS
        columns = self.known[
            warp, self.column(PRODUCTS, first) : self.column(PRODUCTS, min(first + GROUP_WARPS, self.warps))
        ]
        np.maximum(columns, done, out=columns)

    def known_reads(self, warp: int) -> Row:
        """What a warp knows of the reads of its block's warps: an epoch by column, as a row of ``known``."""
        if not any(self._product_ends):
            return self.known[warp]
        row = self.known[warp].copy()
        for other, ends in enumerate(self._product_ends):
            done = int(row[self.column(PRODUCTS, other)]) - self._products_before
            if done > 0:
                last = ends[done - 1] if done <= len(ends) else int(self.epochs[other])
                row[other] = max(row[other], last + 1)
        return row

    # --- lanes of a warp ------------------------------------------------------------------------------
    @staticmethod
    def numbers(lanes: int) -> list[int]:
        """The lanes of a mask."""
        return [lane for lane in range(lanes.bit_length()) if lanes >> lane & 1]

    def lanes_learn(self, warp: int, lanes: int, arrivals: Row) -> None:
        """Lanes learn what the lanes of their warp did before these epochs, one per lane."""
        numbers = self.numbers(lanes)
        self.lanes[warp, numbers] = np.maximum(self.lanes[warp, numbers], arrivals)

    def lanes_meet(self, warp: int, lanes: int) -> None:
        """Lanes have met at a barrier: each knows everything about the others."""
        numbers = self.numbers(lanes)
        self.lanes[warp, np.ix_(numbers, numbers)[0], np.ix_(numbers, numbers)[1]] = self.epochs[warp]

    # --- barriers: knowledge of other blocks; ``block_runner.py`` passes on that of this block ------
    def arrive(self, warp: int, barrier: int) -> None:
        """A warp arrives at a block barrier and contributes what it knows."""
        self._arrived[barrier] = self._arrived.get(barrier, EMPTY).joined(self.foreign[warp])
        self._arrived_seen[barrier] = self._arrived_seen.get(barrier, EMPTY).joined(self.seen[warp])
        self._arrived_released[barrier] = self._arrived_released.get(barrier, EMPTY).joined(self._released[warp])

    def complete(self, barrier: int, waiting: Iterable[int]) -> None:
        """A barrier completes and releases warps."""
        clock, seen = self._arrived.pop(barrier, EMPTY), self._arrived_seen.pop(barrier, EMPTY)
        released = self._arrived_released.pop(barrier, EMPTY)
        for warp in waiting:
            self.foreign[warp] = self.foreign[warp].joined(clock)
            self.seen[warp] = self.seen[warp].joined(seen)
            # Fences combine with barriers: any warp of the block may set the flag for what others fenced before the barrier, and may fence, after the barrier,
            # what others have read.
            self._released[warp] = self._released[warp].joined(released)
            self._to_acquire[warp] = self._to_acquire[warp].joined(seen)

    # --- fences and words --------------------------------------------------------------------------------
    def fence(self, warp: int, device: bool) -> None:
        """A fence: orders earlier strong reads before what follows, and everything earlier before later strong writes."""
        self.learn(warp, self._to_acquire[warp])
        self._to_acquire[warp] = EMPTY
        self.epochs[warp] += 1
        clock = self.clock(warp)
        self._released_in_block[warp] = clock
        if device:
            self._released[warp] = clock

    def strong_access(
        self,
        warp: int,
        words: set[int],
        locations: dict[int, Any],
        reads: bool,
        writes: bool,
        in_block: bool,
        group: int | None = None,
    ) -> None:
        """A strong access to words: reads acquire (after a fence, or at once within the block), writes release.

        Args:
            group: ``SHARED`` for words of shared memory; the block for others.
        """
        group = self.number if group is None else group
        for word in words:
            place: _Location = locations.setdefault(word, _Location())
            if reads:
                seen = place.device.joined(place.block.get(group, EMPTY))
                if in_block:
                    self.learn(warp, seen)
                else:
                    self._to_acquire[warp] = self._to_acquire[warp].joined(seen)
                    self.seen[warp] = self.seen[warp].joined(seen)
        if writes and in_block:
            self.epochs[warp] += 1
            self._released_in_block[warp] = self.clock(warp)
        if writes:
            for word in words:
                place = locations[word]
                mine = self._released_in_block[warp]
                device = self._released[warp]
                # An atomic continues the releases of others at the word; a store starts afresh.
                place.device = place.device.joined(device) if reads else device
                place.block[group] = place.block.get(group, EMPTY).joined(mine) if reads else mine
