"""Kernels compiled without their slow paths: warps that need one go on in the whole function, with the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.test_jit import Prepared
from warpwright.engine.abi import Status
from warpwright.engine.compiled_launch import CompiledExecution
from warpwright.engine.jit import codegen as jit
from warpwright.engine.jit.workspace import Workspace

SOURCE = """
extern "C" __global__ void divide(int n, const float *x, const float *y, float *z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] / y[i];
}
extern "C" __global__ void rounds(int n, const float *x, float *y, const unsigned long long *k, unsigned long long *r) {
    // Sums through shared memory, so that warps with and without slow paths meet at barriers between them.
    __shared__ float all[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    float sum = 0;
    unsigned long long left = k[i];
    for (int j = 0; j < n; j++) {
        float v = x[(i + 64 * j) % (64 * gridDim.x)];
        if (t & 1 && j & 1) v = v / (float)(t - 20) + sqrtf(v);
        all[t] = 1.0f / v;
        __syncthreads();
        sum = all[63 - t] / (sum + 3.0f);
        __syncthreads();
        left = left / (unsigned)(j + 2) + (left % (k[(i + j) % 64] | 1)) * 5;
    }
    y[i] = sum;
    r[i] = left;
}
"""
ODD = np.array([0.0, 1e-42, -1e-39, 3e38, np.inf, np.nan, 1e-30, 5.5], np.float32)


def values(count: int, odd: Any) -> Any:
    """Ordinary numbers, and odd ones where ``odd`` says."""
    generator = np.random.default_rng(7)
    ordinary = generator.uniform(0.5, 8, count).astype(np.float32)
    return np.where(odd, generator.choice(ODD, count), ordinary).astype(np.float32)


ODD_LANES = {
    "none": lambda n: np.zeros(n, bool),
    "one lane": lambda n: np.arange(n) == n // 2 + 5,
    "some warps": lambda n: np.arange(n) // 32 % 3 == 1,
    "half": lambda n: np.arange(n) % 2 == 0,
    "all": lambda n: np.ones(n, bool),
}


@pytest.fixture(scope="module", params=[pytest.param("v100", marks=pytest.mark.ci), "h200"])
def built(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    gpu = ww.GPU(request.param, timing="off")
    return gpu, gpu.compile(SOURCE)


@pytest.mark.parametrize("odd", ODD_LANES)
def test_division_has_ieee_bits(built: tuple[Any, Any], odd: str) -> None:
    _, module = built
    n = 500
    where = ODD_LANES[odd](n)
    x, y, z = values(n, where), values(n, np.roll(where, 1)), np.zeros(n, np.float32)
    module["divide"][4, 128](n, x, y, z)
    with np.errstate(all="ignore"):
        expected = x / y
    number = ~np.isnan(expected)
    assert np.array_equal(z[number].view(np.uint32), expected[number].view(np.uint32))
    assert np.all(np.isnan(z[~number]))


@pytest.mark.ci
@pytest.mark.parametrize("odd", ODD_LANES)
def test_slow_paths_between_barriers(built: tuple[Any, Any], odd: str) -> None:
    gpu, module = built
    blocks = 3
    x = gpu.array(values(64 * blocks, ODD_LANES[odd](64 * blocks)))
    generator = np.random.default_rng(1)
    k = generator.integers(0, 1 << 63, 64 * blocks, dtype=np.uint64)
    k[::2] &= np.uint64(0xFFFF)
    keys = gpu.array(k)
    results = []
    for engine in ("compiled", "interpreted"):
        y = gpu.array(np.zeros(64 * blocks, np.float32))
        r = gpu.array(np.zeros(64 * blocks, np.uint64))
        p = Prepared(gpu, module, "rounds", blocks, 64, [5, x, y, keys, r])
        outcome = getattr(p, engine)()
        assert outcome.status is Status.EXIT
        results.append((y.numpy().view(np.uint32), r.numpy()))
    for ours, reference in zip(*results, strict=True):
        assert np.array_equal(ours, reference)


def kernel_for(gpu: Any, module: Any, x: Any) -> tuple[Any, Any, Any]:
    y, z = gpu.array(np.full(64, 3, np.float32)), gpu.array(np.zeros(64, np.float32))
    p = Prepared(gpu, module, "divide", 2, 32, [64, x, y, z])
    return p, jit.compile_kernel(p.program, p.lowered, (32, 1, 1), trace=False, use_cache=False), (x, y, z)


def test_the_whole_function_is_compiled_when_a_warp_needs_it(built: tuple[Any, Any]) -> None:
    gpu, module = built
    x = gpu.array(np.ones(64, np.float32))
    p, kernel, (_, _, z) = kernel_for(gpu, module, x)
    assert kernel.whole is not None
    room = Workspace(kernel, 0, 0, 2)
    assert room.run(p.context.address, 0, 2).status is Status.EXIT
    assert not kernel.whole.compiled
    x.set(np.full(64, 1e-40, np.float32))
    assert room.run(p.context.address, 0, 2).status is Status.EXIT
    assert kernel.whole.compiled
    assert np.array_equal(z.numpy(), np.full(64, 1e-40, np.float32) / np.float32(3))


def test_a_failure_to_compile_the_rest_is_told(built: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, module = built
    p, kernel, arrays = kernel_for(gpu, module, gpu.array(np.full(64, 1e-40, np.float32)))

    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no")

    monkeypatch.setattr(jit, "to_object", refuse)
    with pytest.raises(ValueError, match="kernel divide: LLVM refuses the code made for it: no"):
        CompiledExecution(p.context, kernel, 2, 1).run()
    monkeypatch.undo()
    CompiledExecution(p.context, kernel, 2, 1).run()
    assert np.array_equal(arrays[2].numpy(), np.full(64, 1e-40, np.float32) / np.float32(3))


def test_threads_share_the_whole_function(built: tuple[Any, Any]) -> None:
    gpu, module = built
    n = 64 * 32
    x, y = gpu.array(np.full(n, 1e-40, np.float32)), gpu.array(np.full(n, 3, np.float32))
    z = gpu.array(np.zeros(n, np.float32))
    p = Prepared(gpu, module, "divide", 64, 32, [n, x, y, z])
    kernel = jit.compile_kernel(p.program, p.lowered, (32, 1, 1), trace=False, use_cache=False)
    CompiledExecution(p.context, kernel, 2, 4).run()
    assert np.array_equal(z.numpy(), np.full(n, 1e-40, np.float32) / np.float32(3))


def test_traced_kernels_are_whole(built: tuple[Any, Any]) -> None:
    gpu, module = built
    z = gpu.array(np.zeros(64, np.float32))
    p = Prepared(gpu, module, "divide", 2, 32, [64, z, z, z])
    assert jit.compile_kernel(p.program, p.lowered, (32, 1, 1), trace=True, use_cache=False).whole is None


JOINED = """
extern "C" __global__ void joined(const unsigned long long *k, unsigned long long *r) {
    int i = blockIdx.x * 32 + threadIdx.x;
    unsigned long long x = k[i];
    if (x & 8) {
        #pragma unroll 1
        for (unsigned j = 0; j < (x & 7); j++) r[i] = j * 3 + (x >> 5);
        // Where the lanes of the loop meet, nothing follows but a subroutine.
        x /= (k[i] >> 30) | 0x100000001ull;
    }
    r[i] += x;
}
"""


@pytest.mark.parametrize("chip", ["a100", "h200"])
def test_lanes_of_a_loop_meet_in_front_of_a_slow_path(chip: str) -> None:
    gpu = ww.GPU(chip, timing="off")
    module = gpu.compile(JOINED)
    keys = np.random.default_rng(1).integers(0, 1 << 63, 64, dtype=np.uint64)
    results = gpu.array(np.zeros(64, np.uint64))
    p = Prepared(gpu, module, "joined", 2, 32, [gpu.array(keys), results])
    kernel = jit.compile_kernel(p.program, p.lowered, (32, 1, 1), trace=False, use_cache=False)
    assert kernel.whole is not None
    assert Workspace(kernel, 0, 0, 2).run(p.context.address, 0, 2).status is Status.EXIT
    expected = []
    for key in keys.tolist():
        stored = (key & 7) - 1 if key & 7 and key & 8 else None
        value = key // (key >> 30 | 0x100000001) if key & 8 else key
        expected.append(value if stored is None else value + stored * 3 + (key >> 5))
    assert results.numpy().tolist() == expected
