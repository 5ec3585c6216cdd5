"""Managed memory: advice and prefetches per page, and the attributes of address ranges.

Host and devices access the same bytes.  On a machine whose file has ``[migration]``, each page has a location, which changes
with prefetches, faults of kernels (``timing/page_migration.py``) and the host's accesses, guided by advice; on other machines
pages do not move.  Results follow an H200's driver (13.0; the calls of ``bench/driver_answers.py``); an attribute of a range is
the value that all of its pages have in common.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.capture_rules import break_capture
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import Stream, state
from warpwright.driver.graphs import Node, submit
from warpwright.driver.memory import MANAGED, holder, kinds
from warpwright.driver.transfers import migrate
from warpwright.engine.allocation import Allocation
from warpwright.engine.managed_pages import NOWHERE as UNTOUCHED
from warpwright.engine.managed_pages import ON_HOST, processor_of

PAGE_BYTES = 4096
DEVICE, HOST, HOST_NUMA, HOST_NUMA_CURRENT = 1, 2, 3, 4
"""CUmemLocationType; 0 is invalid."""
CPU, NOWHERE = -1, -2
"""CU_DEVICE_CPU, CU_DEVICE_INVALID."""
_SET_READ_MOSTLY, _UNSET_READ_MOSTLY, _PREFER, _UNSET_PREFERRED, _LET_ACCESS, _UNSET_ACCESS = range(1, 7)
(
    _READ_MOSTLY,
    _PREFERRED,
    _ACCESSED_BY,
    _PREFETCHED,
    _PREFERRED_TYPE,
    _PREFERRED_ID,
    _PREFETCHED_TYPE,
    _PREFETCHED_ID,
) = range(1, 9)


@dataclass(frozen=True, slots=True)
class Location:
    """A CUmemLocation."""

    type: int
    id: int

    @property
    def device(self) -> int:
        """As a CUdevice."""
        return self.id if self.type == DEVICE else CPU if self.type else NOWHERE


NO_PLACE = Location(0, NOWHERE)
THE_HOST = Location(HOST, CPU)


@dataclass(frozen=True, slots=True)
class Page:
    """Attributes of a page."""

    read_mostly: bool = False
    preferred: Location = NO_PLACE
    accessed_by: frozenset[int] = frozenset()
    prefetched: Location = NO_PLACE


class Pages:
    """The pages of an allocation, in runs with equal attributes."""

    def __init__(self, allocation: Allocation) -> None:
        self.allocation = allocation
        self.starts, self.pages = [0], [Page()]
        """First page of each run, ascending, and the state of its pages."""

    def _cut(self, page: int) -> int:
        """Index of the run that begins at a page; splits a run if needed."""
        n = bisect_right(self.starts, page) - 1
        if self.starts[n] != page:
            n += 1
            self.starts.insert(n, page)
            self.pages.insert(n, self.pages[n - 1])
        return n

    def _numbers(self, address: int, size: int) -> tuple[int, int]:
        offset = address - self.allocation.address
        return offset // PAGE_BYTES, -(-(offset + size) // PAGE_BYTES)

    def change(self, address: int, size: int, what: Callable[[Page], Page]) -> None:
        """Change every page that a range overlaps."""
        first, end = self._numbers(address, size)
        for n in range(self._cut(first), self._cut(end)):
            self.pages[n] = what(self.pages[n])

    def of(self, address: int, size: int) -> set[Page]:
        """The states of a range's pages."""
        first, end = self._numbers(address, size)
        return set(self.pages[bisect_right(self.starts, first) - 1 : bisect_right(self.starts, end - 1)])


_known: dict[int, Pages] = {}
"""By the allocation's address."""


def pages_of(address: int, size: int) -> Pages:
    """The pages of managed memory that holds a range.

    Raises:
        CudaError: CUDA_ERROR_INVALID_VALUE for an empty range, one that no allocation holds, and other memory.
    """
    state().current()
    found = holder(address)
    # Memory in no table is a module's variable, possibly a managed one.
    if found is None or not 0 < size <= found.end - address or kinds.get(found.address, (MANAGED,))[0] != MANAGED:
        raise CudaError(results.INVALID_VALUE)
    pages = _known.get(found.address)
    if pages is None or pages.allocation is not found:
        pages = _known[found.address] = Pages(found)
    return pages


def _is_device(ordinal: int) -> bool:
    return 0 <= ordinal < len(state().devices)


