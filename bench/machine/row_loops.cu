// Warps of one SM whose lanes each walk their own row, as in loops over rows: loads from L1, from L2 and from DRAM.
#include "../micro/common.cuh"

__device__ __forceinline__ u32 load_past_l1(const char* at) {
    u32 v;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    return v;
}

// `turns` turns of COUNT loads of neighbouring words; each turn waits for its loads.  The place in the row is kept within `mask`; `warm`: L2 has the rows.
#define LOOP(NAME, COUNT)                                                                                    \
    extern "C" __global__ void NAME(u32* out, const char* base, u64 pitch, u32 mask, int turns, int warm) {  \
        const char* row = base + (u64)(blockIdx.x * blockDim.x + threadIdx.x) * pitch;                       \
        u32 sum = 0, at = 0;                                                                                 \
        if (warm)                                                                                            \
            _Pragma("unroll 1") for (int k = 0; k < turns * COUNT * 4; k += 32) sum += load_past_l1(row + (k & mask)); \
        row += sum >> 31;                                                                                    \
        settle();                                                                                            \
        u32 begin = clk();                                                                                   \
        _Pragma("unroll 1") for (int t = 0; t < turns; t++) {                                                \
            u32 v[COUNT];                                                                                    \
            _Pragma("unroll") for (int k = 0; k < COUNT; k++)                                                \
                asm volatile("ld.global.u32 %0, [%1];" : "=r"(v[k]) : "l"(row + at + 4 * k));                \
            _Pragma("unroll") for (int k = 0; k < COUNT; k++) sum += v[k];                                   \
            at = (at + 4 * COUNT + (sum >> 31)) & mask;                                                      \
        }                                                                                                    \
        u32 end = clk() + (sum >> 31);                                                                       \
        report(out, begin, end);                                                                             \
        if (sum == 0x9e3779b9u) out[SINK + threadIdx.x] = sum;                                               \
    }
LOOP(row_loop_1, 1)
LOOP(row_loop_4, 4)
LOOP(row_loop_8, 8)

// Reads `count` times 16 bytes, so that L2 holds nothing else.
extern "C" __global__ void sweep(u32* out, const uint4* data, u64 count) {
    u32 sum = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (u64)blockDim.x) sum += data[i].x;
    if (sum == 0x9e3779b9u) out[SINK + threadIdx.x] = sum;
}
