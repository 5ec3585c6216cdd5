"""Video instructions of sm_50 to sm_62 (PTX ISA, "Scalar Video Instructions" and "SIMD Video Instructions").

A first operation combines bytes or halves of A and B, widened to 34 bits, and may saturate its result to 32 bits; a
second operation combines that result with C: minimum, maximum, sum, or merging into a half or a byte of C.
"""

from __future__ import annotations

from warpwright.isa.maxwell.meaning import PascalEmitter, finish, meaning
from warpwright.isa.maxwell.meaning_integer import source
from warpwright.isa.maxwell.tables_video import ITS_OWN, LANES, RELATIONS, SELECTORS_A, SELECTORS_B
from warpwright.isa.ops import Value
from warpwright.isa.program import Instruction, Kind, Operand
from warpwright.isa.sass.meaning import only, raw32, src32
from warpwright.isa.sass.meaning_integer import COMBINATIONS, set_comparison

TYPES = ("U8", "S8", "U16", "S16", "U32", "S32")
SECOND = ("ACC", "MIN", "MAX", "MRG_16H", "MRG_16L", "MRG_8B0", "MRG_8B2")
RESULT_BITS = 34
MERGES = {"MRG_16H": (16, 16), "MRG_16L": (0, 16), "MRG_8B0": (0, 8), "MRG_8B2": (16, 8)}


def part(b: PascalEmitter, o: Operand, type: str) -> Value:
    """The selected part of a source, widened to 64 bits with its sign."""
    bits, signed = int(type[1:]), type[0] == "S"
    if o.kind is Kind.IMMEDIATE:
        value = o.value - (1 << 32) if signed and o.value >> 31 else o.value
        return b.const(-value if ".NEG" in o.suffix else value, "i64")
    x = raw32(b, Operand(o.kind, o.index))
    place = {".H1": 16, ".B1": 8, ".B2": 16, ".B3": 24}.get(o.suffix, 0)
    if bits < 32:
        up = b.shl(x, b.const(32 - bits - place))
        x = b.binary("ashr" if signed else "lshr", up, b.const(32 - bits))
    wide = b.sext(x, "i64") if signed else b.zext(x, "i64")
    return b.sub(b.const(0, "i64"), wide) if o.negate else wide


def limited(b: PascalEmitter, x: Value, signed: bool, bits: int = 32) -> Value:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return b.binary("smin", b.binary("smax", x, b.const(low, "i64")), b.const(high, "i64"))


def second(i: Instruction, b: PascalEmitter, x: Value, c: Operand, signed: bool) -> Value:
    """The second operation, applied to the 64-bit result of the first; returns 32 bits."""
    name = next((m for m in i.modifiers if m in SECOND), "")
    if name in MERGES:
        place, bits = MERGES[name]
        if "SAT" in i.modifiers:
            x = limited(b, x, signed, bits)
        mask = (1 << bits) - 1 << place
        kept = b.and_(src32(b, c), b.const(~mask & 0xFFFFFFFF))
        moved = b.and_(b.shl(b.trunc(x, "i32"), b.const(place)), b.const(mask))
        return b.or_(kept, moved)
    if "SAT" in i.modifiers:
        x = limited(b, x, signed)
    result = b.trunc(x, "i32")
    if name == "ACC":
        return b.add(result, src32(b, c))
    if name in ("MIN", "MAX"):
        return b.binary(("s" if signed else "u") + name.lower(), result, src32(b, c))
    return result


def types(i: Instruction) -> tuple[str, str]:
    found = [m for m in i.modifiers if m in TYPES]
    return (found[0], found[1]) if found else ("S32", "S32")


def related(i: Instruction, b: PascalEmitter, left: Value, right: Value) -> Value:
    """Whether two 64-bit numbers satisfy an instruction's relation."""
    name = next(m for m in i.modifiers if m in RELATIONS)
    if name in ("F", "T"):
        return b.const(int(name == "T"), "i1")
    return b.icmp(name.lower() if name in ("EQ", "NE") else "s" + name.lower(), left, right)


@meaning("VSETP")
def VSETP(i: Instruction, b: PascalEmitter) -> None:
    only(i, *TYPES, *RELATIONS, *COMBINATIONS)
    first, second, x, y, with_ = i.operands
    kinds = types(i)
    set_comparison(b, i, related(i, b, part(b, x, kinds[0]), part(b, y, kinds[1])), first, second, with_)


