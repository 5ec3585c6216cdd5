// Half, bfloat16 and FP8: packed arithmetic, comparisons, mathematics and every conversion.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#define OUT(x) dst[k++ * n + i] = (x)
__device__ unsigned bits(__half2 x) { return *(unsigned *)&x; }
__device__ unsigned bits(__nv_bfloat162 x) { return *(unsigned *)&x; }

extern "C" __global__ void half2_arithmetic(unsigned *dst, const __half2 *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    __half2 a = src[i], b = src[n + i], c = src[2 * n + i];
    OUT(bits(__hadd2(a, b))); OUT(bits(__hsub2(a, b))); OUT(bits(__hmul2(a, b))); OUT(bits(__hfma2(a, b, c))); OUT(bits(__h2div(a, b))); OUT(bits(__hneg2(a))); OUT(bits(__habs2(a)));
    OUT(bits(__hadd2_sat(a, b))); OUT(bits(__hmul2_sat(a, b))); OUT(bits(__hfma2_sat(a, b, c))); OUT(bits(__hfma2_relu(a, b, c))); OUT(bits(__hcmadd(a, b, c)));
    OUT(bits(__hmin2(a, b))); OUT(bits(__hmax2(a, b))); OUT(bits(__hmin2_nan(a, b))); OUT(bits(__hmax2_nan(a, b)));
    OUT(bits(__heq2(a, b))); OUT(bits(__hne2(a, b))); OUT(bits(__hlt2(a, b))); OUT(bits(__hgeu2(a, b))); OUT(bits(__hequ2(a, b))); OUT(bits(__hisnan2(a)));
    OUT(__heq2_mask(a, b)); OUT(__hlt2_mask(a, b)); OUT(__hneu2_mask(a, b)); OUT(__hbeq2(a, b) + 2 * __hblt2(a, b) + 4 * __hbge2(a, b) + 8 * __hbneu2(a, b));
    OUT(bits(__lows2half2(a, b))); OUT(bits(__highs2half2(a, b))); OUT(bits(__lowhigh2highlow(a))); OUT(bits(__low2half2(a))); OUT(bits(__high2half2(b)));
    __half x = __low2half(a), y = __high2half(b), z = __low2half(c);
    OUT(bits(__halves2half2(__hadd(x, y), __hfma(x, y, z)))); OUT(bits(__halves2half2(__hdiv(x, y), __hsub_sat(x, y)))); OUT(__hlt(x, y) + 2 * __hgtu(x, y) + 4 * __hisinf(x) + 8 * (x == y) + 16 * (x >= z));
    OUT(bits(__halves2half2(hfloor(x), hceil(y)))); OUT(bits(__halves2half2(hrint(x), htrunc(y)))); OUT(bits(h2rint(b)));
}

extern "C" __global__ void half_math(__half *dst, const __half2 *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    __half2 a = src[i], p = __habs2(a);
    __half x = __low2half(a), q = __low2half(p);
    OUT(hexp(x)); OUT(hexp2(x)); OUT(hexp10(__hmul(x, __float2half(0.25f)))); OUT(hlog(q)); OUT(hlog2(q)); OUT(hlog10(q)); OUT(hsin(x)); OUT(hcos(x)); OUT(hsqrt(q)); OUT(hrsqrt(q)); OUT(hrcp(x));
    OUT(__low2half(h2exp(a))); OUT(__high2half(h2log(p))); OUT(__high2half(h2sin(a))); OUT(__low2half(h2sqrt(p))); OUT(__high2half(h2rcp(a))); OUT(__high2half(h2rsqrt(p)));
}

extern "C" __global__ void half_conversions(float *dst, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    float f = src[i];
    OUT(__half2float(__float2half_rn(f))); OUT(__half2float(__float2half_rz(f))); OUT(__half2float(__float2half_ru(f))); OUT(__half2float(__float2half_rd(f)));
    __half h = __float2half(f);
    OUT(__half2int_rn(h)); OUT(__half2int_rz(h)); OUT(__half2int_ru(h)); OUT(__half2uint_rd(h)); OUT(__half2short_rn(h)); OUT(__half2ushort_rz(h)); OUT((float)__half2ll_rn(h)); OUT((float)__half2ull_ru(h)); OUT(__half2char_rz(h)); OUT(__half2uchar_rz(h));
    int v = (int)(f * 37.0f);
    OUT(__half2float(__int2half_rn(v))); OUT(__half2float(__int2half_rz(v))); OUT(__half2float(__uint2half_ru((unsigned)v & 0xFFFF))); OUT(__half2float(__short2half_rd((short)v))); OUT(__half2float(__ushort2half_rn((unsigned short)v))); OUT(__half2float(__ll2half_rn((long long)v << 3))); OUT(__half2float(__ull2half_rz((unsigned long long)(v & 0xFFFFF))));
    OUT(__half2float(__double2half((double)f * 1.0009))); OUT(__half_as_short(h)); OUT(__half2float(__ushort_as_half((unsigned short)(v & 0x7BFF))));
    __nv_bfloat16 b = __float2bfloat16(f);
    OUT(__bfloat162float(b)); OUT(__bfloat162float(__float2bfloat16_rz(f))); OUT(__bfloat162float(__float2bfloat16_ru(f))); OUT(__bfloat162float(__float2bfloat16_rd(f)));
    OUT(__bfloat162int_rn(b)); OUT(__bfloat162uint_rz(b)); OUT(__bfloat162short_rz(b)); OUT((float)__bfloat162ll_rd(b)); OUT(__bfloat162float(__int2bfloat16_rn(v))); OUT(__bfloat162float(__uint2bfloat16_rz((unsigned)v))); OUT(__bfloat162float(__ll2bfloat16_ru((long long)v * 77777))); OUT(__bfloat162float(__double2bfloat16((double)f))); OUT(__bfloat162float(__short2bfloat16_rn((short)v)));
}

extern "C" __global__ void fp8_conversions(float *dst, unsigned *raw, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    float f = src[i];
    __nv_fp8_e4m3 a(f);
    __nv_fp8_e5m2 b(f);
    OUT((float)a); OUT((float)b); OUT((float)__nv_fp8_e4m3(__float2half(f))); OUT((float)__nv_fp8_e5m2((double)f)); OUT((float)__nv_fp8_e4m3((int)f));
    OUT(__half2float(__half(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)i, __NV_E4M3)))); OUT(__half2float(__half(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)i, __NV_E5M2))));
    OUT((float)(int)a); OUT((float)(bool)b);
    float4 four = make_float4(f, -f, f * 3.0f, f * 0.01f);
    __nv_fp8x4_e4m3 packed(four);
    __nv_fp8x2_e5m2 two(make_float2(f * 2.0f, f * 5.0f));
    float4 back = (float4)packed;
    float2 back2 = (float2)two;
    OUT(back.x + back.y); OUT(back.z); OUT(back.w); OUT(back2.x); OUT(back2.y);
    raw[i] = packed.__x;
    raw[n + i] = two.__x | (unsigned)__nv_cvt_float_to_fp8(f, __NV_NOSAT, __NV_E4M3) << 16 | (unsigned)__nv_cvt_float_to_fp8(f, __NV_NOSAT, __NV_E5M2) << 24;
}
