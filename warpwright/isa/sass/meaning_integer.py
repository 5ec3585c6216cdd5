"""Integer arithmetic, logic and shifts, vector and uniform forms.

The less obvious instructions (the compiler's sequences rely on each of them):

* ``IADD3`` without ``.X`` computes ``-x`` as ``~x + 1`` and *keeps* the carry, so that ``0 - 0`` carries; with ``.X``
  negation is printed as ``~x`` and the carries come in as predicates.  The first carry-out is ``sum >= 2**32``, the
  second ``sum >= 2**33``.
* ``IMAD.HI`` adds a 64-bit pair and keeps the upper word.
* ``LEA.HI`` shifts the pair (hi operand : lo operand) and adds to its upper word.
* ``ISETP.EX`` completes a 64-bit comparison: its last predicate is the result for the lower words.
"""

from __future__ import annotations

from collections.abc import Callable

from warpwright.isa.ops import Value
from warpwright.isa.program import Instruction, Kind, Operand
from warpwright.isa.sass.meaning import (
    Emitter,
    is_false,
    is_predicate,
    is_zero,
    meaning,
    only,
    predicate,
    raw32,
    set32,
    set64,
    set_predicate,
    split,
    src32,
    src64,
    unsupported,
)


def addend(b: Emitter, o: Operand) -> Value:
    """A source of a wide sum: 64-bit, with ``-x`` as ``~x + 1`` whose carry is kept."""
    if o.kind is Kind.IMMEDIATE and not o.negate:
        return b.const((~o.value if o.invert else o.value) & 0xFFFFFFFF, "i64")
    x = raw32(b, o)
    if o.negate or o.invert:
        x = b.not_(x)
    wide = b.zext(x, "i64")
    return b.add(wide, b.const(1, "i64")) if o.negate else wide


@meaning("IADD3", "UIADD3")
def IADD3(i: Instruction, b: Emitter) -> None:
    only(i, "X", "U32", "64")
    s = split(i)
    assert s.destination is not None
    if "64" in i.modifiers:
        if "X" in i.modifiers or any(p.index != 7 for p in s.predicates_out):
            raise unsupported(f"{i.opcode}.64 with a carry")
        x, y, z = (src64(b, o) for o in s.sources)
        set64(b, s.destination, b.add(b.add(x, y), z))
        return
    carries_out = [(n, p) for n, p in enumerate(s.predicates_out) if p.index != 7]
    carries_in = [p for p in s.predicates_in if not is_false(p)]
    if not carries_out:
        total: Value | None = None
        for o in s.sources:
            if is_zero(o):
                continue
            if o.negate and total is not None:
                total = b.sub(total, src32(b, Operand(o.kind, o.index, o.value, base=o.base, uniform=o.uniform)))
                continue
            x = src32(b, o)
            total = x if total is None else b.add(total, x)
        for p in carries_in:
            carry = b.zext(predicate(b, p), "i32")
            total = carry if total is None else b.add(total, carry)
        set32(b, s.destination, b.const(0) if total is None else total)
        return
    parts = [o for o in s.sources if not is_zero(o) or o.negate]
    if len(parts) == 2 and not carries_in and not any(o.negate or o.invert for o in parts):
        x, y = src32(b, parts[0]), src32(b, parts[1])
        low = b.add(x, y)
        for n, p in carries_out:
            set_predicate(b, p, b.icmp("ult", low, x) if n == 0 else b.const(0, "i1"))
        set32(b, s.destination, low)
        return
    wide = b.const(0, "i64")
    for o in s.sources:
        if not is_zero(o) or o.negate:
            wide = b.add(wide, addend(b, o))
    for p in carries_in:
        wide = b.add(wide, b.zext(predicate(b, p), "i64"))
    for n, p in carries_out:
        set_predicate(b, p, b.icmp("uge", wide, b.const(1 << (32 + n), "i64")))
    set32(b, s.destination, b.trunc(wide, "i32"))


