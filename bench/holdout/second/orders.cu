// Sorting, scanning, merging, and graphs and sparse matrices in forms less usual.

// Ranks of four-bit digits within a block: eight warps, ballots, counts in shared memory.
extern "C" __global__ void __launch_bounds__(256) digit_ranks(unsigned *sorted, unsigned *counts, const unsigned *keys, int shift) {
    __shared__ unsigned warp_counts[16][8], starts[16][8], out[256];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    unsigned key = keys[blockIdx.x * 256 + t], digit = key >> shift & 15, same = ~0u;
    #pragma unroll
    for (int b = 0; b < 4; ++b) {
        unsigned set = __ballot_sync(~0u, digit >> b & 1);
        same &= digit >> b & 1 ? set : ~set;
    }
    if (t < 128) warp_counts[t / 8][t % 8] = 0;
    __syncthreads();
    unsigned before = __popc(same & ((1u << lane) - 1));
    if (before == 0) warp_counts[digit][warp] = __popc(same);
    __syncthreads();
    if (t < 128) {
        unsigned v = ((unsigned *)warp_counts)[t], sum = v;
        for (int d = 1; d < 32; d *= 2) {
            unsigned u = __shfl_up_sync(~0u, sum, d);
            if (lane >= d) sum += u;
        }
        ((unsigned *)starts)[t] = sum - v;
        if (lane == 31) out[warp] = sum;
    }
    __syncthreads();
    if (t < 128) {
        unsigned base = 0;
        for (int w = 0; w < warp; ++w) base += out[w];
        ((unsigned *)starts)[t] += base;
    }
    __syncthreads();
    unsigned at = starts[digit][warp] + before;
    __syncthreads();
    out[at] = key;
    if (t < 16) counts[t * gridDim.x + blockIdx.x] = (t < 15 ? starts[t + 1][0] : 256) - starts[t][0];
    __syncthreads();
    sorted[blockIdx.x * 256 + t] = out[t];
}

// Merge of two sorted arrays: a thread finds its diagonal by bisection and merges eight.
extern "C" __global__ void merge_path(int *dst, const int *a, const int *b, int na, int nb) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (first >= na + nb) return;
    int low = max(0, first - nb), high = min(first, na);
    while (low < high) {
        int middle = (low + high) / 2;
        if (a[middle] <= b[first - middle - 1]) low = middle + 1;
        else high = middle;
    }
    int i = low, j = first - low;
    for (int k = first; k < min(first + 8, na + nb); ++k) dst[k] = j >= nb || (i < na && a[i] <= b[j]) ? a[i++] : b[j++];
}

// Prefix sums in one pass: each block looks back at those before it, a warp 32 of them at a time.
extern "C" __global__ void __launch_bounds__(128) scan_look_back(unsigned *dst, const unsigned *src, volatile unsigned long long *state, unsigned *ticket) {
    __shared__ unsigned sums[4], block, before;
    int t = threadIdx.x, lane = t % 32;
    if (t == 0) block = atomicAdd(ticket, 1);
    __syncthreads();
    uint4 v = ((const uint4 *)src)[block * 128 + t];
    unsigned mine = v.x + v.y + v.z + v.w, sum = mine;
    for (int d = 1; d < 32; d *= 2) {
        unsigned u = __shfl_up_sync(~0u, sum, d);
        if (lane >= d) sum += u;
    }
    if (lane == 31) sums[t / 32] = sum;
    __syncthreads();
    unsigned offset = sum - mine;
    for (int w = 0; w < t / 32; ++w) offset += sums[w];
    if (t < 32) {
        unsigned total = sums[0] + sums[1] + sums[2] + sums[3], found = 0;
        if (lane == 0) state[block] = (block ? 1ull : 2ull) << 32 | total;
        for (int at = (int)block - 1 - lane; block; at -= 32) {
            unsigned long long s = 2ull << 32;
            if (at >= 0) while (!((s = state[at]) >> 32)) {}
            __syncwarp();
            unsigned whole = __ballot_sync(~0u, s >> 32 == 2), part = whole && lane > __ffs(whole) - 1 ? 0 : (unsigned)s;
            for (int d = 16; d; d /= 2) part += __shfl_xor_sync(~0u, part, d);
            found += part;
            if (whole) break;
        }
        if (lane == 0) {
            state[block] = 2ull << 32 | (found + total);
            before = found;
        }
    }
    __syncthreads();
    offset += before;
    v.x += offset, v.y += v.x, v.z += v.y, v.w += v.z;
    ((uint4 *)dst)[block * 128 + t] = v;
}

