// Fences of one warp while another keeps bulk loads in flight.

#define SHARED(x) ((unsigned)__cvta_generic_to_shared(x))
#define EXPECT(bar, bytes) asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" :: "r"(bar), "r"(bytes) : "memory")
#define LOAD(to, from, bytes, bar) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory")

static __device__ __forceinline__ void await(unsigned bar, unsigned parity)
{
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" :: "r"(bar), "r"(parity) : "memory");
}

// The first warp's first thread loads `count` times `bytes`, `depth` of them in flight; the second warp executes `fences`. Each block reads its own part of `from`, again and again.
template <class FENCE> static __device__ __forceinline__ void among(unsigned *out, const char *from, int bytes, int depth, int count, int fences)
{
    extern __shared__ __align__(128) char ring[];
    __shared__ __align__(8) unsigned long long gates[8];
    if (threadIdx.x < 8)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(SHARED(&gates[threadIdx.x])) : "memory");
    __syncthreads();
    unsigned begin = clock();
    const char *mine = from + (size_t)blockIdx.x * depth * bytes;
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (int n = 0; n < count + depth; n++) {
            unsigned slot = n % depth, bar = SHARED(&gates[slot]);
            if (n >= depth)
                await(bar, n / depth - 1 & 1);
            if (n < count) {
                EXPECT(bar, bytes);
                LOAD(SHARED(ring) + slot * bytes, mine + slot * bytes, bytes, bar);
            }
        }
    }
    if (threadIdx.x >= 32) {
#pragma unroll 1
        for (int n = 0; n < fences; n++)
            FENCE::run();
    }
    unsigned end = clock();
    if (threadIdx.x % 32 == 0)
        out[2 * blockIdx.x + threadIdx.x / 32] = end - begin;
}

#define KERNEL(name, PTX)                                                                                                                   \
    struct name##_fence { static __device__ __forceinline__ void run() { asm volatile(PTX ::: "memory"); } };                               \
    extern "C" __global__ void name(unsigned *out, const char *from, int bytes, int depth, int count, int fences)                           \
    {                                                                                                                                       \
        among<name##_fence>(out, from, bytes, depth, count, fences);                                                                        \
    }
KERNEL(nothing, "")
KERNEL(acq_rel, "fence.acq_rel.gpu;")
KERNEL(sc, "fence.sc.gpu;")
