"""The queue between a sub-core and the units that the four sub-cores share: memory, shuffles, constants.

A sub-core hands a register of a memory instruction over in two cycles: a shared load has its address (2 cycles), a global one two (4), a store or an
atomic its data as well.  What a load brings it gets back at a register a cycle, with one more for each load.  Passes of one instruction follow each other in two cycles, and a warp's next one waits for them; those of other warps,
also of the same sub-core, go between (an H200: bench.micro ``sub_core_passes``).
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, u
from warpwright.timing import state as s
from warpwright.timing.ports import reserve

REGISTER_CYCLES = 2
"""For each register of 32 lanes that a memory instruction hands over."""


@core
def leave_queue(m: Any, sc: int, time: int, start: int, following: int) -> None:
    """An instruction that issued at ``time`` leaves its sub-core's queue at ``start``; the next one no sooner than ``following``."""
    m[u(sc + s.SC_MIO_FREE)] = following
    head = m[u(sc + s.SC_MIO_HEAD)]
    m[u(sc + s.SC_MIO_QUEUE + head)] = start
    head = head + 1 if head + 1 < m[u(s.H_MIO_ENTRIES)] else 0
    m[u(sc + s.SC_MIO_HEAD)] = head
    # The queue has room again when the oldest of its last entries has left.
    m[u(sc + s.SC_PIPE_FREE + s.P_MIO)] = max(time + 1, m[u(sc + s.SC_MIO_QUEUE + head)])


@core
def take_unit(m: Any, sm: int, ready: int, waves: int) -> int:
    """When the load/store unit takes an instruction of so many wavefronts that is there at ``ready``."""
    start = reserve(m, sm + s.OFF_LSU, s.CALENDAR_SHIFT, m[u(s.H_LSU_CAPACITY)], ready, waves)
    m[u(sm + s.SM_LSU_WAVEFRONTS)] += waves
    # A kernel ends when its last access has passed, though its warp may have exited before.
    m[u(sm + s.SM_FINISH)] = max(m[u(sm + s.SM_FINISH)], start + waves)
    return start


@core
def enter_queue(m: Any, sm: int, sc: int, time: int, waves: int) -> int:
    """Pass the queue; gives the cycle at which the load/store unit takes the instruction."""
    ready = max(time + m[u(s.H_MIO_LATENCY)], m[u(sc + s.SC_MIO_FREE)])
    start = take_unit(m, sm, ready, waves)
    leave_queue(m, sc, time, start, start + m[u(s.H_MIO_INTERVAL)])
    return start


@core
def way_cycles(reads: int, loaded: int) -> int:
    """Cycles of a sub-core's way to and from the unit for an access: ``reads`` as ``I_READS`` has them, and how many registers it loads."""
    registers = (reads & 15) + ((reads >> 4) & 15) + ((reads >> 8) & 15) + ((reads >> 12) & 15)
    return max(REGISTER_CYCLES * registers, loaded + 1)


@core
def enter_with_passes(m: Any, sm: int, sc: int, w: int, time: int, waves: int, interval: int, takes: int) -> int:
    """The same for an access that holds its sub-core's next one up for ``interval`` cycles, its own warp's for ``takes``."""
    handed = max(time + m[u(s.H_MIO_LATENCY)], m[u(sc + s.SC_MIO_FREE)])
    ready = max(handed, m[u(w + s.W_PASSES_END)])
    start = take_unit(m, sm, ready, waves)
    m[u(w + s.W_PASSES_END)] = start + takes
    leave_queue(m, sc, time, start, handed + interval)
    return start
