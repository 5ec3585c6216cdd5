"""Bulk copies in simulated time: one engine per SM, which bypasses registers and L1.

A copy is issued by one instruction and described by one record (``engine/abi.py``).  The SM's engine begins one in a fixed
interval and moves a fixed number of bytes per cycle; its lines are read from or written to L2 in the serial phase, with everything else
that happens there.  A load takes the path of a register load to L2 and back without L1, plus the engine's own time.  When the last bytes are in shared memory,
the mbarrier is updated; waiting
threads see this at their next poll (measured on an H200: ``bench/micro/hopper.cu``).
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import BLOCK, BULK_WORDS
from warpwright.isa import mbarrier as mb
from warpwright.isa.bulk import DIRECTIONS
from warpwright.native.intrinsics import core, peek, poke
from warpwright.timing import state as s
from warpwright.timing.access_policy import in_window
from warpwright.timing.address_hash import slice_of
from warpwright.timing.clusters import slot_of
from warpwright.timing.dependence_counters import hold
from warpwright.timing.l1 import complete_by
from warpwright.timing.l2 import counters
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

MEMBERS, SHARED_BASE = BLOCK["cluster_blocks"], BLOCK["shared_base"]
LOAD, STORE, WITHIN = (DIRECTIONS.index(name) for name in ("load", "store", "within"))
COUNT_MASK, BYTES_MASK = mb.COUNT_MASK, mb.BYTES_MASK
PENDING_AT, BYTES_AT, EXPECTED_AT, COUNT_BITS = mb.PENDING_AT, mb.BYTES_AT, mb.EXPECTED_AT, mb.COUNT_BITS
PHASE = -(1 << 63)


@core
def has_room(m: Any, sm: s.SM) -> bool:
    """Whether another copy can be issued in this window."""
    return m[sm.bulks] < s.MAX_BULKS


@core
def start_bulk(m: Any, code: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, row: s.Instruction, time: int) -> None:
    """Issue a copy whose record is there."""
    place = m[w.trace] + m[w.pos] * 8
    m[w.pos] += BULK_WORDS
    head = peek(place)
    stores = (head >> 32) & 3 == STORE
    barrier = code[row.write_barrier]
    read_barrier = code[row.read_barrier]
    if head & 0xFFFFFFFF == 0:
        done = enter_queue(m, sm, sc, time, 0) + m[s.chip.inactive_access]
    else:
        done = enter_queue(m, sm, sc, time, 1)
        size = peek(place + 8 * AT_BYTES)
        if stores:
            done = accept_store(m, sm, done)
            begin = read_store(m, sm, w, done, size)
        else:
            begin = max(done, m[sm.bulk_free])
            m[sm.bulk_free] = begin + max(m[s.chip.bulk_interval], size // m[s.chip.bulk_bytes])
            done = begin
        number = m[sm.bulks]
        m[sm.bulks] = number + 1
        copy = sm.bulk_records[number * BULK_WORDS]
        for i in range(BULK_WORDS):
            m[copy + i] = peek(place + 8 * i)
        new_request(m, sm, w, s.RQ_BULK, begin, copy, 0, 0)
    if barrier >= 0:
        hold(m, w, barrier, done, 0)
    if read_barrier >= 0:
        hold(m, w, read_barrier, done, 0)


@core
def accept_store(m: Any, sm: s.SM, time: int) -> int:
    """When the engine accepts another store: an entry becomes free when its bytes have been read."""
    before = m[sm.bulk_stores] - m[s.chip.bulk_store_entries]
    if before < 0:
        return time
    return max(time, m[sm.bulk_store_ends[before & (s.BULK_STORE_RING - 1)]])


@core
def read_store(m: Any, sm: s.SM, w: s.Warp, time: int, size: int) -> int:
    """Read a store's bytes, one store after the other; returns when that begins.

    The warp's group of copies is over when they have been read, for ``wait_group`` as well as for ``wait_group.read``:
    a card does not wait until the bytes have been written.
    """
    begin = max(time, m[sm.bulk_store_free])
    over = begin + size // m[s.chip.bulk_store_bytes]
    m[sm.bulk_store_free] = max(over, begin + m[s.chip.bulk_store_interval])
    number = m[sm.bulk_stores]
    m[sm.bulk_store_ends[number & (s.BULK_STORE_RING - 1)]] = over
    m[sm.bulk_stores] = number + 1
    m[w.async_time] = max(m[w.async_time], over + m[s.chip.bulk_store])
    return begin


@core
def whole_sectors(m: Any, sectors: int) -> int:
    """Bytes written of each sector, 16 bits per sector: all of them."""
    held = 0
    for i in range(4):
        if (sectors >> i) & 1:
            held |= m[s.chip.sector_bytes] << (16 * i)
    return held


@core
def row_lines(m: Any, gpc: int, partition: int, address: int, size: int, time: int, rate: int, writes: bool) -> int:
    """Read or write the lines of consecutive bytes at the engine's rate; returns when the last one has arrived."""
    ready = time
    shift = m[s.chip.line_shift]
    sector_shift = m[s.chip.sector_shift]
    line = address >> shift
    end = address + size
    n = 0
    while line << shift < end:
        low = max(address - (line << shift), 0) >> sector_shift
        high = (min(end - (line << shift), m[s.chip.line_bytes]) + m[s.chip.sector_bytes] - 1) >> sector_shift
        sectors = ((1 << high) - 1) & ~((1 << low) - 1)
        late = time + (n << shift) // rate
        if m[s.chip.policies]:
            m[counters(m, slice_of(m, line)).policy] = in_window(m, s.Kernel(m[s.chip.serving]), line)
        if writes:
            ready = max(
                ready, write_line(m, partition, slice_of(m, line), line, sectors, whole_sectors(m, sectors), late)
            )
        else:
            ready = max(ready, read_line(m, gpc, partition, slice_of(m, line), line, sectors, late))
        line += 1
        n += 1
    return ready


