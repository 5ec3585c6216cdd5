// Microbenchmarks of the papers' tables: python -m bench.papers.  Latencies read the clock around a chain; throughputs are run at two lengths.

#define CHAIN 256


// --- dependent operations (Zhang et al., section 3.3) ---
extern "C" __global__ void chain_fadd(float *out, long long *cycles, float x) {
    float v = x;
    long long begin = clock64();
#pragma unroll
    for (int i = 0; i < CHAIN; ++i) v = v + x;
    long long end = clock64();
    out[threadIdx.x] = v;
    cycles[0] = end - begin;
}
extern "C" __global__ void chain_imad(int *out, long long *cycles, int x) {
    int v = x;
    long long begin = clock64();
#pragma unroll
    for (int i = 0; i < CHAIN; ++i) v = v * x + x;
    long long end = clock64();
    out[threadIdx.x] = v;
    cycles[0] = end - begin;
}
extern "C" __global__ void chain_dfma(double *out, long long *cycles, double x) {
    double v = x;
    long long begin = clock64();
#pragma unroll
    for (int i = 0; i < CHAIN; ++i) v = fma(v, x, x);
    long long end = clock64();
    out[threadIdx.x] = v;
    cycles[0] = end - begin;
}

// --- block barriers (Zhang et al., Table 5) ---
extern "C" __global__ void block_sync(long long *cycles, int rounds) {
    __syncthreads();
    long long begin = clock64();
#pragma unroll 1
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int i = 0; i < 32; ++i) __syncthreads();
    }
    long long end = clock64();
    if (threadIdx.x == 0 && blockIdx.x == 0) cycles[0] = end - begin;
}

// --- loads that wait for each other ---
#if __CUDA_ARCH__ < 700
#define LOAD(p) __ldca(p)  // a generic load takes longer there, and global ones stay out of L1 unless they say so
#else
#define LOAD(p) *(p)
#endif
extern "C" __global__ void chase(const unsigned long long *first, int warm, int steps, long long *cycles, unsigned long long *out) {
    const unsigned long long *p = first;
#pragma unroll 1
    for (int i = 0; i < warm; ++i) p = (const unsigned long long *)LOAD(p);
    long long begin = clock64();
#pragma unroll 1
    for (int i = 0; i < steps; i += 8) {
#pragma unroll
        for (int k = 0; k < 8; ++k) p = (const unsigned long long *)LOAD(p);
    }
    long long end = clock64();
    out[0] = (unsigned long long)p;
    cycles[0] = end - begin;
}
extern "C" __global__ void chase_l2(const unsigned long long *first, int warm, int steps, long long *cycles, unsigned long long *out) {
    const unsigned long long *p = first;
#pragma unroll 1
    for (int i = 0; i < warm; ++i) p = (const unsigned long long *)__ldcg(p);
    long long begin = clock64();
#pragma unroll 1
    for (int i = 0; i < steps; i += 8) {
#pragma unroll
        for (int k = 0; k < 8; ++k) p = (const unsigned long long *)__ldcg(p);
    }
    long long end = clock64();
    out[0] = (unsigned long long)p;
    cycles[0] = end - begin;
}
extern "C" __global__ void chase_shared(int steps, long long *cycles, int *out) {
    __shared__ int ring[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x) ring[i] = 4 * ((i + 1) & 63);
    __syncthreads();
    int at = 0;
    long long begin = clock64();
#pragma unroll 1
    for (int i = 0; i < steps; i += 8) {
#pragma unroll
        for (int k = 0; k < 8; ++k) at = *(const int *)((const char *)ring + at);
    }
    long long end = clock64();
    out[0] = at;
    cycles[0] = end - begin;
}

