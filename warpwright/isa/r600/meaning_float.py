"""Meanings of single-precision operations.

RECIP, RECIPSQRT, EXP, LOG, SIN and COS use the engines' special-function unit, because AMD publishes no tables.
"""

from __future__ import annotations

from collections.abc import Callable

from warpwright.isa.ops import Value
from warpwright.isa.r600.meaning import (
    FLOAT_MEANINGS,
    INTEGER_MEANINGS,
    TEST_MEANINGS,
    Meaning,
    R600Emitter,
    as_float,
    meaning,
    rounded,
)


def _exact(name: str) -> Meaning:
    def mean(b: R600Emitter, x: list[Value]) -> Value:
        return rounded(b, b.op(name, "f32", *x, attr="rn"))

    return mean


meaning(FLOAT_MEANINGS, "ADD")(_exact("fadd"))
meaning(FLOAT_MEANINGS, "MUL_IEEE")(_exact("fmul"))
meaning(FLOAT_MEANINGS, "FMA")(_exact("fma"))


def _product(b: R600Emitter, x: Value, y: Value, ieee: bool) -> Value:
    """A rounded product; in non-IEEE mode zero times anything is zero."""
    found = rounded(b, b.op("fmul", "f32", x, y, attr="rn"))
    if ieee:
        return found
    zero = b.single(0)
    either = b.or_(b.fcmp("oeq", x, zero), b.fcmp("oeq", y, zero))
    return b.select(either, zero, found)


@meaning(FLOAT_MEANINGS, "MUL")
def mul(b: R600Emitter, x: list[Value]) -> Value:
    return _product(b, x[0], x[1], ieee=False)


@meaning(FLOAT_MEANINGS, "MULADD_IEEE")
def muladd_ieee(b: R600Emitter, x: list[Value]) -> Value:
    """The product is rounded before the sum."""
    return rounded(b, b.op("fadd", "f32", _product(b, x[0], x[1], ieee=True), x[2], attr="rn"))


@meaning(FLOAT_MEANINGS, "MULADD")
def muladd(b: R600Emitter, x: list[Value]) -> Value:
    return rounded(b, b.op("fadd", "f32", _product(b, x[0], x[1], ieee=False), x[2], attr="rn"))


@meaning(FLOAT_MEANINGS, "MAX")
def max_(b: R600Emitter, x: list[Value]) -> Value:
    return b.select(b.fcmp("oge", x[0], x[1]), x[0], x[1])


@meaning(FLOAT_MEANINGS, "MIN")
def min_(b: R600Emitter, x: list[Value]) -> Value:
    return b.select(b.fcmp("olt", x[0], x[1]), x[0], x[1])


@meaning(FLOAT_MEANINGS, "MAX_DX10")
def max_dx10(b: R600Emitter, x: list[Value]) -> Value:
    return b.op("canonical_nan", "f32", b.op("fmax", "f32", *x, attr="number"))


@meaning(FLOAT_MEANINGS, "MIN_DX10")
def min_dx10(b: R600Emitter, x: list[Value]) -> Value:
    return b.op("canonical_nan", "f32", b.op("fmin", "f32", *x, attr="number"))


# Of operations of four slots: what each slot makes of its sources, and how two of these are put together.
def _sum(b: R600Emitter, x: Value, y: Value) -> Value:
    return rounded(b, b.op("fadd", "f32", x, y, attr="rn"))


FOUR_SLOT_MEANINGS: dict[str, tuple[Meaning, Callable[[R600Emitter, Value, Value], Value]]] = {
    "DOT4": (FLOAT_MEANINGS["MUL"], _sum),
    "DOT4_IEEE": (FLOAT_MEANINGS["MUL_IEEE"], _sum),
    "MAX4": (lambda b, x: x[0], lambda b, x, y: FLOAT_MEANINGS["MAX"](b, [x, y])),
}
"""Operations that all four vector slots have with one result for all of them."""


def _to_integral(rounding: str) -> Meaning:
    def mean(b: R600Emitter, x: list[Value]) -> Value:
        return b.op("canonical_nan", "f32", b.op("fround", "f32", x[0], attr=rounding))

    return mean


for _name, _rounding in {"TRUNC": "rz", "CEIL": "rp", "RNDNE": "rn", "FLOOR": "rm"}.items():
    meaning(FLOAT_MEANINGS, _name)(_to_integral(_rounding))


