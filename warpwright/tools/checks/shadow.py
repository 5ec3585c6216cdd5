"""Shadow memory: who wrote and who read each word last, which bytes were ever written; machine code (``native``).

``consume_records`` reads a warp's trace records in the order of execution.  For every access it asks of each word whether
what came before is ordered before it.  An earlier access is known by its warp (its number in the launch) and that
warp's *epoch*, a count of the warp's synchronisations; it is ordered before an access of warp w when w knows a later epoch of
that warp: vector clocks with one entry for each warp (FastTrack: Flanagan and Freund, PLDI'09), and one for each lane
within the own warp.  ``clocks.py`` keeps the clocks.

A word's cell keeps the last write and two readers of different warps.  Of more than two readers that nothing orders, the third
replaces the second: a write that nothing orders behind the one forgotten is almost always unordered with
another as well.

Tables are one row behind the other: compiled functions see an array as a bare pointer to words.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from warpwright.engine.abi import LOCAL_WINDOW, SHARED_WINDOW, TAG_AFFINE, TAG_BLOCK, TAG_BULK, TAG_GATHER, TAG_PATTERN
from warpwright.native import direct
from warpwright.native.pieces import core, lowest_bit, peek, poke, popcount
from warpwright.timing import SOURCES
from warpwright.timing.records import address_of, decode
from warpwright.tools.checks.events import COLUMNS, Column, Event

# --- a cell: words of shadow for each granule of memory ---------------------------------------------
WRITE_STAMP = 0
"""warp + 1 << 32 | epoch; 0 when nothing was written."""
WRITE_INFO = 1
"""lane << 58 | strength << 56 | instruction << 32 | value (its low 32 bits)."""
READ_STAMP, READ_INFO = 2, 3
"""As a write's stamp; info: instruction << 32 | lanes.  Strong reads have bit 62."""
OTHER_STAMP, OTHER_INFO = 4, 5
CELL_WORDS = 6
CELL_BYTES = CELL_WORDS * 8
STRONG_READ = 1 << 62

# --- findings: rows of a table, one for each distinct one -------------------------------------------------
F_KIND, F_BEFORE, F_NOW, F_SPACE, F_SEVERITY, F_COUNT, F_ADDRESS, F_BYTES = range(8)
F_OTHER_WARP, F_OTHER_LANE, F_LANE, F_WARP = 8, 9, 10, 11
FINDING_WORDS = 12
MAX_FINDINGS = 256
RAW, WAR, WAW, UNDEFINED, UNSHOWN = 1, 2, 3, 4, 5
ERROR, WARNING, INFO = 0, 1, 2

# --- counters of an instruction ------------------------------------------------------------------------------
N_REQUESTS, N_SECTORS, N_IDEAL_SECTORS, N_WAVES, N_IDEAL_WAVES = range(5)
COUNTERS = 5
SCRATCH_WORDS = 128

# --- what the caller and consume_records tell each other: words of one array --------------------------------------
S_POSITION, S_USED, S_EVENT, S_EVENT_END, S_LANES, S_EPOCH, S_ARGUMENT, S_FINDINGS = range(8)
"""Next record word, words written, next event and end of the current basic block's, its lanes, the warp's epoch."""
S_RECORDS, S_WARP, S_WARP_IN_BLOCK, S_FIRST_WARP, S_WARPS = 9, 10, 11, 12, 13
"""Host pointer of the records; the warp's number in launch and block; number of the block's first warp; warps of a block."""
S_HOST, S_SHARED_HOST, S_SHARED_BYTES, S_SHARED_CELLS, S_SHARED_WRITTEN, S_SHARED_SHIFT = 14, 15, 16, 17, 18, 19
"""Host minus device address; host pointers of the block's shared memory, its cells, its written bytes; granule."""
S_OPTIONS, S_RECORD = 20, 21
"""What is checked; first word of the record that was read last."""
S_LAUNCH_WARPS, S_COPY, S_ALLOCATIONS = 22, 23, 24
"""Warps of the launch: stamps of higher numbers are those of copies, by column of ``clocks.py``; stamp of the warp's ``cp.async``; rows of the table of
allocations."""
S_WORDS = 25
CHECK_RACES, CHECK_UNDEFINED, COUNT_TRAFFIC = 1, 2, 4
DONE, SYNCHRONISE, SHADOW, NARROW, BROKEN, BULK_COPY = 0, 1, 2, 3, 4, 5
"""Why consume_records returns: no records are left; behind a synchronising access; an allocation (argument) has no shadow
yet, or needs one by bytes; records that it does not understand; in front of a bulk copy's record."""

