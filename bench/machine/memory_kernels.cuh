// Shared by microbenchmarks of memory: the clocks, a hash for random words, and a beginning that all blocks have in common.
#pragma once
using u32 = unsigned;
using u64 = unsigned long long;

// Cycles of the SM.
__device__ __forceinline__ u32 now() {
    u32 clock;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(clock)::"memory");
    return clock;
}

__device__ __forceinline__ u64 wall_ns() {
    u64 t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

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
