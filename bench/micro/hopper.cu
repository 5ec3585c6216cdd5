// Hopper's memory machinery, in cycles by the clock of one thread: distributed shared memory, cluster barriers, bulk copies.
#include "common.cuh"
typedef struct { alignas(64) unsigned long long words[16]; } Map;
#define SHARED(x) ((unsigned)__cvta_generic_to_shared(x))
#define CLUSTER_SYNC asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory")
#define EXPECT(bar, bytes) asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" :: "r"(bar), "r"(bytes) : "memory")
#define WAIT(bar, parity) asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" :: "r"(bar), "r"(parity) : "memory")

// Rounds of a cluster's barrier; 32 threads a block.
extern "C" __global__ void cluster_barrier(unsigned *out) {
    CLUSTER_SYNC;
    unsigned begin = clk();
    for (int i = 0; i < 64; i++) CLUSTER_SYNC;
    unsigned end = clk();
    if (threadIdx.x == 0) out[blockIdx.x] = end - begin;
}
// A chain of 64 loads from the next block's shared memory (rank 1) or one's own by the same path (rank 0).
extern "C" __global__ void remote_chain(unsigned *out, unsigned rank) {
    __shared__ unsigned next[64];
    if (threadIdx.x < 64) next[threadIdx.x] = ((threadIdx.x + 1) & 63) * 4;
    unsigned here = SHARED(next), there, at = 0;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    CLUSTER_SYNC;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        unsigned begin = clk();
        for (int i = 0; i < 64; i++) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(at) : "r"(there + at) : "memory");
        out[0] = clk() - begin, out[1] = at;
    }
    CLUSTER_SYNC;
}
// Atomics on another block's word, one behind the other.
extern "C" __global__ void remote_atomic(unsigned *out, unsigned rank) {
    __shared__ unsigned word[4];
    if (threadIdx.x < 4) word[threadIdx.x] = 0;
    unsigned there, at = 0;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(SHARED(word)), "r"(rank));
    CLUSTER_SYNC;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        unsigned begin = clk();
        for (int i = 0; i < 64; i++) asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;" : "=r"(at) : "r"(there), "r"((at & 0) + 1) : "memory");
        out[0] = clk() - begin, out[1] = at;
    }
    CLUSTER_SYNC;
}
// Issue to wait of one bulk copy of so many bytes; the second and later rounds hit L2.
extern "C" __global__ void bulk_latency(unsigned *out, const unsigned char *in, unsigned bytes, unsigned count) {
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = SHARED(&gate), to = SHARED(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(bar) : "memory");
        for (int i = 0; i < 8; i++) {
            unsigned begin = clk();
            EXPECT(bar, bytes * count);
            for (unsigned k = 0; k < count; k++)
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(to + k * bytes), "l"(in + k * bytes), "r"(bytes), "r"(bar) : "memory");
            unsigned issued = clk();
            WAIT(bar, i & 1);
            out[2 * i] = issued - begin, out[2 * i + 1] = clk() - begin;
        }
    }
}
extern "C" __global__ void tensor_latency(const __grid_constant__ Map map, unsigned *out, unsigned bytes, unsigned count) {
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = SHARED(&gate), to = SHARED(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(bar) : "memory");
        for (int i = 0; i < 8; i++) {
            unsigned begin = clk();
            EXPECT(bar, bytes * count);
            for (unsigned k = 0; k < count; k++)
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" :: "r"(to + k * bytes), "l"(&map), "r"(0), "r"(k * 16), "r"(bar) : "memory");
            unsigned issued = clk();
            WAIT(bar, i & 1);
            out[2 * i] = issued - begin, out[2 * i + 1] = clk() - begin;
        }
    }
}
// Stores of bytes to global memory, their group committed and waited for: the sources read (way 0), all done (way 1).
template <int WAY, class Copy> __device__ void bulk_store(u32 *out, unsigned bytes, unsigned count, Copy copy) {
    extern __shared__ __align__(1024) unsigned char tile[];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 8; i++) {
            unsigned begin = clk();
            for (unsigned k = 0; k < count; k++) copy(k * bytes, SHARED(tile) + k * bytes);
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            unsigned issued = clk();
            if (WAY == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            else asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
            unsigned end = clk();
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
            out[2 * i] = issued - begin, out[2 * i + 1] = end - begin;
        }
    }
}
#define STORE(name, text) \
    struct Copy_##name { unsigned char *to; unsigned bytes; \
        __device__ void operator()(unsigned at, unsigned from) const { asm volatile(text :: "l"(to + at), "r"(from), "r"(bytes) : "memory"); } }; \
    extern "C" __global__ void name##_read(u32 *out, unsigned char *to, unsigned bytes, unsigned count) { bulk_store<0>(out, bytes, count, Copy_##name{to, bytes}); } \
    extern "C" __global__ void name##_done(u32 *out, unsigned char *to, unsigned bytes, unsigned count) { bulk_store<1>(out, bytes, count, Copy_##name{to, bytes}); }
