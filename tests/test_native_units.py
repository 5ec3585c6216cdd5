"""State with names: units declare their fields once, and functions for machine code read them by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpwright.native import direct, numba_entry
from warpwright.native.function_source import TranslationError
from warpwright.native.intrinsics import core, words
from warpwright.native.translate import Translation
from warpwright.native.units import Unit, UnitError, parts, word
from warpwright.native.units import words as several


class Slot(Unit, align=4):
    """A slot of a unit."""

    live = word("warps", "that have not ended")
    ends = several(2, "cycle", "when each half ended", reset=-1)


def test_a_field_is_declared_once() -> None:
    with pytest.raises(UnitError, match=r"Twice\.place: the unit already declares a field of this name"):

        class Twice(Unit):
            place = word("", "of something")
            place = word("", "of something else")  # noqa: PIE794


class Front(Unit):
    """The first part of a unit."""

    head = word("", "of the queue", reset=3)


class Back(Unit, align=4):
    """The second part."""

    tail = word("", "of the queue")
    ends = several(2, "cycle", "of its halves", reset=-1)


class Queue(Front, Back):
    """A unit declared in parts."""

    length = word("", "of the queue")


def test_a_unit_has_the_fields_of_its_bases_and_then_its_own() -> None:
    assert [(name, one.offset) for name, one in Queue.fields.items()] == [
        ("head", 0),
        ("tail", 1),
        ("ends", 2),
        ("length", 4),
    ]
    queue = Queue(10)
    assert (queue.head, queue.tail, queue.ends[1], queue.length, Queue.size) == (10, 11, 13, 14, 5)
    assert list(Queue.resets()) == [(0, 1, 3), (2, 2, -1)]
    # The parts keep their own places.
    assert (Back.tail, Back(7).ends[0], Back.size) == (0, 8, 4)


def test_bases_declare_no_field_twice() -> None:
    class Other(Unit):
        head = word("", "of something else")

    with pytest.raises(UnitError, match=r"Twice\.head: the unit already declares a field of this name"):

        class Twice(Front, Other):
            pass

    with pytest.raises(UnitError, match=r"Again\.head: the unit already declares a field of this name"):

        class Again(Front):
            head = word("", "of something else")


class Machine(Unit):
    """What the functions below read and write."""

    first = word("", "of the machine")
    slots = parts(Slot, 3, "its slots", align=2)
    finish = word("cycle", "the last end", reset=9)


machine = Machine(2)


@core
def slot_of(base: Machine, index: int) -> Slot:
    return base.slots[index]


@core
def pair_of(base: Machine, index: int) -> tuple[Slot, int]:
    return base.slots[index], index + 1


@core
def change(m: Any, base: Machine, index: int) -> None:
    slot = slot_of(base, index)
    m[slot.live] = 5
    m[slot.ends[index & 1]] += 7
    m[base.slots[2].ends[1]] = Slot.size * 100 + Machine.finish
    other, following = pair_of(base, 0)
    m[other.live] = following
    third: Slot = slot + 2 * Slot.size
    m[third.live] = m[slot.live] + m[machine.finish]


def all_of_it(array: Any, base: int, index: int) -> int:
    m = words(array)
    m[machine.finish] = 30
    change(m, Machine(base), index)
    return m[Machine(base).finish]


def test_places_of_fields_are_counted_from_the_units_first_word() -> None:
    assert (Slot.live, Slot.ends, Slot.size) == (0, 1, 4)
    assert (Machine.first, Machine.slots, Machine.finish, Machine.size) == (0, 2, 14, 15)
    assert Machine(100).slots[1].ends[1] == 100 + 2 + 4 + 1 + 1
    assert Machine.fields["finish"].unit == "cycle"
    assert Slot.fields["ends"].text == "when each half ended"


def test_what_a_launch_begins_with_comes_from_the_declarations() -> None:
    assert [*Machine.resets(10)] == [(13, 2, -1), (17, 2, -1), (21, 2, -1), (24, 1, 9)]


def test_fields_cannot_hide_what_numbers_have() -> None:
    with pytest.raises(UnitError, match=r"Wrong\.real: every unit has an attribute of this name"):
        type("Wrong", (Unit,), {"real": word("", "")})
    with pytest.raises(UnitError, match="Small takes 2 words, not 1"):
        type("Small", (Unit,), {"a": word("", ""), "b": word("", "")}, size=1)


@pytest.mark.parametrize("call", [direct.Entry(all_of_it, "a test"), numba_entry.entry(all_of_it)])
def test_both_ways_to_machine_code_find_the_fields(call: Any) -> None:
    m = np.zeros(24, np.int64)
    assert call(m, 2, 0) == 30
    expected = np.zeros(24, np.int64)
    base = Machine(2)
    expected[base.slots[0].live] = 1
    expected[base.slots[0].ends[0]] = 7
    expected[base.slots[2].live] = 1 + 30
    expected[base.slots[2].ends[1]] = 414
    expected[base.finish] = 30
    assert m.tolist() == expected.tolist()


@core
def no_field(m: Any, base: Machine) -> int:
    return m[base.finis]


@core
def two_kinds(m: Any, base: Machine) -> int:
    slot = base.slots[0]
    slot = base
    return m[slot.live]


@core
def no_array(m: Any, base: Machine) -> int:
    return m[base.finish[1]]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (no_field, r"no_field, line \d+: Machine has no field finis"),
        (two_kinds, "two_kinds: slot holds a Slot, and then Machine"),
        (no_array, r"no_array, line \d+: base\.finish is one word"),
    ],
)
def test_wrong_uses_are_refused(function: Any, message: str) -> None:
    with pytest.raises(TranslationError, match=message):
        Translation(function.py_func)
