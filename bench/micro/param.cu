// The first instructions of a block: how long the first touch of the kernel's parameters takes, by place in the grid.
#include "common.cuh"
#define U4(N) u64 N##0, u64 N##1, u64 N##2, u64 N##3
#define U16(N) U4(N##0), U4(N##1), U4(N##2), U4(N##3)

// out[8 * block]: SM, then the clock at the start, behind the first parameter, behind one 392 bytes further on, behind the first again.
extern "C" __global__ void touch_parameters(u64* out, u32 a, U16(p), U16(q), U16(r), u32 b, u32 spin) {
    u64 t0 = clk64();
    u32 v;
    asm volatile("mul.lo.u32 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(lane()));
    u64 t1 = clk64() + (v == 0x7fffffff);
    asm volatile("mul.lo.u32 %0, %1, %2;" : "=r"(v) : "r"(b), "r"(v));
    u64 t2 = clk64() + (v == 0x7fffffff);
    asm volatile("mul.lo.u32 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(v));
    u64 t3 = clk64() + (v == 0x7fffffff);
    while (clk64() - t3 < spin);
    if (threadIdx.x == 0) {
        u64* mine = out + 8 * (u64)blockIdx.x;
        mine[0] = smid();
        mine[1] = t0;
        mine[2] = t1;
        mine[3] = t2;
        mine[4] = t3;
    }
}
