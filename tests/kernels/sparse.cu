// Irregular kernels: CSR sparse product by row and by warp, a level of breadth-first search, substring search.
extern "C" __global__ void spmv_scalar(float *y, const int *row_start, const int *columns, const float *values,
                                       const float *x, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int k = row_start[row]; k < row_start[row + 1]; ++k) sum += values[k] * x[columns[k]];
    y[row] = sum;
}

extern "C" __global__ void spmv_warp(float *y, const int *row_start, const int *columns, const float *values,
                                     const float *__restrict__ x, int rows) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int k = row_start[row] + lane; k < row_start[row + 1]; k += 32) sum += values[k] * x[columns[k]];
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (lane == 0) y[row] = sum;
}

extern "C" __global__ void bfs_level(int *level, int *next_frontier, int *next_count, const int *frontier, int count,
                                     const int *row_start, const int *columns, int depth) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int vertex = frontier[i];
    for (int k = row_start[vertex]; k < row_start[vertex + 1]; ++k) {
        int neighbour = columns[k];
        if (atomicCAS(&level[neighbour], -1, depth) == -1) next_frontier[atomicAdd(next_count, 1)] = neighbour;
    }
}

extern "C" __global__ void string_search(unsigned *found, const char *text, int length, const char *pattern,
                                         int pattern_length) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool match = i + pattern_length <= length;
    for (int k = 0; match && k < pattern_length; ++k)
        if (text[i + k] != pattern[k]) match = false;
    unsigned votes = __ballot_sync(0xffffffffu, match);
    if ((threadIdx.x & 31) == 0) found[i / 32] = votes;
}
