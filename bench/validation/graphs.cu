// Sparse matrices and graphs: products in three formats, levels, ranks, relaxations, triangles.

extern "C" __global__ void spmv_rows(float *y, const int *starts, const int *columns, const float *values, const float *x, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = starts[row]; i < starts[row + 1]; ++i) sum += values[i] * x[columns[i]];
    y[row] = sum;
}

extern "C" __global__ void spmv_groups(float *y, const int *starts, const int *columns, const float *values, const float *x, int rows) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 8, lane = threadIdx.x % 8;
    float sum = 0.0f;
    if (row < rows)
        for (int i = starts[row] + lane; i < starts[row + 1]; i += 8) sum += values[i] * x[columns[i]];
    for (int d = 4; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d, 8);
    if (row < rows && lane == 0) y[row] = sum;
}

extern "C" __global__ void spmv_ell(float *y, const int *columns, const float *values, const float *x, int rows, int width) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int k = 0; k < width; ++k) {
        int column = columns[k * rows + row];
        if (column >= 0) sum += values[k * rows + row] * x[column];
    }
    y[row] = sum;
}

extern "C" __global__ void spmv_triples(float *y, const int *rows, const int *columns, const float *values, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&y[rows[i]], values[i] * x[columns[i]]);
}

extern "C" __global__ void bfs_frontier(int *level, int *next, int *count, const int *frontier, int size, const int *starts, const int *edges, int depth) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int node = frontier[i];
    for (int e = starts[node]; e < starts[node + 1]; ++e)
        if (atomicCAS(&level[edges[e]], -1, depth) == -1) next[atomicAdd(count, 1)] = edges[e];
}

extern "C" __global__ void bfs_pull(int *reached, const int *level, const int *starts, const int *edges, int nodes, int depth) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes) return;
    int now = level[node];
    if (now < 0)
        for (int e = starts[node]; e < starts[node + 1]; ++e)
            if (level[edges[e]] == depth - 1) {
                now = depth;
                break;
            }
    reached[node] = now;
}

extern "C" __global__ void pagerank_pull(float *dst, const float *rank, const float *share, const int *starts, const int *edges, int nodes) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes) return;
    float sum = 0.0f;
    for (int e = starts[node]; e < starts[node + 1]; ++e) sum += rank[edges[e]] * share[edges[e]];
    dst[node] = 0.15f / nodes + 0.85f * sum;
}

extern "C" __global__ void relax_edges(int *distance, const int *from, const int *source, const int *target, const int *weight, int edges) {
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e < edges) atomicMin(&distance[target[e]], from[source[e]] + weight[e]);
}

// Neighbours of both ends of an edge in common; lists are sorted.
extern "C" __global__ void count_triangles(int *counts, const int *source, const int *target, const int *starts, const int *edges, int n) {
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= n) return;
    int i = starts[source[e]], i_end = starts[source[e] + 1], j = starts[target[e]], j_end = starts[target[e] + 1], found = 0;
    while (i < i_end && j < j_end) {
        int a = edges[i], b = edges[j];
        found += a == b;
        i += a <= b;
        j += b <= a;
    }
    counts[e] = found;
}
