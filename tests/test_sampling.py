"""Sampled timing: what is timed, that everything is executed and counted exactly, and how far the estimate is off."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import load_chip
from warpwright.chips.occupancy import Occupancy
from warpwright.timing import state
from warpwright.timing.block_sampling import REDUCTION, Plan, estimate, later_end, part_of, plan, spread_of_sms

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
extern "C" __global__ void once(int *ran) { if (threadIdx.x == 0) ran[blockIdx.x] += 1; }
extern "C" __global__ void look(float *y, const float *table, const int *index) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = table[index[i]];
}
extern "C" __global__ void chain(volatile int *flag) {
    if (threadIdx.x == 0) {
        if (blockIdx.x) while (flag[blockIdx.x - 1] == 0) ;
        flag[blockIdx.x] = 1;
    }
}
extern "C" __global__ void stamps(int *at) { if (threadIdx.x == 0) at[blockIdx.x] = clock(); }
extern "C" __global__ void faulty(int *x) { x[blockIdx.x == 9000 ? 1 << 28 : 0] = 1; }
"""


def occupancy(chip: str, threads: int) -> Occupancy:
    return ww.GPU(chip, timing="off").compile(SOURCE)["scale"][1, threads].resident


def chosen(chip: str, blocks: int, threads: int = 256) -> Plan:
    found = plan(load_chip(chip), blocks, occupancy(chip, threads))
    assert found is not None
    return found


@pytest.mark.parametrize("chip", ["p100", "v100", "a100", "h200"])
@pytest.mark.parametrize("blocks", [10_001, 30_000, 123_457, 3_000_000])
def test_timed_blocks_are_few_and_all_over_the_grid(chip: str, blocks: int) -> None:
    found = chosen(chip, blocks)
    assert found.timed_blocks * 20 <= blocks
    stretches = found.timed_blocks // found.per_stretch
    assert found.timed_blocks == stretches * found.per_stretch
    last = stretches * found.stretch + (stretches - 1) * found.left_out
    assert last <= blocks
    assert last + found.stretch >= blocks - 2 * found.stretch  # nothing is left out behind the last stretch


def test_larger_grids_are_timed_on_more_of_the_chip() -> None:
    shares = [chosen("h200", blocks).share for blocks in (12_000, 60_000, 800_000)]
    assert shares == sorted(shares)
    assert shares[0] == 6 / 132
    assert shares[-1] == 1.0
    assert chosen("h200", 12_000).left_out == 0
    assert chosen("h200", 4_000_000).left_out > chosen("h200", 400_000).left_out > 0


def test_a_small_grid_is_not_sampled() -> None:
    assert plan(load_chip("h200"), 500, occupancy("h200", 256)) is None
    assert REDUCTION == 20


@pytest.mark.parametrize("sms", [6, 16, 33, 66])
def test_a_part_has_all_memory_and_the_crossbar_of_its_sms(sms: int) -> None:
    whole = load_chip("h200")
    part = part_of(whole, sms / 132)
    assert sum(part.sm.gpc_sm_counts) == part.sm.sm_count == sms
    gpcs = len(part.sm.gpc_sm_counts) / len(whole.sm.gpc_sm_counts)
    pairs = [
        (gpcs * part.crossbar.gpc_read_bytes_per_clk, whole.crossbar.gpc_read_bytes_per_clk),
        (gpcs / part.crossbar.gpc_tlb_miss_cycles, 1 / whole.crossbar.gpc_tlb_miss_cycles),
        (1 / part.launch.block_dispatch_interval_cycles, 1 / whole.launch.block_dispatch_interval_cycles),
    ]
    for mine, theirs in pairs:
        assert mine / theirs == pytest.approx(sms / 132, rel=0.03)
    assert (part.l2, part.dram) == (whole.l2, whole.dram)


def count_of_runs(blocks: int, threads: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], ww.Run]:
    ran = np.zeros(blocks, np.int32)
    kernel = ww.GPU("h200", timing="sampled", threads=1).compile(SOURCE)["once"]
    return ran, kernel[blocks, threads](ran)


