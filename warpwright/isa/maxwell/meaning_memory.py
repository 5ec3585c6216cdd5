"""Loads, stores, atomics, constants, fences and moves of sm_50 to sm_62.

``.E`` marks a 64-bit address.  ``RED`` and ``ATOM`` take generic addresses.  A load with ``.CV`` and a store with
``.WT`` are volatile accesses.
"""

from __future__ import annotations

from dataclasses import replace

from warpwright.isa.maxwell.meaning import (
    CARRY,
    OVERFLOW,
    SIGN,
    ZERO,
    PascalEmitter,
    flag,
    marks,
    meaning,
)
from warpwright.isa.ops import Access
from warpwright.isa.program import RZ, Instruction, Kind, Operand
from warpwright.isa.sass import meaning as common
from warpwright.isa.sass import meaning_memory as wide
from warpwright.isa.sass.meaning import is_predicate, only, raw32, set32, set_words, src32, unsupported
from warpwright.isa.sass.meaning_memory import SIZES, WORDS, address, atomic, atomic_value, size_of, words
from warpwright.isa.sass.meaning_move import special

CACHE = ("CG", "CI", "CS", "LU")
VOLATILE = ("CV", "WT")
SPACES = {**wide.SPACES, "RED": "generic"}


def access(i: Instruction, space: str, size: int, operation: str = "", type: str = "i32") -> Access:
    cache = next((m for m in i.modifiers if m in CACHE), "")
    strong = bool(set(VOLATILE) & set(i.modifiers)) or (bool(operation) and space != "shared")
    return Access(space, size, strong, operation, type, cache)


def place(i: Instruction, b: PascalEmitter, space: str) -> int:
    """The address operand; global and generic addresses must have 64 bits."""
    memory = next(o for o in i.operands if o.kind is Kind.MEMORY)
    far = space in ("global", "generic")
    if far and "E" not in i.modifiers:
        raise unsupported(f"{i.opcode} with an address of 32 bits")
    return address(b, memory, far)


@meaning("LDG", "LD", "LDS", "LDL")
def LD(i: Instruction, b: PascalEmitter) -> None:
    only(i, *SIZES, *CACHE, *VOLATILE, "E", "U")
    space = SPACES[i.opcode]
    d = next(o for o in i.operands if o.kind is Kind.REGISTER)
    size, signed = size_of(i)
    at = place(i, b, space)
    how = access(i, space, size)
    if size < 4:
        value = b.op("load", "i8" if size == 1 else "i16", at, attr=how)
        set32(b, d, b.sext(value, "i32") if signed else b.zext(value, "i32"))
    else:
        set_words(b, d, b.op("load", WORDS[size], at, attr=how))


@meaning("STG", "ST", "STS", "STL")
def ST(i: Instruction, b: PascalEmitter) -> None:
    only(i, *SIZES, *CACHE, *VOLATILE, "E")
    space = SPACES[i.opcode]
    value = i.operands[1]
    size, _ = size_of(i)
    at = place(i, b, space)
    b.op("store", "void", at, words(b, value, size), attr=access(i, space, size))


@meaning("LDC")
def LDC(i: Instruction, b: PascalEmitter) -> None:
    common.MEANINGS["LDC"](i, b)


@meaning("ATOM", "ATOMS", "RED")
def ATOM(i: Instruction, b: PascalEmitter) -> None:
    only(i, *wide.OPERATIONS, *wide.ATOMIC_TYPES, "E", "FTZ", "RN", "SPIN")
    space = SPACES[i.opcode]
    named = i if not {"CAS", "CAST"} & set(i.modifiers) else replace(i, modifiers=_cas_type(i))
    operation, type, size = atomic(named)
    operands = [o for o in i.operands if not is_predicate(o)]
    d = operands.pop(0) if i.opcode != "RED" else None
    _memory, *sources = operands
    at = place(i, b, space)
    result_type = "i32" if size == 4 else "i64"
    if operation in ("cas", "cast"):
        compare, value = (atomic_value(b, o, size) for o in sources[:2])
        how = access(i, space, size, "cas", type)
        old = b.op("atomic", result_type, at, value, compare, attr=how)
    else:
        value = atomic_value(b, sources[0], size)
        old = b.op("atomic", result_type, at, value, attr=access(i, space, size, operation, type))
    if d is not None and d.index != RZ:
        set_words(b, d, old)


def _cas_type(i: Instruction) -> tuple[str, ...]:
    """Compare-and-swap prints 64 as its size, or no size at all."""
    return tuple("U64" if m == "64" else m for m in i.modifiers)


@meaning("MEMBAR")
def MEMBAR(i: Instruction, b: PascalEmitter) -> None:
    only(i, "CTA", "GL", "SYS", "VC", "IVALLD", "IVALLT", "IVALLTD")
    b.op("fence", "void", attr={"CTA": "cta", "SYS": "sys"}.get(i.modifiers[0], "gpu"))


@meaning("CCTL", "DEPBAR", "NOP")
def NOTHING(i: Instruction, b: PascalEmitter) -> None:
    """Affects only order and caches; functional memory is coherent, so there is nothing to do."""
    if any(o.kind is Kind.NAME and o.name.startswith("CC.") for o in i.operands):
        return


# --- moves ----------------------------------------------------------------------------------------
@meaning("MOV", "MOV32I")
def MOV(i: Instruction, b: PascalEmitter) -> None:
    only(i)
    if len(i.operands) > 2:
        raise unsupported("MOV of single bytes")
    set32(b, i.operands[0], src32(b, marks(i.operands[1])))


@meaning("CS2R")
def CS2R(i: Instruction, b: PascalEmitter) -> None:
    only(i)
    set32(b, i.operands[0], special(b, i.operands[1]))


FLAG_BITS = ((ZERO, 0), (SIGN, 1), (CARRY, 2), (OVERFLOW, 3))
"""Bits of the condition code in P2R and R2P (assumed: the order in which the manuals list the flags)."""


@meaning("P2R")
def P2R(i: Instruction, b: PascalEmitter) -> None:
    """Write predicates P0..P6 (masked) into the byte of a register that the modifier selects."""
    only(i, "B1", "B2", "B3")
    d, which, x, mask = i.operands
    byte = next((int(m[1]) for m in i.modifiers), 0)
    numbers = FLAG_BITS if which.name == "CC" else tuple((n, n) for n in range(7))
    total = b.const(0)
    for number, place_ in numbers:
        bit = b.select(flag(b, number), b.const(1 << place_), b.const(0))
        total = b.or_(total, bit)
    chosen = src32(b, marks(mask))
    total = b.shl(b.and_(total, chosen), b.const(8 * byte))
    rest = b.and_(src32(b, x), b.not_(b.shl(b.and_(chosen, b.const(0xFF)), b.const(8 * byte))))
    set32(b, d, b.or_(rest, total))


@meaning("R2P")
def R2P(i: Instruction, b: PascalEmitter) -> None:
    only(i)
    which, x, mask = i.operands
    if mask.kind is not Kind.IMMEDIATE:
        raise unsupported("R2P with a mask in a register")
    byte = int(x.suffix[2]) if x.suffix.startswith(".B") else 0
    bits = raw32(b, Operand(x.kind, x.index))
    numbers = FLAG_BITS if which.name == "CC" else tuple((n, n) for n in range(7))
    values = [
        (number, b.icmp("ne", b.and_(bits, b.const(1 << place_ + 8 * byte)), b.const(0)))
        for number, place_ in numbers
        if mask.value >> place_ & 1
    ]
    for number, value in values:
        b.op("set_pred", "void", value, attr=number)
