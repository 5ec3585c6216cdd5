"""Atomics on any words of shared and global memory: what they leave, what they return and where they fault is the interpreter's."""

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

OPERATIONS = {
    "add": ("unsigned", "atomicAdd(p, v)"),
    "min": ("int", "atomicMin(p, v)"),
    "max": ("unsigned", "atomicMax(p, v)"),
    "and": ("unsigned", "atomicAnd(p, v)"),
    "or": ("unsigned", "atomicOr(p, v)"),
    "xor": ("unsigned", "atomicXor(p, v)"),
    "exch": ("unsigned", "atomicExch(p, v)"),
    "inc": ("unsigned", "atomicInc(p, v)"),
    "dec": ("unsigned", "atomicDec(p, v)"),
    "cas": ("unsigned", "atomicCAS(p, v & 7, v)"),
    "add_f32": ("float", "atomicAdd(p, v)"),
    "add_i64": ("unsigned long long", "atomicAdd(p, v)"),
    "max_i64": ("long long", "atomicMax(p, v)"),
}
WORDS = 48
KERNELS = """
extern "C" __global__ void shared_%(name)s(int n, const int *at, const %(type)s *x, %(type)s *y) {
    __shared__ %(type)s words[%(words)d];
    int lane = threadIdx.x;
    for (int i = lane; i < %(words)d; i += 32) words[i] = y[i];
    __syncthreads();
    %(type)s *p = words + at[lane], v = x[lane];
    if (lane < n) y[%(words)d + lane] = %(call)s;
    __syncthreads();
    for (int i = lane; i < %(words)d; i += 32) y[i] = words[i];
}

extern "C" __global__ void global_%(name)s(int n, const int *at, const %(type)s *x, %(type)s *y) {
    int lane = threadIdx.x;
    for (int k = 0; k < 2; k++) {
        %(type)s *p = y + at[lane], v = x[lane];
        if (lane < n) y[%(words)d + lane] = %(call)s;
    }
}
"""
SOURCE = "".join(
    KERNELS % {"name": name, "type": type, "call": call, "words": WORDS} for name, (type, call) in OPERATIONS.items()
)
TYPES = {
    "unsigned": np.uint32,
    "int": np.int32,
    "float": np.float32,
    "unsigned long long": np.uint64,
    "long long": np.int64,
}


@pytest.fixture(scope="module", params=["host", "AVX2"])
def engines(request: pytest.FixtureRequest) -> Any:
    """A compiled module, and the interpreter's."""
    options: dict[str, Any] = (
        {} if request.param == "host" else {"target": TargetChoice(registers=REGISTERS[request.param])}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "compile_kernel", lambda *args, **others: compile_kernel(*args, **others, **options))
        yield [ww.GPU("a100", timing="off", engine=engine).compile(SOURCE) for engine in ("compiled", "interpreter")]


@pytest.mark.ci
@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(list(OPERATIONS)),
    space=st.sampled_from(["shared", "global"]),
    lanes=st.integers(0, 32),
    places=st.lists(st.integers(0, WORDS - 1), min_size=32, max_size=32),
    seed=st.integers(0, 99),
)
def test_operations(engines: list[Any], name: str, space: str, lanes: int, places: list[int], seed: int) -> None:
    kind = TYPES[OPERATIONS[name][0]]
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 20, 32).astype(kind), rng.integers(0, 20, WORDS + 32).astype(kind)
    said, _ = same(engines, f"{space}_{name}", 1, 32, [lanes, np.array(places, np.int32), x, y])
    assert said == ""


@pytest.mark.ci
@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("beyond", [-1, 1 << 20])
def test_the_lane_at_fault_is_named(engines: list[Any], space: str, beyond: int) -> None:
    at = np.arange(32, dtype=np.int32)
    at[13] = beyond
    x, y = np.ones(32, np.uint32), np.zeros(WORDS + 32, np.uint32)
    said, _ = same(engines, f"{space}_add", 1, 32, [32, at, x, y])
    assert "thread (13, 0, 0)" in said
