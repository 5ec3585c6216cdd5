"""Trace records (``engine/abi.py``) for the timing model.

How many words a basic block leaves is known when its code is written, so the place of the next record is a constant
from the block's start.  Whether the buffer has room is asked where a loop begins again, and wherever more
than a few hundred words may have come since it was asked last; ``words_ahead`` keeps that account.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpwright.engine.abi import LOCAL_WINDOW, SHARED_WINDOW, TAG_AFFINE, TAG_BLOCK, TAG_GATHER, TAG_PATTERN
from warpwright.engine.jit.function import FunctionWriter, Val
from warpwright.engine.jit.shapes import LANES, SCALAR_KIND, UNSET_KIND, WIDTH
from warpwright.isa.ops import Access
from warpwright.isa.textures import TextureAccess

VEC64 = "<32 x i64>"
STEP_LIMIT = 1 << 30
"""Constants between addresses that cannot wrap around."""
WORDS_BETWEEN_CHECKS = 512
"""Records written without asking for room, except where one block has more."""


def _signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def _put(w: FunctionWriter, value: str, type: str = "i64", words: int = 1) -> None:
    pointer = w.field(w.trace_at, 8 * w.trace_words) if w.trace_words else w.trace_at
    w.emit(f"store {type} {value}, ptr {pointer}, align 8")
    w.trace_words += words


def _head(w: FunctionWriter, lanes: str, bits: int) -> str:
    """A record's first word."""
    key = (lanes, bits)
    if key not in w.trace_heads:
        wide = w.trace_heads.get((lanes, 0))
        if wide is None:
            wide = w.trace_heads[lanes, 0] = w.op(f"zext i32 {lanes} to i64")
        w.trace_heads[key] = w.op(f"or i64 {wide}, {_signed(bits, 64)}")
    return w.trace_heads[key]


def record_block(w: FunctionWriter, number: int, lanes: str) -> None:
    """A block record: its number and the lanes that enter it."""
    if not w.trace:
        return
    w.trace_at = w.op("load ptr, ptr %trace_at")
    w.trace_words = 0
    w.trace_heads = {}
    _put(w, _head(w, lanes, TAG_BLOCK << 60 | number << 32))


def finish_block(w: FunctionWriter) -> None:
    """Where the next block's records begin."""
    if w.trace:
        w.emit(f"store ptr {w.field(w.trace_at, 8 * w.trace_words)}, ptr %trace_at")


def _first_address(w: FunctionWriter, address: Val, first: int, window: int) -> str:
    """Lane 0's address: ``first`` bytes from the scalar part."""
    base = w.scalar(address)
    root, step = w.offsets_of.get(base, ("", 0))
    if root and address.shape.bound >= 0 and first >= 0 and abs(step) < STEP_LIMIT:
        # A known bound: no sum wraps around, so that one address in the block serves all that differ by constants.
        key = (root, window)
        if key not in w.trace_heads:
            wide = w.op(f"sext i32 {root} to i64")
            w.trace_heads[key] = w.op(f"add i64 {wide}, {window}")
        step += first
        return w.op(f"add i64 {w.trace_heads[key]}, {step}") if step else w.trace_heads[key]
    if first:
        base = w.op(f"add {address.type} {base}, {first}")
    if address.type == "i32":
        base = w.op(f"zext i32 {base} to i64")
        base = w.op(f"add i64 {base}, {window}") if window else base
    return base


def record_access(w: FunctionWriter, address: Val, access: Access | TextureAccess) -> None:
    """A memory record: affine where one stride describes all lanes, a pattern where the compiler knows their distances."""
    if not (w.trace and w.recording):
        return
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(access.space, 0)
    shape = address.shape
    if shape.kind not in (SCALAR_KIND, UNSET_KIND):
        _put(w, _head(w, w.exec.bits, TAG_GATHER << 60))
        vector = w.vector(address)
        if address.type == "i32":
            vector = w.op(f"zext <32 x i32> {vector} to {VEC64}")
            if window:
                vector = w.op(f"add {VEC64} {vector}, {w.literal_vector('i64', (window,) * LANES)}")
        _put(w, vector, VEC64, LANES)
        return
    pattern = shape.pattern or (0,) * LANES
    width = WIDTH[address.type]
    offsets = [_signed(p - pattern[0], width) for p in pattern]
    step = offsets[1]
    affine = -(1 << 23) <= step < 1 << 23 and offsets == [step * n for n in range(LANES)]
    tag = TAG_AFFINE << 60 | (step & 0xFFFFFF) << 32 if affine else TAG_PATTERN << 60
    _put(w, _head(w, w.exec.bits, tag))
    _put(w, _first_address(w, address, pattern[0], window))
    if not affine:
        table = w.table(("distances", tuple(offsets)), "i64", offsets, LANES)
        _put(w, table, "ptr")


def words_ahead(words: int, before: Sequence[int], forced: bool) -> tuple[bool, int]:
    """(whether a block must ask for room, words that may have come since the last question when it ends).

    Args:
        words: that the block itself writes.
        before: the same account of the blocks that may run right before it; ``forced``: one jumps back to it.
    """
    most = max(before, default=0)
    if forced or most + words > WORDS_BETWEEN_CHECKS:
        return True, words
    return False, most + words
