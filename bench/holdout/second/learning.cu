// Learning, classical and deep: cells, kernels of distances, quantised and fragmentary products.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

__device__ float sigmoid(float v) { return 1.0f / (1.0f + __expf(-v)); }

// A step of LSTM cells from the four gates' sums.
extern "C" __global__ void lstm_cells(float *h, float *c, const float *gates, const float *bias, int units, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int u = i % units, row = i / units;
    const float *g = gates + row * 4 * units;
    float in = sigmoid(g[u] + bias[u]), forget = sigmoid(g[units + u] + bias[units + u]);
    float cell = tanhf(g[2 * units + u] + bias[2 * units + u]), out = sigmoid(g[3 * units + u] + bias[3 * units + u]);
    float next = forget * c[i] + in * cell;
    c[i] = next;
    h[i] = out * tanhf(next);
}

// exp(-gamma |x - y|^2) for all pairs: tiles of 16 x 16, features of any number.
extern "C" __global__ void radial_kernel(float *dst, const float *x, const float *y, int count, int features, float gamma) {
    __shared__ float a[16][17], b[16][17];
    int tx = threadIdx.x, ty = threadIdx.y, i = blockIdx.y * 16 + ty, j = blockIdx.x * 16 + tx;
    float sum = 0.0f;
    for (int f = 0; f < features; f += 16) {
        a[ty][tx] = x[i * features + f + tx];
        b[ty][tx] = y[(blockIdx.x * 16 + ty) * features + f + tx];
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < 16; ++k) {
            float d = a[ty][k] - b[tx][k];
            sum += d * d;
        }
        __syncthreads();
    }
    dst[i * count + j] = expf(-gamma * sum);
}

// Covariances of columns, centred on the way: a block of 8 x 8 pairs of columns, eight lanes of rows each.
extern "C" __global__ void __launch_bounds__(512) covariances(float *dst, const float *data, const float *mean, int rows, int columns) {
    int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 8 + threadIdx.z, r = threadIdx.x;
    float sum = 0.0f, mi = mean[i], mj = mean[j];
    for (int k = r; k < rows; k += 8) sum += (data[k * columns + i] - mi) * (data[k * columns + j] - mj);
    for (int d = 4; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d, 8);
    if (r == 0) dst[i * columns + j] = sum / (rows - 1);
}

// New centres of k-means: sums in shared memory by atomics, then one addition to memory for each of a block's sums.
extern "C" __global__ void update_centres(float *sums, unsigned *counts, const float *points, const int *labels, int n, int k) {
    extern __shared__ float local[];
    unsigned *number = (unsigned *)(local + 4 * k);
    for (int i = threadIdx.x; i < 5 * k; i += blockDim.x) local[i] = 0.0f;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int label = labels[i];
        #pragma unroll
        for (int d = 0; d < 4; ++d) atomicAdd(local + d * k + label, points[d * n + i]);
        atomicAdd(number + label, 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 4 * k; i += blockDim.x) atomicAdd(sums + i, local[i]);
    for (int i = threadIdx.x; i < k; i += blockDim.x) atomicAdd(counts + i, number[i]);
}

// C = A B^T of bytes by dp4a: tiles of 64 x 64, 4 x 4 sums a thread; scaled to floats.
extern "C" __global__ void __launch_bounds__(256) product_dp4a(float *c, const int *a, const int *b, int n, int words, float scale) {
    __shared__ int sa[16][68], sb[16][68];
    int t = threadIdx.x, tx = t % 16, ty = t / 16, sum[4][4] = {};
    const int *ra = a + blockIdx.y * 64 * words, *rb = b + blockIdx.x * 64 * words;
    for (int k = 0; k < words; k += 16) {
        #pragma unroll
        for (int r = 0; r < 64; r += 16) {
            sa[tx][ty + r] = ra[(ty + r) * words + k + tx];
            sb[tx][ty + r] = rb[(ty + r) * words + k + tx];
        }
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < 16; ++q) {
            int u[4], v[4];
            #pragma unroll
            for (int r = 0; r < 4; ++r) u[r] = sa[q][ty * 4 + r], v[r] = sb[q][tx * 4 + r];
            #pragma unroll
            for (int r = 0; r < 4; ++r)
                #pragma unroll
                for (int s = 0; s < 4; ++s) sum[r][s] = __dp4a(u[r], v[s], sum[r][s]);
        }
        __syncthreads();
    }
    for (int r = 0; r < 4; ++r)
        for (int s = 0; s < 4; ++s) c[(blockIdx.y * 64 + ty * 4 + r) * n + blockIdx.x * 64 + tx * 4 + s] = sum[r][s] * scale;
}

// A depthwise 3 x 3 filter and a pointwise product in one block: 96 KiB of dynamic shared memory hold all channels of a strip.
extern "C" __global__ void __launch_bounds__(320) separable_block(float *dst, const float *src, const float *depth, const float *point, int channels, int outputs, int width, int height) {
    extern __shared__ float strip[];  // channels x 3 rows x (width + 2), then channels x width
    int y = blockIdx.x, wide = width + 2;
    float *middle = strip + channels * 3 * wide;
    for (int k = threadIdx.x; k < channels * 3 * wide; k += 320) {
        int c = k / (3 * wide), r = k / wide % 3 + y - 1, x = k % wide - 1;
        strip[k] = r >= 0 && r < height && x >= 0 && x < width ? src[(c * height + r) * width + x] : 0.0f;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < channels * width; k += 320) {
        int c = k / width, x = k % width;
        float sum = 0.0f;
        #pragma unroll
        for (int r = 0; r < 9; ++r) sum += depth[c * 9 + r] * strip[(c * 3 + r / 3) * wide + x + r % 3];
        middle[k] = fmaxf(sum, 0.0f);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < outputs * width; k += 320) {
        int o = k / width, x = k % width;
        float sum = 0.0f;
        for (int c = 0; c < channels; ++c) sum += point[o * channels + c] * middle[c * width + x];
        dst[(o * height + y) * width + x] = sum;
    }
}

