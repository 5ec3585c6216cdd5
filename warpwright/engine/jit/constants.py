"""Loads from constant banks; bytes beyond what the launch provides read as 0."""

from __future__ import annotations

from warpwright.engine.abi import LAUNCH
from warpwright.engine.jit.addressing import is_uniform, parts_of
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import Val
from warpwright.engine.jit.shapes import SCALAR_KIND, VECTOR, Shape
from warpwright.isa.ops import Op


def emit_load_const(w: FunctionWriter, op: Op, offset: Val) -> Val:
    """A constant load; bytes beyond what the launch provides read as 0."""
    bank, size = op.attr
    count = parts_of(op.type) if op.type != "i64" else 1
    type = op.type if op.type not in ("i32x2", "i32x4") else "i32"
    if is_uniform(offset):
        llvm = {"f32": "i32", "f64": "i64"}.get(type, type)
        known = offset.shape.const
        pointer = w.banks.setdefault(bank, f"%bank{bank}")
        values = []
        inside = ""
        if known is None or known + size > w.known_bank_bytes.get(bank, 0):
            limit = w.load_field("%launch", LAUNCH["constant_bytes"] + 8 * bank)
            place = w.op(f"zext i32 {w.scalar(offset)} to i64")
            inside = w.op(f"icmp ule i64 {w.op(f'add i64 {place}, {size}')}, {limit}")
            place = w.op(f"select i1 {inside}, i64 {place}, i64 0")
            zero = w.op(f"select i1 {inside}, ptr {pointer}, ptr @zeros")
            w.tables.setdefault("zeros", "@zeros")
            pointer = w.op(f"getelementptr i8, ptr {zero}, i64 {place}")
        else:
            pointer = w.field(pointer, known)
        for n in range(count):
            at = w.field(pointer, 4 * n)
            align = min(size, 4)
            name = w.op(f"load {llvm}, ptr {at}, align {align}, !invariant.load !1")
            if llvm != type:
                name = w.op(f"bitcast {llvm} {name} to {'float' if type == 'f32' else 'double'}")
            values.append(Val(type, Shape(SCALAR_KIND), scalar=name))
        return values[0] if count == 1 else Val(op.type, VECTOR, parts=tuple(values))
    w.declare("ww_load_constant", "void", f"ptr, ptr, ptr, {w.mask_type}, i32, i32")
    w.emit(f"store {w.vec32} {w.vector(offset)}, ptr %lane_addresses, align 64")
    w.emit(
        f"call void @ww_load_constant(ptr %launch, ptr %lane_addresses, ptr %lane_values, {w.mask_type} {w.exec.bits}, i32 {bank}, i32 {size})"
    )
    loaded = [
        w.op(f"load {w.vec32}, ptr {w.field('%lane_values', w.row_bytes * n)}, align 64")
        for n in range(max(1, size // 4))
    ]
    if op.type in ("i8", "i16"):
        return Val(op.type, VECTOR, vector=w.op(f"trunc {w.vec32} {loaded[0]} to {w.vector_type(op.type)}"))
    if op.type == "f32":
        return Val("f32", VECTOR, vector=w.op(f"bitcast {w.vec32} {loaded[0]} to {w.vector_type('f32')}"))
    parts = tuple(Val("i32", VECTOR, vector=n) for n in loaded)
    if op.type == "f64":
        wide = w.vector(Val("i64", VECTOR, parts=parts))
        return Val("f64", VECTOR, vector=w.op(f"bitcast {w.vec64} {wide} to {w.vector_type('f64')}"))
    return parts[0] if len(parts) == 1 else Val(op.type, VECTOR, parts=parts)
