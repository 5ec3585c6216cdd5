// Floating-point intrinsics and library functions beyond the everyday ones, one result column each.
#include <cuda_fp16.h>

#define OUT(x) dst[k++ * n + i] = (x)

extern "C" __global__ void float_intrinsics(float *dst, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    float a = src[i], b = src[n + i], c = src[2 * n + i];
    OUT(__fdiv_rn(a, b)); OUT(__fdiv_rz(a, b)); OUT(__fdiv_ru(a, b)); OUT(__fdiv_rd(a, b));
    OUT(__fsqrt_rn(fabsf(a))); OUT(__fsqrt_rz(fabsf(a))); OUT(__fsqrt_ru(fabsf(a))); OUT(__fsqrt_rd(fabsf(a)));
    OUT(__frcp_rn(a)); OUT(__frcp_rz(a)); OUT(__frcp_ru(a)); OUT(__frcp_rd(a)); OUT(__frsqrt_rn(fabsf(a)));
    OUT(__fadd_rz(a, b)); OUT(__fsub_ru(a, b)); OUT(__fmul_rd(a, b)); OUT(__fmaf_rz(a, b, c)); OUT(__fmaf_ru(a, b, c)); OUT(__fmaf_rd(a, b, c));
    OUT(__fmaf_ieee_rn(a, b, c)); OUT(__saturatef(a)); OUT(fmaf(a, b, -c)); OUT(-fmaf(a, -b, c)); OUT(fdimf(a, b)); OUT(fminf(a, b)); OUT(fmaxf(a, b));
    OUT(copysignf(a, b)); OUT(truncf(a)); OUT(rintf(a)); OUT(nearbyintf(a)); OUT(roundf(a)); OUT(floorf(a)); OUT(ceilf(a)); OUT(fmodf(a, b)); OUT(remainderf(a, b));
    int e; OUT(frexpf(a, &e)); OUT((float)e); OUT(ldexpf(a, (int)b % 40)); OUT(scalbnf(a, -130)); OUT(logbf(a)); OUT((float)ilogbf(a));
    float whole; OUT(modff(a, &whole)); OUT(whole); OUT(nextafterf(a, b)); OUT(nextafterf(a, a));
    int q; OUT(remquof(a, b, &q)); OUT((float)(q & 7)); OUT((float)(isnan(a) + 2 * isinf(a) + 4 * isfinite(a) + 8 * (signbit(a) != 0)));
    OUT((float)__float2int_rn(a)); OUT((float)__float2int_ru(a)); OUT((float)__float2int_rd(a)); OUT((float)__float2uint_rn(a)); OUT((float)__float2ll_rd(a)); OUT((float)__float2ull_ru(a));
    OUT(__int2float_rd((int)__float_as_uint(a))); OUT(__uint2float_ru(__float_as_uint(a))); OUT(__ll2float_rz((long long)__float_as_uint(a) << 20)); OUT(__ull2float_rd(0x123456789ull * __float_as_uint(b)));
    OUT(fmaxf(fmaxf(a, b), c)); OUT(fminf(fabsf(a), fabsf(b))); OUT((a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b) + 16 * (a > c) + 32 * !(a >= c));
    OUT(a == b ? c : a != c ? b : a); OUT(lroundf(a)); OUT((float)llrintf(a)); OUT((float)lrintf(b)); OUT(max(a, 0.0f)); OUT((float)(a > 0.0f && b < c));
}

extern "C" __global__ void float_library(float *dst, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    float a = src[i], b = src[n + i], c = src[2 * n + i], p = fabsf(a);
    OUT(hypotf(a, b)); OUT(rhypotf(a, b)); OUT(norm3df(a, b, c)); OUT(rnorm3df(a, b, c)); OUT(norm4df(a, b, c, 1.0f)); OUT(cbrtf(a)); OUT(rcbrtf(a));
    OUT(sinpif(a)); OUT(cospif(a)); OUT(tanf(a)); OUT(asinf(a / 100.0f)); OUT(acosf(a / 100.0f)); OUT(atanf(a)); OUT(atan2f(a, b)); OUT(sinhf(a / 8)); OUT(coshf(a / 8)); OUT(tanhf(a));
    OUT(asinhf(a)); OUT(acoshf(1.0f + p)); OUT(atanhf(a / 100.0f)); OUT(exp2f(a)); OUT(exp10f(a / 8)); OUT(expm1f(a / 8)); OUT(log2f(p)); OUT(log10f(p)); OUT(log1pf(p)); OUT(powf(p, b / 16)); OUT(powf(a, 3.0f)); OUT(powf(a, (float)(i % 7)));
    OUT(erff(a)); OUT(erfcf(a / 8)); OUT(erfinvf(a / 100.0f)); OUT(erfcinvf(p / 50.0f)); OUT(erfcxf(p)); OUT(normcdff(a / 4)); OUT(normcdfinvf(p / 128.0f));
    OUT(lgammaf(a + 0.25f)); OUT(tgammaf(a / 4 + 0.3f)); OUT(j0f(a)); OUT(j1f(a)); OUT(jnf(3, a)); OUT(y0f(p)); OUT(y1f(p)); OUT(ynf(2, p)); OUT(cyl_bessel_i0f(a / 8)); OUT(cyl_bessel_i1f(a / 8));
    float s, co; sincosf(a * 1000.0f, &s, &co); OUT(s); OUT(co); sincospif(b, &s, &co); OUT(s); OUT(co);
    OUT(sinf(a * 1e6f)); OUT(cosf(b * 1e9f));
}

