"""``docs/architecture.md`` names files and functions that exist, and the mechanisms that a reader looks for."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

MECHANISMS = (
    *("scoreboard", "convergence barriers", "warp scheduler", "register banks", "coalescer", "L1 replacement", "MSHRs"),
    *("store buffer", "TLB", "crossbar", "L2 hash", "DRAM timing", "block dispatch", "links", "fences", "bulk copies"),
)
"""Of each, a row of the table begins with these words."""


def rows(page: str) -> list[list[str]]:
    """The cells of every row of the page's tables."""
    found = [line.strip().strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in found if "`" in row[1]]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@cache
def definitions(path: Path) -> set[str]:
    """Functions, classes and methods of a file."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
    return found


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.ci
def test_every_file_and_function_of_the_tables_exists(page: str, repository: Path) -> None:
    table = rows(page)
    assert len(table) > 60
    for what, files, functions in table:
        paths = [repository / "warpwright" / name for name in code(files)]
        missing = [path.name for path in paths if not path.is_file()]
        assert not missing, f"{what}: no file {missing}"
        defined = set().union(*(definitions(path) for path in paths if path.suffix == ".py"))
        unknown = [name for name in code(functions) if name not in defined]
        assert not unknown, f"{what}: {files} do not define {unknown}"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_table_has_a_row_for(mechanism: str, page: str) -> None:
    assert any(what.startswith(mechanism) for what, _, _ in rows(page))


def test_files_of_the_picture_exist(page: str, repository: Path) -> None:
    picture = page[page.index("## The machine") : page.index("## One launch")]
    names = set(re.findall(r"[\w/]+\.py", picture)) - {"api.py"}
    folder = repository / "warpwright"
    wrong = [name for name in names if not any((at / name).is_file() for at in (folder, folder / "timing"))]
    assert len(names) > 20
    assert not wrong
