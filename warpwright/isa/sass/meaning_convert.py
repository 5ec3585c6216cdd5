"""Conversions between floats and integers of all widths, roundings to integral values, packing.

With ``.NTZ``, NaN becomes zero; without it, a 32-bit result of NaN is 0x80000000.
Integer results saturate.  A 16- or 8-bit result is the saturated value in a 32-bit register.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from warpwright.isa.float8 import half_pair_of
from warpwright.isa.nans import keep_nan
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
    kept = (to != from_ and "f64" in (to, from_)) or (to == from_ == "f64")
    result = keep_nan(b, x, result) if kept else b.op("canonical_nan", to, result)
    result = flush(b, i, result)
    write(b, i.operands[0], saturate(b, result) if "SAT" in i.modifiers else result)


@meaning("FRND")
def FRND(i: Instruction, b: Emitter) -> None:
    only(i, "FTZ", *TO_INTEGRAL, *FLOAT_TYPES)
    type = next((FLOAT_TYPES[m] for m in i.modifiers if m in FLOAT_TYPES), "f32")
    x = flush(b, i, source(b, i.operands[1], type))
    result = b.op("fround", type, x, attr=integral(i))
    write(b, i.operands[0], keep_nan(b, x, result) if type == "f64" else b.op("canonical_nan", type, result))


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
    if bits < 32 and from_ == "f64":
        result = b.select(b.fcmp("uno", x, x), b.const(1 << bits - 1, f"i{bits}"), result)
    if bits < 32:
        result = b.sext(result, "i32") if signed else b.zext(result, "i32")
    elif "NTZ" not in i.modifiers:
        result = b.select(b.fcmp("uno", x, x), b.const(0x80000000), result)
    set32(b, i.operands[0], result)


def integer_source(b: Emitter, o: Operand, type: str) -> Value:
    """An integer source of the given width, with part selection."""
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
    """Two floats to a pair of halves; the first source becomes the upper half.  8-bit floats: `eight_bit_pair`."""
    if "E4M3" in i.modifiers or "E5M2" in i.modifiers:
        eight_bit_pair(i, b)
        return
    if "TF32" in i.modifiers:
        tensor_float(i, b)
        return
    only(i, "F16", "BF16", "F32", "PACK_AB", "MERGE_C", "RN", "RZ", "RELU")
    if "PACK_AB" in i.modifiers:
        d, high, low = i.operands[:3]
    else:
        d, low, high = i.operands[:3]
        if not is_zero(high):
            raise unsupported("F2FP that merges with a register")
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


def tensor_float(i: Instruction, b: Emitter) -> None:
    """An f32 rounded to the ten fraction bits of tf32."""
    only(i, "TF32", "F32", "PACK_B", "RZ", "RELU")
    d, o = i.operands[:2]
    x = src_f32(b, o)
    bits = b.bitcast(x, "i32")
    if rounding(i) == "rn":
        odd = b.and_(b.lshr(bits, b.const(13)), b.const(1))
        bits = b.add(bits, b.add(odd, b.const(0xFFF)))
    bits = b.and_(bits, b.const(0xFFFFE000))
    if "RELU" in i.modifiers:
        bits = b.select(b.icmp("slt", b.bitcast(x, "i32"), b.const(0)), b.const(0), bits)
    set32(b, d, b.select(b.fcmp("uno", x, x), b.const(0x7FFFE000), bits))


class EightBit(NamedTuple):
    """One of the formats of the Open Compute Project's 8-bit floating point specification (OFP8)."""

    mantissa_bits: int
    bias: int
    largest: int
    """Bit pattern of the largest finite number."""


EIGHT_BIT = {"E4M3": EightBit(3, 7, 0x7E), "E5M2": EightBit(2, 15, 0x7B)}


def to_eight_bits(b: Emitter, x: Value, format: EightBit) -> Value:
    """An f32 rounded to the nearest 8-bit float, saturated to the largest; NaN becomes 0x7F."""
    word = b.bitcast(x, "i32")
    magnitude = b.and_(word, b.const(0x7FFFFFFF))
    dropped = 23 - format.mantissa_bits
    tie_to_even = b.and_(b.lshr(magnitude, b.const(dropped)), b.const(1))
    rounded = b.add(b.add(magnitude, b.const((1 << dropped - 1) - 1)), tie_to_even)
    normal = b.sub(b.lshr(rounded, b.const(dropped)), b.const(127 - format.bias << format.mantissa_bits))
    # Added to the power of two whose unit in the last place is the smallest subnormal, a small number is rounded to it.
    smallest_exponent = 1 - format.bias - format.mantissa_bits
    scale = b.const(127 + smallest_exponent + 23 << 23, "f32")
    small = b.sub(
        b.bitcast(b.op("fadd", "f32", b.bitcast(magnitude, "f32"), scale, attr="rn"), "i32"), b.bitcast(scale, "i32")
    )
    least_normal = b.const(127 + 1 - format.bias << 23)
    code = b.select(b.icmp("ult", magnitude, least_normal), small, b.binary("umin", normal, b.const(format.largest)))
    sign = b.and_(b.lshr(word, b.const(24)), b.const(0x80))
    not_a_number = b.icmp("ugt", magnitude, b.const(0x7F800000))
    return b.select(not_a_number, b.const(0x7F), b.or_(code, sign))


