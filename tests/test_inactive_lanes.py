"""Shuffles from lanes that do not execute them give zero, as on an H200 (``python -m bench.machine.inactive_lanes``)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww

BENCH = Path(__file__).parents[1] / "bench"
CARD = json.loads((BENCH / "data" / "h200" / "inactive_lanes.json").read_text())["rows"]
SOURCE = (BENCH / "machine" / "inactive_lanes.cu").read_text()


def test_the_card_has_zeros_and_values() -> None:
    """The record holds both cases: a neighbour outside the branch, and one two lanes up inside it."""
    assert CARD["2"][0] == 0
    assert CARD["2"][32] != 0


@pytest.mark.parametrize("step", [int(step) for step in CARD])
@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
def test_a_lane_outside_the_branch_gives_zero(step: int, engine: str) -> None:
    out = np.zeros(96, np.int32)
    given = np.arange(128, dtype=np.int32) * 7 + 5
    gpu = ww.GPU("h200", timing="off", engine=engine)
    gpu.compile(SOURCE)["inactive"][1, 32](out, given, np.int32(step))
    assert out.tolist() == CARD[str(step)]
