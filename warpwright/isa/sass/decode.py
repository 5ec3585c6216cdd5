"""Decodes 128-bit words to :class:`~warpwright.isa.program.Instruction` records.

The tables of the ``tables_*`` modules are joined once per chip into an index by the twelve opcode
bits.  Decoding one word is: find the row whose further fields fit, let every entry of the
row read its part, then add guard and control bits.  Results are cached by word.

How records correspond to NVIDIA's disassembly
---------------------------------------------
* Operands are in printed order, destinations first.  An operand that is not printed is omitted here too, and always has
  its neutral value: a carry-out that goes to PT, a ``.X``-less carry-in, a predicate that is PT.
* ``IMMEDIATE``: ``value`` is the encoded bits as an unsigned 32-bit number; ``name`` is ``"signed"`` if it is printed
  with a sign, ``"offset"`` for the signed displacement after a register (BRX, JMX, RET, CALL), else empty.
* ``FLOAT``: ``value`` is the encoded bits, ``name`` the format: ``f32``, ``f64`` (64 bits, lower word zero), ``f16``,
  ``bf16``.  A packed-half immediate is two operands as printed: the upper half first.
* ``LABEL``: ``value`` is the absolute byte offset within the section.
* Branch conditions (``BRA P1, target``) are predicate operands before the target.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache

from warpwright.isa.program import PT, Instruction, Kind, Operand
from warpwright.isa.sass import (
    tables_bulk,
    tables_control,
    tables_convert,
    tables_float,
    tables_integer,
    tables_memory,
    tables_tensor,
    tables_texture,
    tables_uniform,
    tables_warp,
    tables_wgmma,
)
from warpwright.isa.sass.fields import FIRST_ARCH, LAST_ARCH, NEXT, Form, Row, UndefinedField, control

ARCHES = (70, 72, 75, 80, 86, 87, 89, 90)
"""Chips whose encodings the tables describe."""
WORD_BYTES = 16

ROWS: tuple[Row, ...] = (
    *tables_bulk.ROWS,
    *tables_integer.ROWS,
    *tables_float.ROWS,
    *tables_convert.ROWS,
    *tables_memory.ROWS,
    *tables_control.ROWS,
    *tables_warp.ROWS,
    *tables_tensor.ROWS,
    *tables_wgmma.ROWS,
    *tables_texture.ROWS,
    *tables_uniform.ROWS,
)


_TEXTURE = (0x361, 0x364, 0x367, 0x36A, 0x36D, 0x370, 0x373, *range(0xB60, 0xB75), *range(0xF60, 0xF75))
_SURFACE = (
    0x394,
    0x396,
    0x593,
    0x595,
    0x793,
    0x795,
    0xF93,
    0xF95,
    0x3A0,
    0x59F,
    0x79F,
    0xF9F,
    0x797,
    0x799,
    0x998,
    0x99A,
)
NOT_MODELLED: dict[str, tuple[int, ...]] = {
    "the texture instructions (TEX, TLD, TXQ …)": _TEXTURE,
    "the surface instructions (SULD, SUST, SUATOM …)": (
        *_SURFACE,
        *range(0x99C, 0x99F),
        *range(0xB97, 0xB9E),
        *range(0xF97, 0xF9E),
    ),
}
"""Opcode bits (in nvdisasm's terms) of whole families that the tables omit, for an error that names them."""


class UnknownEncoding(ValueError):
    """A word that no row describes, or a field without meaning."""

    def __init__(self, arch: int, address: int, word: int, why: str) -> None:
        super().__init__(f"sm_{arch}: cannot decode the instruction at {address:#06x}, word {word:#034x}: {why}")
        self.arch = arch
        self.address = address
        self.word = word


Candidate = tuple[int, int, Row, Form]


@cache
def index(arch: int) -> dict[int, tuple[Candidate, ...]]:
    """Rows of chip ``arch`` by their twelve opcode bits: (mask and value of the further fields, row, form)."""
    table: dict[int, list[Candidate]] = {}
    for row in ROWS:
        if row.first <= arch <= row.last:
            for code, form in row.encodings():
                mask, value = row.conditions(form)
                table.setdefault(code, []).append((mask, value, row, form))
    return {code: tuple(rows) for code, rows in table.items()}


def find_row(word: int, arch: int) -> tuple[Row, Form] | None:
    """The row and form that describe ``word`` on chip ``arch``, or None."""
    for mask, value, row, form in index(arch).get(word & 0xFFF, ()):
        if word & mask == value:
            return row, form
    return None


@lru_cache(maxsize=1 << 17)
def _decode_at_zero(word: int, arch: int) -> Instruction:
    """The instruction decoded as if at address 0; its label operands are still relative to the next instruction."""
    found = find_row(word, arch)
    if found is None:
        family = next((name for name, codes in NOT_MODELLED.items() if word & 0xFFF in codes), None)
        if family is not None:
            raise UndefinedField(f"it belongs to {family}, which this version does not model")
        raise UndefinedField(f"no instruction of this chip has opcode bits {word & 0xFFF:#05x} with these fields")
    row, form = found
    modifiers: list[str] = []
    for modifier in row.modifiers:
        modifiers.extend(modifier.read(word, form))
    operands: list[Operand] = []
    for entry in row.operands:
        operands.extend(entry.read(word, form))
    guard = None
    if word >> 12 & 15 != PT:
        kind = Kind.UNIFORM_PREDICATE if row.uniform else Kind.PREDICATE
        guard = Operand(kind, word >> 12 & 7, invert=bool(word >> 15 & 1))
    return Instruction(0, row.opcode, tuple(modifiers), tuple(operands), guard, control(word), word)


def decode(word: int, arch: int, address: int = 0) -> Instruction:
    """Decode one 128-bit ``word`` of chip ``arch`` (70, 75, 80 …) that is at byte ``address`` of its section.

    Raises :class:`UnknownEncoding` for anything that is not an instruction of that chip, and
    :class:`ValueError` for a chip outside sm_70 to sm_90.
    """
    if arch not in ARCHES:
        chips = ", ".join(f"sm_{a}" for a in ARCHES)
        raise ValueError(f"sm_{arch} does not use the 128-bit encodings described here; choose one of {chips}")
    try:
        instruction = _decode_at_zero(word, arch)
    except UndefinedField as why:
        raise UnknownEncoding(arch, address, word, str(why)) from None
    operands = instruction.operands
    if operands and any(o.name is NEXT for o in operands):
        operands = tuple(
            replace(o, value=o.value + address + WORD_BYTES, name="") if o.name is NEXT else o for o in operands
        )
    elif not address:
        return instruction
    return instruction.placed(address, operands)


def words_of(code: bytes) -> list[int]:
    """The 128-bit little-endian words of a code section.

    Raises :class:`ValueError` when the section is not a whole number of words.
    """
    if len(code) % WORD_BYTES:
        raise ValueError(f"a code section of {len(code)} bytes is not a whole number of 16-byte instructions")
    return [int.from_bytes(code[at : at + WORD_BYTES], "little") for at in range(0, len(code), WORD_BYTES)]


def decode_section(code: bytes, arch: int, base: int = 0) -> list[Instruction]:
    """Decode a whole section whose first byte has address ``base``."""
    return [decode(word, arch, base + WORD_BYTES * n) for n, word in enumerate(words_of(code))]


__all__ = [
    "ARCHES",
    "FIRST_ARCH",
    "LAST_ARCH",
    "ROWS",
    "UnknownEncoding",
    "decode",
    "decode_section",
    "find_row",
    "index",
]
