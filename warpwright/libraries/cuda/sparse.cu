// Sparse products. Macros: ELEMENT of matrices, SUM of sums (ELEMENT's own type of computation), INDEX of rows and columns.
#include "types.cuh"

#define THREADS 256
#define LAST_COLUMN 0x7fffffffffffffffll

// Rows by offsets (CSR) or by the sorted row of each element (COO).
struct Sparse {
    const INDEX *rows, *columns;
    ELEMENT *values;
    i64 count, nonzeros, row_stride, value_stride;
    int base, by_offsets;
};
struct Dense { ELEMENT *values; i64 row_step, column_step, stride; };

__device__ __forceinline__ const INDEX *rows_of(const Sparse &a) { return a.rows + a.row_stride * blockIdx.z; }
__device__ __forceinline__ i64 first_of(const Sparse &a, i64 row) {
    const INDEX *rows = rows_of(a);
    if (a.by_offsets) return (i64)rows[row] - a.base;
    i64 low = 0, high = a.nonzeros;
    while (low < high) {
        i64 middle = (low + high) / 2;
        if ((i64)rows[middle] - a.base < row) low = middle + 1;
        else high = middle;
    }
    return low;
}
__device__ __forceinline__ i64 row_of(const Sparse &a, i64 element) {
    const INDEX *rows = rows_of(a);
    if (!a.by_offsets) return (i64)rows[element] - a.base;
    i64 low = 0, high = a.count;
    while (high - low > 1) {
        i64 middle = (low + high) / 2;
        if ((i64)rows[middle] - a.base <= element) low = middle;
        else high = middle;
    }
    return low;
}
__device__ __forceinline__ void add(float *place, float v) { atomicAdd(place, v); }
__device__ __forceinline__ void add(c64 *place, c64 v) { atomicAdd(&place->x, v.x), atomicAdd(&place->y, v.y); }
#if __CUDA_ARCH__ >= 600
__device__ __forceinline__ void add(double *place, double v) { atomicAdd(place, v); }
__device__ __forceinline__ void add(c128 *place, c128 v) { atomicAdd(&place->x, v.x), atomicAdd(&place->y, v.y); }
#endif

// C = alpha A B + beta C: a thread for each element of C.
extern "C" __global__ void warpwright_spmm(
    Sparse a, Dense b, Dense c, int columns, const SUM *alpha_place, double alpha_real, double alpha_imaginary, const SUM *beta_place,
    double beta_real, double beta_imaginary) {
    i64 at = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (at >= a.count * columns) return;
    i64 row = at / columns, column = at % columns;
    SUM alpha = alpha_place ? *alpha_place : Scalar<SUM>::of(alpha_real, alpha_imaginary);
    SUM beta = beta_place ? *beta_place : Scalar<SUM>::of(beta_real, beta_imaginary), sum = SUM{};
    const INDEX *of = a.columns + a.value_stride * blockIdx.z;
    const ELEMENT *values = a.values + a.value_stride * blockIdx.z;
    for (i64 e = first_of(a, row), last = first_of(a, row + 1); e < last; e++)
        sum = fused(To<SUM>::from(values[e]), To<SUM>::from(b.values[((i64)of[e] - a.base) * b.row_step + column * b.column_step + b.stride * blockIdx.z]), sum);
    ELEMENT *place = c.values + row * c.row_step + column * c.column_step + c.stride * blockIdx.z;
    sum = alpha * sum;
    if (!is_zero(beta)) sum = fused(beta, To<SUM>::from(*place), sum);
    put(place, sum);
}
#ifdef TRANSPOSED
extern "C" __global__ void warpwright_sparse_scale(Dense c, i64 rows, int columns, const SUM *beta_place, double beta_real, double beta_imaginary) {
    i64 at = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (at >= rows * columns) return;
    SUM beta = beta_place ? *beta_place : Scalar<SUM>::of(beta_real, beta_imaginary);
    ELEMENT *place = c.values + at / columns * c.row_step + at % columns * c.column_step + c.stride * blockIdx.z;
    put(place, is_zero(beta) ? SUM{} : beta * To<SUM>::from(*place));
}
// C += alpha op(A) B with A transposed: a thread for each element of A and column of B.
extern "C" __global__ void warpwright_spmm_transposed(
    Sparse a, Dense b, Dense c, int columns, int conjugates, const SUM *alpha_place, double alpha_real, double alpha_imaginary) {
    i64 at = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (at >= a.nonzeros * columns) return;
    i64 e = at / columns, column = at % columns, row = row_of(a, e);
    SUM alpha = alpha_place ? *alpha_place : Scalar<SUM>::of(alpha_real, alpha_imaginary);
    SUM v = To<SUM>::from(a.values[e + a.value_stride * blockIdx.z]);
    v = alpha * (conjugates ? conjugate(v) : v) * To<SUM>::from(b.values[row * b.row_step + column * b.column_step + b.stride * blockIdx.z]);
    i64 target = (i64)a.columns[e + a.value_stride * blockIdx.z] - a.base;
    add(c.values + target * c.row_step + column * c.column_step + c.stride * blockIdx.z, v);
}
#endif
// The elements that C has of alpha A B + beta C: a thread for each.
extern "C" __global__ void warpwright_sddmm(
    Dense a, Dense b, Sparse c, int k, const SUM *alpha_place, double alpha_real, double alpha_imaginary, const SUM *beta_place,
    double beta_real, double beta_imaginary) {
    i64 e = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (e >= c.nonzeros) return;
    SUM alpha = alpha_place ? *alpha_place : Scalar<SUM>::of(alpha_real, alpha_imaginary);
    SUM beta = beta_place ? *beta_place : Scalar<SUM>::of(beta_real, beta_imaginary), sum = SUM{};
    i64 row = row_of(c, e), column = (i64)c.columns[e + c.value_stride * blockIdx.z] - c.base;
    for (int i = 0; i < k; i++)
        sum = fused(To<SUM>::from(a.values[row * a.row_step + i * a.column_step + a.stride * blockIdx.z]),
                    To<SUM>::from(b.values[i * b.row_step + column * b.column_step + b.stride * blockIdx.z]), sum);
    ELEMENT *place = c.values + e + c.value_stride * blockIdx.z;
    sum = alpha * sum;
    if (!is_zero(beta)) sum = fused(beta, To<SUM>::from(*place), sum);
    put(place, sum);
}
extern "C" __global__ void warpwright_coo2csr(const int *rows, int nonzeros, int m, int *offsets, int base) {
    int row = blockIdx.x * THREADS + threadIdx.x;
    if (row > m) return;
    int low = 0, high = nonzeros;
    while (low < high) {
        int middle = (low + high) / 2;
        if (rows[middle] - base < row) low = middle + 1;
        else high = middle;
    }
    offsets[row] = low + base;
}

