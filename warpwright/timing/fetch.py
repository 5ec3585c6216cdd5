"""Instruction caches of an SM.

Instructions: lines of 128 bytes (eight instructions) in a first level next to the sub-cores, then the 128 KiB L1.5, then L2;
each level hands over a line in a fixed interval and evicts first in, first out.  What the SMs of a GPC get from behind their first levels
passes one port (bench.micro ``cold_code``).  A stream buffer asks for the following lines
with each new line.  One first level serves all four sub-cores: on a card, four warps that run the same code
see the same rate as one.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.pieces import core, u
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
    m[u(sm + s.SM_FETCH_L2_FREE)] = start + m[u(s.H_L2I_INTERVAL)]
    ready = start + m[u(s.H_L2I_LATENCY)]
    insert(m, cache, capacity, line, ready)
    return ready


@core
def _from_l1(m: Any, sm: int, line: int, time: int) -> int:
    """Bring a line into the first level; gives its time."""
    start = max(_from_l2(m, sm, line, time), m[u(sm + s.SM_FETCH_FREE)])
    port = m[u(s.H_GPC_FETCH_PORTS)] + m[u(m[u(s.H_GPC_OF_SM)] + m[u(sm + s.SM_INDEX)])] * s.CALENDAR_SLOTS
    start = reserve(m, port, s.CALENDAR_SHIFT, 256 << s.CALENDAR_SHIFT, start, m[u(s.H_GPC_FETCH_INTERVAL)])
    m[u(sm + s.SM_FETCH_FREE)] = start + m[u(s.H_L1I_INTERVAL)]
    ready = start + m[u(s.H_L1I_LATENCY)]
    insert(m, sm + m[u(s.H_OFF_L0)], m[u(s.H_L0_LINES)], line, ready)
    m[u(sm + s.SM_FETCH_MISSES)] += 1
    return ready


@core
def instruction_ready(m: Any, sm: int, line: int, time: int) -> int:
    """When a warp that needs a line at ``time`` has it."""
    capacity = m[u(s.H_L0_LINES)]
    table = sm + m[u(s.H_OFF_L0)] + 2 + capacity
    ready = m[u(table + line)]
    if ready >= s.INF:
        ready = _from_l1(m, sm, line, time)
    ahead = min(line + m[u(s.H_PREFETCH)], m[u(s.H_CODE_LINES)] - 1)
    if ahead > line and m[u(table + ahead)] >= s.INF:
        for following in range(line + 1, ahead + 1):
            if m[u(table + following)] >= s.INF:
                _from_l1(m, sm, following, time)
    return ready if ready > time else time
