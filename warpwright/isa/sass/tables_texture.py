"""Rows of textures and surfaces.

A handle is a word: of constant bank 0 (sm_70 to sm_89, ``0x0, 0x58``: bank and word), in a uniform register (sm_90), or in a
register (``.B``, bindless).  ``.SCR`` distributes the coordinates over two short register groups instead of one long
group. The results that the mask selects fill two registers from the second destination on and two from the first.
Source: code of NVRTC 12.9, its bits flipped one by one and disassembled by NVIDIA's disassembler.
"""

from __future__ import annotations

from warpwright.isa.program import Kind, Operand
from warpwright.isa.sass.fields import (
    Choice,
    Custom,
    Fixed,
    Form,
    Imm,
    Modifier,
    Named,
    Pred,
    Reg,
    Row,
    Source,
    When,
    at,
    flag,
)
from warpwright.isa.sass.tables_memory import ORDER_70, ORDER_80, ORDER_STORE_80, PRIVATE_70, SCOPE_70

D, D_2, A, B = Reg(16), Reg(64), Reg(24), Reg(32)
MORE = Reg(32, optional=True)
P_OUT = Pred(81, optional=True)
DIMENSIONS = Named(at(61, 3), ("1D", "2D", "3D", "CUBE", "ARRAY_1D", "ARRAY_2D", None, "ARRAY_CUBE"))
FETCHED = Named(at(61, 3), ("1D", "2D", "3D", None, "ARRAY_1D", "ARRAY_2D"))
SLOPED = Named(at(61, 3), ("1D", "2D", None, None, "ARRAY_1D", "ARRAY_2D"))
GATHERED = Named(at(61, 3), (None, "2D", None, "CUBE", None, "ARRAY_2D", None, "ARRAY_CUBE"))
MASK = When(at(72, 4), tuple(range(15)), Imm(at(72, 4)))
SCALAR = flag(60, "SCR")
BINDLESS = flag(59, "B")
ROUNDING = Choice(at(79, 2), ("", "F16.RN", "F16.RZ"))
LEVEL = Choice(at(87, 3), ("", "LZ", "LB", "LL", "LC", "LB.LC"))
FETCH_LEVEL = Choice(at(87, 3), (None, "LZ", None, "LL"))
COMPONENT = Choice(at(87, 2), ("R", "G", "B", "A"))
OFFSETS, COMPARE, NO_DERIVATIVES = flag(76, "AOFFI"), flag(78, "DC"), flag(77, "NDV")
GATHER_OFFSETS = Choice(at(76, 2), ("", "AOFFI", "PTP"))
EVICT = Choice(at(84, 3), ("EF", "", "EL", "LU", "EU", "NA"))
NO_DEPENDENCE = flag(90, "NODEP")
CONSTANT = (Imm(at(54, 5)), Imm(at(40, 14)))
UNIFORM = (Reg(40, uniform=True), Imm(at(46, 8)))
QUERIES = Named(at(62, 2), ("TEX_HEADER_DIMENSION", "TEX_HEADER_TEXTURE_TYPE", "TEX_HEADER_SAMPLER_POS"))
SHAPES = Choice(at(61, 3), ("1D", "1D_BUFFER", "1D_ARRAY", "2D", "2D_ARRAY", "3D"))
OUTSIDE = Choice(at(59, 2), ("IGN", "", "TRAP"))
BYTES = flag(72, "BA")
SIZE = Choice(at(73, 3), ("U8", "S8", "U16", "S16", "", "64", "128"))
CHANNELS = Choice(at(72, 4), (None, "R", None, "RG", *[None] * 11, ""))
REDUCTION = Choice(at(87, 3), ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR"))
REDUCTION_TYPE = Choice(at(73, 3), ("", "S32", "U64", "F32.FTZ.RN", "F16x2.RN", "S64", "SD32", "SD64"))
ORDERED_70 = (ORDER_70, SCOPE_70, PRIVATE_70)
HANDLE = Reg(64)


def _place(word: int, form: Form) -> tuple[Operand, ...]:
    return (Operand(Kind.MEMORY, base=Operand(Kind.REGISTER, word >> 24 & 255)),)


PLACE = Custom(_place)


def _texture(
    opcode: str,
    code: int,
    modifiers: tuple[Modifier, ...],
    operands: tuple[Source, ...],
    last: tuple[Source | When, ...],
) -> tuple[Row, ...]:
    """The three ways to encode the handle.  ``modifiers`` include BINDLESS, which sm_90 lacks."""
    plain = tuple(m for m in modifiers if m is not BINDLESS)
    return (
        Row(opcode, 5 << 9 | code, modifiers=modifiers, operands=(*operands, *CONSTANT, *last), last=89),
        Row(
            opcode,
            7 << 9 | code,
            modifiers=plain,
            operands=(*operands, *UNIFORM, *last),
            where=((at(91, 1), 1),),
            first=90,
        ),
        Row(
            opcode,
            1 << 9 | code + 1,
            modifiers=modifiers,
            operands=(*operands, *last),
            where=((at(59, 1), 1), (at(91, 1), 0)),
        ),
    )


def _surface(
    opcode: str, code: int, bindless: int, constant: int, before: tuple[Modifier, ...], after: tuple[Modifier, ...],
    orders: tuple[tuple[Modifier, ...], tuple[Modifier, ...]], operands: tuple[Source, ...],
) -> tuple[Row, ...]:  # fmt: skip
    """The same for surfaces; ``orders`` are the memory orders up to sm_79 and from sm_80 on, ``constant`` is the form
    of the constant bank."""
    rows = []
    for order, first, last in ((orders[0], 70, 79), (orders[1], 80, 90)):
        modifiers = (*before, *order, *after, OUTSIDE)
        rows.append(
            Row(
                opcode,
                constant << 9 | code,
                modifiers=modifiers,
                operands=(*operands, *CONSTANT),
                first=first,
                last=min(last, 89),
            )
        )
        rows.append(Row(opcode, bindless, modifiers=modifiers, operands=(*operands, HANDLE), first=first, last=last))
    rows.append(
        Row(
            opcode,
            7 << 9 | code,
            modifiers=modifiers,
            operands=(*operands, *UNIFORM),
            where=((at(91, 1), 1),),
            first=90,
        )
    )
    return tuple(rows)


ROWS: tuple[Row, ...] = (
    *_texture(
        "TEX",
        0x160,
        (SCALAR, BINDLESS, ROUNDING, LEVEL, OFFSETS, COMPARE, EVICT, NO_DERIVATIVES, NO_DEPENDENCE),
        (P_OUT, D_2, D, A, MORE),
        (DIMENSIONS, MASK),
    ),
    *_texture(
        "TLD4",
        0x163,
        (SCALAR, COMPONENT, BINDLESS, ROUNDING, GATHER_OFFSETS, COMPARE, EVICT, NO_DEPENDENCE),
        (P_OUT, D_2, D, A, MORE),
        (GATHERED, MASK),
    ),
    *_texture(
        "TLD",
        0x166,
        (SCALAR, BINDLESS, ROUNDING, FETCH_LEVEL, OFFSETS, EVICT, flag(78, "MS"), flag(77, "CL"), NO_DEPENDENCE),
        (P_OUT, D_2, D, A, MORE),
        (FETCHED, MASK),
    ),
    *_texture(
        "TXD",
        0x16C,
        (BINDLESS, ROUNDING, flag(87, "LC"), OFFSETS, EVICT, NO_DEPENDENCE),
        (P_OUT, D_2, D, A, MORE),
        (SLOPED, MASK),
    ),
    # The mask of a query is always printed.
    Row("TXQ", 0xB6F, modifiers=(BINDLESS, NO_DEPENDENCE), operands=(D_2, D, A, QUERIES, *CONSTANT, Imm(at(72, 4))), last=89),
    Row("TXQ", 0xF6F, modifiers=(NO_DEPENDENCE,), operands=(D_2, D, A, QUERIES, *UNIFORM, Imm(at(72, 4))), where=((at(91, 1), 1),), first=90),
    Row("TXQ", 0x370, modifiers=(BINDLESS, NO_DEPENDENCE), operands=(D_2, D, A, QUERIES, Imm(at(72, 4))), where=((at(59, 1), 1), (at(91, 1), 0))),
    *_surface(
        "SULD", 0x199, 0x99A, 5, (Fixed("D"), BYTES, SHAPES, EVICT, SIZE), (),
        (ORDERED_70, (ORDER_80,)), (P_OUT, D, PLACE),
    ),
    *_surface(
        "SUST", 0x19D, 0x99E, 5, (Fixed("D"), BYTES, SHAPES, EVICT, SIZE), (),
        (ORDERED_70, (ORDER_STORE_80,)), (PLACE, B),
    ),
    *_surface(
        "SUST", 0x19B, 0x99C, 5, (Fixed("P"), SHAPES, EVICT), (CHANNELS,),
        (ORDERED_70, (ORDER_STORE_80,)), (PLACE, B),
    ),
    *_surface(
        "SURED", 0x19F, 0x3A0, 2, (Fixed("D"), BYTES, SHAPES, EVICT, REDUCTION, REDUCTION_TYPE), (),
        (ORDERED_70, (ORDER_80,)), (PLACE, B),
    ),
)  # fmt: skip
