// Kernels that bench/engine.py measures the functional engine with.
extern "C" __global__ void triad(int n, float a, const float *x, const float *y, float *z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = a * x[i] + y[i];
}

extern "C" __global__ void matmul(int n, const float *a, const float *b, float *c) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || column >= n) return;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

extern "C" __global__ void mandelbrot(int width, int height, int limit, int *counts) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float cx = x * 3.0f / width - 2.0f, cy = y * 2.0f / height - 1.0f, zx = 0, zy = 0;
    int k = 0;
    while (k < limit && zx * zx + zy * zy < 4.0f) {
        float t = zx * zx - zy * zy + cx;
        zy = 2 * zx * zy + cy;
        zx = t;
        k++;
    }
    counts[y * width + x] = k;
}

extern "C" __global__ void tiled(int n, const float *a, const float *b, float *c) {
    __shared__ float left[16][17], right[16][17];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        left[ty][tx] = a[row * n + k + tx];
        right[ty][tx] = b[(k + ty) * n + column];
        __syncthreads();
        for (int j = 0; j < 16; j++) sum += left[ty][j] * right[j][tx];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
