"""Page migration."""

from __future__ import annotations

from warpwright.native.units import Unit, word
from warpwright.timing.state.header.declarations import area


class PageMigrationWords(Unit):
    """Pages of managed memory that move (``timing/page_migration.py``)."""

    pages_move = word("", "managed memory has pages that move: one thread serves all requests in order")
    own_processor = word("", "the device's number among the processors of its machine")
    processors = area("processors", "by number (Processor)")
    cycle_ps = word("1/256 ps", "of a cycle")
    page_line_shift = word("bits", "of a line's number within its page")
    fault_latency = word("ps", "until a driver that is awake has fetched a fault")
    sleep_after = word("ps", "after the last batch, when the driver goes to sleep")
    wake = word("ps", "in addition, if it sleeps")
    deep_sleep_after = word("ps", "after the last batch, when it sleeps deeply")
    deep_wake = word("ps", "in addition, if it sleeps deeply")
    fault_batch = word("ps", "of the driver for a batch of faults, in addition to what follows")
    fault_region = word("ps", "for each region that a batch has faults in")
    host_region = word("ps", "in addition, if its pages are the host's")
    fault_page = word("ps", "for each stretch of pages that a fault moves, in addition to their copy")
    fault_entry = word("ps", "for each part of a page that faulted")
    fault_entry_shift = word("bits", "of a line's number within such a part")
    populate_page = word("ps", "for each page that nobody has touched")
    populate_entry = word("ps", "for each part of such a page that faulted")
    evict_region = word("ps", "for a region that leaves the device, in addition to the copies of its pages")
    evict_new_page = word("ps", "for each of them that the host has no memory for yet")
    room = word("host address", "pages that each processor can take in")
    services = word("host address", "services of regions so far")
    fault_batch_count = word("faults", "of a batch at most")
    prefetch_percent = word("percent", "of a region that moves as a whole, more than which is on the device")
    prefetch_pages = word("pages", "of the largest such region")
    counter_threshold = word("accesses", "to a remote region after which it moves; 0: never")
    counter_pages = word("pages", "of a region that has an access counter")
    counter_service = word("ps", "until such a region begins to move")
    driver_free = word("ps", "when the driver has done what it was given")
    batch_begins = word("ps", "when it fetches the batch that is being filled", reset=-1)
    batch_faults = word("faults", "of that batch")
    page_faults = word("faults", "of pages that the driver served")
    page_batches = word("batches", "of them")
    pages_migrated = word("pages", "that moved here")
    pages_from_host = word("pages", "of them and of copies, that came from the host")
    pages_populated = word("pages", "that nobody had touched before")
    pages_copied = word("pages", "that are mostly read and got a copy here")
    pages_recalled = word("pages", "whose copies ended because of a write")
    pages_mapped = word("pages", "mapped where they are")
    remote_accesses = word("requests", "to pages mapped elsewhere")
    counter_moves = word("regions", "that moved because of their access counters")
    evictions = word("regions", "that left the device because it was full")
    pages_evicted = word("pages", "of them")
