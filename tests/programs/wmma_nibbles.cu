// min_arch: 80
// Tensor cores on four-bit integers through wmma's experimental precision.
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_nibbles(int *d, const unsigned *a, const unsigned *b, const int *c) {
    using namespace wmma::experimental;
    wmma::fragment<wmma::matrix_a, 8, 8, 32, precision::s4, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 32, precision::s4, wmma::col_major> fb;
    wmma::fragment<wmma::matrix_a, 8, 8, 32, precision::u4, wmma::row_major> ua;
    wmma::fragment<wmma::matrix_b, 8, 8, 32, precision::u4, wmma::col_major> ub;
    wmma::fragment<wmma::accumulator, 8, 8, 32, int> fc;
    wmma::load_matrix_sync(fa, a, 32);
    wmma::load_matrix_sync(fb, b, 32);
    wmma::load_matrix_sync(fc, c, 8, wmma::mem_row_major);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(d, fc, 8, wmma::mem_row_major);
    wmma::load_matrix_sync(ua, a, 32);
    wmma::load_matrix_sync(ub, b, 32);
    wmma::mma_sync(fc, ua, ub, fc);
    wmma::store_matrix_sync(d + 64, fc, 8, wmma::mem_row_major);
}
