"""The workload of the study ``ecc-campaign``: a product of two matrices of 64 x 64 by blocks of 16 x 16 threads."""

from typing import Any

import numpy as np

SOURCE = """
const int TILE = 16;
extern "C" __global__ void product(const float *a, const float *b, float *c, int n)
{
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        left[y][x] = a[row * n + k + x];
        right[y][x] = b[(k + y) * n + column];
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += left[y][i] * right[i][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
"""
SIZE, TILE = 64, 16


def prepare(gpu: Any) -> Any:
    """Place the matrices; the function that is returned multiplies them."""
    random = np.random.default_rng(7)
    a, b = (gpu.array(random.random((SIZE, SIZE), np.float32), name=name) for name in "ab")
    c = gpu.zeros((SIZE, SIZE), np.float32, name="c")
    kernel = gpu.compile(SOURCE)["product"]

    def multiply() -> Any:
        kernel[(SIZE // TILE, SIZE // TILE), (TILE, TILE)](a, b, c, SIZE)
        return c

    return multiply
