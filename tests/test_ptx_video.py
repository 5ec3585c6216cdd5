"""Video instructions of PTX: the manual's definitions in Python's integers, and what an H200 makes of them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

import warpwright as ww
from bench.forms_card import DATA, digests, keys, load
from tests.forms import all_forms, video
from tests.forms.form import COUNT, Form
from tests.forms.run import build, run
from tests.forms.values import integer_edges
from warpwright.engine.ptx_module import load_ptx
from warpwright.kernel import Module

RELATIONS = {"eq": int.__eq__, "ne": int.__ne__, "lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__}
EDGES = integer_edges(32)
NATIVE = "p100"
"""A chip with video instructions of its own."""


def number(bits: int, width: int, signed: bool) -> int:
    bits &= (1 << width) - 1
    return bits - (1 << width) if signed and bits >> width - 1 else bits


def clamped(x: int, width: int, signed: bool) -> int:
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    return min(max(x, low), high)


def operation(name: str, x: int, y: int, modifiers: list[str]) -> int:
    """The manual's middle part: signed results of 34 bits, which only a left shift can leave."""
    by = y % 32 if "wrap" in modifiers else min(y, 32)
    relation = next((RELATIONS[m] for m in modifiers if m in RELATIONS), int.__eq__)
    return {
        "vadd": lambda: x + y,
        "vsub": lambda: x - y,
        "vabsdiff": lambda: abs(x - y),
        "vmin": lambda: min(x, y),
        "vmax": lambda: max(x, y),
        "vavrg": lambda: (x + y + (x + y >= 0)) >> 1,
        "vset": lambda: int(relation(x, y)),
        "vshl": lambda: number(x << by, 34, True),
        "vshr": lambda: x >> by,
    }[name]()


def inserted(rest: int, value: int, at: int, width: int) -> int:
    mask = (1 << width) - 1 << at
    return rest & ~mask | value << at & mask


def parts(text: str) -> tuple[str, list[str], list[tuple[str, str]]]:
    """(opcode, modifiers, (name, part) of every operand) of an instruction."""
    name, operands = text.rstrip(";").split(" ", 1)
    opcode, *modifiers = name.split(".")
    split = [re.fullmatch(r"(-?%\w+)\.?(\w*)", o.strip()) for o in operands.split(",")]
    return opcode, modifiers, [(m[1], m[2]) for m in split if m]


def scalar(text: str, a: int, b: int, c: int) -> int:
    """PTX ISA 8.8, section 9.7.18."""
    opcode, modifiers, operands = parts(text)
    types = [m for m in modifiers if m in ("u32", "s32")]
    types = ["u32", *types] if opcode == "vset" else types
    to, signs = types[0] == "s32", [t == "s32" for t in types[1:]]
    place = [
        (0, 32) if not p else (int(p[1]) * (8 if p[0] == "b" else 16), 8 if p[0] == "b" else 16) for _, p in operands
    ]
    x, y = (number(v >> place[n][0], place[n][1], signs[n - 1]) for n, v in ((1, a), (2, b)))
    if opcode == "vmad":
        minus = [name.startswith("-") for name, _ in operands]
        signed = any(signs) or any(minus)
        product = (-x if minus[1] else x) * (-y if minus[2] else y)
        addend = number(c, 32, signed)
        total = product + (-addend if minus[3] else addend) + ("po" in modifiers)
        total >>= 7 if "shr7" in modifiers else 15 if "shr15" in modifiers else 0
        return (clamped(total, 32, signed) if "sat" in modifiers else total) & 0xFFFFFFFF
    at, width = place[0]
    value = operation(opcode, x, y, modifiers)
    value = clamped(value, width, to) if "sat" in modifiers else value
    if width < 32:
        return inserted(c, value, at, width)
    if "add" in modifiers:
        value += c
    elif "min" in modifiers or "max" in modifiers:
        pick = min if "min" in modifiers else max
        value = pick(number(value, 32, to), number(c, 32, to))
    return value & 0xFFFFFFFF


