"""The main loop: windows of time, each a phase of all SMs and a serial phase of crossbar, L2, DRAM and dispatcher.

A window is at most as long as the shortest way from an SM to L2 and back, so nothing that an SM does can reach another
one, or itself through L2, within it; in a launch of clusters, as long as their barrier takes.  A warp behind a strong access
goes on after the window in which that was executed, also when it needs no answer (a volatile store, an unlock): as long as such
accesses come, windows are short.  Idle SMs cost nothing, and time jumps over windows in which nobody has work.
"""

from __future__ import annotations

from typing import Any

import numba

from warpwright.timing import state as s
from warpwright.timing.clusters import judge_clusters
from warpwright.timing.constant import share_constants
from warpwright.timing.crossbar import serial_phase
from warpwright.timing.dispatcher import first_blocks, replace_blocks
from warpwright.timing.native import core, entry, u, words
from warpwright.timing.sm import approach_sub_cores, approach_warps, run_sm

RUNNING, FINISHED, STOPPED, STUCK = range(4)
SHORT_WINDOW_CYCLES = 32


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
    served = serial_phase(m, code, m[u(s.H_NOW)])
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
    if served == 0:
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


@entry
def run_windows(state: Any, program: Any, scheduler: int, limit: int) -> int:
    """Run at most ``limit`` windows on one host thread."""
    m = words(state)
    code = words(program)
    if m[u(s.H_BEGUN)] == 0:
        begin(m)
    sms = m[u(s.H_SMS)]
    first = m[u(s.H_SM_FIRST)]
    size = m[u(s.H_SM_SLOTS)]
    for _ in range(limit):
        end = window_end(m)
        for i in range(sms):
            if i + 2 < sms:
                approach_sub_cores(m, first + (i + 2) * size, end)
            if i + 1 < sms:
                approach_warps(m, first + (i + 1) * size, end)
            run_sm(m, code, first + i * size, end, scheduler)
        outcome = close_window(m, code, end)
        if outcome != RUNNING:
            return outcome
    return RUNNING


def run_windows_threaded(state: Any, program: Any, scheduler: int, limit: int) -> int:
    """The same with the SMs of a window shared among host threads."""
    m = words(state)
    code = words(program)
    if m[u(s.H_BEGUN)] == 0:
        begin(m)
    sms = m[u(s.H_SMS)]
    first = m[u(s.H_SM_FIRST)]
    size = m[u(s.H_SM_SLOTS)]
    outcome = RUNNING
    for _ in range(limit):
        end = window_end(m)
        for group in numba.prange(s.SM_GROUPS):
            last = -(-(group + 1) * sms // s.SM_GROUPS)
            for i in range(-(-group * sms // s.SM_GROUPS), last):
                if i + 2 < last:
                    approach_sub_cores(words(state), first + (i + 2) * size, end)
                if i + 1 < last:
                    approach_warps(words(state), first + (i + 1) * size, end)
                run_sm(words(state), words(program), first + i * size, end, scheduler)
        outcome = close_window(m, code, end)
        if outcome != RUNNING:
            break
    return outcome


run_windows_threaded = entry(run_windows_threaded, parallel=True)
