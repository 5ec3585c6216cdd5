// How a burst of loads sets in: all warps of the chip ask at one moment, of lines whose home is near, far or either, on pages that were touched or not.
#include "common.cuh"
#define AFTER(v) if ((v) == 0x9e3779b9u) out[SINK + threadIdx.x] = 1

__device__ __forceinline__ u32 load_cg(const void* at) {
    u32 v;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    return v;
}
// Least latency of an atomic, which goes to its line's home, on the first line of each page, from every SM: out[sm * pages + page]. One block an SM.
extern "C" __global__ void onset_sides(u32* out, char* data, int pages) {
    if (threadIdx.x) return;
    for (int p = 0; p < pages; p++) {
        u32 best = 0xffffffffu;
#pragma unroll 1
        for (int r = 0; r < 6; r++) {
            u32 t0 = clk();
            u32 v = atomicAdd((u32*)(data + ((u64)p << 21)), 0);
            AFTER(v);
            u32 d = clk() - t0;
            if (r) best = min(best, d);
        }
        out[smid() * pages + p] = best;
    }
}
// All blocks go on at the same moment of the wall clock, some microseconds later.
__device__ __forceinline__ void meet() {
    u64 now = wall_ns(), at = (now | 8191) + 1;
    if (at - now < 4096) at += 8192;
    while (wall_ns() < at) {}
    __syncthreads();
}
// Where a warp's chunk of 512 bytes lies. Of each pair of 4 KiB blocks of a page one is near an SM of side 0: `pick` is the other half. In either == 1 they follow each other.
__device__ __forceinline__ u32 place(u32 chunk, u32 pick, int either, u32 flips) {
    if (either) return chunk * 512;
    u32 pair = chunk >> 3, page = pair >> 8, even = 2 * (pair & 255);
    u32 parity = __popc(even & 0xaa);  // of the bits above the lowest that tell the partition
    return (page << 21) + ((even | ((parity ^ pick ^ flips >> page) & 1)) << 12) + (chunk & 7) * 512;
}
// ranks[sm]: the SM's number on its side | side << 16; sides: SMs of side 0 | of side 1 << 16. mode: 0 near, 1 far, 2 either.
// touch: 0 none, 1 one SM, 2 all touch a line of each page before; warm: near lines (those that `mode` 1 of the others asks for) are loaded before.
// out[(block * warps + warp) * 4 + k]: cycles until loads 0 .. k are there.
extern "C" __global__ void onset(u32* out, const char* data, const u32* ranks, u32 flips, u32 sides, int mode, int touch, int warm, int pages, u32 seed) {
    u32 mine = ranks[smid()], side = mine >> 16, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    u32 sms = mode == 2 ? gridDim.x : side ? sides >> 16 : sides & 0xffff;
    u32 rank = mode == 2 ? blockIdx.x : mine & 0xffff;
    const char* at[4];
    u32 v[4], t[4];
    if (touch && threadIdx.x == 0 && (touch == 2 || blockIdx.x == 0))
        for (int p = 0; p < pages; p++) AFTER(load_cg(data + ((u64)p << 21) + (2 << 20) - 128));
    if (warm)
#pragma unroll 1
        for (u32 k = 0; k < 4; k++) AFTER(load_cg(data + place((k * (side ? sides >> 16 : sides & 0xffff) + (mine & 0xffff)) * warps + warp, side, 0, flips) + lane() * 16));
#pragma unroll
    for (u32 k = 0; k < 4; k++) at[k] = data + place((k * sms + rank) * warps + warp, side ^ (mode == 1), mode == 2, flips) + lane() * 16;
    meet();
    u32 t0 = clk();
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint4 w;
        asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(at[k]) : "memory");
        v[k] = w.x;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        AFTER(v[k] + seed);
        t[k] = clk();
    }
    if (lane() == 0)
#pragma unroll
        for (int k = 0; k < 4; k++) out[(blockIdx.x * warps + warp) * 4 + k] = t[k] - t0;
}

// Turns of 512 bytes a warp, near, far or either, behind each other in lines that nobody else has: what the two sides of L2 and the way between them pass.
// warm: the lines are loaded by SMs near them before. one: all SMs of a side turn to two pairs of lines of one slice. out[2 * block]: clocks before and after.
enum { STORE_LINES, STORE_HALVES, STORE_WORDS, ADD_WORDS, ADD_LINES, LOAD_LINES, LOAD_WORDS };
template <int KIND>
__device__ __forceinline__ void turn(u32* out, char* at, u32 seed) {
    u32 l = lane();
    if (KIND == STORE_LINES) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(at + l * 16), "r"(seed) : "memory");
    if (KIND == STORE_HALVES) asm volatile("st.global.u32 [%0], %1;" ::"l"(at + l * 16), "r"(seed) : "memory");
    if (KIND == STORE_WORDS && l < 4) asm volatile("st.global.u32 [%0], %1;" ::"l"(at + l * 128), "r"(seed) : "memory");
    if (KIND == ADD_WORDS && l < 4) asm volatile("red.global.add.u32 [%0], %1;" ::"l"(at + l * 128), "r"(seed) : "memory");
    if (KIND == ADD_LINES)
        for (int k = 0; k < 4; k++) asm volatile("red.global.add.u32 [%0], %1;" ::"l"(at + k * 128 + l * 4), "r"(seed) : "memory");
    if (KIND == LOAD_LINES) {
        uint4 w;
        asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(at + l * 16) : "memory");
        AFTER(w.x + seed);
    }
    if (KIND == LOAD_WORDS && l < 4) AFTER(load_cg(at + l * 128) + seed);
}
template <int KIND>
__device__ __forceinline__ void crossing(u32* out, char* data, const u32* ranks, u32 flips, u32 sides, int mode, u32 turns, int warm, int one, u32 seed) {
    u32 mine = ranks[smid()], side = mine >> 16, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    u32 near_sms = side ? sides >> 16 : sides & 0xffff, near_rank = mine & 0xffff;
    u32 sms = mode == 2 ? gridDim.x : near_sms, rank = mode == 2 ? blockIdx.x : near_rank;
    if (warm)
#pragma unroll 1
        for (u32 i = 0; i < turns; i++)
            AFTER(load_cg(data + place((i * near_sms + near_rank) * warps + warp, side, 0, flips) + lane() * 16));
    meet();
    u64 t0 = clk64();
#pragma unroll 2
    for (u32 i = 0; i < turns; i++) {
        u32 where = one ? place(0, side ^ (mode == 1), 0, flips) : place((i * sms + rank) * warps + warp, side ^ (mode == 1), mode == 2, flips);
        turn<KIND>(out, data + where + (one && lane() >= 16 ? 256 : 0), seed + i);
    }
    asm volatile("membar.gl;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        ((u64*)out)[2 * blockIdx.x] = t0;
        ((u64*)out)[2 * blockIdx.x + 1] = clk64();
    }
}
#define CROSSING(KIND)                                                                                                                        \
    extern "C" __global__ void crossing_##KIND(u32* out, char* data, const u32* ranks, u32 flips, u32 sides, int mode, u32 turns, int warm, int one, \
                                               u32 seed) {                                                                                    \
        crossing<KIND>(out, data, ranks, flips, sides, mode, turns, warm, one, seed);                                                         \
    }
CROSSING(STORE_LINES)
CROSSING(STORE_HALVES)
CROSSING(STORE_WORDS)
CROSSING(ADD_WORDS)
CROSSING(ADD_LINES)
CROSSING(LOAD_LINES)
CROSSING(LOAD_WORDS)
