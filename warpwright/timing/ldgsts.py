"""Copies to shared memory: LDGSTS, and Cayman's fetches into local data share, are global loads whose data goes there and not to registers."""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, lowest_bit
from warpwright.timing import state as s
from warpwright.timing.coalescer import ideal_wavefronts, line_of, sector_of, wavefronts
from warpwright.timing.coalescing import WHOLE_WARP, coalesce, transaction_passes
from warpwright.timing.dependence_counters import hold
from warpwright.timing.l1 import SPACE_GLOBAL, LookUp, fill_lines, global_passes, load_lines, narrow_passes
from warpwright.timing.mio_queue import enter_queue
from warpwright.timing.records import Addresses, address_of, record_at

AROUND_L1_BYTES = 16
"""Bytes per lane of a copy that bypasses L1 (BYPASS): half a sector."""
SECTOR_SHIFT = 5
"""Chips that have such copies (``chips/limits.py``)."""


@core
def lane_address(addresses: Addresses, lane: int) -> int:
    """A lane's address."""
    return address_of(addresses.base, addresses.tabled, addresses.step, lane)


@core
def crosses(source: Addresses, target: Addresses, lane: int) -> bool:
    """Whether a lane's 16 bytes are one half of a sector in global memory and the other one of a sector in shared memory, to which the rest of
    their sector does not go; ``source.mask``: the lanes that copy.

    In tiles whose 16-byte parts change places by an exclusive or the two halves do, and their sector is asked for once (bench.micro ``planned_copies_once``).
    """
    address = lane_address(source, lane)
    to = lane_address(target, lane)
    if (address ^ to) & AROUND_L1_BYTES == 0:
        return False
    near = (source.mask >> (lane ^ 1)) & 1
    if near and lane_address(source, lane ^ 1) == address ^ AROUND_L1_BYTES:
        return (lane_address(target, lane ^ 1) ^ to) >> SECTOR_SHIFT != 0
    left = source.mask
    while left:
        other = lowest_bit(left)
        left &= left - 1
        if lane_address(source, other) == address ^ AROUND_L1_BYTES:
            return (lane_address(target, other) ^ to) >> SECTOR_SHIFT != 0
    return True


@core
def lies_across(source: Addresses, target: Addresses) -> bool:
    """Whether any lane's bytes cross a sector boundary."""
    left = source.mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        if crosses(source, target, lane):
            return True
    return False


@core
def parts_around(m: Any, sm: s.SM, source: Addresses, target: Addresses) -> int:
    """Put the requests of a copy that bypasses L1 into the SM's scratch; returns their number.

    What L2 sends goes to shared memory as it comes: a request is of one line there too, and where a sector's bytes come to be across two
    sectors it is asked for twice, once for each half (bench.micro ``copies_once``: 32 lanes to shared memory 16 bytes after a line ask for
    8 sectors per line, in three requests).
    """
    n = 0
    left = source.mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        address = lane_address(source, lane)
        to = lane_address(target, lane)
        half = 1 + ((to >> 4) & 1) if crosses(source, target, lane) else 0
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
    """Issue an asynchronous copy, which has two records: source and destination."""
    source = record_at(m, w)
    target = record_at(m, w)
    size = code[row.access_bytes]
    barrier = code[row.write_barrier]
    read_barrier = code[row.read_barrier]
    if source.mask == 0:
        done = enter_queue(m, sm, sc, time, 0) + m[s.chip.inactive_access]
        if barrier >= 0:
            hold(m, w, barrier, done, 0)
    else:
        waves = 0
        if target.mask:
            waves = wavefronts(m, sm, target, size, False, False)
            m[sm.shared_wavefronts] += waves
            m[sm.shared_ideal] += ideal_wavefronts(m, target.mask, size)
        if m[s.chip.coalescing_rule] == WHOLE_WARP:
            n = fill_lines(m, sm, w, source, size, SPACE_GLOBAL)
            passes, _, _ = global_passes(m, sm, source, size, SPACE_GLOBAL, n)
        else:
            n = coalesce(m, sm, source, size, False)
            # What arrives takes the banks as often as its lanes conflict there.
            passes = max(transaction_passes(m, source, n, 0), narrow_passes(m, sm, n), waves)
        done = enter_queue(m, sm, sc, time, passes)
        around = (code[row.extra] & 256) != 0 and size == AROUND_L1_BYTES
        copied = Addresses(source.base, source.tabled, source.step, source.mask & target.mask)
        if around and lies_across(copied, target):
            n = parts_around(m, sm, copied, target)
        passes = max(waves, passes)
        load_lines(
            m, code, sm, w, row, LookUp(done, passes, passes, m[s.chip.replay] * passes, n, s.LD_ASYNC, SPACE_GLOBAL)
        )
    if read_barrier >= 0:
        hold(m, w, read_barrier, done + m[s.chip.copy_release], 0)
