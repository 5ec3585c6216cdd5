"""Pages of managed memory that move to the GPU that uses them: faults, migration, remote mappings and access counters.

Each request to managed memory finds its page in the page table of its allocation (``engine/managed_pages.py``).  A page that is on the device is accessed
there.  One that the device has mapped elsewhere is accessed over the link; Volta and its successors count such accesses, and the driver moves a region whose
count reaches a threshold.  All other accesses are faults.  The driver fetches faults in batches, moves the page, with it the region around it if enough of that is
on the device already, and lets the accesses repeat.  Rules and numbers of pages, batches, densities and thresholds are those of NVIDIA's published kernel
module (nvidia-uvm); times come from the machine's ``[migration]``.

One thread serves the requests of such a launch in the order of time (``exchange.requests_to_serve``), so that page tables change in one order.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import HERE
from warpwright.engine.managed_pages import (
    NOWHERE,
    ON_HOST,
    PG_ACCESSED_BY,
    PG_BEGIN_PS,
    PG_COPIES,
    PG_COUNTS,
    PG_FROM,
    PG_MAPPED,
    PG_PLACE,
    PG_PREFERRED,
    PG_READ_MOSTLY,
    PG_READY_PS,
    PG_WORDS,
)
from warpwright.native.intrinsics import core, divide, peek, poke
from warpwright.timing import state as s

PAGE_BYTES = 8 * PG_WORDS
"""Of a page's words in its table."""
NOT_YET = -1
"""In place of the time when a page that comes arrives, until the whole stretch is known."""


@core
def in_ps(m: Any, time: int) -> int:
    """A cycle's time."""
    return (time * m[s.chip.cycle_ps]) >> 8


@core
def cycles_until(m: Any, ready: int, now: int) -> int:
    """Cycles between two times in ps, rounded up; 0 if the first has passed."""
    if ready <= now:
        return 0
    return divide((ready - now) << 8, m[s.chip.cycle_ps]) + 1


@core
def processor(m: Any, number: int) -> s.Processor:
    """A processor of the machine."""
    return s.Processor(m[s.chip.processors] + number * s.Processor.size)


@core
def index_of(m: Any, entry: int, line: int) -> int:
    """The number of a line's page in its allocation."""
    return (line - peek(entry + 8 * s.EW_FIRST)) >> m[s.chip.page_line_shift]


@core
def count_of(m: Any, entry: int) -> int:
    """Pages of an allocation."""
    return index_of(m, entry, peek(entry + 8 * s.EW_END) - 1) + 1


@core
def page_at(entry: int, index: int) -> int:
    """Host address of a page's words."""
    return peek(entry + 8 * s.EW_TABLE) + index * PAGE_BYTES


@core
def is_here(m: Any, page: int) -> bool:
    """Whether loads of a page need nothing from elsewhere."""
    own = m[s.chip.own_processor]
    return peek(page + 8 * PG_PLACE) == own or (peek(page + 8 * PG_COPIES) >> own) & 1 == 1


@core
def place_of_page(m: Any, entry: int, line: int) -> int:
    """Where a line of managed memory is now, as links have it; a page that is on its way counts as arrived."""
    page = page_at(entry, index_of(m, entry, line))
    if is_here(m, page):
        return HERE
    place = m[processor(m, peek(page + 8 * PG_PLACE)).place]
    return max(place, HERE)


@core
def arrives_later(m: Any, entry: int, line: int) -> bool:
    """Whether a line's page is on its way."""
    return peek(page_at(entry, index_of(m, entry, line)) + 8 * PG_READY_PS) > in_ps(m, m[s.chip.now])


@core
def join_batch(m: Any, now: int) -> None:
    """Let a fault join the batch that the driver will fetch next."""
    if now > m[s.chip.batch_begins] or m[s.chip.batch_faults] >= m[s.chip.fault_batch_count]:
        m[s.chip.batch_begins] = max(now + m[s.chip.fault_latency], m[s.chip.driver_free])
        m[s.chip.batch_faults] = 0
        m[s.chip.driver_free] = m[s.chip.batch_begins] + m[s.chip.fault_batch]
        m[s.chip.page_batches] += 1
    m[s.chip.batch_faults] += 1
    m[s.chip.page_faults] += 1


