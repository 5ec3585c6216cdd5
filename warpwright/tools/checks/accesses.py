"""Reads a warp's trace records in execution order and checks every access; compiled to machine code (``native``).

Most accesses of a warp find cells that a single earlier access filled, by lanes that a barrier has ordered before all of the warp's own. Therefore the stamp
that was last found ordered is compared first, clocks are looked up only if the stamp differs, and lanes are distinguished only if necessary.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import (
    ALIKE,
    LOCAL_WINDOW,
    MAX_CLUSTER,
    SHARED_WINDOW,
    TAG_AFFINE,
    TAG_BLOCK,
    TAG_BULK,
    TAG_GATHER,
    TAG_PATTERN,
    TAG_SYNC,
)
from warpwright.isa.ops import SHARED_RANK_SHIFT
from warpwright.native.intrinsics import core, lowest_bit, peek, poke
from warpwright.timing.records import Addresses, address_of, decode, lanes_of
from warpwright.tools.checks.events import COLUMNS, Column, Event
from warpwright.tools.checks.intrinsics import array_at, highest_bit
from warpwright.tools.checks.shadow import (
    A_END,
    A_SECTORS,
    A_WRITTEN,
    ALLOCATION_WORDS,
    ANY,
    BEYOND,
    BROKEN,
    BULK_COPY,
    CHECK_CONSTANTS,
    CHECK_RACES,
    CHECK_UNDEFINED,
    COUNT_TRAFFIC,
    DONE,
    EPOCH_BITS,
    ERROR,
    HALF_LANES,
    KEEP_SECTORS,
    LANE_BITS,
    M_BYTES,
    M_CELLS,
    M_HOST,
    M_VISITS,
    M_WRITTEN,
    MEMBER_WORDS,
    MOST_LANES,
    NARROW,
    NEXT_READER,
    OTHER_STAMP,
    OWN,
    READ_INFO,
    READ_STAMP,
    S_ARGUMENT,
    S_BLOCK,
    S_COPY,
    S_ELSEWHERE,
    S_EPOCH,
    S_EVENT,
    S_EVENT_END,
    S_GLOBAL_OLDEST,
    S_GUARD,
    S_HALF,
    S_HALVES,
    S_LANES,
    S_LANES_OF_WAVE,
    S_MEMBERS,
    S_OPTIONS,
    S_POSITION,
    S_RANK,
    S_RECORD,
    S_RECORDS,
    S_SECTORS,
    S_SHARED_BYTES,
    S_SHARED_CELLS,
    S_SHARED_HOST,
    S_SHARED_OLDEST,
    S_SHARED_SHIFT,
    S_SHARED_WRITTEN,
    S_USED,
    S_WARP_IN_BLOCK,
    S_WARPS,
    S_WHOLE,
    S_WINDOWS,
    SHADOW,
    SYNCHRONISE,
    V_ADDRESS,
    V_INSTRUCTION,
    V_LANE,
    V_STAMP,
    VISIT_WORDS,
    WRITE_INFO,
    WRITE_STAMP,
    Access,
    Found,
    Memory,
    Tables,
    accessor_stamp,
    allocation_at,
    cell_at,
    check_reader,
    check_write,
    defined,
    enters_l1,
    info_of_read,
    is_ordered,
    may_be_in_l1,
    memory_of,
    note,
    one_lane,
    remember_read,
    strength_of_write,
    value_at,
    within,
)
from warpwright.tools.checks.traffic import Traffic, count_sectors, count_wavefronts
from warpwright.tools.checks.vector_races import (
    greatest_of,
    is_row,
    is_window,
    least_of,
    loads_in_rows,
    loads_in_window,
    stores_in_rows,
    window_of,
)

E_EVENT, E_INSTRUCTION, E_BYTES, E_STRONG, E_SCOPE = (
    int(Column.EVENT),
    int(Column.INSTRUCTION),
    int(Column.BYTES),
    int(Column.STRONG),
    int(Column.SCOPE),
)
E_SYNCHRONISES, E_UNIFORM, E_COPY, E_GUARD = (
    int(Column.SYNCHRONISES),
    int(Column.UNIFORM),
    int(Column.COPY),
    int(Column.GUARD),
)
LOAD, STORE, ATOMIC, LANES, FENCE, CONSTANT, BULK, PROXY, COMMIT, WAIT, *_ = (int(e) for e in Event)
WINDOW_MASK = ~0xFFFFFF
OFFSET_MASK = 0xFFFFFFFF
WRITTEN_TOGETHER = 512
"""Largest span of bytes read by a warp that is tested at once for unwritten bytes: 16 bytes per lane."""


@core
def full_wave(width: int) -> int:
    """The mask of all lanes of a wave."""
    return -1 if width == MOST_LANES else (1 << width) - 1


@core
def synchronise_lanes(s: Any, lanes_known: Any, lanes: int) -> None:
    """Synchronise lanes: each learns what the others knew, and everything that they have done up to now."""
    s[S_EPOCH] += 1
    width = s[S_LANES_OF_WAVE]
    if lanes == full_wave(width):
        s[S_WHOLE] = s[S_EPOCH]
        return
    for other in range(width):
        most = 0
        left = lanes
        while left:
            lane = lowest_bit(left)
            left &= left - 1
            most = max(most, lanes_known[lane * width + other])
        if (lanes >> other) & 1:
            most = s[S_EPOCH]
        left = lanes
        while left:
            lane = lowest_bit(left)
            left &= left - 1
            lanes_known[lane * width + other] = most


@core
def loads(t: Tables, a: Access, memory: Memory, addresses: Addresses) -> None:
    """Check a load, whose lanes all read the same memory, for races."""
    s, known, foreign = t.s, t.known, t.foreign
    base, tabled, step, mask = addresses
    strong, instruction, size = a.strong, a.instruction, a.size
    origin, limit, cells, shift, _ = memory
    oldest = s[S_SHARED_OLDEST] if a.space < 0 else s[S_GLOBAL_OLDEST]
    stamp = accessor_stamp(s)
    info = info_of_read(s, strong, instruction)
    start = address_of(base, tabled, step, 0) - origin
    if is_row(s[S_SECTORS], start, limit, shift, size, tabled, step, mask) and loads_in_rows(
        t, memory, info, stamp, oldest, start, size, mask
    ):
        return
    if tabled:
        low, high = base + least_of(step, mask) - origin, base + greatest_of(step, mask) - origin
        if is_window(s[S_SECTORS], low, high, limit, shift, size):
            window = window_of(s[S_WINDOWS], step, base, low + origin, size, shift, mask)
            if loads_in_window(t, memory, info, stamp, oldest, low, window):
                return
    one_place = step == 0 and not tabled
    ordered = 0
    left = mask
    while left:
        lane = lowest_bit(left)
        lanes = left if one_place else 1 << lane
        left &= ~lanes
        offset = address_of(base, tabled, step, lane) - origin
        if offset < 0 or offset + size > limit:
            continue
        if strong == 0:
            enters_l1(s, offset)
        first = offset >> shift
        for granule in range(first, ((offset + size - 1) >> shift) + 1):
            cell = cell_at(cells, granule)
            write = peek(cell + WRITE_STAMP)
            if write != ordered and write & EPOCH_BITS >= oldest:
                if is_ordered(s, known, foreign, write):
                    ordered = write
                else:
                    where = origin + offset + ((granule - first) << shift)
                    rest = lanes
                    while rest:
                        single = lowest_bit(rest)
                        rest &= rest - 1
                        check_write(t, a, cell, -1, where, single)
            held = peek(cell + READ_STAMP)
            if held == stamp:
                poke(cell + READ_INFO, info | (peek(cell + READ_INFO) & LANE_BITS) | lanes)
            elif held & EPOCH_BITS < oldest:
                poke(cell + READ_STAMP, stamp)
                poke(cell + READ_INFO, info | lanes)
            else:
                remember_read(cell, stamp, oldest, info | lanes)


@core
def stores(t: Tables, a: Access, memory: Memory, addresses: Addresses) -> None:
    """As ``loads``, for a store or an atomic."""
    s, known, foreign = t.s, t.known, t.foreign
    base, tabled, step, mask = addresses
    strong, instruction, size = a.strong, a.instruction, a.size
    origin, limit, cells, shift, host = memory
    oldest = s[S_SHARED_OLDEST] if a.space < 0 else s[S_GLOBAL_OLDEST]
    stamp = s[S_COPY] if a.copy else accessor_stamp(s)
    start = address_of(base, tabled, step, 0) - origin
    plain = strength_of_write(strong) | instruction << 32
    if is_row(s[S_SECTORS], start, limit, shift, size, tabled, step, mask) and stores_in_rows(
        t, memory, plain, stamp, oldest, start, size, mask
    ):
        return
    ordered = 0
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        offset = address_of(base, tabled, step, lane) - origin
        if offset < 0 or offset + size > limit:
            continue
        strength = strength_of_write(strong) | may_be_in_l1(s, offset)
        first = offset >> shift
        for granule in range(first, ((offset + size - 1) >> shift) + 1):
            cell = cell_at(cells, granule)
            further = (granule - first) << shift
            value = value_at(host + offset + further, shift)
            write = peek(cell + WRITE_STAMP)
            if write != ordered and write & EPOCH_BITS >= oldest:
                if is_ordered(s, known, foreign, write):
                    ordered = write
                else:
                    check_write(t, a, cell, value, origin + offset + further, lane)
            for slot in range(READ_STAMP, OTHER_STAMP + 1, NEXT_READER):
                read = peek(cell + slot)
                if read != ordered and read & EPOCH_BITS >= oldest:
                    if is_ordered(s, known, foreign, read):
                        ordered = read
                    else:
                        check_reader(t, a, cell, slot, origin + offset + further, lane)
            poke(cell + WRITE_STAMP, stamp)
            poke(cell + WRITE_INFO, lane << 58 | strength | instruction << 32 | value)


@core
def is_written(written: int, offset: int, size: int) -> bool:
    """Whether all of these bytes have been written."""
    at = written + offset
    end = at + size
    while at < end:
        first = at & 7
        count = min(8 - first, end - at)
        bits = (-1 if count == 8 else (1 << (8 * count)) - 1) << (8 * first)
        if peek(at & ~7) & bits != bits:
            return False
        at += count
    return True


@core
def missing_shadow(memory: Memory, size: int) -> int:
    """What an access of ``size`` bytes per lane needs first: SHADOW, NARROW, or DONE for nothing."""
    if memory.cells == 0:
        return SHADOW
    return NARROW if size < 4 and memory.shift == 2 else DONE


@core
def lane_by_lane(t: Tables, a: Access, allocations: Any, addresses: Addresses) -> int:
    """Check an access to global memory whose lanes may be in several allocations; returns what is missing first, or DONE."""
    s = t.s
    base, tabled, step, mask = addresses
    size = a.size
    races = s[S_OPTIONS] & CHECK_RACES
    one = -1
    for turn in range(2):
        left = mask
        while left:
            lane = lowest_bit(left)
            left &= left - 1
            address = address_of(base, tabled, step, lane)
            if not within(allocations, one, address):
                one = allocation_at(s, allocations, address)
            if one < 0 or address + size > allocations[one * ALLOCATION_WORDS + A_END]:
                continue
            memory = memory_of(s, allocations, one)
            if turn == 0:
                if races and missing_shadow(memory, size) != DONE:
                    s[S_ARGUMENT] = one
                    return missing_shadow(memory, size)
                continue
            here = Access(a.event, a.strong, a.instruction, one, size, a.uniform, a.copy)
            if races:
                s[S_SECTORS] = allocations[one * ALLOCATION_WORDS + A_SECTORS] if s[S_OPTIONS] & KEEP_SECTORS else 0
                one_lane(t, here, memory, address, lane)
            written = allocations[one * ALLOCATION_WORDS + A_WRITTEN]
            if s[S_OPTIONS] & CHECK_UNDEFINED and written:
                defined(s, t.findings, here, address, lane, written + address - memory.origin)
    return DONE


@core
def check_written(t: Tables, a: Access, memory: Memory, addresses: Addresses, written: int) -> None:
    """Whether the bytes of every lane have been written; ``written`` is the memory's map of written bytes."""
    base, tabled, step, mask = addresses
    least, most = bounds_of(addresses)
    origin, limit = memory.origin, memory.limit
    size = a.size
    left = mask
    span = most - least + size
    together = span <= WRITTEN_TOGETHER and least >= origin and least - origin + span <= limit
    if together and is_written(written, least - origin, span):
        left = 0
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        address = address_of(base, tabled, step, lane)
        within_it = address - origin >= 0 and address - origin + size <= limit
        if within_it and not is_written(written, address - origin, size):
            defined(t.s, t.findings, a, address, lane, written + address - origin)


