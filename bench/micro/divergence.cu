// Divergence: which group of a warp runs first, when it gives way, and what joins groups again.
// Each lane writes stamps (stage, clock) of the places it passes: out[stage * 32 + lane]; a stage never passed keeps 0.
// `mates[stage * 32 + lane]` are the lanes that ran there together, read with activemask.
#include "common.cuh"

__device__ __forceinline__ u32 together() {
    u32 mask;
    asm volatile("activemask.b32 %0;" : "=r"(mask)::"memory");
    return mask;
}
__device__ __forceinline__ void stamp(u32* out, int stage) {
    u32* at = out + stage * 32 + lane();
    u32 now = clk();
    at[0] = now;
    at[2048] = together();
}
__device__ __forceinline__ float work(float x, int count) {
#pragma unroll 1
    for (int i = 0; i < count; i++) asm volatile("fma.rn.f32 %0, %0, %0, 1.0;" : "+f"(x));
    return x;
}

// Both sides of a branch: stages 1 (then) and 2 (else), 3 behind the join.
extern "C" __global__ void two_sides(u32* out, u32 mask, int count) {
    float x = 1;
    stamp(out, 0);
    if (mask >> lane() & 1) {
        stamp(out, 1);
        x = work(x, count);
    } else {
        stamp(out, 2);
        x = work(x, count + 1);
    }
    stamp(out, 3);
    out[4096 + lane()] = __float_as_uint(x);
}

// One side ends: stages 1 (the side that goes on) and 2 (the side that exits).
extern "C" __global__ void one_exits(u32* out, u32 mask, int count) {
    float x = 1;
    if (mask >> lane() & 1) {
        stamp(out, 2);
        x = work(x, count);
        out[4096 + lane()] = __float_as_uint(x);
        return;
    }
    stamp(out, 1);
    x = work(x, count);
    out[4096 + lane()] = __float_as_uint(x);
}

// Four leaves of two levels of branches by bits 0 and 1 of each lane's word: stages 1 to 4, 5 and 6 behind the inner joins,
// 7 behind the outer one.
extern "C" __global__ void four_leaves(u32* out, const u32* words, int count) {
    float x = 1;
    u32 word = words[lane()];
    stamp(out, 0);
    if (word & 2) {
        if (word & 1) { stamp(out, 4); x = work(x, count); } else { stamp(out, 3); x = work(x, count + 1); }
        stamp(out, 6);
    } else {
        if (word & 1) { stamp(out, 2); x = work(x, count + 2); } else { stamp(out, 1); x = work(x, count + 3); }
        stamp(out, 5);
    }
    stamp(out, 7);
    out[4096 + lane()] = __float_as_uint(x);
}

// A jump table of eight cases by each lane's word: stages 1 to 8, 9 behind the join.
extern "C" __global__ void eight_cases(u32* out, const u32* words, int count) {
    float x = 1;
    u32 word = words[lane()];
    stamp(out, 0);
    switch (word) {
        case 0: stamp(out, 1); x = work(x, count); break;
        case 1: stamp(out, 2); x = work(x, count + 1); break;
        case 2: stamp(out, 3); x = work(x, count + 2); break;
        case 3: stamp(out, 4); x = work(x, count + 3); break;
        case 4: stamp(out, 5); x = work(x, count + 4); break;
        case 5: stamp(out, 6); x = work(x, count + 5); break;
        case 6: stamp(out, 7); x = work(x, count + 6); break;
        case 7: stamp(out, 8); x = work(x, count + 7); break;
    }
    stamp(out, 9);
    out[4096 + lane()] = __float_as_uint(x);
}

