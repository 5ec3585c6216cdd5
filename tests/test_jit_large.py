"""Functions too large for LLVM's optimisation: variables stay in memory and code is generated quickly, with the same results."""

from __future__ import annotations

import re

import numpy as np
import pytest

import warpwright as ww
from tests.test_jit import Prepared
from warpwright.engine.compiled_launch import CompiledExecution
from warpwright.engine.jit import codegen as jit
from warpwright.engine.jit import object_code, storage

SOURCE = """
extern "C" __global__ void mixed(int n, const float *x, float *y, double *z, int *counts) {
    __shared__ float all[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    float sum = 0;
    for (int j = 0; j <= t % n; j++) {
        if ((i ^ j) & 1) sum = sinf(x[(i + j) & 127]) / (sum + 3.0f);
        else sum += __shfl_xor_sync(__activemask(), sum, 2) * 0.5f;
    }
    all[63 - t] = sum;
    __syncthreads();
    y[i] = all[t];
    z[i] = sqrt((double)all[t ^ 5]) + (long long)i * 12345678901LL % (t + 7);
    atomicAdd(counts + (t & 3), i);
}
"""


class Mixed:
    """A launch of ``mixed``, of which several compilations give results."""

    def __init__(self) -> None:
        self.gpu = ww.GPU("h200", timing="off")
        self.module = self.gpu.compile(SOURCE)
        self.x = self.gpu.array(np.linspace(0.1, 9, 128, dtype=np.float32))

    def _prepared(self) -> tuple[list[ww.DeviceArray], Prepared]:
        arrays = [self.gpu.zeros(128), self.gpu.zeros(128, np.float64), self.gpu.zeros(4, np.int32)]
        return arrays, Prepared(self.gpu, self.module, "mixed", 2, 64, [5, self.x, *arrays])

    def compiled(self, trace: bool) -> jit.CompiledKernel:
        p = self._prepared()[1]
        return jit.compile_kernel(p.program, p.lowered, (64, 1, 1), trace=trace, use_cache=False)

    def results(self, kernel: jit.CompiledKernel) -> list[bytes]:
        """The bits of the arrays that the launch writes."""
        arrays, p = self._prepared()
        CompiledExecution(p.context, kernel, 2, 1).run()
        return [a.get().tobytes() for a in arrays]


@pytest.mark.ci
@pytest.mark.parametrize("limit", ["MOST_CHOICES", "MOST_PHIS"])
def test_large_functions_give_the_same_bits(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """Beyond either limit, variables stay in memory."""
    mixed = Mixed()
    monkeypatch.setattr(object_code, "LARGE_TEXT", 0)
    results, sizes = [], []
    for most in (getattr(object_code, limit), 0):
        monkeypatch.setattr(object_code, limit, most)
        kernel = mixed.compiled(trace=False)
        results.append(mixed.results(kernel))
        sizes.append(len(object_code.to_object(kernel.ir, object_code.make_target())))
    assert results[0] == results[1]
    assert sizes[0] < sizes[1], "the second was generated without registers"
    assert any(results[0][1])


@pytest.mark.ci
def test_vectors_without_room_in_registers_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that loops use least live in memory; code is shorter by what LLVM need not join and spill."""
    mixed = Mixed()
    results, allocas = [], []
    for most in (storage.MOST_JOINS, 60, 0):
        monkeypatch.setattr(storage, "MOST_JOINS", most)
        for trace in (True, False):
            kernel = mixed.compiled(trace=trace)
        results.append(mixed.results(kernel))
        allocas.append(kernel.ir.count("= alloca <32 x i"))
    assert results[0] == results[1] == results[2]
    assert allocas[0] > allocas[1] > allocas[2]
    assert any(results[0][1])


@pytest.mark.ci
def test_a_large_functions_variables_stay_in_the_save_area(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops then copy none of them there, and the results are the same."""
    mixed = Mixed()
    results, copies = [], []
    for most in (storage.MOST_CHOICES, 0):
        monkeypatch.setattr(storage, "MOST_CHOICES", most)
        traced = mixed.compiled(trace=True)
        kernel = mixed.compiled(trace=False)
        results.append(mixed.results(kernel))
        copies.append(len(re.findall(r"= load <32 x i32>, ptr %w\d+\n.* = getelementptr i8, ptr %save", traced.ir)))
    assert results[0] == results[1]
    assert any(results[0][1])
    assert copies[0] > 10 * copies[1]


GROUP_BARRIERS = r"""
#include <cooperative_groups.h>
extern "C" __global__ void barriers(unsigned *out, unsigned last) {
    unsigned begin = 0, end = 0;
    if (threadIdx.x % 32 <= last) {
        auto group = cooperative_groups::coalesced_threads();
        asm volatile("mov.u32 %0, %%clock;" : "=r"(begin) :: "memory");
        BARRIERS
        asm volatile("mov.u32 %0, %%clock;" : "=r"(end) :: "memory");
    }
    if (threadIdx.x == 0) { out[0] = begin; out[1] = end; }
}
"""


@pytest.mark.ci
def test_code_grows_in_proportion_to_the_warp_barriers() -> None:
    """Lanes that wait at different WARPSYNCs can meet, and each asks for the lanes at all others."""
    lines = []
    for count in (8, 16, 32):
        gpu = ww.GPU("h200", timing="off")
        module = gpu.compile(GROUP_BARRIERS.replace("BARRIERS", "group.sync();" * count))
        p = Prepared(gpu, module, "barriers", 1, 32, [gpu.zeros(32, np.uint32), np.uint32(7)])
        kernel = jit.compile_kernel(p.program, p.lowered, (32, 1, 1), trace=True, use_cache=False)
        assert sum(i.opcode == "WARPSYNC" for i in p.program.instructions) >= count
        lines.append(kernel.ir.count("\n"))
    assert (lines[2] - lines[1]) / (lines[1] - lines[0]) == pytest.approx(2, rel=0.15)
