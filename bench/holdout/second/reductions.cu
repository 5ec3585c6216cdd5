// Sums in the order of a lecture on reductions, products of vectors and of matrices with vectors.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;

// Neighbours are added first: threads of a warp part ways.
extern "C" __global__ void sum_interleaved(int *sums, const int *src) {
    __shared__ int part[256];
    int t = threadIdx.x;
    part[t] = src[blockIdx.x * 256 + t];
    __syncthreads();
    for (int s = 1; s < 256; s *= 2) {
        if (t % (2 * s) == 0) part[t] += part[t + s];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = part[0];
}

// The same with threads that follow each other: banks conflict.
extern "C" __global__ void sum_strided(int *sums, const int *src) {
    __shared__ int part[256];
    int t = threadIdx.x;
    part[t] = src[blockIdx.x * 256 + t];
    __syncthreads();
    for (int s = 1; s < 256; s *= 2) {
        int at = 2 * s * t;
        if (at < 256) part[at] += part[at + s];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = part[0];
}

// Two words a thread, halves added to halves, the last warp without barriers.
extern "C" __global__ void sum_first_add(int *sums, const int *src) {
    __shared__ volatile int part[512];
    int t = threadIdx.x, at = blockIdx.x * 1024 + t;
    part[t] = src[at] + src[at + 512];
    __syncthreads();
    for (int s = 256; s > 32; s /= 2) {
        if (t < s) part[t] += part[t + s];
        __syncthreads();
    }
    if (t < 32) {
        int v = part[t] + part[t + 32];
        for (int s = 16; s; s /= 2) {
            __syncwarp();
            part[t] = v;
            __syncwarp();
            v += part[t + s];
        }
        if (t == 0) sums[blockIdx.x] = v;
    }
}

template <int threads> __device__ void sum_many(int *sums, const int *src, int n) {
    __shared__ int part[threads];
    int t = threadIdx.x, sum = 0;
    for (int i = blockIdx.x * threads * 2 + t; i < n; i += threads * 2 * gridDim.x) sum += src[i] + (i + threads < n ? src[i + threads] : 0);
    part[t] = sum;
    __syncthreads();
    if (threads >= 512 && t < 256) part[t] = sum = sum + part[t + 256];
    __syncthreads();
    if (threads >= 256 && t < 128) part[t] = sum = sum + part[t + 128];
    __syncthreads();
    if (threads >= 128 && t < 64) part[t] = sum = sum + part[t + 64];
    __syncthreads();
    if (t < 32) {
        sum += part[t + 32];
        for (int s = 16; s; s /= 2) sum += __shfl_down_sync(~0u, sum, s);
        if (t == 0) sums[blockIdx.x] = sum;
    }
}
extern "C" __global__ void sum_unrolled(int *sums, const int *src, int n) { sum_many<512>(sums, src, n); }

// Sum of squares by a loop over the grid and one addition to memory for each block of ten warps.
extern "C" __global__ void square_norm(double *norm, const double *x, int n) {
    __shared__ double part[10];
    double sum = 0.0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum = fma(x[i], x[i], sum);
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 10; ++w) sum += part[w];
        atomicAdd(norm, sum);
    }
}

// Sum of absolute values: quads of floats, cooperative groups.
extern "C" __global__ void absolute_sum(float *sums, const float4 *x, int quads) {
    __shared__ float part[6];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    float sum = 0.0f;
    for (int i = block.group_index().x * block.size() + block.thread_rank(); i < quads; i += block.size() * gridDim.x) {
        float4 v = x[i];
        sum += fabsf(v.x) + fabsf(v.y) + fabsf(v.z) + fabsf(v.w);
    }
    sum = cg::reduce(warp, sum, cg::plus<float>());
    if (warp.thread_rank() == 0) part[warp.meta_group_rank()] = sum;
    block.sync();
    if (block.thread_rank() == 0) {
        for (int w = 1; w < warp.meta_group_size(); ++w) sum += part[w];
        sums[blockIdx.x] = sum;
    }
}

// Dot product of halves, summed in float.
extern "C" __global__ void dot_pairs(float *dot, const half2 *x, const half2 *y, int pairs) {
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += blockDim.x * gridDim.x) {
        float2 a = __half22float2(x[i]), b = __half22float2(y[i]);
        sum += a.x * b.x + a.y * b.y;
    }
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) atomicAdd(dot, sum);
}

// y = A x of halves, a warp for a row, eight halves a load.
extern "C" __global__ void rows_times_halves(half *y, const uint4 *a, const uint4 *x, int rows, int eights) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = lane; i < eights; i += 32) {
        uint4 p = a[row * eights + i], q = x[i];
        const half2 *u = (const half2 *)&p, *v = (const half2 *)&q;
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            float2 s = __half22float2(u[k]), t = __half22float2(v[k]);
            sum = fmaf(s.x, t.x, fmaf(s.y, t.y, sum));
        }
    }
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0) y[row] = __float2half(sum);
}

// y = A^T x in double for a matrix of rows: 96 columns a block, rows shared out among blocks and added.
extern "C" __global__ void transposed_times(double *y, const double *a, const double *x, int rows, int columns, int each) {
    int j = blockIdx.x * 96 + threadIdx.x, first = blockIdx.y * each;
    if (j >= columns) return;
    double sum = 0.0;
    for (int i = first; i < min(first + each, rows); ++i) sum += a[(size_t)i * columns + j] * x[i];
    atomicAdd(y + j, sum);
}
