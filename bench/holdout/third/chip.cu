// What the chip does beside arithmetic: queues of work, rounds of all blocks, clusters, bulk copies, stages with mbarriers, whole-warp sums.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
typedef unsigned long long u64;

__device__ unsigned shared_at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void open_barrier(u64 *bar, unsigned count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_at(bar)), "r"(count) : "memory"); }
__device__ void expect(u64 *bar, unsigned bytes) { asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(shared_at(bar)), "r"(bytes) : "memory"); }
__device__ void arrive(u64 *bar) { asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(shared_at(bar)) : "memory"); }
__device__ void await(u64 *bar, unsigned parity) {
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" ::"r"(shared_at(bar)), "r"(parity) : "memory");
}

// Blocks that stay and take jobs of uneven lengths from a counter: powers of a row's numbers until they are small.
extern "C" __global__ void __launch_bounds__(128) take_jobs(unsigned *dst, unsigned *next, const unsigned *src, const int *rounds, int jobs) {
    __shared__ unsigned job;
    while (true) {
        if (threadIdx.x == 0) job = atomicAdd(next, 1);
        __syncthreads();
        unsigned mine = job;
        __syncthreads();
        if (mine >= jobs) return;
        unsigned x = src[mine * 128 + threadIdx.x];
        for (int k = 0; k < rounds[mine]; ++k) x = x * 1664525u + 1013904223u ^ x >> 13;
        dst[mine * 128 + threadIdx.x] = x;
    }
}

// Rounds of a rod's relaxation with all blocks of the chip waiting for each other between them.
extern "C" __global__ void __launch_bounds__(256) rounds_together(float *one, float *two, unsigned *arrived, int n, int rounds) {
    for (int r = 0; r < rounds; ++r) {
        const float *src = r % 2 ? two : one;
        float *dst = r % 2 ? one : two;
        for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
            float left = i ? __ldcg(src + i - 1) : 0.0f, right = i + 1 < n ? __ldcg(src + i + 1) : 0.0f;
            __stcg(dst + i, 0.25f * left + 0.5f * __ldcg(src + i) + 0.25f * right);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(arrived, 1);
            while (*(volatile unsigned *)arrived < (r + 1) * gridDim.x) {}
            __threadfence();
        }
        __syncthreads();
    }
}

// A field in the shared memories of four blocks: edges pass to the neighbours each step.
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(256) edges_exchanged(float *dst, const float *src, int steps) {
    __shared__ float field[2][1026];
    cg::cluster_group cluster = cg::this_cluster();
    int t = threadIdx.x, rank = cluster.block_rank();
    const float *from = src + (long long)blockIdx.x * 1024;
    for (int k = t; k < 1024; k += 256) field[0][k + 1] = from[k];
    if (t < 4) field[t % 2][t / 2 * 1025] = 0.0f;
    cluster.sync();
    for (int s = 0; s < steps; ++s) {
        float *now = field[s % 2], *after = field[1 - s % 2];
        if (t == 0 && rank > 0) cluster.map_shared_rank(now, rank - 1)[1025] = now[1];
        if (t == 32 && rank < 3) cluster.map_shared_rank(now, rank + 1)[0] = now[1024];
        cluster.sync();
        #pragma unroll
        for (int k = t + 1; k <= 1024; k += 256) after[k] = now[k] + 0.25f * (now[k - 1] - 2.0f * now[k] + now[k + 1]);
        cluster.sync();
    }
    for (int k = t; k < 1024; k += 256) dst[(long long)blockIdx.x * 1024 + k] = field[steps % 2][k + 1];
}

