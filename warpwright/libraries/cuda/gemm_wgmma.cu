// Matrix product on the tensor cores of sm_90 by wgmma: D = epilogue(alpha op(A) op(B) + beta C), column-major.
//
// A block computes TILE_M x 128 LEFTS of D. One thread, or one for each operand, brings tiles of 128 bytes along K into shared memory by TMA, and two warpgroups multiply them, each 64
// LEFTS columns of D by TILE_M rows: op(B) is the instruction's left operand and op(A) its right one, so that a thread's sums are neighbours in a column of D. A cluster has CLUSTER_M
// by CLUSTER_N blocks; those that read the same tile bring it to each other in turn. Tiles of 192 x 256 ask L2 for a sixth less than those of 256 x 128 and compute long sums 5 % faster
// with three stages. Blocks are persistent: they take tile after tile, and the next tile's operands arrive during an epilogue.
//
// Macros: KERNEL its name; KIND 0 f16, 1 bf16, 2 tf32, 3 int8, 5 floats of 8 bits; A_TYPE, B_TYPE, C_TYPE, D_TYPE, BIAS_TYPE, SCALE; A_PTX, B_PTX, the operands' types in PTX;
// OP_OF_A, OP_OF_B 0 as it is, 1 transposed; TILE_M 256, 192 or 128; LEFTS 1 or 2; PRODUCERS 1 or 2 threads; STAGES of tiles in shared memory; CLUSTER_M, CLUSTER_N; GROUP, the clusters'
// tiles along M that are taken before the next ones along N; PLAIN, D = alpha op(A) op(B), with alpha among the arguments and a D as TMA writes it.
#include "epilogue.cuh"

#define SUMS (TILE_M / 2)
#if KIND == 3
typedef int SUM;
#define SUM_PTX "s32"
#define AS_SUM "+r"
#else
typedef float SUM;
#define SUM_PTX "f32"
#define AS_SUM "+f"
#endif
#define CLUSTER (CLUSTER_M * CLUSTER_N)
#include "wgmma.cuh"

constexpr int BYTES = sizeof(A_TYPE), TILE_K = 128 / BYTES, MMA_K = 32 / BYTES;
constexpr int CONSUMERS = 2, TILE_N = 64 * CONSUMERS * LEFTS, THREADS = WARPGROUP * (CONSUMERS + 1);
typedef Tiles<TILE_M * CLUSTER_M, TILE_N * CLUSTER_N> ClusterTiles;
constexpr int RIGHT_BYTES = TILE_M * 128, LEFT_BYTES = TILE_N * 128, STAGE_BYTES = RIGHT_BYTES + LEFT_BYTES;
// Whether an operand's neighbours in memory are along K; otherwise they are along its rows, and a box of TMA has 128 bytes of them.
constexpr bool RIGHT_ALONG_K = OP_OF_A != 0, LEFT_ALONG_K = OP_OF_B == 0;
constexpr int BOX_ROWS = 128 / BYTES, BOX_BYTES = TILE_K * 128;
// What an epilogue passes a warp's 16 columns of D through: two boxes of 128-byte lines of D, or SLAB_ROWS sums of each column. With the rest of a slab's line no two threads' stores
// meet in a bank.
constexpr int SLAB_BYTES = 4096, SLAB_ROWS = 32, SLAB_LINE = SLAB_ROWS + 8;

