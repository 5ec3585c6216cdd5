// Matrix product on tensor cores by mma.sync (sm_80 and later): D = epilogue(alpha op(A) op(B) + beta C), column-major.
//
// Macros: KERNEL its name; KIND 0 f16, 1 bf16, 2 tf32, 3 int8, 4 f64; A_TYPE (that of B too), C_TYPE, D_TYPE, BIAS_TYPE, SCALE; OP_OF_A, OP_OF_B 0 as it is, 1 transposed;
// TILE_M, TILE_N of a block, WARPS_M, WARPS_N its warps; ALIGNED: 16 bytes of a row or column can be loaded at once.
#include "epilogue.cuh"

constexpr int THREADS = 32 * WARPS_M * WARPS_N, BYTES = sizeof(A_TYPE), TILE_K = 64 / BYTES;
constexpr int PER_VECTOR = 16 / BYTES;
constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N;
constexpr int MMA_M = KIND == 4 ? 8 : 16, MMA_K = KIND == 4 ? 4 : 32 / BYTES, MS = WARP_M / MMA_M, NS = WARP_N / 8;
constexpr int A_WORDS = KIND == 4 ? 1 : 4, B_WORDS = KIND == 4 ? 1 : 2, SUMS = KIND == 4 ? 2 : 4;
#if KIND == 3
typedef int SUM;
#elif KIND == 4
typedef double SUM;
#else
typedef float SUM;
#endif
union Vector { uint4 whole; A_TYPE v[PER_VECTOR]; };

// An operand's tile. Elements that follow each other in memory do so in shared memory too, along K or along the rows; bytes always along K.
template <int ROWS, bool K_FIRST> struct Tile {
    static constexpr bool ALONG_K = K_FIRST || BYTES == 1;
    static constexpr int LINE = (ALONG_K ? TILE_K : ROWS) + PER_VECTOR, LINES = ALONG_K ? ROWS : TILE_K, ELEMENTS = LINE * LINES;
    static constexpr int LOADS = ROWS * TILE_K / PER_VECTOR / THREADS, ACROSS = (K_FIRST ? TILE_K : ROWS) / PER_VECTOR;
    Vector held[LOADS];

    __device__ __forceinline__ void load(const A_TYPE *from, i64 ld, int first_row, int rows, int first_k, int ks) {
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            int at = threadIdx.x + i * THREADS, line = at / ACROSS, along = at % ACROSS * PER_VECTOR;
            int outer = line + (K_FIRST ? first_row : first_k), inner = along + (K_FIRST ? first_k : first_row);
            int outers = K_FIRST ? rows : ks, left = (K_FIRST ? ks : rows) - inner;
            const A_TYPE *place = from + inner + ld * outer;
            held[i].whole = make_uint4(0, 0, 0, 0);
            if (outer >= outers) continue;
            if (ALIGNED && left >= PER_VECTOR) {
                held[i].whole = *(const uint4 *)place;
            } else {
#pragma unroll
                for (int e = 0; e < PER_VECTOR; e++)
                    if (e < left) held[i].v[e] = place[e];
            }
        }
    }
    __device__ __forceinline__ void store(A_TYPE *to) const {
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            int at = threadIdx.x + i * THREADS, line = at / ACROSS, along = at % ACROSS * PER_VECTOR;
            if (K_FIRST == ALONG_K) {
                *(uint4 *)(to + line * LINE + along) = held[i].whole;
            } else {
#pragma unroll
                for (int e = 0; e < PER_VECTOR; e++) to[(along + e) * LINE + line] = held[i].v[e];
            }
        }
    }
    // A word: consecutive elements along K of a row.
    static __device__ __forceinline__ unsigned word(const A_TYPE *tile, int row, int k) {
        if (ALONG_K) return *(const unsigned *)(tile + row * LINE + k);
        return *(const unsigned *)(tile + k * LINE + row);
    }
};

