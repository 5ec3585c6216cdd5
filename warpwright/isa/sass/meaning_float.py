"""Single and double precision arithmetic, comparisons and the special-function unit.

NaN results of arithmetic are canonical, 0x7fffffff (f32) and 0x7ff8000000000000 (f64), as PTX prescribes;
``canonical_nan`` expresses this.  MUFU flushes subnormal inputs and outputs with any modifiers, except for TANH (the
compiler scales arguments if it must keep them); SIN and COS take turns (the compiler multiplies by 1/(2 pi) first).
"""

from __future__ import annotations

import struct
from dataclasses import replace

from warpwright.isa.ops import Value
from warpwright.isa.program import Instruction, Kind, Operand
from warpwright.isa.sass.meaning import (
    Emitter,
    meaning,
    only,
    predicate,
    raw32,
    set32,
    set64,
    set_f32,
    set_predicate,
    src_f32,
    src_f64,
    unsupported,
)
from warpwright.isa.sass.meaning_integer import COMBINATIONS, combine, set_comparison

ROUNDINGS = {"RN": "rn", "RZ": "rz", "RM": "rm", "RP": "rp"}
RELATIONS = {
    "LT": "olt",
    "EQ": "oeq",
    "LE": "ole",
    "GT": "ogt",
    "NE": "one",
    "GE": "oge",
    "NUM": "ord",
    "NAN": "uno",
    "LTU": "ult",
    "EQU": "ueq",
    "LEU": "ule",
    "GTU": "ugt",
    "NEU": "une",
    "GEU": "uge",
}


SCALES = {"D8": 0.125, "D4": 0.25, "D2": 0.5, "M2": 2.0, "M4": 4.0, "M8": 8.0}
"""FMUL's modifiers that scale the product before rounding."""


def rounding(i: Instruction) -> str:
    return next((ROUNDINGS[m] for m in i.modifiers if m in ROUNDINGS), "rn")


def flush(b: Emitter, i: Instruction, x: Value) -> Value:
    return b.op("ftz", b.type_of(x), x) if "FTZ" in i.modifiers else x


def saturate(b: Emitter, x: Value) -> Value:
    """Clamp to [0, 1]; NaN becomes +0."""
    type = b.type_of(x)
    one = {"f32": 0x3F800000, "f64": 0x3FF0000000000000, "f16": 0x3C00, "bf16": 0x3F80}[type]
    low = b.op("fmax", type, x, b.const(0, type), attr="number")
    return b.op("fmin", type, low, b.const(one, type), attr="number")


def finish(b: Emitter, i: Instruction, x: Value, *factors: Value) -> Value:
    """Steps after rounding: canonical NaN, flush (of a product or multiply-add of ``factors``), saturation."""
    x = b.op("canonical_nan", b.type_of(x), x)
    if factors and "FTZ" in i.modifiers:
        x = b.op("ftz_of", b.type_of(x), x, *factors, attr=rounding(i))
    else:
        x = flush(b, i, x)
    return saturate(b, x) if "SAT" in i.modifiers else x


@meaning("FADD")
def FADD(i: Instruction, b: Emitter) -> None:
    only(i, "FTZ", "SAT", *ROUNDINGS)
    d, x, y = i.operands
    total = b.op("fadd", "f32", flush(b, i, src_f32(b, x)), flush(b, i, src_f32(b, y)), attr=rounding(i))
    set_f32(b, d, finish(b, i, total))


@meaning("FMUL")
def FMUL(i: Instruction, b: Emitter) -> None:
    only(i, "FTZ", "SAT", *ROUNDINGS, *SCALES)
    d, x, y = i.operands
    factors = flush(b, i, src_f32(b, x)), flush(b, i, src_f32(b, y))
    scale = next((SCALES[m] for m in i.modifiers if m in SCALES), None)
    if scale is None:
        product = b.op("fmul", "f32", *factors, attr=rounding(i))
        set_f32(b, d, finish(b, i, product, *factors))
        return
    else:  # in f64 the product and its power-of-two multiple are exact
        wide = b.op("fmul", "f64", *(b.op("fcvt", "f64", f, attr="rn") for f in factors), attr="rn")
        bits = int.from_bytes(struct.pack(">d", scale), "big")
        product = b.op("fcvt", "f32", b.op("fmul", "f64", wide, b.const(bits, "f64"), attr="rn"), attr=rounding(i))
    set_f32(b, d, finish(b, i, product))


