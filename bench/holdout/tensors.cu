// Tensor cores by PTX: attention, integer and double products, Hopper's products of a warpgroup.
#include <cuda_fp16.h>

__device__ unsigned shared_at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned pack(float a, float b) {
    __half2 v = __floats2half2_rn(a, b);
    return *(unsigned *)&v;
}
#define COPY16(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(to)), "l"(from))
#define LOAD4(r, at, form) asm volatile("ldmatrix.sync.aligned.m8n8.x4" form ".shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]) : "r"(shared_at(at)))
#define PRODUCT(d, a, b0, b1) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]) : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"(b0), "r"(b1))

// Causal attention of 64 dimensions: 64 queries a block, 16 a warp; keys and values come by asynchronous copies, 64 at a time.
extern "C" __global__ void __launch_bounds__(128) flash_attention(__half *dst, const __half *q, const __half *k, const __half *v, int length) {
    __shared__ __align__(16) __half keys[64][72], values[64][72];
    int t = threadIdx.x, warp = t / 32, lane = t % 32, first = blockIdx.x * 64;
    long long head = (long long)blockIdx.y * length * 64;
    for (int i = t; i < 512; i += 128) COPY16(&keys[i / 8][i % 8 * 8], q + head + (first + i / 8) * 64 + i % 8 * 8);
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    unsigned a[4][4];
    #pragma unroll
    for (int c = 0; c < 4; ++c) LOAD4(a[c], &keys[warp * 16 + lane % 16][c * 16 + lane / 16 * 8], "");
    float out[8][4], most[2] = {-1e30f, -1e30f}, sum[2] = {0, 0};
    #pragma unroll
    for (int n = 0; n < 8; ++n) out[n][0] = out[n][1] = out[n][2] = out[n][3] = 0.0f;
    for (int from = 0; from <= first; from += 64) {
        __syncthreads();
        for (int i = t; i < 512; i += 128) COPY16(&keys[i / 8][i % 8 * 8], k + head + (from + i / 8) * 64 + i % 8 * 8);
        asm volatile("cp.async.commit_group;");
        for (int i = t; i < 512; i += 128) COPY16(&values[i / 8][i % 8 * 8], v + head + (from + i / 8) * 64 + i % 8 * 8);
        asm volatile("cp.async.commit_group; cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        float s[8][4];
        #pragma unroll
        for (int n = 0; n < 8; ++n) {
            s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
            #pragma unroll
            for (int c = 0; c < 4; c += 2) {
                unsigned b[4];
                LOAD4(b, &keys[n * 8 + lane % 8][c * 16 + lane / 8 * 8], "");
                PRODUCT(s[n], a[c], b[0], b[1]);
                PRODUCT(s[n], a[c + 1], b[2], b[3]);
            }
        }
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            int row = first + warp * 16 + r * 8 + lane / 4;
            float next = most[r];
            #pragma unroll
            for (int n = 0; n < 8; ++n)
                #pragma unroll
                for (int e = 0; e < 2; ++e) {
                    float &one = s[n][2 * r + e];
                    one = from + n * 8 + lane % 4 * 2 + e <= row ? one * 0.18033688f : -1e30f;  // log2(e) / 8
                    next = fmaxf(next, one);
                }
            next = fmaxf(next, __shfl_xor_sync(~0u, next, 1)), next = fmaxf(next, __shfl_xor_sync(~0u, next, 2));
            float shrink = exp2f(most[r] - next), part = 0.0f;
            most[r] = next;
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                s[n][2 * r] = exp2f(s[n][2 * r] - next), s[n][2 * r + 1] = exp2f(s[n][2 * r + 1] - next);
                part += s[n][2 * r] + s[n][2 * r + 1];
                out[n][2 * r] *= shrink, out[n][2 * r + 1] *= shrink;
            }
            sum[r] = sum[r] * shrink + part;
        }
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        #pragma unroll
        for (int c = 0; c < 4; ++c) {
            unsigned p[4] = {pack(s[2 * c][0], s[2 * c][1]), pack(s[2 * c][2], s[2 * c][3]), pack(s[2 * c + 1][0], s[2 * c + 1][1]), pack(s[2 * c + 1][2], s[2 * c + 1][3])};
            #pragma unroll
            for (int n = 0; n < 8; n += 2) {
                unsigned b[4];
                LOAD4(b, &values[c * 16 + lane % 16][n * 8 + lane / 16 * 8], ".trans");
                PRODUCT(out[n], p, b[0], b[1]);
                PRODUCT(out[n + 1], p, b[2], b[3]);
            }
        }
    }
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        sum[r] += __shfl_xor_sync(~0u, sum[r], 1), sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
        #pragma unroll
        for (int n = 0; n < 8; ++n)
            *(unsigned *)(dst + head + (first + warp * 16 + r * 8 + lane / 4) * 64 + n * 8 + lane % 4 * 2) = pack(out[n][2 * r] / sum[r], out[n][2 * r + 1] / sum[r]);
    }
}

// C = A B^T of bytes, 64 by 64 a block, 16 rows a warp, operands straight from global memory.
extern "C" __global__ void __launch_bounds__(128) product_bytes(int *c, const unsigned *a, const unsigned *b, int n, int words) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.y * 64 + warp * 16 + lane / 4, column = blockIdx.x * 64;
    int sum[8][4] = {};
    for (int k = lane % 4; k < words; k += 8) {
        unsigned left[4] = {a[row * words + k], a[(row + 8) * words + k], a[row * words + k + 4], a[(row + 8) * words + k + 4]};
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            const unsigned *from = b + (column + j * 8 + lane / 4) * words + k;
            asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+r"(sum[j][0]), "+r"(sum[j][1]), "+r"(sum[j][2]), "+r"(sum[j][3]) : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(from[0]), "r"(from[4]));
        }
    }
    for (int j = 0; j < 8; ++j)
        for (int r = 0; r < 2; ++r)
            *(int2 *)(c + (row + r * 8) * n + column + j * 8 + lane % 4 * 2) = make_int2(sum[j][2 * r], sum[j][2 * r + 1]);
}

// C = A B of doubles on tensor cores: 32 by 32 a block, 16 by 16 a warp, tiles of 16 deep in shared memory.
extern "C" __global__ void __launch_bounds__(128) product_doubles(double *c, const double *a, const double *b, int n, int depth) {
    __shared__ double left[32][18], right[16][36];
    int t = threadIdx.x, warp = t / 32, lane = t % 32, row = blockIdx.y * 32, column = blockIdx.x * 32;
    double sum[2][2][2] = {};
    for (int k0 = 0; k0 < depth; k0 += 16) {
        __syncthreads();
        for (int i = t; i < 512; i += 128) left[i / 16][i % 16] = a[(row + i / 16) * depth + k0 + i % 16], right[i / 32][i % 32] = b[(k0 + i / 32) * n + column + i % 32];
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < 16; k += 4)
            #pragma unroll
            for (int i = 0; i < 2; ++i)
                #pragma unroll
                for (int j = 0; j < 2; ++j)
                    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(sum[i][j][0]), "+d"(sum[i][j][1]) : "d"(left[warp / 2 * 16 + i * 8 + lane / 4][k + lane % 4]), "d"(right[k + lane % 4][warp % 2 * 16 + j * 8 + lane / 4]));
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            *(double2 *)(c + (row + warp / 2 * 16 + i * 8 + lane / 4) * n + column + warp % 2 * 16 + j * 8 + lane % 4 * 2) = make_double2(sum[i][j][0], sum[i][j][1]);
}
