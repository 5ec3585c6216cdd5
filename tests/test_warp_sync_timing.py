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


WARPS = 32
ALL_WARPS = """
extern "C" __global__ void syncs(unsigned *begins, unsigned *ends, unsigned size, int passes)
{
    unsigned begin = 0, end = 0;
#pragma unroll 1
    for (int pass = 0; pass < passes; pass++) {
        __syncthreads();
        if (threadIdx.x % 32 < size) {
            unsigned mask = __activemask();
            begin = clock();
#pragma unroll
            for (int i = 0; i < 8; i++) __syncwarp(mask);
            end = clock();
        }
    }
    if (threadIdx.x % 32 == 0) begins[threadIdx.x / 32] = begin, ends[threadIdx.x / 32] = end;
}
extern "C" __global__ void parts(unsigned *begins, unsigned *ends, unsigned size, int passes)
{
    unsigned begin = 0, end = 0, x = threadIdx.x;
#pragma unroll 1
    for (int pass = 0; pass < passes; pass++) {
        __syncthreads();
        begin = clock();
#pragma unroll 1
        for (int i = 0; i < 8; i++)
            if (x % 32 < size) for (unsigned k = x; k > 1; k >>= 1) x += begin / k;
        end = clock();
    }
    if (threadIdx.x % 32 == 0) begins[threadIdx.x / 32] = begin + (x == 1), ends[threadIdx.x / 32] = end;
}
"""


def span(kernel: str, size: int, **numbers: int) -> int:
    """Cycles in which 32 warps pass eight barriers or divergent loops, on a V100 with other numbers."""
    gpu = ww.GPU(load_chip("v100", **numbers), timing="full")
    begins, ends = np.zeros(WARPS, np.uint32), np.zeros(WARPS, np.uint32)
    gpu.compile(ALL_WARPS)[kernel][1, 32 * WARPS](begins, ends, np.uint32(size), np.int32(3))
    return int(ends.max() - begins.min())


@pytest.mark.ci
def test_returns_and_warpsyncs_of_all_sub_cores_pass_one_unit() -> None:
    """Four cycles of the SM for a return, two for a WARPSYNC, as on an H200."""
    barriers = SYNCS * WARPS
    assert span("syncs", 16) == pytest.approx(6 * barriers, rel=0.1)
    assert span("syncs", 16, indirect_branch_interval_cycles=9) == pytest.approx(11 * barriers, rel=0.1)
    assert span("syncs", 16, warp_sync_interval_cycles=8) == pytest.approx(12 * barriers, rel=0.1)
    assert span("syncs", 32, indirect_branch_interval_cycles=9) == span("syncs", 32), "a whole warp calls nothing"


@pytest.mark.ci
def test_convergence_barriers_of_all_sub_cores_pass_another_unit() -> None:
    usual = span("parts", 16)
    assert span("parts", 16, convergence_interval_cycles=64) > 1.5 * usual
    assert span("parts", 16, warp_sync_interval_cycles=64) == usual
