"""Conversions between floats and integers of all widths, roundings to integral values, packing.

``.NTZ`` asks that NaN becomes zero; without it a 32-bit result of NaN is 0x80000000.
Integer results saturate.  A 16- or 8-bit result is the saturated value in a 32-bit register.
"""

from __future__ import annotations

from warpwright.isa.ops import Value
from warpwright.isa.program import Instruction, Operand
from warpwright.isa.sass.meaning import (
    Emitter,
    half_integer,
    is_zero,
    meaning,
    only,
    raw32,
    set32,
    set64,
    set_f32,
    src32,
    src64,
    src_f32,
    src_f64,
    unsupported,
)
from warpwright.isa.sass.meaning_float import ROUNDINGS, flush, rounding, saturate

TO_INTEGRAL = {"TRUNC": "rz", "FLOOR": "rm", "CEIL": "rp", "ROUND": "rn"}
INTEGER_TYPES = ("U8", "S8", "U16", "S16", "U32", "S32", "U64", "S64")
FLOAT_TYPES = {"F16": "f16", "BF16": "bf16", "F32": "f32", "F64": "f64"}


def integral(i: Instruction) -> str:
    return next((TO_INTEGRAL[m] for m in i.modifiers if m in TO_INTEGRAL), rounding(i))


def source(b: Emitter, o: Operand, type: str) -> Value:
    """A floating-point source of the given type."""
    if type == "f64":
        return src_f64(b, o)
    if type == "f32":
        return src_f32(b, o)
    word = raw32(b, o)
    if o.suffix in (".H1_H1", ".H1"):
        word = b.lshr(word, b.const(16))
    x = b.bitcast(b.trunc(word, "i16"), type)
    if o.absolute:
        x = b.op("fabs", type, x)
    return b.op("fneg", type, x) if o.negate else x


def write(b: Emitter, d: Operand, value: Value) -> None:
    type = b.type_of(value)
    if type == "f64":
        set64(b, d, value)
    elif type == "f32":
        set_f32(b, d, value)
    else:
        set32(b, d, b.zext(b.bitcast(value, "i16"), "i32"))


@meaning("F2F")
def F2F(i: Instruction, b: Emitter) -> None:
    only(i, "FTZ", "SAT", *ROUNDINGS, *TO_INTEGRAL, *FLOAT_TYPES)
    types = [FLOAT_TYPES[m] for m in i.modifiers if m in FLOAT_TYPES]
    to, from_ = (types * 2)[:2] if types else ("f32", "f32")
    x = flush(b, i, source(b, i.operands[1], from_))
    if to == from_:
        result = b.op("fround", to, x, attr=integral(i)) if set(i.modifiers) & set(TO_INTEGRAL) else x
    else:
        result = b.op("fcvt", to, x, attr=rounding(i))
    result = flush(b, i, b.op("canonical_nan", to, result))
    write(b, i.operands[0], saturate(b, result) if "SAT" in i.modifiers else result)


@meaning("FRND")
def FRND(i: Instruction, b: Emitter) -> None:
    only(i, "FTZ", *TO_INTEGRAL, *FLOAT_TYPES)
    type = next((FLOAT_TYPES[m] for m in i.modifiers if m in FLOAT_TYPES), "f32")
    x = flush(b, i, source(b, i.operands[1], type))
    write(b, i.operands[0], b.op("canonical_nan", type, b.op("fround", type, x, attr=integral(i))))


@meaning("F2I")
def F2I(i: Instruction, b: Emitter) -> None:
    only(i, "FTZ", "NTZ", *TO_INTEGRAL, *ROUNDINGS, *INTEGER_TYPES, *FLOAT_TYPES)
    to = next((m for m in i.modifiers if m in INTEGER_TYPES), "S32")
    from_ = next((FLOAT_TYPES[m] for m in i.modifiers if m in FLOAT_TYPES), "f32")
    x = flush(b, i, source(b, i.operands[1], from_))
    signed, bits = to[0] == "S", int(to[1:])
    result = b.op("f2i", f"i{bits}", x, attr=(signed, integral(i)))
    if bits == 64:
        set64(b, i.operands[0], result)
        return
    if bits < 32:
        result = b.sext(result, "i32") if signed else b.zext(result, "i32")
    elif "NTZ" not in i.modifiers:
        result = b.select(b.fcmp("uno", x, x), b.const(0x80000000), result)
    set32(b, i.operands[0], result)


