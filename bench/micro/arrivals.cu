// When loads that come together from DRAM are there: lines of one row a gap apart, rows of lines by few wide or many narrow loads;
// what the first loads, stores and lines of code of a launch take while everything is cold.
#include "common.cuh"

// Wait for a value: a store that never happens asks for it.
#define AFTER(v) if ((v) == 0x9e3779b9u) out[SINK + threadIdx.x] = 1

// A line, and `gap` cycles later another one `apart` words further; each turn in a place of its own.  Cycles between the two and of the second.
extern "C" __global__ void row_gap(u32* out, const u32* data, u64 pitch, int n, u32 apart, int gap) {
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        const u32* at = data + i * pitch + lane();
        settle();
        u32 t0 = clk();
        u32 a = at[0];
        while ((int)(clk() - t0) < gap) {}
        u32 t1 = clk();
        u32 b = at[apart];
        AFTER(b);
        u32 t2 = clk();
        AFTER(a);
        u32 t3 = clk();
        if (lane() == 0) {
            out[4 * i] = t1 - t0;
            out[4 * i + 1] = t2 - t1;
            out[4 * i + 2] = t3 - t0;
        }
    }
}

// The same lines by the same warps in four ways; each warp's cycles.  `near`: the warp's four lines are neighbours, else a row of all threads apart.
template <typename T, int COUNT>
__device__ __forceinline__ void lines(u32* out, const T* data, const u64* at) {
    T v[COUNT];
    u32 t0 = clk(), sum = 0;
#pragma unroll
    for (int k = 0; k < COUNT; k++) v[k] = data[at[k]];
#pragma unroll
    for (int k = 0; k < COUNT; k++) sum += *(u32*)&v[k];
    AFTER(sum);
    u32 t1 = clk();
    u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    if (lane() == 0) out[warp] = t1 - t0;
}
extern "C" __global__ void lines_wide_near(u32* out, const uint4* data, u64 first) {
    u64 at[1] = {first / 16 + (u64)blockIdx.x * blockDim.x + threadIdx.x};
    lines<uint4, 1>(out, data, at);
}
extern "C" __global__ void lines_narrow_near(u32* out, const u32* data, u64 first) {
    u64 warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, at[4];
#pragma unroll
    for (int k = 0; k < 4; k++) at[k] = first / 4 + warp * 128 + k * 32 + lane();
    lines<u32, 4>(out, data, at);
}
extern "C" __global__ void lines_wide_rows(u32* out, const uint4* data, u64 first) {
    u64 warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, threads = (u64)gridDim.x * blockDim.x;
    u64 at[1] = {first / 16 + warp * 8 + (lane() & 7) + (lane() >> 3) * (threads / 4)};
    lines<uint4, 1>(out, data, at);
}
extern "C" __global__ void lines_narrow_rows(u32* out, const u32* data, u64 first) {
    u64 threads = (u64)gridDim.x * blockDim.x, at[4];
#pragma unroll
    for (int k = 0; k < 4; k++) at[k] = first / 4 + (u64)blockIdx.x * blockDim.x + threadIdx.x + k * threads;
    lines<u32, 4>(out, data, at);
}
extern "C" __global__ void lines_narrow_one(u32* out, const u32* data, u64 first) {
    u64 at[1] = {first / 4 + (u64)blockIdx.x * blockDim.x + threadIdx.x};
    lines<u32, 1>(out, data, at);
}

// The first steps of a launch, each behind the one before: a parameter, loads of two arrays and 1 MiB further in each, a store, a barrier.
extern "C" __global__ void first_steps(u32* out, const u32* a, const u32* b, u32* c, u32 seed) {
    u32 t[8], i = blockIdx.x * blockDim.x + threadIdx.x, v;
    t[0] = clk();
    AFTER(seed);
    t[1] = clk();
    v = a[i];
    AFTER(v);
    t[2] = clk();
    v = a[i + (1 << 18)];
    AFTER(v);
    t[3] = clk();
    v = b[i];
    AFTER(v);
    t[4] = clk();
    v = b[i + (1 << 18)];
    AFTER(v);
    t[5] = clk();
    c[i] = v;
    t[6] = clk();
    __syncthreads();
    t[7] = clk();
    if (lane() == 0)
#pragma unroll
        for (int k = 0; k < 8; k++) out[2 * SINK + (i >> 5) * 8 + k] = t[k] - t[0];
}

#define F4 asm volatile("fma.rn.f32 %0, %0, %4, %5; fma.rn.f32 %1, %1, %4, %5; fma.rn.f32 %2, %2, %4, %5; fma.rn.f32 %3, %3, %4, %5;" \
    : "+f"(x), "+f"(y), "+f"(z), "+f"(w) : "f"(p), "f"(q));
#define F16 F4 F4 F4 F4
#define F64 F16 F16 F16 F16
// Straight code, the clock each 65 instructions.
extern "C" __global__ void first_code(u32* out, float p, float q) {
    u32 t[17];
    float x = threadIdx.x, y = p, z = q, w = p;
    t[0] = clk();
#define MARK(k) F64 t[k] = clk();
    MARK(1) MARK(2) MARK(3) MARK(4) MARK(5) MARK(6) MARK(7) MARK(8) MARK(9) MARK(10) MARK(11) MARK(12) MARK(13) MARK(14) MARK(15) MARK(16)
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (lane() == 0)
#pragma unroll
        for (int k = 0; k < 16; k++) out[2 * SINK + (i >> 5) * 16 + k] = t[k + 1] - t[0];
    if (x + y + z + w == 77.0f) out[SINK] = 1;
}