// A tile in shared memory as wgmma is told of it: eight lines of 128 bytes follow each other, swizzled.
template <bool ALONG_K> __device__ __forceinline__ u64 descriptor(unsigned place) {
    return (u64)((place & 0x3FFFF) >> 4) | (u64)(ALONG_K ? 1 : BOX_BYTES >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}
// The depth of one instruction, in a descriptor's units of 16 bytes.
constexpr int RIGHT_STEP = (RIGHT_ALONG_K ? 32 : MMA_K * 128) >> 4, LEFT_STEP = (LEFT_ALONG_K ? 32 : MMA_K * 128) >> 4;

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#if KIND <= 1
#define DEPTH "16"
#elif KIND == 2
#define DEPTH "8"
#else
#define DEPTH "32"
#endif
#if SUMS == 128
#define LEFT "%128"
#define RIGHT "%129"
#define ADDS "%130"
#define SIGNS_AND_LAYOUT ", 1, 1, %131, %132"
#elif SUMS == 96
#define LEFT "%96"
#define RIGHT "%97"
#define ADDS "%98"
#define SIGNS_AND_LAYOUT ", 1, 1, %99, %100"
#else
#define LEFT "%64"
#define RIGHT "%65"
#define ADDS "%66"
#define SIGNS_AND_LAYOUT ", 1, 1, %67, %68"
#endif
// c = left right, added to what c holds if `adds`.
__device__ __forceinline__ void multiply(SUM (&c)[SUMS], u64 left, u64 right, int adds) {
    asm volatile("{ .reg .pred adds; setp.ne.b32 adds, " ADDS ", 0; wgmma.mma_async.sync.aligned.m64n" TEXT(TILE_M) "k" DEPTH "." SUM_PTX "." B_PTX "." A_PTX
                 " {" LIST_OF_SUMS "}, " LEFT ", " RIGHT ", adds"
#if KIND <= 1
                 SIGNS_AND_LAYOUT "; }" : ALL_SUMS : "l"(left), "l"(right), "r"(adds), "n"(!LEFT_ALONG_K), "n"(!RIGHT_ALONG_K));
#elif KIND == 3
                 "; }" : ALL_SUMS : "l"(left), "l"(right), "r"(adds));
#else
                 ", 1, 1; }" : ALL_SUMS : "l"(left), "l"(right), "r"(adds));
#endif
}
// Of each stage: its tiles have arrived; the consumers of all blocks that share it have read op(A)'s tile, and op(B)'s.
struct Barriers { unsigned full, empty_right, empty_left; };
// A block of the cluster, which has CLUSTER_M of them along M by CLUSTER_N along N.
struct Place {
    int m, n;
    __device__ __forceinline__ Place() {
        const int rank = CLUSTER > 1 ? rank_in_cluster() : 0;
        m = rank % CLUSTER_M, n = rank / CLUSTER_M;
    }
    __device__ static __forceinline__ int rank(int m, int n) { return n * CLUSTER_M + m; }
    // The first element of D of the block's tile.
    __device__ __forceinline__ void first(const ClusterTiles &t, int &first_m, int &first_n) const {
        t.place(first_m, first_n);
        first_m += m * TILE_M, first_n += n * TILE_N;
    }
    // The blocks that share op(A)'s tile with this one, and op(B)'s.
    __device__ __forceinline__ unsigned short along_n() const {
        int blocks = 0;
#pragma unroll
        for (int other = 0; other < CLUSTER_N; other++) blocks |= 1 << rank(m, other);
        return blocks;
    }
    __device__ __forceinline__ unsigned short along_m() const { return ((1 << CLUSTER_M) - 1) << rank(0, n); }
};
// A tile of one operand. A tile that SHARING blocks read is brought by each of them in turn to all.
template <int SHARING, int ROWS, bool ALONG_K>
__device__ __forceinline__ void bring_tile(unsigned to, const Map &map, unsigned ready, int k, int first, int matrix, bool own_turn, unsigned short blocks) {
    if (SHARING > 1 && !own_turn) return;
#pragma unroll
    for (int row = 0; row < ROWS; row += ALONG_K ? ROWS : BOX_ROWS) {
        const int along = ALONG_K ? k : first + row, line = ALONG_K ? first : k;
        if (SHARING > 1) bring_to(blocks, to + row * 128, map, ready, along, line, matrix);
        else bring(to + row * 128, map, ready, along, line, matrix);
    }
}
template <bool RIGHT_OPERAND, bool LEFT_OPERAND> __device__ __forceinline__ void produce(const Arguments &g, const Map &map_a, const Map &map_b, unsigned tiles, Barriers at, Place place) {
    const int a_matrix = g.stride_a ? blockIdx.z : 0, b_matrix = g.stride_b ? blockIdx.z : 0;
    Stage stage;
    for (ClusterTiles t(g.m, g.n); t.more(); t.advance()) {
        int first_m, first_n;
        place.first(t, first_m, first_n);
        for (int k = 0, step = 0; k < g.k; k += TILE_K, step++, stage.advance()) {
            const unsigned right = tiles + stage.number * STAGE_BYTES, ready = at.full + 8 * stage.number;
            if (LEFT_OPERAND) {
                wait(at.empty_left + 8 * stage.number, stage.parity ^ 1);
                expect(ready, LEFT_BYTES);
                bring_tile<CLUSTER_M, TILE_N, LEFT_ALONG_K>(right + RIGHT_BYTES, map_b, ready, k, first_n, b_matrix, step % CLUSTER_M == place.m, place.along_m());
            }
            if (RIGHT_OPERAND) {
                wait(at.empty_right + 8 * stage.number, stage.parity ^ 1);
                expect(ready, RIGHT_BYTES);
                bring_tile<CLUSTER_N, TILE_M, RIGHT_ALONG_K>(right, map_a, ready, k, first_m, a_matrix, step % CLUSTER_N == place.n, place.along_n());
            }
        }
    }
    if (LEFT_OPERAND) await_last_arrivals(at.empty_left, stage);
    if (RIGHT_OPERAND) await_last_arrivals(at.empty_right, stage);
}

