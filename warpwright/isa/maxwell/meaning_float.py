"""Floating point, packed halves and conversions of sm_50 to sm_62, where they differ from later chips.

``RRO`` (range reduction) prepares MUFU's argument.  On the chip its result is a fixed-point number that only MUFU
reads; here it is the f32 that later chips pass to MUFU: turns for SINCOS (the argument divided by 2 pi, rounded towards
zero, as code for sm_70 and later computes it with FMUL.RZ), the argument itself for EX2.  This is an assumption: no
chip of the family was measured.
"""

from __future__ import annotations

from dataclasses import replace

from warpwright.isa.maxwell.meaning import (
    PascalEmitter,
    finish,
    marks,
    meaning,
    plain_register,
    shared,
    writes_flags,
)
from warpwright.isa.ops import Value
from warpwright.isa.program import Instruction, Kind, Operand
from warpwright.isa.sass import meaning as common
from warpwright.isa.sass.meaning import (
    only,
    predicate,
    raw32,
    set32,
    set64,
    set_f32,
    src32,
    src_f32,
    src_f64,
    unsupported,
)
from warpwright.isa.sass.meaning_convert import FLOAT_TYPES, INTEGER_TYPES, clamp, integer_source, write
from warpwright.isa.sass.meaning_float import RELATIONS, flush, relation, rounding
from warpwright.isa.sass.meaning_float import finish as rounded
from warpwright.isa.sass.meaning_half import halves, pack, sources
from warpwright.isa.sass.meaning_integer import COMBINATIONS, combine

ONE_OVER_TWO_PI = 0x3E22F983


def applied(i: Instruction) -> Instruction:
    """The instruction with the marks of its immediates applied to their bits."""
    return replace(i, operands=tuple(marks(o) for o in i.operands))


@meaning("FADD", "FMUL", "FFMA", "FMNMX", "FSETP", "DADD", "DMUL", "DFMA", "DMNMX", "DSETP", "FCHK", "MUFU")
def SAME(i: Instruction, b: PascalEmitter) -> None:
    if i.opcode == "MUFU" and "SAT" in i.modifiers:
        raise unsupported("MUFU.SAT")
    shared(applied(i), b)


LONG = {"FADD32I": "FADD", "FMUL32I": "FMUL", "FFMA32I": "FFMA"}


@meaning(*LONG)
def LONG_IMMEDIATE(i: Instruction, b: PascalEmitter) -> None:
    shared(replace(applied(i), opcode=LONG[i.opcode]), b)


@meaning("FSET", "DSET")
def FSET(i: Instruction, b: PascalEmitter) -> None:
    """A comparison result as 1.0 (BF) or as all ones."""
    only(i, "FTZ", "BF", *RELATIONS, *COMBINATIONS)
    d, x, y, with_ = applied(i).operands
    if i.opcode == "FSET":
        result = b.fcmp(relation(i), flush(b, i, src_f32(b, x)), flush(b, i, src_f32(b, y)))
    else:
        result = b.fcmp(relation(i), src_f64(b, x), src_f64(b, y))
    chosen = combine(b, i, result, with_)
    finish(b, d, b.select(chosen, b.const(0x3F800000 if "BF" in i.modifiers else 0xFFFFFFFF), b.const(0)))


@meaning("FCMP")
def FCMP(i: Instruction, b: PascalEmitter) -> None:
    """Returns A if C compares to zero as specified (GT is not printed), else B."""
    only(i, "FTZ", *RELATIONS)
    d, x, y, z = applied(i).operands
    how = relation(i) if any(m in RELATIONS for m in i.modifiers) else RELATIONS["GT"]
    holds = b.fcmp(how, flush(b, i, src_f32(b, z)), b.const(0, "f32"))
    set32(b, d, b.select(holds, raw32(b, x), raw32(b, y)))


@meaning("RRO")
def RRO(i: Instruction, b: PascalEmitter) -> None:
    only(i, "EX2", "SINCOS")
    d, x = applied(i).operands
    value = src_f32(b, x)
    if "SINCOS" in i.modifiers:
        value = b.op("fmul", "f32", b.op("ftz", "f32", value), b.const(ONE_OVER_TWO_PI, "f32"), attr="rz")
        value = b.op("canonical_nan", "f32", value)
    set_f32(b, d, value)


@meaning("FSWZADD")
def FSWZADD(i: Instruction, b: PascalEmitter) -> None:
    """A plus B, with signs that depend on the lane's position in its quad."""
    only(i, "FTZ", "RM", "RP", "RZ")
    d, x, y, signs = i.operands
    lane = b.and_(b.op("special", "i32", attr="laneid"), b.const(3))
    left, right = raw32(b, x), raw32(b, y)
    sign = b.const(1 << 31)
    minus_a = minus_b = zero = b.const(0, "i1")
    for n in range(4):
        here = b.icmp("eq", lane, b.const(n))
        pair = signs.value >> 2 * n & 3
        minus_b = b.or_(minus_b, here) if pair == 1 else minus_b
        minus_a = b.or_(minus_a, here) if pair == 2 else minus_a
        zero = b.or_(zero, here) if pair == 3 else zero
    left = b.select(minus_a, b.xor(left, sign), b.select(zero, b.const(0), left))
    right = b.select(minus_b, b.xor(right, sign), b.select(zero, b.const(0), right))
    total = b.op(
        "fadd", "f32", flush(b, i, b.bitcast(left, "f32")), flush(b, i, b.bitcast(right, "f32")), attr=rounding(i)
    )
    set_f32(b, plain_register(d), rounded(b, i, total))


