"""The checks in clusters: accesses of other blocks' shared memory and what orders them."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SOURCE = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__device__ unsigned place(void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned far(unsigned at, unsigned rank) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    return there;
}
__device__ void init(unsigned bar, unsigned count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void arrive_far(unsigned bar, unsigned rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(far(bar, rank)) : "memory");
}
__device__ void wait(unsigned bar, unsigned parity) {
    unsigned over = 0;
    while (!over)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(over) : "r"(bar), "r"(parity) : "memory");
}
__device__ void meet() {
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
extern "C" __global__ void __cluster_dims__(2) pushed(int *y, int waits) {
    __shared__ int s[64];
    __shared__ unsigned long long bar;
    auto cluster = cg::this_cluster();
    unsigned t = threadIdx.x, other = cluster.block_rank() ^ 1;
    if (t == 0) init(place(&bar), 64);
    meet();
    cluster.map_shared_rank(s, other)[t] = t + blockIdx.x;
    arrive_far(place(&bar), other);
    if (waits) wait(place(&bar), 0);
    y[blockIdx.x * 64 + t] = s[63 - t];
    meet();
}
extern "C" __global__ void __cluster_dims__(2) stored(int *y, int waits) {
    __shared__ int s[64];
    __shared__ unsigned long long bar;
    unsigned t = threadIdx.x, other = cg::this_cluster().block_rank() ^ 1;
    if (t == 0) {
        init(place(&bar), 1);
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" ::"r"(place(&bar)) : "memory");
    }
    meet();
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
                 ::"r"(far(place(&s[t]), other)), "r"(t), "r"(far(place(&bar), other)) : "memory");
    if (waits) wait(place(&bar), 0);
    y[blockIdx.x * 64 + t] = s[63 - t];
    meet();
}
extern "C" __global__ void __cluster_dims__(2) multicast(int *y, const int *x, int waits) {
    __shared__ alignas(128) int s[64];
    __shared__ unsigned long long bar;
    unsigned t = threadIdx.x;
    if (t == 0) {
        init(place(&bar), 1);
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" ::"r"(place(&bar)) : "memory");
    }
    meet();
    if (t == 0 && cg::this_cluster().block_rank() == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 256, [%2], %3;"
                     ::"r"(place(s)), "l"(x), "r"(place(&bar)), "h"((short)3) : "memory");
    if (waits) wait(place(&bar), 0);
    y[blockIdx.x * 64 + t] = s[63 - t];
    meet();
}
extern "C" __global__ void __cluster_dims__(2) copied(int *y, int waits) {
    __shared__ alignas(128) int from[64], to[64];
    __shared__ unsigned long long bar;
    unsigned t = threadIdx.x, other = cg::this_cluster().block_rank() ^ 1;
    from[t] = t;
    if (t == 0) {
        init(place(&bar), 1);
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" ::"r"(place(&bar)) : "memory");
    }
    asm volatile("fence.proxy.async;" ::: "memory");
    meet();
    if (t == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                     ::"r"(far(place(to), other)), "r"(place(from)), "r"(far(place(&bar), other)) : "memory");
    if (waits) wait(place(&bar), 0);
    y[blockIdx.x * 64 + t] = to[63 - t];
    meet();
}
extern "C" __global__ void __cluster_dims__(4) counted(int *y, int waits) {
    __shared__ int sum;
    auto cluster = cg::this_cluster();
    if (threadIdx.x == 0) sum = 0;
    if (waits) cluster.sync();
    atomicAdd(cluster.map_shared_rank(&sum, 0), 1);
    cluster.sync();
    y[blockIdx.x * 64 + threadIdx.x] = *cluster.map_shared_rank(&sum, 0);
    cluster.sync();
}
extern "C" __global__ void __cluster_dims__(2) split(int *y, int waits) {
    __shared__ int s[64];
    auto cluster = cg::this_cluster();
    s[threadIdx.x] = threadIdx.x;
    auto token = cluster.barrier_arrive();
    if (!waits) s[threadIdx.x] = 2;
    y[blockIdx.x * 64 + threadIdx.x] = 1;
    cluster.barrier_wait(std::move(token));
    y[blockIdx.x * 64 + threadIdx.x] += cluster.map_shared_rank(s, cluster.block_rank() ^ 1)[threadIdx.x];
    cluster.sync();
}
extern "C" __global__ void __cluster_dims__(2) ends(int *y, int waits) {
    __shared__ int s[64];
    auto cluster = cg::this_cluster();
    s[threadIdx.x] = threadIdx.x;
    cluster.sync();
    y[blockIdx.x * 64 + threadIdx.x] = cluster.map_shared_rank(s, 1)[63 - threadIdx.x];
    if (waits) cluster.sync();
}
extern "C" __global__ void __cluster_dims__(2) skipped(int *y, int waits) {
    if (waits || threadIdx.x < 16) {
        y[threadIdx.x] = 1;
        cg::this_cluster().sync();
    }
    y[blockIdx.x * 64 + threadIdx.x + 256] = 2;
}
"""
KERNELS = {
    "pushed": "racecheck",
    "stored": "racecheck",
    "multicast": "racecheck",
    "copied": "racecheck",
    "counted": "racecheck",
    "split": "racecheck",
    "ends": "racecheck",
    "skipped": "synccheck",
}
BLOCKS = 8


@pytest.fixture(scope="module")
def gpu() -> ww.GPU:
    return ww.GPU("h200", check="all")


def found(gpu: ww.GPU, kernel: str, waits: bool) -> list[str]:
    gpu.findings.clear()
    y = np.zeros(BLOCKS * 64 + 256, np.int32)
    more = (np.arange(64, dtype=np.int32),) if kernel == "multicast" else ()
    gpu.compile(SOURCE, name="clusters.cu")[kernel][BLOCKS, 64](y, *more, np.int32(waits))
    return [finding.check for finding in gpu.findings]


@pytest.mark.ci
@pytest.mark.parametrize("kernel", KERNELS)
def test_what_a_cluster_orders_has_no_finding(gpu: ww.GPU, kernel: str) -> None:
    ran = found(gpu, kernel, True)
    assert not (ran if kernel != "skipped" else [check for check in ran if check == "synccheck"]), gpu.findings


@pytest.mark.ci
@pytest.mark.parametrize(("kernel", "check"), KERNELS.items())
def test_what_nothing_orders_in_a_cluster_is_found(gpu: ww.GPU, kernel: str, check: str) -> None:
    assert check in found(gpu, kernel, False)


@pytest.mark.ci
def test_a_race_names_the_other_block_and_what_would_order_it(gpu: ww.GPU) -> None:
    found(gpu, "pushed", False)
    texts = [str(finding) for finding in gpu.findings if finding.check == "racecheck"]
    assert any("cluster.sync() (barrier.cluster) between the accesses, or an mbarrier" in text for text in texts)
    assert any("of shared memory of block 0 of the cluster" in text for text in texts)


def test_an_access_of_a_block_that_may_have_ended_says_so(gpu: ww.GPU) -> None:
    found(gpu, "ends", False)
    text = "\n".join(str(finding) for finding in gpu.findings)
    assert "Race reported between Read access and the end of the block whose memory it is" in text
    assert "keeps the other block alive until then" in text
