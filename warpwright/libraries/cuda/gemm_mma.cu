// Matrix product on tensor cores by mma.sync (sm_70 and later): D = epilogue(alpha op(A) op(B) + beta C), column-major.
//
// Macros: KERNEL its name; KIND 0 f16, 1 bf16, 2 tf32, 3 int8, 4 f64; A_TYPE (that of B too), C_TYPE, D_TYPE, BIAS_TYPE, SCALE; OP_OF_A, OP_OF_B 0 as it is, 1 transposed;
// TILE_M, TILE_N of a block, WARPS_M, WARPS_N its warps; STAGES of tiles in shared memory; SLAB_COLUMNS, the products side by side that are stored at once;
// ALIGNED: 16 bytes of a row or column can be loaded at once; VOLTA: the product of sm_70, 8x8x4 for each of a warp's four pairs of quads; WIDE_F64: that of sm_90 for doubles, 16x8x4.
#include "epilogue.cuh"

constexpr int THREADS = 32 * WARPS_M * WARPS_N, BYTES = sizeof(A_TYPE), TILE_K = 64 / BYTES;
constexpr int PER_VECTOR = 16 / BYTES;
constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N;
// One multiply(): the four products of sm_70 make 16x16x4.
constexpr bool NARROW_F64 = KIND == 4 && !WIDE_F64;
constexpr int MMA_M = NARROW_F64 ? 8 : 16, MMA_N = VOLTA ? 16 : 8, MMA_K = VOLTA || KIND == 4 ? 4 : 32 / BYTES, MS = WARP_M / MMA_M, NS = WARP_N / MMA_N;
constexpr int A_WORDS = NARROW_F64 ? 1 : VOLTA || WIDE_F64 ? 2 : 4, B_WORDS = KIND == 4 ? 1 : 2, SUMS = NARROW_F64 ? 2 : VOLTA ? 8 : 4;
// Between two lines in shared memory: the doubles that half a warp reads for a fragment lie in different banks.
constexpr int GAP = KIND == 4 ? 4 : PER_VECTOR;
constexpr bool HAS_ASYNC_COPIES = !VOLTA;
// The fragments of the next products are loaded during these, across the barrier between two tiles too: an SM has two warps for each tensor core, which do not hide the loads' latency.
constexpr bool AHEAD = WIDE_F64;
#if KIND == 3
typedef int SUM;
#elif KIND == 4
typedef double SUM;
#else
typedef float SUM;
#endif
union Vector { uint4 whole; A_TYPE v[PER_VECTOR]; };

