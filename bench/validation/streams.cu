// Whole-array passes: contiguous, strided and indexed, reads, writes and both.

extern "C" __global__ void copy_word(float *dst, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = src[i];
}

extern "C" __global__ void copy_vector(float4 *dst, const float4 *src, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) dst[i] = src[i];
}

extern "C" __global__ void fill_vector(float4 *dst, float value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = make_float4(value, value, value, value);
}

extern "C" __global__ void triad_double(double *a, const double *b, const double *c, double s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = b[i] + s * c[i];
}

extern "C" __global__ void read_passes(int *sums, const int4 *src, int n, int passes) {
    int sum = 0, threads = gridDim.x * blockDim.x, t = blockIdx.x * blockDim.x + threadIdx.x;
    for (int p = 0; p < passes; ++p)
        for (int i = t; i < n; i += threads) {
            int4 v = __ldcg(&src[i]);
            sum += v.x ^ v.y ^ v.z ^ v.w;
        }
    sums[t] = sum;
}

extern "C" __global__ void read_stride(float *dst, const float *src, int n, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = src[(long long)i * stride] + 1.0f;
}

extern "C" __global__ void write_stride(float *dst, const float *src, int n, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[(long long)i * stride] = src[i];
}

extern "C" __global__ void gather_index(float *dst, const float *src, const int *at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = src[at[i]];
}

extern "C" __global__ void scatter_index(float *dst, const float *src, const int *at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[at[i]] = src[i];
}

extern "C" __global__ void add_bytes(unsigned char *dst, const unsigned char *a, const unsigned char *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = a[i] + b[i];
}

extern "C" __global__ void adam_step(float *w, float *m, float *v, const float *g, int n, float rate) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float m1 = 0.9f * m[i] + 0.1f * g[i], v1 = 0.999f * v[i] + 0.001f * g[i] * g[i];
    m[i] = m1;
    v[i] = v1;
    w[i] -= rate * m1 / (sqrtf(v1) + 1e-8f);
}

// Structures of arrays out of an array of structures of 12 bytes.
extern "C" __global__ void split_structures(float *x, float *y, float *z, const float3 *points, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float3 p = points[i];
    x[i] = p.x;
    y[i] = p.y;
    z[i] = p.z;
}
