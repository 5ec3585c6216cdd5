"""Address translation of a GPC: pages in its TLB, and the cost of misses.

Measured on H200 (bench.micro ``scattered_pages``: random reads that hit L2, on 4 to 16384 pages of 2 MiB): up to 128 pages, all translations hit;
beyond that, misses are served one after the other and hits wait for them, while the latency of a single miss is small (``tlb``: 9 cycles).
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core
from warpwright.timing import state as s
from warpwright.timing.address_hash import known_as
from warpwright.timing.ports import reserve

# Fields of a GPC: the page used last, the time of the last miss, then the sets: page + 1 and last use of each entry.
LAST_PAGE, LAST_MISS, FIRST = 0, 1, 8
UNITS = 64
"""Translations of a GPC per cycle, in the units of its calendar."""


@core
def translate(m: Any, gpc: int, line: int, time: int) -> int:
    """When a request that reaches its GPC's translation at ``time`` leaves it."""
    tlb = m[s.chip.tlb] + gpc * m[s.chip.tlb_slots]
    page = (known_as(m, line) >> m[s.chip.page_shift]) + 1
    hit = m[tlb + LAST_PAGE] == page
    if not hit:
        m[tlb + LAST_PAGE] = page
        sets = m[s.chip.tlb_sets]
        set_words = 2 * m[s.chip.tlb_ways]
        first = tlb + FIRST + page % sets * set_words
        oldest = s.INF
        victim = first
        for entry in range(first, first + set_words, 2):
            if m[entry] == page:
                hit = True
                victim = entry
                break
            if m[entry + 1] < oldest:
                oldest = m[entry + 1]
                victim = entry
        m[victim] = page
        m[victim + 1] = time + 1
    if hit and time - m[tlb + LAST_MISS] > m[s.chip.tlb_quiet]:
        return time
    calendar = m[s.chip.tlb_ports] + gpc * s.CALENDAR_SLOTS
    units = m[s.chip.tlb_hit if hit else s.chip.tlb_miss]
    start = reserve(m, calendar, s.DRAM_SHIFT, UNITS << s.DRAM_SHIFT, time, units)
    if hit:
        return start
    m[tlb + LAST_MISS] = time
    return start + m[s.chip.tlb_latency]
