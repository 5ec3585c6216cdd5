"""Encodings of Cypress and Cayman: LLVM's programs decode whole and print as LLVM prints them; random words never crash."""

from __future__ import annotations

import contextlib
import random
import re
import struct
from itertools import combinations

import pytest

from tests.r600_llvm import KERNELS, as_amd_names, emitted, has_r600
from tests.r600_random import compiled_kernels
from warpwright.isa.r600 import layouts, tables_alu, tables_control, tables_fetch
from warpwright.isa.r600.decode import (
    decode_alu,
    decode_bundle,
    decode_control,
    decode_fetch,
    decode_program,
)
from warpwright.isa.r600.fields import Layout, UndefinedWord
from warpwright.isa.r600.layouts import GENERATIONS
from warpwright.isa.r600.text import alu_text, control_text, fetch_text, format_program

needs_llvm = pytest.mark.skipif(not has_r600(), reason="llvmlite has no R600 back end")
LAYOUTS = [
    found
    for name, value in vars(layouts).items()
    if name.isupper()
    for found in ([value] if isinstance(value, Layout) else value.values() if isinstance(value, dict) else [])
    if isinstance(found, Layout)
]


def reached(lines: list[str]) -> list[str]:
    """LLVM's lines without padding and without a CF_END after a store that itself ends the program."""
    after = {
        i + 1 for i, line in enumerate(lines) if line.startswith("MEM_RAT_CACHELESS STORE_RAW") and line[-1] == "1"
    }
    return [line for i, line in enumerate(lines) if line != "PAD" and not (i in after and line == "CF_END")]


def line_of(line: str) -> str:
    return re.sub(r" +", " ", line.strip())


def as_short_as(theirs: str, ours: str) -> str:
    """Our line without what LLVM leaves out of this one, where it leaves out something."""
    if re.match(r"MEM_RAT (\w+_RTN|MSKOR) ", theirs):
        ours = re.sub(r", 0$", "", ours)
    if re.match(r"MEM_RAT\w* \w+ T\d+, ", theirs):
        ours = re.sub(r"(MEM_RAT\w* \w+ T\d+)\.[XYZW]+", r"\1", ours)
    if theirs.startswith("MEM_RAT MSKOR"):
        ours = ours.replace(".XYZW", ".XW")
    # LLVM prints one comparison under the name of another.
    return ours.replace("PRED_SETGT_INT", "PRED_SETGE_INT")


def agree(code: bytes, lines: list[str], generation: str) -> set[str]:
    """Holds our text of a program against LLVM's; the operations in it."""
    expected = [as_amd_names(line) for line in reached(lines)]
    printed = [line_of(line) for line in format_program(decode_program(code, generation))]
    assert [as_short_as(b, a) for a, b in zip(printed, expected, strict=True)] == expected
    return {line.split()[0] for line in printed if line[0].isalpha()}


@needs_llvm
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("generation", GENERATIONS)
def test_what_llvm_emits_prints_as_llvm_prints_it(kernel: str, generation: str) -> None:
    agree(*emitted(kernel, generation), generation)


def random_kernels_agree(first: int, end: int) -> tuple[int, set[str]]:
    """The number of programs compared and the operations in them."""
    count, seen = 0, set[str]()
    for generation, code, lines in compiled_kernels(first, end):
        if "CF_END" not in lines:
            continue  # Its behaviour is undefined in LLVM IR, for example a division by zero: LLVM leaves out the end.
        seen |= agree(code, lines, generation)
        count += 1
    return count, seen


@pytest.mark.ci
@needs_llvm
def test_random_kernels_print_as_llvm_prints_them() -> None:
    count, seen = random_kernels_agree(0, 40)
    assert count > 60
    assert len(seen) > 40


@needs_llvm
@pytest.mark.slow
def test_many_random_kernels_print_as_llvm_prints_them() -> None:
    count, seen = random_kernels_agree(1000, 2000)
    assert count > 1500
    assert len(seen) > 60


