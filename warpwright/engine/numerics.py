"""The NumPy meaning of the floating-point operations: exact IEEE results in every rounding direction.

Values are arrays of raw bits (uint16, uint32, uint64); ``type`` names the format (f16, bf16, f32, f64).
Formats up to f32 are computed in f64 with the exact error of each step (Knuth's TwoSum; products of two f32
are exact in f64).  The result is rounded to odd in f64 and then once to the format, which is exact because f64
has more than two extra bits (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
f64 fma uses the algorithm of the same paper if no intermediate can overflow or underflow, and otherwise Python
integers.

Special functions (``mufu``) are the silicon's, bit for bit (``silicon_mufu``).  The arguments of sine and cosine are in
turns, as on the machine.

Tensor-core sums in f16 and f32 are the silicon's (``silicon_mma``); those in f64 are added in the order of k,
beginning with the accumulator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine import matrix_fragments, silicon_mma, silicon_mufu

Bits = npt.NDArray[Any]
F64 = npt.NDArray[np.float64]

U16, U32, U64 = np.uint16, np.uint32, np.uint64
SIGN: dict[str, Any] = {"f16": U16(1 << 15), "bf16": U16(1 << 15), "f32": U32(1 << 31), "f64": U64(1 << 63)}
INFINITY: dict[str, Any] = {"f16": U16(0x7C00), "bf16": U16(0x7F80), "f32": U32(0x7F800000), "f64": U64(0x7FF << 52)}
SMALLEST_NORMAL: dict[str, Any] = {"f16": U16(0x400), "bf16": U16(0x80), "f32": U32(0x800000), "f64": U64(1 << 52)}
CANONICAL_NAN: dict[str, Any] = {
    "f16": U16(0x7FFF),
    "bf16": U16(0x7FFF),
    "f32": U32(0x7FFFFFFF),
    "f64": U64(0xFFF8000000000000),
}
"""NaN results of arithmetic: PTX ISA, "canonical NaN" of f16, bf16 and f32; for f64 the silicon's default NaN."""


# --- formats --------------------------------------------------------------------------------------
def is_nan(type: str, x: Bits) -> npt.NDArray[np.bool_]:
    """Whether the bits are a NaN."""
    return (x & ~SIGN[type]) > INFINITY[type]


def to_f64(type: str, x: Bits) -> F64:
    """The exact value of every format."""
    if type == "f64":
        return x.view(np.float64)
    if type == "f32":
        return x.view(np.float32).astype(np.float64)
    if type == "f16":
        return x.view(np.float16).astype(np.float64)
    return (x.astype(U32) << U32(16)).view(np.float32).astype(np.float64)


def two_sum(a: F64, b: F64) -> tuple[F64, F64]:
    """(rounded sum, exact error); the error is 0 where the sum is not finite."""
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    return total, np.where(np.isfinite(total), error, 0.0)


def step(bits: Bits, upwards: npt.NDArray[np.bool_], where: npt.NDArray[np.bool_], type: str) -> Bits:
    """The neighbouring number above or below, in the lanes ``where``."""
    negative = (bits & SIGN[type]) != 0
    zero = (bits & ~SIGN[type]) == 0
    one = bits.dtype.type(1)
    moved = np.where(upwards != negative, bits + one, bits - one)
    across = np.where(upwards, one, SIGN[type] | one)  # from either zero
    moved = np.where(zero, across, moved)
    return np.where(where, moved, bits)


def odd(total: F64, error: F64) -> F64:
    """Round to odd: the exact value ``total + error``, with inexactness recorded in the last bit."""
    bits = total.view(U64)
    change = (error != 0) & ((bits & U64(1)) == 0) & np.isfinite(total)
    return step(bits, error > 0, change, "f64").view(np.float64)


def direct(bits: Bits, error: F64, negative: Bits, rounding: str, type: str) -> Bits:
    """Correct a result rounded to nearest to the requested direction; ``error`` has the sign of (exact - rounded)."""
    if rounding == "rn":
        return bits
    if rounding == "rz":
        return step(bits, negative, (error != 0) & ((error > 0) == negative), type)
    if rounding == "rm":
        return step(bits, error > 0, error < 0, type)
    return step(bits, error > 0, error > 0, type)


