"""Rows of Hopper's bulk copies: UBLKCP and related instructions copy bytes, UTMALDG and related ones boxes of tensors.

Source: nvdisasm's text of ptxas's code for every form of cp.async.bulk, cp.reduce.async.bulk and their tensor forms,
field by field.
"""

from __future__ import annotations

from warpwright.isa.program import Kind, Operand
from warpwright.isa.sass.fields import Choice, Custom, Fixed, Form, Modifier, Reg, Row, Source, When, at, flag

WITH_UR = (at(91, 1), 1)
PLAIN, CACHED = (at(76, 1), 0), (at(76, 1), 1)
DIMENSIONS = Choice(at(79, 3), ("1D", "2D", "3D", "4D", "5D"))
IM2COL = flag(82, "IM2COL")
MULTICAST = flag(75, "MULTICAST")
WAY = Choice(at(73, 2), (None, "S.G", "G.S", "S.S"))
OPERATION = Choice(at(87, 3), ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR"))
TYPE = Choice(at(81, 4), ("", "S32", "U64", "S64", "F16.RN", "F32.RN", "F32.FTZ.RN", "F64.RN", "BF16.RN"))
EXTRA = Reg(64, uniform=True)


def _place(low: int) -> Custom:
    """``[UR4]``: consecutive uniform registers that hold addresses and coordinates."""

    def read(word: int, form: Form) -> tuple[Operand, ...]:
        return (Operand(Kind.MEMORY, uniform=Operand(Kind.UNIFORM_REGISTER, word >> low & 63)),)

    return Custom(read)


def _policy(word: int, form: Form) -> tuple[Operand, ...]:
    """``desc[UR10]``: a cache policy."""
    return (Operand(Kind.MEMORY, descriptor=Operand(Kind.UNIFORM_REGISTER, word >> 40 & 63)),)


AT_32, AT_24 = _place(32), _place(24)


def _rows(opcode: str, code: int, modifiers: tuple[Modifier, ...], operands: tuple[Source | When, ...]) -> list[Row]:
    """The rows with and without a cache policy."""
    return [
        Row(opcode, code, (), modifiers, operands, (WITH_UR, PLAIN), first=90, uniform=True),
        Row(opcode, code, (), modifiers, (*operands, Custom(_policy)), (WITH_UR, CACHED), first=90, uniform=True),
    ]


# fmt: off
ROWS = (
    *_rows("UTMALDG", 0x5b4, (DIMENSIONS,), (AT_32, AT_24)),
    *_rows("UTMALDG", 0x3b4, (DIMENSIONS, IM2COL, MULTICAST), (AT_32, AT_24, EXTRA)),
    *_rows("UTMASTG", 0x3b5, (DIMENSIONS, IM2COL), (AT_32, AT_24)),
    *_rows("UTMAREDG", 0x3b6, (DIMENSIONS, IM2COL, OPERATION), (AT_32, AT_24)),
    *_rows("UTMAPF", 0x5b8, (Fixed("L2"), DIMENSIONS), (AT_32, AT_24)),
    *_rows("UTMAPF", 0x3b8, (Fixed("L2"), DIMENSIONS, IM2COL), (AT_32, AT_24, EXTRA)),
    *_rows("UBLKCP", 0x3ba, (WAY, MULTICAST, flag(82, "LTC128B")), (AT_32, AT_24, EXTRA)),
    *_rows("UBLKRED", 0x3bb, (WAY, OPERATION, TYPE), (AT_32, AT_24, EXTRA)),
    *_rows("UBLKPF", 0x3bc, (Fixed("L2"),), (AT_24, EXTRA)),
    Row("UTMACCTL", 0x9b9, (), (flag(82, "PF", "IV"),), (AT_24,), (WITH_UR,), first=90, uniform=True),
    Row("UTMACMDFLUSH", 0x9b7, first=90, uniform=True),
)
# fmt: on
