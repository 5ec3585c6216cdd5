"""Constant caches of an SM: two first levels, L1.5 after them, then L2.

Operands ``c[bank][offset]`` and ULDC read the first level of their sub-core before they issue; LDC passes the memory queue to a separate
unit, with another first level for the SM.  Each first level holds 2 KiB in lines of 64 bytes, first in, first out.  LDC processes the different words of its lanes one
after the other, and a word whose line is missing delays the later ones; instructions of other warps continue meanwhile
(bench.micro ``lanes_constant``, ``misses_constant``).  L1.5 delivers lines at a fixed interval and requests 256 bytes at once from L2;
the launch loads the parameters' bank there (``parameters``).  A block that no SM has requested comes from DRAM.

A ULDC with an index hits only the lines of its sub-core's last four such ULDCs, and waits for any other line
(``uniform_constants``).

Lines are numbered over the program's banks (``instruction_table.py``).
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, lowest_bit
from warpwright.timing import state as s
from warpwright.timing.coalescer import different
from warpwright.timing.fetch import insert
from warpwright.timing.mio_queue import leave_queue, scheduler_of
from warpwright.timing.ports import reserve
from warpwright.timing.records import address_of, decode, record_at
from warpwright.timing.requests import begin_run

OFFSET = (1 << 32) - 1
"""Bits of a record's address that are the offset in the bank."""


@core
def bring(m: Any, sm: s.SM, line: int, time: int, latency: int, several: bool) -> int:
    """When a line that a first level lacks at ``time`` arrives; ``latency``: from L1.5; ``several``: for an LDC of more than one word."""
    interval = m[sm + (s.SM.const_interval if several else s.SM.operand_interval)]
    start = reserve(m, sm.const_fill, s.DRAM_SHIFT, 1 << s.DRAM_SHIFT, time, interval)
    m[sm.const_lines] += 1
    if m[s.chip.const_asked] == 0:
        m[s.chip.const_asked] = 1
    if not several and start > m[sm.operand_booked]:
        m[sm.operand_booked] = start
    block = line // m[s.chip.const_block_lines]
    place = sm + m[s.chip.const_blocks_at] + block
    there = m[place]
    if there >= s.INF:
        there = start + m[s.chip.const_l2]
        arrived = m[m[s.chip.const_arrived] + block]
        if arrived >= s.INF:  # this SM is the first to request it, or requests it in the same window
            there += m[s.chip.dram_latency] + m[s.chip.dram_row_miss]
            index = m[sm.requests]
            m[sm.requests] = index + 1
            r = s.Request(sm + m[s.chip.requests_at] + index * s.Request.size)
            m[r.time] = m[s.chip.now]
            m[r.kind] = s.RQ_CONSTANT
            m[r.line] = block
            m[r.answer] = there
            m[r.waiters] = -1
            begin_run(m, sm, index)
        elif arrived > there:
            there = arrived
        m[place] = there
    return max(start, there) + latency


@core
def share_constants(m: Any, length: int) -> None:
    """Set the rate at which L1.5 sends lines to each SM in the next window, from the ``length`` cycles of this one.

    The SMs of a GPC share a port (bench.micro ``walks_by_sm``): if it was busy, the SMs that used it get equal parts of it. This also holds at the beginning
    of a launch and for a window after it, because all SMs request their parameters at once (``first_lines``).
    """
    kept = m[s.chip.now] < m[s.chip.overhead] + m[s.chip.block_start] + m[s.chip.window]
    m[s.chip.const_asked] = 1 if kept else 0
    first = m[s.chip.sm_first]
    size = m[s.chip.sm_slots]
    sms = m[s.chip.sms]
    last = 0
    while last < sms:
        begin = last
        gpc = m[m[s.chip.gpc_of_sm] + begin]
        lines = 0
        asking = 0
        while last < sms and m[m[s.chip.gpc_of_sm] + last] == gpc:
            mine = m[s.SM(first + last * size).const_lines]
            lines += mine
            asking += 1 if mine else 0
            last += 1
        interval = m[s.chip.const_interval]
        part = m[s.chip.const_gpc_interval]
        if lines * part * 100 >= (length << 8) * m[s.chip.const_busy]:
            part *= asking
        part = max((part + 128) >> 8, 1)
        interval = max(interval, part)
        for i in range(begin, last):
            m[s.SM(first + i * size).const_lines] = 0
            if kept:
                continue
            m[s.SM(first + i * size).const_interval] = interval
            m[s.SM(first + i * size).operand_interval] = part
        if asking > 1:
            m[s.chip.const_asked] = 1


