"""Unrolled code is compiled once: results, instruction counts, cycles and reports are those of the code as it stands."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.jit import repeated_code
from warpwright.engine.kernels import lowered_of
from warpwright.studies.warp_level import GROUPS
from warpwright.toolchain import InputKind, compile_source, link

SOURCE = """
#define R4(s) s s s s
#define R64(s) R4(R4(R4(s)))
#define R40(s) R4(R4(s) R4(s) s s)
__device__ __noinline__ float half_of(float x, float y) { return __fdividef(x, y) * 0.5f + y; }
extern "C" __global__ void meets(float* out, const float* in) {
    __shared__ float s[64];
    float x = in[threadIdx.x];
    R40(s[threadIdx.x] = x; __syncthreads(); x = x * 0.5f + s[threadIdx.x ^ 33]; __syncthreads();)
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
extern "C" __global__ void splits(float* out, const float* in) {
    __shared__ float s[64];
    float x = in[threadIdx.x];
    R40(if (x > threadIdx.x) x = __fsqrt_rn(x); else x = x * 1.5f + 1; s[threadIdx.x] = x; __syncthreads(); x += s[threadIdx.x ^ 1]; __syncthreads();)
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
extern "C" __global__ void calls(float* out, const float* in) {
    float x = in[threadIdx.x], y = 1.5f;
    int begin = clock();
    R40(x = half_of(x, y); y = half_of(y, x); asm volatile("add.f32 %0, %0, %1;" : "+f"(x) : "f"(y));)
    out[blockIdx.x * blockDim.x + threadIdx.x] = x + y + (clock() == begin);
}
extern "C" __global__ void walks(float* out, const float* in, int stride) {
    __shared__ float s[64];
    float x = in[threadIdx.x];
    int place = threadIdx.x;
    R40(s[threadIdx.x] = x; __syncthreads(); x = x * 0.5f + s[place]; place += stride; __syncthreads();)
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
extern "C" __global__ void some(float* out, const float* in) {
    float x = in[threadIdx.x];
    if (threadIdx.x < 13) { R40(R4(R4(asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x));))) }
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
"""
CASES = [
    ("v100", "meets"),
    ("v100", "splits"),
    ("v100", "calls"),
    ("v100", "some"),
    ("p100", "meets"),
]


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short runs are worth it."""
    monkeypatch.setattr(repeated_code, "FEWEST_SAVED", 100)
    monkeypatch.setattr(repeated_code, "SMALLEST_COPY", 16)


def _kernel(chip: str, name: str, timing: str) -> ww.Kernel:
    return ww.GPU(chip, timing=timing).compile(SOURCE)[name]


def _runs(kernel: ww.Kernel) -> list[repeated_code.Run]:
    loaded = kernel._loaded
    found = repeated_code.repeats_of(loaded.program, lowered_of(loaded))
    return [] if found is None else found.runs


def _facts(chip: str, name: str, timing: str) -> tuple[object, ...]:
    """Results, instructions, cycles and counters of a launch."""
    kernel = _kernel(chip, name, timing)
    out, values = kernel.gpu.zeros(128, dtype="f4"), kernel.gpu.array(np.linspace(1, 40, 64, dtype=np.float32))
    run = kernel[2, 64](out, values)
    return out.numpy().tobytes(), run.instructions, run.cycles if timing == "full" else None, dict(run.metrics)


@pytest.mark.ci
@pytest.mark.parametrize("timing", ["off", "full"])
@pytest.mark.parametrize(("chip", "name"), CASES)
def test_unrolled_code_that_is_compiled_once_runs_as_if_it_were_not(
    monkeypatch: pytest.MonkeyPatch, chip: str, name: str, timing: str
) -> None:
    monkeypatch.setattr(repeated_code, "FEWEST_INSTRUCTIONS", 1 << 40)
    expected = _facts(chip, name, timing)
    monkeypatch.setattr(repeated_code, "FEWEST_INSTRUCTIONS", 256)
    assert sum(run.copies for run in _runs(_kernel(chip, name, timing))) >= 4
    assert _facts(chip, name, timing) == expected


@pytest.mark.ci
@pytest.mark.parametrize("timing", ["off", "full"])
def test_a_fault_names_the_copy_in_which_it_happens(monkeypatch: pytest.MonkeyPatch, timing: str) -> None:
    messages = []
    for least in (1 << 40, 256):
        monkeypatch.setattr(repeated_code, "FEWEST_INSTRUCTIONS", least)
        kernel = _kernel("p100", "walks", timing)
        out, values = kernel.gpu.zeros(64, dtype="f4"), kernel.gpu.zeros(64, dtype="f4")
        with pytest.raises(ww.ExecutionError) as raised:
            kernel[1, 64](out, values, np.int32(8))
        messages.append(str(raised.value))
    assert sum(run.copies for run in _runs(kernel)) >= 4
    assert messages[0] == messages[1]


def test_a_copy_may_end_with_an_instruction_that_does_nothing() -> None:
    """The paper's coalesced groups on V100: a copy ends with a call of the barrier's routine and a NOP, and contains no block barrier."""
    compiled = compile_source(GROUPS, "70", options=["-rdc=true"])
    linked = link([(InputKind.CUBIN, compiled.cubin, "groups.cubin")], "70").cubin
    loaded = ww.GPU("v100").compile(linked)["coalesced"]._loaded
    found = repeated_code.repeats_of(loaded.program, lowered_of(loaded))
    assert found is not None
    assert not any(found.ends_with_barrier(end) for end in found.ends)
