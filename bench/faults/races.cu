// Accesses of shared and global memory that nothing orders, and patterns that look so but are ordered.
#include "cases.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>
#include <cuda_pipeline.h>
#include <mma.h>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

// ---- Faulty: shared memory, barriers

__global__ void tree_sum(const int *x, int *y) {
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int step = 128; step > 0; step /= 2)
        if (t < step) s[t] += s[t + step];  //! tree_without_barrier racecheck
    if (t == 0) *y = s[0];
}
CASE(tree_without_barrier) { tree_sum<<<1, 256>>>(counted<int>(256), zeros<int>(1)); }

__global__ void scan_in_place(const int *x, int *y) {
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int step = 1; step < 128; step *= 2) {
        int left = t >= step ? s[t - step] : 0;  //? scan_without_second_barrier
        s[t] += left;  //! scan_without_second_barrier racecheck
        __syncthreads();
    }
    y[t] = s[t];
}
CASE(scan_without_second_barrier) { scan_in_place<<<1, 128>>>(counted<int>(128), zeros<int>(128)); }

__global__ void transpose(const float *x, float *y) {
    __shared__ float tile[32][33];
    int i = threadIdx.x, j = threadIdx.y;
    tile[j][i] = x[j * 32 + i];  //? transpose_without_barrier
    y[j * 32 + i] = tile[i][j];  //! transpose_without_barrier racecheck
}
CASE(transpose_without_barrier) { transpose<<<1, dim3(32, 32)>>>(counted<float>(1024), zeros<float>(1024)); }

__global__ void tiled_dot(const float *x, float *y, int tiles) {
    __shared__ float tile[64];
    float sum = 0;
    for (int k = 0; k < tiles; k++) {
        tile[threadIdx.x] = x[k * 64 + threadIdx.x];  //! tile_overwritten racecheck
        __syncthreads();
        for (int i = 0; i < 64; i++) sum += tile[(i + threadIdx.x) % 64] * i;  //? tile_overwritten
    }
    y[threadIdx.x] = sum;
}
CASE(tile_overwritten) { tiled_dot<<<1, 64>>>(counted<float>(256), zeros<float>(64), 4); }

__global__ void elect(int *y) {
    __shared__ int leader;
    if (threadIdx.x % 32 == 0) leader = threadIdx.x;  //! two_leaders racecheck
    __syncthreads();
    y[threadIdx.x] = leader;
}
CASE(two_leaders) { elect<<<1, 64>>>(zeros<int>(64)); }

__global__ void histogram(const int *x, int *y) {
    __shared__ int bins[16];
    if (threadIdx.x < 16) bins[threadIdx.x] = 0;
    __syncthreads();
    bins[x[threadIdx.x] & 15]++;  //! histogram_without_atomics racecheck
    __syncthreads();
    if (threadIdx.x < 16) y[threadIdx.x] = bins[threadIdx.x];
}
CASE(histogram_without_atomics) { histogram<<<1, 128>>>(counted<int>(128), zeros<int>(16)); }

__global__ void count_positive(const int *x, int *y) {
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;  //? counter_set_late
    if (x[threadIdx.x] > 0) atomicAdd(&count, 1);  //! counter_set_late racecheck
    __syncthreads();
    if (threadIdx.x == 0) *y = count;
}
CASE(counter_set_late) { count_positive<<<1, 128>>>(counted<int>(128), zeros<int>(1)); }

__global__ void broadcast_loop(const int *x, int *y, int n) {
    __shared__ int pivot;
    int sum = 0;
    for (int k = 0; k < n; k++) {
        if (threadIdx.x == 0) pivot = x[k];  //! pivot_overwritten racecheck
        __syncthreads();
        sum += pivot * threadIdx.x;  //? pivot_overwritten
    }
    y[threadIdx.x] = sum;
}
CASE(pivot_overwritten) { broadcast_loop<<<1, 96>>>(counted<int>(4), zeros<int>(96), 4); }

__global__ void double_buffer(const int *x, int *y, int n) {
    __shared__ int s[2][64];
    int t = threadIdx.x, sum = 0;
    s[0][t] = x[t];
    __syncthreads();
    for (int k = 0; k < n; k++) {
        if (k + 1 < n) s[k & 1][t] = x[(k + 1) * 64 + t];  //! double_buffer_off_by_one racecheck
        sum += s[k & 1][63 - t];  //? double_buffer_off_by_one
        __syncthreads();
    }
    y[t] = sum;
}
CASE(double_buffer_off_by_one) { double_buffer<<<1, 64>>>(counted<int>(256), zeros<int>(64), 4); }

__global__ void neighbour_in_warp(const int *x, int *y) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = x[t] * 3;  //? no_syncwarp
    y[t] = s[(t + 1) & 31];  //! no_syncwarp racecheck
}
CASE(no_syncwarp) { neighbour_in_warp<<<1, 32>>>(counted<int>(32), zeros<int>(32)); }

__global__ void small_tiles(const int *x, int *y) {
    __shared__ int s[64];
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    int t = threadIdx.x;
    s[t] = x[t];  //? tile_smaller_than_exchange
    tile.sync();
    y[t] = s[63 - t];  //! tile_smaller_than_exchange racecheck
}
CASE(tile_smaller_than_exchange) { small_tiles<<<1, 64>>>(counted<int>(64), zeros<int>(64)); }

