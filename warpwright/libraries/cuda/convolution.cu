// Convolutions as matrix products whose operands are gathered: forward, gradient of the data, gradient of the filter.
//
// Macros: KERNEL its name; MODE 0, 1, 2 in that order; ELEMENT, SUM; FILTER_D, FILTER_H, FILTER_W; STRIDE_D, STRIDE_H, STRIDE_W.
// Tensors have strides in elements for image, channel, depth, height, width; two spatial dimensions have a depth of 1.
#include "types.cuh"

#define TILE 64
#define TILE_K 16
#define THREADS 256
#define FILTER (FILTER_D * FILTER_H * FILTER_W)

struct Arguments {
    const ELEMENT *x, *w, *y;  // the one that is written is not const
    i64 x_stride[5], w_stride[5], y_stride[5];
    double alpha, beta;
    int images, in[3], out[3], in_channels, out_channels;  // channels of a group
    int padding[3], dilation[3], flipped;
};

struct Place { int d, h, w; };
__device__ __forceinline__ Place position(int at, const int *size) { return {at / (size[1] * size[2]), at / size[2] % size[1], at % size[2]}; }
__device__ __forceinline__ Place tap(int at, int flipped) {
    if (flipped) at = FILTER - 1 - at;
    return {at / (FILTER_H * FILTER_W), at / FILTER_W % FILTER_H, at % FILTER_W};
}
__device__ __forceinline__ i64 offset(const i64 *stride, i64 image, i64 channel, Place p) {
    return image * stride[0] + channel * stride[1] + p.d * stride[2] + p.h * stride[3] + p.w * stride[4];
}
// The input position that an output position sees through a tap.
__device__ __forceinline__ bool input_of(const Arguments &g, Place o, Place r, Place &i) {
    i = {o.d * STRIDE_D - g.padding[0] + r.d * g.dilation[0], o.h * STRIDE_H - g.padding[1] + r.h * g.dilation[1],
         o.w * STRIDE_W - g.padding[2] + r.w * g.dilation[2]};
    return (unsigned)i.d < (unsigned)g.in[0] && (unsigned)i.h < (unsigned)g.in[1] && (unsigned)i.w < (unsigned)g.in[2];
}
__device__ __forceinline__ bool output_of(const Arguments &g, Place i, Place r, Place &o) {
    int d = i.d + g.padding[0] - r.d * g.dilation[0], h = i.h + g.padding[1] - r.h * g.dilation[1], w = i.w + g.padding[2] - r.w * g.dilation[2];
    if (d < 0 || h < 0 || w < 0 || d % STRIDE_D || h % STRIDE_H || w % STRIDE_W) return false;
    o = {d / STRIDE_D, h / STRIDE_H, w / STRIDE_W};
    return o.d < g.out[0] && o.h < g.out[1] && o.w < g.out[2];
}
__device__ __forceinline__ int volume(const int *size) { return size[0] * size[1] * size[2]; }

