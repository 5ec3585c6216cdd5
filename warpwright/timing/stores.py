"""Stores inside an SM: from the load/store unit through a queue into the store buffer, where they join, and out to L2.

The load/store unit takes stores of the four sub-cores in turn, two cycles each, and leaves them in a queue, with the loads behind them.  From there they come to the store
buffer, which holds lines: a store to a line that is still there joins it.  Lines leave in the order in which they came, for an output that
takes a cycle a sector, one more for a line that is written in part (bench.micro ``access``, ``strided``, ``joins_once``,
``store_times``).
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import HERE
from warpwright.native.intrinsics import core, popcount, u
from warpwright.timing import state as s
from warpwright.timing.coalescer import covered, sector_words, touched
from warpwright.timing.l1_sets import approach_l1, l1_find, take_place
from warpwright.timing.links import place_of
from warpwright.timing.mio_queue import enter_queue
from warpwright.timing.requests import new_request

STORE_CYCLES = 2
"""Of the load/store unit, for a store (bench.micro ``access``: one word 2.0; ``store_times``: 16 and more warps, one in 8 cycles of each sub-core)."""
LINES_A_TAG_CYCLE = 4
"""Of the load/store unit, as for loads (bench.micro ``banks``); ``store_times``: two cycles for eight lines."""
LINES_A_CYCLE = 2
"""That come into the store buffer (bench.micro ``joins_once``: eight lines a store, four cycles apart, keep it from sending lines)."""
STAY_CYCLES = 9
"""A line can be joined for so long behind its last store, once another store has come (bench.micro ``joins_once``: four lines behind one other store are joined, behind
two half of them, behind three none)."""
STAY_ALONE_CYCLES = 16
"""The same when none has come (bench.micro ``joins_once``, ``alone``: two of four lines have left after 19 cycles, all after 21; ``store_waves``: all four lines of one warp are
joined 16 cycles later)."""
MORE_LINES_CYCLES = 3
"""So much longer for each line beyond four of a store (bench.micro ``joins_once``: of eight lines behind one other store none has left after 21 cycles,
three after 25, all after 29)."""
SENT_CYCLES = 1
"""From the end of a line's last sector in the output to the moment at which a store to the line finds it sent (bench.micro ``kept_behind``: some 20 cycles behind a store of one
sector nothing is lost, of two or three all, four cycles later nothing)."""
WORD_BYTES = 4
PENDING = 15 << 4
"""Of a line's tag: the sectors that are on their way."""


