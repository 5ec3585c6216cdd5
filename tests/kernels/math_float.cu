// Single-precision mathematics: division, roots, rounding modes, conversions, libm functions and fast intrinsics.
extern "C" __global__ void float_divide_root(float *dst, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    dst[6 * i] = a[i] / b[i];
    dst[6 * i + 1] = sqrtf(fabsf(a[i]));
    dst[6 * i + 2] = 1.0f / b[i];
    dst[6 * i + 3] = __frsqrt_rn(fabsf(b[i]));
    dst[6 * i + 4] = fmodf(a[i], b[i]);
    dst[6 * i + 5] = fdimf(a[i], b[i]) + fabsf(copysignf(a[i], b[i]));
}

extern "C" __global__ void float_rounding(float *dst, const float *a, const float *b, const float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i], y = b[i], z = c[i];
    float *out = dst + 16 * i;
    out[0] = __fmaf_rn(x, y, z);
    out[1] = __fmaf_rz(x, y, z);
    out[2] = __fmaf_rd(x, y, z);
    out[3] = __fmaf_ru(x, y, z);
    out[4] = __fadd_rn(x, z);
    out[5] = __fadd_rz(x, z);
    out[6] = __fadd_rd(x, z);
    out[7] = __fadd_ru(x, z);
    out[8] = __fmul_rn(x, y);
    out[9] = __fmul_rz(x, y);
    out[10] = __fmul_rd(x, y);
    out[11] = __fmul_ru(x, y);
    out[12] = __fdiv_rd(x, y);
    out[13] = __fdiv_ru(x, y);
    out[14] = __fsqrt_rd(fabsf(x));
    out[15] = __fsqrt_ru(fabsf(x));
}

extern "C" __global__ void float_convert(int *dst, unsigned *unsigned_dst, long long *long_dst, float *float_dst,
                                         const float *src, const int *whole, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = src[i];
    dst[4 * i] = __float2int_rn(x);
    dst[4 * i + 1] = __float2int_rz(x);
    dst[4 * i + 2] = __float2int_rd(x);
    dst[4 * i + 3] = __float2int_ru(x);
    unsigned_dst[i] = __float2uint_rz(fabsf(x));
    long_dst[2 * i] = (long long)(x * 4294967296.0f);
    long_dst[2 * i + 1] = (long long)(unsigned long long)(fabsf(x) * 1048576.0f);
    float_dst[8 * i] = (float)whole[i];
    float_dst[8 * i + 1] = __int2float_rz(whole[i]);
    float_dst[8 * i + 2] = __uint2float_rn((unsigned)whole[i]);
    float_dst[8 * i + 3] = (float)((long long)whole[i] * whole[i]);
    float_dst[8 * i + 4] = floorf(x);
    float_dst[8 * i + 5] = ceilf(x);
    float_dst[8 * i + 6] = truncf(x) + rintf(x);
    float_dst[8 * i + 7] = (float)(signed char)whole[i] + (float)(unsigned short)whole[i];
}

extern "C" __global__ void float_minmax_special(float *dst, int *flags, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i], y = b[i];
    dst[4 * i] = fminf(x, y);
    dst[4 * i + 1] = fmaxf(x, y);
    dst[4 * i + 2] = __saturatef(x);
    dst[4 * i + 3] = x < y ? x : y;
    int f = 0;
    if (x < y) f |= 1;
    if (!(x < y)) f |= 2;
    if (x == y) f |= 4;
    if (x != y) f |= 8;
    if (isnan(x)) f |= 16;
    if (isinf(y)) f |= 32;
    if (x >= y) f |= 64;
    if (signbit(x)) f |= 128;
    flags[i] = f;
}

extern "C" __global__ void libm_trigonometry(float *dst, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = src[i], s, c;
    sincosf(x, &s, &c);
    dst[8 * i] = sinf(x);
    dst[8 * i + 1] = cosf(x);
    dst[8 * i + 2] = tanf(x);
    dst[8 * i + 3] = s * c;
    dst[8 * i + 4] = atanf(x);
    dst[8 * i + 5] = atan2f(x, 1.5f);
    dst[8 * i + 6] = asinf(x / (1.0f + fabsf(x)));
    dst[8 * i + 7] = acosf(x / (2.0f + fabsf(x)));
}

extern "C" __global__ void libm_exponential(float *dst, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = src[i], y = fabsf(x) + 1e-3f;
    dst[12 * i] = expf(x);
    dst[12 * i + 1] = exp2f(x);
    dst[12 * i + 2] = expm1f(x * 0.1f);
    dst[12 * i + 3] = logf(y);
    dst[12 * i + 4] = log2f(y);
    dst[12 * i + 5] = log10f(y);
    dst[12 * i + 6] = log1pf(y);
    dst[12 * i + 7] = powf(y, x * 0.5f);
    dst[12 * i + 8] = tanhf(x);
    dst[12 * i + 9] = sinhf(x * 0.5f);
    dst[12 * i + 10] = cbrtf(x);
    dst[12 * i + 11] = hypotf(x, 2.0f);
}

extern "C" __global__ void libm_special(float *dst, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = src[i];
    dst[6 * i] = erff(x);
    dst[6 * i + 1] = erfcf(x);
    dst[6 * i + 2] = lgammaf(fabsf(x) + 2.5f);
    dst[6 * i + 3] = tgammaf(fabsf(x) + 0.5f);
    dst[6 * i + 4] = normcdff(x);
    dst[6 * i + 5] = ldexpf(x, i % 7 - 3);
}

extern "C" __global__ void fast_intrinsics(float *dst, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = src[i], y = fabsf(x) + 0.25f, s, c;
    __sincosf(x, &s, &c);
    dst[10 * i] = __sinf(x);
    dst[10 * i + 1] = __cosf(x);
    dst[10 * i + 2] = s + c;
    dst[10 * i + 3] = __expf(x);
    dst[10 * i + 4] = __logf(y);
    dst[10 * i + 5] = __log2f(y);
    dst[10 * i + 6] = __powf(y, 1.5f);
    dst[10 * i + 7] = __fdividef(x, y);
    dst[10 * i + 8] = rsqrtf(y);
    dst[10 * i + 9] = __frcp_rn(y) + __tanf(x * 0.25f);
}

// The same source as ordinary code, compiled with --use_fast_math: flushed denormals, approximate division and roots.
extern "C" __global__ void fast_math_option(float *dst, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = src[i], y = fabsf(x) + 0.5f;
    dst[4 * i] = sinf(x) / y;
    dst[4 * i + 1] = sqrtf(y) + expf(-y);
    dst[4 * i + 2] = powf(y, 0.75f);
    dst[4 * i + 3] = x * 1e-30f * 1e-10f;
}
