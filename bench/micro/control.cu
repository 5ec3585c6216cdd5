// Control flow: loop branches, branches not taken, divergence and reconvergence, barriers, warp barriers, calls.
#include "common.cuh"

// A loop whose body is BODY dependent FFMAs: cycles of an iteration less the chain = the taken branch.
template <int BODY>
__device__ __forceinline__ void loop(u32* out, float x, float a, float b, int n) {
    u32 t0, t1;
    x += threadIdx.x;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < BODY; u++) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b));
        }
        t1 = clk();
    }
    report(out, t0, t1);
    out[SINK + threadIdx.x] = __float_as_uint(x);
}
extern "C" __global__ void loop1(u32* out, float x, float a, float b, int n) { loop<1>(out, x, a, b, n); }
extern "C" __global__ void loop4(u32* out, float x, float a, float b, int n) { loop<4>(out, x, a, b, n); }
extern "C" __global__ void loop8(u32* out, float x, float a, float b, int n) { loop<8>(out, x, a, b, n); }
extern "C" __global__ void loop16(u32* out, float x, float a, float b, int n) { loop<16>(out, x, a, b, n); }

// 16 forward branches, all taken, over four instructions that store.
extern "C" __global__ void branch_forward(u32* out, float x, float a, float b, int n) {
    u32 t0, t1;
    bool never = n < 0;
    x += threadIdx.x;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < 16; u++) {
                asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b));
                if (never) { out[SINK + u] = u; __nanosleep(10); out[SINK + u + 64] = t0; }
            }
        }
        t1 = clk();
    }
    report(out, t0, t1);
    out[SINK + threadIdx.x] = __float_as_uint(x);
}

// 8 if/else pairs, each side FFMAS dependent FFMAs. `split`: lanes below it take one side; 0 = no divergence.
template <int FFMAS>
__device__ __forceinline__ void ifelse(u32* out, float x, float a, float b, int n, int split) {
    u32 t0, t1;
    int side = (int)lane() < split;
    x += threadIdx.x;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < 8; u++) {
                if (side) {
#pragma unroll
                    for (int v = 0; v < FFMAS; v++) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b));
                } else {
#pragma unroll
                    for (int v = 0; v < FFMAS; v++) asm volatile("fma.rn.f32 %0, %0, %2, %1;" : "+f"(x) : "f"(a), "f"(b));
                }
                __syncwarp();
            }
        }
        t1 = clk();
    }
    report(out, t0, t1);
    out[SINK + threadIdx.x] = __float_as_uint(x);
}
extern "C" __global__ void ifelse8(u32* out, float x, float a, float b, int n, int split) {
    ifelse<8>(out, x, a, b, n, split);
}
extern "C" __global__ void ifelse16(u32* out, float x, float a, float b, int n, int split) {
    ifelse<16>(out, x, a, b, n, split);
}
extern "C" __global__ void ifelse32(u32* out, float x, float a, float b, int n, int split) {
    ifelse<32>(out, x, a, b, n, split);
}

// Barriers back to back.
extern "C" __global__ void bar_sync(u32* out, float x, float a, float b, int n) {
    u32 t0, t1;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < 16; u++) asm volatile("bar.sync 0;" ::: "memory");
        }
        t1 = clk();
    }
    report(out, t0, t1);
}
extern "C" __global__ void warp_sync(u32* out, float x, float a, float b, int n) {
    u32 t0, t1;
    u32 mask = __ballot_sync(0xffffffffu, x < 3.0e38f);
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < 16; u++) asm volatile("bar.warp.sync %0;" ::"r"(mask) : "memory");
        }
        t1 = clk();
    }
    report(out, t0, t1);
}

__device__ __noinline__ float callee(float x, float a, float b) {
    asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b));
    return x;
}
extern "C" __global__ void call(u32* out, float x, float a, float b, int n) {
    u32 t0, t1;
    x += threadIdx.x;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < 16; u++) x = callee(x, a, b);
        }
        t1 = clk();
    }
    report(out, t0, t1);
    out[SINK + threadIdx.x] = __float_as_uint(x);
}

