"""LLVM text for stores, masked by the executing lanes: contiguous words, runs and scatters; see also ``elements.py``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from warpwright.engine.jit import trace as tr
from warpwright.engine.jit import uniform_stores
from warpwright.engine.jit.addressing import (
    Place,
    is_uniform,
    lanes_to_touch,
    mask_literal,
    masked_stores,
    part_pointer,
    settle,
)
from warpwright.engine.jit.checks import call_slow_path, check, check_lanes, settle_faults, site_pointer
from warpwright.engine.jit.contiguous_rows import are_known, find_rows, may_have_rows, store_rows
from warpwright.engine.jit.elements import store_elements
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import Val
from warpwright.engine.jit.shapes import UNSET_KIND
from warpwright.isa.ops import Access, Op


def emit_store(w: FunctionWriter, op: Op, address: Val, value: Val) -> None:
    """A store by the executing lanes; if lanes share an address, the highest one wins."""
    access: Access = op.attr
    place = Place(w, address, access, store=True)
    record = len(w.trace_line)
    tr.record_access(w, place.address, access)
    words = list(value.parts) if value.parts else [value]
    _store(w, address, place, words)
    if w.exec.bits != "0" and uniform_stores.asked(w, place):
        uniform_stores.note(w, record, place, words)


def _store(w: FunctionWriter, address: Val, place: Place, words: list[Val]) -> None:
    """A store without its trace record."""
    access = place.access
    if address.shape.kind == UNSET_KIND:
        address = place.address = w.constant(place.kind, 0)
    if w.exec.bits == "0":
        return
    settle_faults(w)
    count = max(1, access.bytes // 4)
    uniform = is_uniform(address) and access.space != "generic"
    uniform_words = all(is_uniform(v) for v in words)
    local = access.space == "local"
    if count > 1 and not local and not (uniform and uniform_words):
        store_elements(w, place, words)
        return
    only_slow = (access.bytes < 4 and local) or (
        not (local or place.scattered or place.consecutive or place.runs) and not (uniform and uniform_words)
    )
    vectors = [w.vector(v) for v in words] if not (uniform and uniform_words and not local) else []
    settle(w, address)
    number = w.add_site() if place.wide else -1
    site = site_pointer(w, number) if place.wide else "null"
    end = w.new_label("stored")
    if w.registers.masks:
        w.mask_vector(w.exec)
    if may_have_rows(place):
        whole = _store_by_rows(w, place, site, vectors[0], end)
        only_slow = only_slow or (are_known(w, place) and not whole)
    if address.rows:
        address = place.address = Val(address.type, address.shape, rows=address.rows)
    if not only_slow:
        fast, slow = w.new_label("fast"), w.new_label("slow")
        if place.scattered:
            fine, pointer = check_lanes(w, place, site, w.exec)
        else:
            fine, pointer = check(w, place, site)
        if uniform and not local:
            some = w.op(f"icmp ne {w.mask_type} {w.exec.bits}, 0")
            fine = w.op(f"and i1 {fine}, {some}")
        always = fine == "true"
        if not always:
            w.emit(f"br i1 {fine}, label %{fast}, label %{slow}, !prof !0")
            w.label(fast)
        _store_fast(w, place, pointer, vectors, words if uniform else [])
        if always:
            return
        w.emit(f"br label %{end}")
        w.label(slow)
    _pass_values(w, vectors or (w.vector(Val(word.type, word.shape, word.scalar)) for word in words), access.bytes)
    slow_address = replace(address)
    call_slow_path(w, "store", Place(w, slow_address, access, store=True), number)
    w.emit(f"br label %{end}")
    w.label(end)


def _store_fast(w: FunctionWriter, place: Place, pointer: str, vectors: list[str], uniform: list[Val]) -> None:
    """Store to checked addresses; ``uniform``: words for the one address of all lanes."""
    access = place.access
    if place.scattered:
        _store_scattered(w, place, pointer, vectors, access.bytes)
    elif access.space == "local":
        rows = [(name, w.field(pointer, w.row_bytes * n), w.all_lanes) for n, name in enumerate(vectors)]
        masked_stores(w, "i32", rows, 4)
    elif uniform:
        _store_uniform(w, pointer, uniform, min(access.bytes, 4))
    else:
        _store_consecutive(w, place, pointer, vectors[0])


def _store_uniform(w: FunctionWriter, pointer: str, words: list[Val], size: int) -> None:
    """Store words that are equal in all lanes to one address."""
    for n, word in enumerate(words):
        w.emit(f"store i{8 * size} {w.scalar(word)}, ptr {w.field(pointer, 4 * n)}, align {size}")


def _pass_values(w: FunctionWriter, names: Iterable[str], size: int) -> None:
    """Put the lanes' values where the slow path reads them."""
    for n, name in enumerate(names):
        wide = w.op(f"zext <{w.lanes} x i{8 * size}> {name} to {w.vec32}") if size < 4 else name
        w.emit(f"store {w.vec32} {wide}, ptr {w.field('%lane_values', w.row_bytes * n)}, align 64")


