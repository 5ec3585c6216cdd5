// Streams by grids of every size: loops over the grid, one element a thread, sums down columns, permutations of four dimensions.
#include <cuda_fp16.h>

extern "C" __global__ void copy_loop(float* out, const float* a, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = a[i];
}
extern "C" __global__ void copy_loop4(float4* out, const float4* a, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = a[i];
}
extern "C" __global__ void add_loop(float* out, const float* a, const float* b, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = a[i] + b[i];
}
extern "C" __global__ void fill_loop(float* out, float value, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = value;
}
extern "C" __global__ void read_loop(unsigned* out, const unsigned* a, int n) {
    unsigned sum = 0;
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = first; i < n; i += gridDim.x * blockDim.x) sum ^= a[i];
    out[first] = sum;
}
extern "C" __global__ void read_loop4(unsigned* out, const uint4* a, int n) {
    unsigned sum = 0;
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = first; i < n; i += gridDim.x * blockDim.x) {
        uint4 v = a[i];
        sum ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    out[first] = sum;
}

extern "C" __global__ void scale_each(float* out, const float* a, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] * factor;
}
extern "C" __global__ void add_each(float* out, const float* a, const float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
extern "C" __global__ void bias_each(float* a, const float* bias, int columns, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] += bias[i % columns];
}
extern "C" __global__ void gelu_each(float* out, const float* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i];
    out[i] = 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}
extern "C" __global__ void clamp_bytes(unsigned char* out, const unsigned char* a, int low, int high, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = (unsigned char)min(max((int)a[i], low), high);
}
extern "C" __global__ void half_each(__half* out, const __half* a, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __float2half(__half2float(a[i]) * factor);
}
extern "C" __global__ void momentum_each(float* w, float* v, const float* g, float rate, float keep, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float step = keep * v[i] - rate * g[i];
    v[i] = step;
    w[i] += step;
}

// One block a column; its threads go down the rows.
extern "C" __global__ void column_sums(float* out, const float* a, int rows, int columns) {
    __shared__ float part[1024];
    float sum = 0.0f;
    for (int r = threadIdx.x; r < rows; r += blockDim.x) sum += a[(size_t)r * columns + blockIdx.x];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
extern "C" __global__ void column_means_double(double* out, const double* a, int rows, int columns) {
    __shared__ double part[256];
    double sum = 0.0;
    for (int r = threadIdx.x; r < rows; r += blockDim.x) sum += a[(size_t)r * columns + blockIdx.x];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0] / rows;
}
// One thread a column.
extern "C" __global__ void column_each(float* out, const float* a, int rows, int columns) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns) return;
    float sum = 0.0f;
    for (int r = 0; r < rows; r++) sum += a[(size_t)r * columns + c];
    out[c] = sum;
}

// out[i] = a[...]: d are the extents of `out`, s the strides of `a` for its dimensions.
extern "C" __global__ void permute_gather(float* out, const float* a, int d1, int d2, int d3, int s0, int s1, int s2, int s3, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x3 = i % d3, rest = i / d3;
    int x2 = rest % d2;
    rest /= d2;
    int x1 = rest % d1, x0 = rest / d1;
    out[i] = a[x0 * s0 + x1 * s1 + x2 * s2 + x3 * s3];
}
// a[i] goes to out[...]: d are the extents of `a`, s the strides of `out`.
extern "C" __global__ void permute_scatter(float* out, const float* a, int d1, int d2, int d3, int s0, int s1, int s2, int s3, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x3 = i % d3, rest = i / d3;
    int x2 = rest % d2;
    rest /= d2;
    int x1 = rest % d1, x0 = rest / d1;
    out[x0 * s0 + x1 * s1 + x2 * s2 + x3 * s3] = a[i];
}
extern "C" __global__ void permute_half(__half* out, const __half* a, int d1, int d2, int d3, int s0, int s1, int s2, int s3, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x3 = i % d3, rest = i / d3;
    int x2 = rest % d2;
    rest /= d2;
    int x1 = rest % d1, x0 = rest / d1;
    out[i] = a[x0 * s0 + x1 * s1 + x2 * s2 + x3 * s3];
}
