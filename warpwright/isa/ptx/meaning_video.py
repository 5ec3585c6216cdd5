"""Scalar video instructions (PTX ISA, section 9.7.18): an operation on parts of words, saturation, a second operation.

Chips before sm_70 have machine instructions for them, which follow the manual.  For later chips the compiler generates
64-bit arithmetic, which departs from the manual as follows (read from its code for sm_90 and checked on an H200):

- a byte or half saturates to its largest value for every value out of range, including negative ones; a shift saturates
to a word; - a saturated word of an unsigned sum or difference is limited below, not above; - ``min`` and ``max``
compare 64 bits: for a sum, a difference or a saturated shift, its word is sign-extended; - the upper half of the result
is the upper half of the operation's word; - factors and addend of ``vmad`` are signed words; before sm_70 this applies
if a factor is a whole word, for which there is no instruction.
"""

from __future__ import annotations

from warpwright.isa.ops import Value
from warpwright.isa.ptx.meaning import Emitter, count_operands, is_signed, meaning, only, types_of, unsupported
from warpwright.isa.ptx.syntax import Instruction, Negated, Operand, Register

FIRST_WRITTEN = 70
"""The first architecture for which the compiler generates arithmetic for video instructions."""
RESULT_BITS = 34
"""Width of the operation's signed result (section 9.7.18); only a left shift has more."""
SECOND = ("add", "min", "max")
RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")
SHIFTS = ("vshl", "vshr")


def extended(b: Emitter, word: Value, at: int, bits: int, signed: bool) -> Value:
    """Bits of a word from ``at`` on, as i64."""
    piece = b.trunc(b.lshr(word, b.const(at)) if at else word, f"i{bits}")
    return b.sext(piece, "i64") if signed else b.zext(piece, "i64")


def place(o: Operand) -> tuple[int, int]:
    """(first bit, number of bits) of an operand's part."""
    if not isinstance(o, Register) or not o.part:
        return 0, 32
    if len(o.part) != 2 or o.part[1] not in ("0123" if o.part[0] == "b" else "01"):
        raise unsupported(f"part .{o.part} of a scalar video instruction")
    bits = 8 if o.part[0] == "b" else 16
    return bits * int(o.part[1]), bits


def part(b: Emitter, o: Operand, type: str) -> Value:
    """A byte, half or whole word as i64, extended according to its type."""
    whole = Register(o.name) if isinstance(o, Register) else o
    return extended(b, b.source(whole, "b32"), *place(o), is_signed(type))


def limits(signed: bool, bits: int) -> tuple[int, int]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def limited(b: Emitter, x: Value, signed: bool, bits: int) -> Value:
    low, high = limits(signed, bits)
    return b.binary("smin", b.binary("smax", x, b.const(low, "i64")), b.const(high, "i64"))


def compared(b: Emitter, i: Instruction, x: Value, y: Value) -> Value:
    """1 where the relation among the modifiers holds between two signed i64."""
    name = next((m for m in i.modifiers if m in RELATIONS), None)
    if name is None:
        raise unsupported(f"{i.name} without a comparison")
    return b.zext(b.icmp(name if name in ("eq", "ne") else f"s{name}", x, y), "i64")


def combined(b: Emitter, i: Instruction, name: str, x: Value, y: Value) -> Value:
    """The operation itself on two signed i64; ``name`` is the opcode without its lane count."""
    if name in ("vadd", "vsub"):
        return b.binary(name[1:], x, y)
    if name == "vavrg":
        total = b.add(x, y)
        return b.ashr(b.add(total, b.zext(b.icmp("sge", total, b.const(0, "i64")), "i64")), b.const(1, "i64"))
    if name == "vabsdiff":
        return b.binary("smax", b.sub(x, y), b.sub(y, x))
    if name in ("vmin", "vmax"):
        return b.binary(f"s{name[1:]}", x, y)
    if name == "vset":
        return compared(b, i, x, y)
    by = b.and_(y, b.const(0xFFFFFFFF, "i64"))
    by = b.and_(by, b.const(31, "i64")) if "wrap" in i.modifiers else b.binary("umin", by, b.const(32, "i64"))
    return b.shl(x, by) if name == "vshl" else b.ashr(x, by)


def saturated(b: Emitter, i: Instruction, x: Value, signed: bool, bits: int) -> Value:
    """``.sat``: the value clamped to its type, or saturated as the compiler's code does it."""
    if i.opcode == "vshl":
        above = b.const(64 - RESULT_BITS, "i64")
        x = b.ashr(b.shl(x, above), above)
    if b.arch < FIRST_WRITTEN:
        return limited(b, x, signed, bits)
    if i.opcode in SHIFTS:
        return limited(b, x, signed, 32)
    if bits < 32:
        return b.binary("umin", x, b.const(limits(signed, bits)[1], "i64"))
    return limited(b, x, True, 32) if signed else b.binary("smax", x, b.const(0, "i64"))


