"""How numbers are written in tables, pages and sentences."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests import result_pages
from warpwright.quantity_text import amount_text, figures, number_text, share_text, size_text, time_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7.5, "7.50"),
        (10.1, "10.1"),
        (9.996, "10.0"),
        (0.0331, "0.0331"),
        (123.4, "123"),
        (999.6, "1,000"),
        (1234.5, "1,230"),
        (1e-12, "1.00e-12"),
        (0, "0"),
        (-7.5, "-7.50"),
        (float("inf"), "inf"),
    ],
)
def test_three_figures(value: float, text: str) -> None:
    assert figures(value) == text


def test_times_sizes_and_rates_have_a_unit() -> None:
    assert [time_text(s) for s in (7.5e-6, 10.1e-6, 999.7e-6, 1.5, 3600, 3e-10, 0)] == [
        "7.50 µs",
        "10.1 µs",
        "1.00 ms",
        "1.50 s",
        "3,600 s",
        "0.300 ns",
        "0 ns",
    ]
    assert [size_text(n) for n in (0, 100, 1023, 1024, 131072, 1.25 * 2**20, 1023.9 * 1024)] == [
        "0 B",
        "100 B",
        "1,023 B",
        "1.00 KiB",
        "128 KiB",
        "1.25 MiB",
        "1.00 MiB",
    ]
    assert [amount_text(v, "B/s") for v in (823e9, 1.5e12, 12, 1.5, 0)] == [
        "823 GB/s",
        "1.50 TB/s",
        "12 B/s",
        "1.50 B/s",
        "0 B/s",
    ]
    assert [amount_text(v) for v in (2.4e6, 312, 999_700)] == ["2.40 M", "312", "1.00 M"]


def test_shares_and_counts() -> None:
    assert [share_text(s) for s in (0, 0.0001, 0.013, 0.0994, 0.0996, 0.26, 1)] == [
        "0%",
        "<0.1%",
        "1.3%",
        "9.9%",
        "10%",
        "26%",
        "100%",
    ]
    assert [number_text(v) for v in (12345, 3.14159, 250.0)] == ["12,345", "3.14", "250"]


class _Shown(HTMLParser):
    """The texts of a page without programs, the sources of the chip's numbers, and the axes of drawings."""

    HIDDEN = frozenset(["script", "style", "pre", "code"])

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._hidden: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kinds = (dict(attrs).get("class") or "").split()
        if self._hidden or tag in self.HIDDEN or {"code", "source", "tick", "label"} & set(kinds):
            self._hidden.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            while self._hidden.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self._hidden and data.strip():
            self.texts.append(data.strip())


DECIMALS = re.compile(r"(?<![\w.,])([-+]?)(\d[\d,]*\.\d+)(e-?\d+)?( ?%| points)?(?![\w.]*\.\d)")
CAPABILITY = re.compile(r"(Tesla|Fermi|Pascal|Volta|Ampere|Hopper) \d\.\d")
LONG_COUNT = re.compile(r"(?<![\w.,#])\d{5,}(?![\w.])")


def _badly_written(text: str) -> list[str]:
    """Numbers of a text that are neither counts, three figures, percents nor differences with one decimal."""
    found = LONG_COUNT.findall(text)
    for sign, digits, _, share in DECIMALS.findall(CAPABILITY.sub("", text)):
        fine = (
            len(digits.partition(".")[2]) == 1 if share or sign else len(re.sub(r"[.,]", "", digits).lstrip("0")) == 3
        )
        if share and not sign:
            fine = fine and float(digits) < 10
        if not fine:
            found.append(sign + digits + share)
    return found


def test_what_is_badly_written_is_found() -> None:
    assert _badly_written("7.5 µs and 10.1 µs, 12.5% and 1.25%, 123456 cycles of 1,234.5") == [
        "123456",
        "7.5",
        "12.5%",
        "1.25%",
        "1,234.5",
    ]
    assert _badly_written("7.50 µs, 1.3%, +12.0%, 123,456 cycles, 0.0331, 1.00e-12, version 1.2.3") == []


@pytest.mark.parametrize("kind", result_pages.MAKERS)
def test_a_page_has_one_format_of_numbers(kind: str, tmp_path: Path) -> None:
    reader = _Shown()
    reader.feed(result_pages.MAKERS[kind](tmp_path).read_text(encoding="utf-8"))
    assert sum(bool(re.search(r"\d", text)) for text in reader.texts) > 20
    assert [(text, bad) for text in reader.texts if (bad := _badly_written(text))] == []
