// Shared by microbenchmarks: the SM's 32-bit clock, beside the clocks of bench/micro.
#pragma once
#include "../micro/common.cuh"

// Cycles of the SM.
__device__ __forceinline__ u32 now() {
    u32 clock;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(clock)::"memory");
    return clock;
}
