"""Atomics of an SM that wait for L2 at once: the next one leaves when the oldest has its answer; and barriers, whose atomics wait for long."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import load_chip

SOURCE = r"""
// Two additions with answers, and 32 without, each on a line of every thread's own.
extern "C" __global__ void with_answers(unsigned *x)
{
    unsigned *mine = x + 32 * threadIdx.x, first = atomicAdd(mine, 1u), second = atomicAdd(mine + 1024, 1u);
    if (first + second == 0xffffffff)
        x[2048] = 0;
}
extern "C" __global__ void without(unsigned *x)
{
#pragma unroll 1
    for (int i = 0; i < 32; i++)
        atomicAdd(x + 32 * threadIdx.x, 1u);
}

// Barriers of the grid without fences: each block adds to a word and polls it.
extern "C" __global__ void barriers(unsigned *word, unsigned *cycles, int repeats)
{
    unsigned begin = clock();
#pragma unroll 1
    for (int i = 0; i < repeats; i++) {
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned mine = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
            unsigned before = atomicAdd(word, mine);
            while (((before ^ *(volatile unsigned *)word) & 0x80000000u) == 0) {}
        }
        __syncthreads();
    }
    if (threadIdx.x == 0 && blockIdx.x == 0)
        *cycles = clock() - begin;
}
"""


def cycles(kernel: str, threads: int, places: int) -> int:
    """Of an H200 whose SMs have so many atomics in flight."""
    gpu = ww.GPU(load_chip("h200", atomics_in_flight_count=places))
    x = gpu.array(np.zeros(4096, np.uint32))
    run = gpu.compile(SOURCE)[kernel][1, threads]
    return [run(x).cycles for _ in range(2)][1]  # the second launch finds the lines in L2


@pytest.mark.ci
def test_an_atomic_leaves_when_the_oldest_in_flight_has_its_answer() -> None:
    """With one place the second waits for the first's answer; with two it does not."""
    alone, both = cycles("with_answers", 1, 1), cycles("with_answers", 1, 2)
    assert both == cycles("with_answers", 1, 1000)
    assert alone > both + 200


@pytest.mark.ci
def test_an_addition_takes_a_place_for_each_of_its_lines() -> None:
    """32 of four lines each leave at once if there are 128 places, and one after the other if there are four."""
    one_by_one, at_once = cycles("without", 4, 4), cycles("without", 4, 128)
    assert at_once == cycles("without", 4, 1000)
    assert one_by_one > at_once + 31 * 200


@cache
def kernel() -> ww.Kernel:
    return ww.GPU("h200").compile(SOURCE)["barriers"]


def cycles_per_block(blocks: int, threads: int) -> float:
    """Of one barrier, by all blocks of the chip, ``blocks`` on each SM."""
    count = blocks * kernel().gpu.chip.sm.sm_count
    spans = []
    for repeats in (2, 5):
        cycles = np.zeros(1, np.uint32)
        kernel()[count, threads](np.zeros(1, np.uint32), cycles, np.int32(repeats))
        spans.append(int(cycles[0]))
    return (spans[1] - spans[0]) / 3 / count


@pytest.mark.ci
@pytest.mark.parametrize(("blocks", "threads", "card"), [(8, 32, 5.51), (16, 32, 5.30), (32, 32, 5.47), (32, 64, 5.30)])
def test_polling_takes_time_in_proportion_to_the_blocks(blocks: int, threads: int, card: float) -> None:
    """An H200 (``bench/data/h200/barriers.json``, ``g-vl-``)."""
    assert cycles_per_block(blocks, threads) == pytest.approx(card, rel=0.08)
