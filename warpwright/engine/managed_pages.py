"""Pages of managed memory: where each of them is, who has mapped it, and what moving it takes.

A machine's processors are numbered: ``NOWHERE`` for a page that nobody has touched, ``ON_HOST``, then the GPUs from ``FIRST_GPU`` on.  The page table of an
allocation is one array that the cycle models of all of the machine's GPUs read and change (``timing/page_migration.py``), and between launches the
driver, for advice, prefetches and the host's accesses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpwright.engine.host_touches import HostTouches, can_see_touches

NOWHERE, ON_HOST, FIRST_GPU = range(3)
PROCESSORS = 18
"""Numbers of processors: no one, the host and 16 GPUs."""
UNLIMITED = 1 << 60
"""Pages that the host can take in."""
(
    PG_PLACE,
    PG_FROM,
    PG_BEGIN_PS,
    PG_READY_PS,
    PG_COPIES,
    PG_MAPPED,
    PG_ACCESSED_BY,
    PG_PREFERRED,
    PG_READ_MOSTLY,
    PG_BATCH,
    PG_FAULTS,
    PG_SERVED,
    PG_USED,
    PG_HOSTED,
    PG_COUNTS,
) = range(15)
"""Words of a page: the processor that has it; the one that it comes from, until when that one still has it, and when it has arrived; processors with a copy
of a page that is mostly read; those that have mapped it where it is; advice (``AccessedBy``, ``PreferredLocation``, ``ReadMostly``); the batch in which
it last faulted and the parts that did, as a mask; of a region's first page, the batch that last served the region, and when that was among all services; whether the host has memory for the page; from ``PG_COUNTS``
on, by processor, remote accesses to the region that begins with the page.  Sets of processors are masks of bits; times are in ps from the launch's beginning."""
PG_WORDS = PG_COUNTS + PROCESSORS


@dataclass(frozen=True, slots=True)
class MigrationCosts:
    """What faults and migration take on a machine: ``[migration]`` of its file."""

    page_kib: int
    fault_latency_us: float
    """From a fault until a driver that is awake has fetched it."""
    sleep_after_us: float
    """After the last batch, when the driver goes to sleep."""
    wake_us: float
    """In addition, if the driver sleeps."""
    deep_sleep_after_us: float
    """After the last batch, when its processor sleeps deeply."""
    deep_wake_us: float
    """In addition, instead of ``wake_us``, if it sleeps deeply."""
    fault_batch_us: float
    """For a batch of faults, in addition to what follows."""
    fault_region_us: float
    """For each region (``prefetch_region_kib``) that a batch has faults in."""
    host_region_us: float
    """In addition, if its pages are the host's, which has to lose them."""
    fault_page_us: float
    """For each stretch of pages that a fault moves, in addition to their copy."""
    fault_entry_us: float
    """For each 4 KiB that faulted."""
    populate_page_us: float
    """For each page that nobody has touched, which is filled with zeros."""
    populate_entry_us: float
    """For each 4 KiB of such a page that faulted, in addition to ``fault_entry_us``."""
    fault_batch_count: int
    """Faults of a batch at most."""
    prefetch_percent: float
    """A region of pages moves as a whole if more than this share of it is, or is about to be, on the faulting processor."""
    prefetch_region_kib: int
    """The largest such region."""
    access_counter_threshold: int
    """Remote accesses of a GPU to a region after which the region moves to it; 0: never."""
    access_counter_kib: int
    """The size of that region."""
    access_counter_us: float
    """From the notification until the region begins to move."""
    copy_percent: float
    """Of a copy's bandwidth that migration by faults and evictions reaches."""
    prefetch_copy_percent: float
    """Of a copy's bandwidth that prefetches to a GPU reach."""
    prefetch_to_host_percent: float
    """Of a copy's bandwidth that prefetches to the host reach."""
    host_fault_us: float
    """Of the host for a page that it touches and does not have, in addition to what follows."""
    host_page_us: float
    """Of the host for each page that comes with that one, with its copy."""
    evict_region_us: float
    """For a region that leaves a full GPU, in addition to its pages."""
    evict_new_page_us: float
    """For each page of it that the host has no memory for yet, in addition to its copy."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One GPU's view of the machine's managed memory."""

    processor: int
    """The GPU's own number."""
    costs: MigrationCosts
    counts_accesses: bool
    """Whether the GPU has access counters, as Volta and its successors."""
    copy_gb_per_s: tuple[float, ...]
    """Of migration to this GPU, by the processor that has the page."""
    maps: tuple[bool, ...]
    """By processor, whether this GPU's kernels can access its memory without a copy."""


