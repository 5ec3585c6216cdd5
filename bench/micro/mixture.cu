// Reads and writes side by side on cold or warm lines; each thread does one element, as ordinary kernels do.
#include "common.cuh"

// Zero `n16` 16-byte words elsewhere, so that what is measured next finds nothing of its own in L2.
extern "C" __global__ void sweep(uint4* p, u64 n16) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n16; i += (u64)gridDim.x * blockDim.x) {
        uint4 v = p[i];
        if (v.x == 0x12345678) p[i] = v;
    }
}
extern "C" __global__ void read16(u32* out, const uint4* src, uint4* dst, const u32* index, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && src[i].x == 0x12345678) out[SINK] = i;
}
extern "C" __global__ void read4(u32* out, const u32* src, u32* dst, const u32* index, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && src[i] == 0x12345678) out[SINK] = i;
}
extern "C" __global__ void write16(u32* out, const uint4* src, uint4* dst, const u32* index, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = make_uint4(i, i, i, i);
}
extern "C" __global__ void write4(u32* out, const u32* src, u32* dst, const u32* index, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = i;
}
extern "C" __global__ void copy16(u32* out, const uint4* src, uint4* dst, const u32* index, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = src[i];
}
extern "C" __global__ void copy4(u32* out, const u32* src, u32* dst, const u32* index, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = src[i];
}
extern "C" __global__ void read_two(u32* out, const u32* src, u32* dst, const u32* index, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && src[i] + dst[i] == 0x12345678) out[SINK] = i;
}
extern "C" __global__ void scatter_word(u32* out, const u32* src, u32* dst, const u32* index, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[(i * 2654435761u) & (n - 1)] = i;
}
extern "C" __global__ void scatter_sector(u32* out, const u32* src, u32* dst, const u32* index, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[(((i >> 3) * 2654435761u) & ((n >> 3) - 1)) * 8 + (i & 7)] = i;
}
extern "C" __global__ void gather_word(u32* out, const u32* src, u32* dst, const u32* index, u32 n) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && src[(i * 2654435761u) & (n - 1)] == 0x12345678) out[SINK] = i;
}
