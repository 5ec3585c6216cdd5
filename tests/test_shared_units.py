"""Shared memory is given in whole units: what lies behind the requested bytes is there on a card, and memcheck's business."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SOURCE = """
extern "C" __global__ void take(unsigned *out, int index) {
    extern __shared__ unsigned s[];
    for (int i = threadIdx.x; i < 7; i += blockDim.x) s[i] = i;
    __syncthreads();
    out[0] = s[index];
}
"""


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
@pytest.mark.parametrize(("chip", "unit"), [("v100", 256), ("a100", 128)])
def test_a_block_reaches_the_end_of_its_last_unit(chip: str, unit: int, engine: str) -> None:
    kernel = ww.GPU(chip, timing="off", engine=engine).compile(SOURCE)["take"]
    out = np.zeros(1, np.uint32)
    kernel[1, 32, 28](out, 6)
    assert out[0] == 6
    kernel[1, 32, 28](out, unit // 4 - 1)
    with pytest.raises(ww.MemoryFaultError) as raised:
        kernel[1, 32, 28](out, unit // 4)
    assert f"byte {unit} of shared memory" in str(raised.value)
    assert str(raised.value).endswith("the block has 28 bytes of shared memory (28 dynamic)")


def test_memcheck_knows_the_bytes_that_were_asked_for() -> None:
    gpu = ww.GPU("a100", timing="off", check="memcheck")
    kernel = gpu.compile(SOURCE)["take"]
    with pytest.raises(ww.MemoryFaultError, match="byte 28 of shared memory"):
        kernel[1, 32, 28](np.zeros(1, np.uint32), 7)
