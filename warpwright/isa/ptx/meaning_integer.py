"""Integer arithmetic, logic, shifts, bit fields, carries, comparisons and selections (PTX ISA, sections 9.7.1 to 9.7.8)."""

from __future__ import annotations

from warpwright.isa.ops import Value
from warpwright.isa.ptx.division import divide, remainder
from warpwright.isa.ptx.meaning import (
    Emitter,
    count_operands,
    elementwise,
    half,
    is_signed,
    meaning,
    only,
    only_types,
    pack_halves,
    type_of,
    types_of,
    unsupported,
)
from warpwright.isa.ptx.syntax import BITS, Immediate, Instruction, Operand, Pair

INTEGERS = ("u16", "u32", "u64", "s16", "s32", "s64")
PACKED = ("u16x2", "s16x2")


def saturated(b: Emitter, wide: Value, type: str) -> Value:
    """Clamp an i64 to s32 or u32."""
    low, high = (-(1 << 31), (1 << 31) - 1) if is_signed(type) else (0, (1 << 32) - 1)
    clamped = b.binary("smin", b.binary("smax", wide, b.const(low, "i64")), b.const(high, "i64"))
    return b.trunc(clamped, "i32")


def widened(b: Emitter, x: Value, type: str, to: str) -> Value:
    return b.sext(x, to) if is_signed(type) else b.zext(x, to)


def add_sub(i: Instruction, b: Emitter) -> None:
    """add and sub of integers, with .sat and .cc."""
    only(i, "sat", "cc")
    type = only_types(i, *INTEGERS, *PACKED)
    count_operands(i, 3)
    d, *inputs = i.operands
    x, y = (b.source(o, type) for o in inputs)
    name = i.opcode
    if "sat" in i.modifiers:
        wide = b.binary(name, widened(b, x, type, "i64"), widened(b, y, type, "i64"))
        b.result(d, saturated(b, wide, type))
        return
    total = elementwise(b, type, lambda p, q: b.binary(name, p, q), x, y)
    if "cc" in i.modifiers:
        b.set_carry(b.icmp("ult", total, x) if name == "add" else b.icmp("uge", x, y))
    b.result(d, total, is_signed(type))


@meaning("addc", "subc")
def addc(i: Instruction, b: Emitter) -> None:
    """addc and subc.  Subtraction adds the complement: its carry flag is set if nothing was borrowed, as on the
    machine."""
    only(i, "cc")
    type = only_types(i, "u32", "s32", "u64", "s64")
    d, *inputs = i.operands
    x, y = (b.source(o, type) for o in inputs)
    add = i.opcode == "addc"
    y = y if add else b.not_(y)
    first = b.add(x, y)
    total = b.add(first, b.zext(b.carry(), b.type_of(x)))
    if "cc" in i.modifiers:
        b.set_carry(b.or_(b.icmp("ult", first, x), b.icmp("ult", total, first)))
    b.result(d, total)


def product(b: Emitter, i: Instruction, type: str, x: Value, y: Value) -> Value:
    """The part of a product that .lo, .hi or .wide selects."""
    bits = BITS[type]
    if "wide" in i.modifiers:
        to = f"i{2 * bits}"
        return b.mul(widened(b, x, type, to), widened(b, y, type, to))
    if "hi" in i.modifiers:
        if bits == 16:
            wide = b.mul(widened(b, x, type, "i32"), widened(b, y, type, "i32"))
            return b.trunc(b.lshr(wide, b.const(16)), "i16")
        return b.binary("smulhi" if is_signed(type) else "umulhi", x, y)
    return b.mul(x, y)


def mul(i: Instruction, b: Emitter) -> None:
    only(i, "lo", "hi", "wide")
    type = only_types(i, *INTEGERS)
    count_operands(i, 3)
    d, *inputs = i.operands
    x, y = (b.source(o, type) for o in inputs)
    b.result(d, product(b, i, type, x, y), is_signed(type))


