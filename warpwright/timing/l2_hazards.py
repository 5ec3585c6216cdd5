"""Hazards at an L2 slice: a read waits for an earlier write of its line, and later requests of the slice wait with it.

A slice processes the requests of its partition's SMs in turn. Written data must have arrived before it is read: 264 warps of an H200 that load a word take 329
cycles per load, and 4,400 if 66 warps of the same partition each write to any sector of its line once in 2,000 cycles; each read after a write takes 64 cycles
(bench.micro ``crossfire``).  A slice of the SM's own partition that only forwards a write orders it as well.
Writes do not wait for reads.

Waiting requests of many SMs are mixed, whatever their order of arrival: a read follows a write with a probability equal to the share of writes among the line's accesses.

At the home, writes of its own SMs and writes over the link wait for each other, and a read waits for both.

Requests of untimed blocks arrive at random times within a window (``background.py``), in no order of time, so they are not ordered here, and nothing waits for them.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core
from warpwright.timing import state as s
from warpwright.timing.address_hash import known_as

NEAR, FAR = 0, 1
FRACTION = 8
"""Bits of a queue's time after the cycle, and of a share."""


@core
def queue_of(m: Any, piece: int) -> s.SliceQueue:
    """A slice's queue: the time until which it is held up, then the last writes of some lines."""
    return s.SliceQueue(m[s.chip.slice_queues] + piece * s.SliceQueue.size)


@core
def entry_of(m: Any, queue: s.SliceQueue, line: int) -> s.LastWrite:
    """Offset of a slice's record of the last write of a line (``LastWrite``)."""
    line = known_as(m, line)
    return queue.writes[(line ^ (line >> 3)) & (s.LAST_WRITES - 1)]


@core
def atomics_on(m: Any, home: int, line: int) -> s.LineAtomics:
    """Offset of a home's record of the atomics on a line; another line may occupy it."""
    line = known_as(m, line)
    return queue_of(m, home).atomics[(line ^ (line >> 3)) & (s.LAST_WRITES - 1)]


@core
def after_atomics(m: Any, home: int, line: int, time: int) -> int:
    """When a read from the other side that reaches a line's home at ``time`` is accepted: after the atomics from that side, and not while the line waits.

    Requests of each side have their own queue: reads from the other side do not wait for atomics of the home's side (bench.micro ``beside``: 564 cycles beside 528 warps
    that wait 1,525 cycles for each addition; for those of their own side, 914 and 1,016).
    """
    entry = atomics_on(m, home, line)
    if m[entry] != line + 1 or m[s.chip.unordered]:
        return time
    time = max(time, max(m[entry.held], m[entry.far]))
    m[entry.read] = time
    return time


@core
def lent_and_back(m: Any, home: int, line: int, time: int) -> bool:
    """Whether atomics of the home's side wait when a read from the other side takes a copy at ``time``: the next of them requests it back at once."""
    entry = atomics_on(m, home, line)
    if m[entry] != line + 1 or m[entry.near] <= time or m[s.chip.unordered]:
        return False
    m[entry.leaves] = time + m[s.chip.far_latency]
    m[entry.near] += m[s.chip.far_latency]
    return True


@core
def note_access(m: Any, entry: s.LineAtomics, atomic: bool, time: int) -> None:
    """Update the share of atomics among a line's last accesses: among more of them while a queue waits for the line, because it mixes accesses of many SMs.

    (bench.machine.fences_among_polls on H200: barriers of 8 and 16 blocks of a warp on each SM without fences take 5.4 cycles per block, and 2.6 and 2.8 where the first poll waits
    for its addition; with 32 accesses, the model takes 5.0 and 4.8.)
    """
    share = m[entry.share]
    queued = (m[entry.free] >> FRACTION) > time + m[s.chip.queued_history_from]
    shift = m[s.chip.queued_history_shift if queued else s.chip.write_history_shift]
    if atomic:
        m[entry.share] = share + (((256 << FRACTION) - share) >> shift)
    else:
        m[entry.share] = share - (share >> shift)


