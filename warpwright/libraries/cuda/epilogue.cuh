// What a matrix product does with a sum: scale, add, activate, store.
#pragma once
#include "types.cuh"

// Bits of Arguments::flags.
#define POINTER_ARRAYS 1
#define BIAS 2
#define RELU 4
#define GELU 8
#define STORE_AUX 16
#define RELU_GRADIENT 32
#define GELU_GRADIENT 64
#define BIAS_OF_COLUMN 128
#define EPILOGUE 254  // all of these but pointer arrays
#define OP_A 256      // two bits: transposed, conjugate-transposed
#define OP_B 1024
#define VECTORS 4096    // four elements of a column of C and D can be read and written at once
// Macros: ACTIVATIONS, DEVICE_SCALARS, ARRAYS, SCALED 1 where a product may have them. Without, no branch and no address depends on what memory holds, and the time of equal
// products is known after the first.

struct Arguments {
    const void *a, *b, *c;
    void *d;
    const void *alpha_place, *beta_place;  // device scalars; null: the values below
    const void *bias;
    void *aux;
    const float *scale_a, *scale_b, *scale_d;  // of 8-bit types; null: 1
    double alpha[2], beta[2];
    i64 lda, ldb, ldc, ldd, ld_aux, stride_a, stride_b, stride_c, stride_d, stride_bias, stride_aux;
    int m, n, k, flags;
};

template <class S> __device__ __forceinline__ S scalar(const void *place, const double *value) {
    return DEVICE_SCALARS && place ? *(const S *)place : Scalar<S>::of(value[0], value[1]);
}
template <class T> __device__ __forceinline__ const T *matrix(const void *place, i64 stride, int flags) {
    return ARRAYS && flags & POINTER_ARRAYS ? ((const T *const *)place)[blockIdx.z] : (const T *)place + stride * blockIdx.z;
}

// The tanh form, as cuBLASLt documents for CUBLASLT_EPILOGUE_GELU.
template <class R> __device__ __forceinline__ R gelu_tanh(R x) { return tanh((R)0.79788456080286536 * (x + (R)0.044715 * x * x * x)); }
template <class R> __device__ __forceinline__ R gelu(R x) { return (R)0.5 * x * ((R)1 + gelu_tanh(x)); }
template <class R> __device__ __forceinline__ R gelu_gradient(R x) {
    R t = gelu_tanh(x);
    return (R)0.5 * ((R)1 + t) + (R)0.5 * x * ((R)1 - t * t) * (R)0.79788456080286536 * ((R)1 + (R)(3 * 0.044715) * x * x);
}
// The type in which activations of a sum are computed.
__device__ __forceinline__ float as_real(float v) { return v; }
__device__ __forceinline__ double as_real(double v) { return v; }
__device__ __forceinline__ float as_real(int v) { return (float)v; }
template <class T> __device__ __forceinline__ T as_real(complex_t<T> v) { return v.x; }
template <class S, class R> __device__ __forceinline__ S from_real(S old, R v) { return (S)v; }
template <class T, class R> __device__ __forceinline__ complex_t<T> from_real(complex_t<T> old, R v) { return old; }

template <class T> struct alignas(sizeof(T) > 4 ? 16 : 4 * sizeof(T)) Four { T v[4]; };