@meaning("VIADD")
def VIADD(i: Instruction, b: Emitter) -> None:
    only(i, "16x2")
    d, x, y = i.operands
    if "16x2" in i.modifiers:
        set32(b, d, by_halves(b, [raw32(b, x), raw32(b, y)], lambda v: b.sub(*v) if y.negate else b.add(*v)))
        return
    set32(b, d, b.add(src32(b, x), src32(b, y)))


def by_halves(b: Emitter, words: list[Value], rule: Callable[[list[Value]], Value], signed: bool = False) -> Value:
    """Apply ``rule`` to the lower and the upper 16-bit halves, widened to 32 bits; the lower 16 bits are kept."""
    widen = b.sext if signed else b.zext
    low, high = (
        b.and_(rule([widen(b.trunc(b.lshr(w, b.const(at)), "i16"), "i32") for w in words]), b.const(0xFFFF))
        for at in (0, 16)
    )
    return b.or_(low, b.shl(high, b.const(16)))


def product_negated(x: Operand, y: Operand) -> bool:
    return x.negate != y.negate


def plain(o: Operand) -> Operand:
    """The operand without negation."""
    return Operand(
        o.kind, o.index, o.value, absolute=o.absolute, invert=o.invert, suffix=o.suffix, base=o.base, uniform=o.uniform
    )


@meaning("IMAD", "UIMAD")
def IMAD(i: Instruction, b: Emitter) -> None:
    only(i, "WIDE", "HI", "U32", "S32", "X", "MOV", "SHL", "IADD")
    s = split(i)
    assert s.destination is not None
    x, y, z = s.sources
    signed = "U32" not in i.modifiers
    carry_in = [p for p in s.predicates_in if not is_false(p)]
    carry_out = [p for p in s.predicates_out if p.index != 7]
    zero_product = is_zero(x) or is_zero(y)
    if "WIDE" in i.modifiers or "HI" in i.modifiers:
        widen = b.sext if signed else b.zext
        total = src64(b, z)
        if not zero_product:
            wide = b.mul(widen(raw32(b, plain(x)), "i64"), widen(raw32(b, plain(y)), "i64"))
            if product_negated(x, y):
                wide = b.sub(b.const(0, "i64"), wide)
        else:
            wide = b.const(0, "i64")
        if not carry_in and not carry_out:
            total = wide if is_zero(z) else total if zero_product else b.add(wide, total)
        else:
            total = b.add(wide, total)
            overflow = b.icmp("ult", total, wide)
            for p in carry_in:
                before = total
                total = b.add(total, b.zext(predicate(b, p), "i64"))
                overflow = b.or_(overflow, b.icmp("ult", total, before))
            for p in carry_out:
                set_predicate(b, p, overflow)
        if "WIDE" in i.modifiers:
            set64(b, s.destination, total)
        else:
            set32(b, s.destination, b.op("extract", "i32", total, attr=1))
        return
    if carry_out:
        raise unsupported("IMAD with a carry out")
    if zero_product:
        result = src32(b, z)
    else:
        one = [o for o in (x, y) if o.kind is Kind.IMMEDIATE and o.value == 1 and not o.negate and not o.invert]
        if one:
            other = y if one[0] is x else x
            product = src32(b, other)
        else:
            product = b.mul(src32(b, x), src32(b, y))
        result = product if is_zero(z) else b.add(product, src32(b, z))
    for p in carry_in:
        result = b.add(result, b.zext(predicate(b, p), "i32"))
    set32(b, s.destination, result)


