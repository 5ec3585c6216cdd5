// Sorts in shared memory: bitonic, odd-even transposition, and stable 4-bit radix passes by splits and by matching.
extern "C" __global__ void sort_bitonic(int *keys) {
    extern __shared__ int tile[];
    int t = threadIdx.x, base = blockIdx.x * blockDim.x;
    tile[t] = keys[base + t];
    __syncthreads();
    for (int k = 2; k <= blockDim.x; k <<= 1) {
        for (int j = k >> 1; j > 0; j >>= 1) {
            int other = t ^ j;
            if (other > t) {
                int a = tile[t], b = tile[other];
                if ((a > b) == ((t & k) == 0)) {
                    tile[t] = b;
                    tile[other] = a;
                }
            }
            __syncthreads();
        }
    }
    keys[base + t] = tile[t];
}

extern "C" __global__ void sort_odd_even(float *keys, int n) {
    __shared__ float tile[128];
    int t = threadIdx.x, base = blockIdx.x * n;
    for (int i = t; i < n; i += blockDim.x) tile[i] = keys[base + i];
    __syncthreads();
    for (int phase = 0; phase < n; ++phase) {
        int i = 2 * t + (phase & 1);
        if (i + 1 < n) {
            float a = tile[i], b = tile[i + 1];
            tile[i] = fminf(a, b);
            tile[i + 1] = fmaxf(a, b);
        }
        __syncthreads();
    }
    for (int i = t; i < n; i += blockDim.x) keys[base + i] = tile[i];
}

// Four one-bit splits, each ranked by ballots: a stable sort by the digit at `shift`.
extern "C" __global__ void sort_radix_split(unsigned *keys, int shift) {
    __shared__ unsigned tile[128];
    __shared__ int zeros[5];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5, base = blockIdx.x * 128;
    unsigned key = keys[base + t];
    for (int bit = shift; bit < shift + 4; ++bit) {
        bool one = key >> bit & 1;
        unsigned below = __ballot_sync(0xffffffffu, !one);
        if (lane == 0) zeros[warp] = __popc(below);
        __syncthreads();
        int before = 0, total = 0;
        for (int w = 0; w < 4; ++w) {
            if (w < warp) before += zeros[w];
            total += zeros[w];
        }
        int rank = before + __popc(below & ((1u << lane) - 1));
        int target = one ? total + t - rank : rank;
        tile[target] = key;
        __syncthreads();
        key = tile[t];
    }
    keys[base + t] = key;
}

// One pass over 16 bins; lanes with the same digit find each other with match.any.
extern "C" __global__ void sort_radix_match(unsigned *dst, const unsigned *src, int shift) {
    __shared__ int count[16][4];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5, base = blockIdx.x * 128;
    if (t < 64) count[t >> 2][t & 3] = 0;
    __syncthreads();
    unsigned key = src[base + t], digit = key >> shift & 15;
    unsigned peers = __match_any_sync(0xffffffffu, digit);
    int rank = __popc(peers & ((1u << lane) - 1));
    if (rank == 0) count[digit][warp] = __popc(peers);
    __syncthreads();
    if (t == 0) {
        int sum = 0;
        for (int b = 0; b < 64; ++b) {
            int here = (&count[0][0])[b];
            (&count[0][0])[b] = sum;
            sum += here;
        }
    }
    __syncthreads();
    dst[base + count[digit][warp] + rank] = key;
}
