// Types and helpers of the kernels for dense matrices, which are column-major, one block for each. Macros: ELEMENT float, double, c64 or c128.
#pragma once
#include "types.cuh"

#define THREADS 256
// Their loops are not unrolled: that would make them two to three times as long, and compiling them takes far longer than running them.
#define LOOP _Pragma("unroll 1") for
typedef ELEMENT T;
template <class X> struct RealOf { typedef X type; };
template <class X> struct RealOf<complex_t<X>> { typedef X type; };
typedef RealOf<ELEMENT>::type R;

__device__ __forceinline__ R absolute(float v) { return fabsf(v); }
__device__ __forceinline__ R absolute(double v) { return fabs(v); }
template <class X> __device__ __forceinline__ R absolute(complex_t<X> v) { return sqrt(v.x * v.x + v.y * v.y); }
__device__ __forceinline__ R real_part(float v) { return v; }
__device__ __forceinline__ R real_part(double v) { return v; }
template <class X> __device__ __forceinline__ R real_part(complex_t<X> v) { return v.x; }
__device__ __forceinline__ R norm2(float v) { return v * v; }
__device__ __forceinline__ R norm2(double v) { return v * v; }
template <class X> __device__ __forceinline__ R norm2(complex_t<X> v) { return v.x * v.x + v.y * v.y; }
__device__ __forceinline__ T real_value(R v) { return To<T>::from(Scalar<T>::of(v, 0)); }

// Matrices of a batch: an array of pointers, or one address and a stride.
struct Batch { T *address; T *const *pointers; i64 stride; };
__device__ __forceinline__ T *of(const Batch &b) { return b.pointers ? b.pointers[blockIdx.y] : b.address + b.stride * blockIdx.y; }

template <class V> __device__ V block_sum(V value) {
    __shared__ V values[THREADS];
    __syncthreads();
    values[threadIdx.x] = value;
    LOOP (int half = THREADS / 2; half; half >>= 1) {
        __syncthreads();
        if (threadIdx.x < half) values[threadIdx.x] = values[threadIdx.x] + values[threadIdx.x + half];
    }
    __syncthreads();
    V sum = values[0];
    __syncthreads();
    return sum;
}
