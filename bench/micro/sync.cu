// Block barriers of many blocks of an SM, chains of atomics, the release of blocks that wait for a word, and grid barriers.
#include "common.cuh"

#define AFTER(v) if ((v) == 0x9e3779b9u) out[SINK + threadIdx.x] = 1
#define FMA(x) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b))

// out[4 * block ..], 64 bits each: start of the first of two passes over `n` times eight steps, start and end of the second one, SM.
template <class F>
__device__ __forceinline__ void two_passes(u64* out, int n, F step) {
    u64 first = 0, t0 = 0, t1 = 0;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk64();
        if (pass == 0) first = t0;
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < 8; u++) step();
        }
        t1 = clk64();
    }
    u64* mine = out + 4 * blockIdx.x;
    if (threadIdx.x == 0) mine[0] = first, mine[1] = t0, mine[2] = t1, mine[3] = smid();
}

template <int WORK>
__device__ __forceinline__ void bars(u64* out, float a, float b, int n) {
    float x = threadIdx.x;
    two_passes(out, n, [&] {
        asm volatile("bar.sync 0;" ::: "memory");
#pragma unroll
        for (int k = 0; k < WORK; k++) FMA(x);
    });
    if (x == 0.125f) out[0] = 1;
}
#define BARS(WORK) extern "C" __global__ void bars_##WORK(u64* out, float a, float b, int n) { bars<WORK>(out, a, b, n); }
BARS(0) BARS(1) BARS(4) BARS(16) BARS(64)
// A word of the next warp's, by a barrier before and one behind.
extern "C" __global__ void bars_shared(u64* out, float a, float b, int n) {
    __shared__ u32 words[1024];
    u32 x = threadIdx.x, next = (threadIdx.x + 32) % blockDim.x;
    two_passes(out, n, [&] {
        words[threadIdx.x] = x;
        __syncthreads();
        x += words[next];
        __syncthreads();
    });
    if (x == 0x9e3779b9u) out[0] = 1;
}
// A barrier that counts (BAR.RED).
extern "C" __global__ void bars_count(u64* out, float a, float b, int n) {
    int x = threadIdx.x;
    two_passes(out, n, [&] { x = __syncthreads_count(x & 3); });
    if (x == -1) out[0] = 1;
}

// Two loads and a store of shared memory, a load, a store between two barriers, by as many threads of each block as are active: the others' are predicated off.
template <int WORK>
__device__ __forceinline__ void bars_masked(u64* out, int n, u32 active) {
    __shared__ u32 words[2048];
    volatile u32* mine = words + threadIdx.x;
    u32 x = 0;
    mine[0] = mine[1024] = threadIdx.x;
    two_passes(out, n, [&] {
        asm volatile("bar.sync 0;" ::: "memory");
        if (WORK == 0 && threadIdx.x < active) mine[0] += mine[active];
        if (WORK == 1 && threadIdx.x < active) x += mine[0];
        if (WORK == 2 && threadIdx.x < active) mine[0] = x;
    });
    if (x == 0x9e3779b9u) out[0] = 1;
}
#define MASKED(WORK) extern "C" __global__ void bars_masked_##WORK(u64* out, float a, float b, int n, u32 active) { bars_masked<WORK>(out, n, active); }
MASKED(0) MASKED(1) MASKED(2)

// What lies between a barrier and the next one: a store to shared memory, a load that the next addition needs, a shuffle, a special function, nothing
// but the next of two barriers.
template <int WORK>
__device__ __forceinline__ void bars_between(u64* out, int n) {
    __shared__ u32 words[1024];
    u32 x = threadIdx.x, y = x;
    words[x] = x;
    two_passes(out, n, [&] {
        asm volatile("bar.sync 0;" ::: "memory");
        if (WORK == 0) words[threadIdx.x] = x;
        if (WORK == 1) x += ((volatile u32*)words)[threadIdx.x];
        if (WORK == 2) x = __shfl_xor_sync(~0u, x, 1);
        if (WORK == 3) x = __float_as_uint(__expf(__uint_as_float(x)));
        if (WORK == 4) asm volatile("bar.sync 1;" ::: "memory");
        if (WORK == 5) y = ((volatile u32*)words)[threadIdx.x];
    });
    if (x + y == 0x9e3779b9u) out[0] = 1;
}
#define BETWEEN(NAME, WORK) extern "C" __global__ void bars_##NAME(u64* out, float a, float b, int n) { bars_between<WORK>(out, n); }
BETWEEN(store, 0) BETWEEN(load, 1) BETWEEN(shuffle, 2) BETWEEN(special, 3) BETWEEN(two, 4) BETWEEN(load_unused, 5)

