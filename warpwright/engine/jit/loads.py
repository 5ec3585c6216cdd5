"""Loads: windows of neighbouring bytes, broadcasts of single words, and gathers; multi-word elements are in
``elements.py``.

A load whose whole extent is in one allocation reads all of it, including inactive lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from warpwright.engine.jit import trace as tr
from warpwright.engine.jit.addressing import (
    FEW_PLACES,
    Place,
    is_uniform,
    lanes_to_touch,
    mask_literal,
    part_pointer,
    settle,
)
from warpwright.engine.jit.checks import (
    call_slow_path,
    check,
    check_lanes,
    checked_window,
    site_pointer,
    window_of_group,
)
from warpwright.engine.jit.contiguous_rows import are_known, find_rows, load_rows, may_have_rows
from warpwright.engine.jit.elements import chosen_elements, elements_type, load_elements, words_of
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import Val
from warpwright.engine.jit.prefetch import fetch_ahead
from warpwright.engine.jit.shapes import SCALAR_KIND, UNSET_KIND, VECTOR, Shape
from warpwright.isa.ops import Access, Op

Reader = Callable[[FunctionWriter, Place, str, int], list[str]]


def emit_load(w: FunctionWriter, op: Op, args: list[Val]) -> Val:
    """A load; lanes in which its condition (if given) is false access nothing and receive 0."""
    if len(args) == 1:
        return _load(w, op, args[0])
    whole = w.exec
    w.exec = executing = w.and_mask(whole, args[1])
    w.mask_vector(executing)
    value = _load(w, op, args[0])
    w.exec = whole
    inside = w.mask_vector(executing)
    parts = []
    for part in value.parts or (value,):
        kind = w.vector_type(part.type)
        name = w.op(f"select {w.vecbool} {inside}, {kind} {w.vector(part)}, {kind} zeroinitializer")
        parts.append(Val(part.type, VECTOR, vector=name))
    chosen_elements(w, inside, [w.vector(part) for part in value.parts], [w.vector(part) for part in parts])
    return parts[0] if len(parts) == 1 else Val(value.type, VECTOR, parts=tuple(parts))


def _load(w: FunctionWriter, op: Op, address: Val) -> Val:
    """A load; 8 and 16 bytes return a value with parts, 1 and 2 bytes an i8 or i16."""
    access: Access = op.attr
    place = Place(w, address, access)
    tr.record_access(w, place.address, access)
    count = max(1, access.bytes // 4)
    if address.shape.kind == UNSET_KIND:
        address = place.address = w.constant(place.kind, 0)
    if is_uniform(address) and access.space not in ("local", "generic"):
        single = access.bytes >= 4 and w.index in w.single_loads
        names = _window(w, place, count, _load_single if single else _load_uniform)
        shape = Shape(SCALAR_KIND)
        values = [Val("i32" if access.bytes >= 4 else op.type, shape, scalar=n) for n in names]
        if single:
            for value in values:
                value.single = value.scalar
                value.scalar = w.op(f"bitcast float {value.single} to i32")
    else:
        if is_uniform(address) and access.space == "local":
            names = _diamond(w, place, count, _load_local_rows)
        elif place.scattered and count > 1 and access.space != "local":
            names = load_elements(w, place, count)
        elif place.scattered:
            names = _diamond(w, place, count, _load_scattered)
        elif access.space == "generic" and place.spread.places < w.lanes:
            # In local memory, lanes with the same address have separate storage; the exact path's copy has one for all.
            names = _diamond(w, place, count, _load_window)
        else:
            names = _window(w, place, count, _load_window)
        values = [Val("i32" if access.bytes >= 4 else op.type, VECTOR, vector=n) for n in names]
    if count == 1:
        return values[0]
    return Val(op.type, VECTOR, parts=tuple(values))


def _window(w: FunctionWriter, place: Place, count: int, read: Reader) -> list[str]:
    """A load of neighbouring bytes: from memory, or from the copy that the exact path makes."""
    settle(w, place.address)
    if place.wide:
        host = window_of_group(w, place)
        fetch_ahead(w, place, [host], place.extent)
        return read(w, place, host, count)
    fine, host = check(w, place, "null")
    if not place.proven:
        host, _ = checked_window(w, place, -1, fine, host)
    return read(w, place, host, count)


def _diamond(w: FunctionWriter, place: Place, count: int, fast_path: Reader) -> list[str]:
    """Fast path and exact path of a load, and their join."""
    bytes_ = place.size
    number = w.add_site() if place.wide else -1
    site = site_pointer(w, number) if place.wide else "null"
    settle(w, place.address)
    only_slow = bytes_ < 4 and place.access.space == "local" and not place.scattered
    join = w.new_label("loaded")
    fast_names: list[str] = []
    fast_from = ""
    ways: list[tuple[list[str], str]] = []
    if may_have_rows(place):
        w.mask_vector(w.exec)
        found, rows = find_rows(w, place, site)
        near, far = w.new_label("rows"), w.new_label("scattered")
        w.emit(f"br i1 {found}, label %{near}, label %{far}")
        w.label(near)
        fetch_ahead(w, place, rows, w.lanes // len(rows) * bytes_)
        ways.append(([load_rows(w, rows, bytes_)], w.place))
        w.emit(f"br label %{join}")
        w.label(far)
        # Rows that are not in one allocation are too rare for a separate path.
        only_slow = only_slow or are_known(w, place)
    if place.address.rows:
        # The vector of its lanes is created only on this path.
        place.address = Val(place.address.type, place.address.shape, rows=place.address.rows)
    if not only_slow:
        fast, slow = w.new_label("fast"), w.new_label("slow")
        if place.scattered:
            fine, pointer = check_lanes(w, place, site, w.exec)
            w.mask_vector(w.exec)
        else:
            fine, pointer = check(w, place, site)
        if place.proven:
            return fast_path(w, place, pointer, count)
        w.emit(f"br i1 {fine}, label %{fast}, label %{slow}, !prof !0")
        w.label(fast)
        saved = w.exec.vector
        fast_names = fast_path(w, place, pointer, count)
        w.exec.vector = saved
        fast_from = fast
        w.emit(f"br label %{join}")
        w.label(slow)
    slow_names, slow_from = _load_by_slow_path(w, place, count, number)
    if not ways and only_slow:
        return slow_names
    w.emit(f"br label %{join}")
    w.label(join)
    kind = f"<{w.lanes} x i{8 * min(bytes_, 4)}>"
    if fast_names:
        ways.append((fast_names, fast_from))
    ways.append((slow_names, slow_from))
    return [
        w.op(f"phi {kind} " + ", ".join(f"[ {names[n]}, %{label} ]" for names, label in ways)) for n in range(count)
    ]


def _load_by_slow_path(w: FunctionWriter, place: Place, count: int, number: int) -> tuple[list[str], str]:
    """The words that the exact path returns, and the label after its call."""
    served, label = call_slow_path(w, "load", Place(w, replace(place.address), place.access), number)
    names = []
    for part in range(count):
        name = w.op(f"load {w.vec32}, ptr {w.field(served, w.row_bytes * part)}, align 64")
        if place.size < 4:
            name = w.op(f"trunc {w.vec32} {name} to <{w.lanes} x i{8 * place.size}>")
        names.append(name)
    return names, label


def _load_uniform(w: FunctionWriter, place: Place, pointer: str, count: int) -> list[str]:
    if place.size < 4:
        return [w.op(f"load i{8 * place.size}, ptr {pointer}, align {place.size}")]
    return [w.op(f"load i32, ptr {w.field(pointer, 4 * n)}, align 4") for n in range(count)]


def _load_single(w: FunctionWriter, place: Place, pointer: str, count: int) -> list[str]:
    return [w.op(f"load float, ptr {w.field(pointer, 4 * n)}, align 4") for n in range(count)]


def _load_window(w: FunctionWriter, place: Place, pointer: str, count: int) -> list[str]:
    """Read all bytes between the lowest and the highest lane, then select each lane's part."""
    assert place.offsets is not None
    single = place.size >= 4 and w.index in w.single_loads
    element = "float" if single else f"i{8 * min(place.size, 4)}"
    length = place.extent // min(place.size, 4)
    if place.consecutive and count > 1:
        return words_of(w, w.op(f"load {elements_type(w, count)}, ptr {pointer}, align 4"), count)
    distinct = sorted(set(place.offsets))
    if len(distinct) <= FEW_PLACES:
        names = [_load_few(w, place, pointer, element, distinct, count, part) for part in range(count)]
    else:
        vec = f"<{length} x {element}>"
        window = w.op(f"load {vec}, ptr {pointer}, align {min(place.size, 4)}")
        names = [window]
        if not place.consecutive:
            orders = (mask_literal(count * o + part for o in place.offsets) for part in range(count))
            names = [w.op(f"shufflevector {vec} {window}, {vec} poison, {w.vec32} {order}") for order in orders]
    return [w.bitcast(f"<{w.lanes} x float>", name, w.vec32) for name in names] if single else names


