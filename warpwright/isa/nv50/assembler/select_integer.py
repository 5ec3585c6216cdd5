"""Selects integer instructions: sums, products from 16-bit parts, shifts, comparisons, bit operations; 64-bit values as
pairs."""

from __future__ import annotations

from collections.abc import Callable

from warpwright.isa.nv50.assembler.selector import (
    CARRY_REGISTER,
    MASK32,
    Const,
    Selector,
    Value,
    Word,
    refuse,
    select,
    width,
)
from warpwright.isa.nv50.assembler.virtual_instructions import half, word
from warpwright.isa.nv50.fields import condition_register, immediate
from warpwright.isa.ops import Op
from warpwright.isa.program import Kind, Operand

NOWHERE = Operand(Kind.NAME, name="#")
TRUE, FALSE = Const(MASK32), Const(0)
SHORT = 0xFFFF
"""The largest factor for which a product is one instruction."""


# --- 32-bit building blocks -----------------------------------------------------------------------
def add(s: Selector, x: Word, y: Word) -> Word:
    x, y = s.raw(x), s.raw(y)
    if isinstance(x, Const):
        x, y = y, x
    if isinstance(x, Const) and isinstance(y, Const):
        return Const((x.bits + y.bits) & MASK32)
    if y == Const(0):
        return x
    return s.result("iadd", ("add", "b32"), s.src(x), s.src_or_imm(y))


def sub(s: Selector, x: Word, y: Word) -> Word:
    x, y = s.raw(x), s.raw(y)
    if isinstance(y, Const):
        return add(s, x, Const(-y.bits & MASK32))
    if isinstance(x, Const):
        return s.result("iadd", ("subr", "b32"), s.src(y), s.src_or_imm(x))
    return s.result("iadd", ("sub", "b32"), s.src(x), s.src(y))


def logic(s: Selector, how: str, x: Word, y: Word) -> Word:
    x, y = s.raw(x), s.raw(y)
    if isinstance(x, Const):
        x, y = y, x
    if isinstance(x, Const) and isinstance(y, Const):
        return Const({"and": x.bits & y.bits, "or": x.bits | y.bits, "xor": x.bits ^ y.bits}[how])
    if isinstance(y, Const) and y.bits in (0, MASK32):
        if how == "xor" and y.bits:
            return invert(s, x)
        if how == "and":
            return x if y.bits else y
        return y if y.bits else x
    found = s.result("logic", (how, "b32"), s.src(x), s.src_or_imm(y))
    if how == "and" and isinstance(y, Const) and y.bits <= SHORT:
        s.short.add(found)
    return found


def invert(s: Selector, x: Word) -> Word:
    x = s.raw(x)
    if isinstance(x, Const):
        return Const(~x.bits & MASK32)
    source = word(x)
    return s.result("logic", ("mov2", "b32"), source, Operand(Kind.REGISTER, x, invert=True))


def shift(s: Selector, how: str, x: Word, n: Word) -> Word:
    """``shl``, ``u32`` or ``s32``; amounts of 32 and more return 0 or the sign."""
    x, n = s.raw(x), s.raw(n)
    if isinstance(n, Const):
        if n.bits == 0:
            return x
        if n.bits >= 32 and how != "s32":
            return FALSE
        if isinstance(x, Const):
            amount = min(n.bits, 32)
            signed = x.bits - ((x.bits >> 31) << 32) if how == "s32" else x.bits
            return Const((x.bits << amount if how == "shl" else signed >> amount) & MASK32)
    amount_token = immediate(min(n.bits, 127)) if isinstance(n, Const) else word(n)
    if how == "shl":
        return s.result("shl", ("shl", "b32"), s.src(x), amount_token)
    found = s.result("shr", ("shr", how), s.src(x), amount_token)
    if how == "u32" and isinstance(n, Const) and n.bits >= 16:
        s.short.add(found)
    return found


def compare(s: Selector, relation: str, type: str, x: Word, y: Word) -> Word:
    """All ones where the relation (l, e, le …) holds, else zero."""
    return s.result("iset", ("set",), relation, type, s.src(x), s.src(y))


