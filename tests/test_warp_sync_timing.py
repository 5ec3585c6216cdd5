"""WARPSYNC in time, pinned from both sides: a mask in a register takes the chip's time for each barrier, a warp that is together takes none of it."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import load_chip

SYNCS = 8
SOURCE = """
extern "C" __global__ void groups(unsigned *cycles, unsigned size, int passes)
{
    unsigned begin = 0, end = 0;
#pragma unroll 1
    for (int pass = 0; pass < passes; pass++) {
        __syncthreads();
        if (threadIdx.x < size) {
            unsigned mask = __activemask();
            begin = clock();
#pragma unroll
            for (int i = 0; i < 8; i++) __syncwarp(mask);
            end = clock();
        }
    }
    if (threadIdx.x == 0) *cycles = end - begin;
}
"""


def cycles(size: int, latency_cycles: int) -> int:
    gpu = ww.GPU(load_chip("v100", warp_sync_latency_cycles=latency_cycles), timing="full")
    out = np.zeros(1, np.uint32)
    gpu.compile(SOURCE)["groups"][1, 32](out, np.uint32(size), np.int32(3))
    return int(out[0])


@pytest.mark.ci
def test_a_barrier_of_a_part_of_a_warp_takes_the_time_of_its_warpsync() -> None:
    assert cycles(16, 45) - cycles(16, 35) == 10 * SYNCS


@pytest.mark.ci
def test_a_whole_warp_branches_around_its_warpsync() -> None:
    assert cycles(32, 45) == cycles(32, 35)
