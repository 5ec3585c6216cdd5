// min_arch: 80
// Inline PTX that begins with sm_80: minima of halves, bfloat16 fma, relu, tanh and ex2 of halves, xorsign, NaN minima.
#define PACKED(text) asm(text : "=r"(r) : "r"(a), "r"(b), "r"(c)); dst[k++ * n + i] = r;
#define ONE(text) asm(text : "=r"(r) : "f"(x), "f"(y), "f"(z)); dst[k++ * n + i] = r;

extern "C" __global__ void ptx_half_ampere(unsigned *dst, const unsigned *src, const float *reals, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    unsigned a = src[i], b = src[n + i], c = src[2 * n + i], r;
    float x = reals[i], y = reals[n + i], z = reals[2 * n + i];
    PACKED("min.f16x2 %0, %1, %2;") PACKED("max.NaN.f16x2 %0, %1, %2;") PACKED("fma.rn.relu.f16x2 %0, %1, %2, %3;") PACKED("fma.rn.bf16x2 %0, %1, %2, %3;") PACKED("fma.rn.relu.bf16x2 %0, %1, %2, %3;") PACKED("min.bf16x2 %0, %1, %2;") PACKED("max.NaN.bf16x2 %0, %1, %2;") PACKED("neg.bf16x2 %0, %1;") PACKED("abs.bf16x2 %0, %1;")
    ONE("{.reg .f32 f; min.NaN.f32 f, %1, %2; mov.b32 %0, f;}") ONE("{.reg .f32 f; max.ftz.NaN.f32 f, %1, %2; mov.b32 %0, f;}") ONE("cvt.rn.f16x2.f32 %0, %1, %2;") ONE("cvt.rz.relu.f16x2.f32 %0, %1, %2;") ONE("cvt.rn.bf16x2.f32 %0, %1, %2;") ONE("cvt.rz.bf16x2.f32 %0, %1, %2;") ONE("cvt.rn.relu.bf16x2.f32 %0, %1, %2;") ONE("cvt.rna.tf32.f32 %0, %1;") ONE("{.reg .b16 h; cvt.rn.bf16.f32 h, %1; cvt.u32.u16 %0, h;}")
}

extern "C" __global__ void ptx_approximations(float *dst, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    float a = src[i], r;
#define REAL(text) asm(text : "=f"(r) : "f"(a)); dst[k++ * n + i] = r;
    REAL("tanh.approx.f32 %0, %1;") REAL("{.reg .b16 h; cvt.rn.f16.f32 h, %1; tanh.approx.f16 h, h; cvt.f32.f16 %0, h;}") REAL("{.reg .b16 h; cvt.rn.f16.f32 h, %1; ex2.approx.f16 h, h; cvt.f32.f16 %0, h;}") REAL("sin.approx.f32 %0, %1;") REAL("cos.approx.ftz.f32 %0, %1;") REAL("rsqrt.approx.f32 %0, %1;")
}
