// Shared-memory tiles: padded transpose, bank-conflicted transpose, naive and tiled matrix products.
#define TILE 32
#define ROWS 8

extern "C" __global__ void transpose_padded(float *dst, const float *src, int width, int height) {
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = src[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS)
        if (x < height && y + j < width) dst[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void transpose_conflicted(float *dst, const float *src, int width) {
    __shared__ float tile[TILE][TILE];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS) tile[threadIdx.y + j][threadIdx.x] = src[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS) dst[(y + j) * width + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void bank_stride(int *dst, const int *src, int stride, int rounds) {
    extern __shared__ int words[];
    for (int i = threadIdx.x; i < 2048; i += blockDim.x) words[i] = src[i];
    __syncthreads();
    int sum = 0, at = threadIdx.x * stride;
    for (int r = 0; r < rounds; ++r) {
        sum = sum * 5 + words[at & 2047];
        at += 1;
    }
    dst[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void matmul_naive(float *c, const float *a, const float *b, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

extern "C" __global__ void matmul_tiled(float *c, const float *a, const float *b, int n) {
    __shared__ float ta[16][16], tb[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int column = blockIdx.x * 16 + tx, row = blockIdx.y * 16 + ty;
    float sum = 0.0f;
    for (int base = 0; base < n; base += 16) {
        ta[ty][tx] = a[row * n + base + tx];
        tb[ty][tx] = b[(base + ty) * n + column];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; ++k) sum += ta[ty][k] * tb[k][tx];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
