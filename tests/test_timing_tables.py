"""The table of a kernel's instructions is made once for all of its launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.timing import block_sources

SOURCE = """extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }"""


def test_a_kernel_is_encoded_once_for_a_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    encode = block_sources.encode

    def counted(*named: Any) -> Any:
        made.append(named[3].launch.launch_overhead_cycles)
        return encode(*named)

    monkeypatch.setattr(block_sources, "encode", counted)
    first, other = (
        ww.GPU("v100").compile(SOURCE)["twice"],
        ww.GPU("v100", launch_overhead_cycles=3000).compile(SOURCE)["twice"],
    )
    cycles = []
    for kernel in (first, first, other, first):
        x = kernel.gpu.array(np.ones(32, np.float32))
        cycles.append(kernel[1, 32](x).cycles)
        assert (x.numpy() == 2).all()
    assert made == [2000, 3000]
    assert cycles[0] == cycles[1] == cycles[3] < cycles[2]
