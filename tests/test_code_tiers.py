"""Quickly generated code that is replaced by optimised code: when, with what, and in the middle of a launch."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.test_jit import Prepared
from warpwright.engine.compiled_launch import CompiledExecution
from warpwright.engine.jit import codegen as jit
from warpwright.engine.jit.code_tiers import Improvement
from warpwright.toolchain.cache import DiskCache

SOURCE = """
extern "C" __global__ void divide(int n, const float *x, const float *y, float *z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] / y[i];
}
extern "C" __global__ void when(const int *flag, const float *x, float *y) {
    __shared__ float all[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    float v = x[i] * 3 + 1;
    all[t] = v;
    __syncthreads();
    while (*(volatile const int *)flag == 0) v += 0.0f;
    y[i] = v + all[63 - t];
}
"""


@pytest.fixture(scope="module")
def built() -> tuple[Any, Any]:
    gpu = ww.GPU("v100", timing="off")
    return gpu, gpu.compile(SOURCE)


def quick(p: Prepared, threads: int, trace: bool = False) -> jit.CompiledKernel:
    return jit.compile_kernel(p.program, p.lowered, (threads, 1, 1), trace=trace, use_cache=False, is_quick=True)


def patient(seconds: float) -> tuple[Improvement, list[str]]:
    done: list[str] = []
    return Improvement(lambda: done.append("made"), seconds), done


def test_a_kernel_gets_better_code_once_it_has_run_for_long_and_once_only() -> None:
    improvement, done = patient(1.0)
    improvement.ran_seconds = 0.5
    improvement.begin_if_due()
    improvement.begin_if_due(0.4)
    improvement.wait()
    assert done == []
    improvement.begin_if_due(0.6, lambda: done.append("then"))
    improvement.wait()
    improvement.begin_if_due(100.0)
    improvement.wait()
    assert done == ["made", "then"]


def test_launches_that_have_run_for_long_together_are_followed_by_better_ones(built: tuple[Any, Any]) -> None:
    gpu, module = built
    x, y = (gpu.array(np.full(64, value, np.float32)) for value in (2, 3))
    z = gpu.array(np.zeros(64, np.float32))
    p = Prepared(gpu, module, "divide", 2, 32, [64, x, y, z])
    kernel = quick(p, 32)
    assert kernel.improvement is not None
    assert kernel.whole is not None
    before, kernel.improvement.patience_seconds = kernel.warp_function, 0.0
    CompiledExecution(p.context, kernel, 2, 1).run()
    kernel.improvement.wait()
    assert kernel.warp_function != before
    z.set(np.zeros(64, np.float32))
    CompiledExecution(p.context, kernel, 2, 1).run()  # in the workspace that the first one gave back
    assert np.array_equal(z.numpy(), np.full(64, 2, np.float32) / np.float32(3))
    # The optimised function reaches the slow paths as the quick one does.
    assert not kernel.whole.compiled
    x.set(np.full(64, 1e-40, np.float32))
    CompiledExecution(p.context, kernel, 2, 1).run()
    assert kernel.whole.compiled
    assert np.array_equal(z.numpy(), np.full(64, 1e-40, np.float32) / np.float32(3))


def test_slow_paths_that_have_been_compiled_are_optimised_too(
    built: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, module = built
    x, y = (gpu.array(np.full(64, value, np.float32)) for value in (1e-40, 3))
    z = gpu.array(np.zeros(64, np.float32))
    p = Prepared(gpu, module, "divide", 2, 32, [64, x, y, z])
    kernel = quick(p, 32)
    made: list[bool] = []

    def to_object(*args: Any, **others: Any) -> bytes:
        made.append(others["is_quick"])
        return jit_to_object(*args, **others)

    jit_to_object = jit.to_object
    monkeypatch.setattr(jit, "to_object", to_object)
    assert kernel.improvement is not None
    kernel.improvement.patience_seconds = 0.0
    for _ in range(2):
        CompiledExecution(p.context, kernel, 2, 1).run()
        kernel.improvement.wait()
        assert np.array_equal(z.numpy(), np.full(64, 1e-40, np.float32) / np.float32(3))
    assert made == [True, False, False]  # the whole function; then both


def test_a_launch_goes_on_in_better_code(built: tuple[Any, Any]) -> None:
    """Warps that wait in a loop take turns; a turn after the code has been replaced, their registers are in the save area of the same form."""
    gpu, module = built
    flag, x = gpu.array(np.zeros(1, np.int32)), gpu.array(np.arange(128, dtype=np.float32))
    y = gpu.array(np.zeros(128, np.float32))
    p = Prepared(gpu, module, "when", 2, 64, [flag, x, y])
    kernel = quick(p, 64)
    assert kernel.improvement is not None
    before, kernel.improvement.patience_seconds = kernel.warp_function, 0.0
    kernel.judged = False  # the host ends the loop
    execution = CompiledExecution(p.context, kernel, 2, 1)
    thread = threading.Thread(target=execution.run)
    thread.start()
    try:
        while not kernel.improvement._begun.locked():
            execution.improve_if_long()
        kernel.improvement.wait()
        space = execution.spaces[0]
        assert kernel.warp_function != before
        assert space._words[0] == kernel.warp_function
        assert thread.is_alive()
    finally:
        flag.set(np.ones(1, np.int32))
        thread.join()
    v = np.arange(128, dtype=np.float32) * 3 + 1
    assert np.array_equal(y.numpy(), v + np.concatenate([v[63::-1], v[:63:-1]]))


def test_code_with_trace_records_stays_quick(built: tuple[Any, Any]) -> None:
    gpu, module = built
    z = gpu.array(np.zeros(64, np.float32))
    p = Prepared(gpu, module, "divide", 2, 32, [64, z, z, z])
    assert quick(p, 32, trace=True).improvement is None


def test_optimised_code_on_disk_is_taken_at_once(
    built: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, module = built
    z = gpu.array(np.ones(64, np.float32))
    p = Prepared(gpu, module, "divide", 2, 32, [64, z, z, z])
    monkeypatch.setattr(jit, "object_cache", lambda: DiskCache(tmp_path))
    monkeypatch.setattr(jit, "_memory", {})

    def compiled(is_quick: bool) -> jit.CompiledKernel:
        jit._memory.clear()
        return jit.compile_kernel(p.program, p.lowered, (32, 1, 1), trace=False, is_quick=is_quick)

    first = compiled(is_quick=True)
    second = compiled(is_quick=True)
    assert first.ir
    assert not second.ir  # from disk, quick as before
    assert second.improvement is not None
    second.improvement.patience_seconds = 0.0
    CompiledExecution(p.context, second, 2, 1).run()
    second.improvement.wait()
    third = compiled(is_quick=True)
    assert third.improvement is None
    assert not third.ir
    assert CompiledExecution(p.context, third, 2, 1).run().blocks_done == 2


def test_what_a_warp_executes_before_it_continues_does_not_grow_with_the_number_of_barriers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = "all[t] = v; __syncthreads(); if (v > {}) v *= all[t ^ 1]; __syncthreads();"
    source = "\n".join(
        f'extern "C" __global__ void of_{count}(float *x) {{ __shared__ float all[64]; int t = threadIdx.x; float v = x[t];'
        f" {' '.join(step.format(n) for n in range(count))} x[t] = v; }}"
        for count in (5, 20)
    )
    texts: list[str] = []
    to_object = jit.to_object

    def recorded(text: str, *arguments: Any, **options: Any) -> bytes:
        texts.append(text)
        return to_object(text, *arguments, **options)

    monkeypatch.setattr(jit, "to_object", recorded)
    gpu = ww.GPU("v100", timing="off")
    module = gpu.compile(source)
    x = gpu.array(np.ones(64, np.float32))
    lines = []
    for count in (5, 20):
        quick(Prepared(gpu, module, f"of_{count}", 1, 64, [x]), 64)
        entry = texts[-1].split("entry:\n")[1].split("switch i32")[0].splitlines()
        # Registers are not computed: an alloca is a place on the stack.
        lines.append(sum(" = alloca " not in line for line in entry))
    assert lines[1] <= lines[0]