# --- columns of the table of allocations ------------------------------------------------------------------------
A_FIRST, A_END, A_CELLS, A_SHIFT, A_WRITTEN, A_TOUCHED = range(6)
"""First byte and the one behind the last; host pointers of cells (granule: 1 << shift) and of what was written, 0 for none; whether any access
met it."""
ALLOCATION_WORDS = 6

E_EVENT, E_INSTRUCTION, E_BYTES, E_STRONG = (
    int(Column.EVENT),
    int(Column.INSTRUCTION),
    int(Column.BYTES),
    int(Column.STRONG),
)
E_SYNCHRONISES, E_UNIFORM, E_COPY = int(Column.SYNCHRONISES), int(Column.UNIFORM), int(Column.COPY)
LOAD, STORE, ATOMIC, LANES, FENCE, CONSTANT, BULK, PROXY, COMMIT, WAIT, LOOK = (int(e) for e in Event)
WINDOW_MASK = ~0xFFFFFF
LANE_BITS, VALUE_BITS = 0xFFFFFFFF, 0xFFFFFFFF


@core
def note(
    s: Any, findings: Any, kind: int, severity: int, before: int, now: int, space: int, address: int, size: int,
    other_warp: int, other_lane: int, lane: int,
) -> None:  # fmt: skip
    """Count a finding; the first of its kind keeps the details."""
    n = s[S_FINDINGS]
    for i in range(0, n * FINDING_WORDS, FINDING_WORDS):
        if (
            findings[i + F_KIND] == kind
            and findings[i + F_BEFORE] == before
            and findings[i + F_NOW] == now
            and findings[i + F_SPACE] == space
            and findings[i + F_SEVERITY] == severity
        ):
            findings[i + F_COUNT] += 1
            return
    if n == MAX_FINDINGS:
        return
    s[S_FINDINGS] = n + 1
    row = n * FINDING_WORDS
    findings[row + F_KIND] = kind
    findings[row + F_BEFORE] = before
    findings[row + F_NOW] = now
    findings[row + F_SPACE] = space
    findings[row + F_SEVERITY] = severity
    findings[row + F_COUNT] = 1
    findings[row + F_ADDRESS] = address
    findings[row + F_BYTES] = size
    findings[row + F_OTHER_WARP] = other_warp
    findings[row + F_OTHER_LANE] = other_lane
    findings[row + F_LANE] = lane
    findings[row + F_WARP] = s[S_WARP]


@core
def unordered_lane(s: Any, known: Any, lanes_known: Any, foreign: Any, stamp: int, lanes: int, lane: int) -> int:
    """A lane of the earlier access that nothing orders before the present one of ``lane``, or -1."""
    warp = (stamp >> 32) - 1
    epoch = stamp & 0xFFFFFFFF
    if warp >= s[S_LAUNCH_WARPS]:
        return -1 if known[warp - s[S_LAUNCH_WARPS]] > epoch else lowest_bit(lanes)
    if warp == s[S_WARP]:
        left = lanes & ~(1 << lane)
        while left:
            other = lowest_bit(left)
            left &= left - 1
            if lanes_known[lane * 32 + other] <= epoch:
                return other
        return -1
    local = warp - s[S_FIRST_WARP]
    if 0 <= local < s[S_WARPS]:
        if known[local] > epoch:
            return -1
    elif foreign[warp] > epoch:
        return -1
    return lowest_bit(lanes)


@core
def check_write(
    s: Any, known: Any, lanes_known: Any, foreign: Any, findings: Any, cell: int, value: int, strong: int,
    instruction: int, space: int, address: int, size: int, lane: int, uniform: int,
) -> None:  # fmt: skip
    """Is there an earlier write that is not ordered before this access (a read when ``value`` is -1)?"""
    stamp = peek(cell + WRITE_STAMP * 8)
    if stamp == 0:
        return
    info = peek(cell + WRITE_INFO * 8)
    if strong and (info >> 56) & 3:
        return
    other = unordered_lane(s, known, lanes_known, foreign, stamp, 1 << ((info >> 58) & 31), lane)
    if other < 0:
        return
    same_warp = (stamp >> 32) - 1 == s[S_WARP]
    severity = WARNING if same_warp else ERROR
    if value >= 0 and not same_warp and info & VALUE_BITS == value:
        severity = INFO
    if value >= 0 and same_warp and uniform and (info >> 32) & 0xFFFFFF == instruction:
        severity = INFO
    note(
        s, findings, RAW if value < 0 else WAW, severity, (info >> 32) & 0xFFFFFF, instruction, space, address, size,
        (stamp >> 32) - 1, other, lane,
    )  # fmt: skip


