"""Floating-point arithmetic (PTX ISA, sections 9.7.3 to 9.7.5): f32, f64, half precision and packed halves.

NaN results of arithmetic are canonical.  ``.approx`` functions follow the instruction sequences of compiled code around
the special-function unit, which flushes subnormals, so that arguments are scaled first.
"""

from __future__ import annotations

from collections.abc import Callable

from warpwright.isa.ops import Value
from warpwright.isa.ptx import meaning_integer as integer
from warpwright.isa.ptx.division import divide32, divide64, root32, root64
from warpwright.isa.ptx.meaning import (
    Emitter,
    elementwise,
    meaning,
    only,
    only_types,
    type_of,
    unsupported,
)
from warpwright.isa.ptx.syntax import Instruction

ROUNDINGS = ("rn", "rz", "rm", "rp")
FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64")
ONES = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF0000000000000}
SIGN_BITS = {"f16": 0x8000, "bf16": 0x8000, "f32": 0x80000000, "f64": 1 << 63}


def either(
    if_integer: Callable[[Instruction, Emitter], None], if_float: Callable[[Instruction, Emitter], None]
) -> Callable[[Instruction, Emitter], None]:
    """One opcode for integers and floats; the type selects the meaning."""

    def choose(i: Instruction, b: Emitter) -> None:
        (if_float if type_of(i) in FLOATS else if_integer)(i, b)

    return choose


def rounding(i: Instruction) -> str:
    return next((m for m in i.modifiers if m in ROUNDINGS), "rn")


def flush(b: Emitter, i: Instruction, x: Value) -> Value:
    return b.op("ftz", b.type_of(x), x) if "ftz" in i.modifiers else x


def saturate(b: Emitter, x: Value) -> Value:
    """Clamp to [0, 1]; NaN becomes +0."""
    type = b.type_of(x)
    low = b.op("fmax", type, x, b.const(0, type), attr="number")
    return b.op("fmin", type, low, b.const(ONES[type], type), attr="number")


def finish(b: Emitter, i: Instruction, x: Value, *factors: Value) -> Value:
    """Steps after rounding: canonical NaN, flush (of a product or multiply-add of ``factors``), saturation, ReLU."""
    type = b.type_of(x)
    if type != "f64":
        x = b.op("canonical_nan", type, x)
    if factors and "ftz" in i.modifiers:
        x = b.op("ftz_of", type, x, *factors, attr=rounding(i))
    else:
        x = flush(b, i, x)
    if "sat" in i.modifiers:
        return saturate(b, x)
    return b.op("fmax", type, x, b.const(0, type), attr="nan") if "relu" in i.modifiers else x


def arithmetic(name: str, inputs: int) -> Callable[[Instruction, Emitter], None]:
    """add, sub, mul, fma of all types."""

    def emit(i: Instruction, b: Emitter) -> None:
        only(i, "ftz", "sat", "relu", "oob", *ROUNDINGS)
        type = only_types(i, *FLOATS)
        if len(i.operands) != inputs + 1:
            raise unsupported(f"{i.opcode} takes {inputs + 1} operands, not {len(i.operands)}")

        def one(*values: Value) -> Value:
            kind = b.type_of(values[0])
            flushed = [flush(b, i, x) for x in values]
            plain = list(flushed)
            if i.opcode == "sub":
                flushed[1] = b.op("fneg", kind, flushed[1])
            result = b.op(name, kind, *flushed, attr=rounding(i))
            if kind == "f64":  # operand order of the machine: last factor, addend, first factor
                result = b.op("nan_of", kind, result, *plain[1:], plain[0])
            return finish(b, i, result, *(flushed if name != "fadd" else ()))

        b.result(i.operands[0], elementwise(b, type, one, *(b.source(o, type) for o in i.operands[1:])))

    return emit


