"""Race checks of accesses whose lanes are contiguous or close together: 32 cells at a time, as LLVM vectors.

Nothing is reported here. If an earlier access is not known to be ordered before all lanes that touch the same cells, the functions return False and
``accesses.py`` checks lane by lane; if they return True, the cells have been updated as that would have done.

A *row* is the address of one word of 32 cells, the i-th at ``row + 8 * i``. If each lane accesses one cell, the i-th belongs to lane i; for longer accesses it
belongs to lane ``(first + i) >> wide``, and every lane executes.

A *window* is 32 consecutive cells from which lanes load arbitrary ones, several of them possibly the same, as in a tile whose rows are shorter than a warp.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpwright.native.intrinsics import WORD, Piece, Word, apart, core, declared, lowest_bit, peek, spread
from warpwright.tools.checks.intrinsics import array_at, highest_bit
from warpwright.tools.checks.shadow import (
    EPOCH_BITS,
    GROUP_CELLS,
    LANE_BITS,
    NEXT_READER,
    OTHER_STAMP,
    READ_INFO,
    READ_STAMP,
    WRITE_INFO,
    WRITE_STAMP,
    Memory,
    Tables,
    accessor_stamp,
    cell_at,
    is_ordered,
    remember_read,
)

CELLS = ir.VectorType(WORD, GROUP_CELLS)
FLAGS = ir.VectorType(ir.IntType(1), GROUP_CELLS)
HALVES = ir.VectorType(ir.IntType(32), GROUP_CELLS)
BYTES = ir.VectorType(ir.IntType(8), GROUP_CELLS)
ALL_LANES = 0xFFFFFFFF
W_TABLE, W_KIND, W_TOUCHED, W_READERS = range(4)
"""Words of a window: the table of lanes that it describes, their mask and bytes, the cells that they touch as bits, and the lanes of each cell."""
WINDOW_WORDS = W_READERS + GROUP_CELLS
WINDOWS = 64
"""Number of windows that are kept."""


# --- vectors -----------------------------------------------------------------------------------------
def _spread(builder: Any, value: Any) -> Any:
    """Broadcast one word to every element."""
    return spread(builder, value, GROUP_CELLS)


def _all(number: int) -> Any:
    return ir.Constant(CELLS, [number] * GROUP_CELLS)


def _flags(builder: Any, lanes: Any) -> Any:
    return builder.bitcast(builder.trunc(lanes, ir.IntType(GROUP_CELLS)), FLAGS)


def _lanes(builder: Any, flags: Any, among: Any) -> Any:
    """The lanes of a mask whose flags are set, as a mask."""
    bits = builder.zext(builder.bitcast(flags, ir.IntType(GROUP_CELLS)), WORD)
    return builder.and_(bits, among)


def _load(builder: Any, row: Any, lanes: Any, kind: Any = CELLS, others: int = 0) -> Any:
    """Load the words of these lanes; the others get a given number."""
    size = kind.element.width
    function = ir.FunctionType(kind, [ir.PointerType(), ir.IntType(32), FLAGS, kind])
    load = declared(builder, function, f"llvm.masked.load.v{GROUP_CELLS}i{size}.p0")
    nothing = ir.Constant(kind, [others] * GROUP_CELLS)
    pointer = builder.inttoptr(row, ir.PointerType())
    return builder.call(load, [pointer, ir.IntType(32)(size // 8), _flags(builder, lanes), nothing])


def _store(builder: Any, row: Any, lanes: Any, value: Any) -> None:
    function = ir.FunctionType(ir.VoidType(), [CELLS, ir.PointerType(), ir.IntType(32), FLAGS])
    store = declared(builder, function, f"llvm.masked.store.v{GROUP_CELLS}i64.p0")
    builder.call(store, [value, builder.inttoptr(row, ir.PointerType()), ir.IntType(32)(8), _flags(builder, lanes)])


def _own(builder: Any, first: Any, wide: Any) -> Any:
    """Each word's lane."""
    numbers = ir.Constant(CELLS, list(range(GROUP_CELLS)))
    return builder.lshr(builder.add(numbers, _spread(builder, first)), _spread(builder, wide))


def _own_bit(builder: Any, first: Any, wide: Any) -> Any:
    return builder.shl(_all(1), _own(builder, first, wide))


