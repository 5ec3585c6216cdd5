"""Decodes programs of Cypress and Cayman by the tables.

Control-flow words are read from the first to the one that ends the program; each clause is read at the address that a
control-flow word gives.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from warpwright.isa.r600 import layouts, tables_alu, tables_control, tables_fetch
from warpwright.isa.r600.decoded_program import (
    LITERAL,
    AluWord,
    Bundle,
    Clause,
    ControlWord,
    FetchWord,
    Listing,
)
from warpwright.isa.r600.fields import Layout, UndefinedWord
from warpwright.isa.r600.layouts import CAYMAN, EVERGREEN, GENERATIONS
from warpwright.isa.r600.tables_control import ControlOperation, Role
from warpwright.isa.r600.tables_fetch import FetchKind, FetchOperation

WORD_BYTES = 8
SLOTS = {EVERGREEN: "xyzwt", CAYMAN: "xyzw"}
_ALU_CLAUSE_BIT = 1 << 61
_INDEX_MODES = frozenset({0, 4, 5, 6})
"""Index modes: relative to AR.x, to the loop's index, to the register file, to both the file and AR.x."""
_UNDEFINED_SOURCES = frozenset({*range(192, 219), 225, 226, 239, *range(320, 448)})


def _opcode(what: str, number: int, generation: str) -> UndefinedWord:
    return UndefinedWord(f"{generation} has no {what} with opcode {number:#x}")


def decode_control(word: int, generation: str, address: int = 0) -> ControlWord:
    """Decode one control-flow word of 64 bits.

    Raises:
        UndefinedWord: when the chip has no such word.
    """
    if word & _ALU_CLAUSE_BIT:
        number = word >> 58 & 15
        found = tables_control.ALU_CLAUSES_OF[generation].get(number)
        if found is None:
            raise _opcode("ALU clause", number, generation)
        layout = layouts.CONTROL_ALU_EXTENDED if found.role is Role.ALU_EXTENDED else layouts.CONTROL_ALU
        return ControlWord(address, layout, layout.read(word), found)
    number = word >> 54 & 255
    found = tables_control.CONTROL_OF[generation].get(number)
    if found is None:
        raise _opcode("control-flow word", number, generation)
    layout = _control_layout(found, generation)
    fields = layout.read(word)
    if found.role is not Role.RAT:
        return ControlWord(address, layout, fields, found)
    operation = tables_control.RAT_OPERATIONS.get(fields["rat_inst"])
    if operation is None:
        raise _opcode("operation on a random access target", fields["rat_inst"], generation)
    return ControlWord(address, layout, fields, found, operation)


def _control_layout(operation: ControlOperation, generation: str) -> Layout:
    by_role = {Role.EXPORT: layouts.EXPORT, Role.MEMORY_EXPORT: layouts.MEMORY_EXPORT, Role.RAT: layouts.RAT}
    return by_role.get(operation.role, layouts.CONTROL)[generation]


def decode_alu(word: int, generation: str, address: int = 0, taken: str = "") -> AluWord:
    """Decode one ALU word of 64 bits, given the slots that earlier words of its bundle have ``taken``.

    Raises:
        UndefinedWord: when the chip has no such operation, or no slot is left for it.
    """
    has_three = word >> 47 & 7
    number = word >> 45 & 31 if has_three else word >> 39 & 0x7FF
    if has_three and number == tables_alu.LDS_INDEXED:
        layout, number, rows = layouts.ALU_LDS, word >> 53 & 63, tables_alu.LDS_OF
    elif has_three:
        layout, rows = layouts.ALU_OP3, tables_alu.OP3_OF
    else:
        layout, rows = layouts.ALU_OP2, tables_alu.OP2_OF
    operation = rows[generation].get(number)
    if operation is None:
        raise _opcode(f"operation of {layout.name}", number, generation)
    fields = layout.read(word)
    slot = _slot(operation.slots_of(generation), "xyzw"[fields["dst_chan"]], taken, generation)
    found = AluWord(address, layout, fields, operation, slot)
    for source in found.sources:
        if source.select in _UNDEFINED_SOURCES:
            raise UndefinedWord(f"{operation.name} reads source {source.select}, which names nothing")
    if fields["index_mode"] not in _INDEX_MODES or fields["pred_sel"] == 1:
        raise UndefinedWord(f"{operation.name} has an index mode or a predicate that names nothing")
    return found


def _slot(allowed: str, channel: str, taken: str, generation: str) -> str:
    """The slot of an operation: that of its channel, or the fifth one if that is taken."""
    order = SLOTS[generation]
    wanted = [channel] * ("v" in allowed) + ["t"] * ("t" in allowed)
    for slot in wanted:
        if not taken or order.index(slot) > order.index(taken[-1]):
            return slot
    raise UndefinedWord(f"no slot of {', '.join(wanted)} is left after {', '.join(taken)}")


def decode_fetch(word: int, generation: str, address: int = 0) -> FetchWord:
    """Decode one fetch word of 128 bits.

    Raises:
        UndefinedWord: when the chip has no such fetch.
    """
    operation = _fetch_operation(word, generation)
    layout = {
        FetchKind.VERTEX: layouts.VERTEX[generation],
        FetchKind.SEMANTIC: layouts.VERTEX_SEMANTIC[generation],
        FetchKind.TEXTURE: layouts.TEXTURE,
        FetchKind.MEMORY: layouts.MEMORY_READ,
        FetchKind.GLOBAL_SHARE: layouts.GLOBAL_SHARE,
    }[operation.kind]
    return FetchWord(address, layout, layout.read(word), operation)