def multiply(s: Selector, x: Word, y: Word) -> Word:
    """The lower 32 bits of a product."""
    x, y = s.raw(x), s.raw(y)
    if isinstance(x, Const):
        x, y = y, x
    if isinstance(x, Const) and isinstance(y, Const):
        return Const(x.bits * y.bits & MASK32)
    if isinstance(y, Const):
        if y.bits == 0:
            return y
        if y.bits & (y.bits - 1) == 0:
            return shift(s, "shl", x, Const(y.bits.bit_length() - 1))
    a, b = s.reg(x), s.reg(y)
    if is_short(s, x):
        a, b, x, y = b, a, y, x
    if is_short(s, x):
        return s.result("mul16", ("mul",), "u16", half(a, "l"), "u16", half(b, "l"))
    crossed = s.result("mul16", ("mul",), "u16", half(a, "h"), "u16", half(b, "l"))
    if not is_short(s, y):
        crossed = product_and_sum(s, half(a, "l"), half(b, "h"), crossed)
    upper = s.result("shl", ("shl", "b32"), word(crossed), immediate(16))
    return product_and_sum(s, half(a, "l"), half(b, "l"), upper)


def is_short(s: Selector, x: Word) -> bool:
    """Whether a word is known to be less than 2**16."""
    return x.bits <= SHORT if isinstance(x, Const) else x in s.short


def multiply24(s: Selector, x: Word, y: Word, signed: bool, high: bool) -> Word:
    """Bits 31 to 0 or bits 47 to 16 of a product of 24-bit numbers: one instruction on these chips."""
    kind = "s24" if signed else "u24"
    return s.result("mul24", ("mul",), *(("high",) if high else ()), kind, s.src(x), s.src(y))


def product_and_sum(s: Selector, x: Operand, y: Operand, z: int) -> int:
    """The product of two halves plus a word."""
    return s.result("imad", ("add",), "(", "mul", "u16", x, y, ")", word(z))


def multiply_high(s: Selector, x: Word, y: Word) -> Word:
    """The upper 32 bits of an unsigned product, from four products of halves."""
    a, b = s.reg(x), s.reg(y)
    low = s.result("mul16", ("mul",), "u16", half(a, "l"), "u16", half(b, "l"))
    first = s.result("mul16", ("mul",), "u16", half(a, "h"), "u16", half(b, "l"))
    # At most 0xffff * 0xffff + 0xffff each: no carry is lost.
    first = s.result("iadd", ("add", "b32"), word(first), s.src(shift(s, "u32", low, Const(16))))
    second = product_and_sum(s, half(a, "l"), half(b, "h"), s.reg(logic(s, "and", first, Const(0xFFFF))))
    upper = add(s, shift(s, "u32", first, Const(16)), shift(s, "u32", second, Const(16)))
    return product_and_sum(s, half(a, "h"), half(b, "h"), s.reg(upper))


def multiply_high_signed(s: Selector, x: Word, y: Word) -> Word:
    x, y = s.raw(x), s.raw(y)
    high = multiply_high(s, x, y)
    high = sub(s, high, logic(s, "and", shift(s, "s32", x, Const(31)), y))
    return sub(s, high, logic(s, "and", shift(s, "s32", y, Const(31)), x))


# --- 64 bits --------------------------------------------------------------------------------------
def add_pair(s: Selector, x: Value, y: Value, subtract: bool = False) -> Value:
    """A sum of two-word values; the carry passes through a condition register."""
    (x0, x1), (y0, y1) = s.pair(x), s.pair(y)
    if isinstance(x0, Const) and isinstance(y0, Const) and isinstance(x1, Const) and isinstance(y1, Const):
        a, b = x0.bits | x1.bits << 32, y0.bits | y1.bits << 32
        total = a - b if subtract else a + b
        return Const(total & MASK32), Const(total >> 32 & MASK32)
    if y0 == Const(0):
        return x0, (sub if subtract else add)(s, x1, y1)
    low, high, c = s.new(), s.new(), condition_register(CARRY_REGISTER)
    a0, b0, a1 = s.src(x0), s.src(y0), s.src(x1)
    b1 = s.src(invert(s, y1)) if subtract else s.src(y1)
    s.emit("iadd", "sub" if subtract else "add", "b32", c, word(low), a0, b0)
    s.emit("iadd", "addc", "b32", word(high), a1, b1, c)
    return low, high


def multiply_pair(s: Selector, x: Value, y: Value) -> Value:
    (x0, x1), (y0, y1) = s.pair(x), s.pair(y)
    high = multiply_high(s, x0, y0)
    high = add(s, high, multiply(s, x0, y1))
    return multiply(s, x0, y0), add(s, high, multiply(s, x1, y0))


