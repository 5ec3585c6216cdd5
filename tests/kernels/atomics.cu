// Atomics in global and shared memory: every operation on int, unsigned, 64-bit, float, double and half2.
#include <cuda_fp16.h>

extern "C" __global__ void atomics_global(int *cells, int *olds, const int *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int value = src[i];
    unsigned *unsigned_cells = (unsigned *)cells;
    atomicAdd(&cells[0], value);
    atomicSub(&cells[1], value);
    atomicMin(&cells[2], value);
    atomicMax(&cells[3], value);
    atomicMin(&unsigned_cells[4], (unsigned)value);
    atomicMax(&unsigned_cells[5], (unsigned)value);
    atomicAnd(&cells[6], value | 0x0ff0);
    atomicOr(&cells[7], value & 0x11110000);
    atomicXor(&cells[8], value);
    atomicInc(&unsigned_cells[9], 100u);
    atomicDec(&unsigned_cells[10], 77u);
    olds[i] = atomicExch(&cells[11], value);
}

extern "C" __global__ void atomics_shared(int *dst, const int *src) {
    __shared__ int cells[16];
    unsigned *unsigned_cells = (unsigned *)cells;
    int t = threadIdx.x;
    if (t < 16) cells[t] = t == 6 ? -1 : 0;
    __syncthreads();
    int value = src[blockIdx.x * blockDim.x + t];
    atomicAdd(&cells[0], value);
    atomicSub(&cells[1], value);
    atomicMin(&cells[2], value);
    atomicMax(&cells[3], value);
    atomicMin(&unsigned_cells[4], (unsigned)value);
    atomicMax(&unsigned_cells[5], (unsigned)value);
    atomicAnd(&cells[6], value | 0x0ff0);
    atomicOr(&cells[7], value & 0x11110000);
    atomicXor(&cells[8], value);
    atomicInc(&unsigned_cells[9], 100u);
    atomicDec(&unsigned_cells[10], 77u);
    int ticket = atomicAdd(&cells[11], 1);
    atomicExch(&cells[12], 1234);
    atomicCAS(&cells[13], 0, 4321);
    atomicAdd(&cells[14], ticket);
    __syncthreads();
    if (t < 16) dst[blockIdx.x * 16 + t] = cells[t];
}

extern "C" __global__ void atomics_wide(unsigned long long *cells, long long *signed_cells,
                                        const unsigned long long *src, int n) {
    __shared__ unsigned long long local[3];
    if (threadIdx.x < 3) local[threadIdx.x] = threadIdx.x == 2 ? ~0ull : 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned long long value = src[i];
        atomicAdd(&cells[0], value);
        atomicMin(&cells[1], value);
        atomicMax(&cells[2], value);
        atomicAnd(&cells[3], value | 0xf0f0);
        atomicOr(&cells[4], value & 0x1111000000001111ull);
        atomicXor(&cells[5], value);
        atomicMin(&signed_cells[0], (long long)value);
        atomicMax(&signed_cells[1], (long long)value);
        atomicAdd(&local[0], value);
        atomicMax(&local[1], value);
        atomicMin(&local[2], value);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(&cells[6], local[0]);
        atomicMax(&cells[7], local[1]);
        atomicMin(&cells[8], local[2]);
    }
}

extern "C" __global__ void atomics_float(float *single, double *twice, const float *src, int n) {
    __shared__ float local_single;
    __shared__ double local_twice;
    if (threadIdx.x == 0) {
        local_single = 0.0f;
        local_twice = 0.0;
    }
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&single[i & 3], src[i]);
        atomicAdd(&twice[i & 3], (double)src[i]);
        atomicAdd(&local_single, src[i]);
        atomicAdd(&local_twice, (double)src[i]);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(&single[4], local_single);
        atomicAdd(&twice[4], local_twice);
    }
}

extern "C" __global__ void atomics_half(__half2 *pairs, __half *single, const __half2 *src) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&pairs[i & 31], src[i]);
    atomicAdd(&single[i & 63], __low2half(src[i]));
}

// Compare-and-swap loops: products modulo a prime, and a float maximum that has no atomic of its own.
extern "C" __global__ void atomics_cas_loop(unsigned *product, float *maximum, unsigned long long *packed,
                                            const unsigned *src) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned factor = src[i] % 65520u + 1u, seen = product[i & 7], assumed;
    do {
        assumed = seen;
        seen = atomicCAS(&product[i & 7], assumed, assumed * factor % 65521u);
    } while (seen != assumed);
    float candidate = (float)(int)src[i];
    int bits = __float_as_int(*maximum);
    while (candidate > __int_as_float(bits)) {
        int before = atomicCAS((int *)maximum, bits, __float_as_int(candidate));
        if (before == bits) break;
        bits = before;
    }
    unsigned long long old = *packed, next;
    do {
        next = old;
        old = atomicCAS(packed, next, ((next >> 32) + 1) << 32 | ((unsigned)next ^ src[i]));
    } while (old != next);
}
