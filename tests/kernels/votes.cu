// Warp votes, ballots, matches and every kind of shuffle, converged and within halves of a diverged warp.
extern "C" __global__ void warp_votes(unsigned *dst, const int *src) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x & 31, value = src[i];
    unsigned all = __all_sync(0xffffffffu, value > -40), any = __any_sync(0xffffffffu, value > 45);
    unsigned vote = __ballot_sync(0xffffffffu, value & 1), half;
    if (lane & 1)
        half = __ballot_sync(0xaaaaaaaau, value > 0);
    else
        half = __ballot_sync(0x55555555u, value < 0);
    __syncwarp();
    dst[4 * i] = all;
    dst[4 * i + 1] = any;
    dst[4 * i + 2] = vote;
    dst[4 * i + 3] = half;
}

extern "C" __global__ void warp_match(unsigned *dst, const int *narrow, const long long *wide) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, same = 0;
    dst[4 * i] = __match_any_sync(0xffffffffu, narrow[i]);
    dst[4 * i + 1] = __match_any_sync(0xffffffffu, wide[i]);
    dst[4 * i + 2] = __match_all_sync(0xffffffffu, narrow[i] >> 2, &same);
    dst[4 * i + 3] = same;
}

extern "C" __global__ void warp_shuffles(int *dst, const int *src, const int *from, const double *wide_src,
                                         double *wide_dst) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, value = src[i];
    dst[5 * i] = __shfl_sync(0xffffffffu, value, from[i]);
    dst[5 * i + 1] = __shfl_sync(0xffffffffu, value, from[i], 8);
    dst[5 * i + 2] = __shfl_up_sync(0xffffffffu, value, 3, 16);
    dst[5 * i + 3] = __shfl_down_sync(0xffffffffu, value, 5);
    dst[5 * i + 4] = __shfl_xor_sync(0xffffffffu, value, 9, 16);
    wide_dst[i] = __shfl_sync(0xffffffffu, wide_src[i], 31 - (threadIdx.x & 31));
}
