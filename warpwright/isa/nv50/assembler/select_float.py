"""Selects instructions for 32-bit floats; half precision is computed in f32, and double precision is refused.

Sums and products of halves that are computed in f32 and then rounded to f16 equal a single rounding (24 bits are 2 * 11
+ 2).  For a multiply-add the sum's last bit must record that it was inexact (round to odd).
"""

from __future__ import annotations

from dataclasses import replace

from warpwright.isa.nv50.assembler.select_integer import add, compare, invert, leading_zeros, logic, narrow, shift, sub
from warpwright.isa.nv50.assembler.selector import Const, Float, Selector, Value, Word, refuse, select, width
from warpwright.isa.nv50.assembler.virtual_instructions import half, word
from warpwright.isa.ops import Op
from warpwright.isa.program import Operand

RELATIONS = {
    **{"oeq": "e", "one": "lg", "olt": "l", "ole": "le", "ogt": "g", "oge": "ge", "ueq": "eu", "une": "lgu"},
    **{"ult": "lu", "ule": "leu", "ugt": "gu", "uge": "geu", "ord": "lge", "uno": "u"},
}
SIGN = 0x80000000
NEGATIVE_INFINITY = 0xFF800000
HALF_SIGN = 0x8000
DOWN_32, UP_32 = 0x2F800000, 0x4F800000
"""2**-32 and 2**32 as floats."""


def single(s: Selector, op: Op, type: str | None = None) -> None:
    """Refuse precisions other than f32."""
    kind = op.type if type is None else type
    if kind == "f64":
        raise refuse("double precision needs compute capability 1.3")
    if kind != "f32":
        raise refuse(f"arithmetic of {kind} needs compute capability 5.3")


def arithmetic(s: Selector, opcode: str, before: tuple[str, ...], *after: object) -> int:
    d = s.result(opcode, before, *after)  # type: ignore[arg-type]
    s.clean.add(d)
    return d


def positive(s: Selector, value: Value) -> Value:
    """A source of an instruction that has a sign modifier but no magnitude modifier."""
    if isinstance(value, Float) and value.absolute:
        return s.raw(value)
    return value


# --- half precision -------------------------------------------------------------------------------
def widened(s: Selector, value: Value) -> int:
    """The f32 of an f16."""
    return arithmetic(s, "cvt", ("cvt", "f32"), "f16", half(s.reg(value), "l"))


def to_half(s: Selector, source: Operand, how: str = "rn") -> int:
    """The f16 of an f32, zero-extended."""
    marks = tuple(m for m, asked in (("neg", source.negate), ("abs", source.absolute)) if asked)
    d = s.new()
    s.emit("mov", "mov", "b32", word(d), s.src(Const(0)))
    s.emit("cvt", "cvt", *marks, how, "f16", half(d, "l"), "f32", replace(source, negate=False, absolute=False))
    return d


# --- sums and products ----------------------------------------------------------------------------
def total(s: Selector, x: Operand, y: Operand, how: str = "rn") -> int:
    return arithmetic(s, "fadd", ("add", how, "f32"), x, y)


def product(s: Selector, x: Operand, y: Operand, how: str = "rn") -> int:
    return arithmetic(s, "fmul", ("mul", how, "f32"), x, y)


def minus(number: int) -> Operand:
    return replace(word(number), negate=True)


def error_of_sum(s: Selector, x: int, y: int) -> int:
    """The rounding error of a sum rounded to nearest, exact (Knuth's two-sum); NaN if the sum overflows."""
    nearest = total(s, word(x), word(y))
    part = total(s, word(nearest), minus(x))
    rest = total(s, word(x), minus(total(s, word(nearest), minus(part))))
    return total(s, word(rest), word(total(s, word(y), minus(part))))


def sum_rounded_down(s: Selector, x: int, y: int) -> Word:
    """The sum rounded towards minus infinity: the sum towards zero, one step further if it is negative and inexact.  An
    exact zero is negative unless both addends are positive."""
    cut = total(s, word(x), word(y), "rz")
    zero = s.reg(Const(0))
    inexact = s.result("fset", ("set",), "lgu", "f32", word(error_of_sum(s, x, y)), word(zero))
    below = s.result("fset", ("set",), "l", "f32", word(cut), word(zero))
    finite = compare(s, "lg", "u32", cut, Const(NEGATIVE_INFINITY))
    further = logic(s, "and", logic(s, "and", inexact, below), logic(s, "and", finite, Const(1)))
    signs = logic(s, "and", logic(s, "or", x, y), Const(SIGN))
    nothing = s.result("fset", ("set",), "e", "f32", word(cut), word(zero))
    return logic(s, "or", add(s, cut, further), logic(s, "and", nothing, signs))


