// The first pass over straight-line code and over constants, with the clock read on the way: how fast a cold SM is fed.
// Launched under Nsight Compute (which empties the caches before a kernel) code comes from DRAM, otherwise from wherever it is.
#include "common.cuh"
#define F4 asm volatile("fma.rn.f32 %0,%0,%4,%5; fma.rn.f32 %1,%1,%4,%5; fma.rn.f32 %2,%2,%4,%5; fma.rn.f32 %3,%3,%4,%5;" \
                        : "+f"(w), "+f"(x), "+f"(y), "+f"(z) : "f"(a), "f"(b));
#define F64 F4 F4 F4 F4 F4 F4 F4 F4 F4 F4 F4 F4 F4 F4 F4 F4
#define MARK(N) F64 t[N] = clk();
#define MARK4(N) MARK(N) MARK(N + 1) MARK(N + 2) MARK(N + 3)
#define MARK16(N) MARK4(N) MARK4(N + 4) MARK4(N + 8) MARK4(N + 12)

// 48 stretches of 64 FFMAs (1 KiB each); out[64 * warp + k] is the clock behind stretch k, k = 0 the start.
extern "C" __global__ void cold_code(u32* out, float a, float b) {
    float w = threadIdx.x, x = w + 1, y = w + 2, z = w + 3;
    u32 t[49];
    t[0] = clk();
    MARK16(1) MARK16(17) MARK16(33)
    u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    if (lane() == 0)
#pragma unroll
        for (int k = 0; k < 49; k++) out[64 * warp + k] = t[k];
    out[SINK * 16 + threadIdx.x] = __float_as_uint(w + x + y + z);
}

__constant__ u32 lines[16000];

// Each of 48 constant lines once, in a loop whose code is warm from the first turn on (the address hangs on the value before).
extern "C" __global__ void cold_constant(u32* out, int bytes) {
    __shared__ u32 t[50];
    const char* base = (const char*)lines;
    u32 p = 0;
#pragma unroll 1
    for (int k = 0; k < 49; k++) {
        t[k] = clk();
        p = *(const u32*)(base + p) + p + bytes;
    }
    __syncwarp();
    for (int k = lane(); k < 49; k += 32) out[k] = t[k];
    out[SINK * 16 + threadIdx.x] = p;
}