def extreme(i: Instruction, b: Emitter) -> None:
    """min and max: return the other operand instead of NaN, or NaN with .NaN; .xorsign.abs applies the product's
    sign."""
    only(i, "ftz", "NaN", "xorsign", "abs")
    type = only_types(i, *FLOATS)
    how = "nan" if "NaN" in i.modifiers else "number"

    def one(*values: Value) -> Value:
        kind = b.type_of(values[0])
        x, y = (flush(b, i, v) for v in values)
        if "xorsign" not in i.modifiers:
            found = b.op("f" + i.opcode, kind, x, y, attr=how)
            # Chips after sm_62 have no instruction for this; their code selects among the operands' bits.
            by_selection = kind == "f64" and b.arch >= 70
            return b.op("nan_of", kind, found, y, x) if by_selection else b.op("canonical_nan", kind, found)
        found = b.op("f" + i.opcode, kind, b.op("fabs", kind, x), b.op("fabs", kind, y), attr=how)
        bits = {"f16": "i16", "bf16": "i16", "f32": "i32", "f64": "i64"}[kind]
        sign = b.and_(b.xor(b.bitcast(x, bits), b.bitcast(y, bits)), b.const(SIGN_BITS[kind], bits))
        return b.op("canonical_nan", kind, b.bitcast(b.or_(b.bitcast(found, bits), sign), kind))

    b.result(i.operands[0], elementwise(b, type, one, *(b.source(o, type) for o in i.operands[1:])))


def sign(name: str) -> Callable[[Instruction, Emitter], None]:
    """neg and abs: change only the sign bit."""

    def emit(i: Instruction, b: Emitter) -> None:
        only(i, "ftz")
        type = only_types(i, *FLOATS)

        def one(x: Value) -> Value:
            changed = b.op(name, b.type_of(x), flush(b, i, x))
            # The machine adds -0.0 in f64, which preserves the sign of a NaN.
            return b.op("nan_of", "f64", changed, x) if type == "f64" else b.op("canonical_nan", b.type_of(x), changed)

        b.result(i.operands[0], elementwise(b, type, one, b.source(i.operands[1], type)))

    return emit


meaning("add", "sub")(either(integer.add_sub, arithmetic("fadd", 2)))
meaning("mul")(either(integer.mul, arithmetic("fmul", 2)))
meaning("mad")(either(integer.mad, arithmetic("fma", 3)))
meaning("fma")(arithmetic("fma", 3))
meaning("min", "max")(either(integer.extreme, extreme))
meaning("abs")(either(integer.absolute, sign("fabs")))
meaning("neg")(either(integer.negate, sign("fneg")))


# --- quotients and roots --------------------------------------------------------------------------
def finish32(b: Emitter, i: Instruction, x: Value) -> Value:
    return flush(b, i, b.op("canonical_nan", b.type_of(x), x))


def mufu(b: Emitter, name: str, x: Value) -> Value:
    """The special-function unit; it flushes subnormal arguments and results to zero."""
    result = b.op("mufu", "f32", b.op("ftz", "f32", x), attr=name)
    return b.op("ftz", "f32", b.op("canonical_nan", "f32", result))


def mul32(b: Emitter, x: Value, y: Value) -> Value:
    return b.op("fmul", "f32", x, y, attr="rn")


def power(n: int) -> int:
    """The f32 bits of 2**n."""
    return 127 + n << 23


def is_small(b: Emitter, x: Value, limit: int) -> Value:
    """Whether |x| < 2**limit."""
    return b.fcmp("olt", b.op("fabs", "f32", x), b.const(power(limit), "f32"))


def scaled(b: Emitter, x: Value, small: Value, n: int) -> Value:
    """x, times 2**n where ``small``."""
    return b.select(small, mul32(b, x, b.const(power(n), "f32")), x)


