// Steady bandwidth of one path of the memory system at a time: elements run over a source and a target ring.
// A small ring stays in L2; a large one streams through DRAM. Words out of each block: start and end of %globaltimer.
#include "common.cuh"
extern __shared__ u32 smem[];

__device__ __forceinline__ void stamps(u64* out, u64 g0) {
    __syncthreads();
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = g0;
        out[2 * blockIdx.x + 1] = wall_ns();
    }
}
#define PATHS(SUFFIX, TYPE, FOLD, MAKE)                                                                     \
    extern "C" __global__ void read##SUFFIX(u64* out, const TYPE* src, TYPE* dst, u32 smask, u32 dmask, u32 n) {   \
        u64 g0 = wall_ns();                                                                                \
        u32 total = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x, acc = 0;            \
        for (; i < n; i += 4 * total) {                                                                    \
            TYPE a = src[i & smask], b = src[(i + total) & smask], c = src[(i + 2 * total) & smask],        \
                 d = src[(i + 3 * total) & smask];                                                         \
            acc ^= FOLD(a) ^ FOLD(b) ^ FOLD(c) ^ FOLD(d);                                                  \
        }                                                                                                  \
        if (acc == 0x12345678) smem[threadIdx.x] = acc;                                                    \
        stamps(out, g0);                                                                                   \
    }                                                                                                      \
    extern "C" __global__ void write##SUFFIX(u64* out, const TYPE* src, TYPE* dst, u32 smask, u32 dmask, u32 n) {  \
        u64 g0 = wall_ns();                                                                                \
        u32 total = gridDim.x * blockDim.x;                                                                \
        for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += total) dst[i & dmask] = MAKE(i);   \
        stamps(out, g0);                                                                                   \
    }                                                                                                      \
    extern "C" __global__ void copy##SUFFIX(u64* out, const TYPE* src, TYPE* dst, u32 smask, u32 dmask, u32 n) {   \
        u64 g0 = wall_ns();                                                                                \
        u32 total = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;                     \
        for (; i < n; i += 4 * total) {                                                                    \
            TYPE a = src[i & smask], b = src[(i + total) & smask], c = src[(i + 2 * total) & smask],        \
                 d = src[(i + 3 * total) & smask];                                                         \
            dst[i & dmask] = a;                                                                            \
            dst[(i + total) & dmask] = b;                                                                  \
            dst[(i + 2 * total) & dmask] = c;                                                              \
            dst[(i + 3 * total) & dmask] = d;                                                              \
        }                                                                                                  \
        stamps(out, g0);                                                                                   \
    }
#define FOLD16(v) (v.x ^ v.y ^ v.z ^ v.w)
#define FOLD4(v) (v)
#define MAKE16(i) make_uint4(i, i, i, i)
#define MAKE4(i) (i)
PATHS(16, uint4, FOLD16, MAKE16)
PATHS(4, u32, FOLD4, MAKE4)

// One element a thread, as ordinary kernels do; block words: start and end of %globaltimer, cycles of the first load, SM.
#define EACH(NAME, TYPE, FOLD, BODY)                                                                        \
    extern "C" __global__ void NAME(u64* out, const TYPE* src, TYPE* dst, const TYPE* other, u32 n) {        \
        u64 g0 = wall_ns();                                                                                \
        u32 i = blockIdx.x * blockDim.x + threadIdx.x;                                                     \
        u32 t0 = clk(), t1;                                                                                \
        if (i < n) {                                                                                       \
            TYPE a = src[i];                                                                               \
            *(volatile u32*)&smem[threadIdx.x] = FOLD(a);                                                  \
            t1 = clk();                                                                                    \
            BODY                                                                                           \
        }                                                                                                  \
        __syncthreads();                                                                                   \
        if (threadIdx.x == 0) {                                                                            \
            u64* o = out + 4 * (u64)blockIdx.x;                                                            \
            o[0] = g0; o[1] = wall_ns(); o[2] = t1 - t0; o[3] = smid();                                    \
        }                                                                                                  \
    }
EACH(each_read16, uint4, FOLD16, )
EACH(each_read4, u32, FOLD4, )
EACH(each_copy16, uint4, FOLD16, dst[i] = a;)
EACH(each_copy4, u32, FOLD4, dst[i] = a;)
EACH(each_sum16, uint4, FOLD16, uint4 b = other[i]; b.x += a.x; dst[i] = b;)
EACH(each_sum4, u32, FOLD4, dst[i] = a + other[i];)

// One load after the other, each awaited: cycles of each. `first`: bytes between two pages; then the same pages again, `again`
// bytes further in each. Run by one thread of each block, so that other SMs can come to pages that one has touched.
extern "C" __global__ void first_touch(u32* out, const char* base, u64 first, u64 again, int count, u64 zero) {
    if (threadIdx.x) return;
    u64 v = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < count; i++) {
            const char* p = base + i * first + pass * again + v;
            u32 t0 = clk();
            asm volatile("ld.global.nc.u64 %0, [%1];" : "=l"(v) : "l"(p));
            *(volatile u32*)smem = (u32)v;
            u32 t1 = clk();
            v &= zero;
            out[(blockIdx.x * 2 + pass) * count + i] = t1 - t0;
        }
}

// Loads of `each` lines a warp that are all in flight, from lines of its own: one SM's outstanding misses.
#define FLIGHT(NAME, EACH_WARP)                                                                             \
    extern "C" __global__ void NAME(u32* out, const char* base, u64 warp_step, u64 round_step, int lane_step, int rounds) { \
        const char* p = base + (u64)((blockIdx.x * blockDim.x + threadIdx.x) >> 5) * warp_step + lane() * lane_step; \
        u32 acc = 0, t0, t1;                                                                               \
        settle();                                                                                          \
        t0 = clk();                                                                                        \
        _Pragma("unroll 1") for (int r = 0; r < rounds; r++) {                                             \
            u32 v[EACH_WARP];                                                                              \
            _Pragma("unroll") for (int k = 0; k < EACH_WARP; k++)                                          \
                asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v[k]) : "l"(p + k * 4096));               \
            _Pragma("unroll") for (int k = 0; k < EACH_WARP; k++) acc ^= v[k];                             \
            p += round_step + (acc & 0x80000000u);                                                         \
        }                                                                                                  \
        smem[threadIdx.x] = acc;                                                                           \
        __syncthreads();                                                                                   \
        t1 = clk();                                                                                        \
        report(out, t0, t1);                                                                               \
        if (acc == 0x12345678) out[SINK + 1] = acc;                                                        \
    }
FLIGHT(flight_1, 1)
FLIGHT(flight_2, 2)
FLIGHT(flight_4, 4)
FLIGHT(flight_8, 8)
FLIGHT(flight_16, 16)

// Block 0 touches `count` pages, the others come `later` nanoseconds after: who shares a TLB with its SM. out: SM, then cycles.
extern "C" __global__ void touch_after(u32* out, const char* base, u64 step, int count, u64 later, u64 zero) {
    if (threadIdx.x) return;
    u32* mine = out + blockIdx.x * (count + 1);
    mine[0] = smid();
    u64 g0 = wall_ns(), v = 0;
    if (blockIdx.x) while (wall_ns() - g0 < later);
    for (int i = 0; i < count; i++) {
        const char* p = base + i * step + (u64)blockIdx.x * 512 + v;
        u32 t0 = clk();
        asm volatile("ld.global.nc.u64 %0, [%1];" : "=l"(v) : "l"(p));
        *(volatile u32*)smem = (u32)v;
        u32 t1 = clk();
        v &= zero;
        mine[i + 1] = t1 - t0;
    }
}
