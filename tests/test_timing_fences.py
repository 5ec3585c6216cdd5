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
