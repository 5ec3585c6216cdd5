"""Constant caches of an SM: two first levels, L1.5 behind them, then L2.

Operands ``c[bank][offset]`` and ULDC read a first level of their sub-core before they issue; LDC goes through the memory queue to a unit of
its own with another, of the SM.  All keep 2 KiB in lines of 64 bytes, first in, first out.  LDC takes its lanes' different words one
after the other, and a word whose line is missing holds the later ones up; instructions of other warps go on meanwhile
(bench.micro ``lanes_constant``, ``misses_constant``).  L1.5 hands over a line in a fixed interval and asks L2 for 256 bytes at once;
the launch brings the parameters' bank there (``parameters``).  A block that no SM has asked for comes from DRAM.

A ULDC with an index finds no more than four lines, those of its sub-core's last such ULDCs, and waits for any other one
(``uniform_constants``).

Lines are numbered over the program's banks (``instruction_table.py``).
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, lowest_bit, u
from warpwright.timing import state as s
from warpwright.timing.coalescer import FULL_WARP, different
from warpwright.timing.fetch import insert
from warpwright.timing.mio_queue import leave_queue
from warpwright.timing.ports import reserve
from warpwright.timing.records import address_of, decode, record_at

BUSY_PARTS = 2
"""A GPC's port was busy when its lines took half of a window: what one SM's lines leave over another one's take."""
OFFSET = (1 << 32) - 1
"""Bits of a record's address that are the offset in the bank."""


@core
def bring(m: Any, sm: int, line: int, time: int, latency: int, several: bool) -> int:
    """When a line that a first level lacks at ``time`` is there; ``latency`` from L1.5; ``several``: for an LDC of more than one word."""
    interval = m[u(sm + (s.SM_CONST_INTERVAL if several else s.SM_OPERAND_INTERVAL))]
    start = reserve(m, sm + s.OFF_CONST_FILL, s.DRAM_SHIFT, 1 << s.DRAM_SHIFT, time, interval)
    m[u(sm + s.SM_CONST_LINES)] += 1
    if m[u(s.H_CONST_ASKED)] == 0:
        m[u(s.H_CONST_ASKED)] = 1
    if not several and start > m[u(sm + s.SM_OPERAND_BOOKED)]:
        m[u(sm + s.SM_OPERAND_BOOKED)] = start
    block = line // m[u(s.H_CONST_BLOCK_LINES)]
    place = sm + m[u(s.H_OFF_CONST_BLOCKS)] + block
    there = m[u(place)]
    if there >= s.INF:
        there = start + m[u(s.H_CONST_L2)]
        arrived = m[u(m[u(s.H_CONST_ARRIVED)] + block)]
        if arrived >= s.INF:  # this SM asks first, or in the window of the first
            there += m[u(s.H_DRAM_LATENCY)] + m[u(s.H_DRAM_ROW_MISS)]
            index = m[u(sm + s.SM_REQUESTS)]
            m[u(sm + s.SM_REQUESTS)] = index + 1
            r = sm + m[u(s.H_OFF_REQUESTS)] + index * s.R_SLOTS
            m[u(r + s.R_TIME)] = m[u(s.H_NOW)]
            m[u(r + s.R_KIND)] = s.RQ_CONSTANT
            m[u(r + s.R_LINE)] = block
            m[u(r + s.R_ANSWER)] = there
            m[u(r + s.R_WAITERS)] = -1
        elif arrived > there:
            there = arrived
        m[u(place)] = there
    return max(start, there) + latency


@core
def share_constants(m: Any, length: int) -> None:
    """How fast L1.5 hands lines to each SM in the next window, from the ``length`` cycles of this one.

    The SMs of a GPC share a port (bench.micro ``walks_by_sm``): when it was busy, each of those that asked gets an equal part of it.  A launch
    begins so, and stays so for a window behind its start: all its SMs ask for their parameters at once (``first_lines``).
    """
    kept = m[u(s.H_NOW)] < m[u(s.H_OVERHEAD)] + m[u(s.H_BLOCK_START)] + m[u(s.H_WINDOW)]
    m[u(s.H_CONST_ASKED)] = 1 if kept else 0
    first = m[u(s.H_SM_FIRST)]
    size = m[u(s.H_SM_SLOTS)]
    sms = m[u(s.H_SMS)]
    last = 0
    while last < sms:
        begin = last
        gpc = m[u(m[u(s.H_GPC_OF_SM)] + begin)]
        lines = 0
        asking = 0
        while last < sms and m[u(m[u(s.H_GPC_OF_SM)] + last)] == gpc:
            mine = m[u(first + last * size + s.SM_CONST_LINES)]
            lines += mine
            asking += 1 if mine else 0
            last += 1
        interval = m[u(s.H_CONST_INTERVAL)]
        part = m[u(s.H_CONST_GPC_INTERVAL)]
        if lines * part * BUSY_PARTS >= length << 8:
            part *= asking
        part = max((part + 128) >> 8, 1)
        interval = max(interval, part)
        for i in range(begin, last):
            m[u(first + i * size + s.SM_CONST_LINES)] = 0
            if kept:
                continue
            m[u(first + i * size + s.SM_CONST_INTERVAL)] = interval
            m[u(first + i * size + s.SM_OPERAND_INTERVAL)] = part
        if asking > 1:
            m[u(s.H_CONST_ASKED)] = 1


