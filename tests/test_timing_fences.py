"""Fences with nothing to wait for, and the block's own shared memory in a cluster, as an H200 times them."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SOURCE = r"""
template <int STORES> __device__ void fences(unsigned *out, unsigned *to) {
    __syncthreads();
    unsigned begin = clock();
    for (int i = 0; i < 16; ++i) {
        if (STORES == 1) to[threadIdx.x / 32 * 32] = i;
        if (STORES == 2 && threadIdx.x == 0) to[0] = i;
        __threadfence();
        __syncthreads();
    }
    if (threadIdx.x == 0) out[0] = (clock() - begin) / 16;
}
extern "C" __global__ void idle(unsigned *out, unsigned *to) { fences<0>(out, to); }
extern "C" __global__ void storing(unsigned *out, unsigned *to) { fences<1>(out, to); }
extern "C" __global__ void storing_one(unsigned *out, unsigned *to) { fences<2>(out, to); }
template <int ADDS, int FENCE> __device__ void after_adds(unsigned *out, unsigned *to) {
    for (int i = 0; i < 2; ++i) {
        unsigned begin = clock();
        #pragma unroll
        for (int k = 0; k < ADDS; ++k) atomicAdd(to, 1u);
        if (FENCE) __threadfence();
        out[0] = clock() - begin;
    }
}
extern "C" __global__ void fence_alone(unsigned *out, unsigned *to) { after_adds<0, 1>(out, to); }
extern "C" __global__ void one_add(unsigned *out, unsigned *to) { after_adds<1, 0>(out, to); }
extern "C" __global__ void one_add_and_fence(unsigned *out, unsigned *to) { after_adds<1, 1>(out, to); }
extern "C" __global__ void many_adds(unsigned *out, unsigned *to) { after_adds<64, 0>(out, to); }
extern "C" __global__ void many_adds_and_fence(unsigned *out, unsigned *to) { after_adds<64, 1>(out, to); }
extern "C" __global__ void hand_on(unsigned *out, volatile unsigned *to) {
    if (blockIdx.x == 0) {
        for (int k = 0; k < 64; ++k) atomicAdd((unsigned *)to + k * 1024, 1u);
        __threadfence();
        to[1 << 17] = 1;
    } else {
        while (to[1 << 17] == 0) {}
        __threadfence();
        unsigned sum = 0;
        for (int k = 0; k < 64; ++k) sum += to[k * 1024];
        out[0] = sum;
    }
}
extern "C" __global__ void __cluster_dims__(4, 1, 1) own_words(unsigned *out) {
    __shared__ unsigned words[2][128];
    int t = threadIdx.x;
    words[0][t] = words[1][t] = t;
    __syncthreads();
    unsigned begin = clock();
    #pragma unroll 1
    for (int i = 0; i < 32; ++i) words[~i & 1][t + 1] = words[i & 1][t] + words[i & 1][t + 2];
    if (t == 0) out[blockIdx.x] = (clock() - begin) / 32;
}
"""


@pytest.fixture(scope="module")
def module() -> ww.Module:
    return ww.GPU("h200").compile(SOURCE)


def round_cycles(module: ww.Module, kernel: str, warps: int) -> int:
    out, to = np.zeros(1, np.uint32), np.zeros(1024, np.uint32)
    module[kernel][1, 32 * warps](out, to)
    return int(out[0])


def test_fences_without_stores_wait_for_no_group(module: ww.Module) -> None:
    """``fence_crews`` on an H200: 292, 316, 386 and 499 cycles a round by 1, 8, 16 and 32 warps; behind a store of each 418 and 975 by one and 16."""
    for warps, card in ((1, 292), (8, 316), (16, 386), (32, 499)):
        assert round_cycles(module, "idle", warps) == pytest.approx(card, rel=0.08)
    assert round_cycles(module, "storing", 16) > round_cycles(module, "storing", 1) + 100


@pytest.mark.parametrize(("warps", "card"), [(1, 418), (8, 447), (16, 489), (32, 623)])
def test_a_store_by_one_warp_makes_every_fence_of_the_sm_longer(module: ww.Module, warps: int, card: float) -> None:
    """``fence_one``: 124 to 131 cycles more than without it, whatever the warps."""
    assert round_cycles(module, "storing_one", warps) == pytest.approx(card, rel=0.08)


def test_own_shared_memory_is_as_near_in_every_block_of_a_cluster(module: ww.Module) -> None:
    out = np.zeros(4, np.uint32)
    module["own_words"][4, 96](out)
    assert len(set(out.tolist())) == 1
    assert out[0] < 100


@pytest.mark.parametrize("adds", ["one_add", "many_adds"])
def test_a_fence_waits_for_its_own_warps_atomics(module: ww.Module, adds: str) -> None:
    """Atomics without a result leave a warp at once; the fence after them waits until the last one is done at L2."""
    without, fenced = round_cycles(module, adds, 1), round_cycles(module, f"{adds}_and_fence", 1)
    assert fenced > without + 200
    assert round_cycles(module, "many_adds_and_fence", 1) > round_cycles(module, "one_add_and_fence", 1) + 64


@pytest.mark.ci
@pytest.mark.parametrize("chip", ["p100", "v100", "h200"])
def test_what_a_warp_added_before_its_fence_is_seen_after_its_flag(chip: str) -> None:
    out, to = np.zeros(1, np.uint32), np.zeros((1 << 17) + 1, np.uint32)
    ww.GPU(chip, timing="full").compile(SOURCE.replace("__cluster_dims__(4, 1, 1)", ""))["hand_on"][2, 1](out, to)
    assert out[0] == 64