// C = alpha A + beta B of matrices by offsets with sorted columns, a thread for each row: the number of a row's elements after its offset, or its elements.
extern "C" __global__ void warpwright_csr_sum(
    Sparse a, Sparse b, Sparse c, int fill, const SUM *alpha_place, double alpha_real, double alpha_imaginary, const SUM *beta_place,
    double beta_real, double beta_imaginary) {
    i64 row = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (row >= a.count) return;
    SUM alpha = alpha_place ? *alpha_place : Scalar<SUM>::of(alpha_real, alpha_imaginary);
    SUM beta = beta_place ? *beta_place : Scalar<SUM>::of(beta_real, beta_imaginary);
    i64 i = first_of(a, row), i_end = first_of(a, row + 1), j = first_of(b, row), j_end = first_of(b, row + 1);
    i64 at = fill ? first_of(c, row) : 0;
    while (i < i_end || j < j_end) {
        i64 left = i < i_end ? (i64)a.columns[i] - a.base : LAST_COLUMN, right = j < j_end ? (i64)b.columns[j] - b.base : LAST_COLUMN;
        i64 column = left < right ? left : right;
        if (fill) {
            SUM sum = left == column ? alpha * To<SUM>::from(a.values[i]) : SUM{};
            if (right == column) sum = fused(beta, To<SUM>::from(b.values[j]), sum);
            ((INDEX *)c.columns)[at] = (INDEX)(column + c.base);
            c.values[at] = To<ELEMENT>::from(sum);
        }
        at++, i += left == column, j += right == column;
    }
    if (!fill) ((INDEX *)c.rows)[row + 1] = (INDEX)at;
}

// The numbers of elements after each offset become offsets: one block, each thread of which adds up some rows that follow each other.
extern "C" __global__ void warpwright_csr_offsets(INDEX *offsets, i64 rows, int base, INDEX *total) {
    __shared__ i64 sums[THREADS];
    i64 each = (rows + THREADS - 1) / THREADS, first = threadIdx.x * each, last = first + each < rows ? first + each : rows, sum = 0;
    for (i64 row = first; row < last; row++) sum += offsets[row + 1];
    sums[threadIdx.x] = sum;
    __syncthreads();
    i64 before = base;
    for (int other = 0; other < threadIdx.x; other++) before += sums[other];
    for (i64 row = first; row < last; row++) offsets[row + 1] = (INDEX)(before += offsets[row + 1]);
    if (threadIdx.x) return;
    offsets[0] = base;
    i64 all = 0;
    for (int other = 0; other < THREADS; other++) all += sums[other];
    if (total) *total = (INDEX)all;
}