@meaning("LEA", "ULEA")
def LEA(i: Instruction, b: Emitter) -> None:
    only(i, "HI", "X", "SX32")
    s = split(i)
    assert s.destination is not None
    carries_out = [p for p in s.predicates_out if p.index != 7]
    carries_in = [p for p in s.predicates_in if not is_false(p)]
    low, addition = s.sources[0], s.sources[1]
    shift = s.sources[-1].value & 31
    if "HI" not in i.modifiers:
        scaled = b.shl(raw32(b, low), b.const(shift)) if shift else raw32(b, low)
    else:
        word = raw32(b, low)
        if "SX32" in i.modifiers:
            scaled = b.ashr(word, b.const(32 - shift))
        else:
            high = s.sources[2]
            scaled = b.const(0) if shift == 0 else b.lshr(word, b.const(32 - shift))
            if shift == 0:
                scaled = raw32(b, high)
            elif not is_zero(high):
                scaled = b.or_(scaled, b.shl(raw32(b, high), b.const(shift)))
        if shift == 0 and "SX32" in i.modifiers:
            scaled = b.ashr(word, b.const(31))
    if not carries_out and not low.negate:
        result = b.not_(scaled) if low.invert else scaled
        if not is_zero(addition):
            result = b.add(result, src32(b, addition))
        for p in carries_in:
            result = b.add(result, b.zext(predicate(b, p), "i32"))
        set32(b, s.destination, result)
        return
    if "HI" in i.modifiers and low.negate:
        raise unsupported("LEA.HI of a negated source")
    if low.negate or low.invert:
        scaled = b.not_(scaled)
    if carries_out and not low.negate and not carries_in and not addition.negate and not addition.invert:
        total = b.add(scaled, src32(b, addition))
        set_predicate(b, carries_out[0], b.icmp("ult", total, scaled))
        set32(b, s.destination, total)
        return
    wide = b.add(b.zext(scaled, "i64"), addend(b, addition))
    if low.negate:
        wide = b.add(wide, b.const(1, "i64"))
    for p in carries_in:
        wide = b.add(wide, b.zext(predicate(b, p), "i64"))
    if carries_out:
        set_predicate(b, carries_out[0], b.icmp("uge", wide, b.const(1 << 32, "i64")))
    set32(b, s.destination, b.trunc(wide, "i32"))


RELATIONS = ("LT", "EQ", "LE", "GT", "NE", "GE")
COMBINATIONS = {"AND": "and", "OR": "or", "XOR": "xor"}


def combine(b: Emitter, i: Instruction, result: Value, with_: Operand) -> Value:
    """``result AND|OR|XOR predicate``; AND with PT and OR with !PT are omitted."""
    name = next((COMBINATIONS[m] for m in i.modifiers if m in COMBINATIONS), "and")
    if with_.index == 7 and ((name == "and" and not with_.invert) or (name in ("or", "xor") and with_.invert)):
        return result
    return b.binary(name, result, predicate(b, with_))


def set_comparison(b: Emitter, i: Instruction, result: Value, first: Operand, second: Operand, with_: Operand) -> None:
    """Both results of a compare-and-set: ``p = t op c`` and ``q = !t op c``."""
    p = combine(b, i, result, with_) if first.index != 7 else None
    q = combine(b, i, b.not_(result), with_) if second.index != 7 else None
    if p is not None:
        set_predicate(b, first, p)
    if q is not None:
        set_predicate(b, second, q)


@meaning("ISETP", "UISETP")
def ISETP(i: Instruction, b: Emitter) -> None:
    only(i, *RELATIONS, *COMBINATIONS, "U32", "EX", "T", "F")
    first, second, x, y, with_, *ex = i.operands
    relation = i.modifiers[0].lower()
    left, right = src32(b, x), src32(b, y)
    if relation in ("t", "f"):
        result = b.const(int(relation == "t"), "i1")
    elif "EX" not in i.modifiers:
        sign = "" if relation in ("eq", "ne") else "u" if "U32" in i.modifiers else "s"
        result = b.icmp(sign + relation, left, right)
    else:
        lower = predicate(b, ex[0])
        if relation == "ne":
            result = b.or_(b.icmp("ne", left, right), lower)
        elif relation == "eq":
            result = b.and_(b.icmp("eq", left, right), lower)
        else:
            sign = "u" if "U32" in i.modifiers else "s"
            strict = b.icmp(sign + relation[0] + "t", left, right)
            result = b.or_(strict, b.and_(b.icmp("eq", left, right), lower))
    set_comparison(b, i, result, first, second, with_)


