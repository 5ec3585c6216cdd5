// Image filters on bytes and floats.

__device__ int clamped(int v, int high) { return min(max(v, 0), high - 1); }

extern "C" __global__ void box_filter(float *dst, const float *src, int width, int height, int radius) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int dy = -radius; dy <= radius; ++dy)
        for (int dx = -radius; dx <= radius; ++dx) sum += src[clamped(y + dy, height) * width + clamped(x + dx, width)];
    dst[y * width + x] = sum / ((2 * radius + 1) * (2 * radius + 1));
}

extern "C" __global__ void sobel_bytes(unsigned char *dst, const unsigned char *src, int width, int height) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= width || y >= height) return;
    int p[3][3];
    for (int dy = 0; dy < 3; ++dy)
        for (int dx = 0; dx < 3; ++dx) p[dy][dx] = src[clamped(y + dy - 1, height) * width + clamped(x + dx - 1, width)];
    int gx = p[0][2] + 2 * p[1][2] + p[2][2] - p[0][0] - 2 * p[1][0] - p[2][0];
    int gy = p[2][0] + 2 * p[2][1] + p[2][2] - p[0][0] - 2 * p[0][1] - p[0][2];
    dst[y * width + x] = min(255, abs(gx) + abs(gy));
}

__device__ void ordered(int &a, int &b) {
    int low = min(a, b);
    b = max(a, b);
    a = low;
}

extern "C" __global__ void median_bytes(unsigned char *dst, const unsigned char *src, int width, int height) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= width || y >= height) return;
    int v[9];
    for (int i = 0; i < 9; ++i) v[i] = src[clamped(y + i / 3 - 1, height) * width + clamped(x + i % 3 - 1, width)];
#pragma unroll
    for (int i = 0; i < 5; ++i)
#pragma unroll
        for (int j = i + 1; j < 9; ++j) ordered(v[i], v[j]);
    dst[y * width + x] = v[4];
}

extern "C" __global__ void bilateral_filter(float *dst, const float *src, int width, int height) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= width || y >= height) return;
    float centre = src[y * width + x], sum = 0.0f, weights = 0.0f;
    for (int dy = -2; dy <= 2; ++dy)
        for (int dx = -2; dx <= 2; ++dx) {
            float v = src[clamped(y + dy, height) * width + clamped(x + dx, width)], d = v - centre;
            float w = __expf(-0.125f * (dx * dx + dy * dy) - 8.0f * d * d);
            sum += w * v;
            weights += w;
        }
    dst[y * width + x] = sum / weights;
}

__constant__ float taps[17];

// Rows of 17 taps through shared memory; then columns straight from memory.
extern "C" __global__ void gauss_rows(float *dst, const float *src, int width) {
    __shared__ float line[272];
    int first = blockIdx.x * 256, y = blockIdx.y, t = threadIdx.x;
    for (int i = t; i < 272; i += 256) line[i] = src[y * width + clamped(first + i - 8, width)];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 17; ++k) sum += taps[k] * line[t + k];
    if (first + t < width) dst[y * width + first + t] = sum;
}

extern "C" __global__ void gauss_columns(float *dst, const float *src, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= width) return;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 17; ++k) sum += taps[k] * src[clamped(y + k - 8, height) * width + x];
    dst[y * width + x] = sum;
}

extern "C" __global__ void grey_pixels(unsigned char *dst, const uchar4 *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 p = src[i];
    dst[i] = (unsigned char)((77 * p.x + 150 * p.y + 29 * p.z) >> 8);
}

extern "C" __global__ void resize_bilinear(float *dst, const float *src, int width, int height, int to_width, int to_height) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= to_width || y >= to_height) return;
    float fx = x * (float)(width - 1) / (to_width - 1), fy = y * (float)(height - 1) / (to_height - 1);
    int x0 = min((int)fx, width - 2), y0 = min((int)fy, height - 2);
    float u = fx - x0, v = fy - y0;
    const float *p = src + y0 * width + x0;
    dst[y * to_width + x] = (1 - v) * ((1 - u) * p[0] + u * p[1]) + v * ((1 - u) * p[width] + u * p[width + 1]);
}

extern "C" __global__ void map_levels(uchar4 *data, const unsigned char *table, int n) {
    __shared__ unsigned char levels[256];
    levels[threadIdx.x] = table[threadIdx.x];
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        uchar4 p = data[i];
        data[i] = make_uchar4(levels[p.x], levels[p.y], levels[p.z], levels[p.w]);
    }
}
