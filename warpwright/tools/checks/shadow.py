"""Shadow memory: the last writer and the readers of each word, and which bytes were ever written; compiled to machine code (``native``).

For every access (``accesses.py`` reads the records), each word is tested for earlier accesses that are not ordered before it. An earlier access is identified
by its warp (the number in the launch) and that warp's *epoch*, a count of the warp's synchronisations; it is ordered before an access by warp w if w knows a
later epoch of that warp: vector clocks with one entry for each warp (FastTrack: Flanagan and Freund, PLDI'09), and one for each lane
within the own warp.  ``happens_before.py`` keeps the clocks.

A word's cell keeps the last write and two readers of different warps. With more than two unordered readers, the third replaces the second: a write that is
unordered with the dropped reader is almost always unordered with another one as well.

Epochs continue from block to block and from launch to launch: older contents of a cell precede the first epoch of the block (shared memory) or the launch
(global memory) and are ignored, so cells are never cleared. Tables are stored row by row, because compiled functions see an array as a bare pointer to words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from warpwright.native.intrinsics import core, lowest_bit, peek, poke
from warpwright.tools.checks.events import Event

# --- a cell: words of shadow for each granule of memory ---------------------------------------------
# Cells are in groups of 32, stored word by word (structure of arrays), so that a warp's accesses can be checked as vectors (``vector_races.py``).
GROUP_CELLS, CELL_WORDS = 32, 6
WORD_STEP = 8 * GROUP_CELLS
"""Bytes from one word of a cell to the next."""
GROUP_BYTES = CELL_WORDS * WORD_STEP
WRITE_STAMP, WRITE_INFO, READ_STAMP, READ_INFO, OTHER_STAMP, OTHER_INFO = (WORD_STEP * n for n in range(CELL_WORDS))
"""Bytes from a cell's address.  Stamps: accessor + 1 << 32 | epoch; 0 when nothing was ever written.  Of a write: lane << 58 | strength << 56 | instruction << 32 | value (its low 32 bits); bit 57: a plain read had brought the sector into some L1 before.
Of a read: instruction << 32 | lanes; strong reads have bit 62, those that decide whether an atomic of the same word happens bit 61."""
NEXT_READER = OTHER_STAMP - READ_STAMP
"""Bytes between the two readers that a cell remembers."""
EPOCH_BITS = 0xFFFFFFFF
STRONG_WRITE, READ_BEFORE = 1 << 56, 1 << 57
STRONG_READ, GUARD_READ = 1 << 62, 1 << 61
OF_BLOCK = -1 << 63
"""Bit 63 of read and write information: a strong access of block scope."""

# --- findings: rows of a table, one for each distinct one -------------------------------------------------
F_KIND, F_BEFORE, F_NOW, F_SPACE, F_SEVERITY, F_COUNT, F_ADDRESS, F_BYTES = range(8)
F_OTHER_WARP, F_OTHER_LANE, F_LANE, F_WARP = 8, 9, 10, 11
FINDING_WORDS = 12
MAX_FINDINGS = 256
FINDINGS_AT = MAX_FINDINGS * FINDING_WORDS
"""The word after the table: number of findings."""
RAW, WAR, WAW, UNDEFINED, UNSHOWN, BEYOND = 1, 2, 3, 4, 5, 6
UNACQUIRED, GUARDS, NARROW_SCOPE = 16, 32, 64
"""Added to a hazard: the release was read, but no fence followed that read; the read only guards an atomic on the same word, which reads it again; both
accesses are strong, but one has block scope and the other is in another block."""
HAZARD = 15
ERROR, WARNING, INFO = 0, 1, 2

# --- counters of an instruction ------------------------------------------------------------------------------
N_REQUESTS, N_SECTORS, N_IDEAL_SECTORS, N_WAVES, N_IDEAL_WAVES = range(5)
COUNTERS = 5

# --- state of a warp: words of one array ----------------------------------------------------
S_POSITION, S_USED, S_EVENT, S_EVENT_END, S_LANES, S_EPOCH, S_ARGUMENT, S_WHOLE, S_BLOCK = range(9)
"""Next record word; number of words written; next event, and end of the events, of the current basic block; its lanes; the warp's epoch; the event or
allocation for which reading stopped; an epoch before which every lane knows all lanes; the current basic block."""
S_RECORDS, S_WARP, S_WARP_IN_BLOCK, S_FIRST_WARP, S_WARPS = 9, 10, 11, 12, 13
"""Host pointer of the records; the warp's number in launch and block; number of the block's first warp; warps of a block."""
S_HOST, S_SHARED_HOST, S_SHARED_BYTES, S_SHARED_CELLS, S_SHARED_WRITTEN, S_SHARED_SHIFT = 14, 15, 16, 17, 18, 19
"""Host minus device address; host pointers of the block's shared memory, its cells, its written bytes; granule."""
S_OPTIONS, S_RECORD = 20, 21
"""The checks that are enabled; first word of the last record read."""
S_LAUNCH_WARPS, S_COPY, S_ALLOCATIONS = 22, 23, 24
"""Number of warps of the launch (higher numbers in stamps are copies, by column of ``happens_before.py``); stamp of the warp's ``cp.async``; number of rows of
the table of allocations."""
S_SHARED_OLDEST, S_GLOBAL_OLDEST = 25, 26
"""First epochs of the block and of the launch; older stamps in shared and global memory are ignored."""
S_SEEN, S_GUARD, S_SECTORS = 27, 28, 29
"""Host pointer to what strong accesses are ordered after (``BlockClocks.seen``); whether the current read guards an atomic; host pointer of the sectors of the
accessed memory, 0 if they do not matter."""
S_WINDOWS = 30
"""Host pointer to the windows of ``vector_races.py``."""
S_LANES_OF_WAVE, S_HALVES, S_HALF = 31, 32, 33
"""Lanes of every warp; 1 if these are more than 32, otherwise 0; the half of the warp (32 lanes) whose accesses are being checked."""
S_MEMBERS, S_RANK, S_ELSEWHERE = 34, 35, 36
"""Host pointer to the shared memories of the cluster's blocks (rows of ``M_``), 0 in launches without clusters; the block's rank in its cluster; 1 while an
access to another block's shared memory is being checked."""
S_WORDS = 37
CHECK_RACES, CHECK_UNDEFINED, COUNT_TRAFFIC, KEEP_SECTORS, CHECK_CONSTANTS = 1, 2, 4, 8, 16
DONE, SYNCHRONISE, SHADOW, NARROW, BROKEN, BULK_COPY = 0, 1, 2, 3, 4, 5
"""Reasons why reading records ends: no records are left; after a synchronising access; an allocation (the argument) has no shadow yet, or needs one per byte; a
record is invalid; before a bulk copy's record."""

