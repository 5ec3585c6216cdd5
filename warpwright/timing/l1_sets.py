"""Where L1 keeps a line: its set, the way that holds it or the one to replace; and having the host's caches hold the set in time.

All SMs' sets are more than a host core's caches hold.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import LOCAL_WINDOW, SHARED_WINDOW, TAG_AFFINE, TAG_PATTERN
from warpwright.timing import state as s
from warpwright.timing.native import (
    HOST_LINE_BYTES,
    WAYS,
    core,
    find_way,
    host_address,
    oldest_way,
    peek,
    prefetch,
    u,
)

WINDOWS_HIGH = (SHARED_WINDOW >> 32, LOCAL_WINDOW >> 32)


@core
def l1_set(m: Any, sm: int, line: int) -> int:
    """Where the set of a line begins."""
    mixed = ((line * s.GOLDEN) >> 44) & 0xFFFFF
    return sm + m[u(s.H_OFF_L1)] + ((mixed * m[u(s.H_L1_SETS)]) >> 20) * (m[u(s.H_L1_WAYS)] * s.C_SLOTS)


@core
def approach_set(m: Any, sm: int, line: int) -> None:
    """Have the host fetch the tags and stamps of a line's set."""
    place = host_address(m) + 8 * l1_set(m, sm, line)
    for at in range(0, 8 * m[u(s.H_L1_WAYS)] * 2, HOST_LINE_BYTES):
        prefetch(place + at)


@core
def approach_l1(m: Any, sm: int, n: int) -> None:
    """Have the host fetch the sets of the lines in scratch before they are looked at one after the other."""
    for i in range(n):
        approach_set(m, sm, m[u(sm + s.OFF_LINES + i)])


@core
def approach_record(m: Any, sm: int, w: int) -> None:
    """Have the host fetch the sets that a warp's next memory record will look at, when it issues; of lanes in a row the first and the
    last line's."""
    place = m[u(w + s.W_TRACE)] + m[u(w + s.W_POS)] * 8
    word = peek(place)
    tag = (word >> 60) & 15
    base = peek(place + 8)
    high = base >> 32
    if (tag != TAG_AFFINE and tag != TAG_PATTERN) or high == WINDOWS_HIGH[0] or high == WINDOWS_HIGH[1]:
        return
    approach_set(m, sm, base >> 7)
    if tag == TAG_AFFINE:
        last = (base + 31 * ((word << 8) >> 40)) >> 7
        if last != base >> 7:
            approach_set(m, sm, last)


@core
def l1_find(m: Any, sm: int, line: int) -> int:
    """The place of a line's tag, or -1 - the place to replace (the least recently used of its set)."""
    ways = m[u(s.H_L1_WAYS)]
    first = l1_set(m, sm, line)
    if ways == WAYS:
        host = host_address(m) + 8 * first
        way = find_way(host, line, 8)
        return first + way if way < WAYS else -1 - (first + oldest_way(host + 8 * WAYS * s.C_STAMP))
    for place in range(first, first + ways):
        if m[u(place)] >> 8 == line:
            return place
    oldest = s.INF
    victim = first
    for place in range(first, first + ways):
        stamp = m[u(place + ways * s.C_STAMP)]
        if stamp < oldest:
            oldest = stamp
            victim = place
    return -1 - victim