def pick(b: Emitter, selector: Operand, low: str, high: str, x: Value, y: Value) -> Value:
    """min where the predicate holds, else max; a constant predicate selects one of them."""
    if selector.index == 7:
        return b.binary(high if selector.invert else low, x, y)
    return b.select(predicate(b, selector), b.binary(low, x, y), b.binary(high, x, y))


def least_or_most(i: Instruction, b: Emitter, selector: Operand, values: list[Value]) -> Value:
    """min or max of 32-bit integers or of both 16-bit halves, clamped to at least zero with RELU."""
    packed = "U16x2" in i.modifiers or "S16x2" in i.modifiers
    sign = "u" if "U32" in i.modifiers or "U16x2" in i.modifiers else "s"

    def rule(parts: list[Value]) -> Value:
        result = parts[0]
        for part in parts[1:]:
            result = pick(b, selector, sign + "min", sign + "max", result, part)
        return b.binary("smax", result, b.const(0)) if "RELU" in i.modifiers else result

    return by_halves(b, values, rule, sign == "s") if packed else rule(values)


@meaning("IMNMX", "VIMNMX")
def IMNMX(i: Instruction, b: Emitter) -> None:
    """The predicates after the destination (lower half first) return whether the first source was selected.

    Of one value of 32 bits, which ptxas gives a predicate only with RELU, they return whether the result is the second source: ptxas 12.9 makes
    ``VIMNMX.RELU R5, P0, P0, R5, 0x7, PT`` of ``m = max(0, min(x, 7))`` with ``m == 7``, for which P0 stands.
    """
    only(i, "U32", "S32", "U16x2", "S16x2", "RELU")
    d, *chosen, x, y, p = i.operands
    left, right = src32(b, x), src32(b, y)
    result = least_or_most(i, b, p, [left, right])
    packed = "U16x2" in i.modifiers or "S16x2" in i.modifiers
    for o, mask in zip(chosen, (0xFFFF, 0xFFFF0000) if packed else (0xFFFFFFFF,) * 2, strict=False):
        selected = left if packed else right
        set_predicate(b, o, b.icmp("eq", b.and_(b.xor(selected, result), b.const(mask)), b.const(0)))
    set32(b, d, result)


@meaning("VIADDMNMX")
def VIADDMNMX(i: Instruction, b: Emitter) -> None:
    only(i, "U32", "S32", "U16x2", "S16x2", "RELU")
    d, x, y, z, p = i.operands
    if "U16x2" in i.modifiers or "S16x2" in i.modifiers:
        total = by_halves(b, [raw32(b, x), raw32(b, y)], lambda v: b.sub(*v) if y.negate else b.add(*v))
    else:
        total = b.add(src32(b, x), src32(b, y))
    set32(b, d, least_or_most(i, b, p, [total, src32(b, z)]))


@meaning("VIMNMX3")
def VIMNMX3(i: Instruction, b: Emitter) -> None:
    only(i, "U32", "S32", "U16x2", "S16x2", "RELU")
    d, x, y, z, p = i.operands
    set32(b, d, least_or_most(i, b, p, [src32(b, x), src32(b, y), src32(b, z)]))


@meaning("IABS")
def IABS(i: Instruction, b: Emitter) -> None:
    only(i)
    x = src32(b, i.operands[1])
    set32(b, i.operands[0], b.binary("smax", x, b.sub(b.const(0), x)))


@meaning("VABSDIFF")
def VABSDIFF(i: Instruction, b: Emitter) -> None:
    only(i, "U32", "S32")
    d, x, y, z = i.operands
    left, right = src32(b, x), src32(b, y)
    sign = "u" if "U32" in i.modifiers else "s"
    difference = b.sub(b.binary(sign + "max", left, right), b.binary(sign + "min", left, right))
    set32(b, d, difference if is_zero(z) else b.add(difference, src32(b, z)))


