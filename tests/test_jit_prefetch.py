"""Loops that go through memory in long steps fetch ahead: what they compute and where they fault stays the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.test_jit_rows import same
from warpwright.engine import kernels

SOURCE = """
extern "C" __global__ void sum_of(int n, int step, const float *x, float *y) {
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += step) sum += x[i];
    y[threadIdx.x] = sum;
}

extern "C" __global__ void backwards(int n, int step, const float4 *x, float4 *y) {
    float4 sum = make_float4(0, 0, 0, 0);
    for (int i = n - 32 + threadIdx.x; i >= 0; i -= step) {
        float4 one = x[i];
        sum.x += one.x; sum.y += one.y; sum.z += one.z; sum.w += one.w;
    }
    y[threadIdx.x] = sum;
}

extern "C" __global__ void tiles(int n, const float *x, float *y) {
    __shared__ float tile[32];
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 32) {
        tile[threadIdx.x] = x[i];
        __syncthreads();
        sum += tile[31 - threadIdx.x];
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}
"""


@pytest.fixture(scope="module")
def engines() -> list[Any]:
    return [ww.GPU("a100", timing="off", engine=engine).compile(SOURCE) for engine in ("compiled", "interpreter")]


@pytest.mark.parametrize("step", [32, 1000, 5000])
def test_sums_of_long_steps(engines: list[Any], step: int) -> None:
    x, y = np.arange(40_000, dtype=np.float32) % 97, np.zeros(32, dtype=np.float32)
    _, left = same(engines, "sum_of", 1, 32, [len(x), step, x, y])
    wanted = [x[lane::step].astype(np.float64).sum() for lane in range(32)]
    assert np.array_equal(left.view(np.float32), wanted)


@pytest.mark.parametrize("step", [32, 2000])
def test_elements_from_the_end_on(engines: list[Any], step: int) -> None:
    x, y = (np.arange(40_000, dtype=np.float32) % 89).reshape(-1, 4), np.zeros((32, 4), dtype=np.float32)
    _, left = same(engines, "backwards", 1, 32, [len(x), step, x, y])
    wanted = [x[len(x) - 32 + lane :: -step].astype(np.float64).sum(axis=0) for lane in range(32)]
    assert np.array_equal(left.view(np.float32).reshape(32, 4), wanted)


def test_a_fault_in_a_later_turn_is_told_as_ever(engines: list[Any]) -> None:
    x, y = np.zeros(20_010, dtype=np.float32), np.zeros(32, dtype=np.float32)
    said, _ = same(engines, "sum_of", 1, 32, [20_032, 5000, x, y])
    assert "thread (10, 0, 0)" in said


def test_which_loops_fetch_ahead() -> None:
    """Loops of one basic block do; where warps meet in each turn the host has other loads to go on with."""
    module = ww.GPU("a100", timing="off").compile(SOURCE)
    found = {}
    for name in ("sum_of", "tiles"):
        program = module[name]._loaded.program
        lowered = kernels.lowered_of(module[name]._loaded)
        compiled = kernels.compile_kernel(program, lowered, (32, 1, 1), trace=False, use_cache=False)
        traced = kernels.compile_kernel(program, lowered, (32, 1, 1), trace=True, use_cache=False)
        assert "llvm.prefetch" not in traced.ir
        found[name] = "llvm.prefetch" in compiled.ir
    assert found == {"sum_of": True, "tiles": False}
