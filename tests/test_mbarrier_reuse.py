"""An mbarrier that is initialised again in its place as soon as one thread has seen its phase end.

On a card the end of a phase wakes every warp that waits for it, dozens of cycles before any of them can come to the next initialisation;
libcu++'s ``arrive_tx_cta`` relies on it, and an H200 passes it (cycles: ``bench.micro mbarrier_flow``).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import warpwright as ww
from warpwright.kernel import Module

SOURCE = r"""
#define INIT(bar, count) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory")
__device__ unsigned now() { unsigned long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory"); return t; }
__device__ void complete(unsigned bar) {
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
}
__device__ unsigned long long arrive(unsigned bar) {
    unsigned long long token;
    asm volatile("mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 %0, [%1], 1;" : "=l"(token) : "r"(bar) : "memory");
    return token;
}
__device__ void wait(unsigned bar, unsigned long long token) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(bar), "l"(token) : "memory");
}
extern "C" __global__ void again(unsigned *out, int times) {
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&gate);
    for (int i = 0; i < times; i++) {
        if (threadIdx.x == 0) INIT(bar, blockDim.x);
        __syncthreads();
        unsigned long long token = arrive(bar);
        complete(bar);
        wait(bar, token);
        out[threadIdx.x] += 1;
    }
}
extern "C" __global__ void lanes(unsigned *out, int lanes) {
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&gate);
    if (threadIdx.x == 0) INIT(bar, lanes * (blockDim.x / 32));
    __syncthreads();
    for (int i = 0; i < 3; i++) {
        unsigned begin = now();
        if (threadIdx.x % 32 < lanes) {
            arrive(bar);
            complete(bar);
        }
        unsigned end = now();
        __syncthreads();
        if (threadIdx.x % 32 == 0) out[i * 32 + threadIdx.x / 32] = end - begin;
    }
}
"""


@cache
def module(timing: str, engine: str) -> Module:
    return ww.GPU("h200", timing=timing, engine=engine).compile(SOURCE, options=("-arch=sm_90a",))


@pytest.mark.parametrize(("timing", "engine"), [("off", "compiled"), ("off", "interpreter"), ("full", "compiled")])
@pytest.mark.parametrize("warps", [1, 8])
def test_all_warps_see_the_phase_that_ends_before_the_barrier_is_made_anew(
    timing: str, engine: str, warps: int
) -> None:
    out = np.zeros(32 * warps, np.uint32)
    module(timing, engine)["again"][1, 32 * warps](out, np.int32(5))
    assert out.tolist() == [5] * len(out)


def test_lanes_that_arrive_at_one_barrier_take_no_longer_than_one_lane() -> None:
    took = {}
    for lanes in (1, 32):
        out = np.zeros(96, np.uint32)
        module("full", "compiled")["lanes"][1, 256](out, np.int32(lanes))
        took[lanes] = int(out.reshape(3, 32)[1:, :8].max())
    assert abs(took[32] - took[1]) <= 8, took