@core
def move(m: Any, index: int, copy: int, time: int, writes: bool) -> int:
    """Move every row of a copy of SM ``index`` through L2, beginning at ``time``; returns when the last bytes have arrived."""
    gpc, partition = m[m[s.chip.gpc_of_sm] + index], m[m[s.chip.partition_of_sm] + index]
    address, row = m[copy + AT_ADDRESS], m[copy + AT_ROW]
    ready = time
    moved = 0
    rate = m[s.chip.bulk_store_bytes if writes else s.chip.bulk_bytes]
    pairs = copy + AT_PAIRS
    for a in range(m[pairs + 6]):
        for b in range(m[pairs + 4]):
            for c in range(m[pairs + 2]):
                for d in range(m[pairs]):
                    at = address + a * m[pairs + 7] + b * m[pairs + 5] + c * m[pairs + 3] + d * m[pairs + 1]
                    late = time + moved // rate
                    ready = max(ready, row_lines(m, gpc, partition, at, row, late, rate, writes))
                    moved += row
    sectors = (moved + m[s.chip.sector_bytes] - 1) >> m[s.chip.sector_shift]
    if writes:
        port = m[m[s.chip.store_port_of_sm] + index]
        return reserve(m, port, s.CALENDAR_SHIFT, m[s.chip.store_port_capacity], ready, sectors)
    ports = m[s.chip.gpc_ports] + gpc * s.CALENDAR_SLOTS
    return reserve(m, ports, s.CALENDAR_SHIFT, m[s.chip.gpc_capacity], ready, sectors)


@core
def serve_bulk(m: Any, sm: s.SM, r: s.Request) -> int:
    """Execute a copy in the serial phase; returns when its last bytes have arrived."""
    copy = m[r.line]
    begin = m[r.time]
    m[s.chip.serving] = m[sm.blocks[m[s.Warp(m[r.warp]).block]].kernel]
    direction = (m[copy + AT_HEAD] >> 32) & 3
    size = m[copy + AT_BYTES]
    if direction == STORE:
        written = move(m, m[sm.index], copy, begin + m[s.chip.to_l2], True)
        complete_by(m, sm, written)
        return written
    if direction == WITHIN:
        sent = max(begin, m[sm.remote_free]) + size // m[s.chip.remote_store_bytes]
        m[sm.remote_free] = sent
        end = sent + m[s.chip.remote_latency]
    else:
        end = move(m, m[sm.index], copy, begin + m[s.chip.bulk_to_l2], False) + m[s.chip.bulk_from_l2]
    offset = m[copy + AT_BARRIER]
    if offset >= 0:
        ranks = m[copy + AT_RANKS]
        for rank in range(16):
            member = peek(m[copy + AT_BLOCK] + MEMBERS + 8 * rank) if (ranks >> rank) & 1 else 0
            if member:
                # Looks and arrivals act here when they issue, in the SM when they have passed the queue: the bytes come as much earlier.
                told = end - m[s.chip.mio_latency]
                promise(m, s.SM(slot_of(m, member)[0]), told, peek(member + SHARED_BASE) + offset, size)
    m[sm.finish] = max(m[sm.finish], end)
    return end


@core
def promise(m: Any, sm: s.SM, time: int, barrier: int, size: int) -> None:
    """Schedule an update of an SM's mbarrier at ``time``; if too many are waiting, update it now."""
    count = m[sm.tells]
    if count == s.MAX_TELLS:
        complete_bytes(barrier, size)
        return
    place = sm.tell_records[3 * count]
    m[place] = time
    m[place + 1] = barrier
    m[place + 2] = size
    m[sm.tells] = count + 1


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
def tell_until(m: Any, sm: s.SM, time: int) -> None:
    """Update the mbarriers of an SM's blocks for every copy that has arrived by ``time``."""
    count = m[sm.tells]
    kept = 0
    for i in range(count):
        place = sm.tell_records[3 * i]
        if m[place] <= time:
            complete_bytes(m[place + 1], m[place + 2])
        else:
            to = sm.tell_records[3 * kept]
            for j in range(3):
                m[to + j] = m[place + j]
            kept += 1
    m[sm.tells] = kept
