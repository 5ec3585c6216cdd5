"""The 64-bit encodings of sm_60 and its kin: rows never overlap, every row is reached, random words never crash."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from warpwright.isa.maxwell.decode import ARCHES, ROWS, decode, decode_section, find_row, index, landing
from warpwright.isa.maxwell.fields import control
from warpwright.isa.maxwell.text import format_instruction
from warpwright.isa.sass.decode import UnknownEncoding

KNOWN = {
    # word: text, as NVIDIA's disassembler prints it
    0x4C98078000870001: "MOV R1, c[0x0][0x20]",
    0x5C10000000070002: "IADD R2, R0, R0",
    0x4C18810005280502: "@!P0 ISCADD R2.CC, R5, c[0x0][0x148], 0x2",
    0x5B30011800370000: "XMAD.PSL.CBCC R0, R0.H1, R3.H1, R2",
    0x5B2F7F8800370603: "XMAD.S16.S16.CSFU R3, R6.H1, R3.H1, RZ",
    0x3671143FE0032A2A: "@P3 DFMA R42, R42, 0.5.NEG, R40",
    0x4CBA010005672A03: "I2F.F32.S32.RP R3, |c[0x0] [0x158]|",
    0x5D2103C020880827: "@!P0 HSETP2.NAN.AND P4, PT, R8.H0_H0, R8.H0_H0, PT",
    0x5BE7088960071212: "LOP3.LUT R18, R18, R0, R17, 0x96",
    0xEEF1000000870606: "ATOM.E.CAS R6, [R6], R8, R9",
    0xF0F8000000070002: "SYNC CC.EQ",
    0xE34000000000000F: "@P0 BRK",
    0x503B043440770607: "VABSDIFF4.ACC R7, R6, R7, R8",
    0x501A0434F8070608: "VABSDIFF4.U8.S8 R8, R6, -0x80, R8",
    0x5026047758970607: "VABSDIFF4.SD.U8.S8.SAT.ACC.ZW R7, R6.6543, R137.6543, R8",
    0x50F60060608D0107: "@!P5 VSETP.F.U32.S32.AND P0, PT, R1, R8, P0",
    0x5AB3000000370402: "IMADSP.S24.S24.S16H0 R2, R4, R3, R0",
}


KNOWN_61 = {
    0x53FA80000077060B: "IDP.4A.S8.S8 R11, R6, R7, R0",
    0x53D804080017060D: "IDP.4A.U8.U8 R13, R6, c[0x2][0x4], R8",
    0x53DD840005870D04: "IDP.2A.HI.U16.S8 R4, R13, c[0x0][0x160], R8",
    0x53FB000000770600: "IDP.2A.LO.S16.U8 R0, R6, R7, R0",
}


@pytest.mark.parametrize("word", KNOWN_61)
def test_words_that_came_with_sm_61(word: int) -> None:
    assert format_instruction(decode(word, 61)) == KNOWN_61[word]
    with pytest.raises(UnknownEncoding, match="sm_60"):
        decode(word, 60)


@pytest.mark.parametrize("word", KNOWN)
def test_known_words_print_as_nvidia_prints_them(word: int) -> None:
    assert format_instruction(decode(word, 60)) == KNOWN[word]


def test_no_two_rows_overlap() -> None:
    encodings = [(mask, value, row) for row in ROWS for mask, value, _ in row.encodings()]
    for (mask_a, value_a, row_a), (mask_b, value_b, row_b) in combinations(encodings, 2):
        both = mask_a & mask_b
        assert value_a & both != value_b & both, f"{row_a.opcode} and {row_b.opcode} fit the same word"


def test_every_row_is_reached() -> None:
    for row in ROWS:
        for mask, value, _ in row.encodings():
            found = find_row(value, ARCHES[-1])
            assert found is not None, (row.opcode, hex(mask))
            assert found[0] is row, (row.opcode, hex(mask))


def test_index_holds_every_encoding() -> None:
    assert sum(len(row.encodings()) for row in ROWS) == len(
        {(mask, value) for rows in index(ARCHES[-1]) for mask, value, _, _ in rows}
    )


def decode_random(count: int, seed: int) -> int:
    """Instructions among random words; anything but an instruction or UnknownEncoding escapes."""
    generator = random.Random(seed)
    known = 0
    for _ in range(count):
        word = generator.getrandbits(64)
        try:
            text = format_instruction(decode(word, 60, 8, generator.getrandbits(21)))
        except UnknownEncoding as error:
            if error.word != word:
                raise
            continue
        assert text
        known += 1
    return known


def test_random_words_decode_or_are_unknown() -> None:
    assert decode_random(20_000, 1) > 5_000


@pytest.mark.slow
def test_a_million_random_words_decode_or_are_unknown() -> None:
    assert decode_random(1_000_000, 2) > 250_000


def test_fields_of_video_instructions_without_a_meaning_are_unknown() -> None:
    for word in (0x5023040440770607, 0x503B0430C0770607, 0x503B043E40770607, 0x507B043440770607, 0x5A9B000000370402):
        with pytest.raises(UnknownEncoding):  # no lane, selectors of B and A, second operation, part of an addend
            decode(word, 60)


def test_families_that_are_left_out_are_named() -> None:
    with pytest.raises(UnknownEncoding, match="texture instructions"):
        decode(0xC000000000070000, 60)
    with pytest.raises(UnknownEncoding, match="surface instructions"):
        decode(0xEB00000000070000, 60)


def test_control_bits() -> None:
    # maxas: stall 4, yield, barriers, wait mask, reuse from the lowest bit on
    found = control(4 | 0 << 4 | 2 << 5 | 7 << 8 | 5 << 11 | 3 << 17)
    assert (found.stall_cycles, found.yield_flag, found.write_barrier, found.read_barrier) == (4, True, 2, 7)
    assert (found.wait_mask, found.reuse) == (5, 3)


def test_a_section_is_bundles_of_a_control_word_and_three_instructions() -> None:
    words = [0x001FC000FE2007F1, 0x50B0000000070F00, 0x5C10000000070002, 0xE30000000007000F]
    found = decode_section(b"".join(w.to_bytes(8, "little") for w in words), 60, base=64)
    assert [i.address for i in found] == [72, 80, 88]
    assert [i.opcode for i in found] == ["NOP", "IADD", "EXIT"]
    assert landing(96) == 104
    assert landing(104) == 104


def test_other_chips_are_refused() -> None:
    assert 60 in ARCHES
    assert 70 not in ARCHES
    with pytest.raises(ValueError, match="sm_70 does not use the 64-bit encodings"):
        decode(0, 70)
