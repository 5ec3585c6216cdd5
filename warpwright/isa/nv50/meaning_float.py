"""Floats: the SP's arithmetic and the SFU's functions.

Subnormal sources are read as zero of the same sign, subnormal results are flushed after rounding, and NaN results are
canonical (seed: Lindholm et al., IEEE Micro 2008, "Streaming processor").  The multiply-add truncates its product to 24
bits and rounds the sum; a product is rounded, not truncated, where the addend is zero (envytools, nvhw).

Functions of the SFU are those of later chips (``engine/silicon_mufu.py``): reciprocal, reciprocal root, logarithm,
power, sine and cosine equal envytools' model of the unit bit for bit, which its author tested against G80 cards.
"""

from __future__ import annotations

from warpwright.isa.nv50.emitter import Nv50Emitter, unsupported
from warpwright.isa.nv50.meaning import finish, finish_float, float_source, is_half, meaning, source, written
from warpwright.isa.ops import Value
from warpwright.isa.program import Instruction, Kind, Operand

ONE = 0x3F800000
RELATIONS = {
    **{"l": "olt", "e": "oeq", "le": "ole", "g": "ogt", "lg": "one", "ge": "oge", "lge": "ord", "u": "uno"},
    **{"lu": "ult", "eu": "ueq", "leu": "ule", "gu": "ugt", "lgu": "une", "geu": "uge"},
}
FIXED_NAN, FIXED_INFINITY = 0x40000000, 0x40800000
"""Results of presin and preex2 for infinities and NaN, without the sign bit."""
PI_HALVES = 0xA2F983
"""2/pi in 24 bits; the first bit has the weight 2**-1."""


def plain(b: Nv50Emitter, x: Value) -> Value:
    """Apply the machine's rules to a result: canonical NaN, no subnormals."""
    return b.op("ftz", "f32", b.op("canonical_nan", "f32", x))


def saturated(b: Nv50Emitter, i: Instruction, x: Value) -> Value:
    """Clamp to [0, 1] if requested; NaN becomes 0."""
    if "sat" not in i.modifiers:
        return x
    low = b.op("fmax", "f32", x, b.const(0, "f32"), attr="number")
    return b.op("fmin", "f32", low, b.const(ONE, "f32"), attr="number")


def immediate_marks(i: Instruction) -> int:
    """Number of separate ``neg`` tokens, before an immediate or a product."""
    return i.modifiers.count("neg")


def rounding(i: Instruction) -> str:
    return "rz" if "rz" in i.modifiers else "rn"


@meaning("fadd", "fmul")
def arithmetic(i: Instruction, b: Nv50Emitter) -> None:
    o1, o2 = written(i)[2]
    x, y = float_source(b, o1), float_source(b, o2)
    if immediate_marks(i):
        y = b.op("fneg", "f32", y)
    result = b.op(i.opcode, "f32", x, y, attr=rounding(i))
    finish_float(b, i, saturated(b, i, plain(b, result)))


@meaning("fmad")
def fmad(i: Instruction, b: Nv50Emitter) -> None:
    o1, o2, o3 = written(i)[2]
    x, y, z = (float_source(b, o) for o in (o1, o2, o3))
    if immediate_marks(i):
        x = b.op("fneg", "f32", x)
    finish_float(b, i, saturated(b, i, plain(b, b.op("fmad", "f32", x, y, z))))


@meaning("fmin", "fmax")
def extreme(i: Instruction, b: Nv50Emitter) -> None:
    o1, o2 = written(i)[2]
    result = b.op(i.opcode, "f32", float_source(b, o1), float_source(b, o2), attr="number")
    finish_float(b, i, b.op("canonical_nan", "f32", result))


@meaning("fset")
def fset(i: Instruction, b: Nv50Emitter) -> None:
    """All ones where the relation holds, else zero."""
    o1, o2 = written(i)[2]
    x, y = float_source(b, o1), float_source(b, o2)
    relation = i.modifiers[i.modifiers.index("f32") - 1]
    if relation in ("never", "always"):
        holds = b.const(int(relation == "always"), "i1")
    else:
        holds = b.fcmp(RELATIONS[relation], x, y)
    finish(b, i, b.sext(holds, "i32"))


@meaning("slct")
def slct(i: Instruction, b: Nv50Emitter) -> None:
    """Returns the first source where the third is positive or zero, else the second."""
    o1, o2, o3 = written(i)[2]
    chosen = b.fcmp("oge", float_source(b, o3), b.const(0, "f32"))
    finish(b, i, b.select(chosen, source(b, o1), source(b, o2)))