# --- columns of the table of allocations ------------------------------------------------------------------------
A_FIRST, A_END, A_CELLS, A_SHIFT, A_SECTORS, A_WRITTEN, A_TOUCHED = range(7)
"""First byte, and the byte after the last; host pointers of cells (granule: 1 << shift), of a word per sector (the first epoch of the last launch that read it
through L1), and of the map of written bytes, 0 for none; whether any access touched it."""
ALLOCATION_WORDS = 7
SECTOR_SHIFT = 5

# --- shared memory of the blocks of a cluster: a row for each rank ---------------------------------------------------
M_BYTES, M_CELLS, M_WRITTEN, M_HOST, M_VISITS = range(5)
"""Size; host pointers of the cells, of the map of written bytes, of the memory itself, and of the last accesses by other blocks' warps (rows of ``V_``)."""
MEMBER_WORDS = 5
V_STAMP, V_INSTRUCTION, V_ADDRESS, V_LANE = range(4)
"""The last access by each warp of another block, one row per warp of the cluster; the stamp is 0 for none."""
VISIT_WORDS = 4
OWN, ANY = -1, -2
"""Spaces of shared memory: the block's own, whatever rank an address holds, and that of the block whose rank it holds.  In a finding, that of another
block is ``ANY`` - its rank."""

