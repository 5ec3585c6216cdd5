// Fences of all warps of a block after stores to the stack or to global memory, and after none.

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
    if (threadIdx.x % 32 == 0) {
        unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        out[4 * warp] = begin;
        out[4 * warp + 1] = end;
        out[4 * warp + 2] = sm;
        out[4 * warp + 3] = sum;
    }
}

extern "C" __global__ void fences_alone(unsigned *out, unsigned *words, int repeats) { crew<'n'>(out, words, repeats); }
extern "C" __global__ void fences_behind_stack(unsigned *out, unsigned *words, int repeats) { crew<'l'>(out, words, repeats); }
extern "C" __global__ void fences_behind_stores(unsigned *out, unsigned *words, int repeats) { crew<'g'>(out, words, repeats); }