__device__ __forceinline__ unsigned shared_address(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }
__device__ __forceinline__ void copy16(void *to, const void *from, int bytes) {
#if !VOLTA
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
#endif
}
__device__ __forceinline__ void committed() {
#if !VOLTA
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
__device__ __forceinline__ int clamped(int value, int most) { return value < 0 ? 0 : value > most ? most : value; }

// An operand's tile. Elements that follow each other in memory do so in shared memory too, along K or along the rows; bytes always along K.
// Vectors of 16 bytes are copied asynchronously where their places are aligned and in order; otherwise they pass through registers.
template <int ROWS, bool K_FIRST> struct Tile {
    static constexpr bool ALONG_K = K_FIRST || BYTES == 1, ASYNC = ALIGNED && K_FIRST == ALONG_K && HAS_ASYNC_COPIES;
    static constexpr int LINE = (ALONG_K ? TILE_K : ROWS) + GAP, LINES = ALONG_K ? ROWS : TILE_K, ELEMENTS = LINE * LINES;
    static constexpr int LOADS = ROWS * TILE_K / PER_VECTOR / THREADS, ACROSS = (K_FIRST ? TILE_K : ROWS) / PER_VECTOR;
    static constexpr int STEP = THREADS / ACROSS;  // lines between two loads of a thread
    static_assert(LOADS * THREADS * PER_VECTOR == ROWS * TILE_K && STEP * ACROSS == THREADS, "a tile is whole loads of every thread");
    Vector held[ASYNC ? 1 : LOADS];
    const A_TYPE *from;
    i64 step;
    int line, along, outers, inners;  // of the first load; what is left of the operand from the tile's first element on

    __device__ __forceinline__ Tile(const A_TYPE *operand, i64 ld, int first_row, int rows, int ks) {
        line = threadIdx.x / ACROSS, along = threadIdx.x % ACROSS * PER_VECTOR;
        from = operand + (K_FIRST ? along + ld * (first_row + line) : first_row + along + ld * line);
        step = K_FIRST ? TILE_K : ld * TILE_K;
        outers = K_FIRST ? rows - first_row : ks, inners = (K_FIRST ? ks : rows - first_row) - along;
        line_bytes = ld * (i64)sizeof(A_TYPE) * STEP;
    }
    i64 line_bytes;
    // Begin to load the next step's tile.
    __device__ __forceinline__ void begin(A_TYPE *to) {
        const char *place = (const char *)from;
        int bytes = clamped(inners * BYTES, 16);
#pragma unroll
        for (int i = 0; i < LOADS; i++, place += line_bytes) {
            bool inside = line + i * STEP < outers;
            if (ASYNC) {
                copy16(to + (line + i * STEP) * LINE + along, inside && bytes ? (const void *)place : (const void *)from, inside ? bytes : 0);
                continue;
            }
            held[i].whole = make_uint4(0, 0, 0, 0);
            if (!inside) continue;
            if (ALIGNED && bytes == 16) {
                held[i].whole = *(const uint4 *)place;
            } else {
#pragma unroll
                for (int e = 0; e < PER_VECTOR; e++)
                    if (e * BYTES < bytes) held[i].v[e] = ((const A_TYPE *)place)[e];
            }
        }
        from += step;
        if (K_FIRST) inners -= TILE_K;
        else outers -= TILE_K;
    }
    // Store what passes through registers.
    __device__ __forceinline__ void finish(A_TYPE *to) const {
        if (ASYNC) return;
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            int row = line + i * STEP;
            if (K_FIRST == ALONG_K) {
                *(uint4 *)(to + row * LINE + along) = held[i].whole;
            } else {
#pragma unroll
                for (int e = 0; e < PER_VECTOR; e++) to[(along + e) * LINE + row] = held[i].v[e];
            }
        }
    }
    static __device__ __forceinline__ A_TYPE element(const A_TYPE *tile, int row, int k) { return ALONG_K ? tile[row * LINE + k] : tile[k * LINE + row]; }
    // A word: consecutive elements along K of a row.
    static __device__ __forceinline__ unsigned word(const A_TYPE *tile, int row, int k) {
        if (ALONG_K) return *(const unsigned *)(tile + row * LINE + k);
        return *(const unsigned *)(tile + k * LINE + row);
    }
};

__device__ __forceinline__ void matrices4(unsigned *w, const void *place, bool transposed) {
    if (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(shared_address(place)));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(shared_address(place)));
}
__device__ __forceinline__ unsigned rounded(unsigned word) {
    unsigned found;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(found) : "r"(word));
    return found;
}

