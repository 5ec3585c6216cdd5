"""Fences of an SM at the slices, where they wait among polls in rounds.

A fence goes to each slice that its SM has used and follows the reads that wait there.  At a slice that an SM polls (strong loads), it takes a turn like a poll: a turn of the port, and one
of the line, among those that atomics change, for which a read has waited last.  While one round waits there, the SM's other fences wait for its return, and then leave together.

On H200, beside eight polling warps of each SM, a fence takes the time of a poll and some 100 cycles, and each round costs one poll, whether one warp fences or four
(bench.machine.fences_among_polls).  No rounds were measured among ordinary loads or for system scope: such a fence follows the loads and takes no turn (``queues_end``).
Volta and Ampere are assumed to do the same, because their fences too are requests that follow the SM's others through the crossbar.  Pascal's fences
have rounds of their own within the SM (``sub_core.fence_done``), one at a time whatever they wait for; each of these is one round here.  ``membar_rounds_apart`` selects between the two.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core
from warpwright.timing import state as s
from warpwright.timing.l2 import counterpart, is_far, line_turn, port, queue_end
from warpwright.timing.l2_hazards import FAR, FRACTION, NEAR, atomics_on, queue_of, turn_units

SOON_CYCLES = 64
"""A fence waits within the present window for a round that returns within so many cycles; otherwise it asks again in the next window."""


@core
def joins_within(m: Any) -> int:
    """Cycles after a round's first fence within which others join it: those of fences that arrive together, or, if the SM has rounds of its own, those until its first places are free again."""
    return m[s.chip.fence_place_time if m[s.chip.fence_rounds_apart] else s.chip.fence_together]


@core
def way_back(m: Any) -> int:
    """Cycles beyond a round's wait at a slice until the next round may leave: the interval of two groups, or, if the SM has rounds of its own, the time until this one is over."""
    return m[s.chip.fence_latency if m[s.chip.fence_rounds_apart] else s.chip.fence_turn]


@core
def near_slice(m: Any, partition: int, home: int) -> int:
    """The slice of a partition through which its SMs reach the lines of the slice ``home``."""
    return counterpart(m, home) if is_far(m, partition, home) else home


@core
def is_polled(m: Any, piece: int) -> bool:
    """Whether SMs on a slice's side have made strong loads there."""
    return m[queue_of(m, piece).polled] != 0


@core
def pass_port(m: Any, piece: int, time: int) -> int:
    """The cycle at which a fence that reaches a slice at ``time`` has passed its port, which it occupies for one access if it waits among polls."""
    end = queue_end(m, piece, time)
    return port(m, piece, time, 1) if end > time and is_polled(m, piece) else end


@core
def pass_line(m: Any, home: int, time: int, far: bool) -> int:
    """The cycle at which a fence that reaches a slice at ``time`` has had its turn among the accesses to the line for which a read has waited last."""
    line = m[queue_of(m, home).awaited] - 1
    if line < 0:
        return time
    entry = atomics_on(m, home, line)
    comes = time + (m[s.chip.far_latency] >> 1 if far else 0)
    if m[entry] != line + 1 or m[entry.free] >> FRACTION <= comes:
        return time
    units = turn_units(m, home, line, comes, FAR if far else NEAR)
    if units == 0:
        return time + (m[entry.free] >> FRACTION) - comes
    return time + line_turn(m, home, line, comes, units) - comes


@core
def pass_slice(m: Any, partition: int, home: int, time: int) -> int:
    """Cycles for which a fence that reaches the slices at ``time`` waits at one of them and at its counterpart on the other side."""
    near = near_slice(m, partition, home)
    passed = pass_port(m, near, time)
    if near != home:
        passed = max(passed, queue_end(m, home, time))
    if is_polled(m, near):
        passed = max(passed, pass_line(m, home, time, near != home))
    return passed - time


@core
def uses_slice(m: Any, sm: s.SM, home: int) -> bool:
    """Whether an SM has used a slice."""
    index = m[sm.index]
    return (m[m[s.chip.touched] + home * m[s.chip.touched_words] + (index >> 6)] >> (index & 63)) & 1 != 0


@core
def visit_slices(m: Any, sm: s.SM, partition: int, time: int) -> int:
    """Cycles for which fences of an SM that leave together at ``time`` wait at the slices that it has used; if they wait among polls, they are a round, and the next one leaves when it returns."""
    longest = 0
    back = time
    for home in range(m[s.chip.slices]):
        if uses_slice(m, sm, home):
            waits = pass_slice(m, partition, home, time + m[s.chip.to_l2])
            longest = max(longest, waits)
            if waits > 0 and is_polled(m, near_slice(m, partition, home)):
                across = m[s.chip.far_latency] if is_far(m, partition, home) else 0
                back = max(back, time + way_back(m) + across + waits)
    if back > time:
        m[sm.round_left] = time
        m[sm.round_waits] = longest
        m[sm.round_back] = back
        m[sm.round_fences] = 1
    return longest


@core
def queues_end(m: Any, sm: s.SM, partition: int, time: int) -> int:
    """The cycle at which the reads that wait at the slices used by an SM have passed, for a fence that reaches them at ``time`` and takes no turn among them."""
    latest = time
    for home in range(m[s.chip.slices]):
        if uses_slice(m, sm, home):
            latest = max(latest, queue_end(m, home, time))
            latest = max(latest, queue_end(m, near_slice(m, partition, home), time))
    return latest


@core
def misses_round(m: Any, sm: s.SM, time: int) -> bool:
    """Whether a fence at ``time`` comes too late for the last round, or finds no place in it."""
    full = 0 < m[s.chip.fences_at_slices] <= m[sm.round_fences]
    return full or time > m[sm.round_left] + joins_within(m)


@core
def comes_too_early(m: Any, sm: s.SM, time: int) -> bool:
    """Whether a fence at ``time`` must wait for a round that does not return soon, so that its own wait at the slices is not known yet."""
    return misses_round(m, sm, time) and m[sm.round_back] > time + SOON_CYCLES


@core
def fence_waits(m: Any, sm: s.SM, partition: int, time: int) -> int:
    """Additional cycles of a fence that is ready to leave its SM at ``time``: until its round leaves, and the round's wait at the slices."""
    if misses_round(m, sm, time):
        leaves = max(time, m[sm.round_back])
        return leaves - time + visit_slices(m, sm, partition, leaves)
    m[sm.round_fences] += 1
    return max(m[sm.round_left] - time, 0) + m[sm.round_waits]
