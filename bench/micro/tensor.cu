// Tensor core: mma.sync in one accumulator chain (_dep), in two and four (_ind2, _ind); _operand feeds D back as A.
#include "common.cuh"

template <int UNROLL, class F>
__device__ __forceinline__ void timed(u32* out, int n, F body) {
    u32 t0, t1;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < UNROLL; u++) body();
        }
        t1 = clk();
    }
    report(out, t0, t1);
}

#define ABCD(ND, NA, NB) u32 d[C][ND], a[NA], b[NB];                                       \
    for (int c = 0; c < C; c++) for (int j = 0; j < ND; j++) d[c][j] = in[lane() * step + c * step + j]; \
    for (int j = 0; j < NA; j++) a[j] = in[lane() * step + j + 8];                           \
    for (int j = 0; j < NB; j++) b[j] = in[lane() * step + j + 16];
#define FOLD(ND) u32 f = 0; for (int c = 0; c < C; c++) for (int j = 0; j < ND; j++) f ^= d[c][j]; \
    out[SINK + blockIdx.x * blockDim.x + threadIdx.x] = f;

#define MMA4(NAME, PTX, NA, NB, ALIST, BLIST)                                               \
    template <int C> __device__ __forceinline__ void NAME(u32* out, const u32* in, u32 step, int n) { \
        ABCD(4, NA, NB)                                                                    \
        timed<16>(out, n, [&]() {                                                          \
            _Pragma("unroll") for (int c = 0; c < C; c++)                                   \
                asm volatile(PTX " {%0,%1,%2,%3}, " ALIST ", " BLIST ", {%0,%1,%2,%3};"     \
                    : "+r"(d[c][0]), "+r"(d[c][1]), "+r"(d[c][2]), "+r"(d[c][3])            \
                    : "r"(a[0]), "r"(a[1]), "r"(a[2 % NA]), "r"(a[3 % NA]), "r"(b[0]), "r"(b[1 % NB])); \
        });                                                                                \
        FOLD(4)                                                                            \
    }                                                                                      \
    ENTRY(NAME)
#define MMA2(NAME, PTX, NA, NB, ALIST, BLIST)                                               \
    template <int C> __device__ __forceinline__ void NAME(u32* out, const u32* in, u32 step, int n) { \
        ABCD(2, NA, NB)                                                                    \
        timed<16>(out, n, [&]() {                                                          \
            _Pragma("unroll") for (int c = 0; c < C; c++)                                   \
                asm volatile(PTX " {%0,%1}, " ALIST ", " BLIST ", {%0,%1};"                 \
                    : "+r"(d[c][0]), "+r"(d[c][1])                                         \
                    : "r"(a[0]), "r"(a[1]), "r"(a[2 % NA]), "r"(a[3 % NA]), "r"(b[0]), "r"(b[1 % NB])); \
        });                                                                                \
        FOLD(2)                                                                            \
    }                                                                                      \
    ENTRY(NAME)
// Sparse: A holds half of B's depth, and the metadata chooses the first two of every four elements.
#define MMA_SPARSE(NAME, PTX, ND, DLIST, ALIST, BLIST, E, SUMS)                                \
    template <int C> __device__ __forceinline__ void NAME(u32* out, const u32* in, u32 step, int n) { \
        ABCD(ND, 4, 4)                                                                     \
        timed<16>(out, n, [&]() {                                                          \
            _Pragma("unroll") for (int c = 0; c < C; c++)                                   \
                asm volatile(PTX " " DLIST ", " ALIST ", " BLIST ", " DLIST ", " E ", 0x0;" \
                    : SUMS                                                                 \
                    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(0x44444444)); \
        });                                                                                \
        FOLD(ND)                                                                           \
    }                                                                                      \
    ENTRY(NAME)
#define SUMS4 "+r"(d[c][0]), "+r"(d[c][1]), "+r"(d[c][2]), "+r"(d[c][3])
#define SUMS2 "+r"(d[c][0]), "+r"(d[c][1])
#define SP "mma.sp::ordered_metadata.sync.aligned."
#define WIDE4(NAME, PTX) MMA_SPARSE(NAME, SP PTX, 4, "{%0,%1,%2,%3}", "{%4,%5,%6,%7}", "{%8,%9,%10,%11}", "%12", SUMS4)
#define NARROW4(NAME, PTX) MMA_SPARSE(NAME, SP PTX, 4, "{%0,%1,%2,%3}", "{%4,%5}", "{%8,%9}", "%12", SUMS4)
#define WIDE2(NAME, PTX) MMA_SPARSE(NAME, SP PTX, 2, "{%0,%1}", "{%2,%3,%4,%5}", "{%6,%7,%8,%9}", "%10", SUMS2)