__global__ void named_barrier_apart(const int *x, int *y) {
    __shared__ int s[64];
    int t = threadIdx.x, warp = t / 32;
    if (warp < 2) {
        s[t] = x[t] + 1;  //? named_barrier_without_reader
        asm volatile("barrier.sync 1, 64;" ::: "memory");
    } else {
        asm volatile("barrier.sync 2, 64;" ::: "memory");
        y[t - 64] = s[t - 64];  //! named_barrier_without_reader racecheck
    }
}
CASE(named_barrier_without_reader) { named_barrier_apart<<<1, 128>>>(counted<int>(64), zeros<int>(64)); }

// ---- Faulty: asynchronous copies, mbarriers

__global__ void no_wait_async(const int *x, int *y) {
    __shared__ int s[64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], &x[t], 4);  //? async_copy_without_wait
    __pipeline_commit();
    __syncthreads();
    y[t] = s[t];  //! async_copy_without_wait racecheck
}
CASE(async_copy_without_wait) { no_wait_async<<<1, 64>>>(counted<int>(64), zeros<int>(64)); }

__global__ void wait_for_own_copies(const int *x, int *y) {
    __shared__ int s[64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], &x[t], 4);  //? async_copy_of_others
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[t] = s[t ^ 32];  //! async_copy_of_others racecheck
}
CASE(async_copy_of_others) { wait_for_own_copies<<<1, 64>>>(counted<int>(64), zeros<int>(64)); }

__global__ void stages_short(const int *x, int *y, int n) {
    __shared__ int s[2][64];
    int t = threadIdx.x, sum = 0;
    __pipeline_memcpy_async(&s[0][t], &x[t], 4);
    __pipeline_commit();
    for (int k = 0; k < n; k++) {
        if (k + 1 < n) __pipeline_memcpy_async(&s[(k + 1) & 1][t], &x[(k + 1) * 64 + t], 4);  //? stages_wait_for_one_too_few
        __pipeline_commit();
        __pipeline_wait_prior(2);
        __syncthreads();
        sum += s[k & 1][t ^ 1];  //! stages_wait_for_one_too_few racecheck
        __syncthreads();
    }
    y[t] = sum;
}
CASE(stages_wait_for_one_too_few) { stages_short<<<1, 64>>>(counted<int>(256), zeros<int>(64), 4); }

using Barrier = cuda::barrier<cuda::thread_scope_block>;
__global__ void arrives_only(const int *x, int *y) {
    __shared__ int s[64];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ Barrier bar;
    int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    s[t] = x[t];  //? arrive_without_wait
    (void)bar.arrive();
    y[t] = s[63 - t];  //! arrive_without_wait racecheck
}
CASE(arrive_without_wait) { arrives_only<<<1, 64>>>(counted<int>(64), zeros<int>(64)); }

__global__ void old_phase(const int *x, int *y) {
    __shared__ int s[64];
    __shared__ uint64_t bar;
    int t = threadIdx.x;
    if (t == 0) ptx::mbarrier_init(&bar, 64);
    __syncthreads();
    s[t] = x[t];  //? wrong_phase
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar);
    // A warp that is late waits for ever, one that is early does not wait.
    while (!ptx::mbarrier_try_wait_parity(&bar, 1)) {}  //! wrong_phase synccheck
    y[t] = s[63 - t];  //? wrong_phase
}
CASE(wrong_phase) { old_phase<<<1, 64>>>(counted<int>(64), zeros<int>(64)); }

__global__ void phase_per_tile(const int *x, int *y, int tiles) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int s[128];
    int t = threadIdx.x, sum = 0;
    if (t == 0) init(&bar, 128);
    __syncthreads();
    for (int k = 0; k < tiles; k++) {
        s[t] = x[k * 128 + t];  //! one_phase_per_tile racecheck
        bar.arrive_and_wait();
        sum += s[(t + 40) & 127];  //? one_phase_per_tile
    }
    y[t] = sum;
}
CASE(one_phase_per_tile) { phase_per_tile<<<1, 128>>>(counted<int>(384), zeros<int>(128), 3); }

__global__ void early_release(const int *x, int *y, int n) {
    __shared__ int s[2][64];
    __shared__ uint64_t full[2], empty[2];
    int t = threadIdx.x & 63, sum = 0;
    if (threadIdx.x < 2) ptx::mbarrier_init(&full[threadIdx.x], 64), ptx::mbarrier_init(&empty[threadIdx.x], 64);
    __syncthreads();
    for (int k = 0; k < n; k++) {
        int slot = k & 1;
        if (threadIdx.x >= 64) {
            while (!ptx::mbarrier_try_wait_parity(&empty[slot], k / 2 & 1 ^ 1)) {}
            s[slot][t] = x[k * 64 + t];  //! slot_released_early racecheck
            ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[slot]);
        } else {
            while (!ptx::mbarrier_try_wait_parity(&full[slot], k / 2 & 1)) {}
            ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &empty[slot]);
            sum += s[slot][63 - t];  //? slot_released_early
        }
    }
    if (threadIdx.x < 64) y[t] = sum;
}
CASE(slot_released_early) { early_release<<<1, 128>>>(counted<int>(384), zeros<int>(64), 6); }

