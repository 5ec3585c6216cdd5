// Patterns that stress one part of a program at a time: chases, tables, atomics, queues, divergence, pipes.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

extern "C" __global__ void do_nothing() {}

extern "C" __global__ void tiny_blocks(int *dst) { dst[blockIdx.x * 32 + threadIdx.x] = blockIdx.x; }

extern "C" __global__ void chase_lists(int *ends, const int *next, int steps) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, at = t;
    for (int k = 0; k < steps; ++k) at = next[at];
    ends[t] = at;
}

__constant__ int small_table[1024];

extern "C" __global__ void constant_lookup(int *dst, const int *src, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = src[i];
    for (int r = 0; r < rounds; ++r) v = small_table[v & 1023] + r;
    dst[i] = v;
}

extern "C" __global__ void shared_lookup(int *dst, const int *src, const int *table, int rounds) {
    __shared__ int s[2048];
    for (int i = threadIdx.x; i < 2048; i += blockDim.x) s[i] = table[i];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = src[i];
    for (int r = 0; r < rounds; ++r) v = s[(v + r) & 2047];
    dst[i] = v;
}

// A small array that is indexed at run time, so it lies in local memory.
extern "C" __global__ void local_counts(int *most, const unsigned char *src, int each) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, counts[16];
    for (int k = 0; k < 16; ++k) counts[k] = 0;
    for (int k = 0; k < each; ++k) ++counts[src[k * threads + t] & 15];
    int best = 0;
    for (int k = 1; k < 16; ++k)
        if (counts[k] > counts[best]) best = k;
    most[t] = best * 1000 + counts[best];
}

// Blocks draw tiles from one counter until there are none left.
extern "C" __global__ void draw_tiles(int *dst, int *counter, const int *work, int tiles) {
    __shared__ int tile;
    while (true) {
        if (threadIdx.x == 0) tile = atomicAdd(counter, 1);
        __syncthreads();
        int mine = tile;
        __syncthreads();
        if (mine >= tiles) return;
        int v = mine * 256 + threadIdx.x, rounds = work[mine];
        for (int r = 0; r < rounds; ++r) v = v * 1664525 + 1013904223;
        dst[mine * 256 + threadIdx.x] = v;
    }
}

extern "C" __global__ void add_to_one(int *sum, int each) {
    for (int k = 0; k < each; ++k) atomicAdd(sum, (int)threadIdx.x);
}

extern "C" __global__ void add_to_bins(float *bins, const int *at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[at[i]], 1.0f);
}

extern "C" __global__ void minimum_double(unsigned long long *least, const double *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double v = i < n ? src[i] : 1e300;
    for (int d = 16; d; d /= 2) v = fmin(v, __shfl_xor_sync(~0u, v, d));
    if (threadIdx.x % 32 == 0) {
        unsigned long long seen = *least;
        while (v < __longlong_as_double(seen)) {
            unsigned long long now = atomicCAS(least, seen, __double_as_longlong(v));
            if (now == seen) break;
            seen = now;
        }
    }
}

extern "C" __global__ void shared_counters(int *sums, int spread, int each) {
    __shared__ int c[256];
    c[threadIdx.x] = 0;
    __syncthreads();
    for (int k = 0; k < each; ++k) atomicAdd(&c[(threadIdx.x * spread + k) & 255], 1);
    __syncthreads();
    sums[blockIdx.x * 256 + threadIdx.x] = c[threadIdx.x];
}

extern "C" __global__ void async_stages(float *sums, const float4 *src, int tiles) {
    __shared__ float4 ring[4][128];
    int t = threadIdx.x;
    const float4 *mine = src + blockIdx.x * tiles * 128;
    for (int k = 0; k < 3; ++k) {
        __pipeline_memcpy_async(&ring[k][t], &mine[k * 128 + t], 16);
        __pipeline_commit();
    }
    float sum = 0.0f;
    for (int k = 0; k < tiles; ++k) {
        if (k + 3 < tiles) __pipeline_memcpy_async(&ring[(k + 3) % 4][t], &mine[(k + 3) * 128 + t], 16);
        __pipeline_commit();
        __pipeline_wait_prior(3);
        __syncthreads();
        float4 v = ring[k % 4][127 - t];
        sum += v.x + v.y + v.z + v.w;
        __syncthreads();
    }
    sums[blockIdx.x * 128 + t] = sum;
}

extern "C" __global__ void switch_lanes(int *dst, const int *src, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = src[i];
    for (int r = 0; r < rounds; ++r) switch (v & 3) {
            case 0: v = v * 5 + 1; break;
            case 1: v = (v ^ v >> 3) + 7; break;
            case 2: v = v * v + 3; break;
            default: v = v / 3 + 11;
        }
    dst[i] = v;
}

// Loops of different lengths in the lanes of a warp.
extern "C" __global__ void uneven_loops(unsigned *dst, const int *rounds, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned v = i;
    for (int r = rounds[i]; r > 0; --r) v = v * 1664525u + (v >> 7);
    dst[i] = v;
}

extern "C" __global__ void fma_chain(float *dst, int rounds) {
    float v = threadIdx.x * 1e-3f;
#pragma unroll 16
    for (int r = 0; r < rounds; ++r) v = fmaf(v, 0.999f, 0.001f);
    dst[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

extern "C" __global__ void fma_wide(float *dst, int rounds) {
    float v[8];
    for (int k = 0; k < 8; ++k) v[k] = threadIdx.x * 1e-3f + k;
#pragma unroll 4
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] = fmaf(v[k], 0.999f, 0.001f);
    dst[blockIdx.x * blockDim.x + threadIdx.x] = v[0] + v[1] + v[2] + v[3] + v[4] + v[5] + v[6] + v[7];
}

extern "C" __global__ void horner_double(double *data, int n, int terms) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = data[i], v = 1.0;
    for (int k = terms; k > 0; --k) v = fma(v, x, 1.0 / k);
    data[i] = v;
}

extern "C" __global__ void special_mix(float *dst, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = src[i], sum = 0.0f;
#pragma unroll 4
    for (int k = 1; k <= 16; ++k) sum += __sinf(v * k) + __expf(-v * k) + rsqrtf(v + k);
    dst[i] = sum;
}

extern "C" __global__ void horner_half(__half2 *data, int n, int terms) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half2 x = data[i], v = __float2half2_rn(0.5f), c = __float2half2_rn(0.25f);
    for (int k = 0; k < terms; ++k) v = __hfma2(v, x, c);
    data[i] = v;
}

extern "C" __global__ void remainders(unsigned long long *dst, const unsigned long long *a, const unsigned *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = a[i] % b[i] + (unsigned)a[i] / b[i];
}

// A long loop body (butterflies over 32 values in registers), so that instructions come from beyond the first cache.
extern "C" __global__ void long_bodies(float *dst, const float *src, int rounds) {
    float v[32];
    int t = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
#pragma unroll
    for (int k = 0; k < 32; ++k) v[k] = src[k * threads + t];
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int d = 16; d; d /= 2)
#pragma unroll
            for (int k = 0; k < 32; ++k)
                if ((k & d) == 0) {
                    float a = v[k], b = v[k + d];
                    v[k] = 0.7f * (a + b);
                    v[k + d] = 0.7f * (a - b);
                }
    }
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 32; ++k) sum += v[k] * (k + 1);
    dst[t] = sum;
}
