"""Shapes: what the compiler knows about a value before any thread runs.

A value is a **scalar** if its lanes differ only by offsets known at compile time: ``lane = scalar + pattern[lane]``.
Uniform values have no pattern; ``threadIdx.x`` with a known block shape has one, and so has every address computed from
it. Everything else is a **vector**.  The analysis is optimistic: all variables start as *unset* and only ever lose
knowledge, until writes, divergence and shapes agree.
"""

from __future__ import annotations

from typing import NamedTuple

Pattern = tuple[int, ...]
"""A signed offset per lane."""

FULL_ALIGNMENT = 1 << 63
"""Alignment of the constant 0."""


class Shape(NamedTuple):
    """Knowledge about a value or variable."""

    kind: int
    """UNSET, SCALAR or VECTOR."""
    pattern: Pattern | None = None
    """Lane offsets of a scalar; None when uniform."""
    const: int | None = None
    """The scalar part's bits (unsigned), if known."""
    align: int = 1
    """A power of two that divides the scalar part."""
    bound: int = -1
    """Upper bound of the scalar part as an unsigned number (-1 = unknown)."""
    rows: Pattern | None = None
    """For vectors with a scalar per row of the block: offsets within the rows (``rowwise.py``)."""


UNSET_KIND, SCALAR_KIND, VECTOR_KIND = 0, 1, 2
UNSET = Shape(UNSET_KIND)
VECTOR = Shape(VECTOR_KIND)
UNIFORM = Shape(SCALAR_KIND)

WIDTH = {"i1": 1, "i8": 8, "i16": 16, "f16": 16, "bf16": 16, "i32": 32, "f32": 32, "i64": 64, "f64": 64}


def constant(bits: int) -> Shape:
    """Shape of a known uniform value."""
    return Shape(SCALAR_KIND, None, bits, bits & -bits if bits else FULL_ALIGNMENT, bits)


def known(pattern: Pattern) -> Shape:
    """Shape of a value that is known in every lane."""
    return Shape(SCALAR_KIND, pattern, 0, FULL_ALIGNMENT, 0)


def meet(x: Shape, y: Shape) -> Shape:
    """What holds for a variable that may have either shape."""
    if x == y or y.kind == UNSET_KIND:
        return x
    if x.kind == UNSET_KIND:
        return y
    if x.kind == VECTOR_KIND or y.kind == VECTOR_KIND or x.pattern != y.pattern:
        return VECTOR
    bound = max(x.bound, y.bound) if x.bound >= 0 and y.bound >= 0 else -1
    return Shape(SCALAR_KIND, x.pattern, x.const if x.const == y.const else None, min(x.align, y.align), bound)


def widened(old: Shape, new: Shape) -> Shape:
    """``meet`` for variables that change repeatedly: bounds and alignments may shrink only a few times."""
    both = meet(old, new)
    if both.kind == SCALAR_KIND and old.kind == SCALAR_KIND and both.bound > old.bound >= 0:
        return both._replace(bound=-1)
    return both


def _signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def _fit(pattern: Pattern, width: int) -> Pattern | None:
    """The pattern with offsets as signed numbers of the given width; None if all are zero."""
    half = 1 << (width - 1)
    if all(-half <= p < half for p in pattern):
        return pattern if any(pattern) else None
    fitted = tuple(_signed(p, width) for p in pattern)
    return fitted if any(fitted) else None


def add(x: Shape, y: Shape, width: int, sign: int = 1) -> Shape:
    """Sum (``sign`` 1) or difference (-1)."""
    if x.pattern is None and y.pattern is None:
        pattern = None
    elif y.pattern is None:
        pattern = x.pattern
    else:
        left = x.pattern or (0,) * len(y.pattern)
        pattern = _fit(tuple(a + sign * b for a, b in zip(left, y.pattern, strict=True)), width)
    const = None
    if x.const is not None and y.const is not None:
        const = (x.const + sign * y.const) & ((1 << width) - 1)
    bound = -1
    if const is not None:
        bound = const
    elif sign > 0 and x.bound >= 0 and y.bound >= 0 and x.bound + y.bound < 1 << width:
        bound = x.bound + y.bound
    return Shape(SCALAR_KIND, pattern, const, min(x.align, y.align), bound)


def multiply(x: Shape, y: Shape, width: int) -> Shape:
    """Low half of a product."""
    if x.pattern is not None and (y.const is None or y.pattern is not None):
        return VECTOR
    if y.pattern is not None and (x.const is None or x.pattern is not None):
        return VECTOR
    pattern = None
    if x.pattern is not None and y.const is not None:
        factor = _signed(y.const, width)
        pattern = _fit(tuple(p * factor for p in x.pattern), width)
    elif y.pattern is not None and x.const is not None:
        factor = _signed(x.const, width)
        pattern = _fit(tuple(p * factor for p in y.pattern), width)
    const = (x.const * y.const) & ((1 << width) - 1) if x.const is not None and y.const is not None else None
    bound = const if const is not None else -1
    if const is None and x.bound >= 0 and y.bound >= 0 and x.bound * y.bound < 1 << width:
        bound = x.bound * y.bound
    return Shape(SCALAR_KIND, pattern, const, min(x.align * y.align, FULL_ALIGNMENT), bound)


def shift_left(x: Shape, y: Shape, width: int) -> Shape:
    if y.const is None or y.pattern is not None:
        return UNIFORM if x.pattern is None and y.pattern is None else VECTOR
    if y.const >= width:
        return constant(0)
    return multiply(x, constant(1 << y.const), width)