def round_to(type: str, x: F64, rounding: str) -> Bits:
    """Round f64 values (exact, or rounded to odd) to a format."""
    if type == "f64":
        return x.view(U64)
    if type == "bf16":
        nearest = bf16_nearest(x)
    else:
        nearest = x.astype(np.float32).view(U32) if type == "f32" else x.astype(np.float16).view(U16)
    if rounding == "rn":
        return nearest
    back = to_f64(type, nearest)
    error = np.where(np.isfinite(x), np.where(back == x, 0.0, np.where(x > back, 1.0, -1.0)), 0.0)
    return direct(nearest, error, np.signbit(x), rounding, type)


def bf16_nearest(x: F64) -> Bits:
    """f64 to bf16 through f32 rounded to odd."""
    single = x.astype(np.float32).view(U32)
    back = single.view(np.float32).astype(np.float64)
    inexact = (back != x) & np.isfinite(x)
    away = inexact & (np.abs(back) > np.abs(x))
    single = np.where(away, single - U32(1), single)
    single = np.where(inexact, single | U32(1), single)
    rounded = (single + U32(0x7FFF) + (single >> U32(16) & U32(1))) >> U32(16)
    nan = np.isnan(x)
    return np.where(nan, single >> U32(16) | U32(0x40), rounded).astype(U16)


# --- arithmetic -----------------------------------------------------------------------------------
def zero_sum(bits: Bits, a: F64, b: F64, error: F64, type: str, rounding: str) -> Bits:
    """Rounding down gives -0 for an exact zero sum, unless both addends are +0."""
    if rounding != "rm":
        return bits
    exact_zero = ((bits & ~SIGN[type]) == 0) & (error == 0) & (a == -b)
    both_positive = ~np.signbit(a) & ~np.signbit(b)
    return np.where(exact_zero & ~both_positive, SIGN[type], bits)


def fadd(type: str, a: Bits, b: Bits, rounding: str) -> Bits:
    """Sum."""
    if rounding == "rn" and type == "f32":
        return (a.view(np.float32) + b.view(np.float32)).view(U32)
    if rounding == "rn" and type == "f64":
        return (a.view(np.float64) + b.view(np.float64)).view(U64)
    x, y = to_f64(type, a), to_f64(type, b)
    total, error = two_sum(x, y)
    if type == "f64":
        overflow = np.isinf(total) & np.isfinite(x) & np.isfinite(y)
        error = np.where(overflow, -np.sign(total), error)
        bits = direct(total.view(U64), error, np.signbit(total), rounding, type)
        return zero_sum(bits, x, y, error, type, rounding)
    return zero_sum(round_to(type, odd(total, error), rounding), x, y, error, type, rounding)


def fmul(type: str, a: Bits, b: Bits, rounding: str) -> Bits:
    """Product."""
    if type == "f64":
        if rounding == "rn":
            return (a.view(np.float64) * b.view(np.float64)).view(U64)
        return fma64(a, b, (a ^ b) & SIGN["f64"], rounding)
    if rounding == "rn" and type == "f32":
        return (a.view(np.float32) * b.view(np.float32)).view(U32)
    return round_to(type, to_f64(type, a) * to_f64(type, b), rounding)


def fma(type: str, a: Bits, b: Bits, c: Bits, rounding: str) -> Bits:
    """a * b + c with one rounding."""
    if type == "f64":
        return fma64(a, b, c, rounding)
    product, addend = to_f64(type, a) * to_f64(type, b), to_f64(type, c)
    total, error = two_sum(product, addend)
    return zero_sum(round_to(type, odd(total, error), rounding), product, addend, error, type, rounding)