def mad(i: Instruction, b: Emitter) -> None:
    only(i, "lo", "hi", "wide", "sat", "cc")
    type = only_types(i, *INTEGERS)
    count_operands(i, 4)
    d, o1, o2, o3 = i.operands
    x, y = b.source(o1, type), b.source(o2, type)
    part = product(b, i, type, x, y)
    addend = b.source(o3, f"{type[0]}{2 * BITS[type]}" if "wide" in i.modifiers else type)
    if "sat" in i.modifiers:
        wide = b.add(b.sext(part, "i64"), b.sext(addend, "i64"))
        b.result(d, saturated(b, wide, type))
        return
    total = b.add(part, addend)
    if "cc" in i.modifiers:
        b.set_carry(b.icmp("ult", total, part))
    b.result(d, total, is_signed(type))


@meaning("madc")
def madc(i: Instruction, b: Emitter) -> None:
    only(i, "lo", "hi", "cc")
    type = only_types(i, "u32", "s32", "u64", "s64")
    d, *inputs = i.operands
    x, y, z = (b.source(o, type) for o in inputs)
    part = product(b, i, type, x, y)
    first = b.add(part, z)
    total = b.add(first, b.zext(b.carry(), b.type_of(x)))
    if "cc" in i.modifiers:
        b.set_carry(b.or_(b.icmp("ult", first, part), b.icmp("ult", total, first)))
    b.result(d, total)


@meaning("mul24", "mad24")
def mul24(i: Instruction, b: Emitter) -> None:
    """Products of the low 24 bits: .lo gives bits 31..0, .hi bits 47..16."""
    only(i, "lo", "hi", "sat")
    type = only_types(i, "u32", "s32")
    d, *inputs = i.operands
    shift = b.const(8)
    name = "ashr" if is_signed(type) else "lshr"
    x, y = (widened(b, b.binary(name, b.shl(b.source(o, type), shift), shift), type, "i64") for o in inputs[:2])
    wide = b.mul(x, y)
    part = b.trunc(b.lshr(wide, b.const(16, "i64")) if "hi" in i.modifiers else wide, "i32")
    if i.opcode == "mad24":
        addend = b.source(inputs[2], type)
        if "sat" in i.modifiers:
            part = saturated(b, b.add(b.sext(part, "i64"), b.sext(addend, "i64")), type)
        else:
            part = b.add(part, addend)
    b.result(d, part)


@meaning("sad")
def sad(i: Instruction, b: Emitter) -> None:
    only(i)
    type = only_types(i, *INTEGERS)
    d, *inputs = i.operands
    x, y, z = (b.source(o, type) for o in inputs)
    less = b.icmp("slt" if is_signed(type) else "ult", x, y)
    b.result(d, b.add(z, b.select(less, b.sub(y, x), b.sub(x, y))), is_signed(type))


@meaning("rem")
def rem(i: Instruction, b: Emitter) -> None:
    only(i)
    type = only_types(i, *INTEGERS)
    d, *inputs = i.operands
    x, y = (b.source(o, type) for o in inputs)
    # Compiled code returns all ones for a remainder by zero.
    nothing = b.icmp("eq", y, b.like(0, y))
    b.result(d, b.select(nothing, b.like(-1, x), remainder(b, type, x, y)), is_signed(type))


def div(i: Instruction, b: Emitter) -> None:
    only(i)
    type = only_types(i, *INTEGERS)
    d, *inputs = i.operands
    x, y = (b.source(o, type) for o in inputs)
    b.result(d, divide(b, type, x, y), is_signed(type))


def absolute(i: Instruction, b: Emitter) -> None:
    type = only_types(i, "s16", "s32", "s64")
    only(i)
    x = b.source(i.operands[1], type)
    b.result(i.operands[0], b.binary("smax", x, b.neg(x)), True)


def negate(i: Instruction, b: Emitter) -> None:
    type = only_types(i, "s16", "s32", "s64")
    only(i)
    b.result(i.operands[0], b.neg(b.source(i.operands[1], type)), True)