def integer_source(b: Emitter, o: Operand, type: str) -> Value:
    """An integer source of the given width, selected part included."""
    bits = int(type[1:])
    if bits == 64:
        return src64(b, o)
    if bits == 32:
        return src32(b, o)
    word = raw32(b, o)
    if bits == 16 and o.suffix in (".H1", ".H1_H1"):
        word = b.lshr(word, b.const(16))
    elif bits == 8:
        word = half_integer(b, word, o.suffix)
    x = b.trunc(word, f"i{bits}")
    return b.sub(b.const(0, f"i{bits}"), x) if o.negate else x


@meaning("I2F", "I2FP")
def I2F(i: Instruction, b: Emitter) -> None:
    only(i, *ROUNDINGS, *INTEGER_TYPES, *FLOAT_TYPES)
    from_ = next((m for m in i.modifiers if m in INTEGER_TYPES), "S32")
    to = next((FLOAT_TYPES[m] for m in i.modifiers if m in FLOAT_TYPES), "f32")
    x = integer_source(b, i.operands[1], from_)
    write(b, i.operands[0], b.op("i2f", to, x, attr=(from_[0] == "S", rounding(i))))


@meaning("F2FP")
def F2FP(i: Instruction, b: Emitter) -> None:
    """Two floats to a pair of halves: the first source becomes the upper half."""
    only(i, "F16", "BF16", "F32", "PACK_AB", "RN", "RZ", "RELU")
    if "PACK_AB" not in i.modifiers:
        raise unsupported("F2FP other than PACK_AB")
    d, high, low = i.operands[:3]
    type = "bf16" if "BF16" in i.modifiers else "f16"

    def half(o: Operand) -> Value:
        if is_zero(o) and not o.negate:
            return b.const(0)
        x = b.op("canonical_nan", type, b.op("fcvt", type, src_f32(b, o), attr=rounding(i)))
        if "RELU" in i.modifiers:
            x = b.op("fmax", type, x, b.const(0, type), attr="nan")
        return b.zext(b.bitcast(x, "i16"), "i32")

    upper = b.const(0) if is_zero(high) else b.shl(half(high), b.const(16))
    set32(b, d, half(low) if is_zero(high) else b.or_(upper, half(low)))


@meaning("I2I")
def I2I(i: Instruction, b: Emitter) -> None:
    """Integer narrowing with saturation."""
    only(i, *INTEGER_TYPES, "SAT")
    types = [m for m in i.modifiers if m in INTEGER_TYPES]
    to, from_ = types[0], types[1] if len(types) > 1 else "S32"
    set32(b, i.operands[0], clamp(b, integer_source(b, i.operands[1], from_), to, from_[0] == "S"))


def clamp(b: Emitter, x: Value, to: str, signed: bool) -> Value:
    """Saturate a 32-bit integer to the range of ``to``."""
    bits = int(to[1:])
    if b.type_of(x) != "i32":
        x = b.sext(x, "i32") if signed else b.zext(x, "i32")
    if to[0] == "S":
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    else:
        low, high = 0, (1 << bits) - 1
    if not signed:
        return b.binary("umin", x, b.const(high))
    return b.binary("smin", b.binary("smax", x, b.const(low)), b.const(high))


@meaning("I2IP")
def I2IP(i: Instruction, b: Emitter) -> None:
    """Two integers, saturated to bytes, packed below the upper half of the third source's lower half."""
    only(i, *INTEGER_TYPES, "SAT")
    types = [m for m in i.modifiers if m in INTEGER_TYPES]
    to, from_ = types[0], types[1] if len(types) > 1 else "S32"
    d, x, y, z = i.operands
    high = b.and_(clamp(b, src32(b, x), to, from_[0] == "S"), b.const(0xFF))
    low = b.and_(clamp(b, src32(b, y), to, from_[0] == "S"), b.const(0xFF))
    pair = b.or_(b.shl(high, b.const(8)), low)
    set32(b, d, b.or_(b.shl(src32(b, z), b.const(16)), pair))
