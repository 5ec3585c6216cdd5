// Shared by microbenchmarks of memory: a hash for random words, and a beginning that all blocks have in common.
#pragma once
#include "clocks.cuh"

__device__ __forceinline__ u32 mixed(u32 x) {
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    return x ^ (x >> 16);
}

// Blocks begin together, 4,000 cycles after the last of them (`target` is their number) has come; returns the cycle.
__device__ __forceinline__ u32 begin_together(u32* arrived, u32 target) {
    __shared__ u32 started;
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1);
        while (*(volatile u32*)arrived < target) {}
        u32 begin = now();
        while (now() - begin < 4000) {}
        started = now();
    }
    __syncthreads();
    return *(volatile u32*)&started;  // waits for the barrier, which a read of the clock does not
}

// Ends the times of accesses with those after the last one and after a fence; the first lane stores them after the cycle of the beginning.
template <int WORDS> __device__ __forceinline__ void store_times(u32* out, u32 warp, u32 lane, u32 begin, u32 (&times)[WORDS]) {
    times[WORDS - 2] = now();
    __threadfence();
    times[WORDS - 1] = now();
    if (lane) return;
    out += (blockIdx.x * 32 + warp) * (WORDS + 1);
    *out = begin;
#pragma unroll
    for (int i = 0; i < WORDS; i++) out[i + 1] = times[i];
}
