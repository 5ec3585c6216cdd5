"""Pages as a screen reader and a keyboard get them: Chromium's accessibility tree of each kind of page."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import result_pages
from tests.browser import BROWSER, Browser, Seen

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


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="module", params=result_pages.MAKERS)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return result_pages.MAKERS[request.param](tmp_path_factory.mktemp("page"))


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


SIZES_OF_TEXT = """[...document.querySelectorAll('svg text')].map((one) => {
    const scale = one.getScreenCTM();
    return [parseFloat(getComputedStyle(one).fontSize) * Math.hypot(scale.a, scale.b), one.textContent];
})"""
"""In pixels of the screen."""


@pytest.mark.parametrize("width", [390, 900, 1400])
def test_text_of_drawings_is_large_enough_to_read(browser: Browser, page: Path, width: int) -> None:
    """A drawing that is wider than its place scrolls sideways; it does not shrink further."""
    browser.look(width, False)
    browser.open(page)
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert [text for size, text in browser.evaluate(SIZES_OF_TEXT) if size < 8.5] == []


def test_a_page_that_lacks_names_would_be_seen(browser: Browser, page: Path) -> None:
    _tree(browser, page)
    browser.evaluate(
        "document.querySelector('main').insertAdjacentHTML('afterbegin', '<button></button><table><tr><td>1</td></tr></table>')"
    )
    tree = browser.accessibility()
    assert any(one.role == "button" and not one.name for one in tree)
