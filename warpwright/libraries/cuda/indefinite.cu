// Symmetric indefinite matrices: factors by Bunch and Kaufman's pivoting, as LAPACK's sytf2 makes them, and their solves. Macros: ELEMENT.
#include "dense.cuh"

__device__ __forceinline__ R size_of(float v) { return fabsf(v); }
__device__ __forceinline__ R size_of(double v) { return fabs(v); }
template <class X> __device__ __forceinline__ R size_of(complex_t<X> v) { return (R)(fabs((double)v.x) + fabs((double)v.y)); }

// The lower triangle, or the upper one seen from its last element, in which the method is the same.
struct Triangle {
    T *a;
    i64 ld;
    int n, lower;
    __device__ __forceinline__ T &operator()(int i, int j) const {
        return lower ? a[i + ld * j] : a[(n - 1 - i) + ld * (n - 1 - j)];
    }
    __device__ __forceinline__ int row(int i) const { return lower ? i : n - 1 - i; }
};
__device__ __forceinline__ void exchange(T &one, T &other) {
    T v = one;
    one = other;
    other = v;
}

// The largest of the elements that a thread has seen, and where it is; the first of equal ones.
__device__ void block_largest(R &value, int &place) {
    __shared__ R values[THREADS];
    __shared__ int places[THREADS];
    __syncthreads();
    values[threadIdx.x] = value, places[threadIdx.x] = place;
    LOOP (int half = THREADS / 2; half; half >>= 1) {
        __syncthreads();
        if (threadIdx.x < half) {
            R other = values[threadIdx.x + half], own = values[threadIdx.x];
            if (other > own || (other == own && places[threadIdx.x + half] < places[threadIdx.x]))
                values[threadIdx.x] = other, places[threadIdx.x] = places[threadIdx.x + half];
        }
    }
    __syncthreads();
    value = values[0], place = places[0];
}

// The pivot of step k: its row, and whether it is a block of two.
__device__ void choose_pivot(const Triangle &t, int k, int &pivot, int &steps, bool &zero) {
    const R alpha = (R)0.6403882032022076;  // (1 + sqrt(17)) / 8
    R own = size_of(t(k, k)), largest = -1;
    int place = t.n;
    LOOP (int i = k + 1 + threadIdx.x; i < t.n; i += THREADS)
        if (size_of(t(i, k)) > largest) largest = size_of(t(i, k)), place = i;
    block_largest(largest, place);
    if (largest < 0) largest = 0;
    pivot = k, steps = 1;
    zero = !(own > 0 || largest > 0);
    if (zero || own >= alpha * largest) return;
    R in_row = -1;
    int unused = 0;
    LOOP (int j = k + threadIdx.x; j < t.n; j += THREADS)
        if (j != place) in_row = max(in_row, size_of(j < place ? t(place, j) : t(j, place)));
    block_largest(in_row, unused);
    if (own >= alpha * largest * (largest / in_row)) return;
    pivot = place;
    if (size_of(t(place, place)) < alpha * in_row) steps = 2;
}

// Exchange rows and columns of the part that is not factorised yet.
__device__ void exchange_symmetric(const Triangle &t, int k, int from, int to, int steps) {
    LOOP (int i = to + 1 + threadIdx.x; i < t.n; i += THREADS) exchange(t(i, from), t(i, to));
    LOOP (int j = from + 1 + threadIdx.x; j < to; j += THREADS) exchange(t(j, from), t(to, j));
    if (threadIdx.x == 0) {
        exchange(t(from, from), t(to, to));
        if (steps == 2) exchange(t(k + 1, k), t(to, k));
    }
    __syncthreads();
}

