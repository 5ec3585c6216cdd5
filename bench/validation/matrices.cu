// Dense products: naive, tiled, register-blocked, in doubles, bytes and small batches; products with a vector.

extern "C" __global__ void sgemm_naive(float *c, const float *a, const float *b, int n, int depth) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < depth; ++k) sum += a[y * depth + k] * b[k * n + x];
    c[y * n + x] = sum;
}

extern "C" __global__ void sgemm_tiled(float *c, const float *a, const float *b, int n, int depth) {
    __shared__ float ta[16][16], tb[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
    float sum = 0.0f;
    for (int k = 0; k < depth; k += 16) {
        ta[ty][tx] = a[y * depth + k + tx];
        tb[ty][tx] = b[(k + ty) * n + x];
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; ++j) sum += ta[ty][j] * tb[j][tx];
        __syncthreads();
    }
    c[y * n + x] = sum;
}

// 64x64 of C for 256 threads, 4x4 each; tiles of depth 16, loaded as vectors.
extern "C" __global__ void __launch_bounds__(256) sgemm_registers(float *c, const float *a, const float *b, int n, int depth) {
    __shared__ float ta[16][64], tb[16][64];
    int t = threadIdx.x, tx = t % 16, ty = t / 16, row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k = 0; k < depth; k += 16) {
        float4 va = *(const float4 *)&a[(row + t / 4) * depth + k + t % 4 * 4];
        float4 vb = *(const float4 *)&b[(k + t / 16) * n + column + t % 16 * 4];
        ta[t % 4 * 4 + 0][t / 4] = va.x;
        ta[t % 4 * 4 + 1][t / 4] = va.y;
        ta[t % 4 * 4 + 2][t / 4] = va.z;
        ta[t % 4 * 4 + 3][t / 4] = va.w;
        *(float4 *)&tb[t / 16][t % 16 * 4] = vb;
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            float4 x = *(float4 *)&tb[j][tx * 4], y = *(float4 *)&ta[j][ty * 4];
            float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int u = 0; u < 4; ++u)
#pragma unroll
                for (int v = 0; v < 4; ++v) sum[u][v] += ys[u] * xs[v];
        }
        __syncthreads();
    }
    for (int u = 0; u < 4; ++u)
        *(float4 *)&c[(row + ty * 4 + u) * n + column + tx * 4] = make_float4(sum[u][0], sum[u][1], sum[u][2], sum[u][3]);
}

// 128x128 of C for 256 threads, 8x8 each; the next tiles are loaded into registers while these are summed.
extern "C" __global__ void __launch_bounds__(256) sgemm_blocked(float *c, const float *a, const float *b, int n, int depth) {
    __shared__ float ta[2][8][128], tb[2][8][128];
    int t = threadIdx.x, tx = t % 16, ty = t / 16, row = blockIdx.y * 128, column = blockIdx.x * 128;
    const float *pa = a + (row + t / 2) * depth + t % 2 * 4, *pb = b + (t / 32) * n + column + t % 32 * 4;
    float4 va = *(const float4 *)pa, vb = *(const float4 *)pb;
    float sum[8][8] = {};
    int page = 0;
    for (int k = 0; k < depth; k += 8) {
        ta[page][t % 2 * 4 + 0][t / 2] = va.x;
        ta[page][t % 2 * 4 + 1][t / 2] = va.y;
        ta[page][t % 2 * 4 + 2][t / 2] = va.z;
        ta[page][t % 2 * 4 + 3][t / 2] = va.w;
        *(float4 *)&tb[page][t / 32][t % 32 * 4] = vb;
        __syncthreads();
        if (k + 8 < depth) {
            va = *(const float4 *)(pa + k + 8);
            vb = *(const float4 *)(pb + (k + 8) * n);
        }
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            float xs[8], ys[8];
            *(float4 *)&xs[0] = *(float4 *)&tb[page][j][tx * 4];
            *(float4 *)&xs[4] = *(float4 *)&tb[page][j][64 + tx * 4];
            *(float4 *)&ys[0] = *(float4 *)&ta[page][j][ty * 4];
            *(float4 *)&ys[4] = *(float4 *)&ta[page][j][64 + ty * 4];
#pragma unroll
            for (int u = 0; u < 8; ++u)
#pragma unroll
                for (int v = 0; v < 8; ++v) sum[u][v] += ys[u] * xs[v];
        }
        page ^= 1;
    }
