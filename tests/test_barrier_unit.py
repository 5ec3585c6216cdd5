"""The barrier unit of an SM: what else passes it, and what does not wait for a barrier."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from bench.machine import shared_units
from warpwright.toolchain import compile_source

DATA = Path(__file__).parents[1] / "bench" / "data" / "h200" / "shared_units.json"
CLOCKS = r"""
#define KERNEL(NAME, CLOCK)                                                  \
    extern "C" __global__ void NAME(unsigned *out, float x, int turns)       \
    {                                                                        \
        __shared__ volatile unsigned word;                                   \
        unsigned begin, end = 0;                                             \
        word = 0;                                                            \
        if (threadIdx.x >= 32)                                               \
            for (int i = 0; i < turns; i++)                                  \
                x = x * 0.999f + 0.001f;                                     \
        begin = clock();                                                     \
        __syncthreads();                                                     \
        CLOCK end = clock();                                                 \
        if (threadIdx.x % 32 == 0) {                                         \
            out[threadIdx.x / 32] = end - begin;                             \
            out[2 + threadIdx.x / 32] = x;                                   \
        }                                                                    \
    }
KERNEL(at_once, )
KERNEL(after_lds, if (word == 0))
"""


@pytest.mark.ci
@pytest.mark.parametrize(("kernel", "least", "most"), [("at_once", 4, 80), ("after_lds", 4000, 5000)])
def test_a_clock_does_not_wait_for_the_barrier_before_it(kernel: str, least: int, most: int) -> None:
    """The other warp arrives some 4,500 cycles later. If it arrives after 4,000, an H200 takes 37 cycles, and 4,100 if shared memory is read first (bench.micro ``bar_defer``)."""
    out = np.zeros(4, np.uint32)
    ww.GPU("h200", timing="full").compile(CLOCKS)[kernel][1, 64](out, np.float32(1), np.int32(1000))
    assert least < int(out[0]) < most


@cache
def card() -> dict[str, float]:
    """Cycles by kernel, different values and warps (``bench.machine.shared_units``)."""
    rows: dict[str, float] = json.loads(DATA.read_text(encoding="utf-8"))["rows"]
    return rows


@cache
def cubin() -> bytes:
    return compile_source(Path(shared_units.__file__).with_suffix(".cu"), 90).cubin


@pytest.mark.ci
@pytest.mark.parametrize(
    ("kernel", "values", "within"),
    [("match_bar", 1, 0.03), ("match_bar", 4, 0.03), ("redux_bar", 1, 0.03), ("match_redux", 1, 0.04), ("match_redux", 4, 0.04), ("match_redux_bar", 1, 0.03)],
)  # fmt: skip
def test_matches_reductions_and_barriers_pass_one_unit(kernel: str, values: int, within: float) -> None:
    assert cycles(kernel, values) == pytest.approx(card()[f"{kernel}, {values} values, 32 warps"], rel=within)


@pytest.mark.ci
def test_shared_loads_do_not_pass_it() -> None:
    """26 matches of four values and 32 loads take the time of the matches."""
    assert cycles("match_lds", 4) == pytest.approx(card()["match_lds, 4 values, 32 warps"], rel=0.03)
    assert cycles("match_lds", 4) < card()["match_lds, 4 values, 32 warps"] + 10


def cycles(kernel: str, values: int) -> float:
    """The model's cycles per step of 32 warps."""
    clocks = np.zeros(64, np.uint32)
    loaded: Any = ww.GPU("h200", timing="full").compile(cubin())[kernel]
    loaded[1, 1024](clocks, np.uint32(shared_units.MASKS[values]), np.int32(shared_units.PASSES))
    return (int(clocks[32:].max()) - int(clocks[:32].min())) / shared_units.STEPS
