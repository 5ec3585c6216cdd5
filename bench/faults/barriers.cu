// Barriers and *_sync operations that not all of their threads reach, and such as look so but are right.
#include "cases.h"
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/ptx>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

// ---- Faulty

__global__ void in_half_a_warp(int *x) {
    if (threadIdx.x % 32 < 16) {
        x[threadIdx.x] = 1;
        __syncthreads();  //! barrier_in_branch synccheck
    }
    x[threadIdx.x] += 1;
}
CASE(barrier_in_branch) { in_half_a_warp<<<1, 64>>>(zeros<int>(64)); }

__global__ void own_trip_counts(int *x) {
    int turns = threadIdx.x / 16 + 1;
    for (int k = 0; k < turns; k++) {
        x[threadIdx.x] += k;
        __syncthreads();  //! barrier_in_loop synccheck
    }
    x[threadIdx.x] *= 2;
}
CASE(barrier_in_loop) { own_trip_counts<<<1, 32>>>(zeros<int>(64)); }

__global__ void either_or(int *x) {
    if (threadIdx.x < 32) {
        x[threadIdx.x] = 1;
        __syncthreads();  //! two_barriers synccheck
    } else {
        x[threadIdx.x] = 2;
        __syncthreads();  //? two_barriers
    }
    x[threadIdx.x] += 1;
}
CASE(two_barriers) { either_or<<<1, 64>>>(zeros<int>(64)); }

__global__ void group_sync_in_branch(int *x) {
    auto block = cg::this_thread_block();
    if (x[threadIdx.x] > 40) {
        x[threadIdx.x] = 5;
        block.sync();  //! group_sync_in_branch synccheck
    }
    x[threadIdx.x] += 1;
}
CASE(group_sync_in_branch) { group_sync_in_branch<<<1, 64>>>(counted<int>(64)); }

__global__ void half_mask(int *x) {
    unsigned mask = x[32];
    __syncwarp(mask);  //! syncwarp_without_caller synccheck
    x[threadIdx.x] = 1;
}
CASE(syncwarp_without_caller) {
    int *x = zeros<int>(33), mask = 0xffff;
    cudaMemcpy(x + 32, &mask, 4, cudaMemcpyHostToDevice);
    half_mask<<<1, 32>>>(x);
}

__global__ void shuffle_without(int *x) {
    unsigned mask = x[32];
    if (threadIdx.x < 24) x[threadIdx.x] = __shfl_sync(mask, x[threadIdx.x], 3);  //! shuffle_without_caller synccheck
}
CASE(shuffle_without_caller) {
    int *x = counted<int>(33), mask = 0xffff;
    cudaMemcpy(x + 32, &mask, 4, cudaMemcpyHostToDevice);
    shuffle_without<<<1, 32>>>(x);
}

__global__ void vote_of_all_in_branch(int *x) {
    if (x[threadIdx.x] & 1) {
        unsigned odd = __ballot_sync(~0u, x[threadIdx.x] > 8);  //! vote_names_absent synccheck
        x[threadIdx.x] = odd;
    } else {
        x[threadIdx.x] = 7;
        __syncwarp();  //? vote_names_absent
    }
}
CASE(vote_names_absent) { vote_of_all_in_branch<<<1, 32>>>(counted<int>(32)); }

__global__ void stale_mask(int *x) {
    unsigned mask = __ballot_sync(~0u, x[threadIdx.x] < 20);
    if (x[threadIdx.x] < 25) {
        int v = __shfl_xor_sync(mask, x[threadIdx.x], 1);  //! stale_mask synccheck
        x[threadIdx.x] = v;
    }
}
CASE(stale_mask) { stale_mask<<<1, 32>>>(counted<int>(32)); }

__global__ void odd_count(int *x) {
    x[threadIdx.x] = 1;
    asm volatile("barrier.sync 1, %0;" ::"r"(x[64] + 48) : "memory");  //! count_not_of_warps synccheck
    x[threadIdx.x] += 1;
}
CASE(count_not_of_warps) { odd_count<<<1, 64>>>(zeros<int>(65)); }

__global__ void counts_differ(int *x) {
    int warp = threadIdx.x / 32;
    x[threadIdx.x] = 1;
    if (warp == 0) asm volatile("barrier.sync 1, 64;" ::: "memory");  //! counts_differ synccheck
    else asm volatile("barrier.sync 1, 96;" ::: "memory");  //? counts_differ
    x[threadIdx.x] += 1;
}
CASE(counts_differ) { counts_differ<<<1, 96>>>(zeros<int>(96)); }