@core
def bounds_of(addresses: Addresses) -> tuple[int, int]:
    """The lowest and the highest of the lanes' addresses."""
    base, tabled, step, mask = addresses
    if tabled:
        return base + least_of(step, mask), base + greatest_of(step, mask)
    low = address_of(base, tabled, step, lowest_bit(mask))
    high = address_of(base, tabled, step, highest_bit(mask))
    return min(low, high), max(low, high)


@core
def one_memory(t: Tables, a: Access, memory: Memory, addresses: Addresses, written: int) -> None:
    """Check every lane of an access whose lanes are all in one memory."""
    if t.s[S_OPTIONS] & CHECK_RACES:
        if a.event == LOAD:
            loads(t, a, memory, addresses)
        else:
            stores(t, a, memory, addresses)
    if t.s[S_OPTIONS] & CHECK_UNDEFINED and written:
        check_written(t, a, memory, addresses, written)


@core
def remember_visit(s: Any, member: Any, a: Access, address: int, lane: int) -> None:
    """Record that a block accesses the shared memory of another block of its cluster, which must not end before it knows of the access."""
    row = (s[S_RANK] * s[S_WARPS] + s[S_WARP_IN_BLOCK]) * VISIT_WORDS
    visits = array_at(member[M_VISITS])
    visits[row + V_STAMP], visits[row + V_INSTRUCTION] = accessor_stamp(s), a.instruction
    visits[row + V_ADDRESS], visits[row + V_LANE] = address, lane


