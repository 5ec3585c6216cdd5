"""Reads a warp's trace records in the order of execution and judges every access; machine code (``native``).

Most accesses of a warp find cells that one earlier access filled, by lanes that a barrier has ordered before all of its own: the stamp that was
found ordered last is compared first, and only where it is another one is anything looked up; lanes are told apart only where
they must be.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import (
    ALIKE,
    LOCAL_WINDOW,
    SHARED_WINDOW,
    TAG_AFFINE,
    TAG_BLOCK,
    TAG_BULK,
    TAG_GATHER,
    TAG_PATTERN,
    TAG_SYNC,
)
from warpwright.native.intrinsics import core, lowest_bit, peek, poke
from warpwright.timing.records import address_of, decode, lanes_of
from warpwright.tools.checks.events import COLUMNS, Column, Event
from warpwright.tools.checks.intrinsics import highest_bit
from warpwright.tools.checks.shadow import (
    A_CELLS,
    A_END,
    A_FIRST,
    A_SECTORS,
    A_SHIFT,
    A_WRITTEN,
    ALLOCATION_WORDS,
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
    MOST_LANES,
    NARROW,
    NEXT_READER,
    OTHER_STAMP,
    READ_INFO,
    READ_STAMP,
    S_ARGUMENT,
    S_BLOCK,
    S_COPY,
    S_EPOCH,
    S_EVENT,
    S_EVENT_END,
    S_GLOBAL_OLDEST,
    S_GUARD,
    S_HALF,
    S_HALVES,
    S_HOST,
    S_LANES,
    S_LANES_OF_WAVE,
    S_OPTIONS,
    S_POSITION,
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
    S_WHOLE,
    S_WINDOWS,
    SHADOW,
    SYNCHRONISE,
    WRITE_INFO,
    WRITE_STAMP,
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
    note,
    one_lane,
    remember_read,
    strength_of_write,
    value_at,
    within,
)
from warpwright.tools.checks.traffic import count_traffic
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
LOAD, STORE, ATOMIC, LANES, FENCE, CONSTANT, BULK, PROXY, COMMIT, WAIT, LOOK = (int(e) for e in Event)
WINDOW_MASK = ~0xFFFFFF
OFFSET_MASK = 0xFFFFFFFF
WRITTEN_TOGETHER = 512
"""Bytes from the first to after the last that lanes read, of which it is asked at once whether all were written: those of 16 bytes a lane."""


@core
def full_wave(width: int) -> int:
    """The mask of all lanes of a wave."""
    return -1 if width == MOST_LANES else (1 << width) - 1


@core
def synchronise_lanes(s: Any, lanes_known: Any, lanes: int) -> None:
    """The lanes know of each other all that each of them knew, and everything up to now."""
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
def loads(
    s: Any, known: Any, lanes_known: Any, foreign: Any, findings: Any, instruction: int, strong: int, space: int, origin: int, limit: int,
    cells: int, shift: int, size: int, base: int, tabled: bool, step: int, mask: int,
) -> None:  # fmt: skip
    """Races of a load, all of whose lanes read the memory of ``limit`` bytes at ``origin``."""
    oldest = s[S_SHARED_OLDEST] if space < 0 else s[S_GLOBAL_OLDEST]
    stamp = accessor_stamp(s)
    info = info_of_read(s, strong, instruction)
    start = address_of(base, tabled, step, 0) - origin
    if is_row(s[S_SECTORS], start, limit, shift, size, tabled, step, mask) and loads_in_rows(
        s, known, foreign, info, stamp, oldest, cells, shift, start, size, mask
    ):
        return
    if tabled:
        low, high = base + least_of(step, mask) - origin, base + greatest_of(step, mask) - origin
        if is_window(s[S_SECTORS], low, high, limit, shift, size):
            window = window_of(s[S_WINDOWS], step, base, low + origin, size, shift, mask)
            if loads_in_window(s, known, foreign, info, stamp, oldest, cells, shift, low, window):
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
                        check_write(
                            s, known, lanes_known, foreign, findings, cell, -1, strong, instruction, space, where, size, single, 0
                        )  # fmt: skip
            held = peek(cell + READ_STAMP)
            if held == stamp:
                poke(cell + READ_INFO, info | (peek(cell + READ_INFO) & LANE_BITS) | lanes)
            elif held & EPOCH_BITS < oldest:
                poke(cell + READ_STAMP, stamp)
                poke(cell + READ_INFO, info | lanes)
            else:
                remember_read(cell, stamp, oldest, info | lanes)


@core
def stores(
    s: Any, known: Any, lanes_known: Any, foreign: Any, findings: Any, instruction: int, strong: int, space: int, origin: int, limit: int,
    cells: int, shift: int, size: int, base: int, tabled: bool, step: int, mask: int, host: int, uniform: int, copy: int,
) -> None:  # fmt: skip
    """As ``loads`` for a store or an atomic; ``host`` is the host address of the memory."""
    oldest = s[S_SHARED_OLDEST] if space < 0 else s[S_GLOBAL_OLDEST]
    stamp = s[S_COPY] if copy else accessor_stamp(s)
    start = address_of(base, tabled, step, 0) - origin
    plain = strength_of_write(strong) | instruction << 32
    if is_row(s[S_SECTORS], start, limit, shift, size, tabled, step, mask) and stores_in_rows(
        s, known, foreign, plain, stamp, oldest, cells, shift, start, size, mask, host
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
                    check_write(
                        s, known, lanes_known, foreign, findings, cell, value, strong, instruction, space, origin + offset + further, size,
                        lane, uniform,
                    )  # fmt: skip
            for slot in range(READ_STAMP, OTHER_STAMP + 1, NEXT_READER):
                read = peek(cell + slot)
                if read != ordered and read & EPOCH_BITS >= oldest:
                    if is_ordered(s, known, foreign, read):
                        ordered = read
                    else:
                        check_reader(
                            s, known, lanes_known, foreign, findings, cell, slot, strong, instruction, space, origin + offset + further,
                            size, lane,
                        )  # fmt: skip
            poke(cell + WRITE_STAMP, stamp)
            poke(cell + WRITE_INFO, lane << 58 | strength | instruction << 32 | value)


@core
def is_written(written: int, offset: int, size: int) -> bool:
    """Whether all these bytes were written."""
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
def lane_by_lane(
    s: Any, row: int, events: Any, known: Any, lanes_known: Any, foreign: Any, allocations: Any, findings: Any, base: int, tabled: bool,
    step: int, mask: int, uniform: int,
) -> int:  # fmt: skip
    """An access of global memory whose lanes may be in several allocations; what is missing before it can be checked, or DONE."""
    event, instruction = events[row * COLUMNS + E_EVENT], events[row * COLUMNS + E_INSTRUCTION]
    size, strong = events[row * COLUMNS + E_BYTES], events[row * COLUMNS + E_STRONG]
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
            cells, shift = allocations[one * ALLOCATION_WORDS + A_CELLS], allocations[one * ALLOCATION_WORDS + A_SHIFT]
            offset = address - allocations[one * ALLOCATION_WORDS + A_FIRST]
            if turn == 0:
                if races and (cells == 0 or (size < 4 and shift == 2)):
                    s[S_ARGUMENT] = one
                    return SHADOW if cells == 0 else NARROW
                continue
            if races:
                s[S_SECTORS] = allocations[one * ALLOCATION_WORDS + A_SECTORS] if s[S_OPTIONS] & KEEP_SECTORS else 0
                one_lane(
                    s, known, lanes_known, foreign, findings, event, strong, instruction, one, address, size, lane,
                    cells, shift, offset, address + s[S_HOST], uniform, events[row * COLUMNS + E_COPY],
                )  # fmt: skip
            written = allocations[one * ALLOCATION_WORDS + A_WRITTEN]
            if s[S_OPTIONS] & CHECK_UNDEFINED and written:
                defined(s, findings, event, instruction, one, address, size, lane, written, offset)
    return DONE


@core
def access(
    s: Any, row: int, events: Any, known: Any, lanes_known: Any, foreign: Any, seen: Any, allocations: Any, findings: Any,
    counters: Any, scratch: Any, base: int, tabled: bool, step: int, mask: int, alike: bool,
) -> int:  # fmt: skip
    """Every lane of one access; DONE, or what is missing before it can be checked."""
    event, instruction = events[row * COLUMNS + E_EVENT], events[row * COLUMNS + E_INSTRUCTION]
    size, strong = events[row * COLUMNS + E_BYTES], events[row * COLUMNS + E_STRONG]
    options = s[S_OPTIONS]
    known_of_others = seen if strong else foreign
    uniform = events[row * COLUMNS + E_UNIFORM] | alike
    s[S_GUARD] = events[row * COLUMNS + E_GUARD]
    low = address_of(base, tabled, step, lowest_bit(mask))
    if tabled:
        least, most = base + least_of(step, mask), base + greatest_of(step, mask)
    else:
        high = address_of(base, tabled, step, highest_bit(mask))
        least, most = min(low, high), max(low, high)
    window = low & WINDOW_MASK
    if window == LOCAL_WINDOW:
        return DONE
    shared = window == SHARED_WINDOW
    space = -1
    origin, limit = SHARED_WINDOW, s[S_SHARED_BYTES]
    cells, shift = s[S_SHARED_CELLS], s[S_SHARED_SHIFT]
    written, host = s[S_SHARED_WRITTEN], s[S_SHARED_HOST]
    one_allocation = True
    s[S_SECTORS] = 0
    if not shared:
        space = allocation_at(s, allocations, low)
        one_allocation = space >= 0
        if one_allocation:
            origin = allocations[space * ALLOCATION_WORDS + A_FIRST]
            end = allocations[space * ALLOCATION_WORDS + A_END]
            limit = end - origin
            cells, shift = (
                allocations[space * ALLOCATION_WORDS + A_CELLS],
                allocations[space * ALLOCATION_WORDS + A_SHIFT],
            )
            written, host = allocations[space * ALLOCATION_WORDS + A_WRITTEN], origin + s[S_HOST]
            one_allocation = least >= origin and most + size <= end
            if one_allocation and options & CHECK_RACES and (cells == 0 or (size < 4 and shift == 2)):
                s[S_ARGUMENT] = space
                return SHADOW if cells == 0 else NARROW
            if one_allocation and options & KEEP_SECTORS:
                s[S_SECTORS] = allocations[space * ALLOCATION_WORDS + A_SECTORS]
    if not one_allocation:
        reason = lane_by_lane(
            s,
            row,
            events,
            known,
            lanes_known,
            known_of_others,
            allocations,
            findings,
            base,
            tabled,
            step,
            mask,
            uniform,
        )
        if reason != DONE:
            return reason
    else:
        if options & CHECK_RACES:
            if event == LOAD:
                loads(
                    s, known, lanes_known, known_of_others, findings, instruction, strong, space, origin, limit,
                    cells, shift, size, base, tabled, step, mask,
                )  # fmt: skip
            else:
                stores(
                    s, known, lanes_known, known_of_others, findings, instruction, strong, space, origin, limit, cells, shift, size,
                    base, tabled, step, mask, host, uniform, events[row * COLUMNS + E_COPY],
                )  # fmt: skip
        if options & CHECK_UNDEFINED and written:
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
                    defined(s, findings, event, instruction, space, address, size, lane, written, address - origin)
    return DONE


@core
def halves_of_access(
    s: Any, row: int, events: Any, known: Any, lanes_known: Any, foreign: Any, seen: Any, allocations: Any, findings: Any,
    counters: Any, scratch: Any, base: int, tabled: bool, step: int, mask: int, alike: bool,
) -> int:  # fmt: skip
    """Every lane of one access, one half of a wave of more than 32 lanes after the other; DONE, or what is missing before it can go on."""
    while s[S_HALF] <= s[S_HALVES]:
        first = HALF_LANES * s[S_HALF]
        mine = (mask >> first) & LANE_BITS
        if mine:
            start = base if tabled else base + first * step
            table = step + 8 * first if tabled else step
            reason = access(
                s, row, events, known, lanes_known, foreign, seen, allocations, findings, counters, scratch, start, tabled, table, mine, alike,
            )  # fmt: skip
            if reason != DONE:
                return reason
        s[S_HALF] += 1
    s[S_HALF] = 0
    event = events[row * COLUMNS + E_EVENT]
    window = address_of(base, tabled, step, lowest_bit(mask)) & WINDOW_MASK
    if s[S_OPTIONS] & COUNT_TRAFFIC and event != ATOMIC and window != LOCAL_WINDOW:
        count_traffic(
            counters, events[row * COLUMNS + E_INSTRUCTION], base, tabled, step, mask, events[row * COLUMNS + E_BYTES],
            window == SHARED_WINDOW, scratch, s[S_LANES_OF_WAVE],
        )  # fmt: skip
    return DONE


@core
def constants(
    s: Any, findings: Any, instruction: int, limit: int, size: int, base: int, tabled: bool, step: int, mask: int
) -> None:
    """A read of constant memory at an index: what is after the bank reads as 0."""
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        offset = address_of(base, tabled, step, lane) & OFFSET_MASK
        if offset + size > limit:
            note(s, findings, BEYOND, ERROR, 0, instruction, 0, offset, size, -1, -1, lane)


@core
def read_records(
    s: Any, starts: Any, events: Any, known: Any, lanes_known: Any, foreign: Any, seen: Any, allocations: Any, findings: Any,
    counters: Any, scratch: Any,
) -> int:  # fmt: skip
    """Read records until none are left or the caller has to do something first; gives the reason.

    Args:
        s: int64[S_WORDS].
        known: int64[columns of ``happens_before.py``]: epoch of each warp of the block before which this one knows everything.
        lanes_known: int64[lanes, lanes]: the same for the lanes of this warp.
        foreign: int64[warps of the launch]: the same for warps of other blocks.
        seen: as foreign, for strong accesses (``BlockClocks.seen``).
        allocations: int64[S_ALLOCATIONS, ALLOCATION_WORDS], sorted by address.
    """
    records = s[S_RECORDS]
    head = 1 + s[S_HALVES]
    while True:
        while s[S_EVENT] < s[S_EVENT_END]:
            row = s[S_EVENT]
            event = events[row * COLUMNS + E_EVENT]
            if event == LANES:
                synchronise_lanes(s, lanes_known, s[S_LANES])
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
            if mask and event == CONSTANT and s[S_OPTIONS] & CHECK_CONSTANTS and events[row * COLUMNS + E_SCOPE]:
                limit, size = events[row * COLUMNS + E_SCOPE], events[row * COLUMNS + E_BYTES]
                constants(s, findings, events[row * COLUMNS + E_INSTRUCTION], limit, size, base, tabled, step, mask)
            if mask and event != CONSTANT:
                reason = halves_of_access(
                    s, row, events, known, lanes_known, foreign, seen, allocations, findings, counters, scratch,
                    base, tabled, step, mask, alike,
                )  # fmt: skip
                if reason != DONE:
                    return reason
            s[S_RECORD] = position
            s[S_POSITION] = position + words
            s[S_EVENT] = row + 1
            if mask and events[row * COLUMNS + E_SYNCHRONISES]:
                s[S_ARGUMENT] = row
                return SYNCHRONISE
        if s[S_POSITION] >= s[S_USED]:
            return DONE
        word = peek(records + s[S_POSITION] * 8)
        if (word >> 60) & 15 == TAG_SYNC:
            s[S_POSITION] += head + 1
            continue
        if (word >> 60) & 15 != TAG_BLOCK:
            return BROKEN
        number = (word >> 32) & 0xFFFFFFF
        s[S_LANES] = lanes_of(records + s[S_POSITION] * 8, head)
        s[S_POSITION] += head
        s[S_BLOCK] = number
        s[S_EVENT] = starts[number]
        s[S_EVENT_END] = starts[number + 1]
