"""Integer arithmetic, logic, shifts and comparisons of sm_50 to sm_62.

The less obvious instructions (the compiler's sequences rely on each of them, and the corpus contains them):

* ``IADD`` computes ``-x`` as ``~x + 1`` and keeps the carry; with ``.X`` it uses ``~x`` and adds the carry flag.
* ``XMAD`` multiplies two 16-bit halves and adds: ``.PSL`` shifts the product left by 16, ``.CLO``/``.CHI`` select a
  half of C, ``.CBCC`` adds ``B << 16`` to C, ``.MRG`` puts the lower half of B above the lower half of the sum.
* ``.CSFU`` (sign fix-up) completes a signed high product: ``IADD3.RS`` sums the two middle products as unsigned 33-bit
  numbers, so 2**16 is subtracted for each of them that is negative.
* A comparison with ``.X`` completes a 64-bit comparison whose lower words an ``IADD RZ.CC, -B, A`` has subtracted.
* ``IMNMX.XHI`` compares upper words and records the lesser one in the flags; ``.XLO`` follows it.
"""

from __future__ import annotations

from warpwright.isa.maxwell.meaning import (
    CARRY,
    ZERO,
    PascalEmitter,
    condition,
    finish,
    flag,
    marks,
    meaning,
    plain_register,
    set_flags,
    shared,
    writes_flags,
)
from warpwright.isa.ops import Value
from warpwright.isa.program import PT, Instruction, Kind, Operand
from warpwright.isa.sass import meaning as common
from warpwright.isa.sass.meaning import only, predicate, raw32, set32, set_predicate, src32, unsupported
from warpwright.isa.sass.meaning_integer import COMBINATIONS, combine, set_comparison


def source(b: PascalEmitter, o: Operand) -> Value:
    return src32(b, marks(o))


def wide(b: PascalEmitter, o: Operand, complement: bool = False) -> Value:
    """A 32-bit source as 64 bits; ``-x`` is ``~x + 1`` including its carry, or ``~x`` with ``complement``."""
    negate = o.negate or ".NEG" in o.suffix
    if o.kind is Kind.IMMEDIATE:
        bits = o.value & 0xFFFFFFFF
        if not negate:
            return b.const(bits, "i64")
        return b.const((~bits & 0xFFFFFFFF) + (not complement), "i64")
    x = raw32(b, o)
    if not negate:
        return b.zext(x, "i64")
    x = b.zext(b.not_(x), "i64")
    return x if complement else b.add(x, b.const(1, "i64"))


def add(i: Instruction, b: PascalEmitter, d: Operand, x: Value, y: Value, more: Value | None = None) -> Value:
    """The 32-bit sum of 64-bit addends, with carry in (``.X``) and flags out."""
    total = b.add(x, y)
    if more is not None:
        total = b.add(total, more)
    if "PO" in i.modifiers:
        total = b.add(total, b.const(1, "i64"))
    if "X" in i.modifiers:
        total = b.add(total, b.zext(flag(b, CARRY), "i64"))
    result = b.trunc(total, "i32")
    if not writes_flags(d):
        set32(b, d, result)
        return result
    left, right = b.trunc(x, "i32"), b.trunc(y, "i32")
    changed = b.and_(b.xor(left, result), b.xor(right, result))
    carry = b.icmp("ne", b.lshr(total, b.const(32, "i64")), b.const(0, "i64"))
    finish(b, d, result, carry, b.icmp("slt", changed, b.const(0)))
    return result


def simple(i: Instruction, d: Operand) -> bool:
    """Whether the instruction neither reads nor writes a carry, so that 32-bit arithmetic suffices."""
    return not writes_flags(d) and "X" not in i.modifiers


def signed(b: PascalEmitter, o: Operand) -> Value:
    """A signed 32-bit source as i64, negated after widening."""
    if o.kind is Kind.IMMEDIATE:
        return b.sext(source(b, o), "i64")
    x = b.sext(raw32(b, o), "i64")
    return b.sub(b.const(0, "i64"), x) if o.negate else x