@pytest.mark.parametrize(
    ("blocks", "threads"), [(10_001, 64), (15_625, 256), (61_000, 32), (240_001, 32), (123_457, 256)]
)
def test_every_block_runs_once(blocks: int, threads: int) -> None:
    ran, run = count_of_runs(blocks, threads)
    assert np.array_equal(ran, np.ones(blocks, np.int32))
    assert run.sampling is not None
    assert run.sampling.timed_blocks * 20 <= blocks
    assert (run.sampling.sections > 1) == (blocks > 100_000)


@pytest.mark.ci
def test_blocks_that_watch_each_other_are_timed_in_full() -> None:
    runs = []
    for timing in ("full", "sampled"):
        kernel = ww.GPU("p100", timing=timing, threads=1).compile(SOURCE)["chain"]
        runs.append(kernel[2_000, 32](np.zeros(2_000, np.int32)))
    assert runs[1].sampling is None
    assert runs[0].cycles == runs[1].cycles


@pytest.mark.ci
def test_kernels_that_read_the_clock_are_timed_in_full() -> None:
    at = np.zeros(8_000, np.int32)
    run = ww.GPU("p100", timing="sampled").compile(SOURCE)["stamps"][8_000, 64](at)
    assert run.sampling is None
    # The last of several waves has read the clock late in the launch.
    assert run.cycles // 2 < at.max() < run.cycles


def test_other_blocks_use_of_l2_is_seen() -> None:
    """All blocks read the same table: most of the first reads are found on their way, since others have asked for the data."""
    rng = np.random.default_rng(1)
    table, index = np.ones(1 << 18, np.float32), rng.integers(0, 1 << 18, 12_000 * 64).astype(np.int32)
    runs = []
    for timing in ("full", "sampled"):
        kernel = ww.GPU("h200", timing=timing, threads=1).compile(SOURCE)["look"]
        runs.append(kernel[12_000, 64](np.zeros(12_000 * 64, np.float32), table, index))
    full, some = runs
    assert some.metrics["lts__t_sector_hit_rate.pct"] == pytest.approx(
        full.metrics["lts__t_sector_hit_rate.pct"], abs=3
    )
    assert some.metrics["dram__bytes_read.sum"] == pytest.approx(full.metrics["dram__bytes_read.sum"], rel=0.03)
    assert some.sampling is not None
    assert abs(some.cycles / full.cycles - 1) < some.sampling.expected_error


def test_the_last_of_many_blocks_ends_later_than_the_last_of_few() -> None:
    found = chosen("h200", 12_000)
    blocks = np.zeros((found.timed_blocks, state.LoggedBlock.size), np.int64)
    blocks[:, state.LoggedBlock.start], blocks[:, state.LoggedBlock.end] = 700, 1010
    assert later_end(found, blocks) == pytest.approx(0, abs=1)  # blocks that are all alike end together
    rng = np.random.default_rng(1)
    many = found.resident * 22
    few, all_ends = [], []
    for _ in range(200):
        start, took = rng.integers(700, 800, many), rng.integers(200, 300, many)
        all_ends.append((start + took).max())
        blocks[-found.resident :, state.LoggedBlock.start] = start[: found.resident]
        blocks[-found.resident :, state.LoggedBlock.end] = start[: found.resident] + took[: found.resident]
        few.append(blocks[-found.resident :, state.LoggedBlock.end].max() + 2 * later_end(found, blocks))
    assert np.mean(few) == pytest.approx(np.mean(all_ends), abs=5)


