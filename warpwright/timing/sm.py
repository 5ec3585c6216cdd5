"""An SM: four sub-cores and what they share, advanced to the end of a window, event by event.

Nothing outside an SM can be heard within a window, because a window is shorter than the way to L2 and back; so every SM runs its
window alone, on any host thread.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import HOST_LINE_BYTES, core, host_address, lowest_bit, prefetch, u
from warpwright.timing import state as s
from warpwright.timing.l1 import receive
from warpwright.timing.sub_core import step
from warpwright.timing.warp import settle

WARP_LINES = 3
"""Of a warp slot, that most issues look at."""


@core
def approach_sub_cores(m: Any, sm: int, end: int) -> None:
    """Have the host fetch an SM's own fields and its sub-cores': all SMs' state is more than a core's caches hold."""
    if m[u(sm + s.SM_REQUESTS)] == 0 and m[u(sm + s.SM_NEXT)] >= end:
        return
    host = host_address(m) + 8 * sm
    for at in range(0, 8 * s.OFF_WARPS, HOST_LINE_BYTES):
        prefetch(host + at)


@core
def approach_warps(m: Any, sm: int, end: int) -> None:
    """Have the host fetch the warps of an SM that may issue before ``end``."""
    if m[u(sm + s.SM_NEXT)] >= end:
        return
    host = host_address(m) + 8 * (sm + s.OFF_WARPS)
    for sub in range(m[u(s.H_SUB_CORES)]):
        ready = sm + s.OFF_SUB_CORES + sub * s.SC_SLOTS + s.SC_READY
        for slot in range(s.MAX_WARPS):
            if m[u(ready + slot)] < end:
                at = host + 8 * s.W_SLOTS * (sub * s.MAX_WARPS + slot)
                for line in range(WARP_LINES):
                    prefetch(at + line * HOST_LINE_BYTES)


@core
def first_due(m: Any, sm: int, time: int, begin: int) -> int:
    """The first sub-core from ``begin`` on that may have something to do at ``time``, ``MAX_SUB_CORES`` when none has: without a branch for each."""
    nexts = sm + s.SM_SUB_NEXT
    due = (m[u(nexts)] <= time) | (m[u(nexts + 1)] <= time) << 1 | (m[u(nexts + 2)] <= time) << 2
    due |= (m[u(nexts + 3)] <= time) << 3 | 1 << s.MAX_SUB_CORES
    return lowest_bit(due & -(1 << begin))


@core
def run_sm(m: Any, code: Any, sm: int, end: int) -> None:
    """Advance one SM to ``end``; answers of the last window come in first."""
    if m[u(sm + s.SM_REQUESTS)]:
        receive(m, sm)
        settle(m, code, sm, m[u(s.H_NOW)])
    elif m[u(sm + s.SM_NEXT)] >= end:
        return
    first = sm + s.OFF_SUB_CORES
    base = host_address(m)
    while True:
        nexts = sm + s.SM_SUB_NEXT
        time = min(min(m[u(nexts)], m[u(nexts + 1)]), min(m[u(nexts + 2)], m[u(nexts + 3)]))
        if time >= end or m[u(sm + s.SM_ERROR)]:
            m[u(sm + s.SM_NEXT)] = time
            return
        i = first_due(m, sm, time, 0)
        while i < s.MAX_SUB_CORES:
            sc = first + i * s.SC_SLOTS
            step(m, code, sm, sc, i, time, end, base + sc * 8)
            i = first_due(m, sm, time, i + 1)
