"""DRAM channels: a data bus with burst time, open rows, read/write turnarounds and refresh.

Each L2 slice owns its channels.  A controller reorders its queue, so a request whose row is closed waits
for its bank and not for the bus; a channel opens rows only at a fixed interval, longer for writes (bench.micro ``scattered``:
64 bytes at random take as long as 110); writes wait in a queue, whose places are bursts or requests, and leave in batches,
each batch turning the bus around twice; refresh takes the bus at fixed intervals.  Bus time is kept in 1/256 cycle.
The timing rules are the rows of ``dram_rules.py``; their latencies are in the chip file.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from warpwright.native.intrinsics import core, divide, popcount
from warpwright.timing import state as s
from warpwright.timing.address_hash import bank_block, bank_of, channel_of
from warpwright.timing.compression import sectors_read, sectors_written
from warpwright.timing.ports import reserve

_CAPACITY = 256 << s.DRAM_SHIFT


@core
def _refresh(m: Any, port: int, state: s.Channel, time: int) -> None:
    """Take the time of due refreshes from the bus."""
    due = time // m[s.chip.dram_refresh_interval]
    done = m[state.refresh]
    if due > done:
        # Refreshes while a channel was idle cost nothing.
        reserve(m, port, s.DRAM_SHIFT, _CAPACITY, due * m[s.chip.dram_refresh_interval], m[s.chip.dram_refresh])
        m[state.refresh] = due


class Place(NamedTuple):
    """Where a line is in DRAM."""

    channel: int
    port: int
    """Offset of the channel's calendar."""
    bank: int
    opened: int
    """Offset of what is known of the bank: its open row, and when the next one can be opened."""
    row: int


@core
def place_of(m: Any, piece: int, line: int) -> Place:
    """The place of a line of a slice."""
    channel = channel_of(m, piece, line)
    port = m[s.chip.dram_ports] + channel * s.CALENDAR_SLOTS
    banks = m[s.chip.dram_bank_count]
    block = bank_block(m, line)
    bank = bank_of(m, block)
    opened = m[s.chip.dram_banks] + (channel * banks + bank) * 2
    return Place(channel, port, bank, opened, divide(block, banks * m[s.chip.dram_row_blocks]))


