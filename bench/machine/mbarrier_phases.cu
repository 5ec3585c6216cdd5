// Phases of mbarriers in shared memory: warps that arrive and wait, with and without work in between, and a producer with consumers over a ring of buffers.

#include "warp_spans.cuh"

#define SHARED(pointer) (unsigned)__cvta_generic_to_shared(pointer)
#define INIT(bar, count) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory")
#define ARRIVE(bar) asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" :: "r"(bar) : "memory")

// Returns how often the wait was asked in vain.
template <bool TEST> static __device__ __forceinline__ unsigned wait(unsigned bar, unsigned parity)
{
    unsigned done, vain = 0;
    while (true) {
        if (TEST)
            asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar), "r"(parity) : "memory");
        else
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar), "r"(parity) : "memory");
        if (done)
            return vain;
        vain++;
    }
}

// WHO: 't' each thread arrives, 'w' a thread of each warp.  WORK before each arrival: 'n' none, 'f' 32 dependent multiply-adds, 's' eight dependent loads of shared memory, 'd' a delay
// that differs between warps.
template <char WHO, char WORK, bool TEST> static __device__ __forceinline__ void phases(unsigned *out, int repeats)
{
    __shared__ unsigned long long gate;
    __shared__ unsigned chain[32];
    unsigned bar = SHARED(&gate), lane = threadIdx.x % 32, warp = threadIdx.x / 32, at = lane, vain = 0;
    if (threadIdx.x < 32)
        chain[lane] = (lane + 1) % 32;
    if (threadIdx.x == 0)
        INIT(bar, WHO == 't' ? blockDim.x : blockDim.x / 32);
    __syncthreads();
    float value = lane;
    unsigned begin = clock();
#pragma unroll 1
    for (int i = 0; i < repeats; i++) {
        if (WORK == 'f') {
#pragma unroll
            for (int k = 0; k < 32; k++)
                asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(value));
        }
        if (WORK == 's') {
#pragma unroll
            for (int k = 0; k < 8; k++)
                at = *(volatile unsigned *)&chain[at];
        }
        if (WORK == 'd') {
            unsigned since = (unsigned)clock();
            while ((unsigned)clock() - since < 40 * ((warp + i) % 8)) {}
        }
        if (WHO == 't')
            ARRIVE(bar);
        else {
            __syncwarp();
            if (lane == 0)
                ARRIVE(bar);
        }
        vain += wait<TEST>(bar, i & 1);
    }
    unsigned end = clock();
    report(out, begin, end, vain, at + (unsigned)value);
}

#define PHASES(name, WHO, WORK, TEST) extern "C" __global__ void name(unsigned *out, int repeats) { phases<WHO, WORK, TEST>(out, repeats); }
PHASES(phases_t_n, 't', 'n', false)
PHASES(phases_w_n, 'w', 'n', false)
PHASES(phases_w_n_test, 'w', 'n', true)
PHASES(phases_t_f, 't', 'f', false)
PHASES(phases_w_f, 'w', 'f', false)
PHASES(phases_w_s, 'w', 's', false)
PHASES(phases_w_d, 'w', 'd', false)

// The first warp fills a ring of STAGES buffers that the others read: a pair of mbarriers for each.
template <int STAGES> static __device__ __forceinline__ void ring(unsigned *out, int repeats)
{
    __shared__ unsigned long long full[STAGES], empty[STAGES];
    __shared__ unsigned buffer[STAGES][32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, vain = 0, sum = 0;
    if (threadIdx.x == 0)
        for (int k = 0; k < STAGES; k++) {
            INIT(SHARED(&full[k]), 1);
            INIT(SHARED(&empty[k]), warps - 1);
        }
    __syncthreads();
    unsigned begin = clock();
    int stage = 0;
    unsigned parity = 0;
#pragma unroll 1
    for (int i = 0; i < repeats; i++) {
        if (warp == 0) {
            vain += wait<false>(SHARED(&empty[stage]), parity ^ 1);
            *(volatile unsigned *)&buffer[stage][lane] = i + lane;
            __syncwarp();
            if (lane == 0)
                ARRIVE(SHARED(&full[stage]));
        } else {
            vain += wait<false>(SHARED(&full[stage]), parity);
            sum += *(volatile unsigned *)&buffer[stage][lane];
            __syncwarp();
            if (lane == 0)
                ARRIVE(SHARED(&empty[stage]));
        }
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
    unsigned end = clock();
    report(out, begin, end, vain, sum);
}
extern "C" __global__ void ring_1(unsigned *out, int repeats) { ring<1>(out, repeats); }
extern "C" __global__ void ring_2(unsigned *out, int repeats) { ring<2>(out, repeats); }
extern "C" __global__ void ring_4(unsigned *out, int repeats) { ring<4>(out, repeats); }

// How fast a warp's operations on mbarriers pass, of every APART-th warp of a block.  Barriers are one for the block or one per warp (OWN); each takes eight arrivals of a thread (a) or of
// all threads of a warp (A) of a phase that never ends, arrivals that each end a phase (e), or looks at a phase that is over, by try_wait (l) or test_wait (t).
template <char KIND, bool OWN, int APART> static __device__ __forceinline__ void rates(unsigned *out, int repeats)
{
    __shared__ unsigned long long gates[32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, bar = SHARED(&gates[OWN ? warp : 0]), seen = 0;
    if (lane == 0 && (OWN || warp == 0))
        INIT(bar, KIND == 'e' ? 1 : 1 << 19);
    __syncthreads();
    unsigned begin = clock();
    if (warp % APART == 0 && (KIND == 'A' || KIND == 'l' || KIND == 't' || lane == 0)) {
#pragma unroll 1
        for (int i = 0; i < repeats; i++) {
#pragma unroll
            for (int k = 0; k < 8; k++) {
                if (KIND == 'l')
                    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 1; @p add.u32 %0, %0, 1; }" : "+r"(seen) : "r"(bar) : "memory");
                else if (KIND == 't')
                    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 1; @p add.u32 %0, %0, 1; }" : "+r"(seen) : "r"(bar) : "memory");
                else
                    ARRIVE(bar);
            }
        }
    }
    unsigned end = clock();
    report(out, begin, end, warp % APART ? 0 : 1, seen);
}
#define RATES(name, KIND) \
    extern "C" __global__ void rates_##name##_block(unsigned *out, int repeats) { rates<KIND, false, 1>(out, repeats); } \
    extern "C" __global__ void rates_##name##_warp(unsigned *out, int repeats) { rates<KIND, true, 1>(out, repeats); } \
    extern "C" __global__ void rates_##name##_sub_core(unsigned *out, int repeats) { rates<KIND, true, 4>(out, repeats); }
RATES(arrive, 'a')
RATES(arrive_all, 'A')
RATES(end, 'e')
RATES(look, 'l')
RATES(test, 't')
