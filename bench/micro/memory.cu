// Global memory: pointer chases, access patterns, queues, bandwidth of L1, L2 and DRAM.
#include "common.cuh"
extern __shared__ __align__(128) u32 smem[];

// n (a power of two) elements `stride` words apart; a full-period generator links them into one random ring.
extern "C" __global__ void ring(u64* base, u64 n, u64 stride, u64 mult, u64 add) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x)
        {
        u64 next = (u64)(base + ((i * mult + add) & (n - 1)) * stride);
        base[i * stride] = next;
        base[i * stride + 1] = next;
    }
}
#define CHASE(NAME, ASM)                                                              \
    extern "C" __global__ void NAME(u32* out, u64 start, int warm, int steps) {        \
        u64 p = start;                                                                \
        _Pragma("unroll 1") for (int i = 0; i < warm; i++) asm volatile(ASM : "+l"(p)::"memory"); \
        out[SINK + 1] = (u32)p;                                                       \
        u32 t0 = clk();                                                               \
        _Pragma("unroll 1") for (int i = 0; i < steps; i += 8) {                       \
            _Pragma("unroll") for (int j = 0; j < 8; j++) asm volatile(ASM : "+l"(p)::"memory"); \
        }                                                                             \
        out[SINK] = (u32)p;                                                           \
        u32 t1 = clk();                                                               \
        report(out, t0, t1);                                                          \
    }
#define CHASE_LANES(NAME, ASM)                                                        \
    extern "C" __global__ void NAME(u32* out, char* base, const u32* off, int n) {     \
        u64 p = (u64)(base + off[lane()]);                                            \
        u32 t0, t1;                                                                   \
        _Pragma("unroll 1") for (int pass = 0; pass < 2; pass++) {                     \
            t0 = clk();                                                               \
            _Pragma("unroll 1") for (int i = 0; i < n; i++) {                          \
                _Pragma("unroll") for (int j = 0; j < 8; j++) asm volatile(ASM : "+l"(p)::"memory"); \
            }                                                                         \
            out[SINK + threadIdx.x] = (u32)p;                                         \
            t1 = clk();                                                               \
        }                                                                             \
        report(out, t0, t1);                                                          \
    }
CHASE(chase_ca, "ld.global.u64 %0, [%0];")
CHASE(chase_cg, "ld.global.cg.u64 %0, [%0];")
CHASE(chase_nc, "ld.global.nc.u64 %0, [%0];")
CHASE(chase_ca128, "{.reg .b64 t; ld.global.v2.u64 {%0, t}, [%0]; or.b64 %0, %0, t;}")
CHASE(chase_volatile, "ld.volatile.global.u64 %0, [%0];")
CHASE(chase_atom_or, "atom.global.or.b64 %0, [%0], 0;")
CHASE(chase_atom_cas, "atom.global.cas.b64 %0, [%0], 0, 0;")
CHASE(chase_local_generic, "ld.u64 %0, [%0];")

// Each lane's word holds its own address: latency of one pattern, no address arithmetic between loads.
extern "C" __global__ void self_point(char* base, const u32* off) {
    u64* p = (u64*)(base + off[lane()]);
    *p = (u64)p;
}
CHASE_LANES(self_ca, "ld.global.u64 %0, [%0];")
CHASE_LANES(self_cg, "ld.global.cg.u64 %0, [%0];")
CHASE_LANES(self_atom, "atom.global.or.b64 %0, [%0], 0;")
// A 32-bit load whose value (0) is added to a 64-bit address: LDG.32 + IADD3 + IADD3.X.
extern "C" __global__ void chase_u32(u32* out, u64 start, int warm, int steps) {
    u64 p = start;
    u32 v = 0;
#pragma unroll 1
    for (int i = 0; i < warm; i++) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p + v) : "memory");
    u32 t0 = clk();
#pragma unroll 1
    for (int i = 0; i < steps; i += 8) {
#pragma unroll
        for (int j = 0; j < 8; j++) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p + v) : "memory");
    }
    out[SINK] = v;
    u32 t1 = clk();
    report(out, t0, t1);
}

