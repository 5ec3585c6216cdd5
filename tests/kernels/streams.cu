// Streaming loads and stores: copy, 128-bit copy, scale, and triad with a grid-stride loop.
extern "C" __global__ void stream_copy(float *dst, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = src[i];
}

extern "C" __global__ void stream_copy_vec4(float4 *dst, const float4 *__restrict__ src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = src[i];
}

extern "C" __global__ void stream_scale(double *dst, const double *src, double factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = factor * src[i];
}

extern "C" __global__ void stream_triad(float *a, const float *__restrict__ b, const float *__restrict__ c,
                                        float factor, int n) {
    int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) a[i] = b[i] + factor * c[i];
}