STORE(store, "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;")
STORE(reduce, "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;")
// Every block stores its own bytes over and over, three groups in flight.
extern "C" __global__ void store_stream(u32 *out, unsigned char *to, unsigned bytes, unsigned rounds) {
    extern __shared__ __align__(1024) unsigned char tile[];
    if (threadIdx.x == 0) {
        unsigned begin = clk();
        for (unsigned i = 0; i < rounds; i++) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 3;" :: "l"(to + (blockIdx.x * 4 + (i & 3)) * bytes), "r"(SHARED(tile) + (i & 3) * bytes), "r"(bytes) : "memory");
        }
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        out[blockIdx.x] = clk() - begin;
    }
}
// A wait that succeeds at once, and an arrival, one behind the other.
extern "C" __global__ void local_barrier(unsigned *out) {
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = SHARED(&gate);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(bar) : "memory");
        unsigned begin = clk();
        for (int i = 0; i < 64; i++) {
            asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" :: "r"(bar) : "memory");
            WAIT(bar, i & 1);
        }
        out[0] = clk() - begin;
    }
}
// Every block loads its own bytes over and over: bandwidth from L2 into shared memory.
extern "C" __global__ void bulk_stream(unsigned *out, const unsigned char *in, unsigned bytes, unsigned rounds) {
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ __align__(8) unsigned long long gates[4];
    if (threadIdx.x == 0) {
        for (int k = 0; k < 4; k++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(SHARED(&gates[k])) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        unsigned begin = clk();
        for (unsigned i = 0; i < rounds + 4; i++) {
            unsigned bar = SHARED(&gates[i & 3]);
            if (i >= 4) WAIT(bar, ((i >> 2) - 1) & 1);
            if (i < rounds) {
                EXPECT(bar, bytes);
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(SHARED(tile) + (i & 3) * bytes), "l"(in + (blockIdx.x * 4 + (i & 3)) * bytes), "r"(bytes), "r"(bar) : "memory");
            }
        }
        out[blockIdx.x] = clk() - begin;
    }
}

// The barrier without fences before it; what one block waits when block 0 comes so many cycles late.
extern "C" __global__ void cluster_barrier_relaxed(u32 *out) {
    CLUSTER_SYNC;
    unsigned begin = clk();
    for (int i = 0; i < 64; i++) asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    unsigned end = clk();
    if (threadIdx.x == 0) out[blockIdx.x] = end - begin;
}
extern "C" __global__ void cluster_late(u32 *out, unsigned late) {
    for (int i = 0; i < 4; i++) {
        CLUSTER_SYNC;
        unsigned begin = clk(), arrived;
        if (blockIdx.x == 0) while (clk() - begin < late);
        unsigned ready = clk();
        asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
        arrived = clk();
        asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
        unsigned end = clk();
        if (threadIdx.x == 0) { u32 *o = out + blockIdx.x * 3; o[0] = ready - begin, o[1] = arrived - ready, o[2] = end - arrived; }
    }
}
// Accesses to the block of a rank, each address from the result before (zero is 0).
#define REMOTE_CHAIN(name, text, ...) \
    extern "C" __global__ void name(u32 *out, unsigned rank, unsigned zero) { \
        __shared__ unsigned word[4]; \
        if (threadIdx.x < 4) word[threadIdx.x] = 0; \
        unsigned there, at = 0; \
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(SHARED(word)), "r"(rank)); \
        CLUSTER_SYNC; \
        if (blockIdx.x == 0 && threadIdx.x == 0) { \
            unsigned begin = clk(); \
            for (int i = 0; i < 64; i++) { asm volatile(text : "=r"(at) : "r"(there + (at & zero)) : "memory"); } \
            unsigned end = clk(); \
            out[0] = end - begin, out[1] = at; \
        } \
        CLUSTER_SYNC; \
    }
