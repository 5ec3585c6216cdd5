// Stores: how L1 and L2 join them, by counters of a profiler (`rejoin`), and what partial and strided ones cost.
#include "common.cuh"
extern __shared__ u32 smem[];

// One warp: for each of `groups` groups it stores one word of each sector of a line, then `between` other whole lines, waits `gap`
// cycles, and stores the next word of the same sectors; `words` times. What L2 counts tells which stores were joined.
extern "C" __global__ void rejoin(char* base, int groups, int words, int between, u32 gap) {
    char* mine = base + (lane() & 3) * 32;
    char* others = base + (16 << 20);
    u32 other = 0;
    for (int g = 0; g < groups; g++)
        for (int w = 0; w < words; w++) {
            if (lane() < 4) *(volatile u32*)(mine + g * 128 + w * 4) = w;
            for (int k = 0; k < between; k++) *(volatile u32*)(others + (other++) * 128 + lane() * 4) = k;
            u32 t0 = clk();
            while (clk() - t0 < gap);
        }
}
// The same without volatile, as compiled code stores: `words` stores to one sector, `between` whole lines after each.
extern "C" __global__ void rejoin_weak(char* base, int groups, int words, int between, u32 gap) {
    char* mine = base + (lane() & 3) * 32;
    char* others = base + (16 << 20);
    u32 other = 0;
    for (int g = 0; g < groups; g++)
        for (int w = 0; w < words; w++) {
            if (lane() < 4) asm volatile("st.global.u32 [%0], %1;" ::"l"(mine + g * 128 + w * 4), "r"(w));
            for (int k = 0; k < between; k++)
                asm volatile("st.global.u32 [%0], %1;" ::"l"(others + (other++) * 128 + lane() * 4), "r"(k));
            u32 t0 = clk();
            while (clk() - t0 < gap);
        }
}
// Every thread stores `n` elements of WIDTH bytes, `step` bytes apart between threads and `far` between its own.
#define STRIDED(NAME, TYPE)                                                                                 \
    extern "C" __global__ void NAME(u64* out, char* base, u64 step, u64 far, int n) {                        \
        u64 g0 = wall_ns();                                                                                \
        char* p = base + (blockIdx.x * (u64)blockDim.x + threadIdx.x) * step;                              \
        for (int i = 0; i < n; i++) *(TYPE*)(p + i * far) = (TYPE)i;                                       \
        __syncthreads();                                                                                   \
        if (threadIdx.x == 0) {                                                                            \
            out[2 * blockIdx.x] = g0;                                                                      \
            out[2 * blockIdx.x + 1] = wall_ns();                                                           \
        }                                                                                                  \
    }
STRIDED(strided1, unsigned char)
STRIDED(strided4, u32)
STRIDED(strided8, u64)

// Local memory with indices that differ between lanes: `spread` 0: the same index in all lanes, else lane-dependent.
extern "C" __global__ void local_walk(u32* out, int rounds, u32 spread, u32 seed) {
    u32 values[32];
    for (int k = 0; k < 32; k++) values[k] = seed + k;
    u32 at = lane() * spread, t0, t1;
    for (int pass = 0; pass < 2; pass++) {
        t0 = clk();
#pragma unroll 1
        for (int r = 0; r < rounds; r++) at = (at + values[at & 31] + 1) & 31;
        smem[threadIdx.x] = at;
        t1 = clk();
    }
    report(out, t0, t1);
    if (at == 77) out[SINK] = values[seed & 31];
}
extern "C" __global__ void local_swap(u32* out, int rounds, u32 spread, u32 seed) {
    u32 values[32];
    for (int k = 0; k < 32; k++) values[k] = seed + k;
    u32 at = lane() * spread, t0, t1;
    for (int pass = 0; pass < 2; pass++) {
        t0 = clk();
#pragma unroll 1
        for (int r = 0; r < rounds; r++) {
            at = at * 5 + 1;
            values[(at >> 3) & 31] = r;
        }
        smem[threadIdx.x] = values[at & 31];
        t1 = clk();
    }
    report(out, t0, t1);
    if (at == 77) out[SINK] = values[seed & 31];
}

