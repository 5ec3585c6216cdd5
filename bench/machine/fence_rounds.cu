// Each warp waits for its time, stores some lines and fences, as a table says; records when its stores have been issued and when its fence is over.
#include "polls.cuh"

// What a warp does at its time, and the columns of the table, which has one row for each warp of a block: GROUP is a barrier of GROUP_WARPS warps that begin together.
enum { NOTHING, THREADFENCE, ACQ_REL, SYSTEM, POLL, ADD };
enum { OFFSET, LINES, STACK, KIND, FIRST_LINE, GROUP, GROUP_WARPS, COLUMNS };

struct Turns {
    unsigned base, period, *out, *mine, *word;
    int offset, group, threads, count;
};

// Waits for the warp's time; returns the clock when it begins.
static __device__ __forceinline__ unsigned begin(Turns all, unsigned base)
{
    while ((int)(now() - base) < all.offset) {}
    asm volatile("bar.sync %0, %1;" :: "r"(all.group), "r"(all.threads) : "memory");
    return now();
}

static __device__ __forceinline__ void leave(Turns all, int turn, unsigned first, unsigned stored, unsigned over)
{
    if (threadIdx.x % 32)
        return;
    unsigned *row = all.out + turn * 4;
    row[0] = first;
    row[1] = stored;
    row[2] = over;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(row[3]));
}

template <int LINES, bool STACK, int FENCE> static __device__ __forceinline__ void stores(Turns all)
{
    unsigned frame[8], stack = (unsigned)__cvta_generic_to_local(frame), base = all.base, kept = 0;
#pragma unroll 1
    for (int turn = 0; turn < all.count; turn++, base += all.period) {
        unsigned first = begin(all, base);
#pragma unroll
        for (int k = 0; k < LINES; k++) {
            if (STACK)
                asm volatile("st.local.u32 [%0], %1;" :: "r"(stack + 4 * k), "r"(turn) : "memory");
            else
                asm volatile("st.global.u32 [%0], %1;" :: "l"(all.mine + 32 * k), "r"(turn) : "memory");
        }
        unsigned stored = now();
        if (FENCE == THREADFENCE)
            __threadfence();
        if (FENCE == ACQ_REL)
            asm volatile("fence.acq_rel.gpu;" ::: "memory");
        if (FENCE == SYSTEM)
            asm volatile("fence.acq_rel.sys;" ::: "memory");
        leave(all, turn, first - base, stored - base, now() - base);
    }
    if (STACK)
        asm volatile("ld.local.u32 %0, [%1];" : "=r"(kept) : "r"(stack) : "memory");
    if (kept == 0x7fffffff)
        all.out[0] = kept;
}

// Polls until a turn ends; the third word is the number of polls.
static __device__ __forceinline__ void polls(Turns all)
{
    unsigned base = all.base;
    for (int turn = 0; turn < all.count; turn++, base += all.period) {
        unsigned first = now(), count = 0;
        while ((int)(now() - base) < (int)all.period - 600) {
            if (poll(all.word) == 0xffffffffu)
                __nanosleep(1);
            count++;
        }
        leave(all, turn, first - base, now() - base, count);
    }
}

static __device__ __forceinline__ void adds(Turns all)
{
    unsigned base = all.base;
    for (int turn = 0; turn < all.count; turn++, base += all.period) {
        unsigned first = begin(all, base);
        if (threadIdx.x % 32 == 0 && atomicAdd(all.word, 1) == 0xffffffffu)
            __nanosleep(1);
        leave(all, turn, first - base, first - base, now() - base);
    }
}

template <int FENCE> static __device__ __forceinline__ void fenced(Turns all, int lines, bool stack)
{
    switch (lines) {
    case 0: return stores<0, false, FENCE>(all);
    case 1: return stack ? stores<1, true, FENCE>(all) : stores<1, false, FENCE>(all);
    case 2: return stack ? stores<2, true, FENCE>(all) : stores<2, false, FENCE>(all);
    case 4: return stack ? stores<4, true, FENCE>(all) : stores<4, false, FENCE>(all);
    default: return stack ? stores<8, true, FENCE>(all) : stores<8, false, FENCE>(all);
    }
}

