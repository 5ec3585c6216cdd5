// Linear systems and dynamic programming: factorisations, tridiagonal systems, alignment, paths.

// LU of the 32x32 diagonal block in shared memory, in place, without pivots; one for each thread block.
extern "C" __global__ void lu_diagonal(float *blocks) {
    __shared__ float s[32][33];
    int t = threadIdx.x;
    float *mine = blocks + blockIdx.x * 1024;
    for (int r = 0; r < 32; ++r) s[r][t] = mine[r * 32 + t];
    __syncthreads();
    for (int k = 0; k < 31; ++k) {
        if (t > k) {
            s[t][k] /= s[k][k];
            for (int j = k + 1; j < 32; ++j) s[t][j] -= s[t][k] * s[k][j];
        }
        __syncthreads();
    }
    for (int r = 0; r < 32; ++r) mine[r * 32 + t] = s[r][t];
}

// The trailing update of a blocked LU: A -= L U for 16x16 tiles.
extern "C" __global__ void lu_trailing(float *a, const float *left, const float *top, int n) {
    __shared__ float l[16][16], u[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
    l[ty][tx] = left[y * 16 + tx];
    u[ty][tx] = top[ty * n + x];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 16; ++k) sum += l[ty][k] * u[k][tx];
    a[y * n + x] -= sum;
}

// One elimination step of a dense system: rows below the pivot row.
extern "C" __global__ void eliminate_step(double *a, int n, int pivot) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y + pivot + 1;
    if (column <= pivot || column >= n) return;
    a[row * n + column] -= a[row * n + pivot] / a[pivot * n + pivot] * a[pivot * n + column];
}

// Cholesky factors of 16x16 matrices, a warp for each.
extern "C" __global__ void cholesky_batch(float *matrices, int count) {
    __shared__ float all[4][16][17];
    int lane = threadIdx.x % 32, matrix = blockIdx.x * 4 + threadIdx.x / 32;
    if (matrix >= count) return;
    float(*s)[17] = all[threadIdx.x / 32], *mine = matrices + matrix * 256;
    for (int i = lane; i < 256; i += 32) s[i / 16][i % 16] = mine[i];
    __syncwarp();
    for (int k = 0; k < 16; ++k) {
        float root = sqrtf(s[k][k]);
        __syncwarp();
        if (lane == k) s[k][k] = root;
        if (lane > k && lane < 16) s[lane][k] /= root;
        __syncwarp();
        if (lane > k && lane < 16)
            for (int j = k + 1; j <= lane; ++j) s[lane][j] -= s[lane][k] * s[j][k];
        __syncwarp();
    }
    for (int i = lane; i < 256; i += 32) mine[i] = i % 16 <= i / 16 ? s[i / 16][i % 16] : 0.0f;
}

// A tridiagonal system for each thread (Thomas), stored unknown by unknown.
extern "C" __global__ void thomas_systems(float *x, float *c, const float *low, const float *middle, const float *high, int systems, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= systems) return;
    float cp = high[i] / middle[i], d = x[i] / middle[i];
    c[i] = cp;
    x[i] = d;
    for (int k = 1; k < n; ++k) {
        int at = k * systems + i;
        float scale = 1.0f / (middle[at] - low[at] * cp);
        cp = high[at] * scale;
        d = (x[at] - low[at] * d) * scale;
        c[at] = cp;
        x[at] = d;
    }
    for (int k = n - 2; k >= 0; --k) {
        int at = k * systems + i;
        d = x[at] - c[at] * d;
        x[at] = d;
    }
}

// A tridiagonal system of 256 unknowns for each block by parallel cyclic reduction.
extern "C" __global__ void cyclic_reduction(float *x, const float *low, const float *middle, const float *high) {
    __shared__ float a[256], b[256], c[256], d[256];
    int t = threadIdx.x, at = blockIdx.x * 256 + t;
    a[t] = low[at], b[t] = middle[at], c[t] = high[at], d[t] = x[at];
    for (int h = 1; h < 256; h *= 2) {
        __syncthreads();
        float na = 0.0f, nb = b[t], nc = 0.0f, nd = d[t];
        if (t >= h) {
            float k = a[t] / b[t - h];
            na = -k * a[t - h];
            nb -= k * c[t - h];
            nd -= k * d[t - h];
        }
        if (t + h < 256) {
            float k = c[t] / b[t + h];
            nc = -k * c[t + h];
            nb -= k * a[t + h];
            nd -= k * d[t + h];
        }
        __syncthreads();
        a[t] = na, b[t] = nb, c[t] = nc, d[t] = nd;
    }
    x[at] = d[t] / b[t];
}

extern "C" __global__ void jacobi_rows(float *next, const float *a, const float *x, const float *b, int n) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= n) return;
    float sum = 0.0f;
    for (int k = lane; k < n; k += 32)
        if (k != row) sum += a[row * n + k] * x[k];
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0) next[row] = (b[row] - sum) / a[row * n + row];
}

// Needleman-Wunsch: one anti-diagonal of 32x32 tiles, a warp for each tile.
extern "C" __global__ void align_tiles(int *score, const int *similar, int pitch, int diagonal, int gap) {
    __shared__ int s[33][34];
    int t = threadIdx.x, bx = blockIdx.x, by = diagonal - bx;
    int *corner = score + (by * 32) * pitch + bx * 32;
    const int *like = similar + (by * 32 + 1) * pitch + bx * 32 + 1;
    s[0][t + 1] = corner[t + 1];
    s[t + 1][0] = corner[(t + 1) * pitch];
    if (t == 0) s[0][0] = corner[0];
    __syncwarp();
    for (int step = 0; step < 63; ++step) {
        int column = t + 1, row = step - t + 1;
        if (row >= 1 && row <= 32)
            s[row][column] = max(s[row - 1][column - 1] + like[(row - 1) * pitch + t], max(s[row - 1][column], s[row][column - 1]) - gap);
        __syncwarp();
    }
    for (int r = 1; r <= 32; ++r) corner[r * pitch + t + 1] = s[r][t + 1];
}

// Cheapest way down a wall, twenty rows in one launch; blocks overlap by twenty columns on both sides.
extern "C" __global__ void path_rows(int *dst, const int *src, const int *wall, int columns) {
    __shared__ int row[2][256];
    int t = threadIdx.x, x = blockIdx.x * 216 + t - 20, cx = min(max(x, 0), columns - 1), from = 0;
    row[0][t] = src[cx];
    for (int k = 0; k < 20; ++k) {
        __syncthreads();
        int left = x > 0 && t > 0 ? row[from][t - 1] : row[from][t], right = x < columns - 1 && t < 255 ? row[from][t + 1] : row[from][t];
        row[1 - from][t] = min(row[from][t], min(left, right)) + wall[k * columns + cx];
        from = 1 - from;
    }
    if (t >= 20 && t < 236 && x < columns) dst[x] = row[from][t];
}

extern "C" __global__ void knapsack_row(int *next, const int *now, int weight, int value, int capacity) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c > capacity) return;
    next[c] = c >= weight ? max(now[c], now[c - weight] + value) : now[c];
}
