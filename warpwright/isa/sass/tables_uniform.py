"""Rows of the uniform datapath: one value for the whole warp, registers UR0–UR62 and predicates UP0–UP6 (sm_75 on).

Facts: as in :mod:`tables_integer`.  Bit 91 is set when a source is a uniform register.
"""

from __future__ import annotations

from warpwright.isa.program import Kind, Operand
from warpwright.isa.sass.fields import (
    Bits,
    Choice,
    Custom,
    Fixed,
    Form,
    Imm,
    Named,
    Pred,
    Reg,
    Row,
    Word,
    at,
    flag,
    signed,
)
from warpwright.isa.sass.names import BOOLEAN, COMPARE_INTEGER, SPECIAL_REGISTERS

D = Reg(16, uniform=True)
P_OUT = Pred(81, uniform=True, optional=True)
P_OUT_2 = Pred(84, uniform=True, optional=True)
P81, P84 = Pred(81, uniform=True), Pred(84, uniform=True)
P_IN = Pred(87, 90, uniform=True)
P_IN_2 = Pred(77, 80, uniform=True)
X_OFF, X_ON = (at(74, 1), 0), (at(74, 1), 1)
UNSIGNED = flag(73, "", "U32")
HANDLES = (at(91, 1), 1)
IMMEDIATE_B = Imm(at(32, 32))
SIGNED_B = Imm(at(32, 32), is_signed=True)


def source(low: int, marks: str = "") -> Reg:
    """A uniform source register, with the modifier bits of its position."""
    bit = {24: 72, 32: 63, 64: 75}[low]
    return Reg(low, negate=bit if "-" in marks else None, invert=bit if "~" in marks else None, uniform=True)


A, B, C = source(24), source(32), source(64)


def uniform_rows(opcode: str, code: int, modifiers: tuple[Choice | Fixed, ...], before: tuple[Reg | Pred, ...],
                 second: tuple[str, Imm], after: tuple[Reg | Pred | Imm, ...],
                 where: tuple[tuple[Bits, int], ...] = (), first: int = 75) -> tuple[Row, ...]:  # fmt: skip
    """The register row (0x2xx) and the immediate row (0x8xx) of a uniform instruction; ``second`` describes source B:
    its modifiers as a register, and its immediate."""
    return (
        Row(opcode, 0x200 | code, (), modifiers, (*before, source(32, second[0]), *after), (*where, HANDLES), first=first, uniform=True),
        Row(opcode, 0x800 | code, (), modifiers, (*before, second[1], *after), (*where, HANDLES), first=first, uniform=True),
    )  # fmt: skip


def constant_bytes(word: int, form: Form) -> tuple[Operand, ...]:
    """``c[bank][offset]`` of ULDC: a 16-bit byte offset; bit 91 makes the bank bindless."""
    offset = word >> 38 & 0xFFFF
    if word >> 91 & 1:
        offset = signed(offset, 16)
        return (Operand(Kind.CONSTANT, 0, offset, uniform=Operand(Kind.UNIFORM_REGISTER, word >> 24 & 63)),)
    return (Operand(Kind.CONSTANT, word >> 54 & 31, offset),)


def indexed_constant_bytes(word: int, form: Form) -> tuple[Operand, ...]:
    """``c[bank][UR+offset]`` of ULDC."""
    base = Operand(Kind.UNIFORM_REGISTER, word >> 24 & 63)
    return (Operand(Kind.CONSTANT, word >> 54 & 31, signed(word >> 38 & 0xFFFF, 16), base=base),)


ULDC_SIZE = Choice(at(73, 3), ("U8", "S8", "U16", "S16", "", "64"))
PRODUCT = (D, A)