@core
def check_readers(
    s: Any, known: Any, lanes_known: Any, foreign: Any, findings: Any, cell: int, strong: int,
    instruction: int, space: int, address: int, size: int, lane: int,
) -> None:  # fmt: skip
    """Is there an earlier read that is not ordered before this write?"""
    for slot in range(2):
        stamp = peek(cell + (READ_STAMP + 2 * slot) * 8)
        if stamp == 0:
            continue
        info = peek(cell + (READ_INFO + 2 * slot) * 8)
        if strong and info & STRONG_READ:
            continue
        other = unordered_lane(s, known, lanes_known, foreign, stamp, info & LANE_BITS, lane)
        if other >= 0:
            severity = WARNING if (stamp >> 32) - 1 == s[S_WARP] else ERROR
            note(
                s, findings, WAR, severity, (info >> 32) & 0xFFFFFF, instruction, space, address, size,
                (stamp >> 32) - 1, other, lane,
            )  # fmt: skip


@core
def remember_read(cell: int, stamp: int, strong: int, instruction: int, lane: int) -> None:
    """Put a reader into the cell: its warp's slot, an empty one, or the second."""
    info = instruction << 32 | (STRONG_READ if strong else 0)
    chosen = 1
    for slot in range(2):
        held = peek(cell + (READ_STAMP + 2 * slot) * 8)
        if held == stamp:
            lanes = peek(cell + (READ_INFO + 2 * slot) * 8) & LANE_BITS
            poke(cell + (READ_INFO + 2 * slot) * 8, info | lanes | 1 << lane)
            return
        if held == 0 or held >> 32 == stamp >> 32:
            chosen = slot
            break
    poke(cell + (READ_STAMP + 2 * chosen) * 8, stamp)
    poke(cell + (READ_INFO + 2 * chosen) * 8, info | 1 << lane)


@core
def one_lane(
    s: Any, known: Any, lanes_known: Any, foreign: Any, findings: Any, event: int, strong: int, instruction: int,
    space: int, address: int, size: int, lane: int, cells: int, shift: int, offset: int, host: int, uniform: int, copy: int,
) -> None:  # fmt: skip
    """Races of one lane's access with what the cells of its bytes remember."""
    stamp = s[S_COPY] if copy else (s[S_WARP] + 1) << 32 | s[S_EPOCH]
    first = offset >> shift
    last = (offset + size - 1) >> shift
    for granule in range(first, last + 1):
        cell = cells + granule * CELL_BYTES
        where = address + ((granule - first) << shift)
        if event == LOAD:
            check_write(
                s, known, lanes_known, foreign, findings, cell, -1, strong, instruction, space, where, size, lane, 0
            )
            remember_read(cell, stamp, strong, instruction, lane)
        else:
            value = peek((host + ((granule - first) << shift)) & ~7) >> (
                ((host + ((granule - first) << shift)) & 7) * 8
            )
            value &= VALUE_BITS if shift == 2 else 255
            check_write(
                s,
                known,
                lanes_known,
                foreign,
                findings,
                cell,
                value,
                strong,
                instruction,
                space,
                where,
                size,
                lane,
                uniform,
            )
            check_readers(s, known, lanes_known, foreign, findings, cell, strong, instruction, space, where, size, lane)
            poke(cell + WRITE_STAMP * 8, stamp)
            strength = 1 if strong else 0
            poke(cell + WRITE_INFO * 8, lane << 58 | strength << 56 | instruction << 32 | value)


@core
def defined(
    s: Any,
    findings: Any,
    event: int,
    instruction: int,
    space: int,
    address: int,
    size: int,
    lane: int,
    written: int,
    offset: int,
) -> None:
    """Reads of bytes that nothing has written; what is written from now on."""
    at = written + offset
    end = at + size
    undefined = False
    while at < end:
        first = at & 7
        count = min(8 - first, end - at)
        bits = (-1 if count == 8 else (1 << (8 * count)) - 1) << (8 * first)
        word = peek(at & ~7)
        if word & bits != bits:
            undefined = True
            if event != LOAD:
                poke(at & ~7, word | bits)
        at += count
    if undefined and event != STORE:
        # Blocks often read more of shared memory than their warps wrote, and drop it.
        severity = WARNING if space < 0 else ERROR
        note(s, findings, UNDEFINED, severity, 0, instruction, space, address, size, -1, -1, lane)


