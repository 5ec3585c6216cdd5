// What one sub-core's memory instructions take by the passes and words of each, with the warps that take part named by a mask; MATCH by different values.
#include "common.cuh"
extern __shared__ __align__(128) unsigned char smem[];

#define PART(NAME, BASE, ASM)                                                                       \
    extern "C" __global__ void NAME(u32* out, char* global, const u32* off, u32 active, int n) {   \
        u64 p = BASE + off[lane()];                                                                 \
        u32 acc = 0, zero = off[32], t0 = 0, t1 = 0;                                                \
        bool mine = active >> (threadIdx.x >> 5) & 1;                                               \
        for (u32 i = threadIdx.x; i < 8192; i += blockDim.x) ((u32*)smem)[i] = 0;                   \
        _Pragma("unroll 1") for (int pass = 0; pass < 2; pass++) {                                  \
            settle();                                                                               \
            if (!mine) continue;                                                                    \
            t0 = clk();                                                                             \
            _Pragma("unroll 1") for (int i = 0; i < n; i++) {                                       \
                p += zero; /* 0, but ptxas may not hoist the accesses */                            \
                _Pragma("unroll") for (int u = 0; u < 16; u++) {                                    \
                    u32 x = 0, y = 0, z = 0, w = 0;                                                 \
                    asm volatile(ASM : "+r"(x), "+r"(y), "+r"(z), "+r"(w) : "l"(p + u * 1024), "r"((u32)p + u * 1024) : "memory"); \
                    acc ^= x ^ y ^ z ^ w;                                                           \
                }                                                                                   \
            }                                                                                       \
            t1 = clk() + (acc == 77);                                                               \
        }                                                                                           \
        report(out, t0, t1);                                                                        \
        out[SINK + threadIdx.x] = acc;                                                              \
    }
#define SHARED (u64) __cvta_generic_to_shared(smem)
#define GLOBAL (u64) global
PART(part_lds32, SHARED, "ld.shared.u32 %0, [%5];")
PART(part_lds64, SHARED, "ld.shared.v2.u32 {%0, %1}, [%5];")
PART(part_lds128, SHARED, "ld.shared.v4.u32 {%0, %1, %2, %3}, [%5];")
PART(part_sts32, SHARED, "st.shared.u32 [%5], %0;")
PART(part_sts64, SHARED, "st.shared.v2.u32 [%5], {%0, %1};")
PART(part_sts128, SHARED, "st.shared.v4.u32 [%5], {%0, %1, %2, %3};")
PART(part_atoms, SHARED, "atom.shared.add.u32 %0, [%5], 1;")
PART(part_ldg32, GLOBAL, "ld.global.u32 %0, [%4];")
PART(part_ldg64, GLOBAL, "ld.global.v2.u32 {%0, %1}, [%4];")
PART(part_ldg128, GLOBAL, "ld.global.v4.u32 {%0, %1, %2, %3}, [%4];")

// The lanes hold as many different values as the table says: a chain, and eight independent ones.
#define MATCH(NAME, TYPE, CONSTRAINT, ASM)                                                          \
    extern "C" __global__ void NAME(u32* out, const u32* off, u32 zero, int n, int chain) {        \
        TYPE v = off[lane()];                                                                       \
        u32 acc = 0, t0, t1;                                                                        \
        _Pragma("unroll 1") for (int pass = 0; pass < 2; pass++) {                                  \
            settle();                                                                               \
            t0 = clk();                                                                             \
            _Pragma("unroll 1") for (int i = 0; i < n; i++) {                                       \
                v += zero;                                                                          \
                _Pragma("unroll") for (int u = 0; u < 8; u++) {                                     \
                    u32 m;                                                                          \
                    asm volatile(ASM : "=r"(m) : CONSTRAINT(v) : "memory");                         \
                    if (chain) v ^= m & zero;                                                       \
                    acc ^= m;                                                                       \
                }                                                                                   \
            }                                                                                       \
            t1 = clk() + (acc == 77);                                                               \
        }                                                                                           \
        report(out, t0, t1);                                                                        \
        out[SINK + threadIdx.x] = acc + (u32)v;                                                     \
    }
MATCH(match_any32, u32, "r", "match.any.sync.b32 %0, %1, -1;")
MATCH(match_any64, u64, "l", "match.any.sync.b64 %0, %1, -1;")
MATCH(match_all32, u32, "r", "{.reg .pred p; match.all.sync.b32 %0|p, %1, -1;}")
