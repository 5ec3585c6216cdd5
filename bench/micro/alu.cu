// Dependent latency and throughput of arithmetic: one operation in one chain (_dep), in two and four chains with their
// own operands (_ind2, _ind), and in four chains with common operands (_shr: the register-file cache can hold them).
// Each operation is PTX that ptxas maps to the one named SASS instruction; bench/micro/build.py counts what it became.
// `in` holds operand bit patterns (rows of 8: float, int, half2, then doubles); `step` is 0, which ptxas cannot know,
// so that operands are per-thread registers and no operation moves to the uniform datapath.
#include "common.cuh"

struct Word { u32 x, y, a, b, c, d; };
struct Wide { u64 x, y, a, b, c, d; };

template <class Op>
__device__ __forceinline__ void load(Word& s, const u32* in, u32 step, int chain) {
    const u32* p = in + Op::row * 8 + lane() * step + chain * step;
    s.x = p[0]; s.y = p[1]; s.a = p[2]; s.b = p[3]; s.c = p[4]; s.d = p[5];
}
template <class Op>
__device__ __forceinline__ void load(Wide& s, const u32* in, u32 step, int chain) {
    const u64* p = (const u64*)(in + Op::row * 8 + lane() * step * 2 + chain * step * 2);
    s.x = p[0]; s.y = p[1]; s.a = p[2]; s.b = p[3]; s.c = p[4]; s.d = p[5];
}

template <class Op, int CHAINS, int UNROLL, bool SHARED>
__device__ __forceinline__ void timed(u32* out, const u32* in, u32 step, int n) {
    typename Op::State s[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; c++) {
        load<Op>(s[c], in, step, c);
        if (SHARED) { s[c].a = s[0].a; s[c].b = s[0].b; s[c].c = s[0].c; s[c].d = s[0].d; }
    }
    u32 t0, t1;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int c = 0; c < CHAINS; c++) Op::step(s[c]);
            }
        }
        t1 = clk();
    }
    report(out, t0, t1);
    u64 fold = 0;
#pragma unroll
    for (int c = 0; c < CHAINS; c++) fold += s[c].x ^ s[c].y;
    out[SINK + blockIdx.x * blockDim.x + threadIdx.x] = (u32)fold ^ (u32)(fold >> 32);
}

#define KERNELS(NAME, OP)                                                                             \
    extern "C" __global__ void NAME##_dep(u32* out, const u32* in, u32 step, int n) {                  \
        timed<OP, 1, 64, false>(out, in, step, n);                                                           \
    }                                                                                                 \
    extern "C" __global__ void NAME##_ind(u32* out, const u32* in, u32 step, int n) {                  \
        timed<OP, 4, 16, false>(out, in, step, n);                                                           \
    }                                                                                                 \
    extern "C" __global__ void NAME##_shr(u32* out, const u32* in, u32 step, int n) {                  \
        timed<OP, 4, 16, true>(out, in, step, n);                                                     \
    }                                                                                                 \
    extern "C" __global__ void NAME##_ind2(u32* out, const u32* in, u32 step, int n) {                 \
        timed<OP, 2, 32, false>(out, in, step, n);                                                    \
    }