def lanes(text: str, a: int, b: int, c: int) -> int:
    """PTX ISA 8.8, section 9.7.19."""
    opcode, modifiers, operands = parts(text)
    count, name = int(opcode[-1]), opcode[:-1]
    width, everything = 32 // count, "3210"[4 - count :]
    types = [m for m in modifiers if m in ("u32", "s32")]
    types = ["u32", *types] if name == "vset" else types
    defaults = (everything, everything, "7654" if count == 4 else "32")
    mask, *selectors = (
        [int(d) for d in reversed(p[1:] or default)] for (_, p), default in zip(operands, defaults, strict=False)
    )
    both, total = a | b << 32, c
    for n in mask:
        x, y = (number(both >> width * s[n], width, t == "s32") for s, t in zip(selectors, types[1:], strict=True))
        value = operation(name, x, y, modifiers)
        value = clamped(value, width, types[0] == "s32") if "sat" in modifiers else value
        total = total + value if "add" in modifiers else inserted(total, value, width * n, width)
    return total & 0xFFFFFFFF


def texts(pattern: str, count: int) -> list[str]:
    """Instructions of forms whose opcode fits, the same every time."""
    forms = [f for row in video.ROWS for f in row.forms("video") if re.fullmatch(pattern, f.name.split(".")[0])]
    return [f.instruction() for f in random.Random(pattern).sample(forms, min(count, len(forms)))]


def results(chip: str, instructions: list[str], words: np.ndarray) -> np.ndarray:
    """Results [instruction, thread] on words [operand, thread]."""
    count = words.shape[1]
    body = "".join(f"{text}\nst.global.u32 [%out+{4 * n * count}], %d;\n" for n, text in enumerate(instructions))
    gpu = ww.GPU(chip, timing="off", engine="interpreter")
    arch = gpu.chip.arch
    text = f""".version 8.8
.target sm_{arch}
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
.reg .b64 %in, %out; .reg .b32 %a, %b, %c, %d, %t;
mov.u32 %t, %tid.x; ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
mad.wide.u32 %in, %t, 4, %in; mad.wide.u32 %out, %t, 4, %out;
ld.global.u32 %a, [%in]; ld.global.u32 %b, [%in+{4 * count}]; ld.global.u32 %c, [%in+{8 * count}];
{body}}}"""
    out = np.zeros((len(instructions), count), np.uint32)
    Module(gpu, load_ptx(text, arch, gpu.memory, "video.ptx"))["k"][1, count](words, out)
    return out


@pytest.mark.parametrize("chip", [NATIVE, "h200"])
@pytest.mark.parametrize(
    "pattern", [r"v(add|sub|avrg|absdiff|min|max)2", r"v(add|sub|avrg|absdiff|min|max)4", r"vset[24]"]
)
def test_lanes_follow_the_manual(chip: str, pattern: str) -> None:
    check_manual(chip, pattern, lanes)


@pytest.mark.parametrize("pattern", [r"v(add|sub|absdiff)", r"v(min|max|set)", r"vsh[lr]", r"vmad"])
def test_scalars_follow_the_manual_where_a_chip_has_them(pattern: str) -> None:
    check_manual(NATIVE, pattern, scalar)


def has_no_instruction(text: str) -> bool:
    """Whether a chip before sm_70 has none either: a factor of ``vmad`` is a whole word."""
    opcode, _, operands = parts(text)
    return opcode == "vmad" and not all(part for _, part in operands[1:3])


def test_products_of_whole_words_are_written_everywhere() -> None:
    """What the compiler's code for sm_60 computes: factors and addend are signed."""
    text = "vmad.u32.u32.u32.sat.shr15 %d, %a, %b, %c;"
    words = np.array([[0xFFFFFFFC], [0x80000000], [0xFFFFFFFF]], np.uint32)
    assert results(NATIVE, [text], words).tolist() == [[0x3FFFF]]
    assert scalar(text, *(int(v) for v in words[:, 0])) == 0xFFFFFFFF


