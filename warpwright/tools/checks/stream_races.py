"""Races between launches and copies of streams, graph nodes and the host: unordered work on the same bytes.

Work runs here one piece at a time when it is submitted; clocks (``engine/work_clocks.py``) determine what a card could run concurrently. The shadow of global
memory keeps each word's last write and two readers across launches, with epochs that identify the launch (``shadow.py``). Before a launch, the words touched by
earlier unordered launches are recorded; those that the launch touches as well are races, unless both accesses are reads or both are strong. Copies have no
shadow; their ranges are kept instead. Work is dropped when the host knows that it has ended, because everything later is ordered after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from warpwright.engine.allocation import Allocation
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.work_clocks import Clock, Work
from warpwright.tools.checks import shadow as sh
from warpwright.tools.checks.findings import Finding, Place
from warpwright.tools.checks.global_shadow import Shadows
from warpwright.tools.checks.host_stack import user_stack

if TYPE_CHECKING:
    from warpwright.tools.checks.known_launches import Start
    from warpwright.tools.checks.watch import Watch

Words = npt.NDArray[np.int64]
MOST_PAST, MOST_KINDS = 512, 1024
"""Limits: pieces of work that are kept (the oldest is dropped first), and kinds of launches for which the unordered launches at the time of watching are
kept."""
WRITES, READS, OTHER_READS = range(3)
_STAMPS = (sh.WRITE_STAMP, sh.READ_STAMP, sh.OTHER_STAMP)
_WORDS = tuple(stamp // sh.WORD_STEP for stamp in _STAMPS)
"""The words of a cell that are stamps; each is followed by the access's info."""
ADVICE = (
    "nothing orders the two: work of one stream, cudaStreamWaitEvent, an edge of the graph, or the host's wait "
    "(cudaStreamSynchronize, cudaDeviceSynchronize) would"
)


@dataclass(slots=True)
class _Ranges:
    """Bytes of one allocation that a copy touches, as begins and ends."""

    allocation: Allocation
    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Past:
    """A launch or copy that the host does not know to have ended."""

    work: Work
    host: tuple[str, ...]
    watch: Watch | None = None
    """The watch of a launch; None for a copy."""
    start: Start | None = None
    """Its start; None if other launches with the same start may behave differently."""
    first: int = 0
    last: int = 0
    """First and last epoch of a launch."""
    read: list[_Ranges] = field(default_factory=list)
    written: list[_Ranges] = field(default_factory=list)
    """Of a copy."""


@dataclass(slots=True)
class _Noted:
    """Words of an allocation that unordered launches touched, with their cells before the launch."""

    allocation: Allocation
    shift: int
    cells: Words
    """Indices of their cells."""
    kind: int
    stamps: Words
    infos: Words


