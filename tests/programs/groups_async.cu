// Cooperative copies and invoke_one, with block barriers split into arrive and wait.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;

extern "C" __global__ void group_copy(int *dst, const int *src, int per_block) {
    extern __shared__ int tile[];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, tile, src + blockIdx.x * per_block, sizeof(int) * per_block);
    cg::wait(block);
    for (int k = block.thread_rank(); k < per_block; k += block.size()) dst[blockIdx.x * per_block + k] = tile[per_block - 1 - k] * 2;
    block.sync();
    auto warp = cg::tiled_partition<32>(block);
    cg::memcpy_async(warp, tile + warp.meta_group_rank() * 32, src + warp.meta_group_rank() * 32, 64);
    cg::wait_prior<0>(warp);
    if (warp.thread_rank() < 16) dst[blockIdx.x * per_block + warp.meta_group_rank() * 16 + warp.thread_rank()] += tile[warp.meta_group_rank() * 32 + warp.thread_rank()];
}

extern "C" __global__ void split_barrier(int *dst, const int *src) {
    __shared__ int box[128];
    auto block = cg::this_thread_block();
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    box[t] = src[i];
    auto token = block.barrier_arrive();
    int own = src[i] * 3;
    block.barrier_wait(static_cast<decltype(token)&&>(token));
    dst[i] = own + box[(t + 40) % blockDim.x];
}