def shift_pair(s: Selector, name: str, x: Value, amount: Word) -> Value:
    """Shifts of 64-bit values.  An amount outside 0 to 31 gives 0 in each partial shift to which it does not apply."""
    low, high = s.pair(x)
    n = s.raw(amount)
    over, under = sub(s, n, Const(32)), sub(s, Const(32), n)
    if name == "shl":
        upper = logic(s, "or", shift(s, "shl", high, n), shift(s, "u32", low, under))
        return shift(s, "shl", low, n), logic(s, "or", upper, shift(s, "shl", low, over))
    lower = logic(s, "or", shift(s, "u32", low, n), shift(s, "shl", high, under))
    if name == "lshr":
        return logic(s, "or", lower, shift(s, "u32", high, over)), shift(s, "u32", high, n)
    large = compare(s, "ge", "u32", n, Const(32))
    return s.choose(large, shift(s, "s32", high, over), lower), shift(s, "s32", high, n)


def compare_pair(s: Selector, name: str, x: Value, y: Value) -> Word:
    """Relations of 64-bit values: the upper words decide unless they are equal."""
    (x0, x1), (y0, y1) = s.pair(x), s.pair(y)
    if name in ("eq", "ne"):
        apart = logic(s, "or", logic(s, "xor", x0, y0), logic(s, "xor", x1, y1))
        return compare(s, "e" if name == "eq" else "lg", "u32", apart, Const(0))
    type = "s32" if name[0] == "s" else "u32"
    strict, whole = RELATIONS[name[1:]][0], RELATIONS[name[1:]]
    upper = compare(s, strict, type, x1, y1)
    lower = logic(s, "and", compare(s, "e", "u32", x1, y1), compare(s, whole, "u32", x0, y0))
    return logic(s, "or", upper, lower)


# --- operations -----------------------------------------------------------------------------------
RELATIONS = {"lt": "l", "le": "le", "gt": "g", "ge": "ge"}


def narrow(s: Selector, type: str, x: Word) -> Word:
    """Clear the bits above a narrow integer."""
    bits = width(type)
    return x if bits in (1, 32) else logic(s, "and", x, Const((1 << bits) - 1))


def extended(s: Selector, type: str, x: Word) -> Word:
    """A sign-extended narrow integer."""
    bits, x = width(type), s.raw(x)
    if bits in (1, 32):
        return x
    if isinstance(x, Const):
        return Const((x.bits - ((x.bits >> bits - 1) << bits)) & MASK32)
    if bits == 16:
        return s.result("cvt", ("cvt", "s32"), "s16", half(x, "l"))
    return s.result("cvt", ("cvt", "s32"), "s8", word(x))


def words_of(s: Selector, op: Op, value: Value) -> Word:
    if isinstance(value, tuple):
        raise refuse(f"{op.name} of {op.type}")
    return value


@select("add", "sub")
def sum_(s: Selector, op: Op, x: Value, y: Value) -> Value:
    if op.type == "i64":
        return add_pair(s, x, y, op.name == "sub")
    return narrow(s, op.type, (add if op.name == "add" else sub)(s, words_of(s, op, x), words_of(s, op, y)))


@select("mul")
def mul(s: Selector, op: Op, x: Value, y: Value) -> Value:
    if op.type == "i64":
        return multiply_pair(s, x, y)
    if op.attr:
        return multiply24(s, s.raw(x), s.raw(y), *op.attr)
    return narrow(s, op.type, multiply(s, words_of(s, op, x), words_of(s, op, y)))


@select("umulhi", "smulhi")
def mulhi(s: Selector, op: Op, x: Value, y: Value) -> Value:
    if op.type != "i32":
        return _wide_high(s, op, x, y)
    return (multiply_high if op.name == "umulhi" else multiply_high_signed)(s, s.raw(x), s.raw(y))


def _wide_high(s: Selector, op: Op, x: Value, y: Value) -> Value:
    """The upper half of a product of 64-bit values."""
    if op.type != "i64":
        raise refuse(f"{op.name} of {op.type}")
    (x0, x1), (y0, y1) = s.pair(x), s.pair(y)
    zero = Const(0)
    middle = add_pair(s, (multiply(s, x1, y0), multiply_high(s, x1, y0)), (multiply_high(s, x0, y0), zero))
    m0, m1 = s.pair(middle)
    other = add_pair(s, (multiply(s, x0, y1), multiply_high(s, x0, y1)), (m0, zero))
    high = add_pair(s, (multiply(s, x1, y1), multiply_high(s, x1, y1)), (m1, zero))
    high = add_pair(s, high, (s.pair(other)[1], zero))
    if op.name == "smulhi":
        for a, b in ((x, y), (y, x)):
            sign = shift(s, "s32", s.pair(a)[1], Const(31))
            high = add_pair(s, high, tuple(logic(s, "and", sign, w) for w in s.pair(b)), subtract=True)
    return high