struct alignas(2 * sizeof(D_TYPE)) Pair { D_TYPE v[2]; };
// D = alpha times a warp's sums: boxes of lines of D are written by TMA from one half of the slab while the warp fills the other one, `half`.
template <class E> __device__ __forceinline__ void store_boxes(const E &epilogue, const Map &map_d, const SUM (&sums)[SUMS], char *slab, int &half, int first_m, int first_n, int lane) {
    constexpr int ROWS = 128 / sizeof(D_TYPE);
#pragma unroll
    for (int box = 0; box < TILE_M / ROWS; box++, half ^= 1) {
        char *lines = slab + half * (SLAB_BYTES / 2);
        if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        __syncwarp();
#pragma unroll
        for (int pair = 0; pair < ROWS / 4; pair++) {
            const int column = lane / 4 + pair % 2 * 8, row = pair / 2 * 8 + lane % 4 * 2;
            const SUM *of = sums + box * ROWS / 2 + pair * 2;
            Pair stored;
#pragma unroll
            for (int e = 0; e < 2; e++) put(&stored.v[e], epilogue.alpha * (SCALE)of[e]);
            *(Pair *)(lines + column * 128 + (row * (int)sizeof(D_TYPE) ^ column % 8 * 16)) = stored;
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
        if (lane == 0)
            asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1]; cp.async.bulk.commit_group;"
                         ::"l"(&map_d), "r"(shared_address(lines)), "r"(first_m + box * ROWS), "r"(first_n), "r"(blockIdx.z) : "memory");
    }
}
// Any epilogue: a warp's sums pass through shared memory, so that its stores are of whole columns' rows.
template <class E> __device__ __forceinline__ void store_rows(const E &epilogue, const SUM (&sums)[SUMS], SUM *slab, int first_m, int first_n, int lane) {
#pragma unroll
    for (int part = 0; part < TILE_M / SLAB_ROWS; part++) {
        __syncwarp();
#pragma unroll
        for (int eight = 0; eight < SLAB_ROWS / 8; eight++) {
            const SUM *of = sums + (part * SLAB_ROWS / 8 + eight) * 4;
            SUM *to = slab + lane / 4 * SLAB_LINE + eight * 8 + lane % 4 * 2;
#pragma unroll
            for (int e = 0; e < 4; e++) to[e / 2 * 8 * SLAB_LINE + e % 2] = of[e];
        }
        __syncwarp();
        constexpr int UNROLL = ACTIVATIONS ? 1 : 4;
#pragma unroll UNROLL
        for (int column = lane / 8; column < 16; column += 4) {
            const Four<SUM> four = *(const Four<SUM> *)(slab + column * SLAB_LINE + lane % 8 * 4);
            SCALE scaled[4] = {(SCALE)four.v[0], (SCALE)four.v[1], (SCALE)four.v[2], (SCALE)four.v[3]};
            epilogue.store4(first_m + part * SLAB_ROWS + lane % 8 * 4, first_n + column, scaled);
        }
    }
}

