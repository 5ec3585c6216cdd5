"""Thread block clusters: ranks, the cluster's barrier, distributed shared memory, and what is refused."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.constant_bank0 import reciprocal
from warpwright.engine.geometry import Geometry
from warpwright.errors import DeadlockError, LaunchError, MemoryFaultError
from warpwright.timing import simulate

PLACES = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(2, 1, 1) add(unsigned *out, int apart, int rounds, int far) {
    __shared__ unsigned words[2048];
    auto cluster = cg::this_cluster();
    unsigned *there = cluster.map_shared_rank(words, (cluster.block_rank() + far) % 2) + threadIdx.x % 32 * apart;
    cluster.sync();
    for (int i = 0; i < rounds; i++) atomicAdd(there + i % 8 * 4, 1u);
    cluster.sync();
    if (threadIdx.x == 0) out[blockIdx.x] = words[0];
}
"""
ENGINES = ("compiled", "interpreter")
HEAD = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define REG(n, name) asm volatile("mov.u32 %0, %%" name ";" : "=r"(v[n]));
extern "C" __global__ void ids(unsigned *out) {
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned explicit_cluster;
    asm volatile("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(explicit_cluster));
    unsigned v[15];
    REG(0, "cluster_ctaid.x") REG(1, "cluster_ctaid.y") REG(2, "cluster_ctaid.z")
    REG(3, "cluster_nctaid.x") REG(4, "cluster_nctaid.y") REG(5, "cluster_nctaid.z")
    REG(6, "cluster_ctarank") REG(7, "cluster_nctarank") REG(8, "clusterid.x")
    REG(9, "clusterid.y") REG(10, "clusterid.z") REG(11, "nclusterid.x")
    REG(12, "nclusterid.y") REG(13, "nclusterid.z")
    v[14] = explicit_cluster;
    if (threadIdx.x == 0) for (int i = 0; i < 15; i++) out[15 * block + i] = v[i];
}
extern "C" __global__ void ring(float *out, const float *in) {
    __shared__ float mine[128];
    auto cluster = cg::this_cluster();
    unsigned rank = cluster.block_rank(), size = cluster.num_blocks(), at = blockIdx.x * 128 + threadIdx.x;
    mine[threadIdx.x] = in[at];
    cluster.sync();
    float *next = cluster.map_shared_rank(mine, (rank + 1) % size);
    float there = next[threadIdx.x] + cluster.query_shared_rank(next);
    cluster.sync();
    atomicAdd(cluster.map_shared_rank(&mine[0], 0), 1.0f);
    cluster.map_shared_rank(mine, (rank + size - 1) % size)[64 + (threadIdx.x & 31)] = (float)rank;
    cluster.barrier_arrive();
    cluster.barrier_wait();
    out[at] = there + 1000 * mine[threadIdx.x];
}
extern "C" __global__ void spaces(unsigned *out, unsigned rank) {
    __shared__ unsigned mine[4];
    unsigned here = (unsigned)__cvta_generic_to_shared(mine), there, of_there, local, near, both;
    unsigned long long wide;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(wide) : "l"(mine), "r"(rank));
    asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(of_there) : "r"(there));
    asm volatile("{ .reg .pred p; isspacep.shared::cta p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(near) : "l"(wide));
    asm volatile("{ .reg .pred p; isspacep.shared::cluster p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(both) : "l"(wide));
    asm volatile("{ .reg .pred p; isspacep.local p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(local) : "l"(wide));
    mine[threadIdx.x & 3] = 0;
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    asm volatile("atom.shared::cluster.add.u32 %0, [%1], 5;" : "=r"(there) : "r"(there));
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x == 0) {
        unsigned *o = out + 5 * blockIdx.x;
        o[0] = of_there, o[1] = near, o[2] = both, o[3] = local, o[4] = mine[0];
    }
}
extern "C" __global__ void unpaired() {
    if (blockIdx.x % 2) asm volatile("bar.sync 1, 64;" ::: "memory");
    else asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
extern "C" __global__ void reach(float *out, unsigned rank) {
    __shared__ float mine[32];
    mine[threadIdx.x] = 1;
    auto cluster = cg::this_cluster();
    cluster.sync();
    if (blockIdx.x == 0) return;
    for (volatile int i = 0; i < 2000; i++);
    out[threadIdx.x] = *(volatile float *)cluster.map_shared_rank(&mine[threadIdx.x], rank);
}
"""


@pytest.fixture(scope="module", params=[("sass", e) for e in ENGINES] + [("ptx", "compiled")], ids="-".join)
def module(request: Any) -> Any:
    front, engine = request.param
    return ww.GPU("h200", timing="off", engine=engine, front_end=front).compile(HEAD, name="clusters.cu")


@pytest.mark.ci
@pytest.mark.parametrize("cluster", [(1, 1, 1), (2, 2, 1), (3, 1, 2), (1, 5, 1)])
def test_special_registers_tell_the_place_in_cluster_and_grid(module: Any, cluster: tuple[int, int, int]) -> None:
    grid = tuple(c * n for c, n in zip(cluster, (3, 1, 2), strict=True))
    out = np.zeros((grid[2], grid[1], grid[0], 15), np.uint32)
    module["ids"].clustered(cluster)[grid, 32](out)
    z, y, x = np.indices(out.shape[:3])
    inside = [v % c for v, c in zip((x, y, z), cluster, strict=True)]
    of = [v // c for v, c in zip((x, y, z), cluster, strict=True)]
    rank = inside[0] + cluster[0] * (inside[1] + cluster[1] * inside[2])
    fixed = [*cluster], [int(np.prod(cluster))], [3, 1, 2], [1]
    sizes, count, clusters, known = ([np.full_like(x, v) for v in values] for values in fixed)
    np.testing.assert_array_equal(out, np.stack([*inside, *sizes, rank, *count, *of, *clusters, *known], -1))


@pytest.mark.parametrize("cluster", [1, 2, 4, 8])
def test_blocks_read_write_and_add_in_each_others_memory(module: Any, cluster: int) -> None:
    blocks = 2 * cluster
    given = np.arange(blocks * 128, dtype=np.float32)
    out = np.zeros_like(given)
    module["ring"].clustered(cluster)[blocks, 128](out, given)
    mine = given.reshape(2, cluster, 128).copy()
    there = np.roll(mine, -1, axis=1) + np.roll(np.arange(cluster), -1)[None, :, None]
    mine[:, 0, 0] += 128 * cluster
    mine[:, :, 64:96] = np.roll(np.arange(cluster), -1)[None, :, None]
    np.testing.assert_array_equal(out, (there + 1000 * mine).ravel().astype(np.float32))


def test_addresses_name_their_block(module: Any) -> None:
    out = np.zeros((4, 5), np.uint32)
    module["spaces"].clustered(4)[4, 32](out, np.uint32(2))
    want = [[2, int(rank == 2), 1, 0, 4 * 32 * 5 if rank == 2 else 0] for rank in range(4)]
    np.testing.assert_array_equal(out, want)


def test_a_launch_without_clusters_is_one_of_single_blocks(module: Any) -> None:
    out = np.zeros((3, 5), np.uint32)
    module["spaces"][3, 32](out, np.uint32(0))
    np.testing.assert_array_equal(out, [[0, 1, 1, 0, 160]] * 3)


def test_a_cluster_barrier_that_a_block_never_reaches_is_a_deadlock(module: Any) -> None:
    with pytest.raises(DeadlockError, match=r"waits? for (its|their) cluster|barrier 1 of 64") as failure:
        module["unpaired"].clustered(2)[2, 32]()
    assert "no warp can go on" in str(failure.value)


def test_memory_of_no_block_and_of_one_that_has_exited(module: Any) -> None:
    out = np.zeros(32, np.float32)
    with pytest.raises(MemoryFaultError, match=r"block 2 of the cluster(.|\n)*the cluster has 2 blocks"):
        module["reach"].clustered(2)[2, 32](out, np.uint32(2))
    with pytest.raises(MemoryFaultError, match=r"block 0 of the cluster(.|\n)*that block has exited"):
        module["reach"].clustered(2)[2, 32](out, np.uint32(0))


@pytest.mark.ci
def test_clusters_that_cannot_be_launched() -> None:
    gpu = ww.GPU("h200", timing="off")
    kernel = gpu.compile('extern "C" __global__ void f() {}')["f"]
    with pytest.raises(LaunchError, match=r"grid.x is 9, which clusters of 2 x 1 x 1 blocks do not divide"):
        kernel.clustered(2)[9, 32]
    with pytest.raises(LaunchError, match=r"clusters of 32 x 1 x 1 are 32 blocks: h200 runs at most 16"):
        kernel.clustered(32)[32, 32]
    with pytest.raises(LaunchError, match=r"a100 has no thread block clusters \(sm_90 and later do"):
        ww.GPU("a100", timing="off").compile('extern "C" __global__ void f() {}')["f"].clustered(2)[2, 32]
    small = ww.GPU("h200", timing="off", sm_count=6, gpc_sm_counts=[3, 3]).compile(HEAD, name="small")["ids"]
    with pytest.raises(
        LaunchError, match="clusters of 4 blocks do not fit a GPC of h200, which has 3 SMs with room for 1 "
    ):
        small.clustered(4)[4, 1024, 200 << 10]


def test_clusters_run_in_simulated_time_with_the_same_results() -> None:
    gpu = ww.GPU("h200")
    module = gpu.compile(HEAD, name="clusters.cu")
    given = np.arange(32 * 128, dtype=np.float32)
    out, again = np.zeros_like(given), np.zeros_like(given)
    run = module["ring"].clustered(4)[32, 128](out, given)
    ww.GPU("h200", timing="off").compile(HEAD, name="clusters.cu")["ring"].clustered(4)[32, 128](again, given)
    np.testing.assert_array_equal(out, again)
    assert run.cycles > 3 * gpu.chip.cluster.cluster_barrier_latency_cycles
    with pytest.raises(DeadlockError):
        module["unpaired"].clustered(2)[2, 32]()


@pytest.mark.parametrize(("grid", "cluster"), [((6, 4, 3), (3, 2, 1)), ((8, 1, 1), (8, 1, 1)), ((2, 4, 6), (1, 2, 3))])
def test_dispatch_order_visits_every_block_once(grid: Any, cluster: Any) -> None:
    shape = Geometry(grid, (32, 1, 1), cluster=cluster)
    assert sorted(shape.clustered_block(n) for n in range(shape.blocks)) == list(range(shape.blocks))


@pytest.mark.parametrize("count", range(1, 17))
def test_reciprocals_divide_exactly(count: int) -> None:
    index = np.arange(1 << 16, dtype=np.float32)
    np.testing.assert_array_equal(
        (index * np.float32(reciprocal(count))).astype(np.int64), index.astype(np.int64) // count
    )


@pytest.mark.ci
def test_the_example_checks_its_result(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(__file__).parents[1] / "examples" / "clusters.py"), run_name="__main__")
    assert "column sums of (128, 4224) in clusters of 4 on h200: correct" in capsys.readouterr().out


def test_the_barrier_takes_its_time_however_windows_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a wait is issued before or after the model has judged the barrier complete, it ends with the barrier."""
    source = """
    extern "C" __global__ void rounds(unsigned *out) {
        asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        unsigned begin = clock();
        for (int i = 0; i < 32; i++) asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        out[blockIdx.x] = clock() - begin;
    }"""
    kernel = ww.GPU("h200").compile(source, name="rounds.cu")["rounds"]
    latency = ww.GPU("h200").chip.cluster.cluster_barrier_latency_cycles
    spans = []
    for window in (latency, latency - 7, latency // 3):
        monkeypatch.setattr(simulate, "_window", lambda state, geometry, window=window: window)
        out = np.zeros(2, np.uint32)
        kernel.clustered(2)[2, 32](out)
        spans.append(int(out[0]))
    assert spans[0] == spans[1] == spans[2] >= 32 * latency


@pytest.mark.ci
@pytest.mark.parametrize(("apart", "far", "cycles"), [(0, 1, 3.0), (1, 1, 7.3), (8, 1, 58), (32, 1, 98)])
def test_loads_from_another_blocks_shared_memory_take_their_packets(apart: int, far: int, cycles: float) -> None:
    """Cycles of 16 warps for each load on an H200 (bench.micro ``remote_places``): a sector; four of a line; 32 of eight lines, of 32."""
    load = 'asm volatile("ld.u32 %0, [%1];" : "=r"(word) : "l"(there + i % 8 * 32) : "memory"); total += word'
    source = PLACES.replace("atomicAdd(there + i % 8 * 4, 1u)", f"{{ {load}; }}").replace("words[0];", "total;")
    source = source.replace("auto cluster", "unsigned word, total = 0; auto cluster", 1)
    kernel = ww.GPU("h200").compile(source, name="loads")["add"]
    few, many = (kernel[2, 512](np.zeros(2, np.uint32), apart, rounds, far).cycles for rounds in (8, 40))
    assert (many - few) / 32 / 16 == pytest.approx(cycles, rel=0.1, abs=1)


@pytest.mark.ci
@pytest.mark.parametrize(("apart", "far", "cycles"), [(1, 1, 13.5), (8, 1, 108), (0, 1, 96), (8, 0, 8)])
def test_additions_to_another_blocks_shared_memory_take_their_packets(apart: int, far: int, cycles: float) -> None:
    """Cycles of 16 warps for each addition on an H200 (bench.micro ``remote_places``): four sectors, 32, one word 32 times; the own block."""
    kernel = ww.GPU("h200").compile(PLACES, name="places")["add"]
    few, many = (kernel[2, 512](np.zeros(2, np.uint32), apart, rounds, far).cycles for rounds in (8, 40))
    assert (many - few) / 32 / 16 == pytest.approx(cycles, rel=0.16, abs=1)
