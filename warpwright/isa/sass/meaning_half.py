"""Packed half-precision arithmetic: two f16 or two bf16 in a register.

Each source selects its halves (``.H0_H0``, ``.H1_H1``; the default is both in order) or is one f32 (``.F32``, truncated
to a half; the compiler uses it to round towards zero).  An immediate is printed as two numbers, the upper half first.
"""

from __future__ import annotations

from dataclasses import replace

from warpwright.isa.ops import Value
from warpwright.isa.program import Instruction, Kind, Operand
from warpwright.isa.sass.meaning import (
    Emitter,
    is_predicate,
    is_zero,
    meaning,
    only,
    raw32,
    set32,
    set_f32,
    set_predicate,
    unsupported,
)
from warpwright.isa.sass.meaning_float import RELATIONS, finish, float_pick, flush, relation, rounding
from warpwright.isa.sass.meaning_integer import COMBINATIONS, combine

FORMATS = ("OOB", "XORSIGN", "F16_V2", "BF16_V2", "BF16", "F32", "MMA", "FTZ", "SAT", "RELU", "NAN", "RN")


def sources(i: Instruction, skip: int) -> list[Operand | tuple[Operand, Operand]]:
    """Sources after ``skip`` destinations; two consecutive immediates form a pair."""
    result: list[Operand | tuple[Operand, Operand]] = []
    rest = [o for o in i.operands[skip:] if not is_predicate(o)]
    while rest:
        o = rest.pop(0)
        if o.kind in (Kind.FLOAT, Kind.IMMEDIATE) and rest and rest[0].kind in (Kind.FLOAT, Kind.IMMEDIATE):
            result.append((o, rest.pop(0)))
        else:
            result.append(o)
    return result


def halves(b: Emitter, o: Operand | tuple[Operand, Operand], type: str) -> tuple[Value, Value]:
    """(lower, upper) of a packed source with negation and absolute value."""
    if isinstance(o, tuple):
        return b.const(o[1].value & 0xFFFF, type), b.const(o[0].value & 0xFFFF, type)
    if is_zero(o):
        bits = 0x8000 if o.negate else 0
        return b.const(bits, type), b.const(bits, type)
    word = raw32(b, o)
    low = b.bitcast(b.trunc(word, "i16"), type)
    high = b.bitcast(b.trunc(b.lshr(word, b.const(16)), "i16"), type)
    if o.suffix in (".H0_H0", ".H0"):
        high = low
    elif o.suffix in (".H1_H1", ".H1"):
        low = high
    elif o.suffix in (".H1_H0", "", ".H1H0"):
        pass
    elif o.suffix == ".H0_NH1":
        low, high = b.op("fneg", type, high), low
    elif o.suffix == ".F32":
        low = high = b.op("fcvt", type, b.bitcast(word, "f32"), attr="rz")
    else:
        raise unsupported(f"half-precision source suffix {o.suffix}")

    def modify(x: Value) -> Value:
        x = b.op("fabs", type, x) if o.absolute else x
        return b.op("fneg", type, x) if o.negate else x

    new_low = modify(low)
    return new_low, new_low if high == low else modify(high)


def pack(b: Emitter, low: Value, high: Value) -> Value:
    word = b.zext(b.bitcast(low, "i16"), "i32")
    return b.or_(word, b.shl(b.zext(b.bitcast(high, "i16"), "i32"), b.const(16)))


def format_of(i: Instruction) -> str:
    return "bf16" if "BF16_V2" in i.modifiers or "BF16" in i.modifiers else "f16"


def packed(i: Instruction, b: Emitter, operation: str) -> None:
    only(i, *FORMATS)
    type = format_of(i)
    d = i.operands[0]
    inputs = sources(i, 1)
    if operation == "fma" and moves_constant(inputs):
        pair = inputs[2]
        assert isinstance(pair, tuple)
        set32(b, d, b.const((pair[0].value & 0xFFFF) << 16 | pair[1].value & 0xFFFF))
        return
    pairs = [halves(b, o, type) for o in inputs]
    if "F32" in i.modifiers:
        wide = [b.op("fcvt", "f32", flush(b, i, low), attr="rn") for low, _ in pairs]
        set_f32(b, d, finish(b, i, b.op(operation, "f32", *wide, attr="rn")))
        return
    results = []
    for part in range(2):
        values = [flush(b, i, pair[part]) for pair in pairs]
        factors = values if operation != "fadd" else []
        x = finish(b, i, b.op(operation, type, *values, attr=rounding(i)), *factors)
        results.append(b.op("fmax", type, x, b.const(0, type), attr="nan") if "RELU" in i.modifiers else x)
    if d.suffix in ("", ".F16_V2"):
        set32(b, d, pack(b, *results))
    else:
        raise unsupported(f"half-precision destination suffix {d.suffix}")