def float_div(i: Instruction, b: Emitter) -> None:
    only(i, "approx", "full", "ftz", *ROUNDINGS)
    type = only_types(i, "f32", "f64")
    d, *inputs = i.operands
    if type == "f64":
        x, y = (b.source(o, type) for o in inputs)
        b.result(d, b.op("nan_of", "f64", divide64(b, x, y, rounding(i)), x, y))
        return
    x, y = (flush(b, i, b.source(o, type)) for o in inputs)
    if "approx" not in i.modifiers and "full" not in i.modifiers:
        quotient = finish32(b, i, divide32(b, x, y, rounding(i)))
        b.result(d, flushed_quotient(b, i, x, y, quotient) if "ftz" in i.modifiers else quotient)
        return
    # Scale the divisor so that its reciprocal is normal.
    by = b.const(power(0), "f32")
    if "full" in i.modifiers:
        large = b.fcmp("ogt", b.op("fabs", "f32", y), b.const(power(126), "f32"))
        by = b.select(large, b.const(power(-2), "f32"), by)
    if "ftz" not in i.modifiers:
        by = b.select(is_small(b, y, -126), b.const(power(24), "f32"), by)
    factors = mufu(b, "rcp", mul32(b, y, by)), mul32(b, x, by)
    quotient = b.op("canonical_nan", "f32", mul32(b, *factors))
    b.result(d, b.op("ftz_of", "f32", quotient, *factors, attr="rn") if "ftz" in i.modifiers else quotient)


def flushed_quotient(b: Emitter, i: Instruction, x: Value, y: Value, quotient: Value) -> Value:
    """Tininess is detected before the exponent is limited: a result that was rounded up to the smallest normal number
    becomes zero."""
    small = is_small(b, x, 3)
    larger = divide32(b, scaled(b, x, small, 64), y, rounding(i))
    tiny = b.and_(small, is_small(b, larger, -62))
    sign = b.and_(b.bitcast(quotient, "i32"), b.const(0x80000000))
    return b.select(tiny, b.bitcast(sign, "f32"), quotient)


meaning("div")(either(integer.div, float_div))


@meaning("rcp")
def rcp(i: Instruction, b: Emitter) -> None:
    only(i, "approx", "ftz", *ROUNDINGS)
    type = only_types(i, "f32", "f64")
    d, o = i.operands
    x = b.source(o, type)
    if "approx" not in i.modifiers:
        one = b.const(ONES[type], type)
        if type == "f64":
            b.result(d, b.op("nan_of", "f64", divide64(b, one, x, rounding(i)), x))
        else:
            b.result(d, finish32(b, i, divide32(b, one, flush(b, i, x), rounding(i))))
    elif type == "f64":
        b.result(d, upper_half(b, x, "rcp"))
    elif "ftz" in i.modifiers:
        b.result(d, mufu(b, "rcp", x))
    else:
        small = is_small(b, x, -126)
        large = b.fcmp("ogt", b.op("fabs", "f32", x), b.const(power(126), "f32"))
        inverse = mufu(b, "rcp", b.select(large, mul32(b, x, b.const(power(-2), "f32")), scaled(b, x, small, 24)))
        inverse = b.select(large, mul32(b, inverse, b.const(power(-2), "f32")), scaled(b, inverse, small, 24))
        b.result(d, finish32(b, i, inverse))


def upper_half(b: Emitter, x: Value, name: str) -> Value:
    """Approximate rcp and rsqrt of f64: computed from the argument's upper word to the result's upper word; the lower
    words are zero."""
    high = b.op("extract", "i32", b.bitcast(x, "i64"), attr=1)
    wide = b.bitcast(b.op("pack64", "i64", b.const(0), high), "f64")
    result = b.op("mufu", "f64", b.op("ftz", "f64", wide), attr=name)
    bits = b.bitcast(b.op("ftz", "f64", result), "i64")
    word = b.select(b.fcmp("uno", result, result), b.const(0x7FFFFFFF), b.op("extract", "i32", bits, attr=1))
    return b.bitcast(b.op("pack64", "i64", b.const(0), word), "f64")


