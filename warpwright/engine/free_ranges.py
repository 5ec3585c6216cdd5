"""Unused ranges of a device's memory, by offset: where an allocation is placed, and what remains."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator


class FreeRanges:
    """Unused ranges in ascending order; no two of them are adjacent.

    Args:
        first, end: the initially unused range, in bytes from the start of the memory.
        base: device address of offset 0; addresses are aligned, not offsets.
    """

    def __init__(self, first: int, end: int, base: int) -> None:
        self._starts, self._ends = [first], [end]
        self._base = base
        self._withheld: list[tuple[int, int]] = []
        """Sorted."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Start and end of each range, withheld parts included."""
        return zip(tuple(self._starts), tuple(self._ends), strict=True)

    def take(self, size_bytes: int, alignment_bytes: int, wanted: int | None = None) -> int | None:
        """Allocate from the first range that is large enough, and return the offset; None if there is none.

        Args:
            wanted: the offset at which the allocation must begin, whatever its alignment.
        """
        for number, (first, end) in enumerate(zip(self._starts, self._ends, strict=True)):
            if wanted is not None and not first <= wanted < end:
                continue
            start = self._usable_start(first, size_bytes, alignment_bytes) if wanted is None else wanted
            if end - start >= size_bytes:
                rest = start + size_bytes
                left = [(a, b) for a, b in ((first, start), (rest, end)) if a < b]
                self._starts[number : number + 1] = [a for a, _ in left]
                self._ends[number : number + 1] = [b for _, b in left]
                return start
        return None

    def _usable_start(self, first: int, size_bytes: int, alignment_bytes: int) -> int:
        """The first aligned offset from ``first`` on at which an allocation overlaps no withheld range."""
        start = self._aligned(first, alignment_bytes)
        for withheld_first, withheld_end in self._withheld:
            if start < withheld_end and withheld_first < start + size_bytes:
                start = self._aligned(withheld_end, alignment_bytes)
        return start

    def _aligned(self, offset: int, alignment_bytes: int) -> int:
        return offset + -(self._base + offset) % alignment_bytes

    def give_back(self, first: int, end: int) -> None:
        """Return a taken range to the unused ones."""
        i = bisect_left(self._starts, first)
        joins_next = i < len(self._starts) and self._starts[i] == end
        joins_previous = i > 0 and self._ends[i - 1] == first
        if joins_next and joins_previous:
            self._ends[i - 1] = self._ends[i]
            del self._starts[i], self._ends[i]
        elif joins_next:
            self._starts[i] = first
        elif joins_previous:
            self._ends[i - 1] = end
        else:
            self._starts.insert(i, first)
            self._ends.insert(i, end)

    def withhold(self, first: int, end: int) -> None:
        """Exclude a range from what :meth:`take` finds; existing allocations in it remain."""
        self._withheld = sorted([*self._withheld, (first, end)])

    def use_again(self, first: int, end: int) -> None:
        """Undo :meth:`withhold`."""
        self._withheld.remove((first, end))
