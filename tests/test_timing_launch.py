"""How a launch begins and ends, and what the SMs of a GPC share, pinned to what a card shows (``bench.micro start_once walks_by_sm``)."""

from functools import partial
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.timing_synthetic import Synthetic, device, gather, run
from warpwright.chips import load_chip
from warpwright.chips.chip import Chip
from warpwright.isa.ops import Access
from warpwright.isa.program import Kind, Operand
from warpwright.native.direct import entry
from warpwright.native.intrinsics import words
from warpwright.timing import SOURCES, constant
from warpwright.timing import state as s
from warpwright.timing.reset import LaunchSizes, initial_state

ADD4 = Access("global", 4, False, "add", "i32")
LAUNCH = load_chip("h200").launch


@partial(entry, what="", sources=SOURCES)
def share(state: Any, length: int) -> int:
    m = words(state)
    constant.share_constants(m, length)
    return length


def test_a_first_block_runs_its_first_instruction_after_a_start() -> None:
    result = run(Synthetic().exit(), lambda b, w: [(0, [])], block=128)
    least = LAUNCH.launch_overhead_cycles + LAUNCH.block_start_latency_cycles
    assert least <= result.cycles <= least + 60
    assert result.sm["active_cycles"].max() >= LAUNCH.block_start_latency_cycles


def ends(chip: Chip, grid: int) -> int:
    """Cycles beyond those of the SM that is active longest, for blocks that store a word to the same line and end."""
    kernel = Synthetic().add("STG", reads=[0, 1], access=Access("global", 4), kind="store", stall=2).exit()
    result = run(kernel, lambda b, w: [(0, [gather([device(0)] * 32)])], grid=grid, block=32, chip=chip)
    return int(result.cycles - result.sm["active_cycles"].max())


def test_last_writes_complete_during_a_launch_s_end() -> None:
    """bench.machine.launch_ends ``--stores --passes`` on H200: one block that stores at its end takes as long as one that does not."""
    without = load_chip("h200", launch_end_overlap_cycles=0, launch_end_fence_cycles=0.0)
    alone = load_chip("h200", launch_end_fence_cycles=0.0)
    assert ends(alone, 1) <= LAUNCH.launch_overhead_cycles + 4
    assert 50 < ends(without, 1) - ends(alone, 1) <= LAUNCH.launch_end_overlap_cycles


BULK_STORE = r"""
extern "C" __global__ void bulk_store(float *out) {
    __shared__ __align__(128) float tile[1024];
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 4096; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;"
                 :: "l"(out), "r"((unsigned)__cvta_generic_to_shared(tile)) : "memory");
}
"""


def test_last_bulk_stores_complete_during_a_launch_s_end_too() -> None:
    """A block ends when its bulk store has read shared memory, before L2 has the last bytes."""
    cycles = []
    for overlap in (0, 20, 10_000):
        gpu = ww.GPU(load_chip("h200", launch_end_overlap_cycles=overlap, launch_end_fence_cycles=0.0))
        cycles.append(gpu.compile(BULK_STORE)["bulk_store"][1, 1](gpu.zeros(1024)).cycles)
    assert cycles[0] - cycles[1] == 20
    assert 20 < cycles[0] - cycles[2] < 1000


def test_the_fences_of_all_sms_pass_a_slice_one_by_one_at_a_launch_s_end() -> None:
    """The same: if 132 SMs have accessed all slices, a launch's end takes 300 cycles longer."""
    alone = load_chip("h200", launch_end_fence_cycles=0.0)
    assert ends(load_chip("h200"), 132) - ends(alone, 132) == round(132 * LAUNCH.launch_end_fence_cycles)
    assert ends(load_chip("h200"), 1) - ends(alone, 1) == round(LAUNCH.launch_end_fence_cycles)


def test_a_later_block_starts_where_one_has_ended_in_the_time_of_that() -> None:
    result = run(Synthetic().exit(), lambda b, w: [(0, [])], grid=133, block=1024, shared_bytes=200 << 10)
    first, later = result.blocks[result.blocks[:, 0] == result.blocks[132, 0]]
    assert later[1] - first[2] == pytest.approx(LAUNCH.block_launch_latency_cycles, abs=2)