def check_manual(chip: str, pattern: str, model: Callable[[str, int, int, int], int]) -> None:
    rng = np.random.default_rng(3)
    words = rng.choice(np.array(EDGES, np.uint32), (3, 32))
    words[:, 16:] = rng.integers(0, 1 << 32, (3, 16), dtype=np.uint32)
    instructions = [text for text in texts(pattern, 24) if not has_no_instruction(text)]
    found = results(chip, instructions, words)
    for text, row in zip(instructions, found, strict=True):
        expected = [model(text, *(int(v) for v in column)) for column in words.T]
        assert row.tolist() == expected, text


DEPARTURES = (
    ("vadd.u32.u32.u32.sat %d, %a, %b;", (0xFFFFFFFE, 0x10, 0), 0xE),
    ("vadd.u32.u32.s32.sat %d.b0, %a.b1, %b.h0, %c;", (0, 0xFFFFFFF8, 0xFFFFFFF7), 0xFFFFFFFF),
    ("vadd.u32.u32.s32.min %d, %a.h1, %b.b1, %c;", (0x7FFF, 0xAAAAAAAA, 0xFFFFFFFE), 0xFFFFFFFE),
    ("vsub.u32.u32.u32 %d.h1, %a.b1, %b.h0, %c;", (0x41, 0x7FFFFFFF, 0x20), 0xFFFF0020),
    ("vmad.u32.u32.u32.shr7 %d, %a.b0, %b.b3, %c;", (0x7FFF, 0x80, 0xFFFFFFFF), 0xFFFFFFFF),
    ("vset.s32.u32.eq.max %d, %a.h1, %b.b1, %c;", (0xFFFFFFDF, 0x8000, 0x80000001), 0),
)
"""Where the compiler's code for later chips, run on an H200, is not what the manual says."""


def test_departures_of_written_code() -> None:
    words = np.array([w for _, w, _ in DEPARTURES], np.uint32).T.copy()
    instructions = [text for text, _, _ in DEPARTURES]
    found = results("h200", instructions, words)
    assert [int(found[n, n]) for n in range(len(DEPARTURES))] == [wanted for _, _, wanted in DEPARTURES]
    for n, (text, operands, wanted) in enumerate(DEPARTURES):
        assert scalar(text, *operands) != wanted, n


@cache
def sample() -> tuple[Form, ...]:
    rng = random.Random(5)
    forms = [f for f in all_forms(90) if f.section == "video"]
    simple = [f for f in forms if f.instruction().count(",") == 2]
    return (*rng.sample(simple, 3), next(f for f in forms if f.name == "vabsdiff4.u32.u32.u32"))


def test_a_card_has_the_same_bits() -> None:
    """Machine code, and PTX in its own front end, against digests of an H200."""
    card, names = load(DATA), dict(zip(all_forms(90), keys(all_forms(90)), strict=True))
    batch = build(90, "", list(sample()))
    assert not batch.refused
    gpu = ww.GPU("h200", timing="off", engine="interpreter")
    modules = gpu.compile(batch.cubin), Module(gpu, load_ptx(batch.ptx, 90, gpu.memory, "forms.ptx"))
    for module in modules:
        for n, form in enumerate(batch.forms):
            assert digests(form, run(module, form, n)) == card[names[form]], form.name
    assert COUNT == 512


@pytest.mark.parametrize(
    "text",
    [
        "vadd2.u32.u32.u32 %d, %a.b10, %b, %c;",
        "vadd2.u32.u32.u32 %d, %a.h40, %b, %c;",
        "vadd.u32.u32.u32 %d.b1, %a, %b;",
        "vadd.u32.u32.u32 %d, %a.h10, %b;",
    ],
)
def test_parts_that_do_not_fit_are_refused(text: str) -> None:
    with pytest.raises(NotImplementedError):
        results("h200", [text], np.zeros((3, 32), np.uint32))