// `words`: a counter of blocks, a word that is polled and added to, and 32 lines for each warp of the grid. `shift`: 0, or turns begin when the SM's clock is a multiple of 2^shift.
extern "C" __global__ void __launch_bounds__(1024) scripted(unsigned *out, unsigned *words, const int *table, unsigned target, int turns, unsigned period, int shift)
{
    unsigned warp = threadIdx.x / 32, number = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const int *row = table + warp * COLUMNS;
    __shared__ unsigned start;
    if (threadIdx.x == 0) {
        atomicAdd(words, 1);
        while (poll(words) < target) {}
        unsigned quiet = now();
        while (now() - quiet < 6000) {}
        start = shift ? ((now() >> shift) + 2) << shift : now() + 500;
    }
    __syncthreads();
    Turns all = {start, period, out + number * turns * 4, words + 4096 + number * 1024 + row[FIRST_LINE] * 32 + threadIdx.x % 32, words + 1024, row[OFFSET], row[GROUP], row[GROUP_WARPS] * 32, turns};
    switch (row[KIND]) {
    case POLL:
        if (threadIdx.x % 32 == 0)
            polls(all);
        return;
    case ADD: return adds(all);
    case NOTHING: return fenced<NOTHING>(all, row[LINES], row[STACK]);
    case THREADFENCE: return fenced<THREADFENCE>(all, row[LINES], row[STACK]);
    case ACQ_REL: return fenced<ACQ_REL>(all, row[LINES], row[STACK]);
    default: return fenced<SYSTEM>(all, row[LINES], row[STACK]);
    }
}

// A barrier of the grid like that of the runtime's routine: each warp stores four lines to its stack (if STORES) and fences, and one thread of each block adds to a word and polls it.
// Records sums of cycles: of each warp until its fence is over; of each block's first warp also until its block has met, and from then until it sees that the grid has; then its number of polls, and cycles in all.
template <bool STORES> static __device__ __forceinline__ void barriers(unsigned *out, unsigned *word, int repeats)
{
    unsigned frame[4], stack = (unsigned)__cvta_generic_to_local(frame), fences = 0, met = 0, waited = 0, count = 0, kept = 0, start = 0, last = 0;
#pragma unroll 1
    for (int i = 0; i < repeats; i++) {
        unsigned begin = now();
        if (i == 1)
            start = begin;
        if (STORES) {
#pragma unroll
            for (int k = 0; k < 4; k++)
                asm volatile("st.local.u32 [%0], %1;" :: "r"(stack + 4 * k), "r"(i) : "memory");
        }
        __threadfence();
        if (i)
            fences += now() - begin;
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned here = now();
            unsigned old = atomicAdd(word, blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1), polled = 1;
            while (((old ^ poll(word)) & 0x80000000u) == 0)
                polled++;
            last = now();
            if (i) {
                met += here - begin;
                waited += last - here;
                count += polled;
            }
        }
        __syncthreads();
        if (STORES)
            asm volatile("ld.local.u32 %0, [%1];" : "=r"(kept) : "r"(stack) : "memory");
    }
    if (threadIdx.x % 32 == 0) {
        unsigned *row = out + (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 5;
        row[0] = fences;
        row[1] = met;
        row[2] = waited;
        row[3] = count;
        row[4] = last - start + (kept == 0x7fffffff);
    }
}

extern "C" __global__ void __launch_bounds__(1024) barriers_after_stores(unsigned *out, unsigned *word, int repeats) { barriers<true>(out, word, repeats); }
extern "C" __global__ void __launch_bounds__(1024) barriers_alone(unsigned *out, unsigned *word, int repeats) { barriers<false>(out, word, repeats); }