// Lanes leave a loop after words[lane] turns and pass code of their own before the join: stage 1 + turn in the loop,
// stage 40 in the code behind the early exit, 41 behind the join.
extern "C" __global__ void early_leave(u32* out, const u32* words, int turns) {
    float x = 1;
    u32 word = words[lane()];
    stamp(out, 0);
#pragma unroll 1
    for (int i = 0; i < turns; i++) {
        stamp(out, 1 + i);
        if (i == (int)word) {
            stamp(out, 40);
            x = work(x, 8);
            break;
        }
        x = work(x, 4);
    }
    stamp(out, 41);
    out[4096 + lane()] = __float_as_uint(x);
}

// Lanes that skip part of a loop's body (continue) with trip counts of their own: who runs together in turn i (stage 1 + i)
// and at the code that all turns share (stage 17 + i).
extern "C" __global__ void skip_in_loop(u32* out, const u32* words, int turns) {
    float x = 1;
    u32 word = words[lane()];
#pragma unroll 1
    for (int i = 0; i < turns; i++) {
        stamp(out, 1 + i);
        if (word >> i & 1) {
            x = work(x, 3);
            if (word >> (i + 8) & 1) goto shared_code;
            x = work(x, 2);
        }
        x = work(x, 1);
        if (word >> (i + 16) & 1) break;
    shared_code:
        stamp(out, 17 + i);
    }
    stamp(out, 40);
    out[4096 + lane()] = __float_as_uint(x);
}

// Both sides walk a chain of loads: does a group that waits for memory give way to the other?
extern "C" __global__ void two_chases(u32* out, u32 mask, const u64* chain, int count) {
    const u64* at = chain + 16 * lane();
    u32 sum = 0;
    stamp(out, 0);
    if (mask >> lane() & 1) {
        stamp(out, 1);
#pragma unroll 1
        for (int i = 0; i < count; i++) asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(at) : "l"(at));
        sum += (u32)(u64)at;
        stamp(out, 2);
    } else {
        stamp(out, 3);
#pragma unroll 1
        for (int i = 0; i < count; i++) asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(at) : "l"(at));
        sum += 3 * (u32)(u64)at;
        stamp(out, 4);
    }
    stamp(out, 5);
    out[4096 + lane()] = sum;
}
extern "C" __global__ void two_chases_cached(u32* out, u32 mask, const u64* chain, int count) {
    const u64* at = chain + 16 * lane();
    u32 sum = 0;
    stamp(out, 0);
    if (mask >> lane() & 1) {
        stamp(out, 1);
#pragma unroll 1
        for (int i = 0; i < count; i++) asm volatile("ld.global.u64 %0, [%1];" : "=l"(at) : "l"(at));
        sum += (u32)(u64)at;
        stamp(out, 2);
    } else {
        stamp(out, 3);
#pragma unroll 1
        for (int i = 0; i < count; i++) asm volatile("ld.global.u64 %0, [%1];" : "=l"(at) : "l"(at));
        sum += 3 * (u32)(u64)at;
        stamp(out, 4);
    }
    stamp(out, 5);
    out[4096 + lane()] = sum;
}
// One side sleeps, the other works: stages 1, 2 around the sleep, 3, 4 around the work.
extern "C" __global__ void one_sleeps(u32* out, u32 mask, u32 ns, int count) {
    float x = 1;
    stamp(out, 0);
    if (mask >> lane() & 1) {
        stamp(out, 1);
        __nanosleep(ns);
        stamp(out, 2);
    } else {
        stamp(out, 3);
        x = work(x, count);
        stamp(out, 4);
    }
    stamp(out, 5);
    out[4096 + lane()] = __float_as_uint(x);
}

