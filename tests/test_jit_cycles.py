"""Which blocks of a flow graph can be reached from each other."""

from __future__ import annotations

import random

import pytest

from warpwright.engine.jit.flow_graph import cycles


def reached(successors: list[list[int]], start: int) -> set[int]:
    seen, work = {start}, [start]
    while work:
        new = [s for s in successors[work.pop()] if s not in seen]
        seen.update(new)
        work += new
    return seen


@pytest.mark.parametrize("seed", range(20))
def test_two_blocks_share_a_number_if_each_reaches_the_other(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randrange(1, 14)
    successors = [[n for n in range(count) if chance.random() < 1.3 / count] for _ in range(count)]
    found = cycles(successors)
    far = [reached(successors, n) for n in range(count)]
    for n in range(count):
        for other in range(count):
            assert (found[n] == found[other]) == (other in far[n] and n in far[other])


def test_a_long_path_needs_no_recursion() -> None:
    count = 50_000
    path = [[n + 1] for n in range(count - 1)]
    assert len(set(cycles([*path, []]))) == count
    assert len(set(cycles([*path, [0]]))) == 1
