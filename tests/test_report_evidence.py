"""Which share of a launch's time rests on numbers that are not known of the chip: every constant named exists, shares add up."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import chip_names, load_chip
from warpwright.quantity_text import share_text
from warpwright.run import Run
from warpwright.timing import state as s
from warpwright.tools.report import evidence as e
from warpwright.tools.report import report_html

SOURCE = """
extern "C" __global__ void stream(const float4 *x, float4 *y) { y[blockIdx.x * 256 + threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x]; }
extern "C" __global__ void chase(const int *next, int *out) { int at = 0; for (int i = 0; i < 200; i++) at = next[at]; *out = at; }
extern "C" __global__ void tile(const float *x, float *y) {
    __shared__ float t[256];
    float total = 0;
    for (int i = 0; i < 20; i++) { t[threadIdx.x] = x[threadIdx.x] + total; __syncthreads(); total += t[(threadIdx.x * 7) & 255]; __syncthreads(); }
    y[threadIdx.x] = total;
}
"""


@cache
def run(chip: str, kernel: str) -> Run:
    gpu = ww.GPU(chip)
    module = gpu.compile(SOURCE)
    if kernel == "stream":
        values = gpu.array(np.zeros(4 << 20, np.float32))
        return module[kernel][4096, 256](values, gpu.array(np.zeros(4 << 20, np.float32)))
    if kernel == "chase":
        return module[kernel][1, 1](np.zeros(1, np.int32), np.zeros(1, np.int32))
    return module[kernel][1, 256](np.zeros(256, np.float32), np.zeros(256, np.float32))


def test_every_number_that_time_is_booked_on_is_one_of_the_chip() -> None:
    fields = {
        *(f for table in (e.REASONS, e.PIPES, e.PRODUCERS, e.BOUNDS) for some in table.values() for f in some),
        *e.SHORT,
        *e.ISSUE,
    }
    for name in chip_names():
        chip = load_chip(name)
        assert all(chip.kind(field) for field in fields)
    handled = {*e.REASONS, *e.OTHERS_TIME, "long_scoreboard", "short_scoreboard", "math_pipe_throttle"}
    assert handled == set(s.STALLS)


@pytest.mark.parametrize("chip", [pytest.param("v100", marks=pytest.mark.ci), "h200"])
@pytest.mark.parametrize("kernel", ["stream", "chase", "tile"])
def test_shares_add_up_to_the_launch(chip: str, kernel: str) -> None:
    found = e.evidence_of(run(chip, kernel))
    assert sum(found.by_kind.values()) == pytest.approx(1)
    assert sum(found.by_field.values()) + found.by_kind[e.PROGRAM] == pytest.approx(1)
    assert 0 <= found.not_of_the_chip <= 1
    overhead = run(chip, kernel).device.launch.launch_overhead_cycles / run(chip, kernel).cycles
    assert found.by_field["launch_overhead_cycles"] == pytest.approx(overhead)


def test_a_stream_rests_on_the_bandwidth_that_binds_and_a_chase_on_a_latency() -> None:
    assert max(
        e.evidence_of(run("h200", "stream")).by_field, key=e.evidence_of(run("h200", "stream")).by_field.get
    ) in (
        "dram_gb_per_s",
        "dram_latency_cycles",
        "launch_overhead_cycles",
    )
    chase = e.evidence_of(run("h200", "chase")).by_field
    assert chase["l1_hit_latency_cycles"] > 0.3
    assert "dram_gb_per_s" not in chase


def test_what_is_set_or_borrowed_is_told() -> None:
    before = e.evidence_of(run("h200", "chase"))
    gpu = ww.GPU("h200", l1_hit_latency_cycles=40)
    changed = gpu.compile(SOURCE)["chase"][1, 1](np.zeros(1, np.int32), np.zeros(1, np.int32))
    after = e.evidence_of(changed)
    assert before.by_kind.get("set", 0) == 0
    assert after.by_kind["set"] == after.by_field["l1_hit_latency_cycles"] > 0.3
    assert after.not_of_the_chip > before.not_of_the_chip + 0.3
    assert "l1_hit_latency_cycles" in after.sentence
    assert (
        f"{share_text(after.not_of_the_chip)} of its time depends on numbers not known for this chip" in after.sentence
    )


def test_the_page_shows_the_shares() -> None:
    page = report_html([run("v100", "chase")])
    found = e.evidence_of(run("v100", "chase"))
    assert found.sentence in page
    assert 'data-name="evidence: borrowed"' in page
    assert "launch_overhead_cycles" in page