@meaning("sqrt")
def sqrt(i: Instruction, b: Emitter) -> None:
    only(i, "approx", "ftz", *ROUNDINGS)
    type = only_types(i, "f32", "f64")
    d, o = i.operands
    x = b.source(o, type)
    if type == "f64":
        b.result(d, b.op("nan_of", "f64", root64(b, x, rounding(i)), x))
    elif "approx" not in i.modifiers:
        b.result(d, finish32(b, i, root32(b, flush(b, i, x), rounding(i))))
    else:
        b.result(d, finish32(b, i, rooted(b, i, x, "sqrt", -12)))


def rooted(b: Emitter, i: Instruction, x: Value, name: str, back: int) -> Value:
    """A root function; without .ftz, subnormal arguments are multiplied by 2**24 first and the result by 2**back."""
    if "ftz" in i.modifiers:
        return mufu(b, name, x)
    small = is_small(b, x, -126)
    return scaled(b, mufu(b, name, scaled(b, x, small, 24)), small, back)


@meaning("rsqrt")
def rsqrt(i: Instruction, b: Emitter) -> None:
    only(i, "approx", "ftz")
    type = only_types(i, "f32", "f64")
    d, o = i.operands
    x = b.source(o, type)
    if type == "f32":
        b.result(d, finish32(b, i, rooted(b, i, x, "rsq", 12)))
    elif "ftz" in i.modifiers:
        b.result(d, upper_half(b, x, "rsq"))
    else:
        b.result(d, reciprocal_root64(b, x))


def reciprocal_root64(b: Emitter, x: Value) -> Value:
    """rsqrt.approx.f64: the unit's value for the upper word, refined by one step of a cubic iteration, as in compiled
    code."""
    one = b.const(ONES["f64"], "f64")
    bits = b.bitcast(x, "i64")
    special = b.icmp("uge", b.sub(bits, b.const(1, "i64")), b.const((0x7FF << 52) - 1, "i64"))
    safe = b.select(special, one, x)
    small = b.fcmp("olt", safe, b.const(1 << 52, "f64"))
    safe = b.select(small, b.op("fmul", "f64", safe, b.const((1023 + 54) << 52, "f64"), attr="rn"), safe)
    y = upper_half(b, safe, "rsq")
    square = b.op("fmul", "f64", y, y, attr="rn")
    error = b.op("fma", "f64", safe, b.op("fneg", "f64", square), one, attr="rn")
    factor = b.op("fma", "f64", error, b.const(0x3FD8 << 48, "f64"), b.const(0x3FE0 << 48, "f64"), attr="rn")
    y = b.op("fma", "f64", factor, b.op("fmul", "f64", y, error, attr="rn"), y, attr="rn")
    y = b.select(small, b.op("fmul", "f64", y, b.const((1023 + 27) << 52, "f64"), attr="rn"), y)
    magnitude = b.and_(bits, b.const((1 << 63) - 1, "i64"))
    sign_bit = b.and_(bits, b.const(1 << 63, "i64"))
    zero = b.icmp("eq", magnitude, b.const(0, "i64"))
    infinite = b.icmp("eq", bits, b.const(0x7FF << 52, "i64"))
    other = b.select(zero, b.or_(sign_bit, b.const(0x7FF << 52, "i64")), b.const(0xFFF8 << 48, "i64"))
    other = b.select(infinite, b.const(0, "i64"), other)
    return b.op("nan_of", "f64", b.select(special, b.bitcast(other, "f64"), y), x)


# --- transcendental functions ---------------------------------------------------------------------
@meaning("sin", "cos")
def sin(i: Instruction, b: Emitter) -> None:
    """The unit takes turns: the argument is multiplied by 1/(2 pi), rounded towards zero."""
    only(i, "approx", "ftz")
    only_types(i, "f32")
    d, o = i.operands
    turns = b.op("fmul", "f32", flush(b, i, b.source(o, "f32")), b.const(0x3E22F983, "f32"), attr="rz")
    b.result(d, mufu(b, i.opcode, flush(b, i, turns)))