def location_of_device(device: int) -> Location:
    """A CUdevice as a location."""
    ordinal = ctypes.c_int32(device).value
    if ordinal == CPU:
        return THE_HOST
    if not _is_device(ordinal):
        raise CudaError(results.INVALID_DEVICE)
    return Location(DEVICE, ordinal)


def _as_given(packed: int) -> Location:
    """A CUmemLocation as a word."""
    return Location(packed & 0xFFFF_FFFF, ctypes.c_int32(packed >> 32 & 0xFFFF_FFFF).value)


def location_of(packed: int) -> Location | None:
    """A CUmemLocation passed by value; None for a type that does not exist."""
    found = _as_given(packed)
    if found.type == HOST:
        return THE_HOST
    return found if DEVICE <= found.type <= HOST_NUMA_CURRENT else None


def _advise(address: int, size: int, advice: int, place: Location) -> None:
    def changed(page: Page) -> Page:
        if advice in (_SET_READ_MOSTLY, _UNSET_READ_MOSTLY):
            return replace(page, read_mostly=advice == _SET_READ_MOSTLY)
        if advice in (_PREFER, _UNSET_PREFERRED):
            # No attribute reports a NUMA node of the host.
            named = advice == _PREFER and place.type in (DEVICE, HOST)
            return replace(page, preferred=place if named else NO_PLACE)
        who = {place.device}
        return replace(page, accessed_by=page.accessed_by | who if advice == _LET_ACCESS else page.accessed_by - who)

    pages_of(address, size).change(address, size, changed)
    _advise_pages(address, size, advice, place)


def processor_at(place: Location) -> int:
    """The number of a place among a machine's processors; every node of the host is the host."""
    return (
        processor_of(state().devices[place.id].index) if place.type == DEVICE else ON_HOST if place.type else UNTOUCHED
    )


def _advise_pages(address: int, size: int, advice: int, place: Location) -> None:
    """Let the pages that move follow advice."""
    s = state()
    found = holder(address)
    table = s.managed.tables.get(found.address) if s.managed is not None and found is not None else None
    if table is None:
        return
    s.host_touches()
    who = processor_at(place)
    if advice in (_SET_READ_MOSTLY, _UNSET_READ_MOSTLY):
        table.advise(address, size, read_mostly=int(advice == _SET_READ_MOSTLY))
    elif advice in (_PREFER, _UNSET_PREFERRED):
        table.advise(address, size, preferred=who if advice == _PREFER else UNTOUCHED)
    elif advice == _LET_ACCESS:
        table.advise(address, size, accessed_by=who)
    else:
        table.advise(address, size, not_accessed_by=who)


@entry("cuMemAdvise")
def advise(address: int, size: int, advice: int, device: int) -> int | None:
    pages_of(address, size)
    if not _SET_READ_MOSTLY <= advice <= _UNSET_ACCESS:
        return results.INVALID_VALUE
    named = advice in (_PREFER, _LET_ACCESS, _UNSET_ACCESS)
    _advise(address, size, advice, location_of_device(device) if named else NO_PLACE)
    return None


@entry("cuMemAdvise_v2")
def advise_2(address: int, size: int, advice: int, packed: int) -> int | None:
    place = location_of(packed)
    if not _SET_READ_MOSTLY <= advice <= _UNSET_ACCESS or (place is None and advice >= _PREFER):
        return results.INVALID_VALUE
    place = place or NO_PLACE
    if advice in (_PREFER, _LET_ACCESS, _UNSET_ACCESS) and place.type == DEVICE and not _is_device(place.id):
        return results.INVALID_VALUE
    if advice in (_LET_ACCESS, _UNSET_ACCESS) and place.type > HOST:
        return results.INVALID_VALUE
    _advise(address, size, advice, place)
    return None


@dataclass(eq=False, slots=True)
class Prefetch(Node):
    """Moves the pages of a range to a processor."""

    address: int
    size: int
    target: int

    def run(self, stream: Stream) -> None:
        if state().timed:
            state().host_touches()
            migrate(stream, self.address, self.size, self.target)


def _prefetch(address: int, size: int, place: Location, stream: int) -> None:
    queue = state().stream(stream)
    if queue.capture is not None:
        raise break_capture(queue)
    pages_of(address, size).change(address, size, lambda page: replace(page, prefetched=place))
    if state().managed is not None:
        submit(queue, Prefetch(address, size, processor_at(place)))


@entry("cuMemPrefetchAsync")
def prefetch(address: int, size: int, device: int, stream: int) -> None:
    pages_of(address, size)
    _prefetch(address, size, location_of_device(device), stream)


