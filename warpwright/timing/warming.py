"""Blocks that run without timing and update L2's tags, between the timed stretches of a sampled launch.

The traced warp function runs block after block; each access of its records is coalesced and put into L2's tags,
least recently used first out, stores as dirty sectors.  Only tags change: no port, no DRAM channel and no counter of
the timed sections moves.  L1s are not followed, so a line that only L1 would have served counts as used in L2.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import HERE
from warpwright.native.intrinsics import core, lowest_bit, peek, popcount
from warpwright.timing import state as s
from warpwright.timing.access_policy import LEVEL_NORMAL, LEVEL_SHIFT, policy_of
from warpwright.timing.address_hash import slice_of
from warpwright.timing.background import (
    SECTOR_WORK,
    background_atomic,
    background_load,
    background_store,
    moment,
    send_stores,
    work_of_timed,
)
from warpwright.timing.block_barriers import arrive, end_warp
from warpwright.timing.coalescer import count_passes
from warpwright.timing.dispatcher import start_block, timed_block
from warpwright.timing.l1 import SPACE_GLOBAL, SPACE_SHARED, atomic_words, fill_lines, space_of
from warpwright.timing.l2 import COPIED, TAG_SHIFT, counterpart, counters, find, is_far, used, used_copy, widen
from warpwright.timing.links import place_of
from warpwright.timing.records import address_of, record_at
from warpwright.timing.warp import BARRIER, EXIT, run_function, take_block
from warpwright.timing.warp_slots import warp_at

BEFORE_ALL_BLOCKS = 1
"""Time at which L2 processes the ranges that copies and fills have used: after all earlier launches."""
RUNNING, STOPPED, STUCK = range(3)
"""Outcomes, as in ``windows.py``: blocks can continue, Python must handle something, no warp can continue."""


@core
def keep(m: Any, piece: int, line: int, bits: int, stamp: int, copy: bool) -> bool:
    """Mark a line of a slice, or another partition's ``copy`` of it, as used: ``bits`` of its tag are set, and it may replace another line."""
    place = find(m, piece, line)
    new = place < 0
    if new:
        place = -1 - place
        m[counters(m, piece).installed] = s.INF  # too many to remember
        m[m[s.chip.l2_tags] + place] = line << TAG_SHIFT
        m[m[s.chip.l2_stamps] + place] = LEVEL_NORMAL << LEVEL_SHIFT
        m[m[s.chip.l2_fills] + place] = 0
    m[m[s.chip.l2_tags] + place] |= bits
    if copy:
        used_copy(m, piece, place, stamp)
    else:
        used(m, piece, place, stamp)
    return new


@core
def use_line(m: Any, partition: int, line: int, sectors: int, operation: int, stamp: int) -> None:
    """Process one line of an access by an SM of a partition; L2 keeps no lines of other memory."""
    if place_of(m, line) != HERE:
        return
    home = slice_of(m, line)
    if operation != s.OP_LOAD:
        # As ``l2.touch``: whole sectors from the other side stay on the way.
        left = sectors if operation == s.OP_STORE and is_far(m, partition, home) else 0
        new = keep(m, home, line, sectors | (sectors << 4) | (COPIED if left else 0), stamp, False)
        if (new or left) and m[s.chip.partitions] == 2:
            keep(m, counterpart(m, home), line, left, stamp, True)
    elif is_far(m, partition, home):
        keep(m, home, line, widen(m, line, sectors) | COPIED, stamp, False)
        keep(m, counterpart(m, home), line, sectors, stamp, True)
    else:
        keep(m, home, line, widen(m, line, sectors), stamp, False)


@core
def drop_line(m: Any, piece: int, line: int) -> None:
    """Remove a line from a slice."""
    place = find(m, piece, line)
    if place >= 0:
        m[m[s.chip.l2_tags] + place] = 0
        m[m[s.chip.l2_stamps] + place] = 0
        m[m[s.chip.l2_fills] + place] = 0


@core
def use_range(m: Any, entry: int) -> None:
    """Lines that a copy or a fill has used (``BR_`` words at a host address): read or written by way of their home, or written past L2."""
    how = peek(entry + 8 * s.BR_HOW)
    for line in range(peek(entry + 8 * s.BR_FIRST), peek(entry + 8 * s.BR_END)):
        home = slice_of(m, line)
        if how == s.BR_DROPPED:
            drop_line(m, home, line)
            if m[s.chip.partitions] == 2:
                drop_line(m, counterpart(m, home), line)
        else:
            partition = 1 if m[s.chip.partitions] == 2 and home >= m[s.chip.half] else 0
            use_line(
                m,
                partition,
                line,
                m[s.chip.whole_line],
                s.OP_LOAD if how == s.BR_READ else s.OP_STORE,
                BEFORE_ALL_BLOCKS,
            )