__global__ void nobody_arrives(int *x) {
    if (threadIdx.x < 32) {
        asm volatile("barrier.sync 1, 64;" ::: "memory");  //! named_barrier_alone synccheck
        x[threadIdx.x] = 1;
    } else {
        asm volatile("barrier.arrive 2, 64;" ::: "memory");  //? named_barrier_alone
        x[threadIdx.x] = 2;
    }
}
CASE(named_barrier_alone) { nobody_arrives<<<1, 64>>>(zeros<int>(64)); }

__global__ void grid_barrier(int *x, int *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    x[i] = i;
    cg::this_grid().sync();  //! grid_sync_not_cooperative synccheck
    y[i] = x[n - 1 - i];
}
CASE(grid_sync_not_cooperative) { grid_barrier<<<4, 32>>>(zeros<int>(128), zeros<int>(128)); }

__global__ void arrives_too_often(int *x) {
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) ptx::mbarrier_init(&bar, 32);
    __syncthreads();
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 2);  //! too_many_arrivals synccheck
    while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
    x[threadIdx.x] = 1;
}
CASE(too_many_arrivals) { arrives_too_often<<<1, 24>>>(zeros<int>(32)); }

__global__ void never_initialised(int *x) {
    __shared__ uint64_t bar;
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar);  //! barrier_not_initialised synccheck
    x[threadIdx.x] = 1;
}
CASE(barrier_not_initialised) { never_initialised<<<1, 32>>>(zeros<int>(32)); }

__global__ void waits_for_too_many(int *x) {
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) ptx::mbarrier_init(&bar, 64);
    __syncthreads();
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar);
    while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}  //! arrivals_missing synccheck
    x[threadIdx.x] = 1;
}
CASE(arrivals_missing) { waits_for_too_many<<<1, 32>>>(zeros<int>(32)); }

__global__ void __cluster_dims__(2) cluster_barrier_in_branch(int *x) {
    if (threadIdx.x < 16) {
        x[threadIdx.x] = 1;
        cg::this_cluster().sync();  //! cluster_barrier_in_branch synccheck
    }
    x[threadIdx.x + 32] = 2;
}
CASE(cluster_barrier_in_branch) { cluster_barrier_in_branch<<<2, 32>>>(zeros<int>(64)); }

// ---- Right

__global__ void early_return(const int *x, int *y, int n) {
    __shared__ int s[128];
    if (threadIdx.x >= n) return;
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[n - 1 - threadIdx.x];
}
CASE(return_before_barrier) {
    int *y = zeros<int>(128);
    early_return<<<1, 128>>>(counted<int>(128), y, 100);
    EXPECT(element(y, 99) == 0 && element(y, 0) == 99);
}
__global__ void uniform_branch(const int *x, int *y) {
    __shared__ int s[64], turns;
    if (threadIdx.x == 0) turns = x[3];
    __syncthreads();
    int sum = 0;
    for (int k = 0; k < turns; k++) {
        s[threadIdx.x] = x[threadIdx.x] + k;
        __syncthreads();
        sum += s[63 - threadIdx.x];
        __syncthreads();
    }
    if (turns & 1) {
        s[threadIdx.x] = sum;
        __syncthreads();
        sum = s[threadIdx.x ^ 33];
    }
    y[threadIdx.x] = sum;
}
CASE(barriers_in_uniform_flow) { uniform_branch<<<1, 64>>>(counted<int>(64), zeros<int>(64)); }

