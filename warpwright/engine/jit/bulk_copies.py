"""Bulk copies: pass their operands in memory to the launch's own function, which executes them (``engine/bulk.py``)."""

from __future__ import annotations

from warpwright.engine.abi import LAUNCH
from warpwright.engine.jit import trace as tr
from warpwright.engine.jit.checks import instruction_address, settle_faults
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import Val
from warpwright.isa.bulk import DIRECTIONS, Bulk
from warpwright.isa.ops import Op


def emit_bulk(w: FunctionWriter, op: Op, args: list[Val]) -> None:
    """Execute a bulk copy; branches to 'fault' if it faults."""
    what: Bulk = op.attr
    settle_faults(w)
    for n, value in enumerate(args):
        pointer = w.field("%lane_values", w.row_bytes * n)
        w.emit(f"store {w.vec32} {w.vector(value)}, ptr {pointer}, align 64")
    lanes = w.exec.bits
    if what.once:
        lanes = w.op(f"and i32 {lanes}, {w.op(f'sub i32 0, {lanes}')}")
    record = tr.record_bulk(w, lanes, DIRECTIONS.index(what.direction))
    function = w.op(f"load ptr, ptr {w.field('%launch', LAUNCH['bulk'])}")
    arguments = (
        f"ptr %warp, i32 {lanes}, i32 {what.number}, ptr %lane_values, ptr {record}, i64 {instruction_address(w)}"
    )
    wrong = w.op(f"icmp ne i32 {w.op(f'call i32 {function}({arguments})')}, 0")
    after = w.new_label("copied")
    w.emit(f"br i1 {wrong}, label %fault, label %{after}, !prof !2")
    w.label(after)
