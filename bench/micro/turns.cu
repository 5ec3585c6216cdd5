// What each turn of a stream, of a walk down rows of DRAM, of sub-word stores takes; and reads of one sector by several SMs of a GPC.
#include "common.cuh"
#define KEEP(v) if ((v) == 0x9e3779b9u) out[SINK + threadIdx.x] = 1
#define NOTED 64

// Streams by loops over the grid: of each block its SM, start and end (ns) and, for its first warp, the cycles of each turn.
// out: a row of 4 + NOTED words a block. `order`: 0 every warp goes on as it can; 1 a barrier ends each turn.
#define TURNS(NAME, TYPE, LOADS, STORES)                                                                   \
    extern "C" __global__ void NAME(u32* out, TYPE* to, const TYPE* from, u32 n) {                         \
        u32* mine = out + blockIdx.x * (4 + NOTED);                                                        \
        u64 g0 = wall_ns();                                                                                \
        u32 step = gridDim.x * blockDim.x;                                                                 \
        u32 sum = 0, turn = 0;                                                                             \
        u32 before = clk();                                                                                \
        _Pragma("unroll 1") for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {        \
            TYPE v = TYPE();                                                                               \
            if (LOADS) v = from[i];                                                                        \
            if (LOADS) { sum += *(u32*)&v; asm volatile("" :: "r"(sum) : "memory"); }                      \
            if (STORES) to[i] = v;                                                                         \
            if (threadIdx.x == 0) {                                                                        \
                u32 now = clk() + (sum == 0x9e3779b9u);                                                    \
                if (turn < NOTED) mine[4 + turn] = now - before;                                           \
                before = now;                                                                              \
                turn++;                                                                                    \
            }                                                                                              \
        }                                                                                                  \
        __syncthreads();                                                                                   \
        if (threadIdx.x == 0) {                                                                            \
            u64 g1 = wall_ns();                                                                            \
            mine[0] = smid();                                                                              \
            mine[1] = (u32)g0;                                                                             \
            mine[2] = (u32)g1;                                                                             \
            mine[3] = turn;                                                                                \
        }                                                                                                  \
        if (sum == 0x9e3779b9u) *(u32*)to = 1;                                                             \
    }
TURNS(turns_read16, uint4, 1, 0)
TURNS(turns_read4, u32, 1, 0)
TURNS(turns_copy16, uint4, 1, 1)
TURNS(turns_copy4, u32, 1, 1)

// Every SM reads a word of each page, so that translations are at hand.
extern "C" __global__ void touch_pages(u32* out, const char* from, u64 bytes, u64 page) {
    u32 sum = 0;
    for (u64 at = (u64)threadIdx.x * page; at < bytes; at += (u64)blockDim.x * page) sum += *(const u32*)(from + at);
    KEEP(sum);
}

// Each lane walks a row that nothing holds, COUNT words a turn; warp 0's cycles of each turn: out[turn].
#define COLD(NAME, COUNT)                                                                                  \
    extern "C" __global__ void NAME(u32* out, const char* base, u64 pitch, int turns) {                    \
        const char* p = base + (u64)(blockIdx.x * blockDim.x + threadIdx.x) * pitch;                       \
        u32 sum = 0;                                                                                       \
        settle();                                                                                          \
        u32 before = clk();                                                                                \
        _Pragma("unroll 1") for (int t = 0; t < turns; t++) {                                              \
            u32 v[COUNT];                                                                                  \
            _Pragma("unroll") for (int k = 0; k < COUNT; k++)                                              \
                asm volatile("ld.global.u32 %0, [%1];" : "=r"(v[k]) : "l"(p + 4 * k));                     \
            _Pragma("unroll") for (int k = 0; k < COUNT; k++) sum += v[k];                                 \
            p += 4 * COUNT + (sum >> 31);                                                                  \
            u32 now = clk() + (sum >> 31);                                                                 \
            if (threadIdx.x == 0) out[t] = now - before;                                                   \
            before = now;                                                                                  \
        }                                                                                                  \
        KEEP(sum);                                                                                         \
    }
