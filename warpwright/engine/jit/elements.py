"""Accesses of 8 and 16 bytes per lane: converts between the layout in memory and vectors of words in registers.

A register is a vector of one word per lane, whereas in memory all words of a lane's element are adjacent.  These
accesses move elements: contiguous ones directly, others as pairs of words, lane by lane.  The conversion between
elements and registers takes two steps of shuffles, which are omitted for data that is only copied
(``FunctionWriter.elements``).

Local memory is stored as rows of lanes and does not need this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpwright.engine.jit.addressing import (
    Place,
    lanes_to_touch,
    mask_literal,
    masked_stores,
    settle,
    word_lanes,
)
from warpwright.engine.jit.checks import call_slow_path, check, check_lanes, site_pointer
from warpwright.engine.jit.contiguous_rows import are_known, find_rows, load_rows, may_have_rows, store_rows
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import Val
from warpwright.engine.jit.prefetch import fetch_ahead


def elements_type(w: FunctionWriter, count: int) -> str:
    """LLVM type of a warp's elements of ``count`` words, in memory order."""
    return f"<{w.lanes * count} x i32>"


# --- memory order and register order ---------------------------------------------------------------
def words_of(w: FunctionWriter, elements: str, count: int) -> list[str]:
    """The vectors of the first, second … words of all elements."""
    vectors, length = [elements], w.lanes * count
    while length > w.lanes:
        # Every second word; a warp's first words are every fourth one of 16-byte elements.
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
    """The elements with these words: as they were loaded, or assembled."""
    if tuple(words) in w.elements:
        return w.elements[tuple(words)]
    vectors, length = list(words), w.lanes
    while len(vectors) > 1:
        half = len(vectors) // 2
        order = mask_literal(n // 2 + n % 2 * length for n in range(2 * length))
        pairs = [f"<{length} x i32> {vectors[n]}, <{length} x i32> {vectors[n + half]}" for n in range(half)]
        length *= 2
        vectors = [w.op(f"shufflevector {pair}, <{length} x i32> {order}") for pair in pairs]
    return vectors[0]


def chosen_elements(w: FunctionWriter, inside: str, words: Sequence[str], chosen: Sequence[str]) -> None:
    """Record the elements of words that were selected from a load's and zeros, where lanes are ``inside``."""
    if tuple(words) in w.elements:
        count, kind = len(words), elements_type(w, len(words))
        lanes = w.op(
            f"shufflevector {w.vecbool} {inside}, {w.vecbool} poison, <{w.lanes * count} x i32> {mask_literal(word_lanes(w.all_lanes, count))}"
        )
        elements = f"{kind} {w.elements[tuple(words)]}, {kind} zeroinitializer"
        w.elements[tuple(chosen)] = w.op(f"select <{w.lanes * count} x i1> {lanes}, {elements}")


# --- loads ----------------------------------------------------------------------------------------
def load_elements(w: FunctionWriter, place: Place, count: int) -> list[str]:
    """Load elements that are not in one window, as rows or individually; returns their words."""
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
        fetch_ahead(w, place, rows, w.lanes // len(rows) * place.size)
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
    served, slow_from = call_slow_path(w, "load_elements", Place(w, replace(place.address), place.access), number)
    kind = elements_type(w, count)
    ways.append((w.op(f"load {kind}, ptr {served}, align 64"), slow_from))
    w.emit(f"br label %{join}")
    w.label(join)
    return words_of(w, w.op(f"phi {kind} " + ", ".join(f"[ {name}, %{label} ]" for name, label in ways)), count)


def _forget_lanes(place: Place) -> None:
    """Lanes' addresses computed from rows' addresses are computed again on each path that needs them."""
    if place.address.rows:
        place.address = Val(place.address.type, place.address.shape, rows=place.address.rows)


def _gather(w: FunctionWriter, pointers: str, count: int) -> str:
    """Gather each executing lane's element; zeros in other lanes."""
    pointers, mask = lanes_to_touch(w, pointers)
    name = f"llvm.masked.gather.v{w.lanes}i64.v{w.lanes}p0"
    w.declared[name] = f"declare {w.vec64} @{name}({w.vecptr}, i32, {w.vecbool}, {w.vec64})"
    pairs = [
        w.op(f"call {w.vec64} @{name}({w.vecptr} {at}, i32 4, {w.vecbool} {mask}, {w.vec64} zeroinitializer)")
        for at in _pairs_pointers(w, pointers, count)
    ]
    whole = pairs[0]
    if len(pairs) > 1:
        order = mask_literal(n // 2 + n % 2 * w.lanes for n in range(2 * w.lanes))
        whole = w.op(f"shufflevector {w.vec64} {pairs[0]}, {w.vec64} {pairs[1]}, <{2 * w.lanes} x i32> {order}")
    return w.op(f"bitcast <{w.lanes * len(pairs)} x i64> {whole} to {elements_type(w, count)}")


def _scatter(w: FunctionWriter, pointers: str, elements: str, count: int) -> None:
    """Store each executing lane's element to its own pointer, from the lowest lane on."""
    pointers, mask = lanes_to_touch(w, pointers)
    name = f"llvm.masked.scatter.v{w.lanes}i64.v{w.lanes}p0"
    w.declared[name] = f"declare void @{name}({w.vec64}, {w.vecptr}, i32, {w.vecbool})"
    kind = f"<{w.lanes * count // 2} x i64>"
    whole = w.op(f"bitcast {elements_type(w, count)} {elements} to {kind}")
    for n, at in enumerate(_pairs_pointers(w, pointers, count)):
        part = whole
        if count > 2:
            order = mask_literal(range(n, 2 * w.lanes, 2))
            part = w.op(f"shufflevector {kind} {whole}, {kind} poison, <{w.lanes} x i32> {order}")
        w.emit(f"call void @{name}({w.vec64} {part}, {w.vecptr} {at}, i32 4, {w.vecbool} {mask})")


def _pairs_pointers(w: FunctionWriter, pointers: str, count: int) -> list[str]:
    """Pointers to the first, second … pair of words of all elements."""
    further = (w.op(f"getelementptr i8, {w.vecptr} {pointers}, i64 {8 * n}") for n in range(1, count // 2))
    return [pointers, *further]


# --- stores ---------------------------------------------------------------------------------------
def store_elements(w: FunctionWriter, place: Place, words: Sequence[Val]) -> None:
    """Store the executing lanes' elements; if lanes share an address, the highest one wins."""
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
    w.emit(f"store {elements_type(w, count)} {elements}, ptr %lane_values, align 64")
    call_slow_path(w, "store_elements", Place(w, replace(place.address), place.access, store=True), number)
    w.emit(f"br label %{end}")
    w.label(end)


def _store_fast(w: FunctionWriter, place: Place, pointer: str, elements: str, count: int) -> None:
    """Store elements whose addresses were checked: runs of neighbours, or individually."""
    kind = elements_type(w, count)
    if place.scattered:
        _scatter(w, pointer, elements, count)
        return
    assert place.offsets is not None
    parts = []
    for first, length in place.runs or ((0, w.lanes),):
        lanes = range(first, first + length)
        order = mask_literal(range(count * first, count * (first + length)))
        part = w.op(f"shufflevector {kind} {elements}, {kind} poison, <{count * length} x i32> {order}")
        parts.append((part, w.field(pointer, place.size * place.offsets[first]), word_lanes(lanes, count)))
    masked_stores(w, "i32", parts, 4)
