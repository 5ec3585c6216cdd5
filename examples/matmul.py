"""C = A B in three ways: one thread per element, tiles in shared memory, and tensor cores.

warpwright run examples/matmul.py --gpu a100          # 128 x 128
warpwright run examples/matmul.py --gpu a100 256
"""

import sys

import numpy as np

import warpwright as ww

SOURCE = """
#include <cuda_fp16.h>
#include <mma.h>

extern "C" __global__ void matmul_naive(int n, const float *a, const float *b, float *c)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

const int TILE = 16;

extern "C" __global__ void matmul_shared(int n, const float *a, const float *b, float *c)
{
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
    float sum = 0.0f;
    for (int first = 0; first < n; first += TILE) {
        tile_a[y][x] = a[row * n + first + x];
        tile_b[y][x] = b[(first + y) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; ++k)
            sum += tile_a[y][k] * tile_b[k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

#if __CUDA_ARCH__ >= 700 // the first chips with tensor cores
// One warp computes one 16 x 16 tile of C.
extern "C" __global__ void matmul_tensor(int n, const half *a, const half *b, float *c)
{
    using namespace nvcuda::wmma;
    int tile_column = blockIdx.x * 16, tile_row = blockIdx.y * 16;
    fragment<matrix_a, 16, 16, 16, half, row_major> fa;
    fragment<matrix_b, 16, 16, 16, half, row_major> fb;
    fragment<accumulator, 16, 16, 16, float> fc;
    fill_fragment(fc, 0.0f);
    for (int k = 0; k < n; k += 16) {
        load_matrix_sync(fa, a + tile_row * n + k, n);
        load_matrix_sync(fb, b + k * n + tile_column, n);
        mma_sync(fc, fa, fb, fc);
    }
    store_matrix_sync(c + tile_row * n + tile_column, fc, n, mem_row_major);
}
#endif
"""


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 128
    if n < 16 or n % 16:
        sys.exit(f"the size must be a multiple of 16, not {n}")
    rng = np.random.default_rng(1)
    a = rng.standard_normal((n, n), dtype=np.float32)
    b = rng.standard_normal((n, n), dtype=np.float32)

    gpu = ww.GPU()
    module = gpu.compile(SOURCE, name="matmul.cu")
    tiles = n // 16
    for name, block in (("matmul_naive", (16, 16)), ("matmul_shared", (16, 16)), ("matmul_tensor", 32)):
        half = name == "matmul_tensor"
        if half and not gpu.chip.pipes.tensor_fp16_fma_per_clk:
            print(f"{name}: {gpu.name} has no tensor cores; v100, a100 and h200 have them")
            continue
        left, right = (a.astype(np.float16), b.astype(np.float16)) if half else (a, b)
        c = np.zeros((n, n), dtype=np.float32)
        run = module[name][(tiles, tiles), block](n, left, right, c)
        expected = left.astype(np.float64) @ right.astype(np.float64)
        error = np.abs(c - expected).max()
        assert error < 1e-3, f"{name} is wrong by {error}"
        cycles = f", {run.cycles:,} cycles" if run.timed else ""
        print(f"{name} of {n} x {n} on {gpu.name}: correct (largest error {error:.1e}){cycles}")


if __name__ == "__main__":
    main()