// Welford's mean and variance of channels over a batch, merged by shuffles and through shared memory.
__device__ float3 merged(float3 a, float3 b) {
    float n = a.x + b.x, d = b.y - a.y, f = n > 0.0f ? b.x / n : 0.0f;
    return make_float3(n, a.y + d * f, a.z + b.z + d * d * a.x * f);
}
extern "C" __global__ void channel_moments(float *mean, float *variance, const float *src, int batch, int channels, int pixels) {
    __shared__ float3 part[16];
    float3 m = make_float3(0.0f, 0.0f, 0.0f);
    for (int b = 0; b < batch; ++b)
        for (int p = threadIdx.x; p < pixels; p += blockDim.x) {
            float v = src[(b * channels + blockIdx.x) * pixels + p];
            m.x += 1.0f;
            float d = v - m.y;
            m.y += d / m.x, m.z += d * (v - m.y);
        }
    for (int d = 16; d; d /= 2) m = merged(m, make_float3(__shfl_xor_sync(~0u, m.x, d), __shfl_xor_sync(~0u, m.y, d), __shfl_xor_sync(~0u, m.z, d)));
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = m;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; ++w) m = merged(m, part[w]);
        mean[blockIdx.x] = m.y, variance[blockIdx.x] = m.z / m.x;
    }
}

// Products of bytes on tensor cores: a warp for 32 x 32, fragments straight from memory.
extern "C" __global__ void product_wmma_bytes(int *c, const signed char *a, const signed char *b, int n, int depth) {
    int warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, i = warp / (n / 32) * 32, j = warp % (n / 32) * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> sum[2][2];
    for (int r = 0; r < 4; ++r) wmma::fill_fragment(sum[r / 2][r % 2], 0);
    for (int k = 0; k < depth; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa[2];
        wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> fb[2];
        for (int r = 0; r < 2; ++r) {
            wmma::load_matrix_sync(fa[r], a + (i + 16 * r) * depth + k, depth);
            wmma::load_matrix_sync(fb[r], b + (j + 16 * r) * depth + k, depth);
        }
        for (int r = 0; r < 4; ++r) wmma::mma_sync(sum[r / 2][r % 2], fa[r / 2], fb[r % 2], sum[r / 2][r % 2]);
    }
    for (int r = 0; r < 4; ++r) wmma::store_matrix_sync(c + (i + r / 2 * 16) * n + j + r % 2 * 16, sum[r / 2][r % 2], n, wmma::mem_row_major);
}

// Products of floats as tf32 through shared memory: 64 x 64 a block of four warps.
extern "C" __global__ void __launch_bounds__(128) product_tf32(float *c, const float *a, const float *b, int n, int depth) {
    __shared__ float sa[64][20], sb[16][68];
    int t = threadIdx.x, warp = t / 32, i0 = blockIdx.y * 64, j0 = blockIdx.x * 64;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum[4];
    for (int r = 0; r < 4; ++r) wmma::fill_fragment(sum[r], 0.0f);
    for (int k = 0; k < depth; k += 16) {
        for (int q = t; q < 256; q += 128) {
            *(float4 *)&sa[q / 4][q % 4 * 4] = *(const float4 *)&a[(i0 + q / 4) * depth + k + q % 4 * 4];
            *(float4 *)&sb[q / 16][q % 16 * 4] = *(const float4 *)&b[(k + q / 16) * n + j0 + q % 16 * 4];
        }
        __syncthreads();
        for (int h = 0; h < 16; h += 8) {
            wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
            wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
            wmma::load_matrix_sync(fa, &sa[warp * 16][h], 20);
            for (int e = 0; e < fa.num_elements; ++e) fa.x[e] = wmma::__float_to_tf32(fa.x[e]);
            for (int r = 0; r < 4; ++r) {
                wmma::load_matrix_sync(fb, &sb[h][r * 16], 68);
                for (int e = 0; e < fb.num_elements; ++e) fb.x[e] = wmma::__float_to_tf32(fb.x[e]);
                wmma::mma_sync(sum[r], fa, fb, sum[r]);
            }
        }
        __syncthreads();
    }
    for (int r = 0; r < 4; ++r) wmma::store_matrix_sync(c + (i0 + warp * 16) * n + j0 + r * 16, sum[r], n, wmma::mem_row_major);
}

// A matrix of bf16 by 8 vectors: m16n8k16 by hand, a warp for 16 rows.
extern "C" __global__ void rows_times_eight(float *dst, const __nv_bfloat16 *a, const __nv_bfloat16 *b, int depth) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const unsigned *top = (const unsigned *)(a + (warp * 16 + g) * depth), *low = top + 4 * depth, *right = (const unsigned *)(b + g * depth);
    float d0 = 0.0f, d1 = 0.0f, d2 = 0.0f, d3 = 0.0f;
    #pragma unroll 4
    for (int k = t; k < depth / 2; k += 8)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(top[k]), "r"(low[k]), "r"(top[k + 4]), "r"(low[k + 4]), "r"(right[k]), "r"(right[k + 4]));
    dst += (warp * 16 + g) * 8 + 2 * t;
    dst[0] = d0, dst[1] = d1, dst[64] = d2, dst[65] = d3;
}
