// Straight-line loop bodies of 64 to 16384 FFMAs (16 bytes each: 1 KiB to 256 KiB): cycles per instruction by footprint.
// Four independent chains, so that a warp could issue every cycle. Runs with 1 to 16 warps; `cold` is the first pass.
#include "common.cuh"
#define F4 asm volatile("fma.rn.f32 %0,%0,%4,%5; fma.rn.f32 %1,%1,%4,%5; fma.rn.f32 %2,%2,%4,%5; fma.rn.f32 %3,%3,%4,%5;" \
                        : "+f"(w), "+f"(x), "+f"(y), "+f"(z) : "f"(a), "f"(b));
#define F16 F4 F4 F4 F4
#define F64 F16 F16 F16 F16
#define F256 F64 F64 F64 F64
#define F1024 F256 F256 F256 F256
#define F4096 F1024 F1024 F1024 F1024
#define BODY(NAME, CODE)                                                                        \
    extern "C" __global__ void NAME(u32* out, float a, float b, int n) {                         \
        float w = threadIdx.x, x = w + 1, y = w + 2, z = w + 3;                                  \
        u32 t0, t1, c0, c1;                                                                     \
        c0 = clk();                                                                             \
        t0 = c0;                                                                                \
        c1 = c0;                                                                                \
        _Pragma("unroll 1") for (int i = 0; i <= n; i++) {                                       \
            CODE                                                                                \
            t1 = clk();                                                                         \
            if (i == 0) { c1 = t1; settle(); t0 = clk(); }                                \
        }                                                                                       \
        report(out, t0, t1);                                                                    \
        report(out + 256, c0, c1);                                                              \
        out[SINK + blockIdx.x * blockDim.x + threadIdx.x] = __float_as_uint(w + x + y + z);      \
    }
BODY(icache_64, F64)
BODY(icache_128, F64 F64)
BODY(icache_256, F256)
BODY(icache_384, F256 F64 F64)
BODY(icache_512, F256 F256)
BODY(icache_640, F256 F256 F64 F64)
BODY(icache_768, F256 F256 F256)
BODY(icache_896, F256 F256 F256 F64 F64)
BODY(icache_1024, F1024)
BODY(icache_1280, F1024 F256)
BODY(icache_1536, F1024 F256 F256)
BODY(icache_1792, F1024 F256 F256 F256)
BODY(icache_2048, F1024 F1024)
BODY(icache_2560, F1024 F1024 F256 F256)
BODY(icache_3072, F1024 F1024 F1024)
BODY(icache_4096, F4096)
BODY(icache_5120, F4096 F1024)
BODY(icache_6144, F4096 F1024 F1024)
BODY(icache_7168, F4096 F1024 F1024 F1024)
BODY(icache_8192, F4096 F4096)
BODY(icache_8704, F4096 F4096 F256 F256)
BODY(icache_9216, F4096 F4096 F1024)
BODY(icache_9728, F4096 F4096 F1024 F256 F256)
BODY(icache_10240, F4096 F4096 F1024 F1024)
BODY(icache_12288, F4096 F4096 F4096)
BODY(icache_16384, F4096 F4096 F4096 F4096)
