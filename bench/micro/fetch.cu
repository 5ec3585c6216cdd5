// Loops of 16 to 1024 FFMAs with nothing else in them: instructions per cycle by body size and warps.
// Four chains with common operands (reuse flags), so that neither latency nor register ports bind.
#include "common.cuh"
#define F4 asm volatile("fma.rn.f32 %0,%0,%4,%5; fma.rn.f32 %1,%1,%4,%5; fma.rn.f32 %2,%2,%4,%5; fma.rn.f32 %3,%3,%4,%5;" \
                        : "+f"(w), "+f"(x), "+f"(y), "+f"(z) : "f"(a), "f"(b));
#define LOOP(SIZE)                                                                              \
    extern "C" __global__ void fetch_##SIZE(u32* out, float a, float b, int n) {                 \
        float w = threadIdx.x, x = w + 1, y = w + 2, z = w + 3;                                  \
        a += w * 0.0f; b += w * 0.0f;                                                            \
        u32 t0, t1;                                                                             \
        _Pragma("unroll 1") for (int pass = 0; pass < 2; pass++) {                               \
            settle();                                                                           \
            t0 = clk();                                                                         \
            _Pragma("unroll 1") for (int i = 0; i < n; i++) {                                    \
                _Pragma("unroll") for (int u = 0; u < SIZE / 4; u++) F4                          \
            }                                                                                   \
            t1 = clk();                                                                         \
        }                                                                                       \
        report(out, t0, t1);                                                                    \
        out[SINK + blockIdx.x * blockDim.x + threadIdx.x] = __float_as_uint(w + x + y + z);      \
    }
LOOP(16)
LOOP(32)
LOOP(64)
LOOP(128)
LOOP(256)
LOOP(512)
LOOP(1024)
LOOP(2048)
