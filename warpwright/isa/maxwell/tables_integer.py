"""Rows of integer arithmetic, logic, shifts, comparisons, moves and selections.

Facts: as in :mod:`fields`; every row is compared with NVIDIA's disassembler in ``tests/test_maxwell_oracle.py``.
"""

from __future__ import annotations

from warpwright.isa.maxwell.fields import (
    A,
    Choice,
    Derived,
    Fixed,
    Imm,
    Pred,
    Reg,
    Row,
    Src,
    at,
    codes,
    flag,
    single,
)
from warpwright.isa.program import Kind, Operand
from warpwright.isa.sass.fields import Custom, Form

D = Reg(0)
CC = flag(47, "CC")
D_CC = Reg(0, suffix=CC)
P0 = Pred(0)
P3 = Pred(3)
P39 = Pred(39, 42)
P48 = Pred(48, optional=True)
B = Src("B")
C = Src("C")
IMM32 = Imm(at(20, 32))
IMM32_SIGNED = Imm(at(20, 32), is_signed=True)
UNSIGNED = flag(48, "", "U32")
BOOLEAN = Choice(at(45, 2), ("AND", "OR", "XOR"))
COMPARE = Choice(at(49, 3), ("F", "LT", "EQ", "LE", "GT", "NE", "GE", "T"))
LOGIC = Choice(at(41, 2), ("AND", "OR", "XOR", "PASS_B"))
LUT_TEST = Choice(at(36, 2), ("", "T", "Z", "NZ"))
BYTE = Choice(at(41, 2), ("", "B1", "B2", "B3"))
SHF_TYPE = Choice(at(37, 2), ("", None, "U64", "S64"))
SHF_PART = Choice(at(48, 2), ("", "HI", "X", "XHI"))
DOT_A8, DOT_A16, DOT_B = flag(49, "S8", "U8"), flag(49, "S16", "U16"), flag(47, "S8", "U8")
PRMT_MODE = Choice(at(48, 4), ("", "F4E", "B4E", "RC8", "ECL", "ECR", "RC16"))


def plus_one(first: int, second: int) -> Derived:
    """Both addends negated: prints ``.PO`` (a + b + 1) instead of two minus signs."""
    return Derived(lambda word, form: "PO" if word >> first & 1 and word >> second & 1 else "")


def _negated(which: str, own: int, other: int) -> Custom:
    """A source whose minus sign is replaced by ``.PO`` when both addends have one."""

    def read(word: int, form: Form) -> tuple[Operand, ...]:
        both = word >> own & 1 and word >> other & 1
        mark = None if both else own
        return (A(negate=mark) if which == "A" else Src(which, negate=mark)).read(word, form)

    return Custom(read)


def half(low: int) -> Choice:
    return Choice(at(low, 2), ("", "H0", "H1"))


def xmad_signs(a: int, b: int) -> Derived:
    """Signs of the factors; two unsigned halves print nothing."""

    def name(word: int, form: Form) -> str:
        left, right = ("S16" if word >> bit & 1 else "U16" for bit in (a, b))
        return "" if left == right == "U16" else f"{left}.{right}"

    return Derived(name)


def xmad_immediate(word: int, form: Form) -> tuple[Operand, ...]:
    """The 16-bit immediate, signed if the instruction specifies it."""
    value = word >> 20 & 0xFFFF
    if word >> 49 & 1:
        return (Operand(Kind.IMMEDIATE, value=value | (0xFFFF0000 if value >> 15 else 0), name="signed"),)
    return (Operand(Kind.IMMEDIATE, value=value),)


XMAD_R_MODE = Choice(at(50, 3), ("", "CLO", "CHI", "CSFU", "CBCC"))
XMAD_2 = Choice(at(50, 2), ("", "CLO", "CHI", "CSFU"))


def multiply_types(a: int, b: int) -> Derived:
    """Types of the factors of a 32-bit product; two signed ones print nothing."""

    def name(word: int, form: Form) -> str:
        left, right = ("S32" if word >> bit & 1 else "U32" for bit in (a, b))
        return "" if left == right == "S32" else f"{left}.{right}"

    return Derived(name)


MULTIPLY_TYPES = (multiply_types(40, 41), flag(39, "HI"))


