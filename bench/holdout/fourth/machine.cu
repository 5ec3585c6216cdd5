// What the chip itself offers: deep pipelines of copies, bulk copies both ways, clusters, warpgroup products, recursion, packed halves.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;
typedef unsigned long long u64;

__device__ unsigned mixed(unsigned x) {
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
    return x ^ x >> 16;
}
__device__ unsigned shared_at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void open_barrier(u64 *bar, unsigned count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_at(bar)), "r"(count) : "memory"); }
__device__ void expect(u64 *bar, unsigned bytes) { asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(shared_at(bar)), "r"(bytes) : "memory"); }
__device__ void arrive(u64 *bar) { asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(shared_at(bar)) : "memory"); }
__device__ void await(u64 *bar, unsigned parity) {
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" ::"r"(shared_at(bar)), "r"(parity) : "memory");
}
__device__ void bulk_load(void *to, const void *from, unsigned bytes, u64 *bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_at(to)), "l"(from), "r"(bytes), "r"(shared_at(bar)) : "memory");
}

// Half-precision products, tiles of 128 by 128 by 32, four stages in 80 KiB of dynamic shared memory, ldmatrix and mma.
extern "C" __global__ void __launch_bounds__(256) hgemm_four_stages(__half *c, const __half *a, const __half *b, int n, int depth) {
    extern __shared__ __align__(128) __half stages[];
    int t = threadIdx.x, warp = t / 32, lane = t % 32, row = blockIdx.y * 128, column = blockIdx.x * 128, steps = depth / 32;
    auto left = [&](int s) { return stages + (s % 4) * 10240; };
    auto load = [&](int s) {
        if (s < steps)
            for (int i = t; i < 512; i += 256) {
                int r = i / 4, at = i % 4 * 8;
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(left(s) + r * 40 + at)), "l"(a + (long long)(row + r) * depth + s * 32 + at));
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(left(s) + 5120 + r * 40 + at)), "l"(b + (long long)(column + r) * depth + s * 32 + at));
            }
        asm volatile("cp.async.commit_group;");
    };
    for (int s = 0; s < 3; ++s) load(s);
    float d[4][4][4] = {};
    int wr = warp / 4 * 64, wc = warp % 4 * 32;
    for (int s = 0; s < steps; ++s) {
        asm volatile("cp.async.wait_group 2;");
        __syncthreads();
        load(s + 3);
        #pragma unroll
        for (int k = 0; k < 32; k += 16) {
            unsigned fa[4][4], fb[4][2];
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3])
                    : "r"(shared_at(left(s) + (wr + i * 16 + lane % 16) * 40 + k + lane / 16 * 8)));
            #pragma unroll
            for (int j = 0; j < 4; ++j)
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(fb[j][0]), "=r"(fb[j][1])
                    : "r"(shared_at(left(s) + 5120 + (wc + j * 8 + lane % 8) * 40 + k + lane / 8 % 2 * 8)));
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                        : "+f"(d[i][j][0]), "+f"(d[i][j][1]), "+f"(d[i][j][2]), "+f"(d[i][j][3]) : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]), "r"(fb[j][1]));
        }
    }
    asm volatile("cp.async.wait_group 0;");
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            for (int h = 0; h < 2; ++h)
                *(__half2 *)(c + (long long)(row + wr + i * 16 + lane / 4 + h * 8) * n + column + wc + j * 8 + lane % 4 * 2) = __floats2half2_rn(d[i][j][2 * h], d[i][j][2 * h + 1]);
}

