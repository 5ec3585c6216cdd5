"""``bench.machine.l2_gains`` repeats what an H200 did: the same settings and integers."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from bench.machine import l2_gains


def test_each_number_of_bins_has_a_launch_without_windows_and_eight_settings() -> None:
    found = l2_gains.settings()
    for bins in l2_gains.BINS:
        of_bins = [setting for setting in found if setting.bins == bins]
        assert [setting.plain for setting in of_bins] == [True] + 8 * [False]
        assert len(set(of_bins)) == 9
    assert sum(setting.streaming for setting in found) == 12


@pytest.mark.ci
def test_integers_are_those_of_the_card() -> None:
    """The kernel that wrote them on the card writes the same on the model."""
    gpu = ww.GPU("h200", timing="off")
    values = gpu.zeros(1024, np.uint32)
    kernel = gpu.compile(l2_gains.KERNELS, options=["-std=c++17"])["random_bins"]
    kernel[4, 256](values, np.uint32(1024), np.uint32(7_500_000))
    assert (values.numpy() == l2_gains.random_bins(7_500_000, 1024)).all()