__global__ void bulk_unawaited(const int *x, int *y) {
    __shared__ alignas(128) int s[64];
    __shared__ uint64_t bar;
    int t = threadIdx.x;
    if (t == 0) {
        ptx::mbarrier_init(&bar, 1);
        ptx::fence_proxy_async(ptx::space_shared);
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 256);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, x, 256, &bar);  //? bulk_load_without_wait
    }
    __syncthreads();
    y[t] = s[t];  //! bulk_load_without_wait racecheck
    __syncthreads();
    while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
}
CASE(bulk_load_without_wait) { bulk_unawaited<<<1, 64>>>(counted<int>(64), zeros<int>(64)); }

__global__ void bulk_overwritten(int *y, int turns) {
    __shared__ alignas(128) int s[64];
    int t = threadIdx.x;
    for (int k = 0; k < turns; k++) {
        s[t] = k + t;  //! bulk_store_overwritten racecheck
        ptx::fence_proxy_async(ptx::space_shared);
        __syncthreads();
        if (t == 0) {
            ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + k * 64, s, 256);  //? bulk_store_overwritten
            ptx::cp_async_bulk_commit_group();
        }
        __syncthreads();
    }
    if (t == 0) ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
}
CASE(bulk_store_overwritten) { bulk_overwritten<<<1, 64>>>(zeros<int>(256), 4); }

__global__ void bulk_unfenced(int *y) {
    __shared__ alignas(128) int s[64];
    int t = threadIdx.x;
    s[t] = t;  //! no_proxy_fence racecheck
    __syncthreads();
    if (t == 0) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y, s, 256);  //? no_proxy_fence
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
}
CASE(no_proxy_fence) { bulk_unfenced<<<1, 64>>>(zeros<int>(64)); }

// ---- Faulty: global memory, scopes, clusters, grids, streams

__global__ void stencil_in_place(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) {
        float mean = (x[i - 1] + x[i + 1]) / 2;  //? stencil_in_place
        x[i] = mean;  //! stencil_in_place racecheck
    }
}
CASE(stencil_in_place) { stencil_in_place<<<4, 64>>>(counted<float>(256), 256); }

__device__ unsigned done;
__global__ void last_block_unfenced(const int *x, int *part, int *y) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = x[blockIdx.x];  //? flag_without_fence
        last = atomicAdd(&done, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        int sum = 0;
        for (int i = 0; i < gridDim.x; i++) sum += part[i];  //! flag_without_fence racecheck
        *y = sum;
    }
}
CASE(flag_without_fence) { last_block_unfenced<<<8, 32>>>(counted<int>(8), zeros<int>(8), zeros<int>(1)); }

__global__ void count_in_block_scope(int *count) {
    atomicAdd_block(count, 1);  //! block_scope_across_blocks racecheck
}
CASE(block_scope_across_blocks) { count_in_block_scope<<<4, 32>>>(zeros<int>(1)); }

__global__ void relaxed_message(int *data, int *flag, int *y) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 1;  //? relaxed_flag
        __syncthreads();
        if (threadIdx.x == 0) cuda::atomic_ref<int>(*flag).store(1, cuda::memory_order_relaxed);
    } else {
        if (threadIdx.x == 0)
            while (!cuda::atomic_ref<int>(*flag).load(cuda::memory_order_relaxed)) {}
        __syncthreads();
        y[threadIdx.x] = data[threadIdx.x];  //! relaxed_flag racecheck
    }
}
CASE(relaxed_flag) { relaxed_message<<<2, 32>>>(zeros<int>(32), zeros<int>(1), zeros<int>(32)); }

__global__ void lock_unfenced(int *lock, int *count) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1)) {}
        *count = *count + 1;  //! lock_without_fence racecheck
        atomicExch(lock, 0);
    }
}
CASE(lock_without_fence) { lock_unfenced<<<8, 32>>>(zeros<int>(1), zeros<int>(1)); }

__global__ void sum_all_plain(const int *x, int *y) {
    *y += x[blockIdx.x];  //! sum_without_atomic racecheck
}
CASE(sum_without_atomic) { sum_all_plain<<<8, 1>>>(counted<int>(8), zeros<int>(1)); }

__global__ void two_phases(int *x, int *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    x[i] = i;  //? no_grid_sync
    __syncthreads();
    y[i] = x[n - 1 - i];  //! no_grid_sync racecheck
}
CASE(no_grid_sync) { two_phases<<<4, 32>>>(zeros<int>(128), zeros<int>(128)); }

__global__ void __cluster_dims__(2) cluster_exchange(int *y) {
    __shared__ int s[32];
    auto cluster = cg::this_cluster();
    cluster.sync();
    s[threadIdx.x] = threadIdx.x + blockIdx.x * 32;  //? no_cluster_sync
    __syncthreads();
    y[blockIdx.x * 32 + threadIdx.x] = cluster.map_shared_rank(s, cluster.block_rank() ^ 1)[threadIdx.x];  //! no_cluster_sync racecheck
    cluster.sync();
}
CASE(no_cluster_sync) { cluster_exchange<<<2, 32>>>(zeros<int>(64)); }