def directed_sum(s: Selector, x: int, y: int, how: str) -> Value:
    """A sum rounded down, or rounded up by negating the operands and the result."""
    if how == "rm":
        return sum_rounded_down(s, x, y)
    turned = (s.reg(logic(s, "xor", v, Const(SIGN))) for v in (x, y))
    return logic(s, "xor", sum_rounded_down(s, *turned), Const(SIGN))


@select("fadd", "fmul")
def add_mul(s: Selector, op: Op, x: Value, y: Value) -> Value:
    if op.type == "f16" and op.attr == "rn":
        a, b = widened(s, x), widened(s, y)
        return to_half(s, word((total if op.name == "fadd" else product)(s, word(a), word(b))))
    single(s, op)
    if op.attr not in ("rn", "rz") and op.name == "fmul":
        raise refuse(f"rounding .{op.attr} of f32 needs compute capability 2.0")
    first, second = (s.float_src(positive(s, v)) for v in (x, y))
    if op.attr not in ("rn", "rz"):
        return directed_sum(s, s.reg(x), s.reg(y), op.attr)
    return arithmetic(s, op.name, (op.name[1:], op.attr, "f32"), first, second)


@select("fma")
def fma(s: Selector, op: Op, x: Value, y: Value, z: Value) -> Value:
    """The multiply-add, whose product is truncated; one modifier gives the product's sign.

    Rounding up or down applies to the sum with the truncated product.
    """
    if op.type == "f16" and op.attr == "rn":
        return half_multiply_add(s, *(widened(s, v) for v in (x, y, z)))
    single(s, op)
    if op.attr in ("rm", "rp"):
        cut = product(s, s.src(x), s.src(y), "rz")
        return directed_sum(s, cut, s.reg(z), op.attr)
    if op.attr != "rn":
        raise refuse(f"rounding .{op.attr} of f32 needs compute capability 2.0")
    a, b, c = (s.float_src(positive(s, v)) for v in (x, y, z))
    sign = ("neg",) if a.negate != b.negate else ()
    plain = (replace(o, negate=False) for o in (a, b))
    d = s.new()
    s.emit("fmad", "add", "f32", word(d), *sign, "(", "mul", *plain, ")", c)
    s.clean.add(d)
    return d


def half_multiply_add(s: Selector, x: int, y: int, z: int) -> Value:
    """An f16 multiply-add: the product is exact in f32; the sum towards zero has its last bit set if inexact, so that
    the second rounding is correct."""
    exact = product(s, word(x), word(y))
    cut = total(s, word(exact), word(z), "rz")
    inexact = s.result("fset", ("set",), "lg", "f32", word(error_of_sum(s, exact, z)), s.src(Const(0)))
    return to_half(s, s.src(logic(s, "or", cut, logic(s, "and", inexact, Const(1)))))


@select("fneg", "fabs")
def sign(s: Selector, op: Op, x: Value) -> Value:
    if op.type == "f16":
        turned = op.name == "fneg"
        return logic(s, "xor" if turned else "and", s.raw(x), Const(HALF_SIGN if turned else HALF_SIGN - 1))
    single(s, op)
    found = x if isinstance(x, Float) else s.raw(x)
    if isinstance(found, Const):
        return Const(found.bits ^ SIGN if op.name == "fneg" else found.bits & ~SIGN)
    base = found if isinstance(found, Float) else Float(found)
    if op.name == "fabs":
        return Float(base.register, False, True)
    return Float(base.register, not base.negate, base.absolute)


@select("ftz", "canonical_nan")
def flushed(s: Selector, op: Op, x: Value) -> Value:
    """The arithmetic flushes subnormals anyway; other values are marked and flushed when their bits are read."""
    if op.type == "f16":
        if op.name == "ftz":
            raise refuse("f16 that flushes subnormals needs compute capability 5.3")
        return x  # a conversion's NaN is canonical
    single(s, op)
    if isinstance(x, Float) or isinstance(s.raw(x), Const):
        return x
    number = s.reg(x)
    return number if number in s.clean else Float(number)


