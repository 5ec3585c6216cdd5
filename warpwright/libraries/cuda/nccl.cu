// Moves between devices: elements of one or more buffers are combined and stored in one or more buffers.
//
// Macros: KERNEL its name; ELEMENT, SUM the type of combination; OPERATION 0 sum, 1 product, 2 maximum, 3 minimum, -1 none: each move has one source;
// SCALES 0, 1 to multiply the result, 2 to divide it by the argument scale; MOVES, BUFFERS of one launch at most.
// What the macros rule out is not compiled, and only the loops over vectors are unrolled: the rest moves a few elements, and unrolling it would
// double the kernel.
#include "types.cuh"

struct Move {
    const ELEMENT *source[BUFFERS];
    ELEMENT *target[BUFFERS];
    i64 count;
    int sources, targets;
};
struct Moves { Move move[MOVES]; };

#if __CUDA_ARCH__ >= 700
#define IN_PLACE __grid_constant__
#else
#define IN_PLACE
#endif
constexpr int PER_VECTOR = 16 / sizeof(ELEMENT);
union Vector { uint4 whole; ELEMENT v[PER_VECTOR]; };

template <class T> __device__ __forceinline__ SUM read(T v) { return (SUM)v; }
__device__ __forceinline__ SUM read(half_t v) { return (SUM)half_to_float(v.bits); }
__device__ __forceinline__ SUM read(bfloat_t v) { return (SUM)To<float>::from(v); }
template <class T> __device__ __forceinline__ void write(T *place, SUM v) { *place = (T)v; }
__device__ __forceinline__ void write(half_t *place, SUM v) { place->bits = float_to_half((float)v); }
__device__ __forceinline__ void write(bfloat_t *place, SUM v) { place->bits = float_to_bfloat((float)v); }
__device__ __forceinline__ SUM combined(SUM a, SUM b) {
    if (OPERATION == 0) return a + b;
    if (OPERATION == 1) return a * b;
    if (OPERATION == 2) return a > b || a != a ? a : b;
    return a < b || a != a ? a : b;
}

// A premultiplied sum, or an average.
__device__ __forceinline__ SUM finished(SUM sum, double scale) {
    if (SCALES == 0) return sum;
    return SCALES == 1 ? (SUM)(sum * (SUM)scale) : sum / (SUM)scale;
}

// vectors: every buffer is aligned to 16 bytes.
extern "C" __global__ void KERNEL(const IN_PLACE Moves moves, double scale, int vectors) {
    const Move &m = moves.move[blockIdx.y];
    const i64 threads = (i64)gridDim.x * blockDim.x, thread = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    const i64 whole = vectors ? m.count / PER_VECTOR : 0;
    for (i64 at = thread; at < whole; at += threads) {
        Vector first;
        first.whole = ((const uint4 *)m.source[0])[at];
        if (OPERATION >= 0 && (m.sources > 1 || SCALES)) {
            SUM sums[PER_VECTOR];
#pragma unroll
            for (int e = 0; e < PER_VECTOR; e++) sums[e] = read(first.v[e]);
            for (int s = 1; s < m.sources; s++) {
                Vector next;
                next.whole = ((const uint4 *)m.source[s])[at];
#pragma unroll
                for (int e = 0; e < PER_VECTOR; e++) sums[e] = combined(sums[e], read(next.v[e]));
            }
#pragma unroll
            for (int e = 0; e < PER_VECTOR; e++) write(&first.v[e], finished(sums[e], scale));
        }
        for (int t = 0; t < m.targets; t++) ((uint4 *)m.target[t])[at] = first.whole;
    }
#pragma unroll 1
    for (i64 at = whole * PER_VECTOR + thread; at < m.count; at += threads) {
        ELEMENT value = m.source[0][at];
        if (OPERATION >= 0 && (m.sources > 1 || SCALES)) {
            SUM sum = read(value);
#pragma unroll 1
            for (int s = 1; s < m.sources; s++) sum = combined(sum, read(m.source[s][at]));
            write(&value, finished(sum, scale));
        }
#pragma unroll 1
        for (int t = 0; t < m.targets; t++) m.target[t][at] = value;
    }
}
