// LU factorisation with partial pivoting and the vector kernels of GMRES, for matrices in rows whose order is a multiple of 64.
//
// Macros: ELEMENT, the type of the factors (float or double); KIND, how update() multiplies: 0 on ordinary pipes, 1 TF32, 2 FP16, 3 BF16 and 4 FP64 on tensor cores.
// Panels of 32 columns are factorised by blocks that exchange candidates for each column; triangles are solved by blocks that wait for those before them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef ELEMENT T;
typedef long long i64;
const int WIDTH = 32, SIDE = 64, THREADS = 256;
const int CHUNK = sizeof(T) == 8 ? 4 : 8;  // elements of a row that are eliminated at once
const int PITCH = WIDTH + 1;  // of a row in shared memory: neighbours are in different banks

// ---- a panel ----

template <class V> struct Candidate { V size; int row; };

// The larger of two, of equal ones the upper row: the pivot does not depend on how rows are divided among blocks.
template <class V> __device__ __forceinline__ Candidate<V> better(Candidate<V> x, Candidate<V> y)
{
    return y.size > x.size || (y.size == x.size && y.row < x.row) ? y : x;
}

template <class V> __device__ __forceinline__ Candidate<V> best_of_warp(Candidate<V> own)
{
    for (int step = 16; step; step /= 2) {
        Candidate<V> other = {__shfl_xor_sync(~0u, own.size, step), __shfl_xor_sync(~0u, own.row, step)};
        own = better(own, other);
    }
    return own;
}

