"""Atomics on the shared memory of other blocks in simulated time, beside an H200's (``bench.micro remote_adds``)."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import warpwright as ww
from warpwright.kernel import Module

SOURCE = r"""
extern "C" __global__ void adds(unsigned *out, unsigned sends, unsigned rounds, unsigned apart, unsigned to_one) {
    __shared__ unsigned words[8192];
    unsigned rank, size, lane = threadIdx.x & 31;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    unsigned *there;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(words + (lane * apart & 1023)), "r"(to_one ? 0 : (rank + 1) % size));
    for (int i = threadIdx.x; i < 8192; i += blockDim.x) words[i] = 0;
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    long long begin = clock64();
    if (rank < sends)
        for (unsigned i = 0; i < rounds; i++)
#pragma unroll
            for (int k = 0; k < 8; k++) atomicAdd(there + k * 1024, 1u);
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x == 0) out[blockIdx.x] = clock64() - begin, out[8 + blockIdx.x] = words[0];
}
"""


@cache
def module() -> Module:
    return ww.GPU("h200").compile(SOURCE)


@pytest.mark.parametrize(
    ("size", "sends", "apart", "to_one", "card"),
    [(2, 1, 1, 0, 7.4), (2, 1, 2, 0, 14.9), (2, 1, 32, 0, 65.0), (2, 2, 2, 0, 26.9), (8, 8, 1, 1, 42.0), (8, 8, 0, 1, 342.0)],
)  # fmt: skip
def test_cycles_of_a_warp_s_addition(size: int, sends: int, apart: int, to_one: int, card: float) -> None:
    spans = []
    for rounds in (2, 6):
        out = np.zeros(16, np.uint32)
        given = [np.uint32(v) for v in (sends, rounds, apart, to_one)]
        module()["adds"].clustered(size)[size, 256](out, *given)
        spans.append(int(out[:size].max()))
        lanes = 1 if apart else 32
        assert out[8] == rounds * 8 * lanes * (sends if to_one else sends - 1)
    assert (spans[1] - spans[0]) / 32 / 8 == pytest.approx(card, rel=0.12)
