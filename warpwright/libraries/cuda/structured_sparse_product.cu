// The product on sparse tensor cores of ww.sparsity under the name of a library's kernel.
#define product warpwright_sparse_product
#include "products.cu"