// A block's candidate with the number of the column that it is for, in 16 bytes that are read and written as one.
__device__ __forceinline__ void publish(int4 *at, Candidate<T> best, int number)
{
    int4 v = sizeof(T) == 8 ? make_int4(__double2loint(best.size), __double2hiint(best.size), best.row, number)
                            : make_int4(__float_as_int((float)best.size), 0, best.row, number);
    asm volatile("st.relaxed.gpu.global.v4.s32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

__device__ __forceinline__ Candidate<T> await_candidate(const int4 *at, int number)
{
    int4 v;
    do
        asm volatile("ld.acquire.gpu.global.v4.s32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");
    while (v.w != number);
    return {sizeof(T) == 8 ? (T)__hiloint2double(v.y, v.x) : (T)__int_as_float(v.x), v.z};
}

// Factorise columns first to first + 31 of rows first to n - 1. A block keeps `rows` consecutive rows in shared memory; all blocks are on the chip at once.
// rows_of: two times (blocks + 1) rows of 32 values; candidates: two times the blocks. A block that has all candidates of a column has read all that others published
// for the column before. number: of the first column, another one in each launch. A zero or NaN pivot sets *singular to its column + 1.
extern "C" __global__ void __launch_bounds__(THREADS) factor_panel(
    T *a, int n, int first, int rows, int number, T *rows_of, int4 *candidates, int *pivots, int *singular)
{
    extern __shared__ __align__(16) unsigned char dynamic[];
    T *own = (T *)dynamic;
    __shared__ T pivot_row[WIDTH], best_sizes[8];
    __shared__ int best_rows[8];
    const int begin = first + blockIdx.x * rows, count = min(rows, n - begin), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int at = threadIdx.x; at < count * WIDTH; at += THREADS)
        own[at / WIDTH * PITCH + at % WIDTH] = a[(i64)(begin + at / WIDTH) * n + first + at % WIDTH];
    __syncthreads();
    for (int k = 0; k < WIDTH; k++) {
        // The block's best row, which it publishes; block 0 publishes the row that the pivot is exchanged with too.
        const int side = k & 1;
        T *published = rows_of + side * (gridDim.x + 1) * WIDTH;
        Candidate<T> best = {(T)-1, n};
        for (int row = threadIdx.x; row < count; row += THREADS) {
            T size = fabs(own[row * PITCH + k]);
            if (begin + row >= first + k) best = better(best, Candidate<T>{size, begin + row});
        }
        best = best_of_warp(best);
        if (lane == 0) best_sizes[warp] = best.size, best_rows[warp] = best.row;
        __syncthreads();
        if (warp == 0) {
            best = best_of_warp(Candidate<T>{lane < 8 ? best_sizes[lane] : (T)-1, lane < 8 ? best_rows[lane] : n});
            if (best.row < n) published[blockIdx.x * WIDTH + lane] = own[(best.row - begin) * PITCH + lane];
            if (blockIdx.x == 0) published[gridDim.x * WIDTH + lane] = own[k * PITCH + lane];
            int4 *now = candidates + side * gridDim.x;
            __threadfence();
            __syncwarp();
            if (lane == 0) publish(now + blockIdx.x, best, number + k);
            Candidate<T> all = {(T)-1, n};
            int owner = 0;
            for (int block = lane; block < gridDim.x; block += 32) all = better(all, await_candidate(now + block, number + k));
            __syncwarp();
            all = best_of_warp(all);
            // A column of NaN has no larger one: its own row stays.
            int row = all.row < n ? all.row : first + k;
            owner = (row - first) / rows;
            T value = __ldcg(published + (all.row < n ? owner : gridDim.x) * WIDTH + lane);
            pivot_row[lane] = value;
            if (row != first + k && owner == blockIdx.x)
                own[(row - begin) * PITCH + lane] = __ldcg(published + gridDim.x * WIDTH + lane);
            __syncwarp();
            if (blockIdx.x == 0) {
                own[k * PITCH + lane] = value;
                if (lane == 0) {
                    pivots[first + k] = row;
                    T pivot = pivot_row[k];
                    if (!(fabs(pivot) > 0) && *singular == 0) *singular = first + k + 1;
                }
            }
        }
        __syncthreads();
        const T inverse = (T)1 / pivot_row[k];
        for (int row = threadIdx.x; row < count; row += THREADS) {
            if (begin + row <= first + k) continue;
            const T factor = own[row * PITCH + k] * inverse;
            // Some values at a time are in registers: stores to shared memory would otherwise hold up the loads after them.
#pragma unroll
            for (int from = 0; from < WIDTH; from += CHUNK) {
                if (from + CHUNK <= k) continue;
                T values[CHUNK], above[CHUNK];
#pragma unroll
                for (int c = 0; c < CHUNK; c++) values[c] = own[row * PITCH + from + c], above[c] = pivot_row[from + c];
#pragma unroll
                for (int c = 0; c < CHUNK; c++) {
                    if (from + c > k) values[c] -= factor * above[c];
                    if (from + c == k) values[c] = factor;
                }
#pragma unroll
                for (int c = 0; c < CHUNK; c++) own[row * PITCH + from + c] = values[c];
            }
        }
        __syncthreads();
    }
    for (int at = threadIdx.x; at < count * WIDTH; at += THREADS)
        a[(i64)(begin + at / WIDTH) * n + first + at % WIDTH] = own[at / WIDTH * PITCH + at % WIDTH];
}

// Exchange rows as the panel at `first` did, in all columns but its own. A thread reads all rows that move of its column before it writes any.
extern "C" __global__ void exchange_rows(T *a, int n, int first, const int *pivots)
{
    __shared__ int rows[WIDTH], target[2 * WIDTH], source[2 * WIDTH];
    if (threadIdx.x < WIDTH) rows[threadIdx.x] = pivots[first + threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 2 * WIDTH) {
        // What a row holds in the end, back through the exchanges. Rows that are exchanged twice are listed twice, with the same source.
        int row = threadIdx.x < WIDTH ? first + threadIdx.x : rows[threadIdx.x - WIDTH];
        target[threadIdx.x] = row;
        for (int k = WIDTH - 1; k >= 0; k--) row = row == first + k ? rows[k] : row == rows[k] ? first + k : row;
        source[threadIdx.x] = row;
    }
    __syncthreads();
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    column += column >= first ? WIDTH : 0;
    if (column >= n) return;
    T x[2 * WIDTH];
#pragma unroll
    for (int k = 0; k < 2 * WIDTH; k++) x[k] = a[(i64)source[k] * n + column];
#pragma unroll
    for (int k = 0; k < 2 * WIDTH; k++) a[(i64)target[k] * n + column] = x[k];
}

// Rows first to first + 31 of columns from begin to end become those of U: a thread for each column.
extern "C" __global__ void solve_rows(T *a, int n, int first, int begin, int end)
{
    __shared__ T lower[WIDTH][WIDTH];
    for (int at = threadIdx.x; at < WIDTH * WIDTH; at += blockDim.x)
        lower[at / WIDTH][at % WIDTH] = a[(i64)(first + at / WIDTH) * n + first + at % WIDTH];
    __syncthreads();
    int column = begin + blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= end) return;
    T x[WIDTH];
#pragma unroll
    for (int k = 0; k < WIDTH; k++) x[k] = a[(i64)(first + k) * n + column];
#pragma unroll
    for (int k = 0; k < WIDTH; k++)
#pragma unroll
        for (int row = k + 1; row < WIDTH; row++) x[row] -= lower[row][k] * x[k];
#pragma unroll
    for (int k = 0; k < WIDTH; k++) a[(i64)(first + k) * n + column] = x[k];
}

