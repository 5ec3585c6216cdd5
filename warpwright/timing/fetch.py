"""Instruction caches of an SM.

Instructions: lines of 128 bytes (eight instructions) in a first level next to the sub-cores, then the 128 KiB L1.5, then L2;
each level evicts in first-in, first-out order, L1.5 among the four lines of a set (``icache``).  The first level requests three lines at once, and the next
three when a warp reaches the first
of them: a launch's first code arrives three lines at a time, 52 cycles apart (bench.micro ``first_lines``).  The SMs of a GPC share one port for lines that miss in their
first levels (``cold_code``): three lines in 61 cycles if all SMs request.  A stream buffer requests the following lines from L2, with enough of them
in flight that lines from L2 arrive at their interval; lines from DRAM are slower in proportion to its latency (``straight_once``).
On an H200, one first level serves all four sub-cores, so code that one sub-core has executed hits for the others (``code_turns``).
On V100 each sub-core has its own, and all ask L1.5 through one port: straight-line code of four sub-cores takes four times as long per
line (Table 4 of "A Study of Synchronization Methods in Modern GPUs": its barriers of 14 instructions, 8.7 cycles for each).
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, divide_small, u
from warpwright.timing import state as s
from warpwright.timing.mio_queue import scheduler_of
from warpwright.timing.ports import reserve


@core
def insert(m: Any, cache: int, capacity: int, line: int, ready: int) -> None:
    """Put a line into a FIFO cache: [0] next place, ring of lines from [2], time of each line after it."""
    place = m[cache]
    old = m[cache + 2 + place]
    if old >= 0:
        m[cache + 2 + capacity + old] = s.INF
    m[cache + 2 + place] = line
    m[cache] = place + 1 if place + 1 < capacity else 0
    m[cache + 2 + capacity + line] = ready


@core
def insert_in_set(m: Any, cache: int, line: int, ready: int) -> None:
    """Put a line into its set of the second level, whose lines are adjacent, newest first."""
    capacity = m[s.chip.l1i_lines]
    ways = m[s.chip.l1i_ways]
    first = cache + 2 + line % (capacity // ways) * ways
    old = m[first + ways - 1]
    if old >= 0:
        m[cache + 2 + capacity + old] = s.INF
    for place in range(first + ways - 1, first, -1):
        m[place] = m[place - 1]
    m[first] = line
    m[cache + 2 + capacity + line] = ready


@core
def _from_l2(m: Any, sm: s.SM, line: int, time: int) -> int:
    cache = sm + m[s.chip.l1i_at]
    capacity = m[s.chip.l1i_lines]
    ready = m[cache + 2 + capacity + line]
    if ready < s.INF:
        return ready if ready > time else time
    start = max(time, m[sm.fetch_l2_free])
    gpc = m[m[s.chip.gpc_of_sm] + m[sm.index]]
    arrived = u(m[s.chip.code_arrived] + gpc * m[s.chip.code_lines] + line)
    if m[arrived] > start:  # no SM of the GPC has requested it, or it is in flight
        m[sm.fetch_l2_free] = start + m[s.chip.l2i_cold_interval]
        m[arrived] = min(m[arrived], start + m[s.chip.l2i_cold_latency])
        ready = m[arrived]
    else:
        m[sm.fetch_l2_free] = start + m[s.chip.l2i_interval]
        ready = start + m[s.chip.l2i_latency]
    insert_in_set(m, cache, line, ready)
    return ready


@core
def _chunk(m: Any, sm: s.SM, cache: int, chunk: int, time: int) -> None:
    """Bring the missing lines of a chunk into a first level, and make L1.5 request the following ones."""
    size = m[s.chip.chunk_lines]
    end = min((chunk + 1) * size, m[s.chip.code_lines])
    table = cache + 2 + m[s.chip.l0_lines]
    begin = max(time, m[sm.fetch_free])
    m[sm.fetch_free] = begin + m[s.chip.chunk_interval]
    port = m[s.chip.gpc_fetch_ports] + m[m[s.chip.gpc_of_sm] + m[sm.index]] * s.CALENDAR_SLOTS
    for line in range(chunk * size, end):
        if m[table + line] < s.INF:
            continue
        start = _from_l2(m, sm, line, begin)
        start = reserve(m, port, s.CALENDAR_SHIFT, 256 << s.CALENDAR_SHIFT, start, m[s.chip.gpc_fetch_interval])
        insert(m, cache, m[s.chip.l0_lines], line, start + m[s.chip.l1i_latency])
        m[sm.fetch_misses] += 1
    for line in range(end, min(end + m[s.chip.prefetch], m[s.chip.code_lines])):
        _from_l2(m, sm, line, begin)


@core
def instruction_ready(m: Any, sm: s.SM, slot: int, line: int, time: int) -> int:
    """When the warp in a slot, which needs a line at ``time``, has it; entering a chunk prefetches the next one."""
    cache = sm + m[s.chip.l0_at] + scheduler_of(m, slot) * m[s.chip.l0_stride]
    table = cache + 2 + m[s.chip.l0_lines]
    size = m[s.chip.chunk_lines]
    chunk = divide_small(line, size)
    if m[table + line] >= s.INF:
        _chunk(m, sm, cache, chunk, time)
    ready = m[table + line]
    following = (chunk + 1) * size
    if following < m[s.chip.code_lines] and m[table + following] >= s.INF:
        _chunk(m, sm, cache, chunk + 1, max(ready, time))
    return ready if ready > time else time
