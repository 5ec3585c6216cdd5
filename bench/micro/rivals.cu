// Warps of several SMs that want one word: what a look or an attempt takes beside so many others, which attempts fail, and what a plain
// load sees of a word that another SM has written since this one's L1 has its line.
#include "common.cuh"

// Wait for a value: a store that never happens asks for it.
#define AFTER(v) if ((v) == 0x9e3779b9u) out[SINK + threadIdx.x] = 1

// All warps of the launch begin within some cycles of each other.
__device__ __forceinline__ void meet(u32* count, u32 warps) {
    if (lane() == 0) {
        atomicAdd(count, 1);
        while (*(volatile u32*)count < warps) {}
    }
    __syncwarp();
}

// `n` accesses of one lane of each warp, each behind the answer of the one before; words of warps are `apart` bytes from each other.
// out[4 * warp ..]: cycles of all, the least and the longest one, SM.
template <class F>
__device__ __forceinline__ void looks(u32* out, char* base, u32 apart, int n, F one) {
    u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, warps = (gridDim.x * blockDim.x) >> 5;
    meet((u32*)(base + (1 << 20)), warps);
    if (lane()) return;
    char* at = base + warp * (u64)apart;
    u32 least = ~0u, most = 0, begin = clk(), before = begin, now = begin;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        at += one(at) & 0x80000000u;
        now = clk();
        u32 took = now - before;
        before = now;
        if (i) least = min(least, took), most = max(most, took);
    }
    out[4 * warp] = now - begin;
    out[4 * warp + 1] = least;
    out[4 * warp + 2] = most;
    out[4 * warp + 3] = smid();
}
#define LOOKS(NAME, ASM)                                                                                                              \
    struct NAME##_op { __device__ __forceinline__ u32 operator()(char* p) const { u32 v; asm volatile(ASM : "=r"(v) : "l"(p) : "memory"); return v; } }; \
    extern "C" __global__ void NAME(u32* out, char* base, u32 apart, int n) { looks(out, base, apart, n, NAME##_op()); }
LOOKS(look_volatile, "ld.volatile.global.u32 %0, [%1];")
LOOKS(look_acquire, "ld.acquire.gpu.global.u32 %0, [%1];")
LOOKS(look_cas, "atom.global.cas.b32 %0, [%1], 77, 78;")
LOOKS(look_cas_done, "atom.global.cas.b32 %0, [%1], 0, 0;")
LOOKS(look_add, "atom.global.add.u32 %0, [%1], 1;")
LOOKS(look_exchange, "atom.global.exch.b32 %0, [%1], 5;")

// Each warp's lane 0 adds one to a word with compare-and-swap, `turns` times.  out[200 * warp ..]: attempts, cycles of all, SM, a clock
// before and behind; from 8 on three words of each attempt (32 kept of each warp): clock before, behind, what it wanted.
extern "C" __global__ void rivals(u32* out, char* base, int turns, int fresh) {
    __shared__ u32 kept[8][200];
    u32 warp = threadIdx.x >> 5, all = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, warps = (gridDim.x * blockDim.x) >> 5;
    meet((u32*)(base + (1 << 20)), warps);
    if (lane() == 0) {
        u32 *at = (u32*)base, tries = 0, begin = clk(), seen = 0;
#pragma unroll 1
        for (int k = 0; k < turns; k++) {
            if (fresh) seen = *(volatile u32*)at;
            u32 want;
            do {
                want = seen;
                u32 before = clk();
                seen = atomicCAS(at, want, want + 1);
                AFTER(seen);
                u32 behind = clk();
                u32 place = 8 + 3 * min(tries, 63u);
                kept[warp][place] = before;
                kept[warp][place + 1] = behind;
                kept[warp][place + 2] = want;
                tries++;
            } while (seen != want);
            seen = want + 1;
        }
        kept[warp][0] = tries;
        kept[warp][1] = clk() - begin;
        kept[warp][2] = smid();
        kept[warp][3] = begin;
    }
    __syncwarp();
    for (u32 i = lane(); i < 200; i += 32) out[200 * all + i] = kept[warp][i];
}

// Block 1 reads a word, block 0 changes it, block 1 does `action` and reads it again, twice: out[0 .. 5] = the value before, the two behind,
// cycles of the two, the value by a strong load.
extern "C" __global__ void stale(u32* out, u32* words, int action) {
    volatile u32* flag = words + 4096;
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        while (flag[0] == 0) {}
        atomicExch(words, 9);
        __threadfence();
        flag[64] = 1;
        return;
    }
    u32 first, second, third, strong, sum;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(first) : "l"(words) : "memory");
    flag[0] = 1 + (first & 0x80000000u);
    while (flag[64] == 0) {}
    u32 begin = clk();
    switch (action) {
        case 1: sum = atomicCAS(words, 1, 2); break;
        case 2: sum = atomicCAS(words + 1, 1, 2); break;
        case 3: sum = atomicCAS(words + 8, 1, 2); break;
        case 4: asm volatile("st.global.u32 [%0], 3;" ::"l"(words + 1) : "memory"); break;
        case 5: asm volatile("st.global.u32 [%0], 3;" ::"l"(words + 8) : "memory"); break;
        case 6: sum = *(volatile u32*)words; break;
        case 7: __threadfence(); break;
        case 8: asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(sum) : "l"(words + 2048) : "memory"); break;
        case 9: asm volatile("red.global.add.u32 [%0], 1;" ::"l"(words + 8) : "memory"); break;
        case 10: asm volatile("st.volatile.global.u32 [%0], 3;" ::"l"(words + 1) : "memory"); break;
        case 11: asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(sum) : "l"(words + 1) : "memory"); break;
        default: break;
    }
    while (clk() - begin < 4000) {}
    u32 t0 = clk();
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(second) : "l"(words) : "memory");
    AFTER(second);
    u32 t1 = clk();
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(third) : "l"(words) : "memory");
    AFTER(third);
    u32 t2 = clk();
    strong = *(volatile u32*)words;
    out[0] = first, out[1] = second, out[2] = third, out[3] = t1 - t0, out[4] = t2 - t1, out[5] = strong, out[6] = smid();
}

