// Levels 2 and 3 of cuBLAS with a symmetric, Hermitian or triangular matrix. Macros: ELEMENT float, double, c64 or c128.
#include "dense.cuh"

#define TILE 16

enum Kind { GENERAL, SYMMETRIC, HERMITIAN };

// A scalar argument: on the device where it has an address, whose type is the real one for some functions of complex matrices.
struct Number { const void *place; double x, y; int real, conjugated; };
__device__ __forceinline__ T of(const Number &n) {
    T value = !n.place ? To<T>::from(Scalar<T>::of(n.x, n.y)) : n.real ? real_value(*(const R *)n.place) : *(const T *)n.place;
    return n.conjugated ? conjugate(value) : value;
}

// An operand by its elements' distances along both dimensions. Of a symmetric or Hermitian one the triangle `lower` is stored.
struct Operand { const T *place; i64 down, across; int kind, lower, conjugated; };
__device__ __forceinline__ T element(const Operand &o, int i, int j) {
    bool mirrored = o.kind != GENERAL && (o.lower ? i < j : i > j);
    T value = mirrored ? o.place[j * o.down + i * o.across] : o.place[i * o.down + j * o.across];
    if (o.kind == HERMITIAN && i == j) value = real_value(real_part(value));
    bool conjugated = (o.conjugated != 0) != (mirrored && o.kind == HERMITIAN);
    return conjugated ? conjugate(value) : value;
}

// The elements of a result that are computed: all, or those of a triangle.
enum Region { ALL, LOWER_TRIANGLE, UPPER_TRIANGLE };
struct Result { T *place; i64 down, across; int region, real_diagonal; };

// result = alpha left right + beta result, with left m x k and right k x n; where beta is 0 the result is not read.
extern "C" __global__ void warpwright_structured_product(int m, int n, int k, const Number alpha, const Operand left, const Operand right, const Number beta, const Result result) {
    __shared__ T lefts[TILE][TILE + 1], rights[TILE][TILE + 1];
    const int x = threadIdx.x % TILE, y = threadIdx.x / TILE, first_i = blockIdx.x * TILE, first_j = blockIdx.y * TILE;
    if (result.region == LOWER_TRIANGLE && first_j > first_i + TILE - 1) return;
    if (result.region == UPPER_TRIANGLE && first_i > first_j + TILE - 1) return;
    T sum = T{};
    for (int first = 0; first < k; first += TILE) {
        lefts[y][x] = first_i + x < m && first + y < k ? element(left, first_i + x, first + y) : T{};
        rights[y][x] = first + x < k && first_j + y < n ? element(right, first + x, first_j + y) : T{};
        __syncthreads();
        for (int l = 0; l < TILE; l++) sum = fused(lefts[l][x], rights[y][l], sum);
        __syncthreads();
    }
    const int i = first_i + x, j = first_j + y;
    if (i >= m || j >= n || (result.region == LOWER_TRIANGLE && i < j) || (result.region == UPPER_TRIANGLE && i > j)) return;
    T *place = result.place + i * result.down + j * result.across, scale = of(alpha), factor = of(beta), value = is_zero(scale) ? T{} : scale * sum;
    if (!is_zero(factor)) value = value + factor * *place;
    if (result.real_diagonal && i == j) value = real_value(real_part(value));
    *place = value;
}

// x = alpha op(A) x, or the solution of op(A) x = alpha x, in place, for each of the grid's vectors.
extern "C" __global__ void warpwright_triangular_vectors(
    int n, int solves, int lower, int transposed, int conjugated, int unit, const Number alpha, const T *a, i64 ld, T *vectors, i64 step, i64 between) {
    T *x = vectors + blockIdx.x * between, scale = of(alpha);
    for (int i = threadIdx.x; i < n; i += THREADS) x[i * step] = scale * x[i * step];
    // A column at a time: a product begins with the element that no other one adds to, a solution with the one that depends on no other.
    bool ascending = ((lower != 0) == (transposed != 0)) != (solves != 0);
    for (int s = 0; s < n; s++) {
        int j = ascending ? s : n - 1 - s;
        __syncthreads();
        T d = unit ? real_value(1) : a[j + ld * j];
        if (conjugated) d = conjugate(d);
        T own = x[j * step];
        if (solves) own = own / d;
        __syncthreads();
        if (threadIdx.x == 0) x[j * step] = solves ? own : d * own;
        bool above = (lower != 0) == (transposed != 0);
        int first = above ? 0 : j + 1, last = above ? j : n;
        for (int i = first + threadIdx.x; i < last; i += THREADS) {
            T v = transposed ? a[j + ld * i] : a[i + ld * j];
            if (conjugated) v = conjugate(v);
            x[i * step] = solves ? x[i * step] - v * own : x[i * step] + v * own;
        }
    }
}
