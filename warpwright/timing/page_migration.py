"""Pages of managed memory that move to the GPU that uses them: faults, migration, remote mappings and access counters.

Each request to managed memory finds its page in the page table of its allocation (``engine/managed_pages.py``).  A page that is on the device is accessed
there.  One that the device has mapped elsewhere is accessed over the link; Volta and its successors count such accesses, and the driver moves a region whose
count reaches a threshold.  All other accesses are faults.  The driver fetches faults in batches, moves the page, with it the region around it if enough of that is
on the device already, and lets the accesses repeat.  A device that is full lets the regions served least recently go to the host.  Rules and numbers of pages, batches, densities and thresholds are those of NVIDIA's published kernel
module (nvidia-uvm); times come from the machine's ``[migration]``.

One thread serves the requests of such a launch in the order of time (``exchange.requests_to_serve``), so that page tables change in one order.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import HERE, MIGRATES
from warpwright.engine.managed_pages import (
    FIRST_GPU,
    NOWHERE,
    ON_HOST,
    PG_ACCESSED_BY,
    PG_BATCH,
    PG_BEGIN_PS,
    PG_COPIES,
    PG_COUNTS,
    PG_FAULTS,
    PG_FROM,
    PG_HOSTED,
    PG_MAPPED,
    PG_PLACE,
    PG_PREFERRED,
    PG_READ_MOSTLY,
    PG_READY_PS,
    PG_SERVED,
    PG_USED,
    PG_WORDS,
    PROCESSORS,
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
    """Let a fault join the batch that the driver will fetch next, which it does the later the longer it has had nothing to do."""
    if now > m[s.chip.batch_begins] or m[s.chip.batch_faults] >= m[s.chip.fault_batch_count]:
        idle = now - m[s.chip.driver_free]
        latency = m[s.chip.fault_latency]
        if idle > m[s.chip.deep_sleep_after]:
            latency += m[s.chip.deep_wake]
        elif idle > m[s.chip.sleep_after]:
            latency += m[s.chip.wake]
        m[s.chip.batch_begins] = max(now, m[s.chip.driver_free]) + latency
        m[s.chip.batch_faults] = 0
        m[s.chip.driver_free] = m[s.chip.batch_begins] + m[s.chip.fault_batch]
        m[s.chip.page_batches] += 1
    m[s.chip.page_faults] += 1


@core
def batch_number(m: Any) -> int:
    """A number of the last batch that no other has, also none of another GPU's at the same time."""
    return m[s.chip.page_batches] * PROCESSORS + m[s.chip.own_processor]


@core
def note_entry(m: Any, entry: int, page: int, line: int) -> None:
    """The part of a page that holds a line has faulted: the batch has an entry for each such part, with work for the driver, until it is full."""
    offset = (line - peek(entry + 8 * s.EW_FIRST)) & ((1 << m[s.chip.page_line_shift]) - 1)
    part = 1 << (offset >> m[s.chip.fault_entry_shift])
    number = batch_number(m)
    known = peek(page + 8 * PG_FAULTS) if peek(page + 8 * PG_BATCH) == number else 0
    if known & part == 0 and m[s.chip.batch_faults] < m[s.chip.fault_batch_count]:
        m[s.chip.batch_faults] += 1
        m[s.chip.driver_free] += m[s.chip.fault_entry]
        came_from = peek(page + 8 * (PG_FROM if is_here(m, page) else PG_PLACE))
        if came_from == NOWHERE:
            m[s.chip.driver_free] += m[s.chip.populate_entry]
    poke(page + 8 * PG_BATCH, number)
    poke(page + 8 * PG_FAULTS, known | part)


@core
def serve_region(m: Any, entry: int, index: int, where: int) -> None:
    """The driver turns to the region of a page for this batch."""
    first = index - index % m[s.chip.prefetch_pages]
    page = page_at(entry, first)
    number = batch_number(m)
    if peek(page + 8 * PG_SERVED) != number:
        poke(page + 8 * PG_SERVED, number)
        m[s.chip.driver_free] += m[s.chip.fault_region]
        if where == ON_HOST:
            m[s.chip.driver_free] += m[s.chip.host_region]
    note_use(m, page)


