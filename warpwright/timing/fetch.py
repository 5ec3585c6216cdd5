"""Instruction caches of an SM.

Instructions: lines of 128 bytes (eight instructions) in a first level next to the sub-cores, then the 128 KiB L1.5, then L2;
each level evicts first in, first out.  The first level asks for three lines at once, and for the next three when a warp comes to the first
of them: a launch's first code comes in threes, 52 cycles apart (bench.micro ``first_lines``).  What the SMs of a GPC get from behind their
first levels passes one port (``cold_code``): three lines in 61 cycles when all ask.  Before that a stream buffer asks L2 for the following
lines; it has so many on their way that lines of L2 come in their interval, and those that come from DRAM as much slower as that is farther (``straight_once``).
One first level serves all four sub-cores: code that one sub-core had is there for the others (``code_turns``).
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, divide_small, u
from warpwright.timing import state as s
from warpwright.timing.ports import reserve


@core
def insert(m: Any, cache: int, capacity: int, line: int, ready: int) -> None:
    """Put a line into a FIFO cache: [0] next place, ring of lines from [2], time of each line behind it."""
    place = m[u(cache)]
    old = m[u(cache + 2 + place)]
    if old >= 0:
        m[u(cache + 2 + capacity + old)] = s.INF
    m[u(cache + 2 + place)] = line
    m[u(cache)] = place + 1 if place + 1 < capacity else 0
    m[u(cache + 2 + capacity + line)] = ready


@core
def _from_l2(m: Any, sm: int, line: int, time: int) -> int:
    cache = sm + m[u(s.H_OFF_L1I)]
    capacity = m[u(s.H_L1I_LINES)]
    ready = m[u(cache + 2 + capacity + line)]
    if ready < s.INF:
        return ready if ready > time else time
    start = max(time, m[u(sm + s.SM_FETCH_L2_FREE)])
    gpc = m[u(m[u(s.H_GPC_OF_SM)] + m[u(sm + s.SM_INDEX)])]
    arrived = u(m[u(s.H_CODE_ARRIVED)] + gpc * m[u(s.H_CODE_LINES)] + line)
    if m[arrived] > start:  # none of the GPC's SMs has asked for it, or it is on its way
        m[u(sm + s.SM_FETCH_L2_FREE)] = start + m[u(s.H_L2I_COLD_INTERVAL)]
        m[arrived] = min(m[arrived], start + m[u(s.H_L2I_COLD_LATENCY)])
        ready = m[arrived]
    else:
        m[u(sm + s.SM_FETCH_L2_FREE)] = start + m[u(s.H_L2I_INTERVAL)]
        ready = start + m[u(s.H_L2I_LATENCY)]
    insert(m, cache, capacity, line, ready)
    return ready


@core
def _chunk(m: Any, sm: int, chunk: int, time: int) -> None:
    """Bring what is missing of a chunk of lines into the first level, and have L1.5 ask for what follows."""
    size = m[u(s.H_CHUNK_LINES)]
    end = min((chunk + 1) * size, m[u(s.H_CODE_LINES)])
    cache = sm + m[u(s.H_OFF_L0)]
    table = cache + 2 + m[u(s.H_L0_LINES)]
    begin = max(time, m[u(sm + s.SM_FETCH_FREE)])
    m[u(sm + s.SM_FETCH_FREE)] = begin + m[u(s.H_CHUNK_INTERVAL)]
    port = m[u(s.H_GPC_FETCH_PORTS)] + m[u(m[u(s.H_GPC_OF_SM)] + m[u(sm + s.SM_INDEX)])] * s.CALENDAR_SLOTS
    for line in range(chunk * size, end):
        if m[u(table + line)] < s.INF:
            continue
        start = _from_l2(m, sm, line, begin)
        start = reserve(m, port, s.CALENDAR_SHIFT, 256 << s.CALENDAR_SHIFT, start, m[u(s.H_GPC_FETCH_INTERVAL)])
        insert(m, cache, m[u(s.H_L0_LINES)], line, start + m[u(s.H_L1I_LATENCY)])
        m[u(sm + s.SM_FETCH_MISSES)] += 1
    for line in range(end, min(end + m[u(s.H_PREFETCH)], m[u(s.H_CODE_LINES)])):
        _from_l2(m, sm, line, begin)


@core
def instruction_ready(m: Any, sm: int, line: int, time: int) -> int:
    """When a warp that needs a line at ``time`` has it; a chunk that is entered has the next one fetched."""
    table = sm + m[u(s.H_OFF_L0)] + 2 + m[u(s.H_L0_LINES)]
    size = m[u(s.H_CHUNK_LINES)]
    chunk = divide_small(line, size)
    if m[u(table + line)] >= s.INF:
        _chunk(m, sm, chunk, time)
    ready = m[u(table + line)]
    following = (chunk + 1) * size
    if following < m[u(s.H_CODE_LINES)] and m[u(table + following)] >= s.INF:
        _chunk(m, sm, chunk + 1, max(ready, time))
    return ready if ready > time else time