def _each(op: Op, function: Callable[[Word, Word], Word], x: Value, y: Value) -> Value:
    """Apply an operation to each word."""
    if isinstance(x, tuple) and isinstance(y, tuple):
        return tuple(function(a, b) for a, b in zip(x, y, strict=True))
    assert not isinstance(x, tuple)
    assert not isinstance(y, tuple)
    return function(x, y)


@select("and", "or", "xor")
def bitwise(s: Selector, op: Op, x: Value, y: Value) -> Value:
    return _each(op, lambda a, b: logic(s, op.name, a, b), x, y)


@select("not")
def not_(s: Selector, op: Op, x: Value) -> Value:
    if isinstance(x, tuple):
        return tuple(invert(s, w) for w in x)
    return narrow(s, op.type, invert(s, x))


@select("shl", "lshr", "ashr")
def shifts(s: Selector, op: Op, x: Value, n: Value) -> Value:
    if op.type == "i64":
        return shift_pair(s, op.name, x, s.pair(n)[0])
    x, n = s.raw(x), s.raw(n)
    if op.name == "shl":
        return narrow(s, op.type, shift(s, "shl", x, n))
    if op.name == "lshr":
        return shift(s, "u32", x, n)
    return narrow(s, op.type, shift(s, "s32", extended(s, op.type, x), n))


@select("umin", "umax", "smin", "smax")
def extreme(s: Selector, op: Op, x: Value, y: Value) -> Value:
    sign, how = op.name[0], op.name[1:]
    if op.type == "i64":
        less = compare_pair(s, sign + ("lt" if how == "min" else "gt"), x, y)
        return tuple(s.choose(less, a, b) for a, b in zip(s.pair(x), s.pair(y), strict=True))
    a, b = words_of(s, op, x), words_of(s, op, y)
    if sign == "s":
        a, b = extended(s, op.type, a), extended(s, op.type, b)
    return narrow(s, op.type, s.result(f"i{how}", (how, f"{sign}32"), s.src(a), s.src(b)))


@select("icmp")
def icmp(s: Selector, op: Op, x: Value, y: Value) -> Value:
    type = s.ops[op.args[0]].type
    if type == "i64":
        return compare_pair(s, op.attr, x, y)
    a, b = words_of(s, op, x), words_of(s, op, y)
    if op.attr in ("eq", "ne"):
        return compare(s, "e" if op.attr == "eq" else "lg", "u32", a, b)
    if op.attr[0] == "s":
        a, b = extended(s, type, a), extended(s, type, b)
    return compare(s, RELATIONS[op.attr[1:]], f"{op.attr[0]}32", a, b)


@select("trunc")
def trunc(s: Selector, op: Op, x: Value) -> Value:
    low = s.raw(x[0] if isinstance(x, tuple) else x)
    if op.type == "i1":
        return sub(s, Const(0), logic(s, "and", low, Const(1)))
    return narrow(s, op.type, low)


@select("zext", "sext")
def extend(s: Selector, op: Op, x: Value) -> Value:
    of = s.ops[op.args[0]].type
    if of == op.type:
        return x
    low = words_of(s, op, x)
    if of == "i1":
        if op.name == "zext":
            low = logic(s, "and", low, Const(1))
        elif op.type != "i64":
            return narrow(s, op.type, low)
    elif op.name == "sext":
        low = extended(s, of, low)
    if op.type == "i64":
        return low, shift(s, "s32", low, Const(31)) if op.name == "sext" else Const(0)
    return low if op.name == "zext" else narrow(s, op.type, low)


@select("popcount")
def popcount(s: Selector, op: Op, x: Value) -> Value:
    if isinstance(x, tuple):
        return add(s, population(s, x[0]), population(s, x[1])), Const(0)
    return population(s, x)