// ---- the trailing matrix: C -= A B, all three parts of one matrix ----

#if KIND == 2
typedef __half E;
#elif KIND == 3
typedef __nv_bfloat16 E;
#else
typedef T E;
#endif
const int TILE_M = 128, TILE_N = KIND == 4 ? 64 : 128, TILE_K = KIND == 4 ? 16 : 32, VECTOR = 16 / sizeof(T);
const int PAD_A = sizeof(E) == 2 ? 8 : 4, PAD_B = sizeof(E) == 8 ? 4 : 8;
const int PITCH_A = TILE_K + PAD_A, PITCH_B = TILE_N + PAD_B, STAGE = TILE_M * PITCH_A + TILE_K * PITCH_B;
const int LOADS_A = TILE_M * TILE_K / VECTOR / THREADS, LOADS_B = TILE_K * TILE_N / VECTOR / THREADS;
const int PITCH_C = TILE_N + 8, LOADS_C = TILE_M * TILE_N / VECTOR / THREADS;
struct alignas(16) Vector { T v[VECTOR]; };

__device__ __forceinline__ E converted(T value)
{
#if KIND == 1
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return __uint_as_float(bits);
#elif KIND == 2
    return __float2half_rn(value);
#elif KIND == 3
    return __float2bfloat16_rn(value);
#else
    return value;
#endif
}
__device__ __forceinline__ void store(E *to, const Vector &from)
{
#if KIND == 2 || KIND == 3
    E values[4] = {converted(from.v[0]), converted(from.v[1]), converted(from.v[2]), converted(from.v[3])};
    *(uint2 *)to = *(const uint2 *)values;
#else
    Vector values;
    for (int i = 0; i < VECTOR; i++) values.v[i] = converted(from.v[i]);
    *(Vector *)to = values;
#endif
}

#if KIND == 2
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#elif KIND == 3
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#elif KIND == 1
#define MMA "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#endif
#if KIND == 4
const int WARP_M = 32, WARP_N = 32, MMA_M = 8, MMA_K = 4, WORDS_A = 1, WORDS_B = 1, SUMS = 2;
typedef double Word;
#else
const int WARP_M = 64, WARP_N = 32, MMA_M = 16, MMA_K = sizeof(E) == 2 ? 16 : 8, WORDS_A = 4, WORDS_B = 2, SUMS = 4;
typedef unsigned Word;
#endif
const int WARPS_M = TILE_M / WARP_M, MS = WARP_M / MMA_M, NS = WARP_N / 8;