REMOTE_CHAIN(atomic_chain, "atom.shared::cluster.add.u32 %0, [%1], 1;")
REMOTE_CHAIN(cas_chain, "atom.shared::cluster.cas.b32 %0, [%1], 0, 1;")
// Warps read (write) 16 words a thread of the next block's shared memory, 4 or 16 bytes each; blocks: how many of the cluster do.
template <bool WRITES, class T> __device__ void remote_rate(u32 *out, unsigned far, unsigned blocks, unsigned rounds) {
    extern __shared__ __align__(1024) unsigned char tile[];
    unsigned rank, size, there, total = 0;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(SHARED(tile)), "r"((rank + far) % size));
    there += threadIdx.x * sizeof(T);
    CLUSTER_SYNC;
    unsigned begin = clk();
    if (rank < blocks)
        for (unsigned i = 0; i < rounds; i++)
#pragma unroll
            for (int k = 0; k < 8; k++) {
                unsigned a = there + k * 1024 * (unsigned)sizeof(T) + i % 2 * 128, x = i,  // other places each time: what stands still is loaded once
                          y = i, z = i, w = i;
                if (WRITES) {
                    if (sizeof(T) == 4) asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(a), "r"(x) : "memory");
                    else asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %1, %1, %1};" :: "r"(a), "r"(x) : "memory");
                } else if (sizeof(T) == 4) { asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(x) : "r"(a) : "memory"); total += x; }
                else { asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(a) : "memory"); total += x + y + z + w; }
            }
    __syncthreads();
    unsigned end = clk();
    if (threadIdx.x == 0) out[blockIdx.x] = end - begin;
    CLUSTER_SYNC;
    out[SINK + threadIdx.x] = total;
}
extern "C" __global__ void remote_read4(u32 *out, unsigned far, unsigned blocks, unsigned rounds) { remote_rate<false, unsigned>(out, far, blocks, rounds); }
extern "C" __global__ void remote_read16(u32 *out, unsigned far, unsigned blocks, unsigned rounds) { remote_rate<false, uint4>(out, far, blocks, rounds); }
extern "C" __global__ void remote_write4(u32 *out, unsigned far, unsigned blocks, unsigned rounds) { remote_rate<true, unsigned>(out, far, blocks, rounds); }
extern "C" __global__ void remote_write16(u32 *out, unsigned far, unsigned blocks, unsigned rounds) { remote_rate<true, uint4>(out, far, blocks, rounds); }
// What a warp's access to shared memory of its cluster costs by the lanes' places: offsets and distances in ranks (256: from rank 0) come from `plan`.
// Lanes with an offset of ~0 stay out. Eight accesses a round, at eight places; op 0: loads, 1: stores, 2: additions without,
// 3: with a result, 4: through a generic pointer; 5, 6: loads and stores through one; 7: loads of 16 bytes.
template <int OP> __device__ void remote_places(u32 *out, const u32 *plan, unsigned rounds) {
    extern __shared__ __align__(1024) unsigned char tile[];
    unsigned rank, size, there, total = 0, lane = threadIdx.x & 31;
    bool takes_part = plan[lane] != ~0u;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(SHARED(tile) + plan[lane]), "r"(((plan[32 + lane] & 256 ? 0 : rank) + plan[32 + lane]) % 256 % size));
    unsigned long long generic;
    asm volatile("{ .reg .u64 w; cvt.u64.u32 w, %1; cvta.shared::cluster.u64 %0, w; }" : "=l"(generic) : "r"(there));
    CLUSTER_SYNC;
    unsigned begin = clk();
    for (unsigned i = 0; takes_part && i < rounds; i++)
