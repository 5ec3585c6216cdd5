"""Cases of floating-point arithmetic and mathematics: float, double, half and bfloat16.

Division, square roots, conversions, minimum and maximum, fmod and everything with a stated rounding mode are exact by
IEEE 754 and compared bit for bit.  Library functions and intrinsics have tolerances a little above the maximum errors
that the CUDA C++ Programming Guide (mathematical functions appendix) states for them.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from scipy import special

from tests.kernels.case import Array, Case, Outputs, Size, launch, pick

I32, F16, F32, F64, U32, U64, I64 = np.int32, np.float16, np.float32, np.float64, np.uint32, np.uint64, np.int64


def _down(nearest: Array, above: Array) -> Array:
    """The neighbour below where the exact value is not `above` or equal to the nearest float."""
    return np.where(above, nearest, np.nextafter(nearest, nearest.dtype.type(-np.inf)))


def _up(nearest: Array, below: Array) -> Array:
    return np.where(below, nearest, np.nextafter(nearest, nearest.dtype.type(np.inf)))


def _zero(nearest: Array, down: Array, up: Array) -> Array:
    """Rounding toward zero, from the other two directed roundings."""
    return np.where(nearest > 0, down, up)


def _sum_rounded(p: Array, c: Array) -> tuple[Array, Array, Array, Array]:
    """float32 p + c of float64 values: to nearest, toward zero, down and up.

    The sum is split exactly (Knuth's two-sum) into a float64 and its error, so that ties and directions are exact.
    """
    total = p + c
    virtual = total - p
    error = (p - (total - virtual)) + (c - virtual)
    guess = total.astype(F32)
    excess = total - guess
    above = (excess > 0) | ((excess == 0) & (error >= 0))
    below = (excess < 0) | ((excess == 0) & (error <= 0))
    down, up = _down(guess, above), _up(guess, below)
    to_down, to_up = total - down, up - total
    tie = (to_down == to_up) & (down != up)
    nearest = np.where(to_down < to_up, down, up)
    nearest = np.where(tie & (error < 0), down, np.where(tie & (error > 0), up, nearest))
    nearest = np.where(tie & (error == 0), guess, nearest)
    return nearest, _zero(total, down, up), down, up


def _floats(rng: np.random.Generator, n: int, spread: float) -> Array:
    """Signed floats whose binary exponents spread over about +-``spread``."""
    return (rng.standard_normal(n) * np.exp2(rng.uniform(-spread, spread, n))).astype(F32)


def float_divide_root(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 160, 50_000)
    a, b = _floats(rng, n, 12), _floats(rng, n, 6)
    a[::17] = F32(1e-39) * np.arange(1, a[::17].size + 1, dtype=F32)
    b[5::29] = F32(3e38)
    want = np.stack(
        [
            a / b,
            np.sqrt(np.abs(a)),
            F32(1) / b,
            (1 / np.sqrt(np.abs(b.astype(F64)))).astype(F32),
            np.fmod(a, b),
            np.where(a > b, a - b, F32(0)) + np.abs(a),
        ],
        axis=1,
    )
    args = (np.zeros(6 * n, F32), a, b, I32(n))
    return launch("math_float.cu", "float_divide_root", -(-n // 64), 64, args, {0: want.ravel()})


def float_rounding(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 96, 50_000)
    a, b, c = _floats(rng, n, 8), _floats(rng, n, 8), _floats(rng, n, 16)
    a[::5] = np.rint(a[::5])
    c[::5] = np.rint(c[::5]) * F32(2**20)
    x, y, z = a.astype(F64), b.astype(F64), c.astype(F64)
    zero = np.zeros(n)
    quotient = (x / y).astype(F32)
    remainder_sign = np.sign(x - quotient.astype(F64) * y) * np.sign(y)
    root = np.sqrt(np.abs(a))
    root_excess = np.abs(x) - root.astype(F64) ** 2
    columns = [
        *_sum_rounded(x * y, z),
        *_sum_rounded(x, z),
        *_sum_rounded(x * y, zero),
        _down(quotient, remainder_sign >= 0),
        _up(quotient, remainder_sign <= 0),
        _down(root, root_excess >= 0),
        _up(root, root_excess <= 0),
    ]
    args = (np.zeros(16 * n, F32), a, b, c, I32(n))
    want = np.stack(columns, axis=1).astype(F32)
    return launch("math_float.cu", "float_rounding", -(-n // 64), 64, args, {0: want.ravel()})


def float_convert(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 150, 100_000)
    src = rng.uniform(-1e6, 1e6, n).astype(F32)
    src[::3] = np.rint(src[::3]) + F32(0.5)
    src[1::3] /= F32(1e5)
    whole = rng.integers(-(2**31), 2**31, n, dtype=I64).astype(I32)
    rounded = [np.rint(src), np.trunc(src), np.floor(src), np.ceil(src)]
    longs = [src.astype(F64) * 2.0**32, np.abs(src).astype(F64) * 2.0**20]
    near = whole.astype(F32)
    too_far = np.abs(near.astype(F64)) > np.abs(whole.astype(F64))
    floats = [
        near,
        np.where(too_far, np.nextafter(near, F32(0)), near),
        whole.view(U32).astype(F32),
        (whole.astype(I64) ** 2).astype(F32),
        np.floor(src),
        np.ceil(src),
        np.trunc(src) + np.rint(src),
        whole.astype(np.int8).astype(F32) + whole.astype(np.uint16).astype(F32),
    ]
    args = (np.zeros(4 * n, I32), np.zeros(n, U32), np.zeros(2 * n, I64), np.zeros(8 * n, F32), src, whole, I32(n))
    want = {
        0: np.stack(rounded, axis=1).astype(I32).ravel(),
        1: np.trunc(np.abs(src)).astype(U32),
        2: np.trunc(np.stack(longs, axis=1)).astype(I64).ravel(),
        3: np.stack(floats, axis=1).ravel(),
    }
    return launch("math_float.cu", "float_convert", -(-n // 64), 64, args, want)


def float_minmax_special(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 196, 100_000)
    values = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 0.25, 3e38, 1.0, -1.0, 0.75], F32)
    a, b = values[np.arange(n) % 14], values[np.arange(n) // 14 % 14]
    less = a < b
    saturated = np.where(np.isnan(a), F32(0), np.clip(a, F32(0), F32(1)))
    want = np.stack([np.fmin(a, b), np.fmax(a, b), saturated, np.where(less, a, b)], axis=1)
    flags = less * 1 + ~less * 2 + (a == b) * 4 + (a != b) * 8 + np.isnan(a) * 16 + np.isinf(b) * 32 + (a >= b) * 64
    flags = flags + np.signbit(a) * 128
    args = (np.zeros(4 * n, F32), np.zeros(n, I32), a, b, I32(n))
    return launch(
        "math_float.cu", "float_minmax_special", -(-n // 64), 64, args, {0: want.ravel(), 1: flags.astype(I32)}
    )


def libm_trigonometry(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 64, 40_000)
    src = rng.uniform(-20, 20, n).astype(F32)
    src[::8] = rng.uniform(-1e8, 1e8, src[::8].size).astype(F32)
    x = src.astype(F64)
    ratio_one = (src / (F32(1) + np.abs(src))).astype(F64)
    ratio_two = (src / (F32(2) + np.abs(src))).astype(F64)
    columns = [np.sin(x), np.cos(x), np.tan(x), np.sin(x) * np.cos(x)]
    columns += [np.arctan(x), np.arctan2(x, 1.5), np.arcsin(ratio_one), np.arccos(ratio_two)]
    want = np.stack(columns, axis=1).astype(F32).ravel()
    args = (np.zeros(8 * n, F32), src, I32(n))
    return launch("math_float.cu", "libm_trigonometry", -(-n // 64), 64, args, {0: want}, rtol=1e-6, atol=1e-7)


def libm_exponential(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 64, 40_000)
    src = rng.uniform(-15, 15, n).astype(F32)
    x, y = src.astype(F64), (np.abs(src) + F32(1e-3)).astype(F64)
    tenth, half = (src * F32(0.1)).astype(F64), (src * F32(0.5)).astype(F64)
    columns = [np.exp(x), np.exp2(x), np.expm1(tenth), np.log(y), np.log2(y), np.log10(y), np.log1p(y), y**half]
    columns += [np.tanh(x), np.sinh(half), np.cbrt(x), np.hypot(x, 2.0)]
    want = np.stack(columns, axis=1).astype(F32).ravel()
    args = (np.zeros(12 * n, F32), src, I32(n))
    return launch("math_float.cu", "libm_exponential", -(-n // 64), 64, args, {0: want}, rtol=2e-6, atol=1e-7)


def libm_special(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 64, 40_000)
    src = rng.uniform(-5, 5, n).astype(F32)
    src[::16] = rng.uniform(-0.1, 0.1, src[::16].size).astype(F32)
    x = src.astype(F64)
    columns = [special.erf(x), special.erfc(x), special.gammaln((np.abs(src) + F32(2.5)).astype(F64))]
    columns += [special.gamma((np.abs(src) + F32(0.5)).astype(F64)), special.ndtr(x), np.ldexp(x, np.arange(n) % 7 - 3)]
    want = np.stack(columns, axis=1).astype(F32).ravel()
    args = (np.zeros(6 * n, F32), src, I32(n))
    return launch("math_float.cu", "libm_special", -(-n // 64), 64, args, {0: want}, rtol=2e-6)


def fast_intrinsics(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 128, 200_000)
    src = rng.uniform(-3, 3, n).astype(F32)
    x, y = src.astype(F64), (np.abs(src) + F32(0.25)).astype(F64)
    columns = [np.sin(x), np.cos(x), np.sin(x) + np.cos(x), np.exp(x), np.log(y), np.log2(y), y**1.5, x / y]
    columns += [1 / np.sqrt(y), 1 / y + np.tan(x * 0.25)]
    want = np.stack(columns, axis=1).astype(F32).ravel()
    args = (np.zeros(10 * n, F32), src, I32(n))
    return launch("math_float.cu", "fast_intrinsics", -(-n // 64), 64, args, {0: want}, rtol=5e-6, atol=3e-6)


def fast_math_option(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 128, 400_000)
    src = rng.uniform(-3, 3, n).astype(F32)
    x, y = src.astype(F64), (np.abs(src) + F32(0.5)).astype(F64)
    want = np.stack([np.sin(x) / y, np.sqrt(y) + np.exp(-y), y**0.75, 0 * x], axis=1).astype(F32).ravel()

    def check(outputs: Outputs) -> None:
        assert not outputs[0][3::4].any(), "a denormal product was not flushed to zero"

    args = (np.zeros(4 * n, F32), src, I32(n))
    return launch(
        "math_float.cu",
        "fast_math_option",
        -(-n // 128),
        128,
        args,
        {0: want},
        rtol=5e-6,
        atol=3e-6,
        check=check,
        options=("--use_fast_math",),
    )


def double_arithmetic(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 96, 30_000)
    a = rng.standard_normal(n) * np.exp2(rng.uniform(-10, 20, n))
    b = rng.standard_normal(n) * np.exp2(rng.uniform(-4, 6, n))
    a[::31] = 1e-310
    columns = [a + b, a * b, a / b, np.sqrt(np.abs(a)), np.fmin(a, b) - np.fmax(a, b), np.fmod(a, b)]
    columns += [np.floor(a) + np.ceil(b) + np.rint(a), a - np.trunc(b)]
    args = (np.zeros(8 * n), a, b, I32(n))
    return launch("math_double.cu", "double_arithmetic", -(-n // 64), 64, args, {0: np.stack(columns, 1).ravel()})


def double_convert(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 128, 100_000)
    src = rng.uniform(-1e6, 1e6, n)
    src[::4] = np.rint(src[::4]) + 0.5
    bits = rng.integers(0, 2**64, n, dtype=U64)
    bits[::3] >>= U64(20)
    near = src.astype(F32)
    too_far = np.abs(near.astype(F64)) > np.abs(src)
    single = np.stack([near, np.where(too_far, np.nextafter(near, F32(0)), near)], axis=1)
    whole = np.stack([np.trunc(src), np.rint(src)], axis=1).astype(I32)
    wide = np.stack([np.trunc(src * 1e9), np.floor(src)], axis=1).astype(I64)
    low = bits.astype(U32).view(I32)
    doubles = np.stack([bits.astype(F64), bits.view(I64).astype(F64), low.astype(F64), near.astype(F64)], axis=1)
    args = (np.zeros(2 * n, F32), np.zeros(2 * n, I32), np.zeros(2 * n, I64), np.zeros(4 * n), src, bits, I32(n))
    want = {0: single.ravel(), 1: whole.ravel(), 2: wide.ravel(), 3: doubles.ravel()}
    return launch("math_double.cu", "double_convert", -(-n // 64), 64, args, want)


def double_libm(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 64, 20_000)
    x = rng.uniform(-30, 30, n)
    y = np.abs(x) + 0.01
    columns = [np.sin(x), np.cos(x), np.exp(x), np.log(y), y ** (x * 0.3), np.arctan2(x, y), np.tanh(x), np.cbrt(x)]
    args = (np.zeros(8 * n), x, I32(n))
    want = {0: np.stack(columns, axis=1).ravel()}
    return launch("math_double.cu", "double_libm", -(-n // 64), 64, args, want, rtol=5e-15, atol=1e-16)


def double_special(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 64, 20_000)
    x = rng.uniform(-5, 5, n)
    size_of = np.abs(x)
    columns = [special.erf(x), special.erfc(x), special.gammaln(size_of + 2.5), special.gamma(size_of + 0.5)]
    columns += [1 / np.sqrt(size_of + 0.1), np.sin(x * 1e9)]
    args = (np.zeros(6 * n), x, I32(n))
    want = {0: np.stack(columns, axis=1).ravel()}
    return launch("math_double.cu", "double_special", -(-n // 64), 64, args, want, rtol=3e-14)


def double_compensated(size: Size, rng: np.random.Generator) -> Case:
    grid, terms = pick(size, 2, 400), pick(size, 5, 15)
    x = rng.standard_normal(grid * 64)
    total, lost, poly = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    for k in range(1, terms + 1):
        term = x / k - lost
        after = total + term
        lost = (after - total) - term
        total = after
        poly = poly * 0.5 + x
    want = np.stack([total, poly], axis=1).ravel()
    args = (np.zeros(2 * x.size), x, I32(terms))
    return launch("math_double.cu", "double_compensated", grid, 64, args, {0: want})


def half_arithmetic(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 200, 200_000)
    a, b = (rng.standard_normal((2, n)) * 4).astype(F16)
    x, y = a.astype(F64), b.astype(F64)
    scaled = (x * 1.0009765625 + y).astype(F32)
    columns = [x + y, x - y, x * y, x * y + x, -np.abs(x), np.where(x > y, x, y), np.clip(x + y, 0, 1), scaled]
    want = np.stack(columns, axis=1).astype(F16).ravel()
    args = (np.zeros(8 * n, F16), a.copy(), b.copy(), I32(n))
    return launch("half.cu", "half_arithmetic", -(-n // 128), 128, args, {0: want})


def half2_axpy(size: Size, rng: np.random.Generator) -> Case:
    n, grid = pick(size, 300, 1_000_000), pick(size, 2, 528)
    x, y = (rng.standard_normal((2, n, 2)) * 3).astype(F16)
    factor = np.array([1.25, -0.75], F16)
    value = (factor.astype(F64) * x + y.astype(F64)).astype(F16)
    halved = (value.astype(F64) * 0.5).astype(F16)
    value = np.where((value > 3).all(axis=1, keepdims=True), halved, value)
    want = (value.astype(F64) + x[:, ::-1]).astype(F16)
    pair = np.void(factor.tobytes())
    args = (y.ravel().copy(), x.ravel().copy(), pair, I32(n))
    return launch("half.cu", "half2_axpy", grid, 128, args, {0: want.ravel()})


def half_convert(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 200, 200_000)
    src = (rng.standard_normal(n) * np.exp2(rng.uniform(-18, 10, n))).astype(F32)
    shorts = rng.integers(-32768, 32768, n).astype(np.int16)
    near = src.astype(F16)
    wide = near.astype(F64)
    toward_zero = np.where(np.abs(wide) > np.abs(src), np.nextafter(near, F16(0)), near)
    upward = np.where(wide < src, np.nextafter(near, F16(np.inf)), near)
    want = np.stack([near, toward_zero, shorts.astype(F32).astype(F16), np.floor(near)], axis=1)
    args = (np.zeros(4 * n, F16), np.zeros(n, I32), np.zeros(n, F32), src, shorts, I32(n))
    wanted = {0: want.ravel(), 1: np.trunc(wide).astype(I32), 2: upward.astype(F32)}
    return launch("half.cu", "half_convert", -(-n // 128), 128, args, wanted)


def half_functions(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 128, 200_000)
    src = rng.uniform(0.1, 8, n).astype(F16)
    x = src.astype(F64)
    want = np.stack([np.sqrt(x), np.exp(-x), np.log2(x), 1.5 / x], axis=1).astype(F16).ravel()
    args = (np.zeros(4 * n, F16), src, I32(n))
    return launch("half.cu", "half_functions", -(-n // 128), 128, args, {0: want}, rtol=2e-3, atol=1e-3)


def to_bfloat(values: Array) -> Array:
    """Float64 values as bfloat16, rounded once, to nearest even (normal range only)."""
    mantissa, exponent = np.frexp(values)
    rounded = np.ldexp(np.rint(np.ldexp(mantissa, 8)), exponent - 8).astype(F32)
    return (rounded.view(U32) >> U32(16)).astype(np.uint16).view(ml_dtypes.bfloat16)


def from_bfloat(values: Array) -> Array:
    """bfloat16 values as float64."""
    return (values.view(np.uint16).astype(U32) << U32(16)).view(F32).astype(F64)


def bfloat_axpy(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 300, 1_000_000)
    x, y = to_bfloat(rng.standard_normal(n)), to_bfloat(rng.standard_normal(n))
    factor = F32(1.7)
    total = factor * from_bfloat(x).astype(F32) + from_bfloat(y).astype(F32)
    args = (y, x, factor, I32(n))
    return launch("half.cu", "bfloat_axpy", -(-n // 128), 128, args, {0: to_bfloat(total.astype(F64))})


def bfloat_packed(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 200, 500_000)
    a, b = to_bfloat(rng.standard_normal((n, 2))), to_bfloat(rng.standard_normal((n, 2)))
    x, y = from_bfloat(a), from_bfloat(b)
    want = np.stack([to_bfloat(x * y + x), to_bfloat(x * y)], axis=1).ravel()
    args = (np.zeros(4 * n, ml_dtypes.bfloat16), a.ravel(), b.ravel(), I32(n))
    return launch("bfloat_packed.cu", "bfloat_packed", -(-n // 128), 128, args, {0: want}, min_arch=80)


CASES = (
    float_divide_root,
    float_rounding,
    float_convert,
    float_minmax_special,
    libm_trigonometry,
    libm_exponential,
    libm_special,
    fast_intrinsics,
    fast_math_option,
    double_arithmetic,
    double_convert,
    double_libm,
    double_special,
    double_compensated,
    half_arithmetic,
    half2_axpy,
    half_convert,
    half_functions,
    bfloat_axpy,
    bfloat_packed,
)
