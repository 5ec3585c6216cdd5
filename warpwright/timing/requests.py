"""The requests of an SM to L2 in a window, and the loads that wait for their answers."""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core
from warpwright.timing import state as s
from warpwright.timing.access_policy import policies_at, policy_of


@core
def begin_run(m: Any, sm: s.SM, request: int) -> None:
    """Record that a request is one; ``repeat_request`` adds others to it."""
    if m[s.chip.keeps_runs]:
        m[sm + m[s.chip.runs_at] + request] = (request + m[sm.repeated]) << s.RUN_BITS | 1


@core
def new_request(m: Any, sm: s.SM, w: s.Warp, kind: int, time: int, line: int, sectors: int, full: int) -> int:
    """Send a request to L2; returns its number in this window."""
    index = m[sm.requests]
    m[sm.requests] = index + 1
    r = s.Request(sm + m[s.chip.requests_at] + index * s.Request.size)
    m[r.time] = time
    m[r.line] = line
    m[r.kind] = kind
    m[r.sectors] = sectors
    m[r.full] = full
    m[r.warp] = w
    m[r.waiters] = -1
    if m[s.chip.policies] and kind <= s.RQ_ATOMIC:
        m[policies_at(m, sm, index)] = policy_of(m, sm, w, line)
    begin_run(m, sm, index)
    return index


@core
def repeat_request(m: Any, sm: s.SM, request: int, load: int) -> None:
    """Add to an SM's last request one like it in the next cycle (``runs.py``), for which its load waits too."""
    m[sm.repeated] += 1
    m[sm + m[s.chip.runs_at] + request] += 1
    m[s.PendingLoad(sm + m[s.chip.loads_at] + load * s.PendingLoad.size).left] += 1


@core
def wait_for(m: Any, sm: s.SM, request: int, load: int) -> None:
    """Make a load wait for a further request."""
    r = s.Request(sm + m[s.chip.requests_at] + request * s.Request.size)
    x = m[sm.waiters]
    m[sm.waiters] = x + 1
    base = s.Waiter(sm + m[s.chip.waiters_at] + x * s.Waiter.size)
    left = s.PendingLoad(sm + m[s.chip.loads_at] + load * s.PendingLoad.size).left
    m[base.load] = load | m[left] << s.WAITER_BEHIND_SHIFT
    m[base.next] = m[r.waiters]
    m[r.waiters] = x
    m[left] += 1


@core
def new_load(m: Any, sm: s.SM, w: s.Warp, barrier: int, kind: int) -> int:
    """A load whose end is not known yet."""
    index = m[sm.loads]
    m[sm.loads] = index + 1
    base = s.PendingLoad(sm + m[s.chip.loads_at] + index * s.PendingLoad.size)
    m[base.warp] = w
    m[base.barrier] = barrier
    m[base.left] = 0
    m[base.time] = 0
    m[base.kind] = kind
    m[base.ring] = -1
    m[base.passes] = 0
    m[base.more] = 0
    return index
