"""Atomics, executed lane by lane in shared functions.

One check covers the addresses of all lanes; if it fails, each is looked up.  Shared memory belongs to a block, whose
warps run on one host thread, so its words are changed by plain loads and stores, because a locked host instruction
takes about twenty cycles.  With clusters, other blocks may change them concurrently.
"""

from __future__ import annotations

from warpwright.engine.jit import trace as tr
from warpwright.engine.jit.addressing import Place
from warpwright.engine.jit.checks import call_slow, check_lanes, settle_faults, site_pointer
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import Val
from warpwright.engine.jit.shapes import UNSET_KIND, VECTOR
from warpwright.isa.ops import Access, Op

EXACT = ("mbarrier", "cast")
"""Operations on words that copy engines also change, or that depend on the words' addresses."""


def atomic_name(access: Access) -> str:
    """Operation and type of an atomic, as in the name of its shared function."""
    name = access.operation
    if name in ("fmin", "fmax") and access.type in ("f16x2", "bf16x2"):
        name = f"{name}_{access.type}"
    kind = {4: "i32", 8: "i64", 16: "i128"}[access.bytes] if access.type[0] == "i" else access.type
    return name if "x2" in name else f"{name}_{kind}"


def emit_atomic(w: FunctionWriter, op: Op, args: list[Val]) -> Val:
    """Execute lane by lane, lowest first, each atomically."""
    access: Access = op.attr
    place = Place(w, args[0], access, exact=True)
    tr.record_access(w, place.address, access)
    if args[0].shape.kind == UNSET_KIND:
        place.address = w.constant(place.kind, 0)
    settle_faults(w)
    words = access.bytes // 4
    for position, value in enumerate(args[1:]):
        for n, word in enumerate(w.words_of(value, words)):
            row = w.row_bytes * (position * words + n)
            w.emit(f"store {w.vec32} {w.vector(word)}, ptr {w.field('%lane_values', row)}, align 64")
    _change(w, place, access)
    parts = tuple(
        Val(
            "i32",
            VECTOR,
            vector=w.op(f"load {w.vec32}, ptr {w.field('%lane_values', w.row_bytes * n)}, align 64"),
        )
        for n in range(words)
    )
    return parts[0] if words == 1 else Val(op.type, VECTOR, parts=parts)


def _change(w: FunctionWriter, place: Place, access: Access) -> None:
    """Change the executing lanes' words; the old values replace the operands."""
    name = atomic_name(access)
    number = w.add_site() if place.wide else -1
    site = site_pointer(w, number) if place.wide else "null"
    if access.operation in EXACT or (access.space == "shared" and w.setting.clustered):
        call_slow(w, f"ww_atomic_{name}", place, site, w.exec.bits)
        return
    fine, pointers = check_lanes(w, place, site, w.exec)
    known, exact, done = w.new_label("known"), w.new_label("exact"), w.new_label("changed")
    w.emit(f"br i1 {fine}, label %{known}, label %{exact}, !prof !0")
    w.label(known)
    w.emit(f"store {w.vecptr} {pointers}, ptr %lane_addresses, align 64")
    function = f"ww_own_{name}" if access.space == "shared" else f"ww_at_{name}"
    w.declare(function, "void", f"ptr, ptr, {w.mask_type}")
    w.emit(f"call void @{function}(ptr %lane_addresses, ptr %lane_values, {w.mask_type} {w.exec.bits})")
    w.emit(f"br label %{done}")
    w.label(exact)
    call_slow(w, f"ww_atomic_{name}", place, site, w.exec.bits)
    w.emit(f"br label %{done}")
    w.label(done)
