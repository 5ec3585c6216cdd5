"""Atomics of several words on local memory, whose words lie apart in the engines: each lane changes its own value alone."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SOURCE = """
template <class T> __device__ T *hide(T *p) { T *q; asm volatile("mov.u64 %0, %1;" : "=l"(q) : "l"(p) : "memory"); return q; }
extern "C" __global__ void change(unsigned long long *o, unsigned long long *elsewhere, int local) {
    unsigned lane = threadIdx.x;
    unsigned long long x[2] = {0x7fffffff7fffff00ull + lane, 5ull << 40 | lane};
    elsewhere += 2 * lane;
    elsewhere[0] = x[0], elsewhere[1] = x[1];
    unsigned long long *p = local ? hide(x) : elsewhere;
    o += 8 * lane;
    o[0] = atomicAdd(p, (unsigned long long)(lane + 1) << 32 | 7);
    atomicAdd(p, 1ull << 63);
    o[1] = *(volatile unsigned long long *)p;
    o[2] = atomicCAS(p + 1, 5ull << 40 | 3, ~0ull);
    o[3] = *(volatile unsigned long long *)(p + 1);
    o[4] = atomicMax(p + 1, 6ull << 40);
    o[5] = *(volatile unsigned long long *)(p + 1);
    o[6] = atomicExch(p, 9ull << 50 | lane);
    o[7] = *(volatile unsigned long long *)p;
}
"""


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
def test_each_lane_changes_its_own_value(engine: str) -> None:
    kernel = ww.GPU("h200", timing="off", engine=engine).compile(SOURCE)["change"]
    found = [np.zeros((32, 8), np.uint64) for _ in range(2)]
    for local in (0, 1):
        kernel[1, 32](found[local], np.zeros(64, np.uint64), local)
    lane = np.arange(32, dtype=np.uint64)
    assert np.array_equal(found[0][:, 0], np.uint64(0x7FFFFFFF7FFFFF00) + lane)
    assert np.array_equal(found[0], found[1])
