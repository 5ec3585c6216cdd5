"""The store ports that SMs share on their way to L2 (bench.machine.group_shares)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.device import Model
from bench.machine import group_shares
from bench.machine.group_shares import KERNELS, Shares
from warpwright.chips import load_chip
from warpwright.timing.reset import store_ports
from warpwright.toolchain import compile_source

TURNS = 32


@pytest.fixture(scope="module")
def shares() -> Shares:
    source = Path(group_shares.__file__).with_suffix(".cu")
    found = Shares(Model("h200", caches="kept"), compile_source(source, 90).cubin)
    found.launch("whole", list(range(132)))  # leaves the memory in L2
    return found


def rate(shares: Shares, monkeypatch: pytest.MonkeyPatch, kernel: str, sms: list[int]) -> float:
    """Sectors per cycle if only these SMs store."""
    monkeypatch.setattr(group_shares, "TURNS", TURNS)
    return float(KERNELS[kernel] * 32 * TURNS * len(sms) / shares.launch(kernel, sms)[:, -1].max())


@pytest.mark.parametrize(("kernel", "most"), [("whole", 4.62), ("half", 3.64), ("span", 3.63), ("scatter", 2.48)])
def test_six_sms_share_a_port_for_stores(
    shares: Shares, monkeypatch: pytest.MonkeyPatch, kernel: str, most: float
) -> None:
    group, other = [0, 1, 6, 7, 12, 13], [2, 3, 8]  # every third TPC
    one = rate(shares, monkeypatch, kernel, [0])
    assert rate(shares, monkeypatch, kernel, group[:3]) == pytest.approx(3 * one, rel=0.01)
    assert rate(shares, monkeypatch, kernel, group[:3] + other) == pytest.approx(6 * one, rel=0.01)
    assert rate(shares, monkeypatch, kernel, group) == pytest.approx(most, rel=0.08)


@pytest.mark.parametrize(("kernel", "most"), [("scatter", 38.4), ("half", 57.9)])
def test_slices_limit_all_sms(shares: Shares, monkeypatch: pytest.MonkeyPatch, kernel: str, most: float) -> None:
    assert rate(shares, monkeypatch, kernel, list(range(132))) == pytest.approx(most, rel=0.04)


def test_the_tpcs_of_a_gpc_have_its_ports_for_stores_in_turn() -> None:
    chip = load_chip("h200")
    ports = store_ports(chip)
    assert ports[:16] == [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0, 0, 1, 1]
    sizes = [[ports.count(3 * gpc + port) for port in range(3)] for gpc in range(8)]
    assert sizes == 6 * [[6, 6, 4]] + 2 * [[6, 6, 6]]
    assert store_ports(load_chip("h200", sm_count=10, gpc_sm_counts=[3, 7])) == [0, 0, 1, 3, 3, 4, 4, 5, 5, 3]
    whole = load_chip("a100")
    assert store_ports(whole) == [gpc for gpc, count in enumerate(whole.sm.gpc_sm_counts) for _ in range(count)]
