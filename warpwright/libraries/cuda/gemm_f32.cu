// Matrix product of f32 on the ordinary pipes (sm_80 and later) of operands in vectors of 16 bytes: D = epilogue(alpha op(A) op(B) + beta C), column-major.
//
// Tiles in shared memory have a line of rows for each k, so that a thread loads four rows at once. An operand whose neighbours in memory are along its rows is copied asynchronously;
// one along K passes through registers. A thread loads its rows and columns of the next k during the products of this one, across the barrier between two tiles too.
//
// Macros: KERNEL its name; C_TYPE, D_TYPE, BIAS_TYPE, SCALE; OP_OF_A, OP_OF_B 0 as it is, 1 transposed; TILE_M, TILE_N, TILE_K of a block; THREAD_M, THREAD_N of a thread; LANES_M of a
// warp's lanes along M; STAGES of tiles in shared memory; BLOCKS, those that an SM has at one time.
#include "epilogue.cuh"

constexpr int VECTOR = 4, VECTOR_BYTES = 16;
constexpr int LANES_N = 32 / LANES_M, WARP_M = LANES_M * THREAD_M, WARP_N = LANES_N * THREAD_N, WARPS_M = TILE_M / WARP_M, WARPS_N = TILE_N / WARP_N;
constexpr int THREADS = 32 * WARPS_M * WARPS_N, M_VECTORS = THREAD_M / VECTOR, N_VECTORS = THREAD_N / VECTOR;
static_assert(TILE_K % 2 == 0, "the next tile's first k is loaded into the half of the registers that the last k does not use");

