"""Decodes 64-bit words and their control words to :class:`~warpwright.isa.program.Instruction` records.

The counterpart of :mod:`warpwright.isa.sass.decode` for sm_50 to sm_62.  Addresses are byte offsets within the section
and include the control words, as NVIDIA's tools do: the three instructions of a bundle are at 8, 16 and 24 after its
start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache

from warpwright.isa.maxwell import tables_control, tables_float, tables_integer, tables_memory, tables_video
from warpwright.isa.maxwell.fields import BUNDLE_BYTES, WORD_BYTES, Row, UndefinedField, control
from warpwright.isa.program import PT, Control, Instruction, Kind, Operand
from warpwright.isa.sass.decode import UnknownEncoding
from warpwright.isa.sass.fields import NEXT, Form

ARCHES = (50, 52, 53, 60, 61, 62)
"""Chips whose encodings the tables describe; sm_50 to sm_53 lack some of the instructions, which ``first`` does not
record."""

ROWS: tuple[Row, ...] = (
    *tables_integer.ROWS,
    *tables_float.ROWS,
    *tables_memory.ROWS,
    *tables_control.ROWS,
    *tables_video.ROWS,
)

NOT_MODELLED: dict[str, tuple[tuple[int, int], ...]] = {
    "the texture instructions (TEX, TLD, TXQ …)": ((0xC000, 0xCBFF), (0xD000, 0xDFFF)),
    "the surface instructions (SULD, SUST, SUATOM …)": ((0xEA00, 0xEBBF),),
    "the graphics instructions (IPA, ALD, AST, OUT …)": (
        (0xE000, 0xE0FF),
        (0xEBE0, 0xEBE7),
        (0xEEA0, 0xEEA7),
        (0xEFA0, 0xEFF7),
        (0xF6E0, 0xFBE7),
    ),
    "the debugger's and the driver's instructions (RTT, IDE, SAM, LONGJMP, GETCRSPTR …)": (
        (0x50E0, 0x50E7),
        (0xE230, 0xE23F),
        (0xE280, 0xE28F),
        (0xE2C0, 0xE2FF),
        (0xE310, 0xE31F),
        (0xE360, 0xE39F),
        (0xEBF0, 0xEBF7),
        (0xEEA0, 0xEEA7),
        (0xF0C0, 0xF0C7),
    ),
}
"""Ranges of the upper 16 bits of whole families that the tables omit, for an error that names them."""

Candidate = tuple[int, int, Row, Form]


@cache
def index(arch: int) -> tuple[tuple[Candidate, ...], ...]:
    """An architecture's rows by the upper eight bits of a word: (mask and value of the whole word, row, form)."""
    table: list[list[Candidate]] = [[] for _ in range(256)]
    for row in (row for row in ROWS if row.first <= arch):
        for mask, value, form in row.encodings():
            for top in range(256):
                if (top << 56 ^ value) & mask & (0xFF << 56) == 0:
                    table[top].append((mask, value, row, form))
    return tuple(tuple(rows) for rows in table)


def find_row(word: int, arch: int) -> tuple[Row, Form] | None:
    """The row and form that describe ``word``, or None."""
    for mask, value, row, form in index(arch)[word >> 56]:
        if word & mask == value:
            return row, form
    return None


@lru_cache(maxsize=1 << 17)
def _decode_at_zero(word: int, arch: int, bits: int) -> Instruction:
    """The instruction decoded as if at address 0; ``bits`` are its 21 control bits."""
    found = find_row(word, arch)
    if found is None:
        top = word >> 48
        for name, ranges in NOT_MODELLED.items():
            if any(low <= top <= high for low, high in ranges):
                raise UndefinedField(f"it belongs to {name}, which this version does not model")
        raise UndefinedField(f"no instruction of this chip has the upper bits {top:#06x} with these fields")
    row, form = found
    how = control(bits)
    modifiers: list[str] = []
    for modifier in row.modifiers:
        modifiers.extend(modifier.read(word, form))
    operands: list[Operand] = []
    for entry in row.operands:
        operands.extend(entry.read(word, form))
    guard = None
    if row.guarded and word >> 16 & 15 != PT:
        guard = Operand(Kind.PREDICATE, word >> 16 & 7, invert=bool(word >> 19 & 1))
    return Instruction(0, row.opcode, tuple(modifiers), tuple(_slots(operands, how)), guard, how, word)


def _slots(operands: Sequence[Operand], how: Control) -> list[Operand]:
    """Turn the operand slots that readers left in registers' ``value`` into reuse flags."""
    return [
        replace(o, value=0, reuse=bool(how.reuse >> (o.value - 1) & 1)) if o.kind is Kind.REGISTER and o.value else o
        for o in operands
    ]


def decode(word: int, arch: int, address: int = WORD_BYTES, control_bits: int = 0x7E0) -> Instruction:
    """Decode one 64-bit ``word`` that is at byte ``address`` of its section, with its 21 control bits.

    Raises :class:`UnknownEncoding` for anything that is not an instruction of that chip, and
    :class:`ValueError` for a chip outside sm_50 to sm_62.
    """
    if arch not in ARCHES:
        chips = ", ".join(f"sm_{a}" for a in ARCHES)
        raise ValueError(f"sm_{arch} does not use the 64-bit encodings described here; choose one of {chips}")
    try:
        instruction = _decode_at_zero(word, arch, control_bits)
    except UndefinedField as why:
        raise UnknownEncoding(arch, address, word, str(why)) from None
    operands = instruction.operands
    if any(o.name is NEXT for o in operands):
        operands = tuple(
            replace(o, value=landing(o.value + address + WORD_BYTES), name="") if o.name is NEXT else o
            for o in operands
        )
    return instruction.placed(address, operands)


def landing(target: int) -> int:
    """The address at which a jump to ``target`` lands: the first instruction after a control word."""
    return target + WORD_BYTES if target % BUNDLE_BYTES == 0 else target


def decode_section(code: bytes, arch: int, base: int = 0) -> list[Instruction]:
    """Decode a whole section whose first byte has address ``base``, a multiple of 32.

    Raises :class:`ValueError` when the section is not a whole number of words.
    """
    if len(code) % WORD_BYTES:
        raise ValueError(f"a code section of {len(code)} bytes is not a whole number of 8-byte words")
    words = [int.from_bytes(code[at : at + WORD_BYTES], "little") for at in range(0, len(code), WORD_BYTES)]
    found = []
    for n, word in enumerate(words):
        if n % 4:
            bits = words[n - n % 4] >> 21 * (n % 4 - 1) & 0x1FFFFF
            found.append(decode(word, arch, base + WORD_BYTES * n, bits))
    return found


__all__ = ["ARCHES", "ROWS", "decode", "decode_section", "find_row", "index", "landing"]
