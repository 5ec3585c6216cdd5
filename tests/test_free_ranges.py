"""Unused ranges of a device's memory: where an allocation is placed, and what remains."""

from __future__ import annotations

import random

import numpy as np
import pytest

from warpwright.engine.free_ranges import FreeRanges

BASE = 0x7000


def test_the_first_range_with_room_is_taken_from_its_start() -> None:
    free = FreeRanges(100, 1000, BASE)
    assert free.take(50, 1) == 100
    assert free.take(300, 1) == 150
    free.give_back(100, 150)
    assert list(free) == [(100, 150), (450, 1000)]
    assert free.take(51, 1) == 450
    assert free.take(50, 1) == 100
    assert list(free) == [(501, 1000)]


def test_addresses_are_aligned_and_what_is_left_before_stays_unused() -> None:
    free = FreeRanges(0, 4096, BASE + 8)
    assert free.take(16, 256) == 248
    assert list(free) == [(0, 248), (264, 4096)]


def test_no_room() -> None:
    free = FreeRanges(0, 256, BASE + 8)
    assert free.take(257, 1) is None
    assert free.take(100, 512) is None, "the only aligned address is past the end"
    assert list(free) == [(0, 256)]


def test_a_wanted_offset_is_taken_only_if_all_of_it_is_unused() -> None:
    free = FreeRanges(0, 1000, BASE)
    assert free.take(100, 512, wanted=333) == 333
    assert free.take(1, 1, wanted=432) is None
    assert free.take(34, 1, wanted=300) is None
    assert free.take(33, 1, wanted=300) == 300
    assert list(free) == [(0, 300), (433, 1000)]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 0, 2)])
def test_neighbours_that_are_given_back_join(order: tuple[int, ...]) -> None:
    free = FreeRanges(0, 300, BASE)
    assert free.take(300, 1) == 0
    for part in order:
        free.give_back(100 * part, 100 * part + 100)
    assert list(free) == [(0, 300)]


def test_withheld_ranges_are_passed_over_until_they_are_used_again() -> None:
    free = FreeRanges(0, 4096, 0)
    free.withhold(1024, 1025)
    free.withhold(0, 1)
    assert free.take(1000, 64) == 1088, "the first aligned place after both"
    assert free.take(960, 64) == 64
    free.use_again(1024, 1025)
    assert free.take(64, 64) == 1024


@pytest.mark.parametrize("seed", range(4))
def test_random_use_agrees_with_a_map_of_bytes(seed: int) -> None:
    drawn = random.Random(seed)
    size, base = 2048, 24
    free, used = FreeRanges(0, size, base), np.zeros(size, bool)
    taken: list[tuple[int, int]] = []
    for _ in range(400):
        if taken and drawn.random() < 0.45:
            first, end = taken.pop(drawn.randrange(len(taken)))
            free.give_back(first, end)
            used[first:end] = False
        else:
            length, alignment = drawn.randint(1, 200), 1 << drawn.randrange(7)
            fits = (
                at
                for at in range(size - length + 1)
                if (base + at) % alignment == 0 and not used[at : at + length].any()
            )
            start = free.take(length, alignment)
            assert start == next(fits, None)
            if start is not None:
                used[start : start + length] = True
                taken.append((start, start + length))
        edges = np.flatnonzero(np.diff(np.concatenate(([True], used, [True])).astype(int)))
        assert list(free) == [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