// LOADS loads of shared memory whose sum STORES stores write, between two barriers.
template <int LOADS, int STORES>
__device__ __forceinline__ void bars_among(u64* out, int n) {
    __shared__ float words[1100];
    volatile float* mine = words + threadIdx.x;
    float x = threadIdx.x;
    mine[0] = x;
    two_passes(out, n, [&] {
#pragma unroll
        for (int k = 0; k < LOADS; k++) x += mine[k];
#pragma unroll
        for (int k = 0; k < STORES; k++) mine[k] = x;
        asm volatile("bar.sync 0;" ::: "memory");
    });
    if (x == 0.125f) out[0] = 1;
}
#define AMONG(LOADS, STORES) extern "C" __global__ void bars_among_##LOADS##_##STORES(u64* out, float a, float b, int n) { bars_among<LOADS, STORES>(out, n); }
AMONG(1, 0) AMONG(2, 0) AMONG(4, 0) AMONG(8, 0) AMONG(0, 2) AMONG(0, 4) AMONG(1, 1) AMONG(3, 1)

// `n` times eight atomics, each of which needs the answer of the one before, by the lanes of `mask`; warps' words are `apart` bytes from each other and
// lanes' `lane_apart`.  VALUE: what is added follows from the answer too.  out[4 * warp ..]: cycles, SM.
__device__ __forceinline__ void meet(u32* count, u32 warps) {
    if (lane() == 0) {
        atomicAdd(count, 1);
        while (*(volatile u32*)count < warps) {}
    }
    __syncwarp();
}
template <class F>
__device__ __forceinline__ void atomic_chain(u32* out, char* base, u32 mask, u32 apart, u32 lane_apart, int n, F one) {
    u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, warps = (gridDim.x * blockDim.x) >> 5;
    meet((u32*)(base + (1 << 20) + (1 << 16)), warps);
    char* at = base + warp * (u64)apart + lane() * lane_apart;
    u32 old = 0, begin = clk();
    if (mask >> lane() & 1)
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < 8; u++) {
                at += old & 0x80000000u;
                old = one(at, old);
            }
        }
    __syncwarp();
    AFTER(old);
    u32 end = clk();
    if (lane() == 0) out[2 * warp] = end - begin, out[2 * warp + 1] = smid();
}
#define CHAIN(NAME, ASM)                                                                                                                                        \
    struct NAME##_op { __device__ __forceinline__ u32 operator()(char* p, u32 x) const { u32 v; asm volatile(ASM : "=r"(v) : "l"(p), "r"(x) : "memory"); return v; } }; \
    extern "C" __global__ void NAME(u32* out, char* base, u32 mask, u32 apart, u32 lane_apart, int n) { atomic_chain(out, base, mask, apart, lane_apart, n, NAME##_op()); }
CHAIN(chain_load, "ld.volatile.global.u32 %0, [%1];")
CHAIN(chain_add, "atom.global.add.u32 %0, [%1], 1;")
CHAIN(chain_add_value, "atom.global.add.u32 %0, [%1], %2;")
CHAIN(chain_exch, "atom.global.exch.b32 %0, [%1], 5;")
CHAIN(chain_exch_value, "atom.global.exch.b32 %0, [%1], %2;")
CHAIN(chain_cas, "atom.global.cas.b32 %0, [%1], 0, 0;")
CHAIN(chain_cas_value, "atom.global.cas.b32 %0, [%1], %2, %2;")
CHAIN(chain_inc, "atom.global.inc.u32 %0, [%1], 1000;")
CHAIN(chain_max, "atom.global.max.u32 %0, [%1], %2;")
CHAIN(chain_f32, "{.reg .f32 t; atom.global.add.f32 t, [%1], 0f3f800000; mov.b32 %0, t;}")
CHAIN(chain_red_load, "red.global.add.u32 [%1], 1; ld.volatile.global.u32 %0, [%1];")
CHAIN(chain_store_load, "st.volatile.global.u32 [%1], 1; ld.volatile.global.u32 %0, [%1];")
CHAIN(chain_load_gpu, "ld.relaxed.gpu.global.u32 %0, [%1];")
CHAIN(chain_red_load_gpu, "red.global.add.u32 [%1], 1; ld.relaxed.gpu.global.u32 %0, [%1];")
CHAIN(chain_exch_add, "atom.global.exch.b32 %0, [%1], 5; atom.global.add.u32 %0, [%1], %0;")
// Loads of a word by order and scope.
CHAIN(scope_weak, "ld.global.u32 %0, [%1];")
CHAIN(scope_weak_ca, "ld.global.ca.u32 %0, [%1];")
CHAIN(scope_weak_cg, "ld.global.cg.u32 %0, [%1];")
CHAIN(scope_weak_cv, "ld.global.cv.u32 %0, [%1];")
CHAIN(scope_relaxed_cta, "ld.relaxed.cta.global.u32 %0, [%1];")
CHAIN(scope_acquire_cta, "ld.acquire.cta.global.u32 %0, [%1];")
CHAIN(scope_relaxed_gpu, "ld.relaxed.gpu.global.u32 %0, [%1];")
CHAIN(scope_acquire_gpu, "ld.acquire.gpu.global.u32 %0, [%1];")
CHAIN(scope_relaxed_sys, "ld.relaxed.sys.global.u32 %0, [%1];")
CHAIN(scope_acquire_sys, "ld.acquire.sys.global.u32 %0, [%1];")
CHAIN(scope_volatile, "ld.volatile.global.u32 %0, [%1];")
CHAIN(scope_add_cta, "atom.relaxed.cta.global.add.u32 %0, [%1], 1;")
CHAIN(scope_store_load_cta, "st.relaxed.cta.global.u32 [%1], %2; ld.relaxed.cta.global.u32 %0, [%1];")
#if __CUDA_ARCH__ >= 900
CHAIN(scope_relaxed_cluster, "ld.relaxed.cluster.global.u32 %0, [%1];")
#endif
// As a program writes it: a loop of one atomic of each lane.
extern "C" __global__ void chain_loop(u32* out, char* base, u32 mask, u32 apart, u32 lane_apart, int n) {
    u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, warps = (gridDim.x * blockDim.x) >> 5;
    meet((u32*)(base + (1 << 20) + (1 << 16)), warps);
    u32 *at = (u32*)(base + warp * (u64)apart + lane() * lane_apart), v = 1, begin = clk();
    if (mask >> lane() & 1)
#pragma unroll 1
        for (int i = 0; i < 8 * n; i++) v = atomicAdd(at, (v & 1) + 1);
    __syncwarp();
    AFTER(v);
    u32 end = clk();
    if (lane() == 0) out[2 * warp] = end - begin, out[2 * warp + 1] = smid();
}

// Block 0 changes a word that all others wait for, `n` times; another block each time answers by a word of its own line.  out[0 ..]: cycles of
// block 0 from its third turn on; out[8 + 2 * block]: looks of each block, cycles in its waits.
template <int ACQUIRE>
__device__ __forceinline__ u32 look(u32* at) {
    u32 v;
    if (ACQUIRE) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    else asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    return v;
}
template <int ACQUIRE>
__device__ __forceinline__ void wake(u32* out, char* base, int n, int atomically) {
    u32 *word = (u32*)base, *answer = (u32*)(base + 8192), looks = 0, begin = 0, count = gridDim.x;
    meet((u32*)(base + (1 << 20)), count * (blockDim.x >> 5));
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
#pragma unroll 1
        for (int i = 1; i <= n; i++) {
            if (i == 3) begin = clk();
            if (atomically) atomicAdd(word, 1);
            else *(volatile u32*)word = i;
            while (*(volatile u32*)answer != (u32)i) looks++;
        }
        out[0] = clk() - begin;
        out[1] = looks;
        return;
    }
#pragma unroll 1
    for (int i = 1; i <= n; i++) {
        do looks++; while (look<ACQUIRE>(word) < (u32)i);
        if (blockIdx.x == 1 + (i * 37u) % (count - 1)) *(volatile u32*)answer = i;
    }
    out[8 + blockIdx.x] = looks;
}
extern "C" __global__ void wake_volatile(u32* out, char* base, int n, int atomically) { wake<0>(out, base, n, atomically); }
extern "C" __global__ void wake_acquire(u32* out, char* base, int n, int atomically) { wake<1>(out, base, n, atomically); }

// For `span` cycles a lane of each of the first `lookers` warps of a block loads a word, one of each other warp changes it (CHANGE 0: adds and waits for the answer,
// 1: stores) and rests for `gap` cycles; `look_sides` and `change_sides`: a bit for SMs near to the word's home and one for those far from it.
// out[4 * warp ..]: cycles of the accesses, how many, side, 1 for a looker and 2 for one that changes.
template <int KIND>
__device__ __forceinline__ u32 beside_look(u32* at) {
    u32 v;
    if (KIND == 0) asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    if (KIND == 1) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    if (KIND == 2) asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    return v;
}
template <int KIND>
__device__ __forceinline__ void looks_beside(u32* out, char* base, const u32* sides, u32 lookers, u32 look_sides, u32 change_sides, u32 change, u32 gap, u32 span) {
    u32 *word = (u32*)base, warp = threadIdx.x >> 5, all = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, warps = (gridDim.x * blockDim.x) >> 5;
    u32 side = sides[smid()], cycles = 0, count = 0, role = warp < lookers ? 1 : 2;
    if (!((role == 1 ? look_sides : change_sides) >> side & 1)) role = 0;
    meet((u32*)(base + (1 << 20)), warps);
    if (lane()) return;
    u32 begin = clk(), before, old;
    while (role && clk() - begin < span) {
        before = clk();
        if (role == 1) old = beside_look<KIND>(word);
        else if (change == 0) old = atomicAdd(word, 1);
        else *(volatile u32*)word = before, old = 0;
        AFTER(old);
        cycles += clk() - before, count++;
        if (role == 2)
            while (clk() - before < gap) {}
    }
    out[4 * all] = cycles, out[4 * all + 1] = count, out[4 * all + 2] = side, out[4 * all + 3] = role;
}
#define BESIDE(NAME, KIND)                                                                                                                                      \
    extern "C" __global__ void NAME(u32* out, char* base, const u32* sides, u32 lookers, u32 look_sides, u32 change_sides, u32 change, u32 gap, u32 span) {    \
        looks_beside<KIND>(out, base, sides, lookers, look_sides, change_sides, change, gap, span);                                                             \
    }
BESIDE(beside_volatile, 0) BESIDE(beside_acquire, 1) BESIDE(beside_relaxed, 2)

// A fence behind a change of a word that one lane of each of the first `active` blocks makes, where its SM is on one of `on_sides` of the word's home; words are `apart`
// bytes from each other.  CHANGE: none, an addition, a store, a compare-and-swap, an addition without an answer; FENCE: for everybody (0), acquire and release (1), none (2).
// out[4 * block ..]: cycles of the changes, of the fences, side, 1.
template <int CHANGE, int FENCE>
__device__ __forceinline__ void fence_after(u32* out, char* base, const u32* sides, u32 on_sides, u32 apart, u32 active, int n) {
    u32 *word = (u32*)(base + apart * blockIdx.x), side = sides[smid()], changing = 0, fencing = 0, role = blockIdx.x < active && on_sides >> side & 1;
    meet((u32*)(base + (1 << 20)), gridDim.x);
    if (lane()) return;
    if (role)
#pragma unroll 1
        for (int i = 0; i < n + 2; i++) {
            if (i == 2) changing = fencing = 0;
            u32 t0 = clk(), old = 0;
            if (CHANGE == 1) old = atomicAdd(word, 1);
            if (CHANGE == 2) *(volatile u32*)word = i;
            if (CHANGE == 3) old = atomicCAS(word, 7, 9);
            if (CHANGE == 4) asm volatile("red.global.add.u32 [%0], 1;" ::"l"(word) : "memory");
            AFTER(old);
            u32 t1 = clk();
            if (FENCE == 0) __threadfence();
            if (FENCE == 1) asm volatile("fence.acq_rel.gpu;" ::: "memory");
            u32 t2 = clk();
            changing += t1 - t0, fencing += t2 - t1;
        }
    out[4 * blockIdx.x] = changing, out[4 * blockIdx.x + 1] = fencing, out[4 * blockIdx.x + 2] = side, out[4 * blockIdx.x + 3] = role;
}
#define FENCE_AFTER(CHANGE, FENCE)                                                                                                     \
    extern "C" __global__ void fence_after_##CHANGE##_##FENCE(u32* out, char* base, const u32* sides, u32 on_sides, u32 apart, u32 active, int n) { \
        fence_after<CHANGE, FENCE>(out, base, sides, on_sides, apart, active, n);                                                     \
    }