def no_less_than_zero(b: Emitter, half: Value) -> Value:
    """The f16 bits of a number; 0 for negative numbers, NaN is preserved."""
    negative = b.icmp("ult", b.sub(half, b.const(0x8000)), b.const(0x7C01))
    return b.select(negative, b.const(0), half)


def eight_bit_pair(i: Instruction, b: Emitter) -> None:
    """UNPACK_B: two 8-bit floats to two f16.  MERGE_C: two f32 or f16 to 8-bit floats; the lower half of C becomes the
    upper half of the result."""
    only(i, *EIGHT_BIT, "F16", "F32", "SATFINITE", "RELU", "UNPACK_B", "UNPACK_B_MERGE_C", "PACK_AB_MERGE_C")
    name = next(m for m in i.modifiers if m in EIGHT_BIT)
    d, *sources = i.operands
    if "UNPACK_B" in i.modifiers:
        word = raw32(b, sources[0])
        word = b.lshr(word, b.const(16)) if sources[0].suffix.startswith(".H1") else word
        pair = half_pair_of(b, word, name.lower())
        if "RELU" in i.modifiers:
            halves = (b.and_(b.lshr(pair, b.const(at)), b.const(0xFFFF)) for at in (0, 16))
            low, high = (no_less_than_zero(b, half) for half in halves)
            pair = b.or_(low, b.shl(high, b.const(16)))
        set32(b, d, pair)
        return
    *values, merged = sources
    if "SATFINITE" not in i.modifiers or merged.suffix:
        raise unsupported("this conversion to 8-bit floats")
    if "F16" in i.modifiers:
        parts = [src_f32(b, replace(values[0], suffix=suffix)) for suffix in (".H1_H1", ".H0_H0")]
    else:
        parts = [src_f32(b, o) for o in values]
    if "RELU" in i.modifiers:
        parts = [b.op("fmax", "f32", x, b.const(0, "f32"), attr="nan") for x in parts]
    upper, lower = (to_eight_bits(b, x, EIGHT_BIT[name]) for x in parts)
    pair = b.or_(b.shl(upper, b.const(8)), lower)
    set32(b, d, b.or_(b.shl(raw32(b, merged), b.const(16)), pair))


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
    # Compared as signed numbers, none of which exceeds U32's range.
    return b.binary("smin", b.binary("smax", x, b.const(low)), b.const(min(high, 0x7FFFFFFF)))


@meaning("I2IP")
def I2IP(i: Instruction, b: Emitter) -> None:
    """Two integers, saturated and packed, with the remaining bits of the third source above."""
    only(i, *INTEGER_TYPES, *SMALL_INTEGERS, "SAT")
    to = i.modifiers[0]
    d, x, y, z = i.operands
    high, low = (clamp(b, src32(b, o), to, True) for o in (x, y))
    set32(b, d, joined(b, high, low, int(to[1:]), z))


SMALL_INTEGERS = ("U2", "S2", "U4", "S4")


def joined(b: Emitter, high: Value, low: Value, bits: int, rest: Operand) -> Value:
    """Two fields of the given width, with bits of the third source (of its lower or upper half) above."""
    mask = b.const((1 << bits) - 1)
    pair = b.or_(b.shl(b.and_(high, mask), b.const(bits)), b.and_(low, mask))
    if is_zero(rest) or bits == 16:
        return pair
    above = raw32(b, rest)
    if rest.suffix == ".H1":
        above = b.lshr(above, b.const(16))
    return b.or_(b.shl(above, b.const(2 * bits)), pair)


@meaning("F2IP")
def F2IP(i: Instruction, b: Emitter) -> None:
    """Two floats converted to saturated bytes, with the lower or upper half of the third source above."""
    only(i, "U8", "S8", "F32", "NTZ", "TRUNC")
    to = i.modifiers[0]
    d, x, y, z = i.operands
    high, low = (b.zext(b.op("f2i", "i8", src_f32(b, o), attr=(to[0] == "S", integral(i))), "i32") for o in (x, y))
    set32(b, d, joined(b, high, low, 8, z))
