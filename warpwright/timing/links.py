"""Links to the host's memory (PCI Express) and to other devices (NVLink).

Measured on two H200s (``python -m bench.elsewhere``).  L1 caches such lines like others; L2 does not. A request to the host passes the line's slice and waits
there for the link, and delays all later requests of the slice; a request to another device passes no slice. A request covers all sectors from its first to its
last. Each link sends one packet after the other; each group of slices has its share of a window's time, and unused shares are redistributed between windows.
Atomics on the host's memory are done in L2, which reads the sectors and writes the words back, those on a line one after the other; those on another
device's are done there, each lane on a word in a packet of its own.  Devices of a system have routes (``system/routes.py``) whose times
replace the chip's; those over other links take other ways.  A link that loses packets (``errors_per_million_packets``) sends them again.
Writes over NVLink 1 and 2 and PCI Express are posted: nothing comes back, and a fence of the system's scope asks the targets.  Links may reduce their width
while they have little to do (``WidthRule``).
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import HERE, HOST, MIGRATES, PLACE_BITS
from warpwright.native.intrinsics import core, divide, peek, popcount
from warpwright.timing import state as s
from warpwright.timing.address_hash import known_as, range_of
from warpwright.timing.atomics import atomic
from warpwright.timing.coalescer import covered, most_on_a_word, passes_of, words_named
from warpwright.timing.coherent_host import TRANSLATED_BY_HOST, probe_wait, translation_wait
from warpwright.timing.l2 import counters, group_of, home_of_write, is_far, port, read, stored_bytes, write, write_port
from warpwright.timing.page_migration import arrives_later, place_of_page, reach_page
from warpwright.timing.read_coalescer import coalesced_read

ALONE, PAIRED = -1, -2
"""In place of a GPC: of loads that pass no coalescer, strong ones of the device's scope may go in pairs."""
UNHELD = 1 << 40
"""Cycles by which the answer of a write to a page that is on its way may be late: other writes of its SM do not wait for it."""
HEAD_BYTES, ANSWER_HEAD_BYTES = 16, 12
"""Of a packet on PCI Express: a request or a write; what answers a read (Nsight Compute's ``pcie__read_bytes`` and ``pcie__write_bytes``)."""


@core
def place_of(m: Any, line: int) -> int:
    """The location of a line: this device's memory, the host's or another device's."""
    entry = range_of(m, line)
    place = peek(entry + 8 * s.EW_PLACE) if entry else HERE
    return place_of_page(m, entry, line) if place == MIGRATES else place


@core
def find_place(m: Any, line: int, changes: bool, time: int) -> tuple[int, int]:
    """The location at which a request that arrives at ``time`` is served, and how many cycles it waits for its page before."""
    entry = range_of(m, line)
    place = peek(entry + 8 * s.EW_PLACE) if entry else HERE
    later = 0
    if place == MIGRATES:
        place, later = reach_page(m, entry, line, changes, time)
    elif entry and peek(entry + 8 * s.EW_TABLE) == TRANSLATED_BY_HOST:
        later = translation_wait(m, line, time)
    if place == HERE and m[s.chip.probe_sets]:
        later += probe_wait(m, line)
    return place, later


@core
def route_to(m: Any, place: int) -> s.PeerRoute:
    """The route to another device's memory."""
    return s.PeerRoute(m[s.chip.peer_routes] + (place >> PLACE_BITS) * s.PeerRoute.size)


@core
def span(sectors: int) -> int:
    """How many sectors a request names: all from the first to the last."""
    count = 0
    first = 4
    for sector in range(4):
        if (sectors >> sector) & 1:
            first = min(first, sector)
            count = sector + 1
    return max(count - first, 1)


@core
def slices_of(m: Any, group: int) -> int:
    """How many slices of a partition a group has."""
    return (m[s.chip.half] - group + s.SLICE_GROUPS - 1) // s.SLICE_GROUPS


@core
def width_of(m: Any, way: int) -> s.LinkWidth:
    """The width of a way."""
    return s.LinkWidth(m[s.chip.link_widths] + way * s.LinkWidth.size)


