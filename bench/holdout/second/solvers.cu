// Small systems in batches, elimination, shortest paths in blocks, sweeps over grids.

// Inverses of 3 x 3 matrices whose elements lie apart.
extern "C" __global__ void __launch_bounds__(192) invert_3x3(double *dst, const double *src, int n) {
    int i = blockIdx.x * 192 + threadIdx.x;
    if (i >= n) return;
    double m[9];
    #pragma unroll
    for (int k = 0; k < 9; ++k) m[k] = src[k * n + i];
    double a = m[4] * m[8] - m[5] * m[7], b = m[5] * m[6] - m[3] * m[8], c = m[3] * m[7] - m[4] * m[6];
    double scale = 1.0 / (m[0] * a + m[1] * b + m[2] * c);
    dst[i] = a * scale, dst[n + i] = (m[2] * m[7] - m[1] * m[8]) * scale, dst[2 * n + i] = (m[1] * m[5] - m[2] * m[4]) * scale;
    dst[3 * n + i] = b * scale, dst[4 * n + i] = (m[0] * m[8] - m[2] * m[6]) * scale, dst[5 * n + i] = (m[2] * m[3] - m[0] * m[5]) * scale;
    dst[6 * n + i] = c * scale, dst[7 * n + i] = (m[1] * m[6] - m[0] * m[7]) * scale, dst[8 * n + i] = (m[0] * m[4] - m[1] * m[3]) * scale;
}

// A thread for an 8 x 8 matrix: R by Givens' turns, in local memory since the loops' bounds vary.
extern "C" __global__ void givens_local(float *dst, const float *src, int systems, int order) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= systems) return;
    float a[64];
    for (int k = 0; k < order * order; ++k) a[k] = src[k * systems + s];
    for (int j = 0; j < order; ++j)
        for (int i = order - 1; i > j; --i) {
            float p = a[(i - 1) * order + j], q = a[i * order + j], length = sqrtf(p * p + q * q), c = p / length, w = q / length;
            for (int k = j; k < order; ++k) {
                float u = a[(i - 1) * order + k], v = a[i * order + k];
                a[(i - 1) * order + k] = c * u + w * v, a[i * order + k] = c * v - w * u;
            }
        }
    for (int k = 0; k < order * order; ++k) dst[k * systems + s] = a[k];
}

// A block of 32 x 32 threads for a system of 32: Gauss and Jordan with the largest pivot of the column.
extern "C" __global__ void __launch_bounds__(1024) gauss_jordan(double *x, const double *a, const double *b) {
    __shared__ double m[32][33], right[32];
    __shared__ int pivot;
    int j = threadIdx.x, i = threadIdx.y;
    m[i][j] = a[blockIdx.x * 1024 + i * 32 + j];
    if (i == 0) right[j] = b[blockIdx.x * 32 + j];
    __syncthreads();
    for (int k = 0; k < 32; ++k) {
        if (i == 0) {
            double best = j >= k ? fabs(m[j][k]) : -1.0;
            int who = j;
            for (int d = 16; d; d /= 2) {
                double other = __shfl_xor_sync(~0u, best, d);
                int whose = __shfl_xor_sync(~0u, who, d);
                if (other > best || (other == best && whose < who)) best = other, who = whose;
            }
            if (j == 0) pivot = who;
        }
        __syncthreads();
        int p = pivot;
        double one = m[k][j], two = m[p][j], r1 = right[k], r2 = right[p];
        __syncthreads();
        if (i == k) m[k][j] = two, m[p][j] = p == k ? two : one;
        if (i == k && j == 0) right[k] = r2, right[p] = p == k ? r2 : r1;
        __syncthreads();
        double f = m[i][k] / m[k][k], top = m[k][j], r = right[k];
        __syncthreads();
        if (i != k) {
            m[i][j] -= f * top;
            if (j == 0) right[i] -= f * r;
        }
        __syncthreads();
    }
    if (i == 0) x[blockIdx.x * 32 + j] = right[j] / m[j][j];
}