def saturated(b: PascalEmitter, total: Value) -> Value:
    """An i64 clamped to the range of s32."""
    low, high = b.const(-(1 << 31), "i64"), b.const((1 << 31) - 1, "i64")
    return b.trunc(b.binary("smin", b.binary("smax", total, low), high), "i32")


@meaning("IADD", "IADD32I")
def IADD(i: Instruction, b: PascalEmitter) -> None:
    only(i, "X", "PO", "SAT")
    d, x, y = i.operands
    if "SAT" in i.modifiers:
        if not simple(i, d) or "PO" in i.modifiers:
            raise unsupported("IADD.SAT with a carry")
        set32(b, d, saturated(b, b.add(signed(b, x), signed(b, y))))
        return
    if simple(i, d):
        total = b.add(source(b, x), source(b, y))
        set32(b, d, b.add(total, b.const(1)) if "PO" in i.modifiers else total)
        return
    chained = "X" in i.modifiers
    add(i, b, d, wide(b, x, chained), wide(b, y, chained))


@meaning("IADD3")
def IADD3(i: Instruction, b: PascalEmitter) -> None:
    only(i, "X", "RS", "LS")
    d, *sources = i.operands
    shifted = next((m for m in i.modifiers if m in ("RS", "LS")), "")
    halves = any(o.suffix in (".H0", ".H1") for o in sources)

    def part(o: Operand) -> Value:
        x = raw32(b, o)
        if o.suffix == ".H0":
            x = b.and_(x, b.const(0xFFFF))
        elif o.suffix == ".H1":
            x = b.lshr(x, b.const(16))
        return b.sub(b.const(0), x) if o.negate else x

    if shifted:
        if writes_flags(d) or "X" in i.modifiers:
            raise unsupported("IADD3.RS with a carry")
        first = b.add(b.zext(part(sources[0]), "i64"), b.zext(part(sources[1]), "i64"))
        by = b.const(16, "i64")
        moved = b.lshr(first, by) if shifted == "RS" else b.shl(first, by)
        set32(b, d, b.add(b.trunc(moved, "i32"), part(sources[2])))
        return
    if halves or simple(i, d):
        if not simple(i, d):
            raise unsupported("IADD3 of halves with a carry")
        values = [part(o) if o.suffix in (".H0", ".H1") else source(b, o) for o in sources]
        set32(b, d, b.add(b.add(values[0], values[1]), values[2]))
        return
    chained = "X" in i.modifiers
    add(i, b, d, *(wide(b, o, chained) for o in sources))


def shifted_left(b: PascalEmitter, o: Operand, by: int) -> Value:
    """``o << by`` in 32 bits as a 64-bit addend, negated as in :func:`wide`."""
    if not by or o.kind is Kind.IMMEDIATE:
        return b.zext(b.shl(source(b, o), b.const(by)), "i64") if by else wide(b, o)
    x = b.shl(raw32(b, o), b.const(by))
    return b.add(b.zext(b.not_(x), "i64"), b.const(1, "i64")) if o.negate else b.zext(x, "i64")


@meaning("ISCADD", "ISCADD32I")
def ISCADD(i: Instruction, b: PascalEmitter) -> None:
    only(i, "PO")
    d, x, y, amount = i.operands
    if simple(i, d):
        total = b.add(b.shl(source(b, x), b.const(amount.value)), source(b, y))
        set32(b, d, b.add(total, b.const(1)) if "PO" in i.modifiers else total)
        return
    add(i, b, d, shifted_left(b, x, amount.value), wide(b, y))