@core
def store_lines(m: Any, sm: int, sc: int, w: int, time: int, n: int, size: int, local: bool) -> int:
    """Write the ``n`` lines in the SM's scratch through, ``size`` bytes a lane; gives the start in the load/store unit."""
    m[u(sm + (s.SM_LOCAL_STORES if local else s.SM_GLOBAL_STORES))] += 1
    buffer = sm + m[u(s.H_OFF_JOIN)]
    about = buffer + s.JOIN_LINES * s.J_SLOTS
    time = max(time, m[u(sm + s.SM_STORE_FREE)])
    number = m[u(about + s.JB_STORES)]
    m[u(about + s.JB_STORES)] = number + 1
    takes = m[u(about + s.JB_TAKES)]
    m[u(about + s.JB_TAKES)] = takes + 1
    taken = about + s.JB_TAKEN + takes % s.STORE_QUEUE
    # The store waits in the unit, and all behind it, until the one so many before has left the queue.
    arrives = max(time + m[u(s.H_MIO_LATENCY)], m[u(sc + s.SC_MIO_FREE)])
    waits = max(m[u(taken)] - max(arrives, m[u(about + s.JB_HELD)]), 0)
    m[u(about + s.JB_HELD)] = max(m[u(about + s.JB_HELD)], m[u(taken)])
    start = enter_queue(m, sm, sc, time, waits + max(STORE_CYCLES, n // LINES_A_TAG_CYCLE))
    at = max(max(start, m[u(about + s.JB_HELD)]), m[u(about + s.JB_FREE)])
    m[u(taken)] = at
    # A line of which bytes are written, not words, takes two places.
    room = 1 if local or size >= WORD_BYTES else 2
    end = at + -(-n // LINES_A_CYCLE)
    stays = MORE_LINES_CYCLES * max(n - 4, 0)
    if n > 2:
        approach_l1(m, sm, n)
    for i in range(n):
        line = m[u(sm + s.OFF_LINES + i)]
        sectors = m[u(sm + s.OFF_LINE_SECTORS + i)]
        held = m[u(sm + s.OFF_LINE_BYTES + i)]
        if not local:
            m[u(sm + s.SM_STORE_SECTORS)] += popcount(sectors)
        words = m[u(sm + s.OFF_LINE_WORDS + i)] if size >= WORD_BYTES else 0
        let_go(m, buffer, about, number, at)
        out = 0 if local else going_out(m, about, line, at)
        fresh = written_in_l1(m, sm, line, sectors, held, words, local, at, out)
        entry = joinable(m, buffer, about, line)
        before = m[u(entry + s.J_SECTORS)] if entry >= 0 else 0
        if entry >= 0 and join_store(m, sm, about, entry, sectors, held):
            if not local:
                m[u(sm + s.SM_STORE_JOINED)] += popcount(sectors & before)
            m[u(entry + s.J_TOUCHED)] = end + stays
            m[u(entry + s.J_STORE)] = number
            m[u(entry + s.J_FRESH)] |= fresh
            continue
        while m[u(about + s.JB_ROOM)] + room > s.JOIN_LINES:
            at = max(at, send_first(m, buffer, about, at))
            end = max(end, at + 1)
        add_line(m, sm, w, buffer, about, number, line, sectors, held, room, end, stays, fresh)
    m[u(about + s.JB_FREE)] = max(end, at)
    m[u(w + s.W_DRAINED)] = max(m[u(w + s.W_DRAINED)], m[u(about + s.JB_LAST)])
    m[u(sm + s.SM_FINISH)] = max(m[u(sm + s.SM_FINISH)], m[u(about + s.JB_LAST)])
    m[u(sm + s.SM_TAG_LINES)] += n
    return start


@core
def behind_stores(m: Any, sm: int, start: int) -> int:
    """When a load that the load/store unit took at ``start`` looks into L1: behind the stores that still wait for the buffer, in the same queue.

    On an H200 a load of L1 waits for 24 to 26 stores when the buffer is full, whatever their lines; one of shared memory for eight (bench.micro
    ``store_times``, ``held_up``).
    """
    about = sm + m[u(s.H_OFF_JOIN)] + s.JOIN_LINES * s.J_SLOTS
    free = m[u(about + s.JB_FREE)]
    if free <= start:
        return start
    number = m[u(about + s.JB_TAKES)]
    m[u(about + s.JB_TAKES)] = number + 1
    m[u(about + s.JB_TAKEN + number % s.STORE_QUEUE)] = free
    return free


@core
def hold_output(m: Any, sm: int, start: int, passes: int) -> None:
    """The store buffer's output waits while L1 makes the passes of a load (bench.micro ``copy_walks``: 64 cycles of a store of 32 lines and 8, 12, 17, 32 of a load
    make 72, 76, 81, 92; ``few_sms``: one SM copies a line in 5.2 cycles, of which its store is 4)."""
    about = sm + m[u(s.H_OFF_JOIN)] + s.JOIN_LINES * s.J_SLOTS
    if m[u(about + s.JB_LAST)] <= start:
        return
    m[u(about + s.JB_LAST)] += passes
    latest = about + s.JB_OUTPUT + (m[u(about + s.JB_SENT)] + s.OUTPUT_LINES - 1) % s.OUTPUT_LINES
    if m[u(latest)] > start:
        m[u(latest)] += passes


@core
def joinable(m: Any, buffer: int, about: int, line: int) -> int:
    """The place of a line in the store buffer, -1 when it is not there."""
    first = m[u(about + s.JB_FIRST)]
    for i in range(m[u(about + s.JB_COUNT)]):
        place = first + i
        entry = buffer + (place - s.JOIN_LINES if place >= s.JOIN_LINES else place) * s.J_SLOTS
        if m[u(entry + s.J_LINE)] == line:
            return entry
    return -1


@core
def leaves(m: Any, about: int, since: int) -> int:
    """When the buffer's first line can go to the output, which it may ``since`` so long: one a cycle, as far as that has room."""
    oldest = m[u(about + s.JB_OUTPUT + m[u(about + s.JB_SENT)] % s.OUTPUT_LINES)]
    return max(max(since, oldest), m[u(about + s.JB_WENT)] + 1)


@core
def send_first(m: Any, buffer: int, about: int, since: int) -> int:
    """Let the buffer's first line go, which may ``since`` so long; gives when."""
    entry = buffer + m[u(about + s.JB_FIRST)] * s.J_SLOTS
    goes = leaves(m, about, since)
    sent = m[u(about + s.JB_SENT)]
    before = m[u(about + s.JB_OUTPUT + (sent + s.OUTPUT_LINES - 1) % s.OUTPUT_LINES)]
    place = sent % s.OUTPUT_LINES
    begins = max(goes, before)
    m[u(about + s.JB_OUTPUT + place)] = begins + m[u(entry + s.J_CYCLES)]
    m[u(about + s.JB_OUT_UNTIL + place)] = begins + popcount(m[u(entry + s.J_SECTORS)]) + SENT_CYCLES
    m[u(about + s.JB_OUT_LINES + place)] = m[u(entry + s.J_LINE)]
    m[u(about + s.JB_OUT_FRESH + place)] = m[u(entry + s.J_FRESH)]
    m[u(about + s.JB_SENT)] = sent + 1
    m[u(about + s.JB_WENT)] = goes
    m[u(about + s.JB_FIRST)] = (m[u(about + s.JB_FIRST)] + 1) % s.JOIN_LINES
    m[u(about + s.JB_COUNT)] -= 1
    m[u(about + s.JB_ROOM)] -= m[u(entry + s.J_ROOM)]
    return goes


@core
def let_go(m: Any, buffer: int, about: int, number: int, time: int) -> None:
    """Lines that have left by the time at which store ``number`` comes."""
    while m[u(about + s.JB_COUNT)]:
        entry = buffer + m[u(about + s.JB_FIRST)] * s.J_SLOTS
        since = m[u(entry + s.J_TOUCHED)] + (
            STAY_ALONE_CYCLES if m[u(entry + s.J_STORE)] >= number - 1 else STAY_CYCLES
        )
        if leaves(m, about, since) > time:
            return
        send_first(m, buffer, about, since)


@core
def going_out(m: Any, about: int, line: int, time: int) -> int:
    """Of a line that is in the output at ``time`` the sectors that L1 has from the stores before alone; 0 when it is not there."""
    last = (m[u(about + s.JB_SENT)] + s.OUTPUT_LINES - 1) % s.OUTPUT_LINES
    if m[u(about + s.JB_OUT_UNTIL + last)] <= time:
        return 0
    for place in range(s.OUTPUT_LINES):
        if m[u(about + s.JB_OUT_LINES + place)] == line and m[u(about + s.JB_OUT_UNTIL + place)] > time:
            return m[u(about + s.JB_OUT_FRESH + place)]
    return 0


@core
def store_cost(m: Any, line: int, sectors: int, held: int) -> int:
    """Of the output, for a line: a sector a cycle on H200, one more when part of a sector is written or it lies elsewhere (``python -m
    bench.elsewhere``: whole lines 5 cycles instead of 4), at least two."""
    sector = 32 // m[u(s.H_L1_WRITE_BYTES)]
    cost = popcount(sectors) * sector
    if popcount(covered(held)) < popcount(sectors) or place_of(m, line) != HERE:
        cost += sector
    return max(cost, 2 * sector)


@core
def add_line(
    m: Any,
    sm: int,
    w: int,
    buffer: int,
    about: int,
    number: int,
    line: int,
    sectors: int,
    held: int,
    room: int,
    time: int,
    stays: int,
    fresh: int,
) -> None:
    """Put a line behind the others.  Its request is made at once: lines leave in order, so it is known when it will go."""
    entry = buffer + (m[u(about + s.JB_FIRST)] + m[u(about + s.JB_COUNT)]) % s.JOIN_LINES * s.J_SLOTS
    m[u(about + s.JB_COUNT)] += 1
    m[u(about + s.JB_ROOM)] += room
    cycles = store_cost(m, line, sectors, held)
    last = max(m[u(about + s.JB_LAST)], time) + cycles
    m[u(about + s.JB_LAST)] = last
    m[u(entry + s.J_LINE)] = line
    m[u(entry + s.J_SECTORS)] = sectors
    m[u(entry + s.J_TOUCHED)] = time + stays
    m[u(entry + s.J_STORE)] = number
    m[u(entry + s.J_CYCLES)] = cycles
    m[u(entry + s.J_ROOM)] = room
    m[u(entry + s.J_FRESH)] = fresh
    m[u(entry + s.J_WINDOW)] = m[u(s.H_NOW)]
    m[u(entry + s.J_REQUEST)] = new_request(m, sm, w, s.RQ_STORE, last, line, sectors, held)
    m[u(w + s.W_STORES)] += 1


@core
def written_in_l1(
    m: Any, sm: int, line: int, sectors: int, held: int, words: int, local: bool, time: int, out: int
) -> int:
    """What a store leaves in L1 (bench.micro ``kept`` on H200).

    What it writes is found by loads that need no more; a sector that L1 held is kept.  Of sectors of the line that are on their way what comes
    serves the loads that wait for it, and is not kept (``kept_plain``: also beside a sector that was written whole).

    ``out``: the sectors that L1 has from an earlier store to the line which is in the output just now.  L1 loses them, and all that is written
    with it where that reaches beyond them and shares a sector that it does not fill (``kept_behind``).  Gives the sectors that L1 lacked.

    Local memory is the thread's own: what it wrote is kept however little it is (of 158,000 sectors that recursive code on an
    H200 reads back by few lanes L2 sees none).
    """
    place = l1_find(m, sm, line, time)
    ways = m[u(s.H_L1_WAYS)]
    if not local and m[u(s.H_L1_KEEPS_WRITES)] == 0:
        if place >= 0:
            m[u(place)] &= ~sectors
        return 0
    whole = sectors if local else covered(held)
    if place < 0:
        place = -1 - place
        take_place(m, place, line, time)
    elif whole == 15:
        m[u(place + ways * s.C_FILL)] = time
    m[u(place + ways * s.C_STAMP)] = time
    tag = m[u(place)] & ~PENDING
    if out:
        lost = out | sectors if out & sectors & ~whole else out
        tag &= ~lost
        m[u(place + ways * s.C_WORDS)] &= ~sector_words(lost)
        if lost != out:
            m[u(place)] = tag
            return sectors
    part = sectors & ~(whole | tag)
    if part:
        stored = m[u(place + ways * s.C_WORDS)] | words
        m[u(place + ways * s.C_WORDS)] = stored
        whole |= part & ~touched(~stored)
    m[u(place)] = tag | whole
    return sectors & ~tag


@core
def join_store(m: Any, sm: int, about: int, entry: int, sectors: int, held: int) -> bool:
    """Add bytes to a line of the store buffer; False when its request has gone to L2 with an earlier window and lacks the sectors."""
    if m[u(entry + s.J_WINDOW)] != m[u(s.H_NOW)]:
        return sectors & ~m[u(entry + s.J_SECTORS)] == 0
    r = sm + m[u(s.H_OFF_REQUESTS)] + m[u(entry + s.J_REQUEST)] * s.R_SLOTS
    m[u(entry + s.J_SECTORS)] |= sectors
    m[u(r + s.R_SECTORS)] = m[u(entry + s.J_SECTORS)]
    before = m[u(r + s.R_FULL)]
    together = 0
    for sector in range(4):
        shift = 16 * sector
        together |= min(((before >> shift) & 0xFFFF) + ((held >> shift) & 0xFFFF), 32) << shift
    m[u(r + s.R_FULL)] = together
    cycles = store_cost(m, m[u(entry + s.J_LINE)], m[u(entry + s.J_SECTORS)], together)
    m[u(about + s.JB_LAST)] += max(cycles - m[u(entry + s.J_CYCLES)], 0)
    m[u(entry + s.J_CYCLES)] = cycles
    return True
