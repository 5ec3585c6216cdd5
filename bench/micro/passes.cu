// What one sub-core's memory instructions take by the passes and words of each, with the warps that take part named by a mask; shared loads beside
// FFMAs, and the steps of tiled products; MATCH by different values.
#include "common.cuh"
extern __shared__ __align__(128) unsigned char smem[];

#define PART(NAME, BASE, ASM)                                                                       \
    extern "C" __global__ void NAME(u32* out, char* global, const u32* off, u32 active, int n) {   \
        u64 p = BASE + off[lane()];                                                                 \
        u32 acc = 0, zero = off[32], t0 = 0, t1 = 0;                                                \
        bool mine = active >> (threadIdx.x >> 5) & 1;                                               \
        for (u32 i = threadIdx.x; i < 8192; i += blockDim.x) ((u32*)smem)[i] = 0;                   \
        _Pragma("unroll 1") for (int pass = 0; pass < 2; pass++) {                                  \
            settle();                                                                               \
            t0 = t1 = clk();                                                                        \
            if (!mine) continue;                                                                    \
            _Pragma("unroll 1") for (int i = 0; i < n; i++) {                                       \
                p += zero; /* 0, but ptxas may not hoist the accesses */                            \
                _Pragma("unroll") for (int u = 0; u < 16; u++) {                                    \
                    u32 x = 0, y = 0, z = 0, w = 0;                                                 \
                    asm volatile(ASM : "+r"(x), "+r"(y), "+r"(z), "+r"(w) : "l"(p + u * 1024), "r"((u32)p + u * 1024) : "memory"); \
                    acc ^= x ^ y ^ z ^ w;                                                           \
                }                                                                                   \
            }                                                                                       \
            t1 = clk() + (acc == 77);                                                               \
        }                                                                                           \
        report(out, t0, t1);                                                                        \
        out[SINK + threadIdx.x] = acc;                                                              \
    }
#define SHARED (u64) __cvta_generic_to_shared(smem)
#define GLOBAL (u64) global
PART(part_lds32, SHARED, "ld.shared.u32 %0, [%5];")
PART(part_lds64, SHARED, "ld.shared.v2.u32 {%0, %1}, [%5];")
PART(part_lds128, SHARED, "ld.shared.v4.u32 {%0, %1, %2, %3}, [%5];")
PART(part_sts32, SHARED, "st.shared.u32 [%5], %0;")
PART(part_sts64, SHARED, "st.shared.v2.u32 [%5], {%0, %1};")
PART(part_sts128, SHARED, "st.shared.v4.u32 [%5], {%0, %1, %2, %3};")
PART(part_atoms, SHARED, "atom.shared.add.u32 %0, [%5], 1;")
PART(part_ldg32, GLOBAL, "ld.global.u32 %0, [%4];")
PART(part_ldg64, GLOBAL, "ld.global.v2.u32 {%0, %1}, [%4];")
PART(part_ldg128, GLOBAL, "ld.global.v4.u32 {%0, %1, %2, %3}, [%4];")

// The lanes hold as many different values as the table says: a chain, and eight independent ones.
#define MATCH(NAME, TYPE, CONSTRAINT, ASM)                                                          \
    extern "C" __global__ void NAME(u32* out, const u32* off, u32 zero, int n, int chain) {        \
        TYPE v = off[lane()];                                                                       \
        u32 acc = 0, t0, t1;                                                                        \
        _Pragma("unroll 1") for (int pass = 0; pass < 2; pass++) {                                  \
            settle();                                                                               \
            t0 = clk();                                                                             \
            _Pragma("unroll 1") for (int i = 0; i < n; i++) {                                       \
                v += zero;                                                                          \
                _Pragma("unroll") for (int u = 0; u < 8; u++) {                                     \
                    u32 m;                                                                          \
                    asm volatile(ASM : "=r"(m) : CONSTRAINT(v) : "memory");                         \
                    if (chain) v ^= m & zero;                                                       \
                    acc ^= m;                                                                       \
                }                                                                                   \
            }                                                                                       \
            t1 = clk() + (acc == 77);                                                               \
        }                                                                                           \
        report(out, t0, t1);                                                                        \
        out[SINK + threadIdx.x] = acc + (u32)v;                                                     \
    }