@meaning("LEA")
def LEA(i: Instruction, b: PascalEmitter) -> None:
    """``(A << n) + B``; ``.HI`` shifts the pair C:A and adds its upper word to B.

    The first printed predicate says whether the upper word of a generic address is outside shared memory.  The
    compiler's code for generic atomics branches on it to ATOM or, with the lower 24 bits, to ATOMS.
    """
    only(i, "HI", "X")
    operands = list(i.operands)
    outside = operands.pop(0) if operands[0].kind is Kind.PREDICATE else None
    d, x, y, *rest = operands
    amount = rest.pop().value if rest and rest[-1].kind is Kind.IMMEDIATE else 0
    if "HI" not in i.modifiers:
        if outside is not None:
            raise unsupported("LEA of a lower word with a predicate")
        if simple(i, d):
            set32(b, d, b.add(b.shl(source(b, x), b.const(amount)), source(b, y)))
        else:
            add(i, b, d, shifted_left(b, x, amount), wide(b, y))
        return
    if x.negate:
        raise unsupported("LEA.HI of a negated source")
    upper = source(b, rest[0])
    high = upper
    if amount:
        high = b.or_(b.shl(upper, b.const(amount)), b.lshr(source(b, x), b.const(32 - amount)))
    if simple(i, d):
        result = b.add(high, source(b, y))
        set32(b, d, result)
    else:
        result = add(i, b, d, b.zext(high, "i64"), wide(b, y))
    if outside is not None:
        window = b.op("special", "i32", attr="shared_window_hi")
        set_predicate(b, outside, b.icmp("ne", result, window))


# --- multiplication -------------------------------------------------------------------------------
def half(b: PascalEmitter, o: Operand, upper: bool, signed: bool) -> Value:
    """A 16-bit half of a source, widened to 32 bits."""
    if o.kind is Kind.IMMEDIATE:
        value = o.value & 0xFFFF
        return b.const(value - (1 << 16) if signed and value >> 15 else value)
    x = raw32(b, o)
    if upper:
        return b.binary("ashr" if signed else "lshr", x, b.const(16))
    if signed:
        return b.ashr(b.shl(x, b.const(16)), b.const(16))
    return b.and_(x, b.const(0xFFFF))


def negative(b: PascalEmitter, factor: Value, other: Value) -> Value:
    """2**16 if the product of a signed and an unsigned factor is negative, else 0."""
    both = b.and_(b.icmp("slt", factor, b.const(0)), b.icmp("ne", other, b.const(0)))
    return b.select(both, b.const(1 << 16), b.const(0))


XMAD_TYPES = ("U16", "S16")


@meaning("XMAD")
def XMAD(i: Instruction, b: PascalEmitter) -> None:
    only(i, "U16", "S16", "PSL", "CLO", "CHI", "CSFU", "CBCC", "MRG", "X")
    d, x, y, z = i.operands
    types = [m for m in i.modifiers if m in XMAD_TYPES] or ["U16", "U16"]
    signed_x, signed_y = (t == "S16" for t in types)
    upper_x, upper_y = x.suffix.startswith(".H1"), y.suffix.startswith(".H1")
    left, right = half(b, x, upper_x, signed_x), half(b, y, upper_y, signed_y)
    product = b.mul(left, right)
    if "PSL" in i.modifiers:
        product = b.shl(product, b.const(16))
    third = raw32(b, z)
    if "CLO" in i.modifiers:
        third = b.and_(third, b.const(0xFFFF))
    elif "CHI" in i.modifiers:
        third = b.lshr(third, b.const(16))
    elif "CBCC" in i.modifiers:
        third = b.add(third, b.shl(raw32(b, y), b.const(16)))
    elif "CSFU" in i.modifiers:
        if not (upper_x and upper_y):
            raise unsupported("XMAD.CSFU of lower halves")
        if signed_x:
            third = b.sub(third, negative(b, left, half(b, y, False, False)))
        if signed_y:
            third = b.sub(third, negative(b, right, half(b, x, False, False)))
    if not simple(i, d):
        if "MRG" in i.modifiers:
            raise unsupported("XMAD.MRG with a carry")
        add(i, b, d, b.zext(product, "i64"), b.zext(third, "i64"))
        return
    total = b.add(product, third)
    if "MRG" in i.modifiers:
        total = b.or_(b.and_(total, b.const(0xFFFF)), b.shl(raw32(b, y), b.const(16)))
    set32(b, d, total)


