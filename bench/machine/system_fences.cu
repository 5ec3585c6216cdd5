// Each warp of an SM waits for its time, stores to memory of some kind and fences for the system (or for the device, to compare); records when its stores have been issued and when its fence is over.
#include "polls.cuh"

// Returns when the clock is `offset` cycles after `base`; sleeps until shortly before, so that waiting warps take no turns from others.
static __device__ __forceinline__ void await(unsigned base, unsigned offset)
{
    while ((int)(base + offset - now()) > 2500)
        __nanosleep(400);
    while ((int)(now() - base) < (int)offset) {}
}

enum { SC_SYSTEM, ACQ_REL_SYSTEM, SC_DEVICE };

template <int FENCE> static __device__ __forceinline__ void fence()
{
    if (FENCE == SC_SYSTEM)
        __threadfence_system();
    else if (FENCE == ACQ_REL_SYSTEM)
        asm volatile("fence.acq_rel.sys;" ::: "memory");
    else
        __threadfence();
}

// `words`: a counter of blocks, then a word for each SM with the cycle at which its turns begin. SMs from `sms` on end at once. A warp of number w in its SM begins w * `apart` cycles later.
// `stores`: 0 none, 1 one lane's word, 2 a line, to `to`, 32 words for each warp of the grid; 3 two words of each thread to the stack.
template <int FENCE> static __device__ __forceinline__ void timed(unsigned *out, unsigned *words, unsigned *to, unsigned target, int sms, int turns, unsigned period, int stores, unsigned apart)
{
    unsigned warp = threadIdx.x / 32, number = (blockIdx.x * blockDim.x + threadIdx.x) / 32, sm = smid(), kept = 0;
    unsigned frame[2], stack = (unsigned)__cvta_generic_to_local(frame);
    __shared__ unsigned start, place;
    extern __shared__ unsigned seen[]; // three words for each turn of each warp
    if (threadIdx.x == 0) {
        place = atomicAdd(words + 4096 + sm, 1);
        atomicAdd(words, 1);
        while (poll(words) < target) {}
        unsigned mine = (now() + 12000) | 1, old = atomicCAS(words + 1024 + sm, 0, mine);
        start = old ? old : mine;
    }
    __syncthreads();
    unsigned base = start, *mine = to + number * 32 + threadIdx.x % 32, offset = (place * (blockDim.x / 32) + warp) * apart;
    if (sm < sms) {
#pragma unroll 1
        for (int turn = 0; turn < turns; turn++, base += period) {
            await(base, 0);
            __syncthreads();
            if (apart)
                await(base, offset);
            unsigned first = now();
            if (stores == 2 || (stores == 1 && threadIdx.x % 32 == 0))
                asm volatile("st.global.u32 [%0], %1;" :: "l"(mine), "r"(turn) : "memory");
            if (stores == 3) {
                asm volatile("st.local.u32 [%0], %1;" :: "r"(stack), "r"(turn) : "memory");
                asm volatile("st.local.u32 [%0], %1;" :: "r"(stack + 4), "r"(turn) : "memory");
            }
            unsigned stored = now();
            fence<FENCE>();
            unsigned over = now();
            if (threadIdx.x % 32 == 0) {
                unsigned *row = seen + (warp * turns + turn) * 3;
                row[0] = first - base;
                row[1] = stored - base;
                row[2] = over - base;
            }
        }
        for (int i = 0; i < turns * 3 && threadIdx.x % 32 == 0; i++)
            out[number * turns * 3 + i] = seen[warp * turns * 3 + i];
        if (stores == 3)
            asm volatile("ld.local.u32 %0, [%1];" : "=r"(kept) : "r"(stack) : "memory");
    }
    if (threadIdx.x % 32 == 0)
        out[gridDim.x * (blockDim.x / 32) * turns * 3 + number] = sm + (kept == 0x7fffffff);
}

#define TIMED(NAME, FENCE) \
    extern "C" __global__ void __launch_bounds__(1024, 2) NAME(unsigned *out, unsigned *words, unsigned *to, unsigned target, int sms, int turns, unsigned period, int stores, unsigned apart) { timed<FENCE>(out, words, to, target, sms, turns, period, stores, apart); }