__global__ void __cluster_dims__(2) cluster_exits(int *y) {
    __shared__ int s[32];
    auto cluster = cg::this_cluster();
    s[threadIdx.x] = threadIdx.x + blockIdx.x * 32;
    cluster.sync();
    if (cluster.block_rank() == 0)
        y[threadIdx.x] = cluster.map_shared_rank(s, 1)[threadIdx.x];  //! cluster_block_ends_early racecheck
}
CASE(cluster_block_ends_early) { cluster_exits<<<2, 32>>>(zeros<int>(32)); }

__global__ void fill_with(int *x, int value) { x[blockIdx.x * blockDim.x + threadIdx.x] = value; }  //! two_streams racecheck
CASE(two_streams) {
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    int *x = zeros<int>(1024);
    cudaDeviceSynchronize();
    fill_with<<<4, 256, 0, a>>>(x, 1);
    fill_with<<<4, 256, 0, b>>>(x, 2);
}
__global__ void produce(int *x) { x[threadIdx.x] = threadIdx.x; }  //? copy_beside_kernel
CASE(copy_beside_kernel) {
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    int *x = zeros<int>(256), *y = zeros<int>(256);
    cudaDeviceSynchronize();
    produce<<<1, 256, 0, a>>>(x);
    cudaMemcpyAsync(y, x, 1024, cudaMemcpyDeviceToDevice, b);  //! copy_beside_kernel racecheck
}
__global__ void produce_for_host(int *x) { x[threadIdx.x] = threadIdx.x; }  //? host_reads_early
CASE(host_reads_early) {
    int *x;
    cudaMallocManaged(&x, 1024);
    produce_for_host<<<1, 256>>>(x);
    volatile int seen = x[255];  //! host_reads_early racecheck
    (void)seen;
}
__global__ void produce_in_graph(int *x) { x[threadIdx.x] = threadIdx.x; }  //? graph_without_edge
__global__ void consume_in_graph(const int *x, int *y) { y[threadIdx.x] = x[255 - threadIdx.x]; }  //! graph_without_edge racecheck
CASE(graph_without_edge) {
    int *x = zeros<int>(256), *y = zeros<int>(256);
    void *first[] = {&x}, *second[] = {&x, &y};
    cudaGraph_t graph;
    cudaGraphCreate(&graph, 0);
    cudaKernelNodeParams params = {};
    params.gridDim = 1;
    params.blockDim = 256;
    params.func = (void *)produce_in_graph;
    params.kernelParams = first;
    cudaGraphNode_t a, b;
    cudaGraphAddKernelNode(&a, graph, nullptr, 0, &params);
    params.func = (void *)consume_in_graph;
    params.kernelParams = second;
    cudaGraphAddKernelNode(&b, graph, nullptr, 0, &params);
    cudaGraphExec_t exec;
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphLaunch(exec, 0);
    cudaStreamSynchronize(0);
}

// ---- Right: shared memory, barriers

__global__ void scan_two_buffers(const int *x, int *y) {
    __shared__ int s[2][128];
    int t = threadIdx.x, from = 0;
    s[0][t] = x[t];
    __syncthreads();
    for (int step = 1; step < 128; step *= 2) {
        s[from ^ 1][t] = s[from][t] + (t >= step ? s[from][t - step] : 0);
        from ^= 1;
        __syncthreads();
    }
    y[t] = s[from][t];
}
CASE(hillis_steele) {
    int *y = zeros<int>(128);
    scan_two_buffers<<<1, 128>>>(counted<int>(128), y);
    EXPECT(element(y, 127) == 127 * 64);
}
__global__ void warp_tail(const int *x, int *y) {
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int step = 128; step >= 32; step /= 2) {
        if (t < step) s[t] += s[t + step];
        __syncthreads();
    }
    if (t < 32) {
        for (int step = 16; step > 0; step /= 2) {
            int other = t < step ? s[t + step] : 0;
            __syncwarp();
            s[t] += other;
            __syncwarp();
        }
    }
    if (t == 0) *y = s[0];
}
CASE(warp_synchronous_tail) {
    int *y = zeros<int>(1);
    warp_tail<<<1, 256>>>(counted<int>(256), y);
    EXPECT(element(y, 0) == 255 * 128);
}
__global__ void shuffled(const int *x, int *y) {
    __shared__ int s[8];
    int t = threadIdx.x, v = x[t];
    for (int k = 16; k; k /= 2) v += __shfl_down_sync(~0u, v, k);
    if (t % 32 == 0) s[t / 32] = v;
    __syncthreads();
    if (t < 32) {
        v = t < 8 ? s[t] : 0;
        for (int k = 4; k; k /= 2) v += __shfl_down_sync(~0u, v, k);
        if (t == 0) *y = v;
    }
}
CASE(shuffle_reduction) {
    int *y = zeros<int>(1);
    shuffled<<<1, 256>>>(counted<int>(256), y);
    EXPECT(element(y, 0) == 255 * 128);
}
__global__ void own_words(const int *x, int *y) {
    __shared__ int s[128];
    int t = threadIdx.x;
    for (int k = 0; k < 4; k++) {
        s[t] = x[t] + k;
        y[t] += s[t];  // nobody else's
    }
}
CASE(own_words_only) { own_words<<<1, 128>>>(counted<int>(128), zeros<int>(128)); }

