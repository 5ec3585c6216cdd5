"""What limits a launch is the resource whose relief, timed, saves most: one kernel for each known bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import load_chip
from warpwright.run import Run
from warpwright.tools.report import Ranking, ranked, report_html
from warpwright.tools.report.attribution import Traffic, _memory_latency
from warpwright.tools.report.relieved import (
    Fixed,
    Relief,
    WhatIf,
    chip_count,
    launches,
    notable_launches,
    rank,
    trials,
)
from warpwright.tools.report.resources import BOUNDS, DRAM_LATENCY, L1_LATENCY, Resource

SOURCE = """
extern "C" __global__ void stream(const float4 *x, float4 *y) { int i = blockIdx.x * 256 + threadIdx.x; y[i] = x[i]; }
extern "C" __global__ void chase(const int *next, int *out, int n) { int at = 0; for (int i = 0; i < n; i++) at = next[at]; *out = at; }
extern "C" __global__ void roots(float *x) {
    float a = x[threadIdx.x];
    for (int i = 0; i < 300; ++i) asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(a));
    x[threadIdx.x] = a;
}
extern "C" __global__ void doubles(double *x) {
    double a = x[threadIdx.x];
    for (int i = 0; i < 100; ++i) a = a * 1.0000001 + 1e-7;
    x[threadIdx.x] = a;
}
extern "C" __global__ void dependent(float *x) {
    float a = x[threadIdx.x];
    for (int i = 0; i < 4000; ++i) a = a * 1.5f + 1.0f;
    x[threadIdx.x] = a;
}
extern "C" __global__ void issues(int *x) {
    int a = x[threadIdx.x], b = a + 1, c = a + 2, d = a + 3; float e = a, f = b, g = c, h = d;
    for (int i = 0; i < 100; ++i) {
        a = a ^ (b + i); e = e * 1.5f + 1.0f; b = b ^ (c + i); f = f * 1.5f + 1.0f;
        c = c ^ (d + i); g = g * 1.5f + 1.0f; d = d ^ (a + i); h = h * 1.5f + 1.0f;
    }
    x[threadIdx.x] = a + b + c + d + (int)(e + f + g + h);
}
extern "C" __global__ void conflicts(float *x) {
    __shared__ float t[2048];
    for (int i = threadIdx.x; i < 2048; i += 512) t[i] = x[i & 511];
    __syncthreads();
    float total = 0;
    int at = (threadIdx.x & 31) * 32 + (threadIdx.x >> 5);
    for (int i = 0; i < 64; ++i) total += t[(at + i) & 2047];
    x[threadIdx.x] = total;
}
extern "C" __global__ void barriers(float *x) {
    for (int i = 0; i < 500; ++i) __syncthreads();
    x[threadIdx.x] = 1;
}
extern "C" __global__ void unequal(float *x) {
    float a = x[threadIdx.x];
    for (int i = 0; i < (blockIdx.x == 0 ? 3000 : 10); ++i) a = rsqrtf(a) + 1.0f;
    x[threadIdx.x] = a;
}
extern "C" __global__ void empty(float *x) {}
extern "C" __global__ void wave(float *x) {
    float a = x[threadIdx.x];
    for (int i = 0; i < 400; ++i) a = a * 1.5f + 1.0f;
    x[threadIdx.x] = a;
}
"""


def start(kernel: str, gpu: ww.GPU) -> Run:
    launch = gpu.compile(SOURCE, name="bounds.cu")[kernel]
    sms = gpu.chip.sm.sm_count
    if kernel == "stream":
        x = gpu.array(np.zeros(1 << 22, np.float32))
        return launch[1 << 12, 256](x, gpu.array(np.zeros(1 << 22, np.float32)))
    if kernel == "chase":  # 8 MiB, each line once: no cache holds any of it
        return launch[1, 1](np.roll(np.arange(1 << 21), -(1 << 12) - 64).astype(np.int32), np.zeros(1, np.int32), 400)
    if kernel == "doubles":
        return launch[sms, 1024](np.ones(1024))
    if kernel == "issues":
        return launch[sms, 1024](np.ones(1024, np.int32))
    if kernel == "wave":
        return launch[2 * 108 + 4, 1024](np.ones(1024, np.float32))
    grid = {"empty": 1, "dependent": 1}.get(kernel, sms)
    return launch[grid, 32 if grid == 1 else 512](np.ones(2048, np.float32))


def program(kernel: str) -> Callable[[ww.GPU], Run]:
    if kernel == "chase_l1":

        def chase(gpu: ww.GPU) -> Run:
            launch = gpu.compile(SOURCE, name="bounds.cu")["chase"]
            return launch[1, 1](np.roll(np.arange(64), -1).astype(np.int32), np.zeros(1, np.int32), 4000)

        return chase
    return lambda gpu: start(kernel, gpu)


@cache
def ranking(kernel: str, chip: str = "a100") -> Ranking:
    return ranked(program(kernel), program(kernel)(ww.GPU(chip)))


KNOWN = {
    "stream": "DRAM bandwidth",
    "chase": "the latency of DRAM",
    "chase_l1": "the latency of L1",
    "roots": "the special-function pipe",
    "doubles": "the FP64 pipe",
    "dependent": "the latency of dependent arithmetic",
    "issues": "instruction issue",
    "conflicts": "L1 and shared-memory throughput",
    "barriers": "block barriers",
    "empty": "launch overhead",
    "unequal": "unequal load of the SMs",
}


@pytest.mark.ci
@pytest.mark.parametrize("kernel", KNOWN)
def test_the_limit_is_the_known_bound(kernel: str) -> None:
    found = ranking(kernel)
    assert found.limit is not None, found.headline
    assert found.limit.title == KNOWN[kernel], found.headline
    assert found.headline.startswith(f"Limited by {KNOWN[kernel]}: ")


def test_reliefs_are_in_order_of_what_they_save() -> None:
    found = ranking("chase")
    saved = [relief.what_if.saved(0) for relief in found.reliefs]
    assert saved == sorted(saved, reverse=True)
    assert len(saved) > 1
    assert saved[0] > 0.2


@pytest.mark.ci
def test_the_headline_names_sms_without_blocks_and_wasteful_accesses() -> None:
    headline = ranking("chase").headline
    assert " 107 of 108 SMs got no block." in headline
    found = ranking("conflicts")
    assert found.idle == ""
    assert found.accesses[0].startswith("Bank conflicts: 32 wavefronts per request, 1 would suffice, bounds.cu:")
    assert found.accesses[0] in found.headline


@pytest.mark.ci
def test_a_last_wave_that_leaves_the_chip_empty() -> None:
    """Four blocks more than run at once take as long as all the others."""
    found = ranking("wave")
    titles = [relief.resource.title for relief in found.reliefs]
    assert "the last wave of blocks" in titles
    wave = found.reliefs[titles.index("the last wave of blocks")]
    assert wave.what_if.overrides == {"sm_count": 110}
    assert wave.what_if.saved(0) > 0.2


@pytest.mark.ci
def test_a_program_that_sizes_its_grid_by_the_chip_is_not_tried_with_more_sms() -> None:
    def program(gpu: ww.GPU) -> Run:
        return gpu.compile(SOURCE)["wave"][2 * gpu.chip.sm.sm_count + 4, 1024](np.ones(1024, np.float32))

    found = ranked(program, program(ww.GPU("a100")))
    assert "the last wave of blocks" not in [relief.resource.title for relief in found.reliefs]


@pytest.mark.ci
def test_the_longest_launch_of_each_kernel_is_ranked_by_the_same_runs() -> None:
    def both(gpu: ww.GPU) -> None:
        start("chase", gpu)
        start("roots", gpu)
        start("empty", gpu)

    timed: list[str] = []

    def again(resource: Resource, overrides: Mapping[str, Any]) -> list[Run]:
        timed.append(resource.change)
        return launches(both, ww.GPU("a100", **overrides))

    runs = launches(both, ww.GPU("a100"))
    assert notable_launches([*runs, *runs]) == [0, 1]  # The empty kernel takes less than a twentieth of the time.
    wanted = trials(runs, notable_launches(runs))
    found = rank(runs, wanted, again)
    assert [one.limit is not None and one.limit.title for one in found.values()] == [KNOWN["chase"], KNOWN["roots"]]
    assert len(timed) == chip_count(wanted) < sum(len(some) for some in wanted.values())
    for launch, one in found.items():
        assert one.best is not None
        alone = launches(both, ww.GPU("a100", **one.best.what_if.overrides))[launch]
        assert one.best.what_if.saved(launch) == pytest.approx(1 - alone.cycles / runs[launch].cycles)


def test_means_name_a_level_of_memory_only_if_it_answers_almost_all_loads() -> None:
    chip = load_chip("a100")

    def named(l1_hit_rate: float, l2_hit_rate: float) -> str:
        return _memory_latency(Traffic(*[0.0] * 8, l1_hit_rate, l2_hit_rate, 0.0), chip).title

    assert named(1.0, 0.0) == "the latency of L1"
    assert named(0.0, 1.0) == "the latency of L2"
    assert named(0.0, 0.02) == "the latency of DRAM"
    assert named(0.5, 0.81) == "the latency of memory"


def test_sentences() -> None:
    def relief(resource: str, change: str, after: int) -> Relief:
        known = {"DRAM": DRAM_LATENCY, "L1": L1_LATENCY}
        return Relief(known[resource], WhatIf(change, {}, (1000,), (after,)))

    first, second = relief("DRAM", "half the DRAM latency", 740), relief("L1", "half the L1 latency", 990)
    both = Ranking("k", 0, (first, second), "44 of 108 SMs got no block", None, ("bank conflicts: 32, a.cu:14",))
    assert both.headline == (
        "Limited by the latency of DRAM: half the DRAM latency saves 26% of the cycles; half the L1 latency saves 1.0%. "
        "44 of 108 SMs got no block. Bank conflicts: 32, a.cu:14. "
        "What would help: more loads in flight: several independent loads before the first use, or more warps."
    )
    none = relief("L1", "half the L1 latency", 1000)
    assert "; none of 1 other changes saves 1%." in Ranking("k", 0, (first, none), "").headline
    assert (
        Ranking("k", 0, (none,), "").headline == "No single resource limits k: half the L1 latency saves less than 1%."
    )
    fixed = Fixed(BOUNDS["instruction issue"], 0.9, "it needs at least 90% of the cycles after launch")
    issue = Ranking("k", 0, (second,), "", fixed)
    assert issue.limit is BOUNDS["instruction issue"]
    assert issue.headline.startswith(
        "Limited by instruction issue: it needs at least 90% of the cycles after launch; half the L1 latency saves 1.0%."
    )


@pytest.mark.ci
def test_the_page_shows_every_relief(tmp_path: Path) -> None:
    run = program("roots")(ww.GPU("a100"))
    page = run.report(tmp_path / "roots.html", what_if=program("roots")).read_text(encoding="utf-8")
    found = ranking("roots")
    for relief in found.reliefs:
        assert f"<td>{relief.what_if.change}" in page
    assert "Limited by the special-function pipe: twice the special-function lanes saves " in page
    assert "<td>the special-function pipe</td>" in report_html([run], rankings={0: found})
