"""Kernels compiled without the remainders of their unrolled loops: whoever comes to one goes on in the whole function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.test_jit import Prepared
from warpwright.engine.abi import Status
from warpwright.engine.blocks import basic_blocks
from warpwright.engine.compiled_launch import CompiledExecution
from warpwright.engine.jit import codegen as jit
from warpwright.engine.jit.flow import make_flow
from warpwright.engine.jit.flow_graph import members
from warpwright.engine.jit.live_ranges import find_webs
from warpwright.engine.jit.remainders import remainders
from warpwright.engine.jit.workspace import Workspace
from warpwright.isa.sass.lower import lower

SOURCE = """
extern "C" __global__ void dot(int n, const float *a, const float *b, float *c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[k] * b[32 * k + i];
    c[i] = sum;
}
extern "C" __global__ void shared(int tiles, const float *a, float *c) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    float sum = 0;
    for (int k = 0; k < tiles; k++) {
        tile[t] = a[64 * k + t];
        __syncthreads();
        for (int j = 0; j < 8; j++) sum += tile[j] * tile[63 - t];
        __syncthreads();
    }
    c[t] = sum;
}
extern "C" __global__ void rows(int n, int rows, const float *a, float *c) {
    for (int r = 0; r < rows; r++) {
        float sum = 0;
        for (int k = 0; k < n; k++) sum += a[32 * k + threadIdx.x] * (float)(r + 1);
        c[32 * r + threadIdx.x] = sum;
    }
}
extern "C" __global__ void apart(const int *ns, const float *a, float *c) {
    int i = threadIdx.x, n = ns[i];
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[k] * a[k + i];
    c[i] = sum;
}
"""


@pytest.fixture(scope="module", params=["v100", "h200"])
def built(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    gpu = ww.GPU(request.param, timing="off")
    return gpu, gpu.compile(SOURCE)


def sums(a: Any, b: Any) -> Any:
    """Sums of products along the first axis, rounded once for each term."""
    total = np.zeros(b.shape[1:], np.float32)
    for x, y in zip(a, b, strict=True):
        total = (x.astype(np.float64) * y + total).astype(np.float32)
    return total


def prepared(built: tuple[Any, Any], name: str, threads: int, arguments: list[Any]) -> tuple[Any, Any, Any]:
    gpu, module = built
    p = Prepared(gpu, module, name, 1, threads, arguments)
    kernel = jit.compile_kernel(p.program, p.lowered, (threads, 1, 1), trace=False, use_cache=False)
    room = Workspace(kernel, p.program.shared_static_bytes, 0)
    return p, kernel, room


def left_out(built: tuple[Any, Any], name: str) -> int:
    """How many blocks are found to be remainders."""
    program = built[1][name]._loaded.program
    lowered = lower(program)
    blocks = basic_blocks(program, lowered)
    flow = make_flow(program, blocks, lowered, find_webs(blocks, lowered))
    return len(members(remainders(flow, lowered)))


@pytest.mark.parametrize("n", [*range(9), 13, 16, 21, 32, 63])
def test_any_count_of_turns(built: tuple[Any, Any], n: int) -> None:
    gpu, _ = built
    generator = np.random.default_rng(n)
    a, b = generator.random(64, dtype=np.float32), generator.random((64, 32), dtype=np.float32)
    c = gpu.array(np.zeros(32, np.float32))
    p, kernel, room = prepared(built, "dot", 32, [n, gpu.array(a), gpu.array(b.ravel()), c])
    assert kernel.whole is not None
    for _ in range(2):  # the second time the whole function, where it is needed, is there from the beginning
        c.set(np.zeros(32, np.float32))
        assert room.run(p.context.address, 0, 1).status is Status.EXIT
        assert np.array_equal(c.numpy(), sums(a[:n], b[:n]))
    assert kernel.whole.compiled or n % 4 == 0
    assert not kernel.whole.compiled or n % 16 != 0


@pytest.mark.parametrize("tiles", range(10))
def test_barriers_in_remainders(built: tuple[Any, Any], tiles: int) -> None:
    gpu, _ = built
    a = np.random.default_rng(tiles).random((10, 64), dtype=np.float32)
    c = gpu.array(np.zeros(64, np.float32))
    p, kernel, room = prepared(built, "shared", 64, [tiles, gpu.array(a.ravel()), c])
    left, right = a[:tiles, :8].ravel(), np.repeat(a[:tiles, ::-1], 8, axis=0)
    for _ in range(2):
        c.set(np.zeros(64, np.float32))
        assert room.run(p.context.address, 0, 1).status is Status.EXIT
        assert np.array_equal(c.numpy(), sums(left, right))
    assert kernel.whole is not None
    assert kernel.whole.compiled == bool(tiles % 4)


@pytest.mark.parametrize("threads", [1, 3])
def test_remainders_within_a_loop(built: tuple[Any, Any], threads: int) -> None:
    """Once in the whole function, a warp stays there; host threads share it."""
    gpu, _ = built
    a = np.random.default_rng(5).random((7, 32), dtype=np.float32)
    c = gpu.array(np.zeros(5 * 32, np.float32))
    p, kernel, _ = prepared(built, "rows", 32, [7, 5, gpu.array(a.ravel()), c])
    CompiledExecution(p.context, kernel, 1, threads).run()
    expected = [sums(np.full(7, r + 1, np.float32), a) for r in range(5)]
    assert np.array_equal(c.numpy().reshape(5, 32), expected)


@pytest.mark.ci
def test_what_counts_as_a_remainder(built: tuple[Any, Any]) -> None:
    """Copies of a part of a loop; not where lanes of a warp may part, whose counts differ anyway."""
    gpu, _ = built
    assert all(left_out(built, name) for name in ("dot", "shared", "rows"))
    ns, c = gpu.array(np.arange(32, dtype=np.int32)), gpu.array(np.zeros(32, np.float32))
    a = np.random.default_rng(3).random(64, dtype=np.float32)
    p, kernel, room = prepared(built, "apart", 32, [ns, gpu.array(a), c])
    assert kernel.whole is None
    assert room.run(p.context.address, 0, 1).status is Status.EXIT
    expected = [sums(a[:i], a[i : 2 * i]) for i in range(32)]
    assert np.array_equal(c.numpy(), np.array(expected, np.float32))
