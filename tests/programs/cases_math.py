"""Integer, floating-point, half, bfloat16 and FP8 intrinsics and library functions, one result column each.

Exact operations are compared bit for bit.  Library functions are compared within a few units of the last place,
because the multi-function unit's own approximations are modelled to its documented error, not to its bits.
"""

from __future__ import annotations

import numpy as np

from tests.kernels.case import Case, Size
from tests.programs.build import F16, F32, F64, I32, U32, U64, long_words, probe, reals, words

N = 64


def _columns(count: int, dtype: type, n: int = N) -> np.ndarray:
    return np.zeros(count * n, dtype)


def integer_intrinsics(size: Size, rng: np.random.Generator) -> Case:
    return probe("intrinsics.cu", "integer_intrinsics", 2, 32, (_columns(64, U32), words(rng, N), I32(N)))


def wide_intrinsics(size: Size, rng: np.random.Generator) -> Case:
    return probe("intrinsics.cu", "wide_intrinsics", 2, 32, (_columns(48, U64), long_words(rng, N), I32(N)))


def video_intrinsics(size: Size, rng: np.random.Generator) -> Case:
    return probe("intrinsics.cu", "video_intrinsics", 2, 32, (_columns(90, U32), words(rng, N), I32(N)))


def float_intrinsics(size: Size, rng: np.random.Generator) -> Case:
    return probe("floats.cu", "float_intrinsics", 2, 32, (_columns(90, F32), reals(rng, N), I32(N)))


def float_library(size: Size, rng: np.random.Generator) -> Case:
    args = (_columns(60, F32), reals(rng, N, edges=False), I32(N))
    return probe("floats.cu", "float_library", 2, 32, args, rtol=4e-6, atol=2e-6)


def float_approximations(size: Size, rng: np.random.Generator) -> Case:
    args = (_columns(24, F32), reals(rng, N, edges=False), I32(N))
    return probe("floats.cu", "float_approximations", 2, 32, args, rtol=4e-6, atol=1e-6)


def double_intrinsics(size: Size, rng: np.random.Generator) -> Case:
    return probe("floats.cu", "double_intrinsics", 2, 32, (_columns(72, F64), reals(rng, N, F64), I32(N)))


def double_library(size: Size, rng: np.random.Generator) -> Case:
    args = (_columns(48, F64), reals(rng, N, F64, edges=False), I32(N))
    return probe("floats.cu", "double_library", 2, 32, args, rtol=1e-13, atol=1e-14)


def half2_arithmetic(size: Size, rng: np.random.Generator) -> Case:
    return probe("halves.cu", "half2_arithmetic", 2, 32, (_columns(48, U32), reals(rng, 2 * N, F16), I32(N)))


def half_math(size: Size, rng: np.random.Generator) -> Case:
    src = np.clip(reals(rng, 2 * N, F16, 1, edges=False) / 8, -6, 6).astype(F16)
    return probe("halves.cu", "half_math", 2, 32, (_columns(20, F16), src, I32(N)), rtol=2e-3, atol=1e-3)


def half_conversions(size: Size, rng: np.random.Generator) -> Case:
    src = reals(rng, N, F32, 1)
    src[np.isnan(src)] = 7.25
    return probe("halves.cu", "half_conversions", 2, 32, (_columns(40, F32), src, I32(N)))


def fp8_conversions(size: Size, rng: np.random.Generator) -> Case:
    n = 256
    src = (rng.standard_normal(n) * np.exp2(rng.integers(-12, 14, n))).astype(F32)
    src[:8] = (0.0, -0.0, np.inf, -np.inf, np.nan, 448.0, 464.0, 57344.0)
    return probe("halves.cu", "fp8_conversions", 8, 32, (_columns(16, F32, n), np.zeros(2 * n, U32), src, I32(n)))


def _bfloats(rng: np.random.Generator, count: int, edges: bool = True) -> np.ndarray:
    return (reals(rng, count, F32, edges=edges).view(U32) >> U32(16)).astype(np.uint16)


def bfloat_arithmetic(size: Size, rng: np.random.Generator) -> Case:
    return probe("bfloats.cu", "bfloat_arithmetic", 2, 32, (_columns(24, U32), _bfloats(rng, 2 * N), I32(N)))


def bfloat_math(size: Size, rng: np.random.Generator) -> Case:
    src = (np.clip(reals(rng, 2 * N, F32, edges=False) / 8, -6, 6).view(U32) >> U32(16)).astype(np.uint16)
    return probe("bfloats.cu", "bfloat_math", 2, 32, (_columns(16, np.uint16), src, I32(N)))


CASES = (
    *(integer_intrinsics, wide_intrinsics, video_intrinsics, float_intrinsics, float_library, float_approximations),
    *(double_intrinsics, double_library, half2_arithmetic, half_math, half_conversions, fp8_conversions),
    *(bfloat_arithmetic, bfloat_math),
)
