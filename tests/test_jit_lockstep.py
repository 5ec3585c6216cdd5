"""Warps in step: a loop over rows 2 KiB apart hands over to the block's next warp after each iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.jit.codegen import compile_kernel
from warpwright.isa.sass.lower import lower

PITCH, ROWS, WARPS = 512, 48, 6
SOURCE = """
#define ROW(first, count) for (int k = (first); k < (count); k++) sum += a[k * pitch + column] * b[k]
#define BEGIN float sum = 0; int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * 32 + x
#define END out[(blockIdx.x * blockDim.y + y) * 32 + x] = sum + y
#define ARGUMENTS int rows, int pitch, const float *a, const float *b, float *out

// All warps come to the loop and leave it together.
extern "C" __global__ void together(ARGUMENTS) { BEGIN; ROW(0, rows); END; }
// Each warp goes round another number of times, and some not at all.
extern "C" __global__ void apart(ARGUMENTS) { BEGIN; ROW(0, rows * y / 5); END; }
// A warp ends before the others begin, another one in the middle.
extern "C" __global__ void ending(ARGUMENTS) { BEGIN; if (y == 0) return; ROW(0, y == 3 ? 16 : rows); END; }
// The first warps wait at the barrier while the others are in the loop; then the other way round.
extern "C" __global__ void waiting(ARGUMENTS) {
    __shared__ float all[16];
    BEGIN;
    if (y > 1) { ROW(0, rows); }
    if (x == 0) all[y] = sum;
    __syncthreads();
    sum += all[(y + 3) % blockDim.y];
    if (y < 4) { ROW(0, rows - 16); }
    __syncthreads();
    if (x == 0) all[y] = sum;
    __syncthreads();
    sum += all[(y + 2) % blockDim.y];
    END;
}
// Barriers between the loops of all warps.
extern "C" __global__ void rounds(ARGUMENTS) {
    __shared__ float all[16];
    BEGIN;
    for (int i = 0; i < 3; i++) {
        ROW(0, rows);
        if (x == 0) all[y] = sum;
        __syncthreads();
        sum += all[(y + i) % blockDim.y];
        __syncthreads();
    }
    END;
}
"""
KERNELS = ("together", "apart", "ending", "waiting", "rounds")


def results(engine: str, name: str, pitch: int, warps: int) -> tuple[Any, int]:
    """What a kernel writes, and how many warp-instructions it took."""
    gpu = ww.GPU("a100", timing="off", engine=engine)
    generator = np.random.default_rng(1)
    a = generator.random(ROWS * pitch, dtype=np.float32)
    b, out = generator.random(ROWS, dtype=np.float32), np.zeros(3 * 32 * warps, np.float32)
    run = gpu.compile(SOURCE)[name][3, (32, warps)](ROWS, pitch, a, b, out)
    return out, run.metrics["smsp__inst_executed.sum"]


@pytest.mark.ci
@pytest.mark.parametrize("pitch", [PITCH, PITCH + 32])
@pytest.mark.parametrize("name", KERNELS)
def test_both_engines_agree(name: str, pitch: int) -> None:
    ours, made = results("compiled", name, pitch, WARPS)
    theirs, counted = results("interpreter", name, pitch, WARPS)
    np.testing.assert_array_equal(ours, theirs)
    assert made == counted


def test_a_fault_names_the_warp_that_made_it() -> None:
    """The last warp's count leads beyond the array; it is at fault when the first one has handed over to it."""
    gpu = ww.GPU("a100", timing="off")
    a, b, out = np.ones(40 * PITCH, np.float32), np.ones(ROWS, np.float32), np.zeros(32 * WARPS, np.float32)
    with pytest.raises(ww.WarpwrightError, match=r"thread \(0, 5, 0\)"):
        gpu.compile(SOURCE)["apart"][1, (32, WARPS)](ROWS, PITCH, a, b, out)


def compiled(name: str, warps: int, trace: bool = False) -> str:
    program = ww.GPU("a100", timing="off").compile(SOURCE)[name]._loaded.program
    return compile_kernel(program, lower(program), (32, warps, 1), trace=trace, use_cache=False).ir


def test_which_functions_hand_over() -> None:
    """One with several warps and a loop over many rows; the timing model's never."""
    assert "pass_on:" not in compiled("together", 1)
    assert "pass_on:" in compiled("together", WARPS)
    assert "pass_on:" not in compiled("together", WARPS, trace=True)
