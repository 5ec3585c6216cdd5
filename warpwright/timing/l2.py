"""L2: slices, two partitions, write-back.

Lines are spread over slices by a hash; each slice is the home of its lines and owns its DRAM channels.  On chips with two
partitions an SM sends its request to the slice of its own partition first, which keeps copies of lines whose home is on the other side and fetches missing
ones over the link (NVIDIA A100 whitepaper, "A100 L2 Cache"; a real H200 shows 60 MB
as two times 30).  Writes and atomics go to the home, which is the point of coherence.

Look-ups are counted as a real H200 counts them (Nsight Compute's ``lts__t_sectors``): what crosses the link is looked up on both sides.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import HOST_LINE_BYTES, core, host_address, popcount, prefetch
from warpwright.timing import state as s
from warpwright.timing.access_policy import (
    FIRST,
    LAST,
    LEVEL_LAST,
    LEVEL_NORMAL,
    LEVEL_SHIFT,
    NORMAL,
    UNCHANGED,
    level_after,
)
from warpwright.timing.address_hash import line_in_slice
from warpwright.timing.coalescer import covered
from warpwright.timing.compression import entry_of, note_change
from warpwright.timing.dram import Place, channel_held, dram_read, dram_write, read_at, read_begun, write_back
from warpwright.timing.intrinsics import WAYS, dirty_ways, find_way, oldest, oldest_way
from warpwright.timing.l2_hazards import (
    FAR,
    FRACTION,
    NEAR,
    after_atomics,
    atomics_on,
    copy_left,
    is_being_written,
    is_pair,
    lent_and_back,
    pass_beside,
    queue_of,
    read_turn,
    remembers_writes,
    share_of,
    take_line,
    turn_between,
    turn_units,
    write_from_afar,
    write_turn,
)
from warpwright.timing.ports import reserve

# A tag: line << TAG_SHIFT | streaming << 9 | a copy is in the other partition << 8 | dirty sectors << 4 | valid sectors, there or on their way
TAG_SHIFT = 10
STREAMING = 1 << 9
COPIED = 1 << 8
DIRTY = 15 << 4
# A fill: when the last sectors came << 12 | words written of each sector that is known in part, ``chip.part_bits`` a sector
PARTS = (1 << s.PART_WORD_BITS) - 1


@core
def group_of(m: Any, piece: int) -> int:
    """A slice's group; a slice and its counterpart in the other partition belong to the same."""
    half = m[s.chip.half]
    return (piece - half if piece >= half else piece) & (s.SLICE_GROUPS - 1)


@core
def counters(m: Any, piece: int) -> s.SliceGroup:
    """Counters of a slice's group (``SG_``)."""
    return s.SliceGroup(m[s.chip.slice_groups] + group_of(m, piece) * s.SliceGroup.size)


@core
def crosses(m: Any, source: int, time: int, units: int) -> int:
    """When bytes that a slice has for its counterpart at ``time`` can begin to cross.

    Each slice has its own path, 16 bytes per L2 clock wide (bench.micro ``crossing``: 40 to 42 sectors per cycle over the chip for far lines, 81 to 128 for near ones).
    """
    calendar = m[s.chip.far_ports] + source * s.CALENDAR_SLOTS
    return reserve(m, calendar, s.DRAM_SHIFT, m[s.chip.far_capacity], time, units)


@core
def set_of(m: Any, piece: int, line: int) -> int:
    """Place of the first way of a line's set in a slice."""
    mixed = ((line_in_slice(m, line) * s.GOLDEN) >> 44) & 0xFFFFF
    return piece * m[s.chip.l2_slice_words] + ((mixed * m[s.chip.l2_sets]) >> 20) * (m[s.chip.l2_ways] * s.L2_WAY_WORDS)


