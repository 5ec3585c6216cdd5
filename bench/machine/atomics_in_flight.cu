// Additions of many warps of all SMs to one word, which wait there for thousands of cycles, and loads of other warps of the same SMs meanwhile.
#include "polls.cuh"

#define TURNS 16

// Blocks begin together: when the last has come, and the words that they looked at have been quiet for some time.
__device__ __forceinline__ void begin_together(unsigned *arrived, unsigned target)
{
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1);
        while (*(volatile unsigned *)arrived < target) {}
        unsigned begin = now();
        while (now() - begin < 4000) {}
    }
    __syncthreads();
}

// Warps 0 to 3, one of each sub-core, load; the `adding` next ones add: once and wait for the answer, or TURNS times without one.
template <bool ANSWERS>
__device__ __forceinline__ void crowd(unsigned *out, unsigned *words, unsigned target, int adding, int hot)
{
    unsigned *word = words + 1024, warp = threadIdx.x / 32, times[TURNS + 1];
    begin_together(words, target);
    if (threadIdx.x % 32 || (int)warp >= 4 + adding)
        return;
    times[0] = now();
    if (warp < 4) {
        unsigned *at = hot ? word : words + 2048 + (blockIdx.x * 4 + warp) * 32;
#pragma unroll
        for (int i = 0; i < TURNS; i++) {
            unsigned value = poll(at);
            times[i + 1] = now(); // when the load has issued, which waits for the one before
            at += value >> 31;
        }
    } else if (ANSWERS) {
        unsigned old = atomicAdd(word, 1);
        times[1] = now();
        old = poll(words + 2048 + (old >> 31));
#pragma unroll
        for (int i = 2; i <= TURNS; i++)
            times[i] = now() + (old >> 31);
    } else {
#pragma unroll
        for (int i = 0; i < TURNS; i++) {
            asm volatile("red.global.add.u32 [%0], 1;" :: "l"(word) : "memory");
            times[i + 1] = now();
        }
    }
#pragma unroll
    for (int i = 0; i <= TURNS; i++)
        out[(blockIdx.x * 32 + warp) * (TURNS + 1) + i] = times[i];
}

extern "C" __global__ void with_answers(unsigned *out, unsigned *words, unsigned target, int adding, int hot) { crowd<true>(out, words, target, adding, hot); }
extern "C" __global__ void without(unsigned *out, unsigned *words, unsigned target, int adding, int hot) { crowd<false>(out, words, target, adding, hot); }