@needs_llvm
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_word_of_a_program_is_decoded_and_encodes_again(kernel: str, generation: str) -> None:
    code, _ = emitted(kernel, generation)
    words = struct.unpack(f"<{len(code) // 8}Q", code)
    program = decode_program(code, generation)
    seen = dict.fromkeys(range(len(program.control)))
    for control in program.control:
        assert control.encoding == words[control.address]
    for clause in program.clauses.values():
        seen |= dict.fromkeys(range(clause.address, clause.end))
        for word in (word for bundle in clause.bundles for word in bundle.words):
            assert word.encoding == words[word.address]
        for fetch in clause.fetches:
            assert fetch.encoding == words[fetch.address] | words[fetch.address + 1] << 64
    unread = {words[i] for i in range(len(words)) if i not in seen}
    # Padding, and the end of a Cypress program whose last store ends it already.
    assert unread <= {0, layouts.CONTROL["evergreen"].write({"end_of_program": 1, "barrier": 1})}


@needs_llvm
def test_slots_of_a_bundle() -> None:
    code, _ = emitted("floats", "evergreen")
    bundles = [b for c in decode_program(code, "evergreen").clauses.values() for b in c.bundles]
    assert any(word.slot == "t" for b in bundles for word in b.words)
    assert all(word.slot == "t" for b in bundles for word in b.words if word.operation.slots.evergreen == "t")
    code, _ = emitted("floats", "cayman")
    bundles = [b for c in decode_program(code, "cayman").clauses.values() for b in c.bundles]
    assert {len(b.words) for b in bundles} <= {1, 2, 3, 4}
    products = [[w.slot for w in b.words] for b in bundles if b.words[0].operation.name == "MULLO_INT"]
    assert products
    assert all(slots == ["x", "y", "z", "w"] for slots in products)


MOV = 0x19 << 39 | 1 << 36
"""MOV that writes T0.X, not the last one of its bundle."""
LAST = 1 << 31
READS_LITERAL_Z = 253 | 2 << 10


def test_two_results_of_a_channel_take_the_fifth_slot_of_cypress_only() -> None:
    pair = [MOV, MOV | LAST]
    assert [w.slot for w in decode_bundle(pair, "evergreen").words] == ["x", "t"]
    with pytest.raises(UndefinedWord, match="no slot of x is left after x"):
        decode_bundle(pair, "cayman")


def test_literals_come_in_pairs_up_to_the_highest_that_is_read() -> None:
    word = MOV | LAST | READS_LITERAL_Z
    assert decode_bundle([word, 0x0000000200000001, 0x0000000400000003], "cayman").literals == (1, 2, 3, 4)
    with pytest.raises(UndefinedWord, match="cut off"):
        decode_bundle([word, 0], "cayman")


def test_a_program_without_an_end_and_a_clause_outside_it_are_refused() -> None:
    nop = bytes(8)
    with pytest.raises(UndefinedWord, match="ends the program"):
        decode_program(nop * 3, "evergreen")
    clause = layouts.CONTROL_ALU.write({"cf_inst": 8, "addr": 2, "count": 9, "barrier": 1})
    with pytest.raises(UndefinedWord, match=r"control-flow word 0.*from 2 to 11 is not all in a program of 2 words"):
        decode_program(struct.pack("<2Q", clause, 0), "evergreen")
    with pytest.raises(UndefinedWord, match="whole number"):
        decode_program(b"abc", "cayman")
    with pytest.raises(ValueError, match="choose one of evergreen, cayman"):
        decode_program(nop, "r600")


