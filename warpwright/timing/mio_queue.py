"""The queue between a sub-core and the units that the four sub-cores share: memory, shuffles, constants.

A sub-core sends a register of a memory instruction in two cycles: a shared load has one for its address (2 cycles), a global load two (4); a store or an
atomic also sends its data.  It receives the results of loads at one register per cycle, with one more cycle for each load.  Passes of one instruction follow
each other in two cycles, and a warp's next one waits for them; those of other warps,
also of the same sub-core, go between (an H200: bench.micro ``sub_core_passes``).
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core
from warpwright.timing import state as s
from warpwright.timing.ports import reserve


@core
def scheduler_of(m: Any, slot: int) -> int:
    """The number of the sub-core whose fields hold the scheduler and the pipes of a warp slot."""
    return (slot >> 4) & m[s.chip.scheduler_mask]


@core
def leave_queue(m: Any, sc: s.SubCore, time: int, start: int, following: int) -> None:
    """An instruction that issued at ``time`` leaves its sub-core's queue at ``start``; the next one no sooner than ``following``."""
    m[sc.mio_free] = following
    head = m[sc.mio_head]
    m[sc.mio_queue[head]] = start
    head = head + 1 if head + 1 < m[s.chip.mio_entries] else 0
    m[sc.mio_head] = head
    # The queue has room again when the oldest of its last entries has left.
    m[sc.pipe_free[s.P_MIO]] = max(time + 1, m[sc.mio_queue[head]])


@core
def take_unit(m: Any, sm: s.SM, ready: int, waves: int) -> int:
    """When the load/store unit accepts an instruction of a number of wavefronts that is ready at ``ready``."""
    start = reserve(m, sm.lsu_calendar, s.CALENDAR_SHIFT, m[s.chip.lsu_capacity], ready, waves)
    m[sm.lsu_wavefronts] += waves
    # A kernel ends when its last access has passed, though its warp may have exited before.
    m[sm.finish] = max(m[sm.finish], start + waves)
    return start


@core
def arrive_at_mbarrier(m: Any, sm: s.SM, ready: int) -> int:
    """When the SM accepts a warp's arrival at an mbarrier that is ready at ``ready`` (``python -m bench.machine.mbarrier_phases``)."""
    return reserve(m, sm.arrive_calendar, s.CALENDAR_SHIFT, 1 << s.CALENDAR_SHIFT, ready, m[s.chip.arrive_interval])


@core
def look_at_mbarrier(m: Any, sm: s.SM, ready: int) -> int:
    """The same for a look at an mbarrier's phase, which arrivals do not delay."""
    return reserve(m, sm.look_calendar, s.CALENDAR_SHIFT, 1 << s.CALENDAR_SHIFT, ready, m[s.chip.look_interval])


@core
def enter_queue(m: Any, sm: s.SM, sc: s.SubCore, time: int, waves: int) -> int:
    """Pass the queue; returns the cycle at which the load/store unit accepts the instruction."""
    ready = max(time + m[s.chip.mio_latency], m[sc.mio_free])
    start = take_unit(m, sm, ready, waves)
    leave_queue(m, sc, time, start, start + m[s.chip.mio_interval])
    return start


@core
def enter_barrier_unit(m: Any, sm: s.SM, sc: s.SubCore, time: int, cycles: int) -> int:
    """When the barrier unit accepts a MATCH or REDUX, which enters the sub-core's queue at ``time`` and then occupies the unit for ``cycles``.

    Measured on an H200 (``python -m bench.machine.tile_words``): a MATCH, a REDUX and a BAR whose guard is false each occupy the unit for two cycles, one after the other.
    """
    ready = max(time + m[s.chip.mio_latency], m[sc.mio_free])
    start = max(ready, m[sm.barrier_free] + m[s.chip.mio_latency])
    m[sm.barrier_free] = start - m[s.chip.mio_latency] + cycles
    m[sm.finish] = max(m[sm.finish], start + cycles)
    leave_queue(m, sc, time, start, start + m[s.chip.mio_interval])
    return start


@core
def way_cycles(m: Any, reads: int, loaded: int) -> int:
    """Cycles of a sub-core's way to and from the unit for an access: ``reads`` as ``Instruction.reads`` has them, and how many registers it loads."""
    registers = (reads & 15) + ((reads >> 4) & 15) + ((reads >> 8) & 15) + ((reads >> 12) & 15)
    return max(m[s.chip.mio_register] * registers, loaded + 1)


@core
def enter_with_passes(
    m: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, time: int, waves: int, interval: int, takes: int
) -> int:
    """The same for an access that delays its sub-core's next one by ``interval`` cycles, and its own warp's next one by ``takes``."""
    handed = max(time + m[s.chip.mio_latency], m[sc.mio_free])
    ready = max(handed, m[w.passes_end])
    start = take_unit(m, sm, ready, waves)
    m[w.passes_end] = start + takes
    leave_queue(m, sc, time, start, handed + interval)
    return start