# --- functions ------------------------------------------------------------------------------------
@meaning("rcp", "rsqrt", "lg2")
def function(i: Instruction, b: Nv50Emitter) -> None:
    name = {"rcp": "rcp", "rsqrt": "rsq", "lg2": "lg2"}[i.opcode]
    finish_float(b, i, plain(b, b.op("mufu", "f32", float_source(b, written(i)[2][0]), attr=name)))


@meaning("presin", "preex2")
def prepare(i: Instruction, b: Nv50Emitter) -> None:
    """The argument in fixed point with 23 fraction bits and its sign in bit 31; for presin in quarter turns (envytools'
    documentation, "Transcendental instructions", and its model of the unit)."""
    bits = source(b, written(i)[2][0])
    o = written(i)[2][0]
    if o.absolute:
        bits = b.and_(bits, b.const(0x7FFFFFFF))
    if o.negate:
        bits = b.xor(bits, b.const(0x80000000))
    exponent = b.and_(b.lshr(bits, b.const(23)), b.const(0xFF))
    fraction = b.and_(bits, b.const(0x7FFFFF))
    whole = b.or_(fraction, b.const(0x800000))
    if i.opcode == "presin":
        wide = b.mul(b.zext(whole, "i64"), b.const(PI_HALVES, "i64"))
        whole = b.trunc(b.lshr(wide, b.const(16, "i64")), "i32")
        up = b.sub(exponent, b.const(127 + 8))
    else:
        up = b.sub(exponent, b.const(127))
    negative = b.icmp("slt", up, b.const(0))
    moved = b.select(negative, b.lshr(whole, b.sub(b.const(0), up)), b.shl(whole, up))
    if i.opcode == "presin":
        moved = b.and_(moved, b.const(0x1FFFFFF))
    else:
        moved = b.select(b.icmp("sge", up, b.const(7)), b.const(FIXED_INFINITY), moved)
    moved = b.select(b.icmp("eq", exponent, b.const(0)), b.const(0), moved)
    special = b.select(b.icmp("eq", fraction, b.const(0)), b.const(FIXED_INFINITY), b.const(FIXED_NAN))
    moved = b.select(b.icmp("eq", exponent, b.const(0xFF)), special, moved)
    finish(b, i, b.or_(moved, b.and_(bits, b.const(0x80000000))))


@meaning("sin", "cos", "ex2")
def prepared(i: Instruction, b: Nv50Emitter) -> None:
    """Apply an SFU function to the result of presin or preex2."""
    bits = source(b, written(i)[2][0])
    size = b.and_(bits, b.const(0x7FFFFFFF))
    # The 25 bits of a sine's argument exceed f32's precision: the first one, half a turn, becomes the result's sign.
    digits = size if i.opcode == "ex2" else b.and_(size, b.const(0xFFFFFF))
    x = b.op("i2f", "f32", digits, attr=(False, "rn"))
    # 23 fraction bits; the unit's model takes turns for sines.
    scale = -23 if i.opcode == "ex2" else -25
    x = b.op("fmul", "f32", x, b.const(127 + scale << 23, "f32"), attr="rn")
    x = b.select(b.icmp("slt", bits, b.const(0)), b.op("fneg", "f32", x), x)
    x = b.op("mufu", "f32", x, attr=i.opcode)
    sign = b.icmp("slt", bits, b.const(0))
    nan, infinity = b.const(0x7FFFFFFF, "f32"), b.const(0x7F800000, "f32")
    if i.opcode == "ex2":
        infinite = b.icmp("eq", size, b.const(FIXED_INFINITY))
        x = b.select(infinite, b.select(sign, b.const(0, "f32"), infinity), x)
        x = b.select(b.icmp("eq", size, b.const(FIXED_NAN)), nan, x)
    else:
        x = b.select(b.icmp("ne", b.and_(size, b.const(1 << 24)), b.const(0)), b.op("fneg", "f32", x), x)
        x = b.select(b.icmp("uge", size, b.const(FIXED_NAN)), nan, x)
    finish_float(b, i, saturated(b, i, plain(b, x)))


# --- conversions ----------------------------------------------------------------------------------
FLOAT_TYPES, ROUNDED = ("f16", "f32", "f64"), {"rni": "rn", "rmi": "rm", "rpi": "rp", "rzi": "rz"}


