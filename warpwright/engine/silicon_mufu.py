"""MUFU, the special-function unit, bit for bit as an H200 computes it.

The unit is a table of quadratic interpolators (Oberman and Siu, "A high-performance area-efficient multifunction
interpolator", ARITH 2005): the argument's leading bits choose a segment, the 17 bits ``x`` below them enter

    v = C0 + C1 * x + C2 * square(x),

an exact sum of integers, which is then cut (never rounded) to the result's 24 bits.  ``square`` is a truncated
squarer: of the partial products x_i * x_j of x * x only those of weight 2**19 and more are summed (:func:`square`).
This structure, the segments and all coefficients were found from sweeps of the instruction on an H200
(``bench/silicon``); the coefficients are in ``data/mufu.npz`` with their provenance (``bench/silicon/sweep_mufu.py``).  Every function is exact by
this mechanism; nothing is corrected by a table of differences.  The check against the card over all 2**32 arguments
is ``bench/silicon/check_mufu.py``.

* RCP: 128 segments; RSQ, SQRT: 64 for an odd exponent, 64 for an even one; results below the normal range are zero.
* EX2: the argument becomes fixed point with 23 fraction bits (cut); a negative one is complemented bit by bit unless
  it is integral.  64 segments.
* LG2: 64 segments; exponent plus interpolated logarithm in fixed point with 36 fraction bits; negative sums are
  complemented bit by bit.
* SIN, COS: the argument, in turns, becomes fixed point with 25 fraction bits (cut); odd quarters are complemented bit
  by bit; cosine adds a quarter.  64 segments in a quarter.
* TANH: the argument itself below 2**-8; then 1 to 16 segments for each power of two; 1 from 8 on.
* RCP64H, RSQ64H: the tables of RCP and RSQ; sign, 11 bits of exponent and 20 of mantissa in and out.

Arguments below the normal range count as zeros of their sign (but for TANH).  EX2 and TANH of f16 and bf16 are those
of f32, cut.

The programs are written once over :class:`Machine`, a handful of 64-bit integer operations, so that an engine
can run them on NumPy arrays (:class:`Arrays`) or emit them as code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

V = TypeVar("V")
B = TypeVar("B")
Words = npt.NDArray[np.uint32]

NAN = 0x7FFFFFFF
INFINITY = 0x7F800000
SIGN = 0x80000000
ONE = 0x3F800000
TABLES = ("rcp", "rsq", "sqrt", "ex2", "lg2", "sin", "tanh")
SCALE = 43
"""v is in units of 2**-43: C0 in those, C1 in 2**-41 for each unit of x, C2 in 2**-39 for each unit of the square."""
TANH_FIRST = 119
"""Biased exponent of 2**-8, from which on TANH interpolates."""
TANH_BITS = (0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3)
"""log2 of the number of segments for the exponents -8 to 2."""
TANH_ROWS = (0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43)
"""First segment of each of those exponents."""


class Machine(Protocol[V, B]):
    """64-bit two's-complement operations on values ``V``; comparisons give ``B``.  Shift counts are 0 to 63."""

    def const(self, value: int) -> V: ...
    def add(self, a: V, b: V) -> V: ...
    def sub(self, a: V, b: V) -> V: ...
    def mul(self, a: V, b: V) -> V: ...
    def and_(self, a: V, b: V) -> V: ...
    def or_(self, a: V, b: V) -> V: ...
    def xor(self, a: V, b: V) -> V: ...
    def shl(self, a: V, b: V) -> V: ...
    def shr(self, a: V, b: V) -> V:
        """Arithmetic shift right."""

    def msb(self, a: V) -> V:
        """Number of the highest set bit of 0 < a < 2**52; anything for other values."""

    def eq(self, a: V, b: V) -> B: ...
    def lt(self, a: V, b: V) -> B:
        """Signed."""

    def select(self, condition: B, a: V, b: V) -> V: ...
    def table(self, name: str, index: V) -> V:
        """Element of the constant array :func:`constants` of that name; the index is always inside."""

    def short(self, a: V, steps: Callable[[V], V]) -> V:
        """``steps`` of ``a``, which need 31 bits at most from ``a`` to their result; 32-bit operations will do."""


