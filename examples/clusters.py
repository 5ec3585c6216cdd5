"""Column sums of a matrix on Hopper: bulk copies load boxes by a tensor map, and the blocks of a cluster add through distributed shared memory."""

import numpy as np

import warpwright as ww

ROWS, COLUMNS = 32, 64
BLOCKS = 4
"""Blocks of a cluster, which handle boxes below each other."""
SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
typedef struct { alignas(64) unsigned long long words[16]; } TensorMap;   // CUtensorMap
__device__ unsigned shared(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void column_sums(const __grid_constant__ TensorMap map, float *out)
{
    __shared__ alignas(128) float tile[32][64];
    __shared__ alignas(16) float sums[64], totals[64];
    __shared__ unsigned long long gate;
    auto cluster = cg::this_cluster();
    int x = threadIdx.x, first = blockIdx.x / cluster.num_blocks() * 64;

    if (x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(shared(&gate)) : "memory");
        asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" :: "r"(shared(&gate)), "r"((unsigned)sizeof tile) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(shared(tile)), "l"(&map), "r"(first), "r"(32 * cluster.block_rank()), "r"(shared(&gate)) : "memory");
    }
    __syncthreads();   // the mbarrier is there
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }" :: "r"(shared(&gate)) : "memory");

    float sum = 0;
    for (int y = 0; y < 32; y++) sum += tile[y][x];
    sums[x] = sum;
    cluster.sync();    // every block's sums are there
    if (cluster.block_rank() == 0) {
        float total = 0;
        for (int r = 0; r < cluster.num_blocks(); r++) total += cluster.map_shared_rank(sums, r)[x];
        totals[x] = total;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");   // the copy sees what threads wrote
        __syncthreads();
        if (x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256; cp.async.bulk.commit_group;" :: "l"(out + first), "r"(shared(totals)) : "memory");
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        }
    }
    cluster.sync();    // nobody leaves while others read its memory
}
"""


def main() -> None:
    strips = 66
    # Whole numbers: their sums are exact in any order.
    values = np.random.default_rng(1).integers(-99, 99, (BLOCKS * ROWS, strips * COLUMNS)).astype(np.float32)

    gpu = ww.GPU("h200")
    matrix, sums = gpu.array(values), gpu.zeros(strips * COLUMNS, np.float32)
    boxes = gpu.tensor_map(matrix, (ROWS, COLUMNS))
    kernel = gpu.compile(SOURCE, name="clusters.cu")["column_sums"]
    run = kernel.clustered(BLOCKS)[strips * BLOCKS, COLUMNS](boxes, sums)

    np.testing.assert_array_equal(sums.numpy(), values.sum(0))
    cycles = f", {run.cycles:,} cycles" if run.timed else ""
    print(f"column sums of {values.shape} in clusters of {BLOCKS} on {gpu.name}: correct{cycles}")


if __name__ == "__main__":
    main()
