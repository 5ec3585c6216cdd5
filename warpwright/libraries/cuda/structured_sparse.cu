// Structured sparsity (cuSPARSELt): pruning, compression, and what surrounds the product on sparse tensor cores, which is that of ww.sparsity (products.cu).
//
// A compressed matrix [m][k] of op(A) is its kept elements [m][k / 2], row by row, and then its metadata in units of 16 bits: eight places of two bits (of 32-bit elements
// four of four bits).  Of 16-bit elements with m a multiple of 128 and k of 64 the units are in the order that PyTorch's own packing kernels write; else row by row.
//
// Macros: RAW (unsigned integer of an element's size), UNIT (dense columns of a unit), BITS (of an element); for finish SUM (float or int), OUT and BIAS (elements of D and of
// the bias); for pruning ELEMENT.
#include "types.cuh"

const int GROUP = BITS == 32 ? 2 : 4, KEPT = GROUP / 2;

__device__ inline bool is_zero(RAW bits) {
#if BITS == 8
    return bits == 0;
#else
    return (RAW)(bits << 1) == 0;
#endif
}

__device__ inline i64 unit_place(int row, int unit, int m, int k) {
    if (BITS == 16 && m % 128 == 0 && k % 64 == 0) {
        int column = unit * UNIT;
        i64 tile = row / 128 + (i64)(column / 64) * (m / 128);
        int line = 4 * (row % 8) + 2 * (row % 32 / 16) + column % 32 / 16;
        return tile * 512 + row % 128 / 32 * 64 + column % 64 / 32 * 256 + 2 * line + row % 16 / 8;
    }
    return (i64)row * (k / UNIT) + unit;
}

// A thread makes the unit of a row: its kept elements and their places.
extern "C" __global__ void warpwright_compress(const RAW *from, i64 row_step, i64 column_step, int m, int k, RAW *values, unsigned short *metadata) {
    i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    int units = k / UNIT;
    if (n >= (i64)m * units) return;
    int row = n / units, unit = n % units, bits = 0;
    for (int group = 0; group < UNIT / GROUP; group++) {
        i64 first = unit * UNIT + group * GROUP;
        RAW held[GROUP];
        int used = 0;
        for (int i = 0; i < GROUP; i++) {
            held[i] = from[row * row_step + (first + i) * column_step];
            if (!is_zero(held[i]) && __popc(used) < KEPT) used |= 1 << i;
        }
        for (int i = 0; i < GROUP && __popc(used) < KEPT; i++) used |= 1 << i;
        int slot = 0;
        for (int i = 0; i < GROUP; i++) {
            if (!(used >> i & 1)) continue;
            values[(i64)row * (k / 2) + unit * (UNIT / 2) + group * KEPT + slot] = held[i];
            // The element of a pair of 32-bit elements: 0b0100 names the first, 0b1110 the second (PTX ISA, "Sparse matrix storage").
            bits |= (BITS == 32 ? (i ? 0xe : 0x4) : i << 2 * slot) << 4 * group;
            slot++;
        }
    }
    metadata[unit_place(row, unit, m, k)] = bits;
}

// Metadata of the product's lanes [tiles of 16 rows][words][32].
extern "C" __global__ void warpwright_lanes(const unsigned short *metadata, int m, int k, int tiles, int words, unsigned *lanes) {
    i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= (i64)tiles * words * 32) return;
    int lane = n % 32, word = n / 32 % words, row = n / 32 / words * 16 + lane / 4;
    unsigned found = 0;
    for (int half = 0; half < 2; half++) {
        int at = BITS == 8 ? row + 8 * (lane % 2) : row + 8 * half;
        int unit = word * 4 + (BITS == 8 ? lane % 4 / 2 * 2 + half : lane % 4);
        // Beyond the matrix: any places of elements that are zero.
        unsigned bits = at < m && unit < k / UNIT ? metadata[unit_place(at, unit, m, k)] : 0x4444;
        found |= bits << 16 * half;
    }
    lanes[n] = found;
}

// Rows of k elements, padded with zeros: to[rows][columns] = from, through a tile in shared memory, so that both sides are accessed along their rows.
extern "C" __global__ void warpwright_pad(const RAW *from, i64 row_step, i64 column_step, int m, int k, RAW *to, int rows, int columns) {
    __shared__ RAW tile[32][33];
    int row = blockIdx.y * 32, column = blockIdx.x * 32, x = threadIdx.x % 32, y = threadIdx.x / 32;
    bool along_rows = column_step == 1;
    for (int i = y; i < 32; i += blockDim.x / 32) {
        int r = row + (along_rows ? i : x), c = column + (along_rows ? x : i);
        tile[r - row][c - column] = r < m && c < k ? from[r * row_step + c * column_step] : (RAW)0;
    }
    __syncthreads();
    for (int i = y; i < 32; i += blockDim.x / 32)
        if (row + i < rows && column + x < columns) to[(i64)(row + i) * columns + column + x] = tile[i][x];
}

#ifdef OUT
// Integers are exact in double precision, and stay so where nothing scales them.
template <class S> struct Wide { typedef float type; };
template <> struct Wide<int> { typedef double type; };
typedef Wide<SUM>::type WIDE;
template <class T> __device__ inline void store(T *place, WIDE v) { put(place, (float)v); }
__device__ inline void store(int *place, WIDE v) { *place = __double2int_rn(v); }

