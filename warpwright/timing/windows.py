"""The main loop: windows of time, each a phase of GPCs with their SMs, one of L2 slices with their DRAM, and the dispatcher's turn.

A window is at most as long as the shortest way from an SM to L2 and back, so nothing that an SM does can reach another
one, or itself through L2, within it; in a launch of clusters, as long as their barrier takes.  A warp behind a strong access
goes on after the window in which that was executed, also when it needs no answer (a volatile store, an unlock): as long as such
accesses come, windows are short.  Idle SMs cost nothing, and time jumps over windows in which nobody has work.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from warpwright.native import direct
from warpwright.native.intrinsics import (
    atomic_add,
    atomic_peek,
    atomic_poke,
    core,
    give_way,
    host_address,
    sleep,
    u,
    words,
)
from warpwright.timing import SOURCES
from warpwright.timing import state as s
from warpwright.timing.clusters import judge_clusters
from warpwright.timing.constant import share_constants
from warpwright.timing.dispatcher import first_blocks, replace_blocks
from warpwright.timing.exchange import depart, gpc_at, requests_to_serve, serve_group, take_back
from warpwright.timing.links import share_links
from warpwright.timing.sm import approach_sub_cores, approach_warps, run_sm
from warpwright.timing.warming import RUNNING, STOPPED, STUCK, is_warm, use_range, warm, warm_along

FINISHED = 3
RUN_GPCS, SERVE_GROUPS = range(2)
"""Kinds of phases that threads share."""
SHORT_WINDOW_CYCLES = 32
LOOKS_BEFORE_GIVING_WAY, LOOKS_BEFORE_SLEEP = 2_000, 20_000
SLEEP_MICROSECONDS = 100


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
    if m[u(s.H_ELSEWHERES)]:
        share_links(m, end)
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
            # The launch ends when the dispatcher has noted its last block.
            m[u(first + s.SM_FINISH)] = max(m[u(first + s.SM_FINISH)], m[u(s.H_DISPATCH_FREE)] >> 8)
            return FINISHED
        if following >= s.INF:
            return STUCK
        m[u(s.H_NOW)] = max(end, following)
    return RUNNING


@core
def begin(m: Any) -> None:
    """Put the first blocks on the chip; before, L2 has taken in what copies and fills used since the launch before."""
    for number in range(m[u(s.H_BROUGHTS)]):
        use_range(m, m[u(s.H_BROUGHT)] + number * (8 * s.BR_WORDS))
    first_blocks(m)
    m[u(s.H_NOW)] = m[u(s.H_OVERHEAD)]
    m[u(s.H_BEGUN)] = 1


@core
def run_gpc(m: Any, code: Any, gpc: int, end: int) -> None:
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
        run_sm(m, code, first + i * size, end)
    depart(m, gpc)


@core
def pieces_of(m: Any, kind: int) -> int:
    """How many pieces a phase has."""
    return m[u(s.H_GPCS)] if kind == RUN_GPCS else s.SLICE_GROUPS


@core
def take_piece(m: Any, code: Any) -> bool:
    """Take a piece of the phase that is open and do it; False when none is left."""
    crew = host_address(m) + 8 * m[u(s.H_CREW)]
    ticket = atomic_peek(crew + 8 * s.CR_TICKET)
    if ticket & s.TICKET_PIECE >= pieces_of(m, (ticket >> s.TICKET_KIND) & 1):
        return False
    ticket = atomic_add(crew + 8 * s.CR_TICKET, 1)
    kind = (ticket >> s.TICKET_KIND) & 1
    piece = ticket & s.TICKET_PIECE
    if piece >= pieces_of(m, kind):
        return False
    if kind == RUN_GPCS:
        run_gpc(m, code, m[u(m[u(s.H_GPC_TURNS)] + piece)], m[u(m[u(s.H_CREW)] + s.CR_END)])
    else:
        serve_group(m, piece)
    atomic_add(crew + 8 * s.CR_DONE, 1)
    return True


@core
def wait_a_little(turns: int) -> None:
    """Between two looks whether another thread has come on: at first its next look comes at once, then others may have the core."""
    if turns > LOOKS_BEFORE_SLEEP:
        sleep(SLEEP_MICROSECONDS)
    elif turns > LOOKS_BEFORE_GIVING_WAY:
        give_way()


@core
def share(m: Any, code: Any, kind: int) -> None:
    """Open a phase, do its pieces with all helpers that have a core, and wait for those that these have begun."""
    crew = host_address(m) + 8 * m[u(s.H_CREW)]
    number = (atomic_peek(crew + 8 * s.CR_TICKET) >> s.TICKET_NUMBER) + 1
    atomic_poke(crew + 8 * s.CR_DONE, 0)
    atomic_poke(crew + 8 * s.CR_TICKET, number << s.TICKET_NUMBER | kind << s.TICKET_KIND)
    while take_piece(m, code):
        pass
    turns = 0
    while atomic_peek(crew + 8 * s.CR_DONE) < pieces_of(m, kind):
        wait_a_little(min(turns, LOOKS_BEFORE_SLEEP))
        turns += 1


@core
def help_windows(m: Any, code: Any) -> int:
    """Another host thread's part of ``run_windows``: pieces of every phase, until it is to leave."""
    crew = host_address(m) + 8 * m[u(s.H_CREW)]
    turns = 0
    while atomic_peek(crew + 8 * s.CR_LEAVE) == 0:
        if take_piece(m, code):
            turns = 0
        else:
            wait_a_little(turns)
            turns += 1
    return 0


@partial(direct.entry, what="the cycle model", sources=SOURCES, parts=(help_windows,))
def run_windows(state: Any, program: Any, limit: int) -> int:
    """Run at most ``limit`` windows, with the host threads that help; blocks without time run along with them, or only they, all of a
    stretch, where the limit is 0."""
    m = words(state)
    code = words(program)
    if limit == 0:
        return warm(m, code, s.INF)
    if m[u(s.H_BEGUN)] == 0:
        begin(m)
    for _ in range(limit):
        end = window_end(m)
        m[u(m[u(s.H_CREW)] + s.CR_END)] = end
        share(m, code, RUN_GPCS)
        if m[u(s.H_WARM_SM)]:
            outcome = warm_along(m, code)
            if outcome != RUNNING:
                return outcome
        if requests_to_serve(m, code):
            share(m, code, SERVE_GROUPS)
        outcome = close_window(m, code, end)
        if outcome != RUNNING or (m[u(s.H_WARM_SM)] and is_warm(m)):
            return outcome
    return RUNNING