def second(b: Emitter, i: Instruction, x: Value, addend: Value, signed: bool) -> Value:
    """The second operation; ``x``: i64, ``addend`` and the result: words."""
    name = next((m for m in i.modifiers if m in SECOND), None)
    word = b.trunc(x, "i32")
    if name == "add":
        return b.add(word, addend)
    kind = f"{'s' if signed else 'u'}{name}"
    if b.arch < FIRST_WRITTEN:
        return b.binary(kind, word, addend)
    only_word = i.opcode in ("vadd", "vsub") or (i.opcode in SHIFTS and "sat" in i.modifiers)
    whole = b.sext(word, "i64") if only_word else x
    return b.trunc(b.binary(kind, whole, extended(b, addend, 0, 32, signed)), "i32")


def merged(b: Emitter, x: Value, rest: Value, at: int, bits: int) -> Value:
    """A word whose part from bit ``at`` on is ``x`` (i32) and whose other bits are those of ``rest``."""
    mask = (1 << bits) - 1 << at
    own_half = b.arch >= FIRST_WRITTEN and (at, bits) == (16, 16)
    moved = x if own_half or not at else b.shl(x, b.const(at))
    return b.or_(b.and_(moved, b.const(mask)), b.and_(rest, b.const(~mask)))


@meaning("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset")
def video(i: Instruction, b: Emitter) -> None:
    """``vop.dtype.atype.btype{.sat}{.op2} d{.part}, a{.part}, b{.part}{, c}``; vset has no type of its own result."""
    is_set = i.opcode == "vset"
    only(i, *RELATIONS if is_set else ("sat", "clamp", "wrap"), *SECOND)
    count_operands(i, 3, 4)
    to, first, last = [types_of(i)[0], *types_of(i)] if is_set else types_of(i)
    d, o1, o2, *more = i.operands
    signed = is_signed(to) and not (is_set and b.arch < FIRST_WRITTEN)
    at, bits = place(d)
    value = combined(b, i, i.opcode, part(b, o1, first), part(b, o2, last))
    if "sat" in i.modifiers:
        value = saturated(b, i, value, signed, bits)
    needs_more = bits < 32 or any(m in SECOND for m in i.modifiers)
    if needs_more != bool(more):
        raise unsupported(f"{i.name} with {len(i.operands)} operands")
    if not more:
        b.result(d, b.trunc(value, "i32"))
    elif bits < 32:
        assert isinstance(d, Register)
        b.result(Register(d.name), merged(b, b.trunc(value, "i32"), b.source(more[0], "b32"), at, bits))
    else:
        b.result(d, second(b, i, value, b.source(more[0], "b32"), signed))


@meaning("vmad")
def vmad(i: Instruction, b: Emitter) -> None:
    """``vmad.dtype.atype.btype{.sat}{.scale} d, {-}a, {-}b, {-}c``; ``.po`` adds one.

    Negation is complement plus one; a negated operand or a signed factor makes the result signed.
    """
    only(i, "sat", "shr7", "shr15", "po")
    count_operands(i, 4)
    _, first, last = types_of(i)
    d, *sources = i.operands
    (o1, minus1), (o2, minus2), (o3, minus3) = (
        (o.operand, True) if isinstance(o, Negated) else (o, False) for o in sources
    )
    negative = minus1 != minus2
    signed = is_signed(first) or is_signed(last) or negative or minus3
    x, y = part(b, o1, first), part(b, o2, last)
    written = b.arch >= FIRST_WRITTEN or 32 in (place(o1)[1], place(o2)[1])
    if written:
        x, y = (b.sext(b.trunc(factor, "i32"), "i64") for factor in (x, y))
    product = b.mul(x, y)
    addend = b.source(o3, "b32")
    wide = extended(b, b.not_(addend) if minus3 else addend, 0, 32, signed or written)
    total = b.add(b.not_(product) if negative else product, wide)
    if negative or minus3 or "po" in i.modifiers:
        total = b.add(total, b.const(1, "i64"))
    scale = 7 if "shr7" in i.modifiers else 15 if "shr15" in i.modifiers else 0
    if scale:
        total = b.binary("ashr" if signed else "lshr", total, b.const(scale, "i64"))
    if "sat" in i.modifiers and not signed and not written:
        total = b.binary("umin", total, b.const(limits(False, 32)[1], "i64"))
    elif "sat" in i.modifiers:
        total = limited(b, total, signed, 32)
    b.result(d, b.trunc(total, "i32"))
