"""Rows of the integer, logic, move and predicate instructions (sm_70 to sm_90).

Sources: flipping bits of compiled instructions and disassembling them with NVIDIA's disassembler, cross-checked on
every instruction of the test corpus; names as in NVIDIA's CUDA Binary Utilities manual.
"""

from __future__ import annotations

from warpwright.isa.program import RZ
from warpwright.isa.sass.fields import (
    ALL_FORMS,
    B_FORMS,
    REUSE_A,
    Choice,
    Derived,
    Fixed,
    Form,
    Imm,
    Pred,
    Reg,
    Row,
    Slot,
    When,
    Word,
    at,
    flag,
    reg_a,
)
from warpwright.isa.sass.names import BOOLEAN, COMPARE_INTEGER

D = Reg(16)
P_OUT = Pred(81, optional=True)
P_OUT_2 = Pred(84, optional=True)
P81, P84 = Pred(81), Pred(84)
HIGHER, HIGHER_2 = When(at(81, 3), tuple(range(7)), P81), When(at(81, 3), tuple(range(7)), P84)
"""The predicates for each half that say which operand was selected; both are printed unless the first is PT."""
P_IN = Pred(87, 90)
P_IN_2 = Pred(77, 80)
X_OFF, X_ON = (at(74, 1), 0), (at(74, 1), 1)
UNSIGNED = flag(73, "", "U32")
BYTE = Choice(at(76, 2), ("", "B1", "B2", "B3"))


WIDE_FORMS = (1, 3, 4, 5, 6, 7)
"""A 64-bit addend is never an immediate."""
PRODUCT_PLUS = (reg_a(), Slot("B", "", "signed"), Slot("C", "-", "signed"))
PRODUCT_PLUS_CARRY = (reg_a(), Slot("B", "", "signed"), Slot("C", "~", "signed"), P_IN)


def imad_alias(word: int, form: Form) -> str:
    """IMAD is printed as a move, an addition or a shift if its operands make it one."""
    unsigned = "" if word >> 73 & 1 else ".U32"
    a, second = word >> 24 & 255, word >> 64 & 255
    first = word >> 32 & (255 if form.number == 1 else 0xFFFFFFFF)
    if form.b == "immediate":
        if first == 0 or a == RZ:
            return "MOV" + unsigned
        if first == 1:
            return "IADD" + unsigned if second != RZ else unsigned.lstrip(".")
        if second == RZ and first not in (1 << 16, 1 << 31) and first & (first - 1) == 0:
            return "SHL" + unsigned
        return unsigned.lstrip(".")
    bindless = form.constant and word >> 91 & 1
    if form.number in (1, 2, 3) and not bindless and RZ in (a, first if form.number == 1 else second):
        return "MOV" + unsigned
    return unsigned.lstrip(".")


SIGN = Choice(at(9, 1), ("SIGN", "SIGN"))
"""PLOP3 on registers reads their sign bits."""