__global__ void bytes_beside(const int *x, int *y) {
    __shared__ unsigned char s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    y[t] = s[t];
}
CASE(neighbouring_bytes) { bytes_beside<<<1, 64>>>(counted<int>(64), zeros<int>(64)); }

__global__ void specialised(const int *x, int *y, int n) {
    __shared__ int s[2][32];
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int k = 0; k < n; k++) {
            if (k >= 2) {
                if (k & 1) asm volatile("barrier.sync 4, 64;" ::: "memory");
                else asm volatile("barrier.sync 3, 64;" ::: "memory");
            }
            s[k & 1][lane] = x[k * 32 + lane];
            if (k & 1) asm volatile("barrier.arrive 2, 64;" ::: "memory");
            else asm volatile("barrier.arrive 1, 64;" ::: "memory");
        }
    } else {
        int sum = 0;
        for (int k = 0; k < n; k++) {
            if (k & 1) asm volatile("barrier.sync 2, 64;" ::: "memory");
            else asm volatile("barrier.sync 1, 64;" ::: "memory");
            sum += s[k & 1][31 - lane];
            if (k + 2 < n) {
                if (k & 1) asm volatile("barrier.arrive 4, 64;" ::: "memory");
                else asm volatile("barrier.arrive 3, 64;" ::: "memory");
            }
        }
        y[lane] = sum;
    }
}
CASE(warp_specialisation) {
    int *y = zeros<int>(32);
    specialised<<<1, 64>>>(counted<int>(256), y, 8);
    EXPECT(element(y, 31) == 7 * 4 * 32);
}
__global__ void fenced_flag_in_block(const int *x, int *y) {
    __shared__ int s[32];
    __shared__ volatile int flag;
    int t = threadIdx.x;
    if (t == 0) flag = 0;
    __syncthreads();
    if (t < 32) {
        s[t] = x[t];
        __threadfence_block();
        __syncwarp();
        if (t == 0) flag = 1;
    } else {
        while (!flag) {}
        __threadfence_block();
        y[t - 32] = s[63 - t];
    }
}
CASE(flag_between_warps) {
    int *y = zeros<int>(32);
    fenced_flag_in_block<<<1, 64>>>(counted<int>(32), y);
    EXPECT(element(y, 0) == 31);
}
__global__ void tiles_of_16(const int *x, int *y) {
    __shared__ int s[128];
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int t = threadIdx.x, base = t & ~15;
    s[t] = x[t];
    tile.sync();
    int sum = 0;
    for (int i = 0; i < 16; i++) sum += s[base + i];
    tile.sync();
    s[t] = cg::reduce(tile, sum, cg::plus<int>());
    tile.sync();
    y[t] = s[base + (15 - tile.thread_rank())];
}
CASE(cooperative_tiles) {
    int *y = zeros<int>(128);
    tiles_of_16<<<1, 128>>>(counted<int>(128), y);
    EXPECT(element(y, 0) == 120 * 16);
}
__global__ void voting_barriers(const int *x, int *y) {
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = x[t];
    int many = __syncthreads_count(x[t] > 10);
    int v = s[127 - t];
    if (__syncthreads_or(many > 1000)) return;
    s[t] = v + many;
    __syncthreads();
    y[t] = s[(t + 1) & 127];
}
CASE(barriers_that_vote) {
    int *y = zeros<int>(128);
    voting_barriers<<<1, 128>>>(counted<int>(128), y);
    EXPECT(element(y, 0) == 126 + 117);
}
__global__ void tensor_tile(const half *a, const half *b, float *c) {
    using namespace nvcuda;
    __shared__ alignas(32) half s[2][256];
    for (int i = threadIdx.x; i < 256; i += 32) s[0][i] = a[i], s[1][i] = b[i];
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, s[0], 16);
    wmma::load_matrix_sync(fb, s[1], 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
CASE(tensor_cores) { tensor_tile<<<1, 32>>>(zeros<half>(256), zeros<half>(256), zeros<float>(256)); }

__global__ void matrices(unsigned *y) {
    __shared__ alignas(16) unsigned s[64];
    for (int k = 0; k < 2; k++) {
        s[threadIdx.x] = threadIdx.x + k;
        __syncthreads();
        unsigned where = __cvta_generic_to_shared(s) + 16 * (threadIdx.x & 7) + 128 * (threadIdx.x / 32 ^ 1), v;
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(where) : "memory");
        __syncthreads();
        y[threadIdx.x] = v;
    }
}
CASE(ldmatrix_tiles) {
    unsigned *y = zeros<unsigned>(64);
    matrices<<<1, 64>>>(y);
    EXPECT(element(y, 0) == 33);
}

// ---- Right: asynchronous copies, mbarriers

