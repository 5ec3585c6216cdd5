// Matrix transposes: direct, through shared memory with and without padding, with swizzled columns, of doubles.

extern "C" __global__ void transpose_direct(float *dst, const float *src, int width, int height) {
    int x = blockIdx.x * 32 + threadIdx.x;
    for (int y = blockIdx.y * 32 + threadIdx.y; y < blockIdx.y * 32 + 32; y += 8) dst[x * height + y] = src[y * width + x];
}

extern "C" __global__ void transpose_shared(float *dst, const float *src, int width, int height) {
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) tile[threadIdx.y + k][threadIdx.x] = src[(y + k) * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) dst[(y + k) * height + x] = tile[threadIdx.x][threadIdx.y + k];
}

extern "C" __global__ void transpose_swizzled(float *dst, const float *src, int width, int height) {
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) {
        int row = threadIdx.y + k;
        tile[row][threadIdx.x ^ row] = src[(y + k) * width + x];
    }
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8) {
        int column = threadIdx.y + k;
        dst[(y + k) * height + x] = tile[threadIdx.x][column ^ threadIdx.x];
    }
}

extern "C" __global__ void transpose_double(double *dst, const double *src, int width, int height) {
    __shared__ double tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = src[y * width + x];
    __syncthreads();
    dst[(blockIdx.x * 16 + threadIdx.y) * height + blockIdx.y * 16 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
