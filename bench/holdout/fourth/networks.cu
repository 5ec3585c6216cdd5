// Graphs in compressed rows, and products of sparse with dense matrices.
typedef unsigned long long u64;

__device__ unsigned mixed(unsigned x) {
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
    return x ^ x >> 16;
}

// The label that most neighbours have: a warp a node, a small table of counts in shared memory.
extern "C" __global__ void __launch_bounds__(128) label_propagate(int *after, const int *label, const int *first, const int *edges, int nodes) {
    __shared__ int key[4][128], count[4][128];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, node = blockIdx.x * 4 + warp;
    if (node >= nodes) return;
    for (int k = lane; k < 128; k += 32) key[warp][k] = -1, count[warp][k] = 0;
    __syncwarp();
    for (int e = first[node] + lane; e < first[node + 1]; e += 32) {
        int mine = label[edges[e]], at = mixed(mine) & 127;
        while (true) {
            int seen = atomicCAS(&key[warp][at], -1, mine);
            if (seen == -1 || seen == mine) break;
            at = (at + 1) & 127;
        }
        atomicAdd(&count[warp][at], 1);
    }
    __syncwarp();
    u64 best = 0;
    for (int k = lane; k < 128; k += 32)
        if (count[warp][k]) best = max(best, (u64)count[warp][k] << 32 | (unsigned)~key[warp][k]);
    for (int d = 16; d; d /= 2) best = max(best, __shfl_xor_sync(~0u, best, d));
    if (lane == 0) after[node] = best ? ~(int)best : label[node];
}

// A round of Luby's independent set: a node enters if its number is the least among its undecided neighbours.
extern "C" __global__ void luby_round(int *state, const int *before, const int *first, const int *edges, int nodes, unsigned seed) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes || before[node] != 0) return;
    unsigned mine = mixed(node ^ seed);
    for (int e = first[node]; e < first[node + 1]; ++e) {
        int other = edges[e];
        if (before[other] == 1) {
            state[node] = 2;
            return;
        }
        if (before[other] == 0 && mixed(other ^ seed) <= mine && other != node) return;
    }
    state[node] = 1;
}

// Brandes' dependencies of one level from the next: a thread a node.
extern "C" __global__ void brandes_backward(float *delta, const int *depth, const float *paths, const int *first, const int *edges, int nodes, int level) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes || depth[node] != level) return;
    float sum = 0.0f;
    for (int e = first[node]; e < first[node + 1]; ++e) {
        int other = edges[e];
        if (depth[other] == level + 1) sum += paths[node] / paths[other] * (1.0f + delta[other]);
    }
    delta[node] = sum;
}

// Jaccard's coefficient of each edge's ends: neighbours of the shorter list sought in the longer.
extern "C" __global__ void jaccard_edges(float *out, const int2 *pairs, const int *first, const int *edges, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int a = pairs[i].x, b = pairs[i].y, da = first[a + 1] - first[a], db = first[b + 1] - first[b], both = 0;
    if (da > db) {
        int swap = a;
        a = b, b = swap;
    }
    for (int e = first[a]; e < first[a + 1]; ++e) {
        int goal = edges[e], low = first[b], high = first[b + 1];
        while (low < high) {
            int middle = (low + high) / 2;
            if (edges[middle] < goal) low = middle + 1;
            else high = middle;
        }
        both += low < first[b + 1] && edges[low] == goal;
    }
    out[i] = (float)both / (da + db - both);
}

// Walks of some steps to random neighbours, every place kept.
extern "C" __global__ void random_walks(int *path, const int *first, const int *edges, int walks, int nodes, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= walks) return;
    int at = i % nodes;
    unsigned state = mixed(i + 1);
    for (int s = 0; s < steps; ++s) {
        path[s * walks + i] = at;
        int degree = first[at + 1] - first[at];
        state = state * 1664525u + 1013904223u;
        if (degree) at = edges[first[at] + __umulhi(state, degree)];
    }
}

// Attention over neighbours: a warp a node, weights in two passes, 64 channels.
extern "C" __global__ void __launch_bounds__(256) gat_aggregate(float2 *out, const float2 *features, const float *source, const float *target, const int *first, const int *edges, int nodes) {
    int node = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (node >= nodes) return;
    int from = first[node], end = first[node + 1];
    float most = -1e30f, sum = 0.0f, own = target[node];
    auto score = [&](int e) {
        float s = source[edges[e]] + own;
        return s > 0.0f ? s : 0.2f * s;
    };
    for (int e = from + lane; e < end; e += 32) most = fmaxf(most, score(e));
    for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    float2 total = make_float2(0, 0);
    for (int base = from; base < end; base += 32) {
        float w = base + lane < end ? __expf(score(base + lane) - most) : 0.0f;
        int other = base + lane < end ? edges[base + lane] : 0;
        sum += w;
        for (int k = 0; k < min(32, end - base); ++k) {
            float weight = __shfl_sync(~0u, w, k);
            float2 f = features[(long long)__shfl_sync(~0u, other, k) * 32 + lane];
            total.x += weight * f.x, total.y += weight * f.y;
        }
    }
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    out[(long long)node * 32 + lane] = from < end ? make_float2(total.x / sum, total.y / sum) : make_float2(0, 0);
}

// The lightest edge that leaves each component, by atomic minima of 64 bits.
extern "C" __global__ void boruvka_edges(u64 *lightest, const int *component, const int2 *edges, const unsigned *weight, int n) {
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= n) return;
    int a = component[edges[e].x], b = component[edges[e].y];
    if (a == b) return;
    u64 mine = (u64)weight[e] << 32 | e;
    if (mine < lightest[a]) atomicMin(&lightest[a], mine);
    if (mine < lightest[b]) atomicMin(&lightest[b], mine);
}

// Dense products at the places of a sparse matrix: a quarter of a warp an entry.
extern "C" __global__ void sddmm(float *out, const int *row, const int *column, const float4 *a, const float4 *b, int n, int depth) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) / 8, lane = threadIdx.x % 8;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = lane; k < depth / 4; k += 8) {
        float4 x = a[(long long)row[i] * (depth / 4) + k], y = b[(long long)column[i] * (depth / 4) + k];
        sum += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
    }
    for (int d = 4; d; d /= 2) sum += __shfl_xor_sync(0xffu << (threadIdx.x % 32 / 8 * 8), sum, d);
    if (lane == 0) out[i] = sum;
}

// A sparse matrix by a dense one: a block a row, columns and values staged in shared memory.
extern "C" __global__ void __launch_bounds__(128) spmm_rows(float *out, const int *first, const int *column, const float *value, const float *b, int n) {
    __shared__ int where[128];
    __shared__ float what[128];
    int row = blockIdx.x, t = threadIdx.x;
    for (int c = t; c < n; c += 128) {
        float sum = 0.0f;
        for (int base = first[row]; base < first[row + 1]; base += 128) {
            int count = min(128, first[row + 1] - base);
            __syncthreads();
            if (t < count) where[t] = column[base + t], what[t] = value[base + t];
            __syncthreads();
            for (int k = 0; k < count; ++k) sum += what[k] * b[(long long)where[k] * n + c];
        }
        out[(long long)row * n + c] = sum;
    }
}