def fmad(a: Bits, b: Bits, c: Bits) -> Bits:
    """a * b + c of f32 as G80 computes it: the product is cut to 24 bits unless c is zero, the sum is rounded.

    f64 holds the product with any exponent, and the sum rounds once: 53 bits are more than 2 * 24 + 2.
    """
    product, addend = to_f64("f32", a) * to_f64("f32", b), to_f64("f32", c)
    cut = (product.view(U64) & U64(~((1 << 29) - 1) & 0xFFFFFFFFFFFFFFFF)).view(np.float64)
    # The bits of a NaN are above those that are truncated.
    return round_to("f32", np.where(addend == 0, product, cut) + addend, "rn")


SPLIT = 134217729.0  # 2**27 + 1


def two_product(a: F64, b: F64) -> tuple[F64, F64]:
    """(rounded product, exact error) if nothing overflows or underflows (Dekker, Veltkamp)."""
    p = a * b
    t = SPLIT * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = SPLIT * b
    b_high = t - (t - b)
    b_low = b - b_high
    return p, a_low * b_low - (((p - a_high * b_high) - a_low * b_high) - a_high * b_low)


def fma64(a: Bits, b: Bits, c: Bits, rounding: str) -> Bits:
    """f64 fma: vector arithmetic in the middle of the range, integers outside."""
    x, y, z = a.view(np.float64), b.view(np.float64), c.view(np.float64)
    exponents = [(v >> U64(52) & U64(0x7FF)).astype(np.int64) - 1023 for v in (a, b, c)]
    zero_product = (x == 0) | (y == 0)
    product_exponent = exponents[0] + exponents[1]
    safe = (np.abs(exponents[0]) < 900) & (np.abs(exponents[1]) < 900)
    safe &= (product_exponent > -860) & (product_exponent < 960)
    safe &= (np.abs(exponents[2]) < 960) & ((exponents[2] > -860) | (z == 0)) & ~zero_product
    high, low = two_product(np.where(safe, x, 1.0), np.where(safe, y, 1.0))
    addend = np.where(safe, z, 1.0)
    small, small_error = two_sum(addend, low)
    big, big_error = two_sum(high, small)
    rest = odd(*two_sum(small_error, big_error))
    total, error = two_sum(big, rest)
    bits = direct(total.view(U64), error, np.signbit(total), rounding, "f64")
    exact_zero = (total == 0) & (error == 0)
    if rounding == "rm":
        bits = np.where(exact_zero, SIGN["f64"], bits)
    if safe.all():
        return bits
    bits = bits.copy()
    plain = ~(np.isfinite(x) & np.isfinite(y))
    if rounding == "rn":
        # Only the sum is rounded.
        plain |= zero_product
    if plain.any():
        bits[plain] = (x[plain] * y[plain] + z[plain]).view(U64)
    for lane in np.flatnonzero(~safe & ~plain):
        bits[lane] = scalar_fma64(float(x[lane]), float(y[lane]), float(z[lane]), rounding)
    return bits


def scalar_fma64(x: float, y: float, z: float, rounding: str) -> np.uint64:
    """One f64 fma in integers."""

    def bits(value: float) -> np.uint64:
        return np.float64(value).view(U64)

    if not (math.isfinite(x) and math.isfinite(y)):
        return bits(float(np.float64(x) * np.float64(y) + np.float64(z)))
    if not math.isfinite(z):
        return bits(z)
    product_negative = math.copysign(1.0, x) * math.copysign(1.0, y) < 0
    (mx, ex), (my, ey), (mz, ez) = (integer_parts(v) for v in (x, y, z))
    exponent = min(ex + ey, ez)
    total = (mx * my << (ex + ey - exponent)) + (mz << (ez - exponent))
    if total == 0:
        z_negative = math.copysign(1.0, z) < 0
        if mx * my == 0 and mz == 0 and product_negative == z_negative:
            return bits(-0.0 if z_negative else 0.0)
        return bits(-0.0 if rounding == "rm" else 0.0)
    return U64(round_integer(total, exponent, rounding))


def integer_parts(value: float) -> tuple[int, int]:
    """(m, e) with value = m * 2**e exactly."""
    mantissa, exponent = math.frexp(value)
    return int(math.ldexp(mantissa, 53)), exponent - 53


