// Matrix product on the tensor cores of sm_90 by wgmma: D = epilogue(alpha op(A) op(B) + beta C), column-major.
//
// A block computes TILE_M x 128 of D. One warp brings tiles of 128 bytes along K into shared memory by TMA, and two warpgroups multiply them, each 64 columns of D by TILE_M rows:
// op(B) is the instruction's left operand and op(A) its right one, so that a thread's sums are neighbours in a column of D. The blocks of a cluster take neighbouring columns
// of D, and each brings its part of op(A)'s tile to all of them. Blocks are persistent: they take tile after tile, and the next tile's operands arrive during an epilogue.
//
// Macros: KERNEL its name; KIND 0 f16, 1 bf16, 2 tf32, 3 int8, 5 floats of 8 bits; A_TYPE, B_TYPE, C_TYPE, D_TYPE, BIAS_TYPE, SCALE; A_PTX, B_PTX, the operands' types in PTX;
// OP_OF_A, OP_OF_B 0 as it is, 1 transposed; TILE_M 256 or 128; STAGES of tiles in shared memory; CLUSTER, the blocks of a cluster; GROUP, the tiles along M that are taken
// before the next ones along N; PLAIN, D = alpha op(A) op(B), with alpha among the arguments and a D as TMA writes it.
#include "epilogue.cuh"

typedef unsigned long long u64;
constexpr int BYTES = sizeof(A_TYPE), TILE_K = 128 / BYTES, MMA_K = 32 / BYTES;
constexpr int CONSUMERS = 2, TILE_N = 64 * CONSUMERS, SUMS = TILE_M / 2;
constexpr int WARPGROUP = 128, THREADS = WARPGROUP * (CONSUMERS + 1);
constexpr int RIGHT_BYTES = TILE_M * 128, LEFT_BYTES = TILE_N * 128, STAGE_BYTES = RIGHT_BYTES + LEFT_BYTES;
// Whether an operand's neighbours in memory are along K; otherwise they are along its rows, and a box of TMA has 128 bytes of them.
constexpr bool RIGHT_ALONG_K = OP_OF_A != 0, LEFT_ALONG_K = OP_OF_B == 0;
constexpr int BOX_ROWS = 128 / BYTES, BOX_BYTES = TILE_K * 128;
// What an epilogue passes a warp's 16 columns of D through: two boxes of 128-byte lines of D, or SLAB_ROWS sums of each column. With the rest of a slab's line no two threads' stores
// meet in a bank.
constexpr int SLAB_BYTES = 4096, SLAB_ROWS = 32, SLAB_LINE = SLAB_ROWS + 8;
#if KIND == 3
typedef int SUM;
#define SUM_PTX "s32"
#define AS_SUM "+r"
#else
typedef float SUM;
#define SUM_PTX "f32"
#define AS_SUM "+f"
#endif
struct alignas(64) Map { u64 words[16]; };

