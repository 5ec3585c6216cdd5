// One warp's loads, stores and fences while the warps of other SMs poll a word.
#include "polls.cuh"

// Block `measured` of the grid loads at `load`, stores at `stored` (bytes from the polled word; -1: does not), waits `pause` cycles and fences, `turns` times; each warp of the other blocks
// polls meanwhile. out: the means of the measured warp's loads and fences, its SM; then, of each polling warp, its cycles and looks.
extern "C" __global__ void visits(unsigned *out, char *word, int measured, int load, int stored, int pause, int turns)
{
    if (blockIdx.x == measured) {
        if (threadIdx.x)
            return;
        unsigned loads = 0, fences = 0, begin = now();
        while (now() - begin < 8000) {}
#pragma unroll 1
        for (int i = -2; i < turns; i++) {
            unsigned before = now();
            if (load >= 0 && poll(word + load) == 0xffffffffu)
                __nanosleep(1);
            unsigned loaded = now();
            if (stored >= 0)
                store(word + stored, 2);
            unsigned waits = now();
            while (now() - waits < pause) {}
            unsigned fence = now();
            __threadfence();
            unsigned end = now();
            if (i >= 0) {
                loads += loaded - before;
                fences += end - fence;
            }
        }
        out[0] = loads / turns;
        out[1] = fences / turns;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(out[2]));
        store(word, 1);
        return;
    }
    if (threadIdx.x % 32)
        return;
    unsigned looks = 0, begin = now();
    while (poll(word) == 0)
        looks++;
    unsigned *row = out + 4 + 2 * (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
    row[0] = now() - begin;
    row[1] = looks + 1;
}