def round_integer(value: int, exponent: int, rounding: str) -> int:
    """f64 bits of value * 2**exponent, value not zero."""
    sign, magnitude = (1, -value) if value < 0 else (0, value)
    last = max(exponent + magnitude.bit_length() - 53, -1074)
    shift = last - exponent
    if shift <= 0:
        kept, rest, half = magnitude << -shift, 0, 1
    else:
        kept, rest, half = magnitude >> shift, magnitude & ((1 << shift) - 1), 1 << shift - 1
    if rest:
        up = {
            "rn": rest > half or (rest == half and kept & 1 == 1),
            "rz": False,
            "rm": sign == 1,
            "rp": sign == 0,
        }[rounding]
        kept += up
    if kept >> 53:
        kept, last = kept >> 1, last + 1
    if kept >> 52 == 0:
        return sign << 63 | kept
    biased = last + 1075
    if biased >= 0x7FF:
        finite = rounding == "rz" or (rounding == "rm" and sign == 0) or (rounding == "rp" and sign == 1)
        return sign << 63 | (0x7FEFFFFFFFFFFFFF if finite else 0x7FF << 52)
    return sign << 63 | biased << 52 | kept & (1 << 52) - 1


# --- sign, flush, comparison ----------------------------------------------------------------------
def ftz(type: str, x: Bits) -> Bits:
    """Subnormals become zeros of the same sign."""
    return np.where((x & ~SIGN[type]) < SMALLEST_NORMAL[type], x & SIGN[type], x)


TINY = {"f32": (-126, 24), "f16": (-14, 11)}
"""Exponent of the smallest normal number, and digits."""


def tiny_limit(type: str, rounding: str) -> float:
    """The smallest magnitude at which a result that rounds to the smallest normal number is not tiny.

    Half a unit in the last place below it when rounding to nearest, else a whole one.
    """
    exponent, digits = TINY[type]
    return float(2.0**exponent - 2.0 ** (exponent - digits - (rounding == "rn")))


def ftz_of(type: str, rounding: str, result: Bits, x: Bits, y: Bits, z: Bits | None = None) -> Bits:
    """Flush a product or multiply-add; tininess is found after rounding to the full number of digits."""
    flushed = ftz(type, result)
    doubtful = (result & ~SIGN[type]) == SMALLEST_NORMAL[type]
    if not doubtful.any():
        return flushed
    product = to_f64(type, x) * to_f64(type, y)
    total, error = two_sum(product, to_f64(type, z) if z is not None else np.zeros_like(product))
    limit = tiny_limit(type, rounding)
    inward = np.where(total < 0, error, -error)
    below = (np.abs(total) < limit) | ((np.abs(total) == limit) & ((inward > 0) | ((inward == 0) & (rounding != "rn"))))
    return np.where(doubtful & below, result & SIGN[type], flushed)


def nan_of(result: Bits, *sources: Bits) -> Bits:
    """An f64 result; a NaN is the first NaN among the sources, made quiet."""
    wrong = is_nan("f64", result)
    if not wrong.any():
        return result
    found = np.full_like(result, CANONICAL_NAN["f64"])
    for x in reversed(sources):
        found = np.where(is_nan("f64", x), x | U64(1 << 51), found)
    return np.where(wrong, found, result)


def canonical_nan(type: str, x: Bits) -> Bits:
    """Every NaN becomes the canonical one."""
    return np.where(is_nan(type, x), CANONICAL_NAN[type], x)


def native(type: str, x: Bits) -> Any:
    """A float array that compares as the format does."""
    if type == "f64":
        return x.view(np.float64)
    return x.view(np.float32) if type == "f32" else to_f64(type, x)


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "oeq": lambda a, b: a == b,
    "one": lambda a, b: (a < b) | (a > b),
    "olt": lambda a, b: a < b,
    "ole": lambda a, b: a <= b,
    "ogt": lambda a, b: a > b,
    "oge": lambda a, b: a >= b,
    "ueq": lambda a, b: ~((a < b) | (a > b)),
    "une": lambda a, b: a != b,
    "ult": lambda a, b: ~(a >= b),
    "ule": lambda a, b: ~(a > b),
    "ugt": lambda a, b: ~(a <= b),
    "uge": lambda a, b: ~(a < b),
    "ord": lambda a, b: (a == a) & (b == b),
    "uno": lambda a, b: (a != a) | (b != b),
}