COLD(cold_walk_1, 1)
COLD(cold_walk_4, 4)
COLD(cold_walk_8, 8)

// Stores of 1, 2 or 4 bytes by each lane to a line of its own, lines `pitch` apart, four to the same sector in a turn (as store_walk).
#define NARROW(NAME, TYPE, STORE, CONSTRAINT)                                                              \
    extern "C" __global__ void NAME(u32* out, char* base, u64 pitch, int step, int turns) {                \
        char* p = base + (u64)(blockIdx.x * blockDim.x + threadIdx.x) * pitch;                             \
        settle();                                                                                          \
        u32 t0 = clk();                                                                                    \
        _Pragma("unroll 1") for (int t = 0; t < turns; t++) {                                              \
            _Pragma("unroll") for (int k = 0; k < 4; k++)                                                  \
                asm volatile(STORE : : "l"(p + k * step), CONSTRAINT((TYPE)t) : "memory");                 \
            p += 4 * step;                                                                                 \
        }                                                                                                  \
        u32 t1 = clk();                                                                                    \
        report(out, t0, t1);                                                                               \
    }
NARROW(narrow_1, unsigned short, "st.global.u8 [%0], %1;", "h")
NARROW(narrow_2, unsigned short, "st.global.u16 [%0], %1;", "h")
NARROW(narrow_4, u32, "st.global.u32 [%0], %1;", "r")

// Loads of one place by a few lanes, each at a distance of its own: out is the cycles of 64 loads in a row of one warp.
extern "C" __global__ void lanes_at(u32* out, const char* base, const u32* at, int count) {
    const char* p = base + at[lane() < count ? lane() : 0];
    u32 sum = 0;
    for (int warm = 0; warm < 2; warm++) {
        settle();
        u32 t0 = clk();
        _Pragma("unroll 1") for (int t = 0; t < 32; t++) {
            u32 v;
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p + (sum >> 31)));
            sum += v;
        }
        u32 t1 = clk() + (sum >> 31);
        report(out, t0, t1);
    }
    KEEP(sum);
}

// Blocks of a cluster, so SMs of a GPC, read at set times: `same` blocks in a row name one place, each `skew` cycles after the one before.
// `lane_step`: bytes between lanes. out: SM of each block, and the cycles of its first warp's loads summed.
extern "C" __global__ void together(u32* out, const char* base, int count, int same, int skew, int lane_step, int gap, int warm) {
    u32 rank, sum = 0, spent = 0;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    u32 size, cluster;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(cluster));
    // A group's place: 8 KiB for each of its loads.
    const char* p = base + (u64)(cluster * size + rank / same * same) * (count * 8192ull) + lane() * lane_step;
    if (threadIdx.x < 32 && warm && rank % same == 0)
        for (int t = 0; t < count; t++) sum += *(const volatile u32*)(p + (u64)t * 8192);
    sum >>= 31;
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x < 32) {
        u32 begin = clk() + 2000 + rank % same * skew;
        _Pragma("unroll 1") for (int t = 0; t < count; t++) {
            while ((int)(clk() - begin) < 0) {}
            u32 v, t0 = clk();
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p + (u64)t * 8192 + sum));
            sum += v >> 31;
            spent += clk() + sum - t0;
            begin += gap;
        }
        if (threadIdx.x == 0) {
            out[2 * blockIdx.x] = smid();
            out[2 * blockIdx.x + 1] = spent;
        }
    }
    KEEP(sum);
}