@meaning("VADD", "VMNMX", "VABSDIFF", "VSHL", "VSHR", "VSET")
def VIDEO(i: Instruction, b: PascalEmitter) -> None:
    only(i, *TYPES, *SECOND, *RELATIONS, "UD", "SD", "SAT", "MX", "PO", "W")
    d, x, y, c = i.operands
    kinds = types(i)
    left, right = part(b, x, kinds[0]), part(b, y, kinds[1])
    signed = "UD" not in i.modifiers if i.opcode != "VABSDIFF" else "SD" in i.modifiers
    signed = signed and i.opcode != "VSET"  # its result has no sign (PTX ISA, ``vset``)
    if i.opcode == "VADD":
        first = b.add(left, right)
        first = b.add(first, b.const(1, "i64")) if "PO" in i.modifiers else first
    elif i.opcode == "VMNMX":
        first = b.binary("smax" if "MX" in i.modifiers else "smin", left, right)
    elif i.opcode == "VABSDIFF":
        difference = b.sub(left, right)
        first = b.binary("smax", difference, b.sub(b.const(0, "i64"), difference))
    elif i.opcode == "VSET":
        first = b.zext(related(i, b, left, right), "i64")
    else:
        by = b.and_(right, b.const(31, "i64")) if "W" in i.modifiers else b.binary("umin", right, b.const(32, "i64"))
        first = b.ashr(left, by)
        if i.opcode == "VSHL":
            above = b.const(64 - RESULT_BITS, "i64")
            first = b.ashr(b.shl(b.shl(left, by), above), above)
    finish(b, d, second(i, b, first, c, signed))


@meaning("VMAD")
def VMAD(i: Instruction, b: PascalEmitter) -> None:
    only(i, *TYPES, "SHR_7", "SHR_15", "SAT", "PO")
    d, x, y, c = i.operands
    kinds = types(i)
    signed = "S" in kinds[0] or "S" in kinds[1] or x.negate or c.negate
    addend = raw32(b, Operand(c.kind, c.index))
    wide = b.sext(addend, "i64") if signed else b.zext(addend, "i64")
    product = b.mul(part(b, x, kinds[0]), part(b, y, kinds[1]))
    total = b.sub(product, wide) if c.negate else b.add(product, wide)
    total = b.add(total, b.const(1, "i64")) if "PO" in i.modifiers else total
    by = {"SHR_7": 7, "SHR_15": 15}.get(next((m for m in i.modifiers if m.startswith("SHR")), ""), 0)
    total = b.binary("ashr" if signed else "lshr", total, b.const(by, "i64")) if by else total
    finish(b, d, b.trunc(limited(b, total, signed) if "SAT" in i.modifiers else total, "i32"))


@meaning("VABSDIFF4")
def VABSDIFF4(i: Instruction, b: PascalEmitter) -> None:
    """Absolute differences of selected bytes, in the lanes of C that the mask names; with ACC, their sum plus C."""
    d, x, y, c = i.operands
    mask = next((m for m in i.modifiers if not m.strip(LANES)), LANES)
    only(i, "U8", "S8", "SD", "SAT", "ACC", mask)
    kinds = [m for m in i.modifiers if m in TYPES] or ["S8", "S8"]
    # An immediate B is encoded as its lowest byte; the assembler moves any literal above 255 to a register.
    words = [
        b.const(o.value & 0xFF) if o.kind is Kind.IMMEDIATE else raw32(b, Operand(o.kind, o.index)) for o in (x, y)
    ]
    selectors = x.suffix[1:] or SELECTORS_A[ITS_OWN], y.suffix[1:] or SELECTORS_B[ITS_OWN]
    total = src32(b, c)
    for n, letter in enumerate(LANES):
        if letter not in mask:
            continue
        sources = [int(selector[3 - n]) for selector in selectors]
        left, right = (
            (b.sext if kind == "S8" else b.zext)(b.trunc(b.lshr(words[k // 4], b.const(8 * (k % 4))), "i8"), "i64")
            for k, kind in zip(sources, kinds, strict=True)
        )
        difference = b.sub(b.binary("smax", left, right), b.binary("smin", left, right))
        if "SAT" in i.modifiers:
            difference = limited(b, difference, "SD" in i.modifiers, 8)
        value = b.trunc(difference, "i32")
        if "ACC" in i.modifiers:
            total = b.add(total, value)
        else:
            lane = 0xFF << 8 * n
            moved = b.and_(b.shl(value, b.const(8 * n)), b.const(lane))
            total = b.or_(b.and_(total, b.const(~lane & 0xFFFFFFFF)), moved)
    finish(b, d, total)


@meaning("IMADSP")
def IMADSP(i: Instruction, b: PascalEmitter) -> None:
    """A product of 16- or 24-bit parts plus such a part."""
    d, *sources = i.operands

    def chosen(o: Operand, name: str) -> Value:
        bits, _, half = name[1:].partition("H")
        value = source(b, o)
        if half == "1":
            value = b.lshr(value, b.const(16))
        up = b.const(32 - int(bits))
        return b.binary("ashr" if name[0] == "S" else "lshr", b.shl(value, up), up)

    x, y, z = (chosen(o, name) for o, name in zip(sources, i.modifiers, strict=True))
    finish(b, d, b.add(b.mul(x, y), z))