@core
def find(m: Any, piece: int, line: int) -> int:
    """Place of a line in a slice, or -1 - place of the way to replace: the first of the least recently used."""
    first = set_of(m, piece, line)
    ways = m[s.chip.l2_ways]
    if ways == WAYS:
        host = host_address(m) + 8 * (m[s.chip.l2_tags] + first)
        way = find_way(host, line, TAG_SHIFT)
        return first + way if way < WAYS else -1 - (first + oldest_way(host + 8 * WAYS))
    tags = m[s.chip.l2_tags] + first
    for way in range(ways):
        if m[tags + way] >> TAG_SHIFT == line:
            return first + way
    stamps = m[s.chip.l2_stamps] + first
    victim = 0
    oldest = s.INF
    for way in range(ways):
        if m[stamps + way] < oldest:
            oldest = m[stamps + way]
            victim = way
    return -1 - (first + victim)


@core
def approach(m: Any, home: int, line: int, both: bool) -> None:
    """Prefetch, on the host, the state that a request for a line will need: its set, in both partitions if requested."""
    if m[s.chip.l2_keeps] == 0:
        return
    host = host_address(m) + 8 * (m[s.chip.l2_tags] + set_of(m, home, line))
    size = 8 * s.L2_WAY_WORDS * m[s.chip.l2_ways]
    for at in range(0, size, HOST_LINE_BYTES):
        prefetch(host + at)
    if both and m[s.chip.partitions] == 2:
        half = m[s.chip.slices] >> 1
        other = (half if home < half else -half) * m[s.chip.l2_slice_words] * 8
        for at in range(0, size, HOST_LINE_BYTES):
            prefetch(host + other + at)


@core
def filled(m: Any, place: int, time: int) -> None:
    """Sectors of a line arrive at ``time``."""
    at = m[s.chip.l2_fills] + place
    by_device = time + m[s.chip.epoch]
    if by_device > m[at] >> 12:
        m[at] = by_device << 12 | (m[at] & PARTS)


@core
def filled_at(m: Any, place: int) -> int:
    """When the last sectors of a line arrive, in the launch's clock; negative for lines that an earlier launch left."""
    return (m[m[s.chip.l2_fills] + place] >> 12) - m[s.chip.epoch]


@core
def bounded_dirty(m: Any, first: int) -> int:
    """Mask of a set's ways whose lines are dirty and do not persist; ``first``: place of its first way."""
    if m[s.chip.l2_ways] == WAYS:
        host = host_address(m) + 8 * (m[s.chip.l2_tags] + first)
        return dirty_ways(host, host + 8 * WAYS, DIRTY, LEVEL_LAST << LEVEL_SHIFT)
    mask = 0
    for way in range(m[s.chip.l2_ways]):
        if (
            m[m[s.chip.l2_tags] + first + way] & DIRTY
            and m[m[s.chip.l2_stamps] + first + way] >> LEVEL_SHIFT < LEVEL_LAST
        ):
            mask |= 1 << way
    return mask


@core
def limit_dirty(m: Any, piece: int, place: int, most: int, time: int) -> int:
    """Write back the least recently used dirty line of a set that has more than ``most``; it stays in its way. Returns when another line may become dirty.

    Persisting lines do not count.  A V100's L2 keeps half of its lines dirty: of kernels that write much, 98,280 to 98,400 sectors, 3 MiB of 6, have not reached DRAM
    at the end (published counters of sobolQRNG, quasirandomGenerator and mergeSort: ``bench/data/published/qv100_kernels.json``).  An H100 keeps 7 of 16 ways dirty
    (``bench/data/h100/l2_policy_counts.json``: sums on counters at random write 0.525, 0.744 and 0.867 sectors each where a set has 9.2, 12.2 and 18.3 lines of counters).
    """
    first = place - place % (m[s.chip.l2_ways] * s.L2_WAY_WORDS)
    ways = bounded_dirty(m, first)
    if popcount(ways) <= most:
        return time
    stamps = m[s.chip.l2_stamps] + first
    victim = first
    if m[s.chip.l2_ways] == WAYS:
        victim += oldest(ways, host_address(m) + 8 * stamps)
    else:
        least = s.INF
        for way in range(m[s.chip.l2_ways]):
            if (ways >> way) & 1 and m[stamps + way] < least:
                least = m[stamps + way]
                victim = first + way
    ready = complete(m, piece, victim, time) if m[m[s.chip.l2_fills] + victim] & PARTS else time
    tag_at = m[s.chip.l2_tags] + victim
    tag = m[tag_at]
    if tag & DIRTY == 0:
        return ready
    m[tag_at] = tag & ~DIRTY
    if tag & STREAMING:
        m[m[s.chip.l2_stamps] + victim] &= (1 << LEVEL_SHIFT) - 1
    if m[s.chip.crowded]:
        busy(m, piece, time, m[s.chip.crowded_write_back])
    return max(ready, send_back(m, piece, tag >> TAG_SHIFT, (tag & DIRTY) >> 4, time))


