// What L2 keeps: reads, writes and sums with and without a policy, and a probe that times single loads past L1.
typedef unsigned long long u64;
enum { LAST = 1, FIRST, NORMAL, UNCHANGED, LAST_FIRST };

__device__ u64 policy_of(int kind, float fraction) {
    u64 made;
    if (kind == LAST)
        asm volatile("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %0, %1;" : "=l"(made) : "f"(fraction));
    else if (kind == FIRST)
        asm volatile("createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %0, %1;" : "=l"(made) : "f"(fraction));
    else if (kind == NORMAL)
        asm volatile("createpolicy.fractional.L2::evict_normal.L2::evict_unchanged.b64 %0, %1;" : "=l"(made) : "f"(fraction));
    else if (kind == UNCHANGED)
        asm volatile("createpolicy.fractional.L2::evict_unchanged.L2::evict_unchanged.b64 %0, %1;" : "=l"(made) : "f"(fraction));
    else
        asm volatile("createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %0, %1;" : "=l"(made) : "f"(fraction));
    return made;
}

__device__ uint4 load_hint(const uint4 *at, u64 policy) {
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at), "l"(policy));
    return v;
}

// Reads 16-byte words in a grid-stride loop, `passes` times, past L1.
extern "C" __global__ void read(const uint4 *from, unsigned words, int passes, unsigned *sink) {
    unsigned step = gridDim.x * blockDim.x, sum = 0;
    for (int pass = 0; pass < passes; ++pass) {
#pragma unroll 8
        for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) {
            uint4 v = __ldcg(from + i);
            sum += v.x ^ v.y ^ v.z ^ v.w;
        }
    }
    if (sum == 0x9e3779b9u)
        *sink = sum;
}

extern "C" __global__ void read_policy(const uint4 *from, unsigned words, int kind, float fraction, unsigned *sink) {
    unsigned step = gridDim.x * blockDim.x, sum = 0;
    u64 policy = policy_of(kind, fraction);
#pragma unroll 4
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) {
        uint4 v = load_hint(from + i, policy);
        sum += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 0x9e3779b9u)
        *sink = sum;
}

extern "C" __global__ void read_range(const uint4 *from, unsigned words, unsigned primary_bytes, unsigned total_bytes, unsigned *sink) {
    unsigned step = gridDim.x * blockDim.x, sum = 0;
    u64 policy;
    asm volatile("createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %0, [%1], %2, %3;"
                 : "=l"(policy) : "l"(from), "r"(primary_bytes), "r"(total_bytes));
#pragma unroll 4
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) {
        uint4 v = load_hint(from + i, policy);
        sum += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 0x9e3779b9u)
        *sink = sum;
}

extern "C" __global__ void write_policy(uint4 *to, unsigned words, int kind, float fraction) {
    unsigned step = gridDim.x * blockDim.x;
    u64 policy = policy_of(kind, fraction);
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step)
        asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %1, %1, %1}, %2;" ::"l"(to + i), "r"(i), "l"(policy) : "memory");
}

// One instruction for each line: 0 prefetch, 1 prefetch as evict_last, 2 prefetch as evict_normal, 3 applypriority, 4 discard.
extern "C" __global__ void each_line(char *at, unsigned lines, int what) {
    unsigned step = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < lines; i += step) {
        char *line = at + 128ull * i;
        if (what == 0)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
        else if (what == 1)
            asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(line));
        else if (what == 2)
            asm volatile("prefetch.global.L2::evict_normal [%0];" ::"l"(line));
        else if (what == 3)
            asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(line));
        else
            asm volatile("discard.global.L2 [%0], 128;" ::"l"(line));
    }
}

// The cycles of single loads past L1, one warp a block, one lane: of `count` lines from `first` on, or drawn from `lines` where first is negative.
extern "C" __global__ void probe(const unsigned *at, unsigned lines, int first, unsigned count, unsigned short *cycles) {
    unsigned seen = 0;
    for (u64 page = 0; page < lines; page += (2 << 20) / 128)
        seen += __ldcg(at + page * 32);
    for (unsigned k = 0; k < count; ++k) {
        unsigned n = blockIdx.x * count + k, line = first + n;
        if (first < 0) {
            unsigned x = n * 2654435761u + 0x9e3779b9u;
            x ^= x >> 15;
            x *= 0x85ebca6bu;
            x ^= x >> 13;
            x *= 0xc2b2ae35u;
            x ^= x >> 16;
            line = (unsigned)(((u64)x * lines) >> 32);
        }
        const unsigned *place = at + (u64)line * 32 + (seen & 0);
        unsigned begin, end, value;
        asm volatile("mov.u32 %0, %%clock;" : "=r"(begin)::"memory");
        asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(place) : "memory");
        asm volatile("{ .reg .pred p; setp.eq.u32 p, %1, 0x9e3779b9; @p trap; mov.u32 %0, %%clock; }" : "=r"(end) : "r"(value) : "memory");
        seen += value;
        unsigned took = end - begin;
        cycles[n] = took > 65535 ? 65535 : took;
    }
    if (seen == 0x9e3779b9u)
        cycles[0] = 0;
}

