// Half precision and bfloat16: scalar and packed arithmetic, comparisons, conversions, functions.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void half_arithmetic(__half *dst, const __half *a, const __half *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half x = a[i], y = b[i];
    dst[8 * i] = __hadd(x, y);
    dst[8 * i + 1] = __hsub(x, y);
    dst[8 * i + 2] = __hmul(x, y);
    dst[8 * i + 3] = __hfma(x, y, x);
    dst[8 * i + 4] = __hneg(__habs(x));
    dst[8 * i + 5] = __hgt(x, y) ? x : y;
    dst[8 * i + 6] = __hadd_sat(x, y);
    dst[8 * i + 7] = __float2half_rn(__half2float(x) * 1.0009765625f + __half2float(y));
}

extern "C" __global__ void half2_axpy(__half2 *y, const __half2 *x, __half2 factor, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        __half2 value = __hfma2(factor, x[i], y[i]);
        if (__hbgt2(value, __float2half2_rn(3.0f))) value = __hmul2(value, __float2half2_rn(0.5f));
        y[i] = __hadd2(value, __lowhigh2highlow(x[i]));
    }
}

extern "C" __global__ void half_convert(__half *dst, int *whole, float *single, const float *src, const short *from,
                                        int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    dst[4 * i] = __float2half_rn(src[i]);
    dst[4 * i + 1] = __float2half_rz(src[i]);
    dst[4 * i + 2] = __short2half_rn(from[i]);
    dst[4 * i + 3] = hfloor(__float2half(src[i]));
    whole[i] = __half2int_rz(__float2half(src[i]));
    single[i] = __half2float(__float2half_ru(src[i]));
}

extern "C" __global__ void half_functions(__half *dst, const __half *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half x = src[i];
    dst[4 * i] = hsqrt(x);
    dst[4 * i + 1] = hexp(__hneg(x));
    dst[4 * i + 2] = hlog2(x);
    dst[4 * i + 3] = __hdiv(__float2half(1.5f), x);
}

extern "C" __global__ void bfloat_axpy(__nv_bfloat16 *y, const __nv_bfloat16 *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = __fadd_rn(__fmul_rn(factor, __bfloat162float(x[i])), __bfloat162float(y[i]));
    y[i] = __float2bfloat16_rn(sum);
}
