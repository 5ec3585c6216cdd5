// Matrix product of TF32 on the tensor cores of sm_90 by wgmma, for an A as it is and a B as it is: D = epilogue(alpha A B + beta C), column-major.
//
// wgmma reads TF32 operands in shared memory along K only. A's neighbours in memory are along M, so A is the left operand and comes from registers: each warp loads its fragments from
// the tile that TMA has brought. B is the right operand and stays in shared memory. TMA rounds both to TF32. A block computes 128 x 256 of D, each of two warpgroups 64 rows of it.
// Blocks are persistent, as in gemm_wgmma.cu, and bring their own tiles.
//
// Macros: KERNEL its name; C_TYPE, D_TYPE, BIAS_TYPE, SCALE; STAGES of tiles in shared memory; CLUSTER 1; GROUP, the tiles along M that are taken before the next
// ones along N.
#include "epilogue.cuh"

#define SUMS 128
#define AS_SUM "+f"
#include "wgmma.cuh"

static_assert(CLUSTER == 1, "no tile is shared");
constexpr int TILE_M = 128, TILE_N = 256, TILE_K = 32, MMA_K = 8, STEPS = TILE_K / MMA_K;
constexpr int CONSUMERS = 2, THREADS = WARPGROUP * (CONSUMERS + 1);
typedef Tiles<TILE_M * CLUSTER, TILE_N> ClusterTiles;
// A's tile is boxes of 32 rows: a line of 128 bytes for each k. B's tile has a line for each column. Both are swizzled.
constexpr int BOX_ROWS = 32, BOX_BYTES = TILE_K * 128, A_BYTES = TILE_M * 128, B_BYTES = TILE_N * 128, STAGE_BYTES = A_BYTES + B_BYTES;
// What an epilogue passes a warp's 16 rows through: SLAB_COLUMNS of them, with which no more than two threads' stores meet in a bank.
constexpr int SLAB_COLUMNS = 32, SLAB_LINE = 20, SLAB_BYTES = SLAB_COLUMNS * SLAB_LINE * 4;

// c = a times the columns of `right`, added to what c holds if `adds`.
__device__ __forceinline__ void multiply(float (&c)[SUMS], const unsigned (&a)[4], u64 right, int adds) {
    asm volatile("{ .reg .pred adds; setp.ne.b32 adds, %133, 0; wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {" LIST_OF_SUMS "}, {%128,%129,%130,%131}, %132, adds, 1, 1; }"
                 : ALL_SUMS : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right), "r"(adds));
}

__device__ __forceinline__ void produce(const Arguments &g, const Map &map_a, const Map &map_b, unsigned tiles, unsigned full, unsigned empty, int rank) {
    constexpr int PART = TILE_N / CLUSTER;
    const int a_matrix = g.stride_a ? blockIdx.z : 0, b_matrix = g.stride_b ? blockIdx.z : 0;
    Stage stage;
    for (ClusterTiles t(g.m, g.n); t.more(); t.advance()) {
        int first_m, first_n;
        t.place(first_m, first_n);
        first_m += rank * TILE_M;
        for (int k = 0; k < g.k; k += TILE_K, stage.advance()) {
            const unsigned a_tile = tiles + stage.number * STAGE_BYTES, b_tile = a_tile + A_BYTES, ready = full + 8 * stage.number;
            wait(empty + 8 * stage.number, stage.parity ^ 1);
            expect(ready, STAGE_BYTES);
            bring(b_tile + rank * PART * 128, map_b, ready, k, first_n + rank * PART, b_matrix);
            for (int box = 0; box < TILE_M / BOX_ROWS; box++) bring(a_tile + box * BOX_BYTES, map_a, ready, first_m + box * BOX_ROWS, k, a_matrix);
        }
    }
}

// A warp's part of the left operand. Its 16 rows of a box are two runs of eight, ROW_RUN apart: then the 32 lanes' loads, of four rows of four lines twice, are of different banks.
constexpr int ROW_RUN = 16;
struct Fragments {
    unsigned words[STEPS][4];
    int places[4];

    __device__ __forceinline__ Fragments(int warp, int lane) {
#pragma unroll
        for (int w = 0; w < 4; w++) {
            const int k = lane % 4 + w / 2 * 4, chunk = lane / 16 * 4 + warp % 2 * 2 + w % 2;
            places[w] = warp / 2 * BOX_BYTES + k * 128 + (chunk ^ k) * 16 + lane / 4 % 4 * 4;
        }
    }
    __device__ __forceinline__ void load(const char *tile) {
#pragma unroll
        for (int step = 0; step < STEPS; step++)
#pragma unroll
            for (int w = 0; w < 4; w++) words[step][w] = *(const unsigned *)(tile + step * MMA_K * 128 + places[w]);
    }
};

