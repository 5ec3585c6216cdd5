"""``mbarrier.try_wait`` in simulated time: it holds its warp back, as an H200's does (``bench.micro waits``)."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import warpwright as ww
from warpwright.kernel import Module

SOURCE = r"""
#define TRY(done, bar, parity) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar), "r"(parity) : "memory")
__device__ unsigned now() { unsigned long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory"); return t; }
extern "C" __global__ void wake(unsigned *out, unsigned late) {
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&gate);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
    for (int i = 0; i < 4; i++) {
        __syncthreads();
        unsigned begin = now(), looks = 0, done = 0;
        if (threadIdx.x < 32) {
            while (now() - begin < late);
            if (threadIdx.x == 0) {
                out[i] = now();
                asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" :: "r"(bar) : "memory");
            }
        } else {
            while (!done) { TRY(done, bar, i & 1); looks++; }
            unsigned end = now();
            if (threadIdx.x == 32) out[4 + i] = end, out[8 + i] = looks;
        }
    }
}
extern "C" __global__ void in_vain(unsigned *out, unsigned arrivals) {
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&gate), done = 0;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(arrivals) : "memory");
    __syncwarp();
    for (int i = 0; i < 3; i++) {
        unsigned begin = now();
        TRY(done, bar, 0);
        if (done) out[8] = 1;
        out[i] = now() - begin;
    }
}
extern "C" __global__ void for_ever(unsigned *out) {
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&gate), done = 0;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" :: "r"(bar) : "memory");
    __syncthreads();
    while (!done) TRY(done, bar, 0);
    out[threadIdx.x] = done;
}
"""


@cache
def module() -> Module:
    return ww.GPU("h200").compile(SOURCE, options=("-arch=sm_90a",))


@pytest.mark.parametrize(("late", "looks"), [(500, 1), (2000, 1), (20000, 3)])
def test_a_wait_is_one_look_and_ends_soon_after_its_phase(late: int, looks: int) -> None:
    out = np.zeros(16, np.uint32)
    module()["wake"][1, 64](out, np.uint32(late))
    assert out[9:12].tolist() == [looks] * 3
    assert np.median((out[4:8] - out[:4])[1:]) == pytest.approx(80, abs=5)  # from before the arrival to behind the wait


def test_a_look_in_vain_is_given_up_in_the_end() -> None:
    out = np.zeros(16, np.uint32)
    module()["in_vain"][1, 32](out, np.uint32(1000))
    assert out[1] == pytest.approx(7819, rel=0.01)


@pytest.mark.ci
@pytest.mark.usefixtures("early_inspections")
def test_a_phase_that_nobody_ends_is_explained() -> None:
    with pytest.raises(ww.DeadlockError, match="only repeat themselves"):
        module()["for_ever"][2, 64](np.zeros(64, np.uint32))