@select("ftz_of")
def flushed_result(s: Selector, op: Op, x: Value, *rest: Value) -> Value:
    single(s, op)
    return x


@select("fmin", "fmax")
def extreme(s: Selector, op: Op, x: Value, y: Value) -> Value:
    if op.type != "f16":
        single(s, op)
    if op.attr != "number":
        raise refuse("minimum and maximum that give NaN need compute capability 8.0")
    if op.type == "f16":
        a, b = word(widened(s, x)), word(widened(s, y))
        return to_half(s, word(arithmetic(s, op.name, (op.name[1:], "f32"), a, b)))
    return arithmetic(s, op.name, (op.name[1:], "f32"), s.float_src(x), s.float_src(y))


@select("fcmp")
def fcmp(s: Selector, op: Op, x: Value, y: Value) -> Value:
    of = s.ops[op.args[0]].type
    if of == "f16":
        return s.result("fset", ("set",), RELATIONS[op.attr], "f32", word(widened(s, x)), word(widened(s, y)))
    single(s, op, of)
    return s.result("fset", ("set",), RELATIONS[op.attr], "f32", s.float_src(x), s.float_src(y))


@select("fround")
def fround(s: Selector, op: Op, x: Value) -> Value:
    if op.type == "f16":
        return to_half(s, word(convert(s, widened(s, x), (f"{op.attr}i", "f32"), "f32")))
    single(s, op)
    return convert(s, x, (f"{op.attr}i", "f32"), "f32")


def convert(s: Selector, x: Value, before: tuple[str, ...], of: str) -> int:
    """Convert an f32, applying its sign and magnitude modifiers."""
    source = s.float_src(x)
    marks = tuple(m for m, asked in (("neg", source.negate), ("abs", source.absolute)) if asked)
    return arithmetic(s, "cvt", ("cvt", *marks, *before), of, replace(source, negate=False, absolute=False))


@select("f2i")
def f2i(s: Selector, op: Op, x: Value) -> Value:
    of = s.ops[op.args[0]].type
    if of == "f16":
        x = widened(s, x)
    else:
        single(s, op, of)
    sign_, how = op.attr
    if op.type == "i64":
        return to_pair(s, convert(s, x, (f"{how}i", "f32"), "f32"), sign_)
    d = convert(s, x, (f"{how}i", f"{'s' if sign_ else 'u'}32"), "f32")
    s.clean.discard(d)
    bits = width(op.type)
    if bits == 32:
        return d
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign_ else (0, (1 << bits) - 1)
    type = "s32" if sign_ else "u32"
    d = s.result("imin", ("min", type), word(d), s.src(Const(high)))
    if sign_:
        d = s.result("imax", ("max", type), word(d), s.src(Const(low & 0xFFFFFFFF)))
    return narrow(s, op.type, d)


def to_pair(s: Selector, whole: int, signed: bool) -> Value:
    """Convert an integral float to a 64-bit integer: the upper word by a product with 2**-32, the lower word from the
    remainder; both steps are exact."""
    size = s.src(s.raw(Float(whole, False, True)))
    upper = convert(s, product(s, size, s.src(Const(DOWN_32))), ("rzi", "u32"), "f32")
    taken = product(s, word(arithmetic(s, "cvt", ("cvt", "rz", "f32"), "u32", word(upper))), s.src(Const(UP_32)))
    lower = convert(s, total(s, size, minus(taken)), ("rzi", "u32"), "f32")
    for number in (upper, lower):
        s.clean.discard(number)
    zero = s.src(Const(0))
    negative = s.result("fset", ("set",), "l", "f32", word(whole), zero)
    nothing = s.result("fset", ("set",), "u", "f32", word(whole), word(whole))
    found: tuple[Word, Word] = lower, upper
    if signed:
        large = compare(s, "ge", "u32", upper, Const(SIGN))
        found = s.choose(large, Const(SIGN ^ SIGN), lower), s.choose(large, Const(SIGN), upper)
        turned = negated_pair(s, found)
        most = logic(s, "and", large, invert(s, negative))  # beyond the largest value: all ones except the sign
        found = (
            logic(s, "or", s.choose(negative, turned[0], found[0]), most),
            logic(s, "xor", s.choose(negative, turned[1], found[1]), most),
        )
    else:
        found = s.choose(negative, Const(0), lower), s.choose(negative, Const(0), upper)
    return s.choose(nothing, Const(0), found[0]), s.choose(nothing, Const(SIGN), found[1])


