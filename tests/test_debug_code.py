"""Code compiled for a debugger (-G): functions that are really called, variables on the stack, checks of the stack's end."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SOURCE = r"""
__device__ int last(int x, int y) { int both[2] = {x, y}; return both[x & 1] + y; }
__device__ int middle(int x, int y) { int sum = 0; for (int i = 0; i < y; i++) sum += last(x + i, i); return sum; }
extern "C" __global__ void chain(int *out, int rounds) {
    int own = threadIdx.x;
    out[own] = middle(own, rounds);
}
"""


@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
@pytest.mark.parametrize("engine", [None, "interpreter"])
def test_calls_and_stack_of_debug_code(chip: str, engine: str | None) -> None:
    out = np.zeros(40, np.int32)
    gpu = ww.GPU(chip, timing="off", **({"engine": engine} if engine else {}))
    gpu.compile(SOURCE, options=["-G"])["chain"][1, 40](out, np.int32(5))
    expected = [sum((i if (own + i) & 1 else own + i) + i for i in range(5)) for own in range(40)]
    assert out.tolist() == expected
