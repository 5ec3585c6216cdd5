"""Double-precision operations of bundles, in the slots in which Mesa's compiler puts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.r600_machine import Run
from warpwright.isa.r600.assemble import assemble
from warpwright.isa.r600.layouts import GENERATIONS
from warpwright.isa.sass.meaning import UnsupportedInstruction

pytestmark = pytest.mark.ci
ENGINES = ("compiled", "interpreted")
NUMBERS = np.random.default_rng(64)
HEAD = """
alu
  LSHL_INT T2.x, T0.x, 5
  ADD_INT T2.x, PV.x, KC0[2].y
fetch
  VFETCH T4.xyzw, T2.x
  VFETCH T5.xy, T2.x, 16
alu
  LSHR_INT T3.x, T2.x, 2
"""
"""T4.xy, T4.zw and T5.xy: three doubles of each lane, from a record of 32 bytes; the last one is for the result."""
TAIL = """
  ADD_INT T3.x, T3.x, 6
store T6.xy, T3.x
"""


def operands() -> Any:
    """Three doubles of each lane: ordinary numbers, and some that are special."""
    values = NUMBERS.standard_normal((64, 3)) * 2.0 ** NUMBERS.integers(-40, 40, (64, 3))
    values[:7, 0] = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.0]
    values[7:9, 1] = [np.inf, 0.0]
    values[9, :2] = values[9, 0]
    return values


def computed(generation: str, engine: str, lines: str, given: Any) -> Any:
    """The doubles in T6.xy after some bundles."""
    words = np.zeros((64, 8), np.uint32)
    words[:, :6] = np.ascontiguousarray(given).view(np.uint32).reshape(64, 6)
    run = Run(assemble(HEAD + lines + TAIL, generation), generation, words.ravel())
    found = getattr(run, engine)().reshape(64, 8)[:, 6:]
    return np.ascontiguousarray(found).view(np.float64).ravel()


def pair(name: str, first: str = "T4.y", second: str = "T4.x", more: tuple[str, str] = ("T4.w", "T4.z")) -> str:
    """An operation of two sources in slots x and y."""
    return f"  {name} T6.x, {first}, {more[0]}; {name} T6.y, {second}, {more[1]}"


PRODUCT = """  MUL_64 T6.x, T4.y, T4.w; MUL_64 T6.y, T4.y, T4.w; MUL_64 T7.z, T4.y, T4.w; MUL_64 T7.w, T4.x, T4.z"""
FMA = """  FMA_64 T6.x, T4.y, T4.w, T5.y; FMA_64 T6.y, T4.y, T4.w, T5.y; FMA_64 T7.z, T4.y, T4.w, T5.y; FMA_64 T7.w, T4.x, T4.z, T5.x"""


def fused(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once, for doubles whose long product and sum are exact enough."""
    return (a.astype(np.longdouble) * b + c).astype(np.float64)


CASES: dict[str, tuple[str, Callable[[Any, Any, Any], Any]]] = {
    "ADD_64": (pair("ADD_64"), lambda a, b, c: a + b),
    "ADD_64 with a sign": (pair("ADD_64", more=("-T4.w", "T4.z")), lambda a, b, c: a - b),
    "MAX_64": (pair("MAX_64"), lambda a, b, c: np.fmax(a, b)),
    "MIN_64": (pair("MIN_64"), lambda a, b, c: np.fmin(a, b)),
    "MUL_64": (PRODUCT, lambda a, b, c: a * b),
    "FRACT_64": ("  FRACT_64 T6.x, T4.y; FRACT_64 T6.y, T4.x", lambda a, b, c: a - np.floor(a)),
    "in slots z and w": (
        "  ADD_64 T7.z, T4.y, T4.w; ADD_64 T7.w, T4.x, T4.z\n  MOV T6.x, T7.z; MOV T6.y, T7.w",
        lambda a, b, c: a + b,
    ),
    "to single precision and back": (
        "  FLT64_TO_FLT32 T7.x, T4.y; FLT64_TO_FLT32 _.y, T4.x\n  FLT32_TO_FLT64 T6.x, T7.x; FLT32_TO_FLT64 T6.y, 0",
        lambda a, b, c: a.astype(np.float32).astype(np.float64),
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("name", CASES)
def test_a_double_precision_operation_rounds_to_the_nearest(name: str, generation: str, engine: str) -> None:
    lines, mean = CASES[name]
    given = operands()
    given[5, 0] = 0.0 if "single" in name else given[5, 0]
    with np.errstate(all="ignore"):
        wanted = mean(*given.T)
    np.testing.assert_array_equal(computed(generation, engine, lines, given), wanted)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_multiply_add_of_doubles_is_rounded_once(engine: str) -> None:
    """The product of two numbers of 53 bits keeps all its bits until the sum."""
    given = operands()[10:]
    given = np.concatenate([given, given[:10]])
    given[:, 2] = -given[:, 0] * given[:, 1]
    found = computed("cayman", engine, FMA, given)
    assert (found != 0).any()
    np.testing.assert_array_equal(found, [_exact_rest(*row) for row in given])


def _exact_rest(a: float, b: float, c: float) -> float:
    from fractions import Fraction

    return float(Fraction(a) * Fraction(b) + Fraction(c))


@pytest.mark.parametrize("relation", ["E", "NE", "GT", "GE"])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_comparison_of_doubles_gives_all_ones(relation: str, generation: str) -> None:
    name = f"SET{relation}_64"
    lines = f"  {name} T6.x, T4.y, T4.w; {name} _.y, T4.x, T4.z\n  MOV T6.y, 0"
    given = operands()
    compare = {"E": np.equal, "NE": np.not_equal, "GT": np.greater, "GE": np.greater_equal}[relation]
    wanted = compare(given[:, 0], given[:, 1])
    found = computed(generation, "compiled", lines, given).view(np.uint64)
    np.testing.assert_array_equal(found, np.where(wanted, 0xFFFFFFFF, 0))
    assert wanted.any()
    assert not wanted.all()


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "RECIP_64": lambda x: 1 / x,
    "RECIPSQRT_64": lambda x: 1 / np.sqrt(x),
    "SQRT_64": np.sqrt,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_reciprocals_and_roots_of_doubles_are_within_a_unit(name: str) -> None:
    lines = f"  {name} T6.x, T4.y, T4.x; {name} T6.y, T4.y, T4.x; {name} T7.z, T4.y, T4.x"
    given = operands()
    given[5, 0] = 3.0  # the unit takes subnormals for zeros
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[name](given[:, 0])
    found = computed("cayman", "compiled", lines, given)
    ordinary = np.isfinite(wanted) & (wanted != 0)
    assert (np.abs(found[ordinary] - wanted[ordinary]) <= np.spacing(np.abs(wanted[ordinary]))).all()
    np.testing.assert_array_equal(found[~ordinary], wanted[~ordinary])


@pytest.mark.parametrize(
    ("generation", "lines", "why"),
    [
        (
            "cayman",
            "  ADD_64 T6.x, T4.y, T4.w",
            "ADD_64 without its part in each of the slots x, y has no meaning here",
        ),
        ("cayman", "  LDEXP_64 T6.x, T4.y, T4.w; LDEXP_64 T6.y, T4.x, 0", "LDEXP_64 has no meaning here"),
        ("evergreen", "  RECIP_64 T6.x, T4.y, T4.x", "RECIP_64 of Cypress' fifth slot"),
    ],
)
def test_what_has_no_meaning_is_named(generation: str, lines: str, why: str) -> None:
    with pytest.raises(UnsupportedInstruction, match=why):
        computed(generation, "compiled", lines, operands())
