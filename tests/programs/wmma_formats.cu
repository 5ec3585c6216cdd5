// min_arch: 80
// Tensor cores through wmma in every format of sm_80: bfloat16, tf32, bytes, half in other shapes, doubles, bits, nibbles.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

template <int M, int N, int K, typename In, typename Store, typename Acc, typename LA, typename LB>
__device__ void product(Acc *d, const Store *a, const Store *b, const Acc *c, int lda, int ldb) {
    wmma::fragment<wmma::matrix_a, M, N, K, In, LA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, In, LB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, Acc> fc;
    wmma::load_matrix_sync(fa, a, lda);
    wmma::load_matrix_sync(fb, b, ldb);
    wmma::load_matrix_sync(fc, c, N, wmma::mem_row_major);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(d, fc, N, wmma::mem_row_major);
}
typedef wmma::row_major R;
typedef wmma::col_major C;

extern "C" __global__ void wmma_bfloat(float *d, const __nv_bfloat16 *a, const __nv_bfloat16 *b, const float *c) {
    product<16, 16, 16, __nv_bfloat16, __nv_bfloat16, float, R, C>(d, a, b, c, 16, 16);
    product<32, 8, 16, __nv_bfloat16, __nv_bfloat16, float, R, R>(d + 256, a, b, c, 16, 8);
    product<8, 32, 16, __nv_bfloat16, __nv_bfloat16, float, C, C>(d + 512, a, b, c, 8, 16);
}
extern "C" __global__ void wmma_bytes(int *d, const signed char *a, const signed char *b, const int *c) {
    product<16, 16, 16, signed char, signed char, int, R, C>(d, a, b, c, 16, 16);
    product<32, 8, 16, signed char, signed char, int, R, R>(d + 256, a, b, c, 16, 16);
    product<8, 32, 16, unsigned char, unsigned char, int, C, R>(d + 512, (const unsigned char *)a, (const unsigned char *)b, c, 16, 32);
}
extern "C" __global__ void wmma_double(double *d, const double *a, const double *b, const double *c) {
    product<8, 8, 4, double, double, double, R, C>(d, a, b, c, 4, 4);
    product<8, 8, 4, double, double, double, C, R>(d + 64, a, b, c, 8, 8);
}
extern "C" __global__ void wmma_tf32(float *d, const float *a, const float *b, const float *c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
    wmma::load_matrix_sync(fa, a, 8);
    wmma::load_matrix_sync(fb, b, 8);
    wmma::load_matrix_sync(fc, c, 16, wmma::mem_col_major);
    for (int k = 0; k < fa.num_elements; k++) fa.x[k] = wmma::__float_to_tf32(fa.x[k]);
    for (int k = 0; k < fb.num_elements; k++) fb.x[k] = wmma::__float_to_tf32(fb.x[k]);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(d, fc, 16, wmma::mem_col_major);
}
extern "C" __global__ void wmma_bits(int *d, const unsigned *a, const unsigned *b, const int *c) {
    using namespace wmma::experimental;
    wmma::fragment<wmma::matrix_a, 8, 8, 128, precision::b1, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 128, precision::b1, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 128, int> fc;
    wmma::load_matrix_sync(fa, a, 128);
    wmma::load_matrix_sync(fb, b, 128);
    wmma::load_matrix_sync(fc, c, 8, wmma::mem_row_major);
    wmma::bmma_sync(fc, fa, fb, fc, bmmaBitOpXOR);
    wmma::store_matrix_sync(d, fc, 8, wmma::mem_row_major);
    wmma::bmma_sync(fc, fa, fb, fc, bmmaBitOpAND);
    wmma::store_matrix_sync(d + 64, fc, 8, wmma::mem_row_major);
}
