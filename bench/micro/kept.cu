// What L1 keeps of a store: a script of accesses by lanes of two warps on one line after the other, each load timed.
#include "common.cuh"
extern __shared__ u32 smem[];
#define MOST_STEPS 128

// A step: lanes (bits 0-31), kind (32-35, as kept.py names them), warp (36), first word of the lanes (40-51), words between lanes (52-59).
// `barriers`: whether a block barrier stands in front of every step.
extern "C" __global__ void kept_steps(u32* out, u32* base, int count, const u64* script, int steps, u32 gap, u64 apart, int barriers) {
    u64* mine = (u64*)smem;
    u32* sink = smem + 2 * MOST_STEPS;
    for (int s = threadIdx.x; s < steps; s += blockDim.x) mine[s] = script[s];
    __syncthreads();
    u32 acc = 0;
    for (int i = 0; i < count; i++) {
        for (int s = 0; s < steps; s++) {
            u64 step = mine[s];
            u32 kind = (u32)(step >> 32) & 15;
            u32* p = base + i * apart + ((u32)(step >> 40) & 4095) + lane() * ((u32)(step >> 52) & 255);
            bool now = ((threadIdx.x >> 5) == ((u32)(step >> 36) & 1)) && ((u32)step >> lane() & 1);
            if (barriers) __syncthreads();
            u32 t = clk();
            while (clk() - t < gap);
            if (now) {
                u32 v = 0, t0 = clk();
                if (kind == 0) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
                if (kind == 1) asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(i) : "memory");
                if (kind == 2) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(p), "r"(i) : "memory");
                if (kind == 3) {
                    u32 a, b, c;
                    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v), "=r"(a), "=r"(b), "=r"(c) : "l"(p) : "memory");
                }
                if (kind == 4) asm volatile("red.global.add.u32 [%0], %1;" ::"l"(p), "r"(i) : "memory");
                if (kind == 5) asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(v) : "l"(p), "r"(i) : "memory");
                if (kind == 6) asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(i) : "memory");
                if (kind == 7) asm volatile("st.global.u8 [%0], %1;" ::"l"(p), "r"(i) : "memory");
                if (kind == 8) asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
                if (kind == 9) asm volatile("fence.acq_rel.gpu;" ::: "memory");
                if (kind == 10) asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
                if (kind == 11) asm volatile("st.global.cg.u32 [%0], %1;" ::"l"(p), "r"(i) : "memory");
                if (kind == 12) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
                *(volatile u32*)&sink[threadIdx.x] = v;
                u32 t1 = clk();
                acc += v;
                if (kind == 0 || kind == 3 || kind == 8 || kind == 10 || kind == 12) out[i * steps + s] = t1 - t0;
            }
        }
    }
    if (acc == 0x12345678) out[SINK] = acc;
}
// The same without a script, one warp: a load (if `kind`), a store by some lanes, a load of the line.
extern "C" __global__ void kept_plain(u32* out, u32* base, int count, int kind, int lanes, u32 gap, u64 apart) {
    u32 acc = 0;
    for (int i = 0; i < count; i++) {
        u32* p = base + i * apart + lane();
        if (kind) {
            u32 v;
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
            *(volatile u32*)&smem[threadIdx.x] = v;
        }
        if (lane() < lanes) asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(i) : "memory");
        u32 t = clk(), v;
        while (clk() - t < gap);
        u32 t0 = clk();
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
        *(volatile u32*)&smem[threadIdx.x] = v;
        u32 t1 = clk();
        acc += v;
        if (lane() == 0) out[i] = t1 - t0;
    }
    if (acc == 0x12345678) out[SINK] = acc;
}
// Columns of an array of 32 rows, one after the other with nothing between: `lanes` lanes of a warp load a word of their row and the column's,
// and store their sum. kind: 0 no store, 1 into the column, 2 elsewhere; +4: the rows were loaded, not stored, before.
extern "C" __global__ void kept_columns(u32* base, u32* other, int pitch, int lanes, int columns, int kind) {
    u32 t = threadIdx.x, sum = 0;
    for (int r = 0; r < 32; r++) {
        u32 v;
        if (kind & 4) {
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(base + r * pitch + t) : "memory");
            sum += v;
        } else {
            asm volatile("st.global.u32 [%0], %1;" ::"l"(base + r * pitch + t), "r"(t) : "memory");
        }
    }
    if (sum == 77) other[0] = sum;
    __syncthreads();
    if (t < lanes) {
        u32 *row = base + t * pitch, *to = (kind & 3) == 2 ? other + t * pitch : row;
#pragma unroll 1
        for (int j = 1; j < columns; j++) {
            u32 a, b;
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(a) : "l"(row) : "memory");
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(b) : "l"(row + j) : "memory");
            if (kind & 3) asm volatile("st.global.u32 [%0], %1;" ::"l"(to + j), "r"(a + b) : "memory");
            else sum += a + b;
        }
    }
    if (sum == 77) other[0] = sum;
}
// Each thread reads words of two bytes of a stream of its own, `apart` words from its neighbour's, one after the other. kind: 1 it stores a
// byte each time beside its neighbours'; 2: only every second lane reads at a time.
extern "C" __global__ void kept_streams(const unsigned short* words, unsigned char* to, int apart, int steps, int kind) {
    const unsigned short* from = words + threadIdx.x * apart;
    u32 sum = 0;
#pragma unroll 1
    for (int k = 0; k < steps; k++) {
        unsigned short v = 0;
        if (!(kind & 2) || ((k ^ threadIdx.x) & 1)) {
            asm volatile("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(from) : "memory");
            from++;
        }
        if (kind & 1) asm volatile("st.global.u8 [%0], %1;" ::"l"(to + (u64)k * blockDim.x + threadIdx.x), "r"((u32)v) : "memory");
        sum += v;
    }
    if (sum == 77) to[0] = sum;
}
// `TURNS` dependent products, four cycles each, behind the store in front of them; the next store takes their result.
template <int TURNS>
__device__ __forceinline__ void products(float& x) {
    if (TURNS) x = __uint_as_float(clk());
#pragma unroll
    for (int i = 0; i < TURNS; i++) asm volatile("fma.rn.f32 %0, %0, %0, 1.0;" : "+f"(x));
}
__device__ __forceinline__ void pause(u32 cycles) {
    u32 t = clk();
    while (clk() - t < cycles);
}
// Cycles of a load by one lane for each word that `probes` names.
__device__ __forceinline__ void probe(u32* out, const u32* base, const u32* probes, int count, u32* sink) {
    for (int k = 0; k < count; k++) {
        u32 v = 0, t0 = 0, t1 = 0;
        const u32* p = base + probes[k];
        __syncwarp();
        if (lane() == 0) {
            t0 = clk();
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
            *(volatile u32*)&sink[0] = v;
            t1 = clk();
            out[k] = t1 - t0;
        }
    }
}
// Two stores of one warp, `TURNS` products apart, each of the lanes of a mask, whose words begin at a first one; then what is found of them.
template <int TURNS>
__device__ __forceinline__ void pairs(u32* out, u32* base, int rounds, u64 apart, u32 mask_a, u32 first_a, u32 mask_b, u32 first_b, const u32* probes, int count) {
    u32* named = smem + 32;
    for (int k = lane(); k < count; k += 32) named[k] = probes[k];
    bool a = mask_a >> lane() & 1, b = mask_b >> lane() & 1;
    u32 *p = base + first_a + lane(), *q = base + first_b + lane();
    float x = lane();
#pragma unroll 1
    for (int i = 0; i < rounds; i++) {
        pause(2000);
        if (a) asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(__float_as_uint(x)) : "memory");
        products<TURNS>(x);
        if (b) asm volatile("st.global.u32 [%0], %1;" ::"l"(q), "r"(__float_as_uint(x)) : "memory");
        pause(2000);
        probe(out + i * count, base + i * apart, named, count, smem);
        p += apart;
        q += apart;
    }
}
// 32 rows stored by a warp, `TURNS` products between two; then what is found of them.
template <int TURNS>
__device__ __forceinline__ void rows(u32* out, u32* base, int rounds, u64 apart, int pitch, const u32* probes, int count) {
    u32* named = smem + 32;
    for (int k = lane(); k < count; k += 32) named[k] = probes[k];
    float x = lane();
    u32* p = base + lane();
#pragma unroll 1
    for (int i = 0; i < rounds; i++) {
        pause(2000);
#pragma unroll
        for (int r = 0; r < 32; r++) {
            asm volatile("st.global.u32 [%0], %1;" ::"l"(p + r * pitch), "r"(__float_as_uint(x)) : "memory");
            products<TURNS>(x);
        }
        pause(2000);
        probe(out + i * count, base + i * apart, named, count, smem);
        p += apart;
    }
}
#define BEHIND(N)                                                                                                                                    \
    extern "C" __global__ void kept_pairs_##N(u32* out, u32* base, int rounds, u64 apart, u32 mask_a, u32 first_a, u32 mask_b, u32 first_b,           \
                                              const u32* probes, int count) {                                                                        \
        pairs<N>(out, base, rounds, apart, mask_a, first_a, mask_b, first_b, probes, count);                                                         \
    }                                                                                                                                                \
    extern "C" __global__ void kept_rows_##N(u32* out, u32* base, int rounds, u64 apart, int pitch, const u32* probes, int count) {                   \
        rows<N>(out, base, rounds, apart, pitch, probes, count);                                                                                     \
    }