def _fetch_operation(word: int, generation: str) -> FetchOperation:
    number = word & 31
    if number in tables_fetch.VERTEX_OPERATIONS:
        return tables_fetch.VERTEX_OPERATIONS[number]
    if number == tables_fetch.MEMORY_INSTRUCTION:
        return _memory_operation(word, generation)
    opcode = number if number in tables_fetch.GATHERS else number | (word >> 5 & 3) << 8
    found = tables_fetch.TEXTURE_OPERATIONS.get(opcode)
    if found is None or generation not in found.generations:
        raise _opcode("texture fetch", opcode, generation)
    return found


def _memory_operation(word: int, generation: str) -> FetchOperation:
    memory, share = word >> 8 & 7, word >> 41 & 63
    if memory == tables_fetch.TESSELLATION_WRITE:
        return tables_fetch.TF_WRITE
    if memory == tables_fetch.GLOBAL_SHARE_MEMORY:
        found = tables_fetch.GLOBAL_SHARE_OPERATIONS.get(share)
    else:
        found = tables_fetch.MEMORY_OPERATIONS.get(memory)
    if found is None:
        raise _opcode("memory operation", share if memory == tables_fetch.GLOBAL_SHARE_MEMORY else memory, generation)
    return found


def decode_bundle(words: Sequence[int], generation: str, address: int = 0) -> Bundle:
    """Decode the bundle at the front of ``words``, with its literals.

    Raises:
        UndefinedWord: if a word is invalid, the last one is not marked, or literals are cut off.
    """
    found: list[AluWord] = []
    taken = ""
    for i, word in enumerate(words):
        if len(found) == len(SLOTS[generation]):
            break
        found.append(decode_alu(word, generation, address + i, taken))
        taken += found[-1].slot
        if found[-1].fields["last"]:
            return Bundle(address, tuple(found), _literals(found, words[i + 1 :]))
    raise UndefinedWord(f"the bundle at {address} has no last operation")


def _literals(words: Sequence[AluWord], after: Sequence[int]) -> tuple[int, ...]:
    channels = [s.channel for w in words for s in w.sources if s.select == LITERAL]
    pairs = max(channels, default=-2) // 2 + 1
    if pairs > len(after):
        raise UndefinedWord(f"the literals of the bundle at {words[0].address} are cut off")
    return tuple(part for pair in after[:pairs] for part in (pair & 0xFFFFFFFF, pair >> 32))


def _alu_clause(words: Sequence[int], generation: str, address: int) -> Clause:
    bundles: list[Bundle] = []
    at = 0
    while at < len(words):
        bundles.append(decode_bundle(words[at:], generation, address + at))
        at += len(bundles[-1].words) + len(bundles[-1].literals) // 2
    return Clause(address, address + len(words), bundles=tuple(bundles))


def _fetch_clause(words: Sequence[int], generation: str, address: int) -> Clause:
    fetches = tuple(
        decode_fetch(words[i] | words[i + 1] << 64, generation, address + i) for i in range(0, len(words), 2)
    )
    return Clause(address, address + len(words), fetches=fetches)


def _clause(word: ControlWord, words: Sequence[int], generation: str) -> Clause:
    is_alu = word.operation.role is Role.ALU_CLAUSE
    first, size = word.fields["addr"], word.fields["count"] + 1
    end = first + (size if is_alu else 2 * size)
    if end > len(words):
        raise UndefinedWord(f"the clause from {first} to {end - 1} is not all in a program of {len(words)} words")
    return (_alu_clause if is_alu else _fetch_clause)(words[first:end], generation, first)


def decode_program(code: bytes, generation: str) -> Listing:
    """Decode a program that begins at the first byte of ``code``.

    Raises:
        UndefinedWord: with the word's address, if the code is not a program of the chip.
        ValueError: for a generation that is neither evergreen nor cayman.
    """
    if generation not in GENERATIONS:
        raise ValueError(
            f"{generation!r} is not a generation of these encodings; choose one of {', '.join(GENERATIONS)}"
        )
    if len(code) % WORD_BYTES:
        raise UndefinedWord(f"code of {len(code)} bytes is not a whole number of words of {WORD_BYTES} bytes")
    words = struct.unpack(f"<{len(code) // WORD_BYTES}Q", code)
    control: list[ControlWord] = []
    clauses: dict[int, Clause] = {}
    for address, word in enumerate(words):
        try:
            found = decode_control(word, generation, address)
            if found.operation.role in (Role.ALU_CLAUSE, Role.FETCH_CLAUSE):
                clause = _clause(found, words, generation)
                clauses[clause.address] = clause
        except UndefinedWord as why:
            raise UndefinedWord(f"control-flow word {address}, {word:#018x}: {why}") from None
        control.append(found)
        if found.ends_program:
            return Listing(generation, tuple(control), dict(sorted(clauses.items())))
    raise UndefinedWord(f"no control-flow word of the {len(words)} ends the program")
