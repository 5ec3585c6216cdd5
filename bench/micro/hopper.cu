// Hopper's memory machinery, in cycles by the clock of one thread: distributed shared memory, cluster barriers, bulk copies.
typedef struct { alignas(64) unsigned long long words[16]; } Map;
#define SHARED(x) ((unsigned)__cvta_generic_to_shared(x))
#define CLUSTER_SYNC asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory")
#define EXPECT(bar, bytes) asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" :: "r"(bar), "r"(bytes) : "memory")
#define WAIT(bar, parity) asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" :: "r"(bar), "r"(parity) : "memory")

// Rounds of a cluster's barrier; 32 threads a block.
extern "C" __global__ void cluster_barrier(unsigned *out) {
    CLUSTER_SYNC;
    unsigned begin = clock();
    for (int i = 0; i < 64; i++) CLUSTER_SYNC;
    unsigned end = clock();
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
        unsigned begin = clock();
        for (int i = 0; i < 64; i++) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(at) : "r"(there + at) : "memory");
        out[0] = clock() - begin, out[1] = at;
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
        unsigned begin = clock();
        for (int i = 0; i < 64; i++) asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;" : "=r"(at) : "r"(there), "r"((at & 0) + 1) : "memory");
        out[0] = clock() - begin, out[1] = at;
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
            unsigned begin = clock();
            EXPECT(bar, bytes * count);
            for (unsigned k = 0; k < count; k++)
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(to + k * bytes), "l"(in + k * bytes), "r"(bytes), "r"(bar) : "memory");
            unsigned issued = clock();
            WAIT(bar, i & 1);
            out[2 * i] = issued - begin, out[2 * i + 1] = clock() - begin;
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
            unsigned begin = clock();
            EXPECT(bar, bytes * count);
            for (unsigned k = 0; k < count; k++)
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" :: "r"(to + k * bytes), "l"(&map), "r"(0), "r"(k * 16), "r"(bar) : "memory");
            unsigned issued = clock();
            WAIT(bar, i & 1);
            out[2 * i] = issued - begin, out[2 * i + 1] = clock() - begin;
        }
    }
}
// A store of bytes to global memory, its group committed and waited for (reads done; then all done).
extern "C" __global__ void bulk_store(unsigned *out, unsigned char *to, unsigned bytes) {
    extern __shared__ __align__(1024) unsigned char tile[];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 8; i++) {
            unsigned begin = clock();
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2; cp.async.bulk.commit_group;" :: "l"(to), "r"(SHARED(tile)), "r"(bytes) : "memory");
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            unsigned read = clock();
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
            out[2 * i] = read - begin, out[2 * i + 1] = clock() - begin;
        }
    }
}
// A wait that succeeds at once, and an arrival, one behind the other.
extern "C" __global__ void local_barrier(unsigned *out) {
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = SHARED(&gate);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(bar) : "memory");
        unsigned begin = clock();
        for (int i = 0; i < 64; i++) {
            asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" :: "r"(bar) : "memory");
            WAIT(bar, i & 1);
        }
        out[0] = clock() - begin;
    }
}
// Every block loads its own bytes over and over: bandwidth from L2 into shared memory.
extern "C" __global__ void bulk_stream(unsigned *out, const unsigned char *in, unsigned bytes, unsigned rounds) {
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ __align__(8) unsigned long long gates[4];
    if (threadIdx.x == 0) {
        for (int k = 0; k < 4; k++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(SHARED(&gates[k])) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        unsigned begin = clock();
        for (unsigned i = 0; i < rounds + 4; i++) {
            unsigned bar = SHARED(&gates[i & 3]);
            if (i >= 4) WAIT(bar, ((i >> 2) - 1) & 1);
            if (i < rounds) {
                EXPECT(bar, bytes);
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(SHARED(tile) + (i & 3) * bytes), "l"(in + (blockIdx.x * 4 + (i & 3)) * bytes), "r"(bytes), "r"(bar) : "memory");
            }
        }
        out[blockIdx.x] = clock() - begin;
    }
}
