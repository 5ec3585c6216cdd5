// 320 slots of straight-line code between two clock reads, of the last 160 of which sequences.py replaces the machine code; 96 accumulators are
// registers that it may use.  Values do not matter, cycles do.
#include "common.cuh"
extern "C" __global__ void __launch_bounds__(512, 1) slots(u32* out, float a, float b) {
    float s[80];
    u32 t0 = 0, t1 = 0;
#pragma unroll
    for (int i = 0; i < 80; i++) s[i] = threadIdx.x + a * i;
#pragma unroll 1
    for (int pass = 0; pass < 3; pass++) {
        settle();
        t0 = clk();
#pragma unroll
        for (int u = 0; u < 320; u++) asm volatile("fma.rn.f32 %0, %0, %1, %0;" : "+f"(s[u % 80]) : "f"(b));
        t1 = clk();
    }
    report(out, t0, t1);
    float f = 0;
#pragma unroll
    for (int i = 0; i < 80; i++) f += s[i];
    out[SINK + blockIdx.x * blockDim.x + threadIdx.x] = __float_as_uint(f);
}
