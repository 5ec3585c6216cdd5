"""Pages of a card's memory: where its driver places a program's allocations, and which accesses outside them do not fault.

A card checks addresses by page only.  The driver maps pages of 2 MiB: allocations of less than 1 MiB share them at multiples of 512 bytes, larger ones begin at a page of
their own (H200: ``bench/machine/allocations.py``), and an access outside its allocation faults only if it leaves the mapped pages (``bench/machine/memory_faults.py``).
With ``memory_faults="page"``, a device's memory does the same.  Pages hold allocations of the program only, so an overrun reaches no memory of the simulator's own, such as a
launch's barriers and parameters.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import OVERRUN

PAGE_BYTES = 2 << 20
OWN_PAGES_FROM_BYTES = 1 << 20
"""Size from which an allocation shares its pages with no other."""
UNIT_BYTES = 512
"""Small allocations begin at multiples of this."""


@dataclass(frozen=True, slots=True)
class Overrun:
    """An access outside all allocations, in a mapped page."""

    address: int
    bytes: int
    located: bool
    """Whether the other fields are known: not if the kernel was interpreted."""
    instruction: int
    """Byte address in the program."""
    warp_in_block: int
    lane: int
    block: tuple[int, int, int]


class CardPages:
    """The mapped pages of one device; positions are offsets in its memory."""

    def __init__(self) -> None:
        self._own: dict[int, int] = {}
        """Size of the pages of large allocations, by their start."""
        self._shared: dict[int, list[tuple[int, int]]] = {}
        """Taken ranges of each shared page, by its start, both in ascending order."""
        self.table: npt.NDArray[np.uint64] | None = None
        """What :meth:`ranges` returns as device addresses; None if pages have changed since."""
        self.noted = np.zeros(OVERRUN.size_bytes // 8, np.int64)
        """The first overrun since the last one was taken, as compiled code and the interpreter note it."""

    def place(self, size_bytes: int, reserve: Callable[[int], int]) -> int:
        """Place an allocation; ``reserve`` returns the start of the given number of unused bytes, whole pages."""
        if size_bytes >= OWN_PAGES_FROM_BYTES:
            pages_bytes = -(-size_bytes // PAGE_BYTES) * PAGE_BYTES
            start = reserve(pages_bytes)
            self._own[start] = pages_bytes
            self.table = None
            return start
        span = -(-max(size_bytes, 1) // UNIT_BYTES) * UNIT_BYTES
        for page, taken in self._shared.items():
            start = page
            for first, last in taken:
                if first - start >= span:
                    break
                start = last
            if page + PAGE_BYTES - start >= span:
                insort(taken, (start, start + span))
                return start
        page = reserve(PAGE_BYTES)
        self._shared[page] = [(page, page + span)]
        self._shared = dict(sorted(self._shared.items()))
        self.table = None
        return page

    def release(self, start: int) -> tuple[int, int] | None:
        """Free an allocation; returns the range of pages that is no longer used, if any."""
        if start in self._own:
            self.table = None
            return start, start + self._own.pop(start)
        page = next(page for page in self._shared if page <= start < page + PAGE_BYTES)
        taken = self._shared[page]
        taken[:] = [one for one in taken if one[0] != start]
        if taken:
            return None
        del self._shared[page]
        self.table = None
        return page, page + PAGE_BYTES

    def ranges(self) -> list[tuple[int, int]]:
        """First byte and end of each range of mapped pages, ascending; neighbours are joined."""
        found: list[tuple[int, int]] = []
        pages = [(start, start + size) for start, size in self._own.items()]
        pages += [(page, page + PAGE_BYTES) for page in self._shared]
        for first, last in sorted(pages):
            if found and found[-1][1] == first:
                found[-1] = found[-1][0], last
            else:
                found.append((first, last))
        return found

    def note(self, address: int, size_bytes: int) -> None:
        """Note an overrun of an interpreted kernel, unless one is noted."""
        words = self.noted
        if not words[OVERRUN.slot("found")]:
            words[OVERRUN.slot("found")] = 2
            words[OVERRUN.slot("address")], words[OVERRUN.slot("bytes")] = address, size_bytes

    def take_overrun(self, launch: int) -> Overrun | None:
        """Return the overrun that has been noted for a launch, if there is one; after that, the next one is noted.

        Args:
            launch: address of its structure LAUNCH.
        """
        one = {name: int(self.noted[OVERRUN.slot(name)]) for name in OVERRUN}
        if not one["found"] or (one["found"] == 1 and one["launch"] != launch):
            return None
        self.noted[:] = 0
        return Overrun(
            one["address"] & 0xFFFF_FFFF_FFFF_FFFF,
            one["bytes"],
            one["found"] == 1,
            one["instruction"],
            one["warp_in_block"],
            one["lane"],
            (one["block_x"], one["block_y"], one["block_z"]),
        )

    def forget_overrun(self) -> None:
        """Forget what has been noted: the launch has failed."""
        self.noted[:] = 0
