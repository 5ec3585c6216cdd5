// Who of an SM gets code when, and in which order warps of a sub-core issue: straight code by chosen warps in turn, the start of a cold
// launch line by line, and loops of many blocks' warps at once.
#include "common.cuh"

#define F4 asm volatile("fma.rn.f32 %0, %0, %4, %5; fma.rn.f32 %1, %1, %4, %5; fma.rn.f32 %2, %2, %4, %5; fma.rn.f32 %3, %3, %4, %5;" \
    : "+f"(x), "+f"(y), "+f"(z), "+f"(w) : "f"(p), "f"(q));
#define F7 asm volatile("fma.rn.f32 %0, %0, %4, %5; fma.rn.f32 %1, %1, %4, %5; fma.rn.f32 %2, %2, %4, %5; fma.rn.f32 %3, %3, %4, %5; " \
    "fma.rn.f32 %0, %0, %4, %5; fma.rn.f32 %1, %1, %4, %5; fma.rn.f32 %2, %2, %4, %5;" : "+f"(x), "+f"(y), "+f"(z), "+f"(w) : "f"(p), "f"(q));
#define MARKS 24

// The clock behind every line (eight instructions) of 24 lines: a launch's first ones.
extern "C" __global__ void first_lines(u32* out, float p, float q) {
    u32 t[MARKS];
    float x = 1, y = 2, z = 3, w = 4;
#pragma unroll
    for (int k = 0; k < MARKS; k++) {
        t[k] = clk();
        F7
    }
    u32 at = ((blockIdx.x * blockDim.x + threadIdx.x) >> 5) * (MARKS + 1);
    if (lane() == 0) {
#pragma unroll
        for (int k = 0; k < MARKS; k++) out[2 * SINK + at + k] = t[k];
        out[2 * SINK + at + MARKS] = smid();
    }
    if (x + y + z + w == 77.0f) out[SINK] = 1;
}

// In each phase the warps of its mask run the same 48 lines of straight code, the clock behind every second one; a barrier between phases.
// PAD lines that never run lie before them.
#define PHASE_MARKS 24
#define F15 F4 F4 F7
template <int PAD>
__device__ __forceinline__ void turns(u32* out, const u32* who, int phases, float p, float q) {
    u32 warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    float x = 1, y = 2, z = 3, w = 4;
    if (phases < 0) {
#pragma unroll
        for (int k = 0; k < PAD; k++) { F4 F4 }
    }
#pragma unroll 1
    for (int phase = 0; phase < phases; phase++) {
        settle();
        if (who[phase] >> warp & 1) {
            u32 t[PHASE_MARKS];
#pragma unroll
            for (int k = 0; k < PHASE_MARKS; k++) {
                t[k] = clk();
                F15
            }
            u32* to = out + 2 * SINK + ((blockIdx.x * phases + phase) * warps + warp) * PHASE_MARKS;
            if (lane() == 0)
#pragma unroll
                for (int k = 0; k < PHASE_MARKS; k++) to[k] = t[k];
        }
        __syncthreads();
    }
    if (x + y + z + w == 77.0f) out[SINK] = 1;
}
extern "C" __global__ void code_turns(u32* out, const u32* who, int phases, float p, float q) { turns<0>(out, who, phases, p, q); }
extern "C" __global__ void code_turns_far(u32* out, const u32* who, int phases, float p, float q) { turns<768>(out, who, phases, p, q); }

// Each SM waits its own time, then one warp runs 48 lines: those of a launch's first code, or behind 96 KiB.
template <int PAD>
__device__ __forceinline__ void by_sm(u32* out, const u32* delay, float p, float q) {
    float x = 1, y = 2, z = 3, w = 4;
    u32 wait = delay[smid()], t[PHASE_MARKS];
    u32 t0 = clk();
    while (clk() - t0 < wait) {}
    if (wait == 0x7fffffffu) {
#pragma unroll
        for (int k = 0; k < PAD; k++) { F4 F4 }
    }
#pragma unroll
    for (int k = 0; k < PHASE_MARKS; k++) {
        t[k] = clk();
        F15
    }
    if (threadIdx.x == 0)
#pragma unroll
        for (int k = 0; k < PHASE_MARKS; k++) out[2 * SINK + smid() * PHASE_MARKS + k] = t[k] - t[0];
    if (x + y + z + w == 77.0f) out[SINK] = 1;
}
extern "C" __global__ void code_by_sm(u32* out, const u32* delay, float p, float q) { by_sm<0>(out, delay, p, q); }
extern "C" __global__ void code_by_sm_far(u32* out, const u32* delay, float p, float q) { by_sm<768>(out, delay, p, q); }

// Loops of many warps: when each began, where it was after each eighth of its turns, and on which SM.
template <typename BODY>
__device__ __forceinline__ void race(u32* out, int n, BODY body) {
    __shared__ u32 marks[32][9];
    u32 warp = threadIdx.x >> 5, t0 = clk();
#pragma unroll 1
    for (int part = 0; part < 8; part++) {
#pragma unroll 1
        for (int i = 0; i < n; i++) body();
        if (lane() == 0) marks[warp][part] = clk() - t0;
    }
    u32 at = ((blockIdx.x * blockDim.x + threadIdx.x) >> 5) * 10;
    if (lane() == 0) {
        out[2 * SINK + at] = t0;
        out[2 * SINK + at + 9] = smid();
    }
    __syncwarp();
    if (lane() < 8) out[2 * SINK + at + 1 + lane()] = t0 + marks[warp][lane()];
}
#define RACE(NAME, BODY) \
    extern "C" __global__ void NAME(u32* out, int n, float p, float q, u32 r, u32 s) { \
        float x = 1, y = 2, z = 3, w = 4; \
        u32 a = threadIdx.x, b = r, c = s, d = 5; \
        race(out, n, [&]() { BODY }); \
        if (x + y + z + w == 77.0f || a + b + c + d == 77u) out[SINK] = 1; \
    }
#define CHAIN asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(p), "f"(q));
#define ADDS asm volatile("mad.lo.u32 %0, %0, %4, %5; mad.lo.u32 %1, %1, %4, %5; mad.lo.u32 %2, %2, %4, %5; mad.lo.u32 %3, %3, %4, %5;" \
    : "+r"(a), "+r"(b), "+r"(c), "+r"(d) : "r"(r), "r"(s));
RACE(race_wide, F4 F4 F4 F4)
RACE(race_chain, CHAIN CHAIN CHAIN CHAIN CHAIN CHAIN CHAIN CHAIN)
RACE(race_multiply, ADDS ADDS ADDS ADDS)
