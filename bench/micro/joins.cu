// Which stores of a few warps leave an SM together, counted by a profiler: bursts that begin when everything before has left.
#include "common.cuh"
extern __shared__ u32 smem[];

__device__ __forceinline__ void pause(u32 cycles) {
    u32 t0 = clk();
    while (clk() - t0 < cycles);
}
template <class TYPE>
__device__ __forceinline__ void put(char* at, u32 value) {
    if (sizeof(TYPE) == 1) asm volatile("st.global.u8 [%0], %1;" ::"l"(at), "r"(value) : "memory");
    if (sizeof(TYPE) == 2) asm volatile("st.global.u16 [%0], %1;" ::"l"(at), "h"((unsigned short)value) : "memory");
    if (sizeof(TYPE) == 4) asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
    if (sizeof(TYPE) == 8) asm volatile("st.global.u64 [%0], %1;" ::"l"(at), "l"((u64)value) : "memory");
}

// A burst is a row of steps: `Put<group, word>` stores a word of each thread's structure of a group of lines (structures lie `stride` bytes apart, groups 16 KiB), `Wait<n>`
// is n dependent products, four cycles each, whose result the next store takes.
template <int GROUP, int WORD>
struct Put {
    static __device__ __forceinline__ void run(char* p, float& x) { put<u32>(p + GROUP * 16384 + WORD * 4, __float_as_uint(x)); }
};
template <int TURNS>
struct Wait {
    static __device__ __forceinline__ void run(char*, float& x) {
        if (TURNS) x = __uint_as_float(clk());  // else the products begin before the stores in front of them
#pragma unroll
        for (int i = 0; i < TURNS; i++) asm volatile("fma.rn.f32 %0, %0, %0, 1.0;" : "+f"(x));
    }
};
template <int FIRST, int COUNT>
struct Others {
    static __device__ __forceinline__ void run(char* p, float& x) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) put<u32>(p + (FIRST + i) * 16384, __float_as_uint(x));
    }
};
template <class... STEPS>
__device__ __forceinline__ void bursts(u32* out, char* base, int rounds, u32 stride) {
    char* p = base + (threadIdx.x >> 5) * (2 << 20) + lane() * stride;
    float x = threadIdx.x;
    u32 spent = 0;
#pragma unroll 1
    for (int r = 0; r < rounds; r++) {
        pause(1500);
        u32 t0 = clk();
        (STEPS::run(p, x), ...);
        spent += clk() - t0;
        p += 32 * stride;
    }
    if (lane() == 0) out[threadIdx.x >> 5] = spent;
}
#define STEPS_OF(NAME, ...) \
    extern "C" __global__ void NAME(u32* out, char* base, int rounds, u32 stride) { bursts<__VA_ARGS__>(out, base, rounds, stride); }