def fcmp(relation: str, type: str, a: Bits, b: Bits) -> npt.NDArray[np.bool_]:
    """Ordered (o…) and unordered (u…) comparisons."""
    result: npt.NDArray[np.bool_] = COMPARISONS[relation](native(type, a), native(type, b))
    return result


def fmin(type: str, a: Bits, b: Bits, how: str) -> Bits:
    """Minimum; -0 < +0; 'number' prefers the other operand to NaN, 'nan' prefers NaN."""
    return extreme(type, a, b, how, native(type, a) < native(type, b), a | b)


def fmax(type: str, a: Bits, b: Bits, how: str) -> Bits:
    """Maximum; as :func:`fmin`."""
    return extreme(type, a, b, how, native(type, a) > native(type, b), a & b)


def extreme(type: str, a: Bits, b: Bits, how: str, first: Bits, zeros: Bits) -> Bits:
    result = np.where(first, a, b)
    result = np.where(((a | b) & ~SIGN[type]) == 0, zeros, result)
    a_nan, b_nan = is_nan(type, a), is_nan(type, b)
    if how == "nan":
        return np.where(a_nan | b_nan, CANONICAL_NAN[type], result)
    return np.where(a_nan, b, np.where(b_nan, a, result))


# --- conversions ----------------------------------------------------------------------------------
INTEGRAL: dict[str, Callable[[Any], Any]] = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}


def fround(type: str, x: Bits, rounding: str) -> Bits:
    """To an integral value in the same format."""
    if type in ("f32", "f64"):
        return np.asarray(INTEGRAL[rounding](native(type, x))).view(x.dtype)
    return round_to(type, INTEGRAL[rounding](to_f64(type, x)), "rn")


def fcvt(from_: str, to: str, x: Bits, rounding: str) -> Bits:
    """Between formats."""
    return round_to(to, to_f64(from_, x), rounding)


def f2i(type: str, x: Bits, bits: int, signed: bool, rounding: str) -> Bits:
    """To an integer: saturates; NaN gives 0, and for 64 bits 2**63."""
    value = INTEGRAL[rounding](to_f64(type, x))
    nan = np.isnan(value)
    value = np.where(nan, 0.0, value)
    word = {8: np.uint8, 16: U16, 32: U32, 64: U64}[bits]
    if signed:
        low, high = -(2.0 ** (bits - 1)), 2.0 ** (bits - 1)
        inside = np.where((value >= low) & (value < high), value, 0.0).astype(np.int64).view(U64)
        inside = np.where(value < low, U64(-(1 << bits - 1) & 0xFFFFFFFFFFFFFFFF), inside)
        result = np.where(value >= high, U64((1 << bits - 1) - 1), inside)
    else:
        high = 2.0**bits
        inside = np.where((value >= 0) & (value < high), value, 0.0).astype(U64)
        result = np.where(value >= high, U64((1 << bits) - 1), inside)
    if bits == 64:
        return np.where(nan, U64(1 << 63), result)
    return result.astype(word)


def i2f(x: Bits, signed: bool, to: str, rounding: str) -> Bits:
    """From an integer of any width."""
    width = x.dtype.itemsize * 8
    integer = x.view(f"i{width // 8}") if signed else x
    if width < 64:
        return round_to(to, integer.astype(np.float64), rounding)
    high = (integer >> integer.dtype.type(32)).astype(np.float64) * 2.0**32
    low = (x & U64(0xFFFFFFFF)).astype(np.float64)
    total, error = two_sum(high, low)
    if to == "f64":
        return direct(total.view(U64), error, np.signbit(total), rounding, to)
    return round_to(to, odd(total, error), rounding)


