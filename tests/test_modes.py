"""What a launch leaves does not depend on how it runs: with or without time, on one host thread or several, compiled or interpreted."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

import warpwright as ww
from tests.generated_kernels import CALLS, Kernel, kernels

MODES: dict[str, dict[str, Any]] = {
    "off": {"timing": "off", "threads": 1},
    "off on two threads": {"timing": "off", "threads": 2},
    "interpreter": {"timing": "off", "engine": "interpreter"},
    "tiered": {"timing": "off", "engine": "tiered"},
    "full": {"timing": "full", "threads": 1},
    "full on two threads": {"timing": "full", "threads": 2},
}
LATER_CHIPS = (pytest.param("v100", marks=pytest.mark.ci), pytest.param("a100", marks=pytest.mark.slow), "h200")
ARCH = {"p100": 60, "v100": 70, "a100": 80, "h200": 90}
SAMPLED_SMS, SAMPLED_BLOCKS, SAMPLED_SHARED = 24, 96, 100 << 10
"""A chip so small that few blocks, two of which an SM holds, are two waves: enough to be sampled."""


@cache
def gpu(chip: str, mode: str) -> ww.GPU:
    return ww.GPU(chip, **MODES[mode])


def agree(chip: str, kernel: Kernel) -> None:
    """Launch a kernel in every mode; all must leave the same."""
    note(kernel.source)
    note(f"{kernel.blocks} blocks of {kernel.threads} threads on {chip}")
    left = {mode: kernel.launch(gpu(chip, mode).compile(kernel.source)) for mode in MODES}
    for mode, arrays in left.items():
        for name, array in arrays.items():
            assert np.array_equal(array, left["off"][name]), f"{name} differs with {mode}"


GENERATE = settings(
    deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), print_blob=False
)


@pytest.mark.ci
@settings(GENERATE, max_examples=4, derandomize=True)
@given(kernels(90, steps=8))
def test_modes_agree_on_a_few_generated_kernels(kernel: Kernel) -> None:
    agree("h200", kernel)


@pytest.mark.slow
@pytest.mark.parametrize("chip", ARCH)
@settings(GENERATE, max_examples=60)
@given(data=st.data())
def test_modes_agree_on_generated_kernels(chip: str, data: st.DataObject) -> None:
    agree(chip, data.draw(kernels(ARCH[chip])))


@cache
def small(timing: str) -> ww.GPU:
    return ww.GPU("h200", timing=timing, threads=1, sm_count=SAMPLED_SMS)


@pytest.mark.slow
@settings(GENERATE, max_examples=40)
@given(kernels(90, steps=12, waits=False))
def test_sampled_launches_of_generated_kernels_leave_the_same(kernel: Kernel) -> None:
    note(kernel.source)
    left = [
        kernel.launch(small(timing).compile(kernel.source), SAMPLED_BLOCKS, SAMPLED_SHARED)
        for timing in ("off", "sampled", "full")
    ]
    for name, array in left[0].items():
        assert np.array_equal(left[1][name], array), name
        assert np.array_equal(left[2][name], array), name


@pytest.mark.ci
def test_generated_grids_are_sampled() -> None:
    kernel = Kernel(SUMS, 90, 64, 1, 1)
    launched = small("sampled").compile(kernel.source)["generated"]
    arrays = [np.zeros(4 * 64 * SAMPLED_BLOCKS, np.uint32) for _ in range(4)]
    run = launched[SAMPLED_BLOCKS, 64, SAMPLED_SHARED](*arrays, np.uint32(1))
    assert run.sampling is not None
    assert arrays[0][:2].tolist() == [SAMPLED_BLOCKS * 64, SAMPLED_BLOCKS * sum(range(64))]


SUMS = """
extern "C" __global__ void generated(unsigned *out, unsigned *mem, unsigned *flags, unsigned *sites, unsigned n) {
    __shared__ unsigned s[64];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    atomicAdd(&out[0], n);
    atomicAdd(&out[1], s[63 - threadIdx.x]);
}
"""

# --- what generated kernels have shown -----------------------------------------------------------------

BALLOTS = """
extern "C" __global__ void ballots(unsigned *out, unsigned *cell) {
    unsigned t = threadIdx.x, outer = t & 2, sum = 0, m = ~0u;
    for (unsigned i = 0;; i++) {
        m = __ballot_sync(m, i < outer);
        if (!(i < outer)) break;
        unsigned inner = (t * 5 + i) & 6, mine = m;
        for (unsigned j = 0;; j++) {
            mine = __ballot_sync(mine, j < inner);
            if (!(j < inner)) break;
            __nanosleep(t & 31);
            unsigned seen, old = *(volatile unsigned *)cell;
            do { seen = old; old = atomicCAS(cell, seen, max(seen, t)); } while (old != seen);
            sum += j * 100 + __popc(mine);
        }
        sum += i * 10000 + 1000 * __popc(m);
    }
    out[t] = sum;
}
"""


def ballots() -> list[int]:
    """What the kernel computes: each lane's loops, with the lanes that are in them as well."""
    sums = [0] * 32
    for i in range(2):
        outer = [t for t in range(32) if i < t & 2]
        for j in range(6):
            inner = [t for t in outer if j < (t * 5 + i) & 6]
            for t in inner:
                sums[t] += j * 100 + len(inner)
        for t in outer:
            sums[t] += i * 10000 + 1000 * len(outer)
    return sums


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chip", LATER_CHIPS)
def test_lanes_meet_at_a_warpsync_only_those_with_their_mask(chip: str, mode: str) -> None:
    """Nested loops that lanes leave one by one: some wait for the outer loop's vote, others come to the inner one's in the same code."""
    out, cell = np.zeros(32, np.uint32), np.zeros(1, np.uint32)
    gpu(chip, mode).compile(BALLOTS)["ballots"][1, 32](out, cell)
    assert out.tolist() == ballots()
    assert cell[0] == 31


TABLE = (
    CALLS
    + """
extern "C" __global__ void called(unsigned *out) {
    unsigned t = threadIdx.x, a = chosen(t * 2654435761u >> 13, t);
    __syncwarp();
    out[t] = a + __shfl_xor_sync(~0u, a, 1);
}
"""
)


def chosen(x: int, y: int) -> int:
    def nested(x: int, y: int) -> int:
        return y + 1 if x & 7 == 0 else nested((x & 7) - 1, y * 3 + x) ^ x

    if y % 3 == 2:
        return (x >> 3) + y
    if y % 3 == 1:
        return nested(x, y)
    for i in range(y & 7):
        x = x * 5 + (y >> i)
    return x


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chip", ["p100", *LATER_CHIPS])
def test_lanes_call_what_a_table_in_local_memory_names(chip: str, mode: str) -> None:
    """Its addresses are constants of the code, relative to it; and lanes wait at one BSYNC in several depths of a recursion."""
    out = np.zeros(128, np.uint32)
    gpu(chip, mode).compile(TABLE)["called"][1, 128](out)
    found = [chosen((t * 2654435761 & 0xFFFFFFFF) >> 13, t) for t in range(128)]
    assert out.tolist() == [found[t] + found[t ^ 1] & 0xFFFFFFFF for t in range(128)]