# fmt: off
ROWS = (
    Row("UMOV", 0x882, (), (), (D, IMMEDIATE_B), first=75, uniform=True),
    Row("UMOV", 0xc82, (), (), (D, B), (HANDLES,), first=75, uniform=True),
    Row("ULDC", 0xab9, (), (ULDC_SIZE,), (D, Custom(constant_bytes)), first=75, uniform=True),
    Row("S2UR", 0x9c3, (), (), (D, Named(at(72, 8), SPECIAL_REGISTERS, Kind.SPECIAL)), first=75, uniform=True),
    Row("ULDC", 0xabb, (), (ULDC_SIZE,), (D, Custom(indexed_constant_bytes)), (HANDLES,), first=75, uniform=True),
    *uniform_rows("UIADD3", 0x090, (), (D, P_OUT, P_OUT_2, source(24, "-")), ("-", SIGNED_B), (source(64, "-"),), (X_OFF,)),
    *uniform_rows("UIADD3", 0x097, (Fixed("64"),), (D, P_OUT, P_OUT_2, source(24, "-")), ("-", SIGNED_B), (source(64, "-"),), (X_OFF,), first=90),
    *uniform_rows("UIADD3", 0x097, (Fixed("64"), Fixed("X")), (D, P_OUT, P_OUT_2, source(24, "~")), ("~", SIGNED_B), (source(64, "~"), P_IN, P_IN_2), (X_ON,), first=90),
    *uniform_rows("UIADD3", 0x090, (Fixed("X"),), (D, P_OUT, P_OUT_2, source(24, "~")), ("~", SIGNED_B), (source(64, "~"), P_IN, P_IN_2), (X_ON,)),
    *uniform_rows("ULEA", 0x091, (), (D, P_OUT, source(24, "-")), ("-", IMMEDIATE_B), (Imm(at(75, 5)),), (X_OFF, (at(80, 1), 0), (at(73, 1), 0))),
    *uniform_rows("ULEA", 0x091, (Fixed("X"),), (D, P_OUT, source(24, "~")), ("~", IMMEDIATE_B), (Imm(at(75, 5)), P_IN), (X_ON, (at(80, 1), 0), (at(73, 1), 0))),
    *uniform_rows("ULEA", 0x091, (Fixed("HI"),), (D, P_OUT, source(24, "-")), ("-", IMMEDIATE_B), (C, Imm(at(75, 5))), (X_OFF, (at(80, 1), 1), (at(73, 1), 0))),
    *uniform_rows("ULEA", 0x091, (Fixed("HI.X"),), (D, P_OUT, source(24, "~")), ("~", IMMEDIATE_B), (C, Imm(at(75, 5)), P_IN), (X_ON, (at(80, 1), 1), (at(73, 1), 0))),
    *uniform_rows("ULEA", 0x091, (Fixed("HI.SX32"),), (D, P_OUT, source(24, "-")), ("-", IMMEDIATE_B), (Imm(at(75, 5)),), (X_OFF, (at(80, 1), 1), (at(73, 1), 1))),
    *uniform_rows("ULEA", 0x091, (Fixed("HI.X.SX32"),), (D, P_OUT, source(24, "~")), ("~", IMMEDIATE_B), (Imm(at(75, 5)), P_IN), (X_ON, (at(80, 1), 1), (at(73, 1), 1))),
    *uniform_rows("ULOP3", 0x092, (Fixed("LUT"), flag(80, "PAND")), (P_OUT, D, A), ("", IMMEDIATE_B), (C, Imm(at(72, 8)), P_IN)),
    *uniform_rows("UIMAD", 0x0a4, (UNSIGNED,), PRODUCT, ("", SIGNED_B), (source(64, "-"),), (X_OFF,)),
    Row("UIMAD", 0x400 | 0x0a4, (), (UNSIGNED,), (*PRODUCT, C, SIGNED_B), (X_OFF, HANDLES), first=75, uniform=True),
    *uniform_rows("UIMAD", 0x0a4, (UNSIGNED, Fixed("X")), PRODUCT, ("", SIGNED_B), (source(64, "~"), P_IN), (X_ON,)),
    Row("UIMAD", 0x400 | 0x0a4, (), (UNSIGNED, Fixed("X")), (*PRODUCT, C, SIGNED_B, P_IN), (X_ON, HANDLES), first=75, uniform=True),
    *uniform_rows("UIMAD", 0x0a5, (Fixed("WIDE"), UNSIGNED), (D, P_OUT, A), ("", SIGNED_B), (source(64, "-"),), (X_OFF,)),
    *uniform_rows("UIMAD", 0x0a5, (Fixed("WIDE"), UNSIGNED, Fixed("X")), (D, P_OUT, A), ("", SIGNED_B), (source(64, "~"), P_IN), (X_ON,)),
    *uniform_rows("UISETP", 0x08c, (COMPARE_INTEGER, UNSIGNED, BOOLEAN), (P81, P84, A), ("", SIGNED_B), (P_IN,), ((at(72, 1), 0),)),
    *uniform_rows("UISETP", 0x08c, (COMPARE_INTEGER, UNSIGNED, BOOLEAN, Fixed("EX")), (P81, P84, A), ("", SIGNED_B),
                  (P_IN, Pred(68, 71, uniform=True)), ((at(72, 1), 1),)),
    *uniform_rows("USEL", 0x087, (), (D, A), ("", IMMEDIATE_B), (P_IN,)),
    *uniform_rows("UPRMT", 0x096, (), (D, A), ("", IMMEDIATE_B), (C,)),
    *uniform_rows("USHF", 0x099, (flag(76, "R", "L"), flag(75, "W"), Choice(at(73, 2), ("S64", "U64", "S32", "U32")), flag(80, "HI")),
                  (D, A), ("", IMMEDIATE_B), (C,)),
    Row("USHF", 0x400 | 0x099, (), (flag(76, "R", "L"), flag(75, "W"), Choice(at(73, 2), ("S64", "U64", "S32", "U32")), flag(80, "HI")),
        (D, A, C, IMMEDIATE_B), (HANDLES,), first=75, uniform=True),
    *uniform_rows("USGXT", 0x09a, (flag(75, "W"), UNSIGNED), (D, A), ("", IMMEDIATE_B), ()),
    *uniform_rows("UBMSK", 0x09b, (flag(75, "W"),), (D, A), ("", IMMEDIATE_B), ()),
    Row("UFLO", 0x200 | 0x0bd, (), (UNSIGNED, flag(74, "SH")), (D, P_OUT, source(32, "~")), (HANDLES,), first=75, uniform=True),
    Row("UPOPC", 0x200 | 0x0bf, (), (), (D, source(32, "~")), (HANDLES,), first=75, uniform=True),
    Row("UBREV", 0x200 | 0x0be, (), (), (D, source(32, "")), (HANDLES,), first=75, uniform=True),
    Row("UP2UR", 0x883, (), (Choice(at(76, 2), ("", "B1", "B2", "B3")),), (D, Word("UPR"), A, Imm(at(32, 32))), (HANDLES,), first=75, uniform=True),
    Row("UR2UP", 0x884, (), (), (Word("UPR"), Reg(24, uniform=True, suffix=Choice(at(76, 2), ("", "B1", "B2", "B3")))), (HANDLES, (at(32, 32), 255)), first=75, uniform=True),
    *(Row("USETMAXREG", code, (), (Fixed(name), Fixed("CTAPOOL")), (*success, count), (HANDLES, (at(72, 3), 4 + kind)), first=90, uniform=True)
      for code, count in ((0x3c8, source(32)), (0x9c8, Imm(at(32, 10)))) for kind, name, success in ((1, "DEALLOC", ()), (2, "TRY_ALLOC", (P81,)))),
    Row("UPLOP3", 0x89c, (), (Fixed("LUT"),), (P81, P84, P_IN, P_IN_2, Pred(68, 71, uniform=True), Imm(at(64, 3, 72, 5)), Imm(at(16, 8))),
        first=75, uniform=True),
)
# fmt: on
