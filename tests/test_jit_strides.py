"""Loads that are strides apart share a check: the same values and the same faults as the interpreter's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpwright as ww

SOURCE = """
extern "C" __global__ void columns(int n, int stride, const float *x, const float *scale, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *p = x + i;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 8; k++) sum += p[(long long)k * stride] * scale[k];
    y[i] = sum;
}

extern "C" __global__ void some_columns(int n, int stride, int limit, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float *p = x + i;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 6; k++)
        if (i + k * stride < limit) sum += p[k * stride];
    if (i < n) y[i] = sum;
}
"""

LOADS = 5
WILD = (
    """
.version 8.0
.target sm_80
.address_size 64
.visible .entry wild(.param .u32 a, .param .u32 b, .param .u64 x, .param .u64 y) {
    .reg .b32 %r<5>;
    .reg .b64 %d<8>;
    .reg .f32 %f<3>;
    ld.param.u32 %r1, [a];
    ld.param.u32 %r2, [b];
    ld.param.u64 %d1, [x];
    ld.param.u64 %d4, [y];
    mov.u32 %r3, %tid.x;
    mul.wide.u32 %d2, %r3, 4;
    add.s64 %d1, %d1, %d2;
    add.s64 %d4, %d4, %d2;
    mov.f32 %f1, 0f00000000;
    mov.u32 %r4, %ctaid.x;
    mul.lo.s32 %r1, %r1, %r4;
    mul.wide.s32 %d3, %r1, %r2;
    sub.s64 %d1, %d1, %d3;
"""
    + """
    mad.wide.s32 %d1, %r1, %r2, %d1;
    ld.global.f32 %f2, [%d1];
    add.f32 %f1, %f1, %f2;
"""
    * LOADS
    + """
    st.global.f32 [%d4], %f1;
    ret;
}
"""
)
"""The chain of addresses that a compiler makes of p += (long long)a * b, in the second block."""


@pytest.fixture(scope="module")
def engines() -> list[Any]:
    return [ww.GPU("a100", timing="off", engine=engine).compile(SOURCE) for engine in ("compiled", "interpreter")]


def outcome(kernel: Any, grid: int, block: int, arguments: list[Any]) -> tuple[str, np.ndarray]:
    """What a launch says and leaves behind."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    try:
        kernel[grid, block](*copies)
    except ww.WarpwrightError as error:
        return str(error), np.zeros(0)
    return "", copies[-1]


def same(modules: list[Any], name: str, grid: int, block: int, arguments: list[Any]) -> tuple[str, np.ndarray]:
    first, second = (outcome(m[name], grid, block, arguments) for m in modules)
    assert first[0] == second[0]
    assert np.array_equal(first[1].view(np.uint32), second[1].view(np.uint32))
    return first


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 80),
    stride=st.one_of(st.integers(-3, 40), st.sampled_from([-(1 << 31), (1 << 31) - 1, 1 << 20])),
    spare=st.integers(-6, 6),
)
def test_strided_loads_are_the_interpreters(engines: list[Any], n: int, stride: int, spare: int) -> None:
    length = max(1, n + 7 * max(stride, 0) % 4096 + spare)
    x = np.arange(length, dtype=np.float32) + 1
    scale = np.arange(8, dtype=np.float32)
    same(engines, "columns", -(-n // 64), 64, [n, stride, x, scale, np.zeros(n, dtype=np.float32)])


@settings(max_examples=15, deadline=None)
@given(stride=st.integers(1, 70), length=st.integers(64, 200), beyond=st.integers(0, 3))
def test_guarded_strides_stop_at_the_end(engines: list[Any], stride: int, length: int, beyond: int) -> None:
    x = np.arange(length, dtype=np.float32)
    arguments = [64, stride, length + beyond, x, np.zeros(64, dtype=np.float32)]
    said, y = same(engines, "some_columns", 2, 32, arguments)
    if not beyond:
        steps = np.arange(64)[:, None] + stride * np.arange(6)
        assert not said
        assert np.array_equal(y, np.where(steps < length, steps, 0).sum(axis=1).astype(np.float32))


@pytest.mark.parametrize(
    ("factors", "fine"),
    [
        ((-(1 << 31), -(1 << 31)), False),
        ((-(1 << 31), 1 << 30), False),
        ((1 << 30, 1 << 20), False),
        ((2, 1), False),
        ((3, 2), False),
        ((0, 5), True),
        ((8, 16), True),
        ((-4, 1), False),
    ],
)
def test_strides_that_wrap_around_or_are_misaligned(factors: tuple[int, int], fine: bool) -> None:
    """Four times 2**62 comes back to where it began: the ends are fine, what lies between is not."""
    said = []
    for engine in ("compiled", "interpreter"):
        gpu = ww.GPU("a100", timing="off", engine=engine, front_end="ptx")
        x = gpu.array(np.arange(256, dtype=np.float32))
        y = np.zeros(32, dtype=np.float32)
        try:
            gpu.compile(WILD)["wild"][2, 32](*(f % (1 << 32) for f in factors), x, y)
            said.append("")
        except ww.WarpwrightError as error:
            said.append(str(error))
    assert said[0] == said[1]
    assert bool(said[0]) != fine