@core
def bring(m: Any, page: int, alone: bool, begins: int) -> int:
    """Let a page come to the device; returns the time of its copy.

    Args:
        alone: it moves even if it is mostly read, of which the device gets a copy otherwise.
        begins: until when it can be used where it is.
    """
    own = m[s.chip.own_processor]
    where = peek(page + 8 * PG_PLACE)
    poke(page + 8 * PG_FROM, where)
    poke(page + 8 * PG_BEGIN_PS, begins)
    poke(page + 8 * PG_READY_PS, NOT_YET)
    if where == ON_HOST:
        m[s.chip.pages_from_host] += 1
    if where != NOWHERE and peek(page + 8 * PG_READ_MOSTLY) and not alone:
        poke(page + 8 * PG_COPIES, peek(page + 8 * PG_COPIES) | 1 << own | 1 << where)
        m[s.chip.pages_copied] += 1
    else:
        poke(page + 8 * PG_PLACE, own)
        poke(page + 8 * PG_MAPPED, 0)
        if where == NOWHERE:
            m[s.chip.pages_populated] += 1
            return 0
        m[s.chip.pages_migrated] += 1
    return m[processor(m, where).copy]


@core
def arrive(m: Any, entry: int, first: int, last: int, ready: int) -> None:
    """Set when the pages of a stretch that are to come have arrived."""
    for number in range(first, last):
        at = page_at(entry, number) + 8 * PG_READY_PS
        if peek(at) == NOT_YET:
            poke(at, ready)


@core
def region_of(m: Any, entry: int, index: int) -> tuple[int, int]:
    """The pages that move with a page: the largest aligned region around it of which more than a share is on the device, the page counted."""
    first = index
    last = index + 1
    pages = count_of(m, entry)
    size = 2
    while size <= m[s.chip.prefetch_pages]:
        low = index & ~(size - 1)
        high = min(low + size, pages)
        there = 0
        for number in range(low, high):
            if first <= number < last or is_here(m, page_at(entry, number)):
                there += 1
        if there * 100 > (high - low) * m[s.chip.prefetch_percent]:
            first = low
            last = high
        size *= 2
    return first, last


@core
def recall(m: Any, page: int) -> None:
    """End the copies of a page that the device writes to; its own copy becomes the page."""
    own = m[s.chip.own_processor]
    m[s.chip.pages_recalled] += 1
    if (peek(page + 8 * PG_COPIES) >> own) & 1:
        poke(page + 8 * PG_PLACE, own)
    poke(page + 8 * PG_COPIES, 0)


@core
def can_map(m: Any, page: int, where: int) -> bool:
    """Whether advice lets the device use a page where it is."""
    if where == NOWHERE or m[processor(m, where).place] < 0:
        return False
    return peek(page + 8 * PG_PREFERRED) == where


@core
def settle(m: Any, page: int) -> None:
    """Put a page that nobody has touched where it is preferred, if the device can use it there."""
    preferred = peek(page + 8 * PG_PREFERRED)
    if preferred != NOWHERE and m[processor(m, preferred).place] > HERE:
        poke(page + 8 * PG_PLACE, preferred)
        m[s.chip.pages_populated] += 1


@core
def bring_region(m: Any, entry: int, index: int, changes: bool) -> int:
    """Let a page and the region around it come to the device; returns the time of their copies."""
    first = index
    last = index + 1
    if changes == 0 or peek(page_at(entry, index) + 8 * PG_READ_MOSTLY) == 0:
        first, last = region_of(m, entry, index)
    took = 0
    for number in range(first, last):
        page = page_at(entry, number)
        if number == index:
            took += bring(m, page, changes, 0)
        elif not is_here(m, page) and not can_map(m, page, peek(page + 8 * PG_PLACE)):
            took += bring(m, page, False, 0)
    arrive(m, entry, first, last, m[s.chip.driver_free] + m[s.chip.fault_page] + took)
    return took


