"""Two runs beside each other: launches are matched, differences are those of the rows, and bad baselines are refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import warpwright as ww
from tests.browser import BROWSER, Browser
from tests.test_report_page import CLIPPED, CONTRAST, read, values
from warpwright.cli import app
from warpwright.run import Run
from warpwright.tools.export import launch_rows, write_launches
from warpwright.tools.report import compared_with, report_html, write_report
from warpwright.tools.report.quantities import change_of, quantity

SOURCE = """
extern "C" __global__ void twice(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }
extern "C" __global__ void sum(int n, float *x)
{
    float s = 0;
    for (int i = 0; i < n; ++i)
        s += x[(threadIdx.x * 7 + i) % 1024];
    x[threadIdx.x] = s;
}
"""


def launch(chip: str, names: str) -> list[Run]:
    gpu = ww.GPU(chip)
    module = gpu.compile(SOURCE, name="two.cu")
    for name in names.split():
        if name == "twice":
            module["twice"][8, 128](np.ones(1024, np.float32))
        else:
            module["sum"][1, 32](16, np.ones(1024, np.float32))
    return gpu.launches


@pytest.fixture(scope="module")
def on_a100() -> list[Run]:
    return launch("a100", "twice sum twice")


@pytest.fixture(scope="module")
def on_h200() -> list[Run]:
    return launch("h200", "twice sum twice")


def test_launches_are_matched_by_kernel_in_order(on_a100: list[Run], on_h200: list[Run]) -> None:
    whole = compared_with(on_a100, on_h200)
    assert [(p.index, p.before is not None) for p in whole.pairs] == [(0, True), (1, True), (2, True)]
    assert whole.unmatched == (0, 0)
    assert (whole.name_before, whole.name_now) == ("a100", "h200")
    short = compared_with(on_a100, on_h200[:2])
    assert short.unmatched == (1, 0)
    other = compared_with(on_a100[1:2], on_h200)
    assert [p.before is not None for p in other.pairs] == [False, True, False]
    assert other.of_launch(0) is None
    assert other.of_launch(1) is not None


def test_differences_are_those_of_the_rows(on_a100: list[Run], on_h200: list[Run]) -> None:
    for pair, before, now in zip(compared_with(on_a100, on_h200).pairs, on_a100, on_h200, strict=True):
        by_name = {one.name: one for one in pair.differences()}
        assert (by_name["cycles"].before, by_name["cycles"].now) == (before.cycles, now.cycles)
        assert by_name["cycles"].change == now.cycles / before.cycles - 1
        for name in set(before.metrics) & set(now.metrics):
            assert (by_name[name].before, by_name[name].now) == (before.metrics[name], now.metrics[name])
        assert "wall_seconds" not in by_name


def test_the_page_shows_both_sides(on_a100: list[Run], on_h200: list[Run]) -> None:
    page = report_html(on_h200, comparison=compared_with(on_a100, on_h200))
    reader = read(page)
    assert reader.problems == []
    table = values(page[: page.index('<section class="launch"')], "compared")
    assert (table["cycles before"], table["cycles now"]) == (on_a100[2].cycles, on_h200[2].cycles)
    for i, (before, now) in enumerate(zip(on_a100, on_h200, strict=True)):
        shown = values(page, f"launch-{i + 1}")
        assert (shown["before: cycles"], shown["now: cycles"]) == (before.cycles, now.cycles)
        assert shown["before: lts__t_sectors.sum"] == before.metrics["lts__t_sectors.sum"]
    assert "h200 beside a100" in "".join(reader.words)
    # A page without another side has none of it.
    assert "compared" not in {a.get("id") for _, a in read(report_html(on_h200)).seen}


def test_a_file_is_a_baseline(on_h200: list[Run], tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    write_launches(path, "json", on_h200)
    found = compared_with(path, on_h200)
    assert found.name_before == "before.json"
    assert all(one.change == 0 for pair in found.pairs for one in pair.differences())
    page = on_h200[0].report(tmp_path / "page.html", baseline=path).read_text(encoding="utf-8")
    assert 'id="launch-1-compared"' in page


def test_hostile_names_of_a_baseline_stay_text(on_h200: list[Run], tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>.json"
    rows = [{**row, "kernel": "<img src=x>"} for row in launch_rows(on_h200)]
    page = report_html(on_h200, comparison=compared_with(rows, on_h200, hostile))
    assert [tag for tag, _ in read(page).seen].count("script") == 1
    assert "<img" not in page


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "it is not JSON"),
        ('{"kernel": 1}', "is not an array of launches"),
        ('[{"kernel": "k"}]', "launch 0 of the baseline BASE has no chip"),
        (json.dumps([dict.fromkeys(("kernel", "chip", "cycles", "seconds", "grid_x", "block_x"))]), "has no cycles"),
        ("[]", "has no launch to compare with"),
    ],
)
def test_baselines_that_cannot_be_used(on_h200: list[Run], tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "base.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ww.UnsupportedError, match="the baseline") as refused:
        compared_with(path, on_h200)
    assert message.replace("BASE", str(path)) in str(refused.value)


def test_numbers_have_units() -> None:
    assert quantity("dram__bytes_read.sum", 131072) == "128 KiB"
    assert quantity("lts__t_sector_hit_rate.pct", 80.2) == "80%"
    assert quantity("gpc__cycles_elapsed.max", 18899) == "18,899 cycles"
    assert quantity("gpu__time_duration.sum", 9540) == "9.54 µs"
    assert quantity("seconds", 9.54e-6) == "9.54 µs"
    assert quantity("dram__bytes.sum.per_second", 13.7e9) == "13.7 GB/s"
    assert quantity("smsp__inst_executed.avg.per_cycle_active", 0.0867) == "0.0867"
    assert quantity("smsp__inst_executed.sum", 321536.0) == "321,536"
    assert change_of("cycles", 100, 112) == "+12.0%"
    assert change_of("cycles", 100, 2000) == "20.0 ×"
    assert change_of("cycles", 0, 1) == "new"
    assert change_of("cycles", 1, 1) == "same"
    assert change_of("lts__t_sector_hit_rate.pct", 50.0, 47.5) == "-2.5 points"


PROGRAM = f"""
import numpy as np
import warpwright as ww
gpu = ww.GPU("h200")
gpu.compile({SOURCE!r}, name="two.cu")["twice"][8, 128](np.ones(1024, np.float32))
"""


def test_the_command_compares(tmp_path: Path, on_a100: list[Run], on_h200: list[Run]) -> None:
    program, page, base = tmp_path / "program.py", tmp_path / "page.html", tmp_path / "base.json"
    program.write_text(PROGRAM, encoding="utf-8")
    write_launches(base, "json", on_a100[:1])
    common = ["report", str(program), "--no-what-if", "--output", str(page)]
    found = CliRunner().invoke(app, [*common, "--compare-gpu", "a100"])
    assert found.exit_code == 0, found.output
    assert "a100: " in found.output
    assert values(page.read_text(encoding="utf-8"), "launch-1")["before: cycles"] == on_a100[0].cycles
    found = CliRunner().invoke(app, [*common, "--baseline", str(base)])
    assert found.exit_code == 0, found.output
    assert "base.json: " in found.output
    assert values(page.read_text(encoding="utf-8"), "launch-1")["before: cycles"] == on_a100[0].cycles
    both = CliRunner().invoke(app, [*common, "--baseline", str(base), "--compare-gpu", "a100"])
    assert both.exit_code == 2
    missing = CliRunner().invoke(app, [*common, "--baseline", str(tmp_path / "none.json")])
    assert missing.exit_code == 1


LARGER = """document.querySelectorAll(".compared table:not(.bars) td.num:not(:last-child)").forEach(
  (one) => { one.textContent = "10,289,152"; })"""
SCROLLED = """[...document.querySelectorAll(".compared .scroll")]
  .filter((one) => !one.closest(".compared details") && one.scrollWidth > one.clientWidth)
  .map((one) => `${one.getAttribute("aria-label")}: ${one.scrollWidth} of ${one.clientWidth}`)"""


@pytest.mark.ci
@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
@pytest.mark.parametrize("width", [1400, 900, 390])
def test_both_sides_fit_the_page(on_a100: list[Run], on_h200: list[Run], tmp_path: Path, width: int) -> None:
    title = "/a/long/path/without/any/space/to/a/program_with_a_long_name_that_needs_several_lines.py"
    path = write_report(tmp_path / "page.html", on_h200, title=title, comparison=compared_with(on_a100, on_h200))
    with Browser(tmp_path / "profile") as browser:
        for dark in (False, True):
            browser.look(width, dark)
            browser.open(path)
            browser.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
            assert browser.problems == []
            assert browser.evaluate(CLIPPED) == []
            assert browser.evaluate(CONTRAST) == []
            # The differences are in view, not behind a scroll bar, also beside the numbers of larger kernels.
            browser.evaluate(LARGER)
            assert browser.evaluate(SCROLLED) == []
