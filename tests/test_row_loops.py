"""Loops over rows, each lane in a row of its own, take the cycles of an H200's SM (``bench.machine.row_loops``)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.device import Model
from bench.machine import row_loops
from warpwright.toolchain import compile_source

ROOT = Path(__file__).parents[1]
Case = tuple[str, int, int, int]


def cycles(chosen: dict[str, tuple[int, ...]]) -> dict[Case, tuple[float, float]]:
    """Cycles per load on the card and in the model, by place, loads per turn, pitch and warps."""
    rows = json.loads((ROOT / "bench/data/h200/row_loops.json").read_text())["rows"]
    card = {(r["place"], r["count"], r["pitch"], r["warps"]): r["last"] for r in rows}
    cubin = compile_source(ROOT / "bench/machine/row_loops.cu", 90).cubin
    found = row_loops.measure(Model("h200"), cubin, chosen)
    return {(case := (r["place"], r["count"], r["pitch"], r["warps"])): (card[case], r["last"]) for r in found}


def test_passes_over_tags_are_closer_than_passes_over_data() -> None:
    """One warp, eight loads that hit: 8 and 12 passes over tags with 1 and 2 over data; and 32 over data."""
    of = cycles({"counts": (8,), "pitches": (4100, 3000, 4096), "warps": (1,)})
    for pitch, tolerance in ((4100, 0.15), (3000, 0.2), (4096, 0.03)):
        card, model = of["l1", 8, pitch, 1]
        assert model == pytest.approx(card, rel=tolerance), pitch


def test_lines_that_come_apart_need_passes_of_their_own() -> None:
    """Loads of 32 lines in 16 passes, half of which wait, take 20 cycles of the SM each instead of 16.5; if each line has its own pass anyway, 32 in both cases."""
    of = cycles({"counts": (4,), "pitches": (8000, 4096), "warps": (8, 16)})
    for warps in (8, 16):
        card, model = of["l2", 4, 8000, warps]
        assert model == pytest.approx(card, rel=0.02)
        assert model > 1.2 * of["l1", 4, 8000, warps][1]
        assert of["l2", 4, 4096, warps][1] == pytest.approx(of["l1", 4, 4096, warps][1], rel=0.01)