#pragma unroll
        for (int k = 0; k < 8; k++) {
            unsigned a = there + k * 5120 + i % 2 * 128, x = i;  // other places each time: what stands still is loaded once
            if (OP == 0) { asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(x) : "r"(a) : "memory"); total += x; }
            if (OP == 1) asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(a), "r"(x) : "memory");
            if (OP == 2) asm volatile("red.shared::cluster.add.u32 [%0], %1;" :: "r"(a), "r"(1) : "memory");
            if (OP == 3) { asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;" : "=r"(x) : "r"(a), "r"(1) : "memory"); total += x; }
            if (OP == 4) asm volatile("red.add.u32 [%0], %1;" :: "l"(generic + k * 5120 + i % 2 * 128), "r"(1) : "memory");
            if (OP == 5) { asm volatile("ld.u32 %0, [%1];" : "=r"(x) : "l"(generic + k * 5120 + i % 2 * 128) : "memory"); total += x; }
            if (OP == 6) asm volatile("st.u32 [%0], %1;" :: "l"(generic + k * 5120 + i % 2 * 128), "r"(x) : "memory");
            if (OP == 7) { unsigned y, z, w; asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(a & ~15u) : "memory"); total += x + y + z + w; }
        }
    __syncthreads();
    unsigned end = clk();
    if (threadIdx.x == 0) out[blockIdx.x] = end - begin;
    CLUSTER_SYNC;
    out[SINK + threadIdx.x] = total;
}
extern "C" __global__ void remote_places_load(u32 *out, const u32 *plan, unsigned rounds) { remote_places<0>(out, plan, rounds); }
extern "C" __global__ void remote_places_store(u32 *out, const u32 *plan, unsigned rounds) { remote_places<1>(out, plan, rounds); }
extern "C" __global__ void remote_places_red(u32 *out, const u32 *plan, unsigned rounds) { remote_places<2>(out, plan, rounds); }
extern "C" __global__ void remote_places_atom(u32 *out, const u32 *plan, unsigned rounds) { remote_places<3>(out, plan, rounds); }
extern "C" __global__ void remote_places_generic(u32 *out, const u32 *plan, unsigned rounds) { remote_places<4>(out, plan, rounds); }
extern "C" __global__ void remote_places_generic_load(u32 *out, const u32 *plan, unsigned rounds) { remote_places<5>(out, plan, rounds); }
extern "C" __global__ void remote_places_generic_store(u32 *out, const u32 *plan, unsigned rounds) { remote_places<6>(out, plan, rounds); }
extern "C" __global__ void remote_places_load16(u32 *out, const u32 *plan, unsigned rounds) { remote_places<7>(out, plan, rounds); }
// Accesses whose lanes draw block and place anew each time; places: how many words of each block (a power of two), so many bytes apart. op 0 to 3 as above, 8: a counter's value says
// where a word is stored in its block.
template <int OP> __device__ void remote_random(u32 *out, unsigned places, unsigned apart, unsigned rounds) {
    extern __shared__ __align__(1024) unsigned char tile[];
    unsigned size, rank, total = 0, state = (blockIdx.x * blockDim.x + threadIdx.x) * 747796405u + 2891336453u;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    for (unsigned i = threadIdx.x; i < 12288; i += blockDim.x) ((unsigned *)tile)[i] = 0;
    CLUSTER_SYNC;
    unsigned begin = clk();
    for (unsigned i = 0; i < rounds; i++)
#pragma unroll
        for (int k = 0; k < 8; k++) {
            unsigned there, x = i;
            state = state * 1664525u + 1013904223u;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(SHARED(tile)), "r"((state >> 24) & (size - 1)));
            unsigned a = there + (state >> 10 & (places - 1)) * apart;
            if (OP == 0) { asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(x) : "r"(a) : "memory"); total += x; }
            if (OP == 1) asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(a), "r"(x) : "memory");
            if (OP == 2) asm volatile("red.shared::cluster.add.u32 [%0], %1;" :: "r"(a), "r"(1) : "memory");
            if (OP == 3) { asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;" : "=r"(x) : "r"(a), "r"(1) : "memory"); total += x; }
            if (OP == 8) {
                asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;" : "=r"(x) : "r"(there), "r"(1) : "memory");
                asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(there + 1024 + (x & 2047) * 4), "r"(x) : "memory");
            }
        }
    __syncthreads();
    unsigned end = clk();
    if (threadIdx.x == 0) out[blockIdx.x] = end - begin;
    CLUSTER_SYNC;
    out[SINK + threadIdx.x] = total;
}
extern "C" __global__ void remote_random_load(u32 *out, unsigned places, unsigned apart, unsigned rounds) { remote_random<0>(out, places, apart, rounds); }
extern "C" __global__ void remote_random_store(u32 *out, unsigned places, unsigned apart, unsigned rounds) { remote_random<1>(out, places, apart, rounds); }
extern "C" __global__ void remote_random_red(u32 *out, unsigned places, unsigned apart, unsigned rounds) { remote_random<2>(out, places, apart, rounds); }
extern "C" __global__ void remote_random_atom(u32 *out, unsigned places, unsigned apart, unsigned rounds) { remote_random<3>(out, places, apart, rounds); }
extern "C" __global__ void remote_random_both(u32 *out, unsigned places, unsigned apart, unsigned rounds) { remote_random<8>(out, places, apart, rounds); }
// An mbarrier that never completes its phase: arrivals one from the other's state, and looks at the phase before, which is over.
extern "C" __global__ void mbarrier_steps(u32 *out, unsigned zero) {
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = SHARED(&gate), seen;
    unsigned long long state = 0;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 100000; fence.mbarrier_init.release.cluster;" :: "r"(bar) : "memory");
        for (int again = 0; again < 2; again++) {
            unsigned begin = clk();
#pragma unroll
            for (int i = 0; i < 16; i++) asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(bar + ((unsigned)state & zero)) : "memory");
            unsigned arrived = clk();
            seen = (unsigned)state & zero;
#pragma unroll
            for (int i = 0; i < 16; i++) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 1; selp.u32 %0, 1, 0, p; }" : "=r"(seen) : "r"(bar + (seen & zero)) : "memory");
            unsigned looked = clk();