// For `span` cycles the first `loaders` warps of each block load a word again and again, each behind the answer of the one before, and the
// others write `apart` bytes further, one write in `gap` cycles of each; `sides` tells for each SM's number 0 or 1, and only loaders and
// writers of the sides in `load_sides` and `write_sides` (masks) take part.  Writes: a word (0 volatile, 1 weak), a whole sector (2), half of
// one (3), an addition without an answer (4), compare-and-swap (5).  out[4 * warp ..]: cycles, accesses, side, role.
extern "C" __global__ void crossfire(u32* out, char* base, const u32* sides, u32 loaders, u32 load_sides, u32 write_sides, u32 kind, u32 apart, u32 gap, u32 span) {
    u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, warps = (gridDim.x * blockDim.x) >> 5;
    bool loads = (threadIdx.x >> 5) < loaders;
    u32 side = sides[smid()], done = 0;
    meet((u32*)(base + (1 << 20)), warps);
    u32 begin = clk(), now = begin;
    char* at = base + apart;
    if ((loads ? load_sides : write_sides) >> side & 1) {
        if (loads) {
            if (lane() == 0)
                while (now - begin < span) {
                    u32 v;
                    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(v) : "l"(base) : "memory");
                    AFTER(v);
                    now = clk();
                    done++;
                }
        } else if (lane() < (kind == 2 ? 2 : 1)) {
            u32 next = begin + warp * 7 % gap;
            while (now - begin < span) {
                while ((int)((now = clk()) - next) < 0) {}
                next += gap;
                u32 v = 0;
                if (kind == 0) asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(at), "r"(done) : "memory");
                else if (kind == 1) asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(done) : "memory");
                else if (kind < 4) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(at + lane() * 16), "r"(done) : "memory");
                else if (kind == 4) asm volatile("red.global.add.u32 [%0], 1;" ::"l"(at) : "memory");
                else asm volatile("atom.global.cas.b32 %0, [%1], 0, 0;" : "=r"(v) : "l"(at) : "memory");
                AFTER(v);
                done++;
            }
        }
    }
    if (lane() == 0) out[4 * warp] = now - begin, out[4 * warp + 1] = done, out[4 * warp + 2] = side, out[4 * warp + 3] = loads;
}

// Lane 0 adds to a word of shared memory `n` times, in a loop that YIELDs since the sum ends it or in one that does not, while the others
// have ended (0), wait behind the loop for all (1), at the block's barrier (2), end as they are let go (3), or spin as well (4).
template <int OTHERS, bool YIELDS>
__device__ __forceinline__ void yields(u32* out, int n) {
    __shared__ u32 sum, over;
    if (lane() == 0) sum = over = 0;
    __syncwarp();
    if (OTHERS == 0 && lane()) return;
    u32 begin = clk(), end = begin;
    if (lane() == 0) {
        if (YIELDS)
            while (atomicAdd(&sum, 1) < (u32)n - 1) {}
        else {
            u32 got = 0;
#pragma unroll 1
            for (int i = 0; i < n; i++) got = atomicAdd(&sum, 1 + (got & 0x80000000u));
            AFTER(got);
        }
        end = clk();
        *(volatile u32*)&over = 1;
    } else if (OTHERS == 4) {
        while (*(volatile u32*)&over == 0) {}
    }
    if (OTHERS == 1) __syncwarp();
    if (OTHERS == 2) __syncthreads();
    if (lane() == 0) out[0] = end - begin;
}
#define YIELDING(NAME, OTHERS)                                                                          \
    extern "C" __global__ void yields_##NAME(u32* out, int n) { yields<OTHERS, true>(out, n); }         \
    extern "C" __global__ void stays_##NAME(u32* out, int n) { yields<OTHERS, false>(out, n); }
YIELDING(alone, 0)
YIELDING(joined, 1)
YIELDING(barrier, 2)
YIELDING(ended, 3)
YIELDING(spinning, 4)
