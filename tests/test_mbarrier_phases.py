"""Phases of mbarriers of an SM's warps take as long as on an H200 (``bench.machine.mbarrier_phases``)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.device import Model
from bench.machine import mbarrier_phases
from warpwright.chips.chip_files import load_chip
from warpwright.toolchain import compile_source

ROOT = Path(__file__).parent.parent
CARD = ROOT / "bench/data/h200/mbarrier_phases.json"


@pytest.mark.ci
@pytest.mark.parametrize(
    ("kernel", "shape", "tolerance"),
    [
        *[("phases_t_n", shape, 0.1) for shape in ((1, 1), (1, 4), (8, 8), (32, 2))],
        *[("phases_t_f", shape, 0.05) for shape in ((1, 1), (1, 32), (8, 8))],
    ],
)
def test_a_phase_takes_as_long_as_on_a_card(kernel: str, shape: tuple[int, int], tolerance: float) -> None:
    """Alone it takes the latencies of an arrival and a look; on a full SM the unit for mbarriers is the limit, unless there is work in between."""
    card = json.loads(CARD.read_text())["rows"][kernel][mbarrier_phases.SHAPES.index(shape)][0]
    device = Model(load_chip("h200", sm_count=2))
    source = ROOT / "bench/machine/mbarrier_phases.cu"
    run = mbarrier_phases.Phases(device, device.load(compile_source(source, 90).cubin))
    assert run.row(kernel, *shape)[0] == pytest.approx(card, rel=tolerance)