// --- throughputs of the chip (A100 whitepaper, Table 4; Choquette et al., Figure 1) ---
extern "C" __global__ void rate_ffma(float *out, float x, int rounds) {
    float v[8];
    for (int k = 0; k < 8; ++k) v[k] = x + k;
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int k = 0; k < 64; ++k) v[k & 7] = fmaf(v[k & 7], x, x);
    float s = 0;
    for (int k = 0; k < 8; ++k) s += v[k];
    if (s == 12345.0f) out[threadIdx.x] = s;
}
extern "C" __global__ void rate_dfma(double *out, double x, int rounds) {
    double v[8];
    for (int k = 0; k < 8; ++k) v[k] = x + k;
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int k = 0; k < 64; ++k) v[k & 7] = fma(v[k & 7], x, x);
    double s = 0;
    for (int k = 0; k < 8; ++k) s += v[k];
    if (s == 12345.0) out[threadIdx.x] = s;
}
extern "C" __global__ void rate_imad(int *out, int x, int rounds) {
    int v[8];
    for (int k = 0; k < 8; ++k) v[k] = x + k;
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int k = 0; k < 64; ++k) v[k & 7] = v[k & 7] * x + x;
    int s = 0;
    for (int k = 0; k < 8; ++k) s += v[k];
    if (s == 12345) out[threadIdx.x] = s;
}
extern "C" __global__ void rate_hfma2(unsigned *out, unsigned x, int rounds) {
    unsigned v[8];
    for (int k = 0; k < 8; ++k) v[k] = x + k;
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int k = 0; k < 64; ++k) asm("fma.rn.f16x2 %0, %0, %1, %1;" : "+r"(v[k & 7]) : "r"(x));
    unsigned s = 0;
    for (int k = 0; k < 8; ++k) s ^= v[k];
    if (s == 12345u) out[threadIdx.x] = s;
}

#if __CUDA_ARCH__ == 700
extern "C" __global__ void rate_mma_f16(float *out, unsigned x, int rounds) {
    float d[4][8] = {};
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            float *c = d[k & 3];
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%8}, {%8,%8}, {%0,%1,%2,%3,%4,%5,%6,%7};"
                         : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]) : "r"(x));
        }
    float s = 0;
    for (int i = 0; i < 32; ++i) s += d[i >> 3][i & 7];
    if (s == 12345.0f) out[threadIdx.x] = s;
}
#elif __CUDA_ARCH__ >= 800
#define MMA_F32(name, text, A, B)                                                                       \
    extern "C" __global__ void name(float *out, unsigned x, int rounds) {                               \
        float d[4][4] = {};                                                                             \
        for (int r = 0; r < rounds; ++r)                                                                \
            _Pragma("unroll") for (int k = 0; k < 16; ++k) {                                            \
                float *c = d[k & 3];                                                                    \
                asm volatile(text " {%0,%1,%2,%3}, {" A "}, {" B "}, {%0,%1,%2,%3};"                    \
                             : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(x));                \
            }                                                                                           \
        float s = 0;                                                                                    \
        for (int i = 0; i < 16; ++i) s += d[i >> 2][i & 3];                                             \
        if (s == 12345.0f) out[threadIdx.x] = s;                                                        \
    }
MMA_F32(rate_mma_f16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "%4,%4,%4,%4", "%4,%4")
MMA_F32(rate_mma_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "%4,%4,%4,%4", "%4,%4")
MMA_F32(rate_mma_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "%4,%4,%4,%4", "%4,%4")
extern "C" __global__ void rate_mma_s8(int *out, unsigned x, int rounds) {
    int d[4][4] = {};
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            int *c = d[k & 3];
            asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};"
                         : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(x));
        }
    int s = 0;
    for (int i = 0; i < 16; ++i) s += d[i >> 2][i & 3];
    if (s == 12345) out[threadIdx.x] = s;
}
extern "C" __global__ void rate_mma_f64(double *out, double x, int rounds) {
    double d[4][2] = {};
    for (int r = 0; r < rounds; ++r)
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            double *c = d[k & 3];
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%2}, {%0,%1};" : "+d"(c[0]), "+d"(c[1]) : "d"(x));
        }
    double s = 0;
    for (int i = 0; i < 8; ++i) s += d[i >> 1][i & 1];
    if (s == 12345.0) out[threadIdx.x] = s;
}
#endif

