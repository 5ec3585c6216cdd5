"""The SASS tables are sound: no two rows fit one word, every row is readable, names and masks agree."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from warpwright.isa.sass import UnknownEncoding, decode, format_instruction
from warpwright.isa.sass.decode import ARCHES, ROWS, find_row, index
from warpwright.isa.sass.fields import ALL_FORMS, Bits, Choice, at, signed


@pytest.mark.parametrize("arch", ARCHES)
def test_no_two_rows_overlap(arch: int) -> None:
    for code, candidates in index(arch).items():
        for (mask_a, value_a, row_a, _), (mask_b, value_b, row_b, _) in combinations(candidates, 2):
            both = mask_a & mask_b
            assert value_a & both != value_b & both, (
                f"sm_{arch} opcode bits {code:#05x}: {row_a.opcode} and {row_b.opcode} fit the same word"
            )


def test_rows_name_a_range_of_chips_and_forms() -> None:
    for row in ROWS:
        assert 70 <= row.first <= row.last <= 90, row
        assert set(row.forms) <= set(ALL_FORMS), row
        assert row.code < (1 << 9 if row.forms else 1 << 12), row


def test_choices_have_no_more_names_than_values() -> None:
    for row in ROWS:
        for modifier in row.modifiers:
            if isinstance(modifier, Choice):
                assert len(modifier.names) <= 1 << modifier.bits.width, (row.opcode, modifier)


def test_fields_stay_clear_of_the_opcode_and_control_bits() -> None:
    opcode, control = (1 << 12) - 1, ((1 << 21) - 1) << 105
    for row in ROWS:
        for modifier in row.modifiers:
            if isinstance(modifier, Choice):
                assert not modifier.bits.mask & (opcode | control), (row.opcode, modifier)


def test_bits_put_and_get_are_inverse() -> None:
    field = at(76, 1, 80, 1, 16, 8)
    assert field == Bits(((76, 1), (80, 1), (16, 8)))
    for value in (0, 1, 2, 3, 0x155, 0x3FF):
        assert field.get(field.put(value)) == value
        assert field.put(value) & ~field.mask == 0


def test_signed_wraps_at_the_top_bit() -> None:
    assert [signed(v, 4) for v in (0, 7, 8, 15)] == [0, 7, -8, -1]


@pytest.mark.parametrize("arch", ARCHES)
def test_every_row_is_reached(arch: int) -> None:
    """Whatever stands in its other bits, a word of a row's is that row's, and some such word is an instruction."""
    rng = random.Random(arch)
    for code, candidates in index(arch).items():
        for mask, value, row, form in candidates:
            free = (1 << 128) - 1 & ~(mask | (1 << 12) - 1)
            fills = [0, *(rng.getrandbits(128) & rng.getrandbits(128) & free for _ in range(300))]
            words = [code | value | fill for fill in fills]
            assert find_row(words[1], arch) == (row, form)
            assert any(prints(word, arch, row.opcode) for word in words), f"sm_{arch} {row.opcode} {code:#05x}"


def prints(word: int, arch: int, opcode: str) -> bool:
    try:
        return opcode in format_instruction(decode(word, arch))
    except UnknownEncoding:
        return False