#pragma unroll
            for (int i = 0; i < 16; i++) asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 1; selp.u32 %0, 1, 0, p; }" : "=r"(seen) : "r"(bar + (seen & zero)) : "memory");
            unsigned tested = clk();
#pragma unroll
            for (int i = 0; i < 16; i++) asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" :: "r"(bar) : "memory");
            unsigned sent = clk();
            out[0] = arrived - begin, out[1] = looked - arrived, out[2] = tested - looked, out[3] = sent - tested, out[4] = (unsigned)state + seen;
        }
    }
}
// Two warps (of one block, or of the two blocks of a cluster) hand over by a pair of mbarriers, 64 times.
extern "C" __global__ void mbarrier_turns(u32 *out) {
    __shared__ __align__(8) unsigned long long gates[2];
    unsigned rank, size, mine, other;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; mbarrier.init.shared::cta.b64 [%1], 1; fence.mbarrier_init.release.cluster;" :: "r"(SHARED(&gates[0])), "r"(SHARED(&gates[1])) : "memory");
    __syncthreads();
    CLUSTER_SYNC;
    unsigned who = size > 1 ? rank : threadIdx.x / 32;
    mine = SHARED(&gates[size > 1 ? 0 : who]);
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(SHARED(&gates[size > 1 ? 0 : 1 - who])), "r"(size > 1 ? 1 - rank : rank));
    if (threadIdx.x % 32 == 0 && (size == 1 || threadIdx.x == 0)) {
        unsigned begin = clk();
        for (int i = 0; i < 64; i++) {
            if (who == 0) asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(other) : "memory");
            WAIT(mine, i & 1);
            if (who == 1) asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(other) : "memory");
        }
        if (who == 0) out[0] = clk() - begin;
    }
    CLUSTER_SYNC;
}
// Bytes to the next block's shared memory, whose thread answers by an arrival here; or to a mask of blocks from global memory.
extern "C" __global__ void within_turns(u32 *out, unsigned bytes, unsigned count) {
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ __align__(8) unsigned long long gates[2];
    unsigned rank, other, ready, there;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; mbarrier.init.shared::cta.b64 [%1], 1; fence.mbarrier_init.release.cluster;" :: "r"(SHARED(&gates[0])), "r"(SHARED(&gates[1])) : "memory");
    CLUSTER_SYNC;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(SHARED(&gates[0])), "r"(1 - rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(ready) : "r"(SHARED(&gates[1])), "r"(1 - rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(SHARED(tile)), "r"(1 - rank));
    if (threadIdx.x == 0 && rank == 1)
        for (int i = 0; i < 8; i++) {
            EXPECT(SHARED(&gates[0]), bytes * count);
            asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(ready) : "memory");
            WAIT(SHARED(&gates[0]), i & 1);
            asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(other) : "memory");
        }
    if (threadIdx.x == 0 && rank == 0)
        for (int i = 0; i < 8; i++) {
            WAIT(SHARED(&gates[1]), i & 1);
            unsigned begin = clk();
            for (unsigned k = 0; k < count; k++)
                asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(there + k * bytes), "r"(SHARED(tile) + k * bytes), "r"(bytes), "r"(other) : "memory");
            unsigned issued = clk();
            WAIT(SHARED(&gates[0]), i & 1);
            out[2 * i] = issued - begin, out[2 * i + 1] = clk() - begin;
        }
    CLUSTER_SYNC;
}
extern "C" __global__ void multicast(u32 *out, const unsigned char *in, unsigned bytes, unsigned mask) {
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = SHARED(&gate), rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(bar) : "memory");
    for (int i = 0; i < 8; i++) {
        if (threadIdx.x == 0) EXPECT(bar, mask >> rank & 1 ? bytes : 0);
        CLUSTER_SYNC;
        if (threadIdx.x == 0) {
            unsigned begin = clk();
            if (rank == 0)
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" :: "r"(SHARED(tile)), "l"(in), "r"(bytes), "r"(bar), "h"((unsigned short)mask) : "memory");
            WAIT(bar, i & 1);
            out[rank * 8 + i] = clk() - begin;
        }
        CLUSTER_SYNC;
    }
}
