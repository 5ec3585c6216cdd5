// Atomics of several kinds that alternate on one place: `n` times one of each on base + place + lane offset, all warps.
#include "common.cuh"
#define MIXED(NAME, FIRST, SECOND)                                                                      \
    extern "C" __global__ void NAME(u32* out, char* base, const u32* off, u32 mask, u32 apart, int n) {  \
        char* p = base + off[lane()];                                                                   \
        u32 v = 1 + (threadIdx.x & 1), old = 0;                                                         \
        __syncthreads();                                                                               \
        u32 t0 = clk();                                                                                \
        if ((mask >> lane()) & 1)                                                                      \
            _Pragma("unroll 1") for (int i = 0; i < n; i++)                                            \
                _Pragma("unroll") for (int u = 0; u < 4; u++) {                                        \
                    asm volatile(FIRST : "+r"(old) : "l"(p), "r"(v) : "memory");                       \
                    asm volatile(SECOND : "+r"(old) : "l"(p + apart), "r"(v) : "memory");              \
                }                                                                                      \
        __syncthreads();                                                                               \
        u32 t1 = clk();                                                                                \
        report(out, t0, t1);                                                                           \
        if (old == 0x12345678) out[SINK] = old;                                                        \
    }
#define ADD "red.global.add.u32 [%1], %2;"
#define MIN "red.global.min.s32 [%1], %2;"
#define INC "red.global.inc.u32 [%1], %2;"
#define DEC "red.global.dec.u32 [%1], %2;"
#define AND "red.global.and.b32 [%1], %2;"
#define EXCH "{.reg .u32 o; atom.global.exch.b32 o, [%1], %2; xor.b32 %0, %0, o;}"
#define ATOM "{.reg .u32 o; atom.global.add.u32 o, [%1], %2; xor.b32 %0, %0, o;}"
#define CAS "{.reg .u32 o; atom.global.cas.b32 o, [%1], %2, %2; xor.b32 %0, %0, o;}"
MIXED(add_add, ADD, ADD)
MIXED(add_min, ADD, MIN)
MIXED(add_and, ADD, AND)
MIXED(min_and, MIN, AND)
MIXED(add_inc, ADD, INC)
MIXED(inc_inc, INC, INC)
MIXED(inc_dec, INC, DEC)
MIXED(exch_exch, EXCH, EXCH)
MIXED(add_exch, ADD, EXCH)
MIXED(inc_exch, INC, EXCH)
MIXED(atom_exch, ATOM, EXCH)
MIXED(add_cas, ADD, CAS)

// One thread: cycles of each atomic on lines `stride` apart, L2-resident after a first pass, awaited one by one.
extern "C" __global__ void atom_steps(u32* out, char* base, u64 stride, int count) {
    u32 v = 0;
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < count; i++) {
            u32 t0 = clk();
            asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(v) : "l"(base + i * stride + (v & 0)), "r"(1u) : "memory");
            out[SINK + 1] = v;
            u32 t1 = clk();
            out[i] = t1 - t0;
        }
}

// `many` plain ones, then one with an answer, each on the lanes of its own mask, all on one word.
extern "C" __global__ void uneven(u32* out, char* base, u32 plain_mask, u32 answer_mask, int many, int n) {
    u32 v = 1 + (threadIdx.x & 1), old = 0;
    bool plain = (plain_mask >> lane()) & 1, answers = (answer_mask >> lane()) & 1;
    __syncthreads();
    for (int i = 0; i < n; i++) {
        if (plain)
            for (int k = 0; k < many; k++) asm volatile("red.global.inc.u32 [%0], %1;" ::"l"(base), "r"(v) : "memory");
        if (answers) {
            u32 o;
            asm volatile("atom.global.exch.b32 %0, [%1], %2;" : "=r"(o) : "l"(base), "r"(v) : "memory");
            old ^= o;
        }
    }
    if (old == 0x12345678) out[SINK] = old;
}