// The latency of each step by itself, out[0 .. steps), at most 8192; needs 32 KiB of dynamic shared memory.
#define STEPS(NAME, ASM)                                                              \
    extern "C" __global__ void NAME(u32* out, u64 start, int warm, int steps) {        \
        u64 p = start;                                                                \
        _Pragma("unroll 1") for (int i = 0; i < warm; i++) asm volatile(ASM : "+l"(p)::"memory"); \
        u32 t0 = clk();                                                               \
        _Pragma("unroll 1") for (int i = 0; i < steps; i++) {                          \
            asm volatile(ASM : "+l"(p)::"memory");                                    \
            smem[8192] = (u32)p;                                                      \
            u32 t1 = clk();                                                           \
            smem[i] = t1 - t0;                                                        \
            t0 = clk();                                                               \
        }                                                                             \
        for (int i = 0; i < steps; i++) out[i] = smem[i];                             \
    }
STEPS(steps_ca, "ld.global.u64 %0, [%0];")
STEPS(steps_cg, "ld.global.cg.u64 %0, [%0];")

// One thread of each block (one block per SM): the least latency of each of `lines` lines, L2-resident. Words: smid, then lines.
extern "C" __global__ void l2_map(u32* out, const u32* base, int lines, u64 stride, int reps) {
    if (threadIdx.x) return;
    out[blockIdx.x * (lines + 1)] = smid();
    for (int l = 0; l < lines; l++) {
        const u32* a = base + l * stride;
        u32 best = 0xffffffffu, v = 0;
#pragma unroll 1
        for (int r = 0; r < reps; r++) {
            u32 t0 = clk();
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(a + v) : "memory");  // v is 0, but ptxas cannot know
            asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"((u32)__cvta_generic_to_shared(smem)), "r"(v) : "memory");
            u32 d = clk() - t0;
            if (r) best = min(best, d);
        }
        out[blockIdx.x * (lines + 1) + 1 + l] = best;
    }
}

// Throughput of one warp-wide pattern: lane l touches base + off[l] + warp * warp_step, 8 fixed steps of 4 KiB, n times.
#define PATTERN(NAME, ASM)                                                            \
    extern "C" __global__ void NAME(u32* out, char* base, const u32* off, u32 warp_step, int n) { \
        char* p = base + off[lane()] + (u64)((blockIdx.x * blockDim.x + threadIdx.x) >> 5) * warp_step; \
        u32 acc = 0, t0, t1, zero = off[32]; /* 0, but ptxas may not hoist the loads */ \
        _Pragma("unroll 1") for (int pass = 0; pass < 2; pass++) {                     \
            settle();                                                                 \
            t0 = clk();                                                               \
            _Pragma("unroll 1") for (int i = 0; i < n; i++) {                          \
                p += zero;                                                            \
                _Pragma("unroll") for (int u = 0; u < 8; u++) {                        \
                    u32 x = 0, y = 0, z = 0, w = 0;                                   \
                    asm volatile(ASM : "+r"(x), "+r"(y), "+r"(z), "+r"(w) : "l"(p + u * 4096), "r"(acc) : "memory"); \
                    acc ^= x ^ y ^ z ^ w;                                             \
                }                                                                     \
            }                                                                         \
            smem[threadIdx.x] = acc;                                                  \
            __syncthreads();                                                          \
            t1 = clk();                                                               \
        }                                                                             \
        report(out, t0, t1);                                                          \
        out[SINK + blockIdx.x * blockDim.x + threadIdx.x] = acc;                      \
    }
PATTERN(ldg32_ca, "ld.global.u32 %0, [%4];")
PATTERN(ldg64_ca, "ld.global.v2.u32 {%0, %1}, [%4];")
PATTERN(ldg128_ca, "ld.global.v4.u32 {%0, %1, %2, %3}, [%4];")
PATTERN(ldg32_cg, "ld.global.cg.u32 %0, [%4];")
PATTERN(ldg64_cg, "ld.global.cg.v2.u32 {%0, %1}, [%4];")
PATTERN(ldg128_cg, "ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];")
#define STORE(NAME, ASM)                                                              \
    extern "C" __global__ void NAME(u32* out, char* base, const u32* off, u32 warp_step, int n) { \
        char* p = base + off[lane()] + (u64)((blockIdx.x * blockDim.x + threadIdx.x) >> 5) * warp_step; \
        u32 t0, t1, x = (u32)n;                                                       \
        _Pragma("unroll 1") for (int pass = 0; pass < 2; pass++) {                     \
            settle();                                                                 \
            t0 = clk();                                                               \
            _Pragma("unroll 1") for (int i = 0; i < n; i++) {                          \
                _Pragma("unroll") for (int u = 0; u < 8; u++)                          \
                    asm volatile(ASM ::"l"(p + u * 4096), "r"(x) : "memory");         \
            }                                                                         \
            __syncthreads();                                                          \
            t1 = clk();                                                               \
        }                                                                             \
        report(out, t0, t1);                                                          \
    }
