"""Rows of floating-point arithmetic, half pairs and conversions.

Facts: as in :mod:`tables_integer`.
"""

from __future__ import annotations

from dataclasses import replace

from warpwright.isa.maxwell.fields import (
    PACKED,
    A,
    Choice,
    Derived,
    Reg,
    Row,
    Src,
    UndefinedField,
    at,
    codes,
    flag,
    single,
)
from warpwright.isa.maxwell.tables_integer import BOOLEAN, D_CC, P0, P3, P39, D
from warpwright.isa.program import Kind, Operand
from warpwright.isa.sass.fields import Custom, Form

FCOMPARE_NAMES = ("F", "LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU", "T")
FCOMPARE = Choice(at(48, 4), FCOMPARE_NAMES)
FCOMPARE_SELECT = Choice(at(48, 4), tuple("" if n == "GT" else n for n in FCOMPARE_NAMES))
"""FCMP does not print its most common test."""
ROUND_39 = Choice(at(39, 2), ("", "RM", "RP", "RZ"))
ROUND_50 = Choice(at(50, 2), ("", "RM", "RP", "RZ"))
ROUND_51 = Choice(at(51, 2), ("", "RM", "RP", "RZ"))
FTZ_44 = flag(44, "FTZ")
FLUSH_53 = Choice(at(53, 2), ("", "FTZ", "FMZ"))
FLUSH_44 = Choice(at(44, 2), ("", "FTZ", "FMZ"))
SAT_50 = flag(50, "SAT")
SCALE = Choice(at(41, 3), ("", "D2", "D4", "D8", "M8", "M4", "M2"))
B32 = Src("B", negate=45, absolute=49, immediate="f32")
B64 = Src("B", negate=45, absolute=49, immediate="f64")
A_SIGNED = A(negate=48, absolute=46)
B32_SET = Src("B", negate=53, absolute=44, immediate="f32")
B64_SET = Src("B", negate=53, absolute=44, immediate="f64")
HALVES = ("", "F32", "H0_H0", "H1_H1")
MERGE = Choice(at(49, 2), ("", "F32", "MRG_H0", "MRG_H1"))
FLOAT_SIZE = (None, "F16", "F32", "F64")
INTEGER_SIZES = ("U8", "U16", "U32", "U64", "S8", "S16", "S32", "S64")


def float32(suffix_bits: tuple[tuple[int, str], ...]) -> Custom:
    """The 32-bit float immediate at bit 20, with its printed marks."""

    def read(word: int, form: Form) -> tuple[Operand, ...]:
        marks = "".join(f".{name}" for bit, name in suffix_bits if word >> bit & 1)
        return (Operand(Kind.FLOAT, value=word >> 20 & 0xFFFFFFFF, suffix=marks, name="f32"),)

    return Custom(read)


def halves32(word: int, form: Form) -> tuple[Operand, ...]:
    """Two halves as one 32-bit immediate at bit 20, upper half first."""
    bits = word >> 20 & 0xFFFFFFFF
    return tuple(Operand(Kind.FLOAT, value=half, name="f16") for half in (bits >> 16, bits & 0xFFFF))


def half_immediates(word: int, form: Form) -> tuple[Operand, ...]:
    """Two 10-bit halves (sign, exponent, four fraction bits), upper half first."""
    low = (word >> 20 & 0x1FF) << 6 | (word >> 29 & 1) << 15
    high = (word >> 30 & 0x1FF) << 6 | (word >> 56 & 1) << 15
    return tuple(Operand(Kind.FLOAT, value=half, name="f16") for half in (high, low))


def packed(bit: int) -> Choice:
    return Choice(at(bit, 2), HALVES)


def packed_b(negate: int | None, absolute: int | None) -> Src:
    return Src("B", negate=negate, absolute=absolute, suffix=packed(28))


def sized(position: int, sign: int, *undefined: int) -> Derived:
    """Integer type of a conversion: two bits of size, of which some values are ``undefined``, and one sign bit."""

    def name(word: int, form: Form) -> str:
        size = word >> position & 3
        if size in undefined:
            raise UndefinedField(f"integer size {size} of this conversion is undefined")
        return INTEGER_SIZES[size + 4 * (word >> sign & 1)]

    return Derived(name)


def part_of(word: int) -> str:
    """The part of an integer source that is read: a byte, or a half for 16-bit types."""
    part = word >> 41 & 3
    if not part:
        return ""
    if word >> 10 & 3 == 1:
        if part != 2:
            raise UndefinedField(f"part {part} of a 16-bit source is undefined")
        return ".H1"
    return f".B{part}"


