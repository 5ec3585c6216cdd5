"""mbarriers of chips without SYNCS: the checks know a test of one by the machine code that ptxas makes of it."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SOURCE = r"""
__device__ unsigned address_of(void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned long long arrive(unsigned bar) {
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(bar) : "memory");
    return state;
}
__device__ bool test(unsigned bar, unsigned long long state) {
    unsigned done;
    asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(bar), "l"(state) : "memory");
    return done;
}
__device__ bool test_parity(unsigned bar, unsigned parity) {
    unsigned done;
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(bar), "r"(parity) : "memory");
    return done;
}
template <class Wait> __device__ void body(int *y, Wait wait) {
    __shared__ unsigned long long bars[4];
    __shared__ int s[96];
    int t = threadIdx.x;
    unsigned bar = address_of(&bars[y[0] & 3]);
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 96;" :: "r"(bar) : "memory");
    __syncthreads();
    s[t] = t * 3;
    unsigned long long state = arrive(bar);
    wait(bar, state);
    y[1 + t] = s[95 - t];
}
extern "C" __global__ void by_state(int *y) { body(y, [](unsigned b, unsigned long long s) { while (!test(b, s)) {} }); }
extern "C" __global__ void by_parity(int *y, unsigned parity) {
    body(y, [=](unsigned b, unsigned long long s) { while (!test_parity(b, parity)) {} });
}
extern "C" __global__ void by_known_parity(int *y) { body(y, [](unsigned b, unsigned long long s) { while (!test_parity(b, 0)) {} }); }
extern "C" __global__ void by_nothing(int *y) { body(y, [](unsigned b, unsigned long long s) {}); }
extern "C" __global__ void alike(int *y) {
    __shared__ unsigned s[96];
    int t = threadIdx.x;
    s[t] = t << 25;
    unsigned other = s[95 - t];
    y[1 + t] = (other ^ y[0]) & 0x80000000 ? 1 : 2;
}
"""


@pytest.mark.parametrize("chip", ["a100", "h200"])
@pytest.mark.parametrize("kernel", ["by_state", "by_parity", "by_known_parity"])
def test_a_wait_orders_what_came_before_the_arrivals(chip: str, kernel: str) -> None:
    gpu = ww.GPU(chip, check="all")
    y = gpu.array(np.zeros(97, np.int32))
    arguments = (y, np.uint32(0)) if kernel == "by_parity" else (y,)
    gpu.compile(SOURCE, name="mbarriers.cu")[kernel][1, 96](*arguments)
    assert gpu.findings == []
    assert (y.numpy()[1:] == 3 * np.arange(96)[::-1]).all()


@pytest.mark.parametrize("chip", ["a100", "h200"])
@pytest.mark.parametrize("kernel", ["by_nothing", "alike"])
def test_what_is_no_wait_orders_nothing(chip: str, kernel: str) -> None:
    gpu = ww.GPU(chip, check="racecheck")
    gpu.compile(SOURCE, name="mbarriers.cu")[kernel][1, 96](gpu.array(np.zeros(97, np.int32)))
    assert "error" in {f.severity for f in gpu.findings if "shared memory" in " ".join(f.details)}