def disjoint(x: Shape) -> bool:
    """Whether scalar part and offsets occupy different bits, so that lane = scalar | offset."""
    return x.pattern is None or (min(x.pattern) >= 0 and max(x.pattern) < x.align)


def _uniform(bound: int = -1, align: int = 1) -> Shape:
    return Shape(SCALAR_KIND, None, None, align, bound)


def bitwise(name: str, x: Shape, y: Shape, width: int) -> Shape:
    """and, or, xor."""
    if x.const is not None and y.const is not None and x.pattern is None and y.pattern is None:
        return constant(
            x.const & y.const if name == "and" else x.const | y.const if name == "or" else x.const ^ y.const
        )
    if x.pattern is None and y.pattern is None:
        if name != "and":
            return _uniform(-1, min(x.align, y.align))
        bounds = [b for b in (x.bound, y.bound) if b >= 0]
        return _uniform(min(bounds) if bounds else -1, max(x.align, y.align))
    if x.const is None or x.pattern is not None:
        x, y = y, x
    if x.const is None or x.pattern is not None:
        if x.const == 0 and y.const == 0 and x.pattern is not None and y.pattern is not None:
            operator = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}[name]
            return _known(tuple(operator(a, b) for a, b in zip(x.pattern, y.pattern, strict=True)), width)
        return VECTOR
    assert y.pattern is not None
    mask = x.const
    if y.const == 0:
        operator = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}[name]
        return _known(tuple(operator(a, _signed(mask, width)) for a in y.pattern), width)
    if name == "and" and keeps_all(y, mask):
        return y
    if not disjoint(y):
        return VECTOR
    small = y.align - 1
    operator = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}[name]
    pattern = _fit(tuple(operator(a, mask & small) for a in y.pattern), width)
    if name != "and":
        return Shape(SCALAR_KIND, pattern, None, y.align, -1)
    if mask & ~small == 0:
        return constant(0) if pattern is None else known(pattern)
    bound = min(mask & ~small, y.bound) if y.bound >= 0 else mask & ~small
    return Shape(SCALAR_KIND, pattern, None, y.align, bound)


def keeps_all(x: Shape, mask: int) -> bool:
    """Whether a mask of low bits changes no lane, because all lanes of a patterned value are below its end."""
    if x.pattern is None or mask & (mask + 1) or x.bound < 0:
        return False
    return min(x.pattern) >= 0 and x.bound + max(x.pattern) <= mask


def scalar_mask(name: str, x: Shape, y: Shape) -> int | None:
    """For ``bitwise`` of a patterned value and a constant: the constant for the scalar part."""
    if x.pattern is None and y.pattern is None:
        return None
    patterned, other = (x, y) if x.pattern is not None else (y, x)
    if other.const is None or (name == "and" and keeps_all(patterned, other.const)):
        return None
    return other.const & ~(patterned.align - 1)


def _known(values: Pattern, width: int) -> Shape:
    pattern = _fit(values, width)
    if pattern is None:
        return constant(0)
    if all(p == pattern[0] for p in pattern):
        return constant(pattern[0] & ((1 << width) - 1))
    return known(pattern)


def shift_right(x: Shape, y: Shape, width: int, arithmetic: bool) -> Shape:
    if y.const is None or y.pattern is not None:
        return UNIFORM if x.pattern is None and y.pattern is None else VECTOR
    amount = y.const
    if x.pattern is None:
        if x.const is not None:
            value = _signed(x.const, width) if arithmetic else x.const
            return constant((value >> min(amount, width)) & ((1 << width) - 1))
        if arithmetic and not 0 <= x.bound < 1 << (width - 1):
            return UNIFORM
        return _uniform((x.bound >> amount) if x.bound >= 0 else (1 << max(width - amount, 0)) - 1)
    if x.const == 0:
        half = (1 << width) - 1
        if arithmetic:
            return _known(tuple(p >> min(amount, width - 1) for p in x.pattern), width)
        return _known(tuple((p & half) >> amount if amount < width else 0 for p in x.pattern), width)
    if not disjoint(x) or amount >= width:
        return VECTOR
    # lane = scalar | offset, so both can be shifted separately; the offsets' bits never reach the sign.
    if x.align >= 1 << (width - 1):
        return VECTOR
    pattern = _fit(tuple(p >> amount for p in x.pattern), width)
    return Shape(
        SCALAR_KIND,
        pattern,
        None,
        max(x.align >> amount, 1),
        x.bound >> amount if x.bound >= 0 and not arithmetic else -1,
    )


def never_wraps(x: Shape, width: int, signed: bool) -> bool:
    """Whether scalar + offset stays within the width in every lane, so that widening commutes with the addition."""
    if x.pattern is None:
        return True
    low, high = min(x.pattern), max(x.pattern)
    if x.const is not None:
        value = _signed(x.const, width) if signed else x.const
        least, most = value + low, value + high
    elif x.bound >= 0 and (not signed or x.bound < 1 << (width - 1)):
        least, most = low, x.bound + high
    else:
        # Alignment alone: scalar | offset with the top bit in the scalar part.
        return disjoint(x) and x.align <= 1 << (width - 1)
    limit = width - 1 if signed else width
    return (-(1 << limit) if signed else 0) <= least and most < 1 << limit
