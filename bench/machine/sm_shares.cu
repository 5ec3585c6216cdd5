// Loads and stores by all SMs at once: how many cycles each block takes, and on which SM it runs.
#include "memory_kernels.cuh"

__device__ __forceinline__ u32 load_word(const char* at) {
    u32 v;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    return v;
}

__device__ __forceinline__ uint4 load_four(const char* at) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");
    return v;
}

enum Kind { READ4, READ16, WRITE4, WRITE16, WRITE_STRIDE, GATHER, SCATTER, COPY4 };

// `turns` turns of COUNT accesses each; a turn's loads are awaited together.  last: size of the memory in bytes, a power of two, minus 1.
// out, three words per block: its SM, and the cycles at which its first thread begins and, once all of its warps are done, ends.
template <int KIND, int COUNT> __device__ __forceinline__ void turns_of(u64* out, char* data, char* other, u32 last, int turns, u32 seed) {
    u32 threads = gridDim.x * blockDim.x, id = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    constexpr u32 size = KIND == READ16 || KIND == WRITE16 || KIND == WRITE_STRIDE ? 16 : 4;
    __syncthreads();
    u64 begin = clock64();
#pragma unroll 1
    for (int i = 0; i < turns; i++) {
        u32 at[COUNT];
#pragma unroll
        for (int k = 0; k < COUNT; k++) {
            u32 number = id + (i * COUNT + k) * threads;
            at[k] = ((KIND == GATHER || KIND == SCATTER ? mixed(number + seed) : number + seed) * size) & last;
        }
        if (KIND == READ16) {
            uint4 v[COUNT];
#pragma unroll
            for (int k = 0; k < COUNT; k++) v[k] = load_four(data + at[k]);
#pragma unroll
            for (int k = 0; k < COUNT; k++) sum += v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
        } else if (KIND == READ4 || KIND == GATHER || KIND == COPY4) {
            u32 v[COUNT];
#pragma unroll
            for (int k = 0; k < COUNT; k++) v[k] = load_word(data + at[k]);
#pragma unroll
            for (int k = 0; k < COUNT; k++) {
                sum += v[k];
                if (KIND == COPY4) asm volatile("st.global.u32 [%0], %1;" ::"l"(other + at[k]), "r"(v[k]) : "memory");
            }
        } else {
#pragma unroll
            for (int k = 0; k < COUNT; k++) {
                if (KIND == WRITE16)
                    asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(data + at[k]), "r"(id) : "memory");
                else
                    asm volatile("st.global.u32 [%0], %1;" ::"l"(data + at[k]), "r"(id) : "memory");
            }
        }
        seed += sum == 0x12345678;  // makes the next turn's addresses wait for this turn's loads
    }
    if (seed == 0x9e3779b9) out[0] = seed;  // otherwise ptxas removes the loads
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        out[3 * blockIdx.x] = sm;
        out[3 * blockIdx.x + 1] = begin;
        out[3 * blockIdx.x + 2] = clock64();
    }
}

#define SHARES(name, kind, count)                                                                                              \
    extern "C" __global__ void name(u64* out, char* data, char* other, u32 last, int turns, u32 seed) {                         \
        turns_of<kind, count>(out, data, other, last, turns, seed);                                                            \
    }
SHARES(read4_1, READ4, 1)
SHARES(read4_4, READ4, 4)
SHARES(read16_1, READ16, 1)
SHARES(read16_4, READ16, 4)
SHARES(write4, WRITE4, 1)
SHARES(write16, WRITE16, 1)
SHARES(write_stride, WRITE_STRIDE, 1)
SHARES(gather, GATHER, 1)
SHARES(gather4, GATHER, 4)
SHARES(scatter, SCATTER, 1)
SHARES(copy4, COPY4, 1)
