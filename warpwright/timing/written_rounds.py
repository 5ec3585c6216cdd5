"""Fences of the device's scope leave an SM that has stored in rounds, one at a time.

The first fence that reaches L1 begins a round; other fences join it if their warps' stores are in L1 before it or soon after.  The round leaves when no store of the SM, by any warp, is on its way.  The
remaining fences leave with the next round, when this one returns.  A fence of an SM that has not stored since the last round began needs no round of its own and leaves soon after it.

On one SM of an H200 (``python -m bench.machine.fence_rounds``), after four stores to the stack each, six of 32 warps' fences are over after 1,110 to 1,130 cycles and 26 after 1,484 to 1,512;
after one store each, all are over after 720 to 803.  If four warps store and fence up to 50 cycles after four others, they are done 60 to 90 cycles after them; 60 to 430 cycles after the
others, 350 to 390 cycles after them; and without stores of their own, 60 cycles after them.  Of warps that begin one after the other (``staggered``), those that begin up to 24 to 28 cycles after
the first join its round, and those that begin 30 to 43 cycles after it do not.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core
from warpwright.timing import state as s


@core
def next_round(m: Any, sm: s.SM, opens: int) -> None:
    """Begin another round; ``opens`` is the cycle at which its first fence comes to L1."""
    m[sm.written_round] += 1
    m[sm.written_open] = opens
    m[sm.written_before] = m[sm.written_leaves]
    m[sm.written_leaves] = s.INF
    m[sm.written_fences] = 0
    m[sm.written_late] = 0


@core
def join_round(m: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, time: int) -> None:
    """Record the round to which a fence issued at ``time`` belongs. The fence reaches L1 after the queued accesses of its sub-core and the queued stores to global memory."""
    about = s.StoreBuffer(sm + m[s.chip.join_at] + m[s.chip.buffer_lines] * s.StoreLine.size)
    comes = max(max(time + m[s.chip.mio_latency], m[sc.mio_free]), max(m[about.last_shared], m[w.stored]))
    if m[sm.written_leaves] < comes:
        if m[sm.wrote] <= m[sm.written_open] and m[sm.written_late] == 0:
            m[w.written_round] = m[sm.written_round]
            return
        next_round(m, sm, m[sm.written_leaves] if m[sm.written_late] else comes)
    m[w.written_round] = m[sm.written_round]
    if m[w.stored] > m[sm.written_open] + m[s.chip.fence_joins]:
        m[w.written_round] += 1
        m[sm.written_late] = 1


@core
def waits_for_stores(m: Any, sm: s.SM, w: s.Warp) -> bool:
    """Whether the round of a warp's fence waits for stores of the SM that are on their way."""
    number = m[w.written_round]
    if number < m[sm.written_round] or (number == m[sm.written_round] and m[sm.written_leaves] < s.INF):
        return False
    return m[sm.stores_known] < m[sm.stores_sent] or m[sm.store_time] > m[s.chip.now]


@core
def crossing(m: Any, sm: s.SM) -> int:
    """Cycles by which a round returns later after writes to the other side of L2: a write is taken to be acknowledged when it arrives there.

    The round before has waited for all writes that had left the SM when its own time was known (fences_among_polls, parts ``alf``: the fence after a grid barrier takes 500 cycles if all warps have stored and fenced before the
    barrier, 570 to 600 if they have only stored).
    """
    ordered = max(m[sm.clean], m[sm.written_known])
    return m[s.chip.far_latency] >> 1 if m[sm.wrote_far] > ordered else 0


@core
def round_leaves(m: Any, sm: s.SM, w: s.Warp, acked: int) -> int:
    """The cycle at which a warp's fence leaves with its round, or after it, if the SM's last store was acknowledged at ``acked``; later if the round must cross to the other side of L2.

    A round takes its least time even if all stores were acknowledged long ago (``fence_crews``: 345 cycles, ``fence_sides``: 180 more after writes to the other side).
    """
    number = m[w.written_round]
    if number < m[sm.written_round]:
        return max(acked, m[sm.written_before]) + m[sm.written_crosses]
    if m[sm.written_leaves] >= s.INF:
        m[sm.written_crosses] = crossing(m, sm)
        m[sm.written_known] = m[s.chip.now]
        least = m[sm.written_open] + m[s.chip.fence_written] - m[s.chip.fence_latency] + m[sm.written_crosses]
        m[sm.written_leaves] = max(max(acked, least), m[sm.written_before] + m[s.chip.fence_interval])
    if number > m[sm.written_round]:
        next_round(m, sm, m[sm.written_leaves])
        m[sm.written_leaves] = max(acked, m[sm.written_before] + m[s.chip.fence_interval])
    m[sm.written_fences] += 1
    after = m[w.last] > m[sm.written_leaves] or m[sm.written_fences] > m[s.chip.fence_places]
    return m[sm.written_leaves] + (m[s.chip.fence_place_time] if after else 0) + m[sm.written_crosses]