@core
def leaves_first(m: Any, piece: int, far: bool) -> bool:
    """Whether a streaming line that a write or an atomic changes leaves first once it has been written back: a share of those of each side does.

    (bench.machine.atomic_misses ``sides`` on an H200: where only SMs of the home's side add, more than twice as many lines are read again as where only those of the other side do.)
    """
    counts = counters(m, piece)
    m[counts.streamed] += m[s.chip.l2_streaming_far if far else s.chip.l2_streaming_near]
    if m[counts.streamed] < 100:
        return False
    m[counts.streamed] -= 100
    return True


@core
def used(m: Any, piece: int, place: int, time: int) -> None:
    """Mark a line as used at ``time``: among the lines of its level in its set it is replaced last."""
    at = m[s.chip.l2_stamps] + place
    level = m[at] >> LEVEL_SHIFT
    policy = m[counters(m, piece).policy]
    if policy:
        way = place % (m[s.chip.l2_ways] * s.L2_WAY_WORDS)
        level = level_after(m, at - way, way, policy)
    m[at] = (level << LEVEL_SHIFT) + max(time + m[s.chip.epoch], 1)
    if policy == LAST and m[s.chip.l2_dirty_ways] < m[s.chip.l2_ways]:
        # The line that no longer persists may be one dirty line too many.
        limit_dirty(m, piece, place, m[s.chip.l2_dirty_ways], time)


@core
def used_copy(m: Any, near: int, place: int, time: int) -> None:
    """Mark the copy of another partition's line as used; a copy never persists."""
    if m[counters(m, near).policy] != LAST:
        used(m, near, place, time)
        return
    m[m[s.chip.l2_stamps] + place] = (LEVEL_NORMAL << LEVEL_SHIFT) + max(time + m[s.chip.epoch], 1)


@core
def sectors_in_part(m: Any, parts: int) -> int:
    """Mask of the sectors of which only some words are known."""
    mask = 0
    bits = m[s.chip.part_bits]
    for sector in range(4):
        if (parts >> (bits * sector)) & ((1 << bits) - 1):
            mask |= 1 << sector
    return mask


@core
def complete(m: Any, piece: int, place: int, time: int) -> int:
    """Read the rest of a line's partly written sectors from DRAM and write them back; returns the cycle at which the slice can accept the write that needs their place.

    The error code of a sector needs the whole sector (a real H200 counts such look-ups as ``lts__t_sectors_data_ecc``).  Like an atomic on a cold sector, the write waits until
    DRAM begins the read and its write queue has room (bench.machine.single_launches on H200: stores of a million words that are 32 words apart take 69,178 cycles).
    """
    fill_at = m[s.chip.l2_fills] + place
    tag_at = m[s.chip.l2_tags] + place
    sectors = sectors_in_part(m, m[fill_at] & PARTS) & (m[tag_at] >> 4)
    m[fill_at] &= ~PARTS
    if sectors == 0:
        return time
    line = m[tag_at] >> TAG_SHIFT
    dram_read(m, piece, line, sectors, time)
    begun = max(time, read_begun(m, piece, line))
    room = write_back(m, piece, line, sectors, time) - m[s.chip.write_back_lag]
    m[counters(m, piece).completed] += popcount(sectors)
    m[tag_at] &= ~(sectors << 4)
    return max(begun, room)


