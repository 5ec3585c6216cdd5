// What a launch costs beside its work: short bodies between two readings of the clock, cold, under a profiler that counts the SM's cycles;
// cold loads all at once and row by row; lanes that leave a loop one after the other; constants that only some SMs ask for.
#include "common.cuh"

__device__ __forceinline__ void stamps(u64* out, u64 t0, u64 t1) {
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = t0;
        out[2 * blockIdx.x + 1] = t1;
    }
}
#define F1 asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b));
#define F4 F1 F1 F1 F1
#define F16 F4 F4 F4 F4

extern "C" __global__ void begin_nothing(u64* out, float* data, float a, float b, int n) {
    u64 t0 = clk64();
    stamps(out, t0, clk64());
}
extern "C" __global__ void begin_exit(u64* out, float* data, float a, float b, int n) {}
extern "C" __global__ void begin_store(u64* out, float* data, float a, float b, int n) {
    data[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
}
extern "C" __global__ void begin_loop(u64* out, float* data, float a, float b, int n) {
    u64 t0 = clk64();
    float x = threadIdx.x;
#pragma unroll 1
    for (int i = 0; i < n; i++) { F16 }
    stamps(out, t0, clk64());
    if (x == 77) data[threadIdx.x] = x;
}
// The clock behind each of the first turns.
extern "C" __global__ void begin_turns(u64* out, float* data, float a, float b, int n) {
    __shared__ u32 t[64];
    float x = threadIdx.x;
    u64 t0 = clk64();
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        F16
        if (threadIdx.x == 0) t[i] = clk() - (u32)t0;
    }
    __syncthreads();
    if (threadIdx.x < 32) out[32 * blockIdx.x + threadIdx.x] = t[threadIdx.x];
    if (x == 77) data[threadIdx.x] = x;
}
extern "C" __global__ void begin_straight(u64* out, float* data, float a, float b, int n) {
    u64 t0 = clk64();
    float x = threadIdx.x;
    F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16 F16
    stamps(out, t0, clk64());
    if (x == 77) data[threadIdx.x] = x;
}
// Forward jumps over code that never runs.
extern "C" __global__ void begin_jumps(u64* out, float* data, float a, float b, int n) {
    u64 t0 = clk64();
    float x = threadIdx.x;
    bool never = n < 0;
#pragma unroll
    for (int u = 0; u < 16; u++) {
        F1
        if (never) { out[64 + u] = u; __nanosleep(10); data[64 + u] = x; __nanosleep(20); data[128 + u] = x; }
    }
    stamps(out, t0, clk64());
    if (x == 77) data[threadIdx.x] = x;
}
extern "C" __global__ void begin_load(u64* out, float* data, float a, float b, int n) {
    u64 t0 = clk64();
    float x = data[blockIdx.x * blockDim.x + threadIdx.x];
    F1
    stamps(out, t0, clk64());
    if (x == 77) data[threadIdx.x] = x;
}
extern "C" __global__ void begin_copy(u64* out, float* data, float a, float b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i + (1 << 22)] = data[i];
}

// `count` cold loads of a thread at once; each warp's cycles. Then rows: each turn loads the next row and waits for all of the block.
template <typename T, int COUNT>
__device__ __forceinline__ void burst(u32* out, const T* data, u64 first, u32 seed) {
    u64 threads = (u64)gridDim.x * blockDim.x, at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    T v[COUNT];
    u32 t0 = clk(), sum = 0;
#pragma unroll
    for (int k = 0; k < COUNT; k++) v[k] = data[first + at + k * threads];
#pragma unroll
    for (int k = 0; k < COUNT; k++) sum += *(u32*)&v[k];
    asm volatile("" :: "r"(sum) : "memory");
    if (sum == seed) out[SINK + threadIdx.x] = sum;
    u32 t1 = clk();
    if (lane() == 0) out[at >> 5] = t1 - t0;
}
extern "C" __global__ void burst4_1(u32* out, const u32* data, u64 first, u32 seed) { burst<u32, 1>(out, data, first, seed); }
extern "C" __global__ void burst4_4(u32* out, const u32* data, u64 first, u32 seed) { burst<u32, 4>(out, data, first, seed); }
extern "C" __global__ void burst8_1(u32* out, const uint2* data, u64 first, u32 seed) { burst<uint2, 1>(out, data, first, seed); }
extern "C" __global__ void burst8_2(u32* out, const uint2* data, u64 first, u32 seed) { burst<uint2, 2>(out, data, first, seed); }
extern "C" __global__ void burst16_1(u32* out, const uint4* data, u64 first, u32 seed) { burst<uint4, 1>(out, data, first, seed); }
extern "C" __global__ void burst16_4(u32* out, const uint4* data, u64 first, u32 seed) { burst<uint4, 4>(out, data, first, seed); }

