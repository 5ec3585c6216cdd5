// Linear algebra in PolyBench's and SHOC's manner: a thread for a column or a row, transforms in registers, systems in a warp.

// One step of Gram and Schmidt: a thread for each later column, row after row.
extern "C" __global__ void gram_schmidt(float *a, float *r, const float *q, int rows, int columns) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= columns) return;
    float dot = 0.0f;
    for (int i = 0; i < rows; ++i) dot += q[i] * a[i * columns + j];
    r[j] = dot;
    for (int i = 0; i < rows; ++i) a[i * columns + j] -= q[i] * dot;
}

// A thread for a row, which a warp reads with a stride of a whole row (atax).
extern "C" __global__ void product_rows(float *y, const float *a, const float *x, int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    float sum = 0.0f;
    for (int j = 0; j < columns; ++j) sum += a[i * columns + j] * x[j];
    y[i] = sum;
}

// The lower triangle of C = A A^T + C (syrk): blocks above it leave at once.
extern "C" __global__ void rank_update(double *c, const double *a, int n, int depth) {
    int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
    if (i >= n || j > i) return;
    double sum = c[i * n + j];
    for (int k = 0; k < depth; ++k) sum += a[i * depth + k] * a[j * depth + k];
    c[i * n + j] = sum;
}

// 32 unknowns of a tridiagonal system in the lanes of a warp: parallel cyclic reduction by shuffles.
extern "C" __global__ void reduce_systems(double *x, const double *lower, const double *middle, const double *upper, const double *right, int systems) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    if (at / 32 >= systems) return;
    double a = lane ? lower[at] : 0.0, b = middle[at], c = lane < 31 ? upper[at] : 0.0, d = right[at];
    for (int s = 1; s < 32; s *= 2) {
        double a0 = __shfl_up_sync(~0u, a, s), b0 = __shfl_up_sync(~0u, b, s), c0 = __shfl_up_sync(~0u, c, s), d0 = __shfl_up_sync(~0u, d, s);
        double a1 = __shfl_down_sync(~0u, a, s), b1 = __shfl_down_sync(~0u, b, s), c1 = __shfl_down_sync(~0u, c, s), d1 = __shfl_down_sync(~0u, d, s);
        double f = lane >= s ? a / b0 : 0.0, g = lane + s < 32 ? c / b1 : 0.0;
        b -= f * c0 + g * a1, d -= f * d0 + g * d1, a = -f * a0, c = -g * c1;
    }
    x[at] = d / b;
}

__device__ float2 times(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
__device__ void eight(float2 *v) {  // results in bit-reversed order
    const float h = 0.70710678f;
    const float2 w[4] = {{1, 0}, {h, -h}, {0, -1}, {-h, -h}};
    #pragma unroll
    for (int half = 4; half; half /= 2)
        #pragma unroll
        for (int k = 0; k < 8; ++k)
            if ((k & half) == 0) {
                float2 a = v[k], b = v[k + half];
                v[k] = make_float2(a.x + b.x, a.y + b.y);
                v[k + half] = times(make_float2(a.x - b.x, a.y - b.y), w[k % half * (4 / half)]);
            }
}
// Transforms of 512 numbers: 64 threads with eight each, radix 8, two exchanges in shared memory.
extern "C" __global__ void __launch_bounds__(64) fft_512(float2 *data) {
    __shared__ float part[2][8 * 72];
    const int order[8] = {0, 4, 2, 6, 1, 5, 3, 7};
    int t = threadIdx.x;
    float2 *mine = data + blockIdx.x * 512ll, v[8];
    for (int k = 0; k < 8; ++k) v[k] = mine[k * 64 + t];
    for (int pass = 0; pass < 3; ++pass) {
        eight(v);
        if (pass == 2) break;
        float angle = -6.2831853f / (pass == 0 ? 512 : 64) * (pass == 0 ? t : t % 8);
        float2 w, turn = make_float2(1, 0);
        __sincosf(angle, &w.y, &w.x);
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            float2 out = times(v[order[k]], turn);
            int at = pass == 0 ? k * 72 + t : t / 8 * 72 + k * 8 + t % 8;
            part[0][at] = out.x, part[1][at] = out.y;
            turn = times(turn, w);
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            int at = pass == 0 ? t / 8 * 72 + k * 8 + t % 8 : t / 8 * 72 + t % 8 * 8 + k;
            v[k] = make_float2(part[0][at], part[1][at]);
        }
        __syncthreads();
    }
    for (int k = 0; k < 8; ++k) mine[k * 64 + t % 8 * 8 + t / 8] = v[order[k]];
}