#if KIND == 4
typedef double Word;
#else
typedef unsigned Word;
#endif
#if VOLTA
#if OP_OF_A
#define VOLTA_A "row"
#else
#define VOLTA_A "col"
#endif
#if OP_OF_B
#define VOLTA_B "row"
#else
#define VOLTA_B "col"
#endif
// Four consecutive elements: along K of one row, or along the rows at one K.
template <class T> __device__ __forceinline__ void volta_fragment(unsigned *w, const A_TYPE *tile, int row, int k, int lane) {
    const int high = lane / 16 * 4;
    *(uint2 *)w = *(const uint2 *)(T::ALONG_K ? tile + (row + lane % 4 + high) * T::LINE + k : tile + (k + lane % 4) * T::LINE + row + high);
}
#endif
// The words of a product's left operand.
template <class T> __device__ __forceinline__ void fragment_a(Word *w, const A_TYPE *tile, int row, int k, int lane) {
#if KIND == 4
#pragma unroll
    for (int i = 0; i < A_WORDS; i++) w[i] = T::element(tile, row + lane / 4 + i % 2 * 8, k + lane % 4 + i / 2 * 4);
#elif VOLTA
    volta_fragment<T>(w, tile, row + lane / 4 % 2 * 8, k, lane);
#else
    if (T::ALONG_K) {
        matrices4(w, tile + (row + lane % 16) * T::LINE + k + lane / 16 * PER_VECTOR, false);
    } else if (BYTES == 2) {
        matrices4(w, tile + (k + lane % 8 + lane / 16 * 8) * T::LINE + row + lane / 8 % 2 * 8, true);
    } else {
        for (int i = 0; i < 4; i++) w[i] = T::word(tile, row + lane / 4 + i % 2 * 8, k + lane % 4 + i / 2 * 4);
    }
    if (KIND == 2)
        for (int i = 0; i < 4; i++) w[i] = rounded(w[i]);
#endif
}
// The words of the right operands of two products side by side.
template <class T> __device__ __forceinline__ void fragments_b(Word (*w)[B_WORDS], const A_TYPE *tile, int column, int k, int lane) {
#if KIND == 4
#pragma unroll
    for (int i = 0; i < 2 * B_WORDS; i++) w[i / B_WORDS][i % B_WORDS] = T::element(tile, column + i / B_WORDS * 8 + lane / 4, k + lane % 4 + i % B_WORDS * 4);
#elif VOLTA
    for (int i = 0; i < 2; i++) volta_fragment<T>(w[i], tile, column + 16 * i + lane / 8 % 2 * 8, k, lane);
#else
    if (T::ALONG_K) {
        matrices4(w[0], tile + (column + lane % 8 + lane / 16 * 8) * T::LINE + k + lane / 8 % 2 * PER_VECTOR, false);
    } else if (BYTES == 2) {
        matrices4(w[0], tile + (k + lane % 16) * T::LINE + column + lane / 16 * 8, true);
    } else {
        for (int i = 0; i < 4; i++) w[i / 2][i % 2] = T::word(tile, column + i / 2 * 8 + lane / 4, k + lane % 4 + i % 2 * 4);
    }
    if (KIND == 2)
        for (int i = 0; i < 4; i++) w[i / 2][i % 2] = rounded(w[i / 2][i % 2]);
#endif
}
__device__ __forceinline__ void multiply(SUM *c, const Word *a, const Word *b) {
#if WIDE_F64
    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3]) : "d"(a[0]), "d"(a[1]), "d"(b[0]));
