// Fences of some warps among polls of others, and barriers of all blocks at one word whose parts are timed.
#include "polls.cuh"

// Blocks begin together: when the last has come, and the word that they looked at has been quiet for some time.
__device__ __forceinline__ void begin_together(unsigned *arrived, unsigned target)
{
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1);
        while (poll(arrived) < target) {}
        unsigned begin = now();
        while (now() - begin < 6000) {}
    }
    __syncthreads();
}

// What a fencing warp does in a turn. Of a release only the fence comes before the store, of an acquire only the invalidation after the load.
enum { NOTHING, THREADFENCE, ACQ_REL, SYSTEM, BLOCK, RELEASE, ACQUIRE, STORED_THREADFENCE, STORE, LOAD, STORED_RELEASE };

template <int KIND> __device__ __forceinline__ void turn(unsigned *own)
{
    unsigned value;
    if (KIND == STORED_THREADFENCE || KIND == STORE || KIND == STORED_RELEASE)
        store(own + 8, 1);
    if (KIND == THREADFENCE || KIND == STORED_THREADFENCE)
        __threadfence();
    if (KIND == ACQ_REL)
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
    if (KIND == SYSTEM)
        asm volatile("fence.acq_rel.sys;" ::: "memory");
    if (KIND == BLOCK)
        asm volatile("fence.acq_rel.cta;" ::: "memory");
    if (KIND == RELEASE || KIND == STORED_RELEASE)
        asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(own), "r"(1) : "memory");
    if (KIND == ACQUIRE) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(own) : "memory");
        if (value == 0xffffffffu)
            __nanosleep(1);
    }
    if (KIND == LOAD && poll(own) == 0xffffffffu)
        __nanosleep(1);
}

// Of each SM's one block, `polling` warps poll, `fencing` ones fence and `adding` ones add, for `span` cycles. `apart`: odd blocks only fence, even ones only poll and add.
template <int KIND>
__device__ __forceinline__ void crowd(unsigned *out, unsigned *words, unsigned target, int polling, int fencing, int adding, int hot, int apart, unsigned span)
{
    unsigned warp = threadIdx.x / 32, count = 0, sum = 0, longest = 0;
    unsigned *word = words + 1024, *mine = words + 4096 + (blockIdx.x * 32 + warp) * 64;
    begin_together(words, target);
    if (threadIdx.x % 32)
        return;
    bool polls = (int)warp < polling, fences = !polls && (int)warp < polling + fencing;
    bool adds = !polls && !fences && (int)warp < polling + fencing + adding;
    if (apart && fences != (bool)(blockIdx.x & 1))
        polls = fences = adds = false;
    if (!hot)
        word = mine;
    unsigned begin = now(), last = begin, time = begin;
    while (time - begin < span && (polls || fences || adds)) {
        if (polls) {
            if (poll(word) == 0xffffffffu)
                __nanosleep(1);
        } else if (fences) {
            turn<KIND>(mine);
        } else if (atomicAdd(word, 1) == 0xffffffffu) {
            __nanosleep(1);
        }
        time = now();
        count++;
        sum += time - last;
        longest = max(longest, time - last);
        last = time;
    }
    unsigned *row = out + (blockIdx.x * 32 + warp) * 4;
    row[0] = polls ? 1 : fences ? 2 : adds ? 3 : 0;
    row[1] = count;
    row[2] = sum;
    row[3] = longest;
}

#define CROWD(KIND) extern "C" __global__ void __launch_bounds__(1024) crowd_##KIND(unsigned *out, unsigned *words, unsigned target, int polling, int fencing, int adding, int hot, int apart, unsigned span) { crowd<KIND>(out, words, target, polling, fencing, adding, hot, apart, span); }
CROWD(NOTHING) CROWD(THREADFENCE) CROWD(ACQ_REL) CROWD(SYSTEM) CROWD(BLOCK) CROWD(RELEASE) CROWD(ACQUIRE) CROWD(STORED_THREADFENCE) CROWD(STORE) CROWD(LOAD) CROWD(STORED_RELEASE)