@core
def _line_ready(m: Any, sm: int, cache: int, capacity: int, miss: int, line: int, time: int) -> int:
    ready = m[u(cache + 2 + capacity + line)]
    if ready >= s.INF:
        ready = bring(m, sm, line, time, miss, False)
        insert(m, cache, capacity, line, ready)
    return ready if ready > time else time


@core
def constant_ready(m: Any, sm: int, slot: int, line: int, time: int) -> int:
    """When an operand's line can be read by an instruction of the warp in a slot that issues at ``time``."""
    cache = sm + m[u(s.H_OFF_IMMEDIATE)] + (slot >> 4) * m[u(s.H_IMMEDIATE_SIZE)]
    return _line_ready(m, sm, cache, m[u(s.H_CONST_LINES)], m[u(s.H_IMMEDIATE_MISS)], line, time)


@core
def indexed_ready(m: Any, code: Any, sm: int, w: int, row: int, time: int) -> int:
    """The same of a ULDC whose index is a uniform register; its record stays for the issue."""
    _, mask, base, tabled, step = decode(m[u(w + s.W_TRACE)] + m[u(w + s.W_POS)] * 8)
    if mask & FULL_WARP == 0:
        return time
    offset = address_of(base, tabled, step, lowest_bit(mask & FULL_WARP)) & OFFSET
    line = code[u(row + s.I_OP)] + min(offset // m[u(s.H_CONST_LINE_BYTES)], code[u(row + s.I_EXTRA)] - 1)
    cache = sm + m[u(s.H_OFF_INDEXED)] + (m[u(w + s.W_SLOT)] >> 4) * m[u(s.H_INDEXED_SIZE)]
    return _line_ready(m, sm, cache, m[u(s.H_INDEXED_LINES)], m[u(s.H_INDEXED_MISS)], line, time)


@core
def word_ready(m: Any, sm: int, line: int, time: int, several: bool) -> int:
    """When LDC has the line of a word that it asks for at ``time``."""
    cache = sm + m[u(s.H_OFF_CONST)]
    capacity = m[u(s.H_CONST_LINES)]
    miss = m[u(s.H_CONST_MISS)]
    ready = m[u(cache + 2 + capacity + line)]
    if ready <= time:
        return time
    if ready <= (time if several else max(time, m[u(sm + s.SM_OPERAND_BOOKED)])) + miss:
        return ready
    # Missing, or asked for at a later time by an instruction whose words were all looked up when it issued.
    fetched = bring(m, sm, line, time, miss, several)
    if ready >= s.INF:
        insert(m, cache, capacity, line, fetched)
    elif fetched < ready:
        m[u(cache + 2 + capacity + line)] = fetched
    else:
        fetched = ready
    return fetched


@core
def load_constant(m: Any, code: Any, sm: int, sc: int, w: int, row: int, time: int, recorded: bool) -> int:
    """Issue an LDC; one with an index has a record of its lanes' offsets.  Gives when its last word is there."""
    count = 1
    line = code[u(row + s.I_OP)]
    line_bytes = m[u(s.H_CONST_LINE_BYTES)]
    if recorded:
        mask, base, tabled, step = record_at(m, w)
        count = different(m, sm, base, tabled, step, mask & FULL_WARP, OFFSET)
    ready = max(time + m[u(s.H_MIO_LATENCY)], m[u(sc + s.SC_MIO_FREE)])
    words = max(count, 1) * m[u(s.H_CONST_WORD)]
    start = reserve(m, sm + s.OFF_CONST_PORT, s.CALENDAR_SHIFT, 1 << s.CALENDAR_SHIFT, ready, words)
    leave_queue(m, sc, time, start, start + m[u(s.H_MIO_INTERVAL)])
    at = start
    for word in range(count):
        if recorded:
            offset = min(m[u(m[u(sm + s.SM_BANKS)] + word)] // line_bytes, code[u(row + s.I_EXTRA)] - 1)
            at = word_ready(m, sm, line + offset, at, count > 1)
        else:
            at = word_ready(m, sm, line, at, False)
        if word + 1 < count:
            at += m[u(s.H_CONST_REPLAY)]
    return at + code[u(row + s.I_LATENCY)]