@core
def of_shared(t: Tables, a: Access, addresses: Addresses) -> None:
    """Check every lane of an access to shared memory: the block's own, or that of the block of its cluster whose rank each lane's address holds."""
    s = t.s
    base, tabled, step, mask = addresses
    if s[S_MEMBERS] == 0:
        shared = Memory(SHARED_WINDOW, s[S_SHARED_BYTES], s[S_SHARED_CELLS], s[S_SHARED_SHIFT], s[S_SHARED_HOST])
        here = Access(a.event, a.strong, a.instruction, OWN, a.size, a.uniform, a.copy)
        one_memory(t, here, shared, addresses, s[S_SHARED_WRITTEN])
        return
    left = mask
    while left:
        first = lowest_bit(left)
        window = address_of(base, tabled, step, first) & WINDOW_MASK
        lanes = 0
        rest = left
        while rest:
            lane = lowest_bit(rest)
            rest &= rest - 1
            if address_of(base, tabled, step, lane) & WINDOW_MASK == window:
                lanes |= 1 << lane
        left &= ~lanes
        named = (window - SHARED_WINDOW) >> SHARED_RANK_SHIFT
        rank = s[S_RANK] if a.space == OWN else named
        if rank >= MAX_CLUSTER:
            continue
        member = array_at(s[S_MEMBERS] + rank * MEMBER_WORDS * 8)
        shared = Memory(window, member[M_BYTES], member[M_CELLS], s[S_SHARED_SHIFT], member[M_HOST])
        elsewhere = rank != s[S_RANK]
        space = ANY - rank if elsewhere else OWN
        s[S_ELSEWHERE] = 1 if elsewhere else 0
        here = Access(a.event, a.strong, a.instruction, space, a.size, a.uniform, a.copy)
        one_memory(t, here, shared, Addresses(base, tabled, step, lanes), member[M_WRITTEN])
        if elsewhere:
            remember_visit(s, member, here, address_of(base, tabled, step, first), first)
        s[S_ELSEWHERE] = 0


