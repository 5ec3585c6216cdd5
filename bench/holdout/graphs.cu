// Graphs, keys and images where blocks meet in memory: unions, pushes, solves that wait for each other, depths, seeds.

__device__ int find_root(int *parent, int v) {
    int p = *(volatile int *)(parent + v);
    while (p != v) {
        int above = *(volatile int *)(parent + p);
        if (above != p) *(volatile int *)(parent + v) = above;  // halve the path
        v = p, p = above;
    }
    return v;
}
// Connected components: every edge joins two trees, the smaller root wins by compare-and-swap (ECL-CC).
extern "C" __global__ void join_trees(int *parent, const int2 *edges, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int a = find_root(parent, edges[i].x), b = find_root(parent, edges[i].y);
    while (a != b) {
        int high = max(a, b), low = min(a, b), was = atomicCAS(parent + high, high, low);
        if (was == high) break;
        a = find_root(parent, was), b = find_root(parent, low);
    }
}

// PageRank by pushes: every node gives its rank, in fixed point, to its neighbours with 64-bit atomics; a warp for a node.
extern "C" __global__ void push_ranks(unsigned long long *next, const unsigned long long *rank, const int *starts, const int *targets, int n) {
    int node = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (node >= n) return;
    int begin = starts[node], end = starts[node + 1];
    if (begin == end) return;
    unsigned long long share = rank[node] / (end - begin);
    for (int e = begin + lane; e < end; e += 32) atomicAdd(next + targets[e], share);
}

// A sparse triangular solve without levels: a warp for a row waits for the values it needs, as flags say they are there.
extern "C" __global__ void solve_triangle(volatile float *x, volatile int *ready, const int *starts, const int *columns, const float *values, const float *right, const float *diagonal, int n) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= n) return;
    float sum = 0.0f;
    for (int e = starts[row] + lane; e < starts[row + 1]; e += 32) {
        int c = columns[e];
        while (ready[c] == 0) {}
        __threadfence();
        sum += values[e] * x[c];
    }
    __syncwarp();
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (lane == 0) {
        x[row] = (right[row] - sum) / diagonal[row];
        __threadfence();
        ready[row] = 1;
    }
}

// Counts of skewed keys: lanes with the same key find each other, one of them adds for all.
extern "C" __global__ void count_matched(unsigned *counts, const int *keys, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int key = keys[i];
        unsigned same = __match_any_sync(__activemask(), key);
        if ((same & (1u << threadIdx.x % 32) - 1) == 0) atomicAdd(counts + key, __popc(same));
    }
}

// Points into a picture, the nearest kept by a 64-bit minimum of depth and colour.
extern "C" __global__ void draw_points(unsigned long long *picture, const float4 *points, int n, int width, int height) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = points[i];
    int x = (int)(p.x / p.z * width * 0.5f + width * 0.5f), y = (int)(p.y / p.z * width * 0.5f + height * 0.5f);
    if (p.z <= 0.0f || x < 0 || y < 0 || x >= width || y >= height) return;
    unsigned long long mine = (unsigned long long)__float_as_uint(p.z) << 32 | __float_as_uint(p.w);
    if (*(volatile unsigned long long *)(picture + y * width + x) > mine) atomicMin(picture + y * width + x, mine);
}

// One step of jump flooding: each pixel asks nine others for the nearest seed they know.
extern "C" __global__ void flood_step(int *dst, const int *src, int width, int height, int step) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, best = 1 << 30, who = -1;
    if (x >= width || y >= height) return;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx) {
            int u = x + dx * step, v = y + dy * step;
            if (u < 0 || v < 0 || u >= width || v >= height) continue;
            int seed = src[v * width + u];
            if (seed < 0) continue;
            int a = seed % width - x, b = seed / width - y, distance = a * a + b * b;
            if (distance < best) best = distance, who = seed;
        }
    dst[y * width + x] = who;
}
