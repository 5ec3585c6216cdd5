// One warp's loads, stores and fences while the warps of other SMs poll a word.

__device__ __forceinline__ unsigned now()
{
    unsigned clock;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(clock) :: "memory");
    return clock;
}

__device__ __forceinline__ unsigned poll(const char *at)
{
    unsigned value;
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}

// Block `measured` of the grid loads at `load`, stores at `store` (bytes from the polled word; -1: does not), waits `pause` cycles and fences, `turns` times; each warp of the other blocks
// polls meanwhile. out: the means of the measured warp's loads and fences, its SM; then, of each polling warp, its cycles and looks.
extern "C" __global__ void visits(unsigned *out, char *word, int measured, int load, int store, int pause, int turns)
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
            if (store >= 0)
                asm volatile("st.volatile.global.u32 [%0], %1;" :: "l"(word + store), "r"(2) : "memory");
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
        asm volatile("st.volatile.global.u32 [%0], %1;" :: "l"(word), "r"(1) : "memory");
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