BEHIND(0)
BEHIND(1)
BEHIND(2)
BEHIND(3)
BEHIND(4)
BEHIND(6)
BEHIND(8)
BEHIND(12)
BEHIND(16)
// `kept_columns` on one array after the other, `gap` cycles behind the rows, twice over the columns: the clock at each column, and behind the last.
extern "C" __global__ void kept_column_times(u32* out, u32* base, u32* other, int rounds, u64 apart, int pitch, int lanes, int columns, int kind, u32 gap) {
    u32 t = threadIdx.x;
#pragma unroll 1
    for (int i = 0; i < rounds; i++) {
        pause(2000);
#pragma unroll
        for (int r = 0; r < 32; r++) asm volatile("st.global.u32 [%0], %1;" ::"l"(base + r * pitch + t), "r"(t) : "memory");
        __syncthreads();
        pause(gap);
        for (int turn = 0; turn < 2; turn++) {
            if (t < lanes) {
                u32 *row = base + t * pitch, *to = kind == 2 ? other + t * pitch : row;
                u32 sum = 0;
#pragma unroll 1
                for (int j = 1; j < columns; j++) {
                    u32 a, b, c = clk();
                    if (t == 0) smem[turn * columns + j - 1] = c;
                    asm volatile("ld.global.u32 %0, [%1];" : "=r"(a) : "l"(row) : "memory");
                    asm volatile("ld.global.u32 %0, [%1];" : "=r"(b) : "l"(row + j) : "memory");
                    if (kind) asm volatile("st.global.u32 [%0], %1;" ::"l"(to + j), "r"(a + b) : "memory");
                    else sum += a + b;
                    if (a + b == 0x12345678) smem[0] = 0;  // the next column begins when both words are there
                }
                if (t == 0) smem[turn * columns + columns - 1] = clk();
                if (sum == 0x12345678) smem[0] = sum;
            }
            __syncthreads();
        }
        for (int k = t; k < 2 * columns; k += 32) out[i * 2 * columns + k] = smem[k];
        __syncthreads();
        base += apart;
        other += apart;
    }
}
// `kept_columns` by many warps, each on an array of its own.
extern "C" __global__ void kept_crowd(u32* base, u32* other, int apart, int pitch, int lanes, int columns, int kind) {
    u32 t = lane(), sum = 0;
    base += (threadIdx.x >> 5) * apart;
    other += (threadIdx.x >> 5) * apart;
#pragma unroll
    for (int r = 0; r < 32; r++) asm volatile("st.global.u32 [%0], %1;" ::"l"(base + r * pitch + t), "r"(t) : "memory");
    __syncthreads();
    if (t < lanes) {
        u32 *row = base + t * pitch, *to = kind == 2 ? other + t * pitch : row;
#pragma unroll 1
        for (int j = 1; j < columns; j++) {
            u32 a, b;
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(a) : "l"(row) : "memory");
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(b) : "l"(row + j) : "memory");
            if (kind) asm volatile("st.global.u32 [%0], %1;" ::"l"(to + j), "r"(a + b) : "memory");
            else sum += a + b;
        }
    }
    if (sum == 77) other[0] = sum;
}
// Elimination of an array in global memory by one warp, a row a lane, as compilers order it: in every step a load of the row's next word, the store of the one before,
// loads of two other words (`order` 0); or each word loaded, changed and stored by itself (1). The rows were stored before (`loaded` 0), or everything was loaded (1), or
// stored and then loaded (2).
extern "C" __global__ void kept_elimination(u32* base, int pitch, int lanes, int steps, int order, int loaded) {
    u32 t = threadIdx.x, sum = 0;
    if (loaded != 1)
        for (int r = 0; r < 32; r++) {
            asm volatile("st.global.u32 [%0], %1;" ::"l"(base + r * pitch + t), "r"(r) : "memory");
            pause(200);
        }
    pause(2000);
    if (loaded)
        for (int i = 0; i < pitch; i++) {
            u32 v;
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(base + i * 32 + t) : "memory");
            sum += v;
        }
    if (sum == 77) base[0] = sum;
    pause(2000);
    if (t < lanes) {
        u32* row = base + t * pitch;
#pragma unroll 1
        for (int k = 0; k < steps; k++) {
            u32 next;
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(next) : "l"(row + k + 1) : "memory");
#pragma unroll 1
            for (int j = k + 1; j < 31; j++) {
                u32 a, b, v = next;
                asm volatile("ld.global.u32 %0, [%1];" : "=r"(b) : "l"(base + k * pitch + j) : "memory");
                asm volatile("ld.global.u32 %0, [%1];" : "=r"(a) : "l"(row + k) : "memory");
                v -= a * b;
                if (order) {
                    asm volatile("st.global.u32 [%0], %1;" ::"l"(row + j), "r"(v) : "memory");
                    asm volatile("ld.global.u32 %0, [%1];" : "=r"(next) : "l"(row + j + 1) : "memory");
                } else {
                    asm volatile("ld.global.u32 %0, [%1];" : "=r"(next) : "l"(row + j + 1) : "memory");
                    asm volatile("st.global.u32 [%0], %1;" ::"l"(row + j), "r"(v) : "memory");
                }
            }
        }
    }
}
// A store beside a load of its line that is on its way: a lane loads one word and, `delay` cycles later and before that has come, stores another; when all is quiet
// it loads a third.  `prepared`: what the warp did to the line before: 0 nothing, 1 loaded, 2 stored, by the lanes of a mask.
extern "C" __global__ void kept_in_flight(u32* out, u32* base, int count, u64 apart, int prepared, u32 lanes, u32 load, u32 delay, u32 store, u32 probed) {
    u32 acc = 0;
    for (int i = 0; i < count; i++) {
        u32 *line = base + i * apart, v = 0, found = 0;
        if (lanes >> lane() & 1) {
            if (prepared == 1) {
                asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(line + lane()) : "memory");
                acc += v;
            }
            if (prepared == 2) asm volatile("st.global.u32 [%0], %1;" ::"l"(line + lane()), "r"(i) : "memory");
        }
        pause(4000);
        __syncwarp();
        if (lane() == 0) {
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(line + load) : "memory");
            pause(delay);
            asm volatile("st.global.u32 [%0], %1;" ::"l"(line + store), "r"(i) : "memory");
            pause(4000);
            acc += v;
            u32 t0 = clk();
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(found) : "l"(line + probed) : "memory");
            *(volatile u32*)&smem[0] = found;
            out[i] = clk() - t0;
        }
        __syncwarp();
    }
    if (acc == 0x12345678) out[SINK] = acc;
}
