// The time that a launch takes beyond that in which its SMs are active: blocks that do one thing for a given time, on one SM and on all.
#include "memory_kernels.cuh"

#define WAITS 0
#define COMPUTES 1
#define READS 2
#define READS_COLD 3
#define STORES 4

// Each warp goes on for `cycles`: waits, computes, loads lines that L2 holds, loads lines of DRAM, or stores lines.  `data` has `lines` lines of zeros.
// out: for each block, the SM, and the cycle and nanosecond of its first and of its last instructions; null: the kernel stores nothing.
extern "C" __global__ void launch_ends(u32* out, u32* data, u32 lines, u32 cycles, u32 kind) {
    u32 begin = now(), sm, sum = 0;
    u64 begin_ns = wall_ns();
    u32 number = blockIdx.x * blockDim.x + threadIdx.x, warp = number / 32, lane = threadIdx.x % 32, step = 0;
    float a = lane, b = warp, c = 1;
    while (now() - begin < cycles) {
        u32 line = kind == READS_COLD ? (warp + step * (gridDim.x * blockDim.x / 32)) % lines : mixed(warp * 4096 + step) % lines;
        if (kind == READS || kind == READS_COLD) {
            u32 value;
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(data + line * 32 + lane) : "memory");
            sum += value;
        }
        if (kind == STORES) asm volatile("st.global.u32 [%0], %1;" ::"l"(data + line * 32 + lane), "r"(0) : "memory");
        if (kind == COMPUTES) {
#pragma unroll
            for (int i = 0; i < 64; i++) { a = a * b + 1.5f; b = b * c + a; c = c * .5f + b; }
        }
        step++;
    }
    if (a + b + c == 12345.f || sum) data[0] = 1;
    if (!out || threadIdx.x) return;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    out += blockIdx.x * 8;
    out[0] = sm;
    out[1] = begin;
    out[2] = now();
    u64 end_ns = wall_ns();
    out[4] = u32(begin_ns), out[5] = u32(begin_ns >> 32), out[6] = u32(end_ns), out[7] = u32(end_ns >> 32);
}

// Blocks that store lines for `early` cycles and wait until `cycles` are over; then the first `last` threads store to one line each.  Every line belongs to one block.
extern "C" __global__ void last_stores(u32* data, u32 lines, u32 cycles, u32 early, u32 last) {
    u32 begin = now(), number = blockIdx.x * blockDim.x + threadIdx.x, step = 0;
    while (now() - begin < early) {
        u32 line = mixed((number / 32) * 4096 + step++) % lines;
        asm volatile("st.global.u32 [%0], %1;" ::"l"(data + line * 32 + threadIdx.x % 32), "r"(0) : "memory");
    }
    while (now() - begin < cycles) {}
    if (threadIdx.x < last) asm volatile("st.global.u32 [%0], %1;" ::"l"(data + number % lines * 32), "r"(0) : "memory");
}
