"""Figures that others published of V100 and A100 (``bench/published``): data, halves, programs, a few small comparisons."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from bench.published import __main__ as command
from bench.published import inputs, programs, rows

CHASE = """
extern "C" __global__ void chase(long long *at, long long *end, int count) {
    #pragma unroll 32
    for (int i = 0; i < count; i++) at = (long long *)*at;
    if (at == end) *end = 1;
}
extern "C" __global__ void fill(double *to) { to[blockIdx.x * blockDim.x + threadIdx.x] = 0.23; }
"""
"""Written to the descriptions of gpu-latency (64 bytes from one place to the next) and of gpu-stream's init."""


def test_rows_are_whole() -> None:
    """Every row has a card, a unit, a positive figure and a source that names a commit, and a key of its own."""
    everything = rows.load()
    assert len({row.key for row in everything}) == len(everything)
    for row in everything:
        assert rows.card_file(row.card).is_file(), row.key
        assert row.unit in (*rows.DURATIONS, "GB/s"), row.key
        assert math.isfinite(row.value), row.key
        assert row.value > 0, row.key
        assert "commit" in row.source, row.key


def test_enough_rows_are_compared() -> None:
    compared = [row for row in rows.load() if command.is_compared(row)]
    assert sum(row.family == "v100" for row in compared) >= 60
    assert sum(row.family == "a100" for row in compared) >= 40


