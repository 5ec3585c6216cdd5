// min_arch: 80
// Packed bfloat16: arithmetic, comparisons and mathematics (native from sm_80).
#include <cuda_bf16.h>

#define OUT(x) dst[k++ * n + i] = (x)
__device__ unsigned bits(__nv_bfloat162 x) { return *(unsigned *)&x; }

extern "C" __global__ void bfloat_arithmetic(unsigned *dst, const __nv_bfloat162 *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    __nv_bfloat162 a = src[i], b = src[n + i], c = src[2 * n + i];
    OUT(bits(__hadd2(a, b))); OUT(bits(__hsub2(a, b))); OUT(bits(__hmul2(a, b))); OUT(bits(__hfma2(a, b, c))); OUT(bits(__h2div(a, b))); OUT(bits(__hneg2(a))); OUT(bits(__habs2(a)));
    OUT(bits(__hadd2_sat(a, b))); OUT(bits(__hfma2_sat(a, b, c))); OUT(bits(__hfma2_relu(a, b, c)));
    OUT(bits(__hmin2(a, b))); OUT(bits(__hmax2_nan(a, b))); OUT(bits(__heq2(a, b))); OUT(bits(__hltu2(a, b))); OUT(__hgt2_mask(a, b)); OUT(__hble2(a, b));
    __nv_bfloat16 x = __low2bfloat16(a), y = __high2bfloat16(b), z = __low2bfloat16(c);
    OUT(bits(__halves2bfloat162(__hadd(x, y), __hfma(x, y, z)))); OUT(bits(__halves2bfloat162(__hdiv(x, y), hrint(x)))); OUT(__hlt(x, y) + 2 * __hgtu(x, y) + 4 * (x <= z));
    OUT(bits(__floats2bfloat162_rn((float)x * 1.003f, (float)y * 0.999f)));
}

extern "C" __global__ void bfloat_math(__nv_bfloat16 *dst, const __nv_bfloat162 *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    __nv_bfloat162 a = src[i], p = __habs2(a);
    __nv_bfloat16 x = __low2bfloat16(a), q = __low2bfloat16(p);
    OUT(hexp(x)); OUT(hexp2(x)); OUT(hlog(q)); OUT(hlog2(q)); OUT(hsin(x)); OUT(hcos(x)); OUT(hsqrt(q)); OUT(hrsqrt(q)); OUT(hrcp(x)); OUT(hfloor(x)); OUT(htrunc(x)); OUT(__high2bfloat16(h2exp(a))); OUT(__low2bfloat16(h2sqrt(p)));
}

