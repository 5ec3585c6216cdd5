"""Device memory: one reserved host mapping is the device's global address space.

A device address is a host address minus a constant (``host_minus_device``), so compiled code reaches memory
with one addition.  The mapping is reserved, not committed: a page takes host memory once it is first written and is
returned to the host when its allocation is freed.  An unallocated gap separates any two allocations, so that an access
just past the end of one never reaches its neighbour: every access is checked against the sorted allocation table, and
the fault names the nearest allocation.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
import weakref
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import (
    DEVICE_BASE,
    HERE,
    HOST,
    LOCAL_WINDOW,
    MIGRATES,
    PEER,
    PLACE_BITS,
    SHARED_WINDOW,
    WINDOW_BYTES,
    is_peer,
    peer_place,
)
from warpwright.engine.allocation import Allocation, Bytes, Observer
from warpwright.engine.card_pages import PAGE_BYTES, CardPages
from warpwright.engine.free_ranges import FreeRanges
from warpwright.engine.host_coherence import ProbeFilter, ShootDown, Translations, without, writable_ranges
from warpwright.engine.host_mappings import (
    SMALLEST_MAPPING_BYTES,
    UNIFIED_BASE,
    UNIFIED_SPACING_BYTES,
    PlacedMapping,
    bytes_of,
    device_number_at,
    keep_windows_clear,
    replace_pages,
    reserve,
    reserve_unified,
)
from warpwright.engine.managed_pages import ManagedMemory, Migration
from warpwright.engine.peer_routes import HOST_ROUTE, PeerRoute
from warpwright.errors import FreedArrayError, OutOfMemoryError
from warpwright.quantity_text import byte_count_text

ALIGNMENT_BYTES = 1024
"""Every allocation begins at a multiple of this, so that small arrays map to L2 as on a card, whose first allocations
begin at multiples of 2 MiB."""
FIRST_OFFSET_BYTES = 1 << 16
"""Offset of the first allocation; nothing is allocated before it."""
GAP_BYTES = 512
"""Least distance between the end of one allocation and the start of the next."""
HUGE_PAGE_BYTES = 1 << 21
HUGE_FROM_BYTES = 1 << 19
"""Arrays of at least this size use huge pages: a column of a matrix touches a page in every row or two, and with
contiguous physical memory its lines are spread evenly over the sets of the host's second-level cache."""
FREED_REMEMBERED = 64
"""Number of freed allocations that are remembered to report uses after free."""
HOST_BASE = 0x6000_0000_0000
"""Addresses by which caches and channels know the host's registered memory, in the order of registration, because its
own addresses differ between processes."""
_NO_RANGES: npt.NDArray[np.uint64] = np.zeros((0, 2), np.uint64)


def _span(size_bytes: int) -> int:
    """What an allocation of so many bytes takes of the device's addresses, the gap after it included."""
    return (size_bytes + GAP_BYTES + ALIGNMENT_BYTES - 1) // ALIGNMENT_BYTES * ALIGNMENT_BYTES


