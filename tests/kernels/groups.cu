// Cooperative groups: tiles of 4 to 32 lanes, coalesced groups, group reductions and scans over tiles.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

extern "C" __global__ void group_tiles(int *dst, const int *src) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int i = block.group_index().x * block.size() + block.thread_rank();
    int value = src[i];
    for (int offset = tile.size() / 2; offset > 0; offset /= 2) value += tile.shfl_down(value, offset);
    value = tile.shfl(value, 0);
    unsigned votes = tile.ballot(src[i] > 0);
    block.sync();
    dst[i] = value * 256 + (int)votes + 1000000 * (int)tile.meta_group_rank();
}

extern "C" __global__ void group_coalesced(int *kept, int *count, const int *src) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = src[i];
    if (value % 3 == 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        int base = 0;
        if (active.thread_rank() == 0) base = atomicAdd(count, (int)active.size());
        kept[active.shfl(base, 0) + active.thread_rank()] = value;
    }
}

extern "C" __global__ void group_reduce(int *dst, float *peaks, const int *src) {
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto quad = cg::tiled_partition<4>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = cg::reduce(warp, src[i], cg::plus<int>());
    int top = cg::reduce(warp, src[i], cg::greater<int>());
    int bits = cg::reduce(warp, src[i], cg::bit_xor<int>());
    float peak = cg::reduce(quad, (float)src[i], cg::less<float>());
    dst[3 * i] = sum;
    dst[3 * i + 1] = top;
    dst[3 * i + 2] = bits;
    peaks[i] = peak;
}
