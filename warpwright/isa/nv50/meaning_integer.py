"""Integers: sums, products of 16 and 24 bits, comparisons, shifts, logic (envytools' documentation, "Integer arithmetic")."""

from __future__ import annotations

from warpwright.isa.nv50.condition_registers import CARRY, read
from warpwright.isa.nv50.emitter import Nv50Emitter, unsupported
from warpwright.isa.nv50.meaning import finish, integer_source, is_condition, meaning, source, written
from warpwright.isa.ops import Value
from warpwright.isa.program import Instruction, Operand

COMPARISONS = {"l": "lt", "e": "eq", "le": "le", "g": "gt", "lg": "ne", "ge": "ge"}


def operation(i: Instruction) -> str:
    return next(m for m in i.modifiers if m in ("add", "sub", "subr", "addc"))


def sum_of(b: Nv50Emitter, i: Instruction, x: Value, y: Value, carry_from: Operand | None) -> None:
    """add, sub (x - y), subr (y - x) and addc: returns the result, its carry and its overflow; saturates if
    requested."""
    kind, how = b.type_of(x), operation(i)
    if how == "sub":
        y = b.not_(y)
    elif how == "subr":
        x = b.not_(x)
    first = b.add(x, y)
    if how == "add":
        total = first
    elif how == "addc":
        assert carry_from is not None
        total = b.add(first, b.zext(read(b, carry_from.index, CARRY), kind))
    else:
        total = b.add(first, b.const(1, kind))
    carry = overflow = None
    if is_condition(i.operands[0]) or "sat" in i.modifiers:
        carry = b.icmp("ult", first, x)
        if how != "add":
            carry = b.or_(carry, b.icmp("ult", total, first))
        zero = b.const(0, kind)
        overflow = b.icmp("slt", b.and_(b.xor(x, total), b.xor(y, total)), zero)
        if "sat" in i.modifiers:
            most = b.const((1 << int(kind[1:]) - 1) - 1, kind)
            limit = b.select(b.icmp("slt", total, zero), most, b.not_(most))
            total = b.select(overflow, limit, total)
    finish(b, i, total, carry, overflow)


def split_carry(sources: tuple[Operand, ...]) -> tuple[tuple[Operand, ...], Operand | None]:
    """Separate the sources of ``addc`` from its condition register."""
    return (sources[:-1], sources[-1]) if is_condition(sources[-1]) else (sources, None)


@meaning("iadd", "hadd")
def iadd(i: Instruction, b: Nv50Emitter) -> None:
    (o1, o2), carry = split_carry(written(i)[2])
    bits = 16 if i.opcode == "hadd" else 32
    sum_of(b, i, source(b, o1, bits), source(b, o2, bits), carry)


def factors16(b: Nv50Emitter, o1: Operand, o2: Operand, signs: tuple[bool, bool]) -> Value:
    """The product of two halves."""
    x, y = (
        b.sext(source(b, o, 16), "i32") if sign else b.zext(source(b, o, 16), "i32")
        for o, sign in zip((o1, o2), signs, strict=True)
    )
    return b.mul(x, y)


def factors24(b: Nv50Emitter, o1: Operand, o2: Operand, sign: bool, high: bool) -> Value:
    """The lower 32 bits of a product of 24-bit numbers, or with ``high`` the upper 32 of its 48 bits."""

    def low24(o: Operand) -> Value:
        x = b.shl(source(b, o), b.const(8))
        return b.ashr(x, b.const(8)) if sign else b.lshr(x, b.const(8))

    x, y = low24(o1), low24(o2)
    if not high:
        return b.mul(x, y)
    wide = [b.sext(v, "i64") if sign else b.zext(v, "i64") for v in (x, y)]
    return b.trunc(b.lshr(b.mul(wide[0], wide[1]), b.const(16, "i64")), "i32")


@meaning("mul16")
def mul16(i: Instruction, b: Nv50Emitter) -> None:
    kinds = [m for m in i.modifiers if m in ("u16", "s16")]
    o1, o2 = written(i)[2]
    # A shared operand also names its own type; the product's two types come first.
    finish(b, i, factors16(b, o1, o2, (kinds[0] == "s16", kinds[1] == "s16")))


@meaning("mul24")
def mul24(i: Instruction, b: Nv50Emitter) -> None:
    o1, o2 = written(i)[2]
    finish(b, i, factors24(b, o1, o2, "s24" in i.modifiers, "high" in i.modifiers))