@Piece
def counting(builder: Any, row: Any, lanes: Any, oldest: Any) -> Word:
    """Lanes whose stamps are not older than an epoch."""
    epochs = builder.and_(_load(builder, row, lanes), _all(EPOCH_BITS))
    return _lanes(builder, builder.icmp_signed(">=", epochs, _spread(builder, oldest)), lanes)


@Piece
def same(builder: Any, row: Any, lanes: Any, stamp: Any) -> Word:
    """Lanes that have this stamp."""
    found = builder.icmp_signed("==", _load(builder, row, lanes), _spread(builder, stamp))
    return _lanes(builder, found, lanes)


@Piece
def replaceable(builder: Any, row: Any, lanes: Any, stamp: Any, oldest: Any) -> Word:
    """Lanes whose reader's stamp is older than an epoch, or belongs to another epoch of the same warp."""
    held, now = _load(builder, row, lanes), _spread(builder, stamp)
    old = builder.icmp_signed("<", builder.and_(held, _all(EPOCH_BITS)), _spread(builder, oldest))
    of_warp = builder.icmp_signed("==", builder.ashr(held, _all(32)), builder.ashr(now, _all(32)))
    other = builder.icmp_signed("!=", held, now)
    return _lanes(builder, builder.and_(other, builder.or_(old, of_warp)), lanes)


@Piece
def by_other_lanes(builder: Any, infos: Any, lanes: Any, first: Any, wide: Any, wrote: Any) -> Word:
    """Lanes whose word another lane wrote (or read, if ``wrote`` is 0)."""
    held, own = _load(builder, infos, lanes), _own(builder, first, wide)
    writer = builder.and_(builder.lshr(held, _all(58)), _all(31))
    written = _lanes(builder, builder.icmp_signed("!=", writer, own), lanes)
    readers = builder.and_(held, _all(LANE_BITS))
    others = builder.and_(readers, builder.not_(_own_bit(builder, first, wide)))
    read = _lanes(builder, builder.icmp_signed("!=", others, _all(0)), lanes)
    return builder.select(builder.icmp_signed("!=", wrote, WORD(0)), written, read)


@Piece
def put_stamp(builder: Any, row: Any, lanes: Any, stamp: Any) -> None:
    _store(builder, row, lanes, _spread(builder, stamp))


@Piece
def put_readers(builder: Any, infos: Any, lanes: Any, again: Any, info: Any, first: Any, wide: Any) -> None:
    """Store the info of each lane's read; lanes already recorded under the same stamp (``again``) are kept."""
    before = builder.and_(_load(builder, infos, again), _all(LANE_BITS))
    now = builder.or_(_spread(builder, info), _own_bit(builder, first, wide))
    _store(builder, infos, lanes, builder.or_(now, before))


@Piece
def put_writers(
    builder: Any, infos: Any, lanes: Any, values: Any, info: Any, first: Any, wide: Any, shift: Any
) -> None:
    """Store the info of each lane's write; ``values`` is the host address of the first word, or byte if ``shift`` is 0."""
    found = []
    with builder.if_else(builder.icmp_signed("==", shift, WORD(0))) as ways:
        for way, kind in zip(ways, (BYTES, HALVES), strict=True):
            with way:
                found.append((builder.zext(_load(builder, values, lanes, kind), CELLS), builder.block))
    value = builder.phi(CELLS)
    for one, block in found:
        value.add_incoming(one, block)
    lane = builder.shl(_own(builder, first, wide), _all(58))
    _store(builder, infos, lanes, builder.or_(builder.or_(lane, value), _spread(builder, info)))


@Piece
def put_reader_lanes(builder: Any, infos: Any, lanes: Any, again: Any, info: Any, readers: Any) -> None:
    """As ``put_readers``, for cells whose lanes are in the words at ``readers``."""
    before = builder.and_(_load(builder, infos, again), _all(LANE_BITS))
    now = builder.or_(_spread(builder, info), _load(builder, readers, lanes))
    _store(builder, infos, lanes, builder.or_(now, before))


def _extreme(builder: Any, values: Any, which: str) -> Any:
    kind = ir.FunctionType(WORD, [CELLS])
    return builder.call(declared(builder, kind, f"llvm.vector.reduce.{which}.v{GROUP_CELLS}i64"), [values])


