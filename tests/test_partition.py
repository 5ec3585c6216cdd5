"""Parts of a chip: which SMs they have, and launches on them."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import load_chip, partition
from warpwright.chips.partition import split, steps
from warpwright.kernel import Launcher

SOURCE = """
extern "C" __global__ void where(unsigned* sms, float* out, float a) {
    float x = threadIdx.x;
    for (int i = 0; i < 400; i++) x = x * a + 1.0f;
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    sms[blockIdx.x] = sm;
}
"""


@pytest.mark.parametrize(
    ("chip", "smallest", "together"), [("p100", 1, 1), ("v100", 2, 2), ("a100", 4, 2), ("h200", 8, 8)]
)
def test_groups_are_disjoint_and_of_the_size_that_was_asked_for(chip: str, smallest: int, together: int) -> None:
    record = load_chip(chip)
    assert steps(record) == (smallest, together)
    for wanted in (1, 7, 9, 20):
        size = steps(record).size_of(wanted)
        assert size >= max(wanted, smallest)
        assert size % together == 0
        groups, rest = split(record, size, 200)
        numbers = [n for group in (*groups, rest) for n in group]
        assert sorted(numbers) == list(range(record.sm.sm_count))
        assert all(len(group) == size for group in groups)


def test_the_smallest_groups_lie_in_one_gpc() -> None:
    chip = load_chip("h200")
    ends = np.cumsum(chip.sm.gpc_sm_counts)
    groups, _ = split(chip, 8, 200)
    assert len(groups) == 15
    assert all(len({int(np.searchsorted(ends, n, "right")) for n in group}) == 1 for group in groups)


def test_a_part_is_a_chip_with_fewer_sms_and_all_of_the_memory() -> None:
    whole = load_chip("h200")
    part = partition(whole, [*range(8, 16), *range(40, 44)]).chip
    assert part.sm.sm_count == 12
    assert part.sm.gpc_sm_counts == [8, 4]
    assert part.sm.gpc_l2_partitions == [whole.sm.gpc_l2_partitions[0], whole.sm.gpc_l2_partitions[2]]
    assert part.l2 == whole.l2
    with pytest.raises(ValueError, match="SMs 0 to 131"):
        partition(whole, [132])


@pytest.mark.parametrize("timing", ["full", "off"])
def test_a_launch_runs_on_its_part_of_the_chip_alone(timing: str) -> None:
    gpu = ww.GPU("a100", timing=timing)
    kernel = gpu.compile(SOURCE)["where"]
    part = partition(gpu.chip, range(20, 47))
    cycles = []
    for given in (None, part):
        sms, out = np.zeros(864, np.uint32), np.zeros(864 * 128, np.float32)
        run = Launcher(kernel, 864, 128, 0, partition=given)(sms, out, 0.5)
        assert set(sms.tolist()) == set(range(108) if given is None else part.sms)
        assert np.all(out == 2.0)
        cycles.append(run.cycles if timing == "full" else 0)
    if timing == "full":
        # A quarter of the SMs: what all share (the launch) takes as long.
        assert 2.5 < cycles[1] / cycles[0] < 4.2
