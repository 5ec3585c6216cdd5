"""Loads and writes of one line at a slice: a read waits for the write before it, and all that come to the slice behind it wait with it.

A slice takes what the SMs of its partition ask in turn.  What is written must be there before it is read, and that takes a while: 264 warps of an
H200 that load a word take 329 cycles a load, and 4,450 beside 66 warps of the same partition that each write to its line once in 2,000 cycles, whichever of its
sectors; the slice then does one load in 17 cycles, and each one behind a write takes 45 (bench.micro ``crossfire``).  The slice of the SM's own partition that
only passes a write on orders it all the same.

Where requests wait, those of many SMs are mixed, whichever came first: a read is behind a write as often as writes are among the line's accesses.

At the home, what comes from its own SMs and what comes over the link wait for each other where a write is the one before; what comes over
the link does not hold the slice's own SMs up otherwise.

What blocks that are not timed ask for beside timed ones comes at moments drawn within a window (``background.py``), in no order of time: it orders nothing, and
nothing waits for it here.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core
from warpwright.timing import state as s

NEAR, FAR = 0, 1
FRACTION = 8
"""Bits of a queue's time behind the cycle, and of a share."""


@core
def queue_of(m: Any, piece: int) -> s.SliceQueue:
    """A slice's queue: until when it is held up; then the last writes of some lines."""
    return s.SliceQueue(m[s.chip.slice_queues] + piece * s.SliceQueue.size)


@core
def entry_of(queue: s.SliceQueue, line: int) -> s.LastWrite:
    """Where a slice keeps the last write of a line (``LastWrite``)."""
    return queue.writes[(line ^ (line >> 3)) & (s.LAST_WRITES - 1)]


@core
def keep(m: Any, entry: s.LastWrite, line: int, start: int, reads: int, side: int) -> None:
    """The last write of a line began at ``start``; reads wait so many cycles for it."""
    share = m[entry.share] if m[entry.line] == line + 1 else 0
    m[entry.line] = line + 1
    m[entry.start] = start
    m[entry.reads] = reads
    m[entry.side] = side
    m[entry.share] = share + (((256 << FRACTION) - share) >> m[s.chip.write_history_shift])


@core
def read_turn(m: Any, piece: int, line: int, time: int) -> int:
    """When a slice takes a read of its own SMs that comes at ``time``."""
    if m[s.chip.unordered]:
        return time
    queue = queue_of(m, piece)
    entry = entry_of(queue, line)
    free = m[queue]
    start = max(time, free >> FRACTION)
    if m[entry] != line + 1:
        return start
    share = m[entry.share]
    m[entry.share] = share - (share >> m[s.chip.write_history_shift])
    reads = m[entry.reads]
    wrote = m[entry.start]
    if free >> FRACTION > time:
        free += (reads * share) >> 8
    elif wrote <= time < wrote + reads:
        free = (wrote + reads) << FRACTION
    else:
        return start
    m[queue] = free
    return free >> FRACTION


@core
def write_turn(m: Any, piece: int, line: int, time: int, reads: int) -> int:
    """When a slice takes a write or atomic of its own SMs that comes at ``time``; reads of the line wait so many cycles for it."""
    if m[s.chip.unordered]:
        return time
    queue = queue_of(m, piece)
    entry = entry_of(queue, line)
    free = m[queue] >> FRACTION
    start = max(time, free)
    if m[entry] == line + 1 and m[entry.side] == FAR and (m[entry.start] <= start or free > time):
        comes = start
        start = max(comes, m[entry.start] + m[s.chip.other_side])
        if start > comes:
            m[queue] = start << FRACTION
    keep(m, entry, line, start, reads, NEAR)
    return start


@core
def write_from_afar(m: Any, piece: int, line: int, time: int) -> int:
    """When the home takes a write that comes over the link at ``time``."""
    if m[s.chip.unordered]:
        return time
    entry = entry_of(queue_of(m, piece), line)
    start = time
    if m[entry] == line + 1 and m[entry.side] == NEAR:
        start = max(time, m[entry.start] + m[s.chip.other_side])
    keep(m, entry, line, start, m[s.chip.other_side], FAR)
    return start
