"""NV50 code assembled from text: every recorded instruction of Mesa's compiler, labels, pairs of short words, and errors."""

from __future__ import annotations

import pytest

from tests.nv50_shaders import code_of, recorded
from warpwright.isa.nv50.assembler.from_text import AssemblyError, assemble
from warpwright.isa.nv50.decode import decode_section
from warpwright.isa.nv50.text import text_of

STAGES = {"pixel": "fp", "vertex": "vp", "geometry": "gp"}


def texts_of(code: bytes, stage: str) -> list[tuple[int, str]]:
    return [(i.address, text_of(i.encoding, 10, stage)) for i in decode_section(code, 10, 0, stage)]


@pytest.mark.ci
@pytest.mark.parametrize("name", recorded())
def test_programs_of_mesas_compiler_come_back(name: str) -> None:
    """The text of each word is the recorded one; a word may be shorter, or may say that short words round to the nearest."""
    stage, lines = STAGES[recorded()[name]["stage"]], list(recorded()[name]["text"].values())
    code = assemble("\n".join(lines), stage)
    found = [text for _, text in texts_of(code, stage)]
    plain = [text.replace(" rn f32", " f32") for text in found]
    assert plain == [line.replace(" rn f32", " f32") for line in lines]
    if len(code) == len(code_of(name)):
        assert [at for at, _ in texts_of(code, stage)] == [int(at) for at in recorded()[name]["text"]]


def test_labels_are_addresses_and_short_words_come_in_pairs() -> None:
    code = assemble(
        """
        begin:  mov b32 $r0 $r1
                mov b32 $r1 $r2      // a pair of four bytes each
                mov b32 $r2 $r3      // alone before a label: eight
        again:  (e $c0) bra done
                bra again
        done:   exit mov b32 $r0 $r1
        """,
        "fp",
    )
    assert texts_of(code, "fp") == [
        (0, "mov b32 $r0 $r1"),
        (4, "mov b32 $r1 $r2"),
        (8, "mov b32 $r2 $r3"),
        (16, "(e $c0) bra 0x20"),
        (24, "bra 0x10"),
        (32, "exit mov b32 $r0 $r1"),
    ]
    assert texts_of(assemble("here: bra here", "fp", address=64), "fp")[0][1] == "bra 0x40"


@pytest.mark.parametrize(
    ("text", "stage", "message"),
    [
        ("", "fp", "the program has no instruction"),
        ("mov b32 $r0 $r1\nadd f33 $r0 $r1 $r2", "fp", r"line 2: add f33 \$r0 \$r1 \$r2: no instruction"),
        ("interp $r0 v[0x0]", "vp", r"line 1: interp \$r0 v\[0x0\]: no instruction of this chip has this form"),
        ("mov b32 $r0 $r200", "fp", "line 1: .* no instruction"),
        ("bra nowhere", "fp", "line 1: bra nowhere: no instruction"),
        ("(odd $c0) mov b32 $r0 $r1", "fp", r"line 1: \(odd \$c0\) mov b32 \$r0 \$r1: no instruction"),
        ("mov b32 { $r0 mov } $r1", "fp", "line 1: .* no instruction"),
        ("mov b32 $r0 -1", "fp", "line 1: .* no instruction"),
        ("mov b32 $r0 032", "fp", "line 1: .* no instruction"),
        ("mov b32 $r0 c0[010]", "fp", "line 1: .* no instruction"),
    ],
)
def test_errors_name_the_line(text: str, stage: str, message: str) -> None:
    with pytest.raises(AssemblyError, match=message):
        assemble(text, stage)
