"""Addresses of G80's code, which wrap at 16 and 32 bits: compiled code that takes lanes' addresses as one and offsets does what the interpreter does."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from tests.kernels import case
from warpwright.engine.jit import shapes as sh
from warpwright.engine.jit.codegen import compile_kernel
from warpwright.isa.nv50.lower import lower

SOURCE = """
extern "C" __global__ void rows(float *y, const float *x, int width, int pitch)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column < width) y[row * width + column] = x[row * pitch + column];
}
extern "C" __global__ void far(float *y, const float *x, int n, int lanes)
{
    if ((int)threadIdx.x < lanes) y[threadIdx.x] = x[threadIdx.x + n];
}
extern "C" __global__ void far_shared(float *y, const float *x, int n, int lanes)
{
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if ((int)threadIdx.x < lanes) y[threadIdx.x] = tile[threadIdx.x + n];
}
"""
ENGINES = ("compiled", "interpreter")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("block", [(32, 2), (16, 4), (8, 8), (24, 2), (64, 1)])
def test_rows_of_any_width(block: tuple[int, int], engine: str) -> None:
    x = np.random.default_rng(1).normal(size=(8, 200)).astype(np.float32)
    y = np.zeros((8, 70), np.float32)
    grid = (-(-70 // block[0]), 8 // block[1])
    ww.GPU("g80", timing="off", engine=engine).compile(SOURCE)["rows"][grid, block](y, x, 70, 200)
    np.testing.assert_array_equal(y, x[:, :70])


@pytest.mark.parametrize(("kernel", "turn_bytes"), [("far", 1 << 32), ("far_shared", 1 << 16)])
def test_a_whole_turn_is_the_same_address(kernel: str, turn_bytes: int) -> None:
    x = np.random.default_rng(2).normal(size=64).astype(np.float32)
    for engine in ENGINES:
        y = np.zeros_like(x)
        ww.GPU("g80", timing="off", engine=engine).compile(SOURCE)[kernel][1, 64](y, x, turn_bytes // 4, 64)
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("kernel", ["far", "far_shared"])
@pytest.mark.parametrize("lanes", [64, 5])
@pytest.mark.parametrize("back", [3, 16, 40, 0x3F00])
def test_a_turn_within_a_warp_faults_as_in_the_interpreter(kernel: str, lanes: int, back: int) -> None:
    """Whatever lanes pass the end: the same fault, or the same values."""
    x = np.random.default_rng(3).normal(size=64).astype(np.float32)
    found = []
    for engine in ENGINES:
        gpu = ww.GPU("g80", timing="off", engine=engine)
        y, data = np.zeros_like(x), gpu.array(x)
        turn = (1 << 16 if kernel == "far_shared" else (1 << 32) - (data.device_address() & 0xFFFFFFFF)) // 4
        try:
            gpu.compile(SOURCE)[kernel][1, 64](y, data, turn - back, lanes)
            found.append(("", y.tobytes()))
        except ww.MemoryFaultError as error:
            found.append((str(error), b""))
    assert found[0] == found[1]


def test_a_mask_that_changes_no_lane_keeps_the_shape() -> None:
    lanes = tuple(range(0, 128, 4))
    below = sh.Shape(sh.SCALAR_KIND, lanes, None, 16, 0xFFFF - 124)
    assert sh.bitwise("and", below, sh.constant(0xFFFF), 32) == below
    assert sh.scalar_mask("and", below, sh.constant(0xFFFF)) is None
    above = below._replace(bound=0xFFFF - 123)
    assert sh.bitwise("and", above, sh.constant(0xFFFF), 32) == sh.VECTOR
    assert sh.bitwise("and", below._replace(bound=-1), sh.constant(0xFFFF), 32) == sh.VECTOR


def test_loads_of_a_tiled_matrix_product_are_no_gathers() -> None:
    """Its addresses are a scalar and lanes' offsets: of shared memory, and of a row."""
    one = case("matmul_tiled", "small")
    loaded = ww.GPU("g80", timing="off").compile(one.source, options=one.options)[one.kernel]._loaded
    kernel = compile_kernel(loaded.program, lower(loaded.program), (16, 16, 1), trace=False, use_cache=False)
    assert "masked.gather" not in kernel.ir