STORE(stg32, "st.global.u32 [%0], %1;")
STORE(stg64, "st.global.v2.u32 [%0], {%1, %1};")
STORE(stg128, "st.global.v4.u32 [%0], {%1, %1, %1, %1};")
STORE(red_add, "red.global.add.u32 [%0], %1;")
STORE(red_fadd, "red.global.add.f32 [%0], 0f3f800000;")
STORE(red_add64, "{.reg .b64 t; cvt.u64.u32 t, %1; red.global.add.u64 [%0], t;}")
PATTERN(atom_add, "atom.global.add.u32 %0, [%4], 1;")
PATTERN(atom_cas, "atom.global.cas.b32 %0, [%4], 5, 6;")
PATTERN(atom_fadd, "atom.global.add.f32 %0, [%4], 0f3f800000;")

// One warp issues 32 independent loads and reads the clock after each.
#define QUEUE(NAME, ASM)                                                              \
    extern "C" __global__ void NAME(u32* out, char* base, const u32* off, u32 warp_step, u32 step) { \
        char* p = base + off[lane()] + (u64)(threadIdx.x >> 5) * warp_step;           \
        u32 t[34], v[32], acc = 0;                                                    \
        _Pragma("unroll 1") for (int pass = 0; pass < 2; pass++) {                     \
            settle();                                                                 \
            t[0] = clk();                                                             \
            _Pragma("unroll") for (int u = 0; u < 32; u++) {                           \
                asm volatile(ASM : "=r"(v[u]) : "l"(p + u * 8192) : "memory");   \
                t[u + 1] = clk();                                                     \
            }                                                                         \
            _Pragma("unroll") for (int u = 0; u < 32; u++) acc ^= v[u];                \
            smem[threadIdx.x] = acc;                                                  \
            t[33] = clk();                                                            \
            p += step;                                                                \
        }                                                                             \
        if (lane() == 0)                                                              \
            _Pragma("unroll") for (int u = 0; u < 34; u++) out[(threadIdx.x >> 5) * 34 + u] = t[u] - t[0]; \
        out[SINK + threadIdx.x] = acc;                                                \
    }
QUEUE(queue_ca, "ld.global.ca.u32 %0, [%1];")
QUEUE(queue_cg, "ld.global.cg.u32 %0, [%1];")

// Bandwidth over n16 16-byte words; words per thread in flight: 4.
extern "C" __global__ void bw_read(u32* out, const uint4* src, uint4* dst, u64 n16) {
    u64 total = (u64)gridDim.x * blockDim.x, i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    u32 acc = 0;
    for (; i + 3 * total < n16; i += 4 * total) {
        uint4 a = src[i], b = src[i + total], c = src[i + 2 * total], d = src[i + 3 * total];
        acc ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
    }
    for (; i < n16; i += total) acc ^= src[i].x;
    if (acc == 0x12345678) out[SINK] = acc;
}
extern "C" __global__ void bw_write(u32* out, const uint4* src, uint4* dst, u64 n16) {
    u64 total = (u64)gridDim.x * blockDim.x;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n16; i += total) dst[i] = make_uint4(1, 2, 3, (u32)i);
}
extern "C" __global__ void bw_copy(u32* out, const uint4* src, uint4* dst, u64 n16) {
    u64 total = (u64)gridDim.x * blockDim.x, i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    for (; i + 3 * total < n16; i += 4 * total) {
        uint4 a = src[i], b = src[i + total], c = src[i + 2 * total], d = src[i + 3 * total];
        dst[i] = a; dst[i + total] = b; dst[i + 2 * total] = c; dst[i + 3 * total] = d;
    }
    for (; i < n16; i += total) dst[i] = src[i];
}
extern "C" __global__ void bw_gather(u32* out, const uint4* src, uint4* dst, u64 n16) {
    // 32-byte sectors in random order: each pair of lanes reads one sector.
    u64 total = (u64)gridDim.x * blockDim.x, sectors = n16 / 2;
    u32 acc = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n16; i += total) {
        u64 s = ((i >> 1) * 2654435761ull + 12345) & (sectors - 1);
        acc ^= src[s * 2 + (i & 1)].x;
    }
    if (acc == 0x12345678) out[SINK] = acc;
}

