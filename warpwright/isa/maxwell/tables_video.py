"""Rows of the video instructions: scalar operations on bytes and halves of registers, with a second operation.

Facts: as in :mod:`tables_integer`; what they do: PTX ISA, "Scalar Video Instructions".
"""

from __future__ import annotations

from warpwright.isa.maxwell.fields import (
    SLOT_A,
    SLOT_B,
    Choice,
    Custom,
    Derived,
    Row,
    Src,
    UndefinedField,
    at,
    bit,
    flag,
    single,
)
from warpwright.isa.maxwell.tables_integer import D_CC
from warpwright.isa.program import Kind, Operand
from warpwright.isa.sass.fields import Form


def _kind(word: int, place: int, sign: int) -> tuple[str, str]:
    """(type, part) of a source: three bits choose byte, half or word."""
    selection = word >> place & 7
    letter = "S" if word >> sign & 1 else "U"
    if selection < 4:
        return f"{letter}8", f".B{selection}" if selection else ""
    if selection < 6:
        return f"{letter}16", ".H1" if selection == 5 else ""
    if selection == 6:
        return f"{letter}32", ""
    raise UndefinedField("selection 7 of a video source is undefined")


def _kind_b(word: int, sign: bool = True) -> tuple[str, str]:
    """As :func:`_kind` for source B, which may be a 16-bit immediate."""
    signed = sign and word >> 49 & 1
    if not word >> 50 & 1:
        return ("S16" if signed else "U16"), ""
    return _kind(word if sign else word & ~(1 << 49), 28, 49)


def types(sign_b: bool = True, immediate: bool = True) -> Derived:
    """The types of both sources; two S32 (S32 and U32 of a shift), with ``immediate`` one of 16 bits as well, print nothing."""

    def name(word: int, form: Form) -> str:
        a, b = _kind(word, 36, 48)[0], _kind_b(word, sign_b)[0]
        usual = ("S" if sign_b else "U") + ("32" if word >> 50 & 1 else "16")
        return "" if (a, b) == ("S32", usual) and (immediate or word >> 50 & 1) else f"{a}.{b}"

    return Derived(name)


def a_source(negate: int | None = None, other: int | None = None) -> Custom:
    def read(word: int, form: Form) -> tuple[Operand, ...]:
        minus = bit(word, negate) and not bit(word, other)
        return (Operand(Kind.REGISTER, word >> 8 & 255, SLOT_A, minus, suffix=_kind(word, 36, 48)[1]),)

    return Custom(read)


def b_source(
    negate: int | None = None, other: int | None = None, sign: bool = True, printed_signed: bool = True
) -> Custom:
    def read(word: int, form: Form) -> tuple[Operand, ...]:
        minus = bit(word, negate) and not bit(word, other)
        if word >> 50 & 1:
            return (Operand(Kind.REGISTER, word >> 20 & 255, SLOT_B, minus, suffix=_kind_b(word, sign)[1]),)
        value = word >> 20 & 0xFFFF
        name = "u16"
        if sign and word >> 49 & 1:
            value |= 0xFFFF0000 if value >> 15 else 0
            name = "s16" if printed_signed and (negate is None or _kind(word, 36, 48)[0] == "S32") else "u16"
        return (Operand(Kind.IMMEDIATE, value=value, name=name, suffix=".NEG" if minus else ""),)

    return Custom(read)


def both(first: int, second: int) -> Derived:
    return Derived(lambda word, form: "PO" if bit(word, first) and bit(word, second) else "")


SECOND = Choice(at(51, 3), ("MRG_16H", "MRG_16L", "MRG_8B0", "MRG_8B2", "ACC", "MIN", "MAX", ""))
UNSIGNED = flag(54, "", "UD")
SAT = flag(55, "SAT")
C = Src("C")
COMPARE = Choice(at(54, 3), ("F", "LT", "EQ", "LE", "GT", "NE", "GE", "T"))

# fmt: off
ROWS: tuple[Row, ...] = (
    Row("VADD", single(0x2000, 6), (UNSIGNED, types(), both(56, 57), SAT, SECOND), (D_CC, a_source(57, 56), b_source(56, 57), C)),
    Row("VMNMX", single(0x3a00, 7), (UNSIGNED, types(), flag(56, "MX"), SAT, SECOND), (D_CC, a_source(), b_source(), C)),
    Row("VABSDIFF", single(0x5400, 8), (flag(54, "SD"), types(), SAT, SECOND), (D_CC, a_source(), b_source(), C)),
    Row("VSHR", single(0x5600, 8), (UNSIGNED, types(False), flag(49, "W"), SAT, SECOND), (D_CC, a_source(), b_source(sign=False), C)),
    Row("VSHL", single(0x5700, 8), (UNSIGNED, types(False), flag(49, "W"), SAT, SECOND), (D_CC, a_source(), b_source(sign=False), C)),
    Row("VSET", single(0x4000, 7), (COMPARE, types(), SECOND), (D_CC, a_source(), b_source(), C)),
    Row("VMAD", single(0x5f00, 8), (types(immediate=False), both(53, 54), Choice(at(51, 2), ("", "SHR_7", "SHR_15")), SAT),
        (D_CC, a_source(54, 53), b_source(printed_signed=False), Custom(lambda word, form: Src("C", negate=None if bit(word, 54) else 53).read(word, form)))),
)
# fmt: on
