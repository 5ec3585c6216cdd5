"""Workspaces of small launches are used again: what a launch left in one is not seen by the next."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.jit.workspace import KEPT, Workspace

SOURCE = """
extern "C" __global__ void leave(int *out, int mark)
{
    extern __shared__ int values[];
    int own[8];
    out[threadIdx.x] = values[threadIdx.x];
    for (int i = 0; i < 8; i++) own[(i * mark) & 7] = i;
    values[threadIdx.x] = mark + own[threadIdx.x & 7];
    __syncthreads();
    if (threadIdx.x == 40 && mark < 0) out[1 << 20] = 1;
}
"""


@pytest.fixture(scope="module")
def kernel() -> Any:
    return ww.GPU("a100", timing="off").compile(SOURCE)["leave"]


def test_shared_memory_is_clear_again(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    make = Workspace.__init__

    def count(self: Workspace, *arguments: Any) -> None:
        made.append(arguments)
        make(self, *arguments)

    monkeypatch.setattr(Workspace, "__init__", count)
    for size in (256, 256, 512, 256, 512):
        out = np.full(64, 7, np.int32)
        run = kernel[1, 64, size](out, 5)
        assert not out.any()
        assert run.instructions > 0
    assert len(made) == 2, "one for each size of shared memory"


def test_one_that_a_fault_ended_is_not_used_again(kernel: Any) -> None:
    for _ in range(2 * KEPT):
        with pytest.raises(ww.MemoryFaultError):
            kernel[1, 64, 256](np.zeros(64, np.int32), -1)
        out = np.full(64, 7, np.int32)
        kernel[1, 64, 256](out, 5)
        assert not out.any()


def test_a_forked_process_has_its_own(kernel: Any) -> None:
    kernel[1, 64, 256](np.zeros(64, np.int32), 5)
    child = os.fork()
    if child == 0:
        out = np.full(64, 7, np.int32)
        kernel[1, 64, 256](out, 9)
        os._exit(int(out.any()))
    for _ in range(50):
        out = np.full(64, 7, np.int32)
        kernel[1, 64, 256](out, 5)
        assert not out.any()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
