// min_arch: 80
// mma.sync in the shapes and formats of sm_80; every operand register is taken and left as it lies in the fragment.

#define U(x) (x)
__device__ unsigned word(const unsigned *p, int k) { return p[k * 32 + threadIdx.x]; }

#define A4 "r"(word(a, 0)), "r"(word(a, 1)), "r"(word(a, 2)), "r"(word(a, 3))
#define A2 "r"(word(a, 0)), "r"(word(a, 1))
#define B2 "r"(word(b, 0)), "r"(word(b, 1))
#define B1 "r"(word(b, 0))
#define C4 "r"(c[threadIdx.x]), "r"(c[32 + threadIdx.x]), "r"(c[64 + threadIdx.x]), "r"(c[96 + threadIdx.x])
#define F4 "f"(f[threadIdx.x]), "f"(f[32 + threadIdx.x]), "f"(f[64 + threadIdx.x]), "f"(f[96 + threadIdx.x])
#define PUT4(d) d[threadIdx.x] = r0, d[32 + threadIdx.x] = r1, d[64 + threadIdx.x] = r2, d[96 + threadIdx.x] = r3, d += 128;

extern "C" __global__ void mma_integers(int *d, const unsigned *a, const unsigned *b, const int *c) {
    int r0, r1, r2, r3;
#define I4B2(op) asm volatile("mma.sync.aligned." op " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : A4, B2, C4); PUT4(d)
#define I2B1(op) asm volatile("mma.sync.aligned." op " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : A2, B1, C4); PUT4(d)
    I4B2("m16n8k32.row.col.s32.s8.s8.s32") I4B2("m16n8k32.row.col.s32.u8.s8.s32") I4B2("m16n8k32.row.col.satfinite.s32.u8.u8.s32") I2B1("m16n8k16.row.col.s32.s8.s8.s32") I2B1("m16n8k16.row.col.s32.s8.u8.s32")
    r2 = r3 = 0;
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%4, %5};" : "=r"(r0), "=r"(r1) : "r"(word(a, 0)), "r"(word(b, 0)), "r"(c[threadIdx.x]), "r"(c[32 + threadIdx.x]));
    PUT4(d)
}
extern "C" __global__ void mma_bits(int *d, const unsigned *a, const unsigned *b, const int *c) {
    int r0, r1, r2, r3;
    I4B2("m16n8k256.row.col.s32.b1.b1.s32.xor.popc") I4B2("m16n8k256.row.col.s32.b1.b1.s32.and.popc") I2B1("m16n8k128.row.col.s32.b1.b1.s32.xor.popc")
}
extern "C" __global__ void mma_nibbles(int *d, const unsigned *a, const unsigned *b, const int *c) {
    int r0, r1, r2, r3;
    I4B2("m16n8k64.row.col.s32.s4.s4.s32") I4B2("m16n8k64.row.col.s32.u4.s4.s32") I2B1("m16n8k32.row.col.s32.u4.u4.s32")
}
extern "C" __global__ void mma_floats(float *d, const unsigned *a, const unsigned *b, const float *f) {
    float r0, r1, r2, r3;
#define F4B2(op) asm volatile("mma.sync.aligned." op " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};" : "=f"(r0), "=f"(r1), "=f"(r2), "=f"(r3) : A4, B2, F4); PUT4(d)
#define F2B1(op) asm volatile("mma.sync.aligned." op " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};" : "=f"(r0), "=f"(r1), "=f"(r2), "=f"(r3) : A2, B1, F4); PUT4(d)
    F4B2("m16n8k16.row.col.f32.bf16.bf16.f32") F2B1("m16n8k8.row.col.f32.bf16.bf16.f32")
}
extern "C" __global__ void mma_tf32(float *d, const unsigned *a, const unsigned *b, const float *f) {
    float r0, r1, r2, r3;
    F4B2("m16n8k8.row.col.f32.tf32.tf32.f32") F2B1("m16n8k4.row.col.f32.tf32.tf32.f32")
}
extern "C" __global__ void mma_halves(float *d, const unsigned *a, const unsigned *b, const float *f) {
    float r0, r1, r2, r3;
    F4B2("m16n8k16.row.col.f32.f16.f16.f32") F2B1("m16n8k8.row.col.f32.f16.f16.f32")
    unsigned h0, h1;
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%5, %6};" : "=r"(h0), "=r"(h1) : A2, B1, "r"(word(b, 0)), "r"(word(b, 1)));
    r0 = __uint_as_float(h0 & 0xBFFFBFFF); r1 = __uint_as_float(h1 & 0xBFFFBFFF); r2 = r3 = 0;
    PUT4(d)
}
extern "C" __global__ void mma_double(double *d, const double *a, const double *b, const double *c) {
    double r0, r1;
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};" : "=d"(r0), "=d"(r1) : "d"(a[threadIdx.x]), "d"(b[threadIdx.x]), "d"(c[threadIdx.x]), "d"(c[32 + threadIdx.x]));
    d[threadIdx.x] = r0, d[32 + threadIdx.x] = r1;
}
