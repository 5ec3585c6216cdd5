// min_arch: 80
// Reductions by the warp in one instruction (sm_80), over full and partial masks.

extern "C" __global__ void reduce_sync(unsigned *dst, const unsigned *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = src[i];
    dst[i] = __reduce_add_sync(~0u, x);
    dst[n + i] = __reduce_min_sync(~0u, x);
    dst[2 * n + i] = __reduce_max_sync(~0u, x);
    dst[3 * n + i] = __reduce_min_sync(~0u, (int)x);
    dst[4 * n + i] = __reduce_max_sync(~0u, (int)x);
    dst[5 * n + i] = __reduce_and_sync(~0u, x | 0xFF00FF);
    dst[6 * n + i] = __reduce_or_sync(~0u, x & 0xFF0F);
    dst[7 * n + i] = __reduce_xor_sync(~0u, x);
    unsigned mask = __ballot_sync(~0u, x & 1);
    if (x & 1)
        dst[8 * n + i] = __reduce_add_sync(mask, x) + __reduce_max_sync(mask, (int)x);
    else
        dst[8 * n + i] = __reduce_xor_sync(~mask, x);
}
