// Loops that the compiler makes of additions to shared memory (CAST.SPIN), and compare-and-swap loops whose lanes leave one by one.
#include "common.cuh"

// `turns` additions by the lowest `lanes` lanes of each warp to one word of the warp's own; all words in one bank.
template <class T>
__device__ __forceinline__ void additions(u32* out, u32 lanes, int turns) {
    extern __shared__ u64 cells[];
    T* cell = (T*)((char*)cells + 256 * (threadIdx.x >> 5));
    if (lane() == 0) *cell = T(0);
    __syncthreads();
    u32 t0 = clk();
    if (lane() < lanes)
#pragma unroll 1
        for (int k = 0; k < turns; k++) atomicAdd(cell, T(1));
    __syncwarp();
    u32 t1 = clk();
    report(out, t0, t1);
}
extern "C" __global__ void add_float(u32* out, u32 lanes, int turns) { additions<float>(out, lanes, turns); }
extern "C" __global__ void add_double(u32* out, u32 lanes, int turns) { additions<double>(out, lanes, turns); }

// Lanes leave a loop of compare-and-swaps on `cells` words apart; then all loop on one more. A profiler counts what ran.
extern "C" __global__ void cas_once(u32* words, u32 cells, int second) {
    u32* at = words + 32 * (threadIdx.x % cells);
    u32 seen = *at, want;
    do {
        want = seen;
        seen = atomicCAS(at, want, want + 1);
    } while (seen != want);
    if (!second) return;
    u32* last = words + 2048;
    u32 old = *(volatile u32*)last, next;
    do {
        next = old;
        old = atomicCAS(last, next, next + threadIdx.x + 1);
    } while (old != next);
}
// The same with lanes that keep no word of their own: each adds one to the word that it reads.
extern "C" __global__ void cas_join_once(u32* words, u32 cells, u32* out) {
    u32* at = words + 32 * (threadIdx.x % cells);
    u32 seen = *at, want;
    do {
        want = seen;
        seen = atomicCAS(at, want, want + 1);
    } while (seen != want);
    out[threadIdx.x] = want;
    float x = want;
#pragma unroll 1
    for (int k = 0; k < 8; k++) x = x * 1.5f + 1.0f;
    out[32 + threadIdx.x] = x;
}