// Lanes take turns in the order of words[]: lane with words = k waits for turn == k, then passes it on. Each poll leaves
// (clock, lane) in a log of the warp, so the log is the order in which the spinning groups run.
extern "C" __global__ void turns_global(u32* out, const u32* words, volatile u32* turn, int limit) {
    u32 mine = words[lane()], polls = 0;
    stamp(out, 0);
    while (*turn != mine) {
        polls++;
        if (polls < (u32)limit) { out[8192 + polls * 32 + lane()] = clk(); }
    }
    stamp(out, 1);
    *turn = mine + 1;
    stamp(out, 2);
    out[64 * 32 + 2048 + lane()] = polls;
}
extern "C" __global__ void turns_shared(u32* out, const u32* words, int limit) {
    __shared__ volatile u32 turn;
    u32 mine = words[lane()], polls = 0;
    turn = 0;
    __syncwarp();
    stamp(out, 0);
    while (turn != mine) {
        polls++;
        if (polls < (u32)limit) { out[8192 + polls * 32 + lane()] = clk(); }
    }
    stamp(out, 1);
    turn = mine + 1;
    stamp(out, 2);
    out[64 * 32 + 2048 + lane()] = polls;
}
// The usual lock: a compare-and-swap loop among lanes, then a critical section.
extern "C" __global__ void lock_turns(u32* out, u32 mask, u32* mutex, int limit) {
    u32 polls = 0;
    stamp(out, 0);
    if (mask >> lane() & 1) {
        while (atomicCAS(mutex, 0, 1) != 0) {
            polls++;
            if (polls < (u32)limit) { out[8192 + polls * 32 + lane()] = clk(); }
        }
        stamp(out, 1);
        __threadfence();
        atomicExch(mutex, 0);
        stamp(out, 2);
    }
    out[64 * 32 + 2048 + lane()] = polls;
}
// The lock taken inside the loop: lanes never wait for spinning ones at the join of the critical section's loop.
extern "C" __global__ void lock_inside(u32* out, u32 mask, u32* mutex, int limit) {
    u32 polls = 0;
    bool done = !(mask >> lane() & 1);
    stamp(out, 0);
    while (!done) {
        if (atomicCAS(mutex, 0, 1) == 0) {
            stamp(out, 1);
            __threadfence();
            atomicExch(mutex, 0);
            done = true;
        } else {
            polls++;
            if (polls < (u32)limit) { out[8192 + polls * 32 + lane()] = clk(); }
        }
    }
    stamp(out, 2);
    out[64 * 32 + 2048 + lane()] = polls;
}

// Counts of executed instructions: `n` times the thing, for a profiler (smsp__inst_executed).
extern "C" __global__ void count_join(u32* out, u32 mask, int n) {
    float x = 1;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        if (mask >> lane() & 1) x = work(x, 2); else x = work(x, 3);
    }
    out[lane()] = __float_as_uint(x);
}
extern "C" __global__ void count_warpsync(u32* out, u32 mask, int n) {
    float x = 1;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        if (mask >> lane() & 1) { x = work(x, 2); out[64 + lane()] = i; } else { x = work(x, 3); out[128 + lane()] = i; }
        __syncwarp();
        x += 1;
    }
    out[lane()] = __float_as_uint(x);
}
extern "C" __global__ void count_table(u32* out, const u32* words, int n) {
    u32 x = lane(), word = words[lane()];
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        switch (word) {
            case 0: x = x * 3 + 1; break;
            case 1: x = __popc(x) + 7; break;
            case 2: x = __brev(x); break;
            case 3: x = x ^ (x >> 3); break;
            case 4: x = x * x; break;
            case 5: x = __clz(x); break;
            case 6: asm volatile("mul.hi.u32 %0, %0, 77;" : "+r"(x)); break;
            case 7: asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+r"(x)); break;
        }
    }
    out[lane()] = x;
}
__device__ __noinline__ u32 first(u32 x) { return x * 3 + 1; }
__device__ __noinline__ u32 second(u32 x) { return x ^ (x >> 5); }
__device__ __noinline__ u32 third(u32 x) { return __popc(x) + 9; }
__device__ u32 (*const calls[3])(u32) = {first, second, third};
extern "C" __global__ void count_calls(u32* out, const u32* words, int n) {
    u32 x = lane(), word = words[lane()];
#pragma unroll 1
    for (int i = 0; i < n; i++) x = calls[word % 3](x);
    out[lane()] = x;
}
// A function called from two sides of a branch: its return goes to two places, for groups that entered apart.
extern "C" __global__ void count_returns(u32* out, u32 mask, int n) {
    u32 x = lane();
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        if (mask >> lane() & 1) x = first(x) + 5; else x = first(x + 7) ^ 3;
    }
    out[lane()] = x;
}
extern "C" __global__ void count_tiles(u32* out, u32 width, int n) {
    u32 x = lane(), mask = (width == 32 ? 0xffffffffu : (1u << width) - 1) << (lane() / width * width);
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        x += __ballot_sync(mask, x & 1);
        __syncwarp();
        x = x * 5 + 1;
    }
    out[lane()] = x;
}

