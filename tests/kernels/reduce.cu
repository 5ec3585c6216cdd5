// Reductions: shuffles within a warp, shared memory within a block, one atomic per block, and last-block-done.
__device__ __forceinline__ int warp_sum(int value) {
    for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

extern "C" __global__ void reduce_sum(int *total, const int *src, int n) {
    __shared__ int partial[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum += src[i];
    sum = warp_sum(sum);
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < (blockDim.x >> 5) ? partial[lane] : 0;
        sum = warp_sum(sum);
        if (lane == 0) atomicAdd(total, sum);
    }
}

extern "C" __global__ void reduce_max_shared(float *block_max, const float *src, int n) {
    extern __shared__ float scratch[];
    float best = -3.4e38f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        best = fmaxf(best, src[i]);
    scratch[threadIdx.x] = best;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half >>= 1) {
        if (threadIdx.x < half) scratch[threadIdx.x] = fmaxf(scratch[threadIdx.x], scratch[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0) block_max[blockIdx.x] = scratch[0];
}

extern "C" __global__ void reduce_last_block(unsigned long long *total, unsigned long long *partial,
                                             unsigned *finished, const unsigned *src, int n) {
    __shared__ unsigned long long scratch[128];
    __shared__ bool last;
    unsigned long long sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum += src[i];
    scratch[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half >>= 1) {
        if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = scratch[0];
        __threadfence();
        last = atomicInc(finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    sum = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += ((volatile unsigned long long *)partial)[i];
    scratch[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half >>= 1) {
        if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) *total = scratch[0];
}

extern "C" __global__ void reduce_xor_butterfly(unsigned *dst, const unsigned *src) {
    unsigned value = src[blockIdx.x * blockDim.x + threadIdx.x];
    for (int mask = 1; mask < 32; mask <<= 1) value ^= __shfl_xor_sync(0xffffffffu, value, mask) * 3u;
    dst[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

extern "C" __global__ void reduce_min_double(double *dst, const double *src) {
    double value = src[blockIdx.x * blockDim.x + threadIdx.x];
    for (int offset = 8; offset > 0; offset >>= 1)
        value = fmin(value, __shfl_down_sync(0xffffffffu, value, offset, 16));
    if ((threadIdx.x & 15) == 0) dst[(blockIdx.x * blockDim.x + threadIdx.x) >> 4] = value;
}
