// Fourier transforms: a direct DFT with sincospi, and a radix-2 FFT of each block's points in shared memory.
extern "C" __global__ void dft_direct(float2 *dst, const float2 *src, int n) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    float re = 0.0f, im = 0.0f;
    for (int j = 0; j < n; ++j) {
        float s, c;
        sincospif(-2.0f * (float)(j * k % n) / (float)n, &s, &c);
        float2 value = src[j];
        re += value.x * c - value.y * s;
        im += value.x * s + value.y * c;
    }
    dst[k] = make_float2(re, im);
}

extern "C" __global__ void fft_radix2(float2 *data, int bits) {
    extern __shared__ float2 points[];
    int half = blockDim.x, n = 2 * half, base = blockIdx.x * n, t = threadIdx.x;
    points[__brev(t) >> (32 - bits)] = data[base + t];
    points[__brev(t + half) >> (32 - bits)] = data[base + t + half];
    for (int span = 1; span < n; span <<= 1) {
        __syncthreads();
        int inside = t & (span - 1), low = 2 * t - inside, high = low + span;
        float s, c;
        sincospif(-(float)inside / (float)span, &s, &c);
        float2 a = points[low], b = points[high];
        float2 turned = make_float2(b.x * c - b.y * s, b.x * s + b.y * c);
        points[low] = make_float2(a.x + turned.x, a.y + turned.y);
        points[high] = make_float2(a.x - turned.x, a.y - turned.y);
    }
    __syncthreads();
    data[base + t] = points[t];
    data[base + t + half] = points[t + half];
}