@core
def turn_units(m: Any, home: int, line: int, time: int, side: int) -> int:
    """What a read from a side takes of the port that a line's atomics wait for; 0 where no atomics wait that it waits for or takes turns with, unless the chip's
    reads pass there in any case.

    A read that comes after an atomic takes longer, and requests of many SMs are mixed: it comes after one as often as atomics are among the line's accesses,
    beyond the few that the
    reads hide and up to a most (bench.micro ``looks_among``: where atomics are 0.09, 0.18, 0.31, 0.48, 0.65, 0.78 of the accesses near the home, each read
    takes 1.1, 1.4, 2.0, 2.8, 3.4, 3.6 cycles; where
    both sides read and add 1.1, 1.5, 2.2, 2.6, 3.2, 3.8).
    """
    entry = atomics_on(m, home, line)
    if m[entry] != line + 1 or m[s.chip.unordered]:
        return 0
    note_access(m, entry, False, time)
    least = m[s.chip.atomic_line_read]
    wait = m[entry.far] if side == FAR else max(m[entry.near], m[entry.far])
    if wait <= time:
        return least
    more = share_beyond(m, entry, m[s.chip.read_after_atomic])
    return max(m[s.chip.l2_access] + min(more, m[s.chip.read_after_atomics_most]), least)


@core
def take_line(m: Any, entry: s.LineAtomics, time: int, units: int) -> int:
    """When a request that takes some of a slice's bandwidth has its turn on a line that atomics change; times have a fraction.

    Those that wait for the line do not hold up other lines of the slice (bench.machine.barriers: barriers of 2,112 and 4,224 blocks take 300 to 1,500 cycles more where
    each block also has 128 bytes of stack, which are in all slices, than where it has none; each of two turns behind all looks would take 6,000 to 12,000).
    """
    start = max(time, m[entry.free])
    m[entry.free] = start + ((units << s.CALENDAR_SHIFT) << FRACTION) // m[s.chip.slice_capacity]
    return start


@core
def share_of(m: Any, entry: s.LineAtomics, amount: int) -> int:
    """The part of an amount that is the atomics' share of a line's accesses."""
    return (amount * m[entry.share]) >> (8 + FRACTION)


@core
def share_beyond(m: Any, entry: s.LineAtomics, amount: int) -> int:
    """The same of the share that reads do not hide."""
    return (amount * max(m[entry.share] - m[s.chip.hidden_share], 0)) >> (8 + FRACTION)


@core
def turn_between(m: Any, home: int, line: int, time: int, units: int) -> int:
    """When a read of the home's side, of so many units, has its turn at a port for which only atomics from the other side wait; -1 where some of its own side do, or none.

    The two sides take turns (bench.micro ``looks_among``: 528 warps read 0.287 times a cycle near the home where 528 of the other side add 0.271 times; where
    66 read, each read
    takes 387 cycles and each addition 1,027).
    """
    entry = atomics_on(m, home, line)
    if m[entry.near] > time or m[entry.far] <= time:
        return -1
    start = max(time << FRACTION, m[entry.turn])
    both = (units + m[s.chip.atomic_part]) << s.CALENDAR_SHIFT
    m[entry.turn] = start + (both << FRACTION) // m[s.chip.slice_capacity]
    return start >> FRACTION


@core
def copy_left(m: Any, home: int, line: int, time: int) -> bool:
    """Whether the other side's copy of a line is gone at ``time``, as an atomic near the home requested; returned once."""
    entry = atomics_on(m, home, line)
    if m[entry] != line + 1 or m[entry.leaves] == 0 or m[entry.leaves] > time:
        return False
    m[entry.leaves] = 0
    return True


@core
def is_pair(m: Any, piece: int, home: int, line: int, time: int) -> bool:
    """Whether a strong load of the device's scope goes with the one before: a slice answers two of them at once.

    (bench.micro ``crowded_looks``: 0.27 cycles each over the chip, of the system's scope 0.53.)  After an atomic on the line none do for long (``beside``:
    0.87 a cycle of a
    side beside an atomic in 30 cycles, 1.25 without; ``wakes``).
    """
    queue = queue_of(m, piece)
    before = m[queue.looked]
    m[queue.looked] = line + 1
    entry = atomics_on(m, home, line)
    return before == line + 1 and (
        m[entry] != line + 1 or time >= max(m[entry.near], m[entry.far]) + m[s.chip.single_looks]
    )


@core
def keep(m: Any, entry: s.LastWrite, line: int, start: int, side: int) -> None:
    """Record that the last write of a line began at ``start``."""
    if m[entry.line] != line + 1:
        m[entry.line] = line + 1
        m[entry.reads] = 0
        m[entry.share] = 0
        m[entry.far_share] = 0
    m[entry.start] = start
    m[entry.side] = side
    shares = entry.far_share if side == FAR else entry.share
    m[shares] += ((256 << FRACTION) - m[shares]) >> m[s.chip.write_history_shift]