@meaning("VABSDIFF4")
def VABSDIFF4(i: Instruction, b: Emitter) -> None:
    """Absolute differences of four bytes: kept in their bytes (the third source must be zero), or with ACC summed and
    added to the third source."""
    only(i, "U8", "S8", "ACC")
    d, x, y, z = i.operands
    left, right = src32(b, x), src32(b, y)
    widen = b.zext if "U8" in i.modifiers else b.sext
    total = src32(b, z) if "ACC" in i.modifiers else b.const(0)
    for at in (0, 8, 16, 24):
        u, v = (widen(b.trunc(b.lshr(value, b.const(at)), "i8"), "i32") for value in (left, right))
        difference = b.sub(b.binary("smax", u, v), b.binary("smin", u, v))
        total = b.add(total, difference) if "ACC" in i.modifiers else b.or_(total, b.shl(difference, b.const(at)))
    set32(b, d, total)


@meaning("LOP3", "ULOP3")
def LOP3(i: Instruction, b: Emitter) -> None:
    only(i, "LUT", "PAND", "POR")
    operands = list(i.operands)
    result_predicate = operands.pop(0) if is_predicate(operands[0]) else None
    d, x, y, z, table, *rest = operands
    lut = table.value & 0xFF
    result = boolean(b, [x, y, z], lut)
    if result_predicate is not None and result_predicate.index != 7:
        nonzero = b.icmp("ne", result, b.const(0))
        if rest and not (is_false(rest[0]) and "PAND" not in i.modifiers):
            nonzero = b.binary("and" if "PAND" in i.modifiers else "or", nonzero, predicate(b, rest[0]))
        set_predicate(b, result_predicate, nonzero)
    set32(b, d, result)


TWO_INPUTS = {0xC0: "and", 0xFC: "or", 0x3C: "xor"}


def boolean(b: Emitter, sources: list[Operand], lut: int) -> Value:
    """A three-input bitwise function; common tables become the plain operation."""
    x, y, z = sources
    if lut == 0:
        return b.const(0)
    if lut == 0xFF:
        return b.const(0xFFFFFFFF)
    if is_zero(z):  # only the rows with c = 0 matter
        lut = (lut & 0x55) | (lut & 0x55) << 1
        if lut in TWO_INPUTS:
            return b.binary(TWO_INPUTS[lut], src32(b, x), src32(b, y))
        if lut == 0x30:
            return b.and_(src32(b, x), b.not_(src32(b, y)))
    if is_zero(x) and is_zero(y) and lut & 3 in (1, 2):
        return src32(b, z) if lut & 3 == 2 else b.not_(src32(b, z))
    if is_zero(x) and is_zero(z) and lut & 5 in (1, 4):
        return src32(b, y) if lut & 5 == 4 else b.not_(src32(b, y))
    if is_zero(y) and is_zero(z) and lut & 0x11 in (1, 0x10):
        return src32(b, x) if lut & 0x11 == 0x10 else b.not_(src32(b, x))
    return b.op("lop3", "i32", src32(b, x), src32(b, y), src32(b, z), attr=lut)


@meaning("PLOP3", "UPLOP3")
def PLOP3(i: Instruction, b: Emitter) -> None:
    only(i, "LUT")
    first, second, x, y, z, table, other = i.operands
    values = [
        predicate(b, o) if is_predicate(o) else b.icmp("slt", raw32(b, o), b.const(0)) for o in (x, y, z)
    ]  # for registers (.SIGN), the sign bits
    results = [(o, truth(b, values, t.value & 0xFF)) for o, t in ((first, table), (second, other)) if o.index != 7]
    for o, result in results:
        set_predicate(b, o, result)


