// Additions that hit L2, among which additions or other accesses miss; and additions to several words and sectors of a line.
#include "memory_kernels.cuh"
using u16 = unsigned short;
enum Kind { NONE, SUM, LOAD, STORE, ANSWERED };

__device__ __forceinline__ void add(char* at) { asm volatile("red.global.add.u32 [%0], 1;" ::"l"(at) : "memory"); }

// What a pair of lanes does to a sector of a line that L2 does not have.
template <int Kind> __device__ __forceinline__ u32 miss(char* at, u32 half) {
    u32 v = 0;
    if (Kind == SUM && half == 0) add(at);
    if (Kind == LOAD && half == 0) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    if (Kind == STORE) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(at + 16 * half), "r"(half) : "memory");
    if (Kind == ANSWERED && half == 0) asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(v) : "l"(at) : "memory");
    return v;
}

// A round of each pair: an addition to one of hot_lines + 1 lines, or in one of `period` rounds (0: never) an access to the next of cold_lines + 1 lines in a scrambled
// order.  Both and period are powers of two (the first two less one).
template <int Kind>
__device__ __forceinline__ u32 one_round(char* hot, u32 hot_lines, char* cold, u32 cold_lines, u32 period, u32 number, u32 first) {
    u32 r = mixed(number + first), drawn = mixed(r + 0x9e3779b9u), half = threadIdx.x & 1;
    if (Kind != NONE && period && ((drawn >> 8) & (period - 1)) == 0) {
        u32 line = ((number + first) * 0x2545f491u) & cold_lines;
        line ^= line >> 9;
        return miss<Kind>(cold + (u64)line * 128 + 32 * (drawn & 3), half);
    }
    if (half == 0) add(hot + (u64)(r & hot_lines) * 128 + 32 * (drawn & 3));
    return 0;
}

// `n` rounds of each pair.  out: start and end of each block in ns.
template <int Kind> __device__ void rounds(u64* out, char* hot, u32 hot_lines, char* cold, u32 cold_lines, u32 period, u32 first, int n) {
    u32 pair = (blockIdx.x * blockDim.x + threadIdx.x) >> 1, total = (gridDim.x * blockDim.x) >> 1, sum = 0;
    __syncthreads();
    u64 begin = wall_ns();
#pragma unroll 4
    for (int k = 0; k < n; k++) sum += one_round<Kind>(hot, hot_lines, cold, cold_lines, period, pair + k * total, first);
    if (sum == 0x12345678) hot[0] = 1;
    __syncthreads();
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = begin;
        out[2 * blockIdx.x + 1] = wall_ns();
    }
}

// What a pair of lanes does to a random sector of the small memory.
template <int Kind> __device__ __forceinline__ u32 hit(char* hot, u32 hot_lines, u32 number, u32 first) {
    u32 r = mixed(number + first);
    char* at = hot + (u64)(r & hot_lines) * 128 + 32 * (mixed(r) & 3);
    return miss<Kind>(at, threadIdx.x & 1);
}

// Rounds for `span` ns; only the first `missing` blocks have rounds that miss.  The other blocks add to the small memory, or load from it or store to it (Other).
// out: for each block, the sum of its warps' rounds, and its time in ns.
template <int Kind, int Other>
__device__ void for_a_while(u64* out, char* hot, u32 hot_lines, char* cold, u32 cold_lines, u32 period, u32 first, u32 missing, u32 span) {
    __shared__ u32 done;
    u32 pair = (blockIdx.x * blockDim.x + threadIdx.x) >> 1, total = (gridDim.x * blockDim.x) >> 1, sum = 0, n = 0;
    if (threadIdx.x == 0) done = 0;
    __syncthreads();
    u64 begin = wall_ns(), now = begin;
    for (; now - begin < span; now = wall_ns())
        for (u32 end = n + 4; n < end; n++)
            sum += Other != SUM && blockIdx.x >= missing
                       ? hit<Other>(hot, hot_lines, pair + n * total, first)
                       : one_round<Kind>(hot, hot_lines, cold, cold_lines, blockIdx.x < missing ? period : 0, pair + n * total, first);
    if (sum == 0x12345678) hot[0] = 1;
    if (threadIdx.x % 32 == 0) atomicAdd(&done, n);
    __syncthreads();
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = done;
        out[2 * blockIdx.x + 1] = now - begin;
    }
}

#define KERNELS(name, kind)                                                                                                                    \
    extern "C" __global__ void name(u64* out, char* hot, u32 hot_lines, char* cold, u32 cold_lines, u32 period, u32 first, int n) {           \
        rounds<kind>(out, hot, hot_lines, cold, cold_lines, period, first, n);                                                                \
    }                                                                                                                                         \
    extern "C" __global__ void name##_beside(u64* out, char* hot, u32 hot_lines, char* cold, u32 cold_lines, u32 period, u32 first,           \
                                             u32 missing, u32 span) {                                                                         \
        for_a_while<kind, SUM>(out, hot, hot_lines, cold, cold_lines, period, first, missing, span);                                               \
    }
