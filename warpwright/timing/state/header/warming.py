"""Blocks without time in sampled launches."""

from __future__ import annotations

from warpwright.native.units import Unit, word


class WarmingWords(Unit):
    """Untimed blocks, and their requests to caches (``timing/warming.py``)."""

    begun = word("", "the first blocks of this stretch of the grid are on the chip")
    warm_instructions = word("instructions", "executed without time (warming.py)")
    warm_threads = word("threads", "that executed them")
    timed_period = word("1/65536 block", "of a sampled launch: one block of so many is timed; 0: all are")
    stretch = word("blocks", "timed in a row, after which blocks are left out in time")
    left_out = word("blocks", "that are left out then")
    warm_sm = word("index", "region of the SM on which blocks without time run; 0: there are none")
    warm_next = word("", "number of the next block without time")
    warm_stop = word("", "one past the last of this stretch")
    warm_ratio = word("1/65536", "blocks without time for each that is timed")
    warm_own = word("instructions", "that timed blocks had executed in the window before")
    warm_work = word("instructions", "that blocks without time have executed beside them")
    warm_along = word("", "they run beside timed ones: what they ask for takes L2's and DRAM's time")
    warm_random = word("", "the last of the numbers that spread their accesses over a window")
    warm_loaded = word("1/65536", "of the sectors that timed blocks load, which L2 is asked for")
    warm_stored = word("1/65536", "the same of stores")
    warm_loads = word("1/65536 sector", "that the loads so far are short of that share")
    warm_stores = word("1/65536 sector", "the same of stores")
    warm_queue = word("host address", "stores that have not come to L2 yet (QueuedStore)")
    warm_queued = word("stores", "put there so far")
    warm_sent = word("stores", "that have left")
    warm_written = word("sectors", "of them")
    warm_moment = word("cycle", "when the last instruction that stores comes to L2")
    warm_to_write = word("stores", "that shall have left")
    warm_free = word("instructions", "of warm_instructions, those of blocks that were left out")
