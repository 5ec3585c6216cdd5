// Tensor cores through wmma: 16x16x16 half products with float and with half accumulators, and a tiled product.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

extern "C" __global__ void wmma_float(float *c, const __half *a, const __half *b, int n) {
    int row = blockIdx.y * 16, column = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(fa, a + row * n + k, n);
        wmma::load_matrix_sync(fb, b + k * n + column, n);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + row * n + column, fc, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_half(__half *d, const __half *a, const __half *b, const __half *c, int n) {
    int row = blockIdx.y * 16, column = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, __half> fc;
    wmma::load_matrix_sync(fc, c + row * n + column, n, wmma::mem_row_major);
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(fa, a + row * n + k, n);
        wmma::load_matrix_sync(fb, b + column * n + k, n);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = __hmul(fc.x[i], __float2half(0.5f));
    wmma::store_matrix_sync(d + row * n + column, fc, n, wmma::mem_row_major);
}

// Four warps share 64x64 tiles of both factors; each makes a 32x32 corner of the result.
extern "C" __global__ void wmma_tiled(float *c, const __half *a, const __half *b, int n) {
    __shared__ __align__(32) __half ta[64][16 + 8], tb[16][64 + 8];
    int warp = threadIdx.x / 32, wy = warp / 2 * 32, wx = warp % 2 * 32;
    int row = blockIdx.y * 64, column = blockIdx.x * 64;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[i][j], 0.0f);
    for (int k = 0; k < n; k += 16) {
        int t = threadIdx.x;
        *(uint4 *)&ta[t / 2][t % 2 * 8] = *(const uint4 *)&a[(row + t / 2) * n + k + t % 2 * 8];
        *(uint4 *)&tb[t / 8][t % 8 * 8] = *(const uint4 *)&b[(k + t / 8) * n + column + t % 8 * 8];
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa[2];
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb[2];
        for (int i = 0; i < 2; ++i) {
            wmma::load_matrix_sync(fa[i], &ta[wy + 16 * i][0], 24);
            wmma::load_matrix_sync(fb[i], &tb[0][wx + 16 * i], 72);
        }
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            wmma::store_matrix_sync(c + (row + wy + 16 * i) * n + column + wx + 16 * j, acc[i][j], n,
                                    wmma::mem_row_major);
}
