"""Atomics carried out lane after lane by shared functions."""

from __future__ import annotations

from warpwright.engine.jit import trace as tr
from warpwright.engine.jit.checks import call_slow, settle_faults, site_pointer
from warpwright.engine.jit.function import FunctionWriter, Val
from warpwright.engine.jit.places import VEC32, Place
from warpwright.engine.jit.shapes import UNSET_KIND, VECTOR
from warpwright.isa.ops import Access, Op


def atomic_name(access: Access) -> str:
    """Operation and type of an atomic, as the shared function is called."""
    name = access.operation
    if name in ("fmin", "fmax") and access.type in ("f16x2", "bf16x2"):
        name = f"{name}_{access.type}"
    kind = {4: "i32", 8: "i64", 16: "i128"}[access.bytes] if access.type[0] == "i" else access.type
    return name if "x2" in name else f"{name}_{kind}"


def emit_atomic(w: FunctionWriter, op: Op, args: list[Val]) -> Val:
    """Lane after lane, lowest first, each one atomically."""
    access: Access = op.attr
    place = Place(w, args[0], access, exact=True)
    tr.record_access(w, place.address, access)
    if args[0].shape.kind == UNSET_KIND:
        place.address = w.constant(place.kind, 0)
    settle_faults(w)
    words = access.bytes // 4
    for position, value in enumerate(args[1:]):
        for n, word in enumerate(w.words_of(value, words)):
            row = 128 * (position * words + n)
            w.emit(f"store {VEC32} {w.vector(word)}, ptr {w.field('%lane_values', row)}, align 64")
    site = site_pointer(w, w.add_site()) if place.wide else "null"
    call_slow(w, f"ww_atomic_{atomic_name(access)}", place, site, w.exec.bits)
    parts = tuple(
        Val(
            "i32",
            VECTOR,
            vector=w.op(f"load {VEC32}, ptr {w.field('%lane_values', 128 * n)}, align 64"),
        )
        for n in range(words)
    )
    return parts[0] if words == 1 else Val(op.type, VECTOR, parts=parts)