// As `together` of what nothing holds, by several warps of each block: `same` blocks of a cluster that lie `apart` name one place, each a word of its own (`word`
// bytes on), the second half of them the next sector where `other` is 1. `cached`: loads that look into L1.
extern "C" __global__ void together_crowd(u32* out, const char* base, int count, int same, int apart, int word, int other, int skew, int cached) {
    u32 rank, size, cluster, sum = 0, spent = 0;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(cluster));
    u32 groups = size / same, warps = blockDim.x / 32, warp = threadIdx.x / 32;
    u32 group = apart == 1 ? rank / same : rank % groups, place = apart == 1 ? rank % same : rank / groups;
    const char* p = base + ((u64)(cluster * groups + group) * warps + warp) * (count * 8192ull) + lane() * 256 + place * word + (other && place >= same / 2) * 32;
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    u32 begin = clk() + 2000 + place * skew;
    _Pragma("unroll 1") for (int t = 0; t < count; t++) {
        while ((int)(clk() - begin) < 0) {}
        u32 v, t0 = clk();
        if (cached) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p + (u64)t * 8192 + sum));
        else asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p + (u64)t * 8192 + sum));
        sum += v >> 31;
        spent += clk() + sum - t0;
        begin += 4000;
    }
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = smid();
        out[2 * blockIdx.x + 1] = spent;
    }
    KEEP(sum);
}

// A load that L1 has (`spread` bytes between lanes) and a store of `lines` lines to rows of its own, in turn.
extern "C" __global__ void store_beside(u32* out, char* base, int spread, u64 pitch, int active, int step, int turns) {
    const char* p = base + lane() * spread;
    char* q = base + (8u << 20) + (u64)(threadIdx.x & ~31u) * pitch + lane() * pitch;
    u32 sum = *(const u32*)p >> 31;
    settle();
    u32 t0 = clk();
    _Pragma("unroll 1") for (int t = 0; t < turns; t++) {
        u32 v[4];
        _Pragma("unroll") for (int k = 0; k < 4; k++) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v[k]) : "l"(p + (u64)(k * 4 & (spread - 1) & 12)), "r"(k));
        _Pragma("unroll") for (int k = 0; k < 4; k++) {
            sum += v[k] >> 31;
            if (lane() < active) asm volatile("st.global.u32 [%0], %1;" : : "l"(q + k * step), "r"(sum) : "memory");
        }
        q += 4 * step;
    }
    u32 t1 = clk();
    report(out, t0, t1);
    KEEP(sum);
}

static __device__ __forceinline__ u32 cached_in_l2(const char* p) {
    u32 v;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}

// As `cold_walk`, with all warps' clocks: out[warp * turns + turn]. `warm`: L2 has the rows.
#define ALL(NAME, COUNT)                                                                                   \
    extern "C" __global__ void NAME(u32* out, const char* base, u64 pitch, int turns, int warm) {          \
        const char* p = base + (u64)threadIdx.x * pitch;                                                   \
        u32 sum = 0;                                                                                       \
        if (warm)                                                                                          \
            _Pragma("unroll 1") for (int at = 0; at < turns * COUNT * 4; at += 32) sum += cached_in_l2(p + at); \
        p += sum >> 31;                                                                                    \
        __syncthreads();                                                                                   \
        settle();                                                                                          \
        u32 start = clk();                                                                                 \
        _Pragma("unroll 1") for (int t = 0; t < turns; t++) {                                              \
            u32 v[COUNT];                                                                                  \
            _Pragma("unroll") for (int k = 0; k < COUNT; k++)                                              \
                asm volatile("ld.global.u32 %0, [%1];" : "=r"(v[k]) : "l"(p + 4 * k));                     \
            _Pragma("unroll") for (int k = 0; k < COUNT; k++) sum += v[k];                                 \
            p += 4 * COUNT + (sum >> 31);                                                                  \
            u32 now = clk() + (sum >> 31);                                                                 \
            if (lane() == 0) out[(threadIdx.x >> 5) * turns + t] = now - start;                            \
        }                                                                                                  \
        KEEP(sum);                                                                                         \
    }
ALL(walk_all_1, 1)
ALL(walk_all_4, 4)
ALL(walk_all_8, 8)
