// A loop of 128 FFMAs whose operands, reuse flags and control bits patch.py rewrites in the machine code.
// Sixteen accumulators give it eight even and eight odd registers to choose from; values do not matter, cycles do.
#include "common.cuh"
extern "C" __global__ void bank(u32* out, float a, float b, int n) {
    float s[16];
    u32 t0, t1;
    a += threadIdx.x * 0.0f;
    b += threadIdx.x * 0.0f;
#pragma unroll
    for (int i = 0; i < 16; i++) s[i] = threadIdx.x + i;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < 128; u++) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(s[u % 16]) : "f"(a), "f"(b));
        }
        t1 = clk();
    }
    report(out, t0, t1);
    float f = 0;
#pragma unroll
    for (int i = 0; i < 16; i++) f += s[i];
    out[SINK + blockIdx.x * blockDim.x + threadIdx.x] = __float_as_uint(f);
}
