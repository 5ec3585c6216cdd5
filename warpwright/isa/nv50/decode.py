"""Decodes NV50 words to :class:`~warpwright.isa.program.Instruction` by the tables, and encodes them.

A word is at a byte address; words of 8 bytes at multiples of 8.  ``encoding`` holds the 32 or 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

from warpwright.isa.nv50 import tables_arithmetic, tables_memory
from warpwright.isa.nv50.fields import Context, DoesNotFit, Token, UndefinedField
from warpwright.isa.nv50.rows import IMMEDIATE, LONG, TAILS, Row, guard_operand, read_guard, write_guard
from warpwright.isa.program import Instruction, Operand
from warpwright.isa.sass.decode import UnknownEncoding

ARCHES = (10, 11, 12, 13)
FEATURES: dict[int, frozenset[str]] = {
    10: frozenset(),
    11: frozenset({"sm11"}),
    12: frozenset({"sm11", "sm12", "d3d10_1"}),
    13: frozenset({"sm11", "sm12", "fp64"}),
}
"""Features by compute capability beyond G80: atomics, votes and 64-bit atomics, double precision (GT200), Direct3D 10.1
(GT215)."""
ROWS: tuple[Row, ...] = (*tables_arithmetic.ROWS, *tables_memory.ROWS)
WORD_BYTES, LONG_BYTES = 4, 8


@cache
def context_of(arch: int, stage: str = "cp") -> Context:
    if arch not in FEATURES:
        chips = ", ".join(f"sm_{a}" for a in ARCHES)
        raise ValueError(f"sm_{arch} does not use the encodings described here; choose one of {chips}")
    return Context(stage, FEATURES[arch])


@cache
def index(context: Context) -> tuple[tuple[tuple[int, int, Row], ...], ...]:
    """Rows by the primary opcode and the lowest two bits: (mask, value, row)."""
    table: list[list[tuple[int, int, Row]]] = [[] for _ in range(64)]
    for row in ROWS:
        if not row.fits(context):
            continue
        mask, value = row.mask_and_value
        for key in range(64):
            word = (key >> 2) << 28 | key & 3
            if (word ^ value) & mask & 0xF0000003 == 0:
                table[key].append((mask, value, row))
    return tuple(tuple(rows) for rows in table)


def find_row(word: int, context: Context) -> Row | None:
    """The row that describes a word, or None."""
    for mask, value, row in index(context)[(word >> 28 & 15) << 2 | word & 3]:
        if word & mask == value and not (row.form == LONG and word >> 32 & 3 == 3):
            return row
    return None


def is_long(word: int) -> bool:
    """Whether a word that begins with these 32 bits is 8 bytes long."""
    return bool(word & 1)


def tokens_of(word: int, context: Context) -> tuple[Row, list[Token]]:
    """The row of a word and its tokens.

    Raises:
        UndefinedField: for a word that is not an instruction.
    """
    row = find_row(word, context)
    if row is None:
        raise UndefinedField(
            f"no instruction of this chip has the primary opcode {word >> 28 & 15:#x} with these fields"
        )
    return row, row.read(word, context)


@lru_cache(maxsize=1 << 16)
def _decode_at_zero(word: int, context: Context) -> Instruction:
    row, tokens = tokens_of(word, context)
    guard = read_guard(word) if row.form == LONG or (row.is_wide and row.form != IMMEDIATE and row.guarded) else None
    modifiers = tuple(t for t in tokens if isinstance(t, str))
    operands = tuple(t for t in tokens if isinstance(t, Operand))
    tail = TAILS[word >> 32 & 3] if row.form == LONG else ""
    return Instruction(
        0,
        row.opcode,
        (*modifiers, *((f"+{tail}",) if tail else ())),
        operands,
        None if guard is None else guard_operand(guard),
        encoding=word,
    )


def decode(word: int, arch: int, address: int = 0, stage: str = "cp") -> Instruction:
    """Decode one word of 32 or 64 bits that is at a byte address.

    Raises:
        UnknownEncoding: for a word that is not an instruction of that chip.
        ValueError: for a chip outside sm_10 to sm_13.
    """
    try:
        found = _decode_at_zero(word, context_of(arch, stage))
    except UndefinedField as why:
        raise UnknownEncoding(arch, address, word, f"{why} is undefined" if " " not in str(why) else str(why)) from None
    return Instruction(address, found.opcode, found.modifiers, found.operands, found.guard, encoding=word)


def decode_section(code: bytes, arch: int, base: int = 0, stage: str = "cp") -> list[Instruction]:
    """Decode a program whose first byte has address ``base``.

    Raises:
        ValueError: if the code is not a whole number of words, or an 8-byte word is not aligned to 8 bytes.
    """
    if len(code) % WORD_BYTES:
        raise ValueError(f"code of {len(code)} bytes is not a whole number of 4-byte words")
    found, at = [], 0
    while at < len(code):
        first = int.from_bytes(code[at : at + WORD_BYTES], "little")
        size = LONG_BYTES if is_long(first) else WORD_BYTES
        if at + size > len(code) or (base + at) % size:
            raise ValueError(f"the word of {size} bytes at {base + at:#x} is cut off or not aligned to its size")
        found.append(decode(int.from_bytes(code[at : at + size], "little"), arch, base + at, stage))
        at += size
    return found


@cache
def rows_called(opcode: str) -> tuple[Row, ...]:
    return tuple(row for row in ROWS if row.opcode == opcode)


def encode(
    row: Row, tokens: Sequence[Token], context: Context, guard: tuple[str, int] | None = None, tail: str = ""
) -> int:
    """Encode a row's form with these tokens.

    Raises:
        DoesNotFit: if the form has no field for an operand, the guard or the tail.
    """
    word = row.write(tokens, context)
    if row.form == LONG:
        return word | write_guard(guard) | TAILS.index(tail) << 32
    if tail or (guard is not None and not (row.is_wide and row.form != IMMEDIATE and row.guarded)):
        raise DoesNotFit("no guard and no tail fit")
    if row.is_wide and row.form != IMMEDIATE:
        word |= write_guard(guard)
    return word
