// Sparse products. Macros: ELEMENT of matrices, SUM of sums (ELEMENT's own type of computation), INDEX of rows and columns.
#include "types.cuh"

#define THREADS 256

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
