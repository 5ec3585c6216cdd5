"""Compiled code where 32-bit indices pass 2**31: grids of that many threads, and lanes on both sides of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.arguments import pack
from warpwright.engine.constant_bank0 import constant_bank0
from warpwright.engine.jit.codegen import compile_kernel
from warpwright.engine.jit.shape_inference import CodeForm
from warpwright.engine.jit.workspace import Workspace
from warpwright.engine.kernels import compiled_of
from warpwright.engine.launch import make_context

THREADS = 1024
LAST_GRID = (1 << 22) + 1
UNSIGNED = """
extern "C" __global__ void number(unsigned long long *dst, unsigned last) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long wide = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x >= last) { dst[threadIdx.x] = wide; dst[blockDim.x + threadIdx.x] = i / 3 + (i >> 5); }
}
extern "C" __global__ void signed_number(long long *dst, unsigned last) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x >= last) dst[threadIdx.x] = (long long)i - 5;
}
"""


def last_block(kernel: Any, grid: int, *arguments: Any) -> None:
    """Run the last block of a launch that would take days."""
    launcher = kernel[grid, THREADS]
    gpu, program, geometry = kernel.gpu, kernel._loaded.program, launcher.geometry
    packed = pack(kernel.parameters, kernel.name, arguments, gpu.memory)
    bank = constant_bank0(program, geometry, packed.parameters, 0)
    context = make_context(program, geometry, gpu.memory, bank, kernel._loaded.banks, gpu.chip.sm.sm_count)
    code = compiled_of(kernel._loaded, geometry, False)
    space = Workspace(code, program.shared_static_bytes, context["local_bytes_per_thread"])
    assert space.run(context.address, grid - 1, 1).blocks_done == 1


@pytest.mark.parametrize("chip", ["v100", "h200"])
@pytest.mark.parametrize("grid", [LAST_GRID, 1 << 21, (1 << 21) - 1])
def test_grids_of_two_to_the_31_threads(chip: str, grid: int) -> None:
    gpu = ww.GPU(chip, timing="off")
    module = gpu.compile(UNSIGNED)
    first = (grid - 1) * THREADS
    wide = first + np.arange(THREADS, dtype=np.uint64)
    i = wide.astype(np.uint32)
    dst = gpu.array(np.zeros(2 * THREADS, np.uint64))
    last_block(module["number"], grid, dst, np.uint32(grid - 1))
    np.testing.assert_array_equal(dst.numpy(), np.concatenate([wide, i // 3 + (i >> 5)]))
    signed = gpu.array(np.zeros(THREADS, np.int64))
    last_block(module["signed_number"], grid, signed, np.uint32(grid - 1))
    np.testing.assert_array_equal(signed.numpy(), i.view(np.int32).astype(np.int64) - 5)


WRAPS = """
extern "C" __global__ void at(int *dst, int start, int n) {
    int i = start + threadIdx.x;
    if (threadIdx.x < n) dst[i] = threadIdx.x + 1;
}
"""


def test_lanes_that_do_not_execute_may_pass() -> None:
    gpu = ww.GPU("a100", timing="off")
    kernel = gpu.compile(WRAPS)["at"]
    dst = gpu.array(np.zeros(64, np.int32))
    start = (1 << 31) - 8
    # The pointer lies so far below the array that the indices of the executing lanes reach it.
    kernel[1, 32](np.uint64(dst.device_address() - 4 * start), np.int32(start), np.int32(8))
    np.testing.assert_array_equal(dst.numpy(), np.where(np.arange(64) < 8, np.arange(64) + 1, 0))


def test_executing_lanes_that_pass_are_named() -> None:
    gpu = ww.GPU("a100", timing="off")
    kernel = gpu.compile(WRAPS)["at"]
    dst = gpu.array(np.zeros(64, np.int32))
    start = (1 << 31) - 8
    with pytest.raises(ww.UnsupportedError) as caught:
        kernel[1, 32](np.uint64(dst.device_address() - 4 * start), np.int32(start), np.int32(9))
    lines = str(caught.value).splitlines()
    assert lines[0] == "a 32-bit index passes 2**31 between threads of one warp in kernel at"
    assert "thread (8, 0, 0)" in str(caught.value)
    assert lines[-1] == (
        "  compiled code does not follow it: compute the index in 64 bits, or run with "
        "GPU(..., timing='off', engine='interpreter')"
    )
    assert not dst.numpy().any()


def test_code_that_does_not_speculate_follows_them() -> None:
    gpu = ww.GPU("a100", timing="off")
    kernel = gpu.compile(WRAPS)["at"]
    loaded = kernel._loaded
    from warpwright.engine.kernels import lowered_of

    loaded.compiled[32, 1, 1, False, True, False] = compile_kernel(
        loaded.program, lowered_of(loaded), (32, 1, 1), trace=False, form=CodeForm(speculate=False)
    )
    dst = gpu.array(np.zeros(64, np.int32))
    start = (1 << 31) - 8
    with pytest.raises(ww.MemoryFaultError) as caught:
        kernel[1, 32](np.uint64(dst.device_address() - 4 * start), np.int32(start), np.int32(9))
    assert "thread (8, 0, 0)" in str(caught.value)