def extreme(i: Instruction, b: Emitter) -> None:
    """min and max of integers."""
    only(i, "relu")
    type = only_types(i, *INTEGERS, *PACKED)
    d, *inputs = i.operands
    name = ("s" if is_signed(type) else "u") + i.opcode

    def pick(x: Value, y: Value) -> Value:
        chosen = b.binary(name, x, y)
        return b.binary("smax", chosen, b.like(0, chosen)) if "relu" in i.modifiers else chosen

    b.result(d, elementwise(b, type, pick, *(b.source(o, type) for o in inputs)), is_signed(type))


# --- bits -----------------------------------------------------------------------------------------
@meaning("popc", "clz", "brev")
def count_bits(i: Instruction, b: Emitter) -> None:
    only(i)
    type = only_types(i, "b32", "b64")
    x = b.source(i.operands[1], type)
    name = {"popc": "popcount", "clz": "clz", "brev": "bitreverse"}[i.opcode]
    found = b.op(name, b.type_of(x), x)
    b.result(i.operands[0], found if i.opcode == "brev" else b.trunc(found, "i32"))


@meaning("bfind")
def bfind(i: Instruction, b: Emitter) -> None:
    """Position of the highest bit that differs from the sign; -1 if there is none."""
    only(i, "shiftamt")
    type = only_types(i, "u32", "s32", "u64", "s64")
    x = b.source(i.operands[1], type)
    if is_signed(type):
        x = b.xor(x, b.ashr(x, b.like(BITS[type] - 1, x)))
    zeros = b.trunc(b.op("clz", b.type_of(x), x), "i32")
    none = b.icmp("eq", zeros, b.const(BITS[type]))
    found = zeros if "shiftamt" in i.modifiers else b.sub(b.const(BITS[type] - 1), zeros)
    b.result(i.operands[0], b.select(none, b.const(-1), found))


@meaning("fns")
def fns(i: Instruction, b: Emitter) -> None:
    """The n-th set bit from a base, upwards or (negative n) downwards."""
    only(i)
    d, *inputs = i.operands
    mask, base, n = (b.source(o, "b32") for o in inputs)
    down = b.icmp("slt", n, b.const(0))
    count = b.select(down, b.neg(n), n)
    # Searching downwards is searching upwards in the bit-reversed word.
    word = b.select(down, b.op("bitreverse", "i32", mask), mask)
    start = b.select(down, b.sub(b.const(31), base), base)
    word = b.and_(word, b.shl(b.const(-1), start))
    position, left = b.const(0), count
    for width in (16, 8, 4, 2, 1):
        low = b.and_(b.lshr(word, position), b.const((1 << width) - 1))
        below = b.op("popcount", "i32", low)
        skip = b.icmp("sgt", left, below)
        left = b.select(skip, b.sub(left, below), left)
        position = b.select(skip, b.add(position, b.const(width)), position)
    exists = b.icmp("sle", count, b.op("popcount", "i32", word))
    found = b.select(exists, b.select(down, b.sub(b.const(31), position), position), b.const(-1))
    at_base = b.icmp("ne", b.and_(b.lshr(mask, base), b.const(1)), b.const(0))
    itself = b.select(at_base, base, b.const(-1))
    b.result(d, b.select(b.icmp("eq", n, b.const(0)), itself, found))


def field_place(b: Emitter, o: Operand, bits: int) -> Value:
    """Position or length of a bit field: its low eight bits; for 64-bit fields, which compiled code shifts, all
    bits."""
    x = b.source(o, "u32")
    return b.and_(x, b.const(0xFF)) if bits == 32 else b.binary("umin", x, b.const(0xFF))


