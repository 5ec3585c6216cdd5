"""Races of a bulk copy with what threads and other copies did, word by word of the memory that it reads and writes.

In shared memory a copy is an accessor of its own (``happens_before.py``): what threads wrote must be known to the warp that issues it and
shown by a proxy fence; who looks at the bytes afterwards must have waited.  In global memory it counts as an access of the warp that
issues it: a plain one, or of a reduction (``cp.reduce.async.bulk``) an atomic one for each element, which no other atomic one races with.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from warpwright.engine.abi import SHARED_WINDOW
from warpwright.isa.bulk import DIRECTIONS
from warpwright.native.intrinsics import core, lowest_bit, peek, poke
from warpwright.timing.records import AT_ADDRESS, AT_HEAD, AT_PAIRS, AT_ROW, AT_SHARED, AT_SOURCE, AT_TARGETS
from warpwright.tools.checks.happens_before import SHOWN
from warpwright.tools.checks.intrinsics import entry
from warpwright.tools.checks.shadow import (
    A_CELLS,
    A_END,
    A_FIRST,
    A_SHIFT,
    A_WRITTEN,
    ALLOCATION_WORDS,
    ATOMIC,
    CHECK_RACES,
    CHECK_UNDEFINED,
    ERROR,
    LOAD,
    RAW,
    S_FIRST_WARP,
    S_GUARD,
    S_HOST,
    S_LAUNCH_WARPS,
    S_OPTIONS,
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
    allocation_at,
    cell_at,
    check_readers,
    defined,
    is_old,
    note,
    one_lane,
    remember_read,
    unordered_lane,
)

FROM_GLOBAL, INTO_GLOBAL = DIRECTIONS.index("load"), DIRECTIONS.index("store")
LANE_MASK, OFFSET_MASK = 0xFFFFFFFF, 0xFFFFFFFF


@core
def check_earlier_write(
    s: Any, known: Any, lanes_known: Any, foreign: Any, findings: Any, cell: int, kind: int, instruction: int, address: int, size: int,
    lane: int,
) -> None:  # fmt: skip
    """Is the last write of a word known to the issuing warp, and shown to copies where a thread made it?"""
    stamp = peek(cell + WRITE_STAMP)
    if is_old(s, -1, stamp):
        return
    info = peek(cell + WRITE_INFO)
    writer = (stamp >> 32) - 1
    before = (info >> 32) & 0xFFFFFF
    other = unordered_lane(s, known, lanes_known, foreign, stamp, 1 << ((info >> 58) & 31), lane)
    if other >= 0 and writer != s[S_WARP]:
        note(s, findings, kind, ERROR, before, instruction, -1, address, size, writer, other, lane)
        return
    if writer >= s[S_LAUNCH_WARPS]:
        return
    shown = known[SHOWN * s[S_WARPS] + writer - s[S_FIRST_WARP]]
    if shown <= stamp & 0xFFFFFFFF:
        severity = ERROR if kind == RAW else WARNING
        note(s, findings, UNSHOWN, severity, before, instruction, -1, address, size, writer, (info >> 58) & 31, lane)


@core
def shared_side(
    s: Any, known: Any, lanes_known: Any, foreign: Any, findings: Any, event: int, instruction: int, place: int, stamp: int, lane: int,
) -> None:  # fmt: skip
    """A copy's bytes in the block's own shared memory."""
    offset = place & OFFSET_MASK
    size = place >> 32
    if size == 0 or offset + size > s[S_SHARED_BYTES]:
        return
    shift = s[S_SHARED_SHIFT]
    if s[S_OPTIONS] & CHECK_RACES:
        for granule in range(offset >> shift, (offset + size) >> shift):
            cell = cell_at(s[S_SHARED_CELLS], granule)
            where = SHARED_WINDOW + (granule << shift)
            kind = RAW if event == LOAD else WAW
            check_earlier_write(s, known, lanes_known, foreign, findings, cell, kind, instruction, where, size, lane)
            if event == LOAD:
                remember_read(cell, stamp, s[S_SHARED_OLDEST], instruction << 32 | 1 << lane)
            else:
                check_readers(s, known, lanes_known, foreign, findings, cell, 0, instruction, -1, where, size, lane)
                poke(cell + WRITE_STAMP, stamp)
                poke(cell + WRITE_INFO, lane << 58 | instruction << 32)
    if s[S_OPTIONS] & CHECK_UNDEFINED:
        address = SHARED_WINDOW + offset
        defined(s, findings, event, instruction, -1, address, size, lane, s[S_SHARED_WRITTEN], offset)


@core
def global_row(
    s: Any, known: Any, lanes_known: Any, foreign: Any, allocations: Any, findings: Any, event: int, strong: int, instruction: int,
    address: int, size: int, lane: int, only_shadow: bool,
) -> int:  # fmt: skip
    """Neighbouring bytes of global memory; the allocation that lacks a shadow, or -1."""
    one = allocation_at(s, allocations, address)
    if one < 0 or address + size > allocations[one * ALLOCATION_WORDS + A_END]:
        return -1
    races = s[S_OPTIONS] & CHECK_RACES
    if races and allocations[one * ALLOCATION_WORDS + A_CELLS] == 0:
        return one
    if only_shadow:
        return -1
    offset = address - allocations[one * ALLOCATION_WORDS + A_FIRST]
    if races:
        one_lane(
            s, known, lanes_known, foreign, findings, event, strong, instruction, one, address, size, lane, allocations[one * ALLOCATION_WORDS + A_CELLS],
            allocations[one * ALLOCATION_WORDS + A_SHIFT], offset, address + s[S_HOST], 0, 0,
        )  # fmt: skip
    written = allocations[one * ALLOCATION_WORDS + A_WRITTEN]
    if s[S_OPTIONS] & CHECK_UNDEFINED and written:
        defined(s, findings, event, instruction, one, address, size, lane, written, offset)
    return -1


@core
def global_side(
    s: Any, known: Any, lanes_known: Any, foreign: Any, allocations: Any, findings: Any, event: int, strong: int, instruction: int,
    record: int, lane: int, only_shadow: bool,
) -> int:  # fmt: skip
    """Every row of a copy in global memory; the allocation that lacks a shadow, or -1."""
    address, row = peek(record + 8 * AT_ADDRESS), peek(record + 8 * AT_ROW)
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
                    lacking = global_row(
                        s, known, lanes_known, foreign, allocations, findings, event, strong, instruction, at, row, lane, only_shadow
                    )  # fmt: skip
                    if lacking >= 0:
                        return lacking
    return -1


@partial(entry, what="the checks of bulk copies")
def check_bulk_copy(
    s: Any, instruction: int, reduces: int, record: int, stamp: int, known: Any, lanes_known: Any, foreign: Any, allocations: Any,
    findings: Any,
) -> int:  # fmt: skip
    """One bulk copy; gives the allocation that needs a shadow first, or -1 when all was checked.

    Args:
        reduces: 1 for a reduction, which is atomic for each element: in global memory a strong access.
        foreign: what the warp knows of other blocks, of reductions what is ordered before strong accesses.
        record: host pointer of the copy's record.
        stamp: of the copy as an accessor of shared memory.
    """
    s[S_GUARD] = 0
    # Copies pass L1 by.
    s[S_SECTORS] = 0
    head = peek(record + 8 * AT_HEAD)
    lane = lowest_bit(head & LANE_MASK)
    direction = (head >> 32) & 3
    targets = peek(record + 8 * AT_TARGETS)
    if direction <= INTO_GLOBAL and targets >> 32 == 0 and peek(record + 8 * AT_ROW) > 0:
        event = LOAD if direction == FROM_GLOBAL else ATOMIC if reduces else STORE
        for turn in range(2):
            lacking = global_side(
                s, known, lanes_known, foreign, allocations, findings, event, reduces, instruction, record, lane, turn == 0
            )  # fmt: skip
            if lacking >= 0:
                return lacking
    source, place = peek(record + 8 * AT_SOURCE), peek(record + 8 * AT_SHARED)
    if source >= 0:
        shared_side(s, known, lanes_known, foreign, findings, LOAD, instruction, source, stamp, lane)
    if direction == INTO_GLOBAL and place >= 0:
        shared_side(s, known, lanes_known, foreign, findings, LOAD, instruction, place, stamp, lane)
    elif targets & 1 and place >= 0:
        shared_side(s, known, lanes_known, foreign, findings, STORE, instruction, place, stamp, lane)
    return -1