__device__ __forceinline__ unsigned shared_address(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }
__device__ __forceinline__ void make_barrier(unsigned place, int arrivals) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(place), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void expect(unsigned place, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(place), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait(unsigned place, unsigned parity) {
    asm volatile("{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared.b64 done, [%0], %1; @!done bra AGAIN; }" ::"r"(place), "r"(parity) : "memory");
}
__device__ __forceinline__ void arrive_at(unsigned place, unsigned block) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }" ::"r"(place), "r"(block) : "memory");
}
__device__ __forceinline__ void meet_cluster() { asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ unsigned rank_in_cluster() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
#define BOX "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
__device__ __forceinline__ void bring(unsigned to, const Map &map, unsigned barrier, int along, int line, int matrix) {
    asm volatile(BOX " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to), "l"(&map), "r"(barrier), "r"(along), "r"(line), "r"(matrix) : "memory");
}
// The same, to this place in every block of the cluster.
__device__ __forceinline__ void bring_to_all(unsigned to, const Map &map, unsigned barrier, int along, int line, int matrix) {
#if CLUSTER == 1
    bring(to, map, barrier, along, line, matrix);
#else
    asm volatile(BOX ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;"
                 ::"r"(to), "l"(&map), "r"(barrier), "r"(along), "r"(line), "r"(matrix), "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
#endif
}

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
#define C4(i) AS_SUM(c[i]), AS_SUM(c[i + 1]), AS_SUM(c[i + 2]), AS_SUM(c[i + 3])
#define C16(i) C4(i), C4(i + 4), C4(i + 8), C4(i + 12)
#define C64(i) C16(i), C16(i + 16), C16(i + 32), C16(i + 48)
#if TILE_M == 256
#define LIST_OF_SUMS \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63," \
    "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95," \
    "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define ALL_SUMS C64(0), C64(64)
#define LEFT "%128"
#define RIGHT "%129"
#define ADDS "%130"
#define SIGNS_AND_LAYOUT ", 1, 1, %131, %132"
#else
#define LIST_OF_SUMS \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define ALL_SUMS C64(0)
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
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int OPEN> __device__ __forceinline__ void wait_for_products() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(OPEN) : "memory"); }

// The stage of a pipeline, and the parity of its barriers' phase.
struct Stage {
    int number = 0;
    unsigned parity = 0;
    __device__ __forceinline__ void advance() {
        if (++number < STAGES) return;
        number = 0, parity ^= 1;
    }
};
// The tiles of D that a cluster takes, GROUP of them along M before the next along N, so that those at work at one time share operands in L2.
struct Tiles {
    int rows, columns, at;
    __device__ __forceinline__ Tiles(const Arguments &g) : rows((g.m + TILE_M - 1) / TILE_M), columns((g.n + TILE_N * CLUSTER - 1) / (TILE_N * CLUSTER)), at(blockIdx.x / CLUSTER) {}
    __device__ __forceinline__ bool more() const { return at < rows * columns; }
    __device__ __forceinline__ void advance() { at += gridDim.x / CLUSTER; }
    __device__ __forceinline__ void place(int rank, int &first_m, int &first_n) const {
        const int before = at / (GROUP * columns) * GROUP, within = at % (GROUP * columns), height = rows - before < GROUP ? rows - before : GROUP;
        first_m = (before + within % height) * TILE_M, first_n = (within / height * CLUSTER + rank) * TILE_N;
    }
};

__device__ __forceinline__ void produce(const Arguments &g, const Map &map_a, const Map &map_b, unsigned tiles, unsigned full, unsigned empty, int rank) {
    constexpr int PART = TILE_M / CLUSTER;
    const int a_matrix = g.stride_a ? blockIdx.z : 0, b_matrix = g.stride_b ? blockIdx.z : 0;
    Stage stage;
    for (Tiles t(g); t.more(); t.advance()) {
        int first_m, first_n;
        t.place(rank, first_m, first_n);
        for (int k = 0; k < g.k; k += TILE_K, stage.advance()) {
            const unsigned right = tiles + stage.number * STAGE_BYTES, left = right + RIGHT_BYTES, ready = full + 8 * stage.number;
            wait(empty + 8 * stage.number, stage.parity ^ 1);
            expect(ready, STAGE_BYTES);
            if (RIGHT_ALONG_K) bring_to_all(right + rank * PART * 128, map_a, ready, k, first_m + rank * PART, a_matrix);
            else
                for (int box = rank * PART / BOX_ROWS; box < (rank + 1) * PART / BOX_ROWS; box++)
                    bring_to_all(right + box * BOX_BYTES, map_a, ready, first_m + box * BOX_ROWS, k, a_matrix);
            if (LEFT_ALONG_K) bring(left, map_b, ready, k, first_n, b_matrix);
            else
                for (int box = 0; box < TILE_N / BOX_ROWS; box++) bring(left + box * BOX_BYTES, map_b, ready, first_n + box * BOX_ROWS, k, b_matrix);
        }
    }
}

struct alignas(2 * sizeof(D_TYPE)) Pair { D_TYPE v[2]; };
// D = alpha times a warp's sums: boxes of lines of D are written by TMA, two of them at a time, while the warp goes on.
template <class E> __device__ __forceinline__ void store_boxes(const E &epilogue, const Map &map_d, const SUM (&sums)[SUMS], char *slab, int first_m, int first_n, int lane) {
    constexpr int ROWS = 128 / sizeof(D_TYPE);
#pragma unroll
    for (int box = 0; box < TILE_M / ROWS; box++) {
        char *lines = slab + box % 2 * (SLAB_BYTES / 2);
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
#pragma unroll (ACTIVATIONS ? 1 : 4)
        for (int column = lane / 8; column < 16; column += 4) {
            const Four<SUM> four = *(const Four<SUM> *)(slab + column * SLAB_LINE + lane % 8 * 4);
            SCALE scaled[4] = {(SCALE)four.v[0], (SCALE)four.v[1], (SCALE)four.v[2], (SCALE)four.v[3]};
            epilogue.store4(first_m + part * SLAB_ROWS + lane % 8 * 4, first_n + column, scaled);
        }
    }
}

__device__ __forceinline__ void consume(const Arguments &g, const Map &map_d, unsigned tiles, unsigned full, unsigned empty, char *slabs, int rank, int consumer) {
    const Epilogue<SCALE, C_TYPE, D_TYPE, BIAS_TYPE> epilogue(g);
    const int thread = threadIdx.x % WARPGROUP, warp = thread / 32, lane = thread % 32;
    char *slab = slabs + (consumer * 4 + warp) * SLAB_BYTES;
    // Each warpgroup tells every block of the cluster that it has read a stage, since all of them wrote it.
    auto release = [&](int number) {
        if (thread < CLUSTER) arrive_at(empty + 8 * number, thread);
    };
    Stage stage;
    for (Tiles t(g); t.more(); t.advance()) {
        int first_m, first_n;
        t.place(rank, first_m, first_n);
        SUM sums[SUMS];
        int before = -1;
        for (int k = 0; k < g.k; k += TILE_K, stage.advance()) {
            const unsigned right = tiles + stage.number * STAGE_BYTES;
            const u64 of_right = descriptor<RIGHT_ALONG_K>(right), of_left = descriptor<LEFT_ALONG_K>(right + RIGHT_BYTES + consumer * 64 * 128);
            wait(full + 8 * stage.number, stage.parity);
            begin_products();
#pragma unroll
            for (int step = 0; step < TILE_K / MMA_K; step++) multiply(sums, of_left + step * LEFT_STEP, of_right + step * RIGHT_STEP, k + step > 0);
            end_products();
            wait_for_products<1>();
            if (before >= 0) release(before);
            before = stage.number;
        }
        wait_for_products<0>();
        release(before);
        first_n += consumer * 64 + warp * 16;
        if (PLAIN) store_boxes(epilogue, map_d, sums, slab, first_m, first_n, lane);
        else store_rows(epilogue, sums, (SUM *)slab, first_m, first_n, lane);
    }
    if (PLAIN && lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

extern "C" __global__ void
#if CLUSTER > 1
__cluster_dims__(CLUSTER, 1, 1)
#endif
__launch_bounds__(THREADS, 1) KERNEL(const Arguments g, const __grid_constant__ Map map_a, const __grid_constant__ Map map_b, const __grid_constant__ Map map_d) {
    extern __shared__ uint4 dynamic[];
    __shared__ alignas(8) u64 barriers[2 * STAGES];
    // Swizzled lines repeat after 1,024 bytes.
    char *slabs = (char *)dynamic + (-shared_address(dynamic) & 1023);
    const unsigned tiles = shared_address(slabs) + 4 * CONSUMERS * SLAB_BYTES, full = shared_address(barriers), empty = full + 8 * STAGES;
    const int rank = CLUSTER > 1 ? rank_in_cluster() : 0, warpgroup = threadIdx.x / WARPGROUP;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) make_barrier(full + 8 * stage, 1), make_barrier(empty + 8 * stage, CONSUMERS * CLUSTER);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (CLUSTER > 1) meet_cluster();
    if (warpgroup == CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x % WARPGROUP == 0) produce(g, map_a, map_b, tiles, full, empty, rank);
        __syncwarp();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        consume(g, map_d, tiles, full, empty, slabs, rank, warpgroup);
    }
    // No block ends while another one of its cluster writes to it.
    if (CLUSTER > 1) meet_cluster();
}