// Doubles: registers of A and of B in pairs.
#define DMMA(NAME, SHAPE, NA, NB, ALIST, BLIST)                                                \
    template <int C> __device__ __forceinline__ void NAME(u32* out, const u32* in, u32 step, int n) { \
        double d[C][4], a[8], b[4];                                                        \
        for (int c = 0; c < C; c++) for (int j = 0; j < 4; j++) d[c][j] = in[lane() * step + c * step + j]; \
        for (int j = 0; j < 8; j++) a[j] = in[lane() * step + j % NA + 8];                   \
        for (int j = 0; j < 4; j++) b[j] = in[lane() * step + j % NB + 16];                  \
        timed<16>(out, n, [&]() {                                                          \
            _Pragma("unroll") for (int c = 0; c < C; c++)                                   \
                asm volatile("mma.sync.aligned." SHAPE ".row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, " ALIST ", " BLIST ", {%0,%1,%2,%3};" \
                    : "+d"(d[c][0]), "+d"(d[c][1]), "+d"(d[c][2]), "+d"(d[c][3])            \
                    : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), \
                      "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));                           \
        });                                                                                \
        double f = 0; for (int c = 0; c < C; c++) for (int j = 0; j < 4; j++) f += d[c][j];  \
        out[SINK + blockIdx.x * blockDim.x + threadIdx.x] = __double2loint(f);               \
    }                                                                                      \
    ENTRY(NAME)
#define DMMA_884(NAME)                                                                        \
    template <int C> __device__ __forceinline__ void NAME(u32* out, const u32* in, u32 step, int n) { \
        double d[C][2], a = in[lane() * step + 8], b = in[lane() * step + 16];               \
        for (int c = 0; c < C; c++) d[c][0] = d[c][1] = in[lane() * step + c * step];         \
        timed<16>(out, n, [&]() {                                                          \
            _Pragma("unroll") for (int c = 0; c < C; c++)                                   \
                asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" \
                    : "+d"(d[c][0]), "+d"(d[c][1]) : "d"(a), "d"(b));                        \
        });                                                                                \
        double f = 0; for (int c = 0; c < C; c++) f += d[c][0] + d[c][1];                    \
        out[SINK + blockIdx.x * blockDim.x + threadIdx.x] = __double2loint(f);               \
    }                                                                                      \
    ENTRY(NAME)

#define ENTRY(NAME)                                                                        \
    extern "C" __global__ void __launch_bounds__(512) NAME##_dep(u32* out, const u32* in, u32 step, int n) { NAME<1>(out, in, step, n); } \
    extern "C" __global__ void __launch_bounds__(512) NAME##_ind2(u32* out, const u32* in, u32 step, int n) { NAME<2>(out, in, step, n); } \
    extern "C" __global__ void __launch_bounds__(512) NAME##_ind(u32* out, const u32* in, u32 step, int n) { NAME<4>(out, in, step, n); }

#if __CUDA_ARCH__ >= 800
MMA4(hmma_16816_f32, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, 2, "{%4,%5,%6,%7}", "{%8,%9}")
MMA2(hmma_16816_f16, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 4, 2, "{%2,%3,%4,%5}", "{%6,%7}")
MMA4(hmma_1688_f32, "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 2, 1, "{%4,%5}", "{%8}")
MMA2(hmma_1688_f16, "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", 2, 1, "{%2,%3}", "{%6}")
MMA4(hmma_16816_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, "{%4,%5,%6,%7}", "{%8,%9}")
MMA4(hmma_1688_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, "{%4,%5,%6,%7}", "{%8,%9}")
MMA4(imma_16832_s8, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 4, 2, "{%4,%5,%6,%7}", "{%8,%9}")
MMA4(imma_16816_s8, "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", 2, 1, "{%4,%5}", "{%8}")
MMA4(imma_16832_s4, "mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32", 2, 1, "{%4,%5}", "{%8}")
MMA4(imma_16864_s4, "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", 4, 2, "{%4,%5,%6,%7}", "{%8,%9}")
MMA4(bmma_168128, "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc", 2, 1, "{%4,%5}", "{%8}")
MMA4(bmma_168256, "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc", 4, 2, "{%4,%5,%6,%7}", "{%8,%9}")
DMMA_884(dmma_884)
#if __CUDA_ARCH__ >= 900
DMMA(dmma_16x8x4, "m16n8k4", 2, 1, "{%4,%5}", "{%12}")
DMMA(dmma_16x8x8, "m16n8k8", 4, 2, "{%4,%5,%6,%7}", "{%12,%13}")
DMMA(dmma_16x8x16, "m16n8k16", 8, 4, "{%4,%5,%6,%7,%8,%9,%10,%11}", "{%12,%13,%14,%15}")
#endif
NARROW4(hmma_sp_16816_f32, "m16n8k16.row.col.f32.f16.f16.f32")
WIDE4(hmma_sp_16832_f32, "m16n8k32.row.col.f32.f16.f16.f32")
WIDE2(hmma_sp_16832_f16, "m16n8k32.row.col.f16.f16.f16.f16")
WIDE4(hmma_sp_16832_bf16, "m16n8k32.row.col.f32.bf16.bf16.f32")
NARROW4(hmma_sp_1688_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
WIDE4(hmma_sp_16816_tf32, "m16n8k16.row.col.f32.tf32.tf32.f32")
NARROW4(imma_sp_16832_s8, "m16n8k32.row.col.s32.s8.s8.s32")
WIDE4(imma_sp_16864_s8, "m16n8k64.row.col.s32.s8.s8.s32")
NARROW4(imma_sp_16864_s4, "m16n8k64.row.col.s32.s4.s4.s32")
WIDE4(imma_sp_168128_s4, "m16n8k128.row.col.s32.s4.s4.s32")

extern "C" __global__ void hmma_16816_f16_operand(u32* out, const u32* in, u32 step, int n) {
    u32 a[4], b[2];
    for (int j = 0; j < 4; j++) a[j] = in[lane() * step + j + 8];
    for (int j = 0; j < 2; j++) b[j] = in[lane() * step + j + 16];
    timed<16>(out, n, [&]() {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%0,%1,%2,%3}, {%4,%5}, {%2,%3};"
                     : "+r"(a[0]), "+r"(a[1]) : "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    });
    out[SINK + threadIdx.x] = a[0] ^ a[1];
}
#endif
#if __CUDA_ARCH__ == 700
MMA2(hmma_884_unused, "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16", 2, 2, "{%2,%3}", "{%6,%7}")
#endif
