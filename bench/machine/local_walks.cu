// Loads and stores of a per-thread array in local memory: the same element in all lanes of a warp, or a random one in each.
#include "memory_kernels.cuh"

constexpr u32 ELEMENTS = 24;
enum Kind { STORES, STORES_APART, COPIES, COPIES_APART, SWAPS_APART };

__device__ __forceinline__ u32 element(u32 word) {
    return __umulhi(word, ELEMENTS);
}

// out: for each warp, the cycles of its turns.
template <int KIND> __device__ __forceinline__ void walk(u32* out, u32* arrived, u32 turns, u32 target) {
    u32 values[ELEMENTS];
#pragma unroll 1
    for (u32 k = 0; k < ELEMENTS; k++) values[k] = k * turns;
    constexpr bool apart = KIND == STORES_APART || KIND == COPIES_APART || KIND == SWAPS_APART;
    u32 state = mixed(apart ? blockIdx.x * blockDim.x + threadIdx.x : blockIdx.x * 32 + threadIdx.x / 32), sum = 0;
    begin_together(arrived, target);
    u32 begin = now();
#pragma unroll 1
    for (u32 i = 0; i < turns; i++) {
        state = state * 1664525u + 1013904223u;
        u32 from = element(state), to = element(state * 0x85ebca6bu);
        if (KIND == STORES || KIND == STORES_APART) values[to] = state;
        if (KIND == COPIES || KIND == COPIES_APART) values[to] = values[from] + 1;
        if (KIND == SWAPS_APART) {
            u32 kept = values[from];
            values[from] = values[to];
            values[to] = kept;
        }
    }
    u32 taken = now() - begin;
#pragma unroll 1
    for (u32 k = 0; k < ELEMENTS; k++) sum = sum * 3 + values[k];
    if (sum == 0x9e3779b9) taken = sum;
    if ((threadIdx.x & 31) == 0) out[blockIdx.x * 32 + threadIdx.x / 32] = taken;
}

#define WALK(name, kind)                                                                                           \
    extern "C" __global__ void name(u32* out, u32* arrived, u32 turns, u32 target) { \
        walk<kind>(out, arrived, turns, target);                                                                   \
    }
WALK(stores, STORES)
WALK(stores_apart, STORES_APART)
WALK(copies, COPIES)
WALK(copies_apart, COPIES_APART)
WALK(swaps_apart, SWAPS_APART)

// Each lane stores successive bytes to its own place, `pitch` bytes from its neighbour's.
template <typename T> __device__ __forceinline__ void bytes_of(u32* out, u32* arrived, char* data, u32 turns, u32 pitch, u32 target) {
    char* to = data + (size_t)(blockIdx.x * blockDim.x + threadIdx.x) * pitch;
    begin_together(arrived, target);
    u32 begin = now();
#pragma unroll 1
    for (u32 i = 0; i < turns; i++) *(volatile T*)(to + i * sizeof(T)) = (T)(i + begin);
    __threadfence();
    u32 taken = now() - begin;
    if ((threadIdx.x & 31) == 0) out[blockIdx.x * 32 + threadIdx.x / 32] = taken;
}
extern "C" __global__ void lane_bytes(u32* out, u32* arrived, char* data, u32 turns, u32 pitch, u32 target) {
    bytes_of<unsigned char>(out, arrived, data, turns, pitch, target);
}
extern "C" __global__ void lane_words(u32* out, u32* arrived, char* data, u32 turns, u32 pitch, u32 target) {
    bytes_of<u32>(out, arrived, data, turns, pitch, target);
}