@meaning("IMUL", "IMUL32I", "IMAD", "IMAD32I")
def IMAD(i: Instruction, b: PascalEmitter) -> None:
    only(i, "U32", "S32", "HI", "PO", "SAT")
    d, x, y, *addend = i.operands
    if writes_flags(d) or "PO" in i.modifiers:
        raise unsupported(f"{i.opcode} with a carry")
    types = [m for m in i.modifiers if m in ("U32", "S32")] or ["S32", "S32"]
    if "HI" not in i.modifiers:
        product = b.mul(source(b, x), source(b, y))
    else:
        left, right = (
            (b.sext if t == "S32" else b.zext)(source(b, o), "i64") for t, o in zip(types, (x, y), strict=True)
        )
        product = b.op("extract", "i32", b.mul(left, right), attr=1)
    if "SAT" in i.modifiers:
        if "HI" not in i.modifiers or types != ["S32", "S32"] or not addend:
            raise unsupported(f"{i.opcode}.SAT other than the upper half of signed products")
        set32(b, d, saturated(b, b.add(b.sext(product, "i64"), signed(b, addend[0]))))
        return
    set32(b, d, b.add(product, source(b, addend[0])) if addend else product)


# --- comparison -----------------------------------------------------------------------------------
RELATIONS = ("F", "LT", "EQ", "LE", "GT", "NE", "GE", "T")


def compare(i: Instruction, b: PascalEmitter, name: str, x: Value, y: Value) -> Value:
    """``x name y``; with ``.X``, x and y are the upper words of 64-bit numbers and the flags hold the comparison of the
    lower ones."""
    if name in ("F", "T"):
        return b.const(int(name == "T"), "i1")
    sign = "" if name in ("EQ", "NE") else "u" if "U32" in i.modifiers else "s"
    if "X" not in i.modifiers:
        return b.icmp(sign + name.lower(), x, y)
    same = b.icmp("eq", x, y)
    if name in ("EQ", "NE"):
        equal = b.and_(same, flag(b, ZERO))
        return equal if name == "EQ" else b.not_(equal)
    kind = "u" if "U32" in i.modifiers else "s"
    below = b.not_(flag(b, CARRY))
    less = b.or_(b.icmp(kind + "lt", x, y), b.and_(same, below))
    if name == "LT":
        return less
    if name == "GE":
        return b.not_(less)
    at_most = b.or_(less, b.and_(same, flag(b, ZERO)))
    return at_most if name == "LE" else b.not_(at_most)


@meaning("ISETP")
def ISETP(i: Instruction, b: PascalEmitter) -> None:
    only(i, *RELATIONS, *COMBINATIONS, "U32", "X")
    first, second, x, y, with_ = i.operands
    set_comparison(b, i, compare(i, b, i.modifiers[0], source(b, x), source(b, y)), first, second, with_)


@meaning("ISET")
def ISET(i: Instruction, b: PascalEmitter) -> None:
    """A comparison result as 1.0 (BF) or as all ones."""
    only(i, *RELATIONS, *COMBINATIONS, "U32", "X", "BF")
    d, x, y, with_ = i.operands
    name = next(m for m in i.modifiers if m in RELATIONS)
    result = combine(b, i, compare(i, b, name, source(b, x), source(b, y)), with_)
    finish(b, d, b.select(result, b.const(0x3F800000 if "BF" in i.modifiers else 0xFFFFFFFF), b.const(0)))


@meaning("ICMP")
def ICMP(i: Instruction, b: PascalEmitter) -> None:
    """Returns A if C compares to zero as specified, else B."""
    only(i, *RELATIONS, "U32")
    d, x, y, z = i.operands
    holds = compare(i, b, i.modifiers[0], source(b, z), b.const(0))
    set32(b, d, b.select(holds, source(b, x), source(b, y)))


