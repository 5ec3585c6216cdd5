"""Steps in straight-line code that only repeat themselves are skipped: results, counts, cycles and clocks equal those of a run of all steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.test_multi_grid import cubin
from warpwright.engine.jit import repeated_code
from warpwright.timing import step_sampling
from warpwright.timing.repeated_steps import RepeatedSteps, repeated_steps

SOURCE = r"""
#include <cooperative_groups.h>
#define R4(s) s s s s
#define R64(s) R4(R4(R4(s)))
extern "C" __global__ void meets(int *out, unsigned *clocks, int value) {
    auto grid = cooperative_groups::this_grid();
    unsigned begin = clock();
    R64(grid.sync();)
    unsigned end = clock();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = i + value;
    if (threadIdx.x % 32 == 0) clocks[i / 32] = end - begin;
}
#define R8(s) s s s s s s s s
extern "C" __global__ void meets_often(int *out, unsigned *clocks, int value) {
    auto grid = cooperative_groups::this_grid();
    unsigned begin = clock();
    R64(R8(grid.sync();))
    unsigned end = clock();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = i + value;
    if (threadIdx.x % 32 == 0) clocks[i / 32] = end - begin;
}
// The same value in each step.
extern "C" __global__ void stores(int *out, unsigned *clocks, int value) {
    auto grid = cooperative_groups::this_grid();
    unsigned begin = clock();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    R64(grid.sync(); out[i] = value;)
    unsigned end = clock();
    if (threadIdx.x % 32 == 0) clocks[i / 32] = end - begin;
}
// Another value in each step.
extern "C" __global__ void counts(int *out, unsigned *clocks, int value) {
    auto grid = cooperative_groups::this_grid();
    unsigned begin = clock();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    R64(grid.sync(); out[i] += value;)
    unsigned end = clock();
    if (threadIdx.x % 32 == 0) clocks[i / 32] = end - begin;
}
// The same state after each step, but for the steps' own numbers.
#define STEP(n) grid.sync(); if (value == n) out[i] = n + 1; asm volatile("" ::: "memory");
#define S4(n) STEP(n) STEP(n + 1) STEP(n + 2) STEP(n + 3)
#define S16(n) S4(n) S4(n + 4) S4(n + 8) S4(n + 12)
extern "C" __global__ void numbers(int *out, unsigned *clocks, int value) {
    auto grid = cooperative_groups::this_grid();
    unsigned begin = clock();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    S16(0) S16(16) S16(32) S16(48)
    unsigned end = clock();
    if (threadIdx.x % 32 == 0) clocks[i / 32] = end - begin;
}
// A clock between the steps.
extern "C" __global__ void waits(int *out, unsigned *clocks, int value) {
    auto grid = cooperative_groups::this_grid();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    R64(grid.sync(); out[i] = clock();)
    if (threadIdx.x % 32 == 0) clocks[i / 32] = 0;
}
"""
SKIPPED, ALL = ("meets", "stores"), ("counts", "numbers", "waits")
"""Kernels some of whose steps are skipped, and others."""


def launch(
    chip: str,
    name: str,
    skips: bool,
    monkeypatch: pytest.MonkeyPatch,
    blocks_per_sm: int = 1,
    threads: int = 64,
    timing: str = "sampled",
) -> tuple[ww.Run, bytes, bytes, list[int]]:
    """The run, its results and clocks, and the numbers of steps that were skipped."""
    skipped: list[int] = []
    skip = RepeatedSteps._skip

    def noted(self: RepeatedSteps, *states: Any) -> bool:
        before = int(self._launch.state.words[step_sampling.s.chip.rest_steps])
        done = skip(self, *states)
        skipped.append(int(self._launch.state.words[step_sampling.s.chip.rest_steps]) - before)
        return done

    monkeypatch.setattr(repeated_code, "FEWEST_SAVED", 100)
    monkeypatch.setattr(RepeatedSteps, "_skip", noted)
    monkeypatch.setattr(step_sampling, "repeated_steps", repeated_steps if skips else lambda _: None)
    gpu = ww.GPU(chip, timing=timing)
    blocks = gpu.chip.sm.sm_count * blocks_per_sm
    out, clocks = gpu.zeros(blocks * threads, dtype="i4"), gpu.zeros(blocks * threads // 32, dtype="u4")
    run = gpu.compile(SOURCE)[name][blocks, threads](out, clocks, 50)
    monkeypatch.setattr(RepeatedSteps, "_skip", skip)
    return run, out.numpy().tobytes(), clocks.numpy().tobytes(), skipped


@pytest.mark.ci
@pytest.mark.parametrize("name", [*SKIPPED, *ALL])
@pytest.mark.parametrize("chip", ["v100", "p100"])
def test_skipped_steps_leave_what_all_steps_do(chip: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, out, clocks, skipped = launch(chip, name, True, monkeypatch)
    whole, its_out, its_clocks, none = launch(chip, name, False, monkeypatch)
    assert not none
    assert (sum(skipped) > 20) == (name in SKIPPED)
    assert (out, clocks) == (its_out, its_clocks)
    assert (run.cycles, run.instructions, dict(run.metrics)) == (whole.cycles, whole.instructions, dict(whole.metrics))
    assert run.sampling is not None
    assert run.sampling.steps == 64
    assert str(run.sampling) == str(whole.sampling)
    values = np.frombuffer(out, np.int32)
    if name == "numbers":
        assert set(values.tolist()) == {51}
    if name == "counts":
        assert set(values.tolist()) == {64 * 50}


@pytest.mark.ci
@pytest.mark.parametrize("places", [1, 3])
def test_steps_are_skipped_whose_times_are_corrected(places: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if timed steps had done more work than untimed ones, whose times are then corrected: here one in ``places``."""
    found = step_sampling.pattern_of

    def made(ends: Sequence[int], work: Sequence[int]) -> step_sampling.Pattern | None:
        one = found(ends, work)
        if one is None:
            return None
        cycles = tuple(one.cycles[0] + 10 * place for place in range(places))
        return replace(one, cycles=cycles, work=(2 * one.work[0], *one.work[:1] * (places - 1)))

    monkeypatch.setattr(step_sampling, "pattern_of", made)
    run, out, clocks, skipped = launch("v100", "meets_often", True, monkeypatch, 2, 32)
    whole, its_out, its_clocks, _ = launch("v100", "meets_often", False, monkeypatch, 2, 32)
    assert run.sampling is not None
    assert run.sampling.expected_error > 0.05
    assert sum(skipped) > 20
    assert (out, clocks) == (its_out, its_clocks)
    assert (run.cycles, run.instructions, dict(run.metrics)) == (whole.cycles, whole.instructions, dict(whole.metrics))
    assert str(run.sampling) == str(whole.sampling)


