// Level 1 and matrix-vector kernels. Macros: ELEMENT the elements' type, SUM that of sums, OUT that of results; ROW_SUMS for the sums of rows.
#include "types.cuh"

#define THREADS 256
typedef Scalar<SUM>::real REAL;

__device__ __forceinline__ double magnitude(float v) { return fabs((double)v); }
__device__ __forceinline__ double magnitude(double v) { return fabs(v); }
__device__ __forceinline__ double magnitude(c64 v) { return fabs((double)v.x) + fabs((double)v.y); }
__device__ __forceinline__ double magnitude(c128 v) { return fabs(v.x) + fabs(v.y); }
__device__ __forceinline__ double square(float v) { return (double)v * v; }
__device__ __forceinline__ double square(double v) { return v * v; }
__device__ __forceinline__ double square(c64 v) { return (double)v.x * v.x + (double)v.y * v.y; }
__device__ __forceinline__ double square(c128 v) { return v.x * v.x + v.y * v.y; }
// A negative increment begins at the end, as in BLAS.
__device__ __forceinline__ i64 at(i64 i, i64 n, i64 increment) { return increment < 0 ? (i - n + 1) * increment : i * increment; }

template <class V> __device__ __forceinline__ void put_real(V *place, double v) { put(place, (REAL)v); }
template <class X> __device__ __forceinline__ void put_real(complex_t<X> *place, double v) { *place = {(X)v, (X)0}; }

template <class V> __device__ V block_sum(V value) {
    __shared__ V values[THREADS];
    values[threadIdx.x] = value;
    for (int half = THREADS / 2; half; half >>= 1) {
        __syncthreads();
        if (threadIdx.x < half) values[threadIdx.x] = values[threadIdx.x] + values[threadIdx.x + half];
    }
    __syncthreads();
    return values[0];
}

