// Fences beside an instruction with a guard, which guarded_fences.py gives to the fences: compilers put a branch around a fence instead.

#define MEMBAR(name, PTX) \
    struct name { static __device__ __forceinline__ void run() { asm volatile(PTX ::: "memory"); } };
MEMBAR(Device, "membar.gl;")
MEMBAR(System, "membar.sys;")
MEMBAR(Block, "membar.cta;")
MEMBAR(Nothing, "")

template <class FENCE, bool STORE> static __device__ __forceinline__ void turns(unsigned *out, unsigned *words, int repeats, int lanes)
{
    unsigned *mine = words + blockIdx.x * blockDim.x + threadIdx.x, on = threadIdx.x % 32 < lanes, sum = 0;
    __syncthreads();
    unsigned begin = clock();
#pragma unroll 1
    for (int i = 0; i < repeats; i++) {
#pragma unroll
        for (int k = 0; k < 8; k++) {
            if (STORE)
                asm volatile("st.global.u32 [%0], %1;" :: "l"(mine), "r"(i) : "memory");
            asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p xor.b32 %0, %0, %2; }" : "+r"(sum) : "r"(on), "r"(i));
            FENCE::run();
        }
    }
    unsigned end = clock();
    if (threadIdx.x % 32 == 0) {
        unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
        out[4 * warp] = begin;
        out[4 * warp + 1] = end;
        out[4 * warp + 2] = sum;
    }
}

#define KERNEL(name, FENCE)                                                                                                                      \
    extern "C" __global__ void name(unsigned *out, unsigned *words, int repeats, int lanes) { turns<FENCE, false>(out, words, repeats, lanes); } \
    extern "C" __global__ void stored_##name(unsigned *out, unsigned *words, int repeats, int lanes) { turns<FENCE, true>(out, words, repeats, lanes); }
KERNEL(nothing, Nothing)
KERNEL(gl, Device)
KERNEL(sys, System)
KERNEL(cta, Block)