@core
def fault(m: Any, entry: int, index: int, changes: bool, now: int) -> None:
    """Serve a fault: afterwards the page is on the device, or mapped where it is, from ``PG_READY_PS`` on."""
    page = page_at(entry, index)
    own = m[s.chip.own_processor]
    join_batch(m, max(now, peek(page + 8 * PG_READY_PS)))
    if peek(page + 8 * PG_PLACE) == NOWHERE:
        settle(m, page)
    if changes and peek(page + 8 * PG_COPIES):
        recall(m, page)
    where = peek(page + 8 * PG_PLACE)
    took = 0
    if where != own and not can_map(m, page, where):
        took = bring_region(m, entry, index, changes)
    else:
        if where != own:
            poke(page + 8 * PG_MAPPED, peek(page + 8 * PG_MAPPED) | 1 << own)
            m[s.chip.pages_mapped] += 1
        poke(page + 8 * PG_BEGIN_PS, 0)
        poke(page + 8 * PG_READY_PS, m[s.chip.driver_free] + m[s.chip.fault_page])
    m[s.chip.driver_free] += m[s.chip.fault_page] + took


@core
def count_access(m: Any, entry: int, index: int, now: int) -> None:
    """Count a remote access; a region whose count reaches the threshold begins to move."""
    m[s.chip.remote_accesses] += 1
    threshold = m[s.chip.counter_threshold]
    if threshold == 0:
        return
    size = m[s.chip.counter_pages]
    first = divide(index, size) * size
    own = m[s.chip.own_processor]
    counter = page_at(entry, first) + 8 * (PG_COUNTS + own)
    count = peek(counter) + 1
    poke(counter, count)
    if count < threshold:
        return
    poke(counter, 0)
    begins = max(now + m[s.chip.counter_service], m[s.chip.driver_free])
    took = 0
    last = min(first + size, count_of(m, entry))
    moved = 0
    for number in range(first, last):
        page = page_at(entry, number)
        where = peek(page + 8 * PG_PLACE)
        if where != NOWHERE and not is_here(m, page) and peek(page + 8 * PG_PREFERRED) != where:
            took += bring(m, page, False, begins)
            moved += 1
    if moved:
        arrive(m, entry, first, last, begins + took)
        m[s.chip.counter_moves] += 1
        m[s.chip.driver_free] = begins + took


@core
def reach_page(m: Any, entry: int, line: int, changes: bool, time: int) -> tuple[int, int]:
    """Where a request that arrives at ``time`` finds its line, as links have it, and how many cycles it waits before."""
    index = index_of(m, entry, line)
    page = page_at(entry, index)
    own = m[s.chip.own_processor]
    now = in_ps(m, time)
    where = peek(page + 8 * PG_PLACE)
    if now < peek(page + 8 * PG_BEGIN_PS):  # it has not left yet
        place = m[processor(m, peek(page + 8 * PG_FROM)).place]
        if place >= HERE:
            m[s.chip.remote_accesses] += 1
            return place, 0
    if is_here(m, page) and not (changes and peek(page + 8 * PG_COPIES)):
        return HERE, cycles_until(m, peek(page + 8 * PG_READY_PS), now)
    mapped = peek(page + 8 * PG_MAPPED) | peek(page + 8 * PG_ACCESSED_BY)
    place = m[processor(m, where).place]
    if (mapped >> own) & 1 and place > HERE and peek(page + 8 * PG_COPIES) == 0:
        later = cycles_until(m, peek(page + 8 * PG_READY_PS), now)
        count_access(m, entry, index, now)
        return place, later
    fault(m, entry, index, changes, now)
    later = cycles_until(m, peek(page + 8 * PG_READY_PS), now)
    if is_here(m, page):
        return HERE, later
    return m[processor(m, peek(page + 8 * PG_PLACE)).place], later
