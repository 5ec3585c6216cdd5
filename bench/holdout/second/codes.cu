// Bytes and wide integers: checksums, automata, matches, fields, runs.

// Adler's checksum of chunks of 4 KiB, a warp each: lanes take words, weights follow from the place.
extern "C" __global__ void adler_chunks(unsigned *sums, const uint4 *src, int chunks) {
    int chunk = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (chunk >= chunks) return;
    unsigned a = 0, b = 0;
    for (int k = 0; k < 8; ++k) {
        uint4 v = src[chunk * 256 + k * 32 + lane];
        unsigned words[4] = {v.x, v.y, v.z, v.w};
        unsigned left = 4096 - (k * 32 + lane) * 16;
        #pragma unroll
        for (int w = 0; w < 4; ++w)
            #pragma unroll
            for (int s = 0; s < 4; ++s) {
                unsigned byte = words[w] >> 8 * s & 255;
                a += byte, b += byte * (left - w * 4 - s);
            }
    }
    a %= 65521, b %= 65521;
    for (int d = 16; d; d /= 2) a += __shfl_down_sync(~0u, a, d), b += __shfl_down_sync(~0u, b, d);
    if (lane == 0) sums[chunk] = (b + 4096) % 65521 << 16 | (a + 1) % 65521;
}

// CRC-32 by eight tables at once, which 8 KiB of shared memory hold; a thread for a record of 256 bytes.
extern "C" __global__ void crc_by_eight(unsigned *crcs, const uint2 *src, const unsigned *tables, int records) {
    __shared__ unsigned t[8][256];
    for (int k = threadIdx.x; k < 2048; k += blockDim.x) ((unsigned *)t)[k] = tables[k];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= records) return;
    unsigned crc = ~0u;
    for (int k = 0; k < 32; ++k) {
        uint2 v = src[k * records + i];
        v.x ^= crc;
        crc = t[7][v.x & 255] ^ t[6][v.x >> 8 & 255] ^ t[5][v.x >> 16 & 255] ^ t[4][v.x >> 24] ^ t[3][v.y & 255] ^ t[2][v.y >> 8 & 255] ^ t[1][v.y >> 16 & 255] ^ t[0][v.y >> 24];
    }
    crcs[i] = ~crc;
}

// A deterministic automaton over texts: its table in shared memory, five warps a block, a text a thread.
extern "C" __global__ void __launch_bounds__(160) run_automaton(unsigned char *accepted, const unsigned char *texts, const unsigned char *table, int states, int n, int length) {
    extern __shared__ unsigned char next[];
    for (int k = threadIdx.x; k < states * 64; k += 160) ((unsigned *)next)[k] = ((const unsigned *)table)[k];
    __syncthreads();
    int i = blockIdx.x * 160 + threadIdx.x;
    if (i >= n) return;
    unsigned state = 0;
    int k = 0;
    for (; k < length && state != states - 1; ++k) state = next[state * 256 + texts[k * n + i]];
    accepted[i] = state == states - 1 ? k : 0;
}

// For each place of a chunk the longest match in the 64 bytes before it (as of LZ77), from shared memory.
extern "C" __global__ void longest_matches(unsigned short *dst, const unsigned char *src, int n) {
    __shared__ unsigned char text[256 + 64 + 16];
    int base = blockIdx.x * 256;
    for (int k = threadIdx.x; k < 336; k += blockDim.x) text[k] = base + k >= 64 && base + k - 64 < n ? src[base + k - 64] : 0;
    __syncthreads();
    int at = threadIdx.x + 64, most = 0, where = 0;
    for (int back = 1; back <= 64; ++back) {
        if (base + at - 64 < back) break;
        int length = 0;
        while (length < 15 && base + at - 64 + length < n && text[at + length] == text[at - back + length]) ++length;
        if (length > most) most = length, where = back;
    }
    if (base + threadIdx.x < n) dst[base + threadIdx.x] = most << 8 | where;
}

// Products in the field of 2^255 - 19: eight limbs of 32 bits, squared and multiplied in turn.
__device__ void field_product(unsigned *r, const unsigned *a, const unsigned *b) {
    unsigned wide[16];
    #pragma unroll
    for (int i = 0; i < 16; ++i) wide[i] = 0;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        unsigned long long carry = 0;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            carry += (unsigned long long)a[i] * b[j] + wide[i + j];
            wide[i + j] = (unsigned)carry, carry >>= 32;
        }
        wide[i + 8] = (unsigned)carry;
    }
    unsigned long long carry = 0;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        carry += (unsigned long long)wide[i + 8] * 38 + wide[i];
        r[i] = (unsigned)carry, carry >>= 32;
    }
    carry *= 38;
    #pragma unroll
    for (int i = 0; i < 8; ++i) carry += r[i], r[i] = (unsigned)carry, carry >>= 32;
    r[0] += (unsigned)carry * 38;
}
extern "C" __global__ void __launch_bounds__(64) field_powers(unsigned *dst, const unsigned *src, int n, int rounds) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    unsigned x[8], y[8];
    #pragma unroll
    for (int k = 0; k < 8; ++k) x[k] = y[k] = src[k * n + i];
    for (int r = 0; r < rounds; ++r) {
        field_product(y, y, y);
        field_product(y, y, x);
    }
    #pragma unroll
    for (int k = 0; k < 8; ++k) dst[k * n + i] = y[k];
}

// Heads of runs of bytes: a bit for each place, counts for each block of 4 KiB (first pass of run-length coding).
extern "C" __global__ void mark_runs(unsigned *bits, unsigned *counts, const unsigned char *src) {
    __shared__ unsigned total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    for (int k = threadIdx.x; k < 4096; k += blockDim.x) {
        int at = blockIdx.x * 4096 + k;
        unsigned heads = __ballot_sync(~0u, at == 0 || src[at] != src[at - 1]);
        if (k % 32 == 0) bits[at / 32] = heads, atomicAdd(&total, __popc(heads));
    }
    __syncthreads();
    if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

// Bytes of a text counted by class through a constant table that lanes read at different places.
__constant__ unsigned char classes[256];
extern "C" __global__ void count_classes(unsigned *totals, const uchar4 *src, int quads) {
    __shared__ unsigned counts[8];
    if (threadIdx.x < 8) counts[threadIdx.x] = 0;
    __syncthreads();
    unsigned long long mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += gridDim.x * blockDim.x) {
        uchar4 v = src[i];
        mine += 1ull << 8 * classes[v.x], mine += 1ull << 8 * classes[v.y], mine += 1ull << 8 * classes[v.z], mine += 1ull << 8 * classes[v.w];
    }
    for (int c = 0; c < 8; ++c) {
        unsigned v = mine >> 8 * c & 255;
        v = __reduce_add_sync(~0u, v);
        if (threadIdx.x % 32 == 0) atomicAdd(counts + c, v);
    }
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(totals + threadIdx.x, counts[threadIdx.x]);
}
