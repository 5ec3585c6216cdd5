// Stencils, convolution and the game of life: 1D with shared halo, 2D, 3D, and a constant-memory convolution.
extern "C" __global__ void stencil_1d(float *dst, const float *src, int n) {
    __shared__ float tile[128 + 6];
    int i = blockIdx.x * 128 + threadIdx.x, local = threadIdx.x + 3;
    tile[local] = i < n ? src[i] : 0.0f;
    if (threadIdx.x < 3) {
        tile[threadIdx.x] = i >= 3 ? src[i - 3] : 0.0f;
        tile[local + 128] = i + 128 < n ? src[i + 128] : 0.0f;
    }
    __syncthreads();
    if (i >= n) return;
    float sum = 0.0f;
#pragma unroll
    for (int k = -3; k <= 3; ++k) sum += tile[local + k];
    dst[i] = sum;
}

extern "C" __global__ void stencil_2d(float *dst, const float *src, int width, int height, float rate) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int at = y * width + x;
    float centre = src[at];
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1) {
        dst[at] = centre;
        return;
    }
    dst[at] = centre + rate * (src[at - 1] + src[at + 1] + src[at - width] + src[at + width] - 4.0f * centre);
}

// Marches along z with the planes below and above kept in registers.
extern "C" __global__ void stencil_3d(float *dst, const float *src, int nx, int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    int plane = nx * ny, at = y * nx + x;
    float below = src[at], here = src[at + plane];
    for (int z = 1; z < nz - 1; ++z) {
        float above = src[at + (z + 1) * plane];
        int i = at + z * plane;
        dst[i] = 0.5f * here + 0.125f * (src[i - 1] + src[i + 1] + src[i - nx] + src[i + nx]) -
                 0.0625f * (below + above);
        below = here;
        here = above;
    }
}

__constant__ float mask[25];

extern "C" __global__ void convolution_2d(float *dst, const float *__restrict__ src, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int dy = -2; dy <= 2; ++dy)
        for (int dx = -2; dx <= 2; ++dx) {
            int sx = min(max(x + dx, 0), width - 1), sy = min(max(y + dy, 0), height - 1);
            sum += mask[(dy + 2) * 5 + dx + 2] * src[sy * width + sx];
        }
    dst[y * width + x] = sum;
}

extern "C" __global__ void game_of_life(unsigned char *dst, const unsigned char *src, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int neighbours = 0;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
            if (dx != 0 || dy != 0)
                neighbours += src[(y + dy + height) % height * width + (x + dx + width) % width];
    dst[y * width + x] = neighbours == 3 || (neighbours == 2 && src[y * width + x]);
}
