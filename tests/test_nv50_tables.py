"""NV50 encodings: rows never overlap, words print as envydis prints them, what is decoded encodes again."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.nv50_oracle import FORMS, compare, find_envydis, printed, random_words
from warpwright.isa.nv50.decode import ARCHES, ROWS, context_of, decode, decode_section, encode, tokens_of
from warpwright.isa.nv50.fields import UndefinedField
from warpwright.isa.nv50.rows import IMMEDIATE, LONG, TAILS, read_guard
from warpwright.isa.program import Kind, Operand
from warpwright.isa.sass.decode import UnknownEncoding

STAGES = ("cp", "vp", "gp", "fp")
ENVYDIS = find_envydis()
needs_oracle = pytest.mark.skipif(ENVYDIS is None, reason="envydis is not installed (set WARPWRIGHT_ENVYDIS)")

KNOWN = {
    # stage, word: text, as envydis prints it
    ("cp", 0x0000000310000001): "mov b16 $r0l 0x0",
    ("cp", 0x9755D4C13A902931): "exit (lu $c1) max u32 $c0 $r76 $r20 c13[$a2+0x40]",
    ("cp", 0x442E3D437204E52D): "subr $r11 (mul u24 $r50 0x42e3d404) $r11",
    ("cp", 0x51431193E6C3F339): "add sat f32 $r14 neg (mul $r57 0x14311903) neg $r14",
    ("cp", 0x6F6B67E6B52C5439): "join set $c2 $r14 lgu f32 neg u16 s[$a5+0x14] neg abs $r44",
    ("cp", 0x7EB7A7BD984F7011): "exit lg2 f32 o[0x10] neg abs $r56",
    ("cp", 0x025B413F8A9A021F): "bar inc 0x4 all",
    ("cp", 0xED2F89D94A2F20AB): "breakaddr 0xf91790",
    ("cp", 0xA648A7DD06839EB9): "exit mov $c1 $r79",
    ("cp", 0xF3AD5230): "texfetch all $r12:$r13:$r14:$r15 $t169 $s22 $r12:$r13:$r14",
    ("vp", 0x21878788F542DF55): "texbias all deriv #:$r85:#:$r86 $t111 $s1 $r85:$r86 0x1 -0x8 0x7",
}


@pytest.mark.parametrize(("stage", "word"), KNOWN)
def test_known_words_print_as_envydis_prints_them(stage: str, word: int) -> None:
    assert printed(word, 10, stage) == KNOWN[stage, word]


def test_no_two_rows_overlap() -> None:
    masks = [(*row.mask_and_value, row) for row in ROWS]
    for (mask_a, value_a, a), (mask_b, value_b, b) in combinations(masks, 2):
        tails_apart = {a.form, b.form} == {LONG, IMMEDIATE}
        stages_apart = a.stages and b.stages and not set(a.stages) & set(b.stages)
        if not tails_apart and not stages_apart:
            assert (value_a ^ value_b) & mask_a & mask_b, f"{a.opcode} {hex(value_a)} and {b.opcode} {hex(value_b)}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stage", STAGES)
def test_what_is_decoded_encodes_to_the_same_text(form: str, stage: str) -> None:
    context, tried = context_of(13, stage), 0
    for word in random_words(form, 1500, 1):
        try:
            row, tokens = tokens_of(word, context)
            guard = read_guard(word) if row.form == LONG or (row.guarded and form == "control") else None
        except UndefinedField:
            continue
        if any(isinstance(t, Operand) and t.name == "p" for t in tokens) and any(
            isinstance(t, Operand) and t.kind is Kind.CONSTANT for t in tokens
        ):
            continue  # primitives beside constants are read only
        tail = TAILS[word >> 32 & 3] if row.form == LONG else ""
        again = encode(row, tokens, context, guard, tail)
        assert printed(again, 13, stage) == printed(word, 13, stage), hex(word)
        tried += 1
    assert tried > 300


@pytest.mark.parametrize("arch", ARCHES)
def test_random_words_decode_or_are_refused(arch: int) -> None:
    decoded = 0
    for form in FORMS:
        for word in random_words(form, 2500, arch):
            try:
                decode(word, arch)
                decoded += 1
            except UnknownEncoding:
                pass
    assert decoded > 1000


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_million_random_words_of_each_encoding_decode_or_are_refused(form: str) -> None:
    for word in random_words(form, 1_000_000, 2):
        printed(word, 10)


@needs_oracle
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("arch", "stage"), [(10, "cp"), (13, "cp"), (10, "vp"), (12, "gp"), (11, "fp")])
def test_random_words_print_as_envydis_prints_them(form: str, arch: int, stage: str) -> None:
    wrong = compare(str(ENVYDIS), arch, random_words(form, 2000, arch), stage)
    assert not wrong, "\n".join(wrong[:20])


def test_features_come_with_later_chips() -> None:
    add_to_global = 0xC0C007C0D00E0001  # red add u32
    with pytest.raises(UnknownEncoding, match="sm_10"):
        decode(add_to_global, 10)
    assert decode(add_to_global, 11).opcode == "red_g"


def test_a_section_has_words_of_both_sizes() -> None:
    words = (0x10008204, 0x10008408)  # mov b32 $r1 $r1; mov b32 $r2 $r2
    code = b"".join(w.to_bytes(4, "little") for w in words) + (0x10000780F0000001 | 7 << 61).to_bytes(8, "little")
    found = decode_section(code, 10, 0)
    assert [(i.address, i.opcode) for i in found] == [(0, "mov"), (4, "mov"), (8, "nop")]
    with pytest.raises(ValueError, match="not aligned"):
        decode_section(code[4:], 10, 0)
    with pytest.raises(ValueError, match="cut off"):
        decode_section(code[:12], 10, 0)


def test_operands_are_typed() -> None:
    i = decode(0x9755D4C13A902931, 10)
    assert i.guard is not None
    assert (i.guard.index, i.guard.suffix) == (1, "lu")
    assert [(o.kind, o.index) for o in i.operands] == [
        (Kind.PREDICATE, 0), (Kind.REGISTER, 76), (Kind.REGISTER, 20), (Kind.CONSTANT, 13),
    ]  # fmt: skip


def test_an_unknown_chip_is_refused() -> None:
    with pytest.raises(ValueError, match="choose one of sm_10, sm_11, sm_12, sm_13"):
        decode(0, 20)
