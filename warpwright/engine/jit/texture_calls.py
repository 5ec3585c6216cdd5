"""Textures and surfaces: pass their operands in memory to the launch's own function (``engine/textures``)."""

from __future__ import annotations

from warpwright.engine.abi import LAUNCH
from warpwright.engine.jit import trace as tr
from warpwright.engine.jit.checks import settle_faults
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import Val
from warpwright.engine.jit.shapes import VECTOR
from warpwright.isa.ops import Op
from warpwright.isa.texture_access import TextureAccess


def emit_texture(w: FunctionWriter, op: Op, args: list[Val]) -> Val:
    """A fetch, a query, or a surface load, store or reduction."""
    access: TextureAccess = op.attr
    if access.writes:
        settle_faults(w)
    for n, value in enumerate(args):
        w.emit(f"store {w.vec32} {w.vector(value)}, ptr {w.field('%lane_values', w.row_bytes * n)}, align 64")
    function = w.op(f"load ptr, ptr {w.field('%launch', LAUNCH['texture'])}")
    instruction = w.program.instructions[w.index].address
    w.emit(
        f"call void {function}(ptr %warp, i32 {w.exec.bits}, i64 {access.word()}, ptr %lane_values, "
        f"ptr %lane_addresses, i64 {instruction})"
    )
    w.unsettled = True
    if w.trace:
        first = w.op(f"load {w.vec64}, ptr %lane_addresses, align 64")
        lanes = ""
        if access.on_surface:
            # Lanes outside a surface access nothing.
            somewhere = w.op(f"icmp ne {w.vec64} {first}, zeroinitializer")
            lanes = w.op(f"bitcast <{w.lanes} x i1> {somewhere} to i{w.lanes}")
            lanes = w.op(f"and i{w.lanes} {lanes}, {w.exec.bits}")
        tr.record_access(w, Val("i64", VECTOR, vector=first), access, lanes)
    parts = []
    for n in range(4):
        word = w.op(f"load {w.vec32}, ptr {w.field('%lane_values', w.row_bytes * n)}, align 64")
        parts.append(Val("i32", VECTOR, vector=word))
    return Val("i32x4", VECTOR, parts=tuple(parts))
