// What products by wgmma share: barriers, copies by TMA to the blocks of a cluster, the stages of their pipeline, a thread's sums as operands.
//
// Macros: SUMS 64 or 128, the sums of a thread; AS_SUM their constraint in inline assembly; CLUSTER, the blocks of a cluster; STAGES of tiles in shared memory; GROUP, the tiles
// along M that are taken before the next ones along N.
#pragma once

typedef unsigned long long u64;
constexpr int WARPGROUP = 128;
struct alignas(64) Map { u64 words[16]; };

__device__ __forceinline__ unsigned shared_address(const void *place) { return (unsigned)__cvta_generic_to_shared(place); }
__device__ __forceinline__ void make_barrier(unsigned place, int arrivals) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(place), "r"(arrivals) : "memory"); }
__device__ __forceinline__ void expect(unsigned place, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(place), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait(unsigned place, unsigned parity) {
    asm volatile("{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared.b64 done, [%0], %1; @!done bra AGAIN; }" ::"r"(place), "r"(parity) : "memory");
}
// Arrives at a barrier of a block of the cluster when this warpgroup's products have read a stage, whose next tile TMA then writes there. Nothing that threads wrote has to be visible
// after it, so the arrival is relaxed: with release at cluster scope, compilers emit MEMBAR.ALL.GPU, which takes about as long as all products of a stage.
__device__ __forceinline__ void arrive_at(unsigned place, unsigned block) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there]; }" ::"r"(place), "r"(block) : "memory");
}
// All threads of the cluster meet; barriers that were made before are visible after it (fence.mbarrier_init), other writes are not.
__device__ __forceinline__ void meet_cluster() { asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ __forceinline__ unsigned rank_in_cluster() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
// Has a tensor map, which is a kernel's argument, in the cache of TMA before its first use.
__device__ __forceinline__ void fetch_map(const Map &map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }
#define BOX "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
__device__ __forceinline__ void bring(unsigned to, const Map &map, unsigned barrier, int along, int line, int matrix) {
    asm volatile(BOX " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to), "l"(&map), "r"(barrier), "r"(along), "r"(line), "r"(matrix) : "memory");
}
// The same, to this place in the blocks of the cluster that a mask has.
__device__ __forceinline__ void bring_to(unsigned short blocks, unsigned to, const Map &map, unsigned barrier, int along, int line, int matrix) {
    asm volatile(BOX ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;"
                 ::"r"(to), "l"(&map), "r"(barrier), "r"(along), "r"(line), "r"(matrix), "h"(blocks) : "memory");
}

#define C4(i) AS_SUM(c[i]), AS_SUM(c[i + 1]), AS_SUM(c[i + 2]), AS_SUM(c[i + 3])
#define C16(i) C4(i), C4(i + 4), C4(i + 8), C4(i + 12)
#define C64(i) C16(i), C16(i + 16), C16(i + 32), C16(i + 48)
#define FIRST_64 \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
    "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#if SUMS == 128
#define LIST_OF_SUMS \
    FIRST_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95," \
    "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define ALL_SUMS C64(0), C64(64)
#elif SUMS == 96
#define LIST_OF_SUMS FIRST_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define ALL_SUMS C64(0), C16(64), C16(80)
#else
#define LIST_OF_SUMS FIRST_64
#define ALL_SUMS C64(0)
#endif
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
// A block's shared memory must outlive the other blocks' arrivals in it: those of the last use of each stage, at barriers that begin at `empty`. `stage` follows the last one brought.
__device__ __forceinline__ void await_last_arrivals(unsigned empty, Stage stage) {
    if (CLUSTER == 1) return;
    for (int last = 0; last < STAGES; last++, stage.advance()) wait(empty + 8 * stage.number, stage.parity ^ 1);
}

// The tiles of D, ROWS by COLUMNS, that a cluster takes: GROUP of them along M before the next along N, so that those at work at one time share operands in L2.
template <int ROWS, int COLUMNS> struct Tiles {
    int rows, columns, at;
    __device__ __forceinline__ Tiles(int m, int n) : rows((m + ROWS - 1) / ROWS), columns((n + COLUMNS - 1) / COLUMNS), at(blockIdx.x / CLUSTER) {}
    __device__ __forceinline__ bool more() const { return at < rows * columns; }
    __device__ __forceinline__ void advance() { at += gridDim.x / CLUSTER; }
    __device__ __forceinline__ void place(int &first_m, int &first_n) const {
        const int before = at / (GROUP * columns) * GROUP, within = at % (GROUP * columns), height = rows - before < GROUP ? rows - before : GROUP;
        first_m = (before + within % height) * ROWS, first_n = within / height * COLUMNS;
    }
};
