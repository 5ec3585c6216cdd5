// Scans: inclusive within a warp by shuffles, exclusive over a block (Blelloch), and prefix compaction.
extern "C" __global__ void scan_warp_inclusive(int *dst, const int *src) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x & 31;
    int value = src[i];
    for (int offset = 1; offset < 32; offset <<= 1) {
        int other = __shfl_up_sync(0xffffffffu, value, offset);
        if (lane >= offset) value += other;
    }
    dst[i] = value;
}

extern "C" __global__ void scan_block_exclusive(int *dst, int *sums, const int *src) {
    extern __shared__ int tree[];
    int t = threadIdx.x, n = 2 * blockDim.x, base = blockIdx.x * n;
    tree[2 * t] = src[base + 2 * t];
    tree[2 * t + 1] = src[base + 2 * t + 1];
    int offset = 1;
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1];
        offset <<= 1;
    }
    if (t == 0) {
        sums[blockIdx.x] = tree[n - 1];
        tree[n - 1] = 0;
    }
    for (int d = 1; d < n; d <<= 1) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
            int swap = tree[left];
            tree[left] = tree[right];
            tree[right] += swap;
        }
    }
    __syncthreads();
    dst[base + 2 * t] = tree[2 * t];
    dst[base + 2 * t + 1] = tree[2 * t + 1];
}

// Each block keeps, in order, its positive elements at the front of its own slice.
extern "C" __global__ void compact_positive(int *dst, int *counts, const int *src) {
    __shared__ int warp_base[33];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int value = src[i];
    unsigned keep = __ballot_sync(0xffffffffu, value > 0);
    if (lane == 0) warp_base[warp + 1] = __popc(keep);
    if (threadIdx.x == 0) warp_base[0] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w <= blockDim.x / 32; ++w) warp_base[w] += warp_base[w - 1];
        counts[blockIdx.x] = warp_base[blockDim.x / 32];
    }
    __syncthreads();
    if (value > 0) dst[blockIdx.x * blockDim.x + warp_base[warp] + __popc(keep & ((1u << lane) - 1))] = value;
}
