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
#define ENTRY(NAME)                                                                        \
    extern "C" __global__ void NAME##_dep(u32* out, const u32* in, u32 step, int n) { NAME<1>(out, in, step, n); } \
    extern "C" __global__ void NAME##_ind2(u32* out, const u32* in, u32 step, int n) { NAME<2>(out, in, step, n); } \
    extern "C" __global__ void NAME##_ind(u32* out, const u32* in, u32 step, int n) { NAME<4>(out, in, step, n); }

#if __CUDA_ARCH__ >= 800
MMA4(hmma_16816_f32, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, 2, "{%4,%5,%6,%7}", "{%8,%9}")
MMA2(hmma_16816_f16, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 4, 2, "{%2,%3,%4,%5}", "{%6,%7}")
MMA4(hmma_1688_f32, "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 2, 1, "{%4,%5}", "{%8}")
MMA2(hmma_1688_f16, "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", 2, 1, "{%2,%3}", "{%6}")
MMA4(hmma_16816_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, "{%4,%5,%6,%7}", "{%8,%9}")
MMA4(hmma_1688_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, "{%4,%5,%6,%7}", "{%8,%9}")
MMA4(imma_16832_s8, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 4, 2, "{%4,%5,%6,%7}", "{%8,%9}")

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