__device__ __forceinline__ void consume(const Arguments &g, const Map &map_d, unsigned tiles, Barriers at, char *slabs, Place place, int consumer) {
    const Epilogue<SCALE, C_TYPE, D_TYPE, BIAS_TYPE> epilogue(g);
    const int thread = threadIdx.x % WARPGROUP, warp = thread / 32, lane = thread % 32;
    char *slab = slabs + (consumer * 4 + warp) * SLAB_BYTES;
    // Each warpgroup tells every block that brings one of its tiles that it has read a stage.
    auto release = [&](int number) {
        if (thread < CLUSTER_N) arrive_at(at.empty_right + 8 * number, place.rank(place.m, thread));
        if (thread >= 32 && thread < 32 + CLUSTER_M) arrive_at(at.empty_left + 8 * number, place.rank(thread - 32, place.n));
    };
    Stage stage;
    int half = 0;
    for (ClusterTiles t(g.m, g.n); t.more(); t.advance()) {
        int first_m, first_n;
        place.first(t, first_m, first_n);
        SUM sums[LEFTS][SUMS];
        int before = -1;
        for (int k = 0; k < g.k; k += TILE_K, stage.advance()) {
            const unsigned right = tiles + stage.number * STAGE_BYTES;
            const u64 of_right = descriptor<RIGHT_ALONG_K>(right), of_left = descriptor<LEFT_ALONG_K>(right + RIGHT_BYTES + consumer * LEFTS * 64 * 128);
            wait(at.full + 8 * stage.number, stage.parity);
            begin_products();
#pragma unroll
            for (int step = 0; step < TILE_K / MMA_K; step++)
#pragma unroll
                for (int l = 0; l < LEFTS; l++) multiply(sums[l], of_left + l * (64 * 128 >> 4) + step * LEFT_STEP, of_right + step * RIGHT_STEP, k + step > 0);
            end_products();
            wait_for_products<1>();
            if (before >= 0) release(before);
            before = stage.number;
        }
        wait_for_products<0>();
        release(before);
#pragma unroll
        for (int l = 0; l < LEFTS; l++) {
            const int column = first_n + (consumer * LEFTS + l) * 64 + warp * 16;
            if (PLAIN) store_boxes(epilogue, map_d, sums[l], slab, half, first_m, column, lane);
            else store_rows(epilogue, sums[l], (SUM *)slab, first_m, column, lane);
        }
    }
    if (PLAIN && lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

extern "C" __global__ void
#if CLUSTER > 1
__cluster_dims__(CLUSTER, 1, 1)
#endif
__launch_bounds__(THREADS, 1) KERNEL(const Arguments g, const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, const __grid_constant__ Map map_d) {
    extern __shared__ uint4 dynamic[];
    __shared__ alignas(8) u64 barriers[3 * STAGES];
    // Swizzled lines repeat after 1,024 bytes.
    char *slabs = (char *)dynamic + (-shared_address(dynamic) & 1023);
    const unsigned tiles = shared_address(slabs) + 4 * CONSUMERS * SLAB_BYTES, full = shared_address(barriers);
    const Barriers at = {full, full + 8 * STAGES, full + 16 * STAGES};
    const Place place;
    const int warpgroup = threadIdx.x / WARPGROUP;
    if (threadIdx.x == 0) {
        fetch_map(map_a), fetch_map(map_b);
        if (PLAIN) fetch_map(map_d);
        for (int stage = 0; stage < STAGES; stage++) {
            make_barrier(at.full + 8 * stage, 2);
            make_barrier(at.empty_right + 8 * stage, CONSUMERS * CLUSTER_N);
            make_barrier(at.empty_left + 8 * stage, CONSUMERS * CLUSTER_M);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (CLUSTER > 1) meet_cluster();
    if (warpgroup == CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x % WARPGROUP == 0) produce<true, PRODUCERS == 1>(g, map_a, map_b, tiles, at, place);
        if (PRODUCERS == 2 && threadIdx.x % WARPGROUP == 32) produce<false, true>(g, map_a, map_b, tiles, at, place);
        __syncwarp();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        consume(g, map_d, tiles, at, slabs, place, warpgroup);
    }
}