MATCH(match_any32, u32, "r", "match.any.sync.b32 %0, %1, -1;")
MATCH(match_any64, u64, "l", "match.any.sync.b64 %0, %1, -1;")
MATCH(match_all32, u32, "r", "{.reg .pred p; match.all.sync.b32 %0|p, %1, -1;}")

// A shared load of so many words and its words' exclusive or, which hold no FFMA up.
template <int WORDS> __device__ u32 shared_words(u32 p) {
    u32 x, y = 0, z = 0, w = 0;
    if (WORDS == 1) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(p) : "memory");
    if (WORDS == 2) asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(p) : "memory");
    if (WORDS == 4) asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(p) : "memory");
    return x ^ y ^ z ^ w;
}

// Eight times a load and K FFMAs behind it.
template <int WORDS, int K> __device__ void beside(u32 *out, const u32 *off, float a, float b, int n) {
    u32 p = (u32)__cvta_generic_to_shared(smem) + off[lane()], zero = off[32], t0 = 0, seen = 0;
    float acc[8];
    for (int k = 0; k < 8; ++k) acc[k] = threadIdx.x + k;
    #pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
        settle();
        t0 = clk();
        #pragma unroll 1
        for (int i = 0; i < n; ++i) {
            p += zero;
            #pragma unroll
            for (int u = 0; u < 8; ++u) {
                seen ^= shared_words<WORDS>(p + u * 1024);
                #pragma unroll
                for (int k = 0; k < K; ++k) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(acc[k % 8]) : "f"(a), "f"(b));
            }
        }
    }
    u32 t1 = clk() + (seen == 77);
    report(out, t0, t1);
    float sum = 0;
    for (int k = 0; k < 8; ++k) sum += acc[k];
    out[SINK + threadIdx.x] = __float_as_uint(sum);
}
#define BESIDE(W, K) \
    extern "C" __global__ void beside_##W##_##K(u32 *out, const u32 *off, float a, float b, int n) { beside<W / 32, K>(out, off, a, b, n); }
#define BESIDES(W) BESIDE(W, 0) BESIDE(W, 2) BESIDE(W, 4) BESIDE(W, 8) BESIDE(W, 16) BESIDE(W, 32)
BESIDES(32)
BESIDES(64)
BESIDES(128)

// The same from L1.
template <int WORDS> __device__ u32 global_words(const char *p) {
    u32 x, y = 0, z = 0, w = 0;
    if (WORDS == 1) asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
    if (WORDS == 2) asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "l"(p) : "memory");
    if (WORDS == 4) asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "l"(p) : "memory");
    return x ^ y ^ z ^ w;
}

// Turns of N loads at once from shared memory or zeroed global memory, whose words the next turn's addresses wait for.
template <int WORDS, int N, bool GLOBAL_MEMORY> __device__ void burst(u32 *out, const char *global, const u32 *off, int n) {
    u32 p = (GLOBAL_MEMORY ? 0 : (u32)__cvta_generic_to_shared(smem)) + off[lane()], zero = off[32], t0 = 0;
    const char *from = global + p;
    for (u32 i = threadIdx.x; i < 8192; i += blockDim.x) ((u32 *)smem)[i] = 0;
    #pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
        settle();
        t0 = clk();
        #pragma unroll 1
        for (int i = 0; i < n; ++i) {
            u32 seen[N];
            #pragma unroll
            for (int u = 0; u < N; ++u) seen[u] = GLOBAL_MEMORY ? global_words<WORDS>(from + u * 1024) : shared_words<WORDS>(p + u * 1024);
            #pragma unroll
            for (int u = 1; u < N; ++u) seen[0] ^= seen[u];
            if (GLOBAL_MEMORY) from += seen[0] & zero;
            else p += seen[0] & zero;
        }
    }
    u32 t1 = clk() + (p == 77) + (from == nullptr);
    report(out, t0, t1);
}
// Half of a turn's loads of 16 bytes by one table, half by another, in turn.
template <int N> __device__ void two_tables(u32 *out, const u32 *off, const u32 *other, int n) {
    u32 first = (u32)__cvta_generic_to_shared(smem), p = first + off[lane()], q = first + other[lane()], zero = off[32], t0 = 0;
    for (u32 i = threadIdx.x; i < 8192; i += blockDim.x) ((u32 *)smem)[i] = 0;
    #pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
        settle();
        t0 = clk();
        #pragma unroll 1
        for (int i = 0; i < n; ++i) {
            u32 seen[N];
            #pragma unroll
            for (int u = 0; u < N; ++u) seen[u] = shared_words<4>((u & 1 ? q : p) + u * 1024);
            #pragma unroll
            for (int u = 1; u < N; ++u) seen[0] ^= seen[u];
            p += seen[0] & zero;
            q += seen[0] & zero;
        }
    }
    u32 t1 = clk() + (p == 77);
    report(out, t0, t1);
}
extern "C" __global__ void two_tables_2(u32 *out, const u32 *off, const u32 *other, int n) { two_tables<2>(out, off, other, n); }
extern "C" __global__ void two_tables_4(u32 *out, const u32 *off, const u32 *other, int n) { two_tables<4>(out, off, other, n); }
extern "C" __global__ void two_tables_8(u32 *out, const u32 *off, const u32 *other, int n) { two_tables<8>(out, off, other, n); }
#define BURST(W, N) \
    extern "C" __global__ void burst_lds##W##_##N(u32 *out, const char *global, const u32 *off, int n) { burst<W / 32, N, false>(out, global, off, n); } \
    extern "C" __global__ void burst_ldg##W##_##N(u32 *out, const char *global, const u32 *off, int n) { burst<W / 32, N, true>(out, global, off, n); }
