// Blocks: which SM each lands on and when, the cost of an empty kernel, drain, and which SMs share a GPC.
#include "common.cuh"
extern __shared__ u32 smem[];

extern "C" __global__ void empty() {}
extern "C" __global__ void empty2() {}

// For each block: smid, start and end of its SM's clock, start and end of %globaltimer. `spin` cycles of waiting.
__device__ __forceinline__ void stamped(u64* out, u64 spin) {
    u64 c0 = clk64(), g0 = wall_ns(), c1 = c0;
    while (c1 - c0 < spin) c1 = clk64();
    c1 = clk64();
    u64 g1 = wall_ns();
    if (threadIdx.x == 0) {
        u64* o = out + (u64)blockIdx.x * 5;
        o[0] = smid(); o[1] = c0; o[2] = c1; o[3] = g0; o[4] = g1;
    }
}
extern "C" __global__ void stamp(u64* out, u64 spin) { stamped(out, spin); }
#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(2, 1, 1) stamp_cluster2(u64* out, u64 spin) { stamped(out, spin); }
extern "C" __global__ void __cluster_dims__(4, 1, 1) stamp_cluster4(u64* out, u64 spin) { stamped(out, spin); }
extern "C" __global__ void __cluster_dims__(8, 1, 1) stamp_cluster8(u64* out, u64 spin) { stamped(out, spin); }
#endif