@Piece
def least_of(builder: Any, table: Any, lanes: Any) -> Word:
    """The least of the lanes' words in a table."""
    return _extreme(builder, _load(builder, table, lanes, others=(1 << 63) - 1), "smin")


@Piece
def greatest_of(builder: Any, table: Any, lanes: Any) -> Word:
    """The greatest of the lanes' words in a table."""
    return _extreme(builder, _load(builder, table, lanes, others=-(1 << 63)), "smax")


# --- rows --------------------------------------------------------------------------------------------
@core
def row_at(cells: int, granule: int, part: int) -> int:
    """The first row of the cells of 32 granules, which are in two groups: the row of those in the first or in the second group."""
    if part == 0:
        return cell_at(cells, granule)
    return cell_at(cells, granule + GROUP_CELLS) - GROUP_CELLS * 8


@core
def lanes_in(granule: int, part: int, mask: int) -> int:
    """Lanes of a mask whose cells are in the first or in the second of the two groups."""
    in_first = (1 << (GROUP_CELLS - (granule & 31))) - 1
    return mask & in_first if part == 0 else mask & ~in_first


@core
def turn_of(cells: int, granule: int, turn: int, mask: int) -> tuple[int, int, int]:
    """A part of the cells of an access that begins at a granule: the number of its first cell, the lanes of a mask that they belong to, and their row.

    An access takes two turns per 32 granules, one for each of the two groups that contain them.
    """
    first = 32 * (turn >> 1)
    return first, lanes_in(granule + first, turn & 1, mask), row_at(cells, granule + first, turn & 1)


@core
def are_ordered(t: Tables, stamps: int, infos: int, lanes: int, oldest: int, first: int, wide: int, wrote: int) -> bool:
    """Whether the earlier accesses in a row of stamps are ordered before those of these lanes, or are by the lanes themselves."""
    s = t.s
    left = counting(stamps, lanes, oldest)
    while left:
        stamp = peek(stamps + 8 * lowest_bit(left))
        those = same(stamps, left, stamp)
        if not is_ordered(s, t.known, t.foreign, stamp) and (
            stamp >> 32 != accessor_stamp(s) >> 32 or by_other_lanes(infos, those, first, wide, wrote)
        ):
            return False
        left &= ~those
    return True


@core
def loads_in_rows(
    t: Tables, memory: Memory, info: int, stamp: int, oldest: int, offset: int, size: int, mask: int
) -> bool:
    """Check a load of consecutive words; ``info`` is the cell's info without lanes. Returns False if lanes must be distinguished; nothing has changed then."""
    cells, shift = memory.cells, memory.shift
    rows = size >> shift
    wide = lowest_bit(rows)
    for turn in range(2 * rows):
        first, lanes, row = turn_of(cells, offset >> shift, turn, mask)
        if lanes == 0:
            continue
        if not are_ordered(t, row + WRITE_STAMP, row + WRITE_INFO, lanes, oldest, first, wide, 1):
            return False
    for turn in range(2 * rows):
        first, lanes, row = turn_of(cells, offset >> shift, turn, mask)
        if lanes == 0:
            continue
        again = same(row + READ_STAMP, lanes, stamp)
        new = replaceable(row + READ_STAMP, lanes, stamp, oldest)
        put_stamp(row + READ_STAMP, new, stamp)
        put_readers(row + READ_INFO, again | new, again, info, first, wide)
        left = lanes & ~(again | new)
        while left:
            lane = lowest_bit(left)
            left &= left - 1
            remember_read(row + 8 * lane, stamp, oldest, info | 1 << ((first + lane) >> wide))
    return True


@core
def is_window(sectors: int, low: int, high: int, limit: int, shift: int, size: int) -> bool:
    """Whether lanes at offsets from ``low`` to ``high`` touch only the cells of one window and are inside their memory."""
    if sectors or low < 0 or high + size > limit or size < 1 << shift or low & ((1 << shift) - 1):
        return False
    return ((high + size - 1) >> shift) - (low >> shift) < GROUP_CELLS


