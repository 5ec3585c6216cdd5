// What L2 is asked for by loads and asynchronous copies of each form, counted by a profiler.
#include "common.cuh"
extern __shared__ __align__(16) char room[];

enum { CG, CG64, CG128, CG256, CA, CA128, LDG, LDG64, LDG128, LDG256, LDCG, NC };
template <int FORM>
__device__ __forceinline__ void fetch(u32 to, const char* from, u32& sum) {
    u32 a, b, c, d;
    if (FORM == CG) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    if (FORM == CG64) asm volatile("cp.async.cg.shared.global.L2::64B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    if (FORM == CG128) asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    if (FORM == CG256) asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    if (FORM == CA) asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    if (FORM == CA128) asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    if (FORM == LDG) asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(from) : "memory");
    if (FORM == LDG64) asm volatile("ld.global.L2::64B.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(from) : "memory");
    if (FORM == LDG128) asm volatile("ld.global.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(from) : "memory");
    if (FORM == LDG256) asm volatile("ld.global.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(from) : "memory");
    if (FORM == LDCG) asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(from) : "memory");
    if (FORM == NC) asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(from) : "memory");
    if (FORM >= LDG) sum += a + b + c + d;
}

// Lane l takes 16 bytes at (l % row_lanes) * 16 + l / row_lanes * pitch; `rounds` of them `round_step` apart, all of it `passes` times, each to its own place, waiting after each
// pass; blocks, groups of `together` of them on the same bytes, lie `block_step` apart, warps `warp_step`.
template <int FORM>
__device__ __forceinline__ void copies(u32* out, const char* base, u32 row_lanes, u32 pitch, int rounds, u32 round_step, int passes, u32 together, u32 block_step, u32 warp_step) {
    u32 warp = threadIdx.x >> 5, sum = 0;
    const char* from = base + (u64)(blockIdx.x / together) * block_step + warp * warp_step + lane() % row_lanes * 16 + lane() / row_lanes * pitch;
    u32 to = (u32)__cvta_generic_to_shared(room) + threadIdx.x * 16;
    settle();
    u32 t0 = clk();
#pragma unroll 1
    for (int p = 0; p < passes; p++) {
#pragma unroll 4
        for (int r = 0; r < rounds; r++) fetch<FORM>(to + r * (blockDim.x * 16), from + r * (u64)round_step, sum);
        asm volatile("cp.async.wait_all;" ::: "memory");
        if (sum == 0x12345678) out[SINK] = sum;
        __syncthreads();
    }
    u32 t1 = clk();
    report(out, t0, t1);
}
#define COPIES(NAME, FORM)                                                                                                                                        \
    extern "C" __global__ void NAME(u32* out, const char* base, u32 row_lanes, u32 pitch, int rounds, u32 round_step, int passes, u32 together, u32 block_step, \
                                    u32 warp_step) {                                                                                                            \
        copies<FORM>(out, base, row_lanes, pitch, rounds, round_step, passes, together, block_step, warp_step);                                                  \
    }
COPIES(copies_cg, CG)
COPIES(copies_cg64, CG64)
COPIES(copies_cg128, CG128)
COPIES(copies_cg256, CG256)
COPIES(copies_ca, CA)
COPIES(copies_ca128, CA128)
COPIES(copies_ldg, LDG)
COPIES(copies_ldg64, LDG64)
COPIES(copies_ldg128, LDG128)
COPIES(copies_ldg256, LDG256)
COPIES(copies_ldcg, LDCG)
COPIES(copies_nc, NC)

// 16 copies past L1 of 16 bytes a lane: from `plan[lane]` bytes into 512, to `plan[32 + lane]`, the next ones 512 behind.
extern "C" __global__ void copies_planned(u32* out, const char* base, const u32* plan) {
    const char* from = base + plan[lane()];
    u32 to = ((u32)__cvta_generic_to_shared(room) + 1023 & ~1023) + plan[32 + lane()], sum = 0;  // room itself begins within a sector
    settle();
    u32 t0 = clk();
#pragma unroll 4
    for (int r = 0; r < 16; r++) fetch<CG>(to + r * 1024, from + r * 512, sum);
    asm volatile("cp.async.wait_all;" ::: "memory");
    report(out, t0, clk());
}