class PageTable:
    """The pages of one allocation.

    Args:
        address: of its first byte.
        size_bytes: of the allocation.
        page_bytes: of a page.
        place: the processor that has all pages; ``NOWHERE`` before anyone has touched them.
    """

    def __init__(self, address: int, size_bytes: int, page_bytes: int, place: int = NOWHERE) -> None:
        self.address, self.size_bytes, self.page_bytes = address, size_bytes, page_bytes
        self.words: npt.NDArray[np.int64] = np.zeros((-(-size_bytes // page_bytes), PG_WORDS), np.int64)
        """Words of each page."""
        self.words[:, PG_PLACE] = place
        self.touches: HostTouches | None = None
        """Tells which pages the host has touched; None where that cannot be seen."""

    def part(self, address: int, size_bytes: int) -> npt.NDArray[np.int64]:
        """The pages of which a range has a byte, as a view."""
        first = address - self.address
        return self.words[first // self.page_bytes : -(-(first + size_bytes) // self.page_bytes)]

    def begin_launch(self) -> None:
        """What was on its way has arrived."""
        self.words[:, [PG_BEGIN_PS, PG_READY_PS, PG_BATCH, PG_FAULTS, PG_SERVED]] = 0

    def places(self) -> npt.NDArray[np.int64]:
        """The processor of each page."""
        return self.words[:, PG_PLACE]

    def at(self, processor: int) -> npt.NDArray[np.bool_]:
        """Which pages a processor has, copies counted."""
        held: npt.NDArray[np.bool_] = (self.words[:, PG_PLACE] == processor) | (
            self.words[:, PG_COPIES] >> processor & 1 == 1
        )
        return held

    def move(self, address: int, size_bytes: int, target: int) -> dict[int, int]:
        """Let the pages of a range be on a processor; returns how many bytes came from each processor.

        Pages that are mostly read get a copy there instead, and remain where they are.
        """
        part = self.part(address, size_bytes)
        places = part[:, PG_PLACE]
        absent = (places != target) & (part[:, PG_COPIES] >> target & 1 == 0)
        moved = {
            int(place): int((absent & (places == place)).sum()) * self.page_bytes for place in np.unique(places[absent])
        }
        copied = absent & (part[:, PG_READ_MOSTLY] != 0) & (places != NOWHERE)
        part[copied, PG_COPIES] |= 1 << target | 1 << places[copied]
        part[places == ON_HOST, PG_HOSTED] = 1
        part[absent & ~copied, PG_PLACE] = target
        part[absent & ~copied, PG_COPIES] = 0
        part[absent, PG_MAPPED] = part[absent, PG_ACCESSED_BY]
        return moved

    def advise(self, address: int, size_bytes: int, **advice: int) -> None:
        """Set words of a range's pages: ``read_mostly``, ``preferred`` or ``accessed_by`` (added) and ``not_accessed_by``."""
        part = self.part(address, size_bytes)
        for name, value in advice.items():
            if name == "read_mostly":
                part[:, PG_READ_MOSTLY] = value
                if not value:
                    part[:, PG_COPIES] = 0
            elif name == "preferred":
                part[:, PG_PREFERRED] = value
            elif name == "accessed_by":
                part[:, PG_ACCESSED_BY] |= 1 << value
            else:
                part[:, PG_ACCESSED_BY] &= ~(1 << value)
                part[:, PG_MAPPED] &= ~(1 << value)


@dataclass(slots=True)
class HostFaults:
    """Faults of the host that its clock has not been charged for yet."""

    faults: int = 0
    pages: int = 0
    """That moved with them."""
    evicted_bytes: dict[int, int] = field(default_factory=dict)
    """That left full GPUs, by processor."""
    evicted_regions: int = 0
    new_pages: int = 0
    """Of the evicted ones, for which the host had no memory."""
    bytes_from: dict[int, int] = field(default_factory=dict)
    """Bytes that moved to the host by its faults, by the processor that had them."""


class ManagedMemory:
    """The page tables of a machine, by the allocations' addresses; all GPUs of the machine share it.

    Args:
        costs: the machine's numbers.
        host_maps: processors whose memory the host can access without moving it, where advice says so.
    """

    def __init__(self, costs: MigrationCosts, host_maps: frozenset[int] = frozenset()) -> None:
        self.costs, self.host_maps = costs, host_maps
        self.page_bytes = costs.page_kib << 10
        self.tables: dict[int, PageTable] = {}
        self.host = HostFaults()
        self.free_bytes: dict[int, Callable[[], int]] = {}
        """By GPU's processor, the bytes of its memory that allocations leave for managed pages."""
        self.room: npt.NDArray[np.int64] = np.full(PROCESSORS, UNLIMITED, np.int64)
        """Pages that each processor can take in; the cycle models change it."""
        self.services: npt.NDArray[np.int64] = np.zeros(1, np.int64)
        """Services of regions so far: the one served least recently leaves a full GPU first."""

    def add(self, address: int, size_bytes: int) -> PageTable:
        """The table of a new allocation, none of whose pages has been touched."""
        made = self.tables[address] = PageTable(address, size_bytes, self.page_bytes)
        if can_see_touches() and address % self.page_bytes == 0:
            # A host that refuses is one whose accesses are not seen.
            with contextlib.suppress(OSError):
                made.touches = HostTouches(address, -(-size_bytes // self.page_bytes) * self.page_bytes)
        return made

    def remove(self, address: int) -> None:
        """The allocation is freed; the memory behind it holds zeros."""
        table = self.tables.pop(address, None)
        if table is not None and table.touches is not None:
            table.touches.end()

    def holding(self, address: int) -> PageTable | None:
        """The table of the allocation that holds an address."""
        for table in self.tables.values():
            if table.address <= address < table.address + table.size_bytes:
                return table
        return None

    def begin_launch(self) -> None:
        """What was on its way has arrived, and the host has what it has touched."""
        self.note_touches()
        for table in self.tables.values():
            table.begin_launch()
        for processor in self.free_bytes:
            self.room[processor] = self.room_of(processor)

    def resident_pages(self, processor: int) -> int:
        """How many pages a processor has, copies counted."""
        return sum(int(table.at(processor).sum()) for table in self.tables.values())

    def room_of(self, processor: int) -> int:
        """How many pages a processor can take in without an eviction."""
        free = self.free_bytes.get(processor)
        return UNLIMITED if free is None else free() // self.page_bytes - self.resident_pages(processor)

    def make_room(self, processor: int, pages: int, keep: tuple[int, int] = (0, 0)) -> bool:
        """Evict regions until a GPU can take in so many pages, those served least recently first; False if it cannot.

        Args:
            keep: addresses of the first byte and one past the last of what is to stay.
        """
        lacking = pages - self.room_of(processor)
        if lacking <= 0:
            return True
        size = max(self.costs.prefetch_region_kib // self.costs.page_kib, 1)
        regions = []
        for table in self.tables.values():
            for first in range(0, len(table.words), size):
                address = table.address + first * self.page_bytes
                here = int(table.at(processor)[first : first + size].sum())
                if here and not (address < keep[1] and keep[0] < address + size * self.page_bytes):
                    regions.append((int(table.words[first, PG_USED]), address, table, first, here))
        for _, _, table, first, here in sorted(regions, key=lambda region: region[:2]):
            if lacking <= 0:
                break
            self._evict(table, first, first + size, processor)
            lacking -= here
        return lacking <= 0

    def _evict(self, table: PageTable, first: int, last: int, processor: int) -> None:
        """Let the pages of a region leave a GPU for the host."""
        part = table.words[first:last]
        owned = part[:, PG_PLACE] == processor
        copied = part[:, PG_COPIES] >> ON_HOST & 1 == 1
        moved = int((owned & ~copied).sum()) * self.page_bytes
        self.host.new_pages += int((owned & ~copied & (part[:, PG_HOSTED] == 0)).sum())
        part[owned, PG_HOSTED] = 1
        part[owned, PG_PLACE] = ON_HOST
        part[owned, PG_MAPPED] = part[owned, PG_ACCESSED_BY]
        part[:, PG_COPIES] &= ~(1 << processor)
        part[part[:, PG_COPIES] == 1 << part[:, PG_PLACE], PG_COPIES] = 0
        self.host.evicted_regions += 1
        self.host.evicted_bytes[processor] = self.host.evicted_bytes.get(processor, 0) + moved

    def bring(self, table: PageTable, address: int, size_bytes: int, target: int) -> dict[int, int]:
        """As ``PageTable.move``; regions leave a GPU that is full, of the range itself if it is larger than what the GPU has left."""
        free = self.free_bytes.get(target)
        region = self.costs.prefetch_region_kib << 10
        step = size_bytes
        if free is not None and not self.make_room(
            target, int((~table.at(target)).sum()), (address, address + size_bytes)
        ):
            step = max(free() // 4 // region, 1) * region
        moved: dict[int, int] = {}
        for first in range(address, address + size_bytes, max(step, 1)):
            size = min(step, address + size_bytes - first)
            if step < size_bytes:
                self.make_room(target, -(-size // self.page_bytes), (first, first + size))
            for processor, count in table.move(first, size, target).items():
                moved[processor] = moved.get(processor, 0) + count
            self.use(table, first, size)
        return moved

    def use(self, table: PageTable, address: int, size_bytes: int) -> None:
        """The driver has served a range's regions."""
        self.services[0] += 1
        size = max(self.costs.prefetch_region_kib // self.costs.page_kib, 1)
        first = (address - table.address) // self.page_bytes // size * size
        last = -(-(address + size_bytes - table.address) // self.page_bytes)
        table.words[first:last:size, PG_USED] = self.services[0]

    def note_touches(self) -> None:
        """Let the host have the pages that it has touched since it was last asked."""
        for table in self.tables.values():
            if table.touches is not None:
                touched = table.touches.touched(self.page_bytes)
                if touched.any():
                    for index in np.flatnonzero(touched).tolist():
                        self._host_touches(table, index)
                    table.touches.forget()

    def forget_touches(self) -> None:
        """What has touched pages since was not the host."""
        for table in self.tables.values():
            if table.touches is not None:
                table.touches.forget()

    @contextmanager
    def by_others(self) -> Iterator[None]:
        """Within the block, whoever touches pages is not the host."""
        self.note_touches()
        try:
            yield
        finally:
            self.forget_touches()

    def _host_touches(self, table: PageTable, index: int) -> None:
        """The host accesses a page: it moves there with the region around it, as to a GPU, unless the host uses it where it is."""
        page = table.words[index]
        where = int(page[PG_PLACE])
        if where == ON_HOST or int(page[PG_COPIES]) >> ON_HOST & 1:
            return
        if where == NOWHERE:
            page[PG_PLACE] = ON_HOST
            return
        wanted = page[PG_PREFERRED] == where or int(page[PG_ACCESSED_BY]) >> ON_HOST & 1
        if where in self.host_maps and wanted:
            return
        self.host.faults += 1
        first, last = region_of(table.words, index, ON_HOST, self.costs)
        moved = table.move(table.address + first * self.page_bytes, (last - first) * self.page_bytes, ON_HOST)
        for processor, size in moved.items():
            if processor != NOWHERE:
                self.host.pages += size // self.page_bytes
                self.host.bytes_from[processor] = self.host.bytes_from.get(processor, 0) + size


def region_of(words: npt.NDArray[np.int64], index: int, processor: int, costs: MigrationCosts) -> tuple[int, int]:
    """The pages that move to a processor with one of them: the largest aligned region of which more than a share is there, the page counted.

    The same rule as ``timing/page_migration.region_of``.
    """
    first, last, size = index, index + 1, 2
    while size <= costs.prefetch_region_kib // costs.page_kib:
        low = index & ~(size - 1)
        high = min(low + size, len(words))
        part = words[low:high]
        there = (part[:, PG_PLACE] == processor) | (part[:, PG_COPIES] >> processor & 1 == 1)
        there[first - low : last - low] = True
        if int(there.sum()) * 100 > (high - low) * costs.prefetch_percent:
            first, last = low, high
        size *= 2
    return first, last


def processor_of(ordinal: int) -> int:
    """The number of a GPU among the processors."""
    return FIRST_GPU + ordinal


def bytes_by_processor(tables: Iterable[PageTable]) -> dict[int, int]:
    """How many bytes of pages each processor has; copies are not counted."""
    found: dict[int, int] = {}
    for table in tables:
        for place, count in zip(*np.unique(table.places(), return_counts=True), strict=True):
            found[int(place)] = found.get(int(place), 0) + int(count) * table.page_bytes
    return found
