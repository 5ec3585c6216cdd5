"""Racecheck of a warpgroup's products: the loads of their operands are done when any of the four warps has waited for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.test_checked_copies import HEAD
from warpwright.tools.checks.happens_before import BlockClocks

SOURCE = (
    HEAD
    + r"""
// The last warp brings a tile at a time; each thread of a warpgroup loads its part of the left operand, and one thread tells the producer.
template <bool WAITS, bool WRITES> __device__ __forceinline__ void products(float *out, const float *in) {
    __shared__ __align__(128) float tile[512], right[64];
    __shared__ __align__(8) unsigned long long gates[2];
    unsigned full = SHARED(&gates[0]), empty = SHARED(&gates[1]), i = threadIdx.x, lane = i % 32;
    if (i == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(empty) : "memory");
    if (i < 64) right[i] = 1;
    PROXY;
    BEGIN(full)
    if (i >= 128) {
        for (int n = 0; n < 3; n++) {
            WAIT(empty, n & 1 ^ 1);
            if (lane == 0) {
                EXPECT(full, 2048);
                LOAD(tile, in + 512 * n, 2048, full);
            }
            __syncwarp();
        }
        return;
    }
    float c[4] = {};
    unsigned long long b = (SHARED(right) & 0x3FFFF) >> 4 | 8ull << 16 | 8ull << 32;
    for (int n = 0; n < 3; n++) {
        WAIT(full, n & 1);
        unsigned a[4];
        for (int k = 0; k < 4; k++) a[k] = ((unsigned *)tile)[128 * k + i];
        if (WRITES) tile[i] = 0;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, 1, 1, 1;"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (WAITS) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (i == 0) asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" :: "r"(empty) : "memory");
        if (!WAITS) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    out[i] = c[0] + c[1] + c[2] + c[3];
}
extern "C" __global__ void waits(float *out, const float *in) { products<true, false>(out, in); }
extern "C" __global__ void arrives_before(float *out, const float *in) { products<false, false>(out, in); }
extern "C" __global__ void writes(float *out, const float *in) { products<true, true>(out, in); }
"""
)


def findings(kernel: str) -> list[Any]:
    gpu = ww.GPU("h200", timing="off", check="racecheck")
    out, data = gpu.array(np.zeros(128, np.float32)), gpu.array(np.ones(3 * 512, np.float32))
    gpu.compile(SOURCE, name="products.cu")[kernel][1, 160](out, data)
    if kernel == "waits":
        assert (out.numpy() == 3 * 4 * 8).all()
    return gpu.findings


@pytest.mark.ci
def test_loads_of_operands_are_ordered_by_a_wait_of_any_warp_for_their_product() -> None:
    """One arrival for four warps is enough after the wait, and a race with the loads of the other three before it."""
    assert findings("waits") == []
    found = findings("arrives_before")
    assert {f.severity for f in found} == {"error"}
    assert all("WAR hazard" in " ".join(f.details) for f in found)


@pytest.mark.ci
def test_products_order_no_writes() -> None:
    """What the other warps wrote to the tile before their product is not ordered before the next copy into it."""
    assert "WAW" in " ".join(line for f in findings("writes") for line in f.details)


def clocks(warps: int = 8) -> BlockClocks:
    made = BlockClocks(warps, np.zeros(warps, np.int64), 1)
    made.begin(0)
    return made


def test_a_wait_knows_the_reads_of_its_own_group_before_its_complete_products() -> None:
    made = clocks()
    before = made.epochs.copy()
    for warp in (0, 1, 4):
        made.end_products(warp)
    between = made.epochs.copy()
    for warp in (0, 1, 4):
        made.end_products(warp)
    made.wait_for_products(0, 1)
    known = made.known_reads(0)
    assert before[1] < known[1] <= between[1]  # the first group of products, not the second
    assert known[2] > made.epochs[2]  # its products are still to be read: all its reads so far precede them
    assert (known[4:8] <= before[4:8]).all()  # another warpgroup
    assert (made.known[0, 1:8] <= before[1:8]).all()  # nothing is known of writes
    made.wait_for_products(0, 0)
    assert made.known_reads(0)[1] > between[1]


def test_products_of_an_earlier_block_order_nothing() -> None:
    made = clocks()
    for warp in range(4):
        made.end_products(warp)
    made.wait_for_products(0, 0)
    made.end()
    made.begin(1)
    made.end_products(1)
    assert made.known_reads(0)[1] <= made.epochs[1] - 1
