"""Where the first blocks of a grid go, beside an H200 (bench.micro ``placement_once``)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpwright.chips import load_chip
from warpwright.timing.placement import Dispatch, dispatch_of, first_places

MEASURED = Path(__file__).parents[1] / "bench" / "data" / "h200" / "placement.npz"
APART = 124  # the card's first number of an SM that is served apart


def group_of(sm: int) -> int:
    """The model's GPC of a card's SM: TPCs are numbered round the GPCs, of which the first one has no more than four."""
    if sm >= APART:
        return 0
    if sm < 64:
        return sm % 16 // 2
    return 1 + (sm - 64) % 14 // 2 if sm < 120 else 6 + (sm - 120) // 2


def ours(grid: int, resident: int = 8) -> tuple[list[tuple[int, bool]], np.ndarray]:
    """(GPC, served apart) of each block in the model, and its SM."""
    chip = load_chip("h200")
    sm = chip.sm
    places = first_places(dispatch_of(chip), grid, resident)
    ends = np.cumsum(sm.gpc_sm_counts)
    return [
        (int(np.searchsorted(ends, place, "right")), place < sm.dispatch_apart_sm_count) for place in places
    ], places


@pytest.mark.parametrize("grid", [4, 8, 12, 16, 40, 64, 100, 125, 133, 144, 150, 200, 256, 264, 300, 528, 700, 1000])
def test_first_blocks_go_where_a_card_puts_them(grid: int) -> None:
    """As many blocks on each SM and GPC; with which GPC the turns begin is the card's own, and follows the launch before."""
    measured = np.load(MEASURED)[f"placement_{grid}"]
    theirs = [(group_of(int(sm)), bool(sm >= APART)) for sm in measured]
    mine, places = ours(grid)
    assert sorted(mine) == sorted(theirs)
    assert [apart for _, apart in mine[:40]] == [apart for _, apart in theirs[:40]]
    counts = [np.sort(np.bincount(sms, minlength=132)) for sms in (places, measured)]
    assert np.array_equal(*counts)


def test_an_sm_gets_no_more_blocks_than_it_holds() -> None:
    _, places = ours(5000, resident=3)
    assert np.array_equal(np.bincount(places), np.full(132, 3))


def test_a_chip_without_sms_apart_serves_its_gpcs_in_turn() -> None:
    assert first_places(Dispatch((2, 3)), 12, 4).tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 2]
    assert first_places(Dispatch((4,), 4), 6, 4).tolist() == [0, 1, 2, 3, 0, 1]