def test_the_half_to_check_is_drawn_by_the_seed_alone() -> None:
    """Each chip's rows fall into halves, and these rows are where they were when the model was compared first."""
    checked = rows.checking()
    for family in ("v100", "a100"):
        keys = [row.key for row in rows.load() if row.family == family]
        inside = sum(key in checked for key in keys)
        assert inside == -(-len(keys) // 2)
    assert {"v100_pcie/stream/read-32", "a100_pcie_40/latency/23-kib", "qv100/app/l1_lat"} <= checked
    assert not {"v100_pcie/stream/init-32", "a100_pcie_40/latency/56926-kib", "qv100/app/nn"} & checked


def test_an_error_is_positive_where_the_model_is_slower() -> None:
    slower = {"cycles": 2.0, "GB/s": 0.5}
    for unit, ours in slower.items():
        row = rows.Row("id", "qv100", "program", unit, 1.0, "", {})
        assert row.error(ours) == pytest.approx(1.0)


def test_launches_belong_to_rows_and_to_programs() -> None:
    assert set(programs.LAUNCHES) <= {row.id for row in rows.load()}
    assert {launch.program for launch in programs.LAUNCHES.values()} == set(programs.PROGRAMS)


def test_the_models_figures_are_of_rows_that_are_compared() -> None:
    compared = {row.key for row in rows.load() if command.is_compared(row)}
    assert set(rows.stored()) <= compared


def test_what_cannot_be_built_is_named(tmp_path: Path) -> None:
    with pytest.raises(programs.NotBuiltError, match=r"check out github\.com/accel-sim/gpu-app-collection"):
        programs.build("bfs", tmp_path, tmp_path / "built")


def test_a_graph_goes_both_ways(tmp_path: Path) -> None:
    inputs.graph("graph.txt", 50)(tmp_path)
    words = list(map(int, (tmp_path / "graph.txt").read_text().split()))
    nodes, starts = words[0], words[1 : 1 + 2 * words[0]]
    source, count, edges = words[1 + 2 * nodes], words[2 + 2 * nodes], words[3 + 2 * nodes :]
    assert source == 0
    assert len(edges) == 2 * count
    pairs = {
        (node, edges[2 * at])
        for node in range(nodes)
        for at in range(starts[2 * node], starts[2 * node] + starts[2 * node + 1])
    }
    assert all((b, a) in pairs for a, b in pairs)


def _row(key: str) -> rows.Row:
    return next(row for row in rows.load() if row.key == key)


@pytest.mark.parametrize("card", ["v100_pcie", "a100_pcie_40"])
@pytest.mark.parametrize("kib", [23, 1029])
def test_a_chase_takes_what_others_measured(card: str, kib: int) -> None:
    """Loads that depend on each other, within 5% of the published cycles of L1 and of L2."""
    gpu = ww.GPU(str(rows.card_file(card)))
    kernel = gpu.compile(CHASE)["chase"]
    length = 16 * kib
    order = np.random.default_rng(1).permutation(length)
    places = gpu.empty(8 * length, np.int64)
    chain = np.zeros(8 * length, np.int64)
    chain[8 * order] = places.device_address() + 64 * np.roll(order, -1)
    places.set(chain)
    short, long = (kernel[1, 64](places, None, length + more).cycles for more in (0, 4096))
    assert abs(_row(f"{card}/latency/{kib}-kib").error((long - short) / 4096)) < 0.05


def test_stores_fill_the_bus_of_a_v100() -> None:
    """Blocks of 1,024 threads that store a double each move 895 GB/s on the card."""
    gpu = ww.GPU(str(rows.card_file("v100_pcie")))
    kernel = gpu.compile(CHASE)["fill"]
    cycles = []
    for blocks in (1600, 3200):
        array = gpu.empty(1024 * blocks, np.float64)
        cycles.append(kernel[blocks, 1024](array).cycles)
        array.free()
    gigabytes = 1600 * 8192 / (cycles[1] - cycles[0]) * gpu.chip.clocks.sm_clock_mhz / 1000
    assert abs(_row("v100_pcie/stream/init-1024").error(gigabytes)) < 0.05


@pytest.mark.parametrize(("ways", "mebibytes"), [(8, 3.0), (16, 6.0)])
def test_half_of_a_v100s_l2_stays_dirty(ways: int, mebibytes: float) -> None:
    """What a kernel wrote last is still in L2 at its end: as much as l2_dirty_ways of a set's ways hold."""
    gpu = ww.GPU("v100", l2_dirty_ways=ways)
    run = gpu.compile(CHASE)["fill"][1600, 1024](gpu.empty(1024 * 1600, np.float64))
    left = 1600 * 8192 - run.metrics["dram__bytes_write.sum"]
    assert left / 2**20 == pytest.approx(mebibytes, rel=0.05)


def test_published_kernels_left_half_of_l2_dirty() -> None:
    """The counters behind l2_dirty_ways: sectors written to L2 less those written to DRAM, of kernels that only write."""
    for name in ("sobolQRNG/sobolGPU_kernel", "quasirandomGenerator/quasirandomGeneratorKernel"):
        counted = _row(f"qv100_ncu/kernel/{name}").details
        assert counted["l2_write_hit_sectors"] - counted["dram_write_sectors"] == pytest.approx(98304, rel=0.002)


def test_the_table_has_both_halves() -> None:
    some = [_row("v100_pcie/stream/init-32"), _row("v100_pcie/stream/read-32")]
    shown = command.table(some, {row.key: row.value for row in some})
    assert "v100, half to learn: 1 rows, mean 0.0%" in shown
    assert "v100, half to check: 1 rows, mean 0.0%" in shown


@pytest.mark.slow
def test_all_rows_are_as_near_as_they_were() -> None:
    """The whole set: WARPWRIGHT_PUBLISHED names the folder of checkouts."""
    folder = os.environ.get("WARPWRIGHT_PUBLISHED")
    if not folder:
        pytest.skip("WARPWRIGHT_PUBLISHED does not name a folder of checkouts (python -m bench.published --sources)")
    stored = rows.stored()
    wanted = [row for row in rows.load() if row.key in stored]
    found = command.measure(wanted, Path(folder), print)
    assert set(found) == set(stored)
    for family in ("v100", "a100"):
        errors, before = (
            [abs(row.error(figures[row.key])) for row in wanted if row.family == family] for figures in (found, stored)
        )
        assert np.mean(errors) < np.mean(before) + 0.005
