// Integers at work: hashes, number-theoretic transforms, modular products, packed and entropy-coded streams.
typedef unsigned long long u64;

__constant__ u64 keccak_rounds[24];
__device__ u64 turn(u64 v, int by) { return by ? v << by | v >> 64 - by : v; }
// SHA3-256 of one padded block for each thread; words as [17][n].
extern "C" __global__ void __launch_bounds__(128) sha3_blocks(u64 *digests, const u64 *words, int n) {
    const int turns[25] = {0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21, 8, 18, 2, 61, 56, 14};
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 a[25], b[25], c[5];
    #pragma unroll
    for (int k = 0; k < 25; ++k) a[k] = k < 17 ? words[k * n + i] : 0;
    #pragma unroll 1
    for (int r = 0; r < 24; ++r) {
        #pragma unroll
        for (int x = 0; x < 5; ++x) c[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
        #pragma unroll
        for (int x = 0; x < 5; ++x) {
            u64 d = c[(x + 4) % 5] ^ turn(c[(x + 1) % 5], 1);
            #pragma unroll
            for (int y = 0; y < 5; ++y) b[y + (2 * x + 3 * y) % 5 * 5] = turn(a[x + 5 * y] ^ d, turns[x + 5 * y]);
        }
        #pragma unroll
        for (int y = 0; y < 5; ++y)
            #pragma unroll
            for (int x = 0; x < 5; ++x) a[x + 5 * y] = b[x + 5 * y] ^ (~b[(x + 1) % 5 + 5 * y] & b[(x + 2) % 5 + 5 * y]);
        a[0] ^= keccak_rounds[r];
    }
    #pragma unroll
    for (int k = 0; k < 4; ++k) digests[k * n + i] = a[k];
}

#define P 0xffffffff00000001ull
__device__ u64 add_mod(u64 a, u64 b) {
    u64 s = a + b;
    return s < a || s >= P ? s - P : s;
}
__device__ u64 sub_mod(u64 a, u64 b) { return a >= b ? a - b : a - b + P; }
__device__ u64 mul_mod(u64 a, u64 b) {  // 2^64 = 2^32 - 1, 2^96 = -1
    u64 low = a * b, high = __umul64hi(a, b), top = high >> 32, middle = high & 0xffffffff;
    u64 s = low - top;
    if (low < top) s -= 0xffffffff;
    u64 m = (middle << 32) - middle, out = s + m;
    if (out < s) out += 0xffffffff;
    return out >= P ? out - P : out;
}
// Transforms of 1024 numbers modulo 2^64 - 2^32 + 1, each in one block's shared memory; input in bit-reversed order.
extern "C" __global__ void __launch_bounds__(256) ntt_shared(u64 *data, const u64 *roots) {
    __shared__ u64 x[1024];
    u64 *mine = data + blockIdx.x * 1024ll;
    for (int i = threadIdx.x; i < 1024; i += 256) x[__brev(i) >> 22] = mine[i];
    __syncthreads();
    for (int half = 1; half < 1024; half *= 2) {
        for (int j = threadIdx.x; j < 512; j += 256) {
            int k = j % half, at = j / half * 2 * half + k;
            u64 a = x[at], b = mul_mod(x[at + half], roots[k * (512 / half)]);
            x[at] = add_mod(a, b), x[at + half] = sub_mod(a, b);
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < 1024; i += 256) mine[i] = x[i];
}

// Montgomery squares modulo a 256-bit prime, eight words each, with carry chains.
extern "C" __global__ void montgomery_squares(unsigned *data, const unsigned *prime, unsigned inverse, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a[8], p[8];
    #pragma unroll
    for (int k = 0; k < 8; ++k) a[k] = data[k * n + i], p[k] = prime[k];
    for (int r = 0; r < rounds; ++r) {
        unsigned t[10] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            asm volatile("mad.lo.cc.u32 %0, %1, %2, %0;" : "+r"(t[0]) : "r"(a[0]), "r"(a[k]));
            #pragma unroll
            for (int j = 1; j < 8; ++j) asm volatile("madc.lo.cc.u32 %0, %1, %2, %0;" : "+r"(t[j]) : "r"(a[j]), "r"(a[k]));
            asm volatile("addc.cc.u32 %0, %0, 0; addc.u32 %1, 0, 0;" : "+r"(t[8]), "=r"(t[9]));
            asm volatile("mad.hi.cc.u32 %0, %1, %2, %0;" : "+r"(t[1]) : "r"(a[0]), "r"(a[k]));
            #pragma unroll
            for (int j = 1; j < 8; ++j) asm volatile("madc.hi.cc.u32 %0, %1, %2, %0;" : "+r"(t[j + 1]) : "r"(a[j]), "r"(a[k]));
            asm volatile("addc.u32 %0, %0, 0;" : "+r"(t[9]));
            unsigned m = t[0] * inverse;
            asm volatile("mad.lo.cc.u32 %0, %1, %2, %0;" : "+r"(t[0]) : "r"(m), "r"(p[0]));
            #pragma unroll
            for (int j = 1; j < 8; ++j) asm volatile("madc.lo.cc.u32 %0, %1, %2, %0;" : "+r"(t[j]) : "r"(m), "r"(p[j]));
            asm volatile("addc.cc.u32 %0, %0, 0; addc.u32 %1, %1, 0;" : "+r"(t[8]), "+r"(t[9]));
            asm volatile("mad.hi.cc.u32 %0, %1, %2, %0;" : "+r"(t[1]) : "r"(m), "r"(p[0]));
            #pragma unroll
            for (int j = 1; j < 8; ++j) asm volatile("madc.hi.cc.u32 %0, %1, %2, %0;" : "+r"(t[j + 1]) : "r"(m), "r"(p[j]));
            asm volatile("addc.u32 %0, %0, 0;" : "+r"(t[9]));
            #pragma unroll
            for (int j = 0; j < 9; ++j) t[j] = t[j + 1];
        }
        unsigned d[8], under;
        asm volatile("sub.cc.u32 %0, %1, %2;" : "=r"(d[0]) : "r"(t[0]), "r"(p[0]));
        #pragma unroll
        for (int j = 1; j < 8; ++j) asm volatile("subc.cc.u32 %0, %1, %2;" : "=r"(d[j]) : "r"(t[j]), "r"(p[j]));
        asm volatile("subc.u32 %0, %1, 0;" : "=r"(under) : "r"(t[8]));
        #pragma unroll
        for (int j = 0; j < 8; ++j) a[j] = under >> 31 ? t[j] : d[j];
    }
    #pragma unroll
    for (int k = 0; k < 8; ++k) data[k * n + i] = a[k];
}

// Blocks of 1024 differences, each packed in its own number of bits, to values: unpack, then a scan.
extern "C" __global__ void __launch_bounds__(256) unpack_deltas(unsigned *dst, const unsigned *packed, const int *first, const unsigned *bases, const unsigned char *widths) {
    __shared__ unsigned sums[8];
    int t = threadIdx.x, width = widths[blockIdx.x];
    const unsigned *from = packed + first[blockIdx.x];
    unsigned v[4], mask = width == 32 ? ~0u : (1u << width) - 1;
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        int bit = (4 * t + k) * width;
        v[k] = __funnelshift_r(from[bit / 32], from[bit / 32 + 1], bit % 32) & mask;
        if (k) v[k] += v[k - 1];
    }
    unsigned sum = v[3];
    for (int d = 1; d < 32; d *= 2) {
        unsigned other = __shfl_up_sync(~0u, sum, d);
        if (t % 32 >= d) sum += other;
    }
    if (t % 32 == 31) sums[t / 32] = sum;
    __syncthreads();
    unsigned before = bases[blockIdx.x] + sum - v[3];
    for (int w = 0; w < t / 32; ++w) before += sums[w];
    reinterpret_cast<uint4 *>(dst)[blockIdx.x * 256 + t] = make_uint4(before + v[0], before + v[1], before + v[2], before + v[3]);
}

// Huffman codes of at most 10 bits through a table in shared memory; each thread has a chunk of its own.
extern "C" __global__ void huffman_chunks(unsigned char *dst, const unsigned *bits, const int *first, const unsigned short *table, int chunks, int symbols) {
    __shared__ unsigned short codes[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) codes[k] = table[k];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= chunks) return;
    const unsigned *from = bits + first[i];
    u64 window = (u64)from[0] << 32 | from[1];
    int used = 0, next = 2;
    for (int s = 0; s < symbols; ++s) {
        unsigned entry = codes[window << used >> 54];
        used += entry >> 8;
        dst[(long long)i * symbols + s] = entry & 255;
        if (used >= 32) window = window << 32 | from[next++], used -= 32;
    }
}
