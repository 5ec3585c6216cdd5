"""Rows of the video instructions: operations on bytes and halves of registers, with a second operation.

Facts: as in :mod:`tables_integer`; what they do: PTX ISA, "Scalar Video Instructions" and "SIMD Video Instructions".
"""

from __future__ import annotations

from collections.abc import Sequence

from warpwright.isa.maxwell.fields import (
    SLOT_A,
    SLOT_B,
    A,
    Choice,
    Custom,
    Derived,
    Row,
    Src,
    UndefinedField,
    at,
    bit,
    codes,
    flag,
    signed,
    single,
)
from warpwright.isa.maxwell.tables_integer import BOOLEAN, D_CC, P0, P3, P39
from warpwright.isa.program import Kind, Operand
from warpwright.isa.sass.fields import Form


def _kind(word: int, place: int, sign: int) -> tuple[str, str]:
    """(type, part) of a source, encoded in three bits: byte, half or word."""
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
    """Types of both sources.  Two S32 print nothing (S32 and U32 for a shift), nor does a 16-bit type with
    ``immediate``."""

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


def part_types(word: int, form: Form) -> str:
    """The parts of the three sources of IMADSP; the addend is signed if a factor is."""
    signs = bit(word, 48), bit(word, 53), bit(word, 48) or bit(word, 53)
    number = at(51, 2).get(word)
    if number == 3:
        raise UndefinedField("part 3 of the addend of IMADSP is undefined")
    parts = PARTS[at(49, 2).get(word)], ("24", "16H0")[at(54, 1).get(word)], PARTS[number]
    return ".".join("US"[sign] + part for sign, part in zip(signs, parts, strict=True))


PARTS = ("32", "24", "16H0", "16H1")

# SIMD: bytes of A are numbered 0 to 3 and those of B 4 to 7; a selector names one for each lane, the last lane first.
SELECTORS_A = (
    *("0000", "1111", "2222", "3333", "3210", "4321", "5432", "6543"),
    *("3201", "3012", "0213", "3120", "1230", "2310"),
)
SELECTORS_B = ("4444", "5555", "6666", "7777", "7654", "6543", "5432", "4321", "4567", "6745", "5476")
ITS_OWN = 4
"""The default selector, which is not printed: each byte in its own lane."""
IMMEDIATE_BYTE = 15
"""Selector of an immediate B: a single byte, the lowest of a word whose other bytes are 0."""


def selected(which: str, place: int, names: Sequence[str]) -> Custom:
    def read(word: int, form: Form) -> tuple[Operand, ...]:
        number = word >> place & 15
        if which == "B" and number == IMMEDIATE_BYTE:
            value = word >> 20 & 0xFF
            if bit(word, 49):
                return (Operand(Kind.IMMEDIATE, value=signed(value, 8) & 0xFFFFFFFF, name="s16"),)
            return (Operand(Kind.IMMEDIATE, value=value, name="u16"),)
        if number >= len(names):
            raise UndefinedField(f"selector {number} of source {which} is undefined")
        suffix = "" if number == ITS_OWN else f".{names[number]}"
        low, slot = (8, SLOT_A) if which == "A" else (20, SLOT_B)
        return (Operand(Kind.REGISTER, word >> low & 255, slot, suffix=suffix),)

    return Custom(read)


def lane_types(word: int, form: Form) -> str:
    return "" if word >> 48 & 3 == 3 else f"{'US'[bit(word, 48)]}8.{'US'[bit(word, 49)]}8"


def lane_mask(word: int, form: Form) -> str:
    """The lanes of the result; if all are selected, nothing is printed."""
    mask = at(51, 2, 36, 2).get(word)
    if not mask:
        raise UndefinedField("a result of no lane is undefined")
    return "" if mask == 15 else "".join(letter for n, letter in enumerate(LANES) if mask >> n & 1)


LANES = "XYZW"
SECOND = Choice(at(51, 3), ("MRG_16H", "MRG_16L", "MRG_8B0", "MRG_8B2", "ACC", "MIN", "MAX", ""))
UNSIGNED = flag(54, "", "UD")
SAT = flag(55, "SAT")
C = Src("C")
RELATIONS = ("F", "LT", "EQ", "LE", "GT", "NE", "GE", "T")
COMPARE = Choice(at(54, 3), RELATIONS)

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
    Row("VSETP", single(0x50f0, 13), (Choice(at(43, 2, 47, 1), RELATIONS), types(immediate=False), BOOLEAN), (P3, P0, a_source(), b_source(), P39)),
    Row("VABSDIFF4", single(0x5000, 9), (flag(38, "SD"), Derived(lane_types), flag(50, "SAT"), Choice(at(53, 2), ("", "ACC")), Derived(lane_mask)),
        (D_CC, selected("A", 32, SELECTORS_A), selected("B", 28, SELECTORS_B), C)),
    Row("IMADSP", codes(9, R=0x5a80, C=0x4a80, RC=0x5280, I=0x3480), (Derived(part_types),), (D_CC, A(), Src("B"), C)),
)
# fmt: on