@core
def take(m: Any, way: int, home: int, time: int, cost: int) -> int:
    """When a packet of ``cost`` (1/256 cycle) leaves: after the earlier ones on its link, within the share of the slice's group."""
    group = group_of(m, home)
    at = m[s.chip.links] + way * s.SLICE_GROUPS + group
    start = max(time << 8, m[at])
    width = width_of(m, way)
    if m[width.slowdown]:
        start, cost = of_width(m, width, way, group, start, cost)
    m[at] = start + cost * m[s.chip.half] // slices_of(m, group)
    m[m[s.chip.link_use] + way * s.SLICE_GROUPS + group] += cost
    return start >> 8


@core
def of_width(m: Any, width: s.LinkWidth, way: int, group: int, start: int, cost: int) -> tuple[int, int]:
    """Start and cost of a packet for a way that may be at reduced width, and count it: one that leaves after the window of activity finds the way wide
    if the packets within the window are enough for that."""
    end = (m[width.began] + m[width.window]) << 8
    index = way * s.SLICE_GROUPS + group
    within = m[s.chip.link_window] + index
    if m[width.slow]:
        used = min(m[within] * m[s.chip.half] // slices_of(m, group), m[width.window] << 8)
        if start >= end and used > m[width.widen_above] * m[width.window]:
            start = max(start, end + (m[width.change] << 8))
        else:
            cost = cost * m[width.slow] >> 8
    m[within if start < end else m[s.chip.link_later] + index] += cost
    return start, cost


@core
def broken(m: Any, way: int, home: int, share: int) -> bool:
    """Whether a packet arrives broken: drawn with the state of its way, so that runs are the same; ``share`` in 1/2^32."""
    group = group_of(m, home)
    drawn = (m[m[s.chip.link_use] + way * s.SLICE_GROUPS + group] + (way << 8) + group) & 0xFFFFFFFF
    for _ in range(3):
        drawn = ((drawn ^ (drawn >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return drawn < share


@core
def carry(m: Any, route: s.PeerRoute, way: int, home: int, time: int, cost: int) -> int:
    """When a packet goes that arrives whole: after an error it and what followed it are sent again, which takes the way's time there and back."""
    start = take(m, way, home, time, cost)
    share = m[route.errors]
    if share:
        while broken(m, way, home, share):
            m[counters(m, home).replays] += 1
            take(m, way, home, start, m[route.replay] + cost)
            start += (m[route.replay] + cost) >> 8
    return start


@core
def change_widths(m: Any, end: int) -> None:
    """Between two windows: let links of little activity reduce their width, and those of much take their full width again, without packets meanwhile."""
    for way in range(s.LK_FROM_PEER + 1, m[s.chip.link_ways]):
        width = width_of(m, way)
        span = end - m[width.began]
        if m[width.slowdown] == 0 or span < m[width.window]:
            continue
        taken = 0
        for group in range(min(s.SLICE_GROUPS, m[s.chip.half])):
            index = way * s.SLICE_GROUPS + group
            within = m[s.chip.link_window] + index
            later = m[s.chip.link_later] + index
            taken += m[within]
            m[within] = min(m[later], (m[width.window] << 8) * slices_of(m, group) // m[s.chip.half])
            m[later] -= m[within]
        used = min(divide(taken, span), 256)
        m[width.began] = end
        if m[width.slow] == 0 and used < m[width.reduce_below]:
            m[width.slow] = m[width.slowdown]
            m[width.since] = end
            m[width.changes] += 1
        elif m[width.slow] and used > m[width.widen_above]:
            m[width.slow] = 0
            m[width.reduced] += end - m[width.since]
            m[width.changes] += 1
            for group in range(s.SLICE_GROUPS):
                at = m[s.chip.links] + way * s.SLICE_GROUPS + group
                m[at] = max(m[at], (end + m[width.change]) << 8)


@core
def share_links(m: Any, end: int) -> None:
    """Between two windows: give the unused shares of a link to the groups of slices that need more."""
    if m[s.chip.widths_change]:
        change_widths(m, end)
    groups = min(s.SLICE_GROUPS, m[s.chip.half])
    now, end = m[s.chip.now] << 8, end << 8
    for way in range(m[s.chip.link_ways]):
        first = m[s.chip.links] + way * s.SLICE_GROUPS
        behind = 0
        for group in range(groups):
            free = m[first + group]
            behind += (free - end if free > end else max(free, now) - end) * slices_of(m, group)
        behind = max(behind // m[s.chip.half], 0)
        for group in range(groups):
            if behind or m[first + group] > end:
                m[first + group] = end + behind


@core
def held_up(m: Any, home: int) -> int:
    """Offset of the time until which requests to the host hold up a slice and its counterpart."""
    half = m[s.chip.half]
    return m[s.chip.held_up] + (home - half if home >= half else home)


@core
def free_at(m: Any, home: int, time: int) -> int:
    """When a slice can process a request that arrives at ``time``."""
    if m[s.chip.range_count] == 0:
        return time
    return max(time, m[held_up(m, home)])


@core
def hold_up(m: Any, home: int, time: int) -> None:
    """Record that a packet for the host leaves its slice at ``time``."""
    at = held_up(m, home)
    m[at] = max(m[at], time - m[s.chip.host_write_lag])


@core
def count_host(m: Any, partition: int, home: int, sectors: int, field: int, far: int) -> None:
    """Count a look-up for the host's memory."""
    counts = counters(m, home)
    m[counts + field] += sectors
    m[counts.host_sectors] += sectors
    if is_far(m, partition, home):
        m[counts + far] += sectors


@core
def read_host(m: Any, partition: int, home: int, sectors: int, time: int) -> int:
    """When the slice has the data that a load requests from the host."""
    count = popcount(sectors)
    count_host(m, partition, home, count, s.SliceGroup.read, s.SliceGroup.far_reads)
    counts = counters(m, home)
    m[counts.host_read] += ANSWER_HEAD_BYTES + (span(sectors) << m[s.chip.sector_shift])
    m[counts.host_written] += HEAD_BYTES
    asked = take(m, s.LK_TO_HOST, home, port(m, home, free_at(m, home, time), count), m[s.chip.host_ask])
    cost = m[s.chip.host_read] + span(sectors) * m[s.chip.host_read_sector]
    come = take(m, s.LK_FROM_HOST, home, asked, cost)
    hold_up(m, home, come)
    return come + m[s.chip.host_latency]


@core
def read_peer(m: Any, route: s.PeerRoute, home: int, sectors: int, time: int) -> int:
    """When another device's answer to a load reaches the point where L2's would be."""
    count = span(sectors)
    m[counters(m, home).peer_read] += count << m[s.chip.sector_shift]
    asked = carry(m, route, m[route.out], home, time, m[route.ask])
    cost = m[route.packet] + count * m[route.sector]
    return carry(m, route, m[route.back], home, asked, cost) + m[route.latency]


@core
def packets(sectors: int, whole: int) -> int:
    """Packets in which sectors go to the host: runs of whole sectors, and each partly written one."""
    return popcount(whole & ~(whole << 1)) + popcount(sectors & ~whole)


@core
def bytes_of(held: int) -> int:
    """Bytes written, of four 16-bit counts."""
    return (held & 0xFFFF) + ((held >> 16) & 0xFFFF) + ((held >> 32) & 0xFFFF) + ((held >> 48) & 0xFFFF)


@core
def write_host(m: Any, partition: int, home: int, sectors: int, held: int, time: int) -> int:
    """When a write to the host has gone out."""
    count = popcount(sectors)
    whole = sectors & covered(m, held)
    count_host(m, partition, home, count, s.SliceGroup.written, s.SliceGroup.far_writes)
    parts = packets(sectors, whole)
    m[counters(m, home).host_written] += HEAD_BYTES * parts + bytes_of(held)
    full = popcount(whole)
    units = m[s.chip.l2_write_request] + full * m[s.chip.l2_write_whole] + (count - full) * m[s.chip.l2_write_part]
    size = stored_bytes(m, count, full)
    start = write_port(m, home, home_of_write(m, partition, home, free_at(m, home, time), size), units)
    cost = parts * m[s.chip.host_write] + full * m[s.chip.host_write_sector]
    gone = take(m, s.LK_TO_HOST, home, start, cost)
    hold_up(m, home, gone)
    return gone + m[s.chip.host_write_latency]


@core
def write_peer(m: Any, route: s.PeerRoute, home: int, sectors: int, held: int, time: int) -> int:
    """When a write to another device has gone out; one that is not of whole sectors names its bytes in as much as a head."""
    count = span(sectors)
    sector = m[route.sector]
    data = count * sector
    if count == 1 and bytes_of(held) <= m[s.chip.peer_half_sector]:
        data = sector >> 1
    m[counters(m, home).peer_written] += (data << m[s.chip.sector_shift]) // sector
    heads = 1 if sectors & ~covered(m, held) == 0 else 2
    gone = carry(m, route, m[route.out], home, time, heads * m[route.packet] + data)
    return answer_write(m, route, home, gone) + m[route.write_latency]


@core
def answer_write(m: Any, route: s.PeerRoute, home: int, gone: int) -> int:
    """When the acknowledgement of a write that left at ``gone`` leaves the other device; posted writes have none."""
    if m[route.acknowledge] == 0:
        return gone
    return carry(m, route, m[route.back], home, gone, m[route.acknowledge])


@core
def named_whole(m: Any, words: int) -> int:
    """Sectors of which an atomic accesses every word."""
    size = 3 if (words >> 50) & 1 else 2
    mask = 0
    for sector in range(m[s.chip.line_sectors]):
        if words_named(m, words, sector) << size >= m[s.chip.sector_bytes]:
            mask |= 1 << sector
    return mask


@core
def behind_atomics(m: Any, home: int, line: int, time: int, turn: int) -> int:
    """When an atomic that takes ``turn`` (1/256 cycle) begins, after the one before on its line."""
    place = known_as(m, line) & (s.LINES_OF_ATOMICS - 1)
    at = m[s.chip.atomics_elsewhere] + 2 * (group_of(m, home) * s.LINES_OF_ATOMICS + place)
    start = time << 8
    if m[at] == line + 1:
        start = max(start, m[at + 1])
    m[at] = line + 1
    m[at + 1] = start + turn
    return start >> 8


@core
def atomic_host(m: Any, partition: int, home: int, line: int, sectors: int, words: int, time: int) -> int:
    """When L2 has done an atomic on the host's memory: for each lane on a word it reads the sectors and writes what it changed back."""
    rounds = max(most_on_a_word(m, words), 1)
    passes = passes_of(m, words)
    count_host(m, partition, home, passes, s.SliceGroup.atomic, s.SliceGroup.far_atomics)
    parts = packets(sectors, sectors & named_whole(m, words))
    counts = counters(m, home)
    m[counts.host_read] += rounds * (ANSWER_HEAD_BYTES + (span(sectors) << m[s.chip.sector_shift]))
    m[counts.host_written] += HEAD_BYTES * (rounds + parts)
    start = behind_atomics(m, home, line, free_at(m, home, time), rounds * m[s.chip.host_atomic_turn])
    asked = take(m, s.LK_TO_HOST, home, start, rounds * (m[s.chip.host_ask] + parts * m[s.chip.host_write]))
    cost = m[s.chip.host_read] + span(sectors) * m[s.chip.host_read_sector]
    come = take(m, s.LK_FROM_HOST, home, asked, rounds * cost)
    if rounds == 1:
        hold_up(m, home, come)
    return come + m[s.chip.host_atomic_latency] + ((rounds - 1) * m[s.chip.host_atomic_turn] >> 8)


@core
def atomic_peer(m: Any, route: s.PeerRoute, home: int, line: int, sectors: int, words: int, time: int) -> int:
    """When another device's answer to an atomic reaches the point where L2's would be."""
    rounds = max(most_on_a_word(m, words), 1)
    count = span(sectors)
    counts = counters(m, home)
    m[counts.peer_written] += count * rounds << m[s.chip.sector_shift]
    start = behind_atomics(m, home, line, time, rounds * m[s.chip.peer_atomic_turn])
    cost = rounds * (2 * m[route.packet] + count * m[route.sector])
    gone = carry(m, route, m[route.out], home, start, cost)
    if (words >> 51) & 1:
        m[counts.peer_read] += count * rounds << m[s.chip.sector_shift]
        gone = carry(m, route, m[route.back], home, gone, cost)
    else:
        gone = answer_write(m, route, home, gone)
    return gone + m[route.atomic_latency] + ((rounds - 1) * m[s.chip.peer_atomic_turn] >> 8)


@core
def strong_way(scope: int) -> int:
    """The way of a strong load (``Instruction.strong``), in place of a GPC."""
    return PAIRED if scope == s.DEVICE_SCOPE else ALONE


@core
def read_line(m: Any, gpc: int, partition: int, home: int, line: int, sectors: int, time: int) -> int:
    """A load of a line, wherever it is, by way of its GPC's coalescer, where it passes one (``gpc`` is not negative: ALONE and PAIRED do not)."""
    later = 0
    if m[s.chip.range_count]:
        place, later = find_place(m, line, False, time)
        if place != HERE:
            if place == HOST:
                return read_host(m, partition, home, sectors, time) + later
            return read_peer(m, route_to(m, place), home, sectors, time) + later
        time = free_at(m, home, time)
    if gpc < 0:
        return read(m, partition, home, line, sectors, time, gpc == PAIRED) + later
    return coalesced_read(m, gpc, partition, home, line, sectors, time) + later


@core
def write_line(m: Any, partition: int, home: int, line: int, sectors: int, held: int, time: int) -> int:
    """Time a write to a line, wherever it is."""
    later = 0
    if m[s.chip.range_count]:
        place, later = find_place(m, line, True, time)
        if place != HERE:
            if place == HOST:
                return write_host(m, partition, home, sectors, held, time) + later
            return write_peer(m, route_to(m, place), home, sectors, held, time) + later
        time = free_at(m, home, time)
    return write(m, partition, home, line, sectors, held, time) + later


@core
def atomic_line(m: Any, partition: int, home: int, line: int, sectors: int, words: int, time: int) -> int:
    """Time an atomic on a line, wherever it is."""
    later = 0
    if m[s.chip.range_count]:
        place, later = find_place(m, line, True, time)
        if place != HERE:
            if place == HOST:
                return atomic_host(m, partition, home, line, sectors, words, time) + later
            return atomic_peer(m, route_to(m, place), home, line, sectors, words, time) + later
        time = free_at(m, home, time)
    return atomic(m, partition, home, line, sectors, words, time) + later


@core
def note_written(m: Any, sm: s.SM, line: int, time: int) -> None:
    """A write or atomic of an SM to other memory was acknowledged at ``time``; a fence of system scope will wait for it."""
    place = place_of(m, line)
    if place != HERE:
        at = sm + (s.SM.host_written if place == HOST else s.SM.peer_written)
        m[at] = max(m[at], time)
        if place != HOST and m[route_to(m, place).posted]:
            m[sm.posted] = 1


@core
def longer_away(m: Any, line: int, atomic: bool) -> int:
    """How much longer an SM may continue without the answer to an atomic, or the acknowledgement of a write, than when it has gone to L2.

    One atomic after the other leaves for elsewhere as for L2 (``python -m bench.elsewhere``: ``atom4``).  Parts of a way are not shared
    within a window, which must not stop SMs that the way as a whole would not.
    """
    entry = range_of(m, line)
    if entry and peek(entry + 8 * s.EW_PLACE) == MIGRATES and arrives_later(m, entry, line):
        return UNHELD
    place = place_of(m, line)
    if place == HERE:
        return 0
    if not atomic:
        return m[s.chip.window]
    if place == HOST:
        return m[s.chip.host_atomic_latency]
    return m[route_to(m, place).atomic_latency]
