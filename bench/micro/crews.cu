// Several warps or lanes at one unit of an SM: fences without and with stores, bulk copies, warp reductions, tries in shared memory.
#include "common.cuh"
#define SHARED(x) ((unsigned)__cvta_generic_to_shared(x))

// Rounds of a barrier and a fence for the device by every warp: before it nothing (0), every lane a store to shared memory (1), one lane of
// the first warp a store to memory (2), one lane of every warp (3); 4: the barrier alone.
template <int WAY> __device__ void fence_rounds(u32 *out, u32 *to, int rounds) {
    __shared__ volatile u32 tile[1024];
    u32 t0 = 0;
    for (int pass = 0; pass < 2; ++pass) {
        settle();
        t0 = clk();
        #pragma unroll 1
        for (int i = 0; i < rounds; ++i) {
            if (WAY == 1) tile[threadIdx.x] = i;
            if (WAY == 2 && threadIdx.x == 0) to[0] = i;
            if (WAY == 3 && lane() == 0) to[threadIdx.x * 8] = i;
            if (WAY != 4) __threadfence();
            __syncthreads();
        }
    }
    report(out, t0, clk());
}
extern "C" __global__ void fence_idle(u32 *out, u32 *to, int rounds) { fence_rounds<0>(out, to, rounds); }
extern "C" __global__ void fence_shared(u32 *out, u32 *to, int rounds) { fence_rounds<1>(out, to, rounds); }
extern "C" __global__ void fence_one(u32 *out, u32 *to, int rounds) { fence_rounds<2>(out, to, rounds); }
extern "C" __global__ void fence_each(u32 *out, u32 *to, int rounds) { fence_rounds<3>(out, to, rounds); }
extern "C" __global__ void fence_none(u32 *out, u32 *to, int rounds) { fence_rounds<4>(out, to, rounds); }

// Bulk loads: so many warps, of each so many lanes, `count` copies of `bytes` a lane behind each other; from the first issue to the end of the wait.
extern "C" __global__ void bulk_crew(u32 *out, const unsigned char *in, u32 lanes, u32 bytes, u32 count) {
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) u64 gate;
    u32 bar = SHARED(&gate), warp = threadIdx.x / 32, warps = blockDim.x / 32, t0 = 0;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(bar) : "memory");
    for (int pass = 0; pass < 4; ++pass) {
        settle();
        if (threadIdx.x == 0) asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(bar), "r"(bytes * count * lanes * warps) : "memory");
        settle();
        t0 = clk();
        if (lane() < lanes)
            for (u32 k = 0; k < count; ++k) {
                u32 at = ((warp * lanes + lane()) * count + k) * bytes;
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(SHARED(room) + at), "l"(in + at), "r"(bytes), "r"(bar) : "memory");
            }
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" ::"r"(bar), "r"(pass & 1) : "memory");
    }
    report(out, t0, clk());
}

// Reductions of a warp's lanes by REDUX: a chain (each takes the one before), or four that do not wait for each other.
template <int KIND, bool CHAIN> __device__ void redux_rounds(u32 *out, int rounds) {
    u32 x[4] = {threadIdx.x, threadIdx.x + 1, threadIdx.x + 2, threadIdx.x + 3}, t0 = 0;
    for (int pass = 0; pass < 2; ++pass) {
        settle();
        t0 = clk();
        #pragma unroll 1
        for (int i = 0; i < rounds; ++i)
            #pragma unroll
            for (int k = 0; k < 4; ++k) {
                u32 &y = x[CHAIN ? 0 : k];
                y = KIND == 0 ? __reduce_add_sync(~0u, y) + lane() : KIND == 1 ? (u32)__reduce_min_sync(~0u, (int)y) + lane() : __reduce_xor_sync(~0u, y) + lane();
            }
    }
    u32 end = clk();
    report(out, t0, end);
    if (x[0] + x[1] + x[2] + x[3] == 12345) out[SINK] = 1;
}
extern "C" __global__ void redux_add_chain(u32 *out, int rounds) { redux_rounds<0, true>(out, rounds); }
extern "C" __global__ void redux_min_chain(u32 *out, int rounds) { redux_rounds<1, true>(out, rounds); }
extern "C" __global__ void redux_xor_chain(u32 *out, int rounds) { redux_rounds<2, true>(out, rounds); }
extern "C" __global__ void redux_add(u32 *out, int rounds) { redux_rounds<0, false>(out, rounds); }
extern "C" __global__ void redux_min(u32 *out, int rounds) { redux_rounds<1, false>(out, rounds); }
extern "C" __global__ void redux_xor(u32 *out, int rounds) { redux_rounds<2, false>(out, rounds); }

// Additions to shared memory that try again (floats, doubles, 64-bit words), each lane to the word that a table names.
template <class T> __device__ void tries(u32 *out, const u32 *table, int rounds) {
    __shared__ T words[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) words[k] = 0;
    u32 at = table[lane()], t0 = 0;
    for (int pass = 0; pass < 2; ++pass) {
        settle();
        t0 = clk();
        #pragma unroll 1
        for (int i = 0; i < rounds; ++i)
            if (at < 1024) atomicAdd(&words[at], (T)1);
    }
    report(out, t0, clk());
    if (words[0] == (T)12345) out[SINK] = 1;
}
extern "C" __global__ void tries_float(u32 *out, const u32 *table, int rounds) { tries<float>(out, table, rounds); }
extern "C" __global__ void tries_double(u32 *out, const u32 *table, int rounds) { tries<double>(out, table, rounds); }
extern "C" __global__ void tries_wide(u32 *out, const u32 *table, int rounds) { tries<u64>(out, table, rounds); }
