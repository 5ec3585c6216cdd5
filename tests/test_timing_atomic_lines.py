"""Lines that atomics change: what a look at one takes on chips whose reads go through the atomics' unit."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import warpwright as ww

SOURCE = r"""
// Every block looks at a word, which the first of them changed before if `change` is 1.
extern "C" __global__ void looks(unsigned *word, unsigned *out, int count, int change)
{
    if (change && blockIdx.x == 0)
        atomicAdd(word, 1u);
    unsigned sum = 0;
#pragma unroll 1
    for (int i = 0; i < count; i++)
        sum += *(volatile unsigned *)word;
    if (sum == 77)
        out[0] = sum;
}
"""


@cache
def module(chip: str) -> ww.Module:
    return ww.GPU(chip).compile(SOURCE)


def cycles_per_look(chip: str, change: int, blocks_per_sm: int = 8) -> float:
    """Of all the chip's looks at one word, one after the other."""
    kernel = module(chip)["looks"]
    blocks = blocks_per_sm * kernel.gpu.chip.sm.sm_count
    few, many = (
        kernel[blocks, 1](np.zeros(32, np.uint32), np.zeros(1, np.uint32), np.int32(n), np.int32(change)).cycles
        for n in (8, 24)
    )
    return (many - few) / (16 * blocks)


@pytest.mark.ci
@pytest.mark.parametrize(("chip", "changed"), [("v100", 3.25), ("p100", 5.25)])
def test_a_look_at_a_line_that_atomics_change_takes_their_turn(chip: str, changed: float) -> None:
    """`l2_atomic_line_read_cycles`; a look at any other line takes a slice's access of one cycle."""
    assert module(chip).gpu.chip.l2.l2_atomic_line_read_cycles == changed
    assert cycles_per_look(chip, 1) == pytest.approx(changed, rel=0.06)
    assert cycles_per_look(chip, 0) == pytest.approx(1.0, rel=0.15)


@pytest.mark.ci
def test_looks_take_no_turn_on_a_chip_that_measured_none() -> None:
    assert cycles_per_look("a100", 1) < 1.1 * max(cycles_per_look("a100", 0), 1.0)