@meaning("bfe")
def bfe(i: Instruction, b: Emitter) -> None:
    """Bits from ``pos``, ``len`` of them; signed fields are filled with their highest bit (or the word's)."""
    only(i)
    type = only_types(i, "u32", "s32", "u64", "s64")
    d, *inputs = i.operands
    bits, kind = BITS[type], f"i{BITS[type]}"
    x = b.source(inputs[0], type)
    position, length = (field_place(b, o, bits) for o in inputs[1:])
    empty = b.icmp("eq", length, b.const(0))
    shift, many = b.zext(position, kind), b.zext(length, kind)
    mask = b.sub(b.shl(b.const(1, kind), many), b.const(1, kind))
    if not is_signed(type):
        b.result(d, b.and_(b.lshr(x, shift), mask))
        return
    last = b.binary("umin", b.sub(b.add(position, length), b.const(1)), b.const(bits - 1))
    sign = b.ashr(b.shl(x, b.zext(b.sub(b.const(bits - 1), last), kind)), b.const(bits - 1, kind))
    inside = b.and_(b.lshr(x, shift), mask)
    # Bits of the field beyond the end of the word are copies of the sign.
    held = b.binary("umin", length, b.binary("umax", b.sub(b.const(bits), position), b.const(0)))
    held = b.select(b.icmp("ugt", position, b.const(bits)), b.const(0), held)
    kept = b.sub(b.shl(b.const(1, kind), b.zext(held, kind)), b.const(1, kind))
    value = b.or_(b.and_(inside, kept), b.and_(sign, b.not_(kept)))
    b.result(d, b.select(empty, b.const(0, kind), value))


@meaning("bfi")
def bfi(i: Instruction, b: Emitter) -> None:
    only(i)
    type = only_types(i, "b32", "b64")
    d, o1, o2, o3, o4 = i.operands
    kind = f"i{BITS[type]}"
    x, y = b.source(o1, type), b.source(o2, type)
    position, length = (b.zext(field_place(b, o, BITS[type]), kind) for o in (o3, o4))
    mask = b.shl(b.sub(b.shl(b.const(1, kind), length), b.const(1, kind)), position)
    b.result(d, b.or_(b.and_(b.shl(x, position), mask), b.and_(y, b.not_(mask))))


@meaning("bmsk")
def bmsk(i: Instruction, b: Emitter) -> None:
    """A mask of ``b`` bits from ``a``; .clamp limits both to 32, .wrap takes them modulo 32."""
    only(i, "clamp", "wrap")
    d, *inputs = i.operands
    start, width = (b.source(o, "u32") for o in inputs)
    if "wrap" in i.modifiers:
        start, width = b.and_(start, b.const(31)), b.and_(width, b.const(31))
    b.result(d, b.shl(b.sub(b.shl(b.const(1), width), b.const(1)), start))


@meaning("szext")
def szext(i: Instruction, b: Emitter) -> None:
    """Keep ``b`` bits, sign-extended (.s32) or zero-extended."""
    only(i, "clamp", "wrap")
    type = only_types(i, "u32", "s32")
    d, *inputs = i.operands
    x, width = b.source(inputs[0], type), b.source(inputs[1], "u32")
    if "wrap" in i.modifiers:
        width = b.and_(width, b.const(31))
    room = b.sub(b.const(32), b.binary("umin", width, b.const(32)))
    b.result(d, b.binary("ashr" if is_signed(type) else "lshr", b.shl(x, room), room))


@meaning("dp4a", "dp2a")
def dot(i: Instruction, b: Emitter) -> None:
    """Sums of byte products; dp2a multiplies two halves of ``a`` with the low or high two bytes of ``b``."""
    only(i, "lo", "hi")
    first, second = types_of(i)
    d, *inputs = i.operands
    x, y, total = (b.source(o, "b32") for o in inputs)

    def part(word: Value, n: int, bits: int, signed: bool) -> Value:
        piece = b.trunc(b.lshr(word, b.const(n * bits)), f"i{bits}")
        return b.sext(piece, "i32") if signed else b.zext(piece, "i32")

    if i.opcode == "dp4a":
        pairs = [(part(x, n, 8, is_signed(first)), part(y, n, 8, is_signed(second))) for n in range(4)]
    else:
        skip = 2 if "hi" in i.modifiers else 0
        pairs = [(part(x, n, 16, is_signed(first)), part(y, n + skip, 8, is_signed(second))) for n in range(2)]
    for p, q in pairs:
        total = b.add(total, b.mul(p, q))
    b.result(d, total)


# --- logic and shifts -----------------------------------------------------------------------------
LOGIC_TYPES = ("pred", "b16", "b32", "b64")


