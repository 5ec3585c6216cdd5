"""The queue between a sub-core and the units that the four sub-cores share: memory, shuffles, constants."""

from __future__ import annotations

from typing import Any

from warpwright.native.pieces import core, u
from warpwright.timing import state as s
from warpwright.timing.ports import reserve


@core
def leave_queue(m: Any, sc: int, time: int, start: int, hold: int) -> None:
    """An instruction that issued at ``time`` leaves its sub-core's queue at ``start``; the next one ``hold`` cycles later."""
    m[u(sc + s.SC_MIO_FREE)] = start + hold
    head = m[u(sc + s.SC_MIO_HEAD)]
    m[u(sc + s.SC_MIO_QUEUE + head)] = start
    head = head + 1 if head + 1 < m[u(s.H_MIO_ENTRIES)] else 0
    m[u(sc + s.SC_MIO_HEAD)] = head
    # The queue has room again when the oldest of its last entries has left.
    m[u(sc + s.SC_PIPE_FREE + s.P_MIO)] = max(time + 1, m[u(sc + s.SC_MIO_QUEUE + head)])


@core
def enter_queue(m: Any, sm: int, sc: int, time: int, waves: int, hold: int) -> int:
    """Pass the queue; gives the cycle at which the load/store unit takes the instruction.

    ``hold``: cycles that the sub-core's next one waits behind it, if more than the queue's own.
    """
    ready = max(time + m[u(s.H_MIO_LATENCY)], m[u(sc + s.SC_MIO_FREE)])
    start = reserve(m, sm + s.OFF_LSU, s.CALENDAR_SHIFT, m[u(s.H_LSU_CAPACITY)], ready, waves)
    leave_queue(m, sc, time, start, max(hold, m[u(s.H_MIO_INTERVAL)]))
    m[u(sm + s.SM_LSU_WAVEFRONTS)] += waves
    # A kernel ends when its last access has passed, though its warp may have exited before.
    m[u(sm + s.SM_FINISH)] = max(m[u(sm + s.SM_FINISH)], start + waves)
    return start
