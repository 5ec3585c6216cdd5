"""An SM: four sub-cores and what they share, advanced to the end of a window, event by event.

A window is shorter than the path to L2 and back, so nothing outside an SM can affect it within a window.  Every SM therefore runs its
window independently, on any host thread.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import HOST_LINE_BYTES, core, host_address, prefetch
from warpwright.timing import state as s
from warpwright.timing.l1 import receive
from warpwright.timing.sub_core import step
from warpwright.timing.warp import settle

WARP_LINES = 3
"""Fields of a warp slot that most issues read."""


@core
def approach_sub_cores(m: Any, sm: s.SM, end: int) -> None:
    """Prefetch, on the host, an SM's own fields and its sub-cores': the state of all SMs exceeds a core's caches."""
    if m[sm.requests] == 0 and m[sm.next] >= end:
        return
    host = host_address(m) + 8 * sm
    for at in range(0, 8 * s.SM.warps, HOST_LINE_BYTES):
        prefetch(host + at)


@core
def approach_warps(m: Any, sm: s.SM, end: int) -> None:
    """Prefetch, on the host, the warps of an SM that may issue before ``end``."""
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
def run_sm(m: Any, code: Any, sm: s.SM, end: int) -> None:
    """Advance one SM to ``end``; answers of the last window come in first."""
    if m[sm.requests]:
        receive(m, sm)
        settle(m, code, sm, m[s.chip.now])
    elif m[sm.next] >= end:
        return
    base = host_address(m)
    groups = m[s.chip.shared_schedulers]
    while True:
        nexts = sm.sub_next
        time = min(min(m[nexts], m[nexts + 1]), min(m[nexts + 2], m[nexts + 3]))
        if time >= end or m[sm.error]:
            m[sm.next] = time
            return
        # A branch for each sub-core, which the host predicts; a search for the sub-cores that are due would delay the following code.
        i = 0
        while i < s.MAX_SUB_CORES:
            idle = i >= groups if groups else m[sm.sub_next[i]] > time
            if idle or not step(m, code, sm, i, groups, time, end, base):
                i += 1
