"""SIMD video instructions (PTX ISA, section 9.7.19): two halves or four bytes of two words at once, lanes chosen by selectors."""

from __future__ import annotations

from warpwright.isa.ops import Value
from warpwright.isa.ptx.meaning import Emitter, count_operands, is_signed, meaning, only, types_of, unsupported
from warpwright.isa.ptx.meaning_video import RELATIONS, combined, extended, limited
from warpwright.isa.ptx.syntax import Instruction, Operand, Register

OPERATIONS = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")
LETTERS = {2: "h", 4: "b"}


def digits(o: Operand, lanes: int, default: str) -> tuple[int, ...]:
    """The digits of a selector or a mask, last digit (lane 0) first."""
    selector = o.part if isinstance(o, Register) and o.part else LETTERS[lanes] + default
    numbers = tuple(int(c) for c in reversed(selector[1:]))
    if selector[0] != LETTERS[lanes] or len(numbers) > lanes:
        raise unsupported(f".{selector} of a video instruction of {lanes} lanes")
    return numbers


def word(b: Emitter, o: Operand) -> Value:
    return b.source(Register(o.name) if isinstance(o, Register) else o, "b32")


@meaning(*(f"{name}{lanes}" for name in OPERATIONS for lanes in LETTERS))
def video_lanes(i: Instruction, b: Emitter) -> None:
    """``vopN.dtype.atype.btype{.sat}{.add} d{.mask}, a{.selector}, b{.selector}, c``; vsetN has no type of its own result.

    Selectors number the lanes of ``a`` (from 0) and then ``b``.  Lanes outside the mask are ``c``'s; with ``.add`` the
    result is ``c`` plus the lanes of the mask.
    """
    name, lanes = i.opcode[:-1], int(i.opcode[-1])
    only(i, *(RELATIONS if name == "vset" else ("sat",)), "add")
    count_operands(i, 4)
    to, first, last = ["u32", *types_of(i)] if name == "vset" else types_of(i)
    d, o1, o2, o3 = i.operands
    if not isinstance(d, Register):
        raise unsupported("a destination that is not a register")
    bits = 32 // lanes
    words = word(b, o1), word(b, o2)
    everything = "3210"[4 - lanes :]
    selectors = digits(o1, lanes, everything), digits(o2, lanes, "7654" if lanes == 4 else "32")
    mask = digits(d, lanes, everything)
    if any(len(s) != lanes or max(s) >= 2 * lanes for s in selectors) or max(mask) >= lanes:
        raise unsupported(f"{i.text}: a selector or mask that names no lane")

    def lane(n: int, type: str) -> Value:
        return extended(b, words[n // lanes], bits * (n % lanes), bits, is_signed(type))

    total = b.source(o3, "b32")
    for n in mask:
        value = combined(b, i, name, lane(selectors[0][n], first), lane(selectors[1][n], last))
        if "sat" in i.modifiers:
            value = limited(b, value, is_signed(to), bits)
        result = b.trunc(value, "i32")
        if "add" in i.modifiers:
            total = b.add(total, result)
            continue
        lane_mask = (1 << bits) - 1 << bits * n
        moved = b.shl(result, b.const(bits * n)) if n else result
        total = b.or_(b.and_(moved, b.const(lane_mask)), b.and_(total, b.const(~lane_mask)))
    b.result(Register(d.name), total)