def moves_constant(inputs: list[Operand | tuple[Operand, Operand]]) -> bool:
    """``-RZ * RZ + immediate``: how the compiler loads a constant through another pipe."""
    x, y, z = inputs
    if isinstance(x, tuple) or isinstance(y, tuple) or not isinstance(z, tuple):
        return False
    return is_zero(x) and is_zero(y) and x.negate != y.negate


@meaning("HADD2")
def HADD2(i: Instruction, b: Emitter) -> None:
    packed(i, b, "fadd")


@meaning("HMUL2")
def HMUL2(i: Instruction, b: Emitter) -> None:
    packed(i, b, "fmul")


@meaning("HFMA2")
def HFMA2(i: Instruction, b: Emitter) -> None:
    packed(i, b, "fma")


@meaning("HMNMX2")
def HMNMX2(i: Instruction, b: Emitter) -> None:
    only(i, *FORMATS)
    type = format_of(i)
    selector = i.operands[-1]
    inputs = sources(i, 1)
    if "XORSIGN" in i.modifiers:  # the signs are those of the registers, without absolute value
        inputs = [o if isinstance(o, tuple) else replace(o, absolute=False) for o in inputs]
    pairs = [halves(b, o, type) for o in inputs]
    how = "nan" if "NAN" in i.modifiers else "number"
    results = []
    for n in range(2):
        x, y = (flush(b, i, pair[n]) for pair in pairs)
        results.append(b.op("canonical_nan", type, float_pick(b, selector, x, y, how, "XORSIGN" in i.modifiers)))
    set32(b, i.operands[0], pack(b, results[0], results[1]))


@meaning("VHMNMX")
def VHMNMX(i: Instruction, b: Emitter) -> None:
    """The least or greatest of three packed halves, in each half."""
    only(i, "BF16_V2", "FTZ", "NAN")
    type, selector = format_of(i), i.operands[-1]
    triples = [halves(b, o, type) for o in sources(i, 1)]
    how = "nan" if "NAN" in i.modifiers else "number"
    results = []
    for n in range(2):
        x, y, z = (flush(b, i, triple[n]) for triple in triples)
        found = float_pick(b, selector, float_pick(b, selector, x, y, how, False), z, how, False)
        results.append(b.op("canonical_nan", type, found))
    set32(b, i.operands[0], pack(b, results[0], results[1]))


@meaning("HSETP2")
def HSETP2(i: Instruction, b: Emitter) -> None:
    """Two comparisons: the lower halves set the first predicate, the upper halves the second (``H_AND``: both set
    one)."""
    only(i, *FORMATS, *RELATIONS, *COMBINATIONS, "H_AND")
    type = format_of(i)
    first, second = i.operands[:2]
    with_ = next(o for o in i.operands[::-1] if is_predicate(o))
    x, y = (halves(b, o, type) for o in sources(i, 2))
    how = relation(i)
    results = [b.fcmp(how, flush(b, i, x[n]), flush(b, i, y[n])) for n in range(2)]
    if "H_AND" in i.modifiers:
        both = b.and_(results[0], results[1])
        results = [both, b.not_(both)]
    p, q = (combine(b, i, r, with_) for r in results)
    set_predicate(b, first, p)
    set_predicate(b, second, q)


@meaning("HSET2")
def HSET2(i: Instruction, b: Emitter) -> None:
    """Two comparison results as 1.0 (BF) or as all ones, one in each half."""
    only(i, *FORMATS, *RELATIONS, *COMBINATIONS, "BF")
    type = format_of(i)
    with_ = i.operands[-1]
    x, y = (halves(b, o, type) for o in sources(i, 1))
    how = relation(i)
    true = (0x3F80 if type == "bf16" else 0x3C00) if "BF" in i.modifiers else 0xFFFF
    parts = []
    for n in range(2):
        result = b.fcmp(how, flush(b, i, x[n]), flush(b, i, y[n]))
        parts.append(b.select(combine(b, i, result, with_), b.const(true, "i16"), b.const(0, "i16")))
    set32(b, i.operands[0], pack(b, parts[0], parts[1]))