@core
def _line_ready(m: Any, sm: s.SM, cache: int, capacity: int, miss: int, line: int, time: int) -> int:
    ready = m[cache + 2 + capacity + line]
    if ready >= s.INF:
        ready = bring(m, sm, line, time, miss, False)
        insert(m, cache, capacity, line, ready)
    return ready if ready > time else time


@core
def constant_ready(m: Any, sm: s.SM, slot: int, line: int, time: int) -> int:
    """When an operand's line can be read by an instruction that the warp in a slot issues at ``time``."""
    cache = sm + m[s.chip.immediate_at] + scheduler_of(m, slot) * m[s.chip.immediate_size]
    return _line_ready(m, sm, cache, m[s.chip.const_lines], m[s.chip.immediate_miss], line, time)


@core
def indexed_ready(m: Any, code: Any, sm: s.SM, w: s.Warp, row: s.Instruction, time: int) -> int:
    """The same for a ULDC whose index is a uniform register; its record is kept until the issue."""
    _, mask, base, tabled, step = decode(m[w.trace] + m[w.pos] * 8, m[s.chip.head_words], m[s.chip.lanes])
    if mask == 0:
        return time
    offset = address_of(base, tabled, step, lowest_bit(mask)) & OFFSET
    line = code[row.op] + min(offset // m[s.chip.const_line_bytes], code[row.extra] - 1)
    cache = sm + m[s.chip.indexed_at] + scheduler_of(m, m[w.slot]) * m[s.chip.indexed_size]
    return _line_ready(m, sm, cache, m[s.chip.indexed_lines], m[s.chip.indexed_miss], line, time)


@core
def word_ready(m: Any, sm: s.SM, line: int, time: int, several: bool) -> int:
    """When an LDC has the line of a word that it requests at ``time``."""
    cache = sm + m[s.chip.const_at]
    capacity = m[s.chip.const_lines]
    miss = m[s.chip.const_miss]
    ready = m[cache + 2 + capacity + line]
    if ready <= time:
        return time
    if ready <= (time if several else max(time, m[sm.operand_booked])) + miss:
        return ready
    # Missing, or requested later by an instruction whose words were all looked up when it issued.
    fetched = bring(m, sm, line, time, miss, several)
    if ready >= s.INF:
        insert(m, cache, capacity, line, fetched)
    elif fetched < ready:
        m[cache + 2 + capacity + line] = fetched
    else:
        fetched = ready
    return fetched


@core
def _wait_for_words(m: Any, sc: s.SubCore, arrival: int) -> None:
    """Keep a place for an issued LDC until the ``arrival`` of its last word; while all places are taken, the sub-core's memory queue accepts nothing.

    In ``bench.machine.first_loads`` with 64 warps per SM, the first LDCs of 12 warps of each sub-core issue at once, and those of the other four when the first constants have arrived.
    """
    head = m[sc.constant_head]
    m[sc.constant_queue[head]] = arrival
    head = head + 1 if head + 1 < m[s.chip.const_flights] else 0
    m[sc.constant_head] = head
    free = sc.pipe_free[s.P_MIO]
    m[free] = max(m[free], m[sc.constant_queue[head]])


@core
def load_constant(
    m: Any, code: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, row: s.Instruction, time: int, recorded: bool
) -> int:
    """Issue an LDC; an LDC with an index has a record of its lanes' offsets. Returns when its last word has arrived."""
    count = 1
    line = code[row.op]
    line_bytes = m[s.chip.const_line_bytes]
    if recorded:
        addresses = record_at(m, w)
        count = different(m, sm, addresses, OFFSET)
    ready = max(time + m[s.chip.mio_latency], m[sc.mio_free])
    words = max(count, 1) * m[s.chip.const_word]
    start = reserve(m, sm.const_port, s.CALENDAR_SHIFT, 1 << s.CALENDAR_SHIFT, ready, words)
    leave_queue(m, sc, time, start, start + m[s.chip.mio_interval])
    at = start
    for word in range(count):
        if recorded:
            offset = min(m[m[sm.banks] + word] // line_bytes, code[row.extra] - 1)
            at = word_ready(m, sm, line + offset, at, count > 1)
        else:
            at = word_ready(m, sm, line, at, False)
        if word + 1 < count:
            at += m[s.chip.const_replay]
    done = at + code[row.latency]
    _wait_for_words(m, sc, done)
    return done
