"""Accesses of 8 and 16 bytes a lane: elements as they lie in memory, and their words as registers hold them.

A register is a vector of one word for each lane, while memory has all words of a lane's element side by side.  Here an
access moves elements: lines and rows of them as they are, others as pairs of words, lane by lane.  Between
elements and registers lie two steps of shuffles; what is only copied never takes them (``FunctionWriter.elements``).

Local memory has its words in rows of lanes and is not accessed so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpwright.engine.jit.addressing import (
    VEC64,
    VECBOOL,
    VECPTR,
    Place,
    lanes_to_touch,
    mask_literal,
    masked_stores,
    settle,
    word_lanes,
)
from warpwright.engine.jit.checks import call_rare, check, check_lanes, site_pointer
from warpwright.engine.jit.contiguous_rows import are_known, find_rows, load_rows, may_have_rows, store_rows
from warpwright.engine.jit.function import ALL_LANES, FunctionWriter, Val
from warpwright.engine.jit.prefetch import fetch_ahead
from warpwright.engine.jit.shapes import LANES


def elements_type(count: int) -> str:
    """LLVM type of a warp's elements of ``count`` words, in memory's order."""
    return f"<{LANES * count} x i32>"


# --- memory's order and registers' ----------------------------------------------------------------
def words_of(w: FunctionWriter, elements: str, count: int) -> list[str]:
    """The vectors of the first, second … words of all elements."""
    vectors, length = [elements], LANES * count
    while length > LANES:
        # Every second word of each; a warp's first words are every fourth one of 16-byte elements.
        kind = f"<{length} x i32>"
        length //= 2
        orders = [mask_literal(range(first, 2 * length, 2)) for first in (0, 1)]
        vectors = [
            w.op(f"shufflevector {kind} {vector}, {kind} poison, <{length} x i32> {order}")
            for order in orders
            for vector in vectors
        ]
    w.elements[tuple(vectors)] = elements
    return vectors


def elements_of(w: FunctionWriter, words: Sequence[str]) -> str:
    """The elements of which these are the words: as they were loaded, or put together."""
    if tuple(words) in w.elements:
        return w.elements[tuple(words)]
    vectors, length = list(words), LANES
    while len(vectors) > 1:
        half = len(vectors) // 2
        order = mask_literal(n // 2 + n % 2 * length for n in range(2 * length))
        pairs = [f"<{length} x i32> {vectors[n]}, <{length} x i32> {vectors[n + half]}" for n in range(half)]
        length *= 2
        vectors = [w.op(f"shufflevector {pair}, <{length} x i32> {order}") for pair in pairs]
    return vectors[0]


def chosen_elements(w: FunctionWriter, inside: str, words: Sequence[str], chosen: Sequence[str]) -> None:
    """Note the elements of words that were chosen from a load's and zeros, where lanes are ``inside``."""
    if tuple(words) in w.elements:
        count, kind = len(words), elements_type(len(words))
        lanes = w.op(
            f"shufflevector {VECBOOL} {inside}, {VECBOOL} poison, <{LANES * count} x i32> {mask_literal(word_lanes(ALL_LANES, count))}"
        )
        elements = f"{kind} {w.elements[tuple(words)]}, {kind} zeroinitializer"
        w.elements[tuple(chosen)] = w.op(f"select <{LANES * count} x i1> {lanes}, {elements}")


