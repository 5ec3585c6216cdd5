// Kernels whose launches are profiled one by one: blocks that only wait, streams that end at once or after a wait, and stores of words at random places and at strides.
#include "memory_kernels.cuh"

__device__ __forceinline__ void wait_cycles(int cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
}

extern "C" __global__ void waits(int cycles) { wait_cycles(cycles); }

extern "C" __global__ void waits_and_stores(u32* out, int cycles) {
    wait_cycles(cycles);
    out[blockIdx.x * blockDim.x + threadIdx.x] = cycles;
}

template <bool READS, bool WRITES> __device__ __forceinline__ void stream(uint4* dst, const uint4* src, u32 count, int tail) {
    u32 sum = 0;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        uint4 v = READS ? src[i] : make_uint4(i, i, i, i);
        if (WRITES) dst[i] = v;
        sum += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (READS && sum == 0x12345678) dst[0] = make_uint4(sum, 0, 0, 0);
    if (tail) {
        __syncthreads();
        wait_cycles(tail);
    }
}
extern "C" __global__ void reads(uint4* dst, const uint4* src, u32 count, int tail) { stream<true, false>(dst, src, count, tail); }
extern "C" __global__ void writes(uint4* dst, const uint4* src, u32 count, int tail) { stream<false, true>(dst, src, count, tail); }
extern "C" __global__ void copies(uint4* dst, const uint4* src, u32 count, int tail) { stream<true, true>(dst, src, count, tail); }

// Each thread stores one word at a random place among `words` words.
extern "C" __global__ void words(u32* dst, u32 count, u32 words) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) dst[(u32)(((u64)mixed(i) * words) >> 32)] = i;
}

// The same in permuted order, so that no word is stored twice; `words` is a power of two.
extern "C" __global__ void permuted(u32* dst, u32 count, u32 words) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x, at = i;
    for (int k = 0; k < 3; k++) {
        at = (at * 0x9e3779b1u + 0x7f4a7c15u) & (words - 1);
        at ^= at >> 9;
    }
    if (i < count) dst[at] = i;
}

// Thread i stores word i * stride.
extern "C" __global__ void strided(u32* dst, u32 count, u32 stride) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) dst[i * stride] = i;
}
