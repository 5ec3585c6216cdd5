// Databases, codecs, texts and codes.
typedef unsigned long long u64;

__device__ unsigned mixed(unsigned x) {
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
    return x ^ x >> 16;
}

// Rows whose key stands in a table of open places: pairs go to one list, room for a warp's finds taken at once.
extern "C" __global__ void join_probe(uint2 *out, unsigned *count, const uint2 *table, unsigned mask, const unsigned *keys, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    bool searching = i < n;
    unsigned key = searching ? keys[i] : 0, place = mixed(key) & mask;
    while (__any_sync(~0u, searching)) {
        uint2 entry = searching ? table[place] : make_uint2(~0u, 0);
        bool found = searching && entry.x == key;
        unsigned finders = __ballot_sync(~0u, found);
        if (finders) {
            unsigned base = 0;
            if (lane == 0) base = atomicAdd(count, __popc(finders));
            base = __shfl_sync(~0u, base, 0);
            if (found) out[base + __popc(finders & ((1u << lane) - 1))] = make_uint2(i, entry.y);
        }
        searching = searching && entry.x != ~0u;
        place = (place + 1) & mask;
    }
}

// Sums by key: a block's own table in shared memory takes what it can, then one table in memory takes all of it.
extern "C" __global__ void __launch_bounds__(256) group_sums(unsigned *keys_of, u64 *sums, unsigned *counts, unsigned mask, const unsigned *keys, const unsigned *values, int n) {
    __shared__ unsigned own[1024], number[1024];
    __shared__ u64 total[1024];
    for (int k = threadIdx.x; k < 1024; k += 256) own[k] = ~0u, number[k] = 0, total[k] = 0;
    __syncthreads();
    auto globally = [&](unsigned key, u64 sum, unsigned many) {
        for (unsigned place = mixed(key) & mask;; place = (place + 1) & mask) {
            unsigned seen = keys_of[place];
            if (seen == ~0u) seen = atomicCAS(keys_of + place, ~0u, key);
            if (seen != ~0u && seen != key) continue;
            atomicAdd(sums + place, sum), atomicAdd(counts + place, many);
            return;
        }
    };
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        unsigned key = keys[i], value = values[i], place = mixed(key ^ 0x5bd1e995u) & 1023;
        int tries = 0;
        for (; tries < 8; ++tries, place = (place + 1) & 1023) {
            unsigned seen = atomicCAS(own + place, ~0u, key);
            if (seen == ~0u || seen == key) break;
        }
        if (tries < 8) atomicAdd(total + place, (u64)value), atomicAdd(number + place, 1u);
        else globally(key, value, 1);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < 1024; k += 256)
        if (number[k]) globally(own[k], total[k], number[k]);
}

// A query over columns: rows before a date in six groups, sums of price, discounted and taxed price, and how many.
extern "C" __global__ void __launch_bounds__(256) query_groups(u64 *sums, const int *date, const unsigned char *group, const int *price, const unsigned char *discount, const unsigned char *tax, int before, int n) {
    __shared__ u64 parts[8][24];
    int t = threadIdx.x, warp = t / 32;
    for (int k = t; k < 192; k += 256) ((u64 *)parts)[k] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) {
        if (date[i] > before) continue;
        u64 cost = price[i], less = cost * (100 - discount[i]);
        u64 *to = parts[warp] + group[i] * 4;
        atomicAdd(to, cost), atomicAdd(to + 1, less), atomicAdd(to + 2, less * (100 + tax[i])), atomicAdd(to + 3, 1ull);
    }
    __syncthreads();
    if (t < 24) {
        u64 all = 0;
        for (int w = 0; w < 8; ++w) all += parts[w][t];
        if (all) atomicAdd(sums + t, all);
    }
}

// Decimal numbers of a text between known places, as hundredths.
extern "C" __global__ void parse_decimals(long long *dst, const char *text, const int *starts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int at = starts[i], end = starts[i + 1] - 1;
    bool negative = text[at] == '-';
    at += negative;
    long long whole = 0;
    int digits = -1;
    for (; at < end; ++at) {
        char c = text[at];
        if (c == '.') digits = 0;
        else {
            whole = whole * 10 + (c - '0');
            if (digits >= 0) ++digits;
        }
    }
    for (digits = max(digits, 0); digits < 2; ++digits) whole *= 10;
    dst[i] = negative ? -whole : whole;
}

// Chunks of literals and matches, expanded by a warp each in shared memory: all lanes read the tokens, then copy side by side.
extern "C" __global__ void __launch_bounds__(64) expand_tokens(unsigned char *dst, const unsigned char *packed, const int *starts, int chunks) {
    __shared__ __align__(16) unsigned char window[2][4096];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, chunk = blockIdx.x * 2 + warp;
    if (chunk >= chunks) return;
    unsigned char *out = window[warp];
    int at = starts[chunk], end = starts[chunk + 1], to = 0;
    while (at < end) {
        int literals = packed[at], length = packed[at + 1], back = packed[at + 2] | packed[at + 3] << 8;
        at += 4;
        for (int k = lane; k < literals; k += 32) out[to + k] = packed[at + k];
        at += literals, to += literals;
        __syncwarp();
        for (int k = lane; k < length; k += 32) out[to + k] = out[to - back + k % back];
        to += length;
        __syncwarp();
    }
    for (int k = lane * 16; k < 4096; k += 512) *(uint4 *)(dst + (long long)chunk * 4096 + k) = *(uint4 *)(out + k);
}