#pragma unroll
    for (int u = 0; u < 8; ++u) {
        float *to = &c[(row + (u / 4) * 64 + ty * 4 + u % 4) * n + column + tx * 4];
        *(float4 *)to = make_float4(sum[u][0], sum[u][1], sum[u][2], sum[u][3]);
        *(float4 *)(to + 64) = make_float4(sum[u][4], sum[u][5], sum[u][6], sum[u][7]);
    }
}

extern "C" __global__ void dgemm_tiled(double *c, const double *a, const double *b, int n, int depth) {
    __shared__ double ta[16][16], tb[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
    double sum = 0.0;
    for (int k = 0; k < depth; k += 16) {
        ta[ty][tx] = a[y * depth + k + tx];
        tb[ty][tx] = b[(k + ty) * n + x];
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; ++j) sum += ta[ty][j] * tb[j][tx];
        __syncthreads();
    }
    c[y * n + x] = sum;
}

// Bytes, four to a word along the depth; 32x32 of C for 256 threads, 2x2 each.
extern "C" __global__ void igemm_bytes(int *c, const int *a, const int *b, int n, int words) {
    __shared__ int ta[32][17], tb[32][17];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 32, column = blockIdx.x * 32;
    int s00 = 0, s01 = 0, s10 = 0, s11 = 0;
    for (int k = 0; k < words; k += 16) {
        ta[ty][tx] = a[(row + ty) * words + k + tx];
        ta[ty + 16][tx] = a[(row + ty + 16) * words + k + tx];
        tb[ty][tx] = b[(column + ty) * words + k + tx];
        tb[ty + 16][tx] = b[(column + ty + 16) * words + k + tx];
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            int a0 = ta[ty][j], a1 = ta[ty + 16][j], b0 = tb[tx][j], b1 = tb[tx + 16][j];
            s00 = __dp4a(a0, b0, s00);
            s01 = __dp4a(a0, b1, s01);
            s10 = __dp4a(a1, b0, s10);
            s11 = __dp4a(a1, b1, s11);
        }
        __syncthreads();
    }
    c[(row + ty) * n + column + tx] = s00;
    c[(row + ty) * n + column + tx + 16] = s01;
    c[(row + ty + 16) * n + column + tx] = s10;
    c[(row + ty + 16) * n + column + tx + 16] = s11;
}

// A 16x16 product for each block of 256 threads.
extern "C" __global__ void gemm_batch(float *c, const float *a, const float *b) {
    __shared__ float ta[16][17], tb[16][17];
    int tx = threadIdx.x, ty = threadIdx.y, at = blockIdx.x * 256 + ty * 16 + tx;
    ta[ty][tx] = a[at];
    tb[ty][tx] = b[at];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 16; ++k) sum += ta[ty][k] * tb[k][tx];
    c[at] = sum;
}

extern "C" __global__ void gemv_rows(float *y, const float *a, const float *x, int rows, int columns) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float4 *line = (const float4 *)(a + (long long)row * columns), *v = (const float4 *)x;
    float sum = 0.0f;
    for (int k = lane; k < columns / 4; k += 32) {
        float4 p = line[k], q = v[k];
        sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
    }
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0) y[row] = sum;
}

extern "C" __global__ void gemv_columns(float *y, const float *a, const float *x, int rows, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * 64;
    float sum = 0.0f;
    for (int k = first; k < first + 64 && k < rows; ++k) sum += a[k * columns + column] * x[k];
    atomicAdd(&y[column], sum);
}

extern "C" __global__ void rank_one(double *a, const double *x, const double *y, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column < n) a[row * n + column] += x[row] * y[column];
}