// Blocks on SMs with mask[smid] != 0 read `n16` words of L2-resident memory `iters` times, past L1; clocks of each block.
// mode 0: ld.cg; 1: st; 2: ld.cg, each SM its own n16 words. Words: smid, active, 64-bit start and end of %globaltimer, 64-bit start and end of the clock.
extern "C" __global__ void l2_band(u64* out, const u32* mask, uint4* src, u64 n16, int iters, int mode) {
    u32 sm = smid();
    u32 active = mask[sm];
    u64 g0 = wall_ns(), c0 = clk64();
    u32 acc = 0;
    if (active) {
        for (int it = 0; it < iters; it++) {
            u64 start = ((u64)sm * 40961 * 64 + threadIdx.x) & (n16 - 1);
            for (u64 k = 0; k < n16; k += 4 * blockDim.x) {
                u64 i = (start + k) & (n16 - 1);
                uint4* p = src + i + (mode == 2 ? n16 * sm : 0);
                if (mode == 1) {
#pragma unroll
                    for (int u = 0; u < 4; u++)
                        asm volatile("st.global.v4.u32 [%0], {%1,%1,%1,%1};" ::"l"(p + u * 1024), "r"(acc) : "memory");
                } else {
                    u32 x[4], y[4], z[4], w[4];
#pragma unroll
                    for (int u = 0; u < 4; u++)
                        asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
                                     : "=r"(x[u]), "=r"(y[u]), "=r"(z[u]), "=r"(w[u]) : "l"(p + u * 1024) : "memory");
#pragma unroll
                    for (int u = 0; u < 4; u++) acc ^= x[u] ^ y[u] ^ z[u] ^ w[u];
                }
            }
        }
    }
    smem[threadIdx.x] = acc;
    __syncthreads();
    u64 c1 = clk64(), g1 = wall_ns();
    if (threadIdx.x == 0) {
        u64* o = out + blockIdx.x * 6;
        o[0] = sm; o[1] = active; o[2] = g0; o[3] = g1; o[4] = c0; o[5] = c1;
    }
    if (acc == 0x12345678) out[SINK] = acc;
}

// Asynchronous copy, committed and awaited one at a time, and fences after `stores` stores.
#if __CUDA_ARCH__ >= 800
#define LDGSTS(NAME, ASM)                                                              \
    extern "C" __global__ void NAME(u32* out, char* base, const u32* off, u32 warp_step, int n) { \
        char* p = base + off[lane()];                                                 \
        u32 s = (u32)__cvta_generic_to_shared(smem) + threadIdx.x * 16, t0, t1;       \
        _Pragma("unroll 1") for (int pass = 0; pass < 2; pass++) {                     \
            settle();                                                                 \
            t0 = clk();                                                               \
            _Pragma("unroll 1") for (int i = 0; i < n; i++)                            \
                asm volatile(ASM " cp.async.commit_group; cp.async.wait_group 0;" ::"r"(s), "l"(p) : "memory"); \
            t1 = clk();                                                               \
        }                                                                             \
        report(out, t0, t1);                                                          \
    }
LDGSTS(ldgsts4, "cp.async.ca.shared.global [%0], [%1], 4;")
LDGSTS(ldgsts16, "cp.async.ca.shared.global [%0], [%1], 16;")
LDGSTS(ldgsts16_cg, "cp.async.cg.shared.global [%0], [%1], 16;")
#endif
#define FENCE(NAME, ASM)                                                               \
    extern "C" __global__ void NAME(u32* out, char* base, const u32* off, u32 warp_step, int n) { \
        char* p = base + off[lane()] + (u64)(threadIdx.x >> 5) * warp_step;           \
        u32 t0, t1;                                                                   \
        _Pragma("unroll 1") for (int pass = 0; pass < 2; pass++) {                     \
            settle();                                                                 \
            t0 = clk();                                                               \
            _Pragma("unroll 1") for (int i = 0; i < n; i++) asm volatile(ASM ::"l"(p), "r"(i) : "memory"); \
            t1 = clk();                                                               \
        }                                                                             \
        report(out, t0, t1);                                                          \
    }
FENCE(fence_cta, "membar.cta;")
FENCE(fence_gl, "membar.gl;")
FENCE(fence_gl_st1, "st.global.u32 [%0], %1; membar.gl;")
FENCE(fence_gl_st4, "st.global.u32 [%0], %1; st.global.u32 [%0+4096], %1; st.global.u32 [%0+8192], %1; st.global.u32 [%0+12288], %1; membar.gl;")
FENCE(fence_acq_rel, "fence.acq_rel.gpu;")
FENCE(fence_acq_rel_st1, "st.global.u32 [%0], %1; fence.acq_rel.gpu;")
FENCE(fence_sys, "membar.sys;")
