"""DRAM channels: a data bus with burst time, open rows, read/write turnarounds and refresh.

Each L2 slice owns its channels.  A controller reorders what it has queued, so a request that finds its row closed waits
for its bank and not for the bus; a channel opens rows in a fixed interval only, longer for writes (bench.micro ``scattered``:
64 bytes at random take as long as 110); writes wait in a queue and leave in batches, each batch turning the bus
around twice; refresh takes the bus at fixed intervals.  Bus time is kept in 1/256 cycle.
Timing parameters: JEDEC's, in the chip file.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, divide, popcount, u
from warpwright.timing.address_hash import channel_of, unit_in_slice
from warpwright.timing.ports import reserve
from warpwright.timing.state import (
    CALENDAR_SLOTS,
    D_ACTIVATIONS,
    D_FIRST,
    D_QUEUED,
    D_READ,
    D_REFRESH,
    D_SECTORS_READ,
    D_SECTORS_WRITTEN,
    D_SLOTS,
    D_WRITES,
    D_WRITTEN,
    DRAM_SHIFT,
    GOLDEN,
    H_BANK_REFRESH,
    H_BANK_REFRESH_INTERVAL,
    H_CHANNELS_PER_SLICE,
    H_DRAM_ACTIVATE_READ,
    H_DRAM_ACTIVATE_WRITE,
    H_DRAM_BANK_COUNT,
    H_DRAM_BANKS,
    H_DRAM_BATCH,
    H_DRAM_LATENCY,
    H_DRAM_PORTS,
    H_DRAM_REFRESH,
    H_DRAM_REFRESH_INTERVAL,
    H_DRAM_ROW_CYCLE,
    H_DRAM_ROW_MISS,
    H_DRAM_ROW_UNITS,
    H_DRAM_SECTOR,
    H_DRAM_STATE,
    H_DRAM_TURNAROUND,
)

_CAPACITY = 256 << DRAM_SHIFT
POSTPONED_REFRESHES = 8
"""So many a controller may put off while requests wait (JEDEC), one bank each."""


@core
def _refresh(m: Any, port: int, state: int, time: int) -> None:
    """Take the refreshes that have come due from the bus."""
    due = time // m[u(H_DRAM_REFRESH_INTERVAL)]
    done = m[u(state + D_REFRESH)]
    if due > done:
        # Refreshes of a channel that was idle cost nothing any more.
        reserve(m, port, DRAM_SHIFT, _CAPACITY, due * m[u(H_DRAM_REFRESH_INTERVAL)], m[u(H_DRAM_REFRESH)])
        m[u(state + D_REFRESH)] = due


@core
def _bank_ready(m: Any, channel: int, state: int, line: int, time: int) -> int:
    """When the line's row is open: now, or after precharge and activation of its bank.

    A channel's units take its banks in turn.  Banks are refreshed one after the other, each closed for a while, the same ones in all channels
    (bench.micro ``bursts``, emptied caches: of loads of 16 or 32 KiB at once none wait, or most do, of 64 KiB and more about a fifth always).
    A channel that was idle postpones refreshes for its first requests (``bench/shapes``, an element a thread, 40 to 400 blocks: 16 of 18 launches take what they
    take without refresh, the others 400 cycles more).
    """
    unit = divide(unit_in_slice(m, line), m[u(H_CHANNELS_PER_SLICE)])
    banks = m[u(H_DRAM_BANK_COUNT)]
    turn = divide(unit, banks)
    bank = (unit + (((turn * GOLDEN) >> 48) & 0xFFFF)) % banks
    row = divide(turn, m[u(H_DRAM_ROW_UNITS)])
    place = m[u(H_DRAM_BANKS)] + (channel * banks + bank) * 2
    refresh = m[u(H_BANK_REFRESH)]
    if refresh:
        interval = m[u(H_BANK_REFRESH_INTERVAL)]
        if m[u(state + D_FIRST)] == 0:
            m[u(state + D_FIRST)] = time + 1
        since = (time + bank * interval // banks) % interval
        if since < refresh and time >= m[u(state + D_FIRST)] + POSTPONED_REFRESHES * interval // banks:
            time += refresh - since
            m[u(place)] = -1
    if m[u(place)] == row:
        m[u(place + 1)] = max(m[u(place + 1)], time)
        return time
    m[u(state + D_ACTIVATIONS)] += 1
    m[u(place)] = row
    start = max(time, m[u(place + 1)])
    m[u(place + 1)] = start + m[u(H_DRAM_ROW_CYCLE)]
    return start + m[u(H_DRAM_ROW_MISS)]


@core
def dram_read(m: Any, piece: int, line: int, sectors: int, time: int) -> int:
    """When the sectors (bit mask) of a line are in the slice that asked at ``time``."""
    channel = channel_of(m, piece, line)
    port = m[u(H_DRAM_PORTS)] + channel * CALENDAR_SLOTS
    state = m[u(H_DRAM_STATE)] + channel * D_SLOTS
    _refresh(m, port, state, time)
    units = popcount(sectors) * m[u(H_DRAM_SECTOR)]
    m[u(state + D_SECTORS_READ)] += popcount(sectors)
    m[u(state + D_READ)] = 1
    opened = m[u(state + D_ACTIVATIONS)]
    ready = _bank_ready(m, channel, state, line, time)
    taken = units if m[u(state + D_ACTIVATIONS)] == opened else max(units, m[u(H_DRAM_ACTIVATE_READ)])
    start = reserve(m, port, DRAM_SHIFT, _CAPACITY, time, taken)
    return max(start, ready) + (units >> 8) + m[u(H_DRAM_LATENCY)]


@core
def dram_write(m: Any, piece: int, line: int, sectors: int, time: int) -> int:
    """Queue sectors for writing; a full queue drains as one batch.  Gives the end of the last batch, in cycles."""
    channel = channel_of(m, piece, line)
    port = m[u(H_DRAM_PORTS)] + channel * CALENDAR_SLOTS
    state = m[u(H_DRAM_STATE)] + channel * D_SLOTS
    count = popcount(sectors)
    m[u(state + D_SECTORS_WRITTEN)] += count
    queued = m[u(state + D_WRITES)] + count
    opened = m[u(state + D_ACTIVATIONS)]
    _bank_ready(m, channel, state, line, time)
    units = count * m[u(H_DRAM_SECTOR)]
    if m[u(state + D_ACTIVATIONS)] != opened:
        units = max(units, m[u(H_DRAM_ACTIVATE_WRITE)])
    m[u(state + D_QUEUED)] += units
    if queued >= m[u(H_DRAM_BATCH)]:
        # Between batches without reads the bus need not turn around.
        units = m[u(state + D_QUEUED)] + m[u(state + D_READ)] * m[u(H_DRAM_TURNAROUND)]
        m[u(state + D_QUEUED)] = 0
        m[u(state + D_READ)] = 0
        start = reserve(m, port, DRAM_SHIFT, _CAPACITY, time, units)
        m[u(state + D_WRITTEN)] = start + (units >> 8)
        queued = 0
    m[u(state + D_WRITES)] = queued
    return m[u(state + D_WRITTEN)]
