"""Single PTX instructions on edge and random values, in the interpreter, against Python's integers and fractions."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpwright as ww
from warpwright.engine.ptx_module import load_ptx
from warpwright.kernel import Kernel, Module

LANES = 64
WIDTHS = {"8": np.uint8, "16": np.uint16, "32": np.uint32, "64": np.uint64}
EDGES = (0, 1, 2, 3, 5, 7, 10, 127, 128, 255, 256, 32767, 32768, 65535, 65536)
"""Together with their complements and with values around the sign bit."""


def width(type: str) -> int:
    return int("".join(c for c in type if c.isdigit()))


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def typed(value: int, type: str) -> int:
    """The bits as a number of the type."""
    return signed(value, width(type)) if type[0] == "s" else value & (1 << width(type)) - 1


@cache
def kernel(body: str, inputs: tuple[str, ...], output: str) -> Kernel:
    """A kernel of which each thread reads its inputs into %a, %b …, and stores %d."""
    names = "abcd"[: len(inputs)]
    registers = "".join(f".reg .b{max(16, width(t))} %{n};\n" for n, t in zip(names, inputs, strict=True))
    loads = "".join(
        f"mad.wide.u32 %at, %tid.x, {width(t) // 8}, %p{k};\nld.global.{t} %{n}, [%at];\n"
        for k, (n, t) in enumerate(zip(names, inputs, strict=True))
    )
    parameters = ", ".join(f".param .u64 p{k}" for k in range(len(inputs) + 1))
    pointers = "".join(f"ld.param.u64 %p{k}, [p{k}];\n" for k in range(len(inputs) + 1))
    text = (
        f".version 8.8\n.target sm_90\n.address_size 64\n.visible .entry k({parameters})\n{{\n"
        f".reg .b64 %p<{len(inputs) + 1}>;\n.reg .b64 %at;\n.reg .pred %p;\n.reg .pred %q;\n"
        f".reg .b32 %t;\n.reg .b32 %u;\n.reg .b{max(16, width(output))} %d;\n{registers}{pointers}{loads}{body}\n"
        f"mad.wide.u32 %at, %tid.x, {width(output) // 8}, %p{len(inputs)};\nst.global.b{width(output)} [%at], %d;\nret;\n}}\n"
    ).replace("mad.wide.u32 %at, %tid.x", "mov.u32 %t, %tid.x;\nmad.wide.u32 %at, %t")
    gpu = ww.GPU("h200", timing="off", engine="interpreter")
    return Module(gpu, load_ptx(text, 90, gpu.memory))["k"]


def run(body: str, inputs: Sequence[tuple[str, Sequence[int]]], output: str) -> list[int]:
    """Results as unsigned bits, one for each value of the inputs."""
    made = kernel(body, tuple(t for t, _ in inputs), output)
    count = len(inputs[0][1])
    arrays = [np.array([v & (1 << width(t)) - 1 for v in values], dtype=WIDTHS[str(width(t))]) for t, values in inputs]
    result = np.zeros(count, dtype=WIDTHS[str(width(output))])
    made[1, count](*arrays, result)
    return [int(v) for v in result]


def values(bits: int) -> Any:
    """Lists of LANES numbers, edges among them."""
    whole = (1 << bits) - 1
    edges = {e & whole for e in EDGES} | {~e & whole for e in EDGES} | {1 << bits - 1, (1 << bits - 1) - 1}
    one = st.one_of(st.sampled_from(sorted(edges)), st.integers(0, whole))
    return st.lists(one, min_size=LANES, max_size=LANES)


few = settings(max_examples=8, deadline=None)

# --- integers -------------------------------------------------------------------------------------


def quotient(x: int, y: int) -> int:
    return -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul.lo": lambda x, y: x * y,
    "div": quotient,
    "rem": lambda x, y: -1 if y == 0 else x - y * quotient(x, y),
    "min": min,
    "max": max,
}


HALF_WORDS = ("u16", pytest.param("s16", marks=pytest.mark.ci))
FLOATS = ("f32", pytest.param("f64", marks=pytest.mark.ci))


@pytest.mark.parametrize("type", [*HALF_WORDS, "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("name", BINARY)
@few
@given(data=st.data())
def test_integers(name: str, type: str, data: st.DataObject) -> None:
    bits = width(type)
    x, y = data.draw(values(bits)), data.draw(values(bits))
    got = run(f"{name}.{type} %d, %a, %b;", [(type, x), (type, y)], type)
    want = [BINARY[name](typed(p, type), typed(q, type)) & (1 << bits) - 1 for p, q in zip(x, y, strict=True)]
    assert got == want


@pytest.mark.parametrize("type", ["u32", "s32", "u64", "s64"])
@few
@given(data=st.data())
def test_high_products(type: str, data: st.DataObject) -> None:
    bits = width(type)
    x, y = data.draw(values(bits)), data.draw(values(bits))
    got = run(f"mul.hi.{type} %d, %a, %b;", [(type, x), (type, y)], type)
    want = [typed(p, type) * typed(q, type) >> bits & (1 << bits) - 1 for p, q in zip(x, y, strict=True)]
    assert got == want


@few
@given(x=values(64), y=values(64))
def test_carry_chains(x: list[int], y: list[int]) -> None:
    """64-bit sums, differences and products from 32-bit parts."""
    low, high = "mov.b64 {%t, %u}, %a;\n", ".reg .b32 %v; .reg .b32 %w; mov.b64 {%v, %w}, %b;\n"
    whole = (1 << 64) - 1
    add = run(
        low + high + "add.cc.u32 %t, %t, %v; addc.u32 %u, %u, %w; mov.b64 %d, {%t, %u};",
        [("u64", x), ("u64", y)],
        "u64",
    )
    assert add == [p + q & whole for p, q in zip(x, y, strict=True)]
    sub = run(
        low + high + "sub.cc.u32 %t, %t, %v; subc.u32 %u, %u, %w; mov.b64 %d, {%t, %u};",
        [("u64", x), ("u64", y)],
        "u64",
    )
    assert sub == [p - q & whole for p, q in zip(x, y, strict=True)]
    multiply = (
        ".reg .b32 %r<3>; mul.lo.u32 %r0, %t, %v; mul.hi.u32 %r1, %t, %v;\n"
        "mad.lo.cc.u32 %r1, %t, %w, %r1; madc.hi.u32 %r2, %t, %w, 0;\n"
        "mad.lo.cc.u32 %r1, %u, %v, %r1; mov.b64 %d, {%r0, %r1};"
    )
    product = run(low + high + multiply, [("u64", x), ("u64", y)], "u64")
    assert product == [p * q & whole for p, q in zip(x, y, strict=True)]


@few
@given(x=values(64), y=values(64), z=values(64))
def test_long_carry_chain(x: list[int], y: list[int], z: list[int]) -> None:
    """The carry out of a middle word, and what remains of it behind the last."""
    body = (
        "add.cc.u64 %d, %a, %b; addc.cc.u64 %d, %c, 0xFFFFFFFFFFFFFFFF; addc.u64 %d, 0, 0;"  # 2**64 * (c + 2**64 - 1)
    )
    got = run(body, [("u64", x), ("u64", y), ("u64", z)], "u64")
    assert got == [(p + q >> 64) + r + (1 << 64) - 1 >> 64 for p, q, r in zip(x, y, z, strict=True)]


@pytest.mark.parametrize("type", ["u32", "s32", "u64", "s64"])
@few
@given(data=st.data())
def test_bit_fields(type: str, data: st.DataObject) -> None:
    bits = width(type)
    x = data.draw(values(bits))
    at, many = (data.draw(st.lists(st.integers(0, 255), min_size=LANES, max_size=LANES)) for _ in range(2))
    got = run(f"bfe.{type} %d, %a, %b, %c;", [(type, x), ("u32", at), ("u32", many)], type)
    for value, start, length, result in zip(x, at, many, got, strict=True):
        sign = 0 if length == 0 or type[0] == "u" else value >> min(start + length - 1, bits - 1) & 1
        want = sum((value >> start + n & 1 if n < length and start + n < bits else sign) << n for n in range(bits))
        assert result == want


@pytest.mark.parametrize("relation", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("type", [*HALF_WORDS, "u32", "s32", "u64", "s64"])
@few
@given(data=st.data())
def test_comparisons_of_integers(type: str, relation: str, data: st.DataObject) -> None:
    bits = width(type)
    x, y = data.draw(values(bits)), data.draw(values(bits))
    got = run(
        f"setp.{relation}.{type} %p|%q, %a, %b; selp.u32 %d, 1, 0, %p; @%q add.u32 %d, %d, 2;",
        [(type, x), (type, y)],
        "u32",
    )
    compare = {"eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__"}[relation]
    want = [1 if getattr(typed(p, type), compare)(typed(q, type)) else 2 for p, q in zip(x, y, strict=True)]
    assert got == want


@pytest.mark.parametrize("saturate", [False, pytest.param(True, marks=pytest.mark.ci)])
@pytest.mark.parametrize("from_", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("to", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_conversions_of_integers(to: str, from_: str, saturate: bool, data: st.DataObject) -> None:
    x = data.draw(values(width(from_)))
    got = run(f"cvt{'.sat' * saturate}.{to}.{from_} %d, %a;", [(from_, x)], to)
    bits = width(to)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
    numbers = [typed(v, from_) for v in x]
    want = [(min(max(v, low), high) if saturate else v) & (1 << bits) - 1 for v in numbers]
    assert got == want


# --- floats ---------------------------------------------------------------------------------------
FORMATS = {"f32": (24, -149, 128, "<f", "<I"), "f64": (53, -1074, 1024, "<d", "<Q")}
"""Precision, exponent of the least subnormal, exponent limit, struct codes."""


def number(bits: int, type: str) -> float:
    return float(struct.unpack(FORMATS[type][3], struct.pack(FORMATS[type][4], bits))[0])


def rounded(exact: Fraction, type: str, how: str, negative: bool) -> int:
    """The bits of an exact value rounded to a format; ``negative`` is the sign of a zero."""
    precision, least, limit, _, _ = FORMATS[type]
    bits = width(type)
    sign = 1 << bits - 1 if exact < 0 or (exact == 0 and negative) else 0
    size = abs(exact)
    if size == 0:
        return sign
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    quantum = max(exponent - precision + 1, least)
    scaled = size / Fraction(2) ** quantum
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    away = {"rz": False, "rm": bool(sign), "rp": not sign}.get(
        how, rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1 == 1)
    )
    whole += bool(rest) and away
    infinity = (limit * 2 - 1) << precision - 1
    if whole * Fraction(2) ** quantum >= Fraction(2) ** limit:
        kept = how == "rz" or (how == "rm" and not sign) or (how == "rp" and bool(sign))
        return sign | (infinity - 1 if kept else infinity)
    if whole < 1 << precision - 1:
        return sign | whole
    if whole >> precision:
        whole, quantum = whole >> 1, quantum + 1
    return sign | quantum - least + 1 << precision - 1 | whole & (1 << precision - 1) - 1


def is_nan(bits: int, type: str) -> bool:
    return math.isnan(number(bits, type))


def exact_quotient(x: int, y: int, type: str, how: str) -> int | None:
    """The bits of x / y; None for NaN."""
    p, q = number(x, type), number(y, type)
    negative = math.copysign(1, p) != math.copysign(1, q)
    if math.isnan(p) or math.isnan(q) or (p == 0 == q) or (math.isinf(p) and math.isinf(q)):
        return None
    precision, _, limit, _, _ = FORMATS[type]
    sign = (1 << width(type) - 1) if negative else 0
    if math.isinf(p) or q == 0:
        return sign | (limit * 2 - 1) << precision - 1
    return sign if math.isinf(q) else rounded(Fraction(p) / Fraction(q), type, how, negative)


def floats(type: str) -> Any:
    """Bits of LANES numbers: any, and close ones whose quotients are hard to round."""
    bits = width(type)
    precision, _, limit, _, _ = FORMATS[type]
    infinity = (limit * 2 - 1) << precision - 1
    one = (limit - 1) << precision - 1
    edges = (
        0,
        1,
        2,
        (1 << precision - 1) - 1,
        1 << precision - 1,
        infinity - 1,
        infinity,
        infinity + 1,
        one,
        one + 1,
        one - 1,
    )
    signs = st.sampled_from((0, 1 << bits - 1))
    near_one = st.integers(one - (1 << precision), one + (1 << precision))
    small = st.integers(0, 4 << precision - 1)
    anything = st.one_of(st.sampled_from(edges), near_one, small, st.integers(0, infinity))
    return st.lists(st.builds(lambda s, v: s | v, signs, anything), min_size=LANES, max_size=LANES)


@pytest.mark.ci
@pytest.mark.parametrize("how", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("type", ["f32", "f64"])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_quotients_are_exact(type: str, how: str, data: st.DataObject) -> None:
    x, y = data.draw(floats(type)), data.draw(floats(type))
    got = run(f"div.{how}.{type} %d, %a, %b;", [(f"b{width(type)}", x), (f"b{width(type)}", y)], type)
    for p, q, result in zip(x, y, got, strict=True):
        want = exact_quotient(p, q, type, how)
        assert is_nan(result, type) if want is None else result == want, (hex(p), hex(q), hex(result))


@pytest.mark.ci
@pytest.mark.parametrize("how", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("type", ["f32", "f64"])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_roots_are_exact(type: str, how: str, data: st.DataObject) -> None:
    x = data.draw(floats(type))
    got = run(f"sqrt.{how}.{type} %d, %a;", [(f"b{width(type)}", x)], type)
    for p, result in zip(x, got, strict=True):
        value = number(p, type)
        if math.isnan(value) or value < 0:
            assert is_nan(result, type), hex(p)
        elif value == 0 or math.isinf(value):
            assert result == p
        else:
            # 600 further bits of the root and one below that says whether it goes on.
            scaled = Fraction(value) * 4**900
            root = math.isqrt(scaled.numerator // scaled.denominator)
            exact = root * root == scaled
            assert result == rounded(Fraction(2 * root + (not exact), 2**901), type, how, False), (hex(p), hex(result))


@pytest.mark.parametrize("to", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("how", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("type", FLOATS)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_conversions_to_integers(type: str, how: str, to: str, data: st.DataObject) -> None:
    x = data.draw(floats(type))
    got = run(f"cvt.{how}.{to}.{type} %d, %a;", [(f"b{width(type)}", x)], to)
    bits = width(to)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
    direction = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[how]
    for p, result in zip(x, got, strict=True):
        value = number(p, type)
        if math.isnan(value):
            wide = bits == 64 or type == "f64"
            want = 1 << bits - 1 if wide else 0
        elif math.isinf(value):
            want = high if value > 0 else low
        else:
            want = min(max(direction(Fraction(value)), low), high)
        assert result == want & (1 << bits) - 1, (hex(p), hex(result))


@pytest.mark.parametrize("from_", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("how", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("type", FLOATS)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_conversions_from_integers(type: str, how: str, from_: str, data: st.DataObject) -> None:
    x = data.draw(values(width(from_)))
    got = run(f"cvt.{how}.{type}.{from_} %d, %a;", [(from_, x)], type)
    assert got == [rounded(Fraction(typed(v, from_)), type, how, False) for v in x]


RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x < y or x > y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "num": lambda x, y: not (math.isnan(x) or math.isnan(y)),
    "nan": lambda x, y: math.isnan(x) or math.isnan(y),
}


@pytest.mark.parametrize("relation", [*RELATIONS, "equ", "neu", "ltu", "leu", "gtu", "geu"])
@pytest.mark.parametrize("type", FLOATS)
@few
@given(data=st.data())
def test_comparisons_of_floats(type: str, relation: str, data: st.DataObject) -> None:
    x, y = data.draw(floats(type)), data.draw(floats(type))
    bits = f"b{width(type)}"
    got = run(f"setp.{relation}.{type} %p, %a, %b; selp.u32 %d, 1, 0, %p;", [(bits, x), (bits, y)], "u32")
    for p, q, result in zip(x, y, got, strict=True):
        left, right = number(p, type), number(q, type)
        unordered = math.isnan(left) or math.isnan(right)
        if relation in RELATIONS:
            want = RELATIONS[relation](left, right)
        else:
            want = unordered or RELATIONS[relation[:-1]](left, right)
        assert result == want
