"""The tables of the articles' figures in the pages of G80 and of AMD's chips name tests and studies that hold these figures."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from warpwright.studies import catalogue

PAGES = {"g80": 18, "r600": 19}
"""Rows of each page's table."""


def rows(page: Path) -> list[tuple[str, list[str]]]:
    """Figure, and names of tests and studies, of the table."""
    lines = iter(page.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.startswith("| figure of the article |"):
            break
    next(lines)
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        found.append((cells[0], re.findall(r"`([^`]+)`", cells[-1])))
    return found


@cache
def functions_of(path: Path) -> dict[str, str]:
    """Text of every function of a file, with its decorators."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    return {
        node.name: "\n".join(lines[min([node.lineno, *[d.lineno for d in node.decorator_list]]) - 1 : node.end_lineno])
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }


def text_of(name: str, repository: Path) -> str:
    """The text of a test or of a study's module."""
    if "::" in name:
        file, function = name.split("::")
        return functions_of(repository / file)[function]
    return inspect.getsource(sys.modules[catalogue.STUDIES[name].run.__module__])


def numbers(text: str) -> set[float]:
    """The numbers in a text; those in a name count too."""
    return {float(x.replace(",", "").replace("_", "")) for x in re.findall(r"\d+(?:[,_]\d{3})*(?:\.\d+)?", text)}


@pytest.mark.parametrize("name", PAGES)
def test_each_figure_has_a_test_or_a_study_with_its_number(name: str, repository: Path) -> None:
    table = rows(repository / f"docs/model/{name}.md")
    assert len(table) == PAGES[name]
    for figure, measured_by in table:
        assert measured_by, figure
        held = set().union(*(numbers(text_of(test, repository)) for test in measured_by))
        wanted = numbers(re.sub(r"Figure 8|Table 1|1/x|1/sqrt|2\^x|log2|32-bit", "", figure))
        assert wanted <= held, f"{figure}: {wanted - held} in none of {measured_by}"