@core
def note_use(m: Any, page: int) -> None:
    """The region that begins with a page has been served later than all others."""
    last = peek(m[s.chip.services]) + 1
    poke(m[s.chip.services], last)
    poke(page + 8 * PG_USED, last)


@core
def room_for(m: Any, number: int) -> int:
    """Pages that a processor can take in."""
    return peek(m[s.chip.room] + 8 * number)


@core
def give_room(m: Any, number: int, pages: int) -> None:
    """A processor has so many pages less."""
    poke(m[s.chip.room] + 8 * number, room_for(m, number) + pages)


@core
def pages_here(m: Any, entry: int, first: int, last: int) -> int:
    """How many pages of a stretch the device has."""
    found = 0
    for number in range(first, last):
        if is_here(m, page_at(entry, number)):
            found += 1
    return found


@core
def oldest_region(m: Any, kept: int, kept_first: int) -> tuple[int, int]:
    """The allocation and first page of the region of the device that was served least recently, but for one that is kept; 0 if there is none."""
    size = m[s.chip.prefetch_pages]
    found = 0
    found_first = 0
    oldest = s.INF
    for number in range(m[s.chip.range_count]):
        entry = m[s.chip.ranges] + number * (8 * s.EW_WORDS)
        if peek(entry + 8 * s.EW_PLACE) != MIGRATES:
            continue
        pages = count_of(m, entry)
        for first in range(0, pages, size):
            used = peek(page_at(entry, first) + 8 * PG_USED)
            kept_one = entry == kept and first == kept_first
            if used < oldest and not kept_one and pages_here(m, entry, first, min(first + size, pages)):
                oldest = used
                found = entry
                found_first = first
    return found, found_first


@core
def evict(m: Any, entry: int, first: int, begins: int) -> int:
    """Let a region's pages leave the device for the host; returns the driver's time."""
    own = m[s.chip.own_processor]
    took = m[s.chip.evict_region]
    last = min(first + m[s.chip.prefetch_pages], count_of(m, entry))
    for number in range(first, last):
        page = page_at(entry, number)
        if not is_here(m, page):
            continue
        copies = peek(page + 8 * PG_COPIES) & ~(1 << own)
        if peek(page + 8 * PG_PLACE) == own:
            if (copies >> ON_HOST) & 1 == 0:
                took += m[processor(m, ON_HOST).copy]
                if peek(page + 8 * PG_HOSTED) == 0:
                    took += m[s.chip.evict_new_page]
                    poke(page + 8 * PG_HOSTED, 1)
            poke(page + 8 * PG_PLACE, ON_HOST)
            poke(page + 8 * PG_MAPPED, 0)
        poke(page + 8 * PG_COPIES, 0 if copies == 1 << peek(page + 8 * PG_PLACE) else copies)
        poke(page + 8 * PG_BEGIN_PS, 0)
        give_room(m, own, 1)
        m[s.chip.pages_evicted] += 1
    for number in range(first, last):
        poke(page_at(entry, number) + 8 * PG_READY_PS, begins + took)
    m[s.chip.evictions] += 1
    return took


@core
def make_room(m: Any, entry: int, index: int, pages: int, begins: int) -> int:
    """Evict regions until so many pages fit into the device; returns the driver's time.  The region of page ``index`` stays."""
    took = 0
    first = index - index % m[s.chip.prefetch_pages]
    while room_for(m, m[s.chip.own_processor]) < pages:
        victim, victim_first = oldest_region(m, entry, first)
        if victim == 0:
            break
        took += evict(m, victim, victim_first, begins + took)
    return took


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
        poke(page + 8 * PG_HOSTED, 1)
        m[s.chip.pages_from_host] += 1
    give_room(m, own, -1)
    if where != NOWHERE and peek(page + 8 * PG_READ_MOSTLY) and not alone:
        poke(page + 8 * PG_COPIES, peek(page + 8 * PG_COPIES) | 1 << own | 1 << where)
        m[s.chip.pages_copied] += 1
    else:
        poke(page + 8 * PG_PLACE, own)
        poke(page + 8 * PG_MAPPED, 0)
        if where == NOWHERE:
            m[s.chip.pages_populated] += 1
            return m[s.chip.populate_page]
        give_room(m, where, 1)
        m[s.chip.pages_migrated] += 1
    return m[processor(m, where).copy]


