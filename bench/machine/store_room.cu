// How many sectors of stores and additions of an SM are in flight while L2 waits for DRAM, and how many stores are joined in the SM while L2 delays them.
#include "memory_kernels.cuh"

#define TURNS 32

// Access number `number` goes to LINES random lines, SECTORS words of each in different sectors.  last: size of the memory in bytes, a power of two, minus 1.
template <int LINES, int SECTORS, bool ADD> __device__ __forceinline__ void access(char* data, u32 number, u32 lane, u32 last) {
    char* to = data + (mixed(number * 32 + lane / SECTORS) * 128 + lane % SECTORS * 32 & last);
    if (lane >= LINES * SECTORS) return;
    if (ADD)
        asm volatile("red.global.add.u32 [%0], 1;" ::"l"(to) : "memory");
    else
        asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(number) : "memory");
}

// Blocks of 32 warps, one per SM, begin together.  On the first `sms` SMs, each warp makes TURNS accesses without waiting, then a fence.
// out, TURNS + 3 words per warp: the cycle of the beginning, before each access, after the last, and after the fence.
template <int LINES, int SECTORS, bool ADD> __device__ __forceinline__ void random_lines(u32* out, u32* arrived, char* data, u32 last, u32 target, int sms, u32 first) {
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, times[TURNS + 2];
    u32 number = first + (blockIdx.x * 32 + warp) * TURNS;
    u32 begin = begin_together(arrived, target);
    if ((int)blockIdx.x >= sms) return;
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        times[i] = now();
        access<LINES, SECTORS, ADD>(data, number + i, lane, last);
    }
    store_times(out, warp, lane, begin, times);
}

#define RANDOM(name, lines, sectors, add)                                                                                                           \
    extern "C" __global__ void __launch_bounds__(1024, 1) name(u32* out, u32* arrived, char* data, u32 last, u32 target, int sms, u32 first) {         \
        random_lines<lines, sectors, add>(out, arrived, data, last, target, sms, first);                                                            \
    }
RANDOM(stores_1x1, 1, 1, false)
RANDOM(stores_1x4, 1, 4, false)
RANDOM(stores_4x1, 4, 1, false)
RANDOM(stores_4x4, 4, 4, false)
RANDOM(stores_8x4, 8, 4, false)
RANDOM(stores_32x1, 32, 1, false)
RANDOM(adds_1x1, 1, 1, true)
RANDOM(adds_4x1, 4, 1, true)
RANDOM(adds_8x4, 8, 4, true)
RANDOM(adds_32x1, 32, 1, true)

// Each thread fills spans of WORDS words with one store per word and `gap` dependent products before each store; out, three words per warp: the cycle at the beginning, after the last store, and after a fence.
template <int WORDS> __device__ __forceinline__ void spans(u32* out, u32* arrived, char* data, u32 last, u32 target, int sms, int rounds, int gap, u32 mib) {
    data += (u64)mib << 20;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 begin = begin_together(arrived, target), value = begin;
    if ((int)blockIdx.x >= sms) return;
    u32 threads = gridDim.x * blockDim.x, number = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
    for (int round = 0; round < rounds; round++, number += threads) {
        char* to = data + (number * (WORDS * 4) & last);
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
#pragma unroll 1
            for (int k = 0; k < gap; k++) value = value * value + 12345;
            asm volatile("st.global.u32 [%0], %1;" ::"l"(to + i * 4), "r"(value) : "memory");
        }
    }
    u32 after = now();
    __threadfence();
    u32 end = now();
    if (lane) return;
    out += (blockIdx.x * 32 + warp) * 3;
    out[0] = begin;
    out[1] = after;
    out[2] = end;
}

#define SPANS(name, words)                                                                                                                            \
    extern "C" __global__ void __launch_bounds__(1024, 1) name(u32* out, u32* arrived, char* data, u32 last, u32 target, int sms, int rounds, int gap, u32 mib) { \
        spans<words>(out, arrived, data, last, target, sms, rounds, gap, mib);                                                                            \
    }
SPANS(spans_1, 1)
SPANS(spans_2, 2)
SPANS(spans_4, 4)
SPANS(spans_8, 8)

// Reads or writes `bytes` bytes of memory, beginning at `mib` MiB.
extern "C" __global__ void touch(u32* out, char* data, u32 bytes, u32 mib, int writes) {
    uint4* to = (uint4*)(data + ((u64)mib << 20));
    u32 sum = 0;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes / 16; i += gridDim.x * blockDim.x) {
        if (writes)
            to[i] = make_uint4(i, i, i, i);
        else
            sum += __ldcg(to + i).x;
    }
    if (sum == 0x9e3779b9) out[0] = sum;
}