@entry("cuMemPrefetchAsync_v2")
def prefetch_2(address: int, size: int, packed: int, flags: int, stream: int) -> int | None:
    place = location_of(packed)
    if place is None or flags:
        return results.INVALID_VALUE
    if place.type == DEVICE and not _is_device(place.id):
        return results.INVALID_DEVICE
    _prefetch(address, size, place, stream)
    return None


LEGACY_STREAMS = (0, 1)
"""The default stream, which batches refuse: by no handle and by CU_STREAM_LEGACY."""


def _ranges(addresses: int, sizes: int, count: int, flags: int, stream: int) -> list[tuple[int, int]]:
    """Address and size of a batch's ranges.

    Raises:
        CudaError: no ranges, one that managed memory does not hold, flags, or the legacy default stream.
    """
    state().current()
    if not count or flags or stream in LEGACY_STREAMS:
        raise CudaError(results.INVALID_VALUE)
    state().stream(stream)
    ranges = list(zip(cmemory.words64(addresses, count), cmemory.words64(sizes, count), strict=True))
    for address, size in ranges:
        pages_of(address, size)
    return ranges


@entry("cuMemPrefetchBatchAsync", "cuMemDiscardAndPrefetchBatchAsync")
def prefetch_batch(
    addresses: int, sizes: int, count: int, places: int, firsts: int, place_count: int, flags: int, stream: int
) -> int | None:
    """Prefetch ranges, to each location from its first range up to that of the next location.  Discarded memory keeps
    its bytes, because pages do not move."""
    ranges = _ranges(addresses, sizes, count, flags, stream)
    begins = cmemory.words64(firsts, place_count)
    named = [_as_given(packed) for packed in cmemory.words64(places, place_count)]
    if not begins or begins[0] or begins != sorted(begins) or begins[-1] >= count or place_count > count:
        return results.INVALID_VALUE
    if not all(
        DEVICE <= place.type <= HOST_NUMA_CURRENT and (place.type != DEVICE or _is_device(place.id)) for place in named
    ):
        return results.INVALID_VALUE
    for n, (address, size) in enumerate(ranges):
        # Of locations that begin at the same range, the first applies.
        _prefetch(address, size, named[begins.index(begins[bisect_right(begins, n) - 1])], stream)
    return None


@entry("cuMemDiscardBatchAsync")
def discard_batch(addresses: int, sizes: int, count: int, flags: int, stream: int) -> None:
    """Discard the contents of ranges; they may be kept, and are."""
    _ranges(addresses, sizes, count, flags, stream)


def _common(places: set[Location]) -> Location:
    return places.pop() if len(places) == 1 else NO_PLACE


def _attribute(number: int, pages: set[Page], count: int) -> list[int]:
    """The words of a CUmem_range_attribute."""
    if number == _READ_MOSTLY:
        return [int(all(page.read_mostly for page in pages))]
    if number == _ACCESSED_BY:
        everyone = frozenset.intersection(*(page.accessed_by for page in pages))
        named = [*sorted(everyone - {CPU}), *(everyone & {CPU})]
        return [*named, *[NOWHERE] * count][:count]
    preferred = number in (_PREFERRED, _PREFERRED_TYPE, _PREFERRED_ID)
    place = _common({page.preferred if preferred else page.prefetched for page in pages})
    if number in (_PREFERRED, _PREFETCHED):
        return [place.device]
    return [place.type if number in (_PREFERRED_TYPE, _PREFETCHED_TYPE) else place.id]


def _store_attribute(place: int, size: int, number: int, address: int, count: int) -> None:
    pages = pages_of(address, count).of(address, count)
    fits = size > 0 and size % 4 == 0 if number == _ACCESSED_BY else size == 4
    if not _READ_MOSTLY <= number <= _PREFETCHED_ID or not fits:
        raise CudaError(results.INVALID_VALUE)
    for n, word in enumerate(_attribute(number, pages, size // 4)):
        cmemory.write("i", place + 4 * n, word)


@entry("cuMemRangeGetAttribute")
def range_attribute(place: int, size: int, number: int, address: int, count: int) -> None:
    _store_attribute(place, size, number, address, count)


@entry("cuMemRangeGetAttributes")
def range_attributes(places: int, sizes: int, numbers: int, kinds_count: int, address: int, count: int) -> None:
    for n, (place, size) in enumerate(
        zip(cmemory.words64(places, kinds_count), cmemory.words64(sizes, kinds_count), strict=True)
    ):
        _store_attribute(place, size, cmemory.get32(numbers + 4 * n), address, count)