struct Ends {
    const float *alphas, *betas;
    float alpha, beta;
    const void *bias;
    int activation;
    float low, high;
};

__device__ inline float activated(float v, const Ends &e) {
    if (e.activation == 1) return v > e.low ? fminf(v, e.high) : 0.0f;
    if (e.activation == 2) return e.high * 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    return v;
}

// D = activation(alpha * sums + beta * C + bias); sums[n][m] is padded to ld.
extern "C" __global__ void warpwright_finish(const SUM *sums, int ld, int m, int n, const OUT *c, i64 c_row, i64 c_column, OUT *d, i64 d_row, i64 d_column, Ends ends) {
    __shared__ SUM tile[32][33];
    int row = blockIdx.x * 32, column = blockIdx.y * 32, x = threadIdx.x % 32, y = threadIdx.x / 32;
    for (int i = y; i < 32; i += blockDim.x / 32)
        if (row + x < m && column + i < n) tile[i][x] = sums[(i64)(column + i) * ld + row + x];
    __syncthreads();
    bool along_rows = d_column == 1;
    for (int i = y; i < 32; i += blockDim.x / 32) {
        int r = along_rows ? i : x, k = along_rows ? x : i;
        if (row + r >= m || column + k >= n) continue;
        WIDE v = (WIDE)tile[k][r] * (ends.alphas ? ends.alphas[row + r] : ends.alpha);
        float beta = ends.betas ? ends.betas[row + r] : ends.beta;
        if (beta != 0.0f) v += beta * To<float>::from(c[(row + r) * c_row + (column + k) * c_column]);
        if (ends.bias) v += To<float>::from(((const BIAS *)ends.bias)[row + r]);
        store(&d[(row + r) * d_row + (column + k) * d_column], ends.activation ? activated(v, ends) : v);
    }
}
#endif

#ifdef ELEMENT
__device__ inline float magnitude(const ELEMENT *from, i64 at) { return fabsf(To<float>::from(from[at])); }

// Of each group of a row the larger half stays, the earlier of equals.
extern "C" __global__ void warpwright_prune_strips(const ELEMENT *from, i64 row_step, i64 column_step, int m, int k, ELEMENT *to) {
    i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    int groups = k / GROUP;
    if (n >= (i64)m * groups) return;
    i64 at = n / groups * row_step + n % groups * GROUP * column_step;
    const ELEMENT none = {};
    float sizes[GROUP];
    for (int i = 0; i < GROUP; i++) sizes[i] = magnitude(from, at + i * column_step);
    for (int i = 0; i < GROUP; i++) {
        int before = 0;
        for (int j = 0; j < GROUP; j++) before += sizes[j] > sizes[i] || (sizes[j] == sizes[i] && j < i);
        to[at + i * column_step] = before < KEPT ? from[at + i * column_step] : none;
    }
}

// Of each square tile, the elements with the largest sum of magnitudes of which every row and column holds half.
extern "C" __global__ void warpwright_prune_tiles(const ELEMENT *from, i64 row_step, i64 column_step, int m, int k, ELEMENT *to) {
    i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    int across = k / GROUP;
    if (n >= (i64)(m / GROUP) * across) return;
    i64 at = n / across * GROUP * row_step + n % across * GROUP * column_step;
    const ELEMENT none = {};
    float sizes[GROUP][GROUP], best = -1.0f;
    for (int i = 0; i < GROUP; i++)
        for (int j = 0; j < GROUP; j++) sizes[i][j] = magnitude(from, at + i * row_step + j * column_step);
    unsigned chosen = 0;
    // Rows that hold half: six patterns of four elements, two of two.
    const int PATTERNS = BITS == 32 ? 2 : 6;
    int count = 1;
    for (int i = 0; i < GROUP; i++) count *= PATTERNS;
    for (int code = 0; code < count; code++) {
        unsigned mask = 0, columns = 0;
        float sum = 0.0f;
        for (int i = 0, rest = code; i < GROUP; i++, rest /= PATTERNS) {
            unsigned row = BITS == 32 ? 1 + rest % 2 : 0xca9653 >> rest % 6 * 4 & 15;
            mask |= row << i * GROUP;
            for (int j = 0; j < GROUP; j++)
                if (row >> j & 1) columns += 1 << 4 * j, sum += sizes[i][j];
        }
        if (columns == (BITS == 32 ? 0x11u : 0x2222u) && sum > best) best = sum, chosen = mask;
    }
    for (int i = 0; i < GROUP; i++)
        for (int j = 0; j < GROUP; j++) {
            i64 place = at + i * row_step + j * column_step;
            to[place] = chosen >> (i * GROUP + j) & 1 ? from[place] : none;
        }
}

extern "C" __global__ void warpwright_prune_check(const RAW *from, i64 row_step, i64 column_step, int m, int k, int *invalid) {
    i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    int groups = k / GROUP, used = 0;
    if (n >= (i64)m * groups) return;
    for (int i = 0; i < GROUP; i++) used += !is_zero(from[n / groups * row_step + (n % groups * GROUP + i) * column_step]);
    if (used > KEPT) atomicOr(invalid, 1);
}
#endif