def test_the_expected_error_knows_how_much_sms_differ() -> None:
    """Blocks that an SM holds together share it: as many draws as SMs, however many blocks."""
    found = chosen("h200", 12_000)
    sms = found.chip.sm.sm_count
    rng = np.random.default_rng(3)
    blocks = np.zeros((sms * 400, state.LoggedBlock.size), np.int64)
    blocks[:, state.LoggedBlock.sm] = np.arange(len(blocks)) % sms
    blocks[:, state.LoggedBlock.end] = 10_000 + rng.normal(0, 2_000, len(blocks))
    alike = spread_of_sms(found, blocks)
    assert alike < 0.2 / np.sqrt(len(blocks)) * 3
    by_sm = np.linspace(-500, 500, sms)
    blocks[:, state.LoggedBlock.end] += by_sm[blocks[:, state.LoggedBlock.sm]].astype(np.int64)
    apart = spread_of_sms(found, blocks)
    assert apart == pytest.approx(by_sm.std(ddof=1) / 10_000 * np.sqrt((1 - found.share) / sms), rel=0.2)
    usual, more = (estimate(found, 1e5, [], (1, 0), [], spread)[1] for spread in (0.0, apart))
    assert more**2 - usual**2 == pytest.approx((2 * apart) ** 2)


def test_results_and_counts_are_exact_and_cycles_near() -> None:
    n, threads = 12_000 * 64, 64
    x = np.arange(n, dtype=np.float32)
    outs = [np.zeros(n, np.float32) for _ in range(3)]
    runs = []
    for timing, threads_of_host, out in zip(("full", "sampled", "sampled"), (1, 1, 2), outs, strict=True):
        kernel = ww.GPU("v100", timing=timing, threads=threads_of_host).compile(SOURCE)["scale"]
        runs.append(kernel[n // threads, threads](out, x, np.int32(n)))
    full, some, again = runs
    assert np.array_equal(outs[0], outs[1])
    assert full.sampling is None
    assert (some.instructions, some.thread_instructions) == (full.instructions, full.thread_instructions)
    assert some.metrics["smsp__inst_executed.sum"] == full.instructions
    assert some.sampling is not None
    assert some.sampling.timed_instructions * 20 <= some.instructions
    assert some.cycles == again.cycles
    error = abs(some.cycles / full.cycles - 1)
    assert error < 0.03
    assert some.metrics["sampling__expected_error.pct"] == 100 * some.sampling.expected_error
    assert "expected error" in repr(some)
    assert some.metrics["dram__bytes_read.sum"] == pytest.approx(full.metrics["dram__bytes_read.sum"], rel=0.02)


@pytest.mark.slow
def test_blocks_of_different_length_are_weighed_by_their_instructions() -> None:
    x = np.arange(64, dtype=np.int32)
    cycles = []
    for timing in ("full", "sampled"):
        total = np.zeros(512 * 32, np.int32)
        kernel = ww.GPU("v100", timing=timing, threads=1).compile(SOURCE)["longer"]
        cycles.append(kernel[16_000, 64](total, x).cycles)
    assert cycles[1] == pytest.approx(cycles[0], rel=0.05)


@pytest.mark.ci
def test_barriers_of_blocks_without_time_do_not_delay_those_that_are_timed() -> None:
    runs = []
    for timing in ("full", "sampled"):
        kernel = ww.GPU("v100", timing=timing, threads=1).compile(SOURCE)["meeting"]
        runs.append(kernel[12_000, 64](np.zeros(12_000 * 64, np.float32)))
    assert runs[1].sampling is not None
    assert runs[1].cycles == pytest.approx(runs[0].cycles, rel=0.05)


def test_a_fault_of_a_block_without_time_is_said() -> None:
    kernel = ww.GPU("v100", timing="sampled").compile(SOURCE)["faulty"]
    with pytest.raises(ww.ExecutionError, match="9000"):
        kernel[16_000, 64](np.zeros(4, np.int32))


def test_timing_left_to_the_simulator_samples_only_large_grids() -> None:
    assert ww.GPU("v100").samples_large
    assert not ww.GPU("v100", timing="full").samples_large
    kernel = ww.GPU("v100").compile(SOURCE)["longer"]
    assert kernel[64, 64](np.zeros(512 * 32, np.int32), np.arange(64, dtype=np.int32)).sampling is None