# --- loads ----------------------------------------------------------------------------------------
def load_elements(w: FunctionWriter, place: Place, count: int) -> list[str]:
    """Load elements that do not lie in one window: rows of them, or each by itself; their words."""
    number = w.add_site() if place.wide else -1
    site = site_pointer(w, number) if place.wide else "null"
    settle(w, place.address)
    join, slow = w.new_label("loaded"), w.new_label("slow")
    ways: list[tuple[str, str]] = []
    one_by_one = True
    w.mask_vector(w.exec)
    if may_have_rows(place):
        found, rows = find_rows(w, place, site)
        near, far = w.new_label("rows"), w.new_label("scattered")
        w.emit(f"br i1 {found}, label %{near}, label %{far}")
        w.label(near)
        fetch_ahead(w, place, rows, LANES // len(rows) * place.size)
        ways.append((load_rows(w, rows, place.size), w.place))
        w.emit(f"br label %{join}")
        w.label(far)
        one_by_one = not are_known(w, place)
    _forget_lanes(place)
    if one_by_one:
        fine, pointers = check_lanes(w, place, site, w.exec)
        if place.proven:
            return words_of(w, _gather(w, pointers, count), count)
        fast = w.new_label("fast")
        w.emit(f"br i1 {fine}, label %{fast}, label %{slow}, !prof !0")
        w.label(fast)
        ways.append((_gather(w, pointers, count), fast))
        w.emit(f"br label %{join}")
        w.label(slow)
    served, slow_from = call_rare(w, "load_elements", Place(w, replace(place.address), place.access), number)
    kind = elements_type(count)
    ways.append((w.op(f"load {kind}, ptr {served}, align 64"), slow_from))
    w.emit(f"br label %{join}")
    w.label(join)
    return words_of(w, w.op(f"phi {kind} " + ", ".join(f"[ {name}, %{label} ]" for name, label in ways)), count)


def _forget_lanes(place: Place) -> None:
    """Lanes' addresses made of rows' are made again on each way that needs them."""
    if place.address.rows:
        place.address = Val(place.address.type, place.address.shape, rows=place.address.rows)


def _gather(w: FunctionWriter, pointers: str, count: int) -> str:
    """Each executing lane's element; zeros where a lane does not execute."""
    pointers, mask = lanes_to_touch(w, pointers)
    name = f"llvm.masked.gather.v{LANES}i64.v{LANES}p0"
    w.declared[name] = f"declare {VEC64} @{name}({VECPTR}, i32, {VECBOOL}, {VEC64})"
    pairs = [
        w.op(f"call {VEC64} @{name}({VECPTR} {at}, i32 4, {VECBOOL} {mask}, {VEC64} zeroinitializer)")
        for at in _pairs_pointers(w, pointers, count)
    ]
    whole = pairs[0]
    if len(pairs) > 1:
        order = mask_literal(n // 2 + n % 2 * LANES for n in range(2 * LANES))
        whole = w.op(f"shufflevector {VEC64} {pairs[0]}, {VEC64} {pairs[1]}, <{2 * LANES} x i32> {order}")
    return w.op(f"bitcast <{LANES * len(pairs)} x i64> {whole} to {elements_type(count)}")


def _scatter(w: FunctionWriter, pointers: str, elements: str, count: int) -> None:
    """Each executing lane's element to a pointer of its own, from the lowest lane on."""
    pointers, mask = lanes_to_touch(w, pointers)
    name = f"llvm.masked.scatter.v{LANES}i64.v{LANES}p0"
    w.declared[name] = f"declare void @{name}({VEC64}, {VECPTR}, i32, {VECBOOL})"
    kind = f"<{LANES * count // 2} x i64>"
    whole = w.op(f"bitcast {elements_type(count)} {elements} to {kind}")
    for n, at in enumerate(_pairs_pointers(w, pointers, count)):
        part = whole
        if count > 2:
            order = mask_literal(range(n, 2 * LANES, 2))
            part = w.op(f"shufflevector {kind} {whole}, {kind} poison, <{LANES} x i32> {order}")
        w.emit(f"call void @{name}({VEC64} {part}, {VECPTR} {at}, i32 4, {VECBOOL} {mask})")


def _pairs_pointers(w: FunctionWriter, pointers: str, count: int) -> list[str]:
    """Pointers to the first, second … pair of words of all elements."""
    further = (w.op(f"getelementptr i8, {VECPTR} {pointers}, i64 {8 * n}") for n in range(1, count // 2))
    return [pointers, *further]


# --- stores ---------------------------------------------------------------------------------------
def store_elements(w: FunctionWriter, place: Place, words: Sequence[Val]) -> None:
    """Store the executing lanes' elements; of lanes with the same address the highest wins."""
    count = len(words)
    elements = elements_of(w, [w.vector(word) for word in words])
    settle(w, place.address)
    number = w.add_site() if place.wide else -1
    site = site_pointer(w, number) if place.wide else "null"
    end = w.new_label("stored")
    if w.registers.masks:
        w.mask_vector(w.exec)
    can_be_fast = place.scattered or place.consecutive or bool(place.runs)
    if may_have_rows(place):
        found, hosts = find_rows(w, place, site)
        near, far = w.new_label("rows"), w.new_label("scattered")
        w.emit(f"br i1 {found}, label %{near}, label %{far}")
        w.label(near)
        store_rows(w, hosts, elements, place.size, False)
        w.emit(f"br label %{end}")
        w.label(far)
        can_be_fast = not are_known(w, place)
    _forget_lanes(place)
    if can_be_fast:
        fine, pointer = check_lanes(w, place, site, w.exec) if place.scattered else check(w, place, site)
        if place.proven:
            _store_fast(w, place, pointer, elements, count)
            return
        fast, slow = w.new_label("fast"), w.new_label("slow")
        w.emit(f"br i1 {fine}, label %{fast}, label %{slow}, !prof !0")
        w.label(fast)
        _store_fast(w, place, pointer, elements, count)
        w.emit(f"br label %{end}")
        w.label(slow)
    w.emit(f"store {elements_type(count)} {elements}, ptr %lane_values, align 64")
    call_rare(w, "store_elements", Place(w, replace(place.address), place.access, store=True), number)
    w.emit(f"br label %{end}")
    w.label(end)


def _store_fast(w: FunctionWriter, place: Place, pointer: str, elements: str, count: int) -> None:
    """Elements whose places were checked: runs of neighbours, or each by itself."""
    kind = elements_type(count)
    if place.scattered:
        _scatter(w, pointer, elements, count)
        return
    assert place.offsets is not None
    parts = []
    for first, length in place.runs or ((0, LANES),):
        lanes = range(first, first + length)
        order = mask_literal(range(count * first, count * (first + length)))
        part = w.op(f"shufflevector {kind} {elements}, {kind} poison, <{count * length} x i32> {order}")
        parts.append((part, w.field(pointer, place.size * place.offsets[first]), word_lanes(lanes, count)))
    masked_stores(w, "i32", parts, 4)
