"""Studies: what a cell says, the page and the exit code; the studies themselves are slow."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from warpwright.cli import app
from warpwright.studies import study as studies
from warpwright.studies.catalogue import STUDIES
from warpwright.studies.page import study_page
from warpwright.studies.study import Cell, Result, Step, Study, Table, spread


def test_cells_are_relative_or_in_their_unit() -> None:
    relative = Cell("a", "b", 110.0, 100.0, 0.1)
    assert relative.difference == pytest.approx(0.1)
    assert not Cell("a", "b", 111.0, 100.0, 0.1).holds
    assert not Cell("a", "b", 89.0, 100.0, 0.1).holds
    assert Cell("a", "b", 95.0, 100.0, 0.1).holds
    assert Cell("a", "b", 22.5, 22.51, 0.02, absolute=True).holds
    assert not Cell("a", "b", 22.4, 22.51, 0.02, absolute=True).holds
    cells = [Cell("a", "b", value, 100.0, 0.1) for value in (90.0, 101.0, 104.0)]
    assert dict(spread(cells)) == pytest.approx({"median": 0.04, "largest": 0.1})


def _result(ours: float) -> Result:
    cells = [
        Cell("1 <block>", "32", ours, 2.0, 0.25),
        Cell("2 blocks", "32", 3.0, 3.1, 0.25),
        Cell("1 <block>", "64", 2.5, 2.4, 0.25),
    ]
    return Result([Table("Barrier", "µs", cells, heat_map=True)], ["A remark."])


@pytest.mark.parametrize(("ours", "code"), [(2.2, 0), (2.6, 1)])
def test_the_exit_code_says_whether_all_cells_hold(
    ours: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(step: Step) -> Result:
        step("measuring")
        return _result(ours)

    monkeypatch.setitem(studies.STUDIES, "made-up", Study("made-up", "A paper, Table 1", "What it measures", run))
    ended = CliRunner().invoke(app, ["study", "made-up", "--report", str(tmp_path / "page.html")])
    assert ended.exit_code == code
    assert f"{3 - code} of 3 cells are within their tolerance" in ended.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "1 &lt;block&gt;" in page
    assert page.count("<svg") == 2
    assert ("<strong>+30.0%</strong>" in page) == bool(code)


def test_studies_are_listed_and_unknown_ones_refused() -> None:
    listed = CliRunner().invoke(app, ["study"]).output
    assert all(name in listed for name in STUDIES)
    refused = CliRunner().invoke(app, ["study", "sync-table55"])
    assert refused.exit_code == 2
    assert "sync-table5" in refused.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "missed_count"),
    [("sync-table5", 0), ("tesla-table1", 2), ("tesla-peaks", 0), ("tesla-coalescing", 3), ("sync-figure8", 48)],
)
def test_a_study_misses_no_more_cells_than_its_page_says(name: str, missed_count: int) -> None:
    found = STUDIES[name].run(lambda _: None)
    assert found.missed_count <= missed_count, study_page(STUDIES[name], found)