def test_the_first_blocks_of_all_sms_start_together_and_those_of_one_in_turn() -> None:
    """H200: 1,320 blocks of a warp start within 370 cycles, ten on each SM 24 apart (bench.micro ``dispatch``)."""
    result = run(Synthetic().exit(), lambda b, w: [(0, [])], grid=1320)
    started = result.blocks[:, 1]
    assert started.max() - started.min() <= 370
    for sm in (0, 77):
        assert np.unique(np.diff(np.sort(started[result.blocks[:, 0] == sm]))) == pytest.approx(
            LAUNCH.block_sm_interval_cycles, abs=1
        )


def test_a_launch_ends_when_each_of_its_blocks_has_been_noted() -> None:
    """H200: blocks that only exit take 1.17 elapsed cycles each (bench.micro ``start_once`` under a profiler)."""
    few, many = (run(Synthetic().exit(), lambda b, w: [(0, [])], grid=n, block=256) for n in (132, 1056))
    each = (many.cycles - few.cycles) / (1056 - 132)
    assert each == pytest.approx(LAUNCH.block_dispatch_interval_cycles, rel=0.05)
    assert many.blocks[:, 2].max() < many.cycles - 500


def test_scattered_atomics_hold_a_block_until_they_have_left() -> None:
    kernel = Synthetic()
    kernel.add("RED", reads=[0, 1], access=ADD4, kind="atomic", stall=2)
    kernel.exit()
    lanes = np.arange(32)
    scattered = run(kernel, lambda b, w: [(0, [gather(device(0) + 128 * lanes)])])
    together = run(kernel, lambda b, w: [(0, [gather(device(0) + 4 * lanes)])])
    assert scattered.stalls["drain"] - together.stalls["drain"] == pytest.approx(31, abs=4)
    assert scattered.blocks[0, 2] - together.blocks[0, 2] == pytest.approx(31, abs=4)


def intervals(asking: int, lines: int, length: int = 270) -> list[int]:
    """What a line of constants takes each SM of the first GPC and the first one of the next, after so many of the first asked for lines."""
    m = initial_state(load_chip("h200"), LaunchSizes(100, 1, 1, 1)).words
    m[s.chip.now] = 10_000  # the launch's own parameters have come long ago
    first, size = int(m[s.chip.sm_first]), int(m[s.chip.sm_slots])
    for sm in range(asking):
        m[s.SM(first + sm * size).const_lines] = lines
    share(m, length)
    return [int(m[s.SM(first + sm * size).const_interval]) for sm in (0, 15, 16)]


def test_the_sms_of_a_gpc_share_what_hands_them_constants() -> None:
    """16 SMs take 28.6 cycles per line each, eight what one takes."""
    assert intervals(asking=1, lines=20) == [12, 12, 12]
    assert intervals(asking=8, lines=22) == [14, 14, 12]
    assert intervals(asking=16, lines=22) == [29, 29, 12]
    assert intervals(asking=16, lines=1) == [12, 12, 12]


def test_cold_code_comes_three_lines_at_a_time() -> None:
    """H200: six lines are there when a warp has waited for a parameter, then three in 52 cycles (bench.micro ``first_lines``)."""

    def takes(lines: int) -> int:
        kernel = Synthetic()
        for _ in range(8):
            kernel.add("NOP", stall=11)
            kernel.add("NOP", stall=11, yields=True)
        for _ in range(8 * (lines - 2)):
            kernel.add("FFMA", writes=[6], reads=[0, 1], stall=1)
        return run(kernel.exit()).cycles

    at_hand = takes(5) - takes(3)
    assert at_hand <= 17
    assert [takes(n + 3) - takes(n) for n in (8, 11, 14)] == pytest.approx([52] * 3, abs=3)


def test_parameters_come_to_the_sub_cores_of_all_sms_in_turn() -> None:
    """H200: with four warps on every SM the sub-cores' first clocks are 0, 41, 78, 115 cycles apart (``bench.machine.first_loads --starts``), on one SM 0 to 6 (``first_lines``)."""
    kernel = Synthetic()
    parameter = Operand(Kind.CONSTANT, index=0, value=16)
    kernel.add("IADD3", writes=[4], reads=[5], operands=[parameter], stall=4).exit()

    def lasts(grid: int, block: int) -> float:
        blocks = run(kernel, grid=grid, block=block).blocks
        return float(np.median(blocks[:, 2] - blocks[:, 1]))

    assert lasts(1, 128) - lasts(1, 32) <= 15
    assert lasts(132, 128) - lasts(132, 32) == pytest.approx(115, abs=12)
    assert 10 <= lasts(66, 128) - lasts(66, 32) <= 60