// Sums within segments that flags begin, in a warp.
extern "C" __global__ void scan_segments(float *dst, const float *src, const unsigned char *flags, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    float v = i < n ? src[i] : 0.0f;
    unsigned heads = __ballot_sync(~0u, lane == 0 || (i < n && flags[i])), mine = heads & (~0u >> (31 - lane));
    int first = 31 - __clz(mine);
    for (int d = 1; d < 32; d *= 2) {
        float u = __shfl_up_sync(~0u, v, d);
        if (lane - d >= first) v += u;
    }
    if (i < n) dst[i] = v;
}

// Bitonic sort of 64 keys in a warp's registers, two a lane; blocks of three warps.
extern "C" __global__ void __launch_bounds__(96) sort_lanes(unsigned *keys) {
    int base = (blockIdx.x * 3 + threadIdx.x / 32) * 64, lane = threadIdx.x % 32;
    unsigned a = keys[base + lane], b = keys[base + lane + 32];
    #pragma unroll
    for (int size = 2; size <= 64; size *= 2) {
        #pragma unroll
        for (int d = size / 2; d; d /= 2) {
            if (d == 32) {
                unsigned lower = min(a, b);
                b = max(a, b), a = lower;
                continue;
            }
            unsigned p = __shfl_xor_sync(~0u, a, d), q = __shfl_xor_sync(~0u, b, d);
            bool up_a = size == 64 || (lane & size) == 0, up_b = size == 64 || ((lane + 32) & size) == 0, first = (lane & d) == 0;
            a = up_a == first ? min(a, p) : max(a, p);
            b = up_b == first ? min(b, q) : max(b, q);
        }
    }
    keys[base + lane] = a, keys[base + lane + 32] = b;
}

// A round of colouring: vertices whose number is the largest among uncoloured neighbours take the colour.
extern "C" __global__ void colour_round(int *colours, const int *first, const int *neighbours, const int *weights, const int *old, int vertices, int colour) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices || old[v] >= 0) return;
    int mine = weights[v];
    for (int e = first[v]; e < first[v + 1]; ++e) {
        int u = neighbours[e];
        if (old[u] < 0 && weights[u] > mine) return;
    }
    colours[v] = colour;
}

// Connected components: an edge hooks the larger root under the smaller with compare-and-swap (union-find with halved paths).
__device__ int root_of(int *parent, int v) {
    int up = parent[v];
    while (up != v) {
        int next = parent[up];
        if (next != up) parent[v] = next;
        v = up, up = next;
    }
    return v;
}
extern "C" __global__ void unite_edges(int *parent, const int2 *edges, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int a = root_of(parent, edges[i].x), b = root_of(parent, edges[i].y);
    while (a != b) {
        if (a < b) { int t = a; a = b, b = t; }
        int seen = atomicCAS(parent + a, a, b);
        if (seen == a) return;
        a = root_of(parent, seen), b = root_of(parent, b);
    }
}

// Sparse matrix of 4 x 4 blocks by a vector: a warp for a block row, 16 lanes for a block.
extern "C" __global__ void blocks_times(float *y, const int *first, const int *columns, const float *values, const float *x, int rows) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, i = lane / 4 % 4, j = lane % 4;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int b = first[row] + lane / 16; b < first[row + 1]; b += 2) sum += values[b * 16 + i * 4 + j] * x[columns[b] * 4 + j];
    sum += __shfl_xor_sync(~0u, sum, 16), sum += __shfl_xor_sync(~0u, sum, 1), sum += __shfl_xor_sync(~0u, sum, 2);
    if (lane < 16 && j == 0) y[row * 4 + i] = sum;
}

// The same product for a matrix of columns: a thread for a column adds to the rows.
extern "C" __global__ void columns_times(double *y, const int *first, const int *rows, const double *values, const double *x, int columns) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns) return;
    double v = x[c];
    for (int e = first[c]; e < first[c + 1]; ++e) atomicAdd(y + rows[e], values[e] * v);
}