template <class S, class C, class D, class BIAS_T> struct Epilogue {
    const Arguments &g;
    S alpha, beta;
    const C *c;
    D *d;
    bool reads_c;

    __device__ __forceinline__ Epilogue(const Arguments &g) : g(g) {
        alpha = scalar<S>(g.alpha_place, g.alpha);
        beta = scalar<S>(g.beta_place, g.beta);
        c = matrix<C>(g.c, g.stride_c, g.flags);
        d = (D *)matrix<D>(g.d, g.stride_d, g.flags);
        reads_c = !is_zero(beta);
        if (!SCALED) return;
        float scale = (g.scale_a ? *g.scale_a : 1.0f) * (g.scale_b ? *g.scale_b : 1.0f);
        if (g.scale_a || g.scale_b) alpha = alpha * from_real(alpha, scale);
    }
    __device__ __forceinline__ void store(int row, int column, S sum) const {
        if (row >= g.m || column >= g.n) return;
        S value = alpha * sum;
        if (reads_c) value = fused(beta, To<S>::from(c[row + g.ldc * column]), value);
        if (ACTIVATIONS && g.flags & EPILOGUE) value = activated(row, column, value);
        if (SCALED && g.scale_d) value = value * from_real(value, *g.scale_d);
        put(d + row + g.ldd * column, value);
    }
    // Four sums of a column.
    __device__ __forceinline__ void store4(int row, int column, const S *sum) const {
        if (!(g.flags & VECTORS) || row + 4 > g.m) {
#pragma unroll
            for (int e = 0; e < 4; e++) store(row + e, column, sum[e]);
            return;
        }
        if (column >= g.n) return;
        S value[4];
        Four<D> stored;
#pragma unroll
        for (int e = 0; e < 4; e++) value[e] = alpha * sum[e];
        if (reads_c) {
            Four<C> before = *(const Four<C> *)(c + row + g.ldc * column);
#pragma unroll
            for (int e = 0; e < 4; e++) value[e] = fused(beta, To<S>::from(before.v[e]), value[e]);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (ACTIVATIONS && g.flags & EPILOGUE) value[e] = activated(row + e, column, value[e]);
            if (SCALED && g.scale_d) value[e] = value[e] * from_real(value[e], *g.scale_d);
            put(&stored.v[e], value[e]);
        }
        *(Four<D> *)(d + row + g.ldd * column) = stored;
    }
    __device__ S activated(int row, int column, S value) const {
        if (g.flags & BIAS) value = value + To<S>::from(((const BIAS_T *)g.bias)[(g.flags & BIAS_OF_COLUMN ? column : row) + g.stride_bias * blockIdx.z]);
        auto x = as_real(value);
        if (g.flags & (RELU | GELU)) {
            if (g.flags & STORE_AUX) store_aux(row, column, value);
            return from_real(value, g.flags & RELU ? (x > 0 || x != x ? x : decltype(x)(0)) : gelu(x));
        }
        if (g.flags & RELU_GRADIENT) {
            const unsigned char *mask = (const unsigned char *)g.aux;
            i64 bit = row + g.ld_aux * column + 8 * g.stride_aux * blockIdx.z;
            return from_real(value, mask[bit >> 3] >> (bit & 7) & 1 ? x : decltype(x)(0));
        }
        if (g.flags & GELU_GRADIENT) {
            auto before = as_real(To<S>::from(((const D *)g.aux)[row + g.ld_aux * column + g.stride_aux * blockIdx.z]));
            return from_real(value, x * gelu_gradient(before));
        }
        return value;
    }
    // Of GELU the value before it; of ReLU one bit, which other threads' stores share a word with.
    __device__ void store_aux(int row, int column, S value) const {
        if (g.flags & GELU) {
            put((D *)g.aux + row + g.ld_aux * column + g.stride_aux * blockIdx.z, value);
            return;
        }
        i64 bit = row + g.ld_aux * column + 8 * g.stride_aux * blockIdx.z;
        unsigned *word = (unsigned *)g.aux + (bit >> 5);
        if (as_real(value) > 0) atomicOr(word, 1u << (bit & 31));
        else atomicAnd(word, ~(1u << (bit & 31)));
    }
};

// Some columns of a block's tile, in shared memory, go through the epilogue: by a loop, since its code is long, and row by row, so that a warp's stores are together.
template <int ROWS, int COLUMNS, int THREADS, class E, class V, class COLUMN>
__device__ __forceinline__ void store_columns(const E &epilogue, const V (*slab)[ROWS + 4], int first_row, COLUMN column) {
    constexpr int FOURS = ROWS / 4;
#pragma unroll 1
    for (int at = threadIdx.x; at < FOURS * COLUMNS; at += THREADS) {
        const Four<V> sums = *(const Four<V> *)&slab[at / FOURS][at % FOURS * 4];
        SCALE scaled[4] = {(SCALE)sums.v[0], (SCALE)sums.v[1], (SCALE)sums.v[2], (SCALE)sums.v[3]};
        epilogue.store4(first_row + at % FOURS * 4, column(at / FOURS), scaled);
    }
}