# --- special functions ----------------------------------------------------------------------------
def mufu(name: str, type: str, x: Bits) -> Bits:
    """A special function as the silicon computes it; f64 from the argument's upper word to the result's."""
    chosen = silicon_mufu.program(name, type)
    upper = type == "f64"
    result: Bits = silicon_mufu.mufu(chosen, (x >> U64(32)).astype(U32) if upper else x).astype(x.dtype)
    return result << U64(32) if upper else result


# --- tensor cores ---------------------------------------------------------------------------------
_LANE = np.arange(32)
_GROUP, _THREAD = _LANE // 4, _LANE % 4


def _elements(element: str, registers: list[Bits]) -> list[F64]:
    """The values in each register, lowest first: 2 of 16 bits, 1 of 32 bits, 4 of 8 bits; f64 in pairs."""
    result: list[F64] = []
    if element == "f64":
        pairs = zip(registers[::2], registers[1::2], strict=True)
        return [(low.astype(U64) | high.astype(U64) << U64(32)).view(np.float64) for low, high in pairs]
    for word in registers:
        if element in ("f16", "bf16"):
            result.append(to_f64(element, (word & U32(0xFFFF)).astype(U16)))
            result.append(to_f64(element, (word >> U32(16)).astype(U16)))
        elif element == "tf32":
            result.append(to_f64("f32", word & U32(0xFFFFE000)))
        elif element == "f32":
            result.append(to_f64("f32", word))
        elif element == "s32":
            result.append(word.view(np.int32).astype(np.float64))
        elif element == "b1":
            result += [(word >> U32(n) & U32(1)).astype(np.float64) for n in range(32)]
        elif element in ("e4m3", "e5m2"):
            result += [to_f64("f16", small_half(element, word >> U32(8 * n))) for n in range(4)]
        else:
            kind = np.int8 if element[0] == "s" else np.uint8
            for n in range(4):
                result.append((word >> U32(8 * n)).astype(np.uint8).view(kind).astype(np.float64))
    return result


def small_half(element: str, word: Bits) -> Bits:
    """The 8-bit float in a word's lowest byte as f16, whose format holds all of them."""
    if element == "e5m2":
        return ((word & U32(0xFF)) << U32(8)).astype(U16)
    size = word & U32(0x7F)
    # The exponent's bias grows from 7 to 15: subnormal numbers scale with the others.
    scaled = to_f64("f16", (size << U32(7)).astype(U16)) * 256.0
    half: Bits = np.where(size == 0x7F, U16(0x7E00), round_to("f16", scaled, "rn"))
    return half | ((word & U32(0x80)) << U32(8)).astype(U16)


def mma(attr: tuple[str, str, str, int, int, int, int], arguments: list[Bits]) -> list[Bits]:
    """D = A x B + C for one warp, in PTX's fragment layouts; returns D's registers.

    ``attr`` is the operation's attribute: shape, element of A and B (``s8u8``: of each), element of C and D,
    register counts, architecture.  Sums in f16 and f32 are the silicon's (``silicon_mma``).  A sparse shape
    (``engine/matrix_fragments.py``) has the metadata after C's registers.
    """
    shape, element, accumulator, n_a, n_b, n_c, arch = attr
    first, second = matrix_fragments.elements(element)
    a, b = _elements(first, arguments[:n_a]), _elements(second, arguments[n_a : n_a + n_b])
    c = _elements(accumulator, arguments[n_a + n_b : n_a + n_b + n_c])
    sums = _in_order
    if accumulator == "f64":
        sums = _chained
    if accumulator in ("f16", "f32"):
        sums = partial(silicon_mma.sum_of_products, arch, element, accumulator)
    quads = shape.startswith("m8n8k4.")
    chosen = None
    if matrix_fragments.is_sparse(shape):
        chosen = matrix_fragments.chosen(shape, arguments[n_a + n_b + n_c], matrix_fragments.element_bits(shape, n_a))
    results = _quads(shape, sums, a, b, c) if quads else _fragments(shape, n_a, sums, a, b, c, chosen)
    if accumulator == "s32":
        return [(r.astype(np.int64) & 0xFFFFFFFF).astype(U32) for r in results]
    if accumulator == "f64":
        wide = [np.ascontiguousarray(r).view(U64) for r in results]
        return [(value >> U64(shift)).astype(U32) for value in wide for shift in (0, 32)]
    rounded = [canonical_nan(accumulator, round_to(accumulator, r, "rn")) for r in results]
    if accumulator == "f32":
        return rounded
    return [rounded[n].astype(U32) | rounded[n + 1].astype(U32) << U32(16) for n in range(0, len(rounded), 2)]


