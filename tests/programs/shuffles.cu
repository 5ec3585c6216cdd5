// Lanes that talk: shuffles of every type and width, votes, matches, reductions, partial masks, odd block sizes.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

template <typename T> __device__ void all_shuffles(T *dst, T value, int n, int i, int lane, int from) {
    dst[i] = __shfl_sync(~0u, value, from);
    dst[n + i] = __shfl_sync(~0u, value, from, 4);
    dst[2 * n + i] = __shfl_up_sync(~0u, value, 3, 8);
    dst[3 * n + i] = __shfl_down_sync(~0u, value, 5, 16);
    dst[4 * n + i] = __shfl_xor_sync(~0u, value, 6);
    dst[5 * n + i] = __shfl_up_sync(~0u, value, (unsigned)from & 15, 16);
    dst[6 * n + i] = __shfl_xor_sync(~0u, value, from & 31, 2);
}

extern "C" __global__ void shuffle_types(unsigned *u, long long *l, float *f, double *d, __half2 *h, const unsigned *src, const int *from, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    unsigned x = src[i];
    all_shuffles<unsigned>(u, x, n, i, lane, from[i]);
    all_shuffles<long long>(l, (long long)x * 0x100000001ll - 5, n, i, lane, from[i]);
    all_shuffles<float>(f, (float)x, n, i, lane, from[i]);
    all_shuffles<double>(d, (double)x / 3, n, i, lane, from[i]);
    all_shuffles<__half2>(h, __floats2half2_rn((float)(x & 1023), (float)lane), n, i, lane, from[i]);
}

extern "C" __global__ void partial_masks(int *dst, const int *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    if (i >= n) return;
    unsigned here = __activemask();
    int value = src[i], result = 0;
    if (value & 1) {
        unsigned mask = __match_any_sync(__activemask(), value >> 4 & 3);
        int leader = __ffs(mask) - 1;
        result = __shfl_sync(mask, value, leader) * 2 + __popc(mask);
        __syncwarp(mask);
        result += __any_sync(mask, lane == 31) + 8 * __all_sync(mask, value > 0);
    } else {
        result = __popc(__activemask() & ((1u << lane) - 1));
    }
    __syncwarp(here);
    int total = result;
    for (int offset = 16; offset; offset >>= 1) {
        int other = __shfl_down_sync(here, total, offset);
        if (lane + offset < 32 && (here >> (lane + offset) & 1)) total += other;
    }
    dst[i] = lane == 0 ? total : result;
}

extern "C" __global__ void match_types(unsigned *dst, int *flags, const long long *wide, const double *real, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int flag;
    dst[i] = __match_any_sync(~0u, wide[i]);
    dst[n + i] = __match_any_sync(~0u, real[i]);
    dst[2 * n + i] = __match_any_sync(~0u, (float)real[i]);
    dst[3 * n + i] = __match_all_sync(~0u, wide[i] >> 60, &flag);
    flags[i] = flag;
    dst[4 * n + i] = __match_all_sync(~0u, real[i / 32 * 32] == real[i] ? 1.0 : (double)(i / 32 % 2), &flag);
    flags[n + i] = flag;
}

// Sum of a column in blocks of a size that is no multiple of 32; the last block is cut short.
extern "C" __global__ void ragged_sum(float *dst, const float *src, int n) {
    __shared__ float part[32];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    float v = i < n ? src[i] : 0.0f;
    unsigned mask = __activemask();
    int lanes = min(32, (int)blockDim.x - (t & ~31));
    for (int offset = 16; offset; offset /= 2) {
        float other = __shfl_down_sync(mask, v, offset);
        if ((t & 31) + offset < lanes) v += other;
    }
    if ((t & 31) == 0) part[t / 32] = v;
    __syncthreads();
    if (t == 0) {
        float s = 0.0f;
        for (int w = 0; w < ((int)blockDim.x + 31) / 32; w++) s += part[w];
        dst[blockIdx.x] = s;
    }
}

extern "C" __global__ void divergent_exit(int *dst, const int *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int steps = src[i];
    for (int k = 0;; k++) {
        unsigned alive = __activemask();
        if (k == steps) {
            dst[i] = k * 100;
            return;
        }
        if (k > 20) break;
        __syncwarp(alive);
        if ((k & 3) == 3 && (src[i] & 1)) continue;
        atomicAdd(&dst[n + i], k);
    }
    __syncwarp(__activemask());
    dst[i] = -1;
}

extern "C" __global__ void lane_registers(unsigned *dst) {
    unsigned i = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x, t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned n = blockDim.x * blockDim.y * blockDim.z, r, at = (i * n + t) * 8;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(r)); dst[at] = r;
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(r)); dst[at + 1] = r;
    asm volatile("mov.u32 %0, %%lanemask_ge;" : "=r"(r)); dst[at + 2] = r;
    asm volatile("mov.u32 %0, %%lanemask_eq;" : "=r"(r)); dst[at + 3] = r;
    asm volatile("mov.u32 %0, %%lanemask_le;" : "=r"(r)); dst[at + 4] = r;
    asm volatile("mov.u32 %0, %%lanemask_gt;" : "=r"(r)); dst[at + 5] = r;
    asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(r)); dst[at + 6] = r;
    asm volatile("mov.u32 %0, %%nctaid.y;" : "=r"(r)); dst[at + 7] = r * 1000 + threadIdx.y * 100 + threadIdx.z;
}