// Two blocks share what both need: each fetches half of a tile of the right matrix for both, and its own rows.
extern "C" __global__ void __cluster_dims__(1, 2, 1) __launch_bounds__(128) multicast_product(float *c, const float *a, const float *b, int n, int depth) {
    __shared__ __align__(128) float left[2][32][32], right[2][32][64];
    __shared__ __align__(8) u64 full[2];
    cg::cluster_group cluster = cg::this_cluster();
    int t = threadIdx.x, rank = cluster.block_rank(), steps = depth / 32, column = blockIdx.x * 64, row = blockIdx.y * 32;
    if (t == 0) open_barrier(&full[0], 1), open_barrier(&full[1], 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    cluster.sync();
    auto load = [&](int s) {
        u64 *bar = &full[s % 2];
        if (t == 0) expect(bar, 4096 + 8192);
        __syncwarp();
        if (t < 32) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];" ::"r"(shared_at(left[s % 2][t])), "l"(a + (long long)(row + t) * depth + s * 32), "r"(shared_at(bar)) : "memory");
        if (t < 16)
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 256, [%2], %3;"
                ::"r"(shared_at(right[s % 2][rank * 16 + t])), "l"(b + (long long)(s * 32 + rank * 16 + t) * n + column), "r"(shared_at(bar)), "h"((unsigned short)3) : "memory");
    };
    if (t < 32) load(0);
    float sum[4][4] = {};
    int r0 = t / 16 * 4, c0 = t % 16 * 4;
    for (int s = 0; s < steps; ++s) {
        if (t < 32 && s + 1 < steps) load(s + 1);
        await(&full[s % 2], s / 2 & 1);
        #pragma unroll 8
        for (int k = 0; k < 32; ++k) {
            float4 v = *(float4 *)&right[s % 2][k][c0];
            #pragma unroll
            for (int r = 0; r < 4; ++r) {
                float u = left[s % 2][r0 + r][k];
                sum[r][0] += u * v.x, sum[r][1] += u * v.y, sum[r][2] += u * v.z, sum[r][3] += u * v.w;
            }
        }
        cluster.sync();
    }
    for (int r = 0; r < 4; ++r) *(float4 *)(c + (long long)(row + r0 + r) * n + column + c0) = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
}

// Histograms of vectors added to one in memory by bulk reductions from shared memory.
extern "C" __global__ void __launch_bounds__(256) bulk_sums(float *total, const float *src, int vectors) {
    __shared__ __align__(128) float part[2][1024];
    int t = threadIdx.x;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int round = 0; round < 2; ++round) {
        for (int v = blockIdx.x * 2 + round; v < vectors; v += gridDim.x * 2) {
            float4 x = ((const float4 *)src)[(long long)v * 256 + t];
            sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
        }
        *(float4 *)&part[round][t * 4] = sum;
        sum = make_float4(0, 0, 0, 0);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (t == 0)
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 4096; cp.async.bulk.commit_group;" ::"l"(total), "r"(shared_at(part[round])) : "memory");
    }
    if (t == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// One warp fetches rows by indices, 16 bytes a lane, and tells an mbarrier; three warps add them up; four stages.
extern "C" __global__ void __launch_bounds__(128) staged_rows(float *dst, const float *table, const int *index, int rows) {
    __shared__ __align__(16) float stage[4][8][128];
    __shared__ __align__(8) u64 full[4], empty[4];
    int t = threadIdx.x, warp = t / 32, lane = t % 32, groups = rows / 8;
    const int *mine = index + (long long)blockIdx.x * rows;
    if (t < 4) open_barrier(&full[t], 32), open_barrier(&empty[t], 96);
    __syncthreads();
    if (warp == 0) {
        for (int g = 0; g < groups; ++g) {
            int s = g % 4;
            if (g >= 4) await(&empty[s], (g / 4 & 1) ^ 1);
            for (int r = 0; r < 8; ++r)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(&stage[s][r][lane * 4])), "l"(table + (long long)mine[g * 8 + r] * 128 + lane * 4));
            asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_at(&full[s])) : "memory");
        }
        asm volatile("cp.async.wait_all;" ::: "memory");
        return;
    }
    float sum[2] = {};
    for (int g = 0; g < groups; ++g) {
        int s = g % 4;
        await(&full[s], g / 4 & 1);
        for (int c = t - 32, k = 0; c < 128; c += 96, ++k)
            #pragma unroll
            for (int r = 0; r < 8; ++r) sum[k] += stage[s][r][c];
        arrive(&empty[s]);
    }
    for (int c = t - 32, k = 0; c < 128; c += 96, ++k) dst[blockIdx.x * 128 + c] = sum[k];
}

// Sums, least, largest and all bits of rows of integers by the warp's own reductions.
extern "C" __global__ void whole_warp_sums(uint4 *dst, const int *src, int rows, int columns) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    int sum = 0, least = 0x7fffffff, largest = -0x7fffffff;
    unsigned bits = 0;
    for (int c = 0; c < columns; c += 32) {
        int x = src[(long long)row * columns + c + lane];
        sum += __reduce_add_sync(~0u, x), least = __reduce_min_sync(~0u, min(x, least)), largest = __reduce_max_sync(~0u, max(x, largest));
        bits ^= __reduce_xor_sync(~0u, (unsigned)x);
    }
    if (lane == 0) dst[row] = make_uint4(sum, least, largest, bits);
}
