// How far the stores and additions of an SM run ahead of L2: when each one issues, and when a fence after the last finds all of them done.
#include "memory_kernels.cuh"

#define TURNS 16

enum Kind { WORDS, FOURS, STRIDED, SCATTERED, LONELY, ADDS, ADDS_SCATTERED, ADDS_LONELY };

template <int KIND> __device__ __forceinline__ void access(char* to, u32 value) {
    if (KIND == FOURS)
        asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(to), "r"(value) : "memory");
    else if (KIND == ADDS || KIND == ADDS_SCATTERED || KIND == ADDS_LONELY)
        asm volatile("red.global.add.u32 [%0], 1;" ::"l"(to) : "memory");
    else
        asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

// Where the TURNS accesses of a round go.  last: size of the memory in bytes, a power of two, minus 1.
template <int KIND> __device__ __forceinline__ void addresses(u32* at, u32 round, u32 last) {
    constexpr bool spread = KIND == SCATTERED || KIND == LONELY || KIND == ADDS_SCATTERED || KIND == ADDS_LONELY;
    constexpr u32 size = KIND == FOURS ? 16 : KIND == STRIDED ? 32 : 4;
    u32 threads = gridDim.x * blockDim.x, number = blockIdx.x * blockDim.x + threadIdx.x + round * TURNS * threads;
#pragma unroll
    for (int i = 0; i < TURNS; i++, number += threads) at[i] = (spread ? mixed(number) * 4 : number * size) & last;
}

// Blocks of 32 warps, one per SM, begin together.  Of `sms` SMs `warps` warps each make `rounds` rounds of TURNS accesses, without waiting, then a fence.
// out, TURNS + 3 words per warp: the cycle of the beginning, before each access of the last round, after the last, and after the fence.
template <int KIND> __device__ __forceinline__ void accesses(u32* out, u32* arrived, char* data, u32 last, u32 target, int sms, int warps, int rounds, u32 first) {
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, times[TURNS + 2], at[TURNS];
    addresses<KIND>(at, first, last);
    u32 begin = begin_together(arrived, target);
    if ((int)blockIdx.x >= sms || (int)warp >= warps) return;
    if ((KIND == LONELY || KIND == ADDS_LONELY) && lane) return;
#pragma unroll 1
    for (int round = 1; round < rounds; round++) {
#pragma unroll
        for (int i = 0; i < TURNS; i++) access<KIND>(data + at[i], begin);
        addresses<KIND>(at, first + round, last);
    }
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        times[i] = now();
        access<KIND>(data + at[i], begin);
    }
    store_times(out, warp, lane, begin, times);
}

#define ACCESSES(name, kind)                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(1024, 1) name(u32* out, u32* arrived, char* data, u32 last, u32 target, int sms, int warps,      \
                                                               int rounds, u32 first) {                                                         \
        accesses<kind>(out, arrived, data, last, target, sms, warps, rounds, first);                                                            \
    }
ACCESSES(words, WORDS)
ACCESSES(fours, FOURS)
ACCESSES(strided, STRIDED)
ACCESSES(scattered, SCATTERED)
ACCESSES(lonely, LONELY)
ACCESSES(adds, ADDS)
ACCESSES(adds_scattered, ADDS_SCATTERED)
ACCESSES(adds_lonely, ADDS_LONELY)

// Reads `count` times 16 bytes, so that L2 has them.
extern "C" __global__ void sweep(u32* out, const uint4* data, u32 count) {
    u32 sum = 0;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        uint4 v = __ldcg(data + i);
        sum += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 0x9e3779b9) out[0] = sum;
}