@meaning("IMNMX")
def IMNMX(i: Instruction, b: PascalEmitter) -> None:
    only(i, "U32", "XHI", "XLO", "XMED")
    d, x, y, p = i.operands
    left, right = source(b, x), source(b, y)
    kind = "u" if "U32" in i.modifiers else "s"
    less, same = b.icmp(kind + "lt", left, right), b.icmp("eq", left, right)
    if "XLO" in i.modifiers or "XMED" in i.modifiers:
        undecided = flag(b, ZERO)
        less = b.select(undecided, less, flag(b, CARRY))
        same = b.and_(undecided, same)
    minimum = predicate(b, p)
    take_left = b.select(minimum, less, b.not_(less))
    if writes_flags(d):
        b.op("set_pred", "void", same, attr=ZERO)
        b.op("set_pred", "void", less, attr=CARRY)
    set32(b, plain_register(d), b.select(take_left, left, right))


@meaning("PSETP", "PSET")
def PSETP(i: Instruction, b: PascalEmitter) -> None:
    """``(p op q) op r`` of predicates."""
    only(i, *COMBINATIONS, "BF")
    names = [m for m in i.modifiers if m in COMBINATIONS]
    *out, p, q, r = i.operands
    inner = b.binary(COMBINATIONS[names[0]], predicate(b, p), predicate(b, q))
    other = predicate(b, r)
    if i.opcode == "PSET":
        result = b.binary(COMBINATIONS[names[1]], inner, other)
        finish(b, out[0], b.select(result, b.const(0x3F800000 if "BF" in i.modifiers else 0xFFFFFFFF), b.const(0)))
        return
    results = [
        b.binary(COMBINATIONS[names[1]], x, other)
        for x, o in ((inner, out[0]), (b.not_(inner), out[1]))
        if o.index != PT
    ]
    for o, value in zip([o for o in out if o.index != PT], results, strict=True):
        set_predicate(b, o, value)


@meaning("CSET", "CSETP")
def CSET(i: Instruction, b: PascalEmitter) -> None:
    """The condition code as a value or a predicate."""
    test = condition(b, next(m for m in i.modifiers if m not in ("BF", *COMBINATIONS)))
    with_ = i.operands[-1]
    if i.opcode == "CSETP":
        set_comparison(b, i, test, i.operands[0], i.operands[1], with_)
        return
    result = combine(b, i, test, with_)
    finish(b, i.operands[0], b.select(result, b.const(0x3F800000 if "BF" in i.modifiers else 0xFFFFFFFF), b.const(0)))


# --- logic and shifts -----------------------------------------------------------------------------
def tested(i: Instruction, b: PascalEmitter, p: Operand | None, result: Value) -> None:
    """The predicate result of a logic instruction: whether the result is zero (Z) or not (NZ)."""
    if p is None:
        return
    name = next((m for m in i.modifiers if m in ("T", "Z", "NZ")), "F")
    zero = b.icmp("eq", result, b.const(0))
    if "X" in i.modifiers:
        zero = b.and_(zero, flag(b, ZERO))
    values = {
        "F": lambda: b.const(0, "i1"),
        "T": lambda: b.const(1, "i1"),
        "Z": lambda: zero,
        "NZ": lambda: b.not_(zero),
    }
    set_predicate(b, p, values[name]())


def predicate_first(i: Instruction) -> tuple[Operand | None, list[Operand]]:
    operands = list(i.operands)
    return (operands.pop(0) if operands[0].kind is Kind.PREDICATE else None), operands


@meaning("LOP", "LOP32I")
def LOP(i: Instruction, b: PascalEmitter) -> None:
    only(i, "AND", "OR", "XOR", "PASS_B", "X", "T", "Z", "NZ")
    p, (d, x, y) = predicate_first(i)
    right = source(b, y)
    if "PASS_B" in i.modifiers:
        result = right
    else:
        name = next(m for m in i.modifiers if m in ("AND", "OR", "XOR"))
        result = b.binary(name.lower(), source(b, x), right)
    tested(i, b, p, result)
    finish(b, d, result)