@meaning("and", "or", "xor")
def logic(i: Instruction, b: Emitter) -> None:
    only(i)
    type = only_types(i, *LOGIC_TYPES)
    d, *inputs = i.operands
    count_operands(i, 3)
    b.result(d, b.binary(i.opcode, *(b.source(o, type) for o in inputs)))


@meaning("not", "cnot")
def not_(i: Instruction, b: Emitter) -> None:
    only(i)
    type = only_types(i, *LOGIC_TYPES)
    x = b.source(i.operands[1], type)
    if i.opcode == "not":
        b.result(i.operands[0], b.not_(x))
    else:
        b.result(i.operands[0], b.zext(b.icmp("eq", x, b.like(0, x)), b.type_of(x)))


@meaning("lop3")
def lop3(i: Instruction, b: Emitter) -> None:
    """Any function of three bits; with a Boolean operation also whether the result is not zero."""
    only(i, "or", "and")
    d, o1, o2, o3, table, *more = i.operands
    if not isinstance(table, Immediate):
        raise unsupported("lop3 with a table that is not a literal")
    value = b.op("lop3", "i32", *(b.source(o, "b32") for o in (o1, o2, o3)), attr=table.bits & 0xFF)
    if more:
        if not isinstance(d, Pair):
            raise unsupported("lop3 with a predicate source but no predicate destination")
        holds = b.binary(
            "or" if "or" in i.modifiers else "and", b.icmp("ne", value, b.const(0)), b.source(more[0], "pred")
        )
        b.result(d.second, holds)
        d = d.first
    b.result(d, value)


@meaning("shl", "shr")
def shift(i: Instruction, b: Emitter) -> None:
    only(i)
    type = only_types(i, "b16", "b32", "b64", *INTEGERS)
    d, o1, o2 = i.operands
    x = b.source(o1, type)
    by = b.source(o2, "u32")
    name = "shl" if i.opcode == "shl" else "ashr" if is_signed(type) else "lshr"
    if BITS[type] < 32:
        by = b.trunc(b.binary("umin", by, b.const(0xFFFF)), "i16")
    elif BITS[type] > 32:
        by = b.zext(by, "i64")
    b.result(d, b.binary(name, x, by), is_signed(type))


@meaning("shf")
def shf(i: Instruction, b: Emitter) -> None:
    """Funnel shift of b:a; .l gives the upper word, .r the lower."""
    only(i, "l", "r", "wrap", "clamp")
    d, *inputs = i.operands
    low, high, by = (b.source(o, "b32") for o in inputs)
    by = b.and_(by, b.const(31)) if "wrap" in i.modifiers else b.binary("umin", by, b.const(32))
    both, amount = b.op("pack64", "i64", low, high), b.zext(by, "i64")
    left = "l" in i.modifiers
    moved = b.binary("shl" if left else "lshr", both, amount)
    b.result(d, b.op("extract", "i32", moved, attr=1 if left else 0))


SELECTORS = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}
"""Selectors of prmt's modes for c & 3 (PTX ISA, table of ``prmt``, most significant byte first)."""


@meaning("prmt")
def prmt(i: Instruction, b: Emitter) -> None:
    only(i, *SELECTORS)
    d, *inputs = i.operands
    x, y, selector = (b.source(o, "b32") for o in inputs)
    mode = next((m for m in i.modifiers if m in SELECTORS), None)
    if mode is not None:
        choice = b.and_(selector, b.const(3))
        selector = b.const(SELECTORS[mode][3])
        for n in range(2, -1, -1):
            selector = b.select(b.icmp("eq", choice, b.const(n)), b.const(SELECTORS[mode][n]), selector)
    b.result(d, b.op("prmt", "i32", x, selector, y, attr="idx"))