__device__ __forceinline__ unsigned shared_address(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }
__device__ __forceinline__ void matrices4(unsigned *w, const void *place, bool transposed) {
    if (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(shared_address(place)));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(shared_address(place)));
}
__device__ __forceinline__ void matrices2(unsigned *w, const void *place, bool transposed) {
    if (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "r"(shared_address(place)));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "r"(shared_address(place)));
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
template <class T> __device__ __forceinline__ void fragment_a(Word *w, const A_TYPE *tile, int row, int k, int lane) {
#if KIND == 4
    w[0] = T::ALONG_K ? tile[(row + lane / 4) * T::LINE + k + lane % 4] : tile[(k + lane % 4) * T::LINE + row + lane / 4];
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
template <class T> __device__ __forceinline__ void fragment_b(Word *w, const A_TYPE *tile, int column, int k, int lane) {
#if KIND == 4
    w[0] = T::ALONG_K ? tile[(column + lane / 4) * T::LINE + k + lane % 4] : tile[(k + lane % 4) * T::LINE + column + lane / 4];
#else
    if (T::ALONG_K) {
        matrices2(w, tile + (column + lane % 8) * T::LINE + k + lane / 8 % 2 * PER_VECTOR, false);
    } else if (BYTES == 2) {
        matrices2(w, tile + (k + lane % 16) * T::LINE + column, true);
    } else {
        for (int i = 0; i < 2; i++) w[i] = T::word(tile, column + lane / 4, k + lane % 4 + i * 4);
    }
    if (KIND == 2)
        for (int i = 0; i < 2; i++) w[i] = rounded(w[i]);
#endif
}
__device__ __forceinline__ void multiply(SUM *c, const Word *a, const Word *b) {
#if KIND == 4
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
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS) KERNEL(const Arguments g) {
    typedef Tile<TILE_M, OP_OF_A != 0> TileA;
    typedef Tile<TILE_N, OP_OF_B == 0> TileB;
    __shared__ alignas(16) A_TYPE a_tile[2][TileA::ELEMENTS], b_tile[2][TileB::ELEMENTS];
    const A_TYPE *a = matrix<A_TYPE>(g.a, g.stride_a, g.flags), *b = matrix<A_TYPE>(g.b, g.stride_b, g.flags);
    const int first_m = blockIdx.x * TILE_M, first_n = blockIdx.y * TILE_N, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_m = warp % WARPS_M * WARP_M, warp_n = warp / WARPS_M * WARP_N;
    TileA next_a;
    TileB next_b;
    SUM sums[MS][NS][SUMS] = {};
    next_a.load(a, g.lda, first_m, g.m, 0, g.k);
    next_b.load(b, g.ldb, first_n, g.n, 0, g.k);
    for (int k = 0, stage = 0; k < g.k; k += TILE_K, stage ^= 1) {
        next_a.store(a_tile[stage]);
        next_b.store(b_tile[stage]);
        __syncthreads();
        if (k + TILE_K < g.k) {
            next_a.load(a, g.lda, first_m, g.m, k + TILE_K, g.k);
            next_b.load(b, g.ldb, first_n, g.n, k + TILE_K, g.k);
        }
#pragma unroll 1
        for (int step = 0; step < TILE_K; step += MMA_K) {
            Word rows[MS][A_WORDS], columns[NS][B_WORDS];
#pragma unroll
            for (int i = 0; i < MS; i++) fragment_a<TileA>(rows[i], a_tile[stage], warp_m + i * MMA_M, step, lane);
#pragma unroll
            for (int j = 0; j < NS; j++) fragment_b<TileB>(columns[j], b_tile[stage], warp_n + j * 8, step, lane);
#pragma unroll
            for (int i = 0; i < MS; i++)
#pragma unroll
                for (int j = 0; j < NS; j++) multiply(sums[i][j], rows[i], columns[j]);
        }
    }
    const Epilogue<SCALE, C_TYPE, D_TYPE, BIAS_TYPE> epilogue(g);
    __shared__ SUM slab[8 * WARPS_N][TILE_M + 4];
#pragma unroll
    for (int j = 0; j < NS; j++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < MS; i++)
#pragma unroll
            for (int e = 0; e < SUMS; e++)
                slab[warp / WARPS_M * 8 + lane % 4 * 2 + e % 2][warp_m + i * MMA_M + lane / 4 + e / 2 * 8] = sums[i][j][e];
        __syncthreads();
        store_columns<TILE_M, 8 * WARPS_N, THREADS>(epilogue, slab, first_m, [&](int c) { return first_n + c / 8 * WARP_N + j * 8 + c % 8; });
    }
}