class DeviceMemory:
    """Global memory of one device.

    Args:
        size_bytes: memory of the chip.  If the host refuses to reserve so much address space, less is reserved
            (``capacity_bytes``).  ``span_bytes`` also counts the addresses after it that managed memory may have.
        unified: device addresses are the host's own, so that host memory can be mapped (:meth:`map`) and one pointer
            serves both, as under CUDA's unified addressing.
        ordinal: which of a process's devices it is; each has its own part of the unified addresses.
        faults_by_page: accesses outside all allocations fault only where a card's do (``card_pages.py``).
    """

    def __init__(
        self, size_bytes: int, *, unified: bool = False, ordinal: int = 0, faults_by_page: bool = False
    ) -> None:
        self.pages: CardPages | None = CardPages() if faults_by_page else None
        """The program's pages, if accesses fault by page; None: every access outside its allocation faults."""
        size_bytes = max(SMALLEST_MAPPING_BYTES, size_bytes // mmap.PAGESIZE * mmap.PAGESIZE)
        keep_windows_clear()
        self._mapping: mmap.mmap | PlacedMapping = (
            reserve_unified(ordinal, size_bytes) if unified else reserve(size_bytes)
        )
        self._bytes = bytes_of(self._mapping)
        self.span_bytes = len(self._mapping)
        self.capacity_bytes = min(size_bytes, self.span_bytes)
        self._ordinal = ordinal
        self.host_base = int(self._bytes.ctypes.data)
        self.base = self.host_base if unified else DEVICE_BASE
        """First device address."""
        self.host_minus_device = self.host_base - self.base
        self.moved_bytes = self.base - (UNIFIED_BASE + ordinal * UNIFIED_SPACING_BYTES) if unified else 0
        """``base`` minus that of the first memory of this number, which caches and channels use."""
        self._registered_bytes = 0
        self.used_bytes = 0
        self._starts: list[int] = []
        self._live: list[Allocation] = []
        self._free_ranges = FreeRanges(FIRST_OFFSET_BYTES, self.span_bytes, self.base)
        self._freed: deque[Allocation] = deque(maxlen=FREED_REMEMBERED)
        self._table: npt.NDArray[np.uint64] | None = None
        self._elsewhere: npt.NDArray[np.int64] | None = None
        self._abandoned: deque[Allocation] = deque()
        # Not re-entrant: a finalizer that frees memory may run at any point, in any thread.
        self._lock = threading.Lock()
        self._kept_pages: list[tuple[int, int]] = []
        self._open_to: list[DeviceMemory] = []
        self._shown_by: weakref.WeakSet[DeviceMemory] = weakref.WeakSet()  # memories that have shown it allocations
        self.peer_routes: dict[int, PeerRoute] = {}
        """Routes by number of the other device, or ``HOST_ROUTE``; memory without a route has the times of the chip's ``[links]``."""
        self.managed: ManagedMemory | None = None
        self.migration: Migration | None = None
        """How pages of managed memory move to this device; None: they are where kernels use them."""
        self.translations: Translations | None = None
        """Of the host's pages, where the device shares its page tables: kernels may then use all of the process's memory."""
        self.probe_filter: ProbeFilter | None = None
        """Lines of this memory that the host's caches may have; None: the host caches none."""
        self._of_host: list[Allocation] = []
        """The process's own memory, as the device sees it."""
        self._seen: dict[int, dict[DeviceMemory, Allocation]] = {}
        self._lent: set[tuple[int, DeviceMemory]] = set()
        self.observer: Observer | None = None
        self.compressible: dict[int, tuple[int, npt.NDArray[np.int64]]] = {}
        """By address: bytes of memory that may be compressed, and one word for each of its lines
        (``timing/compression.py``)."""
        self._places: dict[tuple[str, int], list[int]] = {}
        """Addresses reserved for the next allocations of a name and size."""
        self._pages_are_shared = False
        self.host_watch: Callable[[int, int, bool], None] | None = None
        """Called with address, size and whether the access only reads, before the host accesses memory: injects memory
        errors."""

    def share_pages(self) -> None:
        """Share the memory, whose contents are lost, with processes that are forked from now on.

        Raises:
            OutOfMemoryError: the host refuses.
        """
        try:
            # Allocations of managed memory may lie after the chip's own.
            replace_pages(self.host_base, self.span_bytes, shared=True)
        except OSError as refusal:
            raise OutOfMemoryError(
                f"the host refuses to share {self.span_bytes >> 20} MiB of device memory between processes: {refusal.strerror}"
            ) from refusal
        self._pages_are_shared = True

    # --- allocations ------------------------------------------------------------------------------
    def allocate(
        self,
        size_bytes: int,
        name: str,
        undefined: bool = False,
        place: int = HERE,
        alignment_bytes: int = ALIGNMENT_BYTES,
        of_program: bool = False,
    ) -> Allocation:
        """Reserve ``size_bytes`` (zero-filled when fresh).

        Args:
            undefined: the program may not rely on the contents (cudaMalloc); the observer is notified.
            place: where a card would store the bytes; their addresses belong to this memory in any case.
            alignment_bytes: alignment of the address, itself a multiple of ``ALIGNMENT_BYTES``.
            of_program: the program asked for it, and it is placed in ``pages`` if there are any.

        Raises:
            OutOfMemoryError: states the requested size, how much is in use and by what.
        """
        with self._lock:
            if of_program and self.pages is not None and place == HERE:
                made = self._allocate_in_pages(self.pages, size_bytes, name, undefined)
            else:
                made = self._allocate(size_bytes, name, undefined, place, alignment_bytes)
        self._let_see(made, self._open_to)
        return made

    def _allocate(self, size_bytes: int, name: str, undefined: bool, place: int, alignment_bytes: int) -> Allocation:
        self._collect()
        if size_bytes < 0:
            raise ValueError(f"an allocation of {size_bytes} bytes was asked for {name}")
        moves = place == MIGRATES and self.managed is not None
        reserved = size_bytes
        if moves and self.managed is not None:
            alignment_bytes = max(alignment_bytes, self.managed.page_bytes)
            reserved = -(-size_bytes // self.managed.page_bytes) * self.managed.page_bytes
        span = _span(reserved)
        if place == HERE:
            self._need_room(size_bytes, name)
        places = self._places.get((name, size_bytes))
        wanted = places.pop(0) - self.base if places else None
        start = self._free_ranges.take(span, alignment_bytes, wanted)
        if start is None:
            raise self._full(size_bytes, name)
        allocation = Allocation(
            self.base + start, size_bytes, name, place=place, moved_bytes=self.moved_bytes, reserved_bytes=reserved
        )
        self._begin(allocation, undefined)
        if size_bytes >= HUGE_FROM_BYTES and not moves:
            self._ask_for_huge_pages(start, span)
        return allocation

    def _begin(self, allocation: Allocation, undefined: bool) -> None:
        self._insert(allocation)
        self.used_bytes += self._counted(allocation)
        if self.observer is not None:
            self.observer.allocated(allocation, undefined)

    def _allocate_in_pages(self, pages: CardPages, size_bytes: int, name: str, undefined: bool) -> Allocation:
        """An allocation where a card's driver would place it among the program's others."""
        self._collect()
        self._need_room(size_bytes, name)

        def reserve(pages_bytes: int) -> int:
            start = self._free_ranges.take(pages_bytes, PAGE_BYTES)
            if start is None:
                raise self._full(size_bytes, name)
            return start

        start = pages.place(size_bytes, reserve)
        allocation = Allocation(self.base + start, size_bytes, name, moved_bytes=self.moved_bytes, in_pages=True)
        # Overruns of other allocations may have written here.
        self._scrub(start, size_bytes)
        self._begin(allocation, undefined)
        return allocation

    def _counted(self, allocation: Allocation) -> int:
        """Bytes of the device's memory that an allocation takes for its whole life: none if its pages move, or are the host's."""
        moves = allocation.place == MIGRATES and self.managed is not None
        return 0 if moves or allocation.place == HOST else allocation.size_bytes

    @property
    def free_bytes(self) -> int:
        """Of the device, not taken by allocations or by managed pages that are there."""
        return max(self.capacity_bytes - self.used_bytes - self._managed_bytes(), 0)

    def _managed_bytes(self) -> int:
        """Of managed pages that are on the device."""
        if self.managed is None or self.migration is None:
            return 0
        return self.managed.resident_pages(self.migration.processor) * self.managed.page_bytes

    def _need_room(self, size_bytes: int, name: str) -> None:
        """Let managed pages leave the device for an allocation.

        Raises:
            OutOfMemoryError: they do not make enough room.
        """
        if self.used_bytes + size_bytes > self.capacity_bytes:
            raise self._full(size_bytes, name)
        if self.managed is not None and self.migration is not None and self.managed.tables:
            self.managed.make_room(self.migration.processor, -(-size_bytes // self.managed.page_bytes))

    def _full(self, size_bytes: int, name: str) -> OutOfMemoryError:
        largest = sorted(self._live, key=lambda a: a.size_bytes, reverse=True)[:3]
        holders = ", ".join(f"{a.name} ({byte_count_text(a.size_bytes)})" for a in largest)
        return OutOfMemoryError(
            f"out of device memory: {name} needs {byte_count_text(size_bytes)}; "
            f"{byte_count_text(self.used_bytes)} of {byte_count_text(self.capacity_bytes)} are in use"
            + (f", most of it by {holders}" if holders else "")
        )

    @contextmanager
    def placing(self, places: Mapping[tuple[str, int], Sequence[int]]) -> Iterator[None]:
        """Within the ``with`` block, allocations of these names and sizes get these addresses, in order."""
        self._places = {key: list(addresses) for key, addresses in places.items()}
        try:
            yield
        finally:
            self._places = {}

    def withhold(self, first: int, last: int) -> None:
        """Exclude a range (offsets) from new allocations; existing allocations keep it."""
        with self._lock:
            self._free_ranges.withhold(first, last)

    def use_again(self, first: int, last: int) -> None:
        """Undo :meth:`withhold`."""
        with self._lock:
            self._free_ranges.use_again(first, last)

    def _insert(self, allocation: Allocation) -> None:
        position = bisect_left(self._starts, allocation.address)
        self._starts.insert(position, allocation.address)
        self._live.insert(position, allocation)
        self._table = self._elsewhere = None

    def _remove(self, allocation: Allocation) -> None:
        position = bisect_left(self._starts, allocation.address)
        if allocation.freed or position == len(self._live) or self._live[position] is not allocation:
            raise FreedArrayError(f"{allocation.name} was freed before")
        del self._starts[position], self._live[position]
        if self.observer is not None:
            self.observer.freed(allocation)
        allocation.freed = True
        self._freed.append(allocation)
        self._table = self._elsewhere = None

    def map(
        self, host_address: int, size_bytes: int, name: str, place: int = HOST, moved_bytes: int | None = None
    ) -> Allocation:
        """Make host memory accessible to kernels at its own address; requires ``unified``.

        Args:
            place: where a card stores these bytes.
            moved_bytes: the address minus the one by which caches and channels know it; None to choose one.

        Raises:
            ValueError: if the range overlaps an allocation.
        """
        with self._lock:
            self._collect()
            self._forget_host()
            position = bisect_left(self._starts, host_address + size_bytes)
            if position and self._live[position - 1].end > host_address:
                raise ValueError(f"{name} overlaps {self._live[position - 1].name}")
            if moved_bytes is None:
                moved_bytes = self._chosen_move(host_address, size_bytes)
            allocation = Allocation(host_address, size_bytes, name, mapped=True, place=place, moved_bytes=moved_bytes)
            self._insert(allocation)
            return allocation

    def _chosen_move(self, address: int, size_bytes: int) -> int:
        """Distance between a mapped range and the addresses by which caches and channels know it."""
        if self.holds(address):
            return self.moved_bytes
        if self.device_at(address) is not None:
            return 0
        first = address // mmap.PAGESIZE * mmap.PAGESIZE
        pages_bytes = -(-(address + size_bytes - first) // mmap.PAGESIZE) * mmap.PAGESIZE
        moved = first - (HOST_BASE + self._registered_bytes)
        self._registered_bytes += pages_bytes + mmap.PAGESIZE
        return moved

    def unmap(self, allocation: Allocation) -> None:
        """Undo :meth:`map`; the memory itself is not changed."""
        self.free(allocation)

    # --- other devices of the process ---------------------------------------------------------------
    def open_to(self, other: DeviceMemory) -> None:
        """Make this memory, with all later allocations, accessible to another device's kernels at its own addresses;
        both must be ``unified``."""
        self._open_to.append(other)
        for allocation in self:
            if not allocation.mapped:
                self._let_see(allocation, [other])

    def close_to(self, other: DeviceMemory) -> None:
        """Undo :meth:`open_to`; allocations shown by :meth:`show_to` remain accessible."""
        self._open_to.remove(other)
        for address, seen in list(self._seen.items()):
            if other in seen and (address, other) not in self._lent:
                other.free(seen.pop(other))

    def show_to(self, other: DeviceMemory, allocation: Allocation) -> None:
        """Make one allocation accessible to another device's kernels until it is freed."""
        self._lent.add((allocation.address, other))
        self._let_see(allocation, [other])

    def hide_from(self, other: DeviceMemory, allocation: Allocation) -> None:
        """Undo :meth:`show_to`."""
        self._lent.discard((allocation.address, other))
        if other not in self._open_to and other in self._seen.get(allocation.address, {}):
            other.free(self._seen[allocation.address].pop(other))

    def holds(self, address: int) -> bool:
        """Whether an address belongs to this memory, allocated or not."""
        return self.base <= address < self.base + self.span_bytes

    def peers(self) -> list[DeviceMemory]:
        """The memories of other devices of which allocations are mapped into this one; not of devices where such an allocation itself is mapped from elsewhere."""
        found = []
        for other in sorted(self._shown_by, key=lambda one: one.base):
            theirs = [other.find(one.address) for one in self if one.mapped and other.holds(one.address)]
            if theirs and all(one is not None and not one.mapped for one in theirs):
                found.append(other)
        return found

    def device_at(self, address: int) -> int | None:
        """The other device of the process to which an address belongs, if this memory is one of several with unified
        addresses."""
        other = device_number_at(address)
        return other if other != self._ordinal and device_number_at(self.base) is not None else None

    def opened_by(self, device: int) -> DeviceMemory | None:
        """The memory of another device, if this one's kernels have access to it and it has had an allocation since; otherwise None."""
        return next((one for one in self._shown_by if one._ordinal == device and self in one._open_to), None)

    def _let_see(self, allocation: Allocation, others: list[DeviceMemory]) -> None:
        # Outside this memory's lock: two memories may be open to each other.
        for other in others:
            seen = self._seen.setdefault(allocation.address, {})
            if other not in seen:
                other._shown_by.add(self)
                place = peer_place(self._ordinal) if allocation.place == HERE else allocation.place
                seen[other] = other.map(
                    allocation.address, allocation.size_bytes, allocation.name, place, allocation.moved_bytes
                )
                if self.observer is not None:
                    # Writes by the other device's kernels are not known here.
                    self.observer.filled(allocation.address, allocation.size_bytes)

    def _let_see_no_longer(self, allocation: Allocation) -> None:
        for other, seen in self._seen.pop(allocation.address, {}).items():
            self._lent.discard((allocation.address, other))
            if not seen.freed:
                other.free(seen)

    def hide(self, allocation: Allocation) -> None:
        """Reserve an allocation's range but make it inaccessible to kernels and return its pages to the host."""
        self._let_see_no_longer(allocation)
        with self._lock:
            position = bisect_left(self._starts, allocation.address)
            del self._starts[position], self._live[position]
            self._table = self._elsewhere = None
            self.used_bytes -= self._counted(allocation)
            self._scrub(allocation.address - self.base, allocation.size_bytes)

    def keep_pages(self, start: int, end: int) -> None:
        """Never return these pages (offsets) to the host: they belong to another mapping that is visible elsewhere."""
        self._kept_pages.append((start, end))

    def show(self, allocation: Allocation) -> None:
        """Undo :meth:`hide`."""
        with self._lock:
            self._insert(allocation)
            self.used_bytes += self._counted(allocation)
        self._let_see(allocation, self._open_to)

    def abandon(self, allocation: Allocation) -> None:
        """Free at the next allocation or launch: for finalizers, which may run at any point."""
        self._let_see_no_longer(allocation)
        self._abandoned.append(allocation)

    def _collect(self) -> None:
        while self._abandoned:
            allocation = self._abandoned.popleft()
            if not allocation.freed:
                self._free(allocation)

    def free(self, allocation: Allocation) -> None:
        """Free an allocation and return its pages to the host.

        Raises:
            FreedArrayError: if it was freed before.
        """
        self._let_see_no_longer(allocation)
        if not self._lock.acquire(blocking=False):
            # Another thread holds the lock, or a finalizer interrupted its holder: free later.
            if allocation.freed:
                raise FreedArrayError(f"{allocation.name} was freed before")
            self._abandoned.append(allocation)
            return
        try:
            self._free(allocation)
        finally:
            self._lock.release()

    def _free(self, allocation: Allocation) -> None:
        self._remove(allocation)
        if allocation.mapped:
            return
        if self.managed is not None:
            self.managed.remove(allocation.address)
        self.used_bytes -= self._counted(allocation)
        start = allocation.address - self.base
        self._scrub(start, allocation.size_bytes)
        if allocation.in_pages and self.pages is not None:
            unused = self.pages.release(start)
            if unused is not None:
                self._scrub(unused[0], unused[1] - unused[0])
                self._free_ranges.give_back(*unused)
            return
        self._free_ranges.give_back(start, start + _span(max(allocation.size_bytes, allocation.reserved_bytes)))

    def _scrub(self, start: int, size_bytes: int) -> None:
        """Zero a freed range; whole pages are returned to the host instead."""
        end = start + size_bytes
        first = (start + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
        last = end // mmap.PAGESIZE * mmap.PAGESIZE
        kept = any(a < end and start < b for a, b in self._kept_pages)
        if (
            not kept
            and last > first
            and sys.platform.startswith("linux")
            and self._advise(first, last - first, "MADV_REMOVE" if self._pages_are_shared else "MADV_DONTNEED")
        ):
            self._bytes[start:first] = 0
            self._bytes[last:end] = 0
        else:
            self._bytes[start:end] = 0

    def _ask_for_huge_pages(self, start: int, size_bytes: int) -> None:
        """Request all huge pages that a range touches, because for later neighbours it would be too late."""
        host = self.host_base
        first = (host + start) // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES - host
        last = -(-(host + start + size_bytes) // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES - host
        first, last = max(first, 0), min(last, self.span_bytes)
        self._advise(first, last - first, "MADV_HUGEPAGE")

    def _advise(self, start: int, size_bytes: int, advice: str) -> bool:
        """madvise on whole pages inside the range; False if the host does not support the advice."""
        option = getattr(mmap, advice, None)
        if option is None:
            return False
        first = start // mmap.PAGESIZE * mmap.PAGESIZE
        try:
            self._mapping.madvise(option, first, start + size_bytes - first)
        except (OSError, ValueError):
            return False
        return True

    def __iter__(self) -> Iterator[Allocation]:
        """Live allocations in address order."""
        return iter(tuple(self._live))

    def __len__(self) -> int:
        return len(self._live)

    def table(self) -> npt.NDArray[np.uint64]:
        """Sorted pairs (first byte, one past the last) of device addresses, shape (n, 2): LAUNCH.allocations.

        The array is never modified in place, because a launch may use it while others allocate.
        """
        with self._lock:
            if self.translations is not None:
                self._see_host()
            return self._sorted_table()

    def page_table(self) -> npt.NDArray[np.uint64]:
        """Mapped pages, as :meth:`table`; none if accesses fault exactly where they leave their allocations."""
        with self._lock:
            self._collect()
            if self.pages is None:
                return _NO_RANGES
            if self.pages.table is None:
                rows = [(self.base + first, self.base + last) for first, last in self.pages.ranges()]
                self.pages.table = np.array(rows, np.uint64).reshape(len(rows), 2)
                self.pages.table.setflags(write=False)
            return self.pages.table

    def writable(self, without: Collection[int] = ()) -> list[tuple[int, int]]:
        """Address and size of each range that warps can write: allocations, in address order, and after them the program's pages, which contain some of them.

        Args:
            without: addresses of allocations to omit.
        """
        own = [(a.address, a.size_bytes) for a in self if a.address not in without and not a.in_pages]
        return own + [(int(first), int(last - first)) for first, last in self.page_table()]

    def _see_host(self) -> None:
        """Let kernels reach what the process has now of its own memory, at its own addresses."""
        own = {id(a) for a in self._of_host}
        taken = [(a.address, a.end) for a in self._live if id(a) not in own]
        parts = sorted({*taken, (self.base, self.base + self.span_bytes), (SHARED_WINDOW, LOCAL_WINDOW + WINDOW_BYTES)})
        wanted = [part for first, last in writable_ranges() for part in without(first, last, parts)]
        wanted = [(first, last) for first, last in wanted if self.device_at(first) is None]
        if wanted == [(a.address, a.end) for a in self._of_host]:
            return
        before = {a.address: a.moved_bytes for a in self._of_host}
        self._shoot_down(sorted(wanted))
        self._forget_host()
        for first, last in wanted:
            moved = before[first] if first in before else self._chosen_move(first, last - first)
            seen = Allocation(
                first, last - first, "memory of the host", mapped=True, place=HOST, moved_bytes=moved, by_host=True
            )
            self._of_host.append(seen)
            self._insert(seen)

    def _shoot_down(self, wanted: list[tuple[int, int]]) -> None:
        """Forget translations of what the process has given back, or may no longer write."""
        for seen in self._of_host if self.translations is not None else ():
            for first, last in without(seen.address, seen.end, wanted):
                self.remap_host(first, last)

    def remap_host(self, first: int, last: int) -> ShootDown | None:
        """The host remaps a range of its memory, whose translations the device forgets; None for a device that has none of the host's."""
        if self.translations is None:
            return None
        holding = next((a for a in self._of_host if a.address <= first < a.end), None)
        moved = holding.moved_bytes if holding is not None else 0
        return self.translations.shoot_down(first - moved, last - moved)

    def _forget_host(self) -> None:
        """End what :meth:`_see_host` began: something else takes addresses of it, or it has changed."""
        for seen in self._of_host:
            position = bisect_left(self._starts, seen.address)
            del self._starts[position], self._live[position]
        self._of_host.clear()
        self._table = self._elsewhere = None

    def _sorted_table(self) -> npt.NDArray[np.uint64]:
        self._collect()
        if self._table is None:
            pairs = [(a.address, a.end) for a in self._live]
            self._table = np.array(pairs, dtype=np.uint64).reshape(len(pairs), 2)
            self._table.setflags(write=False)
        return self._table

    def elsewhere(self) -> npt.NDArray[np.int64]:
        """Ranges that a card stores on the host, on another device or wherever their pages are: rows by address, shape (n, 5).

        A row is (first byte, one past the last, ``HOST``, ``PEER`` or ``MIGRATES``, ``moved_bytes``, host address of
        the page table, -1 where the host translates, or 0).  The bits above ``PEER`` hold the index of the device's route among the ``peer_routes``, in
        device order, plus one; 0 for a device without a route.  The array is never modified in place, because a launch
        may use it while others allocate.
        """
        with self._lock:
            self._collect()
            if self._elsewhere is None:
                tables = self.managed.tables if self.managed is not None and self.migration is not None else {}
                rows = []
                for a in self._live:
                    table = tables.get(a.address) if a.place == MIGRATES else None
                    if a.place == HOST or is_peer(a.place):
                        rows.append((a.address, a.end, self.reached_as(a.place), a.moved_bytes, -int(a.by_host)))
                    elif table is not None:
                        rows.append((a.address, a.end, MIGRATES, a.moved_bytes, table.words.ctypes.data))
                self._elsewhere = np.array(rows, dtype=np.int64).reshape(len(rows), 5)
                self._elsewhere.setflags(write=False)
            return self._elsewhere

    def reached_as(self, place: int) -> int:
        """The place of another memory with the number of its route: as the cycle model has it."""
        device = HOST_ROUTE if place == HOST else (place >> PLACE_BITS) - 1
        if device not in self.peer_routes:
            return HOST if place == HOST else PEER
        return PEER | sorted(self.peer_routes).index(device) + 1 << PLACE_BITS

    @property
    def pages_move(self) -> bool:
        """Whether there is memory whose pages move to the device when its kernels use them."""
        return self.migration is not None and self.managed is not None and bool(self.managed.tables)

    def manage(self, allocation: Allocation) -> None:
        """Let an allocation's pages move between the machine's processors, if they do there."""
        if self.managed is not None:
            self.managed.add(allocation.address, allocation.size_bytes)
            self._elsewhere = None

    def compress(self, address: int, size_bytes: int, line_bytes: int) -> None:
        """From now on, lines of this memory may be compressed."""
        self.compressible[address] = (size_bytes, np.zeros(size_bytes // line_bytes, np.int64))

    @property
    def has_mapped(self) -> bool:
        """Whether kernels can access host memory outside the device's own range (:meth:`map`)."""
        with self._lock:
            return any(a.mapped and not self.base <= a.address < self.base + self.span_bytes for a in self._live)

    def find(self, address: int) -> Allocation | None:
        """The live allocation that contains ``address``, or None."""
        position = bisect_right(self._starts, address) - 1
        try:
            found = self._live[position] if position >= 0 else None
        except IndexError:
            # Another thread has freed an allocation in the meantime.
            return self.find(address)
        return found if found is not None and found.address <= address < found.end else None

    def holds_each(self, addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which numbers are addresses of this memory, allocated or not."""
        return (addresses >= self.base) & (addresses < self.base + self.span_bytes)

    def nearest(self, address: int) -> Allocation | None:
        """The live allocation closest to ``address``, or None if there is none."""
        position = bisect_right(self._starts, address)
        around = self._live[max(0, position - 1) : position + 1]
        return min(around, key=lambda a: max(a.address - address, address - a.end + 1, 0), default=None)

    def freed_at(self, address: int) -> Allocation | None:
        """The most recently freed allocation that contained ``address``, if it is still remembered."""
        return next((a for a in reversed(self._freed) if a.address <= address < a.end), None)

    # --- contents ---------------------------------------------------------------------------------
    def view(self, address: int, size_bytes: int, *, read_only: bool = False) -> Bytes:
        """A writable host view of device bytes, shape (size_bytes,).

        Args:
            read_only: the caller promises not to write, so the observer is not notified of a write.

        Raises:
            IndexError: when the range leaves the device's memory (allocations are not checked here).
        """
        start = address - self.base
        if start < 0 or start + size_bytes > self.span_bytes:
            mapped = self.find(address)
            if mapped is not None and mapped.mapped and address + size_bytes <= mapped.end:
                return np.ctypeslib.as_array((ctypes.c_uint8 * size_bytes).from_address(address))
            raise IndexError(f"{size_bytes} bytes at {address:#x} are outside device memory")
        if self.observer is not None and not read_only:
            self.observer.filled(address, size_bytes)
        if self.host_watch is not None:
            self.host_watch(address, size_bytes, read_only)
        return self._bytes[start : start + size_bytes]

    def host_pointer(self, address: int) -> int:
        """Host address of a device address."""
        return address + self.host_minus_device

    def snapshot(self, allocation: Allocation) -> Bytes:
        """A copy of an allocation's contents."""
        return self.view(allocation.address, allocation.size_bytes, read_only=True).copy()

    def restore(self, allocation: Allocation, contents: Bytes) -> None:
        """Restore a snapshot."""
        self.view(allocation.address, allocation.size_bytes, read_only=True)[:] = contents

    def copy_in(self, address: int, data: npt.NDArray[np.generic]) -> None:
        """Copy a host array of any layout to ``address``, in C order."""
        if data.nbytes:
            self.view(address, data.nbytes).view(data.dtype).reshape(data.shape)[...] = data

    def copy_out(self, address: int, into: npt.NDArray[np.generic]) -> None:
        """Copy device bytes to a host array of any layout, in its C order."""
        if into.nbytes:
            into[...] = self.view(address, into.nbytes, read_only=True).view(into.dtype).reshape(into.shape)