// Warp 1 reaches the barrier 4000 cycles after warp 0: when does warp 0, past it, read the clock? out[0]: at once,
// out[1]: after a load of shared memory whose value a store needed.
extern "C" __global__ void bar_defer(u32* out, float x, float a, float b, int n) {
    __shared__ volatile u32 word[2];
    for (int kind = 0; kind < 2; kind++) {
        u32 start = clk(), end;
        if (threadIdx.x >= 32) while (clk() - start < 4000) {}
        asm volatile("bar.sync 0;" ::: "memory");
        if (kind == 1) word[1] = word[0];
        end = clk();
        if (threadIdx.x == 0) out[kind] = end - start;
        settle();
    }
    out[SINK + threadIdx.x] = __float_as_uint(x);
}

// The clock itself, back to back.
extern "C" __global__ void clock_pair(u32* out, float x, float a, float b, int n) {
    u32 t[9];
#pragma unroll
    for (int i = 0; i < 9; i++) t[i] = clk();
    for (int i = 0; i < 9; i++) t[i] = clk();
    if (threadIdx.x == 0) {
#pragma unroll
        for (int i = 0; i < 8; i++) out[i] = t[i + 1] - t[i];
    }
}

// Taken forward branches, BODY dependent FFMAs before each, by the warps of `warps` only: what fetching the targets of several warps
// of one sub-core, or of four, costs.
template <int BODY>
__device__ __forceinline__ void hops(u32* out, float x, float a, float b, int n, u32 warps) {
    u32 t0, t1;
    bool never = n < 0;
    x += threadIdx.x;
    if (!(warps >> (threadIdx.x >> 5) & 1)) return;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < 16; u++) {
#pragma unroll
                for (int k = 0; k < BODY; k++) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b));
                if (never) { out[SINK + u] = u; __nanosleep(10); out[SINK + u + 64] = t0; }
            }
        }
        t1 = clk();
    }
    report(out, t0, t1);
    out[SINK + threadIdx.x] = __float_as_uint(x);
}
extern "C" __global__ void hops_1(u32* out, float x, float a, float b, int n, u32 warps) { hops<1>(out, x, a, b, n, warps); }
extern "C" __global__ void hops_4(u32* out, float x, float a, float b, int n, u32 warps) { hops<4>(out, x, a, b, n, warps); }

#define CASE(K, C) \
    case K: asm volatile("{.reg .f32 t; mul.f32 t, %0, " C "; mul.f32 t, t, t; fma.rn.f32 %0, t, %1, %2;}" : "+f"(x) : "f"(a), "f"(b)); break;
// A jump table that every lane enters alike.
extern "C" __global__ void jumps(u32* out, float x, float a, float b, int n) {
    u32 t0, t1, word = out[2 * SINK + lane()];
    x += threadIdx.x;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < 16 * n; i++) {
            switch (word) {
                CASE(0, "0f3F800000")
                CASE(1, "0f40000000")
                CASE(2, "0f40400000")
                CASE(3, "0f40800000")
                CASE(4, "0f40A00000")
                CASE(5, "0f40C00000")
                CASE(6, "0f40E00000")
                CASE(7, "0f41000000")
            }
        }
        t1 = clk();
    }
    report(out, t0, t1);
    out[SINK + threadIdx.x] = __float_as_uint(x) + word;
}
// A function that is called by its address, 16 times a turn.
__device__ __noinline__ float other(float x, float a, float b) {
    asm volatile("fma.rn.f32 %0, %0, %2, %1;" : "+f"(x) : "f"(a), "f"(b));
    return x;
}
extern "C" __global__ void call_address(u32* out, float x, float a, float b, int n) {
    float (*which)(float, float, float) = n & 1 ? other : callee;
    u32 t0, t1;
    x += threadIdx.x;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < 16; u++) x = which(x, a, b);
        }
        t1 = clk();
    }
    report(out, t0, t1);
    out[SINK + threadIdx.x] = __float_as_uint(x);
}
