// A word that two blocks hand back and forth, or that one warp stores and polls, while the warps of the other SMs poll another word; each poll is timed.
#include "polls.cuh"

#define POLLS 8
#define LOGGED 512

__device__ __forceinline__ void watch(unsigned *out, const char *word)
{
    if (threadIdx.x % 32)
        return;
    unsigned looks = 0, begin = now();
    while (poll(word) == 0)
        looks++;
    unsigned *row = out + 2 * LOGGED + 2 * (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
    row[0] = now() - begin;
    row[1] = looks + 1;
}

// Block `measured` stores at `at` (bytes from the polled word; -1: it does not store), then polls POLLS times at `load`, `turns` times. out: the sums of each poll's cycles.
extern "C" __global__ void after_store(unsigned *out, char *word, int measured, int at, int load, int turns)
{
    if (blockIdx.x != measured) {
        watch(out, word);
        return;
    }
    if (threadIdx.x)
        return;
    unsigned sums[POLLS], begin = now();
#pragma unroll
    for (int k = 0; k < POLLS; k++)
        sums[k] = 0;
    while (now() - begin < 8000) {}
#pragma unroll 1
    for (int i = -2; i < turns; i++) {
        if (at >= 0)
            store(word + at, i);
        unsigned last = now();
#pragma unroll
        for (int k = 0; k < POLLS; k++) {
            if (poll(word + load) == 0x7fffffffu)
                __nanosleep(1);
            unsigned time = now();
            if (i >= 0)
                sums[k] += time - last;
            last = time;
        }
    }
    for (int k = 0; k < POLLS; k++)
        out[k] = sums[k];
    asm volatile("mov.u32 %0, %%smid;" : "=r"(out[POLLS]));
    store(word, 1);
}

// Blocks 0 and `partner` hand a word back and forth `turns` times, `at` bytes from the polled word: each stores 64 bytes from where it polls. out: by side and event, the cycles since the event before,
// times 4, plus 1 for a fence, 2 for a poll that has not found the value, 3 for one that has; the SM.
extern "C" __global__ void hand_over(unsigned *out, char *word, int partner, int at, int fence, int turns)
{
    __shared__ unsigned events[LOGGED];
    if (blockIdx.x != 0 && blockIdx.x != partner) {
        watch(out, word);
        return;
    }
    if (threadIdx.x)
        return;
    int side = blockIdx.x != 0, count = 0;
    char *mine = word + at + 64 * side, *theirs = word + at + 64 * (1 - side);
    unsigned begin = now();
    while (now() - begin < 8000) {}
    unsigned last = now();
#pragma unroll 1
    for (int i = 1; i <= turns; i++) {
#pragma unroll 1
        for (int half = 0; half < 2; half++) {
            if (half == side) {
                if (fence) {
                    __threadfence();
                    unsigned time = now();
                    events[count++ % LOGGED] = (time - last) << 2 | 1;
                    last = time;
                }
                store(theirs, i);
                continue;
            }
            bool found;
            do {
                found = poll(mine) == (unsigned)i;
                unsigned kind = found ? 3 : 2;
                asm volatile("" : "+r"(kind) :: "memory");
                unsigned time = now();
                events[count++ % LOGGED] = (time - last) << 2 | kind;
                last = time;
            } while (!found);
        }
    }
    for (int k = 0; k < count && k < LOGGED - 1; k++)
        out[side * LOGGED + k] = events[k];
    asm volatile("mov.u32 %0, %%smid;" : "=r"(out[side * LOGGED + LOGGED - 1]));
    if (side == 0)
        store(word, 1);
}
