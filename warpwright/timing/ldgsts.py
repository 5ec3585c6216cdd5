"""Asynchronous copies (LDGSTS): global loads whose data goes to shared memory."""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, lowest_bit
from warpwright.timing import state as s
from warpwright.timing.coalescer import ideal_wavefronts, line_of, sector_of, wavefronts
from warpwright.timing.l1 import SPACE_GLOBAL, fill_lines, global_passes, load_lines
from warpwright.timing.mio_queue import enter_queue
from warpwright.timing.records import address_of, record_at
from warpwright.timing.warp import hold

AROUND_L1_BYTES = 16
"""A copy past L1 (BYPASS) always takes so many a lane."""


@core
def crosses(
    base: int, tabled: bool, step: int, to_base: int, to_tabled: bool, to_step: int, mask: int, lane: int
) -> bool:
    """Whether a lane's 16 bytes are one half of a sector in global memory and the other one of a sector in shared memory, to which the rest of
    their sector does not go.

    In tiles whose 16-byte parts change places by an exclusive or the two halves do, and their sector is asked for once (bench.micro ``planned_copies_once``).
    """
    address = address_of(base, tabled, step, lane)
    to = address_of(to_base, to_tabled, to_step, lane)
    if (address ^ to) & 16 == 0:
        return False
    near = (mask >> (lane ^ 1)) & 1
    if near and address_of(base, tabled, step, lane ^ 1) == address ^ 16:
        return (address_of(to_base, to_tabled, to_step, lane ^ 1) ^ to) >> 5 != 0
    left = mask
    while left:
        other = lowest_bit(left)
        left &= left - 1
        if address_of(base, tabled, step, other) == address ^ 16:
            return (address_of(to_base, to_tabled, to_step, other) ^ to) >> 5 != 0
    return True


@core
def lies_across(base: int, tabled: bool, step: int, to_base: int, to_tabled: bool, to_step: int, mask: int) -> bool:
    """Whether any lane's bytes go across."""
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        if crosses(base, tabled, step, to_base, to_tabled, to_step, mask, lane):
            return True
    return False


@core
def parts_around(
    m: Any, sm: s.SM, base: int, tabled: bool, step: int, to_base: int, to_tabled: bool, to_step: int, mask: int
) -> int:
    """What a copy past L1 asks L2 for, into the SM's scratch; gives the number of requests.

    What L2 sends goes to shared memory as it comes: a request is of one line there too, and where a sector's bytes come to be across two
    sectors it is asked for twice, once for each half (bench.micro ``copies_once``: 32 lanes to shared memory 16 bytes after a line ask for
    8 sectors a line, in three requests).
    """
    n = 0
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        address = address_of(base, tabled, step, lane)
        to = address_of(to_base, to_tabled, to_step, lane)
        across = crosses(base, tabled, step, to_base, to_tabled, to_step, mask, lane)
        half = 1 + ((to >> 4) & 1) if across else 0
        where = line_of(m, to) << 2 | half
        i = 0
        while i < n and (m[sm.lines[i]] != line_of(m, address) or m[sm.line_bytes[i]] != where):
            i += 1
        if i == n:
            n += 1
            m[sm.lines[i]] = line_of(m, address)
            m[sm.line_bytes[i]] = where
            m[sm.line_sectors[i]] = 0
        m[sm.line_sectors[i]] |= 1 << sector_of(m, address)
    return n


@core
def copy(m: Any, code: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, row: s.Instruction, time: int) -> None:
    """An asynchronous copy: two records, from and to."""
    mask, base, tabled, step = record_at(m, w)
    to_mask, to_base, to_tabled, to_step = record_at(m, w)
    size = code[row.access_bytes]
    barrier = code[row.write_barrier]
    read_barrier = code[row.read_barrier]
    if mask == 0:
        done = enter_queue(m, sm, sc, time, 0) + m[s.chip.inactive_access]
        if barrier >= 0:
            hold(m, w, barrier, done, 0)
    else:
        waves = 0
        if to_mask:
            waves = wavefronts(m, sm, to_base, to_tabled, to_step, to_mask, size, False, False)
            m[sm.shared_wavefronts] += waves
            m[sm.shared_ideal] += ideal_wavefronts(m, to_mask, size)
        n = fill_lines(m, sm, w, base, tabled, step, mask, size, SPACE_GLOBAL)
        passes = global_passes(m, sm, base, tabled, step, mask, size, SPACE_GLOBAL, n)
        done = enter_queue(m, sm, sc, time, passes)
        around = (code[row.extra] & 256) != 0 and size == AROUND_L1_BYTES
        if around and lies_across(base, tabled, step, to_base, to_tabled, to_step, mask & to_mask):
            n = parts_around(m, sm, base, tabled, step, to_base, to_tabled, to_step, mask & to_mask)
        load_lines(m, code, sm, w, row, done, max(waves, passes), n, barrier, s.LD_ASYNC, SPACE_GLOBAL)
    if read_barrier >= 0:
        hold(m, w, read_barrier, done + 5, 0)