__global__ void stages(const int *x, int *y, int n) {
    __shared__ int s[3][64];
    int t = threadIdx.x, sum = 0;
    for (int k = 0; k < 2; k++) {
        if (k < n) __pipeline_memcpy_async(&s[k][t], &x[k * 64 + t], 4);
        __pipeline_commit();
    }
    for (int k = 0; k < n; k++) {
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += s[k % 3][63 - t];
        if (k + 2 < n) __pipeline_memcpy_async(&s[(k + 2) % 3][t], &x[(k + 2) * 64 + t], 4);
        __pipeline_commit();
    }
    y[t] = sum;
}
CASE(async_stages) {
    int *y = zeros<int>(64);
    stages<<<1, 64>>>(counted<int>(320), y, 5);
    EXPECT(element(y, 63) == 64 * 10);
}
__global__ void piped(const int *x, int *y, int n) {
    __shared__ int s[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int t = threadIdx.x, sum = 0;
    for (int k = 0, ahead = 0; k < n; k++) {
        for (; ahead < n && ahead < k + 2; ahead++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, s[ahead & 1], x + ahead * 64, sizeof s[0], pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += s[k & 1][63 - t];
        pipe.consumer_release();
    }
    y[t] = sum;
}
CASE(cuda_pipeline) {
    int *y = zeros<int>(64);
    piped<<<1, 64>>>(counted<int>(320), y, 5);
    EXPECT(element(y, 63) == 64 * 10);
}
__global__ void barrier_turns(const int *x, int *y, int n) {
    __shared__ int s[128];
    __shared__ Barrier bar;
    int t = threadIdx.x, sum = 0;
    if (t == 0) init(&bar, 128);
    __syncthreads();
    for (int k = 0; k < n; k++) {
        s[t] = x[t] + k;
        bar.arrive_and_wait();
        sum += s[127 - t];
        auto token = bar.arrive();
        sum += k;
        bar.wait(std::move(token));
    }
    y[t] = sum;
}
CASE(cuda_barrier) {
    int *y = zeros<int>(128);
    barrier_turns<<<1, 128>>>(counted<int>(128), y, 3);
    EXPECT(element(y, 127) == 6);
}
__global__ void phases_per_tile(const int *x, int *y, int tiles) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int s[128];
    int t = threadIdx.x, sum = 0;
    if (t == 0) init(&bar, 128);
    __syncthreads();
    for (int k = 0; k < tiles; k++) {
        s[t] = x[k * 128 + t];
        bar.arrive_and_wait();
        sum += s[(t + 40) & 127];
        auto read = bar.arrive();
        y[t] = sum;
        bar.wait(std::move(read));
    }
}
CASE(two_phases_per_tile) {
    int *y = zeros<int>(128);
    phases_per_tile<<<1, 128>>>(counted<int>(384), y, 3);
    EXPECT(element(y, 0) == 3 * 128 + 3 * 40);
}
__global__ void thread_ring(const int *x, int *y, int n) {
    __shared__ int s[2][64];
    __shared__ uint64_t full[2], empty[2];
    int t = threadIdx.x & 63, sum = 0;
    if (threadIdx.x < 2) ptx::mbarrier_init(&full[threadIdx.x], 64), ptx::mbarrier_init(&empty[threadIdx.x], 64);
    __syncthreads();
    for (int k = 0; k < n; k++) {
        int slot = k & 1;
        if (threadIdx.x >= 64) {
            while (!ptx::mbarrier_try_wait_parity(&empty[slot], k / 2 & 1 ^ 1)) {}
            s[slot][t] = x[k * 64 + t];
            ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[slot]);
        } else {
            while (!ptx::mbarrier_try_wait_parity(&full[slot], k / 2 & 1)) {}
            sum += s[slot][63 - t];
            ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &empty[slot]);
        }
    }
    if (threadIdx.x < 64) y[t] = sum;
}
CASE(thread_producer_ring) {
    int *y = zeros<int>(64);
    thread_ring<<<1, 128>>>(counted<int>(384), y, 6);
    EXPECT(element(y, 63) == 64 * 15);
}
__global__ void bulk_ring(const int *x, int *y, int n) {
    __shared__ alignas(128) int s[2][64];
    __shared__ uint64_t full[2], empty[2];
    int t = threadIdx.x;
    if (t == 0) {
        for (int i = 0; i < 2; i++) ptx::mbarrier_init(&full[i], 1), ptx::mbarrier_init(&empty[i], 64);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    if (t >= 64) {
        if (t == 64)
            for (int k = 0; k < n; k++) {
                int slot = k & 1;
                if (k >= 2)
                    while (!ptx::mbarrier_try_wait_parity(&empty[slot], (k / 2 - 1) & 1)) {}
                ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[slot], 256);
                ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s[slot], x + k * 64, 256, &full[slot]);
            }
    } else {
        int sum = 0;
        for (int k = 0; k < n; k++) {
            int slot = k & 1;
            while (!ptx::mbarrier_try_wait_parity(&full[slot], k / 2 & 1)) {}
            sum += s[slot][63 - t];
            ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &empty[slot]);
        }
        y[t] = sum;
    }
}
CASE(bulk_producer_ring) {
    int *y = zeros<int>(64);
    bulk_ring<<<1, 96>>>(counted<int>(384), y, 6);
    EXPECT(element(y, 63) == 64 * 15);
}
__global__ void bulk_stores(int *y, int turns) {
    __shared__ alignas(128) int s[64];
    int t = threadIdx.x;
    for (int k = 0; k < turns; k++) {
        s[t] = k + t;
        ptx::fence_proxy_async(ptx::space_shared);
        __syncthreads();
        if (t == 0) {
            ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + k * 64, s, 256);
            ptx::cp_async_bulk_commit_group();
            ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
        }
        __syncthreads();
    }
}
CASE(bulk_stores_awaited) {
    int *y = zeros<int>(256);
    bulk_stores<<<1, 64>>>(y, 4);
    EXPECT(element(y, 255) == 66);
}