@apart
def note_readers(window: Any, table: int, base: int, low: int, size: int, shift: int, mask: int) -> None:
    """Record which lanes touch each cell of a window that begins at ``low``; ``table`` is the host pointer of the lanes' offsets from ``base``."""
    for n in range(GROUP_CELLS):
        window[W_READERS + n] = 0
    touched = 0
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        offset = base + peek(table + 8 * lane) - low
        for cell in range(offset >> shift, ((offset + size - 1) >> shift) + 1):
            window[W_READERS + cell] |= 1 << lane
            touched |= 1 << cell
    window[W_TOUCHED] = touched


@core
def window_of(windows: int, table: int, base: int, low: int, size: int, shift: int, mask: int) -> int:
    """Host pointer of the window in which lanes read. The table of a pattern (with a base other than 0) belongs to the compiler and does not change, so its
    window is kept."""
    place = windows + ((table >> 8) & (WINDOWS - 1)) * WINDOW_WORDS * 8
    window = array_at(place)
    kind = mask | size << 32 | shift << 40
    if base == 0 or window[W_TABLE] != table or window[W_KIND] != kind:
        note_readers(window, table, base, low, size, shift, mask)
        window[W_TABLE] = table if base else 0
        window[W_KIND] = kind
    return place


@core
def loads_in_window(t: Tables, memory: Memory, info: int, stamp: int, oldest: int, low: int, window: int) -> bool:
    """As ``loads_in_rows``, for a load in a window that begins at byte ``low`` of the memory."""
    cells, shift = memory.cells, memory.shift
    first = low >> shift
    touched, readers = array_at(window)[W_TOUCHED], window + 8 * W_READERS
    for part in range(2):
        lanes, row = lanes_in(first, part, touched), row_at(cells, first, part)
        unknown = counting(row + WRITE_STAMP, lanes, oldest)
        while unknown:
            written = peek(row + WRITE_STAMP + 8 * lowest_bit(unknown))
            if not is_ordered(t.s, t.known, t.foreign, written):
                return False
            unknown &= ~same(row + WRITE_STAMP, unknown, written)
    for part in range(2):
        lanes, row = lanes_in(first, part, touched), row_at(cells, first, part)
        if lanes == 0:
            continue
        again = same(row + READ_STAMP, lanes, stamp)
        new = replaceable(row + READ_STAMP, lanes, stamp, oldest)
        put_stamp(row + READ_STAMP, new, stamp)
        put_reader_lanes(row + READ_INFO, again | new, again, info, readers)
        left = lanes & ~(again | new)
        while left:
            n = lowest_bit(left)
            left &= left - 1
            remember_read(row + 8 * n, stamp, oldest, info | peek(readers + 8 * n))
    return True


@core
def stores_in_rows(
    t: Tables, memory: Memory, info: int, stamp: int, oldest: int, offset: int, size: int, mask: int
) -> bool:
    """As ``loads_in_rows``, for a store; ``info`` is the cell's info without lanes and values."""
    cells, shift = memory.cells, memory.shift
    rows = size >> shift
    wide = lowest_bit(rows)
    for turn in range(2 * rows):
        first, lanes, row = turn_of(cells, offset >> shift, turn, mask)
        if lanes == 0:
            continue
        if not are_ordered(t, row + WRITE_STAMP, row + WRITE_INFO, lanes, oldest, first, wide, 1):
            return False
        for reader in range(READ_STAMP, OTHER_STAMP + 1, NEXT_READER):
            infos = row + reader + READ_INFO - READ_STAMP
            if not are_ordered(t, row + reader, infos, lanes, oldest, first, wide, 0):
                return False
    for turn in range(2 * rows):
        first, lanes, row = turn_of(cells, offset >> shift, turn, mask)
        if lanes == 0:
            continue
        put_stamp(row + WRITE_STAMP, lanes, stamp)
        put_writers(row + WRITE_INFO, lanes, memory.host + offset + (first << shift), info, first, wide, shift)
    return True


@core
def is_row(sectors: int, offset: int, limit: int, shift: int, size: int, tabled: bool, step: int, mask: int) -> bool:
    """Whether an access is to consecutive words, with cells per word, inside its memory; ``offset`` is lane 0's."""
    if tabled or step != size or sectors or offset < 0 or offset & ((1 << shift) - 1) or size < 1 << shift:
        return False
    if size != 1 << shift and mask != ALL_LANES:
        return False
    return offset + (highest_bit(mask) + 1) * size <= limit
