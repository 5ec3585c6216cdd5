// Strong loads, atomics and stores of one warp in a row; words that are polled by a crowd while two blocks hand one over; stores that meet
// on few sectors.
#include "common.cuh"

// `n` rounds of K operations on words `step` bytes apart, each round behind the answers of the one before.
template <int K, class F>
__device__ __forceinline__ void group(u32* out, char* base, u32 lane_step, u32 warp_step, u32 step, u32 zero, int n, F one) {
    char* p = base + lane() * lane_step + ((blockIdx.x * blockDim.x + threadIdx.x) >> 5) * (u64)warp_step;
    u32 acc = 0;
    __syncthreads();
    u32 t0 = clk();
    _Pragma("unroll 1") for (int i = 0; i < n; i++) {
        u32 got[K];
        _Pragma("unroll") for (int k = 0; k < K; k++) got[k] = one(p + k * step);
        _Pragma("unroll") for (int k = 0; k < K; k++) acc += got[k];
        p += acc & zero;
    }
    u32 t1 = clk();
    report(out, t0, t1);
    if (acc == 0x12345678) out[SINK] = acc;
}
#define GROUPS(NAME, ASM)                                                                                                          \
    struct NAME##_op { __device__ __forceinline__ u32 operator()(char* p) const { u32 v = 0; asm volatile(ASM : "+r"(v) : "l"(p) : "memory"); return v; } }; \
    extern "C" __global__ void NAME##_1(u32* out, char* base, u32 ls, u32 ws, u32 step, u32 zero, int n) { group<1>(out, base, ls, ws, step, zero, n, NAME##_op()); } \
    extern "C" __global__ void NAME##_2(u32* out, char* base, u32 ls, u32 ws, u32 step, u32 zero, int n) { group<2>(out, base, ls, ws, step, zero, n, NAME##_op()); } \
    extern "C" __global__ void NAME##_4(u32* out, char* base, u32 ls, u32 ws, u32 step, u32 zero, int n) { group<4>(out, base, ls, ws, step, zero, n, NAME##_op()); } \
    extern "C" __global__ void NAME##_8(u32* out, char* base, u32 ls, u32 ws, u32 step, u32 zero, int n) { group<8>(out, base, ls, ws, step, zero, n, NAME##_op()); }
GROUPS(ld_weak, "ld.global.u32 %0, [%1];")
GROUPS(ld_cg, "ld.global.cg.u32 %0, [%1];")
GROUPS(ld_volatile, "ld.volatile.global.u32 %0, [%1];")
GROUPS(ld_relaxed, "ld.relaxed.gpu.global.u32 %0, [%1];")
GROUPS(ld_acquire, "ld.acquire.gpu.global.u32 %0, [%1];")
GROUPS(atom_add, "atom.global.add.u32 %0, [%1], 1;")
GROUPS(atom_cas, "atom.global.cas.b32 %0, [%1], 0, 1;")
GROUPS(atom_acquire, "atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;")
GROUPS(red_add, "red.global.add.u32 [%1], 1; mov.u32 %0, 0;")
GROUPS(st_weak, "st.global.u32 [%1], 1; mov.u32 %0, 0;")
GROUPS(st_volatile, "st.volatile.global.u32 [%1], 1; mov.u32 %0, 0;")
GROUPS(st_release, "st.release.gpu.global.u32 [%1], 1; mov.u32 %0, 0;")
GROUPS(st_fence, "st.volatile.global.u32 [%1], 1; fence.acq_rel.gpu; mov.u32 %0, 0;")