def truth(b: Emitter, values: list[Value], lut: int) -> Value:
    """A three-input truth table on predicates, as an OR of products."""
    constant = [b.ops[v].attr if b.ops[v].name == "const" else None for v in values]
    rows = [r for r in range(8) if all(c is None or c == (r >> (2 - n)) & 1 for n, c in enumerate(constant))]
    on = [r for r in rows if lut >> r & 1]
    if len(on) == len(rows):
        return b.const(1, "i1")
    result: Value | None = None
    free = [n for n in range(3) if constant[n] is None]
    if len(on) > len(rows) // 2 and len(on) < len(rows):
        flipped = sum(1 << r for r in range(8) if not lut >> r & 1)
        return b.not_(truth(b, values, flipped))
    single = next(
        (n for n in free if all((r >> (2 - n) & 1) == (r in on) for r in rows)),
        None,
    )
    if single is not None:
        return values[single]
    for r in on:
        product: Value | None = None
        for n in free:
            literal = values[n] if r >> (2 - n) & 1 else b.not_(values[n])
            product = literal if product is None else b.and_(product, literal)
        assert product is not None
        result = product if result is None else b.or_(result, product)
    return b.const(0, "i1") if result is None else result


@meaning("SHF", "USHF")
def SHF(i: Instruction, b: Emitter) -> None:
    only(i, "L", "R", "W", "U32", "S32", "U64", "S64", "HI")
    d, low, amount, high = i.operands
    wide_type = "U64" in i.modifiers or "S64" in i.modifiers
    signed = "S32" in i.modifiers or "S64" in i.modifiers
    upper = "HI" in i.modifiers
    left = i.modifiers[0] == "L"
    fixed: int | None = None
    if amount.kind is Kind.IMMEDIATE or is_zero(amount):
        fixed = 0 if amount.kind is not Kind.IMMEDIATE else amount.value & 0xFFFFFFFF
        limit = 64 if wide_type else 32
        fixed = fixed & (limit - 1) if "W" in i.modifiers else min(fixed, limit)
        by = b.const(fixed)
    else:
        by = src32(b, amount)
        if "W" in i.modifiers:
            by = b.and_(by, b.const(63 if wide_type else 31))
    if left and not upper:
        set32(b, d, b.shl(src32(b, low), by))
        return
    if not left and upper:
        set32(b, d, b.binary("ashr" if signed else "lshr", src32(b, high), by))
        return
    if fixed is not None and 0 < fixed < 32:
        if left:
            parts = b.shl(src32(b, high), by), b.lshr(src32(b, low), b.const(32 - fixed))
        else:
            parts = b.lshr(src32(b, low), by), b.shl(src32(b, high), b.const(32 - fixed))
        set32(b, d, b.or_(*parts))
        return
    if fixed == 0:
        set32(b, d, src32(b, high if left else low))
        return
    if not wide_type and fixed is None and "W" not in i.modifiers:
        by = b.binary("umin", by, b.const(32))
    pair = b.op("pack64", "i64", src32(b, low), src32(b, high))
    by64 = b.zext(by, "i64")
    if left:
        set32(b, d, b.op("extract", "i32", b.shl(pair, by64), attr=1))
    else:
        set32(b, d, b.trunc(b.binary("ashr" if signed else "lshr", pair, by64), "i32"))


@meaning("BMSK", "UBMSK")
def BMSK(i: Instruction, b: Emitter) -> None:
    only(i, "C", "W")
    d, position, width = i.operands
    at, count = src32(b, position), src32(b, width)
    if "W" in i.modifiers:
        at, count = b.and_(at, b.const(31)), b.and_(count, b.const(31))
    ones = b.sub(b.shl(b.const(1), count), b.const(1))
    set32(b, d, b.shl(ones, at))


@meaning("SGXT", "USGXT")
def SGXT(i: Instruction, b: Emitter) -> None:
    only(i, "U32", "W")
    d, x, width = i.operands
    bits = src32(b, width)
    bits = b.and_(bits, b.const(31)) if "W" in i.modifiers else b.binary("umin", bits, b.const(32))
    away = b.sub(b.const(32), bits)
    moved = b.shl(src32(b, x), away)
    set32(b, d, b.binary("lshr" if "U32" in i.modifiers else "ashr", moved, away))