// ---- Right: global memory, scopes, clusters, grids, streams

__device__ unsigned done_right;
__global__ void last_block_fenced(const int *x, int *part, int *y) {
    __shared__ bool last;
    int t = threadIdx.x;
    part[blockIdx.x * 64 + t] = x[blockIdx.x * 64 + t];
    __threadfence();
    __syncthreads();
    if (t == 0) last = atomicInc(&done_right, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (last) {
        __threadfence();
        int sum = 0;
        for (int i = t; i < gridDim.x * 64; i += 64) sum += part[i];
        sum = __reduce_add_sync(~0u, sum);
        if (t % 32 == 0) atomicAdd(y, sum);
    }
}
CASE(last_block) {  //= last_block schedcheck
    int *y = zeros<int>(1);
    for (int k = 0; k < 2; k++) last_block_fenced<<<4, 64>>>(counted<int>(256), zeros<int>(256), y);
    EXPECT(element(y, 0) == 255 * 256);
}
__global__ void look_back(const int *x, int *y, int *partial, int *inclusive, int *status, int *ticket) {
    __shared__ int tile, before, s[64];
    int t = threadIdx.x;
    if (t == 0) tile = atomicAdd(ticket, 1);
    __syncthreads();
    s[t] = x[tile * 64 + t];
    __syncthreads();
    if (t == 0) {
        for (int i = 1; i < 64; i++) s[i] += s[i - 1];
        cuda::atomic_ref<int, cuda::thread_scope_device> own(status[tile]);
        partial[tile] = s[63];
        own.store(1, cuda::memory_order_release);
        int sum = 0;
        for (int k = tile - 1; k >= 0; k--) {
            cuda::atomic_ref<int, cuda::thread_scope_device> theirs(status[k]);
            int state;
            while ((state = theirs.load(cuda::memory_order_acquire)) == 0) {}
            sum += state == 2 ? inclusive[k] : partial[k];
            if (state == 2) break;
        }
        before = sum;
        inclusive[tile] = sum + s[63];
        own.store(2, cuda::memory_order_release);
    }
    __syncthreads();
    y[tile * 64 + t] = s[t] + before;
}
CASE(decoupled_look_back) {  //= decoupled_look_back schedcheck
    int *y = zeros<int>(512);
    look_back<<<8, 64>>>(counted<int>(512), y, zeros<int>(8), zeros<int>(8), zeros<int>(8), zeros<int>(1));
    EXPECT(element(y, 511) == 511 * 256);
}
__global__ void ring(int *slots, unsigned *head, unsigned *tail, int *y, int n) {
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> h(*head), t(*tail);
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        for (unsigned k = 0; k < n; k++) {
            while (k - t.load(cuda::memory_order_acquire) >= 4) {}
            slots[k % 4] = k * k;
            h.store(k + 1, cuda::memory_order_release);
        }
    } else {
        int sum = 0;
        for (unsigned k = 0; k < n; k++) {
            while (h.load(cuda::memory_order_acquire) <= k) {}
            sum += slots[k % 4];
            t.store(k + 1, cuda::memory_order_release);
        }
        *y = sum;
    }
}
CASE(ring_buffer) {
    int *y = zeros<int>(1);
    ring<<<2, 32>>>(zeros<int>(4), zeros<unsigned>(1), zeros<unsigned>(1), y, 16);
    EXPECT(element(y, 0) == 1240);
}
__global__ void compact(const int *x, int *y, int *count) {
    int v = x[blockIdx.x * blockDim.x + threadIdx.x];
    if (v % 3 == 0) {
        auto active = cg::coalesced_threads();
        int base;
        if (active.thread_rank() == 0) base = atomicAdd(count, active.size());
        base = active.shfl(base, 0);
        y[base + active.thread_rank()] = v;
    }
}
CASE(warp_aggregated_atomics) {
    int *count = zeros<int>(1);
    compact<<<4, 64>>>(counted<int>(256), zeros<int>(256), count);
    EXPECT(element(count, 0) == 86);
}
__global__ void locked(int *lock, int *count) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1)) {}
        __threadfence();
        *count = *count + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}
