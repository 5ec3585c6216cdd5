// Packed bfloat16 multiply and fused multiply-add (sm_80 and later have them in hardware).
#include <cuda_bf16.h>

extern "C" __global__ void bfloat_packed(__nv_bfloat162 *dst, const __nv_bfloat162 *a, const __nv_bfloat162 *b,
                                         int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    dst[2 * i] = __hfma2(a[i], b[i], a[i]);
    dst[2 * i + 1] = __hmul2(a[i], b[i]);
}