@meaning(FLOAT_MEANINGS, "FRACT")
def fract(b: R600Emitter, x: list[Value]) -> Value:
    whole = b.op("fround", "f32", x[0], attr="rm")
    return rounded(b, b.op("fadd", "f32", x[0], b.op("fneg", "f32", whole), attr="rn"))


def _function(name: str) -> Meaning:
    def mean(b: R600Emitter, x: list[Value]) -> Value:
        return rounded(b, b.op("mufu", "f32", x[0], attr=name))

    return mean


FUNCTIONS = {
    **{"RECIP_IEEE": "rcp", "RECIPSQRT_IEEE": "rsq", "SQRT_IEEE": "sqrt", "EXP_IEEE": "ex2", "LOG_IEEE": "lg2"},
    **{"SIN": "sin", "COS": "cos"},
}
"""Sines and cosines take turns: a source of 1 is a full circle."""
for _name, _unit in FUNCTIONS.items():
    meaning(FLOAT_MEANINGS, _name)(_function(_unit))


# --- conversions ----------------------------------------------------------------------------------------------
def _to_integer(signed: bool) -> Meaning:
    def mean(b: R600Emitter, x: list[Value]) -> Value:
        return b.op("f2i", "i32", as_float(b, x[0]), attr=(signed, "rz"))

    return mean


meaning(INTEGER_MEANINGS, "FLT_TO_INT", "FLT_TO_INT_TRUNC")(_to_integer(True))
meaning(INTEGER_MEANINGS, "FLT_TO_UINT")(_to_integer(False))


@meaning(INTEGER_MEANINGS, "FLT_TO_INT_FLOOR")
def flt_to_int_floor(b: R600Emitter, x: list[Value]) -> Value:
    return b.op("f2i", "i32", as_float(b, x[0]), attr=(True, "rm"))


@meaning(INTEGER_MEANINGS, "INT_TO_FLT")
def int_to_flt(b: R600Emitter, x: list[Value]) -> Value:
    return b.bitcast(b.op("i2f", "f32", x[0], attr=(True, "rn")), "i32")


@meaning(INTEGER_MEANINGS, "UINT_TO_FLT")
def uint_to_flt(b: R600Emitter, x: list[Value]) -> Value:
    return b.bitcast(b.op("i2f", "f32", x[0], attr=(False, "rn")), "i32")


@meaning(INTEGER_MEANINGS, "FLT32_TO_FLT16")
def to_half(b: R600Emitter, x: list[Value]) -> Value:
    half = b.op("canonical_nan", "f16", b.op("fcvt", "f16", as_float(b, x[0]), attr="rn"))
    return b.zext(b.bitcast(half, "i16"), "i32")


@meaning(INTEGER_MEANINGS, "FLT16_TO_FLT32")
def from_half(b: R600Emitter, x: list[Value]) -> Value:
    half = b.bitcast(b.trunc(x[0], "i16"), "f16")
    return b.bitcast(b.op("canonical_nan", "f32", b.op("fcvt", "f32", half, attr="rn")), "i32")


def _byte(n: int) -> Meaning:
    def mean(b: R600Emitter, x: list[Value]) -> Value:
        byte = b.and_(b.lshr(x[0], b.number(8 * n)), b.number(255))
        return b.bitcast(b.op("i2f", "f32", byte, attr=(False, "rn")), "i32")

    return mean


for _n in range(4):
    meaning(INTEGER_MEANINGS, f"UBYTE{_n}_FLT")(_byte(_n))


# --- comparisons ----------------------------------------------------------------------------------------------
def _compare(relation: str) -> Meaning:
    def mean(b: R600Emitter, x: list[Value]) -> Value:
        return b.fcmp(relation, as_float(b, x[0]), as_float(b, x[1]))

    return mean


RELATIONS = {"E": "oeq", "GT": "ogt", "GE": "oge", "NE": "une"}
for _short, _relation in RELATIONS.items():
    meaning(TEST_MEANINGS, f"SET{_short}", f"SET{_short}_DX10", f"PRED_SET{_short}")(_compare(_relation))


def _choose(relation: str) -> Meaning:
    """The second or the third source, unchanged."""

    def mean(b: R600Emitter, x: list[Value]) -> Value:
        return b.select(b.fcmp(relation, as_float(b, x[0]), b.single(0)), x[1], x[2])

    return mean


for _short, _relation in {"E": "oeq", "GT": "ogt", "GE": "oge"}.items():
    meaning(INTEGER_MEANINGS, f"CND{_short}")(_choose(_relation))