// Lanes leave a loop after words[lane] turns, straight to the join: executed instructions tell how often the join runs.
extern "C" __global__ void count_leaves(u32* out, const u32* words, int turns) {
    u32 word = words[lane()];
    float x = 1;
#pragma unroll 1
    for (int t = 0; t < turns; t++) {
#pragma unroll 1
        for (u32 i = 0; i < 40; i++) {
            asm volatile("fma.rn.f32 %0, %0, %0, 1.0;" : "+f"(x));
            if (i == word) break;
            asm volatile("fma.rn.f32 %0, %0, %0, 2.0;" : "+f"(x));
        }
        asm volatile("fma.rn.f32 %0, %0, %0, 3.0;" : "+f"(x));
    }
    out[4096 + lane()] = __float_as_uint(x);
}

// Lanes leave a loop after words[lane] turns, for the place that places[lane] names: stages 1 to 3, 4 behind the join; each place has one
// branch to it. Groups that wait their turn at one place tell by their mates whether they have joined.
extern "C" __global__ void leave_apart(u32* out, const u32* words, const u32* places, int turns) {
    u32 word = words[lane()], place = places[lane()];
    float x = 1;
    stamp(out, 0);
#pragma unroll 1
    for (u32 i = 0; i < (u32)turns; i++) {
        x = work(x, 2);
        if (i == word && place == 1) goto first;
        x = work(x, 3);
        if (i == word && place == 2) goto second;
        x = work(x, 4);
        if (i == word && place == 3) goto third;
    }
    stamp(out, 5);
    goto joined;
first:
    stamp(out, 1);
    x = work(x, 5);
    goto joined;
second:
    stamp(out, 2);
    x = work(x, 6);
    goto joined;
third:
    stamp(out, 3);
    x = work(x, 7);
joined:
    stamp(out, 4);
    out[4096 + lane()] = __float_as_uint(x);
}

// Lanes by class: 0 takes the whole body, 1 leaves it at the first comparison, 2 at the second one, 3 comes to the body's end by way of both,
// 4 does not enter. Leaving is BREAK: those that wait at the inner join are let go by it.
extern "C" __global__ void count_break(u32* out, const u32* words) {
    u32 word = words[lane()];
    volatile u32* at = out + 1024 + 64 * lane();
    at[0] = word == 0 ? 2 : word == 1 ? 0 : 1;
    at[1] = 1;
    at[2] = word == 3 ? 0 : 2;
    if (word != 4 && (at[0] > at[1] || (at[0] == at[1] && at[2] < at[1]))) {
        at[3] = at[0];
        at[4] = at[2];
    }
    out[64 + lane()] = word;
}
// Lanes of class 0 wait at the join for the others, of which 2 and 3 exit, 3 later.
extern "C" __global__ void count_exit(u32* out, const u32* words) {
    u32 word = words[lane()];
    float x = word;
    if (word == 0) {
        x = work(x, 2);
    } else {
        x = work(x, 3);
        if (word == 2) { asm volatile("exit;"); }
        x = work(x, 4);
        if (word == 3) { asm volatile("exit;"); }
        x = work(x, 5);
    }
    out[4096 + lane()] = __float_as_uint(x);
}
