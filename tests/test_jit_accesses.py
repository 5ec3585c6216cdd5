"""Checks that several accesses share, or that are proven when compiling, find the same faults as single ones."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SOURCE = """
extern "C" __global__ void three(int n, int last, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = x[i] + x[i + 32];
    if (i + 64 < last) sum += x[i + 64];
    y[i] = sum;
}

extern "C" __global__ void rows(const float *x, float *y, int beyond) {
    __shared__ float tile[16][17];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * 16 + threadIdx.x];
    __syncthreads();
    y[threadIdx.y * 16 + threadIdx.x] = tile[threadIdx.x][threadIdx.y] + tile[threadIdx.y + beyond][3];
}
"""


def test_loads_from_one_base_at_an_arrays_end() -> None:
    gpu = ww.GPU("h200", timing="off")
    kernel = gpu.compile(SOURCE)["three"]
    x = np.arange(160, dtype=np.float32)
    y = np.zeros(128, dtype=np.float32)
    kernel[1, 128](128, 160, x, y)
    expected = x[:128] + x[32:160]
    expected[:96] += x[64:160]
    assert np.array_equal(y, expected)


def test_a_load_beyond_an_array_faults_though_its_neighbours_do_not() -> None:
    gpu = ww.GPU("h200", timing="off")
    kernel = gpu.compile(SOURCE)["three"]
    x = np.zeros(160, dtype=np.float32)
    y = np.zeros(128, dtype=np.float32)
    with pytest.raises(ww.WarpwrightError, match="thread"):
        kernel[1, 128](128, 161, x, y)


def test_rows_of_static_shared_memory_and_a_row_beyond_it() -> None:
    gpu = ww.GPU("h200", timing="off")
    kernel = gpu.compile(SOURCE)["rows"]
    x = np.arange(256, dtype=np.float32)
    y = np.zeros(256, dtype=np.float32)
    kernel[1, (16, 16)](x, y, 0)
    tile = x.reshape(16, 16)
    assert np.array_equal(y.reshape(16, 16), tile.T + tile[:, 3:4])
    with pytest.raises(ww.WarpwrightError, match="shared"):
        kernel[1, (16, 16)](x, y, 1000)
