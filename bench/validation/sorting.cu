// Steps of sorts: radix counting and scattering, bitonic in shared and in global memory, merging, ranking.

extern "C" __global__ void radix_count(unsigned *counts, const unsigned *keys, int n, int shift) {
    __shared__ unsigned bins[16];
    if (threadIdx.x < 16) bins[threadIdx.x] = 0;
    __syncthreads();
    int first = blockIdx.x * 1024;
    for (int i = first + threadIdx.x; i < first + 1024; i += 256) atomicAdd(&bins[(keys[i] >> shift) & 15], 1u);
    __syncthreads();
    if (threadIdx.x < 16) counts[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}

// Stable: each warp ranks its keys by ballots, warps of the block follow each other.
extern "C" __global__ void radix_scatter(unsigned *dst, const unsigned *keys, const unsigned *starts, int shift) {
    __shared__ unsigned counts[8][16];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    unsigned key = keys[blockIdx.x * 256 + t], digit = (key >> shift) & 15, same = ~0u;
    for (int bit = 0; bit < 4; ++bit) {
        unsigned votes = __ballot_sync(~0u, digit >> bit & 1);
        same &= digit >> bit & 1 ? votes : ~votes;
    }
    if (lane < 16) counts[warp][lane] = 0;
    __syncwarp();
    unsigned rank = __popc(same & ((1u << lane) - 1));
    if (rank == 0) counts[warp][digit] = __popc(same);
    __syncthreads();
    if (t < 16) {
        unsigned at = starts[t * gridDim.x + blockIdx.x];
        for (int w = 0; w < 8; ++w) {
            unsigned c = counts[w][t];
            counts[w][t] = at;
            at += c;
        }
    }
    __syncthreads();
    dst[counts[warp][digit] + rank] = key;
}

extern "C" __global__ void bitonic_shared(int *data) {
    __shared__ int s[1024];
    int t = threadIdx.x;
    s[t] = data[blockIdx.x * 1024 + t];
    s[t + 512] = data[blockIdx.x * 1024 + t + 512];
    for (int k = 2; k <= 1024; k *= 2)
        for (int j = k / 2; j; j /= 2) {
            __syncthreads();
            int i = 2 * t - (t & (j - 1)), a = s[i], b = s[i + j];
            if ((a > b) == ((i & k) == 0)) {
                s[i] = b;
                s[i + j] = a;
            }
        }
    __syncthreads();
    data[blockIdx.x * 1024 + t] = s[t];
    data[blockIdx.x * 1024 + t + 512] = s[t + 512];
}

extern "C" __global__ void bitonic_step(int *data, int j, int k) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, i = 2 * t - (t & (j - 1)), a = data[i], b = data[i + j];
    if ((a > b) == ((i & k) == 0)) {
        data[i] = b;
        data[i + j] = a;
    }
}

// Each thread finds by bisection where its eight outputs begin in both runs, then merges them.
extern "C" __global__ void merge_runs(int *dst, const int *a, const int *b, int n) {
    int diagonal = 8 * (blockIdx.x * blockDim.x + threadIdx.x), low = max(0, diagonal - n), high = min(diagonal, n);
    while (low < high) {
        int middle = (low + high) / 2;
        if (a[middle] <= b[diagonal - 1 - middle]) low = middle + 1;
        else high = middle;
    }
    int i = low, j = diagonal - low;
    for (int k = 0; k < 8; ++k) {
        bool left = j >= n || (i < n && a[i] <= b[j]);
        dst[diagonal + k] = left ? a[i++] : b[j++];
    }
}

extern "C" __global__ void search_sorted(int *places, const int *sorted, const int *queries, int n, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int low = 0, high = n, q = queries[i];
    while (low < high) {
        int middle = (low + high) / 2;
        if (sorted[middle] < q) low = middle + 1;
        else high = middle;
    }
    places[i] = low;
}