// Partial sums of blocks, in an order that does not depend on their times.
extern "C" __global__ void warpwright_dot(i64 n, const ELEMENT *x, i64 x_step, const ELEMENT *y, i64 y_step, int conjugates, SUM *partial) {
    SUM sum = SUM{};
    for (i64 i = blockIdx.x * (i64)THREADS + threadIdx.x; i < n; i += (i64)gridDim.x * THREADS) {
        SUM a = To<SUM>::from(x[at(i, n, x_step)]);
        sum = fused(conjugates ? conjugate(a) : a, To<SUM>::from(y[at(i, n, y_step)]), sum);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
extern "C" __global__ void warpwright_dot_result(int count, const SUM *partial, ELEMENT *result) {
    SUM sum = threadIdx.x < count ? partial[threadIdx.x] : SUM{};
    sum = block_sum(sum);
    if (threadIdx.x == 0) put(result, sum);
}
extern "C" __global__ void warpwright_norm(i64 n, const ELEMENT *x, i64 step, int squares, double *partial) {
    double sum = 0.0;
    for (i64 i = blockIdx.x * (i64)THREADS + threadIdx.x; i < n; i += (i64)gridDim.x * THREADS) {
        SUM v = To<SUM>::from(x[i * step]);
        sum += squares ? square(v) : magnitude(v);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
extern "C" __global__ void warpwright_norm_result(int count, const double *partial, int root, OUT *result) {
    double sum = block_sum(threadIdx.x < count ? partial[threadIdx.x] : 0.0);
    if (threadIdx.x == 0) put_real(result, root ? sqrt(sum) : sum);
}
// Index of the first largest or smallest element, counted from 1.
extern "C" __global__ void warpwright_extreme(i64 n, const ELEMENT *x, i64 step, int smallest, void *result, int long_index) {
    __shared__ double values[THREADS];
    __shared__ i64 places[THREADS];
    double best = 0.0;
    i64 place = -1;
    for (i64 i = threadIdx.x; i < n; i += THREADS) {
        double v = magnitude(To<SUM>::from(x[i * step]));
        if (place < 0 || (smallest ? v < best : v > best)) best = v, place = i;
    }
    values[threadIdx.x] = best, places[threadIdx.x] = place;
    for (int half = THREADS / 2; half; half >>= 1) {
        __syncthreads();
        if (threadIdx.x >= half || places[threadIdx.x + half] < 0) continue;
        double other = values[threadIdx.x + half], own = values[threadIdx.x];
        bool better = smallest ? other < own : other > own;
        if (better || (other == own && places[threadIdx.x + half] < places[threadIdx.x]))
            values[threadIdx.x] = other, places[threadIdx.x] = places[threadIdx.x + half];
    }
    if (threadIdx.x == 0 && long_index) *(i64 *)result = places[0] + 1;
    if (threadIdx.x == 0 && !long_index) *(int *)result = (int)places[0] + 1;
}
// kind: 0 x = a x; 1 y = a x + y; 2 y = x; 3 both change places; 4 x = a x with a real a
extern "C" __global__ void warpwright_elementwise(
    int kind, i64 n, const SUM *a_place, double a_real, double a_imaginary, ELEMENT *x, i64 x_step, ELEMENT *y, i64 y_step) {
    i64 i = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (i >= n) return;
    SUM a = !a_place ? Scalar<SUM>::of(a_real, a_imaginary) : kind == 4 ? Scalar<SUM>::of(*(const REAL *)a_place, 0) : *a_place;
    bool alone = kind == 0 || kind == 4;
    ELEMENT *from = x + at(i, n, x_step), *to = alone ? from : y + at(i, n, y_step);
    ELEMENT old = *from;
    if (alone) put(to, a * To<SUM>::from(old));
    if (kind == 1) put(to, fused(a, To<SUM>::from(old), To<SUM>::from(*to)));
    if (kind == 2) *to = old;
    if (kind == 3) { *from = *to; *to = old; }
}
// y = alpha op(A) x + beta y. A warp for each element of y where A is transposed, a thread otherwise.
extern "C" __global__ void warpwright_gemv(
    int op, int m, int n, const SUM *alpha_place, double alpha_real, double alpha_imaginary, const SUM *beta_place, double beta_real,
    double beta_imaginary, const ELEMENT *a, i64 ld, const ELEMENT *x, i64 x_step, ELEMENT *y, i64 y_step, i64 stride_a, i64 stride_x, i64 stride_y) {
    SUM alpha = alpha_place ? *alpha_place : Scalar<SUM>::of(alpha_real, alpha_imaginary);
    SUM beta = beta_place ? *beta_place : Scalar<SUM>::of(beta_real, beta_imaginary);
    a += stride_a * blockIdx.y, x += stride_x * blockIdx.y, y += stride_y * blockIdx.y;
    SUM sum = SUM{};
    int row = blockIdx.x * (op ? THREADS / 32 : THREADS) + (op ? threadIdx.x / 32 : threadIdx.x);
    if (op == 0) {
        if (row >= m) return;
        for (int j = 0; j < n; j++) sum = fused(To<SUM>::from(a[row + ld * j]), To<SUM>::from(x[at(j, n, x_step)]), sum);
    } else {
        if (row >= n) return;
        for (int i = threadIdx.x % 32; i < m; i += 32) {
            SUM v = To<SUM>::from(a[i + ld * row]);
            sum = fused(op == 2 ? conjugate(v) : v, To<SUM>::from(x[at(i, m, x_step)]), sum);
        }
        __shared__ SUM values[THREADS];
        values[threadIdx.x] = sum;
        for (int half = 16; half; half >>= 1) {
            __syncwarp();
            if (threadIdx.x % 32 < half) values[threadIdx.x] = values[threadIdx.x] + values[threadIdx.x + half];
        }
        sum = values[threadIdx.x];
        if (threadIdx.x % 32) return;
    }
    ELEMENT *place = y + at(row, op ? n : m, y_step);
    SUM value = alpha * sum;
    if (!is_zero(beta)) value = fused(beta, To<SUM>::from(*place), value);
    put(place, value);
}
#ifdef ROW_SUMS
// Sums of a matrix's rows: gradients of a bias.
extern "C" __global__ void warpwright_row_sums(int rows, int columns, const ELEMENT *a, i64 row_step, i64 column_step, OUT *result) {
    SUM sum = SUM{};
    for (int j = threadIdx.x; j < columns; j += THREADS) sum = sum + To<SUM>::from(a[blockIdx.x * row_step + j * column_step]);
    sum = block_sum(sum);
    if (threadIdx.x == 0) put(result + blockIdx.x, sum);
}
#endif
