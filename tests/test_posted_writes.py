"""Writes over NVLink 1 and 2 and PCI Express are posted, those over NVLink 3 and later acknowledged by their target: what either costs links and fences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from warpwright.system import load_machine

SOURCE = """
extern "C" __global__ void push(int4 *there, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        there[i] = make_int4(i, i, i, i);
}
// Cycles of two fences, after a store and so many cycles.
extern "C" __global__ void fences(volatile int *there, int wait, int *cycles)
{
    there[0] = 1;
    long long until = clock64() + wait;
    while (clock64() < until) {}
    for (int k = 0; k < 2; k++) {
        long long begin = clock64();
        __threadfence_system();
        cycles[k] = (int)(clock64() - begin);
    }
}
extern "C" __global__ void add(int *there, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd_system(there + i, 1);
}
"""
COUNT = 1 << 15


def machine(folder: Path, **changed: float) -> str:
    """A DGX-1 whose NVLinks have other numbers."""
    path = folder / f"links{len(list(folder.iterdir()))}.toml"
    lines = "\n".join(f"{name} = {value}" for name, value in changed.items())
    path.write_text(f'base = "dgx-1"\n[links.nvlink2]\n{lines}\n', encoding="utf-8")
    return str(path)


def opened(name: str) -> ww.System:
    node = ww.System(name)
    node.enable_peer_access(0, 1)
    return node


def seconds(name: str, kernel: str) -> float:
    """Of a kernel of GPU 0 that writes to all of an array of GPU 1."""
    node = opened(name)
    there = node.gpus[1].zeros(4 * COUNT, np.int32)
    count = COUNT if kernel == "push" else 4 * COUNT
    run = node.gpus[0].compile(SOURCE)[kernel][64, 256](np.uint64(there.device_address()), np.int32(count))
    return run.seconds


def test_which_links_post_writes() -> None:
    posted = {
        link.name: bool(link.posted_writes)
        for name in ("p100x2-nvlink", "dgx-1", "dgx-a100", "h200x8")
        for link in {cable.link for cable in load_machine(name).cables}
        if link.protocol != "smp"
    }
    assert posted == {
        "nvlink1": True, "nvlink2": True, "nvlink3": False, "nvlink4": False, "pcie3": True, "pcie4": True, "pcie5": True,
    }  # fmt: skip


@pytest.mark.parametrize(("kernel", "packet_bytes"), [("push", 16 + 128), ("add", 16 + 32)])
def test_acknowledgements_take_the_way_back(tmp_path: Path, kernel: str, packet_bytes: int) -> None:
    plain = seconds(machine(tmp_path, posted_writes=0), kernel)
    small = seconds(machine(tmp_path, posted_writes=0, access_acknowledge_bytes=16), kernel)
    large = seconds(machine(tmp_path, posted_writes=0, access_acknowledge_bytes=1440), kernel)
    assert small == pytest.approx(plain, rel=0.03)
    if kernel == "push":
        # ten times as many bytes come back as go out
        assert large == pytest.approx(10 * plain, rel=0.1)
    else:
        assert large > 2 * plain


def test_a_fence_asks_whether_posted_writes_have_arrived_and_asks_once(tmp_path: Path) -> None:
    found = {}
    for posted in (0, 1):
        for wait in (0, 20_000):
            node = opened(machine(tmp_path, posted_writes=posted))
            there, cycles = node.gpus[1].zeros(1, np.int32), np.zeros(2, np.int32)
            node.gpus[0].compile(SOURCE)["fences"][1, 1](np.uint64(there.device_address()), np.int32(wait), cycles)
            found[posted, wait] = cycles.tolist()
    chip = ww.GPU("v100").chip
    asks = (chip.links.peer_fence_ns - chip.links.system_fence_ns) * chip.clocks.sm_clock_mhz / 1000
    # Soon after a store both wait.  Later, an acknowledgement has come, and a posted write still has to be asked for.
    assert found[0, 0][0] == pytest.approx(found[1, 0][0], abs=2)
    late = found[1, 20_000][0] - found[0, 20_000][0]
    assert asks * 0.5 < late <= asks + 2
    # The second fence does not ask again; it leaves when the first one's answer is back, up to the time for which a fence waits for others earlier or later.
    joins = chip.links.system_fence_joins_ns * chip.clocks.sm_clock_mhz / 1000
    assert found[1, 20_000][1] == pytest.approx(found[0, 20_000][1], abs=joins)
    assert found[1, 20_000][1] < found[1, 20_000][0] - asks / 2
