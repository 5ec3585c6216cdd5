"""Published figures of cards that are measured in a moment: the model's lie within 10 % of them (``python -m bench.papers`` has them all)."""

from __future__ import annotations

from functools import cache

import pytest

from bench.papers import FIGURES, Bench, Figure

PINNED = {
    "p100": ("dependent float add", "block barrier", "shared load", "L2 hit", "DRAM", "dependent double"),
    "v100": ("dependent float add", "barrier of 32 threads, cycles", "barrier of 1024 threads", "L1 hit", "shared load", "L2 hit", "DRAM"),
    "a100": ("L1 hit", "shared load", "L2 hit", "DRAM", "dependent double", "block barrier", "shuffle", "system fence, 1 × 32"),
}  # fmt: skip
bench = cache(Bench)


def pinned(figure: Figure) -> object:
    # A barrier of one warp takes less time to simulate than those of more.
    seconds = "block barrier" in figure.name and "of 32 threads" not in figure.name
    return pytest.param(figure, id=f"{figure.chip} {figure.name}", marks=pytest.mark.ci if seconds else ())


@pytest.mark.parametrize(
    "figure",
    [pinned(f) for f in FIGURES if any(name in f.name for name in PINNED[f.chip])],
)
def test_a_published_figure_is_met_within_10_percent(figure: Figure) -> None:
    ours = figure.measure(bench(figure.chip))
    assert abs(figure.error(ours)) <= 0.1, f"{figure.source}: {figure.theirs}, ours {ours:.4g}"


def test_an_error_is_the_distance_from_the_range_of_what_authors_published() -> None:
    figure = Figure("v100", "x", "y", (10.0, 20.0), lambda bench: 0.0)
    assert figure.error(15.0) == 0.0
    assert figure.error(5.0) == pytest.approx(-0.5)
    assert figure.error(30.0) == pytest.approx(0.5)