# fmt: off
ROWS = (
    # moves and selections
    Row("MOV", codes(13, R=0x5c98, C=0x4c98, I=0x3898), (), (D, B, Custom(lambda w, f: () if w >> 39 & 15 == 15 else (Operand(Kind.IMMEDIATE, value=w >> 39 & 15),)))),
    Row("MOV32I", single(0x0100, 12), (), (D, IMM32, Custom(lambda w, f: () if w >> 12 & 15 == 15 else (Operand(Kind.IMMEDIATE, value=w >> 12 & 15),)))),
    Row("SEL", codes(13, R=0x5ca0, C=0x4ca0, I=0x38a0), (), (D, A(), B, P39)),
    Row("PRMT", codes(12, R=0x5bc0, C=0x4bc0, I=0x36c0, RC=0x53c0), (PRMT_MODE,), (D, A(), B, C)),
    Row("P2R", codes(13, R=0x5ce8, C=0x4ce8, I=0x38e8), (BYTE,), (D, Custom(lambda w, f: (Operand(Kind.NAME, name="CC" if w >> 40 & 1 else "PR"),)), A(), B)),
    Row("R2P", codes(13, R=0x5cf0, C=0x4cf0, I=0x38f0), (), (Custom(lambda w, f: (Operand(Kind.NAME, name="CC" if w >> 40 & 1 else "PR"),)), A(suffix=BYTE), Src("B", immediate="u20"))),

    # addition
    Row("IADD", codes(13, R=0x5c10, C=0x4c10, I=0x3810), (plus_one(48, 49), flag(50, "SAT"), flag(43, "X")),
        (D_CC, _negated("A", 49, 48), _negated("B", 48, 49))),
    Row("IADD32I", single(0x1c00, 7), (flag(54, "SAT"), flag(53, "X")),
        (Reg(0, suffix=flag(52, "CC")), Custom(lambda w, f: A(negate=None if w >> 55 & 1 else 56).read(w, f)), IMM32_SIGNED), ((at(55, 1), 0),)),
    Row("IADD32I", single(0x1d80, 9), (Fixed("PO"), flag(54, "SAT"), flag(53, "X")),
        (Reg(0, suffix=flag(52, "CC")), A(), IMM32_SIGNED)),
    Row("IADD3", codes(12, R=0x5cc0), (Choice(at(37, 2), ("", "RS", "LS")), flag(48, "X")),
        (D_CC, A(negate=51, suffix=half(35)), Src("B", negate=50, suffix=half(33)), Src("C", negate=49, suffix=half(31)))),
    Row("IADD3", codes(12, C=0x4cc0, I=0x38c0), (flag(48, "X"),),
        (D_CC, A(negate=51), Src("B", negate=50, immediate="u20"), Src("C", negate=49))),
    Row("ISCADD", codes(13, R=0x5c18, C=0x4c18, I=0x3818), (plus_one(48, 49),),
        (D_CC, _negated("A", 49, 48), _negated("B", 48, 49), Imm(at(39, 5)))),
    Row("ISCADD32I", single(0x1400, 6), (), (Reg(0, suffix=flag(52, "CC")), A(), IMM32_SIGNED, Imm(at(53, 5)))),
    Row("LEA", codes(13, R=0x5bd0, C=0x4bd0, I=0x36d0), (flag(46, "X"),), (P48, D_CC, A(negate=45), B, Imm(at(39, 5), optional=True))),
    Row("LEA", codes(13, R=0x5bd8), (Fixed("HI"), flag(38, "X")), (P48, D_CC, A(negate=37), B, C, Imm(at(28, 5), optional=True))),
    Row("LEA", codes(6, C=0x1800), (Fixed("HI"), flag(57, "X")), (P48, D_CC, A(negate=56), B, C, Imm(at(51, 5), optional=True))),

    # multiplication
    Row("XMAD", codes(10, R=0x5b00), (xmad_signs(48, 49), flag(36, "PSL"), XMAD_R_MODE, flag(37, "MRG"), flag(38, "X")),
        (D_CC, A(suffix=flag(53, "H1")), Src("B", suffix=flag(35, "H1")), C)),
    Row("XMAD", codes(10, I=0x3600), (xmad_signs(48, 49), flag(36, "PSL"), XMAD_R_MODE, flag(37, "MRG"), flag(38, "X")),
        (D_CC, A(suffix=flag(53, "H1")), Custom(xmad_immediate), C)),
    Row("XMAD", codes(7, C=0x4e00), (xmad_signs(48, 49), flag(55, "PSL"), XMAD_2, flag(56, "MRG"), flag(54, "X")),
        (D_CC, A(suffix=flag(53, "H1")), Src("B", suffix=flag(52, "H1"), packed=True), C)),
    Row("XMAD", codes(9, RC=0x5100), (xmad_signs(48, 49), XMAD_2, flag(54, "X")),
        (D_CC, A(suffix=flag(53, "H1")), Src("B", suffix=flag(52, "H1")), C)),
    Row("IMUL", codes(13, R=0x5c38, C=0x4c38, I=0x3838), MULTIPLY_TYPES, (D_CC, A(), B)),
    Row("IMUL32I", single(0x1f00, 8), (multiply_types(54, 55), flag(53, "HI")), (Reg(0, suffix=flag(52, "CC")), A(), IMM32_SIGNED)),
    Row("IMAD", codes(9, R=0x5a00, C=0x4a00, I=0x3400, RC=0x5200),
        (multiply_types(48, 53), flag(54, "HI"), plus_one(51, 52), flag(50, "SAT"), flag(49, "X")),
        (D_CC, _negated("A", 52, 51), B, _negated("C", 51, 52))),

    # minimum, maximum, comparison
    Row("IMNMX", codes(13, R=0x5c20, C=0x4c20, I=0x3820), (UNSIGNED, Choice(at(43, 2), ("", "XLO", "XMED", "XHI"))), (D_CC, A(), B, P39)),
    Row("ISETP", codes(12, R=0x5b60, C=0x4b60, I=0x3660), (COMPARE, UNSIGNED, flag(43, "X"), BOOLEAN), (P3, P0, A(), B, P39)),
    Row("ISET", codes(12, R=0x5b50, C=0x4b50, I=0x3650), (flag(44, "BF"), COMPARE, UNSIGNED, flag(43, "X"), BOOLEAN), (D_CC, A(), B, P39)),
    Row("ICMP", codes(12, R=0x5b40, C=0x4b40, I=0x3640, RC=0x5340), (COMPARE, UNSIGNED), (D, A(), B, C)),
    Row("PSETP", single(0x5090, 13), (Choice(at(24, 2), ("AND", "OR", "XOR")), BOOLEAN), (P3, P0, Pred(12, 15), Pred(29, 32), P39)),
    Row("PSET", single(0x5088, 13), (flag(44, "BF"), Choice(at(24, 2), ("AND", "OR", "XOR")), BOOLEAN), (D_CC, Pred(12, 15), Pred(29, 32), P39)),

    # sums of products of parts
    Row("IDP", codes(13, R=0x53f8, C=0x53d8), (Fixed("4A"), DOT_A8, DOT_B), (D, A(), B, C), ((at(48, 1), 0), (at(50, 1), 0)), first=61),
    Row("IDP", codes(13, R=0x53f8, C=0x53d8), (Fixed("2A"), flag(50, "HI", "LO"), DOT_A16, DOT_B), (D, A(), B, C), ((at(48, 1), 1),), first=61),

    # logic and shifts
    Row("LOP", codes(13, R=0x5c40, C=0x4c40, I=0x3840), (LOGIC, flag(43, "X"), Choice(at(44, 2), ("", "T", "Z", "NZ"))),
        (P48, D_CC, A(invert=39), Src("B", invert=40))),
    Row("LOP32I", single(0x0400, 6), (Choice(at(53, 2), ("AND", "OR", "XOR", "PASS_B")), flag(57, "X")),
        (Reg(0, suffix=flag(52, "CC")), A(invert=55), Custom(lambda w, f: (Operand(Kind.IMMEDIATE, value=w >> 20 & 0xFFFFFFFF, suffix=".INV" if w >> 56 & 1 else ""),)))),
    Row("LOP3", codes(13, R=0x5be0), (Fixed("LUT"), flag(38, "X"), LUT_TEST), (P48, D_CC, A(), B, C, Imm(at(28, 8)))),
    Row("LOP3", codes(6, I=0x3c00), (Fixed("LUT"), flag(57, "X")), (D_CC, A(), B, C, Imm(at(48, 8)))),
    Row("LOP3", codes(7, C=0x0200), (Fixed("LUT"), flag(56, "X")), (D_CC, A(), B, C, Imm(at(48, 8)))),
    Row("SHF", codes(13, R=0x5bf8, I=0x36f8), (Fixed("L"), flag(50, "W"), SHF_TYPE, SHF_PART), (D_CC, A(), Src("B", immediate="u6"), C)),
    Row("SHF", codes(13, R=0x5cf8, I=0x38f8), (Fixed("R"), flag(50, "W"), SHF_TYPE, SHF_PART), (D_CC, A(), Src("B", immediate="u6"), C)),
    Row("SHL", codes(13, R=0x5c48, C=0x4c48, I=0x3848), (flag(39, "W"), flag(43, "X")), (D_CC, A(), B)),
    Row("SHR", codes(13, R=0x5c28, C=0x4c28, I=0x3828), (UNSIGNED, flag(39, "W"), Choice(at(43, 2), ("", None, "X", "XHI")), flag(40, "BREV")), (D_CC, A(), B)),
    Row("BFE", codes(13, R=0x5c00, C=0x4c00, I=0x3800), (UNSIGNED, flag(40, "BREV")), (D_CC, A(), B)),
    Row("BFI", codes(13, R=0x5bf0, C=0x4bf0, I=0x36f0, RC=0x53f0), (), (D_CC, A(), B, C)),
    Row("FLO", codes(13, R=0x5c30, C=0x4c30, I=0x3830), (UNSIGNED, flag(41, "SH")), (D_CC, Src("B", invert=40))),
    Row("POPC", codes(13, R=0x5c08, C=0x4c08, I=0x3808), (), (D, Src("B", invert=40))),
)
# fmt: on