extern "C" __global__ void __launch_bounds__(THREADS) KERNEL(const Arguments g) {
    __shared__ alignas(16) SUM a_tile[2][TILE_K][TILE + 4], b_tile[2][TILE_K][TILE + 4];
    const int group = blockIdx.z, positions = volume(MODE == 1 ? g.in : g.out);
    const int m_size = MODE == 1 ? g.in_channels : g.out_channels;
    const int n_size = MODE == 2 ? g.in_channels * FILTER : g.images * positions;
    const int k_size = MODE == 0 ? g.in_channels * FILTER : MODE == 1 ? g.out_channels * FILTER : g.images * positions;
    const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE;
    // Forward and data: a thread has one column of the tile; filter: one step of the sum.
    const int a_first = MODE == 2 ? threadIdx.x / TILE_K : threadIdx.x / TILE_K, a_k = threadIdx.x % TILE_K;
    const int b_column = MODE == 2 ? threadIdx.x / TILE_K : threadIdx.x % TILE, b_k = MODE == 2 ? threadIdx.x % TILE_K : threadIdx.x / TILE;
    const int column = first_n + b_column;
    const int image = MODE == 2 ? 0 : column / positions;
    const Place here = position(MODE == 2 ? 0 : column % positions, MODE == 1 ? g.in : g.out);
    SUM a_next[4], b_next[4], sums[4][4] = {};

    auto load = [&](int k0) {
        int sum_image = 0;
        Place there = {0, 0, 0};
        if (MODE == 2) {
            sum_image = (k0 + a_k) / positions;
            there = position((k0 + a_k) % positions, g.out);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            // The operand of rows: the filter, or the output's gradient.
            int row = first_m + a_first + 16 * i, k = k0 + a_k;
            a_next[i] = SUM{};
            if (row < m_size && k < k_size) {
                i64 at;
                if (MODE == 0) at = offset(g.w_stride, group * g.out_channels + row, k / FILTER, tap(k % FILTER, g.flipped));
                if (MODE == 1) at = offset(g.w_stride, group * g.out_channels + k / FILTER, row, tap(k % FILTER, g.flipped));
                if (MODE == 2) at = offset(g.y_stride, sum_image, group * g.out_channels + row, there);
                a_next[i] = To<SUM>::from((MODE == 2 ? g.y : g.w)[at]);
            }
            // The operand of columns: the input, or the output's gradient.
            k = MODE == 2 ? k0 + b_k : k0 + b_k + 4 * i;
            int n = MODE == 2 ? column + 16 * i : column;
            b_next[i] = SUM{};
            if (n >= n_size || k >= k_size) continue;
            Place p;
            if (MODE == 0 && input_of(g, here, tap(k % FILTER, 0), p))
                b_next[i] = To<SUM>::from(g.x[offset(g.x_stride, image, group * g.in_channels + k / FILTER, p)]);
            if (MODE == 1 && output_of(g, here, tap(k % FILTER, 0), p))
                b_next[i] = To<SUM>::from(g.y[offset(g.y_stride, image, group * g.out_channels + k / FILTER, p)]);
            if (MODE == 2 && input_of(g, there, tap(n % FILTER, 0), p))
                b_next[i] = To<SUM>::from(g.x[offset(g.x_stride, sum_image, group * g.in_channels + n / FILTER, p)]);
        }
    };
    const int m_thread = threadIdx.x % 16 * 4, n_thread = threadIdx.x / 16 * 4;
    load(0);
    for (int k = 0, stage = 0; k < k_size; k += TILE_K, stage ^= 1) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a_tile[stage][a_k][a_first + 16 * i] = a_next[i];
            if (MODE == 2) b_tile[stage][b_k][b_column + 16 * i] = b_next[i];
            else b_tile[stage][b_k + 4 * i][b_column] = b_next[i];
        }
        __syncthreads();
        if (k + TILE_K < k_size) load(k + TILE_K);
#pragma unroll 4
        for (int step = 0; step < TILE_K; step++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sums[i][j] = fused(a_tile[stage][step][m_thread + i], b_tile[stage][step][n_thread + j], sums[i][j]);
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        int n = first_n + n_thread + j;
        if (n >= n_size) continue;
        Place p = MODE == 2 ? tap(n % FILTER, g.flipped) : position(n % positions, MODE == 1 ? g.in : g.out);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int m = first_m + m_thread + i;
            if (m >= m_size) continue;
            ELEMENT *place;
            if (MODE == 0) place = (ELEMENT *)g.y + offset(g.y_stride, n / positions, group * g.out_channels + m, p);
            if (MODE == 1) place = (ELEMENT *)g.x + offset(g.x_stride, n / positions, group * g.in_channels + m, p);
            if (MODE == 2) place = (ELEMENT *)g.w + offset(g.w_stride, group * g.out_channels + m, n / FILTER, p);
            SUM value = (SUM)g.alpha * sums[i][j];
            if (g.beta != 0.0) value = fused((SUM)g.beta, To<SUM>::from(*place), value);
            put(place, value);
        }
    }
}
