// Waits and clusters: how long a try_wait holds a warp back, atomics on another block's shared memory, constants by a uniform index.
#include "common.cuh"
#define SHARED(x) ((unsigned)__cvta_generic_to_shared(x))
#define CLUSTER_SYNC asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory")

// Looks at a phase that never ends: cycles of each, by the way of looking (0 try_wait, 1 test_wait, 2 try_wait with a time in ns).
extern "C" __global__ void look_in_vain(u32 *out, u32 way, u32 nanoseconds) {
    __shared__ __align__(8) u64 gate;
    unsigned bar = SHARED(&gate), done;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1000;" ::"r"(bar) : "memory");
    __syncwarp();
    for (int i = 0; i < 8; i++) {
        u32 begin = clk();
        if (way == 0) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar) : "memory");
        else if (way == 1) asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar) : "memory");
        else asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0, %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar), "r"(nanoseconds) : "memory");
        if (done) out[SINK] = done;
        u32 end = clk();
        if (threadIdx.x == 0) out[i] = end - begin;
    }
}
// Warp 0 arrives after so many cycles; the others wait: cycles from its arrival to their going on, and how often they looked.
extern "C" __global__ void wake(u32 *out, u32 late, u32 tests) {
    __shared__ __align__(8) u64 gate;
    unsigned bar = SHARED(&gate);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    for (int i = 0; i < 4; i++) {
        __syncthreads();
        u32 begin = clk(), looks = 0, done = 0;
        if (threadIdx.x < 32) {
            while (clk() - begin < late);
            if (threadIdx.x == 0) {
                out[i] = clk();
                asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(bar) : "memory");
            }
        } else {
            while (!done) {
                if (tests) asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar), "r"(i & 1) : "memory");
                else asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar), "r"(i & 1) : "memory");
                looks++;
            }
            u32 end = clk();
            if (lane() == 0) out[4 + (i * 32 + threadIdx.x / 32) * 2] = end, out[5 + (i * 32 + threadIdx.x / 32) * 2] = looks;
        }
    }
}
// Additions to the block at `far`, without an answer, by so many blocks of the cluster; pattern: 0 one word, 1 a word a lane, 32 one bank, else words that many apart.
extern "C" __global__ void remote_adds(u32 *out, u32 far, u32 blocks, u32 rounds, u32 pattern, u32 to_one) {
    __shared__ unsigned words[8192];
    unsigned rank, size;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    unsigned *mine = words + (lane() * pattern & 1023), *there;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(mine), "r"(to_one ? to_one - 1 : (rank + far) % size));
    for (int i = threadIdx.x; i < 8192; i += blockDim.x) words[i] = 0;
    CLUSTER_SYNC;
    unsigned begin = clk();
    if (rank < blocks)
        for (u32 i = 0; i < rounds; i++)
#pragma unroll
            for (int k = 0; k < 8; k++) atomicAdd(there + k * 1024, 1u);
    CLUSTER_SYNC;
    if (threadIdx.x == 0) out[blockIdx.x] = clk() - begin;
}

__constant__ float by_index[4096];
// Constants by an index that all lanes have in common (ULDC of a uniform register), STEP words further each time; each warp begins
// so many cycles after the one before.
template <int STEP, int WIDE> __device__ void walk_uniform(u32 *out, int count, u32 stagger) {
    float sum = 0.0f, own = threadIdx.x;  // a register: with an immediate the compiler takes LDC
    u32 t0 = 0, t1 = 0;
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
        while (clk() - t0 < threadIdx.x / 32 * stagger);
        t0 = clk();
#pragma unroll 1
        for (int k = 0; k < count; k++)
            for (int j = 0; j < WIDE; j++) sum = sum * by_index[k * STEP + j] + own;
        t1 = clk();
    }
    report(out, t0, t1);
    out[SINK + threadIdx.x] = __float_as_uint(sum);
}
#define UNIFORM(step, wide) extern "C" __global__ void uniform_##step##_##wide(u32 *out, int count, u32 stagger) { walk_uniform<step, wide>(out, count, stagger); }
UNIFORM(0, 1) UNIFORM(1, 1) UNIFORM(4, 1) UNIFORM(16, 1) UNIFORM(0, 4) UNIFORM(4, 4) UNIFORM(16, 4)
// Phases of one mbarrier at which so many lanes of every warp arrive; way: 0 arrive.expect_tx and complete_tx, 1 arrive, 2 arrive.release.cluster at the own block.
// For each phase and warp: the clock before, after the arrival, after the completion, after the wait, and when the warp is together again.
extern "C" __global__ void mbarrier_flow(u32 *out, int lanes, int way) {
    __shared__ __align__(8) u64 gate;
    unsigned bar = SHARED(&gate), done, warp = threadIdx.x / 32;
    u64 token;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(lanes * (blockDim.x / 32)) : "memory");
    __syncthreads();
    for (int k = 0; k < 6; k++) {
        u32 begin = clk(), arrived = 0, completed = 0, woken = 0;
        if (threadIdx.x % 32 < lanes) {
            if (way == 0) {
                asm volatile("mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 %0, [%1], 1;" : "=l"(token) : "r"(bar) : "memory");
                arrived = clk();
                asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
            } else {
                if (way == 1) asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(token) : "r"(bar) : "memory");
                else asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
                arrived = clk();
            }
            completed = clk();
            do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar), "r"(k & 1) : "memory");
            while (!done);
            woken = clk();
        }
        __syncwarp();
        u32 together = clk();
        __syncthreads();
        if (lane() == 0) {
            u32 *to = out + k * 256 + warp * 8;
            to[0] = begin, to[1] = arrived, to[2] = completed, to[3] = woken, to[4] = together;
        }
    }
}