class StreamRaces:
    """Finds such races on one GPU."""

    def __init__(self, shadows: Shadows, memory: DeviceMemory, tell: Callable[[Iterable[Finding]], None]) -> None:
        self._shadows = shadows
        self._tell = tell
        self._memory = memory
        self._past: list[_Past] = []
        self._noted: list[_Noted] = []
        self.work: Work | None = None
        """The current launch's work; None for a GPU whose work is all ordered."""
        self._watched: dict[Start, _Past] = {}
        """The last watched launch, by start."""
        self._beside: set[tuple[Start, Start]] = set()
        """Pairs of launches and earlier unordered launches whose races are known."""

    def ended(self, clock: Clock) -> None:
        """The host knows that work has ended; everything later is ordered after it."""
        self._past = [p for p in self._past if clock.get(p.work.queue, 0) < p.work.number]

    def unordered(self) -> list[_Past]:
        """Earlier work that is not ordered before the current launch."""
        work = self.work
        return [] if work is None else [p for p in self._past if not work.follows(p.work)]

    # --- launches -------------------------------------------------------------------------------------
    def begin(self, live: Sequence[Allocation]) -> None:
        """Begin a launch to which these allocations are accessible."""
        launches = sorted((p for p in self.unordered() if p.watch is not None), key=lambda p: p.first)
        self._noted = []
        if not launches:
            return
        firsts, lasts = (np.array([getattr(p, what) for p in launches], np.int64) for what in ("first", "last"))
        theirs = {id(a) for p in launches if p.watch is not None for a in p.watch.live}
        for allocation in live:
            cells, shift = self._shadows.cells(allocation)
            if cells is None or id(allocation) not in theirs:
                continue
            for kind in (WRITES, READS, OTHER_READS):
                stamps, infos = _column(cells, _WORDS[kind]), _column(cells, _WORDS[kind] + 1)
                at = np.flatnonzero((stamps & sh.EPOCH_BITS) >= firsts[0])
                epochs = stamps[at] & sh.EPOCH_BITS
                at = at[epochs <= lasts[np.searchsorted(firsts, epochs, "right") - 1]]
                if len(at):
                    self._noted.append(_Noted(allocation, shift, at, kind, stamps[at], infos[at]))

    def repeated(self, start: Start | None) -> bool:
        """A launch has the same start as a watched one: returns whether that one had the same unordered launches, so that this one need not be watched.

        In that case its races with copies are reported, and it takes the place of the earlier one.
        """
        if self.work is None:
            return True
        before = self._watched.get(start) if start is not None else None
        unordered = self.unordered()
        if before is None or before.watch is None or start is None:
            return not unordered
        launches = [p for p in unordered if p.watch is not None]
        if any(p.start is None or (start, p.start) not in self._beside for p in launches):
            return False
        self._with_copies(unordered, before.watch, (before.first, before.last))
        self._keep(replace(before, work=self.work))
        return True

    def _with_copies(self, unordered: list[_Past], watch: Watch, epochs: tuple[int, int]) -> None:
        """Races of a launch, identified by its epochs, with earlier copies."""
        for past in unordered:
            for kind, ranges in ((READS, past.read), (WRITES, past.written)):
                for one in ranges:
                    self._tell(self._with_copy(one, kind, past, watch, epochs))

    def end(self, watch: Watch, start: Start | None) -> None:
        """End a launch: find the words touched both by it and by unordered work.

        Args:
            start: the launch's start.
        """
        work, oldest = self.work, self._shadows.oldest
        if work is None:
            return
        watch.spare.clear()
        by_epoch = sorted((p for p in self._past if p.watch is not None), key=lambda p: p.first)
        for noted in self._noted:
            self._tell(self._with_launches(noted, by_epoch, watch, oldest))
        self._noted = []
        unordered = self.unordered()
        self._with_copies(unordered, watch, (oldest, self._shadows.last))
        past = _Past(work, watch.launch.host, watch, start, oldest, self._shadows.last)
        if start is not None and start.kind is not None:
            if len(self._watched) > MOST_KINDS:
                self._watched.clear()
                self._beside.clear()
            self._watched[start] = past
            self._beside |= {(start, p.start) for p in unordered if p.watch is not None and p.start is not None}
        self._keep(past)

    def _keep(self, past: _Past) -> None:
        self._past.append(past)
        del self._past[:-MOST_PAST]

    def _with_launches(self, noted: _Noted, launches: list[_Past], watch: Watch, oldest: int) -> list[Finding]:
        """Races of the current launch with the recorded words of earlier ones."""
        cells, shift = self._shadows.cells(noted.allocation)
        assert cells is not None
        at, stamps, infos = noted.cells, noted.stamps, noted.infos
        if shift < noted.shift:
            # Its cells are per byte now.
            at = (at[:, None] * 4 + np.arange(4)).reshape(-1)
            stamps, infos = np.repeat(stamps, 4), np.repeat(infos, 4)
            inside = at < noted.allocation.size_bytes
            at, stamps, infos = at[inside], stamps[inside], infos[inside]
        found = []
        for kind in (WRITES,) if noted.kind != WRITES else (WRITES, READS, OTHER_READS):
            mine, info = _column(cells, _WORDS[kind])[at], _column(cells, _WORDS[kind] + 1)[at]
            strong = _is_strong(infos, noted.kind) & _is_strong(info, kind)
            some = np.flatnonzero(((mine & sh.EPOCH_BITS) >= oldest) & ~strong)
            pairs = (infos[some] >> 32 & 0xFFFFFF) << 32 | (info[some] >> 32 & 0xFFFFFF)
            epochs = stamps[some] & sh.EPOCH_BITS
            owners = np.searchsorted(np.array([p.first for p in launches]), epochs, "right") - 1
            for owner, pair in sorted(set(zip(owners.tolist(), pairs.tolist(), strict=True))):
                these = some[(owners == owner) & (pairs == pair)]
                first = these[0]
                past = launches[owner]
                assert past.watch is not None
                same = noted.kind == kind == WRITES and bool(((infos ^ info)[these] & sh.VALUE_BITS == 0).all())
                places = (
                    _place(past.watch, pair >> 32, noted.kind, int(stamps[first]), int(infos[first])),
                    _place(watch, pair & 0xFFFFFF, kind, int(mine[first]), int(info[first])),
                )
                address = noted.allocation.address + (int(at[first]) << shift)
                found.append(self._finding(past, places, (noted.kind, kind), address, len(these), same, watch))
        return found

    # --- copies -------------------------------------------------------------------------------------------
    def copied(self, work: Work, read: Sequence[tuple[int, int]], written: Sequence[tuple[int, int]]) -> None:
        """A copy reads and writes bytes, given as (address, end) of each range."""
        past = _Past(work, user_stack(), read=self._ranges(read), written=self._ranges(written))
        for earlier in self._past:
            if work.follows(earlier.work):
                continue
            for kind, ranges in ((READS, past.read), (WRITES, past.written)):
                for one in ranges:
                    if earlier.watch is not None:
                        epochs = earlier.first, earlier.last
                        self._tell(self._with_copy(one, kind, past, earlier.watch, epochs, earlier.host))
                    else:
                        self._between_copies(past, one, kind, earlier)
        self._keep(past)

    def _ranges(self, stretches: Sequence[tuple[int, int]]) -> list[_Ranges]:
        found: dict[int, _Ranges] = {}
        for begin, end in stretches:
            allocation = self._memory.find(begin)
            if allocation is not None:
                one = found.setdefault(allocation.address, _Ranges(allocation))
                one.begins.append(begin - allocation.address)
                one.ends.append(end - allocation.address)
        return list(found.values())

    def _with_copy(
        self,
        ranges: _Ranges,
        kind: int,
        copy: _Past,
        watch: Watch,
        epochs: tuple[int, int],
        host: tuple[str, ...] | None = None,
    ) -> list[Finding]:
        """Races of a launch, identified by its epochs, with the bytes that a copy reads or writes.

        Args:
            host: the launch's call stack, if the launch came before the copy.
        """
        cells, shift = self._shadows.cells(ranges.allocation)
        if cells is None or not any(a is ranges.allocation for a in watch.live):
            return []
        found: dict[tuple[int, int], Finding] = {}
        for mine in (WRITES,) if kind == READS else (WRITES, READS, OTHER_READS):
            stamps, infos = _column(cells, _WORDS[mine]), _column(cells, _WORDS[mine] + 1)
            for begin, end in zip(ranges.begins, ranges.ends, strict=True):
                some = stamps[begin >> shift : (end - 1 >> shift) + 1] & sh.EPOCH_BITS
                at = np.flatnonzero((some >= epochs[0]) & (some <= epochs[1])) + (begin >> shift)
                instructions = infos[at] >> 32 & 0xFFFFFF
                for instruction in sorted(set(instructions.tolist())):
                    first = at[instructions == instruction][0]
                    count = int((instructions == instruction).sum())
                    if (instruction, mine) in found:
                        found[instruction, mine].count += count
                        continue
                    one = _place(watch, instruction, mine, int(stamps[first]), int(infos[first]))
                    address = ranges.allocation.address + (int(first) << shift)
                    kinds = (mine, kind) if host is not None else (kind, mine)
                    found[instruction, mine] = self._of_copy(copy, one, kinds, address, count, watch, host)
        return list(found.values())

    def _between_copies(self, past: _Past, one: _Ranges, kind: int, earlier: _Past) -> None:
        """Races of a copy with an earlier one."""
        for before, others in ((READS, earlier.read), (WRITES, earlier.written)):
            if WRITES not in (before, kind):
                continue
            for other in others:
                at = _common(one, other) if one.allocation is other.allocation else None
                if at is not None:
                    address = one.allocation.address + at
                    details = (self._where(address, (before, kind)), ADVICE, _host("the earlier copy", earlier.host))
                    title = f"Error: Race reported between {_word(before)} access and {_word(kind)} access of copies"
                    self._tell([Finding("racecheck", "error", title, (), details, 1, address, 0, past.host)])

    # --- findings -------------------------------------------------------------------------------------------
    def _where(self, address: int, kinds: tuple[int, int]) -> str:
        inside = self._memory.find(address)
        hazard = "WAW" if kinds == (WRITES, WRITES) else "RAW" if kinds[0] == WRITES else "WAR"
        where = f"byte {address - inside.address:,} of {inside.name}" if inside is not None else "no allocation"
        return f"{hazard} hazard at {address:#x}: {where}"

    def _finding(
        self,
        past: _Past,
        places: tuple[Place, ...],
        kinds: tuple[int, int],
        address: int,
        count: int,
        same: bool,
        watch: Watch,
    ) -> Finding:
        """The finding of a race between two launches."""
        severity = "info" if same else "error"
        details = [self._where(address, kinds), ADVICE, _host("the earlier launch", past.host)]
        if same:
            details.append("both wrote the same value")
        title = f"{severity.capitalize()}: Race reported between {_word(kinds[0])} access and {_word(kinds[1])} access of launches"
        launch = watch.launch
        return Finding(
            "racecheck", severity, title, places, tuple(details), count, address, launch.number, launch.host
        )  # fmt: skip

    def _of_copy(
        self,
        copy: _Past,
        one: Place,
        kinds: tuple[int, int],
        address: int,
        count: int,
        watch: Watch,
        host: tuple[str, ...] | None,
    ) -> Finding:
        """The finding of a race between a launch and a copy; ``host`` is the launch's call stack if it came first."""
        words = [f"{_word(kind)} access" for kind in kinds]
        words[host is not None] += " of a copy"
        details = (self._where(address, kinds), ADVICE, _host("the copy", copy.host))
        title = f"Error: Race reported between {words[0]} and {words[1]}"
        launch = watch.launch
        return Finding(
            "racecheck", "error", title, (one,), details, count, address, launch.number, host or launch.host
        )  # fmt: skip