@core
def write_in_part(m: Any, piece: int, place: int, sectors: int, held: int, time: int) -> int:
    """Record which sectors of a line are known only in part after a write; ``held`` has the bytes written of each sector.  Returns the cycle at which the write is accepted.

    Only some ways of a set may hold such lines: the least recently used one is completed to make room for another (bench.micro
    ``scattered_once`` and ``strided4`` under a profiler: about 61,000 lines of H200's L2, an eighth of it).
    """
    fill_at = m[s.chip.l2_fills] + place
    before = m[fill_at] & PARTS
    valid = m[m[s.chip.l2_tags] + place] & 15
    parts = before
    bits = m[s.chip.part_bits]
    for sector in range(4):
        if (sectors >> sector) & 1 == 0:
            continue
        words = (parts >> (bits * sector)) & ((1 << bits) - 1)
        if words == 0 and (valid >> sector) & 1:
            continue
        words += max(((held >> (16 * sector)) & 0xFFFF) >> 2, 1)
        parts &= ~(((1 << bits) - 1) << (bits * sector))
        if words < m[s.chip.sector_bytes] >> 2:
            parts |= words << (bits * sector)
    m[fill_at] = (m[fill_at] & ~PARTS) | parts
    if before or not parts:
        return time
    ways = m[s.chip.l2_ways]
    first = place - place % (ways * s.L2_WAY_WORDS)
    count = 0
    oldest = s.INF
    victim = place
    for way in range(first, first + ways):
        if m[m[s.chip.l2_fills] + way] & PARTS:
            count += 1
            if way != place and m[m[s.chip.l2_stamps] + way] < oldest:
                oldest = m[m[s.chip.l2_stamps] + way]
                victim = way
    return complete(m, piece, victim, time) if count > m[s.chip.l2_partial_ways] else time


@core
def send_back(m: Any, piece: int, line: int, sectors: int, time: int) -> int:
    """Write dirty sectors back to DRAM; returns when the slice can accept another write.

    They are read from the slice through its port (bench.machine.l2_policies ``set_asides`` on an H100: with 5 million counters and 6 and 7 ways set aside, a sum takes 0.036 and 0.16 cycles of its slice
    longer than where none of them is written back, 0.34 and 0.38 for each sector).
    """
    calendar = m[s.chip.slice_ports] + piece * s.CALENDAR_SLOTS
    units = popcount(sectors) * m[s.chip.write_back_sector]
    reserve(m, calendar, s.CALENDAR_SHIFT, m[s.chip.slice_capacity], time, units)
    return max(time, write_back(m, piece, line, sectors, time) - m[s.chip.write_back_lag])


@core
def install(m: Any, piece: int, line: int, place: int, time: int) -> int:
    """Replace a way; dirty sectors go to DRAM. Returns when a write that needs the way can be accepted."""
    place = -1 - place
    counts = counters(m, piece)
    installed = m[counts.installed]
    m[counts.installed] = installed + 1
    if installed < s.L2_INSTALLS:
        m[m[s.chip.l2_installs] + group_of(m, piece) * s.L2_INSTALLS + installed] = place
    ready = complete(m, piece, place, time) if m[m[s.chip.l2_fills] + place] & PARTS else time
    tag = m[m[s.chip.l2_tags] + place]
    dirty = (tag >> 4) & 15
    m[m[s.chip.l2_tags] + place] = line << TAG_SHIFT
    m[m[s.chip.l2_stamps] + place] = LEVEL_NORMAL << LEVEL_SHIFT
    m[m[s.chip.l2_fills] + place] = 0
    return max(ready, send_back(m, piece, tag >> TAG_SHIFT, dirty, time)) if dirty else ready


@core
def port(m: Any, piece: int, time: int, sectors: int) -> int:
    """Take a slice's read port for a number of sectors; fewer than its width take as long (bench.micro ``mixture``: words gathered from L2,
    78 to 80 per cycle over the chip, one per clock and slice)."""
    calendar = m[s.chip.slice_ports] + piece * s.CALENDAR_SLOTS
    units = max(sectors << m[s.chip.sector_shift], m[s.chip.l2_access])
    return reserve(m, calendar, s.CALENDAR_SHIFT, m[s.chip.slice_capacity], time, units)