PRMT_MODES = {
    "F4E": (0x3210, 0x4321, 0x5432, 0x6543),
    "B4E": (0x5670, 0x6701, 0x7012, 0x0123),
    "RC8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ECL": (0x3210, 0x3211, 0x3222, 0x3333),
    "ECR": (0x0000, 0x1110, 0x2210, 0x3210),
    "RC16": (0x1010, 0x3232, 0x1010, 0x3232),
}
"""Byte selections of PRMT's modes by the two low bits of the selector (PTX ISA, "prmt")."""


@meaning("PRMT", "UPRMT")
def PRMT(i: Instruction, b: Emitter) -> None:
    only(i, *PRMT_MODES)
    d, x, selector, y = i.operands
    if i.modifiers:
        table = b.const(sum(word << 16 * n for n, word in enumerate(PRMT_MODES[i.modifiers[0]])), "i64")
        shift = b.shl(b.and_(src32(b, selector), b.const(3)), b.const(4))
        choice = b.trunc(b.lshr(table, b.zext(shift, "i64")), "i32")
        set32(b, d, b.op("prmt", "i32", src32(b, x), choice, src32(b, y), attr="idx"))
        return
    if selector.kind is Kind.IMMEDIATE and selector.value & 0xFFFF == 0x7610:
        set32(b, d, b.or_(b.and_(src32(b, x), b.const(0xFFFF)), b.and_(src32(b, y), b.const(0xFFFF0000))))
        return
    set32(b, d, b.op("prmt", "i32", src32(b, x), src32(b, selector), src32(b, y), attr="idx"))


@meaning("FLO", "UFLO")
def FLO(i: Instruction, b: Emitter) -> None:
    only(i, "U32", "SH")
    s = split(i)
    assert s.destination is not None
    x = src32(b, s.sources[0])
    if "U32" not in i.modifiers:
        x = b.xor(x, b.ashr(x, b.const(31)))
    zeros = b.op("clz", "i32", x)
    found = zeros if "SH" in i.modifiers else b.sub(b.const(31), zeros)
    none = b.icmp("eq", x, b.const(0))
    for p in s.predicates_out:
        set_predicate(b, p, b.not_(none))
    set32(b, s.destination, b.select(none, b.const(0xFFFFFFFF), found))


@meaning("POPC", "UPOPC")
def POPC(i: Instruction, b: Emitter) -> None:
    only(i)
    set32(b, i.operands[0], b.op("popcount", "i32", src32(b, i.operands[1])))


@meaning("BREV", "UBREV")
def BREV(i: Instruction, b: Emitter) -> None:
    only(i)
    set32(b, i.operands[0], b.op("bitreverse", "i32", src32(b, i.operands[1])))


@meaning("IDP")
def IDP(i: Instruction, b: Emitter) -> None:
    """Dot product of four bytes (4A), or of two halves with two bytes (2A), plus an accumulator."""
    only(i, "4A", "2A", "LO", "HI", "S8", "U8", "S16", "U16")
    d, x, y, z = i.operands
    kinds = [m for m in i.modifiers if m[0] in "SU" and m[1:] in ("8", "16")]
    left, right, total = src32(b, x), src32(b, y), src32(b, z)
    lanes = 4 if "4A" in i.modifiers else 2
    size = 32 // lanes

    def part(value: Value, at: int, bits: int, kind: str) -> Value:
        moved = b.shl(value, b.const(32 - at - bits))
        return b.binary("ashr" if kind[0] == "S" else "lshr", moved, b.const(32 - bits))

    base = 16 if "HI" in i.modifiers else 0
    for n in range(lanes):
        u = part(left, n * size, size, kinds[0])
        v = part(right, base + n * 8, 8, kinds[-1])
        total = b.add(total, b.mul(u, v))
    set32(b, d, total)