// A warp's sums pass through shared memory, so that a thread stores four rows of a column.
template <class E> __device__ __forceinline__ void store(const E &epilogue, const float (&sums)[SUMS], float *slab, int first_m, int first_n, int lane) {
#pragma unroll
    for (int part = 0; part < TILE_N / SLAB_COLUMNS; part++) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < SLAB_COLUMNS / 2; i++) {
            const int column = i / 4 * 8 + lane % 4 * 2 + i % 2, row = lane / 16 * 8 + i / 2 % 2 * 4 + lane / 4 % 4;
            slab[column * SLAB_LINE + row] = sums[part * (SLAB_COLUMNS / 2) + i];
        }
        __syncwarp();
        constexpr int UNROLL = ACTIVATIONS ? 1 : 4;
#pragma unroll UNROLL
        for (int column = lane / 4; column < SLAB_COLUMNS; column += 8) {
            const Four<float> four = *(const Four<float> *)(slab + column * SLAB_LINE + lane % 4 * 4);
            const SCALE scaled[4] = {four.v[0], four.v[1], four.v[2], four.v[3]};
            epilogue.store4(first_m + lane % 4 / 2 * ROW_RUN + lane % 2 * 4, first_n + part * SLAB_COLUMNS + column, scaled);
        }
    }
}

__device__ __forceinline__ void consume(const Arguments &g, const char *tiles, unsigned full, unsigned empty, char *slabs, int rank, int consumer) {
    const Epilogue<SCALE, C_TYPE, D_TYPE, BIAS_TYPE> epilogue(g);
    const int thread = threadIdx.x % WARPGROUP, warp = thread / 32, lane = thread % 32;
    float *slab = (float *)(slabs + (consumer * 4 + warp) * SLAB_BYTES);
    Fragments left(warp, lane);
    Stage stage;
    for (ClusterTiles t(g.m, g.n); t.more(); t.advance()) {
        int first_m, first_n;
        t.place(first_m, first_n);
        float sums[SUMS];
        for (int k = 0; k < g.k; k += TILE_K, stage.advance()) {
            const char *tile = tiles + stage.number * STAGE_BYTES;
            const unsigned columns = shared_address(tile) + A_BYTES;
            const u64 right = (u64)((columns & 0x3FFFF) >> 4) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
            wait(full + 8 * stage.number, stage.parity);
            left.load(tile + consumer * 2 * BOX_BYTES);
            begin_products();
#pragma unroll
            for (int step = 0; step < STEPS; step++) multiply(sums, left.words[step], right + step * (MMA_K * 4 >> 4), k + step > 0);
            end_products();
            // The fragments' registers are free when the products have ended; meanwhile the other warpgroup's are at work.
            wait_for_products<0>();
            if (thread < CLUSTER) arrive_at(empty + 8 * stage.number, thread);
        }
        store(epilogue, sums, slab, first_m + rank * TILE_M + consumer * 64 + warp / 2 * BOX_ROWS + warp % 2 * 8, first_n, lane);
    }
}

extern "C" __global__ void
#if CLUSTER > 1
__cluster_dims__(CLUSTER, 1, 1)
#endif
__launch_bounds__(THREADS, 1) KERNEL(const Arguments g, const __grid_constant__ Map map_a, const __grid_constant__ Map map_b) {
    extern __shared__ uint4 dynamic[];
    __shared__ alignas(8) u64 barriers[2 * STAGES];
    // Swizzled lines repeat after 1,024 bytes.
    char *tiles = (char *)dynamic + (-shared_address(dynamic) & 1023);
    const unsigned full = shared_address(barriers), empty = full + 8 * STAGES;
    const int rank = CLUSTER > 1 ? rank_in_cluster() : 0, warpgroup = threadIdx.x / WARPGROUP;
    if (threadIdx.x == 0) {
        fetch_map(map_a), fetch_map(map_b);
        for (int stage = 0; stage < STAGES; stage++) make_barrier(full + 8 * stage, 1), make_barrier(empty + 8 * stage, CONSUMERS * CLUSTER);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (CLUSTER > 1) meet_cluster();
    if (warpgroup == CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x % WARPGROUP == 0) produce(g, map_a, map_b, shared_address(tiles), full, empty, rank);
        __syncwarp();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        consume(g, tiles, full, empty, tiles + STAGES * STAGE_BYTES, rank, warpgroup);
    }
    // No block ends while another one of its cluster writes to it.
    if (CLUSTER > 1) meet_cluster();
}
