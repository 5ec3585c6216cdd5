"""Both tiers of the cycle model (``native/tiered.py``) give the same cycles, counters and memory, and a launch passes from one to the other."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests import kernels
from tests.test_checkpoint import Case
from tests.test_device_launches_at_once import passing
from warpwright.native import direct
from warpwright.native.direct import FULL, KIND, QUICK
from warpwright.native.intrinsics import BOUNDSCHECK
from warpwright.native.tiered import TieredEntry
from warpwright.timing import host_threads, simulate, windows
from warpwright.toolchain.cache import default_cache

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(BOUNDSCHECK, reason="checked indices are compiled without a cache"),
]
KERNELS = ("matmul_tiled", "reduce_sum", "histogram_shared", "transpose_padded", "gather", "scan_block_exclusive")
CHIPS = ("p100", "v100", "a100", "h200")
EARLIER_CHIPS = ("g80", "gtx480", "hd5870", "hd6970")

Uses = Callable[[str], TieredEntry]


class Tiered(TieredEntry):
    """The model's entry with the code of one tier, or with the quick one for some calls."""

    calls = 0
    quick_calls = 0

    def _loaded(self) -> Callable[..., int]:
        self.calls += 1
        if self.calls == self.quick_calls + 1:
            self._use(FULL)
        assert self._call is not None
        return self._call

    def _use(self, tier: str) -> None:
        code = default_cache().made(KIND, self.key(tier), lambda: direct.object_code(self.translated(), tier))
        self._take(tier, self._callable(code))


@pytest.fixture
def uses(monkeypatch: pytest.MonkeyPatch) -> Uses:
    """Has the following launches take the code of a tier."""
    model = windows.run_windows

    def take(tier: str) -> Tiered:
        entry = Tiered(model.py_func, "", model.sources)
        entry.parts = model.parts
        entry._use(tier)
        monkeypatch.setattr(windows, "run_windows", entry)
        return entry

    return take


def outcome(chip: str, name: str) -> tuple[int, dict[str, Any]]:
    """Cycles and counters of a kernel of the corpus."""
    case = kernels.case(name, "small")
    kernel = ww.GPU(chip, threads=1).compile(case.source, options=case.options)[case.kernel]
    run = kernel[case.grid, case.block, case.shared_bytes](*copy.deepcopy(case.args))
    return run.cycles, dict(run.metrics)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_has_the_same_cycles_and_counters(uses: Uses, chip: str, name: str) -> None:
    quick = uses(QUICK)
    found = outcome(chip, name)
    assert quick.calls
    uses(FULL)
    assert found == outcome(chip, name)


@pytest.mark.parametrize("chip", EARLIER_CHIPS)
@pytest.mark.parametrize("name", ["matmul_tiled", "gather"])
def test_an_earlier_chip_has_the_same_cycles_and_counters(uses: Uses, chip: str, name: str) -> None:
    test_a_kernel_has_the_same_cycles_and_counters(uses, chip, name)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_launch_begins_in_one_tier_and_ends_in_the_other(
    uses: Uses, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """The second host thread stays in the quick code until the launch has ended."""
    monkeypatch.setattr(host_threads, "cores", lambda: 2)
    monkeypatch.setattr(simulate, "REPORT_SECONDS", 1e-9)  # one window per call, however fast the host is
    source = """extern "C" __global__ void f(volatile float *x)
    { for (int i = 0; i < 60; i++) x[blockIdx.x * 64 + threadIdx.x] += i; }"""
    blocks = 140

    def run() -> tuple[int, dict[str, Any], bytes]:
        gpu = ww.GPU("h200", threads=threads)
        x = gpu.array(np.ones(blocks * 64, np.float32))
        one = gpu.compile(source)["f"][blocks, 64](x)
        return one.cycles, dict(one.metrics), x.numpy().tobytes()

    entry = uses(QUICK)
    entry.quick_calls = 20  # type: ignore[attr-defined]
    found = run()
    assert entry.tier == FULL
    assert entry.calls > 40  # type: ignore[attr-defined]
    uses(FULL)
    assert found == run()


def test_devices_that_wait_for_each_other_have_the_same_cycles(uses: Uses) -> None:
    uses(QUICK)
    found = passing(threads=2)
    uses(FULL)
    assert found == passing(threads=2)


@pytest.mark.parametrize(("before", "after"), [(QUICK, FULL), (FULL, QUICK)])
def test_a_checkpoint_of_one_tier_goes_on_in_the_other(uses: Uses, tmp_path: Path, before: str, after: str) -> None:
    for seed in range(3):
        uses(before)
        Case(seed).save(tmp_path)
        uses(after)
        Case(seed).check(tmp_path)
