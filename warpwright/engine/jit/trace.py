"""Trace records (``engine/abi.py``) for the timing model."""

from __future__ import annotations

from warpwright.engine.abi import LOCAL_WINDOW, SHARED_WINDOW, TAG_AFFINE, TAG_BLOCK, TAG_GATHER
from warpwright.engine.jit.function import FunctionWriter, Val
from warpwright.engine.jit.shapes import LANES, SCALAR_KIND, UNSET_KIND
from warpwright.isa.ops import Access

VEC64 = "<32 x i64>"


def signed64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _store_word(w: FunctionWriter, used: str, ahead: int, value: str, type: str = "i64") -> None:
    at = used if not ahead else w.op(f"add i64 {used}, {ahead}")
    pointer = w.op(f"getelementptr i64, ptr %trace_base, i64 {at}")
    w.emit(f"store {type} {value}, ptr {pointer}, align 8")


def record_block(w: FunctionWriter, number: int, lanes: str) -> None:
    """A block record: its number and the lanes that enter it."""
    if not w.trace:
        return
    used = w.op("load i64, ptr %trace_used")
    bits = w.op(f"zext i32 {lanes} to i64")
    word = w.op(f"or i64 {bits}, {signed64(TAG_BLOCK << 60 | number << 32)}")
    _store_word(w, used, 0, word)
    w.emit(f"store i64 {w.op(f'add i64 {used}, 1')}, ptr %trace_used")


def record_access(w: FunctionWriter, address: Val, access: Access) -> None:
    """A memory record: affine where one stride describes all lanes, else every lane's address."""
    if not w.trace:
        return
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(access.space, 0)
    used = w.op("load i64, ptr %trace_used")
    lanes = w.op(f"zext i32 {w.exec.bits} to i64")
    shape = address.shape
    stride = None
    if shape.kind == SCALAR_KIND or shape.kind == UNSET_KIND:
        pattern = shape.pattern or (0,) * LANES
        step = pattern[1] - pattern[0]
        if all(p == pattern[0] + step * n for n, p in enumerate(pattern)) and -(1 << 23) <= step < 1 << 23:
            stride = step
            first = pattern[0]
    if stride is not None:
        tag = signed64(TAG_AFFINE << 60 | (stride & 0xFFFFFF) << 32)
        _store_word(w, used, 0, w.op(f"or i64 {lanes}, {tag}"))
        base = w.scalar(address)
        if address.type == "i32":
            if first:
                base = w.op(f"add i32 {base}, {first}")
            base = w.op(f"zext i32 {base} to i64")
            base = w.op(f"add i64 {base}, {window}") if window else base
        elif first:
            base = w.op(f"add i64 {base}, {first}")
        _store_word(w, used, 1, base)
        w.emit(f"store i64 {w.op(f'add i64 {used}, 2')}, ptr %trace_used")
        return
    _store_word(w, used, 0, w.op(f"or i64 {lanes}, {signed64(TAG_GATHER << 60)}"))
    vector = w.vector(address)
    if address.type == "i32":
        vector = w.op(f"zext <32 x i32> {vector} to {VEC64}")
        if window:
            vector = w.op(f"add {VEC64} {vector}, {w.literal_vector('i64', (window,) * LANES)}")
    _store_word(w, used, 1, vector, VEC64)
    w.emit(f"store i64 {w.op(f'add i64 {used}, 33')}, ptr %trace_used")