// Blocks 0 and 1 hand a word to and fro at `watched` + at, `n` times; every warp of the others polls `watched` + off[lane] all the while.
// out[0..1]: cycles of side 0 from its third round on, its polls; out[8 + 4 * warp ..]: cycles and looks of each polling warp, its SM.
extern "C" __global__ void crowd(u32* out, char* watched, u32 at_byte, const u32* off, u32 lanes, int n, int fence, int kind) {
    int side = blockIdx.x;
    if (side < 2) {
        if (threadIdx.x) return;
        char* words = watched + at_byte;
        u32 *mine = (u32*)(words + 64 * side), *theirs = (u32*)(words + 64 * (1 - side)), polls = 0, begin = 0;
        _Pragma("unroll 1") for (int i = 1; i <= n; i++) {
            if (i == 3) begin = clk(), polls = 0;
            if (side == 0) {
                if (fence) __threadfence();
                *(volatile u32*)theirs = i;
            }
            while (*(volatile u32*)mine != (u32)i) polls++;
            if (side == 1) {
                if (fence) __threadfence();
                *(volatile u32*)theirs = i;
            }
        }
        if (side == 0) {
            out[0] = clk() - begin;
            out[1] = polls;
            out[2] = smid();
            _Pragma("unroll 1") for (int l = 0; l < 32; l++) *(volatile u32*)(watched + off[l]) = 1;
        } else out[3] = smid();
        return;
    }
    if (lane() >= lanes) return;
    u32* at = (u32*)(watched + off[lane()]);
    u32 looks = 0, seen, begin = clk();
    do {
        if (kind == 0) seen = *(volatile u32*)at;
        else if (kind == 1) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(at) : "memory");
        else seen = atomicAdd(at, 0u);
        looks++;
    } while (__any_sync(__activemask(), seen == 0));
    u32 warp = (blockIdx.x - 2) * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (lane() == 0) {
        out[8 + 4 * warp] = clk() - begin;
        out[9 + 4 * warp] = looks;
        out[10 + 4 * warp] = smid();
    }
}

// Every warp stores a word in each of 32 lines, `n` times eight: sector (number of the store) % sectors, or its warp's own.
extern "C" __global__ void store_lines(u32* out, char* base, u32 lines, u32 sectors, u32 own, u32 width, int n) {
    u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, seed = warp * 0x9E3779B9u + lane() * 0x85EBCA6Bu;
    __syncthreads();
    u32 t0 = clk();
    _Pragma("unroll 1") for (int i = 0; i < n; i++)
        _Pragma("unroll") for (int u = 0; u < 8; u++) {
            u32 number = i * 8 + u + (own ? warp : 0);
            seed = seed * 1664525u + 1013904223u;
            u32 line = lines > 32 ? (lane() + 32 * ((seed >> 10) % (lines / 32))) : lane();
            char* p = base + line * 128 + (number % sectors) * 32;
            if (width == 4) asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(number) : "memory");
            else if (width == 5) asm volatile("red.global.add.u32 [%0], %1;" ::"l"(p), "r"(number) : "memory");
            else {
                asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(p), "r"(number) : "memory");
                if (width == 32) asm volatile("st.global.v4.u32 [%0 + 16], {%1, %1, %1, %1};" ::"l"(p), "r"(number) : "memory");
            }
        }
    __syncthreads();
    u32 t1 = clk();
    report(out, t0, t1);
}

// Strong loads of words at random, four in a row, awaited: what a gather of many warps takes from one SM and from all.
template <int KIND>
__device__ __forceinline__ void gathers(u32* out, char* base, u32 mask, int n) {
    u32 seed = (blockIdx.x * blockDim.x + threadIdx.x) * 0x9E3779B9u + 12345u, acc = 0;
    __syncthreads();
    u32 t0 = clk();
    _Pragma("unroll 1") for (int i = 0; i < n; i++) {
        u32 got[4];
        _Pragma("unroll") for (int k = 0; k < 4; k++) {
            seed = seed * 1664525u + 1013904223u;
            char* p = base + ((seed >> 8) & mask) * 32;
            if (KIND == 0) asm volatile("ld.global.u32 %0, [%1];" : "=r"(got[k]) : "l"(p) : "memory");
            else if (KIND == 1) asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(got[k]) : "l"(p) : "memory");
            else asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(got[k]) : "l"(p) : "memory");
        }
        _Pragma("unroll") for (int k = 0; k < 4; k++) acc += got[k];
        seed += acc;
    }
    __syncthreads();
    u32 t1 = clk();
    report(out, t0, t1);
    if (acc == 0x12345678) out[SINK] = acc;
}
extern "C" __global__ void gather_weak(u32* out, char* base, u32 mask, int n) { gathers<0>(out, base, mask, n); }
extern "C" __global__ void gather_volatile(u32* out, char* base, u32 mask, int n) { gathers<1>(out, base, mask, n); }
extern "C" __global__ void gather_cg(u32* out, char* base, u32 mask, int n) { gathers<2>(out, base, mask, n); }
