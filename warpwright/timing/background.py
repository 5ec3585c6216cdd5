"""L2 and DRAM accesses of the blocks without timing that accompany a sampled launch's timed blocks.

The timed part of the chip has all of L2 and DRAM, and shares them with the blocks that run without timing.  Each of their accesses occupies
slices, links and channels like an SM's, at a random time in its window.  The share of sectors that their L1s and store buffers
would keep from L2 is taken from the timed SMs.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import HERE
from warpwright.native.intrinsics import core, peek, poke, popcount
from warpwright.timing import state as s
from warpwright.timing.access_policy import in_window
from warpwright.timing.address_hash import slice_of
from warpwright.timing.l2 import counterpart, counters, find, is_far, used, used_copy, written
from warpwright.timing.links import ALONE, atomic_line, place_of, read_line, write_line
from warpwright.timing.numbered_units import sm_at

SECTOR_WORK = 32
"""Work is counted in instructions; each requested sector counts as this many, so that untimed blocks send requests when timed ones do."""


@core
def moment(m: Any) -> int:
    """When an access arrives at L2: at a random cycle within a window.

    Half of the accesses are in the first half of the window and are served before the requests of timed blocks, the others after them, so that on average as
    many precede a timed request as if all were served in order of time.
    """
    m[s.chip.warm_random] = (m[s.chip.warm_random] * 1103515245 + 12345) & 0x7FFFFFFF
    window = m[s.chip.window]
    return m[s.chip.now] - (window >> 1) + ((m[s.chip.warm_random] >> 8) * window >> 23) + m[s.chip.to_l2]


@core
def background_load(m: Any, partition: int, line: int, sectors: int, time: int) -> None:
    """A line that a load requests: the request goes to L2 if L2 lacks the line, or if the share of loads that reach L2 allows it."""
    home = slice_of(m, line)
    count = popcount(sectors) << 16
    m[s.chip.warm_loads] += popcount(sectors) * m[s.chip.warm_loaded]
    if m[s.chip.warm_loads] < count:
        near = counterpart(m, home) if is_far(m, partition, home) else home
        place = find(m, near, line)
        if place >= 0 and sectors & ~m[m[s.chip.l2_tags] + place] == 0:
            if near == home:
                used(m, home, place, time)
            else:
                used_copy(m, near, place, time)
            return
    m[s.chip.warm_loads] -= count
    read_line(m, ALONE, partition, home, line, sectors, time)


@core
def background_store(m: Any, partition: int, line: int, sectors: int, held: int, place: int) -> None:
    """The line in a ``place`` of a store: it waits until timed blocks store too; when there is no room, the oldest leaves."""
    queued = m[s.chip.warm_queued]
    if queued - m[s.chip.warm_sent] == s.WARM_QUEUE_ENTRIES:
        send_store(m)
    entry = m[s.chip.warm_queue] + (queued & (s.WARM_QUEUE_ENTRIES - 1)) * (8 * s.WQ_WORDS)
    poke(entry + 8 * s.WQ_LINE, line << 1 | partition)
    poke(entry + 8 * s.WQ_SECTORS, place << 4 | sectors)
    poke(entry + 8 * s.WQ_BYTES, held)
    m[s.chip.warm_queued] = queued + 1


@core
def send_store(m: Any) -> None:
    """The oldest store leaves for L2; bytes of a line that is still in a store buffer do not leave separately."""
    sent = m[s.chip.warm_sent]
    entry = m[s.chip.warm_queue] + (sent & (s.WARM_QUEUE_ENTRIES - 1)) * (8 * s.WQ_WORDS)
    m[s.chip.warm_sent] = sent + 1
    line = peek(entry + 8 * s.WQ_LINE) >> 1
    partition = peek(entry + 8 * s.WQ_LINE) & 1
    place = peek(entry + 8 * s.WQ_SECTORS) >> 4
    sectors = peek(entry + 8 * s.WQ_SECTORS) & 15
    if place == 0:
        m[s.chip.warm_moment] = moment(m)
    time = m[s.chip.warm_moment] + place
    held = peek(entry + 8 * s.WQ_BYTES)
    home = slice_of(m, line)
    if m[s.chip.policies]:
        m[counters(m, home).policy] = in_window(m, s.Kernel(m[s.chip.kernels]), line)
    count = popcount(sectors)
    m[s.chip.warm_written] += count
    m[s.chip.warm_stores] += count * m[s.chip.warm_stored]
    if m[s.chip.warm_stores] < count << 15:
        if place_of(m, line) == HERE:
            written(m, home, line, sectors, held, time, is_far(m, partition, home))
        return
    m[s.chip.warm_stores] -= count << 16
    write_line(m, partition, home, line, sectors, held, time)


@core
def send_stores(m: Any, every: bool) -> None:
    """Send the stores that timed blocks have overtaken, or all of them; takes no simulated time."""
    if every:
        while m[s.chip.warm_sent] < m[s.chip.warm_queued]:
            send_store(m)
        return
    while m[s.chip.warm_sent] < m[s.chip.warm_queued] and m[s.chip.warm_written] < m[s.chip.warm_to_write]:
        send_store(m)


@core
def background_atomic(m: Any, partition: int, line: int, sectors: int, words: int, time: int) -> None:
    """Lanes of an atomic on one line."""
    atomic_line(m, partition, slice_of(m, line), line, sectors, words, time)


@core
def work_of_timed(m: Any) -> int:
    """The timed blocks' work so far; also records which shares of their loads and stores reached L2."""
    own = 0
    asked = 1
    hits = 0
    stored = 1
    joined = 0
    for index in range(m[s.chip.sms]):
        sm = sm_at(m, index)
        asked += m[sm.load_sectors]
        hits += m[sm.load_hits]
        stored += m[sm.store_sectors]
        joined += m[sm.store_joined]
        sectors = m[sm.load_sectors] + m[sm.atomic_sectors]
        own += m[sm.instructions] + SECTOR_WORK * sectors
    m[s.chip.warm_loaded] = ((asked - hits) << 16) // asked
    m[s.chip.warm_stored] = ((stored - joined) << 16) // stored
    m[s.chip.warm_to_write] = (stored * m[s.chip.warm_ratio]) >> 16
    return own
