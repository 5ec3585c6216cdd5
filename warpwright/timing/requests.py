"""What an SM asks L2 for in a window, and the loads that wait for the answers."""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, u
from warpwright.timing import state as s


@core
def new_request(m: Any, sm: int, w: int, kind: int, time: int, line: int, sectors: int, full: int) -> int:
    """Ask L2; gives the request's number in this window."""
    index = m[u(sm + s.SM_REQUESTS)]
    m[u(sm + s.SM_REQUESTS)] = index + 1
    r = sm + m[u(s.H_OFF_REQUESTS)] + index * s.R_SLOTS
    m[u(r + s.R_TIME)] = time
    m[u(r + s.R_LINE)] = line
    m[u(r + s.R_KIND)] = kind
    m[u(r + s.R_SECTORS)] = sectors
    m[u(r + s.R_FULL)] = full
    m[u(r + s.R_WARP)] = w
    m[u(r + s.R_WAITERS)] = -1
    return index


@core
def wait_for(m: Any, sm: int, request: int, load: int) -> None:
    """Have a load wait for a request too."""
    r = sm + m[u(s.H_OFF_REQUESTS)] + request * s.R_SLOTS
    x = m[u(sm + s.SM_WAITERS)]
    m[u(sm + s.SM_WAITERS)] = x + 1
    base = sm + m[u(s.H_OFF_WAITERS)] + x * s.X_SLOTS
    left = sm + m[u(s.H_OFF_LOADS)] + load * s.L_SLOTS + s.L_LEFT
    m[u(base + s.X_LOAD)] = load | m[u(left)] << s.X_BEHIND_SHIFT
    m[u(base + s.X_NEXT)] = m[u(r + s.R_WAITERS)]
    m[u(r + s.R_WAITERS)] = x
    m[u(left)] += 1


@core
def new_load(m: Any, sm: int, w: int, barrier: int, kind: int) -> int:
    """A load whose end is not known yet."""
    index = m[u(sm + s.SM_LOADS)]
    m[u(sm + s.SM_LOADS)] = index + 1
    base = sm + m[u(s.H_OFF_LOADS)] + index * s.L_SLOTS
    m[u(base + s.L_WARP)] = w
    m[u(base + s.L_BARRIER)] = barrier
    m[u(base + s.L_LEFT)] = 0
    m[u(base + s.L_TIME)] = 0
    m[u(base + s.L_KIND)] = kind
    m[u(base + s.L_RING)] = -1
    return index