@meaning("FFMA")
def FFMA(i: Instruction, b: Emitter) -> None:
    only(i, "FTZ", "SAT", *ROUNDINGS)
    d, *sources = i.operands
    values = [flush(b, i, src_f32(b, o)) for o in sources]
    set_f32(b, d, finish(b, i, b.op("fma", "f32", *values, attr=rounding(i)), *values))


def plain(b: Emitter, o: Operand) -> Value:
    """An f64 source without its sign modifiers, which do not affect a propagated NaN."""
    return src_f64(b, replace(o, negate=False, absolute=False) if o.negate or o.absolute else o)


@meaning("DADD")
def DADD(i: Instruction, b: Emitter) -> None:
    only(i, *ROUNDINGS)
    d, x, y = two_sources(i)
    left, right = src_f64(b, x), src_f64(b, y)
    set64(b, d, b.op("nan_of", "f64", b.op("fadd", "f64", left, right, attr=rounding(i)), plain(b, y), plain(b, x)))


def two_sources(i: Instruction) -> tuple[Operand, Operand, Operand]:
    """Destination and two sources; this form has no printed RZ placeholder between them."""
    d, x, y = i.operands
    return d, x, y


@meaning("DMUL")
def DMUL(i: Instruction, b: Emitter) -> None:
    only(i, *ROUNDINGS)
    d, x, y = two_sources(i)
    left, right = src_f64(b, x), src_f64(b, y)
    set64(b, d, b.op("nan_of", "f64", b.op("fmul", "f64", left, right, attr=rounding(i)), plain(b, y), plain(b, x)))


@meaning("DFMA")
def DFMA(i: Instruction, b: Emitter) -> None:
    only(i, *ROUNDINGS)
    d, *sources = i.operands
    total = b.op("fma", "f64", *(src_f64(b, o) for o in sources), attr=rounding(i))
    x, y, z = (plain(b, o) for o in sources)
    set64(b, d, b.op("nan_of", "f64", total, y, z, x))


def relation(i: Instruction) -> str:
    """The comparison among the modifiers."""
    for m in i.modifiers:
        if m in RELATIONS:
            return RELATIONS[m]
    raise unsupported(f"{i.opcode} without a relation")


@meaning("FSETP")
def FSETP(i: Instruction, b: Emitter) -> None:
    only(i, "FTZ", *RELATIONS, *COMBINATIONS)
    first, second, x, y, with_ = i.operands
    result = b.fcmp(relation(i), flush(b, i, src_f32(b, x)), flush(b, i, src_f32(b, y)))
    set_comparison(b, i, result, first, second, with_)


@meaning("DSETP")
def DSETP(i: Instruction, b: Emitter) -> None:
    """Comparisons; MIN and MAX return whether the first source is the result, and whether both are NaN."""
    only(i, "MIN", "MAX", *RELATIONS, *COMBINATIONS)
    first, second, x, y, with_ = i.operands
    if i.modifiers[0] in ("MIN", "MAX"):
        left, right = src_f64(b, x), src_f64(b, y)
        left_nan, right_nan = b.fcmp("uno", left, left), b.fcmp("uno", right, right)
        chosen = b.op("fmin" if i.modifiers[0] == "MIN" else "fmax", "f64", left, right, attr="number")
        same = b.icmp("eq", b.bitcast(chosen, "i64"), b.bitcast(left, "i64"))
        set_predicate(b, first, combine(b, i, b.and_(same, b.not_(left_nan)), with_))
        set_predicate(b, second, combine(b, i, b.and_(left_nan, right_nan), with_))
        return
    set_comparison(b, i, b.fcmp(relation(i), src_f64(b, x), src_f64(b, y)), first, second, with_)


@meaning("FSET")
def FSET(i: Instruction, b: Emitter) -> None:
    """A comparison result as 1.0 (BF) or as all ones."""
    only(i, "FTZ", "BF", *RELATIONS, *COMBINATIONS)
    d, x, y, with_ = i.operands
    result = b.fcmp(relation(i), flush(b, i, src_f32(b, x)), flush(b, i, src_f32(b, y)))
    true = b.const(0x3F800000 if "BF" in i.modifiers else 0xFFFFFFFF)
    set32(b, d, b.select(combine(b, i, result, with_), true, b.const(0)))


@meaning("FSEL")
def FSEL(i: Instruction, b: Emitter) -> None:
    only(i, "FTZ")
    d, x, y, p = i.operands
    chosen = b.select(predicate(b, p), flush(b, i, src_f32(b, x)), flush(b, i, src_f32(b, y)))
    set_f32(b, d, chosen)