def integer_source(word: int, form: Form) -> tuple[Operand, ...]:
    """Source of I2F and I2I."""
    source = Src("B", negate=45, absolute=49, packed=True).read(word, form)[0]
    return (replace(source, suffix=source.suffix + part_of(word)),)


def float_source(word: int, form: Form) -> tuple[Operand, ...]:
    """Source of F2F and F2I; an immediate has the format that the instruction converts from."""
    size = word >> 10 & 3
    half = size == 1
    if form.b == "immediate":
        marks = (".NEG" if word >> 45 & 1 else "") + (".ABS" if word >> 49 & 1 else "")
        low, sign = word >> 20 & 0x7FFFF, word >> 56 & 1
        if half:
            marks += ".H1" if word >> 41 & 1 else ""
            return (Operand(Kind.FLOAT, value=word >> 20 & 0xFFFF, suffix=marks, name="f16"),)
        if size == 3:
            return (Operand(Kind.FLOAT, value=low << 44 | sign << 63, suffix=marks, name="f64"),)
        return (Operand(Kind.FLOAT, value=low << 12 | sign << 31, suffix=marks, name="f32"),)
    source = Src("B", negate=45, absolute=49, packed=half).read(word, form)[0]
    return (replace(source, suffix=".H1" if half and word >> 41 & 1 else ""),)


def f2i_source(word: int, form: Form) -> tuple[Operand, ...]:
    """As :func:`float_source`; the mark of an upper half is printed for every format."""
    source = float_source(word, form)[0]
    if source.kind is Kind.FLOAT:
        upper = word >> 41 & 1 and not source.suffix.endswith(".H1")
        return (replace(source, suffix=source.suffix + ".H1") if upper else source,)
    name = PACKED if source.kind is Kind.CONSTANT else source.name
    return (replace(source, suffix=".H1" if word >> 41 & 1 else "", name=name),)


FROM_FLOAT = Choice(at(10, 2), FLOAT_SIZE)
TO_FLOAT = Choice(at(8, 2), FLOAT_SIZE)


def f2f_rounding(word: int, form: Form) -> str:
    """Rounding to an integral value (bit 42) between equal formats, otherwise the rounding direction of the
    conversion."""
    mode = word >> 39 & 3
    if word >> 42 & 1 and word >> 8 & 3 == word >> 10 & 3:
        return ("ROUND", "FLOOR", "CEIL", "TRUNC")[mode]
    if word >> 8 & 3 == word >> 10 & 3:
        return ("", "PASS", "PASS", "PASS")[mode]
    return ("", "RM", "RP", "RZ")[mode]


MUFU_NAMES = ("COS", "SIN", "EX2", "LG2", "RCP", "RSQ", "RCP64H", "RSQ64H", "SQRT")


def swizzle(word: int, form: Form) -> tuple[Operand, ...]:
    """Printed signs of the two addends in each lane of a quad: plus, minus A, minus B, zero."""
    bits = word >> 28 & 0xFF
    name = "".join(("PP", "NP", "PN", "ZP")[bits >> 2 * n & 3] for n in reversed(range(4)))
    return (Operand(Kind.NAME, value=bits, name=name),)


