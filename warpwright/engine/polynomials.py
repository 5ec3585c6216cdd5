"""The special functions of the MUFU unit: one algorithm and one set of coefficients for both engines.

MUFU's results are approximations whose last bits NVIDIA does not publish; here each is the function itself,
evaluated in double precision and rounded once to the result's type, which is within the error that the CUDA C++
Programming Guide allows (appendix on mathematical functions).  The NumPy interpreter calls :func:`evaluate`; the
LLVM engine emits the same operations in the same order (no fused multiply-add, no reassociation), so that both
give the same bits.  Coefficients are Taylor coefficients rounded to double, lowest power first; the remainders
are below 1e-16 on the reduced ranges.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

EXP2: tuple[float, ...] = (
    1.0,
    0.6931471805599453,
    0.24022650695910072,
    0.05550410866482158,
    0.009618129107628477,
    0.0013333558146428443,
    0.0001540353039338161,
    1.5252733804059841e-05,
    1.321548679014431e-06,
    1.01780860092397e-07,
    7.054911620801123e-09,
    4.4455382718708116e-10,
    2.5678435993488206e-11,
    1.3691488853904128e-12,
)
"""2**f for |f| <= 1/2."""
SIN_TURNS: tuple[float, ...] = (
    6.283185307179586,
    -41.34170224039976,
    81.60524927607506,
    -76.70585975306139,
    42.058693944897655,
    -15.09464257682299,
    3.819952584848282,
    -0.7181223017785006,
)
"""sin(2 pi f) / f in powers of f*f, for |f| <= 1/8."""
COS_TURNS: tuple[float, ...] = (
    1.0,
    -19.739208802178716,
    64.9393940226683,
    -85.45681720669373,
    60.24464137187666,
    -26.4262567833744,
    7.903536371318469,
    -1.714390711088672,
    0.28200596845579123,
)
"""cos(2 pi f) in powers of f*f, for |f| <= 1/8."""
LOG2: tuple[float, ...] = (
    2.8853900817779268,
    0.9617966939259756,
    0.5770780163555853,
    0.4121985831111324,
    0.3205988979753252,
    0.2623081892525388,
    0.22195308321368667,
    0.19235933878519512,
    0.16972882833987804,
    0.15186263588304877,
    0.1373995277037108,
    0.12545174268599682,
)
"""log2((1 + s) / (1 - s)) / s in powers of s*s, for |s| <= 0.1716."""
EXP2_LIMIT = 1000.0
"""Arguments of 2**x are clamped to this: beyond it every result type overflows or vanishes."""
SQRT_HALF = 0.7071067811865476
TANH_EXPONENT = -2.8853900817779268
"""-2 / ln 2: tanh x = (1 - t) / (1 + t) with t = 2**(TANH_EXPONENT * x), for x >= 0."""
TANH_SMALL = 0.001
"""Below it tanh x = x + TANH_CUBE * x**3 + TANH_FIFTH * x**5, which does not cancel."""
TANH_CUBE = -0.3333333333333333
TANH_FIFTH = 0.13333333333333333


def horner(coefficients: tuple[float, ...], x: Doubles) -> Doubles:
    """The polynomial at ``x``: ((c[n] * x + c[n-1]) * x + ...) + c[0], each step rounded."""
    total = np.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total


def exp2(x: Doubles) -> Doubles:
    """2**x; NaN stays NaN."""
    clamped = np.where(x > EXP2_LIMIT, EXP2_LIMIT, np.where(x < -EXP2_LIMIT, -EXP2_LIMIT, x))
    clamped = np.where(np.isnan(x), 0.0, clamped)
    whole = np.rint(clamped)
    scale = ((whole.astype(np.int64) + 1023) << 52).view(np.float64)
    return np.where(np.isnan(x), x, horner(EXP2, clamped - whole) * scale)


def log2(x: Doubles) -> Doubles:
    """log2 x for x = 0 or a normal double; NaN below zero."""
    bits = x.view(np.int64)
    exponent = ((bits >> 52) & 0x7FF) - 1022
    mantissa = ((bits & 0xFFFFFFFFFFFFF) | (1022 << 52)).view(np.float64)
    low = mantissa < SQRT_HALF
    mantissa = np.where(low, mantissa + mantissa, mantissa)
    exponent = np.where(low, exponent - 1, exponent)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    value = exponent.astype(np.float64) + s * horner(LOG2, s * s)
    value = np.where(x == np.inf, np.inf, value)
    value = np.where(x == 0.0, -np.inf, value)
    return np.where((x < 0.0) | np.isnan(x), np.nan, value)


def _quarter(x: Doubles) -> tuple[npt.NDArray[np.int64], Doubles]:
    """Nearest quarter turn (0..3) and what is left, |f| <= 1/8; infinities leave NaN."""
    turn = x - np.rint(x)
    quarter = np.rint(turn * 4.0)
    number = np.where(np.isnan(quarter), 0.0, quarter).astype(np.int64)
    return number & 3, turn - quarter * 0.25


def sin_turns(x: Doubles) -> Doubles:
    """sin(2 pi x)."""
    quarter, f = _quarter(x)
    return _by_quarter(quarter, f)


def cos_turns(x: Doubles) -> Doubles:
    """cos(2 pi x)."""
    quarter, f = _quarter(x)
    return _by_quarter(quarter + 1, f)


def _by_quarter(quarter: npt.NDArray[np.int64], f: Doubles) -> Doubles:
    square = f * f
    value = np.where((quarter & 1) != 0, horner(COS_TURNS, square), f * horner(SIN_TURNS, square))
    return np.where((quarter & 2) != 0, -value, value)


def tanh(x: Doubles) -> Doubles:
    """tanh x."""
    size = np.abs(x)
    t = exp2(size * TANH_EXPONENT)
    large = (1.0 - t) / (1.0 + t)
    square = size * size
    small = size * ((TANH_FIFTH * square + TANH_CUBE) * square + 1.0)
    return np.copysign(np.where(size < TANH_SMALL, small, large), x)


def rcp(x: Doubles) -> Doubles:
    """1 / x."""
    return np.asarray(1.0 / x, dtype=np.float64)


def rsq(x: Doubles) -> Doubles:
    """1 / sqrt x."""
    return np.asarray(1.0 / np.sqrt(x), dtype=np.float64)


def sqrt(x: Doubles) -> Doubles:
    """sqrt x."""
    return np.asarray(np.sqrt(x), dtype=np.float64)


FUNCTIONS = {
    "rcp": rcp,
    "rsq": rsq,
    "sqrt": sqrt,
    "ex2": exp2,
    "lg2": log2,
    "sin": sin_turns,
    "cos": cos_turns,
    "tanh": tanh,
}


def evaluate(name: str, x: Doubles) -> Doubles:
    """The function called ``name`` (as in the ``mufu`` operation) of ``x``, any shape, in double precision.

    The caller widens its argument to double (exact) and rounds the result to its own type once.
    """
    with np.errstate(all="ignore"):
        return FUNCTIONS[name](np.ascontiguousarray(x, dtype=np.float64))
