"""The limit that is named for atomics on one word: the throughput of its line's slice, with what-ifs that relieve it."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.timing.bounds import ATOMICS
from warpwright.tools.report.relieved import ranked

SOURCE = """
extern "C" __global__ void floats(float *sum) { atomicAdd(sum, 1.0f * threadIdx.x); }
extern "C" __global__ void integers(int *sum) { atomicAdd(sum, (int)threadIdx.x); }
extern "C" __global__ void spread(float *sum) { atomicAdd(sum + 32 * (blockIdx.x * blockDim.x + threadIdx.x), 1.0f); }
"""
GRID, BLOCK = 108, 256
WARPS = GRID * BLOCK // 32


def run(kernel: str, words: int = 1) -> ww.Run:
    gpu = ww.GPU("a100", timing="full")
    return gpu.compile(SOURCE)[kernel][GRID, BLOCK](gpu.zeros(words, np.int32 if kernel == "integers" else np.float32))


@pytest.mark.parametrize("kernel", ["floats", "integers"])
def test_the_slice_of_the_word_is_named(kernel: str) -> None:
    found = run(kernel)
    assert found.timing is not None
    line = found.timing.busiest_line
    assert line is not None
    assert line.requests == WARPS
    assert line.passes == (32 * WARPS if kernel == "floats" else WARPS)
    said = f"slice {line.slice} of L2 executes {WARPS:,} atomics on one line of 128 bytes one by one"
    assert found.bottleneck.startswith(f"{ATOMICS} binds: its work alone takes at least ")
    assert said in found.bottleneck
    attribution = found.attribution()
    assert attribution.limit.title == "the atomic throughput of one L2 line"
    assert said in attribution.because
    assert "spread them over words" in attribution.limit.advice


def test_the_bound_is_the_time_of_the_atomics_on_the_line() -> None:
    """An A100 adds floats to one word every 3.47 cycles (``l2_atomic_float_cycles``)."""
    found = run("floats")
    assert found.timing is not None
    after_launch = found.timing.bounds[ATOMICS] - ww.load_chip("a100").launch.launch_overhead_cycles
    each = ww.load_chip("a100").l2.l2_atomic_float_cycles
    assert after_launch == pytest.approx(GRID * BLOCK * each, rel=0.02)
    assert found.timing.bounds[ATOMICS] <= found.cycles


def test_atomics_that_are_spread_are_not_limited_by_a_line() -> None:
    found = run("spread", 32 * GRID * BLOCK)
    assert found.timing is not None
    assert found.timing.bounds.get(ATOMICS, 0) < 0.5 * found.cycles
    assert ATOMICS not in found.bottleneck


@pytest.mark.ci
def test_what_ifs_relieve_the_line_and_combine_a_warps_lanes() -> None:
    base = run("floats")

    def program(gpu: ww.GPU) -> None:
        gpu.compile(SOURCE)["floats"][GRID, BLOCK](gpu.zeros(1, np.float32))

    ranking = ranked(program, base)
    saved = {relief.what_if.change: relief.what_if.saved(0) for relief in ranking.reliefs}
    assert saved["the lanes of a warp on one word combined into one atomic"] > 0.9
    assert saved["atomics on one line twice as fast, as if they were spread over two"] == pytest.approx(0.5, abs=0.05)
    assert ranking.headline.startswith(
        "Limited by atomics of a warp's lanes on one word, which L2 executes one by one: "
    )
    assert "twice the special-function lanes" not in ranking.headline


@pytest.mark.ci
def test_no_lanes_are_combined_where_each_warp_makes_one_atomic() -> None:
    def program(gpu: ww.GPU) -> None:
        gpu.compile(SOURCE)["integers"][GRID, BLOCK](gpu.zeros(1, np.int32))

    ranking = ranked(program, run("integers"))
    assert all("combined" not in relief.what_if.change for relief in ranking.reliefs)