def population(s: Selector, x: Word) -> Word:
    """Population count: sums of neighbouring fields, twice as wide in each step."""
    x = sub(s, x, logic(s, "and", shift(s, "u32", x, Const(1)), Const(0x55555555)))
    x = add(s, logic(s, "and", x, Const(0x33333333)), logic(s, "and", shift(s, "u32", x, Const(2)), Const(0x33333333)))
    x = logic(s, "and", add(s, x, shift(s, "u32", x, Const(4))), Const(0x0F0F0F0F))
    x = add(s, x, shift(s, "u32", x, Const(8)))
    return logic(s, "and", add(s, x, shift(s, "u32", x, Const(16))), Const(63))


@select("clz")
def clz(s: Selector, op: Op, x: Value) -> Value:
    if isinstance(x, tuple):
        low, high = leading_zeros(s, x[0]), leading_zeros(s, x[1])
        empty = compare(s, "e", "u32", x[1], Const(0))
        return s.choose(empty, add(s, low, Const(32)), high), Const(0)
    found = leading_zeros(s, x)
    return sub(s, found, Const(32 - width(op.type))) if op.type != "i32" else found


def leading_zeros(s: Selector, x: Word) -> Word:
    """Leading zeros, from the exponent of the value as a float."""
    f = s.result("cvt", ("cvt", "rz", "f32"), "u32", s.src(x))
    top = sub(s, Const(31 + 127), shift(s, "u32", f, Const(23)))
    return s.result("imin", ("min", "u32"), s.src(top), s.src(Const(32)))


@select("bitreverse")
def bitreverse(s: Selector, op: Op, x: Value) -> Value:
    if isinstance(x, tuple):
        return _reversed(s, x[1]), _reversed(s, x[0])
    return shift(s, "u32", _reversed(s, x), Const(32 - width(op.type)))


def _reversed(s: Selector, x: Word) -> Word:
    for n, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        up = shift(s, "shl", logic(s, "and", x, Const(mask)), Const(n))
        x = logic(s, "or", up, logic(s, "and", shift(s, "u32", x, Const(n)), Const(mask)))
    return logic(s, "or", shift(s, "shl", x, Const(16)), shift(s, "u32", x, Const(16)))


@select("lop3")
def lop3(s: Selector, op: Op, x: Value, y: Value, z: Value) -> Value:
    """OR of the products that a truth table lists."""
    inputs = [s.raw(v) for v in (x, y, z)]
    total: Word = Const(0)
    for n in range(8):
        if not op.attr >> n & 1:
            continue
        term: Word = Const(MASK32)
        for bit, v in zip((4, 2, 1), inputs, strict=True):
            term = logic(s, "and", term, v if n & bit else invert(s, v))
        total = logic(s, "or", total, term)
    return total


@select("prmt")
def prmt(s: Selector, op: Op, x: Value, selector: Value, y: Value) -> Value:
    """Select bytes of two words."""
    chosen = s.raw(selector)
    if op.attr != "idx":
        raise refuse(f"a permutation of bytes in the mode {op.attr}")
    if not isinstance(chosen, Const):
        return _permuted(s, x, chosen, y)
    total: Word = Const(0)
    for n in range(4):
        number = chosen.bits >> 4 * n & 15
        one = s.raw(y if number & 4 else x)
        at = number & 3
        byte = (
            shift(s, "s32", shift(s, "shl", one, Const(24 - 8 * at)), Const(31))
            if number & 8
            else shift(s, "u32", one, Const(8 * at))
        )
        total = logic(s, "or", total, shift(s, "shl", logic(s, "and", byte, Const(0xFF)), Const(8 * n)))
    return total


def _permuted(s: Selector, x: Value, selector: Word, y: Value) -> Word:
    """A byte permutation whose selector is known only at run time."""
    total: Word = FALSE
    for n in range(4):
        digit = shift(s, "u32", selector, Const(4 * n))
        upper = compare(s, "lg", "u32", logic(s, "and", digit, Const(4)), FALSE)
        one = shift(s, "u32", s.choose(upper, y, x), shift(s, "shl", logic(s, "and", digit, Const(3)), Const(3)))
        byte = logic(s, "and", one, Const(0xFF))
        sign = logic(s, "and", sub(s, FALSE, logic(s, "and", shift(s, "u32", byte, Const(7)), Const(1))), Const(0xFF))
        signed = compare(s, "lg", "u32", logic(s, "and", digit, Const(8)), FALSE)
        total = logic(s, "or", total, shift(s, "shl", s.choose(signed, sign, byte), Const(8 * n)))
    return total