#if KIND != 0
__device__ __forceinline__ void fragment_a(Word *w, const E *tile, int row, int k, int lane)
{
#if KIND == 4
    w[0] = tile[(row + lane / 4) * PITCH_A + k + lane % 4];
#elif KIND == 1
    for (int i = 0; i < 4; i++) w[i] = __float_as_uint(tile[(row + lane / 4 + i % 2 * 8) * PITCH_A + k + lane % 4 + i / 2 * 4]);
#else
    unsigned place = (unsigned)__cvta_generic_to_shared(tile + (row + lane % 16) * PITCH_A + k + lane / 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(place));
#endif
}
__device__ __forceinline__ void fragments_b(Word (*w)[WORDS_B], const E *tile, int k, int column, int lane)
{
#if KIND == 4
    for (int i = 0; i < 2; i++) w[i][0] = tile[(k + lane % 4) * PITCH_B + column + 8 * i + lane / 4];
#elif KIND == 1
    for (int i = 0; i < 4; i++) w[i / 2][i % 2] = __float_as_uint(tile[(k + lane % 4 + i % 2 * 4) * PITCH_B + column + i / 2 * 8 + lane / 4]);
#else
    unsigned place = (unsigned)__cvta_generic_to_shared(tile + (k + lane % 16) * PITCH_B + column + lane / 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(w[0][0]), "=r"(w[0][1]), "=r"(w[1][0]), "=r"(w[1][1]) : "r"(place));
#endif
}
__device__ __forceinline__ void multiply(T *c, const Word *a, const Word *b)
{
#if KIND == 4
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(c[0]), "+d"(c[1]) : "d"(a[0]), "d"(b[0]));
#else
    asm(MMA " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
#endif

// Rows i0 to i1 and columns j0 to j1 lose the product of columns k0 to k0 + depth of those rows with rows k0 to k0 + depth of those columns.
extern "C" __global__ void __launch_bounds__(THREADS) update(T *a, int n, int i0, int i1, int j0, int j1, int k0, int depth)
{
    extern __shared__ __align__(16) unsigned char dynamic[];
    E *stages = (E *)dynamic;
    T *c_tile = (T *)(stages + 2 * STAGE);
    const int first_m = i0 + blockIdx.y * TILE_M, first_n = j0 + blockIdx.x * TILE_N, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Vector next_a[LOADS_A], next_b[LOADS_B];
    const int row_a = threadIdx.x / (TILE_K / VECTOR), along_a = threadIdx.x % (TILE_K / VECTOR) * VECTOR;
    const int row_b = threadIdx.x / (TILE_N / VECTOR), along_b = threadIdx.x % (TILE_N / VECTOR) * VECTOR;
    const int step_a = THREADS / (TILE_K / VECTOR), step_b = THREADS / (TILE_N / VECTOR);
    auto begin = [&](int k) {
#pragma unroll
        for (int i = 0; i < LOADS_A; i++) {
            int row = first_m + row_a + i * step_a;
            next_a[i] = row < i1 ? *(const Vector *)(a + (i64)row * n + k0 + k + along_a) : Vector{};
        }
#pragma unroll
        for (int i = 0; i < LOADS_B; i++)
            next_b[i] = first_n + along_b < j1 ? *(const Vector *)(a + (i64)(k0 + k + row_b + i * step_b) * n + first_n + along_b) : Vector{};
    };
    auto finish = [&](E *stage) {
#pragma unroll
        for (int i = 0; i < LOADS_A; i++) store(stage + (row_a + i * step_a) * PITCH_A + along_a, next_a[i]);
#pragma unroll
        for (int i = 0; i < LOADS_B; i++) store(stage + TILE_M * PITCH_A + (row_b + i * step_b) * PITCH_B + along_b, next_b[i]);
    };
#if KIND == 0
    const int m_thread = threadIdx.x / 16, n_thread = threadIdx.x % 16;
    float sums[8][8] = {};
#else
    const int warp_m = warp % WARPS_M * WARP_M, warp_n = warp / WARPS_M * WARP_N;
    T sums[MS][NS][SUMS] = {};
#endif
    begin(0);
    // The tile of C comes from memory while the product is computed.
    {
        const int row_c = threadIdx.x / (TILE_N / VECTOR), step_c = THREADS / (TILE_N / VECTOR);
#pragma unroll
        for (int i = 0; i < LOADS_C; i++) {
            const int row = row_c + i * step_c;
            if (first_m + row < i1 && first_n + along_b < j1) {
                unsigned place = (unsigned)__cvta_generic_to_shared(c_tile + row * PITCH_C + along_b);
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(a + (i64)(first_m + row) * n + first_n + along_b) : "memory");
            }
        }
    }
    for (int k = 0, at = 0; k < depth; k += TILE_K, at ^= 1) {
        E *stage = stages + at * STAGE;
        finish(stage);
        __syncthreads();
        if (k + TILE_K < depth) begin(k + TILE_K);
        const E *a_tile = stage, *b_tile = stage + TILE_M * PITCH_A;
#if KIND == 0
#pragma unroll 2
        for (int step = 0; step < TILE_K; step += 4) {
            float4 rows[8], columns[4][2];
#pragma unroll
            for (int i = 0; i < 8; i++) rows[i] = *(const float4 *)(a_tile + (m_thread + 16 * i) * PITCH_A + step);
#pragma unroll
            for (int s = 0; s < 4; s++)
#pragma unroll
                for (int j = 0; j < 2; j++) columns[s][j] = *(const float4 *)(b_tile + (step + s) * PITCH_B + n_thread * 4 + 64 * j);
#pragma unroll
            for (int s = 0; s < 4; s++)
#pragma unroll
                for (int i = 0; i < 8; i++)
#pragma unroll
                    for (int j = 0; j < 8; j++) sums[i][j] += ((const float *)&rows[i])[s] * ((const float *)&columns[s][j / 4])[j % 4];
        }
#else
#pragma unroll
        for (int step = 0; step < TILE_K; step += MMA_K) {
            Word rows[MS][WORDS_A], columns[NS][WORDS_B];
#pragma unroll
            for (int i = 0; i < MS; i++) fragment_a(rows[i], a_tile, warp_m + i * MMA_M, step, lane);
#pragma unroll
            for (int j = 0; j < NS; j += 2) fragments_b(columns + j, b_tile, step, warp_n + j * 8, lane);
#pragma unroll
            for (int i = 0; i < MS; i++)
#pragma unroll
                for (int j = 0; j < NS; j++) multiply(sums[i][j], rows[i], columns[j]);
        }
#endif
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
#if KIND == 0
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int row = first_m + m_thread + 16 * i, column = first_n + n_thread * 4 + 64 * j;
            if (row >= i1 || column >= j1) continue;
            float4 c = *(float4 *)(c_tile + (row - first_m) * PITCH_C + column - first_n);
            c.x -= sums[i][4 * j], c.y -= sums[i][4 * j + 1], c.z -= sums[i][4 * j + 2], c.w -= sums[i][4 * j + 3];
            *(float4 *)(a + (i64)row * n + column) = c;
        }
#else
    struct alignas(2 * sizeof(T)) Pair { T x, y; };
#pragma unroll
    for (int i = 0; i < MS; i++)
#pragma unroll
        for (int j = 0; j < NS; j++)
#pragma unroll
            for (int e = 0; e < SUMS; e += 2) {
                int row = first_m + warp_m + i * MMA_M + lane / 4 + e / 2 * 8, column = first_n + warp_n + j * 8 + lane % 4 * 2;
                if (row >= i1 || column >= j1) continue;
                Pair c = *(Pair *)(c_tile + (row - first_m) * PITCH_C + column - first_n);
                c.x -= sums[i][j][e], c.y -= sums[i][j][e + 1];
                *(Pair *)(a + (i64)row * n + column) = c;
            }
#endif
}

