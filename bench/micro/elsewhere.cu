// Memory elsewhere: streams, atomics and fences on an address that may lie on the host, on another device or on this one (bench/elsewhere.py).
#include "common.cuh"
extern __shared__ __align__(128) u32 smem[];

// What each block saw: %globaltimer and clock, at its start and its end.
__device__ __forceinline__ void times(u64* out, u64 g0, u64 c0) {
    __syncthreads();
    if (threadIdx.x == 0) {
        u64* o = out + 4 * blockIdx.x;
        o[1] = wall_ns(); o[3] = clk64(); o[0] = g0; o[2] = c0;
    }
}

// Thread t of the grid turns to base + ((k * threads + t) * step & mask) for k = 0, 1, ...: four at once, `turns` times.
#define STREAM(NAME, ASM)                                                              \
    extern "C" __global__ void __launch_bounds__(1024) NAME(u64* out, char* base, u64 step, u64 mask, int turns) { \
        u64 total = (u64)gridDim.x * blockDim.x * step, at = (blockIdx.x * (u64)blockDim.x + threadIdx.x) * step; \
        u32 x[4], y[4], z[4], w[4], acc = 0;                                           \
        __syncthreads();                                                              \
        u64 g0 = wall_ns(), c0 = clk64();                                              \
        _Pragma("unroll 1") for (int i = 0; i < turns; i++) {                          \
            _Pragma("unroll") for (int u = 0; u < 4; u++) {                            \
                x[u] = y[u] = z[u] = w[u] = (u32)turns;                                \
                asm volatile(ASM : "+r"(x[u]), "+r"(y[u]), "+r"(z[u]), "+r"(w[u]) : "l"(base + (at & mask)) : "memory"); \
                at += total;                                                          \
            }                                                                         \
            _Pragma("unroll") for (int u = 0; u < 4; u++) acc ^= x[u] ^ y[u] ^ z[u] ^ w[u]; \
        }                                                                             \
        if (acc == 0x12345678) smem[threadIdx.x] = acc;                                \
        times(out, g0, c0);                                                           \
    }
STREAM(read4, "ld.global.u32 %0, [%4];")
STREAM(read16, "ld.global.v4.u32 {%0, %1, %2, %3}, [%4];")
STREAM(read4_cg, "ld.global.cg.u32 %0, [%4];")
STREAM(read16_cg, "ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];")
STREAM(write4, "st.global.u32 [%4], %0;")
STREAM(write16, "st.global.v4.u32 [%4], {%0, %1, %2, %3};")
STREAM(red4, "red.global.add.u32 [%4], %0;")
STREAM(red4_sys, "red.global.sys.add.u32 [%4], %0;")
STREAM(atom4, "atom.global.add.u32 %0, [%4], %1;")
STREAM(atom4_sys, "atom.global.sys.add.u32 %0, [%4], %1;")

// Every second block reads from `base`, the others from `other`.
extern "C" __global__ void __launch_bounds__(1024) read_two(u64* out, char* base, char* other, int turns, int other_turns) {
    bool second = blockIdx.x & 1;
    u64 total = (u64)(gridDim.x >> 1) * blockDim.x * 16, at = ((blockIdx.x >> 1) * (u64)blockDim.x + threadIdx.x) * 16;
    char* from = second ? other : base;
    u32 x[4], y[4], z[4], w[4], acc = 0;
    __syncthreads();
    u64 g0 = wall_ns(), c0 = clk64();
#pragma unroll 1
    for (int i = 0; i < (second ? other_turns : turns); i++) {
#pragma unroll
        for (int u = 0; u < 4; u++) {
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x[u]), "=r"(y[u]), "=r"(z[u]), "=r"(w[u]) : "l"(from + at) : "memory");
            at += total;
        }
#pragma unroll
        for (int u = 0; u < 4; u++) acc ^= x[u] ^ y[u] ^ z[u] ^ w[u];
    }
    if (acc == 0x12345678) smem[threadIdx.x] = acc;
    times(out, g0, c0);
}

extern "C" __global__ void __launch_bounds__(1024) copy16(u64* out, char* to, const char* from, int turns) {
    u64 total = (u64)gridDim.x * blockDim.x * 16, at = (blockIdx.x * (u64)blockDim.x + threadIdx.x) * 16;
    u32 x[4], y[4], z[4], w[4];
    __syncthreads();
    u64 g0 = wall_ns(), c0 = clk64();
#pragma unroll 1
    for (int i = 0; i < turns; i++) {
#pragma unroll
        for (int u = 0; u < 4; u++)
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x[u]), "=r"(y[u]), "=r"(z[u]), "=r"(w[u]) : "l"(from + at + u * total) : "memory");
#pragma unroll
        for (int u = 0; u < 4; u++)
            asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to + at + u * total), "r"(x[u]), "r"(y[u]), "r"(z[u]), "r"(w[u]) : "memory");
        at += 4 * total;
    }
    times(out, g0, c0);
}

// `stores` warp-wide stores of a line each, 4 KiB apart, then a fence: out[2 * warp], out[2 * warp + 1] of the second of two passes.
#define FENCE(NAME, ASM)                                                               \
    extern "C" __global__ void NAME(u32* out, char* base, int stores, int n) {         \
        char* p = base + lane() * 4 + (u64)(threadIdx.x >> 5) * 128;                   \
        u32 t0, t1;                                                                   \
        _Pragma("unroll 1") for (int pass = 0; pass < 2; pass++) {                     \
            settle();                                                                 \
            t0 = clk();                                                               \
            _Pragma("unroll 1") for (int i = 0; i < n; i++) {                          \
                _Pragma("unroll 1") for (int j = 0; j < stores; j++)                   \
                    asm volatile("st.global.u32 [%0], %1;" ::"l"(p + j * 4096), "r"(i) : "memory"); \
                asm volatile(ASM ::: "memory");                                       \
            }                                                                         \
            t1 = clk();                                                               \
        }                                                                             \
        report(out, t0, t1);                                                          \
    }
FENCE(fence_gl, "membar.gl;")
FENCE(fence_sys, "membar.sys;")
