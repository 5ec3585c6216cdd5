// libcu++ barriers and pipelines: arrive and wait, completion by phase, staged copies.
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cooperative_groups.h>

extern "C" __global__ void block_barrier(int *dst, const int *src, int rounds) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int box[2][64];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t == 0) init(&barrier, blockDim.x);
    __syncthreads();
    int value = src[i];
    for (int k = 0; k < rounds; k++) {
        box[k & 1][t] = value;
        auto token = barrier.arrive();
        value = value * 3 + k;
        barrier.wait(static_cast<decltype(token) &&>(token));
        value ^= box[k & 1][(t + k + 1) % 64];
    }
    barrier.arrive_and_wait();
    dst[i] = value;
}

extern "C" __global__ void barrier_copy(int *dst, const int *src) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ __align__(16) int box[128];
    auto block = cooperative_groups::this_thread_block();
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    cuda::memcpy_async(block, box, src + blockIdx.x * 128, cuda::aligned_size_t<16>(sizeof(box)), barrier);
    barrier.arrive_and_wait();
    dst[blockIdx.x * blockDim.x + threadIdx.x] = box[127 - threadIdx.x] + box[threadIdx.x ^ 1];
}

extern "C" __global__ void staged_pipeline(int *dst, const int *src, int tiles) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ __align__(16) int box[2][64];
    auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int sum = 0, t = threadIdx.x;
    for (int fetch = 0, use = 0; use < tiles; use++) {
        for (; fetch < tiles && fetch < use + 2; fetch++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, box[fetch % 2], src + (blockIdx.x * tiles + fetch) * 64, sizeof(int) * 64, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum = sum * 5 + box[use % 2][(t + use) % 64];
        pipe.consumer_release();
    }
    dst[blockIdx.x * 64 + t] = sum;
}

extern "C" __global__ void thread_pipeline(int4 *dst, const int4 *src) {
    __shared__ int4 box[2][32];
    auto pipe = cuda::make_pipeline();
    int t = threadIdx.x;
    for (int k = 0; k < 2; k++) {
        pipe.producer_acquire();
        cuda::memcpy_async(&box[k][t], src + k * 32 + t, sizeof(int4), pipe);
        pipe.producer_commit();
    }
    cuda::pipeline_consumer_wait_prior<1>(pipe);
    int4 a = box[0][t];
    cuda::pipeline_consumer_wait_prior<0>(pipe);
    int4 b = box[1][t];
    dst[t] = make_int4(a.x + b.w, a.y - b.z, a.z * b.y, a.w ^ b.x);
}
