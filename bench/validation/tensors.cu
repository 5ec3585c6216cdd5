// Tensor cores: WMMA fragments straight from memory, and mma.sync fed by asynchronous copies and ldmatrix.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

// Each warp makes a 32x32 tile of C out of four fragments, straight from global memory.
extern "C" __global__ void hgemm_fragments(float *c, const __half *a, const __half *b, int n, int depth) {
    using namespace nvcuda::wmma;
    int warp = threadIdx.x / 32, row = blockIdx.y * 64 + warp / 2 * 32, column = blockIdx.x * 64 + warp % 2 * 32;
    fragment<accumulator, 16, 16, 16, float> sum[2][2];
    for (int i = 0; i < 4; ++i) fill_fragment(sum[i / 2][i % 2], 0.0f);
    for (int k = 0; k < depth; k += 16) {
        fragment<matrix_a, 16, 16, 16, __half, row_major> fa[2];
        fragment<matrix_b, 16, 16, 16, __half, row_major> fb[2];
        for (int i = 0; i < 2; ++i) {
            load_matrix_sync(fa[i], a + (row + 16 * i) * depth + k, depth);
            load_matrix_sync(fb[i], b + k * n + column + 16 * i, n);
        }
        for (int i = 0; i < 4; ++i) mma_sync(sum[i / 2][i % 2], fa[i / 2], fb[i % 2], sum[i / 2][i % 2]);
    }
    for (int i = 0; i < 4; ++i)
        store_matrix_sync(c + (row + i / 2 * 16) * n + column + i % 2 * 16, sum[i / 2][i % 2], n, mem_row_major);
}

// 64x64 of C for four warps (32x32 each), bf16, three stages of asynchronous copies of depth 32; B is given transposed.
extern "C" __global__ void __launch_bounds__(128) bgemm_pipeline(float *c, const __nv_bfloat16 *a, const __nv_bfloat16 *bt, int n, int depth) {
    __shared__ __align__(16) __nv_bfloat16 ta[3][64][40], tb[3][64][40];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, row = blockIdx.y * 64, column = blockIdx.x * 64;
    int wr = warp / 2 * 32, wc = warp % 2 * 32;
    float sum[2][4][4] = {};
    auto fetch = [&](int stage, int k) {
        for (int i = t; i < 256; i += 128) {
            __pipeline_memcpy_async(&ta[stage][i / 4][i % 4 * 8], &a[(row + i / 4) * depth + k + i % 4 * 8], 16);
            __pipeline_memcpy_async(&tb[stage][i / 4][i % 4 * 8], &bt[(column + i / 4) * depth + k + i % 4 * 8], 16);
        }
    };
    for (int s = 0; s < 2; ++s) {
        fetch(s, 32 * s);
        __pipeline_commit();
    }
    int steps = depth / 32;
    for (int s = 0; s < steps; ++s) {
        __pipeline_wait_prior(1);
        __syncthreads();
        if (s + 2 < steps) fetch((s + 2) % 3, 32 * (s + 2));
        __pipeline_commit();
        int stage = s % 3;
#pragma unroll
        for (int k = 0; k < 32; k += 16) {
            unsigned fa[2][4], fb[4][2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                unsigned at = (unsigned)__cvta_generic_to_shared(&ta[stage][wr + 16 * i + lane % 16][k + lane / 16 * 8]);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3]) : "r"(at) : "memory");
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                unsigned at = (unsigned)__cvta_generic_to_shared(&tb[stage][wc + 8 * j + lane % 8][k + lane / 8 % 2 * 8]);
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                             : "=r"(fb[j][0]), "=r"(fb[j][1]) : "r"(at) : "memory");
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(sum[i][j][0]), "+f"(sum[i][j][1]), "+f"(sum[i][j][2]), "+f"(sum[i][j][3])
                                 : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]), "r"(fb[j][1]));
        }
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j) {
            float *to = &c[(row + wr + 16 * i + lane / 4) * n + column + wc + 8 * j + lane % 4 * 2];
            *(float2 *)to = make_float2(sum[i][j][0], sum[i][j][1]);
            *(float2 *)(to + 8 * n) = make_float2(sum[i][j][2], sum[i][j][3]);
        }
}

// Independent chains of tensor-core products in registers: nothing but the pipe.
extern "C" __global__ void tensor_chains(float *out, int rounds) {
    unsigned a = 0x3c003c00u, b = threadIdx.x % 2 ? 0x3c003c00u : 0x38003800u;
    float d[4][4] = {};
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int j = 0; j < 4; ++j)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, "
                         "{%5, %5}, {%0, %1, %2, %3};"
                         : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3]) : "r"(a), "r"(b));
    float sum = 0.0f;
    for (int j = 0; j < 16; ++j) sum += d[j / 4][j % 4];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