def _column(cells: Words, word: int) -> Words:
    """One word of every cell."""
    return cells.reshape(-1, sh.CELL_WORDS, sh.GROUP_CELLS)[:, word].reshape(-1)


def _is_strong(infos: Words, kind: int) -> npt.NDArray[np.bool_]:
    return (infos & (sh.STRONG_WRITE if kind == WRITES else sh.STRONG_READ)) != 0


def _common(one: _Ranges, other: _Ranges) -> int | None:
    """The first byte that is in ranges of both."""
    order = np.argsort(other.begins)
    begins, ends = np.array(other.begins)[order], np.maximum.accumulate(np.array(other.ends)[order])
    for begin, end in zip(one.begins, one.ends, strict=True):
        n = int(np.searchsorted(begins, end, "left")) - 1
        if n >= 0 and ends[n] > begin:
            return max(begin, int(begins[n]))
    return None


def _word(kind: int) -> str:
    return "Write" if kind == WRITES else "Read"


def _host(what: str, stack: tuple[str, ...]) -> str:
    return f"{what}: {' > '.join(stack)}" if stack else f"{what}: from an unknown place"


def _place(watch: Watch, instruction: int, kind: int, stamp: int, info: int) -> Place:
    """The instruction of an access and a thread that made it."""
    number = (stamp >> 32) - 1
    warp = number >> watch.halves
    # Asynchronous copies are numbered after the launch's warps.
    warp = warp if warp < len(watch.unknown) else 0
    lanes = info & sh.LANE_BITS
    lane = info >> 58 & 31 if kind == WRITES else max((lanes & -lanes).bit_length() - 1, 0)
    lane += sh.HALF_LANES * (number & watch.halves)
    return watch.place_of(instruction, f"{_word(kind)} access", warp, lane)