@core
def allocation_at(s: Any, allocations: Any, address: int) -> int:
    """Row of the allocation that holds a device address, or -1."""
    low = 0
    high = s[S_ALLOCATIONS]
    while low < high:
        middle = (low + high) >> 1
        if allocations[middle * ALLOCATION_WORDS + A_FIRST] <= address:
            low = middle + 1
        else:
            high = middle
    row = low - 1
    if row < 0 or address >= allocations[row * ALLOCATION_WORDS + A_END]:
        return -1
    allocations[row * ALLOCATION_WORDS + A_TOUCHED] = 1
    return row


@core
def within(allocations: Any, row: int, address: int) -> bool:
    """Whether an address lies in the allocation of a row; -1 is none."""
    if row < 0:
        return False
    first = allocations[row * ALLOCATION_WORDS + A_FIRST]
    return first <= address < allocations[row * ALLOCATION_WORDS + A_END]


@core
def count_traffic(
    counters: Any,
    instruction: int,
    base: int,
    tabled: bool,
    step: int,
    mask: int,
    size: int,
    shared: bool,
    scratch: Any,
) -> None:
    """Sectors of a global access and wavefronts of a shared one, beside the fewest that its bytes need."""
    n = 0
    worst = 1
    left = mask
    if not shared:
        while left:
            lane = lowest_bit(left)
            left &= left - 1
            first = address_of(base, tabled, step, lane) >> 5
            last = (address_of(base, tabled, step, lane) + size - 1) >> 5
            for sector in range(first, last + 1):
                seen = False
                for i in range(n):
                    if scratch[i] == sector:
                        seen = True
                        break
                if not seen and n < SCRATCH_WORDS:
                    scratch[n] = sector
                    n += 1
        counters[instruction * COUNTERS + N_REQUESTS] += 1
        counters[instruction * COUNTERS + N_SECTORS] += n
        distinct = min(popcount(mask) * size, n * 32)
        counters[instruction * COUNTERS + N_IDEAL_SECTORS] += (distinct + 31) >> 5
        return
    lanes_per_group = 32 if size <= 4 else (16 if size == 8 else 8)
    groups = 0
    total = 0
    for start in range(0, 32, lanes_per_group):
        left = (mask >> start) & ((1 << lanes_per_group) - 1)
        if left == 0:
            continue
        groups += 1
        n = 0
        worst = 1
        for bank in range(32):
            scratch[96 + bank] = 0
        while left:
            lane = start + lowest_bit(left)
            left &= left - 1
            for j in range(max(size >> 2, 1)):
                word = (address_of(base, tabled, step, lane) >> 2) + j
                seen = False
                for i in range(n):
                    if scratch[i] == word:
                        seen = True
                        break
                if not seen and n < 96:
                    scratch[n] = word
                    n += 1
                    scratch[96 + (word & 31)] += 1
                    worst = max(worst, scratch[96 + (word & 31)])
        total += worst
    counters[instruction * COUNTERS + N_REQUESTS] += 1
    counters[instruction * COUNTERS + N_WAVES] += total
    counters[instruction * COUNTERS + N_IDEAL_WAVES] += groups


@core
def synchronise_lanes(s: Any, lanes_known: Any, lanes: int) -> None:
    """The lanes know of each other all that each of them knew, and everything up to now."""
    s[S_EPOCH] += 1
    for other in range(32):
        most = 0
        left = lanes
        while left:
            lane = lowest_bit(left)
            left &= left - 1
            most = max(most, lanes_known[lane * 32 + other])
        if (lanes >> other) & 1:
            most = s[S_EPOCH]
        left = lanes
        while left:
            lane = lowest_bit(left)
            left &= left - 1
            lanes_known[lane * 32 + other] = most


