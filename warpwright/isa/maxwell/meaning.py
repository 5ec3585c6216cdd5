"""Semantics of the instructions of sm_50 to sm_62: a table that extends the common one, and the condition code.

An instruction with the same meaning as on later chips uses that meaning (:data:`SHARED`); others are registered here by
:func:`meaning`.

**Condition code.** Every thread has four flags: zero, sign, carry and overflow, which ``.CC`` writes.  They live in
predicates beyond P6 (:data:`ZERO` …) and only those that the program reads are computed (:func:`flags_read`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from warpwright.isa.ops import Value
from warpwright.isa.program import Instruction, Kind, Operand
from warpwright.isa.sass import meaning as common
from warpwright.isa.sass.meaning import Emitter, set32, unsupported

ZERO, SIGN, CARRY, OVERFLOW = 8, 9, 10, 11
"""Predicate numbers of the flags."""
ALL_FLAGS = frozenset((ZERO, SIGN, CARRY, OVERFLOW))


@dataclass(slots=True)
class PascalEmitter(Emitter):
    """An emitter that knows which condition-code flags the program reads."""

    flags: frozenset[int] = ALL_FLAGS


Meaning = Callable[[Instruction, PascalEmitter], None]
MEANINGS: dict[str, Meaning] = {}
SHARED = frozenset(
    (
        *("FADD", "FMUL", "FFMA", "FMNMX", "FSETP", "FSET", "FCHK", "MUFU", "DADD", "DMUL", "DFMA", "DMNMX", "DSETP"),
        *("HSET2", "I2F", "SEL", "PRMT", "ISETP", "IMNMX", "POPC", "FLO", "S2R", "VOTE", "SHFL", "BAR"),
        *("B2R", "DEPBAR", "NOP", "BPT", "LEPC", "KIL"),
    )
)
"""Opcodes whose common meaning also applies to these chips."""


def meaning(*opcodes: str) -> Callable[[Meaning], Meaning]:
    """Register a function as the meaning of ``opcodes`` on these chips."""

    def register(function: Meaning) -> Meaning:
        for opcode in opcodes:
            if opcode in MEANINGS:
                raise ValueError(f"{opcode} has two meanings")
            MEANINGS[opcode] = function
        return function

    return register


# --- condition code -------------------------------------------------------------------------------
TESTS: dict[str, frozenset[int]] = {
    "F": frozenset(),
    "T": frozenset(),
    "EQ": frozenset((ZERO,)),
    "NE": frozenset((ZERO,)),
    "LT": frozenset((SIGN, OVERFLOW)),
    "GE": frozenset((SIGN, OVERFLOW)),
    "LE": frozenset((ZERO, SIGN, OVERFLOW)),
    "GT": frozenset((ZERO, SIGN, OVERFLOW)),
    "LO": frozenset((CARRY,)),
    "HS": frozenset((CARRY,)),
    "LS": frozenset((CARRY, ZERO)),
    "HI": frozenset((CARRY, ZERO)),
    "SFF": frozenset((SIGN,)),
    "SFT": frozenset((SIGN,)),
    "OFF": frozenset((OVERFLOW,)),
    "OFT": frozenset((OVERFLOW,)),
}
"""Tests of the condition code and the flags that they read; the names of unordered ones (EQU …) end in U."""


def test_name(name: str) -> str:
    """A printed test without ``CC.`` and without the U of unordered tests, because integer results are always
    ordered."""
    plain = name.removeprefix("CC.")
    return plain[:-1] if plain not in TESTS and plain.endswith("U") else plain


def condition_operand(i: Instruction) -> Operand | None:
    """The condition-code test of a control instruction."""
    return next((o for o in i.operands if o.kind is Kind.NAME and o.name.startswith("CC.")), None)


def flags_of(i: Instruction) -> frozenset[int]:
    """Flags that one instruction reads."""
    found: set[int] = set()
    test = condition_operand(i)
    name = test.name if test is not None else i.modifiers[0] if i.opcode in ("CSET", "CSETP") else ""
    if name:
        found |= TESTS.get(test_name(name), ALL_FLAGS)
    if "X" in i.modifiers:
        found |= {CARRY} if i.opcode in ("IADD", "IADD32I", "IADD3", "LEA", "XMAD", "IMAD") else {ZERO, CARRY}
    if "XLO" in i.modifiers or "XMED" in i.modifiers:
        found |= {ZERO, CARRY}
    if i.opcode in ("P2R", "R2P") and any(o.name == "CC" for o in i.operands):
        found |= ALL_FLAGS
    return frozenset(found)


def flags_read(instructions: Iterable[Instruction]) -> frozenset[int]:
    """Flags that the instructions of a program read."""
    found: frozenset[int] = frozenset()
    for i in instructions:
        found |= flags_of(i)
    return found


def flag(b: PascalEmitter, number: int) -> Value:
    return b.op("get_pred", "i1", attr=number)


def writes_flags(o: Operand) -> bool:
    return o.suffix.endswith(".CC")


def set_flags(
    b: PascalEmitter, d: Operand, result: Value, carry: Value | None = None, overflow: Value | None = None
) -> None:
    """Write the flags of a 32-bit result if ``.CC`` requests them; flags that are not given are false."""
    if not writes_flags(d):
        return
    values = {
        ZERO: lambda: b.icmp("eq", result, b.const(0)),
        SIGN: lambda: b.icmp("slt", result, b.const(0)),
        CARRY: lambda: b.const(0, "i1") if carry is None else carry,
        OVERFLOW: lambda: b.const(0, "i1") if overflow is None else overflow,
    }
    for number in sorted(b.flags):
        b.op("set_pred", "void", values[number](), attr=number)


def condition(b: PascalEmitter, name: str) -> Value:
    """The value of a condition-code test."""
    plain = test_name(name)
    if plain not in TESTS:
        raise unsupported(f"the condition-code test {name}")

    def less() -> Value:
        return b.xor(flag(b, SIGN), flag(b, OVERFLOW))

    rules: dict[str, Callable[[], Value]] = {
        "F": lambda: b.const(0, "i1"),
        "T": lambda: b.const(1, "i1"),
        "EQ": lambda: flag(b, ZERO),
        "NE": lambda: b.not_(flag(b, ZERO)),
        "LT": less,
        "GE": lambda: b.not_(less()),
        "LE": lambda: b.or_(less(), flag(b, ZERO)),
        "GT": lambda: b.not_(b.or_(less(), flag(b, ZERO))),
        "LO": lambda: b.not_(flag(b, CARRY)),
        "HS": lambda: flag(b, CARRY),
        "LS": lambda: b.or_(b.not_(flag(b, CARRY)), flag(b, ZERO)),
        "HI": lambda: b.and_(flag(b, CARRY), b.not_(flag(b, ZERO))),
        "SFF": lambda: b.not_(flag(b, SIGN)),
        "SFT": lambda: flag(b, SIGN),
        "OFF": lambda: b.not_(flag(b, OVERFLOW)),
        "OFT": lambda: flag(b, OVERFLOW),
    }
    return rules[plain]()


def plain_register(o: Operand) -> Operand:
    """A destination operand without its ``.CC``."""
    return replace(o, suffix="") if o.suffix else o


def finish(
    b: PascalEmitter, d: Operand, result: Value, carry: Value | None = None, overflow: Value | None = None
) -> None:
    """Write a 32-bit result and its flags."""
    set_flags(b, d, result, carry, overflow)
    set32(b, plain_register(d), result)


def shared(i: Instruction, b: PascalEmitter) -> None:
    """Use the common meaning of an instruction."""
    if i.operands and i.operands[0].kind is Kind.REGISTER and writes_flags(i.operands[0]):
        raise unsupported(f"{i.opcode} that writes the condition code")
    common.MEANINGS[i.opcode](i, b)


def marks(o: Operand) -> Operand:
    """Apply the ``.NEG`` and ``.ABS`` marks of an immediate to its bits."""
    if o.kind not in (Kind.FLOAT, Kind.IMMEDIATE) or not o.suffix:
        return o
    value, width = o.value, {"f16": 16, "f64": 64}.get(o.name, 32)
    if o.kind is Kind.FLOAT:
        if ".ABS" in o.suffix:
            value &= ~(1 << width - 1)
        if ".NEG" in o.suffix:
            value ^= 1 << width - 1
    elif ".INV" in o.suffix:
        value = ~value & 0xFFFFFFFF
    else:
        if ".ABS" in o.suffix and value >> 31:
            value = -value & 0xFFFFFFFF
        if ".NEG" in o.suffix:
            value = -value & 0xFFFFFFFF
    rest = "".join("." + part for part in o.suffix.split(".")[1:] if part not in ("NEG", "ABS", "INV"))
    return replace(o, value=value, suffix=rest)
