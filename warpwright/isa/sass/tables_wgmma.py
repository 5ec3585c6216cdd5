"""Rows of Hopper's warpgroup instructions: HGMMA, IGMMA, BGMMA, QGMMA, and WARPGROUP, which orders them.

An operand in shared memory is given by a matrix descriptor in a pair of uniform registers; the pairs of two operands
are consecutive: ``gdesc[UR4]`` (name ``gdesc``; transposed and negated operands are in its suffix).  Facts: as in
:mod:`tables_integer`; found by flipping bits and comparing with NVIDIA's disassembler.
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
    Modifier,
    Named,
    Reg,
    Row,
    Source,
    When,
    at,
    flag,
)
from warpwright.isa.sass.tables_tensor import LATE

GROUP_DESCRIPTOR = "gdesc"
COLUMNS = tuple(str(8 * n) for n in range(1, 33))
WIDER_COLUMNS = ("8", "16", "24", "32", *(str(16 * n) for n in range(3, 17)))
"""N of integer products."""


def shapes(columns: tuple[str, ...], depth: int) -> tuple[str, ...]:
    return tuple(f"64x{n}x{depth}" for n in columns)


def half_shape(depth: int) -> Choice:
    return Choice(at(53, 5), shapes(COLUMNS, depth))


def descriptor(low: int, first: bool) -> Custom:
    """The matrix descriptor; with ``first``, A is in shared memory too."""

    def read(word: int, form: Form) -> tuple[Operand, ...]:
        marks = [(72, "negA"), (63, "negB"), (61, "tnspA"), (62, "tnspB")]
        suffix = "".join(f".{name}" for bit, name in marks if word >> bit & 1 and (first or name[-1] == "B"))
        return (Operand(Kind.UNIFORM_REGISTER, word >> low & 63, suffix=suffix, name=GROUP_DESCRIPTOR),)

    return Custom(read)


D, C = Reg(16), Reg(64)
A = Reg(24, negate=72)
METADATA = Reg(40)
SELECTOR = Imm(at(48, 2))
SCOREBOARD = When(at(84, 3), (0,), Named(at(84, 3), ("gsb0",), Kind.SCOREBOARD))
DENSE, SPARSE = (at(73, 1), 0), (at(73, 1), 1)
WHOLE = ((at(74, 1), 0), (at(91, 1), 1))
SUM = flag(75, "F32", "F16")
HALF_DEPTHS: tuple[tuple[int, int, str, int], ...] = (
    # sparse, code of the depth (bits 58-59), input, depth
    *((0, 0, name, 16) for name in ("", "BF16")),
    (0, 1, "TF32", 8),
    *((1, 2, name, 32) for name in ("", "BF16")),
    (1, 0, "TF32", 16),
)
HALF_INPUT = at(76, 2)
INPUT_CODES = {"": 0, "BF16": 1, "TF32": 2}
SMALL_A, SMALL_B = Choice(at(76, 1), ("E4M3", "E5M2")), Choice(at(77, 1), ("E4M3", "E5M2"))
BYTE_A, BYTE_B = Choice(at(76, 2), ("U8", "S8")), Choice(at(82, 2), ("U8", "S8"))
SATURATE = flag(75, "SAT")


def integer_shape(sparse: bool) -> Choice:
    """Shape of an integer product: every third code, followed by those of sparse products."""
    names: list[str | None] = [None] * 64
    for n, shape in enumerate(shapes(WIDER_COLUMNS, 64 if sparse else 32)):
        names[3 * n + sparse] = shape
    return Choice(at(53, 6), tuple(names))


def rows(opcode: str, code: int, modifiers: tuple[Modifier, ...], sparse: bool, *where: tuple[Bits, int]) -> list[Row]:
    """Rows for A in registers and in shared memory."""
    tail: tuple[Source | When, ...] = (C, LATE)
    if sparse:
        tail += (METADATA, SELECTOR) if opcode == "HGMMA" else (METADATA,)
        modifiers = (Fixed("SP"), *modifiers)
    tail += (SCOREBOARD,)
    places = (*WHOLE, SPARSE if sparse else DENSE, *where)
    return [
        Row(opcode, 0x800 | code, (), modifiers, (D, descriptor(24, True), *tail), places, first=90),
        Row(opcode, 0xC00 | code, (), modifiers, (D, A, descriptor(32, False), *tail), places, first=90),
    ]


# fmt: off
ROWS = (
    *(row for sparse, depth_code, name, depth in HALF_DEPTHS
      for row in rows("HGMMA", 0x1F0, (half_shape(depth), SUM, *([Fixed(name)] if name else [])),
                      bool(sparse), (at(58, 3), depth_code), (HALF_INPUT, INPUT_CODES[name]))),
    *(row for sparse in (False, True)
      for row in rows("IGMMA", 0x1F1, (integer_shape(sparse), BYTE_A, BYTE_B, SATURATE), sparse)),
    *rows("BGMMA", 0x1F2, (Choice(at(53, 6), shapes(WIDER_COLUMNS, 256)), Fixed("AND.POPC")), False, (at(77, 4), 0b1010)),
    *(row for sparse in (False, True)
      for row in rows("QGMMA", 0x1F3, (half_shape(64 if sparse else 32), SUM, SMALL_A, SMALL_B), sparse, (at(58, 3), int(sparse)))),
    Row("WARPGROUP", 0x9C5, (), (Fixed("ARRIVE"),), (), ((at(80, 1), 0),), first=90),
    Row("WARPGROUP", 0x9C5, (), (Fixed("DEPBAR.LE"),), (Named(at(84, 3), ("gsb0",), Kind.SCOREBOARD), Imm(at(72, 3))),
        ((at(80, 1), 1), (at(47, 1), 1)), first=90),
)
# fmt: on
