// The first loads of a launch: how long each warp of a chip waits for lines that no cache has, of pages that it has accessed and of others.
#include "memory_kernels.cuh"

#define LOADS 6

// Each warp loads LOADS lines, one after the other: its own one of the first MiB, of the second, and so on, in steps of `step` bytes.  The memory is all zeros.
// out, LOADS + 3 words per warp: the SM, the cycle of the first instruction, before the first load, and after each.
extern "C" __global__ void first_loads(u32* out, const char* data, u32 step) {
    u32 times[LOADS + 2];
    times[0] = now();
    u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, sm;
    const char* at = data + (warp * 32 + lane) * 4;
    times[1] = now() + (warp >> 31);
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        u32 value;
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
        at += step + (value >> 31);
        // A store to a place that depends on the load: its issue waits for the load.
        if (value) out[at - data] = value;
        times[i + 2] = now();
    }
    if (lane) return;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    out += warp * (LOADS + 3);
    out[0] = sm;
#pragma unroll
    for (int i = 0; i < LOADS + 2; i++) out[i + 1] = times[i];
}
