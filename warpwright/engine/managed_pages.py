"""Pages of managed memory: where each of them is, who has mapped it, and what moving it takes.

A machine's processors are numbered: ``NOWHERE`` for a page that nobody has touched, ``ON_HOST``, then the GPUs from ``FIRST_GPU`` on.  The page table of an
allocation is one array that the cycle models of all of the machine's GPUs read and change (``timing/page_migration.py``), and between launches the
driver, for advice, prefetches and the host's accesses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpwright.engine.host_touches import HostTouches, can_see_touches

NOWHERE, ON_HOST, FIRST_GPU = range(3)
PROCESSORS = 18
"""Numbers of processors: no one, the host and 16 GPUs."""
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
    PG_COUNTS,
) = range(10)
"""Words of a page: the processor that has it; the one that it comes from, until when that one still has it, and when it has arrived; processors with a copy
of a page that is mostly read; those that have mapped it where it is; advice (``AccessedBy``, ``PreferredLocation``, ``ReadMostly``); from ``PG_COUNTS``
on, by processor, remote accesses to the region that begins with the page.  Sets of processors are masks of bits; times are in ps from the launch's beginning."""
PG_WORDS = PG_COUNTS + PROCESSORS


@dataclass(frozen=True, slots=True)
class MigrationCosts:
    """What faults and migration take on a machine: ``[migration]`` of its file."""

    page_kib: int
    fault_latency_us: float
    """From a fault until the driver fetches it, if the driver has nothing else to do."""
    fault_batch_us: float
    """For a batch of faults, beside its pages."""
    fault_page_us: float
    """For each stretch of pages that a fault moves, beside their copy."""
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
    """Of a copy's bandwidth that migration reaches."""
    host_fault_us: float
    """Of the host for a page that it touches and does not have, beside its copy."""


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
        self.words[:, [PG_BEGIN_PS, PG_READY_PS]] = 0

    def places(self) -> npt.NDArray[np.int64]:
        """The processor of each page."""
        return self.words[:, PG_PLACE]

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
        part[absent & ~copied, PG_PLACE] = target
        part[absent & ~copied, PG_COPIES] = 0
        part[absent, PG_MAPPED] = part[absent, PG_ACCESSED_BY]
        return moved

    def change_alone(self, address: int, size_bytes: int, processor: int) -> None:
        """A processor writes: copies elsewhere end."""
        part = self.part(address, size_bytes)
        part[part[:, PG_COPIES] != 0, PG_PLACE] = processor
        part[:, PG_COPIES] = 0

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
    bytes_from: dict[int, int] = field(default_factory=dict)
    """Bytes that moved to the host, by the processor that had them."""


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
