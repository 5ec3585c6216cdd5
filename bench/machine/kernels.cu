// Kernels of bench.machine. Sizes are counts of elements; all loops stride by the grid.
#define FIRST (blockIdx.x * blockDim.x + threadIdx.x)
#define STRIDE (gridDim.x * blockDim.x)

extern "C" __global__ void empty() {}

extern "C" __global__ void fill(float4 *to, int n, float value) {
    for (int i = FIRST; i < n; i += STRIDE)
        to[i] = make_float4(value, value, value, value);
}

extern "C" __global__ void scale(float4 *data, int n, float factor) {
    for (int i = FIRST; i < n; i += STRIDE) {
        float4 v = data[i];
        data[i] = make_float4(v.x * factor, v.y * factor, v.z * factor, v.w * factor);
    }
}

extern "C" __global__ void copy(const float4 *from, float4 *to, int n) {
    for (int i = FIRST; i < n; i += STRIDE)
        to[i] = from[i];
}

extern "C" __global__ void copy_words(const float *from, float *to, int n) {
    for (int i = FIRST; i < n; i += STRIDE)
        to[i] = from[i];
}

extern "C" __global__ void add(const float *a, const float *b, float *c, int n) {
    int i = FIRST;
    if (i < n)
        c[i] = a[i] + b[i];
}

extern "C" __global__ void total(const float4 *data, float *out, int n) {
    float sum = 0;
    for (int i = FIRST; i < n; i += STRIDE) {
        float4 v = data[i];
        sum += v.x + v.y + v.z + v.w;
    }
    for (int step = 16; step; step >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    __shared__ float warps[32];
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0;
        for (int w = 0; w < blockDim.x / 32; w++)
            sum += warps[w];
        out[blockIdx.x] = sum;
    }
}

extern "C" __global__ void stencil(const float *from, float *to, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1)
        return;
    const float *at = from + y * width + x;
    to[y * width + x] = 0.25f * (at[-1] + at[1] + at[-width] + at[width]);
}

extern "C" __global__ void transpose(const float *from, float *to, int width, int height) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        tile[threadIdx.y + j][threadIdx.x] = from[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        to[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void gather(const float *table, float *to, int n, unsigned mask) {
    for (unsigned i = FIRST; i < n; i += STRIDE) {
        unsigned h = i * 2654435761u;
        h ^= h >> 15;
        h *= 2246822519u;
        h ^= h >> 13;
        to[i] = table[h & mask];
    }
}

extern "C" __global__ void count(unsigned *bins, int n, unsigned mask) {
    for (unsigned i = FIRST; i < n; i += STRIDE) {
        unsigned h = i * 2654435761u;
        h ^= h >> 15;
        h *= 2246822519u;
        h ^= h >> 13;
        atomicAdd(&bins[h & mask], 1u);
    }
}

extern "C" __global__ void product(const float *a, const float *b, float *c, int n) {
    __shared__ float left[16][17], right[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        left[threadIdx.y][threadIdx.x] = a[y * n + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + x];
        __syncthreads();
        for (int i = 0; i < 16; i++)
            sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = sum;
}

// Arithmetic alone; the dynamic shared memory of the launch says how many blocks an SM holds.
extern "C" __global__ void multiply_add(float *out, int rounds, float factor) {
    float a = threadIdx.x, b = a + 1, c = a + 2, d = a + 3;
    for (int i = 0; i < rounds; i++) {
        a = a * factor + 1.0f;
        b = b * factor + 1.0f;
        c = c * factor + 1.0f;
        d = d * factor + 1.0f;
    }
    if (a + b + c + d == 0.125f)
        out[FIRST] = a;
}