// Streams of an entropy coder of ranges (rANS): a thread a stream, 4096 slots of symbols in shared memory.
extern "C" __global__ void __launch_bounds__(128) range_decode(unsigned char *dst, const unsigned short *words, const int *starts, const unsigned *states, const unsigned *slots, int streams, int length) {
    __shared__ unsigned table[4096];
    for (int k = threadIdx.x; k < 4096; k += 128) table[k] = slots[k];
    __syncthreads();
    int s = blockIdx.x * 128 + threadIdx.x;
    if (s >= streams) return;
    unsigned state = states[s];
    const unsigned short *from = words + starts[s];
    for (int k = 0; k < length; ++k) {
        unsigned slot = state & 4095, entry = table[slot];  // symbol, slots of it less one, first of them
        dst[(long long)k * streams + s] = entry >> 24;
        state = ((entry >> 12 & 4095) + 1) * (state >> 12) + slot - (entry & 4095);
        if (state < 65536) state = state << 16 | *from++;
    }
}

// Four parities of ten stripes in the field of 256: products by two tables of 16 for each factor, four bytes a thread.
extern "C" __global__ void __launch_bounds__(128) field_parities(unsigned *parity, const unsigned *data, const unsigned char *tables, int words) {
    __shared__ unsigned char product[40][2][16];
    for (int k = threadIdx.x; k < 1280; k += 128) ((unsigned char *)product)[k] = tables[k];
    __syncthreads();
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= words) return;
    unsigned sum[4] = {};
    #pragma unroll 2
    for (int d = 0; d < 10; ++d) {
        unsigned x = data[(long long)d * words + i];
        #pragma unroll
        for (int p = 0; p < 4; ++p) {
            const unsigned char(*t)[16] = product[p * 10 + d];
            #pragma unroll
            for (int b = 0; b < 32; b += 8) sum[p] ^= (unsigned)(t[0][x >> b & 15] ^ t[1][x >> b + 4 & 15]) << b;
        }
    }
    for (int p = 0; p < 4; ++p) parity[(long long)p * words + i] = sum[p];
}

// BLAKE2s of records of 256 bytes.
__constant__ unsigned start_words[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
__device__ const unsigned char message_order[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};
extern "C" __global__ void __launch_bounds__(128) blake_records(unsigned *digests, const uint4 *records, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
    unsigned h[8], m[16], v[16];
    for (int k = 0; k < 8; ++k) h[k] = start_words[k];
    h[0] ^= 0x01010020;
    for (int block = 0; block < 4; ++block) {
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            uint4 w = records[(long long)i * 16 + block * 4 + k];
            m[4 * k] = w.x, m[4 * k + 1] = w.y, m[4 * k + 2] = w.z, m[4 * k + 3] = w.w;
        }
        #pragma unroll
        for (int k = 0; k < 8; ++k) v[k] = h[k], v[k + 8] = start_words[k];
        v[12] ^= (block + 1) * 64, v[14] ^= block == 3 ? ~0u : 0;
        auto mix = [&](int a, int b, int c, int d, unsigned x, unsigned y) {
            v[a] += v[b] + x, v[d] = __funnelshift_r(v[d] ^ v[a], v[d] ^ v[a], 16);
            v[c] += v[d], v[b] = __funnelshift_r(v[b] ^ v[c], v[b] ^ v[c], 12);
            v[a] += v[b] + y, v[d] = __funnelshift_r(v[d] ^ v[a], v[d] ^ v[a], 8);
            v[c] += v[d], v[b] = __funnelshift_r(v[b] ^ v[c], v[b] ^ v[c], 7);
        };
        #pragma unroll
        for (int r = 0; r < 10; ++r) {
            const unsigned char *s = message_order[r];
            mix(0, 4, 8, 12, m[s[0]], m[s[1]]), mix(1, 5, 9, 13, m[s[2]], m[s[3]]);
            mix(2, 6, 10, 14, m[s[4]], m[s[5]]), mix(3, 7, 11, 15, m[s[6]], m[s[7]]);
            mix(0, 5, 10, 15, m[s[8]], m[s[9]]), mix(1, 6, 11, 12, m[s[10]], m[s[11]]);
            mix(2, 7, 8, 13, m[s[12]], m[s[13]]), mix(3, 4, 9, 14, m[s[14]], m[s[15]]);
        }
        #pragma unroll
        for (int k = 0; k < 8; ++k) h[k] ^= v[k] ^ v[k + 8];
    }
    for (int k = 0; k < 2; ++k) ((uint4 *)digests)[i * 2 + k] = make_uint4(h[4 * k], h[4 * k + 1], h[4 * k + 2], h[4 * k + 3]);
}

// Edit distances of a pattern of 64 letters to texts, all rows of a column in two words of bits (Myers).
extern "C" __global__ void __launch_bounds__(192) bit_distances(int *dst, const unsigned char *texts, const u64 *masks, int n, int length) {
    __shared__ u64 equal[256];
    for (int k = threadIdx.x; k < 256; k += 192) equal[k] = masks[k];
    __syncthreads();
    int i = blockIdx.x * 192 + threadIdx.x;
    if (i >= n) return;
    u64 plus = ~0ull, minus = 0;
    int score = 64;
    for (int k = 0; k < length; ++k) {
        u64 eq = equal[texts[(long long)k * n + i]], xv = eq | minus, xh = (((eq & plus) + plus) ^ plus) | eq;
        u64 up = minus | ~(xh | plus), down = plus & xh;
        score += (int)(up >> 63) - (int)(down >> 63);
        up = up << 1 | 1, down <<= 1;
        plus = down | ~(xv | up), minus = up & xv;
    }
    dst[i] = score;
}
