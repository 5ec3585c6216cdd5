"""The six dependence counters of a warp's control bits: what holds them, and when they allow the next instruction."""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, lowest_bit
from warpwright.timing import state as s
from warpwright.timing.scoreboard import hold_entry


@core
def unknown_ends(m: Any, w: s.Warp, barrier: int) -> int:
    """The number of a dependence barrier's operations whose end is not known."""
    return (m[w.sb_unknown] >> s.UNKNOWN_BITS * barrier) & ((1 << s.UNKNOWN_BITS) - 1)


@core
def end_known(m: Any, w: s.Warp, barrier: int, time: int) -> None:
    """Record that one of them ends at ``time``."""
    m[w.sb_unknown] -= 1 << s.UNKNOWN_BITS * barrier
    m[w.sb_time[barrier]] = max(m[w.sb_time[barrier]], time)


@core
def barriers_ready(m: Any, w: s.Warp, waits: int, earliest: int, reason: int) -> tuple[int, int, bool]:
    """When the dependence barriers ``waits`` are over, the reason for the wait, and whether that time is known yet."""
    while waits:
        barrier = lowest_bit(waits)
        waits &= waits - 1
        if unknown_ends(m, w, barrier):
            return earliest, s.ST_LONG, False
        over = m[w.sb_time[barrier]]
        kind = s.ST_LONG if (m[w.sb_long] >> barrier) & 1 else s.ST_SHORT
        reason = kind if over > earliest else reason
        earliest = max(earliest, over)
    return earliest, reason, True


@core
def counter_ready(m: Any, w: s.Warp, barrier: int, allowed: int) -> int:
    """When a dependence counter is at or below ``allowed``: its operations end in order."""
    if barrier < 0:
        return 0
    if allowed == 0:
        return s.INF if unknown_ends(m, w, barrier) else m[w.sb_time[barrier]]
    count = m[w.ring_count[barrier]]
    needed = count - allowed  # this many, counted from the first, must be over
    if needed <= 0:
        return 0
    ring = w.ring[barrier * s.RING]
    first = max(count - s.RING, 0)
    over = 0
    for i in range(first, needed):
        over = max(over, m[ring + (i & (s.RING - 1))])
    return over


@core
def hold(m: Any, w: s.Warp, barrier: int, time: int, long: int) -> None:
    """Count an operation on a dependence counter; ``time`` is its end, INF when unknown."""
    if barrier >= s.DEPENDENCE_BARRIERS:
        hold_entry(m, w, barrier, time, long)
        return
    if time >= s.INF:
        m[w.sb_unknown] += 1 << s.UNKNOWN_BITS * barrier
    elif time > m[w.sb_time[barrier]]:
        m[w.sb_time[barrier]] = time
    m[w.sb_long] = m[w.sb_long] & ~(1 << barrier) | long << barrier


@core
def hold_both(m: Any, code: Any, w: s.Warp, row: s.Instruction, done: int, read: int) -> None:
    """Count an instruction on its dependence barriers: its results until ``done``, its operands until ``read``."""
    barrier = code[row.write_barrier]
    if barrier >= 0:
        hold(m, w, barrier, done, 0)
    barrier = code[row.read_barrier]
    if barrier >= 0:
        hold(m, w, barrier, read, 0)


@core
def push_ring(m: Any, w: s.Warp, barrier: int, time: int) -> int:
    """Record an operation for DEPBAR.LE with a count; returns its place."""
    count = m[w.ring_count[barrier]]
    m[w.ring_count[barrier]] = count + 1
    place = w.ring[barrier * s.RING + (count & (s.RING - 1))]
    m[place] = time
    return place
