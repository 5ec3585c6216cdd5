// Rows, one a thread: blocks too few to hide latency, each lane in a line of its own.
#include <cuda_fp16.h>

extern "C" __global__ void row_sums(float* out, const float* a, int rows, int columns) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int j = 0; j < columns; j++) sum += a[(size_t)r * columns + j];
    out[r] = sum;
}

extern "C" __global__ void row_softmax(float* out, const float* a, int rows, int columns) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const float* from = a + (size_t)r * columns;
    float* to = out + (size_t)r * columns;
    float most = -1e30f, sum = 0.0f;
    for (int j = 0; j < columns; j++) most = fmaxf(most, from[j]);
    for (int j = 0; j < columns; j++) {
        float e = __expf(from[j] - most);
        sum += e;
        to[j] = e;
    }
    for (int j = 0; j < columns; j++) to[j] /= sum;
}

extern "C" __global__ void row_scale_half(__half* out, const __half* a, float factor, int rows, int columns) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    for (int j = 0; j < columns; j++) {
        size_t i = (size_t)r * columns + j;
        out[i] = __float2half(__half2float(a[i]) * factor);
    }
}

extern "C" __global__ void row_running_short(short* a, int rows, int columns) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    short* row = a + (size_t)r * columns;
    int sum = 0;
    for (int j = 0; j < columns; j++) {
        sum += row[j];
        row[j] = (short)sum;
    }
}

extern "C" __global__ void row_copy_words(unsigned* out, const unsigned* a, int rows, int columns) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    for (int j = 0; j < columns; j++) out[(size_t)r * columns + j] = a[(size_t)r * columns + j] ^ 0x5a5a5a5au;
}

extern "C" __global__ void row_normalise(float* out, const float* a, const float* weight, int rows, int columns) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const float* from = a + (size_t)r * columns;
    float sum = 0.0f, squares = 0.0f;
    for (int j = 0; j < columns; j++) sum += from[j];
    float mean = sum / columns;
    for (int j = 0; j < columns; j++) squares += (from[j] - mean) * (from[j] - mean);
    float scale = rsqrtf(squares / columns + 1e-5f);
    for (int j = 0; j < columns; j++) out[(size_t)r * columns + j] = (from[j] - mean) * scale * weight[j];
}

extern "C" __global__ void row_dots(float* out, const float* a, const float* b, int rows, int columns) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int j = 0; j < columns; j++) sum = fmaf(a[(size_t)r * columns + j], b[(size_t)r * columns + j], sum);
    out[r] = sum;
}