def _store_by_rows(w: FunctionWriter, place: Place, site: str, value: str, end: str) -> bool:
    """Store by rows if the lanes' addresses turn out to be consecutive, and branch to ``end``; returns whether only
    complete rows are stored this way."""
    size = place.access.bytes
    found, hosts = find_rows(w, place, site)
    # Without masks, a masked store of bytes is as many branches, so rows must be complete.
    whole = size < 4 and not w.registers.masks
    if whole and w.exec.bits != "-1":
        found = w.op(f"and i1 {found}, {w.op(f'icmp eq {w.mask_type} {w.exec.bits}, -1')}")
    near, far = w.new_label("rows"), w.new_label("scattered")
    w.emit(f"br i1 {found}, label %{near}, label %{far}")
    w.label(near)
    store_rows(w, hosts, value, size, whole)
    w.emit(f"br label %{end}")
    w.label(far)
    return whole


def _store_scattered(w: FunctionWriter, place: Place, pointer: str, vectors: list[str], size: int) -> None:
    """Store each lane's words through its own pointer."""
    if size < 4:
        scatter_parts(w, vectors[0], pointer, size)
        return
    pointers, mask = lanes_to_touch(w, pointer)
    for n, name in enumerate(vectors):
        scatter(w, name, part_pointer(w, place, pointers, n), mask)


def _store_consecutive(w: FunctionWriter, place: Place, pointer: str, vector: str) -> None:
    element = f"i{8 * min(place.size, 4)}"
    if place.runs:
        assert place.offsets is not None
        parts = []
        vec = f"<{w.lanes} x {element}>"
        for first, length in place.runs:
            lanes = range(first, first + length)
            part = w.op(f"shufflevector {vec} {vector}, {vec} poison, <{length} x i32> {mask_literal(lanes)}")
            parts.append((part, w.field(pointer, place.size * place.offsets[first]), lanes))
        masked_stores(w, element, parts, place.size)
        return
    masked_stores(w, element, [(vector, pointer, w.all_lanes)], place.size)


def scatter(w: FunctionWriter, value: str, pointers: str, mask: str) -> None:
    w.declared["llvm.masked.scatter.v{w.lanes}i32.v{w.lanes}p0"] = (
        f"declare void @llvm.masked.scatter.v{w.lanes}i32.v{w.lanes}p0({w.vec32}, {w.vecptr}, i32, {w.vecbool})"
    )
    w.emit(
        f"call void @llvm.masked.scatter.v{w.lanes}i32.v{w.lanes}p0({w.vec32} {value}, {w.vecptr} {pointers}, i32 4, {w.vecbool} {mask})"
    )


def scatter_parts(w: FunctionWriter, value: str, pointers: str, size: int) -> None:
    """Store a byte or half-word for each executing lane, from the lowest on.

    No machine can scatter these: LLVM would write 32 stores with a branch each, which take long to compile.
    """
    element = f"i{8 * size}"
    w.emit(f"store {w.vecptr} {pointers}, ptr %lane_addresses, align 64")
    w.emit(f"store <{w.lanes} x {element}> {value}, ptr %lane_values, align 64")
    before, each, lane, done = (w.new_label(name) for name in ("before", "each", "lane", "done"))
    w.emit(f"br label %{before}")
    w.label(before)
    w.emit(f"br label %{each}")
    w.label(each)
    left = f"%left_{each}"
    rest = w.op(f"phi {w.mask_type} [ {w.exec.bits}, %{before} ], [ {left}, %{lane} ]")
    w.emit(f"br i1 {w.op(f'icmp eq {w.mask_type} {rest}, 0')}, label %{done}, label %{lane}")
    w.label(lane)
    number = w.wide_mask(w.lowest_lane(rest, some=True))
    pointer = w.op(f"load ptr, ptr {w.op(f'getelementptr ptr, ptr %lane_addresses, i64 {number}')}")
    part = w.op(f"load {element}, ptr {w.op(f'getelementptr {element}, ptr %lane_values, i64 {number}')}")
    w.emit(f"store {element} {part}, ptr {pointer}, align {size}")
    w.emit(f"{left} = and {w.mask_type} {rest}, {w.op(f'sub {w.mask_type} {rest}, 1')}")
    w.emit(f"br label %{each}")
    w.label(done)
