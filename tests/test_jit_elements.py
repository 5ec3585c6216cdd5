"""Accesses of 8 and 16 bytes a lane in shared memory and asynchronous copies: bits and faults are the interpreter's, on all machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpwright as ww
from tests.test_jit_rows import same
from tests.test_jit_targets import REGISTERS
from warpwright.engine import kernels
from warpwright.engine.jit.codegen import TargetChoice, compile_kernel

SOURCE = """
#define TILE(T, bytes) \\
extern "C" __global__ void tile_##bytes(int from, int to, const T *x, T *y) { \\
    __shared__ T tile[64]; \\
    int lane = threadIdx.x, at = 2 * lane ^ to & 1; \\
    T first = lane < from ? x[lane] : x[from]; \\
    tile[lane] = first; \\
    tile[lane + 32] = x[lane + 32]; \\
    __syncthreads(); \\
    T a = tile[at], b = tile[63 - lane], c = tile[lane / 16 * 32 + lane % 16], d = tile[lane % 16 + lane / 16 * to]; \\
    a.x += c.y; b.y += d.x; \\
    __syncthreads(); \\
    if (lane < from) tile[lane * to & 63] = a; \\
    __syncthreads(); \\
    /* Two runs, the second of which overwrites half of the first. */ \\
    if (lane < to) tile[lane % 16 + lane / 16 * 8] = b; \\
    __syncthreads(); \\
    y[lane] = tile[lane]; y[lane + 32] = tile[lane + 32]; y[64 + lane * 3] = a; \\
}
TILE(float2, 8)
TILE(float4, 16)

__device__ void copy16(void *to, const void *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes) : "memory");
}

__device__ void copy16(void *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}

// Rows of a matrix, of which some threads of each row of the block copy 16 bytes each, others none, or fewer.
extern "C" __global__ void rows_16(int lanes, int pitch, int bytes, const float *x, float4 *y) {
    __shared__ float4 tile[16][16];
    int i = threadIdx.x, j = threadIdx.y;
    tile[j][i] = make_float4(i, j, 0, 1);
    __syncthreads();
    if (i < lanes) copy16(&tile[j][i], x + j * pitch + 4 * i);
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    y[j * 16 + i] = tile[j][i];
    __syncthreads();
    copy16(&tile[j][15 - i], x + (j & 3) * pitch + 4 * i, i < lanes ? 16 : 0);
    copy16(&tile[j][i ^ 1], x + 4 * i, i == bytes ? bytes & 12 : 16);
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    y[256 + j * 16 + i] = tile[j][i];
}
"""


@pytest.fixture(scope="module", params=["host", "ordinary calls", *REGISTERS])
def machines(request: pytest.FixtureRequest) -> Any:
    """A compiled module as on some machine, and the interpreter's."""
    options: dict[str, Any] = {}
    if request.param in REGISTERS:
        options["target"] = TargetChoice(registers=REGISTERS[request.param])
    elif request.param != "host":
        options["target"] = TargetChoice(ordinary_calls=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "compile_kernel", lambda *args, **others: compile_kernel(*args, **others, **options))
        yield [ww.GPU("a100", timing="off", engine=engine).compile(SOURCE) for engine in ("compiled", "interpreter")]


@settings(max_examples=25, deadline=None)
@given(lanes=st.integers(0, 33), step=st.integers(0, 33), size=st.sampled_from([8, 16]))
def test_tiles_of_elements(machines: list[Any], lanes: int, step: int, size: int) -> None:
    x = np.arange(size // 4 * 64, dtype=np.float32) + 1
    y = np.zeros(size // 4 * 160, dtype=np.float32)
    said, left = same(machines, f"tile_{size}", 1, 32, [lanes, step, x, y])
    assert said == ""
    assert np.any(left.view(np.float32))


@pytest.mark.ci
@settings(max_examples=25, deadline=None)
@given(
    lanes=st.integers(0, 16),
    pitch=st.sampled_from([0, 4, 64, 68, 132]),
    bytes_=st.integers(0, 16),
    short=st.sampled_from([0, 0, 1, 4, 40]),
)
def test_asynchronous_copies_of_rows(machines: list[Any], lanes: int, pitch: int, bytes_: int, short: int) -> None:
    """Up to the end of the matrix, and a few words beyond it."""
    length = max(1, 15 * pitch + 64 - short)
    x = np.arange(length, dtype=np.float32)
    y = np.zeros(4 * 512, dtype=np.float32)
    said, left = same(machines, "rows_16", 1, (16, 16), [lanes, pitch, bytes_, x, y])
    if not said and lanes == 16:
        found = left.view(np.float32)[:1024].reshape(16, 64)
        assert np.array_equal(found, pitch * np.arange(16)[:, None] + np.arange(64))