// ---- solving with the factors, in double precision ----

// Inverses of the 64 x 64 triangles on the diagonal, below each other: a block for each, a thread for each column.
extern "C" __global__ void __launch_bounds__(SIDE) invert_triangles(const T *a, int n, int upper, T *inverses)
{
    extern __shared__ __align__(16) unsigned char dynamic[];
    T *triangle = (T *)dynamic, *found = triangle + SIDE * (SIDE + 1);
    const int first = blockIdx.x * SIDE, column = threadIdx.x;
    for (int row = 0; row < SIDE; row++) triangle[row * (SIDE + 1) + column] = a[(i64)(first + row) * n + first + column];
    __syncthreads();
    for (int step = 0; step < SIDE; step++) {
        int row = upper ? SIDE - 1 - step : step;
        double sum = row == column;
        for (int k = upper ? row + 1 : 0; k < (upper ? SIDE : row); k++) sum -= (double)triangle[row * (SIDE + 1) + k] * found[k * SIDE + column];
        found[row * SIDE + column] = upper ? sum / triangle[row * (SIDE + 1) + row] : sum;
    }
    __syncthreads();
    for (int row = 0; row < SIDE; row++) inverses[(i64)(first + row) * SIDE + column] = found[row * SIDE + column];
}

// The sum over a warp's lanes of each of eight values; lane i gets that of value i / 4.
static __device__ __forceinline__ double sum_of_eight(double (&values)[8], int lane)
{
#pragma unroll
    for (int half = 4, bit = 16; half; half /= 2, bit /= 2)
#pragma unroll
        for (int i = 0; i < half; i++) {
            const bool high = lane & bit;
            const double kept = high ? values[i + half] : values[i], sent = high ? values[i] : values[i + half];
            values[i] = kept + __shfl_xor_sync(~0u, sent, bit);
        }
    double sum = values[0];
    for (int bit = 2; bit; bit /= 2) sum += __shfl_xor_sync(~0u, sum, bit);
    return sum;
}