#define BURSTS(W) BURST(W, 1) BURST(W, 2) BURST(W, 4) BURST(W, 8)
BURSTS(32)
BURSTS(64)
BURSTS(128)

// A product's tiles that lie in shared memory, R x R of C for a thread: what a loop over them takes (WAY 0), with a barrier (1), and with the
// stores of the next tiles between two barriers (2).
template <int R, int DEPTH, int WAY> __device__ void product(u32 *out, float a, int n) {
    constexpr int SIDE = R == 8 ? 128 : 16 * R;
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16 % 16;
    u32 t0 = 0, start = 0;
    float sum[R][R] = {};
    #pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
        settle();
        t0 = clk();
        #pragma unroll 1
        for (int i = 0; i < n; ++i) {
            if (WAY == 0) asm volatile("" : "+r"(start)); // without a barrier the tiles would be loaded once
            float(*ta)[SIDE] = (float(*)[SIDE])(smem + start), (*tb)[SIDE] = ta + DEPTH;
            if (WAY == 2) {
                #pragma unroll
                for (int k = 0; k < R * DEPTH / 16; ++k) ta[ty % DEPTH][(tx + 16 * k) % SIDE] = a, tb[ty % DEPTH][(tx + 16 * k) % SIDE] = a;
            }
            if (WAY) __syncthreads();
            #pragma unroll
            for (int j = 0; j < DEPTH; ++j) {
                float xs[R], ys[R];
                if (R == 1) xs[0] = tb[j][tx], ys[0] = ta[ty][j];
                #pragma unroll
                for (int k = 0; k < R / 4; ++k) {
                    *(float4 *)&xs[4 * k] = *(float4 *)&tb[j][64 * k + tx * 4];
                    *(float4 *)&ys[4 * k] = *(float4 *)&ta[j][64 * k + ty * 4];
                }
                #pragma unroll
                for (int u = 0; u < R; ++u)
                    #pragma unroll
                    for (int v = 0; v < R; ++v) sum[u][v] += ys[u] * xs[v];
            }
            if (WAY == 2) __syncthreads();
        }
    }
    u32 t1 = clk();
    report(out, t0, t1);
    float all = 0;
    for (int u = 0; u < R; ++u)
        for (int v = 0; v < R; ++v) all += sum[u][v];
    out[SINK + threadIdx.x] = __float_as_uint(all);
}
#define PRODUCT(R, DEPTH, WAY) \
    extern "C" __global__ void __launch_bounds__(R == 1 ? 1024 : 256) product_##R##_##WAY(u32 *out, float a, int n) { product<R, DEPTH, WAY>(out, a, n); }
PRODUCT(1, 16, 0) PRODUCT(1, 16, 1) PRODUCT(1, 16, 2)
PRODUCT(4, 16, 0) PRODUCT(4, 16, 1) PRODUCT(4, 16, 2)
PRODUCT(8, 8, 0) PRODUCT(8, 8, 1) PRODUCT(8, 8, 2)
