// How a chip spreads lines over slices and blocks over SMs, and what loads cost that many warps have on their way at once.
#include "common.cuh"
extern __shared__ u32 smem[];

// Least latency of each line from every SM, by loads that L1 does not keep or by atomics, which go to the line's home. SMs begin apart.
template <bool ATOMIC>
__device__ __forceinline__ void latencies(u32* out, u32* base, int lines, u64 stride, int reps) {
    if (threadIdx.x) return;
    u32* mine = out + (u64)blockIdx.x * (lines + 1);
    mine[0] = smid();
    int at = (int)((u64)blockIdx.x * lines / gridDim.x);
    for (int i = 0; i < lines; i++) {
        u32* a = base + at * stride;
        u32 best = 0xffffffffu, v = 0;
#pragma unroll 1
        for (int r = 0; r < reps; r++) {
            u32 t0 = clk();
            if (ATOMIC)
                v = atomicAdd(a + v, 0);
            else
                asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(a + v) : "memory");  // v is 0, but ptxas cannot know
            asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"((u32)__cvta_generic_to_shared(smem)), "r"(v) : "memory");
            u32 d = clk() - t0;
            if (r) best = min(best, d);
        }
        mine[1 + at] = best;
        if (++at == lines) at = 0;
    }
}
extern "C" __global__ void load_map(u32* out, u32* base, int lines, u64 stride, int reps) { latencies<false>(out, base, lines, stride, reps); }
extern "C" __global__ void atom_map(u32* out, u32* base, int lines, u64 stride, int reps) { latencies<true>(out, base, lines, stride, reps); }

// Neighbouring lines, each written whole once.
extern "C" __global__ void fill_lines(uint4* dst, u32 lines) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < lines * 8) dst[i] = make_uint4(i, i, i, i);
}

// The SM of each block; blocks stay until all have come.
extern "C" __global__ void stay(u64* out, u64 spin) {
    u64 c0 = clk64(), c1 = c0;
    while (c1 - c0 < spin) c1 = clk64();
    u32 number = blockIdx.y * gridDim.x + blockIdx.x;
    if (threadIdx.x + threadIdx.y == 0) {
        out[2 * number] = smid();
        out[2 * number + 1] = c0;
    }
}

// Every warp has `COUNT` loads on their way, then as many again: turns of an array that the chip's warps pass in step.
template <typename T, int COUNT>
__device__ __forceinline__ void loaded(u64* out, const T* data, u32 mask, int turns, u32 seed) {
    u32 threads = gridDim.x * blockDim.x, at = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    u64 t0 = clk64();
#pragma unroll 1
    for (int i = 0; i < turns; i++) {
        T v[COUNT];
#pragma unroll
        for (int k = 0; k < COUNT; k++) v[k] = data[(at + k * threads) & mask];
#pragma unroll
        for (int k = 0; k < COUNT; k++) sum += *(u32*)&v[k];
        at += COUNT * threads + (sum == seed);
    }
    u64 t1 = clk64();
    if (at == seed) out[0] = at;
    u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    if (lane() == 0) {
        out[2 * warp] = t0;
        out[2 * warp + 1] = t1;
    }
}
extern "C" __global__ void loaded4_1(u64* out, const u32* data, u32 mask, int turns, u32 seed) { loaded<u32, 1>(out, data, mask, turns, seed); }
extern "C" __global__ void loaded4_4(u64* out, const u32* data, u32 mask, int turns, u32 seed) { loaded<u32, 4>(out, data, mask, turns, seed); }
extern "C" __global__ void loaded16_1(u64* out, const uint4* data, u32 mask, int turns, u32 seed) { loaded<uint4, 1>(out, data, mask, turns, seed); }
extern "C" __global__ void loaded16_4(u64* out, const uint4* data, u32 mask, int turns, u32 seed) { loaded<uint4, 4>(out, data, mask, turns, seed); }
