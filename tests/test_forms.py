"""Every form of every PTX instruction: machine code in both engines, PTX in its own front end, and a real card's digests.

A sample of the forms runs always; the whole set is ``python -m bench.forms`` and the slow tests here.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from bench.forms_card import DATA, digests, keys, load
from tests.forms import SECTIONS, all_forms
from tests.forms.form import Form, Row, expand
from tests.forms.run import Outcome, batches, compare
from tests.forms.values import inputs
from tests.sass_oracle import disassemble_words, find_nvdisasm
from warpwright.isa.sass import UnknownEncoding, decode, format_instruction
from warpwright.isa.sass.decode import ARCHES, words_of
from warpwright.toolchain.cubin import read_cubin

NVDISASM = find_nvdisasm()
SAMPLE = 2
"""Forms of each section in the sample."""
AGREEING = ("integer", "floating", "compare")
"""Sections of which every form agrees everywhere on sm_90."""


NAMED = (
    *("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16", "mov.u32 %cluster_nctaid.x", "atom.global.add.v4.f32"),
    *("red.global.min.noftz.v2.bf16x2", "atom.global.add.f32", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"),
    *("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", "mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.u8.s32"),
    "mma.sp.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32",
    *("cvt.rn.f32.f64", "cvt.pack.sat.u4.s32.b32", "mul.rn.ftz.f32", "fma.rn.ftz.f16", "fma.rn.f64", "abs.f64"),
)
"""Forms whose bits a card taught."""
IN_BOTH_LANGUAGES = (
    *("atom.cas.b128", "atom.global.exch.b128", "setmaxnreg.inc.sync.aligned.u32", "fence.proxy.alias"),
    *("fence.proxy.tensormap::generic.acquire.gpu", "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e5m2.f16"),
    "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e5m2.e4m3.f32",
    *(f"mma.sync.aligned.m8n8k4.{layouts}" for layouts in ("row.row.f32.f16.f16.f32", "col.row.f32.f16.f16.f16")),
    "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16",
    *("cvta.param.u64", "isspacep.param", "stacksave.u32"),
)
"""Forms whose PTX follows what machine code does: 128 bits at once, a loop over lanes' addresses, products without an instruction,
parameters in memory, stack taken while code runs."""
OF_RELATIVES = {
    60: (
        "cvt.sat.u32.s8",
        "cvt.sat.u64.s64",
        "cvt.rni.u8.f64",
        "cvt.rzi.s32.f64",
        "cvt.f64.f16",
        "cvt.rn.f16.f64",
        "atom.and.b32",
        "vmad.s32.s32.s32.po",
        "vabsdiff4.u32.s32.u32",
        "vabsdiff4.u32.u32.s32.add",
    ),
    61: ("dp4a.s32.u32", "dp2a.hi.u32.s32", "dp2a.lo.s32.s32"),
    75: ("cvta.param.u64", "bmsk.wrap.b32", "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16"),
    89: (
        "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e5m2.f16",
        "mma.sync.aligned.m16n8k16.row.col.f32.e5m2.e4m3.f32",
        "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e5m2.e4m3.f32",
    ),
}
"""Forms with machine code of their own on Pascal and on architectures without a chip of their own."""


@cache
def sample(arch: int) -> tuple[Form, ...]:
    """The same few forms of each section every time."""
    chosen: list[Form] = []
    for section in AGREEING:
        mine = [f for f in all_forms(arch) if f.section == section]
        chosen += random.Random(section).sample(mine, 2 * SAMPLE)
    return tuple(chosen)


@cache
def outcomes(arch: int) -> tuple[Outcome, ...]:
    return tuple(o for batch in batches(arch, sample(arch)) for o in compare(batch))


@cache
def named() -> tuple[Outcome, ...]:
    forms = [f for f in all_forms(90) if f.name in NAMED]
    return tuple(o for batch in batches(90, forms) for o in compare(batch, ("compiled", "interpreter")))


@pytest.mark.ci
@pytest.mark.parametrize("arch", [70, 90])
def test_forms_agree_in_both_languages(arch: int) -> None:
    forms = [f for f in all_forms(arch) if f.name in IN_BOTH_LANGUAGES]
    assert len({f.name for f in forms}) == (len(IN_BOTH_LANGUAGES) if arch == 90 else 6)
    card = load(DATA)
    names = dict(zip(all_forms(90), keys(all_forms(90)), strict=True))
    for outcome in (o for batch in batches(arch, forms) for o in compare(batch)):
        assert outcome.agrees, f"{outcome.form.name}: {outcome.difference()}"
        if arch == 90:
            assert digests(outcome.form, outcome.results["compiled"]) == card[names[outcome.form]], outcome.form.name


@pytest.mark.ci
@pytest.mark.parametrize("arch", OF_RELATIVES)
def test_forms_agree_on_relatives_of_a_chip(arch: int) -> None:
    forms = [f for f in all_forms(arch) if f.name in OF_RELATIVES[arch]]
    assert len({f.name for f in forms}) == len(OF_RELATIVES[arch])
    for outcome in (o for batch in batches(arch, forms) for o in compare(batch)):
        assert outcome.agrees or outcome.misassembled, f"{outcome.form.name}: {outcome.difference()}"


def test_forms_that_the_assembler_changes_are_known_as_such() -> None:
    """Their machine code does something else in both engines; a form that agrees should not be named."""
    names = ("szext.wrap.s32", "cvt.ftz.f32.bf16", "cvt.f32.bf16")
    forms = [f for f in all_forms(80) if f.name in names]
    found = {o.form.name: (o.agrees, bool(o.misassembled)) for batch in batches(80, forms) for o in compare(batch)}
    assert found == {n: (n == "cvt.f32.bf16", n != "cvt.f32.bf16") for n in names}


def test_a_pattern_stands_for_all_its_alternatives() -> None:
    assert list(expand("add{,.sat}.{s16,s32}")) == ["add.s16", "add.s32", "add.sat.s16", "add.sat.s32"]
    form = next(Row("mul.wide.u16", "W: T T").forms("x"))
    assert (form.results, form.operands) == (("u32",), ("u16", "u16"))


def test_there_are_thousands_of_forms() -> None:
    counts = Counter(form.section for form in all_forms())
    assert set(counts) == set(SECTIONS)
    assert counts.total() > 7000


def test_values_hold_the_edges() -> None:
    form = next(f for f in all_forms() if f.name == "add.f32")
    table, _ = inputs(form)
    for special in (0, 0x80000000, 1, 0x7F800000, 0x7F800001, 0x7FFFFFFF):
        assert special in table[0]
    assert np.array_equal(table, inputs(form)[0])


@pytest.mark.ci
@pytest.mark.parametrize("arch", [90])
def test_a_sample_agrees_in_both_engines_and_in_ptx(arch: int) -> None:
    wrong = [f"{o.form.name}: {o.difference()}" for o in outcomes(arch) if not o.agrees]
    assert not wrong, "\n".join(wrong)


@pytest.mark.ci
def test_a_sample_has_the_bits_of_a_real_card() -> None:
    card = load(DATA)
    names = dict(zip(all_forms(90), keys(all_forms(90)), strict=True))
    assert {o.form.name for o in named()} == set(NAMED)
    for o in (*outcomes(90), *named()):
        for engine in ("compiled", "interpreter"):
            assert digests(o.form, o.results[engine]) == card[names[o.form]], f"{o.form.name} {engine}"


@pytest.mark.skipif(NVDISASM is None, reason="nvdisasm is not installed (set WARPWRIGHT_NVDISASM)")
@pytest.mark.parametrize("arch", [75, 86, 89])
def test_a_sample_prints_as_nvidia_prints_it(arch: int, tmp_path: Path) -> None:
    assert NVDISASM is not None
    for batch in batches(arch, [f for f in sample(90) if f.arch <= arch]):
        words = list(
            dict.fromkeys(w for code in read_cubin(batch.cubin, "forms").code.values() for w in words_of(code))
        )
        texts = disassemble_words(NVDISASM, arch, words, tmp_path)
        for n, (word, text) in enumerate(zip(words, texts, strict=True)):
            assert format_instruction(decode(word, arch, 16 * n)) == text


def fuzz(arch: int, count: int) -> Counter[str]:
    """Random words, and words with an opcode of the tables: each is an instruction or an unknown encoding."""
    rng = random.Random(arch)
    found: Counter[str] = Counter()
    for n in range(count):
        word = rng.getrandbits(128)
        try:
            format_instruction(decode(word, arch, 16 * (n % 1000)))
            found["instruction"] += 1
        except UnknownEncoding:
            found["unknown"] += 1
    return found


@pytest.mark.parametrize("arch", ARCHES)
def test_random_words_never_crash_the_decoder(arch: int) -> None:
    found = fuzz(arch, 2000)
    assert found.total() == 2000
    assert found["unknown"]


@pytest.mark.slow
@pytest.mark.parametrize("arch", [70, 80, 90])
def test_a_million_random_words_never_crash_the_decoder(arch: int) -> None:
    found = fuzz(arch, 1_000_000 // 3 + 1)
    assert found["instruction"]
    assert found["unknown"]


@pytest.mark.slow
@pytest.mark.parametrize("section", AGREEING)
def test_every_form_of_a_section_agrees(section: str) -> None:
    forms = [f for f in all_forms(90) if f.section == section]
    found = [o for batch in batches(90, forms) for o in compare(batch)]
    wrong = [f"{o.form.name}: {o.difference()}" for o in found if not o.agrees]
    assert len(found) == len(forms)
    assert not wrong, f"{len(wrong)} of {len(found)}:\n" + "\n".join(wrong[:20])
