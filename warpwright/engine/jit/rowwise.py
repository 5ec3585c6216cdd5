"""Values with one scalar per row of a block: ``lane = scalar[row] + offset[lane]``.

In a block 8 or 16 threads wide, ``threadIdx.y`` differs between the rows of a warp.  Multiplied by a width that is only
known at run time, it has no pattern, yet each row of lanes has its own scalar, and so has every address computed from
it.  The shape of such a value is that of a vector, with ``rows``: the offsets within each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpwright.engine.jit import shapes as sh
from warpwright.engine.jit.shapes import SCALAR_KIND, VECTOR_KIND, Pattern, Shape

if TYPE_CHECKING:
    from warpwright.engine.jit.function_writer import FunctionWriter
    from warpwright.engine.jit.llvm_text import Val

LENGTHS = (8, 16)
"""Block widths for which warps consist of rows."""


def row_length(block_shape: tuple[int, int, int], lanes: int) -> int:
    """Number of lanes in a row, 0 if warps do not consist of rows."""
    return block_shape[0] if block_shape[0] in LENGTHS and block_shape[0] < lanes else 0


def firsts(w: FunctionWriter, length: int) -> range:
    """The first lane of each row."""
    return range(0, w.lanes, length)


def within(shape: Shape, length: int, lanes: int) -> Pattern | None:
    """Offsets within rows; None for a value without a scalar per row."""
    if shape.kind == SCALAR_KIND:
        pattern = shape.pattern or (0,) * lanes
        return tuple(p - pattern[n // length * length] for n, p in enumerate(pattern))
    return shape.rows


def infer_rows(name: str, args: Sequence[Shape], width: int, length: int, lanes: int, assume: bool) -> Shape | None:
    """Shape of an operation's result if it has a scalar per row, else None."""
    if not length or width < 32:
        return None
    offsets = [within(a, length, lanes) for a in args]
    x = offsets[0]
    if x is None:
        return None
    last = args[-1]
    known = last.const if last.kind == SCALAR_KIND and last.pattern is None else None
    result: Pattern | None = None
    if name in ("add", "sub") and offsets[1] is not None:
        sign = 1 if name == "add" else -1
        result = tuple(a + sign * b for a, b in zip(x, offsets[1], strict=True))
    elif name == "mul" and offsets[1] is not None:
        if known is not None:
            result = tuple(p * sh._signed(known, width) for p in x)
        elif not any(x) and not any(offsets[1]):
            result = (0,) * lanes
    elif name == "shl" and known is not None and known < width:
        result = tuple(p << known for p in x)
    elif name in ("sext", "zext") and (assume or not any(x)):
        return Shape(VECTOR_KIND, rows=x)
    elif name == "trunc":
        result = x
    return None if result is None else Shape(VECTOR_KIND, rows=sh._fit(result, width) or (0,) * lanes)


def scalar_of(w: FunctionWriter, value: Val, row: int) -> str:
    """A row's scalar: the value of its first lane."""
    if value.rows:
        return value.rows[row]
    first = firsts(w, w.row_length)[row]
    shape = value.shape
    offset = 0 if shape.pattern is None else shape.pattern[first]
    if shape.const is not None or shape.kind == sh.UNSET_KIND:
        return w.literal(value.type, (shape.const or 0) + offset)
    base = w.scalar(value)
    return base if not offset else w.op(f"add {value.type} {base}, {offset}")


def emit_rows(w: FunctionWriter, name: str, type: str, args: Sequence[Val]) -> tuple[str, ...]:
    """Write an operation once per row."""
    results = []
    for row in range(w.lanes // w.row_length):
        x = scalar_of(w, args[0], row)
        if name in ("sext", "zext", "trunc"):
            results.append(w.op(f"{name} {args[0].type} {x} to {type}"))
        else:
            results.append(w.op(f"{name} {type} {x}, {scalar_of(w, args[1], row)}"))
    return tuple(results)


def spread(w: FunctionWriter, value: Val) -> str:
    """A value by rows as a vector of lanes."""
    length, type = w.row_length, value.type
    vec = f"<{w.lanes} x {type}>"
    name = "poison"
    for first, scalar in zip(firsts(w, length), value.rows, strict=True):
        name = w.op(f"insertelement {vec} {name}, {type} {scalar}, i64 {first}")
    order = ", ".join(f"i32 {n // length * length}" for n in range(w.lanes))
    name = w.op(f"shufflevector {vec} {name}, {vec} poison, <{w.lanes} x i32> <{order}>")
    offsets = value.shape.rows
    if offsets is not None and any(offsets):
        name = w.op(f"add {vec} {name}, {w.literal_vector(type, offsets)}")
    return name
