// Cooperative groups beyond the everyday: tiles of every size, partitions by label and by bit, scans, copies, block tiles.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

template <int N> __device__ int tile_work(int value) {
    auto tile = cg::tiled_partition<N>(cg::this_thread_block());
    int r = cg::reduce(tile, value, cg::plus<int>());
    r ^= cg::inclusive_scan(tile, value) * 3;
    r += cg::exclusive_scan(tile, value, cg::bit_xor<int>());
    r += tile.shfl_xor(value, N / 2) + tile.any(value == 5) + tile.all(value > 0) + __popc(tile.ballot(value & 1));
    return r * (int)tile.meta_group_size() + (int)tile.thread_rank() + (int)__popc(tile.match_any(value & 3));
}

extern "C" __global__ void tiles_of_all_sizes(int *dst, const int *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    dst[i] = tile_work<2>(src[i]);
    dst[n + i] = tile_work<4>(src[i]);
    dst[2 * n + i] = tile_work<8>(src[i]);
    dst[3 * n + i] = tile_work<16>(src[i]);
    dst[4 * n + i] = tile_work<32>(src[i]);
    auto one = cg::tiled_partition<1>(cg::this_thread_block());
    dst[5 * n + i] = cg::reduce(one, src[i], cg::plus<int>()) + one.size();
}

extern "C" __global__ void partitions(int *dst, const int *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto bits = cg::binary_partition(warp, (src[i] & 4) != 0);
    dst[i] = cg::reduce(bits, src[i], cg::plus<int>()) * 64 + bits.size();
    auto labels = cg::labeled_partition(warp, src[i] % 5);
    dst[n + i] = labels.thread_rank() * 100 + labels.size() + labels.shfl(src[i], 0) * 10000;
    if (src[i] % 3) {
        auto active = cg::coalesced_threads();
        dst[2 * n + i] = cg::reduce(active, src[i], cg::less<int>()) + 1000 * active.thread_rank() + active.shfl_down(src[i], 1);
        auto half = cg::labeled_partition(active, active.thread_rank() & 1);
        dst[3 * n + i] = cg::inclusive_scan(half, src[i]);
    }
}

extern "C" __global__ void float_reductions(float *dst, double *wide, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    dst[i] = cg::reduce(tile, src[i], cg::plus<float>());
    dst[n + i] = cg::reduce(tile, src[i], cg::greater<float>());
    wide[i] = cg::reduce(tile, (double)src[i], [](double a, double b) { return a + b * 0.5; });
    dst[2 * n + i] = cg::inclusive_scan(tile, src[i], cg::less<float>());
}

extern "C" __global__ void block_tile(int *dst, const int *src) {
    __shared__ cg::block_tile_memory<128> space;
    auto block = cg::this_thread_block(space);
    auto tile = cg::tiled_partition<64>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = cg::reduce(tile, src[i], cg::plus<int>());
    tile.sync();
    dst[i] = sum + tile.shfl(src[i], 5) + 7 * tile.any(src[i] == 3);
}

extern "C" __global__ void grid_rank(unsigned long long *dst) {
    auto grid = cg::this_grid();
    auto block = cg::this_thread_block();
    dim3 at = block.thread_index();
    dst[grid.thread_rank()] = grid.size() * 1000 + block.thread_rank() + 7 * at.y + grid.block_rank() * 100000 + cg::this_thread().size();
}
