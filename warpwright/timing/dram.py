"""DRAM channels: a data bus with burst time, open rows, read/write turnarounds and refresh.

Each L2 slice owns its channels.  A controller reorders its queue, so a request whose row is closed waits
for its bank and not for the bus; a channel opens rows only at a fixed interval, longer for writes (bench.micro ``scattered``:
64 bytes at random take as long as 110); writes wait in a queue, whose places are bursts or requests, and leave in batches,
each batch turning the bus around twice.  A batch is the whole queue, or all writes to the rows of the oldest ones.  Refresh takes the bus at fixed intervals.
Bus time is kept in 1/256 cycle.
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
def _written_units(m: Any, where: Place, state: s.Channel, count: int, time: int) -> int:
    """Bus time, in 1/256 cycle, of writing ``count`` sectors to a row, which is opened if it is not open."""
    opened = m[state.activations]
    _bank_ready(m, where, state, time)
    units = count * m[s.chip.dram_sector]
    if m[state.activations] != opened:
        units = max(units, m[s.chip.dram_activate_write])
    if m[s.chip.dram_group_column]:
        _group_bursts(m, where, time, count * m[s.chip.dram_group_column])
    return units


@core
def _queued(m: Any, channel: int, number: int) -> s.QueuedWrite:
    """A place in a channel's queue of writes, or among the writes that wait for room in it."""
    places = m[s.chip.dram_batch] * s.WAITING_WRITES
    return s.QueuedWrite(m[s.chip.dram_queues] + (channel * places + number) * s.QueuedWrite.size)


@core
def _take_row(m: Any, channel: int, first: int, end: int) -> int:
    """Take all writes to the row of a place of a channel's queue; returns their sectors."""
    row = m[_queued(m, channel, first).row]
    count = 0
    for number in range(first, end):
        write = _queued(m, channel, number)
        if m[write.row] == row:
            count += m[write.sectors]
            m[write.row] = -1
    return count