# fmt: off
ROWS = (
    # single precision
    Row("FADD", codes(13, R=0x5c58, C=0x4c58, I=0x3858), (FTZ_44, ROUND_39, SAT_50), (D_CC, A_SIGNED, B32)),
    Row("FADD32I", single(0x0800, 6), (flag(55, "FTZ"),), (Reg(0, suffix=flag(52, "CC")), A(negate=56, absolute=54), float32(((53, "NEG"), (57, "ABS"))))),
    Row("FMUL", codes(13, R=0x5c68, C=0x4c68, I=0x3868), (FLUSH_44, SCALE, ROUND_39, SAT_50), (D_CC, A(), Src("B", negate=48, immediate="f32"))),
    Row("FMUL32I", single(0x1e00, 8), (Choice(at(53, 2), ("", "FTZ", "FMZ")), flag(55, "SAT")), (Reg(0, suffix=flag(52, "CC")), A(), float32(()))),
    Row("FFMA", codes(9, R=0x5980, C=0x4980, I=0x3280, RC=0x5180), (FLUSH_53, ROUND_51, SAT_50),
        (D_CC, A(), Src("B", negate=48, immediate="f32"), Src("C", negate=49))),
    Row("FFMA32I", single(0x0c00, 6), (Choice(at(53, 2), ("", "FTZ", "FMZ")), flag(55, "SAT")),
        (Reg(0, suffix=flag(52, "CC")), A(negate=56), float32(()), Reg(0, negate=57))),
    Row("FMNMX", codes(13, R=0x5c60, C=0x4c60, I=0x3860), (FTZ_44,), (D_CC, A_SIGNED, B32, P39)),
    Row("FSETP", codes(12, R=0x5bb0, C=0x4bb0, I=0x36b0), (FCOMPARE, flag(47, "FTZ"), BOOLEAN),
        (P3, P0, A(negate=43, absolute=7), Src("B", negate=6, absolute=44, immediate="f32"), P39)),
    Row("FSET", codes(8, R=0x5800, C=0x4800, I=0x3000), (flag(52, "BF"), FCOMPARE, flag(55, "FTZ"), BOOLEAN),
        (D_CC, A(negate=43, absolute=54), B32_SET, P39)),
    Row("FCMP", codes(12, R=0x5ba0, C=0x4ba0, I=0x36a0, RC=0x53a0), (FCOMPARE_SELECT, flag(47, "FTZ")), (D, A(), Src("B", immediate="f32"), Src("C"))),
    Row("FCHK", codes(13, R=0x5c88, C=0x4c88, I=0x3888), (Choice(at(39, 6), ("DIVIDE",)),), (P3, A_SIGNED, B32)),
    Row("MUFU", single(0x5080, 13), (Choice(at(20, 4), MUFU_NAMES), SAT_50), (D, A_SIGNED)),
    Row("RRO", codes(13, R=0x5c90, C=0x4c90, I=0x3890), (flag(39, "EX2", "SINCOS"),), (D, B32)),
    Row("FSWZADD", single(0x50f8, 13), (flag(44, "FTZ"), ROUND_39, flag(38, "NDV")), (D_CC, A(), Reg(20), Custom(swizzle))),

    # double precision
    Row("DADD", codes(13, R=0x5c70, C=0x4c70, I=0x3870), (ROUND_39,), (D_CC, A_SIGNED, B64)),
    Row("DMUL", codes(13, R=0x5c80, C=0x4c80, I=0x3880), (ROUND_39,), (D_CC, A(), Src("B", negate=48, immediate="f64"))),
    Row("DFMA", codes(12, R=0x5b70, C=0x4b70, I=0x3670, RC=0x5370), (ROUND_50,), (D_CC, A(), Src("B", negate=48, immediate="f64"), Src("C", negate=49))),
    Row("DMNMX", codes(13, R=0x5c50, C=0x4c50, I=0x3850), (), (D_CC, A_SIGNED, B64, P39)),
    Row("DSETP", codes(12, R=0x5b80, C=0x4b80, I=0x3680), (FCOMPARE, BOOLEAN),
        (P3, P0, A(negate=43, absolute=7), Src("B", negate=6, absolute=44, immediate="f64"), P39)),
    Row("DSET", codes(9, R=0x5900, C=0x4900, I=0x3200), (flag(52, "BF"), FCOMPARE, BOOLEAN), (D_CC, A(negate=43, absolute=54), B64_SET, P39)),

    # packed halves
    Row("HADD2", codes(13, R=0x5d10), (MERGE, flag(39, "FTZ"), flag(32, "SAT")), (D, A(negate=43, absolute=44, suffix=packed(47)), packed_b(31, 30))),
    Row("HADD2", codes(7, C=0x7a80), (MERGE, flag(39, "FTZ"), flag(52, "SAT")), (D, A(negate=43, absolute=44, suffix=packed(47)), Src("B", negate=56, absolute=54)), ((at(55, 1), 1),)),
    Row("HADD2", codes(7, I=0x7a00), (MERGE, flag(39, "FTZ"), flag(52, "SAT")), (D, A(negate=43, absolute=44, suffix=packed(47)), Custom(half_immediates)), ((at(55, 1), 0),)),
    Row("HMUL2", codes(13, R=0x5d08), (MERGE, Choice(at(39, 2), ("", "FTZ", "FMZ")), flag(32, "SAT")), (D, A(absolute=44, suffix=packed(47)), packed_b(31, 30))),
    Row("HMUL2", codes(7, C=0x7880), (MERGE, Choice(at(39, 2), ("", "FTZ", "FMZ")), flag(52, "SAT")), (D, A(absolute=44, suffix=packed(47)), Src("B", negate=43, absolute=54)), ((at(55, 1), 1),)),
    Row("HMUL2", codes(7, I=0x7800), (MERGE, Choice(at(39, 2), ("", "FTZ", "FMZ")), flag(52, "SAT")), (D, A(negate=43, absolute=44, suffix=packed(47)), Custom(half_immediates)), ((at(55, 1), 0),)),
    Row("HFMA2", codes(13, R=0x5d00), (MERGE, Choice(at(37, 2), ("", "FTZ", "FMZ")), flag(32, "SAT")),
        (D, A(suffix=packed(47)), Src("B", negate=31, suffix=packed(28)), Src("C", negate=30, suffix=packed(35)))),
    Row("HFMA2", codes(5, C=0x7080), (MERGE, Choice(at(57, 2), ("", "FTZ", "FMZ")), flag(52, "SAT")),
        (D, A(suffix=packed(47)), Src("B", negate=56), Src("C", negate=51, suffix=packed(53))), ((at(55, 1), 1),)),
    Row("HFMA2", codes(5, I=0x7000), (MERGE, Choice(at(57, 2), ("", "FTZ", "FMZ")), flag(52, "SAT")),
        (D, A(suffix=packed(47)), Custom(half_immediates), Src("C", negate=51, suffix=packed(53))), ((at(55, 1), 0),)),
    Row("HFMA2", codes(5, RC=0x6080), (MERGE, Choice(at(57, 2), ("", "FTZ", "FMZ")), flag(52, "SAT")),
        (D, A(suffix=packed(47)), Src("B", negate=56, suffix=packed(53)), Src("C", negate=51)), ((at(55, 1), 1),)),
    Row("HADD2_32I", single(0x2c00, 7), (flag(55, "FTZ"), flag(52, "SAT")), (D, A(negate=56, suffix=packed(53)), Custom(halves32))),
    Row("HMUL2_32I", single(0x2a00, 7), (Choice(at(55, 2), ("", "FTZ", "FMZ")), flag(52, "SAT")), (D, A(suffix=packed(53)), Custom(halves32))),
    Row("HFMA2_32I", single(0x2800, 7), (Choice(at(55, 2), ("", "FTZ", "FMZ")),), (D, A(suffix=packed(53)), Custom(halves32), Reg(0, negate=52))),
    Row("HSETP2", codes(13, R=0x5d20), (Choice(at(35, 4), FCOMPARE_NAMES), flag(49, "H_AND"), flag(6, "FTZ"), BOOLEAN),
        (P3, P0, A(negate=43, absolute=44, suffix=packed(47)), packed_b(31, 30), P39)),
    Row("HSETP2", codes(7, C=0x7e80), (Choice(at(49, 4), FCOMPARE_NAMES), flag(53, "H_AND"), flag(6, "FTZ"), BOOLEAN),
        (P3, P0, A(negate=43, absolute=44, suffix=packed(47)), Src("B", negate=56, absolute=54), P39), ((at(55, 1), 1),)),
    Row("HSETP2", codes(7, I=0x7e00), (Choice(at(49, 4), FCOMPARE_NAMES), flag(53, "H_AND"), flag(6, "FTZ"), BOOLEAN),
        (P3, P0, A(negate=43, absolute=44, suffix=packed(47)), Custom(half_immediates), P39), ((at(55, 1), 0),)),
    Row("HSET2", codes(13, R=0x5d18), (flag(49, "BF"), Choice(at(35, 4), FCOMPARE_NAMES), flag(50, "FTZ"), BOOLEAN),
        (D, A(negate=43, absolute=44, suffix=packed(47)), packed_b(31, 30), P39)),
    Row("HSET2", codes(7, C=0x7c80), (flag(53, "BF"), Choice(at(49, 4), FCOMPARE_NAMES), flag(54, "FTZ"), BOOLEAN),
        (D, A(negate=43, absolute=44, suffix=packed(47)), Src("B", negate=56), P39), ((at(55, 1), 1),)),
    Row("HSET2", codes(7, I=0x7c00), (flag(53, "BF"), Choice(at(49, 4), FCOMPARE_NAMES), flag(54, "FTZ"), BOOLEAN),
        (D, A(negate=43, absolute=44, suffix=packed(47)), Custom(half_immediates), P39), ((at(55, 1), 0),)),

    # conversions
    Row("F2F", codes(13, R=0x5ca8, C=0x4ca8, I=0x38a8), (FTZ_44, TO_FLOAT, FROM_FLOAT, Derived(f2f_rounding), SAT_50), (D_CC, Custom(float_source))),
    Row("F2I", codes(13, R=0x5cb0, C=0x4cb0, I=0x38b0), (FTZ_44, sized(8, 12, 0), FROM_FLOAT, Choice(at(39, 2), ("", "FLOOR", "CEIL", "TRUNC"))),
        (D_CC, Custom(f2i_source))),
    Row("I2F", codes(13, R=0x5cb8, C=0x4cb8, I=0x38b8), (TO_FLOAT, sized(10, 13), ROUND_39),
        (D_CC, Custom(integer_source))),
    Row("I2I", codes(13, R=0x5ce0, C=0x4ce0, I=0x38e0), (sized(8, 12, 3), sized(10, 13, 3), SAT_50),
        (D_CC, Custom(integer_source))),
)
# fmt: on
