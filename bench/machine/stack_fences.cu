// Fences of all warps of a block after stores to the stack or to global memory, and after none.

#include "warp_spans.cuh"

#define STORE(SPACE, AT, BYTES, CONSTRAINT) asm volatile("st." SPACE ".u32 [%0+" BYTES "], %1;" :: CONSTRAINT(AT), "r"(i) : "memory")

template <char KIND> __device__ __forceinline__ void crew(unsigned *out, unsigned *words, int repeats)
{
    unsigned frame[4], at = (unsigned)__cvta_generic_to_local(frame), sum = 0;
    unsigned *mine = words + (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    __syncthreads();
    unsigned begin = clock();
#pragma unroll 1
    for (int i = 0; i < repeats; i++) {
        if (KIND == 'l') {
            STORE("local", at, "0", "r");
            STORE("local", at, "4", "r");
            STORE("local", at, "8", "r");
            STORE("local", at, "12", "r");
        }
        if (KIND == 'g')
            STORE("global", mine, "0", "l");
        __threadfence();
        __syncthreads();
        if (KIND == 'l') {
            unsigned word;
            asm volatile("ld.local.u32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
            sum += word;
        }
    }
    unsigned end = clock();
    report(out, begin, end, sum);
}

enum { NOTHING, THREADFENCE, ACQUIRE, ACQ_REL };

// A load of a word that the warp has stored to its stack, after a fence or an acquire; `out`: mean and least cycles by warp.
template <int KIND> __device__ __forceinline__ void reload(unsigned *out, unsigned *words, int repeats)
{
    unsigned frame[4], at = (unsigned)__cvta_generic_to_local(frame), warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, sum = 0, least = ~0u, value;
    for (int i = 0; i < repeats; i++) {
        STORE("local", at, "0", "r");
        STORE("local", at, "4", "r");
        if (KIND == THREADFENCE)
            __threadfence();
        if (KIND == ACQ_REL)
            asm volatile("fence.acq_rel.gpu;" ::: "memory");
        if (KIND == ACQUIRE) {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(words + warp) : "memory");
            if (value == 0x7fffffff)
                __nanosleep(1);
        }
        unsigned begin = clock();
        asm volatile("ld.local.u32 %0, [%1];" : "=r"(value) : "r"(at) : "memory");
        if (value == 0x7fffffff)
            __nanosleep(1);
        unsigned taken = clock() - begin;
        sum += taken;
        least = min(least, taken);
    }
    if (threadIdx.x % 32 == 0) {
        out[2 * warp] = sum / repeats;
        out[2 * warp + 1] = least;
    }
}

extern "C" __global__ void reload_after_nothing(unsigned *out, unsigned *words, int repeats) { reload<NOTHING>(out, words, repeats); }
extern "C" __global__ void reload_after_threadfence(unsigned *out, unsigned *words, int repeats) { reload<THREADFENCE>(out, words, repeats); }
extern "C" __global__ void reload_after_acquire(unsigned *out, unsigned *words, int repeats) { reload<ACQUIRE>(out, words, repeats); }
extern "C" __global__ void reload_after_acq_rel(unsigned *out, unsigned *words, int repeats) { reload<ACQ_REL>(out, words, repeats); }
extern "C" __global__ void fences_alone(unsigned *out, unsigned *words, int repeats) { crew<'n'>(out, words, repeats); }
extern "C" __global__ void fences_behind_stack(unsigned *out, unsigned *words, int repeats) { crew<'l'>(out, words, repeats); }
extern "C" __global__ void fences_behind_stores(unsigned *out, unsigned *words, int repeats) { crew<'g'>(out, words, repeats); }