def negated_pair(s: Selector, x: tuple[Word, Word]) -> tuple[Word, Word]:
    empty = compare(s, "e", "u32", x[0], Const(0))
    return sub(s, Const(0), x[0]), sub(s, invert(s, x[1]), empty)


def of_pair(s: Selector, x: Value, signed: bool, how: str) -> Value:
    """Convert a 64-bit integer to a float from its upper 32 significant bits; the last bit is set if any lower bit was
    set."""
    low, high = s.pair(x)
    negative: Word = shift(s, "s32", high, Const(31)) if signed else Const(0)
    if signed:
        turned = negated_pair(s, (low, high))
        low, high = s.choose(negative, turned[0], low), s.choose(negative, turned[1], high)
    zeros = leading_zeros(s, high)
    beyond = sub(s, Const(32), zeros)
    top = logic(s, "or", shift(s, "shl", high, zeros), shift(s, "u32", low, beyond))
    rest = compare(s, "lg", "u32", shift(s, "shl", low, zeros), Const(0))
    kept = logic(s, "or", top, logic(s, "and", rest, Const(1)))
    found = arithmetic(s, "cvt", ("cvt", how, "f32"), "u32", s.src(kept))
    scaled = add(s, found, shift(s, "shl", beyond, Const(23)))
    return logic(s, "or", scaled, logic(s, "and", negative, Const(SIGN)))


@select("i2f")
def i2f(s: Selector, op: Op, x: Value) -> Value:
    sign_, how = op.attr
    exact = op.type == "f16" and how == "rn"  # Values that overflow 32 bits are infinite in f16.
    if not exact:
        single(s, op)
    if isinstance(x, tuple):
        if how not in ("rn", "rz"):
            raise refuse(f"rounding .{how} of a 64-bit integer needs compute capability 2.0")
        return of_pair(s, x, sign_, how)
    of = s.ops[op.args[0]].type
    number = s.reg(x)
    type = ("s" if sign_ else "u") + of[1:]
    source = half(number, "l") if of == "i16" else word(number)
    made = arithmetic(s, "cvt", ("cvt", how, "f32"), type, source)
    return to_half(s, word(made)) if exact else made


@select("fcvt")
def fcvt(s: Selector, op: Op, x: Value) -> Value:
    of = s.ops[op.args[0]].type
    if {of, op.type} != {"f16", "f32"}:
        single(s, op, "f64" if "f64" in (of, op.type) else "bf16")
    if of == "f16":
        return arithmetic(s, "cvt", ("cvt", "f32"), "f16", half(s.reg(x), "l"))
    return to_half(s, s.float_src(x), op.attr)


@select("mufu")
def mufu(s: Selector, op: Op, x: Value) -> Value:
    """Functions of the SFU; a square root is the reciprocal of a reciprocal root, sines and powers take two
    instructions."""
    single(s, op)
    source = s.float_src(x)
    if op.attr in ("rcp", "rsq", "lg2"):
        name = {"rsq": "rsqrt"}.get(op.attr, op.attr)
        return arithmetic(s, name, (name, "f32"), source)
    if op.attr == "sqrt":
        root = arithmetic(s, "rsqrt", ("rsqrt", "f32"), source)
        return arithmetic(s, "rcp", ("rcp", "f32"), word(root))
    if op.attr == "ex2":
        ready = s.result("preex2", ("preex2", "f32"), source)
        return arithmetic(s, "ex2", ("ex2", "f32"), word(ready))
    name, _, unit = op.attr.partition(" ")
    if unit != "radians":
        raise refuse(f"{op.attr} of the special-function unit")
    ready = s.result("presin", ("presin", "f32"), source)
    return arithmetic(s, name, (name, "f32"), word(ready))


@select("nan_of")
def nan_of(s: Selector, op: Op, x: Value, *rest: Value) -> Value:
    single(s, op)
    return x
