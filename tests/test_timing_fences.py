"""Fences with nothing to wait for, and the block's own shared memory in a cluster, as an H200 times them."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SOURCE = r"""
template <bool STORES> __device__ void fences(unsigned *out, unsigned *to) {
    __syncthreads();
    unsigned begin = clock();
    for (int i = 0; i < 16; ++i) {
        if (STORES) to[threadIdx.x / 32 * 32] = i;
        __threadfence();
        __syncthreads();
    }
    if (threadIdx.x == 0) out[0] = (clock() - begin) / 16;
}
extern "C" __global__ void idle(unsigned *out, unsigned *to) { fences<false>(out, to); }
extern "C" __global__ void storing(unsigned *out, unsigned *to) { fences<true>(out, to); }
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
    """``fence_gl`` on an H200: 280 cycles by one warp, 290 by 16; behind a store 581 and 803."""
    one, many = (round_cycles(module, "idle", warps) for warps in (1, 16))
    assert one <= many <= one + 60
    assert round_cycles(module, "storing", 16) > round_cycles(module, "storing", 1) + 100


def test_own_shared_memory_is_as_near_in_every_block_of_a_cluster(module: ww.Module) -> None:
    out = np.zeros(4, np.uint32)
    module["own_words"][4, 96](out)
    assert len(set(out.tolist())) == 1
    assert out[0] < 100
