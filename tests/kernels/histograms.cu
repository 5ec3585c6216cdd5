// Histograms: straight into global memory, into shared memory per block, and privatised per warp.
extern "C" __global__ void histogram_global(unsigned *bins, const unsigned char *src, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&bins[src[i]], 1u);
}

extern "C" __global__ void histogram_shared(unsigned *bins, const unsigned char *src, int n) {
    __shared__ unsigned local[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) local[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&local[src[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        if (local[b]) atomicAdd(&bins[b], local[b]);
}

extern "C" __global__ void histogram_private(unsigned *bins, const uchar4 *src, int n) {
    extern __shared__ unsigned copies[];
    int warps = blockDim.x / 32;
    unsigned *mine = copies + 64 * (threadIdx.x / 32);
    for (int b = threadIdx.x; b < 64 * warps; b += blockDim.x) copies[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        uchar4 four = src[i];
        atomicAdd(&mine[four.x >> 2], 1u);
        atomicAdd(&mine[four.y >> 2], 1u);
        atomicAdd(&mine[four.z >> 2], 1u);
        atomicAdd(&mine[four.w >> 2], 1u);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < 64; b += blockDim.x) {
        unsigned sum = 0;
        for (int w = 0; w < warps; ++w) sum += copies[64 * w + b];
        atomicAdd(&bins[b], sum);
    }
}
