"""Blocks under the checks: launches one behind the other, votes at barriers, named barriers, warps that are not whole."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.errors import MemoryFaultError

SOURCE = r"""
extern "C" __global__ void writes(int *x) { x[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x; }
extern "C" __global__ void reverses(const int *x, int *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[n - 1 - i];
}
extern "C" __global__ void reads_bytes(const unsigned char *x, int *y) { y[threadIdx.x] = x[threadIdx.x * 3 + 1]; }
extern "C" __global__ void falls(int *x, int n) { x[threadIdx.x] = 7; __syncthreads(); x[n + threadIdx.x] = 1; }
extern "C" __global__ void votes(const int *x, int *y) {
    int t = threadIdx.x, mine = x[t];
    y[3 * t] = __syncthreads_count(mine > 10);
    y[3 * t + 1] = __syncthreads_or(mine == 70);
    y[3 * t + 2] = __syncthreads_and(mine < 70);
}
extern "C" __global__ void hands_over(int *y) {
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t < 32) { s[t] = t * 5; asm volatile("bar.arrive 1, 64;" ::: "memory"); }
    else { asm volatile("bar.sync 1, 64;" ::: "memory"); y[t - 32] = s[63 - t]; }
}
extern "C" __global__ void forgets_to_wait(int *y) {
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t < 32) { asm volatile("bar.arrive 1, 64;" ::: "memory"); s[t] = t * 5; }
    else { asm volatile("bar.sync 1, 64;" ::: "memory"); y[t - 32] = s[63 - t]; }
}
extern "C" __global__ void passes_on(int *y, int wrong) {
    __shared__ int s[128];
    int t = threadIdx.x;
    for (int turn = 0; turn < 3; turn++) {
        s[t] = turn * 1000 + t;
        __syncthreads();
        y[blockIdx.x * blockDim.x + t] = s[blockDim.x - 1 - t];
        if (turn != wrong) __syncthreads();
    }
}
"""


@pytest.fixture
def checked() -> tuple[ww.GPU, ww.Module]:
    gpu = ww.GPU("a100", check="all")
    return gpu, gpu.compile(SOURCE, name="turns.cu")


def test_what_an_earlier_launch_did_is_ordered_before_a_later_one(checked: tuple[ww.GPU, ww.Module]) -> None:
    gpu, module = checked
    x, y = gpu.array(np.zeros(4096, np.int32)), gpu.array(np.zeros(4096, np.int32))
    for _ in range(2):
        # Other warps, fewer and more of them, words and then bytes of them.
        module["writes"][16, 256](x)
        module["reverses"][1, 100](x, y, 100)
        module["reads_bytes"][1, 64](x, y)
        module["writes"][32, 128](x)
        module["reverses"][64, 64](x, y, 4096)
    assert gpu.findings == []
    assert (y.numpy() == np.tile(np.arange(128), 32)[::-1]).all()


def test_a_launch_behind_one_that_a_fault_ended(checked: tuple[ww.GPU, ww.Module]) -> None:
    gpu, module = checked
    x, y = gpu.array(np.zeros(64, np.int32)), gpu.array(np.zeros(64, np.int32))
    with pytest.raises(MemoryFaultError):
        module["falls"][1, 64](x, 1 << 20)
    module["reverses"][1, 64](x, y, 64)
    assert [f.check for f in gpu.findings] == ["memcheck"]
    assert (y.numpy() == 7).all()


def test_votes_count_under_the_checks(checked: tuple[ww.GPU, ww.Module]) -> None:
    gpu, module = checked
    y = gpu.array(np.zeros(3 * 71, np.int32))
    module["votes"][1, 71](gpu.array(np.arange(71, dtype=np.int32)), y)
    assert (y.numpy().reshape(71, 3) == (60, 1, 0)).all()
    module["votes"][1, 71](gpu.array(np.zeros(71, np.int32)), y)
    assert (y.numpy().reshape(71, 3) == (0, 0, 1)).all()
    assert gpu.findings == []


def test_an_arrival_tells_those_who_wait(checked: tuple[ww.GPU, ww.Module]) -> None:
    gpu, module = checked
    y = gpu.array(np.zeros(32, np.int32))
    module["hands_over"][1, 64](y)
    assert gpu.findings == []
    assert (y.numpy() == np.arange(31, -1, -1) * 5).all()
    module["forgets_to_wait"][1, 64](y)
    assert {f.check for f in gpu.findings} == {"racecheck"}


@pytest.mark.parametrize("threads", [128, 70, 20])
@pytest.mark.parametrize("wrong", [9, 1])
def test_barriers_of_whole_and_partial_warps(threads: int, wrong: int) -> None:
    gpu = ww.GPU("a100", check="all", check_level="info")
    module = gpu.compile(SOURCE, name="turns.cu")
    y = gpu.array(np.zeros(3 * threads, np.int32))
    module["passes_on"][3, threads](y, wrong)
    assert (y.numpy().reshape(3, threads) == 2000 + np.arange(threads)[::-1]).all()
    assert {f.check for f in gpu.findings} == ({"racecheck"} if wrong == 1 else set())
    if wrong == 1:
        # The lanes of one warp are together when they write again.
        assert ("error" in {f.severity for f in gpu.findings}) == (threads > 32)
