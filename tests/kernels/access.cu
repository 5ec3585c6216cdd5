// Global access patterns: strided, gathered through an index, scattered, bytes, and mixed widths.
extern "C" __global__ void strided_read(int *dst, const int *src, int n, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = src[i * stride] + 1;
}

extern "C" __global__ void gather(float *dst, const float *src, const int *index, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = __ldg(&src[index[i]]);
}

extern "C" __global__ void scatter(float *dst, const float *src, const int *index, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[index[i]] = src[i];
}

extern "C" __global__ void narrow_widths(unsigned char *bytes, short *halves, long long *longs,
                                         const signed char *source, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int value = source[i];
    bytes[i] = (unsigned char)(value + 200);
    halves[i] = (short)(value * 300);
    longs[i] = (long long)value << 33;
}