Sums = Callable[[F64, F64, F64], F64]
"""Products of rows [..., k] and columns [..., k], summed onto [...]."""


def _in_order(rows: F64, columns: F64, total: F64) -> F64:
    """Exact products, added in the order of k."""
    for n in range(rows.shape[-1]):
        total = total + rows[..., n] * columns[..., n]
    return total


def _chained(rows: F64, columns: F64, total: F64) -> F64:
    """f64: a multiply-add for each k in order, as an H200 has it (``bench/data/h200/forms.npz``)."""
    bits = np.ascontiguousarray(total).view(U64)
    for n in range(rows.shape[-1]):
        a, b = (np.ascontiguousarray(np.broadcast_to(x[..., n], total.shape)).view(U64) for x in (rows, columns))
        shape = bits.shape
        result = fma("f64", a.ravel(), b.ravel(), bits.ravel(), "rn")
        bits = nan_of(result, b.ravel(), bits.ravel(), a.ravel()).reshape(shape)
    return bits.view(np.float64)


def _fragments(
    shape: str,
    n_a: int,
    sums: Sums,
    a: list[F64],
    b: list[F64],
    c: list[F64],
    chosen: npt.NDArray[np.int64] | None,
) -> list[F64]:
    """m16n8 and m8n8 shapes: lane 4g + t holds rows g (and g + 8) and groups of columns from t.

    ``chosen`` [rows, products]: which row of B an element of a sparse A is multiplied with.
    """
    rows, k = matrix_fragments.rows(shape), matrix_fragments.depth(shape)
    per = max(1, len(a) // n_a)
    left, right = np.zeros((rows, k if chosen is None else chosen.shape[1])), np.zeros((k, 8))
    halves = rows // 8
    for n, value in enumerate(a):
        register, part = divmod(n, per)
        left[_GROUP + 8 * (register % halves), _THREAD * per + part + 4 * per * (register // halves)] = value
    for n, value in enumerate(b):
        register, part = divmod(n, per)
        right[_THREAD * per + part + 4 * per * register, _GROUP] = value
    places = [(_GROUP + 8 * (n // 2), _THREAD * 2 + n % 2) for n in range(2 * halves)]
    total = np.zeros((rows, 8))
    for place, value in zip(places, c, strict=True):
        total[place] = value
    columns = right.T[None, :, :] if chosen is None else np.swapaxes(right[chosen], 1, 2)
    total = sums(left[:, None, :], columns, total)
    return [total[place] for place in places]


def _quads(shape: str, sums: Sums, a: list[F64], b: list[F64], c: list[F64]) -> list[F64]:
    """One step of Volta's m8n8k4: four products of 8x4 by 4x8, each by eight lanes."""
    _, layout_a, layout_b, step_text = shape.split(".")
    step = int(step_text)
    quad, member, upper = _LANE % 16 // 4, _LANE % 4, 4 * (_LANE // 16)
    left, right = np.zeros((4, 8, 4)), np.zeros((4, 4, 8))
    for n in range(4):
        if layout_a == "row":
            left[quad, member + upper, n] = a[n]
        else:
            left[quad, n + upper, member] = a[n]
        if layout_b == "col":
            right[quad, n, member + upper] = b[n]
        else:
            right[quad, member, n + upper] = b[n]
    results = []
    for n, value in enumerate(c):
        if len(c) == 2:  # f32: results 2 * step and 2 * step + 1 of PTX's eight
            row, column = (_LANE & 1) + 2 * (step & 1) + upper, 4 * (step >> 1) + (_LANE & 2) + n
        else:
            row, column = member + upper, np.full(32, 4 * step + n)
        results.append(sums(left[quad, row], right[quad, :, column], value))
    return results