class Programs(Generic[V, B]):
    """The functions over one machine: each takes and gives 32 bits, zero-extended to 64."""

    def __init__(self, machine: Machine[V, B]) -> None:
        self.m = machine

    # --- small helpers: constants on the right ----------------------------------------------------
    def add(self, a: V, n: int) -> V:
        return self.m.add(a, self.m.const(n))

    def rsub(self, n: int, a: V) -> V:
        return self.m.sub(self.m.const(n), a)

    def and_(self, a: V, n: int) -> V:
        return self.m.and_(a, self.m.const(n))

    def shl(self, a: V, n: int) -> V:
        return self.m.shl(a, self.m.const(n))

    def shr(self, a: V, n: int) -> V:
        return self.m.shr(a, self.m.const(n))

    def eq(self, a: V, n: int) -> B:
        return self.m.eq(a, self.m.const(n))

    def lt(self, a: V, n: int) -> B:
        return self.m.lt(a, self.m.const(n))

    def pick(self, condition: B, n: int, otherwise: V) -> V:
        return self.m.select(condition, self.m.const(n), otherwise)

    def clamp(self, a: V, low: int, high: int) -> V:
        a = self.m.select(self.lt(a, low), self.m.const(low), a)
        return self.m.select(self.lt(a, high), a, self.m.const(high))

    # --- the interpolator -------------------------------------------------------------------------
    def square(self, x: V) -> V:
        """The truncated square of 17 bits in units of 2**19: partial products of lower weight are left out.

        x * x is the sum of x_i x_j 2**(i + j + 1) over i < j and of x_i 2**(2 i).  With the products of j's row taken
        together, row j (10 to 16) adds bits 18 - j to j - 1 of x and the diagonal 2**(2 j - 19), if bit j is set.
        """

        def rows(x: V) -> V:
            total = self.m.const(0)
            for j in range(10, 17):
                row = self.add(self.and_(self.shr(x, 18 - j), (1 << 2 * j - 18) - 1), 1 << 2 * j - 19)
                without = self.eq(self.and_(x, 1 << j), 0)
                total = self.m.select(without, total, self.m.add(total, row))
            return total

        return self.m.short(x, rows)

    def interpolate(self, table: str, segment: V, x: V) -> V:
        """v in units of 2**-43."""
        # Both in one word: a look-up takes longer than to part them.
        both = self.m.table(f"{table}.c12", segment)
        linear = self.m.mul(self.shr(self.shl(both, 32), 32), x)
        quadratic = self.m.mul(self.shr(both, 32), self.square(x))
        total = self.m.add(self.m.table(f"{table}.c0", segment), self.shl(linear, SCALE - 41))
        return self.m.add(total, self.shl(quadratic, SCALE - 39))

    # --- parts of f32 -----------------------------------------------------------------------------
    def cut(self, magnitude: V, scale: int, sign: V) -> V:
        """f32 of ``magnitude`` * 2**-scale (below 2**52, at least the smallest normal, or 0), cut to 24 bits."""
        top = self.m.msb(magnitude)
        short = self.lt(top, 23)
        left = self.m.shl(magnitude, self.m.select(short, self.rsub(23, top), self.m.const(0)))
        mantissa = self.m.shr(left, self.m.select(short, self.m.const(0), self.add(top, -23)))
        bits = self.m.add(self.shl(self.add(top, 126 - scale), 23), mantissa)
        return self.m.or_(self.pick(self.eq(magnitude, 0), 0, bits), sign)

    def invalid(self, bits: V, result: V, infinity: int = INFINITY) -> V:
        """NaN for a NaN (anything above ``infinity``)."""
        size = self.and_(bits, SIGN - 1)
        return self.m.select(self.m.lt(self.m.const(infinity), size), self.m.const(NAN), result)

    def positive_only(self, bits: V, result: V, zero: int, infinite: int, infinity: int = INFINITY) -> V:
        """The rules of RSQ, SQRT and LG2: result for zeros, +infinity, NaN for what is below zero."""
        sign, size = self.and_(bits, SIGN), self.and_(bits, SIGN - 1)
        result = self.pick(self.eq(bits, infinity), infinite, result)
        result = self.pick(self.eq(sign, SIGN), NAN, result)
        least = 0x800000 if infinity == INFINITY else 0x100000
        zero_bits = self.m.const(zero) if zero & SIGN else self.m.or_(self.m.const(zero), sign)
        result = self.m.select(self.lt(size, least), zero_bits, result)
        return self.invalid(bits, result, infinity)

    # --- the functions ----------------------------------------------------------------------------
    def rcp(self, bits: V) -> V:
        return self._reciprocal(bits, 23, 253)

    def rcp64h(self, bits: V) -> V:
        return self._reciprocal(bits, 20, 2045)

    def _reciprocal(self, bits: V, width: int, bias: int) -> V:
        sign, size = self.and_(bits, SIGN), self.and_(bits, SIGN - 1)
        exponent, mantissa = self.shr(size, width), self.and_(size, (1 << width) - 1)
        x = self.shl(self.and_(mantissa, (1 << width - 7) - 1), 24 - width)
        v = self.interpolate("rcp", self.shr(mantissa, width - 7), x)
        y = self.add(self.shr(v, SCALE - 24), -(1 << 23))
        result = self.m.add(self.shl(self.rsub(bias, exponent), width), self.shr(y, 23 - width))
        result = self.pick(self.lt(result, 1 << width), 0, result)
        infinity = (bias + 2) << width
        result = self.pick(self.eq(exponent, 0), infinity, result)
        return self.invalid(bits, self.m.or_(result, sign), infinity)

    def rsq(self, bits: V) -> V:
        return self._reciprocal_root(bits, 23, 380)

    def rsq64h(self, bits: V) -> V:
        return self._reciprocal_root(bits, 20, 3068)

    def _halves(self, size: V, width: int) -> tuple[V, V, V]:
        """Segment of the tables with 64 rows for odd and 64 for even biased exponents, x, exponent."""
        exponent, mantissa = self.shr(size, width), self.and_(size, (1 << width) - 1)
        even = self.shl(self.rsub(1, self.and_(exponent, 1)), 6)
        segment = self.m.add(self.shr(mantissa, width - 6), even)
        return segment, self.shl(self.and_(mantissa, (1 << width - 6) - 1), 23 - width), exponent

    def _reciprocal_root(self, bits: V, width: int, bias: int) -> V:
        size = self.and_(bits, SIGN - 1)
        segment, x, exponent = self._halves(size, width)
        y = self.add(self.shr(self.interpolate("rsq", segment, x), SCALE - 24), -(1 << 23))
        power = self.eq(self.m.or_(segment, x), 0)  # a power of four is exact
        y = self.shr(self.pick(power, 1 << 23, y), 23 - width)
        result = self.m.add(self.shl(self.shr(self.rsub(bias, exponent), 1), width), y)
        infinity = INFINITY if width == 23 else 0x7FF00000
        return self.positive_only(bits, result, infinity, 0, infinity)

    def sqrt(self, bits: V) -> V:
        segment, x, exponent = self._halves(self.and_(bits, SIGN - 1), 23)
        y = self.add(self.shr(self.interpolate("sqrt", segment, x), SCALE - 23), -(1 << 23))
        result = self.m.add(self.shl(self.shr(self.add(exponent, 127), 1), 23), y)
        return self.positive_only(bits, result, 0, INFINITY)

    def fixed(self, bits: V, fraction: int, limit: int) -> V:
        """|bits| in fixed point with ``fraction`` fraction bits, cut; shifts left by at most ``limit``."""
        size = self.and_(bits, SIGN - 1)
        whole = self.m.or_(self.and_(size, 0x7FFFFF), self.m.const(1 << 23))
        shift = self.clamp(self.add(self.shr(size, 23), fraction - 150), -30, limit)
        right = self.lt(shift, 0)
        left = self.m.shl(whole, self.m.select(right, self.m.const(0), shift))
        return self.m.shr(left, self.m.select(right, self.rsub(0, shift), self.m.const(0)))

    def ex2(self, bits: V) -> V:
        value = self.fixed(bits, 23, 9)
        negative = self.eq(self.and_(bits, SIGN), SIGN)
        integral = self.eq(self.and_(value, 0x7FFFFF), 0)
        below = self.m.select(integral, self.rsub(0, value), self.m.xor(value, self.m.const(-1)))
        value = self.m.select(negative, below, value)
        v = self.interpolate("ex2", self.and_(self.shr(value, 17), 63), self.and_(value, 0x1FFFF))
        exponent = self.add(self.shr(value, 23), 126)
        result = self.m.add(self.shl(exponent, 23), self.shr(v, SCALE - 24))
        result = self.pick(self.lt(exponent, 0), 0, result)
        result = self.m.select(self.lt(exponent, 254), result, self.m.const(INFINITY))
        return self.invalid(bits, result)

    def lg2(self, bits: V) -> V:
        size = self.and_(bits, SIGN - 1)
        mantissa = self.and_(size, 0x7FFFFF)
        v = self.interpolate("lg2", self.shr(mantissa, 17), self.and_(mantissa, 0x1FFFF))
        total = self.m.add(self.shl(self.add(self.shr(size, 23), -127), 36), self.shr(v, SCALE - 36))
        negative = self.lt(total, 0)
        magnitude = self.m.select(negative, self.m.xor(total, self.m.const(-1)), total)
        sign = self.m.select(negative, self.m.const(SIGN), self.m.const(0))
        result = self.pick(self.eq(bits, ONE), 0, self.cut(magnitude, 36, sign))
        return self.positive_only(bits, result, SIGN | INFINITY, INFINITY)

    def sin(self, bits: V) -> V:
        return self._wave(bits, self.fixed(bits, 25, 26), self.and_(bits, SIGN))

    def cos(self, bits: V) -> V:
        return self._wave(bits, self.add(self.fixed(bits, 25, 26), 1 << 23), self.m.const(0))

    def _wave(self, bits: V, turns: V, sign: V) -> V:
        odd = self.eq(self.and_(turns, 1 << 23), 1 << 23)
        place = self.m.xor(turns, self.m.select(odd, self.m.const(-1), self.m.const(0)))
        v = self.interpolate("sin", self.and_(self.shr(place, 17), 63), self.and_(place, 0x1FFFF))
        sign = self.m.xor(sign, self.shl(self.and_(turns, 1 << 24), 7))
        return self.invalid(bits, self.cut(v, SCALE, sign), INFINITY - 1)

    def tanh(self, bits: V) -> V:
        sign, size = self.and_(bits, SIGN), self.and_(bits, SIGN - 1)
        exponent, mantissa = self.shr(size, 23), self.and_(size, 0x7FFFFF)
        binade = self.clamp(self.add(exponent, -TANH_FIRST), 0, len(TANH_BITS) - 1)
        count = self.m.table("tanh.bits", binade)
        segment = self.m.add(self.m.table("tanh.rows", binade), self.m.shr(mantissa, self.rsub(23, count)))
        x = self.and_(self.m.shr(mantissa, self.rsub(6, count)), 0x1FFFF)
        result = self.cut(self.interpolate("tanh", segment, x), SCALE, self.m.const(0))
        result = self.m.select(self.lt(result, ONE), result, self.m.const(ONE))
        result = self.m.select(self.lt(exponent, TANH_FIRST + len(TANH_BITS)), result, self.m.const(ONE))
        result = self.m.select(self.lt(exponent, TANH_FIRST), size, result)
        return self.invalid(bits, self.m.or_(result, sign))

    # --- formats of 16 bits: the function in f32, cut ---------------------------------------------
    def from_half(self, bits: V) -> V:
        sign, size = self.shl(self.and_(bits, 0x8000), 16), self.and_(bits, 0x7FFF)
        normal = self.add(self.shl(size, 13), 112 << 23)
        small = self.cut(size, 24, self.m.const(0))
        special = self.m.or_(self.shl(size, 13), self.m.const(INFINITY))
        single = self.m.select(self.lt(size, 0x400), small, normal)
        return self.m.or_(self.m.select(self.lt(size, 0x7C00), single, special), sign)

    def to_half(self, bits: V) -> V:
        """Cut to f16; what is too large is infinite."""
        sign, size = self.and_(self.shr(bits, 16), 0x8000), self.and_(bits, SIGN - 1)
        exponent, mantissa = self.add(self.shr(size, 23), -112), self.and_(size, 0x7FFFFF)
        small = self.m.shr(self.add(mantissa, 1 << 23), self.clamp(self.rsub(14, exponent), 0, 30))
        normal = self.shr(self.add(size, -(112 << 23)), 13)
        half = self.m.select(self.lt(exponent, 1), small, normal)
        half = self.m.select(self.lt(exponent, 31), half, self.m.const(0x7C00))
        result = self.m.or_(half, sign)
        return self.m.select(self.m.lt(self.m.const(INFINITY), size), self.m.const(0x7FFF), result)

    def ex2_f16(self, bits: V) -> V:
        return self.to_half(self.ex2(self.from_half(bits)))

    def tanh_f16(self, bits: V) -> V:
        return self.to_half(self.tanh(self.from_half(bits)))

    def ex2_bf16(self, bits: V) -> V:
        return self.shr(self.ex2(self.shl(bits, 16)), 16)

    def tanh_bf16(self, bits: V) -> V:
        return self.shr(self.tanh(self.shl(bits, 16)), 16)


