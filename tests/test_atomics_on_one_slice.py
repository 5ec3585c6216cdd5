"""The limit that is named for atomics on one word or on neighbouring lines: the throughput of their slice, with what-ifs that relieve it."""

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
extern "C" __global__ void warps(int *sum, int apart)
{
    int value = threadIdx.x;
    for (int offset = 16; offset; offset /= 2)
        value += __shfl_down_sync(~0u, value, offset);
    if (threadIdx.x % 32 == 0)
        atomicAdd(sum + apart * (threadIdx.x / 32 % 2), value);
}
"""
GRID, BLOCK = 108, 256
WARPS = GRID * BLOCK // 32
SPREAD = "atomics of a slice twice as fast, as if they were spread over two slices"


def run(kernel: str, words: int = 1) -> ww.Run:
    gpu = ww.GPU("a100", timing="full")
    return gpu.compile(SOURCE)[kernel][GRID, BLOCK](gpu.zeros(words, np.int32 if kernel == "integers" else np.float32))


@pytest.mark.parametrize("kernel", ["floats", "integers"])
def test_the_slice_of_the_word_is_named(kernel: str) -> None:
    found = run(kernel)
    assert found.timing is not None
    busiest = found.timing.busiest_slice
    assert busiest is not None
    assert busiest.requests == WARPS
    assert busiest.passes == (32 * WARPS if kernel == "floats" else WARPS)
    said = f"slice {busiest.slice} of L2 executes {WARPS:,} atomics on one line of 128 bytes one by one"
    assert found.bottleneck.startswith(f"{ATOMICS} binds: its work alone takes at least ")
    assert "% of the cycles after launch; " in found.bottleneck
    assert said in found.bottleneck
    attribution = found.attribution()
    assert attribution.limit.title == "the atomic throughput of one L2 slice"
    assert said in attribution.because
    assert "spread them over words that are added at the end, 1 KiB apart" in attribution.limit.advice


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
    assert saved[SPREAD] == pytest.approx(0.5, abs=0.05)
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


def program(gpu: ww.GPU, apart: int) -> ww.Run:
    """Each warp adds once, to one of two words that are some words apart."""
    return gpu.compile(SOURCE)["warps"][1024, BLOCK](gpu.zeros(512, np.int32), apart)


def test_neighbouring_lines_share_the_limit_of_their_slice() -> None:
    found = program(ww.GPU("a100", timing="full"), 32)
    assert found.timing is not None
    assert f"{ATOMICS} binds" in found.bottleneck
    assert "executes 8,192 atomics on several lines of 128 bytes one by one" in found.bottleneck
    assert "the busiest line has 4,096" in found.bottleneck
    apart = program(ww.GPU("a100", timing="full"), 256)
    assert apart.cycles < 0.7 * found.cycles


@pytest.mark.ci
@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
def test_the_what_if_saves_what_two_slices_save(chip: str) -> None:
    """Each atomic also takes the read port of its slice and the link between the partitions, which would limit faster atomics."""
    base = program(ww.GPU(chip, timing="full"), 0)
    ranking = ranked(lambda gpu: program(gpu, 0), base)
    saved = {relief.what_if.change: relief.what_if.saved(0) for relief in ranking.reliefs}
    apart = program(ww.GPU(chip, timing="full"), 256)
    assert saved[SPREAD] == pytest.approx(1 - apart.cycles / base.cycles, abs=0.02)