extern "C" __global__ void rows(u64* out, const u32* data, u64 first, u64 pitch, int n, u32 seed) {
    __shared__ u32 s[1024];
    u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 t0 = clk64();
    u32 sum = 0;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        s[threadIdx.x] = data[first + at + i * pitch];
        __syncthreads();
        sum += s[threadIdx.x ^ 33];
        __syncthreads();
    }
    stamps(out, t0, clk64());
    if (sum == seed) out[4096 + threadIdx.x] = sum;
}

// Each lane stays `turns[lane]` turns in a loop of eight dependent FFMAs.
extern "C" __global__ void exits(u32* out, const u32* turns, float a, float b) {
    u32 mine = turns[lane()], t0, t1;
    float x = threadIdx.x;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (u32 i = 0; i < mine; i++) { F4 F4 }
        __syncwarp();
        t1 = clk();
    }
    report(out, t0, t1);
    out[SINK + threadIdx.x] = __float_as_uint(x);
}
// The same with the end found from the value: leaving in the middle of a turn, as escape loops do.
extern "C" __global__ void escapes(u32* out, const u32* turns, float a, float b) {
    float limit = turns[lane()], x, y = threadIdx.x;
    u32 t0, t1;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
        x = 0;
        int i = 0;
#pragma unroll 1
        for (; i < 4096; i++) {
            asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(a));
            if (x >= limit) break;
            asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(y) : "f"(a), "f"(b));
            asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(y) : "f"(a), "f"(b));
            asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(y) : "f"(a), "f"(b));
        }
        out[SINK + threadIdx.x + 1024] = i;
        __syncwarp();
        t1 = clk();
    }
    report(out, t0, t1);
    out[SINK + threadIdx.x] = __float_as_uint(y);
}

__constant__ u32 walked[4096];
// Each lane follows a cycle of its own through constants, on the SMs that take part.
extern "C" __global__ void walk_on(u64* out, const u32* start, const u32* takes_part, int n) {
    if (!takes_part[smid()]) { stamps(out, 0, 0); return; }
    u32 p = start[threadIdx.x];
    u64 t0 = 0, t1 = 0;
    const char* base = (const char*)walked;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk64();
#pragma unroll 1
        for (int i = 0; i < n; i++) p = *(const u32*)(base + p);
        t1 = clk64() + (p == 77777);
    }
    stamps(out, t0, t1);
}

// An addition without an answer by each thread, `apart` words from its neighbours', behind a load or not; the kernel's end is in the profiler.
extern "C" __global__ void end_red(float* sums, const u32* index, u32 mask) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&sums[(i * 2654435761u >> 7) & mask], 1.0f);
}
extern "C" __global__ void end_load_red(float* sums, const u32* index, u32 mask) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&sums[(index[i] + (i * 2654435761u >> 7)) & mask], 1.0f);
}
extern "C" __global__ void end_gather_red(float* sums, const u32* index, u32 mask) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x, k = index[i];
    float x = __uint_as_float(index[(k + i * 40503u * 977u) & mask]);
    atomicAdd(&sums[(k + (i * 2654435761u >> 7)) & mask], x);
}
extern "C" __global__ void end_store(float* sums, const u32* index, u32 mask) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    sums[(i * 2654435761u >> 7) & mask] = 1.0f;
}

