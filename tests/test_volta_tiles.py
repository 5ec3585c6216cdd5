"""Figure 4 of Choquette et al. as a study: the recording, its subset, and the programs that the study runs."""

from __future__ import annotations

import numpy as np
import pytest

from warpwright.studies import volta_tiles
from warpwright.studies.study import Result


def test_the_recording_holds_each_program_on_the_card_and_its_model() -> None:
    programs = volta_tiles.recorded()
    assert len(programs) == 42
    assert all({"card", "h200"} <= set(of) for of in programs.values())


def test_the_subset_is_the_most_programs_whose_mean_on_the_card_is_the_figures() -> None:
    programs = volta_tiles.recorded()
    chosen = volta_tiles.subset(programs)
    others = sorted((of["card"] for name, of in programs.items() if name not in chosen))
    losses = [programs[name]["card"] for name in chosen]
    assert max(losses) <= others[0]
    assert np.mean(losses) <= volta_tiles.FIGURE["v100"] < np.mean([*losses, others[0]])
    assert all({"v100", "p100"} <= set(programs[name]) for name in chosen)


@pytest.mark.ci
@pytest.mark.parametrize("chip", ["v100", "p100"])
def test_a_program_gives_the_same_with_its_array_in_l1_and_takes_longer(chip: str) -> None:
    assert volta_tiles.cycles(chip, "stencil", True) > volta_tiles.cycles(chip, "stencil", False)


@pytest.mark.slow
def test_the_study_compares_the_subset_and_says_what_cannot_be_concluded() -> None:
    found: Result = volta_tiles.shared_memory_in_l1(lambda what: None)
    assert found.missed_count == 0
    assert "no V100 or P100 was measured" in found.remarks[-1]