FUNCTIONS = ("rcp", "rsq", "sqrt", "ex2", "lg2", "sin", "cos", "tanh", "rcp64h", "rsq64h")
HALVES = ("ex2_f16", "tanh_f16", "ex2_bf16", "tanh_bf16")
"""MUFU's forms of 16 bits."""


def program(name: str, type: str) -> str:
    """Name of the program of an operation ``mufu`` in a type: f64 is RCP64H or RSQ64H on the upper words.

    Raises ``KeyError`` where the unit has no such form.
    """
    chosen = {"f32": name, "f64": f"{name}64h"}.get(type, f"{name}_{type}")
    if chosen not in FUNCTIONS + HALVES:
        raise KeyError(f"MUFU has no function {name!r} of {type}; there are {', '.join(FUNCTIONS + HALVES)}")
    return chosen


@cache
def constants() -> dict[str, npt.NDArray[np.int64]]:
    """The constant arrays that the programs index: columns C0 and, in the lower and the upper word, C1 and C2 of each table; TANH's segmentation."""
    made = {}
    with np.load(Path(__file__).parent / "data" / "mufu.npz") as stored:
        for name in TABLES:
            c0, c1, c2 = stored[name].astype(np.int64).T
            made[f"{name}.c0"] = np.ascontiguousarray(c0)
            made[f"{name}.c12"] = (c2 << 32) | (c1 & 0xFFFFFFFF)
    made["tanh.bits"] = np.array(TANH_BITS, np.int64)
    made["tanh.rows"] = np.array(TANH_ROWS, np.int64)
    return made


