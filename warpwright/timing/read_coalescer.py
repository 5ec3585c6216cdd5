"""A GPC's request coalescer: a sector that its SMs read from L2 at about the same time is read once.

Nsight Compute has this unit as ``lrc__``.  Register loads and bulk copies pass it: 384 blocks of a matrix product copy tiles that other blocks of their GPC
copy as well, and an H200 looks up half of the sectors in L2.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, popcount
from warpwright.timing import state as s
from warpwright.timing.address_hash import known_as
from warpwright.timing.l2 import counters, group_of, has_sectors, read


@core
def coalescer_entry(m: Any, gpc: int, home: int, line: int) -> int:
    """Offset of a GPC's record of a line; each group of slices has its own part."""
    lines = m[s.chip.coalescer_lines]
    part = gpc * s.SLICE_GROUPS + group_of(m, home)
    return m[s.chip.coalescer] + (part * lines + (((known_as(m, line) * s.GOLDEN) >> 40) & (lines - 1))) * 4


@core
def coalesced_read(m: Any, gpc: int, partition: int, home: int, line: int, sectors: int, time: int) -> int:
    """Time a load through its GPC's request coalescer: a sector that another SM of the GPC has just requested in the same way is not requested again.

    Other SMs can join a request for some cycles if L2 hits, or until the answer if it misses, up to a maximum number (bench.micro ``together_once``). A
    request for other sectors of the line passes separately and ends the joining (``crowd_once``: 4 and 8 SMs of which half read the next sector make 3.67 and
    6.45 requests; by this rule,
    in random order, 3.67 and 6.44).  The answer passes the GPC's port for each SM.
    """
    if m[s.chip.coalescer_lines] == 0:
        return read(m, partition, home, line, sectors, time, False)
    entry = coalescer_entry(m, gpc, home, line)
    waiting = m[entry]
    if waiting >> 4 == line and m[entry + 1] > time:
        if waiting & 15 != sectors:
            m[entry + 1] = 0
            return read(m, partition, home, line, sectors, time, False)
        if m[entry + 3]:
            m[counters(m, home).coalesced] += popcount(sectors)
            m[entry + 3] -= 1
            return m[entry + 2]
    ready = read(m, partition, home, line, sectors, time, False)
    until = time + m[s.chip.coalescing]
    if ready > until and not has_sectors(m, home, line, sectors, time):
        until = ready
    m[entry] = line << 4 | sectors
    m[entry + 1] = until
    m[entry + 2] = ready
    m[entry + 3] = m[s.chip.coalescer_joins]
    return ready