@meaning("LOP3")
def LOP3(i: Instruction, b: PascalEmitter) -> None:
    only(i, "LUT", "X", "T", "Z", "NZ")
    p, (d, *sources, lut) = predicate_first(i)
    result = b.op("lop3", "i32", *(source(b, o) for o in sources), attr=lut.value)
    tested(i, b, p, result)
    finish(b, d, result)


@meaning("SHL", "SHR")
def SHIFT(i: Instruction, b: PascalEmitter) -> None:
    """Shifts; an amount above 31 gives zero or the sign, ``.W`` takes the amount modulo 32."""
    only(i, "W", "U32")
    d, x, amount = i.operands
    by = source(b, amount)
    if "W" in i.modifiers:
        by = b.and_(by, b.const(31))
    name = "shl" if i.opcode == "SHL" else "lshr" if "U32" in i.modifiers else "ashr"
    finish(b, d, b.binary(name, source(b, x), by))


@meaning("SHF")
def SHF(i: Instruction, b: PascalEmitter) -> None:
    """Funnel shifts: left returns the upper word of the pair, right the lower one."""
    only(i, "L", "R", "W", "U64", "S64")
    d, *rest = i.operands
    if writes_flags(d):
        raise unsupported("SHF that writes the condition code")
    left = "L" in i.modifiers
    kind = next((m for m in i.modifiers if m in ("U64", "S64")), "U32")
    modifiers = ("L" if left else "R", *(("W",) if "W" in i.modifiers else ()), kind, *(("HI",) if left else ()))
    common.MEANINGS["SHF"](Instruction(i.address, "SHF", modifiers, (d, *rest)), b)


def field(b: PascalEmitter, o: Operand) -> tuple[Value, Value]:
    """Position and length of a bit field: bytes 0 and 1 of a source."""
    if o.kind is Kind.IMMEDIATE:
        return b.const(o.value & 0xFF), b.const(o.value >> 8 & 0xFF)
    word = source(b, o)
    return b.and_(word, b.const(0xFF)), b.and_(b.lshr(word, b.const(8)), b.const(0xFF))


@meaning("BFE")
def BFE(i: Instruction, b: PascalEmitter) -> None:
    """PTX ``bfe``; the sign of a signed field is its highest bit, or bit 31 if the field extends beyond it."""
    only(i, "U32", "BREV")
    d, x, y = i.operands
    word = source(b, x)
    if "BREV" in i.modifiers:
        word = b.op("bitreverse", "i32", word)
    position, length = field(b, y)
    signed = "U32" not in i.modifiers
    wide_word = b.sext(word, "i64") if signed else b.zext(word, "i64")
    start = b.zext(b.binary("umin", position, b.const(63)), "i64")
    moved = b.binary("ashr" if signed else "lshr", wide_word, start)
    up = b.sub(b.const(64, "i64"), b.zext(b.binary("umin", length, b.const(64)), "i64"))
    kept = b.shl(moved, up)
    result = b.trunc(b.binary("ashr" if signed else "lshr", kept, up), "i32")
    if signed:
        result = b.select(b.icmp("eq", length, b.const(0)), b.const(0), result)
    finish(b, d, result)


@meaning("BFI")
def BFI(i: Instruction, b: PascalEmitter) -> None:
    """PTX ``bfi``: inserts bits of A into C at the position that B specifies."""
    only(i)
    d, x, y, z = i.operands
    position, length = field(b, y)
    ones = b.sub(b.shl(b.const(1, "i64"), b.zext(b.binary("umin", length, b.const(63)), "i64")), b.const(1, "i64"))
    start = b.zext(position, "i64")
    mask = b.trunc(b.shl(ones, start), "i32")
    inserted = b.trunc(b.shl(b.zext(source(b, x), "i64"), start), "i32")
    finish(b, d, b.or_(b.and_(inserted, mask), b.and_(source(b, z), b.not_(mask))))


@meaning("FLO", "POPC", "IDP")
def AS_LATER(i: Instruction, b: PascalEmitter) -> None:
    """Instructions with the same meaning as on later chips."""
    shared(i, b)


_ = set_flags