// Shortest paths through one block row and column of 32 (third phase of Floyd and Warshall in blocks); a thread does four rows.
extern "C" __global__ void paths_through_block(int *d, int n, int k0) {
    __shared__ int left[32][32], top[32][32];
    int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 32 + threadIdx.y;
    #pragma unroll
    for (int r = 0; r < 32; r += 8) {
        left[threadIdx.y + r][threadIdx.x] = d[(i + r) * n + k0 + threadIdx.x];
        top[threadIdx.y + r][threadIdx.x] = d[(k0 + threadIdx.y + r) * n + j];
    }
    __syncthreads();
    if (blockIdx.x == k0 / 32 || blockIdx.y == k0 / 32) return;
    #pragma unroll
    for (int r = 0; r < 32; r += 8) {
        int best = d[(i + r) * n + j];
        #pragma unroll
        for (int k = 0; k < 32; ++k) best = min(best, left[threadIdx.y + r][k] + top[k][threadIdx.x]);
        d[(i + r) * n + j] = best;
    }
}

// The red half of a sweep of successive over-relaxation.
extern "C" __global__ void sweep_red(float *u, const float *f, int nx, int ny, float omega) {
    int i = blockIdx.y * blockDim.y + threadIdx.y + 1;
    int j = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + 1 + (i & 1);
    if (i >= ny - 1 || j >= nx - 1) return;
    int at = i * nx + j;
    float next = 0.25f * (u[at - 1] + u[at + 1] + u[at - nx] + u[at + nx] - f[at]);
    u[at] += omega * (next - u[at]);
}

// Full weighting of a three-dimensional grid of 2n + 1 points to n - 1 inner ones.
extern "C" __global__ void restrict_27(double *coarse, const double *fine, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= n || y >= n || z >= n) return;
    int side = 2 * n + 1, at = ((2 * z + 1) * side + 2 * y + 1) * side + 2 * x + 1;
    double sum = 0.0;
    #pragma unroll
    for (int dz = -1; dz <= 1; ++dz)
        #pragma unroll
        for (int dy = -1; dy <= 1; ++dy)
            #pragma unroll
            for (int dx = -1; dx <= 1; ++dx) sum += fine[at + (dz * side + dy) * side + dx] * (0.125 / (1 << (dx * dx + dy * dy + dz * dz)));
    coarse[(z * n + y) * n + x] = sum;
}

// Bilinear prolongation added to a fine grid.
extern "C" __global__ void prolong_add(float *fine, const float *coarse, int nx, int ny) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= nx || y >= ny) return;
    int cx = nx / 2 + 1, i = y / 2, j = x / 2, right = x & 1, down = y & 1;
    float v = coarse[i * cx + j];
    if (right && down) v = 0.25f * (v + coarse[i * cx + j + 1] + coarse[(i + 1) * cx + j] + coarse[(i + 1) * cx + j + 1]);
    else if (right) v = 0.5f * (v + coarse[i * cx + j + 1]);
    else if (down) v = 0.5f * (v + coarse[(i + 1) * cx + j]);
    fine[y * nx + x] += v;
}

// Electric fields of Yee's scheme from the magnetic ones: six arrays, blocks in three dimensions.
extern "C" __global__ void __launch_bounds__(256) yee_electric(float *ex, float *ey, float *ez, const float *hx, const float *hy, const float *hz, int nx, int ny, int nz, float c) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y, z = blockIdx.z * 2 + threadIdx.z;
    if (x < 1 || y < 1 || z < 1 || x >= nx || y >= ny || z >= nz) return;
    int at = (z * ny + y) * nx + x, sy = nx, sz = nx * ny;
    ex[at] += c * ((hz[at] - hz[at - sy]) - (hy[at] - hy[at - sz]));
    ey[at] += c * ((hx[at] - hx[at - sz]) - (hz[at] - hz[at - 1]));
    ez[at] += c * ((hy[at] - hy[at - 1]) - (hx[at] - hx[at - sy]));
}