@core
def arrive(entry: int, first: int, last: int, ready: int) -> None:
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
    copies = peek(page + 8 * PG_COPIES)
    if (copies >> own) & 1:
        poke(page + 8 * PG_PLACE, own)
    for number in range(FIRST_GPU, PROCESSORS):
        if (copies >> number) & 1 and number != peek(page + 8 * PG_PLACE):
            give_room(m, number, 1)
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
def comes(m: Any, page: int) -> bool:
    """Whether a page comes to the device with the one that faulted."""
    return not is_here(m, page) and not can_map(m, page, peek(page + 8 * PG_PLACE))


@core
def bring_region(m: Any, entry: int, index: int, changes: bool) -> None:
    """Let a page and the region around it come to the device."""
    first = index
    last = index + 1
    if changes == 0 or peek(page_at(entry, index) + 8 * PG_READ_MOSTLY) == 0:
        first, last = region_of(m, entry, index)
    pages = 0
    for number in range(first, last):
        if number == index or comes(m, page_at(entry, number)):
            pages += 1
    took = make_room(m, entry, index, pages, m[s.chip.driver_free]) + m[s.chip.fault_page]
    for number in range(first, last):
        page = page_at(entry, number)
        if number == index:
            took += bring(m, page, changes, 0)
        elif comes(m, page):
            took += bring(m, page, False, 0)
    m[s.chip.driver_free] += took
    arrive(entry, first, last, m[s.chip.driver_free])


@core
def fault(m: Any, entry: int, index: int, line: int, changes: bool, now: int) -> None:
    """Serve a fault: afterwards the page is on the device, or mapped where it is, from ``PG_READY_PS`` on."""
    page = page_at(entry, index)
    own = m[s.chip.own_processor]
    join_batch(m, max(now, peek(page + 8 * PG_READY_PS)))
    note_entry(m, entry, page, line)
    if peek(page + 8 * PG_PLACE) == NOWHERE:
        settle(m, page)
    if changes and peek(page + 8 * PG_COPIES):
        recall(m, page)
    where = peek(page + 8 * PG_PLACE)
    serve_region(m, entry, index, where)
    if where != own and not can_map(m, page, where):
        bring_region(m, entry, index, changes)
        return
    if where != own:
        poke(page + 8 * PG_MAPPED, peek(page + 8 * PG_MAPPED) | 1 << own)
        m[s.chip.pages_mapped] += 1
    m[s.chip.driver_free] += m[s.chip.fault_page]
    poke(page + 8 * PG_BEGIN_PS, 0)
    poke(page + 8 * PG_READY_PS, m[s.chip.driver_free])


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
    last = min(first + size, count_of(m, entry))
    took = make_room(m, entry, index, last - first - pages_here(m, entry, first, last), begins)
    begins += took
    took = 0
    moved = 0
    for number in range(first, last):
        page = page_at(entry, number)
        where = peek(page + 8 * PG_PLACE)
        if where != NOWHERE and not is_here(m, page) and peek(page + 8 * PG_PREFERRED) != where:
            took += bring(m, page, False, begins)
            moved += 1
    if moved:
        arrive(entry, first, last, begins + took)
        m[s.chip.counter_moves] += 1
        note_use(m, page_at(entry, index - index % m[s.chip.prefetch_pages]))
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
        region = page_at(entry, index - index % m[s.chip.prefetch_pages])
        joins = now <= m[s.chip.batch_begins] and peek(region + 8 * PG_SERVED) == batch_number(m)
        if joins and peek(page + 8 * PG_READY_PS) > now:
            note_entry(m, entry, page, line)
        return HERE, cycles_until(m, peek(page + 8 * PG_READY_PS), now)
    mapped = peek(page + 8 * PG_MAPPED) | peek(page + 8 * PG_ACCESSED_BY)
    place = m[processor(m, where).place]
    if (mapped >> own) & 1 and place > HERE and peek(page + 8 * PG_COPIES) == 0:
        later = cycles_until(m, peek(page + 8 * PG_READY_PS), now)
        count_access(m, entry, index, now)
        return place, later
    fault(m, entry, index, line, changes, now)
    later = cycles_until(m, peek(page + 8 * PG_READY_PS), now)
    if is_here(m, page):
        return HERE, later
    return m[processor(m, peek(page + 8 * PG_PLACE)).place], later
