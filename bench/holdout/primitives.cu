// CUB's collective primitives as libraries use them: tiles sorted by key, values into runs.
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

extern "C" __global__ void __launch_bounds__(128) sort_tiles(unsigned *keys, unsigned *values) {
    using Load = cub::BlockLoad<unsigned, 128, 8, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Store = cub::BlockStore<unsigned, 128, 8, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    using Sort = cub::BlockRadixSort<unsigned, 128, 8, unsigned, 5>;
    __shared__ union { Load::TempStorage load; Store::TempStorage store; Sort::TempStorage sort; } space;
    unsigned k[8], v[8];
    Load(space.load).Load(keys + blockIdx.x * 1024, k);
    __syncthreads();
    Load(space.load).Load(values + blockIdx.x * 1024, v);
    __syncthreads();
    Sort(space.sort).Sort(k, v, 0, 20);
    __syncthreads();
    Store(space.store).Store(keys + blockIdx.x * 1024, k);
    __syncthreads();
    Store(space.store).Store(values + blockIdx.x * 1024, v);
}

// Lengths of runs of equal values inside each tile; runs[0] of a tile tells how many there are.
extern "C" __global__ void __launch_bounds__(256) run_lengths(int *runs, int *lengths, const int *src) {
    using Load = cub::BlockLoad<int, 256, 4, cub::BLOCK_LOAD_TRANSPOSE>;
    using Edges = cub::BlockDiscontinuity<int, 256>;
    using Scan = cub::BlockScan<int, 256>;
    __shared__ union { Load::TempStorage load; Edges::TempStorage edges; Scan::TempStorage scan; } space;
    __shared__ int starts[1025];
    int v[4], heads[4], places[4], total;
    Load(space.load).Load(src + blockIdx.x * 1024, v);
    __syncthreads();
    Edges(space.edges).FlagHeads(heads, v, cuda::std::not_equal_to<>{});
    __syncthreads();
    Scan(space.scan).ExclusiveSum(heads, places, total);
    for (int k = 0; k < 4; ++k)
        if (heads[k]) starts[places[k]] = threadIdx.x * 4 + k, runs[blockIdx.x * 1025 + 1 + places[k]] = v[k];
    if (threadIdx.x == 0) starts[total] = 1024, runs[blockIdx.x * 1025] = total;
    __syncthreads();
    for (int i = threadIdx.x; i < total; i += 256) lengths[blockIdx.x * 1024 + i] = starts[i + 1] - starts[i];
}
