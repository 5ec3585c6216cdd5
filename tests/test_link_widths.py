"""Links that reduce their width while they have little to do: by the activity of each direction, from both sides of each threshold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.system import MachineError, load_machine, route

SOURCE = """
extern "C" __global__ void push(int4 *there, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        there[i] = make_int4(i, i, i, i);
}
extern "C" __global__ void pull(int4 *here, const int4 *there, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        here[i] = there[i];
}
extern "C" __global__ void push_twice(int4 *there, int n, int wait)
{
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = first; i < n; i += gridDim.x * blockDim.x)
        there[i] = make_int4(i, i, i, i);
    long long until = clock64() + wait;
    while (clock64() < until) {}
    for (int i = first; i < n; i += gridDim.x * blockDim.x)
        there[i] = make_int4(i, i, i, i);
}
"""
FIELDS = {
    "reduced_lane_count": 1,
    "reduce_below_percent": 20,
    "widen_above_percent": 60,
    "activity_window_us": 10,
    "width_change_us": 5,
    "reduced_power_percent": 25,
}
COUNT = 1 << 15  # 512 KiB: 23 us over one link, 183 us over one lane


def machine(folder: Path, **changed: float) -> str:
    """Two P100 whose NVLinks reduce their width."""
    fields = {**FIELDS, **changed}
    path = folder / f"narrow{len(list(folder.iterdir()))}.toml"  # machines of one path are one
    lines = "\n".join(f"{name} = {value}" for name, value in fields.items())
    path.write_text(f'base = "dgx-1"\n[links.nvlink2]\n{lines}\n', encoding="utf-8")
    return str(path)


def pushed(name: str, count: int = COUNT, wait: int | None = None) -> ww.Run:
    """A kernel of GPU 0 stores to GPU 1's memory."""
    node = ww.System(name)
    node.enable_peer_access(0, 1)
    there = node.gpus[1].zeros(4 * count, np.int32)
    kernels = node.gpus[0].compile(SOURCE)
    at: tuple[Any, ...] = (np.uint64(there.device_address()), np.int32(count))
    if wait is None:
        run = kernels["push"][32, 256](*at)
    else:
        run = kernels["push_twice"][32, 256](*at, np.int32(wait))
    assert np.array_equal(there.numpy().reshape(-1, 4)[:, 2], np.arange(count))
    return run


@pytest.mark.parametrize(("percent", "windows"), [(10, 1), (60, 2)])
def test_a_busy_link_takes_its_full_width_after_a_window_and_the_change(
    tmp_path: Path, percent: int, windows: int
) -> None:
    whole, reduced = pushed("dgx-1", 2 * COUNT), pushed(machine(tmp_path, widen_above_percent=percent), 2 * COUNT)
    clock_mhz = ww.GPU("v100").chip.clocks.sm_clock_mhz
    lost = (reduced.cycles - whole.cycles) / clock_mhz
    # The stores begin some microseconds after the first window does.  A window at an eighth of the rate loses seven eighths of it; then, for 5 us, nothing goes.
    assert (windows - 1) * 8.75 + 5 < lost < windows * 8.75 + 5 + 0.5
    assert reduced.metrics["nvlink__width_changes.sum"] == 1
    assert "nvlink__width_changes.sum" not in whole.metrics


def test_a_link_of_less_activity_than_its_threshold_stays_reduced(tmp_path: Path) -> None:
    # One lane is always busy here, so it widens at any threshold below all of its time, and not at one of all.
    never = pushed(machine(tmp_path, widen_above_percent=100), 1 << 13)
    lane = tmp_path / "lane.toml"
    lane.write_text('base = "dgx-1"\n[links.nvlink2]\nlane_count = 1\n', encoding="utf-8")
    always_one = pushed(str(lane), 1 << 13)
    assert never.cycles == pytest.approx(always_one.cycles, rel=0.02)
    assert never.metrics["nvlink__width_changes.sum"] == 0
    assert never.metrics["nvlink__time_at_reduced_width.avg.pct"] == 100
    assert never.metrics["nvlink__power.avg.pct"] == 25


def test_an_idle_link_reduces_its_width_and_widens_again(tmp_path: Path) -> None:
    # The pause has whole windows of the counters without packets, or none.
    long, short = (pushed(machine(tmp_path), 2 * COUNT, wait).metrics for wait in (120_000, 2_000))
    assert long["nvlink__width_changes.sum"] == 3
    assert short["nvlink__width_changes.sum"] == 1
    # Of the eight directions of GPU 0's four gangs, one was at full width for a while.
    assert 100 * 7 / 8 < long["nvlink__time_at_reduced_width.avg.pct"] < 100
    share = long["nvlink__time_at_reduced_width.avg.pct"]
    assert long["nvlink__power.avg.pct"] == pytest.approx(100 - 0.75 * share)


def test_each_direction_has_its_own_width(tmp_path: Path) -> None:
    """Stores over NVLink 2 have no answers and fill the way out alone; loads fill the way back, and their requests the way out."""
    name = machine(tmp_path, reduce_below_percent=5)
    assert pushed(name, 2 * COUNT).metrics["nvlink__width_changes.sum"] == 1
    node = ww.System(name)
    node.enable_peer_access(0, 1)
    there, here = node.gpus[1].zeros(4 * COUNT, np.int32), node.gpus[0].zeros(4 * COUNT, np.int32)
    kernel = node.gpus[0].compile(SOURCE)["pull"]
    run = kernel[32, 256](here, np.uint64(there.device_address()), np.int32(COUNT))
    assert run.metrics["nvlink__width_changes.sum"] == 2


def test_copies_find_idle_links_reduced(tmp_path: Path) -> None:
    plain, narrow = load_machine("dgx-1"), load_machine(machine(tmp_path))
    wide, way = route(plain, 0, 1), route(narrow, 0, 1)
    assert wide is not None
    assert way is not None
    for size in (1 << 10, 1 << 24):
        assert way.copy_seconds(size, 9.9e-6) == wide.copy_seconds(size)
    assert way.copy_seconds(1 << 10, 10.1e-6) == pytest.approx(8 * wide.copy_seconds(1 << 10))
    lost = way.copy_seconds(1 << 24, 1.0) - wide.copy_seconds(1 << 24)
    assert lost == pytest.approx(10e-6 * 7 / 8 + 5e-6)


def test_a_file_says_all_of_it_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "half.toml"
    path.write_text('base = "dgx-1"\n[links.nvlink2]\nreduced_lane_count = 1\n', encoding="utf-8")
    with pytest.raises(MachineError, match=r"has 'reduced_lane_count' and lacks 'reduce_below_percent'"):
        load_machine(str(path))
    with pytest.raises(MachineError, match=r"must be less than lane_count \(8\), not 8"):
        load_machine(machine(tmp_path, reduced_lane_count=8))
