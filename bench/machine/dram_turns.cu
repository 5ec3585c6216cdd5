// Writes or additions at random places, and reads at random places of other memory by a share of the threads: what DRAM's turns between them take.
#include "memory_kernels.cuh"

// One sector of a random line: two lanes store its halves, or the first of them adds to its first word.
template <int Kind> __device__ __forceinline__ void change(char* at, u32 half) {
    if (Kind == 1) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(at + 16 * half), "r"(half) : "memory");
    if (Kind == 2 && half == 0) asm volatile("red.global.add.u32 [%0], 1;" ::"l"(at) : "memory");
}

// `n` rounds.  In each, every pair of lanes changes a sector of one of lines + 1 lines, and one of `period` threads of the pair's first lanes (0: none) reads one of
// read_lines + 1 other lines.  lines + 1, read_lines + 1 and period are powers of two.  out: start and end of each block in ns.
template <int Kind> __device__ void rounds(u64* out, char* changed, u32 lines, const char* read, u32 read_lines, u32 period, u32 seed, int n) {
    u32 id = blockIdx.x * blockDim.x + threadIdx.x, pair = id >> 1, half = id & 1, total = (gridDim.x * blockDim.x) >> 1, sum = 0;
    __syncthreads();
    u64 begin = wall_ns();
#pragma unroll 4
    for (int k = 0; k < n; k++) {
        u32 r = mixed(pair + k * total + seed), drawn = mixed(r + 0x9e3779b9u);
        change<Kind>(changed + (u64)(r & lines) * 128 + 32 * (drawn & 3), half);
        if (half == 0 && period && ((drawn >> 8) & (period - 1)) == 0) {
            u32 v;
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(read + (u64)(mixed(r + 0x7f4a7c15u) & read_lines) * 128) : "memory");
            sum += v;
        }
    }
    if (sum == 0x12345678) changed[0] = 1;
    __syncthreads();
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = begin;
        out[2 * blockIdx.x + 1] = wall_ns();
    }
}

extern "C" __global__ void reads(u64* out, char* changed, u32 lines, const char* read, u32 read_lines, u32 period, u32 seed, int n) {
    rounds<0>(out, changed, lines, read, read_lines, period, seed, n);
}
extern "C" __global__ void stores(u64* out, char* changed, u32 lines, const char* read, u32 read_lines, u32 period, u32 seed, int n) {
    rounds<1>(out, changed, lines, read, read_lines, period, seed, n);
}
extern "C" __global__ void sums(u64* out, char* changed, u32 lines, const char* read, u32 read_lines, u32 period, u32 seed, int n) {
    rounds<2>(out, changed, lines, read, read_lines, period, seed, n);
}