CASE(lock_with_fences) {
    int *count = zeros<int>(1);
    locked<<<8, 32>>>(zeros<int>(1), count);
    EXPECT(element(count, 0) == 8);
}
__global__ void grid_phases(int *x, int *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    x[i] = i;
    cg::this_grid().sync();
    y[i] = x[n - 1 - i];
    cg::this_grid().sync();
    x[i] = y[n - 1 - i];
}
CASE(grid_sync) {
    int *x = zeros<int>(128), *y = zeros<int>(128);
    void *arguments[] = {&x, &y};
    cudaLaunchCooperativeKernel((void *)grid_phases, 4, 32, arguments, 0, 0);
    EXPECT(element(y, 0) == 127);
}
__global__ void __cluster_dims__(4) cluster_sum(const int *x, int *y) {
    __shared__ int sum;
    auto cluster = cg::this_cluster();
    if (threadIdx.x == 0) sum = 0;
    cluster.sync();
    atomicAdd(cluster.map_shared_rank(&sum, 0), x[blockIdx.x * blockDim.x + threadIdx.x]);
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0) *y = sum;
}
CASE(cluster_reduction) {
    int *y = zeros<int>(1);
    cluster_sum<<<4, 64>>>(counted<int>(256), y);
    EXPECT(element(y, 0) == 255 * 128);
}
__global__ void __cluster_dims__(2) cluster_halo(int *y) {
    __shared__ int s[32];
    auto cluster = cg::this_cluster();
    for (int k = 0; k < 3; k++) {
        s[threadIdx.x] = threadIdx.x + k;
        cluster.sync();
        y[blockIdx.x * 32 + threadIdx.x] += cluster.map_shared_rank(s, cluster.block_rank() ^ 1)[31 - threadIdx.x];
        cluster.sync();
    }
}
CASE(cluster_exchange_right) {
    int *y = zeros<int>(64);
    cluster_halo<<<2, 32>>>(y);
    EXPECT(element(y, 0) == 96);
}
__global__ void float_sum(const float *x, float *y) { atomicAdd(y, x[blockIdx.x * blockDim.x + threadIdx.x]); }
CASE(float_atomics) { float_sum<<<4, 64>>>(counted<float>(256), zeros<float>(1)); }

CASE(streams_with_events) {
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEvent_t ready;
    cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
    int *x = zeros<int>(1024);
    cudaDeviceSynchronize();
    fill_with<<<4, 256, 0, a>>>(x, 1);
    cudaEventRecord(ready, a);
    cudaStreamWaitEvent(b, ready);
    fill_with<<<4, 256, 0, b>>>(x, 2);
    cudaStreamSynchronize(b);
    EXPECT(element(x, 1023) == 2);
}
CASE(streams_apart) {
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    int *x = zeros<int>(1024);
    cudaDeviceSynchronize();
    fill_with<<<2, 256, 0, a>>>(x, 1);
    fill_with<<<2, 256, 0, b>>>(x + 512, 2);
    cudaDeviceSynchronize();
    EXPECT(element(x, 511) == 1 && element(x, 512) == 2);
}
CASE(legacy_stream_orders) {
    cudaStream_t a;
    cudaStreamCreate(&a);
    int *x = zeros<int>(1024);
    fill_with<<<4, 256, 0, a>>>(x, 1);
    fill_with<<<4, 256>>>(x, 2);
    fill_with<<<4, 256, 0, a>>>(x, 3);
    EXPECT(element(x, 7) == 3);
}
CASE(graph_dependencies) {
    int *x = zeros<int>(256), *y = zeros<int>(256);
    cudaStream_t a, b;
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    cudaEvent_t fork, join;
    cudaEventCreate(&fork);
    cudaEventCreate(&join);
    cudaGraph_t graph;
    cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal);
    produce_in_graph<<<1, 256, 0, a>>>(x);
    cudaEventRecord(fork, a);
    cudaStreamWaitEvent(b, fork);
    consume_in_graph<<<1, 128, 0, b>>>(x, y);
    consume_in_graph<<<1, 128, 0, a>>>(x - 128, y + 128);
    cudaEventRecord(join, b);
    cudaStreamWaitEvent(a, join);
    produce_in_graph<<<1, 256, 0, a>>>(x);
    cudaStreamEndCapture(a, &graph);
    cudaGraphExec_t exec;
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphLaunch(exec, a);
    cudaGraphLaunch(exec, a);
    cudaStreamSynchronize(a);
    EXPECT(element(y, 0) == 255 && element(y, 255) == 0);
}
CASE(pool_reuse_over_streams) {
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEvent_t freed;
    cudaEventCreate(&freed);
    for (int k = 0; k < 4; k++) {
        int *x, *y;
        cudaMallocAsync(&x, 4096, a);
        fill_with<<<4, 256, 0, a>>>(x, k);
        cudaFreeAsync(x, a);
        cudaEventRecord(freed, a);
        cudaStreamWaitEvent(b, freed);
        cudaMallocAsync(&y, 4096, b);
        fill_with<<<4, 256, 0, b>>>(y, k);
        cudaFreeAsync(y, b);
        cudaEventRecord(freed, b);
        cudaStreamWaitEvent(a, freed);
    }
    cudaDeviceSynchronize();
}
CASE(host_reads_in_time) {
    int *x;
    cudaMallocManaged(&x, 1024);
    produce_for_host<<<1, 256>>>(x);
    cudaDeviceSynchronize();
    EXPECT(x[255] == 255);
    x[255] = 0;
    produce_for_host<<<1, 256>>>(x);
    cudaDeviceSynchronize();
    EXPECT(x[255] == 255);
}