// 16-byte words of a 32 KiB table, over and over.
extern "C" __global__ void fill(uint4 *to, unsigned words, const uint4 *table) {
    __shared__ uint4 kept[2048];
    for (int i = threadIdx.x; i < 2048; i += blockDim.x)
        kept[i] = table[i];
    __syncthreads();
    unsigned step = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step)
        to[i] = kept[i & 2047];
}

// One word of each `stride` words.
extern "C" __global__ void poke(unsigned *to, unsigned count, unsigned stride, unsigned factor) {
    unsigned step = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        to[(u64)i * stride] = i * factor + factor;
}

extern "C" __global__ void random_bins(unsigned *to, unsigned count, unsigned bins) {
    unsigned step = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        unsigned x = i * 2654435761u + 0x9e3779b9u;
        x ^= x >> 16;
        x *= 0x85ebca6bu;
        x ^= x >> 13;
        x *= 0xc2b2ae35u;
        x ^= x >> 16;
        to[i] = (unsigned)(((u64)x * bins) >> 32);
    }
}

// The histogram of the A100 whitepaper's figure 34: one sum in global memory for each element.
extern "C" __global__ void histogram(const uint4 *data, unsigned quads, unsigned *bins) {
    unsigned step = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += step) {
        uint4 v = data[i];
        atomicAdd(bins + v.x, 1);
        atomicAdd(bins + v.y, 1);
        atomicAdd(bins + v.z, 1);
        atomicAdd(bins + v.w, 1);
    }
}

// Reads a stream once, and hot words over and over beside it.
extern "C" __global__ void reread(const uint4 *stream, unsigned words, const uint4 *hot, unsigned hot_words, unsigned *sink) {
    unsigned step = gridDim.x * blockDim.x, sum = 0;
#pragma unroll 4
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) {
        uint4 a = __ldcg(stream + i), b = __ldcg(hot + i % hot_words);
        sum += a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w;
    }
    if (sum == 0x9e3779b9u)
        *sink = sum;
}

// What L1 keeps: a block reads `hot` words with one priority, `flood` words with another, then times single loads of the first ones.
template <int KIND> __device__ unsigned load_l1(const unsigned *at) {
    unsigned v;
    if (KIND == 0)
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(at));
    else if (KIND == 1)
        asm volatile("ld.global.L1::evict_last.u32 %0, [%1];" : "=r"(v) : "l"(at));
    else if (KIND == 2)
        asm volatile("ld.global.L1::evict_first.u32 %0, [%1];" : "=r"(v) : "l"(at));
    else if (KIND == 3)
        asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(at));
    else
        asm volatile("ld.global.L1::evict_unchanged.u32 %0, [%1];" : "=r"(v) : "l"(at));
    return v;
}
template <int KIND> __device__ unsigned walk(const unsigned *at, unsigned words) {
    unsigned sum = 0;
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x)
        sum += load_l1<KIND>(at + i);
    return sum;
}
__device__ unsigned walk_kind(int kind, const unsigned *at, unsigned words) {
    switch (kind) {
    case 0: return walk<0>(at, words);
    case 1: return walk<1>(at, words);
    case 2: return walk<2>(at, words);
    case 3: return walk<3>(at, words);
    default: return walk<4>(at, words);
    }
}
extern "C" __global__ void keep_l1(const unsigned *hot, unsigned hot_words, int hot_kind, const unsigned *flood, unsigned flood_words, int flood_kind,
                                   unsigned short *cycles) {
    unsigned seen = walk_kind(hot_kind, hot, hot_words);
    __syncthreads();
    seen += walk_kind(flood_kind, flood, flood_words);
    __syncthreads();
    if (threadIdx.x == 0 && seen != 0x9e3779b9u)
        for (unsigned line = 0; line < hot_words / 32; ++line) {
            unsigned begin, end, value;
            asm volatile("mov.u32 %0, %%clock;" : "=r"(begin)::"memory");
            asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(hot + line * 32) : "memory");
            asm volatile("{ .reg .pred p; setp.eq.u32 p, %1, 0x9e3779b9; @p trap; mov.u32 %0, %%clock; }" : "=r"(end) : "r"(value) : "memory");
            unsigned took = end - begin;
            cycles[line] = took > 65535 ? 65535 : took;
        }
}