// Each thread fills 16 bytes with four stores of a word, one after the other, `apart` whole-line stores of its warp to elsewhere
// between them; rounds go on to fresh lines. Stores of one instruction cover a half of each sector's words.
extern "C" __global__ void fill_words(u32* out, char* base, int rounds, int apart, u64 round_step) {
    u64 thread = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    char* p = base + thread * 16;
    char* q = base + (128ull << 20) + (thread >> 5) * 128 * apart * 4 + lane() * 4;
    u32 t0, t1;
    settle();
    t0 = clk();
#pragma unroll 1
    for (int r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            asm volatile("st.global.u32 [%0], %1;" ::"l"(p + k * 4), "r"(r) : "memory");
#pragma unroll 1
            for (int a = 0; a < apart; a++)
                asm volatile("st.global.u32 [%0], %1;" ::"l"(q + (k * apart + a) * 128), "r"(r) : "memory");
        }
        p += round_step;
        q += round_step;
    }
    asm volatile("membar.gl;" ::: "memory");
    __syncthreads();
    t1 = clk();
    report(out, t0, t1);
}

// As compiled code writes a structure: each thread fills COUNT elements of TYPE of its own with neighbouring stores, `idle` turns of
// arithmetic between rounds; rounds go on to fresh lines.
template <class TYPE>
__device__ __forceinline__ void put(char* at, u32 value) {
    if (sizeof(TYPE) == 1) asm volatile("st.global.u8 [%0], %1;" ::"l"(at), "r"(value) : "memory");
    if (sizeof(TYPE) == 2) asm volatile("st.global.u16 [%0], %1;" ::"l"(at), "h"((unsigned short)value) : "memory");
    if (sizeof(TYPE) == 4) asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
    if (sizeof(TYPE) == 8) asm volatile("st.global.u64 [%0], %1;" ::"l"(at), "l"((u64)value) : "memory");
}
template <class TYPE, int COUNT>
__device__ __forceinline__ void fill_structure(u32* out, char* base, int rounds, u64 round_step, int idle) {
    u64 thread = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    char* p = base + thread * (sizeof(TYPE) * COUNT);
    float x = threadIdx.x;
    settle();
    u32 t0 = clk();
#pragma unroll 1
    for (int r = 0; r < rounds; r++) {
#pragma unroll 1
        for (int i = 0; i < idle; i++) asm volatile("fma.rn.f32 %0, %0, %0, 1.0;" : "+f"(x));
#pragma unroll
        for (int k = 0; k < COUNT; k++) put<TYPE>(p + k * sizeof(TYPE), r + (x == 0.5f));
        p += round_step;
    }
    asm volatile("membar.gl;" ::: "memory");
    __syncthreads();
    u32 t1 = clk();
    report(out, t0, t1);
}
#define STRUCTURE(NAME, TYPE, COUNT)                                                                   \
    extern "C" __global__ void NAME(u32* out, char* base, int rounds, u64 round_step, int idle) {      \
        fill_structure<TYPE, COUNT>(out, base, rounds, round_step, idle);                              \
    }
// The same with `pace` dependent products before each store of a thread.
extern "C" __global__ void paced_4x4(u32* out, char* base, int rounds, u64 round_step, int pace) {
    u64 thread = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    char* p = base + thread * 16;
    float x = threadIdx.x;
    settle();
    u32 t0 = clk();
#pragma unroll 1
    for (int r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
#pragma unroll 1
            for (int i = 0; i < pace; i++) asm volatile("fma.rn.f32 %0, %0, %0, 1.0;" : "+f"(x));
            put<u32>(p + k * 4, r + (x == 0.5f));
        }
        p += round_step;
    }
    asm volatile("membar.gl;" ::: "memory");
    __syncthreads();
    u32 t1 = clk();
    report(out, t0, t1);
}
STRUCTURE(fill_1x4, unsigned char, 4)
STRUCTURE(fill_2x2, unsigned short, 2)
STRUCTURE(fill_2x8, unsigned short, 8)
STRUCTURE(fill_4x2, u32, 2)
STRUCTURE(fill_4x4, u32, 4)
STRUCTURE(fill_4x8, u32, 8)
STRUCTURE(fill_8x2, u64, 2)
STRUCTURE(fill_8x4, u64, 4)