@pytest.mark.ci
def test_polls_are_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls add half as many instructions again, but only in the timed steps."""
    run, *_ = launch("v100", "meets_often", True, monkeypatch, 2, 32)
    full, *_ = launch("v100", "meets_often", False, monkeypatch, 2, 32, timing="full")
    assert run.sampling is not None
    assert run.sampling.expected_error < 0.05
    assert abs(run.cycles / full.cycles - 1) < 0.05


GRIDS = r"""
typedef unsigned long long Handle;
extern "C" __device__ Handle __cuda_syscall_CGS_get_intrinsic_handle(unsigned scope);
extern "C" __device__ unsigned __cuda_syscall_CGS_sync(Handle handle, unsigned flags);
extern "C" __global__ void meets(int *out, int rounds, int scope) {
    Handle all = __cuda_syscall_CGS_get_intrinsic_handle(scope);
    for (int round = 0; round < rounds; round++)
        __cuda_syscall_CGS_sync(all, 0);
    out[blockIdx.x * blockDim.x + threadIdx.x] = rounds;
}
"""


@pytest.mark.ci
@pytest.mark.parametrize("scope", [1, 2], ids=["grid", "all grids"])
def test_a_cooperative_launch_on_one_of_several_devices_is_sampled(scope: int) -> None:
    """As ``cudaLaunchCooperativeKernelMultiDevice`` makes it for one device."""
    runs = []
    for timing in ("full", "sampled"):
        node = ww.System("dgx-1", timing=timing)
        gpu = node.gpus[0]
        out = gpu.zeros(80 * 64, dtype="i4")
        kernel = gpu.compile(cubin("70", GRIDS))["meets"]
        (run,) = node.launch((kernel[80, 64], (out, 40, scope)), cooperative=True)
        assert set(out.numpy().tolist()) == {40}
        runs.append(run)
    full, sampled = runs
    assert full.sampling is None
    assert sampled.sampling is not None
    assert sampled.sampling.steps == 40
    assert sampled.sampling.timed_steps <= 28
    assert abs(sampled.cycles / full.cycles - 1) < 0.02