# --- comparison -----------------------------------------------------------------------------------
RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")
FLOAT_RELATIONS = {
    **{r: "o" + r for r in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{r + "u": "u" + r for r in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{"num": "ord", "nan": "uno"},
}
UNSIGNED = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}
COMBINATIONS = ("and", "or", "xor")


def compare(b: Emitter, i: Instruction, type: str, x: Value, y: Value) -> Value:
    """The comparison that the modifiers specify."""
    relation = next((m for m in i.modifiers if m in RELATIONS or m in FLOAT_RELATIONS), None)
    if relation is None:
        raise unsupported(f"{i.opcode} without a comparison")
    if b.type_of(x)[0] != "i":
        if "ftz" in i.modifiers:
            x, y = (b.op("ftz", b.type_of(v), v) for v in (x, y))
        return b.fcmp(FLOAT_RELATIONS[relation], x, y)
    if relation in ("eq", "ne"):
        return b.icmp(relation, x, y)
    if relation in UNSIGNED:
        return b.icmp(UNSIGNED[relation], x, y)
    if relation not in RELATIONS:
        raise unsupported(f"comparison .{relation} of integers")
    return b.icmp(("s" if is_signed(type) else "u") + relation, x, y)


def combine(b: Emitter, i: Instruction, value: Value, with_: Operand | None) -> Value:
    if with_ is None:
        return value
    operation = next(m for m in i.modifiers if m in COMBINATIONS)
    return b.binary(operation, value, b.source(with_, "pred"))


@meaning("setp")
def setp(i: Instruction, b: Emitter) -> None:
    """``p = (a R b) op c``, ``q = !(a R b) op c``; for packed types p and q are the two halves."""
    only(i, "ftz", *RELATIONS, *FLOAT_RELATIONS, *COMBINATIONS)
    type = type_of(i)
    d, o1, o2, *more = i.operands
    with_ = more[0] if more else None
    x, y = b.source(o1, type), b.source(o2, type)
    first, second = (d.first, d.second) if isinstance(d, Pair) else (d, None)
    if type.endswith("x2"):
        kind = {"f16x2": "f16", "bf16x2": "bf16"}[type]
        low, high = (compare(b, i, kind, half(b, x, n, kind), half(b, y, n, kind)) for n in range(2))
        values = combine(b, i, low, with_), combine(b, i, high, with_)
    else:
        holds = compare(b, i, type, x, y)
        values = combine(b, i, holds, with_), combine(b, i, b.not_(holds), with_)
    b.result(first, values[0])
    if second is not None:
        b.result(second, values[1])


TRUE = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}


@meaning("set")
def set_(i: Instruction, b: Emitter) -> None:
    """The comparison result as 1.0, or as all ones in an integer."""
    only(i, "ftz", *RELATIONS, *FLOAT_RELATIONS, *COMBINATIONS)
    to, type = types_of(i)
    d, o1, o2, *more = i.operands
    with_ = more[0] if more else None
    x, y = b.source(o1, type), b.source(o2, type)
    if type.endswith("x2"):
        kind = type[:-2]
        ones = TRUE[kind] if to == type else 0xFFFF
        parts = []
        for n in range(2):
            holds = combine(b, i, compare(b, i, kind, half(b, x, n, kind), half(b, y, n, kind)), with_)
            parts.append(b.select(holds, b.const(ones, "i16"), b.const(0, "i16")))
        b.result(d, pack_halves(b, parts[0], parts[1]))
        return
    holds = combine(b, i, compare(b, i, type, x, y), with_)
    bits = BITS[to]
    b.result(d, b.select(holds, b.const(TRUE.get(to, -1), f"i{bits}"), b.const(0, f"i{bits}")))


@meaning("selp")
def selp(i: Instruction, b: Emitter) -> None:
    only(i)
    type = type_of(i)
    d, o1, o2, p = i.operands
    b.result(d, b.select(b.source(p, "pred"), b.source(o1, type), b.source(o2, type)))


@meaning("slct")
def slct(i: Instruction, b: Emitter) -> None:
    """``a`` where c >= 0 (true for -0.0, false for NaN), else ``b``."""
    only(i, "ftz")
    type, by = types_of(i)
    d, o1, o2, o3 = i.operands
    c = b.source(o3, by)
    if by == "f32":
        c = b.op("ftz", "f32", c) if "ftz" in i.modifiers else c
        holds = b.fcmp("oge", c, b.const(0, "f32"))
    else:
        holds = b.icmp("sge", c, b.const(0))
    b.result(d, b.select(holds, b.source(o1, type), b.source(o2, type)))
