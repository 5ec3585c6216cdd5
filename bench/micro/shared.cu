// Shared memory: LDS chases by width, access patterns from a table of lane offsets, STS, ATOMS, LDSM, distributed chase.
#include "common.cuh"
extern __shared__ __align__(128) unsigned char smem[];

__device__ __forceinline__ u32 smem_base() { return (u32)__cvta_generic_to_shared(smem); }

template <class F>
__device__ __forceinline__ void timed(u32* out, int n, F body) {
    u32 t0, t1;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll
            for (int u = 0; u < 16; u++) body(u);
        }
        __syncthreads();
        t1 = clk();
    }
    report(out, t0, t1);
}

// Every word of the chased region holds the region's own address (SELF: its own, so that lanes may differ): each load feeds the next one's address.
#define CHASE(NAME, ASM) CHASE_OF(NAME, ASM, 0)
#define SELF_CHASE(NAME, ASM) CHASE_OF(NAME, ASM, 1)
#define CHASE_OF(NAME, ASM, SELF)                                                              \
    extern "C" __global__ void NAME(u32* out, const u32* off, int n) {                 \
        u32 base = smem_base(), p = base + off[lane()];                               \
        for (u32 i = threadIdx.x; i < 1024; i += blockDim.x)                          \
            ((u32*)smem)[i] = SELF ? base + i * 4 : base + off[lane()];               \
        timed(out, n, [&](int) { asm volatile(ASM : "+r"(p)::"memory"); });           \
        out[SINK + threadIdx.x] = p;                                                  \
    }
CHASE(lds32_chase, "ld.shared.u32 %0, [%0];")
SELF_CHASE(lds32_self, "ld.shared.u32 %0, [%0];")
SELF_CHASE(atoms_self, "{.reg .b32 t; atom.shared.or.b32 %0, [%0], 0;}")
SELF_CHASE(atoms_cas_self, "atom.shared.cas.b32 %0, [%0], 1, 2;")
CHASE(lds64_chase, "{.reg .b32 t; ld.shared.v2.u32 {%0, t}, [%0]; or.b32 %0, %0, t;}")
CHASE(lds128_chase, "{.reg .b32 t, u, v; ld.shared.v4.u32 {%0, t, u, v}, [%0]; or.b32 t, t, u; lop3.b32 %0, %0, t, v, 0xfe;}")
CHASE(atoms_add_chase, "{.reg .b32 t; atom.shared.or.b32 %0, [%0], 0;}")
CHASE(atoms_cas_chase, "atom.shared.cas.b32 %0, [%0], 1, 2;")
#if __CUDA_ARCH__ >= 750
CHASE(ldsm1_chase, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%0];")
CHASE(ldsm4_chase, "{.reg .b32 t, u, v; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, t, u, v}, [%0]; or.b32 t, t, u; lop3.b32 %0, %0, t, v, 0xfe;}")
#endif

// Throughput of one access pattern: lane l of every warp touches smem + off[l], 16 times at fixed steps of STEP bytes.
#define LOAD(NAME, ASM, STEP)                                                         \
    extern "C" __global__ void NAME(u32* out, const u32* off, int n) {                 \
        u32 p = smem_base() + off[lane()], acc = 0, zero = off[32];                   \
        for (u32 i = threadIdx.x; i < 8192; i += blockDim.x) ((u32*)smem)[i] = 0;      \
        timed(out, n, [&](int u) {                                                    \
            if (u == 0) p += zero; /* 0, but ptxas may not hoist the accesses */      \
            u32 x, y = 0, z = 0, w = 0;                                               \
            asm volatile(ASM : "=r"(x), "+r"(y), "+r"(z), "+r"(w) : "r"(p), "n"(0), "r"(p + u * STEP) : "memory"); \
            acc ^= x ^ y ^ z ^ w;                                                     \
        });                                                                           \
        out[SINK + threadIdx.x] = acc;                                                \
    }
LOAD(lds32, "ld.shared.u32 %0, [%6];", 1024)
LOAD(lds64, "ld.shared.v2.u32 {%0, %1}, [%6];", 1024)
LOAD(lds128, "ld.shared.v4.u32 {%0, %1, %2, %3}, [%6];", 1024)
LOAD(lds8, "ld.shared.u8 %0, [%6];", 1024)
LOAD(sts32, "st.shared.u32 [%6], %4; mov.u32 %0, 0;", 1024)
LOAD(sts64, "st.shared.v2.u32 [%6], {%4, %4}; mov.u32 %0, 0;", 1024)
LOAD(sts128, "st.shared.v4.u32 [%6], {%4, %4, %4, %4}; mov.u32 %0, 0;", 1024)
LOAD(atoms_add, "atom.shared.add.u32 %0, [%6], %4;", 1024)
LOAD(atoms_red, "red.shared.add.u32 [%6], %4; mov.u32 %0, 0;", 1024)
LOAD(atoms_count, "{.reg .u32 one; mov.u32 one, 1; red.shared.add.u32 [%6], one;} mov.u32 %0, 0;", 1024)
LOAD(atoms_max, "atom.shared.max.u32 %0, [%6], %4;", 1024)
LOAD(atoms_exch, "atom.shared.exch.b32 %0, [%6], %4;", 1024)
LOAD(atoms_cas, "atom.shared.cas.b32 %0, [%6], %4, 5;", 1024)
LOAD(atoms_fadd, "red.shared.add.f32 [%6], 0f3f800000; mov.u32 %0, 0;", 1024)
#if __CUDA_ARCH__ >= 750
LOAD(ldsm1, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%6];", 1024)
LOAD(ldsm2, "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%6];", 1024)
LOAD(ldsm4, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%6];", 1024)
#endif

#if __CUDA_ARCH__ >= 900
// Chase in the shared memory of the other block of a cluster of two.
extern "C" __global__ void __cluster_dims__(2, 1, 1) dsmem_chase(u32* out, const u32* off, int n) {
    u32 mine, peer, rank, p;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    mine = smem_base();
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(mine), "r"(rank ^ 1));
    u32 me;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(me) : "r"(mine), "r"(rank));
    for (u32 i = threadIdx.x; i < 1024; i += blockDim.x) ((u32*)smem)[i] = me;
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    p = peer;
    if (rank == 0) timed(out, n, [&](int) { asm volatile("ld.shared::cluster.u32 %0, [%0];" : "+r"(p)::"memory"); });
    out[SINK + blockIdx.x * blockDim.x + threadIdx.x] = p;
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
#endif
