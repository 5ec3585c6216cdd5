// Constant caches: LDC pointer chase by footprint, and FFMA with a constant operand that walks over a footprint.
#include "common.cuh"
__constant__ u32 table[16000];

extern "C" __global__ void ldc_fill(u32* words) {}

// table[i] = byte offset of the next element, written by the host through `words` (a copy target found by symbol).
extern "C" __global__ void ldc_chase(u32* out, u32 start, int warm, int steps) {
    u32 p = start;
    const char* base = (const char*)table;
#pragma unroll 1
    for (int i = 0; i < warm; i++) p = *(const u32*)(base + p);
    u32 t0 = clk();
#pragma unroll 1
    for (int i = 0; i < steps; i += 8) {
#pragma unroll
        for (int j = 0; j < 8; j++) p = *(const u32*)(base + p);
    }
    out[SINK] = p;
    __threadfence_block();
    u32 t1 = clk();
    report(out, t0, t1);
}

// 256 FFMAs whose constant operand advances STRIDE words each: footprint = 256 * STRIDE * 4 bytes, at most 62 KiB.
template <int STRIDE>
__device__ __forceinline__ void operand(u32* out, float x, float a, int n) {
    float y = x + threadIdx.x, z = y + 1, w = y + 2;
    x = y + 3;
    u32 t0, t1, c0 = clk(), c1;
    const float* f = (const float*)table;
    t0 = c0;
    c1 = c0;
#pragma unroll 1
    for (int i = 0; i <= n; i++) {
#pragma unroll
        for (int u = 0; u < 64; u++) {
            x = fmaf(x, f[(4 * u) * STRIDE], a);
            y = fmaf(y, f[(4 * u + 1) * STRIDE], a);
            z = fmaf(z, f[(4 * u + 2) * STRIDE], a);
            w = fmaf(w, f[(4 * u + 3) * STRIDE], a);
        }
        t1 = clk();
        if (i == 0) { c1 = t1; settle(); t0 = clk(); }
    }
    report(out, t0, t1);
    report(out + 256, c0, c1);
    out[SINK + threadIdx.x] = __float_as_uint(x + y + z + w);
}
extern "C" __global__ void operand_0(u32* out, float x, float a, int n) { operand<0>(out, x, a, n); }
extern "C" __global__ void operand_1(u32* out, float x, float a, int n) { operand<1>(out, x, a, n); }
extern "C" __global__ void operand_2(u32* out, float x, float a, int n) { operand<2>(out, x, a, n); }
extern "C" __global__ void operand_4(u32* out, float x, float a, int n) { operand<4>(out, x, a, n); }
extern "C" __global__ void operand_8(u32* out, float x, float a, int n) { operand<8>(out, x, a, n); }
extern "C" __global__ void operand_16(u32* out, float x, float a, int n) { operand<16>(out, x, a, n); }
extern "C" __global__ void operand_32(u32* out, float x, float a, int n) { operand<32>(out, x, a, n); }
extern "C" __global__ void operand_60(u32* out, float x, float a, int n) { operand<60>(out, x, a, n); }

// Indexed constants whose address differs between lanes: a chain through zeros, and independent loads.
extern "C" __global__ void lanes_chain(u32* out, const u32* off, int n) {
    u32 at = off[lane()], p = 0, t0, t1;
    const char* base = (const char*)table;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < 8; u++) p = *(const u32*)(base + (at | p));
        }
        out[SINK + threadIdx.x] = p;
        t1 = clk();
    }
    report(out, t0, t1);
}

// Eight independent loads a turn, `step` bytes apart modulo the footprint `mask + 1`; warps begin `skew` bytes apart.
extern "C" __global__ void lanes_rate(u32* out, const u32* off, int n, u32 step, u32 mask, u32 skew) {
    u32 at = off[lane()] + (threadIdx.x >> 5) * skew, sum = 0, t0, t1;
    const char* base = (const char*)table;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < 8; u++) sum ^= *(const u32*)(base + ((at + u * step) & mask));
            at += 8 * step;
        }
        out[SINK + threadIdx.x] = sum;
        t1 = clk();
    }
    report(out, t0, t1);
}

// A chain of loads whose lanes differ and whose lines move on by `step` bytes modulo the footprint `mask + 1`; the table is zero.
// Beyond the first level's size each turn misses: what a miss costs by how many lines an instruction lacks.
extern "C" __global__ void lanes_miss(u32* out, const u32* off, int n, u32 step, u32 mask, u32 skew) {
    u32 at = off[lane()] + (threadIdx.x >> 5) * skew, p = 0, t0, t1;
    const char* base = (const char*)table;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
            p = *(const u32*)(base + ((at | p) & mask));
            at += step;
        }
        out[SINK + threadIdx.x] = p;
        t1 = clk();
    }
    report(out, t0, t1);
}
// The first pass only, each turn by itself: out[turn] on warp 0. Each line comes from where a launch finds it.
extern "C" __global__ void lanes_cold(u32* out, const u32* off, int n, u32 step, u32 skew) {
    __shared__ u32 t[256];
    u32 at = off[lane()] + (threadIdx.x >> 5) * skew, p = 0;
    const char* base = (const char*)table;
    settle();
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        if (threadIdx.x == 0) t[i] = clk();
        p = *(const u32*)(base + ((at | p) & 0xffff));
        at += step;
    }
    if (threadIdx.x == 0) {
        t[n] = clk() + p;
        for (int i = 0; i < n; i++) out[i] = t[i + 1] - t[i];
    }
    if (p == 77) out[SINK + threadIdx.x] = p;
}
// Each lane follows a cycle of its own through a table of byte offsets.
extern "C" __global__ void lanes_walk(u32* out, const u32* start, int n) {
    u32 p = start[threadIdx.x], t0, t1;
    const char* base = (const char*)table;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) p = *(const u32*)(base + p);
        out[SINK + threadIdx.x] = p;
        t1 = clk();
    }
    report(out, t0, t1);
}