__global__ void pairs_of_warps(const int *x, int *y) {
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = x[t];
    asm volatile("barrier.sync %0, 64;" ::"r"(t / 64 + 1) : "memory");
    y[t] = s[t ^ 63];
}
CASE(barrier_for_each_pair) {
    int *y = zeros<int>(128);
    pairs_of_warps<<<1, 128>>>(counted<int>(128), y);
    EXPECT(element(y, 64) == 127);
}
__global__ void halves(int *x) {
    int lane = threadIdx.x;
    if (lane < 16) {
        int v = __shfl_xor_sync(0xffff, x[lane], 3);
        __syncwarp(0xffff);
        x[lane] = v;
    } else {
        int v = __shfl_xor_sync(0xffff0000, x[lane], 5);
        __syncwarp(0xffff0000);
        x[lane] = v + 100;
    }
    __syncwarp();
}
CASE(masks_of_halves) {
    int *x = counted<int>(32);
    halves<<<1, 32>>>(x);
    EXPECT(element(x, 0) == 3 && element(x, 16) == 121);
}
__global__ void met_in_loop(int *x) {
    unsigned rest = ~0u;
    int mine = x[threadIdx.x] % 5, group = 0;
    while (true) {
        int first = __ffs(rest) - 1, leader = __shfl_sync(rest, mine, first);
        unsigned same = __ballot_sync(rest, mine == leader);
        if (mine == leader) {
            group = __popc(same);
            break;
        }
        rest &= ~same;
    }
    x[threadIdx.x] = group;
}
CASE(mask_that_shrinks) {
    int *x = counted<int>(32);
    met_in_loop<<<1, 32>>>(x);
    EXPECT(element(x, 0) == 7 && element(x, 4) == 6);
}
__global__ void groups(int *x) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    if (threadIdx.x % 3 == 0) {
        auto active = cg::coalesced_threads();
        x[threadIdx.x] = active.shfl(x[threadIdx.x], 0) + active.size();
        active.sync();
    }
    auto parts = cg::labeled_partition(warp, int(threadIdx.x % 4));
    x[threadIdx.x] += parts.size();
    unsigned peers = __match_any_sync(~0u, threadIdx.x / 8);
    x[threadIdx.x] += __popc(peers);
}
CASE(groups_of_those_who_came) { groups<<<1, 64>>>(counted<int>(64)); }

__global__ void mbarrier_phases(int *x) {
    __shared__ uint64_t bar;
    __shared__ int s[64];
    if (threadIdx.x == 0) ptx::mbarrier_init(&bar, 64);
    __syncthreads();
    for (int k = 0; k < 5; k++) {
        s[threadIdx.x] = k;
        ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar);
        while (!ptx::mbarrier_try_wait_parity(&bar, k & 1)) {}
        x[threadIdx.x] += s[63 - threadIdx.x];
        __syncthreads();
    }
}
CASE(mbarrier_phases) {
    int *x = zeros<int>(64);
    mbarrier_phases<<<1, 64>>>(x);
    EXPECT(element(x, 9) == 10);
}
__global__ void early_droppers(int *x) {
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ Barrier bar;
    __shared__ int s[64];
    if (threadIdx.x == 0) init(&bar, 64);
    __syncthreads();
    s[threadIdx.x] = threadIdx.x;
    if (threadIdx.x >= 48) {
        bar.arrive_and_drop();
        return;
    }
    bar.arrive_and_wait();
    x[threadIdx.x] = s[63 - threadIdx.x];
    bar.arrive_and_wait();
    s[threadIdx.x] = 0;
}
CASE(arrive_and_drop) {
    int *x = zeros<int>(64);
    early_droppers<<<1, 64>>>(x);
    EXPECT(element(x, 0) == 63);
}
CASE(grid_sync_cooperative) {
    int *x = zeros<int>(128), *y = zeros<int>(128);
    void *arguments[] = {&x, &y};
    cudaLaunchCooperativeKernel((void *)grid_barrier, 4, 32, arguments, 0, 0);
}
__global__ void __cluster_dims__(2) split_cluster_barrier(int *x) {
    auto cluster = cg::this_cluster();
    auto token = cluster.barrier_arrive();
    x[blockIdx.x * 32 + threadIdx.x] = 1;
    cluster.barrier_wait(std::move(token));
    if (cluster.block_rank() == 1) return;
    x[threadIdx.x] += 1;
}
CASE(split_cluster_barrier) { split_cluster_barrier<<<2, 32>>>(zeros<int>(64)); }

__global__ void some_warps_leave(int *x) {
    int warp = threadIdx.x / 32;
    if (warp == 3) return;
    x[threadIdx.x] = warp;
    if (warp < 2) asm volatile("barrier.sync 5, 64;" ::: "memory");
    else __syncwarp();
    if (__all_sync(~0u, warp == 2)) x[threadIdx.x] = 9;
}
CASE(barrier_without_some_warps) { some_warps_leave<<<1, 128>>>(zeros<int>(128)); }
