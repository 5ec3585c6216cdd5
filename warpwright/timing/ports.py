"""Calendars: bandwidth reserved out of order, as a ring of time buckets with a capacity each.

A port that only remembers when it is free next would lose the time before a reservation that is far
ahead (an answer from DRAM), and delay a nearer one (an L2 hit) until after it.  A calendar gives each
reservation the first bucket at or after its time that has room; an empty calendar adds no delay.
What exceeds a bucket flows into the following ones, so a long transfer keeps its neighbours busy too.

Words of a calendar: [0] and [1] a stretch of buckets known to be full (first, one past the last), which a search
jumps over; from [8] on the ring, each entry the number of its bucket and the use of it.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, divide_small, u
from warpwright.timing.state import CALENDAR_BUCKETS

_STAMP = 24  # bits below the bucket's number: its use
_USE = (1 << _STAMP) - 1
_FIRST = 8


@core
def first_free(m: Any, calendar: int, begin: int, capacity: int) -> int:
    """The first bucket from ``begin`` on that has room."""
    bucket = begin
    full_end = m[calendar + 1]
    inside = m[calendar] <= begin <= full_end
    if inside:
        bucket = full_end
    ring = calendar + _FIRST
    while True:
        entry = m[ring + (bucket & (CALENDAR_BUCKETS - 1))]
        if entry >> _STAMP != bucket or entry & _USE < capacity:
            break
        bucket += 1
    if inside:
        m[calendar + 1] = bucket
    elif bucket > full_end:
        m[calendar] = begin
        m[calendar + 1] = bucket
    return bucket


@core
def reserve(m: Any, calendar: int, shift: int, capacity: int, time: int, units: int) -> int:
    """Take ``units`` at or after ``time`` from a port that passes ``capacity`` in 2**shift cycles; returns the start in cycles."""
    bucket = time >> shift
    ring = calendar + _FIRST
    place = u(ring + (bucket & (CALENDAR_BUCKETS - 1)))
    entry = m[place]
    stamp = entry >> _STAMP
    used = entry & _USE if stamp == bucket else 0
    if used >= capacity or stamp > bucket:  # a later bucket has its entry: fullness is known from the stretch alone
        bucket = first_free(m, calendar, bucket, capacity)
        place = u(ring + (bucket & (CALENDAR_BUCKETS - 1)))
        entry = m[place]
        used = entry & _USE if entry >> _STAMP == bucket else 0
    start = bucket << shift
    if used:
        start = max(start + divide_small(used << shift, capacity), time)
    elif start < time:
        start = time
    used += units
    while used > capacity:
        m[place] = (bucket << _STAMP) | capacity
        used -= capacity
        bucket += 1
        place = u(ring + (bucket & (CALENDAR_BUCKETS - 1)))
        entry = m[place]
        if entry >> _STAMP == bucket:
            used += entry & _USE
    m[place] = (bucket << _STAMP) | used
    return start