__device__ __forceinline__ unsigned shared_address(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }
__device__ __forceinline__ void copy16(void *to, const void *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ int clamped(int value, int most) { return value < 0 ? 0 : value > most ? most : value; }

// An operand's tile on its way from memory.
template <int ROWS, bool ALONG_K> struct Tile {
    // With the gap the stores of a warp's vectors along K are of different banks.
    static constexpr int LINE = ROWS + (ALONG_K ? VECTOR : 0), FLOATS = LINE * TILE_K;
    static constexpr int ACROSS = (ALONG_K ? TILE_K : ROWS) / VECTOR, STEP = THREADS / ACROSS, LOADS = ROWS * TILE_K / VECTOR / THREADS;
    static_assert(STEP * ACROSS == THREADS && LOADS * THREADS * VECTOR == ROWS * TILE_K, "a tile is whole loads of every thread");
    Four<float> held[ALONG_K ? LOADS : 1];
    const float *from;
    i64 step, between;  // to the next tile, and between two loads
    int place, outers, inners;  // of the first load; what is left of the operand from it on

    __device__ __forceinline__ Tile(const float *operand, i64 ld, int first_row, int rows, int ks) {
        const int line = threadIdx.x / ACROSS, along = threadIdx.x % ACROSS * VECTOR;
        from = operand + (ALONG_K ? along + ld * (first_row + line) : first_row + along + ld * line);
        step = ALONG_K ? TILE_K : ld * TILE_K, between = ld * STEP;
        place = ALONG_K ? along * LINE + line : line * LINE + along;
        outers = (ALONG_K ? rows - first_row : ks) - line, inners = (ALONG_K ? ks : rows - first_row) - along;
    }
    // Begin to load the next tile.
    __device__ __forceinline__ void begin(float *to) {
        const float *vector = from;
        const int elements = clamped(inners, VECTOR);
#pragma unroll
        for (int i = 0; i < LOADS; i++, vector += between) {
            const int inside = i * STEP < outers ? elements : 0;
            if (!ALONG_K) {
                copy16(to + place + i * STEP * LINE, inside ? vector : from, inside * (int)sizeof(float));
            } else if (inside == VECTOR) {
                held[i] = *(const Four<float> *)vector;
            } else {
#pragma unroll
                for (int e = 0; e < VECTOR; e++) held[i].v[e] = e < inside ? vector[e] : 0.0f;
            }
        }
        from += step;
        (ALONG_K ? inners : outers) -= TILE_K;
    }
    // Store what passes through registers.
    __device__ __forceinline__ void finish(float *to) const {
        if (!ALONG_K) return;
#pragma unroll
        for (int i = 0; i < LOADS; i++)
#pragma unroll
            for (int e = 0; e < VECTOR; e++) to[place + i * STEP + e * LINE] = held[i].v[e];
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) KERNEL(const Arguments g) {
    typedef Tile<TILE_M, OP_OF_A != 0> TileA;
    typedef Tile<TILE_N, OP_OF_B == 0> TileB;
    constexpr int STAGE = TileA::FLOATS + TileB::FLOATS;
    extern __shared__ uint4 dynamic[];
    float *const stages = (float *)dynamic;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first_m = blockIdx.x * TILE_M, first_n = blockIdx.y * TILE_N;
    const int thread_m = warp % WARPS_M * WARP_M + lane % LANES_M * VECTOR, thread_n = warp / WARPS_M * WARP_N + lane / LANES_M * VECTOR;
    TileA next_a(matrix<float>(g.a, g.stride_a, g.flags), g.lda, first_m, g.m, g.k);
    TileB next_b(matrix<float>(g.b, g.stride_b, g.flags), g.ldb, first_n, g.n, g.k);
    auto begin = [&](int stage) {
        next_a.begin(stages + stage * STAGE);
        next_b.begin(stages + stage * STAGE + TileA::FLOATS);
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    auto finish = [&](int stage) {
        next_a.finish(stages + stage * STAGE);
        next_b.finish(stages + stage * STAGE + TileA::FLOATS);
    };
    auto wait_for_next = [&]() {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
    };
    Four<float> rows[2][M_VECTORS], columns[2][N_VECTORS];
    auto load = [&](int half, const float *stage, int k) {
#pragma unroll
        for (int i = 0; i < M_VECTORS; i++) rows[half][i] = *(const Four<float> *)(stage + k * TileA::LINE + thread_m + i * LANES_M * VECTOR);
#pragma unroll
        for (int j = 0; j < N_VECTORS; j++) columns[half][j] = *(const Four<float> *)(stage + TileA::FLOATS + k * TileB::LINE + thread_n + j * LANES_N * VECTOR);
    };
    float sums[THREAD_M][THREAD_N] = {};
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++) begin(stage), finish(stage);
    wait_for_next();
    const float *now = stages;
    int into = STAGES - 1;
    load(0, now, 0);
#pragma unroll 1
    for (int first_k = 0; first_k < g.k; first_k += TILE_K) {
        begin(into);
#pragma unroll
        for (int k = 0; k < TILE_K; k++) {
            if (k == TILE_K - 1) {
                finish(into);
                wait_for_next();
                into = into + 1 == STAGES ? 0 : into + 1;
                now = now == stages + (STAGES - 1) * STAGE ? stages : now + STAGE;
            }
            load((k + 1) % 2, now, (k + 1) % TILE_K);
#pragma unroll
            for (int i = 0; i < THREAD_M; i++)
#pragma unroll
                for (int j = 0; j < THREAD_N; j++)
                    sums[i][j] = fused(rows[k % 2][i / VECTOR].v[i % VECTOR], columns[k % 2][j / VECTOR].v[j % VECTOR], sums[i][j]);
        }
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    const Epilogue<SCALE, C_TYPE, D_TYPE, BIAS_TYPE> epilogue(g);
    constexpr int ACROSS = TILE_N / N_VECTORS;
    float(*slab)[TILE_M + 4] = (float(*)[TILE_M + 4])dynamic;
#pragma unroll
    for (int j = 0; j < N_VECTORS; j++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < M_VECTORS; i++)
#pragma unroll
            for (int e = 0; e < VECTOR; e++) {
                const int row = i * VECTOR, column = j * VECTOR + e;
                const Four<float> four = {sums[row][column], sums[row + 1][column], sums[row + 2][column], sums[row + 3][column]};
                *(Four<float> *)&slab[(warp / WARPS_M * LANES_N + lane / LANES_M) * VECTOR + e][thread_m + i * LANES_M * VECTOR] = four;
            }
        __syncthreads();
        // The slab's columns are VECTOR of each thread's, LANES_N threads' of each warp's.
        store_columns<TILE_M, ACROSS, THREADS>(epilogue, slab, first_m, [&](int c) {
            return first_n + c / (VECTOR * LANES_N) * WARP_N + j * LANES_N * VECTOR + c % (VECTOR * LANES_N);
        });
    }
}
