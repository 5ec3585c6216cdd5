// Discrete Fourier transforms of any size: Stockham stages of a radix each, in global memory. Macros: SCALAR the type in memory, REAL that of computation.
#include "types.cuh"

#define THREADS 256
typedef complex_t<REAL> Value;

struct Arguments {
    const void *from;
    void *to;
    i64 count;          // elements of all transforms
    int sizes[3];       // of one; 1 for missing dimensions, which are the first
    int embed[2];       // sizes of the last two dimensions in memory
    i64 step, distance; // elements between neighbours and between transforms
    int half;           // the last dimension has only its first half, the rest is its conjugate
    int real;           // elements in memory are real
};

__device__ __forceinline__ void split(const Arguments &g, i64 at, i64 &batch, int *index) {
    index[2] = (int)(at % g.sizes[2]), at /= g.sizes[2];
    index[1] = (int)(at % g.sizes[1]), at /= g.sizes[1];
    index[0] = (int)(at % g.sizes[0]), batch = at / g.sizes[0];
}
__device__ __forceinline__ i64 place(const Arguments &g, i64 batch, const int *index) {
    return batch * g.distance + (((i64)index[0] * g.embed[0] + index[1]) * g.embed[1] + index[2]) * g.step;
}

// From the caller's layout to complex numbers without gaps.
extern "C" __global__ void warpwright_fft_load(const Arguments g) {
    i64 at = blockIdx.x * (i64)THREADS + threadIdx.x, batch;
    if (at >= g.count) return;
    int index[3];
    split(g, at, batch, index);
    bool mirrored = g.half && index[2] > g.sizes[2] / 2;
    if (mirrored)
        for (int d = 0; d < 3; d++) index[d] = index[d] ? g.sizes[d] - index[d] : 0;
    i64 from = place(g, batch, index);
    const SCALAR *source = (const SCALAR *)g.from;
    Value v;
    if (g.real) v = {To<REAL>::from(source[from]), (REAL)0};
    else v = {To<REAL>::from(source[2 * from]), To<REAL>::from(source[2 * from + 1])};
    ((Value *)g.to)[at] = mirrored ? conjugate(v) : v;
}
extern "C" __global__ void warpwright_fft_store(const Arguments g) {
    i64 at = blockIdx.x * (i64)THREADS + threadIdx.x, batch;
    if (at >= g.count) return;
    int index[3];
    split(g, at, batch, index);
    if (g.half && index[2] > g.sizes[2] / 2) return;
    i64 to = place(g, batch, index);
    SCALAR *target = (SCALAR *)g.to;
    Value v = ((const Value *)g.from)[at];
    if (g.real) {
        put(target + to, v.x);
        return;
    }
    put(target + 2 * to, v.x);
    put(target + 2 * to + 1, v.y);
}

__device__ __forceinline__ void turn(float half_turns, float *s, float *c) { sincospif(half_turns, s, c); }
__device__ __forceinline__ void turn(double half_turns, double *s, double *c) { sincospi(half_turns, s, c); }
__device__ __forceinline__ Value root(i64 numerator, i64 denominator, int direction) {
    Value v;
    turn((REAL)(2 * direction * (double)numerator / (double)denominator), &v.y, &v.x);
    return v;
}

// One stage along a dimension: `done` is the product of the radices before it; lines are `inner` elements apart from element to element.
extern "C" __global__ void warpwright_fft_stage(const Value *from, Value *to, i64 count, int size, i64 inner, int done, int radix, int direction) {
    i64 at = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (at >= count) return;
    i64 line = at / (inner * size) * (inner * size) + at % inner;
    int out = (int)(at / inner % size);
    int k = out % (done * radix), first = out / (done * radix) * done + out % done;
    int apart = size / radix;
    Value sum = {}, factor = {(REAL)1, (REAL)0}, step = root(k, (i64)done * radix, direction);
    for (int r = 0; r < radix; r++) {
        // The factor by multiplication, and anew now and then, so that its error does not grow.
        if (r && r % 8 == 0) factor = root((i64)k * r % ((i64)done * radix), (i64)done * radix, direction);
        sum = fused(from[line + (first + (i64)r * apart) * inner], factor, sum);
        factor = factor * step;
    }
    to[at] = sum;
}