@meaning("lg2")
def lg2(i: Instruction, b: Emitter) -> None:
    only(i, "approx", "ftz")
    only_types(i, "f32")
    d, o = i.operands
    x = b.source(o, "f32")
    if "ftz" in i.modifiers:
        b.result(d, mufu(b, "lg2", x))
        return
    small = is_small(b, x, -126)
    y = mufu(b, "lg2", scaled(b, x, small, 24))
    b.result(d, b.select(small, b.op("fadd", "f32", y, b.const(0xC1C00000, "f32"), attr="rn"), y))


def exp2(b: Emitter, x: Value, ftz: bool) -> Value:
    """2**x; without .ftz, arguments below -126 are halved first and the result is squared."""
    if ftz:
        return mufu(b, "ex2", x)
    small = b.fcmp("olt", x, b.const(0xC2FC0000, "f32"))
    y = mufu(b, "ex2", b.select(small, mul32(b, x, b.const(0x3F000000, "f32")), x))
    return b.select(small, mul32(b, y, y), y)


@meaning("ex2")
def ex2(i: Instruction, b: Emitter) -> None:
    only(i, "approx", "ftz")
    type = only_types(i, "f32", "f16", "f16x2", "bf16", "bf16x2")
    if type != "f32":
        b.result(i.operands[0], special(b, i, type))
        return
    b.result(i.operands[0], exp2(b, b.source(i.operands[1], type), "ftz" in i.modifiers))


@meaning("tanh")
def tanh(i: Instruction, b: Emitter) -> None:
    only(i, "approx")
    type = only_types(i, "f32", "f16", "f16x2", "bf16", "bf16x2")
    b.result(i.operands[0], special(b, i, type))


def special(b: Emitter, i: Instruction, type: str) -> Value:
    """The special-function unit's own form for the type."""

    def one(x: Value) -> Value:
        return b.op("canonical_nan", b.type_of(x), b.op("mufu", b.type_of(x), x, attr=i.opcode))

    return elementwise(b, type, one, b.source(i.operands[1], type))


# --- tests ----------------------------------------------------------------------------------------
@meaning("copysign")
def copysign(i: Instruction, b: Emitter) -> None:
    """The first operand's sign on the second."""
    only(i)
    type = only_types(i, "f32", "f64")
    d, o1, o2 = i.operands
    bits = "b32" if type == "f32" else "b64"
    x, y = b.source(o1, bits), b.source(o2, bits)
    mask = b.like(SIGN_BITS[type], x)
    b.result(d, b.or_(b.and_(x, mask), b.and_(y, b.not_(mask))))


CLASSES = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")


@meaning("testp")
def testp(i: Instruction, b: Emitter) -> None:
    only(i, *CLASSES)
    type = only_types(i, "f32", "f64")
    d, o = i.operands
    x = b.source(o, "b32" if type == "f32" else "b64")
    size = b.and_(x, b.like(SIGN_BITS[type] - 1, x))
    infinity = b.like(0x7F800000 if type == "f32" else 0x7FF << 52, x)
    smallest = b.like(0x00800000 if type == "f32" else 1 << 52, x)
    finite = b.icmp("ult", size, infinity)
    tests: dict[str, Callable[[], Value]] = {
        "finite": lambda: finite,
        "infinite": lambda: b.icmp("eq", size, infinity),
        "number": lambda: b.icmp("ule", size, infinity),
        "notanumber": lambda: b.icmp("ugt", size, infinity),
        # Compiled code treats zero as normal.
        "normal": lambda: b.or_(b.and_(finite, b.icmp("uge", size, smallest)), b.icmp("eq", size, b.like(0, x))),
        "subnormal": lambda: b.and_(b.icmp("ult", size, smallest), b.icmp("ne", size, b.like(0, x))),
    }
    b.result(d, tests[next(m for m in i.modifiers if m in CLASSES)]())
