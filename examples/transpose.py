"""B = A transposed in three ways: columns written one word at a time, tiles in shared memory, and tiles without bank conflicts.

warpwright run examples/transpose.py --gpu a100        # 512 x 512
warpwright compare g80 gtx480 hd6970 p100 v100 a100 h200 -- examples/transpose.py
"""

import sys

import numpy as np

import warpwright as ww

SOURCE = """
const int TILE = 16;

extern "C" __global__ void transpose_plain(int n, const float *a, float *b)
{
    int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
    b[column * n + row] = a[row * n + column];
}

extern "C" __global__ void transpose_tiled(int n, const float *a, float *b)
{
    __shared__ float tile[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    tile[y][x] = a[(blockIdx.y * TILE + y) * n + blockIdx.x * TILE + x];
    __syncthreads();
    b[(blockIdx.x * TILE + y) * n + blockIdx.y * TILE + x] = tile[x][y];
}

extern "C" __global__ void transpose_padded(int n, const float *a, float *b)
{
    __shared__ float tile[TILE][TILE + 1]; // a column is in as many banks as it has words
    int x = threadIdx.x, y = threadIdx.y;
    tile[y][x] = a[(blockIdx.y * TILE + y) * n + blockIdx.x * TILE + x];
    __syncthreads();
    b[(blockIdx.x * TILE + y) * n + blockIdx.y * TILE + x] = tile[x][y];
}
"""
KERNELS = ("transpose_plain", "transpose_tiled", "transpose_padded")


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    if n < 16 or n % 16:
        sys.exit(f"the size must be a multiple of 16, not {n}")
    a = np.random.default_rng(1).standard_normal((n, n), dtype=np.float32)
    gpu = ww.GPU()
    module = gpu.compile(SOURCE, name="transpose.cu")
    for name in KERNELS:
        b = np.zeros((n, n), dtype=np.float32)
        run = module[name][(n // 16, n // 16), (16, 16)](n, a, b)
        assert np.array_equal(b, a.T), f"{name} is wrong"
        cycles = f", {run.cycles:,} cycles" if run.timed else ""
        print(f"{name} of {n} x {n} on {gpu.name}: correct{cycles}")


if __name__ == "__main__":
    main()