@core
def queue_end(m: Any, piece: int, time: int) -> int:
    """When a request that reaches a slice at ``time`` follows the reads that wait there."""
    calendar = m[s.chip.slice_ports] + piece * s.CALENDAR_SLOTS
    return reserve(m, calendar, s.CALENDAR_SHIFT, m[s.chip.slice_capacity], time, 0)


@core
def held(m: Any, piece: int, line: int, time: int) -> int:
    """Place of a line in a slice, which is allocated if it has none."""
    place = find(m, piece, line)
    if place < 0:
        install(m, piece, line, place, time)
        place = -1 - place
    return place


@core
def write_port(m: Any, piece: int, time: int, units: int) -> int:
    """Take bytes of a slice's write port, for fills, writes and atomics; reads do not use it (bench.micro ``paths``: a copy within L2 is
    nearly as fast as a write, a copy from DRAM half as fast)."""
    calendar = m[s.chip.slice_write_ports] + piece * s.CALENDAR_SLOTS
    return reserve(m, calendar, s.CALENDAR_SHIFT, m[s.chip.slice_capacity], time, units)


@core
def busy(m: Any, piece: int, time: int, units: int) -> None:
    """Occupy both ports of a slice for a number of bytes."""
    port(m, piece, time, units >> m[s.chip.sector_shift])
    write_port(m, piece, time, units)


@core
def past_hold(m: Any, home: int, line: int, time: int) -> int:
    """When an access that reaches its home at ``time`` goes on: not while an atomic that needs DRAM holds up the line's channel (``hold_channel``)."""
    if m[queue_of(m, home).waits] <= time:
        return time
    return max(time, channel_held(m, home, line))


@core
def widen(m: Any, line: int, sectors: int) -> int:
    """The sectors that a miss fetches: pairs or the whole line, and always the whole line if it may be compressed."""
    fetch = m[s.chip.l2_fetch]
    whole = fetch >= m[s.chip.line_sectors] or (m[s.chip.compressible_count] and entry_of(m, line))
    if whole:
        return m[s.chip.whole_line]
    return sectors | ((sectors & 5) << 1) | ((sectors & 10) >> 1) if fetch == 2 else sectors


@core
def home_read(m: Any, home: int, line: int, sectors: int, start: int, far: bool) -> int:
    """When the home slice has the sectors; ``start``: when its port took the request.

    A sector in flight counts as a hit, whoever requested it, and whichever sector of its pair (bench.micro ``halves_once``).
    """
    if m[s.chip.l2_keeps] == 0:
        return dram_read(m, home, line, sectors, start)
    place = held(m, home, line, start)
    tag_at = m[s.chip.l2_tags] + place
    tag = m[tag_at]
    missing = sectors & ~tag & 15
    ready = start
    hits = 0
    if sectors & tag:
        ready = max(ready, filled_at(m, place))
        hits = popcount(sectors & tag)
    if missing:
        fetch = widen(m, line, missing) & ~tag & 15
        come = dram_read(m, home, line, fetch, start)
        come = write_port(m, home, come, popcount(fetch) * m[s.chip.l2_fill])
        filled(m, place, come)
        ready = max(ready, come)
        tag |= fetch
    if not far:
        m[counters(m, home).hits] += hits
    else:
        m[counters(m, home).far_hits] += hits
        tag |= COPIED
    m[tag_at] = tag
    used(m, home, place, start)
    return ready


@core
def line_turn(m: Any, home: int, line: int, time: int, units: int) -> int:
    """When a read of ``units`` has its turn on a line that atomics change; the port is taken for the access's own time when it arrives."""
    start = write_port(m, home, time, min(units, m[s.chip.l2_access]))
    m[queue_of(m, home).awaited] = line + 1
    return take_line(m, atomics_on(m, home, line), start << FRACTION, units) >> FRACTION