@core
def access(t: Tables, a: Access, allocations: Any, addresses: Addresses) -> int:
    """Check every lane of an access; returns DONE, or what is missing first."""
    s = t.s
    low = address_of(addresses.base, addresses.tabled, addresses.step, lowest_bit(addresses.mask))
    window = low & WINDOW_MASK
    if window == LOCAL_WINDOW:
        return DONE
    s[S_SECTORS] = 0
    if SHARED_WINDOW <= window < LOCAL_WINDOW:
        of_shared(t, a, addresses)
        return DONE
    one = allocation_at(s, allocations, low)
    if one < 0:
        return lane_by_lane(t, a, allocations, addresses)
    memory = memory_of(s, allocations, one)
    least, most = bounds_of(addresses)
    if least < memory.origin or most + a.size > memory.origin + memory.limit:
        return lane_by_lane(t, a, allocations, addresses)
    if s[S_OPTIONS] & CHECK_RACES and missing_shadow(memory, a.size) != DONE:
        s[S_ARGUMENT] = one
        return missing_shadow(memory, a.size)
    if s[S_OPTIONS] & KEEP_SECTORS:
        s[S_SECTORS] = allocations[one * ALLOCATION_WORDS + A_SECTORS]
    here = Access(a.event, a.strong, a.instruction, one, a.size, a.uniform, a.copy)
    one_memory(t, here, memory, addresses, allocations[one * ALLOCATION_WORDS + A_WRITTEN])
    return DONE