# --- packed halves --------------------------------------------------------------------------------
PACKED = {
    "HADD2": "fadd",
    "HMUL2": "fmul",
    "HFMA2": "fma",
    "HADD2_32I": "fadd",
    "HMUL2_32I": "fmul",
    "HFMA2_32I": "fma",
}


@meaning(*PACKED)
def HALVES(i: Instruction, b: PascalEmitter) -> None:
    """Operates on two halves; ``.F32`` returns the lower one as f32, ``.MRG_H0``/``.MRG_H1`` write one half of the
    destination."""
    only(i, "FTZ", "SAT", "F32", "MRG_H0", "MRG_H1")
    d = i.operands[0]
    pairs = [halves(b, with_constant(o) if isinstance(o, Operand) else o, "f16") for o in sources(i, 1)]
    operation = PACKED[i.opcode]
    if "F32" in i.modifiers:
        wide = [b.op("fcvt", "f32", flush(b, i, low), attr="rn") for low, _ in pairs]
        set_f32(b, d, rounded(b, i, b.op(operation, "f32", *wide, attr="rn")))
        return
    results = []
    for part in range(2):
        values = [flush(b, i, pair[part]) for pair in pairs]
        factors = values if operation != "fadd" else []
        results.append(rounded(b, i, b.op(operation, "f16", *values, attr="rn"), *factors))
    low, high = results
    if "MRG_H0" in i.modifiers:
        old = b.and_(raw32(b, d), b.const(0xFFFF0000))
        set32(b, d, b.or_(old, b.zext(b.bitcast(low, "i16"), "i32")))
    elif "MRG_H1" in i.modifiers:
        old = b.and_(raw32(b, d), b.const(0xFFFF))
        set32(b, d, b.or_(old, b.shl(b.zext(b.bitcast(high, "i16"), "i32"), b.const(16))))
    else:
        set32(b, d, pack(b, low, high))


def with_constant(o: Operand) -> Operand:
    """A constant source of a packed-half instruction is one f32, used for both halves."""
    return replace(o, name="", suffix=".F32") if o.kind is Kind.CONSTANT else o


@meaning("HSETP2", "HSET2")
def HSET2(i: Instruction, b: PascalEmitter) -> None:
    common.MEANINGS[i.opcode](replace(i, operands=tuple(with_constant(o) for o in i.operands)), b)


# --- conversions ----------------------------------------------------------------------------------
def delegated(i: Instruction, b: PascalEmitter, *more: str) -> None:
    d, *rest = applied(i).operands
    if writes_flags(d):
        raise unsupported(f"{i.opcode} that writes the condition code")
    common.MEANINGS[i.opcode](replace(i, modifiers=(*i.modifiers, *more), operands=(d, *rest)), b)


@meaning("F2F")
def F2F(i: Instruction, b: PascalEmitter) -> None:
    source = applied(i).operands[1]
    if source.kind is Kind.FLOAT and source.name == "f16":
        raise unsupported("F2F of a half-precision immediate")
    delegated(i, b)


@meaning("F2I")
def F2I(i: Instruction, b: PascalEmitter) -> None:
    """NaN becomes zero for results of up to 32 bits, and only the highest bit set for 64-bit ones (PTX ISA,
    ``cvt``)."""
    delegated(i, b, *(() if "F64" in i.modifiers else ("NTZ",)))


@meaning("I2F")
def I2F(i: Instruction, b: PascalEmitter) -> None:
    d, x = applied(i).operands
    from_ = next(m for m in i.modifiers if m in INTEGER_TYPES)
    if not x.absolute or from_ in ("S32", "U32"):
        delegated(i, b)
        return
    if writes_flags(d):
        raise unsupported("I2F that writes the condition code")
    to = next(FLOAT_TYPES[m] for m in i.modifiers if m in FLOAT_TYPES)
    write(b, d, b.op("i2f", to, absolute_integer(b, x, from_), attr=(True, rounding(i))))


def absolute_integer(b: PascalEmitter, x: Operand, from_: str) -> Value:
    """``|x|`` or ``-|x|`` of an integer of up to 32 bits, as i32."""
    value = src32(b, replace(x, absolute=False, negate=False, suffix=""))
    if from_ not in ("S32", "U32"):
        narrow = integer_source(b, replace(x, absolute=False, negate=False), from_)
        value = b.sext(narrow, "i32") if from_[0] == "S" else b.zext(narrow, "i32")
    if from_[0] == "S":
        value = b.binary("smax", value, b.sub(b.const(0), value))
    return b.sub(b.const(0), value) if x.negate else value


@meaning("I2I")
def I2I(i: Instruction, b: PascalEmitter) -> None:
    """Widen or narrow an integer; ``.SAT`` saturates, otherwise the low bits are kept and extended."""
    only(i, *INTEGER_TYPES, "SAT")
    d, x = applied(i).operands
    to, from_ = (m for m in i.modifiers if m in INTEGER_TYPES)
    signed = from_[0] == "S"
    if x.absolute:
        value = absolute_integer(b, x, from_)
    else:
        value = integer_source(b, x, from_)
        if b.type_of(value) != "i32":
            value = b.sext(value, "i32") if signed else b.zext(value, "i32")
    bits = int(to[1:])
    if "SAT" in i.modifiers:
        value = clamp(b, value, to, signed)
    elif bits < 32:
        narrow = b.trunc(value, f"i{bits}")
        value = b.sext(narrow, "i32") if to[0] == "S" else b.zext(narrow, "i32")
    finish(b, d, value)


def selected(b: PascalEmitter, p: Operand, x: Value, y: Value) -> Value:
    return b.select(predicate(b, p), x, y)


_ = set64
