"""The least and greatest of three packed halves, one instruction on sm_90 (VHMNMX), against NumPy in both engines."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

pytestmark = pytest.mark.ci
SOURCE = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void extremes(const PAIR *a, const PAIR *b, const PAIR *c, PAIR *least, PAIR *most, PAIR *poisoned)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    least[i] = __hmin2(__hmin2(a[i], b[i]), c[i]);
    most[i] = __hmax2(__hmax2(__hneg2(a[i]), b[i]), __habs2(c[i]));
    poisoned[i] = __hmax2_nan(__hmax2_nan(a[i], b[i]), c[i]);
}
"""


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
@pytest.mark.parametrize("pair", ["__half2", "__nv_bfloat162"])
def test_extremes_of_three(pair: str, engine: str) -> None:
    gpu = ww.GPU("h200", timing="off", engine=engine)
    kernel = gpu.compile(SOURCE, defines={"PAIR": pair})["extremes"]
    assert any(one.opcode == "VHMNMX" for one in kernel._loaded.program.instructions)
    random = np.random.default_rng(1)
    values = random.standard_normal((3, 128)).astype(np.float32)
    values[random.random(values.shape) < 0.1] = np.nan
    values[0, :8], values[1, :8] = 0.0, -0.0
    if pair == "__half2":
        stored = values.astype(np.float16)
        values = stored.astype(np.float32)
    else:
        stored = (values.view(np.uint32) >> 16).astype(np.uint16)
        values = (stored.astype(np.uint32) << 16).view(np.float32)
    found = [np.zeros(128, stored.dtype) for _ in range(3)]
    kernel[1, 64](*(np.ascontiguousarray(row) for row in stored), *found)
    if pair != "__half2":
        found = [(row.astype(np.uint32) << 16).view(np.float32) for row in found]
    a, b, c = values
    np.testing.assert_array_equal(found[0], np.fmin(np.fmin(a, b), c))
    np.testing.assert_array_equal(found[1], np.fmax(np.fmax(-a, b), np.abs(c)))
    np.testing.assert_array_equal(found[2], np.maximum(np.maximum(a, b), c))