# fmt: off
ROWS = (
    # moves and selections
    Row("MOV",  0x002, B_FORMS, (), (D, Slot("B"), When(at(72, 4), tuple(range(15)), Imm(at(72, 4))))),
    Row("SEL",  0x007, B_FORMS, (), (D, reg_a(), Slot("B"), P_IN)),
    Row("PRMT", 0x016, ALL_FORMS,
        (Choice(at(72, 3), ("", "F4E", "B4E", "RC8", "ECL", "ECR", "RC16")),),
        (D, reg_a(), Slot("B"), Slot("C"))),
    Row("P2R",  0x003, B_FORMS, (BYTE,), (D, Word("PR"), reg_a(), Slot("B", "", "signed"))),
    Row("R2P",  0x004, B_FORMS, (), (Word("PR"), Reg(24, reuse=REUSE_A, suffix=BYTE), Slot("B"))),

    # addition
    Row("IADD3", 0x010, B_FORMS, (), (D, P_OUT, P_OUT_2, reg_a("-"), Slot("B", "-", "signed"), Slot("C", "-", "signed")), (X_OFF,)),
    Row("IADD3", 0x010, B_FORMS, (Fixed("X"),),
        (D, P_OUT, P_OUT_2, reg_a("~"), Slot("B", "~", "signed"), Slot("C", "~", "signed"), P_IN, P_IN_2), (X_ON,)),
    Row("LEA", 0x011, B_FORMS, (), (D, P_OUT, reg_a("-"), Slot("B", "-"), Imm(at(75, 5))), (X_OFF, (at(80, 1), 0), (at(73, 1), 0))),
    Row("LEA", 0x011, B_FORMS, (Fixed("X"),),
        (D, P_OUT, reg_a("~"), Slot("B", "~"), Imm(at(75, 5)), P_IN), (X_ON, (at(80, 1), 0), (at(73, 1), 0))),
    Row("LEA", 0x011, B_FORMS, (Fixed("HI"),),
        (D, P_OUT, reg_a("-"), Slot("B", "-"), Slot("C"), Imm(at(75, 5))), (X_OFF, (at(80, 1), 1), (at(73, 1), 0))),
    Row("LEA", 0x011, B_FORMS, (Fixed("HI.X"),),
        (D, P_OUT, reg_a("~"), Slot("B", "~"), Slot("C"), Imm(at(75, 5)), P_IN), (X_ON, (at(80, 1), 1), (at(73, 1), 0))),
    Row("LEA", 0x011, B_FORMS, (Fixed("HI.SX32"),),
        (D, P_OUT, reg_a("-"), Slot("B", "-"), Imm(at(75, 5))), (X_OFF, (at(80, 1), 1), (at(73, 1), 1))),
    Row("LEA", 0x011, B_FORMS, (Fixed("HI.X.SX32"),),
        (D, P_OUT, reg_a("~"), Slot("B", "~"), Imm(at(75, 5)), P_IN), (X_ON, (at(80, 1), 1), (at(73, 1), 1))),
    Row("VIADD", 0x036, B_FORMS, (flag(73, "16x2"),), (D, reg_a(), Slot("B", "-")), first=90),
    Row("IABS", 0x013, B_FORMS, (), (D, Slot("B", "", "signed"))),
    Row("VABSDIFF",  0x014, ALL_FORMS, (UNSIGNED,), (D, P_OUT, reg_a(), Slot("B"), Slot("C"))),
    Row("VABSDIFF4", 0x015, ALL_FORMS, (flag(73, "", "U8"), flag(75, "ACC")), (D, P_OUT, reg_a(), Slot("B"), Slot("C"))),

    # multiplication
    Row("IMAD", 0x024, ALL_FORMS, (Derived(imad_alias),), (D, *PRODUCT_PLUS), (X_OFF,)),
    Row("IMAD", 0x024, ALL_FORMS, (UNSIGNED, Fixed("X")), (D, *PRODUCT_PLUS_CARRY), (X_ON,)),
    Row("IMAD", 0x025, WIDE_FORMS, (Fixed("WIDE"), UNSIGNED), (D, P_OUT, *PRODUCT_PLUS), (X_OFF,)),
    Row("IMAD", 0x025, WIDE_FORMS, (Fixed("WIDE"), UNSIGNED, Fixed("X")), (D, P_OUT, *PRODUCT_PLUS_CARRY), (X_ON,)),
    Row("IMAD", 0x027, WIDE_FORMS, (Fixed("HI"), UNSIGNED), (D, P_OUT, *PRODUCT_PLUS), (X_OFF,)),
    Row("IMAD", 0x027, WIDE_FORMS, (Fixed("HI"), UNSIGNED, Fixed("X")), (D, P_OUT, *PRODUCT_PLUS_CARRY), (X_ON,)),
    Row("IDP", 0x026, (1, 5, 6), (Fixed("4A"), flag(73, "S8", "U8"), flag(74, "S8", "U8")),
        (D, reg_a(), Slot("B"), Slot("C", "-")), ((at(76, 1), 0),)),
    Row("IDP", 0x026, (1, 5, 6), (Fixed("2A"), flag(77, "HI", "LO"), flag(73, "S16", "U16"), flag(74, "S8", "U8")),
        (D, reg_a(), Slot("B"), Slot("C", "-")), ((at(76, 1), 1),)),

    # minimum, maximum, comparison
    Row("IMNMX",  0x017, B_FORMS, (UNSIGNED,), (D, reg_a(), Slot("B", "", "signed"), P_IN), last=89),
    Row("VIMNMX", 0x048, B_FORMS, (Choice(at(72, 2), ("U32", "", "U16x2", "S16x2")), flag(76, "RELU")),
        (D, HIGHER, HIGHER_2, reg_a(), Slot("B", "", "signed"), P_IN), first=90),
    Row("VIMNMX3", 0x00f, B_FORMS, (Choice(at(72, 2), ("U32", "", "U16x2", "S16x2")), flag(76, "RELU")),
        (D, reg_a(), Slot("B"), Slot("C"), P_IN), first=90),
    Row("VIADDMNMX", 0x046, ALL_FORMS, (Choice(at(72, 2), ("U32", "", "U16x2", "S16x2")), flag(76, "RELU")),
        (D, reg_a(), Slot("B", "-"), Slot("C"), P_IN), first=90),
    Row("ISETP", 0x00c, B_FORMS,
        (COMPARE_INTEGER, UNSIGNED, BOOLEAN, flag(72, "EX")),
        (P81, P84, reg_a(), Slot("B", "", "signed"), P_IN, When(at(72, 1), (1,), Pred(68, 71))), first=80),
    Row("ISETP", 0x00c, B_FORMS,
        (COMPARE_INTEGER, UNSIGNED, BOOLEAN, flag(72, "EX")),
        (P81, P84, reg_a(), Slot("B", "", "signed"), P_IN, Pred(68, 71, optional=True)), last=75),

    # logic and shifts
    Row("LOP3", 0x012, B_FORMS, (Fixed("LUT"), flag(80, "PAND")),
        (P_OUT, D, reg_a(), Slot("B"), Slot("C"), Imm(at(72, 8)), P_IN)),
    Row("SHF",  0x019, ALL_FORMS,
        (flag(76, "R", "L"), flag(75, "W"), Choice(at(73, 2), ("S64", "U64", "S32", "U32")), flag(80, "HI")),
        (D, reg_a(), Slot("B"), Slot("C"))),
    Row("SGXT", 0x01a, B_FORMS, (flag(75, "W"), UNSIGNED), (D, reg_a(), Slot("B"))),
    Row("BMSK", 0x01b, B_FORMS, (flag(75, "W"),), (D, reg_a(), Slot("B"))),
    Row("PLOP3", 0x01f, (1, 5, 6), (Fixed("LUT"),),
        (P81, P84, Reg(24, reuse=122, suffix=".SIGN"), Slot("B", suffix=SIGN), Reg(64, reuse=124, suffix=".SIGN"), Imm(at(72, 8)), Imm(at(16, 8)))),
    Row("I2I", 0x038, B_FORMS, (Choice(at(76, 2), ("U8", "S8", "U16", "S16")), Fixed("S32.SAT")), (D, Slot("B")), first=75),
    Row("PLOP3", 0x81c, (), (Fixed("LUT"),),
        (P81, P84, P_IN, P_IN_2, Pred(68, 71), Imm(at(64, 3, 72, 5)), Imm(at(16, 8))), ((at(67, 1), 0),)),
    Row("PLOP3", 0x81c, (), (Fixed("LUT"),),
        (P81, P84, P_IN, P_IN_2, Pred(68, 71, uniform=True), Imm(at(64, 3, 72, 5)), Imm(at(16, 8))), ((at(67, 1), 1),), first=75),
    Row("BREV", 0x101, B_FORMS, (), (D, Slot("B"))),
    Row("FLO",  0x100, B_FORMS, (UNSIGNED, flag(74, "SH")), (D, P_OUT, Slot("B", "~"))),
    Row("POPC", 0x109, B_FORMS, (), (D, Slot("B", "~"))),
)
# fmt: on
