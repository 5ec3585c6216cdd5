// Hopper's own: warpgroup products, clusters with shared memory of each other, bulk copies, groups of warps with different jobs.
#include <cuda_fp16.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
typedef unsigned long long u64;

__device__ unsigned shared_at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void expect(u64 *bar, unsigned bytes) { asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(shared_at(bar)), "r"(bytes) : "memory"); }
__device__ void arrive(u64 *bar) { asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(shared_at(bar)) : "memory"); }
__device__ void await(u64 *bar, unsigned parity) {
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" ::"r"(shared_at(bar)), "r"(parity) : "memory");
}
__device__ void open_barrier(u64 *bar, unsigned count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_at(bar)), "r"(count) : "memory"); }
__device__ void bulk_load(void *to, const void *from, unsigned bytes, u64 *bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_at(to)), "l"(from), "r"(bytes), "r"(shared_at(bar)) : "memory");
}

// y = a x + y by bulk copies: one thread keeps four tiles of 4 KiB in flight, results leave by bulk stores.
extern "C" __global__ void __launch_bounds__(256) bulk_axpy(float *y, const float *x, float a, int tiles) {
    __shared__ __align__(128) float4 in[4][2][256], out[2][256];
    __shared__ __align__(8) u64 full[4];
    int t = threadIdx.x, mine = (tiles - (int)blockIdx.x + (int)gridDim.x - 1) / gridDim.x;
    if (t == 0)
        for (int s = 0; s < 4; ++s) open_barrier(&full[s], 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
    auto load = [&](int k) {
        long long at = (blockIdx.x + (long long)k * gridDim.x) * 1024;
        expect(&full[k % 4], 8192);
        bulk_load(in[k % 4][0], x + at, 4096, &full[k % 4]), bulk_load(in[k % 4][1], y + at, 4096, &full[k % 4]);
    };
    if (t == 0)
        for (int k = 0; k < min(4, mine); ++k) load(k);
    for (int k = 0; k < mine; ++k) {
        int s = k % 4;
        await(&full[s], k / 4 & 1);
        if (t == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        __syncthreads();
        float4 u = in[s][0][t], v = in[s][1][t];
        out[k % 2][t] = make_float4(a * u.x + v.x, a * u.y + v.y, a * u.z + v.z, a * u.w + v.w);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (t == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 4096; cp.async.bulk.commit_group;" ::"l"(y + (blockIdx.x + (long long)k * gridDim.x) * 1024), "r"(shared_at(out[k % 2])) : "memory");
            if (k + 4 < mine) load(k + 4);
        }
    }
    if (t == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// A histogram of 2048 bins over the shared memories of four blocks.
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(256) cluster_histogram(unsigned *counts, const unsigned short *keys, int n) {
    __shared__ unsigned bins[512];
    cg::cluster_group cluster = cg::this_cluster();
    for (int k = threadIdx.x; k < 512; k += 256) bins[k] = 0;
    cluster.sync();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        unsigned key = keys[i];
        atomicAdd(cluster.map_shared_rank(bins, key / 512) + key % 512, 1u);
    }
    cluster.sync();
    for (int k = threadIdx.x; k < 512; k += 256)
        if (bins[k]) atomicAdd(counts + cluster.block_rank() * 512 + k, bins[k]);
}

// Softmax of rows too long for one block: each of eight holds its part in registers, maxima and sums go through shared memory of all.
extern "C" __global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(256) cluster_softmax(float4 *dst, const float4 *src) {
    __shared__ float parts[8], seen[2][8];
    cg::cluster_group cluster = cg::this_cluster();
    int t = threadIdx.x, rank = cluster.block_rank();
    long long at = (long long)blockIdx.x * 512 + t;
    float4 v[2] = {src[at], src[at + 256]};
    float most = -1e30f, sum = 0.0f;
    auto everywhere = [&](int round, float mine, bool adds) {
        for (int d = 16; d; d /= 2) {
            float other = __shfl_xor_sync(~0u, mine, d);
            mine = adds ? mine + other : fmaxf(mine, other);
        }
        if (t % 32 == 0) parts[t / 32] = mine;
        __syncthreads();
        if (t < 8) {
            float all = parts[0];
            for (int w = 1; w < 8; ++w) all = adds ? all + parts[w] : fmaxf(all, parts[w]);
            *cluster.map_shared_rank(&seen[round][rank], t) = all;
        }
        cluster.sync();
        float all = seen[round][0];
        for (int r = 1; r < 8; ++r) all = adds ? all + seen[round][r] : fmaxf(all, seen[round][r]);
        return all;
    };
    for (int k = 0; k < 2; ++k) most = fmaxf(most, fmaxf(fmaxf(v[k].x, v[k].y), fmaxf(v[k].z, v[k].w)));
    most = everywhere(0, most, false);
    for (int k = 0; k < 2; ++k) {
        v[k] = make_float4(__expf(v[k].x - most), __expf(v[k].y - most), __expf(v[k].z - most), __expf(v[k].w - most));
        sum += v[k].x + v[k].y + v[k].z + v[k].w;
    }
    float scale = 1.0f / everywhere(1, sum, true);
    for (int k = 0; k < 2; ++k) dst[at + k * 256] = make_float4(v[k].x * scale, v[k].y * scale, v[k].z * scale, v[k].w * scale);
}

// Warps with different jobs: one fills tiles by asynchronous copies, three multiply them with a vector, named barriers hand them over.
extern "C" __global__ void __launch_bounds__(128) split_jobs(float *y, const float *a, const float *x, int columns) {
    __shared__ __align__(16) float tile[2][24][64];
    int t = threadIdx.x, warp = t / 32, lane = t % 32, steps = columns / 64;
    const float *from = a + (long long)blockIdx.x * 24 * columns;
    if (warp == 0) {
        for (int s = 0; s < steps; ++s) {
            if (s >= 2) asm volatile("bar.sync %0, 128;" ::"r"(3 + s % 2) : "memory");
            for (int i = lane; i < 384; i += 32)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(&tile[s % 2][i / 16][i % 16 * 4])), "l"(from + (long long)(i / 16) * columns + s * 64 + i % 16 * 4));
            asm volatile("cp.async.wait_all;" ::: "memory");
            asm volatile("bar.arrive %0, 128;" ::"r"(1 + s % 2) : "memory");
        }
        return;
    }
    float sum[8] = {};
    for (int s = 0; s < steps; ++s) {
        float2 v = *(const float2 *)(x + s * 64 + lane * 2);
        asm volatile("bar.sync %0, 128;" ::"r"(1 + s % 2) : "memory");
        #pragma unroll
        for (int r = 0; r < 8; ++r) {
            float2 m = *(float2 *)&tile[s % 2][(warp - 1) * 8 + r][lane * 2];
            sum[r] += m.x * v.x + m.y * v.y;
        }
        if (s + 2 < steps) asm volatile("bar.arrive %0, 128;" ::"r"(3 + s % 2) : "memory");
    }
    for (int r = 0; r < 8; ++r) {
        for (int d = 16; d; d /= 2) sum[r] += __shfl_xor_sync(~0u, sum[r], d);
        if (lane == 0) y[blockIdx.x * 24 + (warp - 1) * 8 + r] = sum[r];
    }
}

// C = A B^T of halves by the products of a warpgroup, 64 by 64 a block; bulk copies bring tiles laid out as the tensor cores want them.
extern "C" __global__ void __launch_bounds__(128) warpgroup_product(float *c, const __half *a, const __half *b, int n, int depth) {
    __shared__ __align__(128) __half left[2][4096], right[2][4096];
    __shared__ __align__(8) u64 full[2];
    int t = threadIdx.x, steps = depth / 64;
    if (t == 0) open_barrier(&full[0], 1), open_barrier(&full[1], 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
    auto load = [&](int s) {
        expect(&full[s % 2], 16384);
        bulk_load(left[s % 2], a + ((long long)blockIdx.y * steps + s) * 4096, 8192, &full[s % 2]);
        bulk_load(right[s % 2], b + ((long long)blockIdx.x * steps + s) * 4096, 8192, &full[s % 2]);
    };
    if (t == 0) load(0);
    float d[32];
    #pragma unroll
    for (int k = 0; k < 32; ++k) d[k] = 0.0f;
    for (int s = 0; s < steps; ++s) {
        if (t == 0 && s + 1 < steps) load(s + 1);
        await(&full[s % 2], s / 2 & 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            // Core matrices of 8 rows by 16 bytes; along k they follow each other (128 bytes), along rows after 8 of them (1024).
            u64 form = (u64)(128 >> 4) << 16 | (u64)(1024 >> 4) << 32;
            u64 from_a = form | (shared_at(left[s % 2]) + k * 256 >> 4 & 0x3fff), from_b = form | (shared_at(right[s % 2]) + k * 256 >> 4 & 0x3fff);
            asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
                : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                : "l"(from_a), "l"(from_b));
        }
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
        __syncthreads();
    }
    int row = blockIdx.y * 64 + t / 32 * 16 + t % 32 / 4;
    for (int j = 0; j < 8; ++j)
        for (int r = 0; r < 2; ++r)
            *(float2 *)(c + (long long)(row + r * 8) * n + blockIdx.x * 64 + j * 8 + t % 4 * 2) = make_float2(d[4 * j + 2 * r], d[4 * j + 2 * r + 1]);
}