class Arrays:
    """The machine on NumPy arrays of int64."""

    def const(self, value: int) -> Any:
        return np.int64(value)

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def sub(self, a: Any, b: Any) -> Any:
        return a - b

    def mul(self, a: Any, b: Any) -> Any:
        return a * b

    def and_(self, a: Any, b: Any) -> Any:
        return a & b

    def or_(self, a: Any, b: Any) -> Any:
        return a | b

    def xor(self, a: Any, b: Any) -> Any:
        return a ^ b

    def shl(self, a: Any, b: Any) -> Any:
        return a << b

    def shr(self, a: Any, b: Any) -> Any:
        return a >> b

    def msb(self, a: Any) -> Any:
        return np.frexp(a.astype(np.float64))[1].astype(np.int64) - 1

    def eq(self, a: Any, b: Any) -> Any:
        return a == b

    def lt(self, a: Any, b: Any) -> Any:
        return a < b

    def select(self, condition: Any, a: Any, b: Any) -> Any:
        return np.where(condition, a, b)

    def table(self, name: str, index: Any) -> Any:
        return constants()[name][index]

    def short(self, a: Any, steps: Callable[[Any], Any]) -> Any:
        return steps(a)


def mufu(name: str, bits: Words) -> Words:
    """The function ``name`` (of ``FUNCTIONS`` or ``HALVES``) of raw bits, any shape.

    64H takes and gives the upper words of f64, the forms of 16 bits the lower halves.  SIN and COS take turns, as the
    instruction does.  Raises ``KeyError`` for another name.
    """
    if name not in FUNCTIONS + HALVES:
        raise KeyError(f"MUFU has no function {name!r}; there are {', '.join(FUNCTIONS + HALVES)}")
    run = getattr(Programs(Arrays()), name)
    result: Words = run(np.asarray(bits, np.uint32).astype(np.int64)).astype(np.uint32)
    return result
