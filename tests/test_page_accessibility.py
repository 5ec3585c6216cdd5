"""Pages as a screen reader and a keyboard get them: Chromium's accessibility tree of each kind of page."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import warpwright as ww
from tests.browser import BROWSER, Browser, Seen
from tests.test_report_page import launch
from warpwright.studies.page import study_page
from warpwright.studies.study import Cell, Plot, Result, Study, Table
from warpwright.sweeps.page import write_page
from warpwright.sweeps.point_server import Outcome
from warpwright.sweeps.result import Sweep
from warpwright.sweeps.specification import points_of, specification_of
from warpwright.sweeps.store import Store
from warpwright.tools.chip_differences import match_launches
from warpwright.tools.report import write_report
from warpwright.tools.report.chips_page import write_chips_page

pytestmark = [pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine"), pytest.mark.ci]
NAMED = frozenset(
    [
        "button",
        "link",
        "textbox",
        "searchbox",
        "combobox",
        "checkbox",
        "slider",
        "table",
        "region",
        "navigation",
        "image",
        "img",
        "DisclosureTriangle",
    ]
)
"""Roles of which a screen reader reads only the name."""
KINDS = ("report", "chips", "study", "sweep")


def _report(folder: Path) -> Path:
    gpu = ww.GPU("h200")
    launch(gpu)
    return write_report(folder / "report.html", gpu.launches, title="demo.py")


def _chips(folder: Path) -> Path:
    runs = {}
    for chip in ("p100", "v100"):
        gpu = ww.GPU(chip)
        launch(gpu)
        runs[chip] = gpu.launches
    write_chips_page(folder / "chips.html", match_launches(runs), {"g80": "it lacks <doubles>"}, "demo.py")
    return folder / "chips.html"


def _study(folder: Path) -> Path:
    cells = [Cell(f"{row} warps", f"{column} blocks", row + column, 5.0, 0.1) for row in (1, 2) for column in (2, 4)]
    plot = Plot("Latency", "warps", "cycles", {"model": [(1.0, 4.0), (2.0, 8.0)], "paper": [(1.0, 5.0), (2.0, 7.0)]})
    found = Result([Table("Barriers", "µs", cells), Table("A map", "µs", cells, heat_map=True)], ["A remark."], [plot])
    page = folder / "study.html"
    page.write_text(study_page(Study("sync-x", "A paper, Table 1", "what it measures", lambda _: Result()), found))
    return page


def _sweep(folder: Path) -> Path:
    (folder / "step.py").write_text("")
    asked = specification_of(
        {
            "programs": ["step.py {i}"],
            "chips": ["v100", "a100"],
            "overrides": {"l1_kib": [64, 128]},
            "arguments": {"i": [1, 2]},
        }
    )
    points = points_of(asked, folder)
    with Store(folder / "out") as store:
        for number, point in enumerate(points):
            row = {
                "kernel": "k",
                "launch": 0,
                "cycles": 1000 + number,
                "seconds": 1e-6 * (number + 1),
                "warp_instructions": 9,
            }
            store.add(point, Outcome(point.key, "done", rows=[row]))
    done = Sweep(folder / "out", tuple(points), len(points), {point.key: "done" for point in points}, 1.0, 0.9)
    return write_page(done, asked.page)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="module", params=KINDS)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = {"report": _report, "chips": _chips, "study": _study, "sweep": _sweep}[request.param](
        tmp_path_factory.mktemp("page")
    )
    return made


def _tree(browser: Browser, page: Path) -> list[Seen]:
    browser.look(1400, False)
    browser.open(page)
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    return browser.accessibility()


def test_whatever_can_be_used_has_a_name(browser: Browser, page: Path) -> None:
    tree = _tree(browser, page)
    usable = [
        one
        for one in tree
        if one.role in NAMED or (one.properties.get("focusable") and one.role not in ("main", "row"))
    ]
    assert [one for one in usable if not one.name] == []
    assert len(tree) > 50


def test_landmarks_and_headings(browser: Browser, page: Path) -> None:
    tree = _tree(browser, page)
    roles = [one.role for one in tree]
    assert tree[0].role == "RootWebArea"
    assert tree[0].name, "the page has a title"
    assert roles.count("main") == 1
    expected = 1 if page.name == "report.html" else 0
    assert (roles.count("navigation"), roles.count("contentinfo")) >= (expected, expected)
    headings = [one for one in tree if one.role == "heading"]
    levels = [int(one.properties["level"]) for one in headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all(one.name for one in headings)
    outside = {
        one.role
        for one in tree[1:]
        if one.name and not {"main", "banner", "navigation", "contentinfo"} & set(one.within)
    }
    assert outside <= {"link", "StaticText", "InlineTextBox", "main", "banner", "navigation", "contentinfo"}, outside


def test_tables_have_headers(browser: Browser, page: Path) -> None:
    """Each table names its columns, and its cells are in rows of it."""
    _tree(browser, page)
    bare = browser.evaluate(
        "[...document.querySelectorAll('table')].filter((one) => !one.querySelector('th')).map((one) => one.innerText)"
    )
    assert bare == []
    headers = [one for one in browser.accessibility() if one.role == "columnheader"]
    assert len(headers) >= 4
    assert all(one.name and "table" in one.within for one in headers)


def test_tab_follows_the_order_of_reading(browser: Browser, page: Path) -> None:
    tree = _tree(browser, page)
    expected = [one.name for one in tree if one.properties.get("focusable") and one.role not in ("RootWebArea", "main")]
    browser.evaluate("document.activeElement.blur()")
    reached = []
    for _ in range(min(8, len(expected))):
        browser.press("Tab")
        focused = next(
            (one for one in browser.accessibility() if one.properties.get("focused") and one.role != "RootWebArea"),
            None,
        )
        assert focused is not None
        reached.append(focused.name)
    assert reached == expected[: len(reached)]


def test_a_page_that_lacks_names_would_be_seen(browser: Browser, page: Path) -> None:
    _tree(browser, page)
    browser.evaluate(
        "document.querySelector('main').insertAdjacentHTML('afterbegin', '<button></button><table><tr><td>1</td></tr></table>')"
    )
    tree = browser.accessibility()
    assert any(one.role == "button" and not one.name for one in tree)
