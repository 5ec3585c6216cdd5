"""Links that lose packets send them again, and links of fewer lanes: nothing is lost, and both take time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from warpwright.system import MachineError, load_machine

SOURCE = """
extern "C" __global__ void pass_on(int *there, const int *here, int *total, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        there[i] = here[i];
        if (i % 64 == 0)
            atomicAdd_system(total, here[i]);
    }
}
extern "C" __global__ void fetch(int *here, const int *there, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        here[i] = there[i];
}
"""
COUNT = 1 << 15


def machine(folder: Path, line: str) -> str:
    """A DGX-1 whose NVLinks have one number changed."""
    path = folder / "changed.toml"
    path.write_text(f'base = "dgx-1"\n[links.nvlink2]\n{line}\n', encoding="utf-8")
    return str(path)


def moved(name: str) -> tuple[int, int, float, bool]:
    """Cycles of stores and of loads over a link, packets sent again, and whether all values are right; a second time it must be the same."""
    node = ww.System(name)
    values = np.random.default_rng(4).integers(0, 1000, COUNT).astype(np.int32)
    here, there = node.gpus[0].array(values), node.gpus[1].zeros(COUNT, np.int32)
    back, total = node.gpus[0].zeros(COUNT, np.int32), node.gpus[1].zeros(1, np.int32)
    node.enable_peer_access(0, 1)
    module = node.gpus[0].compile(SOURCE)
    at = [np.uint64(array.device_address()) for array in (there, total)]
    out = module["pass_on"][32, 256](at[0], here, at[1], np.int32(COUNT))
    come = module["fetch"][32, 256](back, at[0], np.int32(COUNT))
    again_come = module["fetch"][32, 256](back, at[0], np.int32(COUNT))
    assert again_come.cycles == come.cycles
    right = np.array_equal(there.numpy(), values) and np.array_equal(back.numpy(), values)
    right &= int(total[0]) == int(values[::64].sum())
    again = sum(run.metrics["nvltx__packets_replayed.sum"] for run in (out, come))
    return out.cycles, come.cycles, again, bool(right)


def test_a_link_that_loses_packets_sends_them_again(tmp_path: Path) -> None:
    without = moved("dgx-1")
    errors = machine(tmp_path, "errors_per_million_packets = 20000")
    with_errors = moved(errors)
    assert without[2] == 0
    assert without[3]
    assert with_errors[3]
    # 1,024 lines and 512 atomics go out, 1,024 requests and as many answers follow; the atomics have answers or none
    assert 0.02 * 2048 < with_errors[2] < 0.02 * 6144
    assert with_errors[0] > without[0]
    assert with_errors[1] > without[1]


def test_a_copy_over_a_link_with_errors_takes_as_much_longer(tmp_path: Path) -> None:
    plain, lossy = (
        ww.System("dgx-1", timing="off"),
        ww.System(machine(tmp_path, "errors_per_million_packets = 1000"), timing="off"),
    )
    way, other = plain.route(0, 1), lossy.route(0, 1)
    assert way is not None
    assert other is not None
    packets = 1 << 14
    again = 0.001 / 0.999
    size = packets * way.link.copy_payload_bytes
    expected = (
        way.copy_seconds(size) * (1 + again) + packets * again * way.link.credit_latency_ns * 1e-9 / way.link_count
    )
    assert other.copy_seconds(size) == pytest.approx(expected)


def test_a_link_of_one_lane_has_an_eighth_of_the_bandwidth(tmp_path: Path) -> None:
    whole, one = ww.System("dgx-1", timing="off"), ww.System(machine(tmp_path, "lane_count = 1"), timing="off")
    assert one.route(0, 1).copy_gb_per_s == pytest.approx(whole.route(0, 1).copy_gb_per_s / 8)  # type: ignore[union-attr]
    assert moved(machine(tmp_path, "lane_count = 1"))[0] > 3 * moved("dgx-1")[0]


def test_errors_of_a_link_have_a_range(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"'errors_per_million_packets' of .links.nvlink2. must be 0 to 500,000"):
        load_machine(machine(tmp_path, "errors_per_million_packets = 600000"))
