// Accesses at random places, many in flight on every SM: what DRAM, L2 and the TLBs give to what does not stream.
#include "common.cuh"

__device__ __forceinline__ u32 mixed(u32 x) {
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    return x ^ (x >> 16);
}

// `n` accesses a thread. 2^share lanes lie next to each other in a chunk of `chunk` bytes, `width` bytes a lane; the chunk is one of
// chunks + 1 (a power of two), or, with pages, lies in page (number & pages) at slot (number >> page_bits). out: start and end in ns.
#define SCATTERED(NAME, ASM)                                                                            \
    extern "C" __global__ void NAME(u64* out, char* base, u32 chunks, u64 chunk, u32 share, u32 width,    \
                                    u32 pages, u32 page_bits, u64 page, u32 seed, int n) {                \
        u32 id = blockIdx.x * blockDim.x + threadIdx.x, total = (gridDim.x * blockDim.x) >> share;        \
        u32 inner = (id & ((1u << share) - 1)) * width, acc = 0;                                           \
        __syncthreads();                                                                                \
        u64 g0 = wall_ns();                                                                             \
        _Pragma("unroll 8") for (int k = 0; k < n; k++) {                                                \
            u32 r = mixed((id >> share) + k * total + seed) & chunks, v = 0, x = 0, y = 0, z = 0;                  \
            char* p = base + (u64)(r & pages) * page + (u64)(r >> page_bits) * chunk + inner;               \
            asm volatile(ASM : "+r"(v), "+r"(x), "+r"(y), "+r"(z) : "l"(p), "r"(1) : "memory");            \
            acc += v ^ x ^ y ^ z;                                                                       \
        }                                                                                               \
        if (acc == 0x12345678) base[0] = 1;                                                             \
        __syncthreads();                                                                                \
        if (threadIdx.x == 0) {                                                                         \
            out[2 * blockIdx.x] = g0;                                                                   \
            out[2 * blockIdx.x + 1] = wall_ns();                                                        \
        }                                                                                               \
    }
SCATTERED(gather4, "ld.global.cg.u32 %0, [%4];")
SCATTERED(gather16, "ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];")
SCATTERED(scatter4, "st.global.u32 [%4], %5;")
SCATTERED(scatter16, "st.global.v4.u32 [%4], {%5, %5, %5, %5};")
SCATTERED(red_add, "red.global.add.u32 [%4], %5;")
SCATTERED(red_f32, "red.global.add.f32 [%4], 0f3f800000;")
SCATTERED(red_f64, "red.global.add.f64 [%4], 0d3ff0000000000000;")
SCATTERED(red_f16, "{.reg .b16 h; cvt.u16.u32 h, %5; red.global.add.noftz.f16 [%4], h;}")
SCATTERED(red_f16x2, "red.global.add.noftz.f16x2 [%4], %5;")
SCATTERED(red_bf16x2, "red.global.add.noftz.bf16x2 [%4], %5;")
SCATTERED(red_v4_f32, "red.global.add.v4.f32 [%4], {0f3f800000, 0f3f800000, 0f3f800000, 0f3f800000};")
SCATTERED(red_v4_f16x2, "red.global.add.noftz.v4.f16x2 [%4], {%5, %5, %5, %5};")
SCATTERED(atom_add, "atom.global.add.u32 %0, [%4], %5;")
SCATTERED(atom_f32, "{.reg .f32 t; atom.global.add.f32 t, [%4], 0f3f800000; mov.b32 %0, t;}")
SCATTERED(atom_f16x2, "atom.global.add.noftz.f16x2 %0, [%4], %5;")
SCATTERED(atom_cas, "atom.global.cas.b32 %0, [%4], 0, %5;")
// A load and a reduction elsewhere whose place the load's value (0) has a part in.
SCATTERED(load_red, "{.reg .b64 t; ld.global.cg.u32 %0, [%4]; cvt.u64.u32 t, %0; add.s64 t, t, %4; red.global.add.u32 [t + 4096], 0;}")

// Lane l stores a word in row l of a tile, as a transpose without shared memory does: block (32, high), `tiles` tiles a block side by side.
extern "C" __global__ void columns(u64* out, char* base, u64 pitch, int tiles) {
    u64 g0 = wall_ns();
    char* p = base + (blockIdx.x * 32 + threadIdx.x) * pitch + threadIdx.y * 4;
#pragma unroll 4
    for (int k = 0; k < tiles; k++) *(u32*)(p + k * blockDim.y * 4) = k;
    __syncthreads();
    if (threadIdx.x + threadIdx.y == 0) {
        out[2 * blockIdx.x] = g0;
        out[2 * blockIdx.x + 1] = wall_ns();
    }
}

// Compare-and-swap until it succeeds, `turns` times a thread, on one of `cells` words 128 bytes apart; `lanes` threads a warp.
#define TURNS(NAME, TYPE)                                                                        \
    extern "C" __global__ void NAME(u64* out, char* base, u32 cells, u32 lanes, int turns) {      \
        u32 polls = 0;                                                                           \
        u64 g0 = wall_ns();                                                                      \
        if (lane() < lanes) {                                                                    \
            TYPE* at = (TYPE*)(base + (threadIdx.x % cells) * 128);                              \
            for (int k = 0; k < turns; k++) {                                                    \
                TYPE seen = *(volatile TYPE*)at, want;                                           \
                do {                                                                             \
                    want = seen;                                                                 \
                    seen = atomicCAS(at, want, want + 1);                                        \
                    polls++;                                                                     \
                } while (seen != want);                                                          \
            }                                                                                    \
        }                                                                                        \
        __syncthreads();                                                                         \
        if (threadIdx.x == 0) {                                                                  \
            out[4 * blockIdx.x] = g0;                                                            \
            out[4 * blockIdx.x + 1] = wall_ns();                                                 \
            out[4 * blockIdx.x + 2] = polls;                                                     \
        }                                                                                        \
    }
TURNS(cas_turns, u32)
TURNS(cas_turns64, u64)

// A ticket lock, `lanes` lanes of a warp each by themselves as their turn comes; a fence before and after when asked for.
extern "C" __global__ void tickets(u64* out, volatile u32* words, int fence, u32 lanes, int turns) {
    u64 g0 = wall_ns();
    if (lane() < lanes)
        for (int k = 0; k < turns; k++) {
            u32 mine = atomicAdd((u32*)words, 1);
            while (words[64] != mine) {
            }
            if (fence) __threadfence();
            words[128] = words[128] * 3 + mine;
            if (fence) __threadfence();
            words[64] = mine + 1;
        }
    __syncthreads();
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = g0;
        out[2 * blockIdx.x + 1] = wall_ns();
    }
}
