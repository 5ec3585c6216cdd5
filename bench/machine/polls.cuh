// Shared by microbenchmarks of warps that poll words: a load and a store that go to L2.
#pragma once
#include "clocks.cuh"

__device__ __forceinline__ u32 poll(const void* at) {
    u32 value;
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

__device__ __forceinline__ void store(void* at, u32 value) {
    asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
