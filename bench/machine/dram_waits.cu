// How long loads wait for DRAM: single loads over time, with few in flight, and those of long streams by all SMs.
#include "memory_kernels.cuh"

// One warp loads `count` times, each time a word of one line per lane, and waits for all of them.  The line of a lane is (random & keep) | value.
// out: for each load, the cycle at which it issues and the cycles until all its lanes have their words; then nanoseconds and cycles at the beginning and at the end.
extern "C" __global__ void loads(u32* out, const char* data, u32 keep, u32 value, u32 lanes, u32 count, u32 seed) {
    u32 sum = 0;
    u64 begin_ns = wall_ns();
    u32 begin = clk();
#pragma unroll 1
    for (u32 k = 0; k < count; k++) {
        u32 line = (mixed(seed + k * 32 + lane()) & keep) | value;
        u32 before = clk(), word = 0;
        asm volatile("{ .reg .pred p; setp.lt.u32 p, %2, %3; @p ld.global.cg.u32 %0, [%1]; }" : "+r"(word) : "l"(data + (u64)line * 128), "r"(lane()), "r"(lanes) : "memory");
        sum += word;
        asm volatile("" ::"r"(sum) : "memory");
        u32 after = clk();
        if (lane() == 0) {
            out[2 * k] = before;
            out[2 * k + 1] = after - before + (sum == 0x9e3779b9u);
        }
    }
    u64 end_ns = wall_ns();
    u32 end = clk();
    if (lane()) return;
    out += 2 * count;
    out[0] = u32(begin_ns), out[1] = u32(begin_ns >> 32), out[2] = begin;
    out[3] = u32(end_ns), out[4] = u32(end_ns >> 32), out[5] = end;
}

#define CHECKS 32
#define IN_ORDER 0
#define RANDOM_PIECES 1
#define RANDOM_CHUNKS 2
#define OWN_REGIONS 3

// Every thread of the grid loads 16 bytes per iteration, so a warp loads a piece of 512 bytes: the whole grid adjacent pieces; each warp at random; each block adjacent pieces at a random place; or
// each block in its own region.  There are pieces + 1 pieces, a power of two.
// out: for each warp, its SM, and the cycle at the beginning and after each of CHECKS groups of iterations.
extern "C" __global__ void stream(u32* out, const uint4* data, u32 pieces, u32 every, u32 order, u32 seed) {
    u32 in_block = blockDim.x >> 5, warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, warps = gridDim.x * in_block, sum = 0;
    u32* mine = out + warp * (CHECKS + 2);
    if (lane() == 0) {
        mine[0] = smid();
        mine[1] = clk();
    }
    u32 number = order == OWN_REGIONS ? blockIdx.x * (pieces / gridDim.x) + warp % in_block : warp;
    u32 step = order == OWN_REGIONS ? in_block : warps;
#pragma unroll 1
    for (u32 check = 0; check < CHECKS; check++) {
#pragma unroll 1
        for (u32 k = 0; k < every; k++) {
            u32 piece = number;
            if (order == RANDOM_PIECES) piece = mixed(number + seed);
            if (order == RANDOM_CHUNKS) piece = mixed(number / in_block + seed) * in_block + number % in_block;
            uint4 v = data[(u64)(piece & pieces) * 32 + lane()];
            sum ^= v.x ^ v.y ^ v.z ^ v.w;
            number += step + (sum == 0x9e3779b9u);
        }
        if (lane() == 0) mine[2 + check] = clk();
    }
    if (sum == 0x9e3779b9u) mine[0] = sum;
}

// Reads memory, so that L2 holds nothing else.
extern "C" __global__ void sweep(u32* out, const uint4* other, u32 words) {
    u32 sum = 0;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) sum ^= other[i].x;
    if (sum == 0x9e3779b9u) *out = sum;
}