def float_pick(b: Emitter, selector: Operand, x: Value, y: Value, nan: str, signs: bool = False) -> Value:
    """fmin where the predicate holds, else fmax; with ``signs``, of the magnitudes, with the sign of the product."""
    type = b.type_of(x)
    if signs:
        found = float_pick(b, selector, b.op("fabs", type, x), b.op("fabs", type, y), nan)
        word = f"i{type[-2:]}"
        sign = b.and_(b.xor(b.bitcast(x, word), b.bitcast(y, word)), b.const(1 << int(type[-2:]) - 1, word))
        return b.bitcast(b.or_(b.bitcast(found, word), sign), type)
    if selector.index == 7:
        return b.op("fmax" if selector.invert else "fmin", type, x, y, attr=nan)
    low, high = b.op("fmin", type, x, y, attr=nan), b.op("fmax", type, x, y, attr=nan)
    return b.select(predicate(b, selector), low, high)


@meaning("FMNMX")
def FMNMX(i: Instruction, b: Emitter) -> None:
    only(i, "FTZ", "NAN", "XORSIGN")
    d, x, y, p = i.operands
    left, right = flush(b, i, src_f32(b, x)), flush(b, i, src_f32(b, y))
    if "XORSIGN" in i.modifiers:  # the signs are those of the registers, without absolute value
        left, right = (flush(b, i, src_f32(b, replace(o, absolute=False))) for o in (x, y))
    result = float_pick(b, p, left, right, "nan" if "NAN" in i.modifiers else "number", "XORSIGN" in i.modifiers)
    set_f32(b, d, b.op("canonical_nan", "f32", result))


@meaning("DMNMX")
def DMNMX(i: Instruction, b: Emitter) -> None:
    only(i)
    d, x, y, p = i.operands
    result = float_pick(b, p, src_f64(b, x), src_f64(b, y), "number")
    set64(b, d, b.op("canonical_nan", "f64", result))


@meaning("FCHK")
def FCHK(i: Instruction, b: Emitter) -> None:
    """True where a division needs the slow path.  Only the exponents decide, as on an H200 for all pairs of them
    (``bench.micro divisions``).

    The fast path is correct if dividend, divisor's reciprocal, quotient and remainder are all normal.
    """
    only(i, "DIVIDE")
    p, x, y = i.operands

    def exponent(o: Operand) -> Value:
        return b.and_(b.lshr(b.bitcast(src_f32(b, o), "i32"), b.const(23)), b.const(0xFF))

    above, below = exponent(x), exponent(y)
    difference = b.sub(above, below)
    slow = b.icmp("ugt", b.sub(above, b.const(25)), b.const(254 - 25))
    slow = b.or_(slow, b.icmp("ugt", b.sub(below, b.const(2)), b.const(251 - 2)))
    slow = b.or_(slow, b.icmp("sgt", difference, b.const(126)))
    slow = b.or_(slow, b.icmp("slt", difference, b.const(-124)))
    set_predicate(b, p, slow)


FUNCTIONS = ("RCP", "RSQ", "SQRT", "EX2", "LG2", "SIN", "COS", "TANH")


@meaning("MUFU")
def MUFU(i: Instruction, b: Emitter) -> None:
    """The unit flushes subnormals itself (except for TANH), returns the canonical NaN, and truncates f32 for its 16-bit
    forms."""
    only(i, *FUNCTIONS, "RCP64H", "RSQ64H", "F16", "BF16")
    d, x = i.operands
    name = i.modifiers[0]
    if "F16" in i.modifiers or "BF16" in i.modifiers:
        type = "f16" if "F16" in i.modifiers else "bf16"
        word = raw32(b, x)
        half = b.bitcast(b.trunc(b.lshr(word, b.const(16)) if x.suffix == ".H1" else word, "i16"), type)
        half = b.op("fabs", type, half) if x.absolute else half
        half = b.op("fneg", type, half) if x.negate else half
        set32(b, d, b.zext(b.bitcast(b.op("mufu", type, half, attr=name.lower()), "i16"), "i32"))
        return
    if name.endswith("64H"):
        if x.negate or x.absolute:
            high = b.bitcast(src_f32(b, x), "i32")
        else:
            high = raw32(b, x, 1 if x.kind is Kind.FLOAT else 0)
        wide = b.bitcast(b.op("pack64", "i64", b.const(0), high), "f64")
        result = b.op("mufu", "f64", wide, attr=name[:3].lower())
        set32(b, d, b.op("extract", "i32", b.bitcast(result, "i64"), attr=1))
        return
    set_f32(b, d, b.op("mufu", "f32", src_f32(b, x), attr=name.lower()))
