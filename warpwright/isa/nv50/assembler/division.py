"""Integer quotients and remainders, for which the chip has no instruction.

32 bits: the dividend times the reciprocal of the divisor in f32, both rounded so that the quotient is never too large;
the same again with the remainder; then one correction.  64 bits: one bit per iteration, in a loop that all lanes
execute together. Division by zero returns all ones, and the dividend as remainder, as on later chips.
"""

from __future__ import annotations

from warpwright.isa.nv50.assembler.select_integer import (
    add,
    add_pair,
    compare,
    compare_pair,
    extended,
    logic,
    multiply,
    narrow,
    shift,
    sub,
)
from warpwright.isa.nv50.assembler.selector import Const, Selector, Value, Word, select, width
from warpwright.isa.nv50.assembler.virtual_instructions import word
from warpwright.isa.ops import Op


def unsigned32(s: Selector, x: Word, y: Word) -> tuple[Word, Word]:
    """Quotient and remainder."""
    x, y = s.raw(x), s.raw(y)
    if isinstance(y, Const) and y.bits and y.bits & (y.bits - 1) == 0:
        n = y.bits.bit_length() - 1
        return shift(s, "u32", x, Const(n)), logic(s, "and", x, Const(y.bits - 1))
    divisor = s.result("cvt", ("cvt", "rp", "f32"), "u32", s.src(y))
    inverse = s.result("rcp", ("rcp", "f32"), word(divisor))
    # Two units less: the reciprocal may be one too large, and the divisor was rounded up.
    inverse = s.reg(add(s, inverse, Const(-2 & 0xFFFFFFFF)))

    def part(rest: Word) -> Word:
        f = s.result("cvt", ("cvt", "rz", "f32"), "u32", s.src(rest))
        f = s.result("fmul", ("mul", "rz", "f32"), word(f), word(inverse))
        return s.result("cvt", ("cvt", "rzi", "u32"), "f32", word(f))

    quotient = part(x)
    rest = sub(s, x, multiply(s, quotient, y))
    more = part(rest)
    quotient, rest = s.reg(add(s, quotient, more)), sub(s, rest, multiply(s, more, y))
    for _ in range(2):
        fits = compare(s, "ge", "u32", rest, y)
        quotient = s.reg(sub(s, quotient, fits))
        rest = sub(s, rest, logic(s, "and", fits, y))
    zero = compare(s, "e", "u32", y, Const(0))
    return s.choose(zero, Const(0xFFFFFFFF), quotient), s.choose(zero, x, rest)


def unsigned64(s: Selector, x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient and remainder: 64 rounds of shift and subtract."""
    (x0, x1), (y0, y1) = s.pair(x), s.pair(y)
    left = [s.new() for _ in range(2)]
    rest = [s.new() for _ in range(2)]
    count = s.new()
    divisor = (s.new(), s.new())
    for d, v in (
        (left[0], x0),
        (left[1], x1),
        (rest[0], Const(0)),
        (rest[1], Const(0)),
        (count, Const(64)),
        (divisor[0], y0),
        (divisor[1], y1),
    ):
        s.emit("mov", "mov", "b32", word(d), s.src_or_imm(v))
    guard, s.guard = s.guard, None
    label = f"@divide{len(s.code.instructions)}"
    s.emit("label", label=label)
    s.begin_block()
    # Shift the dividend's upper bit into the remainder.
    shifted = [
        shift(s, "shl", rest[0], Const(1)),
        logic(s, "or", shift(s, "shl", rest[1], Const(1)), shift(s, "u32", rest[0], Const(31))),
    ]
    shifted[0] = logic(s, "or", shifted[0], shift(s, "u32", left[1], Const(31)))
    moved = (
        shift(s, "shl", left[0], Const(1)),
        logic(s, "or", shift(s, "shl", left[1], Const(1)), shift(s, "u32", left[0], Const(31))),
    )
    # A remainder of 64 bits whose upper bit was shifted out is larger than any divisor.
    over = shift(s, "s32", rest[1], Const(31))
    fits = logic(s, "or", over, compare_pair(s, "uge", (shifted[0], shifted[1]), divisor))
    taken = add_pair(
        s,
        (shifted[0], shifted[1]),
        (logic(s, "and", fits, divisor[0]), logic(s, "and", fits, divisor[1])),
        subtract=True,
    )
    bit = logic(s, "or", moved[0], logic(s, "and", fits, Const(1)))
    new = [s.reg(v) for v in (bit, moved[1], *s.pair(taken))]
    for d, v in zip((*left, *rest), new, strict=True):
        s.emit("mov", "mov", "b32", word(d), word(v))
    s.emit("iadd", "add", "b32", word(count), word(count), s.src_or_imm(Const(0xFFFFFFFF)))
    s.begin_block()
    tested = s.test(count)
    s.emit("bra", label=label).guard = ("lg", tested)
    s.begin_block()
    s.guard = guard
    return (left[0], left[1]), (rest[0], rest[1])


def negated(s: Selector, sign: Word, x: Value) -> Value:
    """-x where ``sign`` is all ones, else x."""
    if isinstance(x, tuple):
        flipped = tuple(logic(s, "xor", w, sign) for w in x)
        return add_pair(s, flipped, (logic(s, "and", sign, Const(1)), Const(0)))
    return sub(s, logic(s, "xor", x, sign), sign)


@select("udiv", "urem", "sdiv", "srem")
def divide(s: Selector, op: Op, x: Value, y: Value) -> Value:
    signed, wide = op.name[0] == "s", op.type == "i64"
    if not wide and signed:
        x, y = extended(s, op.type, s.raw(x)), extended(s, op.type, s.raw(y))
    divider = unsigned64 if wide else unsigned32
    if not signed:
        quotient, rest = divider(s, x, y)  # type: ignore[arg-type]
    else:
        sx, sy = (shift(s, "s32", s.pair(v)[1] if wide else s.raw(v), Const(31)) for v in (x, y))
        quotient, rest = divider(s, negated(s, sx, x), negated(s, sy, y))  # type: ignore[arg-type]
        by_zero = _is_zero(s, y)
        flipped = negated(
            s, logic(s, "and", logic(s, "xor", sx, sy), logic(s, "xor", by_zero, Const(0xFFFFFFFF))), quotient
        )
        quotient, rest = flipped, negated(s, sx, rest)
    chosen = quotient if op.name.endswith("div") else rest
    return chosen if isinstance(chosen, tuple) or width(op.type) == 32 else narrow(s, op.type, chosen)


def _is_zero(s: Selector, y: Value) -> Word:
    value = logic(s, "or", *y) if isinstance(y, tuple) else y
    return compare(s, "e", "u32", value, Const(0))