@core
def access(
    s: Any, row: int, events: Any, known: Any, lanes_known: Any, foreign: Any, seen: Any, allocations: Any, findings: Any,
    counters: Any, scratch: Any, base: int, tabled: bool, step: int, mask: int,
) -> int:  # fmt: skip
    """Every lane of one access; DONE, or what is missing before it can be checked."""
    event = events[row * COLUMNS + E_EVENT]
    instruction = events[row * COLUMNS + E_INSTRUCTION]
    size = events[row * COLUMNS + E_BYTES]
    strong = events[row * COLUMNS + E_STRONG]
    options = s[S_OPTIONS]
    some = address_of(base, tabled, step, lowest_bit(mask))
    window = some & WINDOW_MASK
    if window == LOCAL_WINDOW:
        return DONE
    shared = window == SHARED_WINDOW
    one = -1
    if not shared:
        left = mask
        while left:
            lane = lowest_bit(left)
            left &= left - 1
            address = address_of(base, tabled, step, lane)
            if not within(allocations, one, address):
                one = allocation_at(s, allocations, address)
            if one >= 0 and options & CHECK_RACES:
                if allocations[one * ALLOCATION_WORDS + A_CELLS] == 0:
                    s[S_ARGUMENT] = one
                    return SHADOW
                if size < 4 and allocations[one * ALLOCATION_WORDS + A_SHIFT] == 2:
                    s[S_ARGUMENT] = one
                    return NARROW
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        address = address_of(base, tabled, step, lane)
        cells = s[S_SHARED_CELLS]
        shift = s[S_SHARED_SHIFT]
        written = s[S_SHARED_WRITTEN]
        offset = address & 0xFFFFFF
        host = s[S_SHARED_HOST] + offset
        space = -1
        if shared:
            if offset + size > s[S_SHARED_BYTES]:
                continue
        else:
            if not within(allocations, one, address):
                one = allocation_at(s, allocations, address)
            space = one
            if space < 0 or address + size > allocations[space * ALLOCATION_WORDS + A_END]:
                continue
            cells = allocations[space * ALLOCATION_WORDS + A_CELLS]
            shift = allocations[space * ALLOCATION_WORDS + A_SHIFT]
            written = allocations[space * ALLOCATION_WORDS + A_WRITTEN]
            offset = address - allocations[space * ALLOCATION_WORDS + A_FIRST]
            host = address + s[S_HOST]
        if options & CHECK_RACES:
            one_lane(
                s, known, lanes_known, seen if strong else foreign, findings, event, strong, instruction, space, address, size, lane,
                cells, shift, offset, host, events[row * COLUMNS + E_UNIFORM], events[row * COLUMNS + E_COPY],
            )  # fmt: skip
        if options & CHECK_UNDEFINED and written:
            defined(s, findings, event, instruction, space, address, size, lane, written, offset)
    if options & COUNT_TRAFFIC and event != ATOMIC:
        count_traffic(counters, instruction, base, tabled, step, mask, size, shared, scratch)
    return DONE


@partial(direct.entry, what="the checks", sources=(*SOURCES, Path(__file__).parent))
def consume_records(
    s: Any, starts: Any, events: Any, known: Any, lanes_known: Any, foreign: Any, seen: Any, allocations: Any, findings: Any,
    counters: Any, scratch: Any,
) -> int:  # fmt: skip
    """Read records until none are left or the caller has to do something first; gives the reason.

    Args:
        s: int64[S_WORDS].
        known: int64[columns of ``clocks.py``]: epoch of each warp of the block before which this one knows everything.
        lanes_known: int64[32, 32]: the same for the lanes of this warp.
        foreign: int64[warps of the launch]: the same for warps of other blocks.
        seen: as foreign, for strong accesses (``BlockClocks.seen``).
        allocations: int64[S_ALLOCATIONS, ALLOCATION_WORDS], sorted by address.
    """
    records = s[S_RECORDS]
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
            if event == BULK and tag == TAG_BULK:
                s[S_ARGUMENT] = row
                return BULK_COPY
            if tag != TAG_AFFINE and tag != TAG_PATTERN and tag != TAG_GATHER:
                return BROKEN
            words, mask, base, tabled, step = decode(records + position * 8)
            if mask and event != CONSTANT:
                reason = access(
                    s, row, events, known, lanes_known, foreign, seen, allocations, findings, counters, scratch,
                    base, tabled, step, mask,
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
        if (word >> 60) & 15 != TAG_BLOCK:
            return BROKEN
        number = (word >> 32) & 0xFFFFFFF
        s[S_POSITION] += 1
        s[S_LANES] = word & 0xFFFFFFFF
        s[S_EVENT] = starts[number]
        s[S_EVENT_END] = starts[number + 1]