@core
def _leave_by_rows(m: Any, where: Place, state: s.Channel, time: int) -> int:
    """Take a batch from a channel's queue: the rows of its oldest writes, as many as a batch opens, with all writes to them (bench.machine.dram_turns).  Returns its bus time in 1/256 cycle.

    Where sets of L2 are crowded, only the oldest writes leave, whatever their rows (bench.machine.l2_policies ``set_asides`` on an H100: with 5, 7.5 and 10 million counters and 9 ways
    set aside a histogram takes 28, 25 and 18 % longer than with 8, with as many lines written; no mechanism is known).
    """
    channel = where.channel
    banks = m[s.chip.dram_bank_count]
    waiting = m[state.requests]
    end = min(waiting, m[s.chip.dram_batch])
    if m[s.chip.crowded]:
        end = min(end, m[s.chip.dram_batch_rows])
    rows = 0
    units = 0
    left = 0
    for number in range(waiting):
        write = _queued(m, channel, number)
        row = m[write.row]
        if row < 0:
            continue
        if rows < m[s.chip.dram_batch_rows] and number < end:
            rows += 1
            count = _take_row(m, channel, number, end)
            m[state.writes] -= count
            bank = row % banks
            opened = m[s.chip.dram_banks] + (channel * banks + bank) * 2
            units += _written_units(m, Place(channel, where.port, bank, opened, row // banks), state, count, time)
            continue
        place = _queued(m, channel, left)
        left += 1
        count = m[write.sectors]
        m[write.row] = -1
        m[place.row] = row
        m[place.sectors] = count
    m[state.requests] = left
    return units


@core
def _start_batch(m: Any, where: Place, state: s.Channel, time: int) -> None:
    """A batch of a full queue begins to leave."""
    if m[s.chip.dram_batch_rows]:
        waiting = m[state.requests]
        units = _leave_by_rows(m, where, state, time)
        m[state.left] = waiting - m[state.requests]
    else:
        units = m[state.queued]
        m[state.queued] = 0
        m[state.writes] = 0
        m[state.requests] = 0
        m[state.left] = m[s.chip.dram_batch]
    # Between batches without reads the bus need not turn around.
    units += m[state.read] * (m[s.chip.dram_read_to_write] + m[s.chip.dram_write_to_read])
    m[state.read] = 0
    start = reserve(m, where.port, s.DRAM_SHIFT, _CAPACITY, time, units)
    m[state.batch] = start
    m[state.written] = start + (units >> 8)


@core
def _catch_up(m: Any, where: Place, state: s.Channel, time: int) -> None:
    """Start the batches that begin before ``time``: each begins once the queue is full and the previous one has left, so reads that arrive meanwhile precede it."""
    while m[state.requests] >= m[s.chip.dram_batch] and m[state.written] <= time:
        _start_batch(m, where, state, max(m[state.written], m[state.full]))


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
    if m[s.chip.dram_batch_rows]:
        _catch_up(m, where, state, time)
    _refresh(m, where.port, state, time)
    units = count * m[s.chip.dram_sector]
    m[state.sectors_read] += count
    m[state.read] = 1
    opened = m[state.activations]
    ready = _bank_ready(m, where, state, time)
    taken = units if m[state.activations] == opened else max(units, m[s.chip.dram_activate_read])
    start = reserve(m, where.port, s.DRAM_SHIFT, _CAPACITY, time, taken)
    m[state.begun] = start
    if m[s.chip.dram_group_column]:
        in_group = count * m[s.chip.dram_group_column]
        start = max(start, _group_bursts(m, where, time, in_group))
        units = max(units, in_group)
    return max(start, ready) + (units >> 8) + m[s.chip.dram_latency]


@core
def read_begun(m: Any, piece: int, line: int) -> int:
    """When the channel of a slice's line begins the last read that it was asked for, in cycles; until then the read waits."""
    return m[s.Channel(m[s.chip.dram_state] + channel_of(m, piece, line) * s.Channel.size).begun]


@core
def hold_channel(m: Any, piece: int, line: int, time: int) -> int:
    """When an atomic that needs DRAM and reaches its slice at ``time`` goes on: not while its channel writes a batch, and until then no later access to the channel's lines does.

    An atomic whose own victim completes the batch goes on: its read precedes the write.
    (bench.machine.atomic_misses on an H200, ``dirty``: where one in 64, 32, 16, 8, 4 additions misses and replaces a dirty line, a channel takes 120, 62, 35, 22.5, 15 ns per miss, the
    time of the additions that hit plus 1/32 of a batch, less the time until the next miss; ``beside`` and ``others``: SMs that only hit lose as much as those that miss, and so do loads and stores.)
    """
    where = place_of(m, piece, line)
    state = s.Channel(m[s.chip.dram_state] + where.channel * s.Channel.size)
    if m[s.chip.dram_batch_rows]:
        _catch_up(m, where, state, time)
    if m[state.batch] < time < m[state.written]:
        time = m[state.written]
        m[state.held] = max(m[state.held], time)
    return time


@core
def channel_held(m: Any, piece: int, line: int) -> int:
    """Until when accesses to the lines of a line's channel wait at the slice because an atomic that needs DRAM does (``hold_channel``)."""
    return m[s.Channel(m[s.chip.dram_state] + channel_of(m, piece, line) * s.Channel.size).held]


@core
def _wait_by_rows(m: Any, where: Place, state: s.Channel, count: int, time: int) -> None:
    """Queue ``count`` sectors in a channel whose batches leave by rows."""
    _catch_up(m, where, state, time)
    waiting = m[state.requests]
    if waiting == m[s.chip.dram_batch] * s.WAITING_WRITES:
        _start_batch(m, where, state, m[state.written])
        waiting = m[state.requests]
    place = _queued(m, where.channel, waiting)
    m[place.row] = where.row * m[s.chip.dram_bank_count] + where.bank
    m[place.sectors] = count
    m[state.writes] += count
    m[state.requests] = waiting + 1
    if waiting + 1 == m[s.chip.dram_batch]:
        m[state.full] = time
    _catch_up(m, where, state, time)


@core
def queue_write(m: Any, piece: int, line: int, sectors: int, time: int) -> int:
    """Queue sectors for writing; a full queue starts a batch. Returns the channel's offset."""
    where = place_of(m, piece, line)
    state = s.Channel(m[s.chip.dram_state] + where.channel * s.Channel.size)
    count = popcount(sectors)
    if m[s.chip.compressible_count]:
        count = sectors_written(m, line, count)
    m[state.sectors_written] += count
    if m[s.chip.dram_batch_rows]:
        _wait_by_rows(m, where, state, count, time)
        return state
    m[state.queued] += _written_units(m, where, state, count, time)
    m[state.writes] += popcount(sectors)
    m[state.requests] += 1
    if (m[state.requests] if m[s.chip.dram_batch_requests] else m[state.writes]) >= m[s.chip.dram_batch]:
        _start_batch(m, where, state, time)
    return state


@core
def dram_write(m: Any, piece: int, line: int, sectors: int, time: int) -> int:
    """Queue sectors for writing. Returns the end of the last batch, in cycles."""
    state = s.Channel(queue_write(m, piece, line, sectors, time))
    return m[state.written]


@core
def write_back(m: Any, piece: int, line: int, sectors: int, time: int) -> int:
    """Queue sectors for writing. Returns when the queue has room for them, in cycles.

    While a batch drains, its places become free one by one, however long it takes (an H200's L2
    writes back single sectors of 21 billion lines per second, bench.machine.l2_policies ``histograms``; a batch of them opens a row for each).
    """
    state = s.Channel(queue_write(m, piece, line, sectors, time))
    queued = m[state.requests] if m[s.chip.dram_batch_requests] else m[state.writes]
    since = queued - m[s.chip.dram_batch] + m[state.left]
    return m[state.batch] + divide((m[state.written] - m[state.batch]) * max(since, 0), max(m[state.left], 1))
