"""Blocks that run without time but leave their lines in L2: what stands between two timed sections of a sampled launch.

The traced warp function runs block after block; each access of its records is coalesced and put into L2's tags,
least recently used first out, stores as dirty sectors.  Only tags change: no port, no DRAM channel and no counter of
the timed sections moves.  L1s are not followed, so a line that only L1 would have served counts as used in L2.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from warpwright.native import direct
from warpwright.native.pieces import core, lowest_bit, popcount, u, words
from warpwright.timing import SOURCES
from warpwright.timing import state as s
from warpwright.timing.dispatcher import start_block
from warpwright.timing.l1 import SPACE_SHARED, fill_lines, space_of
from warpwright.timing.l2 import COPIED, TAG_SHIFT, counters, find, slice_of, widen
from warpwright.timing.records import address_of, record_at
from warpwright.timing.warp import BARRIER, EXIT, arrive, end_warp, run_function, take_block, warp_at

WARMED, STOPPED, STUCK = range(3)


@core
def keep(m: Any, piece: int, line: int, bits: int, stamp: int) -> None:
    """A line of a slice was used: ``bits`` of its tag are set, another line may leave for it."""
    place = find(m, piece, line)
    if place < 0:
        place = -1 - place
        m[u(counters(m, piece) + s.SG_INSTALLED)] = s.INF  # too many to remember
        m[u(m[u(s.H_L2_TAGS)] + place)] = line << TAG_SHIFT
        m[u(m[u(s.H_L2_FILLS)] + place)] = 0
    m[u(m[u(s.H_L2_TAGS)] + place)] |= bits
    m[u(m[u(s.H_L2_STAMPS)] + place)] = stamp


@core
def use_line(m: Any, partition: int, line: int, sectors: int, operation: int, stamp: int) -> None:
    """One line of an access by an SM of a partition."""
    home = slice_of(m, line)
    half = m[u(s.H_SLICES)] >> 1
    if operation != s.OP_LOAD:
        keep(m, home, line, sectors | (sectors << 4), stamp)
    elif m[u(s.H_PARTITIONS)] == 1 or (home >= half) == (partition == 1):
        keep(m, home, line, widen(m, sectors), stamp)
    else:
        keep(m, home, line, widen(m, sectors) | COPIED, stamp)
        keep(m, home - half if home >= half else home + half, line, sectors, stamp)


@core
def use_records(m: Any, code: Any, sm: int, w: int, partition: int) -> None:
    """Take every record that the warp has left; counts its instructions in ``H_WARM_INSTRUCTIONS`` and ``H_WARM_THREADS``."""
    while m[u(w + s.W_POS)] < m[u(w + s.W_USED)]:
        row = m[u(s.H_BLOCK_ROWS)] + take_block(m, code, w) * s.BL_SLOTS
        begin = code[u(row + s.BL_FIRST)]
        end = code[u(row + s.BL_END)]
        m[u(s.H_WARM_INSTRUCTIONS)] += end - begin
        m[u(s.H_WARM_THREADS)] += (end - begin) * popcount(m[u(w + s.W_MASK)])
        for pc in range(begin, end):
            kind = code[u(pc * s.I_SLOTS + s.I_KIND)]
            if not s.K_MEMORY <= kind <= s.K_LOOKUP:
                continue
            mask, base, tabled, step = record_at(m, w)
            if kind == s.K_INDEXED or kind == s.K_LOOKUP or kind == s.K_BULK:
                continue
            operation = code[u(pc * s.I_SLOTS + s.I_OP)]
            if kind == s.K_COPY:
                record_at(m, w)
                operation = s.OP_LOAD
            if mask == 0:
                continue
            space = space_of(address_of(base, tabled, step, lowest_bit(mask)))
            if space == SPACE_SHARED:
                continue
            n = fill_lines(m, sm, w, base, tabled, step, mask, code[u(pc * s.I_SLOTS + s.I_BYTES)], space)
            stamp = m[u(s.H_NOW)] + 1
            m[u(s.H_NOW)] = stamp
            for i in range(n):
                line = m[u(sm + s.OFF_LINES + i)]
                use_line(m, partition, line, m[u(sm + s.OFF_LINE_SECTORS + i)], operation, stamp)


@core
def warm_block(m: Any, code: Any, sm: int, number: int) -> int:
    """Run one block on an idle SM, its warps in turn."""
    start_block(m, sm, 0, number, m[u(s.H_NOW)], 0)
    b = sm + s.OFF_BLOCKS
    while m[u(b + s.B_LIVE)] > 0:
        ran = False
        for i in range(m[u(s.H_WARPS_PER_BLOCK)]):
            slot = m[u(b + s.B_WARPS + i)]
            if slot < 0:
                continue
            w = warp_at(sm, slot)
            if m[u(w + s.W_BARRIER)]:
                continue
            ran = True
            if not run_function(m, sm, w, m[u(s.H_NOW)]):
                return STOPPED
            use_records(m, code, sm, w, number & 1)
            status = m[u(w + s.W_STATUS)]
            if status == EXIT:
                end_warp(m, sm, w, m[u(s.H_NOW)])
            elif status == BARRIER:
                arrive(m, sm, w, m[u(s.H_NOW)])
        if not ran:
            return STUCK
    m[u(sm + s.SM_DONE)] = 0
    m[u(sm + s.SM_RECONSIDER)] = 0
    return WARMED


@partial(direct.entry, what="the cycle model for sampled launches", sources=SOURCES)
def warm_blocks(state: Any, program: Any, first: int, count: int) -> int:
    """Run blocks of the grid; WARMED, or STOPPED (Python must look) or STUCK (no warp can go on) at one of them.

    The chip is idle before and after; ``H_NOW`` moves on, so that later sections see these lines as older than their own.  Fields of the
    first SM change: its barriers alone would keep it busy long after ``H_NOW``, so whoever calls keeps them.
    """
    m = words(state)
    code = words(program)
    sm = m[u(s.H_SM_FIRST)]
    for number in range(first, first + count):
        outcome = warm_block(m, code, sm, number)
        if outcome != WARMED:
            return outcome
    return WARMED
