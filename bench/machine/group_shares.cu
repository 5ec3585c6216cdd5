// Simultaneous loads and stores by chosen SMs, with one block of 1,024 threads on each SM: the progress of each SM over time.
#include "memory_kernels.cuh"

enum Kind { WHOLE, HALF, SPAN, SCATTER, READ, GATHER, SAME };
constexpr int MARKS = 8;

// Each block executes the number of turns that `turns_of` gives for its SM, with one store or two loads per thread each; last: size of the memory in bytes, a power of two, minus 1.
// out, MARKS + 3 words per block: its SM, the cycle at which it begins, the MARKS cycles at which its first warp has done each eighth of its turns, the end of all its warps.
template <int KIND> __device__ __forceinline__ void shares_of(u64* out, u32* arrived, char* data, const u32* turns_of, u32 last, u32 target) {
    u32 sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    u32 turns = turns_of[sm], each = turns / MARKS, blocks = KIND == SAME ? 1 : gridDim.x, threads = blocks * blockDim.x, sum = 0;
    u32 id = (KIND == SAME ? 0 : blockIdx.x) * blockDim.x + threadIdx.x;
    begin_together(arrived, target);
    u64 begin = clock64(), marks[MARKS];
    u32 number = id;
#pragma unroll
    for (int mark = 0; mark < MARKS; mark++) {
#pragma unroll 1
        for (u32 i = 0; i < each; i++, number += threads) {
            if (KIND == WHOLE) {
                asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(data + (number * 16 & last)), "r"(id) : "memory");
            } else if (KIND == HALF || KIND == SPAN || KIND == SCATTER) {
                u32 at = KIND == HALF ? number * 16 : KIND == SPAN ? number * 32 : mixed(number) * 4;
                asm volatile("st.global.u32 [%0], %1;" ::"l"(data + (at & last)), "r"(id) : "memory");
            } else {
                u32 other = number + threads * turns;
                uint4 v, w = {};
                if (KIND == READ || KIND == SAME) {
                    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(data + (number * 16 & last)) : "memory");
                    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(data + (other * 16 & last)) : "memory");
                    v.x ^= v.y ^ v.z ^ v.w ^ w.y ^ w.z ^ w.w;
                } else {
                    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v.x) : "l"(data + (mixed(number) * 4 & last)) : "memory");
                    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(w.x) : "l"(data + (mixed(other) * 4 & last)) : "memory");
                }
                sum += v.x ^ w.x;
                number += sum == 0x12345678;  // makes the next turn's addresses wait for this turn's loads
            }
        }
        marks[mark] = clock64();
    }
    if (sum == 0x9e3779b9) out[0] = sum;  // otherwise ptxas removes the loads
    __threadfence();
    __syncthreads();
    if (threadIdx.x) return;
    out += blockIdx.x * (MARKS + 3);
    out[0] = sm;
    out[1] = begin;
#pragma unroll
    for (int mark = 0; mark < MARKS; mark++) out[2 + mark] = marks[mark];
    out[2 + MARKS] = clock64();
}

// The SM of each block, to find out which SMs share clusters.
extern "C" __global__ void places(u64* out) {
    u32 sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    u32 begin = now();
    while (now() - begin < 20000) {}  // until the other clusters have their SMs
    if (threadIdx.x == 0) out[blockIdx.x] = sm;
}

#define SHARES(name, kind)                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(1024, 1) name(u64* out, u32* arrived, char* data, const u32* turns_of, u32 last, u32 target) { \
        shares_of<kind>(out, arrived, data, turns_of, last, target);                                                                             \
    }
SHARES(whole, WHOLE)
SHARES(half, HALF)
SHARES(span, SPAN)
SHARES(scatter, SCATTER)
SHARES(read, READ)
SHARES(gather, GATHER)
SHARES(same, SAME)  // all SMs read the same lines