// A filter of 17 taps over a long signal: bulk copies fill a ring of three stages, and others take the results away.
extern "C" __global__ void __launch_bounds__(256) bulk_ring_filter(float *dst, const float *src, const float *taps, int tiles) {
    __shared__ __align__(128) float in[3][2064], out[2][2048];
    __shared__ __align__(8) u64 full[3];
    int t = threadIdx.x, mine = (tiles - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    float w[17];
    for (int k = 0; k < 17; ++k) w[k] = taps[k];
    if (t == 0)
        for (int s = 0; s < 3; ++s) open_barrier(&full[s], 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
    auto load = [&](int r) {
        expect(&full[r % 3], 8256);
        bulk_load(in[r % 3], src + (long long)(blockIdx.x + r * gridDim.x) * 2048, 8256, &full[r % 3]);
    };
    if (t == 0)
        for (int r = 0; r < min(2, mine); ++r) load(r);
    for (int r = 0; r < mine; ++r) {
        if (t == 0) {
            if (r + 2 < mine) load(r + 2);
            asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        }
        await(&full[r % 3], r / 3 & 1);
        __syncthreads();
        for (int k = t; k < 2048; k += 256) {
            float sum = 0.0f;
            #pragma unroll
            for (int j = 0; j < 17; ++j) sum += w[j] * in[r % 3][k + j];
            out[r % 2][k] = sum;
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (t == 0)
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 8192; cp.async.bulk.commit_group;" ::"l"(dst + (long long)(blockIdx.x + r * gridDim.x) * 2048), "r"(shared_at(out[r % 2])) : "memory");
    }
    if (t == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Eight blocks sort 16384 keys by their top three bits: counts and then keys go to the block that owns them.
extern "C" __global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(256) cluster_all_to_all(unsigned *dst, int *sizes, const unsigned *src) {
    __shared__ unsigned got[3072];
    __shared__ int filled;
    cg::cluster_group cluster = cg::this_cluster();
    int t = threadIdx.x, rank = cluster.block_rank(), group = blockIdx.x / 8;
    if (t == 0) filled = 0;
    cluster.sync();
    for (int k = t; k < 2048; k += 256) {
        unsigned key = src[(long long)blockIdx.x * 2048 + k], to = key >> 29;
        int at = atomicAdd(cluster.map_shared_rank(&filled, to), 1);
        cluster.map_shared_rank(got, to)[at] = key;
    }
    cluster.sync();
    if (t == 0) sizes[blockIdx.x] = filled;
    for (int k = t; k < filled; k += 256) dst[(long long)blockIdx.x * 3072 + k] = got[k];
}

// A table of 32768 words spread over the shared memories of four blocks, looked up at random by all of them.
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(512) cluster_table(unsigned *dst, const unsigned *table, const unsigned *index, int each) {
    __shared__ unsigned own[8192];
    cg::cluster_group cluster = cg::this_cluster();
    int t = threadIdx.x, rank = cluster.block_rank();
    for (int k = t; k < 8192; k += 512) own[k] = table[rank * 8192 + k];
    cluster.sync();
    for (int k = t; k < each; k += 512) {
        unsigned at = index[(long long)blockIdx.x * each + k], sum = 0;
        for (int hop = 0; hop < 4; ++hop) {
            unsigned v = cluster.map_shared_rank(own, at >> 13 & 3)[at & 8191];
            sum += v, at = v;
        }
        dst[(long long)blockIdx.x * each + k] = sum;
    }
    cluster.sync();
}

// bf16 products by two warpgroups, 128 by 128 by 64, core matrices by bulk copies; a third of the warps only copies.
extern "C" __global__ void __launch_bounds__(288) wgmma_bf16(float *c, const __nv_bfloat16 *a, const __nv_bfloat16 *b, int n, int depth) {
    extern __shared__ __align__(128) __nv_bfloat16 room[];
    __shared__ __align__(8) u64 full[3], empty[3];
    int t = threadIdx.x, steps = depth / 64;
    if (t == 0)
        for (int s = 0; s < 3; ++s) open_barrier(&full[s], 1), open_barrier(&empty[s], 256);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
    if (t >= 256) {
        if (t == 256)
            for (int s = 0; s < steps; ++s) {
                if (s >= 3) await(&empty[s % 3], (s / 3 & 1) ^ 1);
                expect(&full[s % 3], 32768);
                for (int h = 0; h < 2; ++h) {
                    bulk_load(room + (s % 3) * 16384 + h * 4096, a + ((long long)(blockIdx.y * 2 + h) * steps + s) * 4096, 8192, &full[s % 3]);
                    bulk_load(room + (s % 3) * 16384 + 8192 + h * 4096, b + ((long long)(blockIdx.x * 2 + h) * steps + s) * 4096, 8192, &full[s % 3]);
                }
            }
        return;
    }
    int group = t / 128;
    float d[64];
    #pragma unroll
    for (int k = 0; k < 64; ++k) d[k] = 0.0f;
    for (int s = 0; s < steps; ++s) {
        await(&full[s % 3], s / 3 & 1);
        __nv_bfloat16 *left = room + (s % 3) * 16384 + group * 4096, *right = room + (s % 3) * 16384 + 8192;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            u64 form = (u64)(128 >> 4) << 16 | (u64)(1024 >> 4) << 32;
            u64 from_a = form | (shared_at(left) + k * 256 >> 4 & 0x3fff), from_b = form | (shared_at(right) + k * 256 >> 4 & 0x3fff);
            asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, 1, 1, 1, 0, 0;"
                : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                : "l"(from_a), "l"(from_b));
        }
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
        arrive(&empty[s % 3]);
    }
    int row = blockIdx.y * 128 + group * 64 + t % 128 / 32 * 16 + t % 32 / 4;
    for (int j = 0; j < 16; ++j)
        for (int r = 0; r < 2; ++r)
            *(float2 *)(c + (long long)(row + r * 8) * n + blockIdx.x * 128 + j * 8 + t % 4 * 2) = make_float2(d[4 * j + 2 * r], d[4 * j + 2 * r + 1]);
}

// Tiles of 2048 keys sorted by merging: each thread seeks where its part of a merge begins.
extern "C" __global__ void __launch_bounds__(256) merge_sort_block(unsigned *keys) {
    __shared__ unsigned tile[2048];
    int t = threadIdx.x;
    unsigned mine[8], *from = keys + (long long)blockIdx.x * 2048;
    #pragma unroll
    for (int k = 0; k < 8; ++k) mine[k] = from[t * 8 + k];
    #pragma unroll
    for (int r = 0; r < 8; ++r)
        #pragma unroll
        for (int k = r & 1; k + 1 < 8; k += 2)
            if (mine[k] > mine[k + 1]) {
                unsigned swap = mine[k];
                mine[k] = mine[k + 1], mine[k + 1] = swap;
            }
    for (int width = 8; width < 2048; width *= 2) {
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < 8; ++k) tile[t * 8 + k] = mine[k];
        __syncthreads();
        int start = t * 8 / (2 * width) * 2 * width, diagonal = t * 8 - start, low = max(0, diagonal - width), high = min(diagonal, width);
        const unsigned *a = tile + start, *b = a + width;
        while (low < high) {
            int middle = (low + high) / 2;
            if (a[middle] <= b[diagonal - 1 - middle]) low = middle + 1;
            else high = middle;
        }
        int i = low, j = diagonal - low;
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            bool left = j >= width || i < width && a[i] <= b[j];
            mine[k] = left ? a[i++] : b[j++];
        }
    }
    #pragma unroll
    for (int k = 0; k < 8; ++k) from[t * 8 + k] = mine[k];
}

// A wave on a plate in packed halves, two points a thread, several steps of a tile in shared memory.
extern "C" __global__ void __launch_bounds__(256) half2_wave(__half2 *dst, const __half2 *now, const __half2 *before, int pairs, int rows, float speed) {
    int x = blockIdx.x * 32 + threadIdx.x % 32, y = blockIdx.y * 8 + threadIdx.x / 32;
    if (x >= pairs || y >= rows) return;
    __half2 c = now[y * pairs + x], zero = __float2half2_rn(0.0f), k = __float2half2_rn(speed);
    __half2 up = y ? now[(y - 1) * pairs + x] : zero, down = y + 1 < rows ? now[(y + 1) * pairs + x] : zero;
    __half2 left = x ? now[y * pairs + x - 1] : zero, right = x + 1 < pairs ? now[y * pairs + x + 1] : zero;
    __half2 west = __halves2half2(__high2half(left), __low2half(c)), east = __halves2half2(__high2half(c), __low2half(right));
    __half2 sum = __hadd2(__hadd2(up, down), __hadd2(west, east));
    __half2 change = __hfma2(__float2half2_rn(-4.0f), c, sum);
    dst[y * pairs + x] = __hfma2(k, change, __hsub2(__hadd2(c, c), before[y * pairs + x]));
}

// The game of life 32 cells to a word, sums by bits.
extern "C" __global__ void life_bitboard(unsigned *dst, const unsigned *src, int words, int rows) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= words) return;
    unsigned ones = 0, twos = 0, fours = 0, own = 0;
    auto add = [&](unsigned v) {
        unsigned c = ones & v;
        ones ^= v;
        fours |= twos & c, twos ^= c;
    };
    for (int dy = -1; dy <= 1; ++dy) {
        const unsigned *row = src + (y + dy + rows) % rows * words;
        unsigned c = row[x], l = row[(x + words - 1) % words], r = row[(x + 1) % words];
        add(c << 1 | l >> 31), add(c >> 1 | r << 31);
        if (dy) add(c);
        else own = c;
    }
    dst[y * words + x] = twos & ~fours & (ones | own);
}

struct Best { float far; int point; };

__device__ __noinline__ void descend(const float4 *tree, int nodes, int at, int axis, float4 goal, Best *best) {
    if (at >= nodes) return;
    float4 p = tree[at];
    float dx = goal.x - p.x, dy = goal.y - p.y, dz = goal.z - p.z, far = dx * dx + dy * dy + dz * dz, side = axis == 0 ? dx : axis == 1 ? dy : dz;
    if (far < best->far) best->far = far, best->point = at;
    int near = 2 * at + (side < 0.0f ? 1 : 2), next = axis == 2 ? 0 : axis + 1;
    descend(tree, nodes, near, next, goal, best);
    if (side * side < best->far) descend(tree, nodes, 4 * at + 3 - near, next, goal, best);
}

// Nearest points by a k-d tree in heap order, descended recursively.
extern "C" __global__ void __launch_bounds__(128) kd_recursive(int *nearest, const float4 *tree, const float4 *goals, int nodes, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Best best = {1e30f, -1};
    descend(tree, nodes, 0, 0, goals[i], &best);
    nearest[i] = best.point;
}