@meaning("imad")
def imad(i: Instruction, b: Nv50Emitter) -> None:
    (o1, o2, o3), carry = split_carry(written(i)[2])
    if "u16" in i.modifiers or "s16" in i.modifiers:
        product = factors16(b, o1, o2, ("s16" in i.modifiers,) * 2)
    else:
        product = factors24(b, o1, o2, "s24" in i.modifiers, "high" in i.modifiers)
    sum_of(b, i, product, source(b, o3), carry)


@meaning("sad", "sad16")
def sad(i: Instruction, b: Nv50Emitter) -> None:
    o1, o2, o3 = written(i)[2]
    bits = 16 if i.opcode == "sad16" else 32
    x, y = source(b, o1, bits), source(b, o2, bits)
    less = "slt" if f"s{bits}" in i.modifiers else "ult"
    apart = b.select(b.icmp(less, x, y), b.sub(y, x), b.sub(x, y))
    addend, apart = source(b, o3), b.zext(apart, "i32")
    total = b.add(apart, addend)
    overflow = b.icmp("slt", b.and_(b.xor(apart, total), b.xor(addend, total)), b.const(0))
    finish(b, i, total, b.icmp("ult", total, apart), overflow)


@meaning("iset", "hset")
def iset(i: Instruction, b: Nv50Emitter) -> None:
    """All ones where the relation holds, else zero."""
    o1, o2 = written(i)[2]
    bits = 16 if i.opcode == "hset" else 32
    relation = next(m for m in i.modifiers if m in COMPARISONS or m in ("never", "always"))
    x, y = source(b, o1, bits), source(b, o2, bits)
    if relation in ("never", "always"):
        holds = b.const(int(relation == "always"), "i1")
    else:
        name = COMPARISONS[relation]
        sign = "" if name in ("eq", "ne") else "s" if f"s{bits}" in i.modifiers else "u"
        holds = b.icmp(sign + name, x, y)
    finish(b, i, b.sext(holds, f"i{bits}"))


@meaning("imin", "imax", "hmin", "hmax")
def extreme(i: Instruction, b: Nv50Emitter) -> None:
    o1, o2 = written(i)[2]
    bits = 16 if i.opcode[0] == "h" else 32
    sign = "s" if f"s{bits}" in i.modifiers else "u"
    finish(b, i, b.binary(sign + i.opcode[1:], source(b, o1, bits), source(b, o2, bits)))


@meaning("shl", "hshl", "shr", "hshr")
def shift(i: Instruction, b: Nv50Emitter) -> None:
    """Shift counts are unsigned; a count of the width or more shifts everything out."""
    o1, o2 = written(i)[2]
    bits = 16 if i.opcode[0] == "h" else 32
    x, n = source(b, o1, bits), source(b, o2, bits)
    kind, zero = b.type_of(x), b.const(0, b.type_of(x))
    left = i.opcode.endswith("shl")
    arithmetic = f"s{bits}" in i.modifiers
    result = b.shl(x, n) if left else b.ashr(x, n) if arithmetic else b.lshr(x, n)
    if not is_condition(i.operands[0]):
        finish(b, i, result)
        return
    width, one = b.const(bits, kind), b.const(1, kind)
    last = b.lshr(x, b.sub(width, n)) if left else b.lshr(x, b.sub(n, one))
    inside = b.and_(b.icmp("ult", n, width), b.icmp("ne", n, zero))
    carry = b.and_(inside, b.icmp("ne", b.and_(last, one), zero))
    turned = b.icmp("slt", b.xor(x, result), zero)
    finish(b, i, result, carry, b.and_(b.icmp("eq", n, one), turned))


@meaning("logic", "hlogic")
def logic(i: Instruction, b: Nv50Emitter) -> None:
    o1, o2 = written(i)[2]
    bits = 16 if i.opcode == "hlogic" else 32
    how = next(m for m in i.modifiers if m in ("and", "or", "xor", "mov2"))
    y = integer_source(b, o2, bits)
    if how == "mov2":
        finish(b, i, y)
        return
    finish(b, i, b.binary(how, integer_source(b, o1, bits), y))


@meaning("dadd", "dmul", "dfma", "dmin", "dmax", "dset")
def double(i: Instruction, b: Nv50Emitter) -> None:
    raise unsupported("double precision has no meaning yet")
