// Lines that all warps of the chip read and write at once, as the words near the roots of a union-find's trees are.
#include "common.cuh"

#define AFTER(v) if ((v) == 0x9e3779b9u) out[SINK + threadIdx.x] = 1

enum Write { VOLATILE, WEAK, ADD, SWAP };

__device__ __forceinline__ u32 mixed(u32 x) {
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
    return x ^ x >> 16;
}

// For `span` cycles each of the first `lanes` lanes of each warp reads a random word of `lines` lines and waits for it; then each, `writing` times in 256, writes
// one of them; then the warp rests for `rest` cycles.  out[4 * warp ..]: cycles, rounds, writes, SM.
template <bool STRONG, int WRITE>
__device__ __forceinline__ void hot_lines(u32* out, char* base, u32 lanes, u32 lines, u32 writing, u32 rest, u32 span) {
    u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, warps = (gridDim.x * blockDim.x) >> 5;
    u32 *count = (u32*)(base + (1 << 20)), seed = mixed(blockIdx.x * blockDim.x + threadIdx.x + 1), rounds = 0, writes = 0;
    if (lane() == 0) {
        atomicAdd(count, 1);
        while (*(volatile u32*)count < warps) {}
    }
    __syncwarp();
    u32 begin = clk(), now = begin;
    while (now - begin < span) {
        seed = mixed(seed + 0x9e3779b9u);
        u32 v = 0;
        u32* at = (u32*)base + (seed >> 5) % lines * 32 + (seed & 31);
        if (lane() < lanes) {
            if (STRONG) asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
            else asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
        }
        AFTER(v);
        if (lane() < lanes && (mixed(seed ^ 0x5bd1e995u) & 255) < writing) {
            u32 other = mixed(seed ^ 0x27d4eb2fu);
            at = (u32*)base + (other >> 5) % lines * 32 + (other & 31);
            if (WRITE == VOLATILE) asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(at), "r"(rounds) : "memory");
            if (WRITE == WEAK) asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(rounds) : "memory");
            if (WRITE == ADD) asm volatile("red.global.add.u32 [%0], 1;" ::"l"(at) : "memory");
            if (WRITE == SWAP) {
                asm volatile("atom.global.cas.b32 %0, [%1], 0x9e3779b9, 1;" : "=r"(v) : "l"(at) : "memory");
                AFTER(v);
            }
            writes++;
        }
        __syncwarp();
        u32 rested = clk();
        while ((now = clk()) - rested < rest) {}
        now = __shfl_sync(~0u, now, 0);
        rounds++;
    }
    writes = __reduce_add_sync(~0u, writes);
    if (lane() == 0) out[4 * warp] = now - begin, out[4 * warp + 1] = rounds, out[4 * warp + 2] = writes, out[4 * warp + 3] = smid();
}
#define HOT(NAME, STRONG, WRITE)                                                                                                \
    extern "C" __global__ void hot_##NAME(u32* out, char* base, u32 lanes, u32 lines, u32 writing, u32 rest, u32 span) {          \
        hot_lines<STRONG, WRITE>(out, base, lanes, lines, writing, rest, span);                                                   \
    }
HOT(strong_volatile, true, VOLATILE) HOT(weak_weak, false, WEAK) HOT(strong_add, true, ADD) HOT(strong_swap, true, SWAP) HOT(weak_swap, false, SWAP)

// The same by volatile accesses of the first lane alone, where only the SMs of some sides of L2 (bits of `loading`) take part, and of these only some (`storing`) write.
extern "C" __global__ void hot_sides(u32* out, char* base, const u32* sides, u32 loading, u32 storing, u32 lines, u32 writing, u32 span) {
    u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, warps = (gridDim.x * blockDim.x) >> 5, side = sides[smid()];
    u32 *count = (u32*)(base + (1 << 20)), seed = mixed(blockIdx.x * blockDim.x + threadIdx.x + 1), rounds = 0, writes = 0;
    if (lane()) return;
    atomicAdd(count, 1);
    while (*(volatile u32*)count < warps) {}
    u32 begin = clk(), now = begin;
    if ((loading | storing) >> side & 1)
        while (now - begin < span) {
            seed = mixed(seed + 0x9e3779b9u);
            u32 v = 0;
            if (loading >> side & 1) {
                asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(v) : "l"((u32*)base + (seed >> 5) % lines * 32 + (seed & 31)) : "memory");
                AFTER(v);
                rounds++;
            } else {
                u32 waited = clk();
                while (clk() - waited < 700) {}
            }
            if ((storing >> side & 1) && (mixed(seed ^ 0x5bd1e995u) & 255) < writing) {
                u32 other = mixed(seed ^ 0x27d4eb2fu);
                asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"((u32*)base + (other >> 5) % lines * 32 + (other & 31)), "r"(rounds) : "memory");
                writes++;
            }
            now = clk();
        }
    out[4 * warp] = now - begin, out[4 * warp + 1] = rounds, out[4 * warp + 2] = writes, out[4 * warp + 3] = side;
}
