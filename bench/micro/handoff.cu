// One block hands a word to another: ping-pong by several kinds of store and load, fences between, locks of many blocks.
// Block 0 and block `other` play, the rest end at once. out[0..3]: cycles of `n` rounds, polls, SM of each side.
#include "common.cuh"

__device__ __forceinline__ u32 look(u32* at, int kind) {
    u32 v;
    switch (kind) {
        case 0: asm volatile("ld.volatile.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory"); break;
        case 1: asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory"); break;
        case 2: v = atomicAdd(at, 0); break;
        default: asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory"); break;
    }
    return v;
}
__device__ __forceinline__ void put(u32* at, u32 v, int kind) {
    switch (kind) {
        case 0: asm volatile("st.volatile.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory"); break;
        case 1: asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory"); break;
        case 2: atomicExch(at, v); break;
        default: __threadfence(); asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory"); break;
    }
}
template <int KIND>
__device__ __forceinline__ void pingpong(u32* out, u32* words, int other, int n, int pause) {
    int side = blockIdx.x == 0 ? 0 : (int)blockIdx.x == other ? 1 : -1;
    if (side < 0 || threadIdx.x) return;
    u32 *mine = words + 64 * side, *theirs = words + 64 * (1 - side), polls = 0;
    u32 begin = 0;
#pragma unroll 1
    for (int i = 1; i <= n; i++) {
        if (i == 3) { begin = clk(); polls = 0; }
        if (side == 0) put(theirs, i, KIND);
        while (look(mine, KIND) != (u32)i) {
            polls++;
            if (pause) __nanosleep(pause);
        }
        if (side == 1) put(theirs, i, KIND);
    }
    out[4 * side] = clk() - begin;
    out[4 * side + 1] = polls;
    out[4 * side + 2] = smid();
}
extern "C" __global__ void pingpong_volatile(u32* out, u32* w, int other, int n, int pause) { pingpong<0>(out, w, other, n, pause); }
extern "C" __global__ void pingpong_acquire(u32* out, u32* w, int other, int n, int pause) { pingpong<1>(out, w, other, n, pause); }
extern "C" __global__ void pingpong_atomic(u32* out, u32* w, int other, int n, int pause) { pingpong<2>(out, w, other, n, pause); }
extern "C" __global__ void pingpong_fence(u32* out, u32* w, int other, int n, int pause) { pingpong<3>(out, w, other, n, pause); }

// Two warps of a block through shared memory.
extern "C" __global__ void pingpong_shared(u32* out, u32* w, int other, int n, int pause) {
    __shared__ volatile u32 cells[2];
    int side = threadIdx.x >> 5;
    u32 polls = 0, begin = 0;
    if (threadIdx.x < 2) cells[threadIdx.x] = 0;
    __syncthreads();
    if (lane()) return;
#pragma unroll 1
    for (int i = 1; i <= n; i++) {
        if (i == 3) { begin = clk(); polls = 0; }
        if (side == 0) cells[1] = i;
        while (cells[side] != (u32)i) polls++;
        if (side == 1) cells[0] = i;
    }
    out[4 * side] = clk() - begin;
    out[4 * side + 1] = polls;
    out[4 * side + 2] = smid();
}
// `n` turns of one lock for each of the grid's blocks (one thread each): out[4 * block] = cycles, out[4 * block + 1] = polls.
extern "C" __global__ void lock_grid(u32* out, u32* words, int fence, int n, int pause) {
    u32 polls = 0, begin = clk();
    if (threadIdx.x) return;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        while (atomicCAS(words, 0, 1) != 0) {
            polls++;
            if (pause) __nanosleep(pause);
        }
        if (fence) __threadfence();
        ((volatile u32*)words)[64] = ((volatile u32*)words)[64] + 1;
        if (fence) __threadfence();
        atomicExch(words, 0);
    }
    out[4 * blockIdx.x] = clk() - begin;
    out[4 * blockIdx.x + 1] = polls;
    out[4 * blockIdx.x + 2] = smid();
}
// A spin lock in shared memory: `n` turns for one lane of each warp of a block.
extern "C" __global__ void lock_block(u32* out, u32* words, int fence, int n, int pause) {
    __shared__ u32 mutex;
    __shared__ volatile u32 count;
    u32 polls = 0;
    if (threadIdx.x == 0) mutex = count = 0;
    __syncthreads();
    u32 begin = clk();
    if (lane()) return;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        while (atomicCAS(&mutex, 0, 1) != 0) polls++;
        if (fence) __threadfence_block();
        count = count + 1;
        if (fence) __threadfence_block();
        atomicExch(&mutex, 0);
    }
    u32 warp = threadIdx.x >> 5;
    out[4 * warp] = clk() - begin;
    out[4 * warp + 1] = polls;
}