#elif KIND == 4
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(c[0]), "+d"(c[1]) : "d"(a[0]), "d"(b[0]));
#elif KIND == 3
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif KIND == 2
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif KIND == 1
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif VOLTA
    asm("mma.sync.aligned.m8n8k4." VOLTA_A "." VOLTA_B ".f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, {%0,%1,%2,%3,%4,%5,%6,%7};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]) : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// The row and the column, in the part of a tile that one multiply() has, of a thread's sum.
__device__ __forceinline__ int row_of(int e, int lane) {
    return VOLTA ? lane / 4 % 2 * 8 + lane / 16 * 4 + lane % 2 + (e & 2) : lane / 4 + e / 2 * 8;
}
__device__ __forceinline__ int column_of(int e, int lane) {
    return VOLTA ? lane / 8 % 2 * 8 + (e & 4) + (lane & 2) + e % 2 : lane % 4 * 2 + e % 2;
}

extern "C" __global__ void __launch_bounds__(THREADS) KERNEL(const Arguments g) {
    typedef Tile<TILE_M, OP_OF_A != 0> TileA;
    typedef Tile<TILE_N, OP_OF_B == 0> TileB;
    constexpr int STAGE = TileA::ELEMENTS + TileB::ELEMENTS;
    extern __shared__ uint4 dynamic[];
    A_TYPE *stages = (A_TYPE *)dynamic;
    const int first_m = blockIdx.x * TILE_M, first_n = blockIdx.y * TILE_N, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_m = warp % WARPS_M * WARP_M, warp_n = warp / WARPS_M * WARP_N;
    TileA next_a(matrix<A_TYPE>(g.a, g.stride_a, g.flags), g.lda, first_m, g.m, g.k);
    TileB next_b(matrix<A_TYPE>(g.b, g.stride_b, g.flags), g.ldb, first_n, g.n, g.k);
    auto begin = [&](int stage) {
        next_a.begin(stages + stage * STAGE);
        next_b.begin(stages + stage * STAGE + TileA::ELEMENTS);
    };
    auto finish = [&](int stage) {
        next_a.finish(stages + stage * STAGE);
        next_b.finish(stages + stage * STAGE + TileA::ELEMENTS);
        committed();
    };
    SUM sums[MS][NS][SUMS] = {};
    Word rows[1 + AHEAD][MS][A_WORDS], columns[1 + AHEAD][NS][B_WORDS];
    auto load = [&](int half, int stage, int k) {
        const A_TYPE *a_tile = stages + stage * STAGE, *b_tile = a_tile + TileA::ELEMENTS;
#pragma unroll
        for (int i = 0; i < MS; i++) fragment_a<TileA>(rows[half][i], a_tile, warp_m + i * MMA_M, k, lane);
#pragma unroll
        for (int j = 0; j < NS; j += 2) fragments_b<TileB>(&columns[half][j], b_tile, warp_n + j * MMA_N, k, lane);
    };
    auto wait_for_tile = [&]() {
#if !VOLTA
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
#endif
        __syncthreads();
    };
    const int steps = (g.k + TILE_K - 1) / TILE_K;
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++) {
        const bool more = AHEAD || stage < steps;
        if (more) begin(stage);
        if (more) finish(stage);
        else committed();
    }
    int stage = 0, into = STAGES - 1;
    if (AHEAD) wait_for_tile(), load(0, 0, 0);
    for (int at = 0; at < steps; at++) {
        if (!AHEAD) wait_for_tile();
        // Beyond K tiles are zeros, which are loaded ahead and not multiplied.
        const bool more = AHEAD || at + STAGES - 1 < steps;
        if (more) begin(into);
        auto end_tile = [&]() {
            if (more) finish(into);
            else committed();
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            into = into + 1 == STAGES ? 0 : into + 1;
        };
#pragma unroll VOLTA ? 2 : TILE_K / MMA_K
        for (int k = 0; k < TILE_K; k += MMA_K) {
            const int half = AHEAD ? k / MMA_K % 2 : 0;
            if (AHEAD && k + MMA_K == TILE_K) end_tile(), wait_for_tile();
            if (AHEAD) load(half ^ 1, stage, (k + MMA_K) % TILE_K);
            else load(0, stage, k);
#pragma unroll
            for (int i = 0; i < MS; i++)
#pragma unroll
                for (int j = 0; j < NS; j++) multiply(sums[i][j], rows[half][i], columns[half][j]);
        }
        if (!AHEAD) end_tile();
    }
    const Epilogue<SCALE, C_TYPE, D_TYPE, BIAS_TYPE> epilogue(g);
    SUM(*slab)[TILE_M + 4] = (SUM(*)[TILE_M + 4])dynamic;
    constexpr int ACROSS = NS < SLAB_COLUMNS ? NS : SLAB_COLUMNS;
#pragma unroll
    for (int j = 0; j < NS; j += ACROSS) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < MS; i++)
#pragma unroll
            for (int t = 0; t < ACROSS; t++)
#pragma unroll
                for (int e = 0; e < SUMS; e++)
                    slab[(warp / WARPS_M * ACROSS + t) * MMA_N + column_of(e, lane)][warp_m + i * MMA_M + row_of(e, lane)] = sums[i][j + t][e];
        __syncthreads();
        store_columns<TILE_M, MMA_N * ACROSS * WARPS_N, THREADS>(epilogue, slab, first_m, [&](int c) {
            return first_n + c / (MMA_N * ACROSS) * WARP_N + j * MMA_N + c % (MMA_N * ACROSS);
        });
    }
}
