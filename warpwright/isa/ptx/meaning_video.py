"""Scalar video instructions (PTX ISA, section 9.7.18): parts of words, one operation, saturation, one more operation."""

from __future__ import annotations

from warpwright.isa.ops import Value
from warpwright.isa.ptx.meaning import Emitter, is_signed, meaning, only, types_of, unsupported
from warpwright.isa.ptx.syntax import Instruction, Negated, Operand, Register

SECOND = ("add", "min", "max")


def part(b: Emitter, o: Operand, type: str) -> Value:
    """A byte, half or whole of a word as i64, extended as its type says; ``-`` negates."""
    if isinstance(o, Negated):
        return b.neg(part(b, o.operand, type))
    if isinstance(o, Register) and o.part:
        bits = 8 if o.part[0] == "b" else 16
        piece = b.trunc(b.lshr(b.source(Register(o.name), "b32"), b.const(bits * int(o.part[1]))), f"i{bits}")
    else:
        piece = b.source(o, "b32")
    return b.sext(piece, "i64") if is_signed(type) else b.zext(piece, "i64")


def limited(b: Emitter, x: Value, low: int, high: int) -> Value:
    return b.binary("smin", b.binary("smax", x, b.const(low, "i64")), b.const(high, "i64"))


def word_range(type: str) -> tuple[int, int]:
    return (-(1 << 31), (1 << 31) - 1) if is_signed(type) else (0, (1 << 32) - 1)


def combined(i: Instruction, x: Value, y: Value, b: Emitter) -> Value:
    """The operation itself, in 64 bits."""
    if i.opcode in ("vadd", "vsub"):
        return b.binary(i.opcode[1:], x, y)
    if i.opcode == "vabsdiff":
        return b.binary("smax", b.sub(x, y), b.sub(y, x))
    if i.opcode in ("vmin", "vmax"):
        return b.binary("s" + i.opcode[1:], x, y)
    by = b.and_(y, b.const(0xFFFFFFFF, "i64"))
    by = b.and_(by, b.const(31, "i64")) if "wrap" in i.modifiers else b.binary("umin", by, b.const(32, "i64"))
    if i.opcode == "vshl":
        return b.shl(x, by)
    return b.ashr(x, by)


@meaning("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr")
def video(i: Instruction, b: Emitter) -> None:
    """``vop.dtype.atype.btype{.sat}{.op2} d{.part}, a{.part}, b{.part}{, c}``."""
    only(i, "sat", "clamp", "wrap", *SECOND)
    to, first, second = types_of(i)
    d, o1, o2, *more = i.operands
    value = combined(i, part(b, o1, first), part(b, o2, second), b)
    if isinstance(d, Register) and d.part:
        bits = 8 if d.part[0] == "b" else 16
        if "sat" in i.modifiers:
            low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed(to) else (0, (1 << bits) - 1)
            value = limited(b, value, low, high)
        shift = bits * int(d.part[1])
        mask = (1 << bits) - 1 << shift
        piece = b.and_(b.shl(b.trunc(value, "i32"), b.const(shift)), b.const(mask))
        rest = b.and_(b.source(more[0], "b32"), b.const(~mask))
        b.result(Register(d.name), b.or_(piece, rest))
        return
    if "sat" in i.modifiers:
        value = limited(b, value, *word_range(to))
    word = b.trunc(value, "i32")
    operation = next((m for m in i.modifiers if m in SECOND), None)
    if operation is not None:
        if not more:
            raise unsupported(f"{i.name} without a third source")
        kind = operation if operation == "add" else ("s" if is_signed(to) else "u") + operation
        word = b.binary(kind, word, b.source(more[0], "b32"))
    b.result(d, word)


@meaning("vmad")
def vmad(i: Instruction, b: Emitter) -> None:
    """``vmad.dtype.atype.btype{.sat}{.scale} d, {-}a, {-}b, {-}c``; ``.po`` adds one."""
    only(i, "sat", "shr7", "shr15", "po")
    to, first, second = types_of(i)
    d, o1, o2, o3 = i.operands
    total = b.add(b.mul(part(b, o1, first), part(b, o2, second)), part(b, o3, to))
    if "po" in i.modifiers:
        total = b.add(total, b.const(1, "i64"))
    scale = 7 if "shr7" in i.modifiers else 15 if "shr15" in i.modifiers else 0
    total = b.ashr(total, b.const(scale, "i64")) if scale else total
    if "sat" in i.modifiers:
        total = limited(b, total, *word_range(to))
    b.result(d, b.trunc(total, "i32"))