// Sectors of a pair asked for one after the other, both from DRAM: `gap` cycles between the two loads.
extern "C" __global__ void halves(u32* out, const u32* data, int gap, u32 seed) {
    const u32* at = data + 16 * ((u64)blockIdx.x * blockDim.x + threadIdx.x);
    u32 a = at[0], t0 = clk();
    while ((int)(clk() - t0) < gap) {}
    u32 b = at[8];
    if (a + b == seed) out[SINK + threadIdx.x] = a;
}
// Two warps ask for sectors of one line that is in DRAM, `apart` words from each other, the second GAP dependent FFMAs later: one line a turn.
template <int GAP>
__device__ __forceinline__ void pairs(u32* out, const u32* data, int apart, int n, float a, float b) {
    u32 second = threadIdx.x >> 5, sum = 0, waited = 0;
    float x = a;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        const u32* at = data + 32 * ((u64)blockIdx.x * n + i) + second * apart;
        settle();
        u32 t0 = clk();
        if (second) {
            F4 F4
#pragma unroll
            for (int k = 0; k < GAP; k++) { F1 }
        } else {
            F4 F4
        }
        if (x == 77) at++;
        u32 t1 = clk();
        if (lane() == 0) sum += *at;
        asm volatile("" :: "r"(sum) : "memory");
        waited += t1 - t0;
        if (sum == 77) out[SINK] = sum;
    }
    if (lane() == 0) out[2 * blockIdx.x + second] = waited / n;
}
#define PAIRS(g) extern "C" __global__ void pairs_##g(u32* out, const u32* data, int apart, int n, float a, float b) { pairs<g>(out, data, apart, n, a, b); }
PAIRS(0) PAIRS(1) PAIRS(2) PAIRS(3) PAIRS(4) PAIRS(5) PAIRS(6) PAIRS(8) PAIRS(10) PAIRS(16) PAIRS(64)

// Neighbouring threads read neighbouring elements, once: warps ask for 1, 2 or 4 sectors.
template <typename T>
__device__ __forceinline__ void neighbours(u32* out, const T* data, u32 seed) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x, value = data[i];
    if (value == seed) out[SINK + threadIdx.x] = value;
}
extern "C" __global__ void neighbours1(u32* out, const unsigned char* data, u32 seed) { neighbours(out, data, seed); }
extern "C" __global__ void neighbours2(u32* out, const unsigned short* data, u32 seed) { neighbours(out, data, seed); }
extern "C" __global__ void neighbours4(u32* out, const u32* data, u32 seed) { neighbours(out, data, seed); }

// Barriers of many small blocks on every SM.
extern "C" __global__ void small_bars(u64* out, int n) {
    u64 t0 = clk64();
#pragma unroll 1
    for (int i = 0; i < n; i++) {
#pragma unroll
        for (int u = 0; u < 16; u++) asm volatile("bar.sync 0;" ::: "memory");
    }
    stamps(out, t0, clk64());
}

// A load in each of `n` pages of 2 MiB, then one 64 KiB further in the same page: cycles of both.
extern "C" __global__ void pages(u32* out, const u32* data, int n) {
    if (threadIdx.x) return;
    u32 sum = 0;
#pragma unroll 1
    for (int p = 0; p < n; p++) {
        const u32* at = data + ((u64)p << 19) + 32 * blockIdx.x;
        u32 t0 = clk();
        sum += at[0];
        asm volatile("" :: "r"(sum) : "memory");
        if (sum == 77) out[SINK] = sum;
        u32 t1 = clk();
        sum += at[16384];
        asm volatile("" :: "r"(sum) : "memory");
        if (sum == 77) out[SINK] = sum;
        u32 t2 = clk();
        out[2 * (blockIdx.x * n + p)] = t1 - t0;
        out[2 * (blockIdx.x * n + p) + 1] = t2 - t1;
    }
}
