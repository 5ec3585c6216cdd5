"""Sampled timing: what is timed, that everything is executed and counted exactly, and how far the estimate is off."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import load_chip
from warpwright.chips.occupancy import Occupancy
from warpwright.timing import sampling
from warpwright.timing.sampling import REDUCTION, Plan, part_of, plan

SOURCE = """
extern "C" __global__ void scale(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int k = 0; k < 8; ++k) v = v * 0.5f + 1.0f;
    if (i < n) y[i] = v;
}
extern "C" __global__ void longer(int *sum, const int *x) {
    __shared__ int part[64];
    int v = x[threadIdx.x];
    for (int k = 0; k < (int)(blockIdx.x >> 9); ++k) v = v * 5 + 1;
    part[threadIdx.x] = v;
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&sum[blockIdx.x % 512 * 32], part[63]);
}
extern "C" __global__ void meeting(float *y) {
    __shared__ float part[64];
    part[threadIdx.x] = threadIdx.x;
    for (int k = 1; k <= 32; ++k) {
        __syncthreads();
        float v = part[(threadIdx.x + k) & 63];
        __syncthreads();
        part[threadIdx.x] = v * 0.5f;
    }
    y[blockIdx.x * 64 + threadIdx.x] = part[threadIdx.x];
}
extern "C" __global__ void faulty(int *x) { x[blockIdx.x == 9000 ? 1 << 28 : 0] = 1; }
"""


def occupancy(chip: str, threads: int) -> Occupancy:
    return ww.GPU(chip, timing="off").compile(SOURCE)["scale"][1, threads].resident


def chosen(chip: str, blocks: int, threads: int = 256) -> Plan:
    found = plan(load_chip(chip), blocks, occupancy(chip, threads))
    assert found is not None
    return found


@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
@pytest.mark.parametrize("blocks", [30_000, 123_457, 3_000_000])
def test_sections_are_few_apart_and_inside_the_grid(chip: str, blocks: int) -> None:
    found = chosen(chip, blocks)
    assert found.timed_blocks * 20 <= blocks
    assert found.sections[0].start == 0
    ends = [0]
    for section in found.sections:
        assert ends[-1] <= section.start < section.stop <= blocks
        ends.append(section.stop)
    assert len(found.sections) >= 3


def test_larger_grids_are_timed_on_more_of_the_chip() -> None:
    shares = [chosen("h200", blocks).share for blocks in (12_000, 40_000, 400_000)]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(chosen("h200", 4_000_000).sections) > len(chosen("h200", 150_000).sections)


def test_a_small_grid_is_not_sampled() -> None:
    assert plan(load_chip("h200"), 500, occupancy("h200", 256)) is None
    assert REDUCTION > 20


def test_a_part_has_the_whole_chip_s_bandwidth_for_each_sm() -> None:
    whole = load_chip("h200")
    for share in (1 / 2, 1 / 4, 1 / 8, 1 / 16):
        part = part_of(whole, share)
        sms = part.sm.sm_count / whole.sm.sm_count
        assert sms == pytest.approx(share, rel=0.1)
        assert sum(part.sm.gpc_sm_counts) == part.sm.sm_count
        pairs = [
            (part.dram.dram_gb_per_s, whole.dram.dram_gb_per_s),
            (part.l2.l2_slice_count * part.l2.l2_slice_bytes_per_clk, whole.l2.l2_slice_count * whole.l2.l2_slice_bytes_per_clk),
            (len(part.sm.gpc_sm_counts) * part.crossbar.gpc_read_bytes_per_clk, 8 * whole.crossbar.gpc_read_bytes_per_clk),
            (1 / part.launch.block_dispatch_interval_cycles, 1 / whole.launch.block_dispatch_interval_cycles),
        ]  # fmt: skip
        for mine, theirs in pairs:
            assert mine / theirs == pytest.approx(sms, rel=0.03)
        assert part.l2.l2_kib == whole.l2.l2_kib


def test_results_and_counts_are_exact_and_cycles_near() -> None:
    n, threads = 12_000 * 64, 64
    x = np.arange(n, dtype=np.float32)
    outs = [np.zeros(n, np.float32) for _ in range(3)]
    runs = []
    for timing, out in zip(("full", "sampled", "sampled"), outs, strict=True):
        kernel = ww.GPU("v100", timing=timing, threads=1).compile(SOURCE)["scale"]
        runs.append(kernel[n // threads, threads](out, x, np.int32(n)))
    full, some, again = runs
    assert np.array_equal(outs[0], outs[1])
    assert full.sampling is None
    assert (some.instructions, some.thread_instructions) == (full.instructions, full.thread_instructions)
    assert some.metrics["smsp__inst_executed.sum"] == full.instructions
    assert some.sampling is not None
    assert some.sampling.timed_instructions * 4 < some.instructions
    assert some.cycles == again.cycles
    error = abs(some.cycles / full.cycles - 1)
    assert error < 0.15
    assert some.metrics["sampling__expected_error.pct"] == 100 * some.sampling.expected_error
    assert "expected error" in repr(some)
    assert some.metrics["dram__bytes_read.sum"] == pytest.approx(full.metrics["dram__bytes_read.sum"], rel=0.1)


@pytest.mark.slow
def test_blocks_of_different_length_are_weighed_by_their_instructions() -> None:
    x = np.arange(64, dtype=np.int32)
    cycles = []
    for timing in ("full", "sampled"):
        total = np.zeros(512 * 32, np.int32)
        kernel = ww.GPU("v100", timing=timing, threads=1).compile(SOURCE)["longer"]
        cycles.append(kernel[16_000, 64](total, x).cycles)
    assert cycles[1] == pytest.approx(cycles[0], rel=0.15)


def test_barriers_of_blocks_without_time_do_not_delay_those_that_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    sections: list[sampling._Timed] = []
    estimate = sampling.estimate

    def kept(plan: Plan, timed: list[sampling._Timed], between: list[int]) -> tuple[float, float]:
        sections.extend(timed)
        return estimate(plan, timed, between)

    monkeypatch.setattr(sampling, "estimate", kept)
    kernel = ww.GPU("v100", timing="sampled", threads=1).compile(SOURCE)["meeting"]
    run = kernel[12_000, 64](np.zeros(12_000 * 64, np.float32))
    assert run.sampling is not None
    assert len(sections) >= 3
    first, *further = sections
    for section in further:
        assert section.cycles / section.instructions < 1.5 * first.cycles / first.instructions


def test_a_fault_between_sections_is_said() -> None:
    kernel = ww.GPU("v100", timing="sampled").compile(SOURCE)["faulty"]
    with pytest.raises(ww.ExecutionError, match="9000"):
        kernel[16_000, 64](np.zeros(4, np.int32))


def test_timing_left_to_the_simulator_samples_only_large_grids() -> None:
    assert ww.GPU("v100").samples_large
    assert not ww.GPU("v100", timing="full").samples_large
    kernel = ww.GPU("v100").compile(SOURCE)["longer"]
    assert kernel[64, 64](np.zeros(512 * 32, np.int32), np.arange(64, dtype=np.int32)).sampling is None
