"""Loads of neighbouring bytes that are checked and served together, where the check fails: at an array's end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.test_jit import Prepared
from warpwright.engine.abi import Status
from warpwright.engine.jit.codegen import TargetChoice

SOURCE = """
extern "C" __global__ void stencil(int n, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 2 * x[i + 1] + 3 * x[i + 2] + 4 * x[i + 9] + 5 * x[i + 8];
}
extern "C" __global__ void two(int n, const float *x, const float *y, float *z) {
    int i = threadIdx.x;
    float a = x[i], b = y[i];
    if (i < n) z[i] = a * x[i + 1] + b * y[i + 1] + x[i + 3] * y[i + 2];
}
extern "C" __global__ void row(int n, const float *x, float *y) {
    // One row for all lanes, by a product of the block's number.
    const float *r = x + blockIdx.x * n;
    float sum = 0;
    for (int k = 0; k < n; k += 4) sum = sum * 2 + r[k] + 3 * r[k + 1] + 5 * r[k + 2] + 7 * r[k + 3];
    y[blockIdx.x * 32 + threadIdx.x] = sum + threadIdx.x;
}
extern "C" __global__ void shift(int n, float *x, float *to, float *y) {
    // A store between loads of one window, to where the second one reads.
    int i = threadIdx.x;
    if (i < n) {
        float a = x[i], b = x[i + 1];
        to[i] = a + 100;
        y[i] = b * x[i + 1];
    }
}
"""


@pytest.fixture(scope="module")
def built() -> tuple[Any, Any]:
    gpu = ww.GPU("a100", timing="off")
    return gpu, gpu.compile(SOURCE)


@pytest.mark.parametrize("options", [{}, {"target": TargetChoice(ordinary_calls=True)}], ids=["asm", "calls"])
@pytest.mark.parametrize("n", [1, 20, 32, 50, 64, 75, 96])
def test_partial_warps_at_the_end_of_an_array(built: tuple[Any, Any], n: int, options: dict[str, bool]) -> None:
    gpu, module = built
    host = np.arange(1, n + 10, dtype=np.float32)
    x, y = gpu.array(host), gpu.array(np.zeros(n, np.float32))
    p = Prepared(gpu, module, "stencil", 3, 32, [n, x, y])
    for _ in range(2):
        assert p.compiled(**options).status is Status.EXIT
        expected = host[:n] + 2 * host[1 : n + 1] + 3 * host[2 : n + 2] + 4 * host[9 : n + 9] + 5 * host[8 : n + 8]
        assert np.array_equal(y.numpy(), expected)


@pytest.mark.parametrize("missing", [1, 2, 8, 40])
def test_the_load_at_fault_is_told(built: tuple[Any, Any], missing: int) -> None:
    gpu, module = built
    n = 96
    x, y = gpu.array(np.zeros(n + 9 - missing, np.float32)), gpu.array(np.zeros(n, np.float32))
    p = Prepared(gpu, module, "stencil", 3, 32, [n, x, y])
    outcome = p.compiled()
    assert outcome.status is Status.FAULT
    assert outcome.stopped is not None
    opcode = {i.address: i.opcode for i in p.program.instructions}
    assert opcode[outcome.stopped["fault_instruction"]] == "LDG"
    beyond = (outcome.stopped["fault_address"] - x.device_address()) // 4
    assert n + 9 - missing <= beyond < n + 9
    assert outcome.stopped["fault_lanes"]


def test_rows_of_all_lanes(built: tuple[Any, Any]) -> None:
    gpu, module = built
    n, rows = 36, 7
    host = np.random.default_rng(3).integers(0, 4, (rows, n)).astype(np.float32)
    x, y = gpu.array(host), gpu.array(np.zeros(rows * 32, np.float32))
    p = Prepared(gpu, module, "row", rows, 32, [n, x, y])
    results = []
    for engine in ("compiled", "interpreted"):
        y.set(np.zeros(rows * 32, np.float32))
        assert getattr(p, engine)().status is Status.EXIT
        results.append(y.numpy().copy())
    assert np.array_equal(*results)
    assert results[0].any()


@pytest.mark.parametrize("n", [3, 29, 32])
def test_windows_of_two_arrays_last_beside_each_other(built: tuple[Any, Any], n: int) -> None:
    gpu, module = built
    a = np.arange(1, n + 35, dtype=np.float32)
    b = 100 + 3 * a
    x, y, z = (gpu.array(v) for v in (a[: n + 3], b[: n + 2], np.zeros(n, np.float32)))
    p = Prepared(gpu, module, "two", 1, n, [n, x, y, z])
    assert p.compiled().status is Status.EXIT
    a, b = a[: n + 3], b[: n + 2]
    assert np.array_equal(z.numpy(), a[:n] * a[1 : n + 1] + b[:n] * b[1 : n + 1] + a[3:] * b[2:])


@pytest.mark.parametrize("n", [5, 31, 32])
def test_a_store_ends_a_window(built: tuple[Any, Any], n: int) -> None:
    gpu, module = built
    results = []
    for engine in ("compiled", "interpreted"):
        x = gpu.array(np.arange(1, n + 2, dtype=np.float32))
        y = gpu.array(np.zeros(n, np.float32))
        p = Prepared(gpu, module, "shift", 1, 32, [n, x, x.device_address() + 4, y])
        assert getattr(p, engine)().status is Status.EXIT
        results.append((x.numpy().copy(), y.numpy().copy()))
    for ours, reference in zip(*results, strict=True):
        assert np.array_equal(ours, reference)
    assert results[0][1][0] == 2 * 101
