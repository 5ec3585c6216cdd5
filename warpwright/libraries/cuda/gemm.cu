// Matrix product on the ordinary pipes: D = epilogue(alpha op(A) op(B) + beta C), column-major, for every type.
//
// Macros: KERNEL its name; A_TYPE, B_TYPE, C_TYPE, D_TYPE, BIAS_TYPE of the elements, SUM of sums, SCALE of alpha and beta;
// TILE_M, TILE_N, TILE_K of a block; THREAD_M, THREAD_N of a thread.
#include "epilogue.cuh"

constexpr int M_THREADS = TILE_M / THREAD_M, THREADS = M_THREADS * (TILE_N / THREAD_N);
constexpr int LOADS_A = TILE_M * TILE_K / THREADS, LOADS_B = TILE_N * TILE_K / THREADS;
constexpr int VECTOR = sizeof(SUM) > 8 ? 1 : 16 / sizeof(SUM) < THREAD_M ? 16 / sizeof(SUM) : THREAD_M;
constexpr int UNROLL = 4;
constexpr int PAD = VECTOR;
struct alignas(sizeof(SUM) * VECTOR) Vector { SUM v[VECTOR]; };

// One operand's tile on its way: rows are along the result's side, K along the sum's.
template <class T, int ROWS, int LOADS> struct Tile {
    SUM held[LOADS];
    bool k_first, conjugates;  // consecutive elements in memory are along K

    __device__ __forceinline__ Tile(bool k_first, bool conjugates) : k_first(k_first), conjugates(conjugates) {}
    __device__ __forceinline__ void place(int i, int &row, int &k) const {
        int at = threadIdx.x + i * THREADS;
        row = k_first ? at / TILE_K : at % ROWS;
        k = k_first ? at % TILE_K : at / ROWS;
    }
    __device__ __forceinline__ void load(const T *from, i64 ld, int first_row, int rows, int first_k, int ks) {
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            int row, k;
            place(i, row, k);
            row += first_row, k += first_k;
            held[i] = SUM{};
            if (row < rows && k < ks) held[i] = To<SUM>::from(from[k_first ? k + ld * row : row + ld * k]);
            if (conjugates) held[i] = conjugate(held[i]);
        }
    }
    __device__ __forceinline__ void store(SUM (*to)[ROWS + PAD]) const {
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            int row, k;
            place(i, row, k);
            to[k][row] = held[i];
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS) KERNEL(const Arguments g) {
    __shared__ alignas(16) SUM a_tile[2][TILE_K][TILE_M + PAD], b_tile[2][TILE_K][TILE_N + PAD];
    const A_TYPE *a = matrix<A_TYPE>(g.a, g.stride_a, g.flags);
    const B_TYPE *b = matrix<B_TYPE>(g.b, g.stride_b, g.flags);
    int first_m = blockIdx.x * TILE_M, first_n = blockIdx.y * TILE_N;
    int m_thread = threadIdx.x % M_THREADS, n_thread = threadIdx.x / M_THREADS;
    Tile<A_TYPE, TILE_M, LOADS_A> next_a(g.flags & (OP_A | OP_A << 1), g.flags & OP_A << 1);
    Tile<B_TYPE, TILE_N, LOADS_B> next_b(!(g.flags & (OP_B | OP_B << 1)), g.flags & OP_B << 1);
    SUM sums[THREAD_M][THREAD_N] = {};
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
#pragma unroll UNROLL
        for (int step = 0; step < TILE_K; step++) {
            Vector rows[THREAD_M / VECTOR], columns[THREAD_N / VECTOR];
#pragma unroll
            for (int i = 0; i < THREAD_M / VECTOR; i++)
                rows[i] = *(const Vector *)&a_tile[stage][step][(i * M_THREADS + m_thread) * VECTOR];
#pragma unroll
            for (int j = 0; j < THREAD_N / VECTOR; j++)
                columns[j] = *(const Vector *)&b_tile[stage][step][(j * (TILE_N / THREAD_N) + n_thread) * VECTOR];
#pragma unroll
            for (int i = 0; i < THREAD_M; i++)
#pragma unroll
                for (int j = 0; j < THREAD_N; j++)
                    sums[i][j] = fused(rows[i / VECTOR].v[i % VECTOR], columns[j / VECTOR].v[j % VECTOR], sums[i][j]);
        }
    }
    const Epilogue<SCALE, C_TYPE, D_TYPE, BIAS_TYPE> epilogue(g);
    constexpr int N_THREADS = TILE_N / THREAD_N;
    __shared__ alignas(16) SUM slab[N_THREADS][TILE_M + 4];
#pragma unroll
    for (int j = 0; j < THREAD_N; j++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < THREAD_M; i++) slab[n_thread][(i / VECTOR * M_THREADS + m_thread) * VECTOR + i % VECTOR] = sums[i][j];
        __syncthreads();
        store_columns<TILE_M, N_THREADS, THREADS>(epilogue, slab, first_m, [&](int c) {
            return first_n + (j / VECTOR * N_THREADS + c) * VECTOR + j % VECTOR;
        });
    }
}
