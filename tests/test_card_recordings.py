"""Recordings of a card: cubins of several sets beside each other, and how far a card's repetitions differ."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench import accuracy, card_spread, corpus_card
from bench.card_spread import between, error_of_median, report, spread, two_modes
from bench.corpus_card import CYCLES, as_earlier
from bench.kernel_sets import NAMES
from tests import kernels
from tests.kernels.case import Case


def test_sets_with_a_source_of_the_same_name_keep_their_own_machine_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``holdout`` and ``validation`` both have a ``graphs.cu``."""

    def one(which: str, names: list[str], small: bool = False) -> Iterator[Case]:
        source = tmp_path / which / "graphs.cu"
        source.parent.mkdir(exist_ok=True)
        source.write_text(f'extern "C" __global__ void of_{which}(int *n) {{ n[0] = 1; }}')
        yield replace(kernels.case("stream_copy", "small"), source=source, kernel=f"of_{which}")

    monkeypatch.setattr(corpus_card, "chosen", one)
    for which in ("holdout", "validation"):
        corpus_card.prepare(which, tmp_path / "card", 90)
    for which in ("holdout", "validation"):
        (case,) = one(which, [])
        assert case.kernel.encode() in corpus_card.cubin_path(tmp_path / "card" / which, case).read_bytes()


def test_error_of_a_median_is_that_of_all_draws() -> None:
    assert math.isnan(error_of_median([100.0]))
    assert error_of_median([100.0] * 5) == 0
    # Of four equally likely pairs of 90 and 110, two have the median 100, one 90, one 110.
    assert error_of_median([90.0, 110.0]) == pytest.approx(0.05)
    # Of 27 triples of 90, 100, 110: 7 have the median 90 and 7 have 110.
    assert error_of_median([100.0, 90.0, 110.0]) == pytest.approx(14 / 27 * 0.1)


def test_error_of_the_median_of_five_is_about_that_of_independent_recordings() -> None:
    random = np.random.default_rng(1)
    launches = random.normal(10_000, 300, (400, 5))
    estimated = np.mean([error_of_median(list(row)) for row in launches])
    actual = np.mean(np.abs(np.median(launches, axis=1) / 10_000 - 1))
    assert estimated == pytest.approx(actual, rel=0.15)


def test_spread_is_relative_to_the_median() -> None:
    found = spread([1000.0, 1040.0, 990.0, 1000.0, 1010.0])
    assert found.range == pytest.approx(0.05)
    assert found.one_launch == pytest.approx(0.012)
    assert found.modes is None


def test_two_modes_need_a_gap_with_two_launches_on_each_side() -> None:
    assert two_modes([1000, 1010, 1100, 1110]) == (1005, 1105)
    assert two_modes([1000, 1010, 1005, 1110]) is None  # a single slow launch
    assert two_modes([1000, 1010, 1030, 1040]) is None  # a gap of 2 %
    assert two_modes([1000, 1060, 1140, 1200]) is None  # not wider than the rest
    assert two_modes([1000]) is None


def test_report_compares_two_recordings_by_their_medians() -> None:
    latest = {"a": [104.0, 104.0, 104.0], "b": [202.0, 202.0, 242.0], "c": [50.0, 50.0, 50.0]}
    before = {"a": [100.0, 100.0, 102.0], "b": [200.0, 202.0, 240.0]}
    assert between(before, latest) == pytest.approx({"a": 0.04, "b": 0.0})
    text = report("corpus", [latest, before], 10.0)
    assert "corpus: 3 kernels, 3 repetitions; range: median 0.0%" in text
    assert "largest 19.8% (b)" in text
    assert (
        "earlier, 3 repetitions: median 2.00%, mean 2.00% (over √2 1.41%), with its sign +2.00%, largest +4.0% (a)"
        in text
    )
    assert "1 with a range above 10%: b 20%" in text
    assert "0 with two modes" in text


def test_a_new_recording_keeps_those_before_it() -> None:
    metrics = {CYCLES: 90.0, "smsp__inst_executed.sum": 7.0}
    once = {"card": "a card", "command": "record", "kernels": {"a": metrics}}
    assert as_earlier(once) == [
        {
            "card": "a card",
            "command": "record",
            "cycles": {"a": [90.0]},
            "counts": {"a": {"smsp__inst_executed.sum": [7.0]}},
        }
    ]
    own = {"cycles": {"a": [91.0, 92.0]}, "counts": {"a": {"smsp__inst_executed.sum": [7.0, 8.0]}}}
    twice = {
        "command": "record --repeats 2",
        "date": "2026-11-29",
        "kernels": {"a": metrics},
        **own,
        "earlier": as_earlier(once),
    }
    assert as_earlier(twice) == [{"date": "2026-11-29", "command": "record --repeats 2", **own}, *as_earlier(once)]


def test_counts_of_earlier_recordings_are_the_cards_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "smsp__inst_executed.sum"
    data = {
        "kernels": {"a": {key: 5}},
        "counts": {"a": {key: [5, 6]}},
        "earlier": [{"counts": {"a": {key: [4]}}}, {"counts": {}}],
    }
    (tmp_path / "card").mkdir()
    (tmp_path / "card" / "corpus.json").write_text(json.dumps(data))
    monkeypatch.setattr(accuracy, "DATA", tmp_path)
    assert accuracy.counted("card", "corpus") == {"a": {key: [5, 6, 4, 5]}}


def test_sets_that_are_compared_were_launched_several_times() -> None:
    """A single launch of a kernel differs from the median of several by more than a good model."""
    least = {which: min(map(len, card_spread.recorded("h200", which)[0].values())) for which in NAMES}
    assert min(least.values()) >= 4, least