// %0 = x and %1 = y carry the chain; %2 to %5 = a, b, c, d are constant in the loop.
#define WORD(NAME, ROW, ASM)                                                                           \
    struct op_##NAME {                                                                                \
        typedef Word State;                                                                           \
        static const int row = ROW;                                                                   \
        static __device__ __forceinline__ void step(Word& s) {                                        \
            asm volatile("{.reg .pred p; .reg .b32 t, v; .reg .b64 w; .reg .b16 h;\n\t" ASM "}"        \
                         : "+r"(s.x), "+r"(s.y) : "r"(s.a), "r"(s.b), "r"(s.c), "r"(s.d));            \
        }                                                                                             \
    };                                                                                                \
    KERNELS(NAME, op_##NAME)
#define WIDE(NAME, ROW, ASM)                                                                           \
    struct op_##NAME {                                                                                \
        typedef Wide State;                                                                           \
        static const int row = ROW;                                                                   \
        static __device__ __forceinline__ void step(Wide& s) {                                        \
            asm volatile("{.reg .pred p; .reg .b32 t, v; .reg .b64 w;\n\t" ASM "}"                     \
                         : "+l"(s.x), "+l"(s.y) : "l"(s.a), "l"(s.b), "l"(s.c), "l"(s.d));            \
        }                                                                                             \
    };                                                                                                \
    KERNELS(NAME, op_##NAME)
enum { FLOAT = 0, INT = 1, HALF = 2, DOUBLE = 4, LONG = 6, BF16 = 8 };

WORD(ffma, FLOAT, "fma.rn.f32 %0, %0, %2, %3;")
WORD(fadd, FLOAT, "add.rn.f32 %0, %0, %2;")
WORD(fmul, FLOAT, "mul.rn.f32 %0, %0, %2;")
WORD(fmnmx, FLOAT, "min.f32 %0, %0, %2; max.f32 %0, %0, %3;")
WORD(fsetp_fsel, FLOAT, "setp.lt.f32 p, %0, %2; selp.f32 %0, %3, %4, p;")
WORD(iadd_split, INT, "add.u32 %0, %0, %1; add.u32 %1, %1, %0;")
WORD(iadd3, INT, "add.u32 t, %0, %1; add.u32 %0, t, %2; add.u32 t, %1, %0; add.u32 %1, t, %3;")
WORD(imad, INT, "mad.lo.s32 %0, %0, %2, %3;")
WORD(imul_hi, INT, "mul.hi.u32 %0, %0, %2;")
WORD(lop3, INT, "lop3.b32 %0, %0, %2, %3, 0x2d; lop3.b32 %0, %0, %4, %5, 0x2d;")
WORD(shf, INT, "shf.l.wrap.b32 %0, %0, %2, %3;")
WORD(shl, INT, "shl.b32 %0, %0, %3; shr.u32 %0, %0, %4;")
WORD(isetp_sel, INT, "setp.lt.s32 p, %0, %2; selp.b32 %0, %3, %4, p;")
WORD(imnmx, INT, "min.s32 %0, %0, %2; max.s32 %0, %0, %3;")
WORD(lea, INT, "shl.b32 t, %0, 3; add.u32 %0, t, %2;")
WORD(prmt, INT, "prmt.b32 %0, %0, %2, %3;")
WORD(popc, INT, "popc.b32 %0, %0;")
WORD(flo, INT, "bfind.u32 %0, %0;")
WORD(brev_lop3, INT, "brev.b32 t, %0; xor.b32 %0, t, %2;")
WORD(dp4a, INT, "dp4a.s32.s32 %0, %2, %3, %0;")
WORD(mufu_rcp_fadd, FLOAT, "rcp.approx.ftz.f32 %0, %0; add.f32 %0, %0, %2;")
WORD(mufu_rsq, FLOAT, "rsqrt.approx.ftz.f32 %0, %0;")
WORD(mufu_sqrt, FLOAT, "sqrt.approx.ftz.f32 %0, %0;")
WORD(mufu_ex2, FLOAT, "ex2.approx.ftz.f32 %0, %0;")
WORD(mufu_lg2, FLOAT, "lg2.approx.ftz.f32 %0, %0;")
WORD(mufu_sin, FLOAT, "sin.approx.ftz.f32 %0, %0;")
WORD(mufu_tanh, FLOAT, "tanh.approx.f32 %0, %0;")
WORD(f2i, FLOAT, "cvt.rni.s32.f32 %0, %0;")
WORD(i2f, INT, "cvt.rn.f32.s32 %0, %0;")
WORD(i2f_u16, INT, "cvt.u16.u32 h, %0; cvt.rn.f32.u16 %0, h;")
WORD(frnd, FLOAT, "cvt.rni.f32.f32 %0, %0; add.f32 %0, %0, %2;")
WORD(f2f_h, FLOAT, "cvt.rn.f16.f32 h, %0; cvt.f32.f16 %0, h;")
WORD(f2fp, FLOAT, "cvt.rn.f16x2.f32 %0, %0, %2;")
WORD(f2f_d, FLOAT, "cvt.f64.f32 w, %0; cvt.rn.f32.f64 %0, w;")
WORD(hfma2, HALF, "fma.rn.f16x2 %0, %0, %2, %3;")
WORD(hadd2, HALF, "add.rn.f16x2 %0, %0, %2;")
WORD(hmul2, HALF, "mul.rn.f16x2 %0, %0, %2;")
WORD(hfma2_bf16, BF16, "fma.rn.bf16x2 %0, %0, %2, %3;")
WORD(shfl_bfly, INT, "shfl.sync.bfly.b32 %0, %0, 1, 31, -1;")
WORD(shfl_idx, INT, "shfl.sync.idx.b32 %0, %0, %2, 31, -1;")
WORD(vote_ballot, INT, "setp.ne.s32 p, %0, %2; vote.sync.ballot.b32 %0, p, -1;")
WORD(match_any, INT, "match.any.sync.b32 %0, %0, -1;")
WORD(redux_add, INT, "redux.sync.add.s32 %0, %0, -1;")
WORD(s2r_smid, INT, "mov.u32 t, %%smid; mad.lo.s32 %0, t, %2, %0;")
WORD(cs2r, INT, "mov.u32 t, %%clock; mad.lo.s32 %0, t, %2, %0;")
WORD(cs2r64, INT, "mov.u64 w, %%clock64; mov.b64 {t, v}, w; mad.lo.s32 %0, t, %2, %0;")
WORD(nothing, INT, "mov.u32 t, 0;")
WIDE(dfma, DOUBLE, "fma.rn.f64 %0, %0, %2, %3;")
WIDE(dadd, DOUBLE, "add.rn.f64 %0, %0, %2;")
WIDE(dmul, DOUBLE, "mul.rn.f64 %0, %0, %2;")
WIDE(dsetp_sel, DOUBLE, "setp.lt.f64 p, %0, %2; selp.f64 %0, %3, %4, p;")
WIDE(mufu_rcp64h, DOUBLE, "rcp.approx.ftz.f64 %0, %0;")
WIDE(iadd64, LONG, "add.u64 %0, %0, %1; add.u64 %1, %1, %0;")
WIDE(imad_wide, LONG, "mov.b64 {t, v}, %0; cvt.u32.u64 t, %2; mad.wide.u32 %0, v, t, %3;")
WIDE(f2i64, LONG, "cvt.rni.s64.f64 %0, %0;")
WIDE(i2f64, LONG, "cvt.rn.f64.s64 %0, %0;")

// Two kinds at once, each in its own chains: which pipes share an issue port or a dispatch port.
#define PAIR(NAME, A, B)                                                                               \
    struct op_##NAME {                                                                                \
        typedef Word State;                                                                           \
        static const int row = INT;                                                                   \
        static __device__ __forceinline__ void step(Word& s) {                                        \
            asm volatile("{.reg .pred p; .reg .b32 t; " A " " B "}"                                   \
                         : "+r"(s.x), "+r"(s.y) : "r"(s.a), "r"(s.b), "r"(s.c), "r"(s.d));            \
        }                                                                                             \
    };                                                                                                \
    KERNELS(NAME, op_##NAME)
#define A_FFMA "fma.rn.f32 %0, %0, %2, %3;"
#define A_HFMA2 "fma.rn.f16x2 %0, %0, %2, %3;"
#define A_LOP3 "lop3.b32 %0, %0, %2, %3, 0x2d;"
#define B_FFMA "fma.rn.f32 %1, %1, %4, %5;"
#define B_LOP3 "lop3.b32 %1, %1, %4, %5, 0x2d;"
#define B_IMAD "mad.lo.s32 %1, %1, %4, %5;"
#define B_PRMT "prmt.b32 %1, %1, %4, %5;"
#define B_SHF "shf.l.wrap.b32 %1, %1, %4, %5;"
#define B_MUFU "ex2.approx.ftz.f32 %1, %1;"
#define B_POPC "popc.b32 %1, %1;"
#define B_HFMA2 "fma.rn.f16x2 %1, %1, %4, %5;"
#define B_I2F "cvt.rn.f32.s32 %1, %1;"
#define B_SHFL "shfl.sync.bfly.b32 %1, %1, 1, 31, -1;"
PAIR(pair_ffma_lop3, A_FFMA, B_LOP3)
PAIR(pair_ffma_imad, A_FFMA, B_IMAD)
PAIR(pair_ffma_shf, A_FFMA, B_SHF)
PAIR(pair_ffma_mufu, A_FFMA, B_MUFU)
PAIR(pair_ffma_hfma2, A_FFMA, B_HFMA2)
PAIR(pair_ffma_popc, A_FFMA, B_POPC)
PAIR(pair_ffma_shfl, A_FFMA, B_SHFL)
PAIR(pair_lop3_imad, A_LOP3, B_IMAD)
PAIR(pair_lop3_prmt, A_LOP3, B_PRMT)
PAIR(pair_lop3_shf, A_LOP3, B_SHF)
PAIR(pair_lop3_mufu, A_LOP3, B_MUFU)
PAIR(pair_lop3_hfma2, A_LOP3, B_HFMA2)
PAIR(pair_popc_mufu, "popc.b32 %0, %0;", B_MUFU)
PAIR(pair_i2f_mufu, "ex2.approx.ftz.f32 %0, %0;", B_I2F)
PAIR(pair_hfma2_imad, A_HFMA2, B_IMAD)
PAIR(triple_ffma_ffma_lop3, A_FFMA " fma.rn.f32 %0, %0, %2, %3;", B_LOP3)
PAIR(quad_lop3_ffma_ffma_ffma, A_FFMA " fma.rn.f32 %0, %0, %2, %3; fma.rn.f32 %0, %0, %2, %3;", B_LOP3)

// Values that ptxas knows to be the same in the whole warp: the uniform datapath.
extern "C" __global__ void uniform_dep(u32* out, u32 x, u32 y, int n) {
    u32 t0, t1;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < 32; u++) {
                x += y;
                y = (y ^ x) + (u32)u;
            }
        }
        t1 = clk();
    }
    report(out, t0, t1);
    out[SINK + threadIdx.x] = x ^ y;
}

// Cycles of a division by exponents of both numbers: each warp does one pair after the other, all lanes the same. out[256 * a + b]
extern "C" __global__ void divisions(u32* out, u32 fraction_a, u32 fraction_b) {
    u32 warps = gridDim.x * blockDim.x / 32;
#pragma unroll 1
    for (u32 pair = (blockIdx.x * blockDim.x + threadIdx.x) / 32; pair < 65536; pair += warps) {
        float a = __uint_as_float(pair >> 8 << 23 | fraction_a), b = __uint_as_float((pair & 255) << 23 | fraction_b), q;
        u32 t0 = clk();
        asm volatile("div.rn.f32 %0, %1, %2;" : "=f"(q) : "f"(a), "f"(b));
        u32 bits = __float_as_uint(q);
        asm volatile("" :: "r"(bits) : "memory");
        u32 t1 = clk() + (bits == 77);
        if (lane() == 0) out[pair] = t1 - t0;
    }
}
