"""Decoding single words: text against a stored table, control bits, operands, unknown encodings, speed."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpwright.isa.program import PT, RZ, Control, Kind, Operand
from warpwright.isa.sass import ARCHES, UnknownEncoding, decode, format_instruction
from warpwright.isa.sass.decode import ROWS, decode_section, find_row, words_of

WORDS = Path(__file__).parent / "data" / "sass_words.txt"


@lru_cache(maxsize=1)
def stored() -> list[tuple[int, int, int, str]]:
    """(chip, address, word, text) rows of the stored table."""
    rows = []
    for line in WORDS.read_text().splitlines():
        if not line.startswith("#"):
            arch, address, word, text = line.split(" ", 3)
            rows.append((int(arch), int(address, 16), int(word, 16), text))
    return rows


def test_every_stored_word_prints_as_nvidia_prints_it() -> None:
    wrong = []
    for arch, address, word, text in stored():
        printed = format_instruction(decode(word, arch, address))
        if printed != text:
            wrong.append(f"sm_{arch} {word:032x}: {text!r}, not {printed!r}")
    assert not wrong, "\n".join(wrong[:20])


def test_the_stored_words_reach_most_rows(capsys: pytest.CaptureFixture[str]) -> None:
    reached = set()
    for arch, _, word, _ in stored():
        found = find_row(word, arch)
        assert found is not None
        reached.add((ROWS.index(found[0]), found[1].number))
    opcodes = {ROWS[row].opcode for row, _ in reached}
    with capsys.disabled():
        print(
            f"\nSASS words: {len(stored())} rows, {len(opcodes)} opcodes, {len(reached)} row forms of {len(ROWS)} rows"
        )
    assert len({row for row, _ in reached}) > 0.6 * len(ROWS)
    assert len(opcodes) > 110


def test_control_bits() -> None:
    # LDG.E R5, [R4.64]: stall 2, no yield, write barrier 2, wait for barrier 0
    assert decode(0x001EA4000C1E19000000000004057981, 80).control == Control(2, False, 2, 7, 1, 0)
    # IADD3: stall 5, yields (the bit is 0)
    assert decode(0x000FCA0007F1E0FF00000A0001047A10, 80).control == Control(5, True, 7, 7, 0, 0)
    # IMAD R3, R10.reuse, R9, R13: slot A stays in the register-file cache
    control = decode(0x040FE200078E020D000000090A037224, 80).control
    assert control == Control(1, False, 7, 7, 0, 1)


def test_operands_are_typed() -> None:
    i = decode(0x000FCA0007F1E0FF00000A0001047A10, 80)  # IADD3 R4, P0, R1, c[0x0][0x28], RZ
    assert format_instruction(i) == "IADD3 R4, P0, R1, c[0x0][0x28], RZ"
    assert i.operands == (
        Operand(Kind.REGISTER, 4),
        Operand(Kind.PREDICATE, 0),
        Operand(Kind.REGISTER, 1),
        Operand(Kind.CONSTANT, 0, 0x28),
        Operand(Kind.REGISTER, RZ),
    )
    assert i.guard is None


def test_an_offset_without_a_register_is_a_place_in_its_bank() -> None:
    # nvdisasm prints the upper half of the 64 KiB with a sign.
    i = decode(0x000FE400078E00FF0025E000FF027624, 80)
    assert format_instruction(i) == "IMAD.MOV.U32 R2, RZ, RZ, c[0x0][-0x6880]"
    assert i.operands[-1].value == 0x10000 - 0x6880


def test_memory_operands() -> None:
    load = decode(0x000EA2000C1E9900FFFFF80406067981, 90)
    address = load.operands[1]
    assert format_instruction(load) == "LDG.E.CONSTANT R6, desc[UR4][R6.64+-0x8]"
    assert (address.kind, address.value) == (Kind.MEMORY, -8)
    assert address.base == Operand(Kind.REGISTER, 6, suffix=".64")
    assert address.descriptor == Operand(Kind.UNIFORM_REGISTER, 4)
    assert address.uniform is None


def test_immediates_keep_their_encoded_bits() -> None:
    add = decode(0x000FE20007FFE0FFFFFFFFE001017810, 80)  # IADD3 R1, R1, -0x20, RZ
    assert format_instruction(add) == "IADD3 R1, R1, -0x20, RZ"
    assert add.operands[2] == Operand(Kind.IMMEDIATE, value=0xFFFFFFE0, name="signed")
    double = decode(0x000E08000000000040000000040A7429, 80)
    assert double.operands[-1] == Operand(Kind.FLOAT, value=2 << 61, name="f64")
    assert format_instruction(double) == "DADD R10, R4, 2"


def test_guards_and_targets() -> None:
    branch = decode(0x000FEA0003800000000003F000008947, 80, 0x100)
    assert branch.guard == Operand(Kind.PREDICATE, 0, invert=True)
    assert branch.operands == (Operand(Kind.LABEL, value=0x500),)
    assert format_instruction(branch) == "@!P0 BRA 0x500"
    assert format_instruction(branch, {0x500: ".L_x_3"}) == "@!P0 BRA `(.L_x_3)"


def test_branch_targets_of_sm_90_use_eight_more_bits() -> None:
    assert decode(0x000FEC00038000000000000400048947, 90).operands[0].value == 0x10 + 4 * (4 + 256)


def test_a_section_is_decoded_with_its_addresses() -> None:
    nop = 0x000FC000000000000000000000007918
    code = nop.to_bytes(16, "little") * 3
    assert [i.address for i in decode_section(code, 80, 0x40)] == [0x40, 0x50, 0x60]
    with pytest.raises(ValueError, match="a code section of 47 bytes is not a whole number of 16-byte instructions"):
        words_of(code[1:])


def test_unknown_encodings_name_chip_address_and_word() -> None:
    with pytest.raises(UnknownEncoding) as caught:
        decode((1 << 128) - 1, 80, 0x120)
    assert str(caught.value) == (
        "sm_80: cannot decode the instruction at 0x0120, word 0xffffffffffffffffffffffffffffffff: "
        "no instruction of this chip has opcode bits 0xfff with these fields"
    )
    with pytest.raises(UnknownEncoding) as caught:
        decode(0x001E24000000380000000009000B7308, 80)
    assert str(caught.value).endswith("value 14 of the modifier field at bits 74-77 is undefined")
    assert (caught.value.arch, caught.value.address) == (80, 0)


def test_other_chips_are_refused() -> None:
    with pytest.raises(ValueError, match="sm_60 does not use the 128-bit encodings described here"):
        decode(0, 60)


def check(word: int, arch: int) -> None:
    """Either a record whose text is made of its parts, or the documented error."""
    try:
        instruction = decode(word, arch, 0x80)
    except UnknownEncoding as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert message.startswith(f"sm_{arch}: cannot decode the instruction at 0x0080, word {word:#034x}: ")
        return
    assert instruction.encoding == word
    assert format_instruction(instruction)
    assert instruction == decode(word, arch, 0x80)


@given(st.integers(0, (1 << 128) - 1), st.sampled_from(ARCHES))
@settings(max_examples=400, deadline=None)
def test_random_words_never_fail_otherwise(word: int, arch: int) -> None:
    check(word, arch)


@given(st.data(), st.sampled_from(ARCHES), st.sets(st.integers(0, 127), max_size=8))
@settings(max_examples=300, deadline=None)
def test_damaged_words_never_fail_otherwise(data: st.DataObject, arch: int, flipped: set[int]) -> None:
    word = data.draw(st.sampled_from(stored()))[2]
    for bit in flipped:
        word ^= 1 << bit
    check(word, arch)


def test_guard_is_left_out_only_when_always_true() -> None:
    nop = 0x000FC000000000000000000000000918
    assert decode(nop | PT << 12, 80).guard is None
    assert decode(nop | 3 << 12, 80).guard == Operand(Kind.PREDICATE, 3)
    assert decode(nop | 15 << 12, 80).guard == Operand(Kind.PREDICATE, PT, invert=True)


def test_cost_of_decoding() -> None:
    """A word of a shape seen before costs few calls: counted, since seconds are the machine's, not the decoder's."""
    words = [(word, arch) for arch, _, word, _ in stored()]
    for word, arch in words:
        decode(word, arch)
    # Distinct registers make distinct words: this measures decoding, not only its memory.
    fresh = [
        (word ^ salt << 16, arch)
        for salt in range(1, 9)
        for word, arch in words
        if word & 0xFFF == 0x224 or word >> 9 & 7
    ]
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    done = 0
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for word, arch in fresh:
            with suppress(UnknownEncoding):
                decode(word, arch, 0x40)
                done += 1
    finally:
        sys.setprofile(before)
    assert done > len(fresh) // 2
    assert calls / done <= 65, f"{calls / done:.1f} calls for a word"  # 57 when written: about 35 us on an idle core
