"""What a GPU shares with a processor that NVLinks join: the host's page tables, and a probe filter of the lines that the host's caches have of its memory."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class TranslationCosts:
    """Translation by the host's page tables: ``[address_translation]`` of a machine's file."""

    page_kib: int
    request_ns: float
    """From a request of the GPU until the host's answer."""
    pages_per_answer: int
    """Related pages that an answer translates."""
    kept_page_count: int
    """Pages that a GPU keeps translations of."""
    shoot_down_ns: float
    """From the host's request that a GPU forget translations until its acknowledgement, if nothing is in flight that uses them."""


@dataclass(frozen=True, slots=True)
class ProbeCosts:
    """A GPU's probe filter: ``[probe_filter]`` of a machine's file."""

    line_count: int
    """Lines that it can track."""
    way_count: int
    """Of a set."""
    watermark_percent: float
    """Above this share of its lines, the GPU takes lines back from the host on its own."""
    probe_ns: float
    """Until the host has given a line back."""


@dataclass(slots=True)
class HostAccess:
    """What accesses of the host to a GPU's memory did."""

    lines: int = 0
    """That it asked the GPU for; others were in its caches."""
    forced_probes: int = 0
    """For which the filter had no room, so that the host had to give another line back first."""
    taken_back: int = 0
    """Lines that the GPU took back because the filter was too full."""
    seconds: float = 0.0
    """Added to the host's accesses by forced probes."""


class ProbeFilter:
    """The lines of one GPU's memory that the host's caches may have, in sets; the oldest of a set is in its first way."""

    def __init__(self, costs: ProbeCosts, line_bytes: int) -> None:
        self.costs, self.line_bytes = costs, line_bytes
        self.lines: npt.NDArray[np.int64] = np.zeros((costs.line_count // costs.way_count, costs.way_count), np.int64)
        """By set and way, a line's number plus one; 0: free.  The cycle model reads it and removes lines."""
        self._order: deque[int] = deque()

    @property
    def tracked(self) -> int:
        """How many lines it tracks."""
        return int(np.count_nonzero(self.lines))

    def holds(self, address: int) -> bool:
        """Whether the host may have the line of an address."""
        line = address // self.line_bytes
        return bool((self.lines[line % len(self.lines)] == line + 1).any())

    def host_accesses(self, address: int, size_bytes: int) -> HostAccess:
        """The host loads or stores bytes of the GPU's memory, and caches their lines."""
        done = HostAccess()
        for line in range(address // self.line_bytes, -(-(address + size_bytes) // self.line_bytes)):
            ways = self.lines[line % len(self.lines)]
            if (ways == line + 1).any():
                continue
            done.lines += 1
            free = np.flatnonzero(ways == 0)
            if len(free):
                ways[free[0]] = line + 1
            else:
                ways[:-1] = ways[1:]
                ways[-1] = line + 1
                done.forced_probes += 1
                done.seconds += self.costs.probe_ns * 1e-9
            self._order.append(line)
            self._keep_below_watermark(done)
        return done

    def _keep_below_watermark(self, done: HostAccess) -> None:
        """Take the oldest lines back while the filter is fuller than its watermark."""
        most = int(self.lines.size * self.costs.watermark_percent / 100)
        # Lines that the GPU or a full set has taken back meanwhile are still in the order.
        while len(self._order) > most and self.tracked > most:
            line = self._order.popleft()
            ways = self.lines[line % len(self.lines)]
            found = np.flatnonzero(ways == line + 1)
            if len(found):
                ways[found[0]] = 0
                done.taken_back += 1


@dataclass(frozen=True, slots=True)
class ShootDown:
    """What a request of the host to forget translations did."""

    translations: int
    """That the GPU had, and has no longer."""
    seconds: float
    """Until the GPU's acknowledgement."""


@dataclass(slots=True)
class Translations:
    """A GPU's translations of the host's pages; the array is the cycle model's."""

    costs: TranslationCosts
    words: npt.NDArray[np.int64] = field(init=False)
    shot_down: int = 0
    """Translations that the host had the GPU forget."""

    def __post_init__(self) -> None:
        self.words = np.zeros((self.costs.kept_page_count, 2), np.int64)

    def shoot_down(self, first: int, last: int) -> ShootDown:
        """The host remaps a range, or gives it back: the GPU forgets its translations (ATSD) and acknowledges that once nothing in flight uses them.

        Between launches nothing is in flight.

        Args:
            first: address of the range's first byte, as caches know it.
            last: one past its last byte.
        """
        page_bytes = self.costs.page_kib << 10
        pages = self.words[:, 0] - 1
        known = (pages >= first // page_bytes) & (pages < -(-last // page_bytes)) & (pages >= 0)
        self.words[known] = 0
        count = int(known.sum())
        self.shot_down += count
        return ShootDown(count, self.costs.shoot_down_ns * 1e-9)


def writable_ranges() -> Iterator[tuple[int, int]]:
    """The process's private readable and writable memory, as first byte and one past the last: heap, stacks, data of programs and libraries.

    Read-only memory is left out, because a kernel that wrote to it would end the process.
    """
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        for line in maps:
            bounds, rights = line.split(maxsplit=2)[:2]
            if rights == "rw-p":
                first, last = (int(bound, 16) for bound in bounds.split("-"))
                yield first, last


def without(first: int, last: int, taken: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of a range that are in none of some sorted ranges, in whole pages of the host."""
    for begin, end in taken:
        if end <= first or begin >= last:
            continue
        if begin > first:
            yield first, begin
        first = -(-max(first, end) // mmap.PAGESIZE) * mmap.PAGESIZE
    if first < last:
        yield first, last