extern "C" __global__ void float_approximations(float *dst, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    float a = src[i], b = src[n + i], p = fabsf(a) + 0.01f;
    OUT(__expf(a / 8)); OUT(__exp10f(a / 16)); OUT(__logf(p)); OUT(__log2f(p)); OUT(__log10f(p)); OUT(__powf(p, b / 32)); OUT(__sinf(a / 32)); OUT(__cosf(a / 32)); OUT(__tanf(a / 80)); OUT(__fdividef(a, b)); OUT(rsqrtf(p));
    float s, c; __sincosf(a / 40, &s, &c); OUT(s); OUT(c);
    asm("rcp.approx.f32 %0, %1;" : "=f"(s) : "f"(a)); OUT(s);
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(p)); OUT(s);
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(b / 8)); OUT(s);
    asm("lg2.approx.f32 %0, %1;" : "=f"(s) : "f"(p)); OUT(s);
    asm("div.approx.ftz.f32 %0, %1, %2;" : "=f"(s) : "f"(a), "f"(b)); OUT(s);
    asm("div.full.f32 %0, %1, %2;" : "=f"(s) : "f"(a), "f"(b)); OUT(s);
}

extern "C" __global__ void double_intrinsics(double *dst, const double *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    double a = src[i], b = src[n + i], c = src[2 * n + i];
    OUT(__dadd_rz(a, b)); OUT(__dsub_ru(a, b)); OUT(__dmul_rd(a, b)); OUT(__dmul_rz(a, b)); OUT(__fma_rz(a, b, c)); OUT(__fma_ru(a, b, c)); OUT(__ddiv_rn(a, b)); OUT(__ddiv_rz(a, b)); OUT(__ddiv_ru(a, b)); OUT(__ddiv_rd(a, b));
    OUT(__dsqrt_rn(fabs(a))); OUT(__dsqrt_rz(fabs(a))); OUT(__dsqrt_ru(fabs(a))); OUT(__drcp_rn(a)); OUT(__drcp_rd(a));
    OUT(fdim(a, b)); OUT(fmin(a, b)); OUT(fmax(a, b)); OUT(copysign(a, b)); OUT(trunc(a)); OUT(rint(a)); OUT(round(a)); OUT(floor(a)); OUT(ceil(a)); OUT(fmod(a, b)); OUT(remainder(a, b));
    int e; OUT(frexp(a, &e)); OUT(e); OUT(ldexp(a, (int)b % 300)); OUT(scalbn(a, -1060)); OUT(logb(a)); OUT(ilogb(a));
    double whole; OUT(modf(a, &whole)); OUT(whole); OUT(nextafter(a, b)); int q; OUT(remquo(a, b, &q)); OUT(q & 7);
    OUT(isnan(a) + 2 * isinf(a) + 4 * isfinite(a) + 8 * (signbit(a) != 0));
    OUT(__double2int_rz(a)); OUT(__double2int_ru(a)); OUT(__double2uint_rn(a)); OUT((double)__double2ll_rn(a)); OUT((double)__double2ll_ru(a)); OUT((double)__double2ull_rd(a));
    OUT(__double2float_rn(a)); OUT(__double2float_ru(a)); OUT(__double2float_rd(a)); OUT(__int2double_rn((int)(a * 100))); OUT(__uint2double_rn((unsigned)fabs(b))); OUT(__ll2double_rd((long long)a * 1234567890123ll)); OUT(__ull2double_ru(0xFFFFFFFFFFFFF123ull - i));
    OUT(__double2hiint(a)); OUT(__double2loint(a)); OUT(__hiloint2double(__double2hiint(a), __double2loint(b)));
    OUT((a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b) + 16 * (a > c) + 32 * !(a >= c)); OUT(isnan(a) || isnan(b) ? c : a);
    OUT((double)(float)a); OUT((double)(int)b); OUT((double)(short)(int)b); OUT((double)__half2float(__double2half(a)));
}

extern "C" __global__ void double_library(double *dst, const double *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    double a = src[i], b = src[n + i], c = src[2 * n + i], p = fabs(a);
    OUT(hypot(a, b)); OUT(rhypot(a, b)); OUT(norm3d(a, b, c)); OUT(cbrt(a)); OUT(rcbrt(a)); OUT(rsqrt(p)); OUT(sinpi(a)); OUT(cospi(a)); OUT(tan(a)); OUT(asin(a / 100)); OUT(acos(a / 100)); OUT(atan2(a, b)); OUT(sinh(a / 8)); OUT(tanh(a));
    OUT(asinh(a)); OUT(acosh(1 + p)); OUT(atanh(a / 100)); OUT(exp2(a)); OUT(exp10(a / 8)); OUT(expm1(a / 8)); OUT(log2(p)); OUT(log10(p)); OUT(log1p(p)); OUT(pow(p, b / 16)); OUT(pow(a, 3.0));
    OUT(erf(a)); OUT(erfc(a / 8)); OUT(erfinv(a / 100)); OUT(erfcx(p)); OUT(normcdf(a / 4)); OUT(lgamma(a + 0.25)); OUT(tgamma(a / 4 + 0.3)); OUT(j0(a)); OUT(j1(a)); OUT(y0(p)); OUT(y1(p)); OUT(jn(2, a)); OUT(cyl_bessel_i0(a / 8));
    double s, co; sincos(a * 1e5, &s, &co); OUT(s); OUT(co); OUT(sin(b * 1e12));
}