FENCE_AFTER(0, 0) FENCE_AFTER(1, 0) FENCE_AFTER(2, 0) FENCE_AFTER(3, 0) FENCE_AFTER(4, 0) FENCE_AFTER(0, 1) FENCE_AFTER(1, 1) FENCE_AFTER(2, 1) FENCE_AFTER(4, 1)

// `n` grid barriers.  All add one to a word, the first block what is missing to its highest bit, and wait for that bit to change (as
// cooperative groups do): by acquiring looks at the word (0), volatile ones between two fences (1), volatile ones without fences (2); or the last to come changes a word
// of another line that the others look at (3 acquiring with fences, 4 volatile without); or no one waits (5: additions and the block's barriers); 6, 7: as 2 and 1 with
// relaxed looks of the device's scope; 8: as 0 with volatile looks.
// out[16 * block ..]: cycles of all but the first two; looks; cycles to the answer of the addition, in the wait, of the least and the longest barrier.
template <int KIND>
__device__ __forceinline__ void grid_bars(u32* out, char* base, int n) {
    u32 *word = (u32*)base, *flag = (u32*)(base + 4096), blocks = gridDim.x;
    bool first = threadIdx.x == 0;
    u32 looks = 0, begin = 0, adding = 0, waiting = 0, least = ~0u, most = 0, before = 0;
#pragma unroll 1
    for (int i = 0; i < n + 2; i++) {
        if (i == 2) begin = before = clk(), looks = adding = waiting = 0;
        __syncthreads();
        if (first) {
            const bool one_word = KIND < 3 || KIND > 5;
            u32 t0 = clk(), old, now, add = one_word && blockIdx.x == 0 ? 0x80000000u - (blocks - 1) : 1;
            if (KIND == 1 || KIND == 7) __threadfence();
            if (KIND == 0 || KIND == 3 || KIND == 8) asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(add) : "memory");
            else old = atomicAdd(word, add);
            AFTER(old);
            u32 t1 = clk();
            if (one_word) {
                do now = KIND == 6 || KIND == 7 ? beside_look<2>(word) : look<KIND == 0>(word), looks++; while (((old ^ now) & 0x80000000u) == 0);
            } else if (KIND < 5) {
                if ((old + 1) % blocks == 0) {
                    if (KIND == 3) asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(i + 1) : "memory");
                    else *(volatile u32*)flag = i + 1;
                } else
                    do now = look<KIND == 3>(flag), looks++; while (now < (u32)i + 1);
            }
            u32 t2 = clk();
            if (KIND == 1 || KIND == 7) __threadfence();
            adding += t1 - t0, waiting += t2 - t1;
            if (i > 2) least = min(least, t2 - before), most = max(most, t2 - before);
            before = t2;
        }
        __syncthreads();
    }
    if (first) {
        u32* mine = out + 8 * blockIdx.x;
        mine[0] = clk() - begin, mine[1] = looks, mine[2] = adding, mine[3] = waiting, mine[4] = least, mine[5] = most, mine[6] = smid();
    }
}
#define GRID(KIND) extern "C" __global__ void grid_bars_##KIND(u32* out, char* base, int n) { grid_bars<KIND>(out, base, n); }
GRID(0) GRID(1) GRID(2) GRID(3) GRID(4) GRID(5) GRID(6) GRID(7) GRID(8)