KERNELS(none, NONE)
KERNELS(sum, SUM)
KERNELS(load, LOAD)
KERNELS(store, STORE)
KERNELS(answered, ANSWERED)

#define OTHERS(name, other)                                                                                                                    \
    extern "C" __global__ void sum_beside_##name(u64* out, char* hot, u32 hot_lines, char* cold, u32 cold_lines, u32 period, u32 first,       \
                                                 u32 missing, u32 span) {                                                                     \
        for_a_while<SUM, other>(out, hot, hot_lines, cold, cold_lines, period, first, missing, span);                                         \
    }
OTHERS(loads, LOAD)
OTHERS(stores, STORE)

// Fills L2 with clean lines.
extern "C" __global__ void sweep(const uint4* from, u32 words, u32* sink) {
    u32 step = gridDim.x * blockDim.x, sum = 0;
#pragma unroll 8
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) sum += __ldcg(from + i).x;
    if (sum == 0x12345678) *sink = 1;
}

__device__ __forceinline__ u32 sm_number() {
    u32 sm;
    asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
    return sm;
}

// The least cycles of several additions with an answer to each block of 4 KiB, by each SM's first thread: about 190 more for those of the other side.
extern "C" __global__ void sides(u16* cycles, char* memory, u32 blocks) {
    if (threadIdx.x) return;
    for (u32 b = 0; b < blocks; b++) {
        u32 best = 65535;
        for (int turn = 0; turn < 4; turn++) {
            u32 begin, end, old;
            asm volatile("mov.u32 %0, %%clock;" : "=r"(begin)::"memory");
            asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(old) : "l"(memory + 4096 * (u64)b + 128 * (blockIdx.x & 31)) : "memory");
            asm volatile("{ .reg .pred p; setp.eq.u32 p, %1, 0x9e3779b9; @p trap; mov.u32 %0, %%clock; }" : "=r"(end) : "r"(old) : "memory");
            best = min(best, end - begin);
        }
        cycles[sm_number() * blocks + b] = best;
    }
}

// `n` rounds in which each group of `words` * `sectors` lanes adds to (or stores, or loads) `words` words in each of `sectors` sectors of a line.  The line is in one of `count` blocks
// of 4 KiB from the SM's row of `lists`, whose number is in `rows`.  words and sectors are powers of two.
template <int Kind> __device__ void several(u64* out, char* memory, const u16* lists, const u32* rows, u32 count, u32 words, u32 sectors, u32 seed, int n) {
    u32 id = blockIdx.x * blockDim.x + threadIdx.x, lanes = words * sectors, lane = id & (lanes - 1), total = gridDim.x * blockDim.x / lanes, sum = 0;
    const u16* list = lists + rows[sm_number()] * count;
    u32 offset = 32 * (lane / words) + 4 * (lane % words);
    __syncthreads();
    u64 begin = wall_ns();
#pragma unroll 4
    for (int k = 0; k < n; k++) {
        u32 r = mixed(id / lanes + k * total + seed);
        char* at = memory + 4096 * (u64)__ldg(list + __umulhi(r, count)) + 128 * (r & 31) + (sectors == 4 ? 0 : 32 * ((r >> 5) & (4 - sectors))) + offset;
        if (Kind == SUM) add(at);
        if (Kind == STORE) asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(r) : "memory");
        if (Kind == LOAD) {
            u32 v;
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
            sum += v;
        }
    }
    if (sum == 0x12345678) memory[0] = 1;
    __syncthreads();
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = begin;
        out[2 * blockIdx.x + 1] = wall_ns();
    }
}

#define SEVERAL(name, kind)                                                                                                                     \
    extern "C" __global__ void several_##name(u64* out, char* memory, const u16* lists, const u32* rows, u32 count, u32 words, u32 sectors,   \
                                              u32 seed, int n) {                                                                              \
        several<kind>(out, memory, lists, rows, count, words, sectors, seed, n);                                                              \
    }
SEVERAL(sums, SUM)
SEVERAL(stores, STORE)
SEVERAL(loads, LOAD)

// `n` rounds in which each thread reads a word of a stream and adds to a random word in one of `count` blocks of 4 KiB from the SM's row of `lists`.
extern "C" __global__ void sums_by_side(char* memory, const u16* lists, const u32* rows, u32 count, const u32* stream, u32 last, u32 seed, int n) {
    u32 id = blockIdx.x * blockDim.x + threadIdx.x, total = gridDim.x * blockDim.x;
    const u16* list = lists + rows[sm_number()] * count;
#pragma unroll 4
    for (int k = 0; k < n; k++) {
        u32 i = id + k * total, r = mixed(i + seed + stream[i & last]);
        add(memory + 4096 * (u64)__ldg(list + __umulhi(r, count)) + 4 * (mixed(r) & 1023));
    }
}