@core
def _bank_ready(m: Any, where: Place, state: s.Channel, time: int) -> int:
    """When a place's row is open: now, or after precharge and activation of its bank.

    Blocks of 16 KiB take the banks in turn.  Banks are refreshed one after the other, each closed for a while, the same ones in all channels
    (bench.micro ``bursts``, emptied caches: of loads of 16 or 32 KiB at once none wait, or most do, of 64 KiB and more about a fifth always).
    A channel that was idle postpones refreshes for its first requests (``bench/shapes``, an element per thread, 40 to 400 blocks: 16 of 18 launches take what they
    take without refresh, the others 400 cycles more).
    """
    channel, _, bank, place, row = where
    refresh = m[s.chip.bank_refresh]
    if refresh:
        banks = m[s.chip.dram_bank_count]
        interval = m[s.chip.bank_refresh_interval]
        if m[state.first] == 0:
            m[state.first] = time + 1
        since = (time + bank * interval // banks) % interval
        if since < refresh and time >= m[state.first] + m[s.chip.postponed_refreshes] * interval // banks:
            time += refresh - since
            m[place] = -1
    if m[place] == row:
        m[place + 1] = max(m[place + 1], time)
        return time
    m[state.activations] += 1
    m[place] = row
    start = max(time, m[place + 1])
    if m[s.chip.dram_group_activate]:
        opens = m[s.chip.dram_group_openings] + _group(m, channel, bank) * s.CALENDAR_SLOTS
        start = reserve(m, opens, s.DRAM_SHIFT, _CAPACITY, start, m[s.chip.dram_group_activate])
    if m[s.chip.dram_activate_interval]:
        openings = m[s.chip.dram_openings] + channel * s.CALENDAR_SLOTS
        start = reserve(m, openings, s.DRAM_SHIFT, _CAPACITY, start, m[s.chip.dram_activate_interval])
    m[place + 1] = start + m[s.chip.dram_row_cycle]
    return start + m[s.chip.dram_row_miss]


@core
def _group(m: Any, channel: int, bank: int) -> int:
    """The number of a bank's group among those of all channels: consecutive banks are in different groups."""
    groups = m[s.chip.dram_groups]
    return channel * groups + bank % groups


@core
def _group_bursts(m: Any, where: Place, time: int, takes: int) -> int:
    """Take the time of bursts from the bank group of a place; returns their start."""
    columns = m[s.chip.dram_group_columns] + _group(m, where.channel, where.bank) * s.CALENDAR_SLOTS
    return reserve(m, columns, s.DRAM_SHIFT, _CAPACITY, time, takes)


@core
def dram_read(m: Any, piece: int, line: int, sectors: int, time: int) -> int:
    """When the sectors (bit mask) of a line are in the slice that requested them at ``time``."""
    count = popcount(sectors)
    if m[s.chip.compressible_count]:
        count = sectors_read(m, line, count)
    return read_at(m, place_of(m, piece, line), count, time)


@core
def read_at(m: Any, where: Place, count: int, time: int) -> int:
    """The same for ``count`` sectors that are at a place."""
    state = s.Channel(m[s.chip.dram_state] + where.channel * s.Channel.size)
    _refresh(m, where.port, state, time)
    units = count * m[s.chip.dram_sector]
    m[state.sectors_read] += count
    m[state.read] = 1
    opened = m[state.activations]
    ready = _bank_ready(m, where, state, time)
    taken = units if m[state.activations] == opened else max(units, m[s.chip.dram_activate_read])
    start = reserve(m, where.port, s.DRAM_SHIFT, _CAPACITY, time, taken)
    if m[s.chip.dram_group_column]:
        in_group = count * m[s.chip.dram_group_column]
        start = max(start, _group_bursts(m, where, time, in_group))
        units = max(units, in_group)
    return max(start, ready) + (units >> 8) + m[s.chip.dram_latency]


@core
def queue_write(m: Any, piece: int, line: int, sectors: int, time: int) -> int:
    """Queue sectors for writing; a full queue drains as one batch. Returns the channel's offset."""
    where = place_of(m, piece, line)
    state = s.Channel(m[s.chip.dram_state] + where.channel * s.Channel.size)
    count = popcount(sectors)
    if m[s.chip.compressible_count]:
        count = sectors_written(m, line, count)
    m[state.sectors_written] += count
    sectors_queued = m[state.writes] + popcount(sectors)
    requests = m[state.requests] + 1
    opened = m[state.activations]
    _bank_ready(m, where, state, time)
    units = count * m[s.chip.dram_sector]
    if m[state.activations] != opened:
        units = max(units, m[s.chip.dram_activate_write])
    if m[s.chip.dram_group_column]:
        _group_bursts(m, where, time, count * m[s.chip.dram_group_column])
    m[state.queued] += units
    if (requests if m[s.chip.dram_batch_requests] else sectors_queued) >= m[s.chip.dram_batch]:
        # Between batches without reads the bus need not turn around.
        turnaround = m[s.chip.dram_read_to_write] + m[s.chip.dram_write_to_read]
        units = m[state.queued] + m[state.read] * turnaround
        m[state.queued] = 0
        m[state.read] = 0
        start = reserve(m, where.port, s.DRAM_SHIFT, _CAPACITY, time, units)
        m[state.batch] = start
        m[state.written] = start + (units >> 8)
        sectors_queued = 0
        requests = 0
    m[state.writes] = sectors_queued
    m[state.requests] = requests
    return state


@core
def dram_write(m: Any, piece: int, line: int, sectors: int, time: int) -> int:
    """Queue sectors for writing. Returns the end of the last batch, in cycles."""
    state = s.Channel(queue_write(m, piece, line, sectors, time))
    return m[state.written]


@core
def write_back(m: Any, piece: int, line: int, sectors: int, time: int) -> int:
    """Queue sectors for writing. Returns when the queue has room for them, in cycles.

    The queue holds one batch.  While a batch drains, its entries become free one by one for the next batch, however long the batch takes (an H200's L2
    writes back single sectors of 21 billion lines per second, bench.machine.l2_policies ``histograms``; a batch of them opens a row for each).
    """
    state = s.Channel(queue_write(m, piece, line, sectors, time))
    queued = m[state.requests] if m[s.chip.dram_batch_requests] else m[state.writes]
    drains = m[state.written] - m[state.batch]
    return m[state.batch] + divide(drains * queued, m[s.chip.dram_batch])