// A barrier of the whole grid as bench.machine.barriers has it; the first threads sum the cycles of its parts. Of the last one the clock at each part's end is stored.
// WAITS: the first poll leaves when the addition has its answer (else at once, as the compiler has it). FRAME: each thread stores four words to its stack before.
template <char BEFORE, char AFTER, bool WAITS, bool FRAME = false> __device__ __forceinline__ void parts(unsigned *out, unsigned *word, int repeats)
{
    unsigned sums[6] = {0, 0, 0, 0, 0, 0}, at[6], frame[4], stack = (unsigned)__cvta_generic_to_local(frame);
    for (int i = 0; i < repeats; i++) {
        at[0] = now();
        if (FRAME) {
#pragma unroll
            for (int k = 0; k < 4; k++)
                asm volatile("st.local.u32 [%0], %1;" :: "r"(stack + 4 * k), "r"(i) : "memory");
        }
        if (BEFORE == 'a')
            __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) {
            at[1] = now();
            if (BEFORE == 'l')
                __threadfence();
            at[2] = now();
            unsigned old = atomicAdd(word, blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1);
            unsigned polls = 0;
            if (WAITS && old == 0x12345678u)
                __nanosleep(1);
            at[3] = now();
            while (((old ^ poll(word)) & 0x80000000u) == 0)
                polls++;
            at[4] = now();
            if (AFTER == 'l')
                __threadfence();
            at[5] = now();
            if (i > 0) {
                for (int k = 0; k < 5; k++)
                    sums[k] += at[k + 1] - at[k];
                sums[5] += polls + 1;
            }
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        unsigned sm, *row = out + blockIdx.x * 13;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        row[0] = sm;
        for (int k = 0; k < 6; k++) {
            row[1 + k] = sums[k];
            row[7 + k] = at[k];
        }
    }
}

#define FRAMED(NAME, BEFORE, AFTER) extern "C" __global__ void parts_##NAME(unsigned *out, unsigned *word, int repeats) { parts<BEFORE, AFTER, false, true>(out, word, repeats); }
FRAMED(nnf, 'n', 'n') FRAMED(nlf, 'n', 'l') FRAMED(anf, 'a', 'n') FRAMED(alf, 'a', 'l') FRAMED(llf, 'l', 'l')
#define PARTS(NAME, BEFORE, AFTER, WAITS) extern "C" __global__ void parts_##NAME(unsigned *out, unsigned *word, int repeats) { parts<BEFORE, AFTER, WAITS>(out, word, repeats); }
PARTS(nn, 'n', 'n', false) PARTS(ln, 'l', 'n', false) PARTS(an, 'a', 'n', false) PARTS(nl, 'n', 'l', false) PARTS(ll, 'l', 'l', false)
PARTS(nnw, 'n', 'n', true) PARTS(lnw, 'l', 'n', true) PARTS(nlw, 'n', 'l', true) PARTS(llw, 'l', 'l', true)

// Rounds of stores by the first `storing` warps of each block, fences by those from `from` on, and the block's barrier. SPACE: local or global, COUNT whole lines of each warp.
template <char SPACE, int COUNT> __device__ __forceinline__ void rounds(unsigned *out, unsigned *words, int repeats, int storing, int from)
{
    unsigned frame[8], at = (unsigned)__cvta_generic_to_local(frame), warp = threadIdx.x / 32, sum = 0;
    unsigned *mine = words + 4096 + (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 256 + threadIdx.x % 32;
    __syncthreads();
    unsigned begin = now();
#pragma unroll 1
    for (int i = 0; i < repeats; i++) {
        if ((int)warp < storing) {
#pragma unroll
            for (int k = 0; k < COUNT; k++) {
                if (SPACE == 'l')
                    asm volatile("st.local.u32 [%0], %1;" :: "r"(at + 4 * k), "r"(i) : "memory");
                else
                    asm volatile("st.global.u32 [%0], %1;" :: "l"(mine + 32 * k), "r"(i) : "memory");
            }
        }
        if ((int)warp >= from)
            __threadfence();
        __syncthreads();
    }
    unsigned end = now();
    if (SPACE == 'l')
        asm volatile("ld.local.u32 %0, [%1];" : "=r"(sum) : "r"(at) : "memory");
    if (threadIdx.x % 32 == 0) {
        unsigned *row = out + (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 4, sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        row[0] = begin;
        row[1] = end;
        row[2] = sm;
        row[3] = sum;
    }
}

#define ROUNDS(NAME, SPACE, COUNT) extern "C" __global__ void rounds_##NAME(unsigned *out, unsigned *words, int repeats, int storing, int from) { rounds<SPACE, COUNT>(out, words, repeats, storing, from); }
ROUNDS(l1, 'l', 1) ROUNDS(l2, 'l', 2) ROUNDS(l4, 'l', 4) ROUNDS(l8, 'l', 8) ROUNDS(g1, 'g', 1) ROUNDS(g4, 'g', 4) ROUNDS(g8, 'g', 8)