#define A Put<0, 0>
#define A1 Put<0, 1>
#define WAITS(N)                                                   \
    STEPS_OF(alone_##N, A, Wait<N>, A1)                            \
    STEPS_OF(one_##N, A, Others<1, 1>, Wait<N>, A1)                \
    STEPS_OF(before_##N, A, Wait<N>, Others<1, 1>, A1)             \
    STEPS_OF(two_##N, A, Others<1, 2>, Wait<N>, A1)                \
    STEPS_OF(three_##N, A, Others<1, 3>, Wait<N>, A1)              \
    STEPS_OF(behind_##N, Others<8, 12>, A, Wait<N>, A1)            \
    STEPS_OF(behind_one_##N, Others<8, 12>, A, Others<1, 1>, Wait<N>, A1) \
    STEPS_OF(behind_three_##N, Others<8, 12>, A, Others<1, 3>, Wait<N>, A1)
WAITS(0)
WAITS(1)
WAITS(2)
WAITS(3)
WAITS(4)
WAITS(5)
WAITS(6)
WAITS(7)
WAITS(8)
WAITS(10)
WAITS(12)
WAITS(16)

// Each thread of the warps in `mask` stores COUNT neighbouring elements; threads lie `stride` bytes apart, warps 32 strides.
template <class TYPE, int COUNT>
__device__ __forceinline__ void together(u32* out, char* base, int rounds, u32 stride, u32 mask) {
    u32 warp = threadIdx.x >> 5;
    char* p = base + threadIdx.x * (u64)stride;
    u32 spent = 0;
#pragma unroll 1
    for (int r = 0; r < rounds; r++) {
        pause(1500);
        __syncthreads();
        if (mask >> warp & 1) {
            u32 t0 = clk();
#pragma unroll
            for (int k = 0; k < COUNT; k++) put<TYPE>(p + k * sizeof(TYPE), r);
            spent += clk() - t0;
            asm volatile("bar.warp.sync -1;");  // keeps the branch
        }
        p += blockDim.x * stride;
    }
    if (lane() == 0) out[warp] = spent;
}
#define TOGETHER(NAME, TYPE, COUNT)                                                                        \
    extern "C" __global__ void NAME(u32* out, char* base, int rounds, u32 stride, u32 mask) {      \
        together<TYPE, COUNT>(out, base, rounds, stride, mask);                                        \
    }
TOGETHER(together_1x2, unsigned char, 2)
TOGETHER(together_1x4, unsigned char, 4)
TOGETHER(together_1x8, unsigned char, 8)
TOGETHER(together_2x4, unsigned short, 4)
TOGETHER(together_2x8, unsigned short, 8)
TOGETHER(together_4x2, u32, 2)
TOGETHER(together_4x4, u32, 4)
TOGETHER(together_4x8, u32, 8)
TOGETHER(together_8x2, u64, 2)
TOGETHER(together_8x4, u64, 4)

// When stores issue while the unit is behind: each warp fills three structures of COUNT elements a thread without a pause and keeps the clock
// before each store and after the last. out[warp * 32 + k]. Threads lie `stride` bytes apart.
template <class TYPE, int COUNT>
__device__ __forceinline__ void times(u32* out, char* base, u32 stride, u32 round_step) {
    char* p = base + threadIdx.x * stride;
    u32 t[3 * COUNT + 1];
#pragma unroll 1
    for (int turn = 0; turn < 2; turn++) {
        pause(3000);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < 3; r++)
#pragma unroll
            for (int k = 0; k < COUNT; k++) {
                t[r * COUNT + k] = clk();
                put<TYPE>(p + r * round_step + k * sizeof(TYPE), turn);
            }
        t[3 * COUNT] = clk();
        p += 3 * round_step;
    }
    if (lane() == 0)
#pragma unroll
        for (int i = 0; i <= 3 * COUNT; i++) out[(threadIdx.x >> 5) * 32 + i] = t[i];
}
#define TIMES(NAME, TYPE, COUNT) \
    extern "C" __global__ void NAME(u32* out, char* base, u32 stride, u32 round_step) { times<TYPE, COUNT>(out, base, stride, round_step); }
TIMES(times_1x4, unsigned char, 4)
TIMES(times_4x4, u32, 4)
TIMES(times_4x8, u32, 8)
TIMES(times_2x8, unsigned short, 8)

// One warp, alone in its sub-core, loads words of shared memory (kind 0) or of a line of L1 (1) one after the other, and keeps its clock before each, while
// the warps of the other three sub-cores store without a pause, threads `stride` bytes apart: who waits for stores that wait. out[k], 64 of them.
extern "C" __global__ void held_up(u32* out, char* base, u32 stride, u32 step, int stores, int kind) {
    u32 warp = threadIdx.x >> 5, at = lane() * 4, t[65];
    smem[threadIdx.x] = 0;
    char* own = base + (16 << 20);
    u32 v = *(volatile u32*)(own + at);
    for (int turn = 0; turn < 2; turn++) {
        pause(3000);
        __syncthreads();
        if (warp & 3) {
            char* p = base + (u64)(turn * (blockDim.x >> 5) + warp) * stores * step + lane() * stride;
#pragma unroll 4
            for (int k = 0; k < stores; k++) put<u32>(p + k * (u64)step, k);
        } else if (warp == 0) {
#pragma unroll
            for (int k = 0; k < 64; k++) {
                t[k] = clk();
                if (kind) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(own + at + v) : "memory");
                else asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v) : "r"(at + v) : "memory");
            }
            t[64] = clk() + v;
        }
    }
    if (threadIdx.x == 0)
#pragma unroll
        for (int i = 0; i <= 64; i++) out[i] = t[i];
}

// Warps that each load a word of DRAM, take special functions of it and fill 16 bytes a thread: with `STAMPS` the SM, and the clock at the start, when the word is
// there and behind each store. out[warp * 8 + k].
template <bool STAMPS>
__device__ __forceinline__ void fill_waves(u32* out, char* to, const float* from) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x, t[6];
    if (STAMPS) t[0] = clk();
    float x = from[i];
    if (STAMPS) {
        if (x == 77.0f) t[0] = 0;
        t[1] = clk();
    }
    float y = fabsf(x) + 0.5f, log, sine, half, root, power, least;
    char* p = to + (u64)i * 16;
    asm volatile("lg2.approx.ftz.f32 %0, %1;" : "=f"(log) : "f"(y));
    put<u32>(p + 12, __float_as_uint(x * 1e-30f));
    if (STAMPS) t[2] = clk();
    asm volatile("sin.approx.ftz.f32 %0, %1;" : "=f"(sine) : "f"(x));
    asm volatile("rcp.approx.ftz.f32 %0, %1;" : "=f"(half) : "f"(y));
    asm volatile("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(y));
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(least) : "f"(-y));
    put<u32>(p, __float_as_uint(sine * half));
    if (STAMPS) t[3] = clk();
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(log));
    put<u32>(p + 4, __float_as_uint(root + least));
    if (STAMPS) t[4] = clk();
    put<u32>(p + 8, __float_as_uint(power));
    if (STAMPS) {
        t[5] = clk();
        if (lane() == 0) {
            uint4* mine = (uint4*)(out + (i >> 5) * 8);
            mine[0] = make_uint4(smid(), t[0], t[1], t[2]);
            mine[1] = make_uint4(t[3], t[4], t[5], 0);
        }
    }
}
extern "C" __global__ void waves(u32* out, char* to, const float* from) { fill_waves<true>(out, to, from); }
extern "C" __global__ void waves_plain(u32* out, char* to, const float* from) { fill_waves<false>(out, to, from); }
