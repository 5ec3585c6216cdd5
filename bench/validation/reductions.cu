// Sums, maxima, scans, histograms and compaction.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

extern "C" __global__ void sum_two_level(float *total, const float4 *src, int n) {
    __shared__ float parts[8];
    float sum = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        float4 v = src[i];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 8) {
        sum = parts[threadIdx.x];
        for (int d = 4; d; d /= 2) sum += __shfl_down_sync(0xff, sum, d);
        if (threadIdx.x == 0) atomicAdd(total, sum);
    }
}

extern "C" __global__ void sum_group_tiles(int *sums, const int *src, int n) {
    namespace cg = cooperative_groups;
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    __shared__ int parts[8];
    int sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += src[i];
    sum = cg::reduce(warp, sum, cg::plus<int>());
    if (warp.thread_rank() == 0) parts[warp.meta_group_rank()] = sum;
    block.sync();
    if (block.thread_rank() == 0) {
        int all = 0;
        for (int w = 0; w < 8; ++w) all += parts[w];
        sums[blockIdx.x] = all;
    }
}

// The largest value and where it is, by a tree in shared memory.
extern "C" __global__ void argmax_block(float *values, int *places, const float *src, int n) {
    __shared__ float v[256];
    __shared__ int p[256];
    int t = threadIdx.x;
    float best = -1e30f;
    int place = -1;
    for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256)
        if (src[i] > best) {
            best = src[i];
            place = i;
        }
    v[t] = best;
    p[t] = place;
    for (int d = 128; d; d /= 2) {
        __syncthreads();
        if (t < d && (v[t + d] > v[t] || (v[t + d] == v[t] && p[t + d] < p[t]))) {
            v[t] = v[t + d];
            p[t] = p[t + d];
        }
    }
    if (t == 0) {
        values[blockIdx.x] = v[0];
        places[blockIdx.x] = p[0];
    }
}

extern "C" __global__ void segment_sums(int *sums, const int *values, const int *starts, int segments) {
    int segment = (blockIdx.x * blockDim.x + threadIdx.x) / 8, lane = threadIdx.x % 8;
    int sum = 0;
    if (segment < segments)
        for (int i = starts[segment] + lane; i < starts[segment + 1]; i += 8) sum += values[i];
    for (int d = 4; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d, 8);
    if (segment < segments && lane == 0) sums[segment] = sum;
}

extern "C" __global__ void scan_tiles(int *dst, int *totals, const int *src, int n) {
    __shared__ int warps[32];
    int i = blockIdx.x * 1024 + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int v = i < n ? src[i] : 0;
    for (int d = 1; d < 32; d *= 2) {
        int left = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v += left;
    }
    if (lane == 31) warps[warp] = v;
    __syncthreads();
    if (warp == 0) {
        int w = warps[lane];
        for (int d = 1; d < 32; d *= 2) {
            int left = __shfl_up_sync(~0u, w, d);
            if (lane >= d) w += left;
        }
        warps[lane] = w;
    }
    __syncthreads();
    if (warp) v += warps[warp - 1];
    if (i < n) dst[i] = v;
    if (threadIdx.x == 1023) totals[blockIdx.x] = v;
}

extern "C" __global__ void scan_add_offsets(int4 *data, const int *offsets) {
    if (blockIdx.x == 0) return;
    int4 v = data[blockIdx.x * 256 + threadIdx.x];
    int o = offsets[blockIdx.x - 1];
    data[blockIdx.x * 256 + threadIdx.x] = make_int4(v.x + o, v.y + o, v.z + o, v.w + o);
}

extern "C" __global__ void histogram_bytes(unsigned *bins, const uchar4 *src, int n) {
    __shared__ unsigned mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        uchar4 v = src[i];
        atomicAdd(&mine[v.x], 1u);
        atomicAdd(&mine[v.y], 1u);
        atomicAdd(&mine[v.z], 1u);
        atomicAdd(&mine[v.w], 1u);
    }
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

extern "C" __global__ void histogram_wide(unsigned *bins, const unsigned *src, int n, int shift) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[src[i] >> shift], 1u);
}

extern "C" __global__ void keep_even(int *dst, int *count, const int *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    bool keep = i < n && src[i] % 2 == 0;
    unsigned votes = __ballot_sync(~0u, keep);
    int base = 0;
    if (lane == 0 && votes) base = atomicAdd(count, __popc(votes));
    base = __shfl_sync(~0u, base, 0);
    if (keep) dst[base + __popc(votes & ((1u << lane) - 1))] = src[i];
}

// Mean and squared distance of rows of doubles by Welford's update.
extern "C" __global__ void moments_double(double *mean, double *spread, const double *src, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    double m = 0.0, s = 0.0;
    int count = 0;
    for (int i = t; i < n; i += threads) {
        double d = src[i] - m;
        m += d / ++count;
        s += d * (src[i] - m);
    }
    mean[t] = m;
    spread[t] = s;
}
