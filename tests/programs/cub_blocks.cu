// CUB's collective primitives: warp and block reductions, scans, sorts, loads, stores, histograms, exchanges.
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

extern "C" __global__ void cub_warps(int *dst, const int *src) {
    __shared__ cub::WarpReduce<int>::TempStorage reduce[4];
    __shared__ cub::WarpScan<int>::TempStorage scan[4];
    int t = threadIdx.x, w = t / 32, i = blockIdx.x * blockDim.x + t, n = gridDim.x * blockDim.x;
    int sum = cub::WarpReduce<int>(reduce[w]).Sum(src[i]);
    dst[i] = t % 32 == 0 ? sum : -1;
    int inclusive, exclusive;
    cub::WarpScan<int>(scan[w]).Scan(src[i], inclusive, exclusive, cuda::maximum<>{});
    dst[n + i] = inclusive;
    cub::WarpScan<int>(scan[w]).ExclusiveSum(src[i], exclusive);
    dst[2 * n + i] = exclusive;
    int some = cub::WarpReduce<int>(reduce[w]).HeadSegmentedSum(src[i], src[i] % 5 == 0);
    dst[3 * n + i] = src[i] % 5 == 0 ? some : 0;
}

extern "C" __global__ void cub_reduce_scan(int *dst, float *sums, const int *src) {
    using Load = cub::BlockLoad<int, 64, 4, cub::BLOCK_LOAD_TRANSPOSE>;
    using Store = cub::BlockStore<int, 64, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    using Scan = cub::BlockScan<int, 64, cub::BLOCK_SCAN_WARP_SCANS>;
    using Raking = cub::BlockScan<int, 64, cub::BLOCK_SCAN_RAKING>;
    using Reduce = cub::BlockReduce<float, 64>;
    __shared__ union { Load::TempStorage load; Store::TempStorage store; Scan::TempStorage scan; Raking::TempStorage raking; Reduce::TempStorage reduce; } space;
    int items[4], total;
    Load(space.load).Load(src + blockIdx.x * 256, items);
    __syncthreads();
    Scan(space.scan).InclusiveSum(items, items, total);
    __syncthreads();
    Raking(space.raking).ExclusiveScan(items, items, -5, cuda::maximum<>{});
    __syncthreads();
    int kept = items[2];
    Store(space.store).Store(dst + blockIdx.x * 256, items);
    __syncthreads();
    float sum = Reduce(space.reduce).Sum((float)kept * 0.5f);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum + total;
}

extern "C" __global__ void cub_sorts(unsigned *keys, int *values, float *reals) {
    using Radix = cub::BlockRadixSort<unsigned, 64, 3, int>;
    using Reals = cub::BlockRadixSort<float, 64, 3>;
    __shared__ union { Radix::TempStorage radix; Reals::TempStorage reals; } space;
    unsigned key[3];
    int value[3];
    float real[3];
    int base = blockIdx.x * 192 + threadIdx.x * 3;
    for (int k = 0; k < 3; k++) key[k] = keys[base + k], value[k] = base + k, real[k] = reals[base + k];
    Radix(space.radix).Sort(key, value);
    __syncthreads();
    Reals(space.reals).SortDescending(real);
    for (int k = 0; k < 3; k++) keys[base + k] = key[k], values[base + k] = value[k], reals[base + k] = real[k];
}

struct Less {
    __device__ bool operator()(int a, int b) const { return a % 100 < b % 100; }
};
extern "C" __global__ void cub_merge_histogram(int *keys, unsigned *bins, int *heads, const unsigned char *samples) {
    using Merge = cub::BlockMergeSort<int, 64, 4>;
    using Histogram = cub::BlockHistogram<unsigned char, 64, 4, 32, cub::BLOCK_HISTO_SORT>;
    using Atomic = cub::BlockHistogram<unsigned char, 64, 4, 32, cub::BLOCK_HISTO_ATOMIC>;
    using Heads = cub::BlockDiscontinuity<int, 64>;
    using Exchange = cub::BlockExchange<int, 64, 4>;
    __shared__ union { Merge::TempStorage merge; Histogram::TempStorage histogram; Atomic::TempStorage atomic; Heads::TempStorage heads; Exchange::TempStorage exchange; } space;
    __shared__ unsigned counts[32];
    int base = blockIdx.x * 256 + threadIdx.x * 4, item[4], flag[4];
    unsigned char sample[4];
    for (int k = 0; k < 4; k++) item[k] = keys[base + k], sample[k] = samples[base + k] & 31;
    Merge(space.merge).StableSort(item, Less());
    __syncthreads();
    Heads(space.heads).FlagHeads(flag, item, cuda::std::not_equal_to<int>());
    for (int k = 0; k < 4; k++) heads[base + k] = flag[k];
    __syncthreads();
    Histogram(space.histogram).Histogram(sample, counts);
    __syncthreads();
    for (int k = 0; k < 4; k++) sample[k] = samples[base + k] & 31;
    Atomic(space.atomic).Composite(sample, counts);
    __syncthreads();
    if (threadIdx.x < 32) bins[blockIdx.x * 32 + threadIdx.x] = counts[threadIdx.x];
    Exchange(space.exchange).BlockedToStriped(item, item);
    for (int k = 0; k < 4; k++) keys[blockIdx.x * 256 + k * 64 + threadIdx.x] = item[k];
}
