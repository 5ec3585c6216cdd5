// Asynchronous copies into shared memory (cp.async from sm_80 on, ordinary loads and stores on sm_70).
#include <cuda_pipeline.h>

extern "C" __global__ void async_reverse(float4 *dst, const float4 *src) {
    __shared__ float4 tile[128];
    int base = blockIdx.x * 128, t = threadIdx.x;
    __pipeline_memcpy_async(&tile[t], &src[base + t], sizeof(float4));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    dst[base + t] = tile[127 - t];
}

// Two stages: one tile is summed up while the next is on its way, in pieces of 4, 8 and 16 bytes.
extern "C" __global__ void async_double_buffer(int *dst, const int *src, int tiles) {
    __shared__ __align__(16) int buffer[2][256];
    int t = threadIdx.x, sum = 0;
    const int *mine = src + blockIdx.x * tiles * 256;
    __pipeline_memcpy_async(&buffer[0][4 * t], &mine[4 * t], 16);
    __pipeline_commit();
    for (int k = 0; k < tiles; ++k) {
        if (k + 1 < tiles) {
            int *to = buffer[(k + 1) & 1];
            const int *from = mine + (k + 1) * 256;
            if (k & 1) {
                __pipeline_memcpy_async(&to[4 * t], &from[4 * t], 16);
            } else {
                __pipeline_memcpy_async(&to[2 * t], &from[2 * t], 8);
                __pipeline_memcpy_async(&to[128 + t], &from[128 + t], 4);
                __pipeline_memcpy_async(&to[192 + t], &from[192 + t], 4);
            }
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        int *now = buffer[k & 1];
        for (int j = 0; j < 4; ++j) sum = sum * 3 + now[(64 * j + 63 - t)];
        __syncthreads();
    }
    dst[blockIdx.x * 64 + t] = sum;
}

// PTX cp.async.cg, which passes L1 by, and a copy that fills the rest of its piece with zeros.
extern "C" __global__ void async_zero_fill(float *dst, const float *src, int n) {
    __shared__ __align__(16) float tile[256];
    int t = threadIdx.x, first = blockIdx.x * 256 + 4 * t;
    int valid = min(max(n - first, 0), 4) * 4;
#if __CUDA_ARCH__ >= 800
    unsigned to = (unsigned)__cvta_generic_to_shared(&tile[4 * t]);
    const float *from = valid ? src + first : src;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
#else
    for (int k = 0; k < 4; ++k) tile[4 * t + k] = 4 * k < valid ? src[first + k] : 0.0f;
#endif
    __syncthreads();
    for (int k = 0; k < 4; ++k) dst[blockIdx.x * 256 + k * 64 + t] = tile[(k * 64 + t) ^ 5];
}