@core
def home_turn(m: Any, home: int, line: int, time: int) -> int:
    """When the home accepts a read of its own side that arrives at ``time``: in its turn if atomics on the line wait (bench.micro ``beside``)."""
    units = turn_units(m, home, line, time, NEAR)
    if not units:
        return time
    turn = turn_between(m, home, line, time, units)
    if turn < 0:
        return line_turn(m, home, line, time, units)
    write_port(m, home, turn, units)
    return turn


@core
def look_port(m: Any, piece: int, home: int, line: int, time: int, count: int, paired: bool) -> int:
    """Take a slice's read port for a load; ``paired``: a strong one of the device's scope, of which two are answered at once."""
    if paired and is_pair(m, piece, home, line, time):
        calendar = m[s.chip.slice_ports] + piece * s.CALENDAR_SLOTS
        return reserve(m, calendar, s.CALENDAR_SHIFT, m[s.chip.slice_capacity], time, 0)
    return port(m, piece, time, count)


@core
def has_sectors(m: Any, piece: int, line: int, sectors: int, time: int) -> bool:
    """Whether a slice has sectors of a line at ``time``."""
    place = find(m, piece, line)
    return place >= 0 and sectors & ~m[m[s.chip.l2_tags] + place] & 15 == 0 and filled_at(m, place) <= time


@core
def read(m: Any, partition: int, home: int, line: int, sectors: int, time: int, paired: bool) -> int:
    """When a slice of the SM's partition can answer a load that reaches it at ``time``. Missing sectors of another partition's line are fetched in pairs, as from DRAM (bench.micro ``scattered_once``: two
    look-ups across for each missed sector of 32 bytes).  While SMs of the home's side write to the line, each read that arrives before the copy requests only
    its own sectors (``hot_sides``: 0.88 to 0.94 of such loads go across, beside stores in 7 and in 55 cycles).
    """
    count = popcount(sectors)
    counts = counters(m, home)
    m[counts.read] += count
    if not is_far(m, partition, home):
        time = past_hold(m, home, line, read_turn(m, home, line, time, m[s.chip.read_after_write]))
        turn = home_turn(m, home, line, time)
        looked = look_port(m, home, home, line, time, count, paired)
        return home_read(m, home, line, sectors, max(turn, looked), False)
    near = counterpart(m, home)
    waits = m[s.chip.read_after_write]
    if remembers_writes(m, near, line) and not has_sectors(m, near, line, sectors, time):
        waits = m[s.chip.far_latency]
    start = look_port(m, near, home, line, read_turn(m, near, line, time, waits), count, paired)
    comes = start + (m[s.chip.far_latency] >> 1)
    units = turn_units(m, home, line, comes, FAR)
    if units:
        m[counts.far_reads] += count
        return read_among_atomics(m, home, line, sectors, line_turn(m, home, line, comes, units))
    place = held(m, near, line, start)
    tag_at = m[s.chip.l2_tags] + place
    if copy_left(m, home, line, start):
        m[tag_at] &= ~15
    tag = m[tag_at]
    missing = sectors & ~tag & 15
    ready = start
    coming = sectors & tag != 0 and filled_at(m, place) > start
    alone = (missing != 0 or coming) and is_being_written(m, home, line)
    if alone and coming:
        missing = sectors
    if sectors & tag & ~missing:
        ready = max(ready, filled_at(m, place))
        m[counts.hits] += popcount(sectors & tag & ~missing)
    if missing:
        if not alone:
            missing = widen(m, line, missing) & ~tag & 15
        m[counts.far_reads] += popcount(missing)
        come = write_port(m, near, fetched(m, home, line, missing, comes, alone), popcount(missing) * m[s.chip.l2_fill])
        filled(m, place, come)
        ready = max(ready, come)
        m[tag_at] = tag | missing
    used_copy(m, near, place, start)
    return ready