def _load_few(
    w: FunctionWriter, place: Place, pointer: str, element: str, distinct: list[int], count: int, part: int
) -> str:
    """Read a few scalars, each broadcast to the lanes that use it."""
    assert place.offsets is not None
    size = min(place.size, 4)

    def read(offset: int) -> str:
        at = w.field(pointer, size * (count * offset + part))
        return w.op(f"load {element}, ptr {at}, align {size}")

    halves = [set(place.offsets[start : start + w.lanes // 2]) for start in (0, w.lanes // 2)]
    if len(distinct) == 2 and all(len(half) == 1 for half in halves):
        # Half a warp fits a register, so no selection is needed.
        kind = f"<{w.lanes // 2} x {element}>"
        ones = [w.op(f"insertelement {kind} poison, {element} {read(*half)}, i64 0") for half in halves]
        low, high = (
            w.op(f"shufflevector {kind} {one}, {kind} poison, <{w.lanes // 2} x i32> zeroinitializer") for one in ones
        )
        return w.op(f"shufflevector {kind} {low}, {kind} {high}, <{w.lanes} x i32> {mask_literal(range(w.lanes))}")
    result = ""
    for offset in distinct:
        spread = w.splat("f32" if element == "float" else element, read(offset))
        if not result:
            result = spread
            continue
        lanes = w.literal_vector("i1", [int(o == offset) for o in place.offsets])
        kind = f"<{w.lanes} x {element}>"
        result = w.op(f"select {w.vecbool} {lanes}, {kind} {spread}, {kind} {result}")
    return result


def _load_local_rows(w: FunctionWriter, place: Place, pointer: str, count: int) -> list[str]:
    return [w.op(f"load {w.vec32}, ptr {w.field(pointer, w.row_bytes * n)}, align 4") for n in range(count)]


def _load_scattered(w: FunctionWriter, place: Place, pointer: str, count: int) -> list[str]:
    pointers, mask = lanes_to_touch(w, pointer)
    if place.size < 4:
        return [_gather_part(w, place, pointers, mask)]
    return [gather(w, part_pointer(w, place, pointers, n), mask) for n in range(count)]


def _gather_part(w: FunctionWriter, place: Place, pointer: str, mask: str) -> str:
    """A byte or half-word per lane: the aligned word that contains it, shifted down.

    Every space begins at a multiple of 4, so that the address determines the position of a byte in its word.
    """
    numbers = w.op(f"ptrtoint {w.vecptr} {pointer} to {w.vec64}")
    words = w.op(f"and {w.vec64} {numbers}, {w.literal_vector('i64', (-4,) * w.lanes)}")
    found = gather(w, w.op(f"inttoptr {w.vec64} {words} to {w.vecptr}"), mask)
    address = w.vector(place.address)
    low = w.op(f"trunc {w.vec64} {address} to {w.vec32}") if place.wide else address
    bits = w.op(f"shl {w.vec32} {low}, {w.literal_vector('i32', (3,) * w.lanes)}")
    amount = w.op(f"and {w.vec32} {bits}, {w.literal_vector('i32', (24,) * w.lanes)}")
    return w.op(f"trunc {w.vec32} {w.op(f'lshr {w.vec32} {found}, {amount}')} to <{w.lanes} x i{8 * place.size}>")


def gather(w: FunctionWriter, pointers: str, mask: str) -> str:
    w.declared["llvm.masked.gather.v{w.lanes}i32.v{w.lanes}p0"] = (
        f"declare {w.vec32} @llvm.masked.gather.v{w.lanes}i32.v{w.lanes}p0({w.vecptr}, i32, {w.vecbool}, {w.vec32})"
    )
    return w.op(
        f"call {w.vec32} @llvm.masked.gather.v{w.lanes}i32.v{w.lanes}p0({w.vecptr} {pointers}, i32 4, {w.vecbool} {mask}, {w.vec32} zeroinitializer)"
    )
