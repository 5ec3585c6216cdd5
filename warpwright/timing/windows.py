"""The main loop: windows of time, each a phase of GPCs with their SMs, one of L2 slices with their DRAM, and the dispatcher's turn.

A window is at most as long as the shortest way from an SM to L2 and back, so nothing that an SM does can reach another
one, or itself through L2, within it; in a launch of clusters, as long as their barrier takes.  A warp behind a strong access
goes on after the window in which that was executed, also when it needs no answer (a volatile store, an unlock): as long as such
accesses come, windows are short.  Idle SMs cost nothing, and time jumps over windows in which nobody has work.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.timing import direct
from warpwright.timing import state as s
from warpwright.timing.clusters import judge_clusters
from warpwright.timing.constant import share_constants
from warpwright.timing.dispatcher import first_blocks, replace_blocks
from warpwright.timing.exchange import depart, gpc_at, requests_to_serve, serve_group, take_back
from warpwright.timing.native import BOUNDSCHECK, address_of, core, u, words
from warpwright.timing.sm import approach_sub_cores, approach_warps, run_sm

RUNNING, FINISHED, STOPPED, STUCK = range(4)
OPEN, RUN_GPC, ASK, SERVE_GROUP, CLOSE = range(5)
"""Phases of a window."""
SHORT_WINDOW_CYCLES = 32
Words = npt.NDArray[np.int64]


@core
def window_end(m: Any) -> int:
    """Where the window that begins now ends."""
    now = m[u(s.H_NOW)]
    if now < m[u(s.H_SHORT_UNTIL)]:
        return now + min(SHORT_WINDOW_CYCLES, m[u(s.H_WINDOW)])
    return now + m[u(s.H_WINDOW)]


@core
def close_window(m: Any, code: Any, end: int) -> int:
    """What happens between two windows; gives RUNNING, FINISHED, STOPPED (Python must look) or STUCK."""
    sms = m[u(s.H_SMS)]
    first = m[u(s.H_SM_FIRST)]
    size = m[u(s.H_SM_SLOTS)]
    replace_blocks(m, end)
    judge_clusters(m, code, end)
    if m[u(s.H_CONST_ASKED)]:
        share_constants(m, end - m[u(s.H_NOW)])
    following = s.INF
    stopped = m[u(s.H_ERROR)] != 0
    for i in range(sms):
        sm = first + i * size
        if m[u(sm + s.SM_ERROR)]:
            stopped = True
        following = min(following, m[u(sm + s.SM_NEXT)])
    m[u(s.H_NOW)] = end
    if stopped:
        return STOPPED
    if m[u(s.H_SERVED)] == 0:
        if m[u(s.H_DONE_BLOCKS)] >= m[u(s.H_BLOCKS)]:
            return FINISHED
        if following >= s.INF:
            return STUCK
        m[u(s.H_NOW)] = max(end, following)
    return RUNNING


@core
def begin(m: Any) -> None:
    """Put the first blocks on the chip."""
    first_blocks(m)
    m[u(s.H_NOW)] = m[u(s.H_OVERHEAD)]
    m[u(s.H_BEGUN)] = 1


@core
def run_gpc(m: Any, code: Any, gpc: int, end: int, scheduler: int) -> None:
    """A GPC's part of a window: answers come to its SMs, these run, and what they ask for leaves."""
    take_back(m, gpc)
    fields = gpc_at(m, gpc)
    first = m[u(s.H_SM_FIRST)]
    size = m[u(s.H_SM_SLOTS)]
    last = m[u(fields + s.GP_END)]
    for i in range(m[u(fields + s.GP_FIRST)], last):
        if i + 2 < last:
            approach_sub_cores(m, first + (i + 2) * size, end)
        if i + 1 < last:
            approach_warps(m, first + (i + 1) * size, end)
        run_sm(m, code, first + i * size, end, scheduler)
    depart(m, gpc)


@core
def turn(m: Any, code: Any, phase: int, index: int, end: int, scheduler: int) -> int:
    """One piece of a window, for threads that share its pieces."""
    if phase == RUN_GPC:
        run_gpc(m, code, m[u(m[u(s.H_GPC_TURNS)] + index)], end, scheduler)
    elif phase == SERVE_GROUP:
        serve_group(m, index)
    elif phase == ASK:
        return 1 if requests_to_serve(m, code) else 0
    elif phase == CLOSE:
        return close_window(m, code, end)
    else:
        if m[u(s.H_BEGUN)] == 0:
            begin(m)
        return window_end(m)
    return 0


@partial(direct.entry, what="the cycle model", parts=(turn,))
def run_windows(state: Any, program: Any, scheduler: int, limit: int) -> int:
    """Run at most ``limit`` windows on one host thread."""
    m = words(state)
    code = words(program)
    if m[u(s.H_BEGUN)] == 0:
        begin(m)
    for _ in range(limit):
        end = window_end(m)
        for gpc in range(m[u(s.H_GPCS)]):
            run_gpc(m, code, gpc, end, scheduler)
        if requests_to_serve(m, code):
            for group in range(s.SLICE_GROUPS):
                serve_group(m, group)
        outcome = close_window(m, code, end)
        if outcome != RUNNING:
            return outcome
    return RUNNING


def run_windows_threaded(threads: int, state: Words, program: Words, scheduler: int, limit: int) -> int:
    """Run at most ``limit`` windows on Numba's threads; with checked indices on one."""
    if BOUNDSCHECK:
        return int(run_windows(state, program, scheduler, limit))
    from warpwright.timing.threads import share_windows, use  # Numba's threads, and so Numba

    use(threads)
    at = run_windows.address(turn)
    return int(share_windows(at, address_of(state), address_of(program), int(state[s.H_GPCS]), scheduler, limit))
