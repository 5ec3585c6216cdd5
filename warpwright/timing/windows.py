"""The main loop: windows of time, each with a phase of GPCs, one of L2 slices, and the dispatcher.

A window is at most as long as the shortest path from an SM to L2 and back, so nothing that an SM does can affect another
one, or itself through L2, within it; in a launch of clusters, it is as long as their barrier.  A warp continues after a strong access
when the window in which the access was executed has ended, even if it needs no answer (a volatile store, an unlock, a poll after an addition).  Windows are therefore short
while such accesses occur.  Idle SMs cost nothing, and time skips windows without work.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from warpwright.native import tiered
from warpwright.native.intrinsics import atomic_add, atomic_peek, atomic_poke, core, host_address, words
from warpwright.timing import SOURCES
from warpwright.timing import state as s
from warpwright.timing.device_windows import help_devices, run_devices
from warpwright.timing.exchange import requests_to_serve, serve_group
from warpwright.timing.untimed_rest import run_rest
from warpwright.timing.warming import RUNNING, is_warm, warm, warm_along
from warpwright.timing.window_steps import LOOKS_BEFORE_SLEEP, begin, close_window, run_gpc, wait_a_little, window_end

RUN_GPCS, SERVE_GROUPS = range(2)
"""Kinds of phases that threads share."""


@core
def pieces_of(m: Any, kind: int) -> int:
    """How many pieces a phase has."""
    return m[s.chip.gpcs] if kind == RUN_GPCS else s.SLICE_GROUPS


@core
def take_piece(m: Any, code: Any) -> bool:
    """Take a piece of the open phase and execute it; False if none is left."""
    phase = host_address(m) + 8 * m[s.chip.thread_phase]
    ticket = atomic_peek(phase + 8 * s.PHASE_TICKET)
    if ticket & s.TICKET_PIECE >= pieces_of(m, (ticket >> s.TICKET_KIND) & 1):
        return False
    ticket = atomic_add(phase + 8 * s.PHASE_TICKET, 1)
    kind = (ticket >> s.TICKET_KIND) & 1
    piece = ticket & s.TICKET_PIECE
    if piece >= pieces_of(m, kind):
        return False
    if kind == RUN_GPCS:
        run_gpc(m, code, m[m[s.chip.gpc_turns] + piece], m[m[s.chip.thread_phase] + s.PHASE_END])
    else:
        serve_group(m, piece)
    atomic_add(phase + 8 * s.PHASE_DONE, 1)
    return True


@core
def share(m: Any, code: Any, kind: int) -> None:
    """Open a phase, execute its pieces together with all helpers that have a core, and wait for the pieces that these have begun."""
    phase = host_address(m) + 8 * m[s.chip.thread_phase]
    number = (atomic_peek(phase + 8 * s.PHASE_TICKET) >> s.TICKET_NUMBER) + 1
    atomic_poke(phase + 8 * s.PHASE_DONE, 0)
    atomic_poke(phase + 8 * s.PHASE_TICKET, number << s.TICKET_NUMBER | kind << s.TICKET_KIND)
    while take_piece(m, code):
        pass
    turns = 0
    while atomic_peek(phase + 8 * s.PHASE_DONE) < pieces_of(m, kind):
        wait_a_little(min(turns, LOOKS_BEFORE_SLEEP))
        turns += 1


@core
def help_windows(m: Any, code: Any) -> int:
    """Another host thread's part of ``run_windows``: executes pieces of every phase until it is told to end."""
    phase = host_address(m) + 8 * m[s.chip.thread_phase]
    turns = 0
    while atomic_peek(phase + 8 * s.PHASE_LEAVE) == 0:
        if take_piece(m, code):
            turns = 0
        else:
            wait_a_little(turns)
            turns += 1
    return 0


@partial(tiered.entry, what="the cycle model", sources=SOURCES, parts=(help_windows, run_devices, help_devices))
def run_windows(state: Any, program: Any, limit: int) -> int:
    """Run at most ``limit`` windows, with the help of host threads; untimed blocks run along with them. If the limit is 0, run only untimed blocks, to the end of a stretch; if it is negative, give
    each warp that many untimed turns (``untimed_rest.py``)."""
    m = words(state)
    code = words(program)
    if limit == 0:
        return warm(m, code, s.INF)
    if limit < 0:
        return run_rest(m, -limit)
    if m[s.chip.begun] == 0:
        begin(m)
    for _ in range(limit):
        end = window_end(m)
        m[m[s.chip.thread_phase] + s.PHASE_END] = end
        share(m, code, RUN_GPCS)
        if m[s.chip.warm_sm]:
            outcome = warm_along(m, code)
            if outcome != RUNNING:
                return outcome
        if requests_to_serve(m, code):
            share(m, code, SERVE_GROUPS)
        outcome = close_window(m, code, end)
        if outcome != RUNNING or (m[s.chip.warm_sm] and is_warm(m)):
            return outcome
    return RUNNING
