"""Traced code of a kernel whose blocks differ in length serves them all, and its launches take the same cycles as with code for their own length."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SOURCE = """
extern "C" __global__ void sums(float* out, const float* in, int n) {
    __shared__ float part[32];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    for (int s = 16; s; s >>= 1) sum += __shfl_down_sync(~0u, sum, s);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 3) sum = part[threadIdx.x] + blockDim.y;
    if (threadIdx.x == 0)
        for (int w = 1; w < blockDim.x / 32; w++) sum += part[w];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
COUNT = 5000


def launched(module: ww.Module, threads: int) -> tuple[ww.Run, np.ndarray]:
    gpu = module.gpu
    out = gpu.array(np.zeros((6, threads), np.float32))
    values = gpu.array(np.arange(COUNT, dtype=np.float32) % 7)
    return module["sums"][6, threads](out, values, COUNT), out.get()


def codes(module: ww.Module) -> dict[int, int]:
    """Addresses of the traced code by the block's length."""
    return {key[0]: code.warp_function for key, code in module["sums"]._loaded.compiled.items() if key[3]}


@pytest.mark.ci
@pytest.mark.parametrize("chip", ["p100", "v100", "h200"])
def test_code_for_any_length_takes_the_same_cycles(chip: str) -> None:
    module = ww.GPU(chip).compile(SOURCE)
    launched(module, 64)
    for threads in (96, 256, 1024):
        run, out = launched(module, threads)
        own = ww.GPU(chip).compile(SOURCE)
        expected, its_out = launched(own, threads)
        assert codes(own)[threads] not in codes(module).values()
        assert (run.cycles, dict(run.metrics)) == (expected.cycles, dict(expected.metrics))
        assert (out == its_out).all()
    made = codes(module)
    assert len({made[96], made[256], made[1024]}) == 1
    assert made[64] != made[96]


@pytest.mark.ci
def test_other_blocks_have_code_of_their_own() -> None:
    module = ww.GPU("v100").compile(SOURCE)
    for threads in (64, 33, 40):
        launched(module, threads)
    assert len(set(codes(module).values())) == 3
    gpu = module.gpu
    out, values = gpu.array(np.zeros((6, 32), np.float32)), gpu.array(np.zeros(COUNT, np.float32))
    module["sums"][3, (32, 2)](out, values, COUNT)
    assert len({code.warp_function for code in module["sums"]._loaded.compiled.values()}) == 4


@pytest.mark.ci
def test_a_long_kernel_has_code_for_any_length_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpwright.engine.kernels.LONG_TO_COMPILE", 1)
    module = ww.GPU("v100").compile(SOURCE)
    for threads in (64, 96):
        launched(module, threads)
    assert len(set(codes(module).values())) == 1
