"""An SM: four sub-cores and what they share, advanced to the end of a window, event by event.

Nothing outside an SM can be heard within a window, because a window is shorter than the way to L2 and back; so every SM runs its
window alone, on any host thread.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import HOST_LINE_BYTES, core, host_address, lowest_bit, prefetch
from warpwright.timing import state as s
from warpwright.timing.l1 import receive
from warpwright.timing.sub_core import step, step_groups
from warpwright.timing.warp import settle

WARP_LINES = 3
"""Of a warp slot, that most issues look at."""


@core
def approach_sub_cores(m: Any, sm: s.SM, end: int) -> None:
    """Have the host fetch an SM's own fields and its sub-cores': all SMs' state is more than a core's caches hold."""
    if m[sm.requests] == 0 and m[sm.next] >= end:
        return
    host = host_address(m) + 8 * sm
    for at in range(0, 8 * s.SM.warps, HOST_LINE_BYTES):
        prefetch(host + at)


@core
def approach_warps(m: Any, sm: s.SM, end: int) -> None:
    """Have the host fetch the warps of an SM that may issue before ``end``."""
    if m[sm.next] >= end:
        return
    host = host_address(m) + 8 * (sm.warps[0])
    for sub in range(m[s.chip.sub_cores]):
        ready = sm.sub_cores[sub].ready
        for slot in range(s.MAX_WARPS):
            if m[ready + slot] < end:
                at = host + 8 * s.Warp.size * (sub * s.MAX_WARPS + slot)
                for line in range(WARP_LINES):
                    prefetch(at + line * HOST_LINE_BYTES)


@core
def first_due(m: Any, sm: s.SM, time: int, begin: int) -> int:
    """The first sub-core from ``begin`` on that may have something to do at ``time``, ``MAX_SUB_CORES`` when none has: without a branch for each."""
    nexts = sm.sub_next
    due = (m[nexts] <= time) | (m[nexts + 1] <= time) << 1 | (m[nexts + 2] <= time) << 2
    due |= (m[nexts + 3] <= time) << 3 | 1 << s.MAX_SUB_CORES
    return lowest_bit(due & -(1 << begin))


@core
def run_groups(m: Any, code: Any, sm: s.SM, end: int, host: int) -> None:
    """Advance an SM whose schedulers have several groups of slots each to ``end``."""
    schedulers = m[s.chip.shared_schedulers]
    while True:
        nexts = sm.sub_next
        time = min(min(m[nexts], m[nexts + 1]), min(m[nexts + 2], m[nexts + 3]))
        if time >= end or m[sm.error]:
            m[sm.next] = time
            return
        for scheduler in range(schedulers):
            step_groups(m, code, sm, scheduler, time, end, host)


@core
def run_sm(m: Any, code: Any, sm: s.SM, end: int) -> None:
    """Advance one SM to ``end``; answers of the last window come in first."""
    if m[sm.requests]:
        receive(m, sm)
        settle(m, code, sm, m[s.chip.now])
    elif m[sm.next] >= end:
        return
    first = sm.sub_cores[0]
    base = host_address(m)
    if m[s.chip.shared_schedulers]:
        run_groups(m, code, sm, end, base)
        return
    while True:
        nexts = sm.sub_next
        time = min(min(m[nexts], m[nexts + 1]), min(m[nexts + 2], m[nexts + 3]))
        if time >= end or m[sm.error]:
            m[sm.next] = time
            return
        i = first_due(m, sm, time, 0)
        while i < s.MAX_SUB_CORES:
            sc = s.SubCore(first + i * s.SubCore.size)
            step(m, code, sm, sc, i, time, end, base + sc * 8)
            i = first_due(m, sm, time, i + 1)