LOAD, STORE, ATOMIC = int(Event.LOAD), int(Event.STORE), int(Event.ATOMIC)
LANE_BITS, VALUE_BITS = 0xFFFFFFFF, 0xFFFFFFFF
HALF_LANES, MOST_LANES = 32, 64
"""A cell has one bit for each lane that has read it, in half a word; therefore each half of a wave with more lanes is a separate accessor with its own
number."""


def words_of(granules: int) -> int:
    """Number of words of the cells of a number of granules."""
    return -(-granules // GROUP_CELLS) * GROUP_CELLS * CELL_WORDS


@core
def accessor_stamp(s: Any) -> int:
    """The stamp of the current accesses of the warp, or of the half being checked."""
    return ((s[S_WARP] << s[S_HALVES] | s[S_HALF]) + 1) << 32 | s[S_EPOCH]


@core
def warp_of(s: Any, stamp: int) -> int:
    """The number of a stamp's warp."""
    return ((stamp >> 32) - 1) >> s[S_HALVES]


@core
def first_lane(s: Any, stamp: int) -> int:
    """The first lane of the half-warp of a stamp."""
    return HALF_LANES * (((stamp >> 32) - 1) & s[S_HALVES])


@core
def cell_at(cells: int, granule: int) -> int:
    """Address of a granule's cell."""
    return cells + (granule >> 5) * GROUP_BYTES + (granule & 31) * 8


class Tables(NamedTuple):
    """The tables that the checks of a warp's access read and write."""

    s: Any
    """The warp's state (``S_``)."""
    known: Any
    """For each column of the block's clocks (``happens_before.py``), the epoch before which the warp knows everything."""
    lanes_known: Any
    """The same for its lanes, of each other."""
    foreign: Any
    """The same for the launch's other warps."""
    findings: Any


class Access(NamedTuple):
    """A memory instruction as described by its event (``events.py``)."""

    event: int
    strong: int
    instruction: int
    space: int
    """Row of the allocation; negative for shared memory."""
    size: int
    uniform: int
    copy: int


class Memory(NamedTuple):
    """The accessed memory: ``limit`` bytes from device address ``origin``, its cells, and its host address."""

    origin: int
    limit: int
    cells: int
    shift: int
    host: int


class Found(NamedTuple):
    """A finding and its first occurrence."""

    kind: int
    severity: int
    before: int
    now: int
    """The two instructions."""
    space: int
    address: int
    size: int
    other_warp: int
    other_lane: int
    lane: int


@core
def note(s: Any, findings: Any, found: Found) -> None:
    """Count a finding; the first of its kind keeps the details."""
    kind, severity, before, now, space, address, size, other_warp, other_lane, lane = found
    n = findings[FINDINGS_AT]
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
    findings[FINDINGS_AT] = n + 1
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
    findings[row + F_LANE] = lane + HALF_LANES * s[S_HALF]
    findings[row + F_WARP] = s[S_WARP]


@core
def is_old(s: Any, space: int, stamp: int) -> bool:
    """Whether a stamp is from before this block (shared memory) or launch (global memory)."""
    return stamp & EPOCH_BITS < (s[S_SHARED_OLDEST] if space < 0 else s[S_GLOBAL_OLDEST])


@core
def is_ordered(s: Any, known: Any, foreign: Any, stamp: int) -> bool:
    """Whether the earlier access, whichever lanes made it, is ordered before accesses by all lanes of the current warp."""
    warp = warp_of(s, stamp)
    epoch = stamp & EPOCH_BITS
    if warp == s[S_WARP]:
        return s[S_WHOLE] > epoch
    if warp >= s[S_LAUNCH_WARPS]:
        # A copy into another block's memory is counted in a column of that block's clocks.
        return s[S_ELSEWHERE] != 0 or known[warp - s[S_LAUNCH_WARPS]] > epoch
    local = warp - s[S_FIRST_WARP]
    if 0 <= local < s[S_WARPS]:
        return known[local] > epoch
    return foreign[warp] > epoch


@core
def unordered_lane(s: Any, known: Any, lanes_known: Any, foreign: Any, stamp: int, lanes: int, lane: int) -> int:
    """A lane of the earlier access (made by these lanes of its half-warp) that is not ordered before the current access of ``lane``, or -1."""
    first = first_lane(s, stamp)
    if warp_of(s, stamp) != s[S_WARP]:
        return -1 if is_ordered(s, known, foreign, stamp) else first + lowest_bit(lanes)
    epoch = stamp & EPOCH_BITS
    own = HALF_LANES * s[S_HALF] + lane
    left = 0 if s[S_WHOLE] > epoch else lanes
    while left:
        other = first + lowest_bit(left)
        left &= left - 1
        if other != own and lanes_known[own * s[S_LANES_OF_WAVE] + other] <= epoch:
            return other
    return -1


@core
def was_released(s: Any, stamp: int) -> bool:
    """Whether an access of another block was released to a word that the current warp has read, so that only a fence after that read is missing."""
    warp = warp_of(s, stamp)
    if warp >= s[S_LAUNCH_WARPS] or 0 <= warp - s[S_FIRST_WARP] < s[S_WARPS]:
        return False
    return peek(s[S_SEEN] + 8 * warp) > stamp & EPOCH_BITS


class Race(NamedTuple):
    """Two unordered accesses: stamp and info of the earlier one; ``guards``: the later one only guards an atomic."""

    kind: int
    severity: int
    guards: int
    stamp: int
    info: int


@core
def note_race(t: Tables, a: Access, race: Race, address: int, other: int, lane: int) -> None:
    """Count a race; if the access was released, or only guards an atomic, its severity depends on what a card does."""
    s = t.s
    kind, severity, guards, stamp, info = race
    if severity == ERROR and was_released(s, stamp):
        # A card issues in order, so only a line that was in L1 before the write can be stale.
        severity = WARNING if kind == RAW and info & READ_BEFORE else INFO
        kind += UNACQUIRED
    elif severity != INFO and guards:
        severity = INFO
        kind += GUARDS
    earlier = (info >> 32) & 0xFFFFFF
    found = Found(kind, severity, earlier, a.instruction, a.space, address, a.size, warp_of(s, stamp), other, lane)
    note(s, t.findings, found)


@core
def strength_of_write(strong: int) -> int:
    """The strength in a write's info; 2 means block scope."""
    return (STRONG_WRITE if strong else 0) | (OF_BLOCK if strong == 2 else 0)


@core
def scope_is_narrow(s: Any, space: int, strong: int, stamp: int, info: int) -> bool:
    """Whether two strong accesses are in different blocks and one of them has only block scope."""
    warp = warp_of(s, stamp)
    return space >= 0 and (strong == 2 or info < 0) and not 0 <= warp - s[S_FIRST_WARP] < s[S_WARPS]


@core
def check_write(t: Tables, a: Access, cell: int, value: int, address: int, lane: int) -> None:
    """Check for an earlier write that is not ordered before this access (a read if ``value`` is -1)."""
    s, known, lanes_known, foreign, _ = t
    strong, instruction, space = a.strong, a.instruction, a.space
    stamp = peek(cell + WRITE_STAMP)
    if is_old(s, space, stamp):
        return
    info = peek(cell + WRITE_INFO)
    narrow = False
    if strong and info & STRONG_WRITE:
        narrow = scope_is_narrow(s, space, strong, stamp, info)
        if not narrow:
            return
    other = unordered_lane(s, known, lanes_known, foreign, stamp, 1 << ((info >> 58) & 31), lane)
    if other < 0:
        return
    same_warp = warp_of(s, stamp) == s[S_WARP]
    severity = WARNING if same_warp else ERROR
    if value >= 0 and not same_warp and not narrow and info & VALUE_BITS == value:
        severity = INFO
    if value >= 0 and same_warp and a.uniform and (info >> 32) & 0xFFFFFF == instruction:
        severity = INFO
    kind = RAW if value < 0 else WAW
    if narrow:
        kind += NARROW_SCOPE
    guards = value < 0 and s[S_GUARD] and info & STRONG_WRITE
    note_race(t, a, Race(kind, severity, guards, stamp, info), address, other, lane)


@core
def check_reader(t: Tables, a: Access, cell: int, slot: int, address: int, lane: int) -> None:
    """Check whether the earlier read in a slot of the cell is ordered before this write."""
    s, known, lanes_known, foreign, _ = t
    strong, space = a.strong, a.space
    stamp = peek(cell + slot)
    if is_old(s, space, stamp):
        return
    info = peek(cell + slot + WORD_STEP)
    narrow = False
    if strong and info & STRONG_READ:
        narrow = scope_is_narrow(s, space, strong, stamp, info)
        if not narrow:
            return
    guards = strong and info & GUARD_READ
    severity = ERROR
    other = -1
    if warp_of(s, stamp) == s[S_WARP]:
        # Lanes that execute together with the writer have issued their reads; only a lane that is elsewhere can still be about to read.
        severity = WARNING
        other = unordered_lane(
            s, known, lanes_known, foreign, stamp, info & LANE_BITS & ~(s[S_LANES] >> first_lane(s, stamp)), lane
        )
        if other < 0:
            severity = INFO
    if other < 0:
        other = unordered_lane(s, known, lanes_known, foreign, stamp, info & LANE_BITS, lane)
    if other >= 0:
        kind = WAR + NARROW_SCOPE if narrow else WAR
        note_race(t, a, Race(kind, severity, guards, stamp, info), address, other, lane)


@core
def check_readers(t: Tables, a: Access, cell: int, address: int, lane: int) -> None:
    """Check for an earlier read that is not ordered before this write."""
    for slot in range(READ_STAMP, OTHER_STAMP + 1, NEXT_READER):
        check_reader(t, a, cell, slot, address, lane)


@core
def info_of_read(s: Any, strong: int, instruction: int) -> int:
    """The information on a read that a cell keeps, except for its lanes."""
    scope = OF_BLOCK if strong == 2 else 0
    return instruction << 32 | (STRONG_READ if strong else 0) | scope | (GUARD_READ if s[S_GUARD] else 0)


@core
def remember_read(cell: int, stamp: int, oldest: int, info: int) -> None:
    """Store readers in the cell: in their warp's slot, in a slot whose reader is obsolete, or in the second slot."""
    chosen = 1
    for slot in range(2):
        held = peek(cell + READ_STAMP + NEXT_READER * slot)
        if held == stamp:
            before = peek(cell + READ_INFO + NEXT_READER * slot) & LANE_BITS
            poke(cell + READ_INFO + NEXT_READER * slot, info | before)
            return
        if held & EPOCH_BITS < oldest or held >> 32 == stamp >> 32:
            chosen = slot
            break
    poke(cell + READ_STAMP + NEXT_READER * chosen, stamp)
    poke(cell + READ_INFO + NEXT_READER * chosen, info)


@core
def enters_l1(s: Any, offset: int) -> None:
    """Record that a plain read brings a sector of global memory into L1, where it stays when others write it."""
    if s[S_SECTORS]:
        poke(s[S_SECTORS] + (offset >> SECTOR_SHIFT) * 8, s[S_GLOBAL_OLDEST])


@core
def may_be_in_l1(s: Any, offset: int) -> int:
    """READ_BEFORE if some block of this launch has read the sector through its L1, otherwise 0."""
    if s[S_SECTORS] and peek(s[S_SECTORS] + (offset >> SECTOR_SHIFT) * 8) == s[S_GLOBAL_OLDEST]:
        return READ_BEFORE
    return 0


@core
def value_at(host: int, shift: int) -> int:
    """The word or byte at a host address."""
    return (peek(host & ~7) >> ((host & 7) * 8)) & (VALUE_BITS if shift == 2 else 255)


@core
def one_lane(t: Tables, a: Access, memory: Memory, address: int, lane: int) -> None:
    """Check one lane's access for races with the accesses in the cells of its bytes."""
    s = t.s
    shift = memory.shift
    offset = address - memory.origin
    stamp = s[S_COPY] if a.copy else accessor_stamp(s)
    first = offset >> shift
    last = (offset + a.size - 1) >> shift
    for granule in range(first, last + 1):
        cell = cell_at(memory.cells, granule)
        where = address + ((granule - first) << shift)
        if a.event == LOAD:
            check_write(t, a, cell, -1, where, lane)
            oldest = s[S_SHARED_OLDEST] if a.space < 0 else s[S_GLOBAL_OLDEST]
            remember_read(cell, stamp, oldest, info_of_read(s, a.strong, a.instruction) | 1 << lane)
            if a.strong == 0:
                enters_l1(s, offset)
        else:
            value = value_at(memory.host + offset + ((granule - first) << shift), shift)
            check_write(t, a, cell, value, where, lane)
            check_readers(t, a, cell, where, lane)
            poke(cell + WRITE_STAMP, stamp)
            strength = strength_of_write(a.strong) | may_be_in_l1(s, offset)
            poke(cell + WRITE_INFO, lane << 58 | strength | a.instruction << 32 | value)


@core
def defined(s: Any, findings: Any, a: Access, address: int, lane: int, at: int) -> None:
    """Check reads for unwritten bytes, and mark bytes as written; ``at`` is the map of written bytes."""
    size = a.size
    end = at + size
    undefined = False
    empty = False
    some = False
    while at < end:
        first = at & 7
        count = min(8 - first, end - at)
        bits = (-1 if count == 8 else (1 << (8 * count)) - 1) << (8 * first)
        word = peek(at & ~7)
        if word & bits != 0:
            some = True
        if word & bits != bits:
            undefined = True
            for half in range(first >> 2, (first + count + 3) >> 2):
                if (word >> (32 * half)) & VALUE_BITS == 0:
                    empty = True
            if a.event != LOAD:
                poke(at & ~7, word | bits)
        at += count
    if undefined and a.event != STORE:
        # Blocks often read more shared memory than their warps wrote and discard it. Words of global memory that are partly written may contain a structure's
        # padding, and compilers read a one-byte value together with the byte after it (NVRTC and nvcc: LDG.U16 of a bool, in thrust::find_if).
        severity = ERROR if a.space >= 0 and empty else WARNING
        if a.space >= 0 and size == 2 and some:
            severity = INFO
        note(s, findings, Found(UNDEFINED, severity, 0, a.instruction, a.space, address, size, -1, -1, lane))


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
    """Whether an address is in the allocation of a row; -1 is none."""
    if row < 0:
        return False
    first = allocations[row * ALLOCATION_WORDS + A_FIRST]
    return first <= address < allocations[row * ALLOCATION_WORDS + A_END]


@core
def memory_of(s: Any, allocations: Any, row: int) -> Memory:
    """An allocation as memory."""
    at = row * ALLOCATION_WORDS
    first = allocations[at + A_FIRST]
    size = allocations[at + A_END] - first
    return Memory(first, size, allocations[at + A_CELLS], allocations[at + A_SHIFT], first + s[S_HOST])