TIMED(sc_system, SC_SYSTEM)
TIMED(acq_rel_system, ACQ_REL_SYSTEM)
TIMED(sc_device, SC_DEVICE)

// Every warp of the first `sms` SMs fences `count` times, one after the other; records the cycles of each warp from the common beginning.
template <int FENCE> static __device__ __forceinline__ void chained(unsigned *out, unsigned *words, unsigned *to, unsigned target, int sms, int count, int stores)
{
    unsigned number = (blockIdx.x * blockDim.x + threadIdx.x) / 32, sm = smid(), *mine = to + number * 32 + threadIdx.x % 32;
    __shared__ unsigned start;
    if (threadIdx.x == 0) {
        atomicAdd(words, 1);
        while (poll(words) < target) {}
        unsigned mine = (now() + 12000) | 1, old = atomicCAS(words + 1024 + sm, 0, mine);
        start = old ? old : mine;
    }
    __syncthreads();
    unsigned base = start;
    if (sm < sms) {
        await(base, 0);
        __syncthreads();
#pragma unroll 1
        for (int i = 0; i < count; i++) {
            if (stores)
                asm volatile("st.global.u32 [%0], %1;" :: "l"(mine), "r"(i) : "memory");
            fence<FENCE>();
        }
    }
    unsigned over = now();
    if (threadIdx.x % 32 == 0) {
        out[2 * number] = over - base;
        out[2 * number + 1] = sm;
    }
}

extern "C" __global__ void __launch_bounds__(1024, 2) chain_system(unsigned *out, unsigned *words, unsigned *to, unsigned target, int sms, int count, int stores) { chained<SC_SYSTEM>(out, words, to, target, sms, count, stores); }
extern "C" __global__ void __launch_bounds__(1024, 2) chain_device(unsigned *out, unsigned *words, unsigned *to, unsigned target, int sms, int count, int stores) { chained<SC_DEVICE>(out, words, to, target, sms, count, stores); }

// A barrier of the grid: every thread stores two words to its stack (if STORES) and fences, and one thread of each block adds to a word and polls it; then cycles per barrier.
template <int FENCE, bool STORES> static __device__ __forceinline__ void barriers(unsigned *out, unsigned *word, int repeats)
{
    unsigned frame[2], stack = (unsigned)__cvta_generic_to_local(frame), start = 0, last = 0, kept = 0;
#pragma unroll 1
    for (int i = 0; i < repeats; i++) {
        if (i == 1)
            start = now();
        if (STORES) {
            asm volatile("st.local.u32 [%0], %1;" :: "r"(stack), "r"(i) : "memory");
            asm volatile("st.local.u32 [%0], %1;" :: "r"(stack + 4), "r"(i) : "memory");
        }
        fence<FENCE>();
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned old = atomicAdd(word, blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1);
            while (((old ^ poll(word)) & 0x80000000u) == 0) {}
        }
        __syncthreads();
        last = now();
        if (STORES)
            asm volatile("ld.local.u32 %0, [%1];" : "=r"(kept) : "r"(stack) : "memory");
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = last - start + (kept == 0x7fffffff);
}

extern "C" __global__ void __launch_bounds__(1024, 2) barrier_system(unsigned *out, unsigned *word, int repeats) { barriers<SC_SYSTEM, false>(out, word, repeats); }
extern "C" __global__ void __launch_bounds__(1024, 2) barrier_system_stack(unsigned *out, unsigned *word, int repeats) { barriers<SC_SYSTEM, true>(out, word, repeats); }
extern "C" __global__ void __launch_bounds__(1024, 2) barrier_device(unsigned *out, unsigned *word, int repeats) { barriers<SC_DEVICE, false>(out, word, repeats); }
extern "C" __global__ void __launch_bounds__(1024, 2) barrier_device_stack(unsigned *out, unsigned *word, int repeats) { barriers<SC_DEVICE, true>(out, word, repeats); }