@core
def halves_of_access(t: Tables, a: Access, allocations: Any, addresses: Addresses) -> int:
    """Check every lane of an access, one half after the other in a wave of more than 32 lanes; returns DONE, or what is missing first."""
    s = t.s
    base, tabled, step, mask = addresses
    while s[S_HALF] <= s[S_HALVES]:
        first = HALF_LANES * s[S_HALF]
        mine = (mask >> first) & LANE_BITS
        if mine:
            start = base if tabled else base + first * step
            table = step + 8 * first if tabled else step
            reason = access(t, a, allocations, Addresses(start, tabled, table, mine))
            if reason != DONE:
                return reason
        s[S_HALF] += 1
    s[S_HALF] = 0
    return DONE


@core
def look_at(
    t: Tables, seen: Any, events: Any, allocations: Any, traffic: Traffic, addresses: Addresses, alike: bool
) -> int:
    """Check the access of the next event; returns DONE, or what is missing first."""
    s = t.s
    row = s[S_EVENT] * COLUMNS
    event, strong = events[row + E_EVENT], events[row + E_STRONG]
    instruction, size = events[row + E_INSTRUCTION], events[row + E_BYTES]
    s[S_GUARD] = events[row + E_GUARD]
    others = seen if strong else t.foreign
    space = OWN if events[row + E_SCOPE] else ANY
    a = Access(event, strong, instruction, space, size, events[row + E_UNIFORM] | alike, events[row + E_COPY])
    reason = halves_of_access(Tables(s, t.known, t.lanes_known, others, t.findings), a, allocations, addresses)
    if reason != DONE:
        return reason
    window = address_of(addresses.base, addresses.tabled, addresses.step, lowest_bit(addresses.mask)) & WINDOW_MASK
    if s[S_OPTIONS] & COUNT_TRAFFIC and event != ATOMIC and window != LOCAL_WINDOW:
        if SHARED_WINDOW <= window < LOCAL_WINDOW:
            count_wavefronts(traffic, instruction, addresses, size, s[S_LANES_OF_WAVE])
        else:
            count_sectors(traffic, instruction, addresses, size)
    return DONE