@core
def read_again(m: Any, home: int, line: int, where: Place, count: int, time: int) -> int:
    """When the home can answer one of several loads of ``count`` sectors that L2 does not keep; ``where``: the line's place in DRAM."""
    time = read_turn(m, home, line, time, m[s.chip.read_after_write])
    turn = home_turn(m, home, line, time)
    return read_at(m, where, count, max(turn, port(m, home, time, count)))


@core
def fetched(m: Any, home: int, line: int, sectors: int, time: int, alone: bool) -> int:
    """When sectors that the other side requests from the home at ``time`` have crossed; ``alone``: independently of reads that wait for the line's writes."""
    if alone:
        pass_beside(m, home)
    else:
        time = read_turn(m, home, line, time, m[s.chip.read_after_write])
    far = m[s.chip.far_latency]
    count = popcount(sectors)
    turn = after_atomics(m, home, line, past_hold(m, home, line, time))
    come = home_read(m, home, line, sectors, port(m, home, turn, count), True)
    if lent_and_back(m, home, line, turn):
        # The home's atomics wait as well, unless the last of them was on another line.
        if m[m[s.chip.atomic_lines] + home * m[s.chip.atomic_line_count]] == line + 1:
            write_port(m, home, turn, (far * m[s.chip.slice_capacity]) >> s.CALENDAR_SHIFT)
        m[m[s.chip.l2_tags] + find(m, home, line)] &= ~COPIED
    return crosses(m, home, come, count << m[s.chip.sector_shift]) + far - (far >> 1)


@core
def read_among_atomics(m: Any, home: int, line: int, sectors: int, start: int) -> int:
    """When the answer of a read is across that is in the home's queue among atomics from its side, which leave it no copy; of those after a read, not after an atomic, one answer
    crosses for all."""
    far = m[s.chip.far_latency]
    come = home_read(m, home, line, sectors, start, True)
    size = share_of(m, atomics_on(m, home, line), popcount(sectors) << m[s.chip.sector_shift])
    return crosses(m, home, come, size) + far - (far >> 1)


@core
def counterpart(m: Any, home: int) -> int:
    """The slice of the other partition that keeps copies of a slice's lines."""
    half = m[s.chip.slices] >> 1
    return home - half if home >= half else home + half


@core
def stored_bytes(m: Any, count: int, full: int) -> int:
    """What a store of so many sectors, so many of them whole, takes of the way to the other side: of the others it must say which bytes are written
    (bench.micro ``crossing``: far stores of every other word 33.6 sectors per cycle over the chip, of whole lines 41.6)."""
    return (full << m[s.chip.sector_shift]) + (count - full) * m[s.chip.far_masked]


@core
def home_of_write(m: Any, partition: int, home: int, time: int, size: int) -> int:
    """When a write or atomic reaches its home; ``size``: bytes that cross when it is far."""
    if is_far(m, partition, home):
        return crosses(m, counterpart(m, home), time, size) + (m[s.chip.far_latency] >> 1)
    return time


@core
def mirror_of(m: Any, home: int, line: int, start: int) -> int:
    """Place of a line in the other partition, where a written line takes room too (bench.micro ``streams_once``: dirty lines begin to leave
    when those written, twice, and those read, one and a half times, fill L2)."""
    mirror = counterpart(m, home)
    place = find(m, mirror, line)
    if place < 0:
        install(m, mirror, line, place, start)
        place = -1 - place
        used_copy(m, mirror, place, start)
    return place