def types_of(i: Instruction) -> tuple[str, str]:
    """Destination and source types, the last words of the row."""
    found = [m for m in i.modifiers if m in FLOAT_TYPES or (m[0] in "us" and m[1:].isdigit())]
    return found[0], found[1]


def signed_source(b: Nv50Emitter, o: Operand, type: str) -> tuple[Value, Value]:
    """An integer source, extended from its type to i32, and whether it is negative."""
    bits = int(type[1:])
    x = source(b, o, 16 if is_half(o) or (o.kind is not Kind.REGISTER and bits < 32) else 32)
    if bits < int(b.type_of(x)[1:]):
        x = b.trunc(x, f"i{bits}")
    x = b.sext(x, "i32") if type[0] == "s" else b.zext(x, "i32")
    return x, b.icmp("slt", x, b.const(0))


@meaning("cvt")
def cvt(i: Instruction, b: Nv50Emitter) -> None:
    """Applies magnitude, sign, conversion with rounding, and saturation, in this order."""
    to, of = types_of(i)
    if "f64" in (to, of) or "64" in to + of:
        raise unsupported("conversions of 64 bits have no meaning yet")
    o = written(i)[2][0]
    if of in FLOAT_TYPES:
        value = _from_float(b, i, o, of, to)
    else:
        value = _from_integer(b, i, o, of, to)
    if to in FLOAT_TYPES:
        if b.type_of(value) == "f32":
            finish_float(b, i, value)
        else:
            finish(b, i, b.bitcast(value, "i16"))
        return
    finish(b, i, value)


def _from_float(b: Nv50Emitter, i: Instruction, o: Operand, of: str, to: str) -> Value:
    x = b.bitcast(source(b, o, 16), "f16") if of == "f16" else b.bitcast(source(b, o), "f32")
    x = b.op("fcvt", "f32", x, attr="rn") if of == "f16" else b.op("ftz", "f32", x)
    if "abs" in i.modifiers:
        x = b.op("fabs", "f32", x)
    if "neg" in i.modifiers:
        x = b.op("fneg", "f32", x)
    towards = next((ROUNDED[m] for m in i.modifiers if m in ROUNDED), None)
    if to not in FLOAT_TYPES:
        sign = to[0] == "s"
        wide = b.op("f2i", "i32", x, attr=(sign, towards))
        return _clamped(b, wide, to, sign)
    if towards is not None:
        x = b.op("fround", "f32", x, attr=towards)
    x = saturated(b, i, plain(b, x))
    if to == "f32":
        return x
    return b.op("fcvt", "f16", x, attr=next((m for m in i.modifiers if m in ("rn", "rm", "rp", "rz")), "rn"))


def _clamped(b: Nv50Emitter, x: Value, to: str, from_signed: bool) -> Value:
    """An i32 clamped to an integer type; i16 for types stored in half registers."""
    bits = int(to[1:])
    if to[0] == "s" and bits < 32:
        limit = (1 << bits - 1) - 1
        low, high = ("smax", "smin") if from_signed else ("umax", "umin")
        x = b.binary(high, x, b.const(limit))
        x = b.binary(low, x, b.const(-limit - 1)) if from_signed else x
    elif to[0] == "u":
        x = b.binary("smax", x, b.const(0)) if from_signed else x
        x = b.binary("umin", x, b.const((1 << bits) - 1)) if bits < 32 else x
    elif not from_signed:
        x = b.binary("umin", x, b.const(0x7FFFFFFF))
    return x


def _from_integer(b: Nv50Emitter, i: Instruction, o: Operand, of: str, to: str) -> Value:
    x, negative = signed_source(b, o, of)
    sign = of[0] == "s"
    if "abs" in i.modifiers and sign:
        x = b.select(negative, b.sub(b.const(0), x), x)
    if "neg" in i.modifiers:
        x = b.sub(b.const(0), x)
        sign = True
    if to not in FLOAT_TYPES:
        return _clamped(b, x, to, sign)
    how = next((m for m in i.modifiers if m in ("rn", "rm", "rp", "rz")), "rn")
    if to == "f16":
        wide = b.op("i2f", "f32", x, attr=(sign, "rz"))
        return b.op("fcvt", "f16", wide, attr=how)
    return saturated(b, i, b.op("i2f", "f32", x, attr=(sign, how)))