@core
def constants(s: Any, findings: Any, instruction: int, limit: int, size: int, addresses: Addresses) -> None:
    """Check an indexed read of constant memory; a read after the end of the bank gives 0."""
    base, tabled, step, mask = addresses
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        offset = address_of(base, tabled, step, lane) & OFFSET_MASK
        if offset + size > limit:
            note(s, findings, Found(BEYOND, ERROR, 0, instruction, 0, offset, size, -1, -1, lane))


@core
def next_block(s: Any, starts: Any, head: int) -> int:
    """Take the next basic-block record. Returns DONE if there is none, BROKEN if the record is of another kind, otherwise SYNCHRONISE."""
    records = s[S_RECORDS]
    if s[S_POSITION] >= s[S_USED]:
        return DONE
    word = peek(records + s[S_POSITION] * 8)
    if (word >> 60) & 15 == TAG_SYNC:
        s[S_POSITION] += head + 1
        return SYNCHRONISE
    if (word >> 60) & 15 != TAG_BLOCK:
        return BROKEN
    number = (word >> 32) & 0xFFFFFFF
    s[S_LANES] = lanes_of(records + s[S_POSITION] * 8, head)
    s[S_POSITION] += head
    s[S_BLOCK] = number
    s[S_EVENT] = starts[number]
    s[S_EVENT_END] = starts[number + 1]
    return SYNCHRONISE


@core
def read_records(t: Tables, seen: Any, starts: Any, events: Any, allocations: Any, traffic: Traffic) -> int:
    """Read records until none are left or the caller must do something first; returns the reason.

    Args:
        seen: as ``t.foreign``, for strong accesses (``BlockClocks.seen``).
        allocations: int64[S_ALLOCATIONS, ALLOCATION_WORDS], sorted by address.
    """
    s = t.s
    records = s[S_RECORDS]
    head = 1 + s[S_HALVES]
    while True:
        while s[S_EVENT] < s[S_EVENT_END]:
            row = s[S_EVENT]
            event = events[row * COLUMNS + E_EVENT]
            if event == LANES:
                synchronise_lanes(s, t.lanes_known, s[S_LANES])
                s[S_EVENT] = row + 1
                continue
            if event == FENCE or event >= PROXY:
                s[S_EVENT] = row + 1
                s[S_ARGUMENT] = row
                return SYNCHRONISE
            position = s[S_POSITION]
            if position >= s[S_USED]:
                break
            tag = (peek(records + position * 8) >> 60) & 15
            if tag == TAG_SYNC:
                s[S_POSITION] = position + head + 1
                continue
            if event == BULK and tag == TAG_BULK:
                s[S_ARGUMENT] = row
                return BULK_COPY
            if tag != TAG_AFFINE and tag != TAG_PATTERN and tag != TAG_GATHER:
                return BROKEN
            words, mask, base, tabled, step = decode(records + position * 8, head, s[S_LANES_OF_WAVE])
            alike = peek(records + position * 8) & ALIKE != 0
            addresses = Addresses(base, tabled, step, mask)
            if mask and event == CONSTANT and s[S_OPTIONS] & CHECK_CONSTANTS and events[row * COLUMNS + E_SCOPE]:
                limit, size = events[row * COLUMNS + E_SCOPE], events[row * COLUMNS + E_BYTES]
                constants(s, t.findings, events[row * COLUMNS + E_INSTRUCTION], limit, size, addresses)
            if mask and event != CONSTANT:
                reason = look_at(t, seen, events, allocations, traffic, addresses, alike)
                if reason != DONE:
                    return reason
            s[S_RECORD] = position
            s[S_POSITION] = position + words
            s[S_EVENT] = row + 1
            if mask and events[row * COLUMNS + E_SYNCHRONISES]:
                s[S_ARGUMENT] = row
                return SYNCHRONISE
        came = next_block(s, starts, head)
        if came != SYNCHRONISE:
            return came