@core
def read_turn(m: Any, piece: int, line: int, time: int, waits: int) -> int:
    """When a slice accepts a read that arrives at ``time``; a read after a store of its own SMs takes ``waits`` cycles, one after an atomic as many as ``turn_units`` returns.

    It waits for what its own SMs wrote before and for what came over the link, and takes its own time (bench.micro ``hot_sides``: loads and stores of one side to
    one line).  Those over the link are noted before they come, so that only their share counts.
    """
    if m[s.chip.unordered]:
        return time
    queue = queue_of(m, piece)
    entry = entry_of(m, queue, line)
    free = m[queue]
    start = max(time, free >> FRACTION)
    if m[entry] != line + 1:
        return start
    share = m[entry.share]
    far_share = m[entry.far_share]
    m[entry.share] = share - (share >> m[s.chip.write_history_shift])
    m[entry.far_share] = far_share - (far_share >> m[s.chip.write_history_shift])
    if share + far_share < m[s.chip.least_written]:
        return start
    reads = waits if m[entry.reads] else 0
    wrote = m[entry.start]
    after = (m[s.chip.other_side] * far_share) >> 8
    own = m[s.chip.read_among_writes] if reads or far_share >= m[s.chip.least_written] else 0
    if free >> FRACTION > time:
        free += (reads * share) >> 8
    elif m[entry.side] == NEAR and wrote <= time < wrote + reads:
        free = (wrote + reads) << FRACTION
    elif after or own:
        free = max(free, time << FRACTION)
    else:
        return start
    m[queue] = free + after + own
    return (free + after) >> FRACTION


@core
def pass_beside(m: Any, home: int) -> None:
    """Pass a read from the other side through the home, independently of reads that wait for a line's writes.

    It does not wait for writes of the home's side, but takes its own time of the queue in which reads of that side wait (``hot_sides``: 0.39 loads per cycle
    beside stores in
    139 and in 333 cycles; for each store 54 and 129 of them pass and 4 and 31 loads of the home's side).
    """
    queue = queue_of(m, home)
    m[queue] += m[s.chip.read_among_writes]


@core
def remembers_writes(m: Any, piece: int, line: int) -> bool:
    """Whether a slice remembers writes of its own SMs or to its home, however old."""
    return m[entry_of(m, queue_of(m, piece), line)] == line + 1


@core
def is_being_written(m: Any, home: int, line: int) -> bool:
    """Whether SMs of a line's own side store to it now and then, as its home remembers; atomics have rules of their own."""
    entry = entry_of(m, queue_of(m, home), line)
    return (
        m[entry] == line + 1
        and m[entry.reads] > 0
        and m[entry.share] >= m[s.chip.least_written]
        and not m[s.chip.unordered]
    )


@core
def change_sides(m: Any, queue: s.SliceQueue, entry: s.LastWrite, line: int, time: int, side: int) -> int:
    """When a home accepts a write of a side that arrives at ``time``: with a delay after a write of the other side to the line; all reads of the slice wait equally long.

    (``crossfire_sides``: near loads of another line of the slice pass 0.62, 0.07, 0.02 times a cycle beside 0.07, 0.14, 0.27 stores, of which every second one
    is of the other side.)
    """
    if m[entry] != line + 1 or m[entry.side] == side:
        return time
    end = m[entry.start] + m[s.chip.other_side]
    if end <= time:
        return time
    m[queue] = max(m[queue], time << FRACTION) + (min(end - time, m[s.chip.other_side]) << FRACTION)
    return end if m[entry.start] <= time else time


@core
def write_turn(m: Any, piece: int, line: int, time: int, reads: int) -> int:
    """When a slice accepts a write or atomic of its own SMs that arrives at ``time``; reads of the line wait a number of cycles for it.

    Writes do not wait for reads (``crossfire``: 0.38 a cycle of each side are taken beside loads that wait 13,000 and 26,000 cycles).
    """
    if m[s.chip.unordered]:
        return time
    queue = queue_of(m, piece)
    entry = entry_of(m, queue, line)
    start = change_sides(m, queue, entry, line, time, NEAR)
    keep(m, entry, line, start, NEAR)
    m[entry.reads] = reads
    return start


@core
def write_from_afar(m: Any, piece: int, line: int, time: int) -> int:
    """When the home accepts a write that arrives over the link at ``time``."""
    if m[s.chip.unordered]:
        return time
    queue = queue_of(m, piece)
    entry = entry_of(m, queue, line)
    start = change_sides(m, queue, entry, line, time, FAR)
    keep(m, entry, line, start, FAR)
    return start
