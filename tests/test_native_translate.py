"""Functions straight from their source: what they compute is what Numba and Python make of the same lines."""

from __future__ import annotations

from types import FunctionType
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpwright.engine.abi import Layout
from warpwright.native import direct, intrinsics, numba_entry
from warpwright.native.function_source import TranslationError
from warpwright.native.intrinsics import core, host_address, lowest_bit, peek, poke, popcount, words
from warpwright.native.translate import Translation
from warpwright.timing import state, windows

LIMITS = (40, 1 << 40)
WORDS = 32


@core
def parts(a: int, b: int) -> tuple[int, bool, int]:
    return a + b, a > b, a ^ b


@core
def first_above(m: Any, value: int, step: int = 1, backwards: bool = False) -> int:
    if backwards:
        for i in range(WORDS - 1, -1, -step):
            if m[i] > value:
                return i
    else:
        for i in range(0, WORDS, step):
            if m[i] <= value:
                continue
            return i
    return -1


@core
def change(m: Any, at: int) -> int:
    m[at] = 1000
    return 1


@core
def arithmetic(m: Any, a: int, b: int) -> None:
    shift = b & 63
    m[0] = a // b
    m[1] = a % b
    m[2] = a * b + (a << shift) - (a >> shift)
    m[3] = (a & b) | (a ^ ~b)
    m[4] = -a if a < 0 else a
    m[5] = min(a, b, 7) + max(a, b) * 3
    m[6] = a // 8 + a % 8 - a // -3 + a % -3
    m[7] = popcount(a) + lowest_bit(b)
    m[8] = (3 << 4 | 1) * -(7 // 2) + LIMITS[1] - state.INF


@core
def conditions(m: Any, a: int, b: int) -> None:
    inside = -5 <= a < b <= LIMITS[0]
    either = a > 3 or (b > 3 and not inside)
    m[10] = 1 if inside else 0
    m[11] = (2 if either else 5) + (b != 0 and a // b > 1)
    m[12] = inside + either * 4
    same = inside == either
    m[13] = 1 if bool(a & 1) and same else a if not same else -1
    m[14] = 9
    m[14] += change(m, 14)  # what was there before the call counts


@core
def loops(m: Any, a: int) -> None:
    left = a & 0xFFFF
    n = 0
    total = 0
    while True:
        if left == 0:
            break
        left &= left - 1
        n += 1
        if n == 3:
            continue
        total += n
    while n > 0 and total < 1 << 20:
        n -= 1
        total <<= 1
    m[15] = total
    for i in range(n + 4):
        i += 1
        total += i
    for i in range(4, 4):
        total += 100 + i
    for i in range(0, 10, (a & 3) + 1):
        total -= i
    m[16] = total


@core
def loops_with_else(m: Any, a: int, b: int) -> None:
    """``else`` runs unless ``break`` ends the loop, an empty one's as well; a ``continue`` does not keep it from running."""
    found = 0
    for i in range(a & 7):
        if i == b & 7:
            break
        if i & 1:
            continue
        found += 1
    else:
        found += 100
    m[21] = found
    left = a & 0xFF
    while left > 3:
        left -= 3
        if left == b & 15:
            break
    else:
        left += 1000
        for _ in range(2):
            left += 1
        else:
            left += 10
    m[22] = left


@core
def operands(m: Any, a: int, b: int) -> None:
    """``and`` and ``or`` give the operand that decides, and look at no further one."""
    m[23] = (a & 3) or 3
    m[24] = ((a & 1) and (b & 6)) or (b & 8)
    m[25] = (a > b) or 7
    m[26] = (a & 3) and a > b
    chosen = (a & 1) or change(m, 27)
    m[28] = chosen + (not (a & 2 and b & 2))
    m[29] = ((a > 0 and b > 0) or a < -b) + (0 or b & 5) * 2


class Span(NamedTuple):
    first: int
    last: int
    up: bool


@core
def turned(span: Span, by: int) -> Span:
    first, last, _ = span
    return Span(last + by, first - by, not span.up)


@core
def length(span: Span) -> int:
    return span.last - span.first if span.up else span.first - span.last


@core
def records(m: Any, a: int, b: int) -> None:
    """A ``NamedTuple`` is passed, returned, taken apart and assigned again, and its fields have names."""
    span = Span(a, b, a < b)
    m[30] = length(span)
    span = turned(span, 5)
    m[31] = length(turned(span, span.last & 3)) + (span.up or 8)


def all_of_it(array: Any, a: int, b: int) -> int:
    m = words(array)
    records(m, a, b)
    arithmetic(m, a, b)
    conditions(m, a, b)
    loops(m, a)
    loops_with_else(m, a, b)
    operands(m, a, b)
    summed, larger, mixed = parts(a, b)
    summed, mixed = mixed, summed
    m[17] = summed * 3 + mixed + larger
    m[18] = parts(b, a)[2]
    m[19] = first_above(m, a) + first_above(m, b, 2) * 100 + first_above(m, a, 3, a > b) * 10000
    poke(host_address(m) + 8 * 20, peek(host_address(m) + 8) + 1)
    return m[20]


translated = direct.Entry(all_of_it, "a test")
by_numba = numba_entry.entry(all_of_it)
number = st.integers(-50, 50) | st.integers(-(1 << 62), 1 << 62)


@pytest.mark.ci
@settings(max_examples=200, deadline=None)
@given(number, number)
def test_what_is_translated_computes_what_numba_makes_of_it(a: int, b: int) -> None:
    one, other = np.zeros(WORDS, np.int64), np.zeros(WORDS, np.int64)
    assert translated(one, a, b) == by_numba(other, a, b)
    assert one.tolist() == other.tolist()


@settings(max_examples=100, deadline=None)
@given(number, number)
def test_quotients_and_rests_are_pythons(a: int, b: int) -> None:
    m = np.zeros(WORDS, np.int64)
    translated(m, a, b)
    assert (m[0], m[1]) == ((a // b, a % b) if b else (0, 0))
    assert m[10] == (-5 <= a < b <= 40)
    assert m[14] == 10
    assert m[6] == a // 8 + a % 8 - a // -3 + a % -3


@settings(max_examples=100, deadline=None)
@given(number, number)
def test_else_of_loops_and_operands_of_or_are_pythons(a: int, b: int) -> None:
    m = np.zeros(WORDS, np.int64)
    translated(m, a, b)
    plain: dict[Any, int] = dict.fromkeys(range(WORDS), 0)
    here = {"u": int, "change": lambda cells, at: cells.update({at: 1000}) or 1}
    for part in (loops_with_else, operands):
        FunctionType(part.py_func.__code__, here)(plain, a, b)  # type: ignore[attr-defined]
    assert m[21:30].tolist() == [int(plain[n]) for n in range(21, 30)]


def listed(a: int) -> int:
    return len([a])


def fraction(a: int) -> int:
    return a / 2


def untyped(a) -> int:
    return int(a)


def foreign(a: int) -> int:
    return hash(a)


def half_true(a: int) -> bool:
    return a


def no_such_field(a: int) -> int:
    span = Span(a, a, False)
    return span.middle


def short_record(a: int) -> int:
    span = Span(a, a)
    return span.first


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (listed, r"listed: line \d+: List is not translated"),
        (fraction, "fraction: Div is not translated"),
        (untyped, "a type is int, bool, Any, a structure or a tuple of them, not missing"),
        (foreign, r"foreign: line \d+: hash is not a function for machine code"),
        (half_true, "half_true: i64 is used where i1 is required"),
        (no_such_field, r"no_such_field: line \d+: span.middle names no field"),
        (short_record, r"short_record: line \d+: Span has 3 fields"),
    ],
)
def test_more_of_python_than_is_translated_is_refused(function: Any, message: str) -> None:
    with pytest.raises(TranslationError, match=message):
        Translation(function)


@pytest.mark.ci
@pytest.mark.skipif(intrinsics.BOUNDSCHECK, reason="checked indices are Numba's")
def test_each_function_of_the_model_is_translated_once() -> None:
    text = Translation(windows.run_windows.py_func).text
    names = [line.split("@")[1].split("(")[0] for line in text.splitlines() if line.startswith("define")]
    assert len(names) == len(set(names)) > 150
    assert [line for line in text.splitlines() if line.startswith("define") and "internal" not in line] == [
        next(line for line in text.splitlines() if "windows.run_windows" in line and line.startswith("define"))
    ]


LAYOUT = Layout(first=1, table=3, last=1)
Thing: TypeAlias = Annotated[Any, LAYOUT]


@core
def moved(thing: Thing, by: int) -> int:
    other: Thing = thing + by
    other["last"] += thing["first"]
    return LAYOUT["last"]


def fields(m: Any, by: int) -> int:
    thing: Thing = host_address(m)
    thing["first"] = by == 64
    return moved(thing, by)


def no_field(thing: Thing) -> int:
    return thing["middle"]


def test_fields_of_a_structure_are_found_by_their_names() -> None:
    memory = np.full(16, 7, np.int64)
    assert direct.Entry(fields, "a test")(memory, 64) == LAYOUT["last"] == 32
    assert memory.tolist() == [1, *[7] * 11, 8, *[7] * 3]
    with pytest.raises(TranslationError, match=r"no_field: line \d+: thing\['middle'\] names no field"):
        Translation(no_field)