// x = inverse(L or U) (scale * y in the order of rows); each block solves 64 rows, and waits for the others' as it needs them.
// order and scale may be null; after, too: x is multiplied by it when it is stored. flags are zero at the first call and `turn` grows.
extern "C" __global__ void __launch_bounds__(THREADS) solve_triangle(
    const T *a, int n, int upper, const T *inverses, const double *y, const int *order, const double *scale, double *x, double *stored,
    const double *after, int *flags, int turn)
{
    __shared__ double known[SIDE], right[SIDE];
    const int blocks = n / SIDE, own = upper ? blocks - 1 - blockIdx.x : blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int at = own * SIDE + warp * 8 + lane / 4;
    // What does not depend on other blocks is read before they are waited for.
    const int from = order ? order[at] : at;
    const double given = (scale ? scale[from] : 1.0) * y[from], factor = stored && after ? after[at] : 1.0;
    T inverse[8][2];
#pragma unroll
    for (int r = 0; r < 8; r++) {
        const T *row = inverses + (i64)(own * SIDE + warp * 8 + r) * SIDE;
        inverse[r][0] = row[lane], inverse[r][1] = row[lane + 32];
    }
    double sums[8] = {};
    for (int step = 0; step < blockIdx.x; step++) {
        const int other = upper ? blocks - 1 - step : step;
        T left[8][2];
#pragma unroll
        for (int r = 0; r < 8; r++) {
            const T *row = a + (i64)(own * SIDE + warp * 8 + r) * n + other * SIDE + 2 * lane;
            left[r][0] = row[0], left[r][1] = row[1];
        }
        if (threadIdx.x == 0)
            while (*(volatile int *)(flags + other) < turn) {}
        __syncthreads();
        if (threadIdx.x < SIDE) known[threadIdx.x] = __ldcg(x + other * SIDE + threadIdx.x);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < 8; r++) sums[r] += left[r][0] * known[2 * lane] + left[r][1] * known[2 * lane + 1];
    }
    const double taken = sum_of_eight(sums, lane);
    if (lane % 4 == 0) right[warp * 8 + lane / 4] = given - taken;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 8; r++) sums[r] = inverse[r][0] * right[lane] + inverse[r][1] * right[lane + 32];
    const double found = sum_of_eight(sums, lane);
    if (lane % 4 == 0) {
        x[at] = found;
        if (stored) stored[at] = factor * found;
    }
    // The barrier orders the block's stores before thread 0's fence, which is for all of them.
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicExch(flags + own, turn);
    }
}

// y = A x, or b - A x: a warp for each row.
extern "C" __global__ void product(const double *a, int n, const double *x, const double *b, double *y)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= n) return;
    double sum = 0;
    for (int column = lane; column < n; column += 32) sum += a[(i64)row * n + column] * x[column];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) y[row] = b ? b[row] - sum : sum;
}

// products[v] = the inner product of vector v with w: a block for each.
extern "C" __global__ void __launch_bounds__(THREADS) inner_products(int n, const double *vectors, const double *w, double *products)
{
    __shared__ double sums[8];
    const double *v = vectors + (i64)blockIdx.x * n;
    double sum = 0;
    for (int at = threadIdx.x; at < n; at += THREADS) sum += v[at] * w[at];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < 8; warp++) sum += sums[warp];
        products[blockIdx.x] = sum;
    }
}

// w += factor * the sum of `count` vectors with their coefficients.
extern "C" __global__ void combine(int n, int count, const double *vectors, const double *coefficients, double factor, double *w)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    double sum = 0;
    for (int v = 0; v < count; v++) sum += coefficients[v] * vectors[(i64)v * n + at];
    w[at] += factor * sum;
}

// to = w / the square root of *square.
extern "C" __global__ void normalise(int n, const double *w, const double *square, double *to)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) to[at] = w[at] / sqrt(*square);
}
