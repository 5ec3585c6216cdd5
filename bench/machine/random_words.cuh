// Shared by microbenchmarks that access words at random: the clock in nanoseconds, and a hash.
#pragma once
using u32 = unsigned;
using u64 = unsigned long long;

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