@core
def use_records(m: Any, code: Any, sm: s.SM, w: s.Warp, partition: int) -> None:
    """Consume every record of the warp; counts its instructions in ``chip.warm_instructions`` and ``chip.warm_threads``."""
    while m[w.pos] < m[w.used]:
        row = s.BasicBlock(m[w.block_rows] + take_block(m, code, w) * s.BasicBlock.size)
        begin = code[row.first]
        end = code[row.end]
        m[s.chip.warm_instructions] += end - begin
        m[s.chip.warm_work] += end - begin
        m[s.chip.warm_threads] += (end - begin) * popcount(m[w.mask])
        for pc in range(begin, end):
            kind = code[s.Instruction(pc * s.Instruction.size).kind]
            if not s.K_MEMORY <= kind <= s.K_LOOKUP:
                continue
            addresses = record_at(m, w)
            base, tabled, step, mask = addresses
            if kind == s.K_MATCH or kind == s.K_BULK or s.K_INDEXED <= kind <= s.K_LOOKUP:
                continue
            operation = code[s.Instruction(pc * s.Instruction.size).op]
            if kind == s.K_COPY:
                record_at(m, w)
                operation = s.OP_LOAD
            if mask == 0:
                continue
            space = space_of(address_of(base, tabled, step, lowest_bit(mask)))
            if space == SPACE_SHARED:
                continue
            n = fill_lines(m, sm, w, addresses, code[s.Instruction(pc * s.Instruction.size).access_bytes], space)
            if operation >= s.OP_ATOMIC:
                count_passes(m, sm, addresses, n)
            time = m[s.chip.now]
            if m[s.chip.warm_along]:
                time = moment(m)
            for i in range(n):
                line = m[sm.lines[i]]
                sectors = m[sm.line_sectors[i]]
                if m[s.chip.policies]:
                    m[counters(m, slice_of(m, line)).policy] = policy_of(m, sm, w, line)
                if m[s.chip.warm_along] == 0 or space != SPACE_GLOBAL:
                    use_line(m, partition, line, sectors, operation, time)
                    continue
                if operation == s.OP_STORE:
                    background_store(m, partition, line, sectors, m[sm.line_bytes[i]], i)
                    continue
                m[s.chip.warm_work] += SECTOR_WORK * popcount(sectors)
                if operation == s.OP_LOAD:
                    background_load(m, partition, line, sectors, time + i)
                else:
                    words = atomic_words(m, sm, i, code[s.Instruction(pc * s.Instruction.size).extra])
                    background_atomic(m, partition, line, sectors, words, time + i)


@core
def next_untimed(m: Any) -> int:
    """The next block of the stretch that is not timed, or -1."""
    number = m[s.chip.warm_next]
    period = m[s.chip.timed_period]
    whole = (m[s.chip.stretch] * period >> 16) + m[s.chip.left_out]
    stretch = number // whole
    which = stretch * m[s.chip.stretch] + ((number - stretch * whole) << 16) // period
    for candidate in range(max(which - 1, 0), min(which + 2, m[s.chip.blocks])):
        if timed_block(m, candidate) == number:
            number += 1
    if number >= m[s.chip.warm_stop]:
        m[s.chip.warm_next] = number
        return -1
    m[s.chip.warm_next] = number + 1
    return number


@core
def turn_of_warps(m: Any, code: Any, sm: s.SM, number: int) -> int:
    """Run every warp of the block on the SM to its next stop."""
    b = sm.blocks[0]
    ran = False
    for i in range(m[s.Kernel(m[b.kernel]).warps_per_block]):
        slot = m[b.warps[i]]
        if slot < 0:
            continue
        w = warp_at(sm, slot)
        if m[w.barrier]:
            continue
        ran = True
        if not run_function(m, sm, w, m[s.chip.now]):
            return STOPPED
        use_records(m, code, sm, w, number & 1)
        status = m[w.status]
        if status == EXIT:
            end_warp(m, sm, w, m[s.chip.now])
        elif status == BARRIER:
            arrive(m, sm, w, m[s.chip.now], False)
    return RUNNING if ran else STUCK


@core
def warm(m: Any, code: Any, limit: int) -> int:
    """Run blocks without timing until they have executed ``limit`` instructions, possibly stopping within a block; returns the outcome. Their requests to L2 are in no order of time."""
    m[s.chip.unordered] = 1
    if m[s.chip.warm_along] == 0:
        send_stores(m, True)
    outcome = run_untimed(m, code, limit)
    if m[s.chip.warm_along]:
        send_stores(m, False)
    m[s.chip.unordered] = 0
    return outcome


@core
def run_untimed(m: Any, code: Any, limit: int) -> int:
    """Run block after block, until they have executed ``limit`` instructions; returns the outcome."""
    sm = s.SM(m[s.chip.warm_sm])
    b = sm.blocks[0]
    while m[s.chip.warm_work] < limit:
        if m[b.live] == 0:
            number = next_untimed(m)
            if number < 0:
                return RUNNING
            start_block(m, s.Kernel(m[s.chip.kernels]), sm, 0, number, m[s.chip.now], 0)
            m[b.logged] = s.INF
        outcome = turn_of_warps(m, code, sm, m[b.number])
        if outcome != RUNNING:
            return outcome
        m[sm.done] = 0
        m[sm.reconsider] = 0
    return RUNNING


@core
def warm_along(m: Any, code: Any) -> int:
    """Let untimed blocks advance as far as the timed ones have in the middle of the window."""
    own = work_of_timed(m)
    along = ((own + m[s.chip.warm_own] >> 1) * m[s.chip.warm_ratio]) >> 16
    m[s.chip.warm_own] = own
    m[s.chip.warm_along] = 1
    outcome = warm(m, code, along)
    m[s.chip.warm_along] = 0
    return outcome


def stretch_ended(m: Any) -> bool:
    """Whether every block without time of this stretch has run; for compiled code and for Python."""
    return m[s.SM(m[s.chip.warm_sm]).blocks[0].live] == 0 and m[s.chip.warm_next] >= m[s.chip.warm_stop]


is_warm = core(stretch_ended)
