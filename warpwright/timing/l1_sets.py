"""L1's sets: finds a line's set and its way or the one to replace, and prefetches the set on the host.

Together, the SMs' sets exceed a host core's caches.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import LOCAL_WINDOW, SHARED_WINDOW, TAG_AFFINE, TAG_PATTERN
from warpwright.native.intrinsics import HOST_LINE_BYTES, core, host_address, peek, prefetch
from warpwright.timing import state as s
from warpwright.timing.address_hash import known_as
from warpwright.timing.intrinsics import WAYS, call_replacement, find_way, oldest_way
from warpwright.timing.policies import older_of_two

WINDOWS_HIGH = (SHARED_WINDOW >> 32, LOCAL_WINDOW >> 32)


@core
def l1_set(m: Any, sm: s.SM, line: int) -> int:
    """Where the set of a line begins."""
    mixed = ((known_as(m, line) * s.GOLDEN) >> 44) & 0xFFFFF
    return sm + m[s.chip.l1_at] + ((mixed * m[sm.l1_sets]) >> 20) * (m[s.chip.l1_ways] * s.C_SLOTS)


@core
def approach_set(m: Any, sm: s.SM, line: int) -> None:
    """Prefetch, on the host, the tags and stamps of a line's set."""
    place = host_address(m) + 8 * l1_set(m, sm, line)
    for at in range(0, 8 * m[s.chip.l1_ways] * 2, HOST_LINE_BYTES):
        prefetch(place + at)


@core
def approach_l1(m: Any, sm: s.SM, n: int) -> None:
    """Prefetch, on the host, the sets of the lines in scratch, before they are processed one by one."""
    for i in range(n):
        approach_set(m, sm, m[sm.lines[i]])


@core
def approach_record(m: Any, sm: s.SM, w: s.Warp) -> None:
    """Prefetch, on the host, the sets that a warp's next memory record will need when it issues; for consecutive lanes, those of the first and the last line."""
    place = m[w.trace] + m[w.pos] * 8
    word = peek(place)
    tag = (word >> 60) & 15
    base = peek(place + 8 * m[s.chip.head_words])
    high = base >> 32
    if (tag != TAG_AFFINE and tag != TAG_PATTERN) or high == WINDOWS_HIGH[0] or high == WINDOWS_HIGH[1]:
        return
    first = base >> m[s.chip.line_shift]
    approach_set(m, sm, first)
    if tag == TAG_AFFINE:
        last = (base + (m[s.chip.lanes] - 1) * ((word << 8) >> 40)) >> m[s.chip.line_shift]
        if last != first:
            approach_set(m, sm, last)


@core
def oldest_place(m: Any, first: int, ways: int) -> int:
    """The least recently used place of a set; an unused one is older than all others."""
    if ways == WAYS:
        return first + oldest_way(host_address(m) + 8 * (first + WAYS * s.C_STAMP))
    stamps = first + ways * s.C_STAMP
    oldest = 0
    for way in range(1, ways):
        if m[stamps + way] < m[stamps + oldest]:
            oldest = way
    return first + oldest


@core
def other_place(m: Any, first: int, ways: int, time: int) -> int:
    """The place that the launch's policy replaces in a full set; an invalid choice is recorded and ends the launch."""
    stamps = host_address(m) + 8 * (first + ways * s.C_STAMP)
    fills = host_address(m) + 8 * (first + ways * s.C_FILL)
    way = call_replacement(m[s.chip.l1_replacement], stamps, fills, ways, time)
    if 0 <= way < ways:
        return first + way
    m[s.chip.bad_replacement] = 1
    return first


@core
def place_in_set(m: Any, first: int, ways: int, line: int) -> int:
    """The place of a line's tag in its set, or -1."""
    if ways == WAYS:
        way = find_way(host_address(m) + 8 * first, line, 8)
        return first + way if way < WAYS else -1
    for place in range(first, first + ways):
        if m[place] >> 8 == line:
            return place
    return -1


@core
def forget_lines(m: Any, sm: s.SM, n: int) -> None:
    """L1 drops the lines in the scratch, which an atomic or a strong load bypasses (bench.micro ``kept``: also the sectors beside the atomic's)."""
    ways = m[s.chip.l1_ways]
    for i in range(n):
        line = m[sm.lines[i]]
        place = place_in_set(m, l1_set(m, sm, line), ways, line)
        if place >= 0:
            m[place] = m[place] & ~15
            m[place + ways * s.C_WORDS] = 0


@core
def take_place(m: Any, place: int, line: int, time: int) -> None:
    """Assign a place to a line, without any data yet."""
    ways = m[s.chip.l1_ways]
    m[place] = line << 8
    m[place + ways * s.C_FILL] = time
    m[place + ways * s.C_WORDS] = 0


@core
def l1_find(m: Any, sm: s.SM, line: int, time: int) -> int:
    """The place of a line's tag, or -1 - the place to replace."""
    ways = m[s.chip.l1_ways]
    first = l1_set(m, sm, line)
    place = place_in_set(m, first, ways, line)
    if place >= 0:
        return place
    oldest = oldest_place(m, first, ways)
    if m[oldest + ways * s.C_STAMP] == 0:
        return -1 - oldest
    draws = m[s.chip.l1_drawn_ways]
    if m[s.chip.l1_replacement] == 0:
        return -1 - (first + older_of_two(m, first + ways * s.C_STAMP, ways, time, draws) if draws else oldest)
    return -1 - other_place(m, first, ways, time)
