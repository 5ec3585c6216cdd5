// Shared by every microbenchmark: the clock, and the two-pass timed loop around one operation.
// A timed loop runs twice; the second pass, with warm instruction caches, is the one reported.
#pragma once
typedef unsigned int u32;
typedef unsigned long long u64;

#define SINK 4096  // first word of `out` that holds results nobody reads; they keep the work alive

__device__ __forceinline__ u32 clk() {
    u64 t;  // the 64-bit clock compiles to CS2R; the 32-bit one often to S2UR, which takes far longer
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    return (u32)t;
}
__device__ __forceinline__ u64 clk64() {
    u64 t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    return t;
}
__device__ __forceinline__ u64 wall_ns() {
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
}
__device__ __forceinline__ u32 smid() {
    u32 t;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(t));
    return t;
}
__device__ __forceinline__ u32 lane() { return threadIdx.x & 31; }

// One (start, end) pair for each warp of the grid: out[2 * warp], out[2 * warp + 1].
__device__ __forceinline__ void report(u32* out, u32 t0, u32 t1) {
    u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    if (lane() == 0) {
        out[2 * warp] = t0;
        out[2 * warp + 1] = t1;
    }
}

// A barrier that is surely over when this returns: the clock may be read before BAR.SYNC lets go of the warp (measured,
// bar_defer), so a load of shared memory, whose value a store needs, stands between the barrier and what follows.
__device__ __forceinline__ void settle() {
    __shared__ volatile u32 word[2];
    __syncthreads();
    word[1] = word[0];
}
