// WARPSYNC that some lanes of its mask do not reach, because they wait elsewhere: which of these forms end?
// Stamps as in divergence.cu: out[stage * 32 + lane] a clock, 0 for a stage that was not passed; out[2048 + ...] the lanes that ran there together.
// Stages: 0 the start, 1 in front of WARPSYNC, 2 behind it, 3 behind the branch, 4 another place in front of a WARPSYNC or barrier,
// 5 behind that, 6 the end.  Lanes of `mask` go to the WARPSYNC.
#include "common.cuh"

__device__ __forceinline__ void stamp(u32* out, int stage) {
    u32 mask, now = clk();
    asm volatile("activemask.b32 %0;" : "=r"(mask)::"memory");
    u32* at = out + stage * 32 + lane();
    at[0] = now;
    at[2048] = mask;
}
__device__ __forceinline__ void sync(u32 members) { asm volatile("bar.warp.sync %0;" ::"r"(members) : "memory"); }
__device__ __forceinline__ void sync_all() { asm volatile("bar.warp.sync -1;" ::: "memory"); }
__device__ __forceinline__ float work(float x, int count) {
#pragma unroll 1
    for (int i = 0; i < count; i++) asm volatile("fma.rn.f32 %0, %0, %0, 1.0;" : "+f"(x));
    return x;
}
__device__ __forceinline__ bool has(u32 mask) { return mask >> lane() & 1; }

// The others wait at the BSYNC of a branch around it (WARPSYNC.ALL).
extern "C" __global__ void all_at_join(u32* out, u32 mask, u32 around, u32 members) {
    stamp(out, 0);
    if (has(around)) {
        if (has(mask)) { stamp(out, 1); sync_all(); stamp(out, 2); }
        stamp(out, 3);
    }
    stamp(out, 6);
}
// The same with the mask in a register.
extern "C" __global__ void mask_at_join(u32* out, u32 mask, u32 around, u32 members) {
    stamp(out, 0);
    if (has(around)) {
        if (has(mask)) { stamp(out, 1); sync(members); stamp(out, 2); }
        stamp(out, 3);
    }
    stamp(out, 6);
}
// Lanes that part come to one WARPSYNC in two groups, while the others wait at a BSYNC.
extern "C" __global__ void two_groups(u32* out, u32 mask, u32 around, u32 members) {
    stamp(out, 0);
    float x = 1;
    if (has(around)) {
        if (has(mask)) { x = work(x, lane() & 1 ? 400 : 3); stamp(out, 1); sync_all(); stamp(out, 2); }
        stamp(out, 3);
    }
    stamp(out, 6);
    out[4096 + lane()] = __float_as_uint(x);
}
// Two places: each side of the branch has a WARPSYNC of all.
extern "C" __global__ void all_two_places(u32* out, u32 mask, u32 around, u32 members) {
    stamp(out, 0);
    if (has(mask)) { stamp(out, 1); sync_all(); stamp(out, 2); } else { stamp(out, 4); sync_all(); stamp(out, 5); }
    stamp(out, 6);
}
extern "C" __global__ void mask_two_places(u32* out, u32 mask, u32 around, u32 members) {
    stamp(out, 0);
    if (has(mask)) { stamp(out, 1); sync(members); stamp(out, 2); } else { stamp(out, 4); sync(members); stamp(out, 5); }
    stamp(out, 6);
}
// The others wait at the block's barrier, to which the lanes of the mask come behind their WARPSYNC.
extern "C" __global__ void at_barrier(u32* out, u32 mask, u32 around, u32 members) {
    stamp(out, 0);
    if (has(mask)) { stamp(out, 1); sync_all(); stamp(out, 2); asm volatile("barrier.sync 0;" ::: "memory"); stamp(out, 3); }
    else { stamp(out, 4); asm volatile("barrier.sync 0;" ::: "memory"); stamp(out, 5); }
    stamp(out, 6);
}
// The others spin until a lane that has passed the WARPSYNC stores.
extern "C" __global__ void while_spinning(u32* out, u32 mask, u32 around, u32 members) {
    __shared__ volatile u32 flag;
    flag = 0;
    stamp(out, 0);
    if (has(mask)) { stamp(out, 1); sync_all(); stamp(out, 2); flag = 1; } else { stamp(out, 4); while (flag == 0) {} stamp(out, 5); }
    stamp(out, 6);
}
// Lanes of the mask come to it a different number of times: lane n of them n + 1 times.
extern "C" __global__ void in_loop(u32* out, u32 mask, u32 around, u32 members) {
    stamp(out, 0);
    if (has(around)) {
        if (has(mask)) {
#pragma unroll 1
            for (int i = 0; i <= lane(); i++) { stamp(out, 1); sync_all(); stamp(out, 8 + i); }
        }
        stamp(out, 3);
    }
    stamp(out, 6);
}
// A shuffle, a vote, a match and a reduction of all lanes, while the others wait at a BSYNC.
extern "C" __global__ void shuffle(u32* out, u32 mask, u32 around, u32 members) {
    stamp(out, 0);
    u32 x = lane() + 100;
    if (has(around)) {
        if (has(mask)) { stamp(out, 1); x = __shfl_xor_sync(members, x, 1) + 1000 * __shfl_sync(members, x, 5); stamp(out, 2); }
        stamp(out, 3);
    }
    out[4096 + lane()] = x;
    stamp(out, 6);
}
extern "C" __global__ void vote(u32* out, u32 mask, u32 around, u32 members) {
    stamp(out, 0);
    u32 x = lane() + 100;
    if (has(around)) {
        if (has(mask)) { stamp(out, 1); x = __ballot_sync(members, lane() & 1); stamp(out, 2); }
        stamp(out, 3);
    }
    out[4096 + lane()] = x;
    stamp(out, 6);
}
extern "C" __global__ void reduction(u32* out, u32 mask, u32 around, u32 members) {
    stamp(out, 0);
    u32 x = lane() + 100;
    if (has(around)) {
        if (has(mask)) { stamp(out, 1); x = __reduce_add_sync(members, lane()); stamp(out, 2); }
        stamp(out, 3);
    }
    out[4096 + lane()] = x;
    stamp(out, 6);
}
// The tail of Numba's cuda.reduce: two lanes of four warps add, WARPSYNC, one of them writes.
extern "C" __global__ void reduce_tail(u32* out, u32 mask, u32 around, u32 members) {
    __shared__ double sums[4];
    if (threadIdx.x < 4) sums[threadIdx.x] = threadIdx.x + 1;
    if (blockDim.x == around) {
        __syncthreads();
        if (threadIdx.x < 2) { sums[threadIdx.x] += sums[threadIdx.x + 2]; __syncwarp(); }
        if (threadIdx.x == 0) out[0] = u32(sums[0] + sums[1]);
    } else {
        if (lane() == 3) out[1] = 1;
    }
    out[2 + threadIdx.x] = 1;
}
