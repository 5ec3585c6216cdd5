// Atomics at L2: `n` times eight operations, lane l on base + off[l] + u * step + warp * warp_step, lanes of `mask` only.
#include "common.cuh"

#define ATOMIC(NAME, ASM)                                                                              \
    extern "C" __global__ void NAME(u32* out, char* base, const u32* off, u32 mask, u32 step, u32 warp_step, int n) { \
        char* p = base + off[lane()] + (u64)((blockIdx.x * blockDim.x + threadIdx.x) >> 5) * warp_step;  \
        u64 v = 1 + (threadIdx.x & 1), acc = 0;                                                          \
        __syncthreads();                                                                               \
        u32 t0 = clk();                                                                                \
        if ((mask >> lane()) & 1)                                                                      \
            _Pragma("unroll 1") for (int i = 0; i < n; i++)                                            \
                _Pragma("unroll") for (int u = 0; u < 8; u++) {                                        \
                    u64 old = 0;                                                                       \
                    asm volatile(ASM : "+l"(old) : "l"(p + u * step), "l"(v) : "memory");              \
                    acc ^= old;                                                                        \
                }                                                                                      \
        __syncthreads();                                                                               \
        u32 t1 = clk();                                                                                \
        report(out, t0, t1);                                                                           \
        if (acc == 0x123456789) out[SINK] = (u32)acc;                                                  \
    }
#define W32 "{.reg .b32 t, o; cvt.u32.u64 t, %2; "
ATOMIC(red_add, W32 "red.global.add.u32 [%1], t;}")
ATOMIC(red_min, W32 "red.global.min.s32 [%1], t;}")
ATOMIC(red_inc, W32 "red.global.inc.u32 [%1], t;}")
ATOMIC(red_f32, "{.reg .f32 t; cvt.rn.f32.u64 t, %2; red.global.add.f32 [%1], t;}")
ATOMIC(red_f64, "{.reg .f64 t; cvt.rn.f64.u64 t, %2; red.global.add.f64 [%1], t;}")
ATOMIC(red_f16x2, W32 "red.global.add.noftz.f16x2 [%1], t;}")
ATOMIC(red_u64, "red.global.add.u64 [%1], %2;")
ATOMIC(atom_add, W32 "atom.global.add.u32 o, [%1], t; cvt.u64.u32 %0, o;}")
ATOMIC(atom_exch, W32 "atom.global.exch.b32 o, [%1], t; cvt.u64.u32 %0, o;}")
ATOMIC(atom_cas, W32 "atom.global.cas.b32 o, [%1], t, t; cvt.u64.u32 %0, o;}")
ATOMIC(atom_f16x2, W32 "atom.global.add.noftz.f16x2 o, [%1], t; cvt.u64.u32 %0, o;}")
ATOMIC(atom_cas64, "atom.global.cas.b64 %0, [%1], %2, %2;")
ATOMIC(store, W32 "st.global.u32 [%1], t;}")
// Eight additions a round, each lane's at places of a table of its own.
extern "C" __global__ void red_table(u32* out, char* base, const u32* table, int n) {
    u32 at[8], threads = gridDim.x * blockDim.x, me = blockIdx.x * blockDim.x + threadIdx.x;
    for (int u = 0; u < 8; u++) at[u] = table[u * threads + me];
    __syncthreads();
    u32 t0 = clk();
    _Pragma("unroll 1") for (int i = 0; i < n; i++)
        _Pragma("unroll") for (int u = 0; u < 8; u++) asm volatile("red.global.add.u32 [%0], 1;" :: "l"(base + at[u]) : "memory");
    __syncthreads();
    report(out, t0, clk());
}
