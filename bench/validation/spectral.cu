// Fourier, Walsh and cosine transforms.

__device__ float2 times(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

// 256 complex points for each block of 128 threads, radix 2, eight rounds through shared memory.
extern "C" __global__ void fft_shared(float2 *data) {
    __shared__ float2 s[2][256];
    int t = threadIdx.x, from = 0;
    s[0][t] = data[blockIdx.x * 256 + t];
    s[0][t + 128] = data[blockIdx.x * 256 + t + 128];
    for (int half = 1; half < 256; half *= 2) {
        __syncthreads();
        int k = t & (half - 1), to = 2 * t - k;
        float2 a = s[from][t], b = s[from][t + 128], w;
        __sincosf(-3.14159265f * k / half, &w.y, &w.x);
        b = times(b, w);
        s[1 - from][to] = make_float2(a.x + b.x, a.y + b.y);
        s[1 - from][to + half] = make_float2(a.x - b.x, a.y - b.y);
        from = 1 - from;
    }
    __syncthreads();
    data[blockIdx.x * 256 + t] = s[from][t];
    data[blockIdx.x * 256 + t + 128] = s[from][t + 128];
}

// One radix-4 pass over global memory (Stockham's order).
extern "C" __global__ void fft_pass(float2 *dst, const float2 *src, int n, int span) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, quarter = n / 4, k = t % span, to = (t - k) * 4 + k;
    float2 v[4];
    float angle = -1.57079633f * k / span;
    for (int i = 0; i < 4; ++i) {
        float2 w;
        sincosf(angle * i, &w.y, &w.x);
        v[i] = times(src[t + i * quarter], w);
    }
    float2 p = make_float2(v[0].x + v[2].x, v[0].y + v[2].y), q = make_float2(v[0].x - v[2].x, v[0].y - v[2].y);
    float2 r = make_float2(v[1].x + v[3].x, v[1].y + v[3].y), u = make_float2(v[1].y - v[3].y, v[3].x - v[1].x);
    dst[to] = make_float2(p.x + r.x, p.y + r.y);
    dst[to + span] = make_float2(q.x + u.x, q.y + u.y);
    dst[to + 2 * span] = make_float2(p.x - r.x, p.y - r.y);
    dst[to + 3 * span] = make_float2(q.x - u.x, q.y - u.y);
}

extern "C" __global__ void walsh_rows(float *data) {
    __shared__ float s[1024];
    int t = threadIdx.x;
    for (int i = t; i < 1024; i += 256) s[i] = data[blockIdx.x * 1024 + i];
    for (int h = 1; h < 1024; h *= 2) {
        __syncthreads();
        for (int p = t; p < 512; p += 256) {
            int i = 2 * p - (p & (h - 1));
            float a = s[i], b = s[i + h];
            s[i] = a + b;
            s[i + h] = a - b;
        }
    }
    __syncthreads();
    for (int i = t; i < 1024; i += 256) data[blockIdx.x * 1024 + i] = s[i];
}

__constant__ float cosines[64];

// Blocks of 8x8 pixels, four to a thread block.
extern "C" __global__ void cosine_blocks(float *dst, const float *src, int width) {
    __shared__ float in[4][8][9], middle[4][8][9];
    int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z, at = (blockIdx.y * 8 + y) * width + (blockIdx.x * 4 + z) * 8 + x;
    in[z][y][x] = src[at];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += cosines[x * 8 + k] * in[z][y][k];
    middle[z][y][x] = sum;
    __syncthreads();
    sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += cosines[y * 8 + k] * middle[z][k][x];
    dst[at] = sum;
}