// --- memory ---
extern "C" __global__ void triad(double2 *a, const double2 *b, const double2 *c, double scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double2 x = b[i], y = c[i];
    a[i] = make_double2(x.x + scale * y.x, x.y + scale * y.y);
}
// Every SM reads the same lines of L2 at a place of its own, past L1.
extern "C" __global__ void rate_l2(const uint4 *data, uint4 *out, int words, long long *cycles, int rounds) {
    long long begin = clock64();
    uint4 s = make_uint4(0, 0, 0, 0);
    int at = (blockIdx.x * 977 * 32 + threadIdx.x) % words;
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            uint4 v = __ldcg(data + at);
            s.x ^= v.x; s.y ^= v.y; s.z ^= v.z; s.w ^= v.w;
            at += blockDim.x;
            if (at >= words) at -= words;
        }
    }
    if ((s.x ^ s.y ^ s.z ^ s.w) == 12345u) out[threadIdx.x] = s;
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - begin;
}
extern "C" __global__ void rate_l1(const uint4 *data, uint4 *out, int rounds) {
    uint4 s = make_uint4(0, 0, 0, 0);
    for (int r = 0; r < rounds; ++r) {
        const uint4 *p = data + (threadIdx.x & 31) + (s.x & 256);  // known by loading only: every round loads again
#pragma unroll
        for (int k = 0; k < 8; k += 2) {
            uint4 a = p[32 * k], b = p[32 * k + 32];
            s.x ^= a.x ^ b.x; s.y ^= a.y ^ b.y; s.z ^= a.z ^ b.z; s.w ^= a.w ^ b.w;
        }
    }
    if ((s.x ^ s.y ^ s.z ^ s.w) == 12345u) out[threadIdx.x] = s;
}

// --- synchronisation (Burtchell and Burtscher): the cost of one more operation per thread, from kernels with and without it ---
#define PER_ROUND 16
#define TIMED(NAME, BEFORE, WORK, AFTER)                                                                 \
    extern "C" __global__ void NAME(long long *cycles, int *out, int *other, int rounds) {               \
        int thread = blockIdx.x * blockDim.x + threadIdx.x;                                              \
        long long begin = 0;                                                                             \
        BEFORE;                                                                                          \
        _Pragma("unroll 1") for (int r = 0; r <= rounds; ++r) { /* the first round fills the caches */   \
            if (r == 1) {                                                                                \
                __syncthreads();                                                                         \
                begin = clock64();                                                                       \
            }                                                                                            \
            _Pragma("unroll") for (int i = 0; i < PER_ROUND; ++i) { WORK }                               \
        }                                                                                                \
        cycles[thread] = clock64() - begin;                                                              \
        __syncthreads();                                                                                 \
        AFTER;                                                                                           \
    }
#define ONE_AND_TWO(NAME, BEFORE, WORK, AFTER) TIMED(NAME##_1, BEFORE, WORK, AFTER) TIMED(NAME##_2, BEFORE, WORK WORK, AFTER)
ONE_AND_TWO(sync_block, , __syncthreads();, )
ONE_AND_TWO(shuffle, int x = thread; int from = (threadIdx.x + 1) % 32, x = __shfl_sync(~0u, x, from);, out[thread] = x)
ONE_AND_TWO(shuffle_wide, long long x = thread; int from = (threadIdx.x + 1) % 32, x = __shfl_sync(~0u, x, from);, out[thread] = x)
ONE_AND_TWO(vote_any, int x = 0, x += __any_sync(~0u, thread);, out[thread] = x)
ONE_AND_TWO(add_wide, , atomicAdd((unsigned long long *)out, (unsigned long long)thread);, )
ONE_AND_TWO(add_float, , atomicAdd((float *)out, (float)thread);, )
TIMED(fence_none, , out[thread] += thread; other[thread] += thread;, )
TIMED(fence_device, , out[thread] += thread; __threadfence(); other[thread] += thread;, )
TIMED(fence_system, , out[thread] += thread; __threadfence_system(); other[thread] += thread;, )
