"""Races of a bulk copy with threads and other copies, checked for each word that it reads or writes.

In shared memory a copy is a separate accessor (``happens_before.py``): what threads wrote must be known to the issuing warp and made visible by a proxy fence,
and threads that access the bytes afterwards must have waited. In global memory it counts as an access by the issuing warp: a plain one, or for a reduction
(``cp.reduce.async.bulk``) one atomic per element, which does not race with other atomics.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from warpwright.engine.abi import MAX_CLUSTER, SHARED_WINDOW
from warpwright.isa.bulk import DIRECTIONS
from warpwright.isa.ops import SHARED_RANK_SHIFT
from warpwright.native.intrinsics import core, lowest_bit, peek, poke
from warpwright.timing.records import AT_ADDRESS, AT_HEAD, AT_PAIRS, AT_ROW, AT_SHARED, AT_SOURCE, AT_TARGETS
from warpwright.tools.checks.happens_before import SHOWN
from warpwright.tools.checks.intrinsics import array_at, entry
from warpwright.tools.checks.shadow import (
    A_END,
    A_WRITTEN,
    ALLOCATION_WORDS,
    ANY,
    ATOMIC,
    CHECK_RACES,
    CHECK_UNDEFINED,
    ERROR,
    LOAD,
    M_BYTES,
    M_CELLS,
    M_WRITTEN,
    MEMBER_WORDS,
    OWN,
    RAW,
    S_ELSEWHERE,
    S_FIRST_WARP,
    S_GUARD,
    S_MEMBERS,
    S_OPTIONS,
    S_RANK,
    S_SECTORS,
    S_SHARED_BYTES,
    S_SHARED_CELLS,
    S_SHARED_OLDEST,
    S_SHARED_SHIFT,
    S_SHARED_WRITTEN,
    S_WARP,
    S_WARPS,
    STORE,
    UNSHOWN,
    WARNING,
    WAW,
    WRITE_INFO,
    WRITE_STAMP,
    Access,
    Found,
    Tables,
    allocation_at,
    cell_at,
    check_readers,
    defined,
    is_old,
    memory_of,
    note,
    one_lane,
    remember_read,
    unordered_lane,
)

FROM_GLOBAL, INTO_GLOBAL = DIRECTIONS.index("load"), DIRECTIONS.index("store")
LANE_MASK, OFFSET_MASK = 0xFFFFFFFF, 0xFFFFFFFF


@core
def check_earlier_write(t: Tables, a: Access, cell: int, kind: int, address: int, lane: int) -> None:
    """Check that the issuing warp knows the last write of a word and, if a thread made it, that it is visible to copies."""
    s, known, lanes_known, foreign, findings = t
    stamp = peek(cell + WRITE_STAMP)
    if is_old(s, OWN, stamp):
        return
    info = peek(cell + WRITE_INFO)
    writer = (stamp >> 32) - 1
    before = (info >> 32) & 0xFFFFFF
    other = unordered_lane(s, known, lanes_known, foreign, stamp, 1 << ((info >> 58) & 31), lane)
    if other >= 0 and writer != s[S_WARP]:
        note(s, findings, Found(kind, ERROR, before, a.instruction, -1, address, a.size, writer, other, lane))
        return
    if not 0 <= writer - s[S_FIRST_WARP] < s[S_WARPS]:
        return
    shown = known[SHOWN * s[S_WARPS] + writer - s[S_FIRST_WARP]]
    if shown <= stamp & 0xFFFFFFFF:
        severity = ERROR if kind == RAW else WARNING
        other = (info >> 58) & 31
        note(s, findings, Found(UNSHOWN, severity, before, a.instruction, -1, address, a.size, writer, other, lane))


@core
def shared_side(
    t: Tables, reads: Tables, event: int, instruction: int, rank: int, place: int, stamp: int, lane: int
) -> None:
    """Check a copy's bytes in the shared memory of the cluster's block with a given rank; ``reads``: the tables with what is known of reads."""
    s = t.s
    offset = place & OFFSET_MASK
    size = place >> 32
    bytes_, cells, written = s[S_SHARED_BYTES], s[S_SHARED_CELLS], s[S_SHARED_WRITTEN]
    window = SHARED_WINDOW
    s[S_ELSEWHERE] = 1 if rank != s[S_RANK] else 0
    if s[S_MEMBERS]:
        member = array_at(s[S_MEMBERS] + rank * MEMBER_WORDS * 8)
        bytes_, cells, written = member[M_BYTES], member[M_CELLS], member[M_WRITTEN]
        window += rank << SHARED_RANK_SHIFT
    if size == 0 or offset + size > bytes_:
        return
    shift = s[S_SHARED_SHIFT]
    a = Access(event, 0, instruction, ANY - rank if s[S_ELSEWHERE] else OWN, size, 0, 0)
    if s[S_OPTIONS] & CHECK_RACES:
        for granule in range(offset >> shift, (offset + size) >> shift):
            cell = cell_at(cells, granule)
            where = window + (granule << shift)
            kind = RAW if event == LOAD else WAW
            check_earlier_write(t, a, cell, kind, where, lane)
            if event == LOAD:
                remember_read(cell, stamp, s[S_SHARED_OLDEST], instruction << 32 | 1 << lane)
            else:
                check_readers(reads, a, cell, where, lane)
                poke(cell + WRITE_STAMP, stamp)
                poke(cell + WRITE_INFO, lane << 58 | instruction << 32)
    if s[S_OPTIONS] & CHECK_UNDEFINED:
        defined(s, t.findings, a, window + offset, lane, written + offset)


@core
def global_row(t: Tables, a: Access, allocations: Any, address: int, lane: int, only_shadow: bool) -> int:
    """Check contiguous bytes of global memory; returns the allocation that lacks a shadow, or -1."""
    s = t.s
    one = allocation_at(s, allocations, address)
    if one < 0 or address + a.size > allocations[one * ALLOCATION_WORDS + A_END]:
        return -1
    races = s[S_OPTIONS] & CHECK_RACES
    memory = memory_of(s, allocations, one)
    if races and memory.cells == 0:
        return one
    if only_shadow:
        return -1
    here = Access(a.event, a.strong, a.instruction, one, a.size, 0, 0)
    if races:
        one_lane(t, here, memory, address, lane)
    written = allocations[one * ALLOCATION_WORDS + A_WRITTEN]
    if s[S_OPTIONS] & CHECK_UNDEFINED and written:
        defined(s, t.findings, here, address, lane, written + address - memory.origin)
    return -1


@core
def global_side(t: Tables, one: Access, allocations: Any, record: int, lane: int, only_shadow: bool) -> int:
    """Check every row of a copy in global memory; returns the allocation that lacks a shadow, or -1."""
    address = peek(record + 8 * AT_ADDRESS)
    row = Access(one.event, one.strong, one.instruction, one.space, peek(record + 8 * AT_ROW), 0, 0)
    pairs = record + 8 * AT_PAIRS
    for a in range(peek(pairs + 48)):
        for b in range(peek(pairs + 32)):
            for c in range(peek(pairs + 16)):
                for d in range(peek(pairs)):
                    at = (
                        address
                        + a * peek(pairs + 56)
                        + b * peek(pairs + 40)
                        + c * peek(pairs + 24)
                        + d * peek(pairs + 8)
                    )
                    lacking = global_row(t, row, allocations, at, lane, only_shadow)
                    if lacking >= 0:
                        return lacking
    return -1


@partial(entry, what="the checks of bulk copies")
def check_bulk_copy(s: Any, instruction: int, reduces: int, record: int, stamps: Any, tables: Any) -> int:
    """Check one bulk copy; returns the allocation that needs a shadow first, or -1 if everything was checked.

    Args:
        reduces: 1 for a reduction, which is atomic for each element: a strong access in global memory.
        tables: host pointers to what the warp knows of its block, to what its lanes know, to what it knows of other blocks (for reductions, what is ordered
        before strong accesses), to the allocations, to the findings, and to what it knows of its block's reads.
        record: host pointer of the copy's record.
        stamps: the copy's stamps as an accessor of the shared memory of the cluster's block of each rank, and last as a reader of the block's own.
    """
    allocations = array_at(tables[3])
    t = Tables(s, array_at(tables[0]), array_at(tables[1]), array_at(tables[2]), array_at(tables[4]))
    reads = Tables(s, array_at(tables[5]), t.lanes_known, t.foreign, t.findings)
    s[S_GUARD] = 0
    # Copies bypass L1.
    s[S_SECTORS] = 0
    head = peek(record + 8 * AT_HEAD)
    lane = lowest_bit(head & LANE_MASK)
    direction = (head >> 32) & 3
    targets = peek(record + 8 * AT_TARGETS)
    rank = s[S_RANK]
    if direction <= INTO_GLOBAL and targets >> 32 == 0 and peek(record + 8 * AT_ROW) > 0:
        event = LOAD if direction == FROM_GLOBAL else ATOMIC if reduces else STORE
        for turn in range(2):
            a = Access(event, reduces, instruction, -1, 0, 0, 0)
            lacking = global_side(t, a, allocations, record, lane, turn == 0)
            if lacking >= 0:
                return lacking
    source, place = peek(record + 8 * AT_SOURCE), peek(record + 8 * AT_SHARED)
    if source >= 0:
        shared_side(t, reads, LOAD, instruction, rank, source, stamps[MAX_CLUSTER], lane)
    if direction == INTO_GLOBAL and place >= 0:
        shared_side(t, reads, LOAD, instruction, rank, place, stamps[MAX_CLUSTER], lane)
    elif place >= 0:
        for target in range(MAX_CLUSTER):
            if (targets >> target) & 1:
                shared_side(t, reads, STORE, instruction, target, place, stamps[target], lane)
    s[S_ELSEWHERE] = 0
    return -1