// Subtract the step's product from what is left, and leave the columns of the factor.
__device__ void eliminate(const Triangle &t, int k, int steps) {
    int first = k + steps, below = t.n - first;
    T one = Scalar<T>::of(1, 0);
    T d21 = steps == 2 ? t(k + 1, k) : one, d11 = one, d22 = one, scale = one / t(k, k);
    if (steps == 2) {
        d11 = t(k + 1, k + 1) / d21;
        d22 = t(k, k) / d21;
        scale = one / (d11 * d22 - one) / d21;
    }
    __syncthreads();
    LOOP (i64 at = threadIdx.x; at < (i64)below * below; at += THREADS) {
        int i = first + (int)(at % below), j = first + (int)(at / below);
        if (i < j) continue;
        if (steps == 1) {
            t(i, j) = t(i, j) - t(i, k) * (scale * t(j, k));
        } else {
            T w = scale * (d11 * t(j, k) - t(j, k + 1)), next = scale * (d22 * t(j, k + 1) - t(j, k));
            t(i, j) = t(i, j) - t(i, k) * w - t(i, k + 1) * next;
        }
    }
    __syncthreads();
    LOOP (int j = first + threadIdx.x; j < t.n; j += THREADS) {
        T v = t(j, k);
        if (steps == 1) {
            t(j, k) = scale * v;
        } else {
            T w = t(j, k + 1);
            t(j, k) = scale * (d11 * v - w), t(j, k + 1) = scale * (d22 * w - v);
        }
    }
    __syncthreads();
}

// A = L D L^T or U D U^T in place; rows are counted from 1, those of blocks of two are negative.
extern "C" __global__ void warpwright_sytrf(int lower, int n, Batch batch, i64 ld, int *pivots, int *info) {
    Triangle t{of(batch), ld, n, lower};
    int failed = 0;
    LOOP (int k = 0; k < n;) {
        int pivot, steps;
        bool zero;
        choose_pivot(t, k, pivot, steps, zero);
        if (zero && !failed) failed = t.row(k) + 1;
        int from = k + steps - 1;
        __syncthreads();
        if (!zero && pivot != from) exchange_symmetric(t, k, from, pivot, steps);
        if (!zero) eliminate(t, k, steps);
        if (threadIdx.x == 0)
            LOOP (int s = 0; s < steps; s++) pivots[t.row(k + s)] = steps == 1 ? t.row(pivot) + 1 : -(t.row(pivot) + 1);
        k += steps;
    }
    if (threadIdx.x == 0) *info = failed;
}

// Solves with the factors; a block for each column of B.
extern "C" __global__ void warpwright_sytrs(int lower, int n, Batch a_batch, i64 lda, const i64 *pivots, Batch b_batch, i64 ldb) {
    Triangle t{of(a_batch), lda, n, lower};
    T *column = of(b_batch) + blockIdx.x * ldb, one = Scalar<T>::of(1, 0);
    auto b = [&](int i) -> T & { return column[t.row(i)]; };
    auto pivot = [&](int i) { return pivots[t.row(i)]; };
    auto place = [&](i64 p) { return t.row((int)(p < 0 ? -p : p) - 1); };
    LOOP (int k = 0; k < n;) {
        int steps = pivot(k) < 0 ? 2 : 1, from = k + steps - 1, to = place(pivot(k));
        __syncthreads();
        if (threadIdx.x == 0 && to != from) exchange(b(from), b(to));
        __syncthreads();
        T first = b(k), second = b(from);
        LOOP (int i = k + steps + threadIdx.x; i < n; i += THREADS) {
            b(i) = b(i) - t(i, k) * first;
            if (steps == 2) b(i) = b(i) - t(i, k + 1) * second;
        }
        __syncthreads();
        if (threadIdx.x == 0 && steps == 1) b(k) = first / t(k, k);
        if (threadIdx.x == 0 && steps == 2) {
            T off = t(k + 1, k), left = t(k, k) / off, right = t(k + 1, k + 1) / off, denominator = left * right - one;
            first = first / off, second = second / off;
            b(k) = (right * first - second) / denominator;
            b(k + 1) = (left * second - first) / denominator;
        }
        __syncthreads();
        k += steps;
    }
    LOOP (int k = n - 1; k >= 0;) {
        int steps = pivot(k) < 0 ? 2 : 1;
        LOOP (int s = 0; s < steps; s++) {
            T sum = T{};
            LOOP (int i = k + 1 + threadIdx.x; i < n; i += THREADS) sum = sum + t(i, k - s) * b(i);
            sum = block_sum(sum);
            if (threadIdx.x == 0) b(k - s) = b(k - s) - sum;
        }
        int to = place(pivot(k));
        if (threadIdx.x == 0 && to != k) exchange(b(k), b(to));
        __syncthreads();
        k -= steps;
    }
}