def test_reserved_bits_and_what_one_chip_lacks_are_refused() -> None:
    with pytest.raises(UndefinedWord, match="reserved bit 48 of CF_WORD is set"):
        decode_control(1 << 48, "evergreen")
    vertex_clause = layouts.CONTROL["evergreen"].write({"cf_inst": 2})
    assert decode_control(vertex_clause, "evergreen").operation.name == "VTX"
    with pytest.raises(UndefinedWord, match="cayman has no control-flow word with opcode 0x2"):
        decode_control(vertex_clause, "cayman")
    with pytest.raises(UndefinedWord, match="cayman has no operation of ALU_WORD1_OP2 with opcode 0x94"):
        decode_alu(layouts.ALU_OP2.write({"alu_inst": 0x94, "last": 1}), "cayman")


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout.name}-{len(layout.places)}")
def test_fields_do_not_overlap_and_are_read_as_they_were_written(layout: Layout) -> None:
    for (_, low_a, mask_a), (_, low_b, mask_b) in combinations(layout.places, 2):
        assert not (mask_a << low_a) & (mask_b << low_b)
    numbers = random.Random(1)
    fields = {name: numbers.randint(0, mask) for name, _, mask in layout.places}
    assert layout.read(layout.write(fields)) == fields
    name, _, mask = layout.places[0]
    with pytest.raises(UndefinedWord, match="does not fit"):
        layout.write({name: mask + 1})
    with pytest.raises(UndefinedWord, match="has no field colour"):
        layout.write({"colour": 0})


@pytest.mark.parametrize(
    "rows", [tables_alu.OP2, tables_alu.OP3, tables_alu.LDS, tables_control.CONTROL, tables_control.ALU_CLAUSES]
)
def test_no_two_rows_have_an_opcode(
    rows: tuple[tables_alu.AluOperation | tables_control.ControlOperation, ...],
) -> None:
    assert len({row.opcode for row in rows}) == len({row.name for row in rows}) == len(rows)


def words_of_all_kinds(count: int, seed: int) -> tuple[int, int]:
    """Decodes and prints random words of each kind; the number that decoded and that was refused."""
    numbers = random.Random(seed)
    reserved = {True: layouts.VERTEX["evergreen"].reserved, False: layouts.GLOBAL_SHARE.reserved}
    decoded = refused = 0
    for i in range(count):
        generation = GENERATIONS[i & 1]
        word = numbers.getrandbits(128) & ~reserved[bool(i & 2)]
        for read in (0, 1, 2):
            try:
                if read == 0:
                    control = decode_control(word & ~(15 << 48) & (1 << 64) - 1, generation)
                    text, again = control_text(control, generation), control
                elif read == 1:
                    alu = decode_alu(word & (1 << 64) - 1, generation)
                    text, again = alu_text(alu), alu
                else:
                    fetch = decode_fetch(word, generation)
                    text, again = fetch_text(fetch), fetch
            except UndefinedWord:
                refused += 1
                continue
            decoded += 1
            assert text.strip()
            assert again.encoding in (word, word & (1 << 64) - 1, word & ~(15 << 48) & (1 << 64) - 1)
    return decoded, refused


def test_random_words_decode_or_are_refused() -> None:
    decoded, refused = words_of_all_kinds(4000, 7)
    assert decoded > 2000
    assert refused > 2000


@pytest.mark.slow
def test_a_million_random_words_decode_or_are_refused() -> None:
    assert sum(words_of_all_kinds(1_000_000 // 3 + 1, 11)) >= 1_000_000


@pytest.mark.ci
@needs_llvm
def test_damaged_programs_are_refused_or_decode() -> None:
    numbers = random.Random(3)
    printed = 0
    for kernel in KERNELS:
        for generation in GENERATIONS:
            code = bytearray(emitted(kernel, generation)[0])
            for _ in range(60):
                at = numbers.randrange(len(code))
                kept, code[at] = code[at], numbers.randrange(256)
                with contextlib.suppress(UndefinedWord):
                    printed += len(format_program(decode_program(bytes(code), generation))) > 0
                code[at] = kept
    assert 100 < printed < 60 * len(KERNELS) * len(GENERATIONS)


def test_every_fetch_has_a_name_of_its_own() -> None:
    rows = [
        *tables_fetch.VERTEX_OPERATIONS.values(),
        *tables_fetch.MEMORY_OPERATIONS.values(),
        *tables_fetch.TEXTURE_OPERATIONS.values(),
        *tables_fetch.GLOBAL_SHARE_OPERATIONS.values(),
        tables_fetch.TF_WRITE,
    ]
    assert len({row.name for row in rows}) == len(rows)
