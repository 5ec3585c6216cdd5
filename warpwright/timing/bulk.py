"""Bulk copies in simulated time: an engine in each SM that takes one copy after the other and moves it past registers and L1.

A copy is issued by one instruction and described by one record (``engine/abi.py``).  The SM's engine begins one in a fixed
interval and moves so many bytes a cycle; its lines are read from or written to L2 in the serial phase, with everything else
that happens there.  When the last bytes are in shared memory the mbarrier is told, which until then knows only what it
expects: waiting threads see it at their next look (measured on an H200: ``bench/micro/hopper.cu``).
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import BLOCK, BULK_WORDS
from warpwright.isa import mbarrier as mb
from warpwright.isa.bulk import DIRECTIONS
from warpwright.native.intrinsics import core, peek, poke, u
from warpwright.timing import state as s
from warpwright.timing.address_hash import slice_of
from warpwright.timing.clusters import slot_of
from warpwright.timing.l1 import PREDICATED_OFF_CYCLES
from warpwright.timing.links import read_line, write_line
from warpwright.timing.mio_queue import enter_queue
from warpwright.timing.ports import reserve
from warpwright.timing.records import (
    AT_ADDRESS,
    AT_BARRIER,
    AT_BLOCK,
    AT_BYTES,
    AT_HEAD,
    AT_PAIRS,
    AT_RANKS,
    AT_ROW,
)
from warpwright.timing.requests import new_request
from warpwright.timing.warp import hold

MEMBERS, SHARED_BASE = BLOCK["cluster_blocks"], BLOCK["shared_base"]
LOAD, STORE, WITHIN = (DIRECTIONS.index(name) for name in ("load", "store", "within"))
COUNT_MASK, BYTES_MASK = mb.COUNT_MASK, mb.BYTES_MASK
PENDING_AT, BYTES_AT, EXPECTED_AT, COUNT_BITS = mb.PENDING_AT, mb.BYTES_AT, mb.EXPECTED_AT, mb.COUNT_BITS
PHASE = -(1 << 63)


@core
def has_room(m: Any, sm: int) -> bool:
    """Whether another copy can be issued in this window."""
    return m[u(sm + s.SM_BULKS)] < s.MAX_BULKS


@core
def start_bulk(m: Any, code: Any, sm: int, sc: int, w: int, row: int, time: int) -> None:
    """Issue a copy whose record is there."""
    place = m[u(w + s.W_TRACE)] + m[u(w + s.W_POS)] * 8
    m[u(w + s.W_POS)] += BULK_WORDS
    head = peek(place)
    stores = (head >> 32) & 3 == STORE
    barrier = code[u(row + s.I_WRITE_BARRIER)]
    read_barrier = code[u(row + s.I_READ_BARRIER)]
    if head & 0xFFFFFFFF == 0:
        done = enter_queue(m, sm, sc, time, 0) + PREDICATED_OFF_CYCLES
    else:
        done = enter_queue(m, sm, sc, time, 1)
        size = peek(place + 8 * AT_BYTES)
        if stores:
            done = accept_store(m, sm, done)
            begin = read_store(m, sm, w, done, size)
        else:
            begin = max(done, m[u(sm + s.SM_BULK_FREE)])
            m[u(sm + s.SM_BULK_FREE)] = begin + max(m[u(s.H_BULK_INTERVAL)], size // m[u(s.H_BULK_BYTES)])
            done = begin
        number = m[u(sm + s.SM_BULKS)]
        m[u(sm + s.SM_BULKS)] = number + 1
        copy = sm + s.OFF_BULKS + number * BULK_WORDS
        for i in range(BULK_WORDS):
            m[u(copy + i)] = peek(place + 8 * i)
        new_request(m, sm, w, s.RQ_BULK, begin, copy, 0, 0)
    if barrier >= 0:
        hold(m, w, barrier, done, 0)
    if read_barrier >= 0:
        hold(m, w, read_barrier, done, 0)


@core
def accept_store(m: Any, sm: int, time: int) -> int:
    """When the engine takes another store: it has so many entries, and one is free when its bytes have been read."""
    before = m[u(sm + s.SM_BULK_STORES)] - m[u(s.H_BULK_STORE_ENTRIES)]
    if before < 0:
        return time
    return max(time, m[u(sm + s.OFF_BULK_STORE_ENDS + (before & (s.BULK_STORE_RING - 1)))])


@core
def read_store(m: Any, sm: int, w: int, time: int, size: int) -> int:
    """Read a store's bytes, one store after the other: gives when that begins.

    The warp's group of copies is over when they have been read, for ``wait_group`` as well as for ``wait_group.read``:
    a card does not wait until the bytes have been written.
    """
    begin = max(time, m[u(sm + s.SM_BULK_STORE_FREE)])
    over = begin + size // m[u(s.H_BULK_STORE_BYTES)]
    m[u(sm + s.SM_BULK_STORE_FREE)] = max(over, begin + m[u(s.H_BULK_STORE_INTERVAL)])
    number = m[u(sm + s.SM_BULK_STORES)]
    m[u(sm + s.OFF_BULK_STORE_ENDS + (number & (s.BULK_STORE_RING - 1)))] = over
    m[u(sm + s.SM_BULK_STORES)] = number + 1
    m[u(w + s.W_ASYNC_TIME)] = max(m[u(w + s.W_ASYNC_TIME)], over + m[u(s.H_BULK_STORE)])
    return begin


@core
def whole_sectors(sectors: int) -> int:
    """Bytes written of each sector, 16 bits each: all of them."""
    held = 0
    for i in range(4):
        if (sectors >> i) & 1:
            held |= 32 << (16 * i)
    return held


@core
def row_lines(m: Any, gpc: int, partition: int, address: int, size: int, time: int, rate: int, writes: bool) -> int:
    """Read or write the lines of neighbouring bytes, so many bytes a cycle; when the last is there."""
    ready = time
    line = address >> 7
    end = address + size
    n = 0
    while line << 7 < end:
        low = max(address - (line << 7), 0) >> 5
        high = (min(end - (line << 7), 128) + 31) >> 5
        sectors = ((1 << high) - 1) & ~((1 << low) - 1)
        late = time + n * 128 // rate
        if writes:
            ready = max(ready, write_line(m, partition, slice_of(m, line), line, sectors, whole_sectors(sectors), late))
        else:
            ready = max(ready, read_line(m, gpc, partition, slice_of(m, line), line, sectors, late))
        line += 1
        n += 1
    return ready


@core
def move(m: Any, partition: int, gpc: int, copy: int, time: int, writes: bool) -> int:
    """Every row of a copy through L2 from ``time`` on; when the last bytes are there."""
    address, row = m[u(copy + AT_ADDRESS)], m[u(copy + AT_ROW)]
    ready = time
    moved = 0
    rate = m[u(s.H_BULK_STORE_BYTES if writes else s.H_BULK_BYTES)]
    pairs = copy + AT_PAIRS
    for a in range(m[u(pairs + 6)]):
        for b in range(m[u(pairs + 4)]):
            for c in range(m[u(pairs + 2)]):
                for d in range(m[u(pairs)]):
                    at = address + a * m[u(pairs + 7)] + b * m[u(pairs + 5)] + c * m[u(pairs + 3)] + d * m[u(pairs + 1)]
                    late = time + moved // rate
                    ready = max(ready, row_lines(m, gpc, partition, at, row, late, rate, writes))
                    moved += row
    ports = m[u(s.H_GPC_WRITE_PORTS if writes else s.H_GPC_PORTS)] + gpc * s.CALENDAR_SLOTS
    capacity = m[u(s.H_GPC_WRITE_CAPACITY if writes else s.H_GPC_CAPACITY)]
    return reserve(m, ports, s.CALENDAR_SHIFT, capacity, ready, (moved + 31) >> 5)


@core
def serve_bulk(m: Any, sm: int, r: int, partition: int, gpc: int) -> int:
    """Carry out a copy in the serial phase; when its last bytes are there."""
    copy = m[u(r + s.R_LINE)]
    begin = m[u(r + s.R_TIME)]
    direction = (m[u(copy + AT_HEAD)] >> 32) & 3
    size = m[u(copy + AT_BYTES)]
    if direction == STORE:
        written = move(m, partition, gpc, copy, begin + m[u(s.H_TO_L2)], True)
        m[u(sm + s.SM_FINISH)] = max(m[u(sm + s.SM_FINISH)], written)
        return written
    if direction == WITHIN:
        sent = max(begin, m[u(sm + s.SM_REMOTE_FREE)]) + size // m[u(s.H_REMOTE_STORE_BYTES)]
        m[u(sm + s.SM_REMOTE_FREE)] = sent
        end = sent + m[u(s.H_REMOTE_LATENCY)]
    else:
        end = move(m, partition, gpc, copy, begin + m[u(s.H_TO_L2)], False) + m[u(s.H_FROM_L2)] + m[u(s.H_BULK_EXTRA)]
    offset = m[u(copy + AT_BARRIER)]
    if offset >= 0:
        ranks = m[u(copy + AT_RANKS)]
        for rank in range(16):
            member = peek(m[u(copy + AT_BLOCK)] + MEMBERS + 8 * rank) if (ranks >> rank) & 1 else 0
            if member:
                promise(m, slot_of(m, member)[0], end, peek(member + SHARED_BASE) + offset, size)
    m[u(sm + s.SM_FINISH)] = max(m[u(sm + s.SM_FINISH)], end)
    return end


@core
def promise(m: Any, sm: int, time: int, barrier: int, size: int) -> None:
    """Have an mbarrier of an SM told at ``time``; when too many are waiting, now."""
    count = m[u(sm + s.SM_TELLS)]
    if count == s.MAX_TELLS:
        complete_bytes(barrier, size)
        return
    place = sm + s.OFF_TELLS + 3 * count
    m[u(place)] = time
    m[u(place + 1)] = barrier
    m[u(place + 2)] = size
    m[u(sm + s.SM_TELLS)] = count + 1


@core
def complete_bytes(barrier: int, size: int) -> None:
    """The meaning of the atomic operation ``mbarrier`` for completed bytes (``isa/mbarrier.py``)."""
    word = peek(barrier)
    left = ((word >> BYTES_AT) - size) & BYTES_MASK
    pending = (word >> PENDING_AT) & COUNT_MASK
    expected = (word >> EXPECTED_AT) & COUNT_MASK
    phase = word & PHASE
    if pending == 0 and left == 0:
        phase ^= PHASE
        pending = expected
    poke(barrier, phase | pending << PENDING_AT | left << BYTES_AT | expected << EXPECTED_AT)


@core
def tell_until(m: Any, sm: int, time: int) -> None:
    """Tell the mbarriers of an SM's blocks of every copy that has arrived by ``time``."""
    count = m[u(sm + s.SM_TELLS)]
    kept = 0
    for i in range(count):
        place = sm + s.OFF_TELLS + 3 * i
        if m[u(place)] <= time:
            complete_bytes(m[u(place + 1)], m[u(place + 2)])
        else:
            to = sm + s.OFF_TELLS + 3 * kept
            for j in range(3):
                m[u(to + j)] = m[u(place + j)]
            kept += 1
    m[u(sm + s.SM_TELLS)] = kept
