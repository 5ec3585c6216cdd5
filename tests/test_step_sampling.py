"""Sampled launches of grids that repeat a step between their barriers: the results of full timing, and cycles and clocks close to it."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from bench.sampled_steps import SHAPES, Shape, launch
from warpwright.timing.step_sampling import Pattern, pattern_of


def ends(cycles: list[int]) -> list[int]:
    return np.cumsum([1000, *cycles]).tolist()


def pattern(ends: list[int]) -> Pattern | None:
    return pattern_of(ends, [7 * n for n in range(len(ends))])


def test_equal_steps_are_a_pattern_of_one() -> None:
    found = pattern(ends([500] * 8))
    assert found is not None
    assert found.cycles == (500,)
    assert found.spread == found.error == 0


def test_fewer_than_eight_steps_show_nothing() -> None:
    assert pattern(ends([500] * 7)) is None


def test_steps_in_turns_are_a_pattern_that_begins_with_the_next_one() -> None:
    found = pattern(ends([500, 900] * 8))
    assert found is not None
    assert found.cycles == (500, 900)
    assert found.work == (7, 7)


def test_steps_that_grow_are_no_pattern() -> None:
    assert pattern(ends([500 + 10 * n for n in range(32)])) is None


def test_scattered_steps_need_more_of_them() -> None:
    scattered = [480, 520, 470, 530, 490, 510, 475, 525] * 4
    assert pattern(ends(scattered[:8])) is None
    found = pattern(ends(scattered))
    assert found is not None
    assert len(found.cycles) == 1
    assert found.cycles[0] == 500
    assert 0.04 < found.error < 0.05  # the standard deviation of a step


@pytest.mark.parametrize("place", [-1, -2, -5])
def test_a_short_step_among_those_that_agree_counts_like_the_others(place: int) -> None:
    cycles = [1000] * 24
    cycles[place] = 650
    found = pattern(ends(cycles))
    assert found is not None
    assert 970 < found.cycles[0] < 990
    assert 0.05 < found.error < 0.1


TOO_FEW = Shape("two_phases", 1, 32, 24)
"""On V100, 28 steps are timed before they are seen to repeat themselves."""


@pytest.mark.ci
@pytest.mark.parametrize(
    "shape",
    [
        *(shape for shape in SHAPES if shape.blocks_per_sm * shape.threads == 32 and shape != TOO_FEW),
        Shape("heat", 2, 64, 100),
        Shape("two_phases", 1, 32, 32),
    ],
    ids=lambda shape: f"{shape.kernel}-{shape.blocks_per_sm}x{shape.threads}-{shape.steps}",
)
def test_sampled_steps_take_as_long_as_all_of_them(shape: Shape) -> None:
    full, clock, values = launch("v100", shape, "full")
    some, its_clock, its_values = launch("v100", shape, "sampled")
    assert values == its_values
    assert some.sampling is not None
    assert full.sampling is None
    assert some.sampling.steps == shape.steps
    assert some.sampling.timed_steps < shape.steps
    announced = some.sampling.expected_error
    expected = announced if shape.kernel == "longer_later" else max(0.03, 1.25 * announced)
    assert abs(some.cycles / full.cycles - 1) < expected
    assert abs(its_clock / clock - 1) < expected + 0.01
    assert "steps between grid barriers" in str(some.sampling)
    assert some.metrics["smsp__inst_executed.sum"] == pytest.approx(full.metrics["smsp__inst_executed.sum"], rel=0.15)


def test_few_steps_are_all_timed() -> None:
    full, clock, values = launch("v100", Shape("heat", 1, 32, 6), "full")
    some, its_clock, its_values = launch("v100", Shape("heat", 1, 32, 6), "sampled")
    assert some.sampling is None
    assert some.timed_in_full == "its steps between grid barriers did not repeat before its end"
    assert (some.cycles, its_clock, its_values) == (full.cycles, clock, values)


PARTIAL = """
#include <cooperative_groups.h>
extern "C" __global__ void partial(int *out) {
    for (int step = 0; step < 40; step++) {
        if (step == 30 && blockIdx.x == 3) return;
        cooperative_groups::this_grid().sync();
    }
    out[blockIdx.x] = 1;
}
"""


@pytest.mark.ci
def test_a_block_that_leaves_among_the_steps_without_time_is_named() -> None:
    gpu = ww.GPU("v100", timing="sampled")
    with pytest.raises(ww.DeadlockError, match=r"block \(3, 0, 0\) has ended, with one call of grid.sync\(\) fewer"):
        gpu.compile(PARTIAL)["partial"][8, 64](gpu.zeros(8, dtype=np.int32))