@core
def touch(m: Any, home: int, line: int, start: int, far: bool, left: int) -> int:
    """A place for a line that is written at its home: place << 40 | when the home can take it.

    A write from the other side (``far``) passes that side's slice and leaves there the sectors ``left`` that it writes whole; what the slice has of the
    others it brings up to date.  A line that the home did not have takes room there too, except for an atomic (``left`` = -1: an H100's L2 keeps 13.5 of 18.3 lines of
    counters in a set of 16 ways).  After a write from the home's own side, and after an atomic, the other side's copy is gone, all of it
    (bench.machine.written on an H200: what a reader finds on its own side, by the sides of writer and home).
    """
    place = find(m, home, line)
    asked = counters(m, home).policy
    policy = m[asked]
    if policy == FIRST:
        # While it is dirty, a streaming line is kept as if it were normal.
        m[asked] = NORMAL
    ready = start
    new = place < 0
    if new:
        ready = install(m, home, line, place, start)
        place = -1 - place
    if m[s.chip.partitions] == 2:
        tag_at = m[s.chip.l2_tags] + place
        if far and left > 0:
            copy = mirror_of(m, home, line, start)
            m[m[s.chip.l2_tags] + copy] |= left
            used_copy(m, home, copy, start)
            m[tag_at] |= COPIED
        elif new and left >= 0:
            mirror_of(m, home, line, start)
        if m[tag_at] & COPIED and not far and left >= 0:
            copy = find(m, counterpart(m, home), line)
            if copy >= 0:
                m[m[s.chip.l2_tags] + copy] &= ~15
    tag_at = m[s.chip.l2_tags] + place
    if policy != UNCHANGED:
        early = policy == FIRST and leaves_first(m, home, far)
        m[tag_at] = (m[tag_at] & ~STREAMING) | (STREAMING if early else 0)
    limited = m[s.chip.l2_dirty_ways] < m[s.chip.l2_ways] and m[tag_at] & DIRTY == 0
    if limited and m[m[s.chip.l2_stamps] + place] >> LEVEL_SHIFT != LEVEL_LAST and policy != LAST:
        ready = max(ready, limit_dirty(m, home, place, m[s.chip.l2_dirty_ways] - 1, start))
    used(m, home, place, start)
    return place << 40 | ready


@core
def write(m: Any, partition: int, home: int, line: int, sectors: int, held: int, time: int) -> int:
    """When the home has taken a write that reaches the SM's partition at ``time``. The write occupies its write port for the request, each whole sector and each partial sector
    (bench.micro ``scattered``: 38.7 words and 44.4 whole sectors per cycle over the chip at random places; ``crossing``: 81.5 sectors of whole lines, 64.8 of lines with
    every other word).  ``held``: bytes of each sector, 16 bits each.
    """
    count = popcount(sectors)
    counts = counters(m, home)
    m[counts.written] += count
    full = popcount(sectors & covered(m, held))
    after = m[s.chip.read_after_write]
    far = is_far(m, partition, home)
    if far:
        m[counts.far_writes] += count
        passed = write_turn(m, counterpart(m, home), line, time, after)
        arrives = write_from_afar(
            m, home, line, home_of_write(m, partition, home, passed, stored_bytes(m, count, full))
        )
    else:
        arrives = write_turn(m, home, line, time, after)
    units = m[s.chip.l2_write_request] + full * m[s.chip.l2_write_whole] + (count - full) * m[s.chip.l2_write_part]
    start = write_port(m, home, past_hold(m, home, line, arrives), units)
    return written(m, home, line, sectors, held, start, far)


@core
def written(m: Any, home: int, line: int, sectors: int, held: int, start: int, far: bool) -> int:
    """The home accepts written data from its own side or the other; returns when."""
    if m[s.chip.l2_keeps] == 0:
        return max(start, dram_write(m, home, line, sectors, start) - m[s.chip.write_back_lag])
    touched = touch(m, home, line, start, far, sectors & covered(m, held))
    place = touched >> 40
    if m[s.chip.compressible_count]:
        note_change(m, line, sectors & covered(m, held) == m[s.chip.whole_line])
    accepted = touched & ((1 << 40) - 1)
    if sectors & ~covered(m, held) or m[m[s.chip.l2_fills] + place] & PARTS:
        accepted = max(accepted, write_in_part(m, home, place, sectors, held, start))
    m[m[s.chip.l2_tags] + place] |= sectors | (sectors << 4)
    return accepted


@core
def is_far(m: Any, partition: int, home: int) -> bool:
    """Whether a slice is in the other partition."""
    return bool(m[s.chip.partitions] == 2 and (home >= m[s.chip.slices] >> 1) != (partition == 1))
