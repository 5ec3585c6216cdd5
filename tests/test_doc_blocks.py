"""Python blocks of README and docs: each runs alone when it is pasted, and excerpts (``py``) are in the files of this repository."""

from __future__ import annotations

import html
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.test_opencl import has_opencl

ROOT = Path(__file__).resolve().parents[1]
PRINTED = re.compile(r"\s*(?:prints:\s*)?^```\n(.*?)^```", re.DOTALL | re.MULTILINE)
"""Output that a page shows directly after a block."""
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str
    output: str = ""
    """What the page says it prints."""


def blocks() -> Iterator[Block]:
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        page, before = path.read_text(encoding="utf-8"), ""
        for found in FENCE.finditer(page):
            text = found[2]
            # A block may say that it goes on: "With the two functions above,".
            lead = page[: found.start()].rstrip().rpartition("\n\n")[2]
            if found[1] == "python" and " above," in lead:
                text = before + text
            before += found[2] if found[1] == "python" else ""
            printed = PRINTED.match(page, found.end())
            line = page[: found.start()].count("\n") + 2
            yield Block(str(path.relative_to(ROOT)), line, found[1], text, printed[1] if printed else "")


BLOCKS = list(blocks())
RUN = [block for block in BLOCKS if block.language == "python"]
EXCERPTS = [block for block in BLOCKS if block.language == "py"]


def _name(block: Block) -> str:
    return f"{block.page}:{block.line}"


def agrees(shown: str, printed: str, tolerance: float) -> bool:
    """Whether two texts differ only in spaces, and in numbers by no more than the tolerance."""

    def words(text: str) -> list[str]:
        return NUMBER.sub("#", text).split()

    def numbers(text: str) -> list[float]:
        return [float(number.replace(",", "")) for number in NUMBER.findall(text)]

    return words(shown) == words(printed) and numbers(shown) == pytest.approx(numbers(printed), rel=tolerance, abs=1)


def test_numbers_are_compared() -> None:
    assert agrees("half  42,404 cycles\n", "half 42,900 cycles", 0.02)
    assert not agrees("half 42,404 cycles", "half 43,900 cycles", 0.02)
    assert not agrees("half 42,404 cycles", "all 42,404 cycles", 0.02)
    assert not agrees("half 42,404 cycles", "", 0.02)


def test_blocks_are_found() -> None:
    assert len(RUN) > 20
    assert sum(bool(block.output) for block in RUN) >= 2
    assert len(EXCERPTS) > 3


CYCLES_TOLERANCE, SAVINGS_TOLERANCE = 0.03, 0.1
"""Of quoted cycles, and of quoted shares of cycles that a relieved resource saves."""
LONG = frozenset(
    f"docs/{page}.md"
    for page in (
        *("howto/opengl", "howto/refinement", "howto/report", "howto/sparsity", "howto/sweeps", "howto/what-if"),
        "model/graphics",
    )
)
"""Pages with blocks that take seconds."""


def _marks(block: Block) -> list[pytest.MarkDecorator]:
    if "__kernel" in block.text:
        return [pytest.mark.ci, pytest.mark.skipif(not has_opencl(), reason="clang and libclc are not installed")]
    return [pytest.mark.ci] if block.page in LONG else []


@pytest.mark.ci
@pytest.mark.parametrize("block", [pytest.param(b, id=_name(b), marks=_marks(b)) for b in RUN])
def test_a_block_runs_when_it_is_pasted(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    # As in a checkout: one page uses the tests' own microbenchmarks.
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.chdir(tmp_path)
    pasted = tmp_path / "pasted.py"
    pasted.write_text(block.text, encoding="utf-8")
    runpy.run_path(str(pasted), run_name="__main__")
    if block.output:
        printed = capsys.readouterr().out
        assert agrees(block.output, printed, CYCLES_TOLERANCE), (
            f"the page shows other output than it prints:\n{printed}"
        )


@pytest.mark.ci
def test_the_advice_that_a_page_quotes_is_what_its_command_gives(tmp_path: Path) -> None:
    page = (ROOT / "docs/howto/report.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^matmul_\w+: Limited by .*$", page, re.MULTILINE)
    command = [sys.executable, "-m", "warpwright", "report", "examples/matmul.py", "--gpu", "a100"]
    done = subprocess.run(
        [*command, "--output", str(tmp_path / "page.html")], cwd=ROOT, text=True, capture_output=True, check=True
    )
    given = [line for line in done.stdout.splitlines() if ": Limited by " in line]
    assert len(given) == 3
    assert agrees("\n".join(quoted), "\n".join(given), SAVINGS_TOLERANCE), given


def compared(folder: Path, *words: str) -> str:
    """What ``warpwright compare`` prints on a terminal of 120 columns."""
    (folder / "examples").symlink_to(ROOT / "examples")
    done = subprocess.run(
        [sys.executable, "-m", "warpwright", "compare", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"},
        text=True,
        capture_output=True,
        check=True,
    )
    return done.stdout


@pytest.mark.ci
def test_the_table_that_readme_quotes_is_what_its_command_prints(tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    (quoted,) = re.findall(r"^```\n(examples/matmul\.py\n.*?)^```", page, re.DOTALL | re.MULTILINE)
    printed = compared(tmp_path, "v100", "a100", "h200", "--", "examples/matmul.py")
    assert agrees(quoted, printed[printed.index("examples/matmul.py ") :], CYCLES_TOLERANCE), printed


@pytest.mark.ci
def test_the_sentence_that_a_page_quotes_is_that_of_the_compared_chips(tmp_path: Path) -> None:
    text = (ROOT / "docs/howto/compare-chips.md").read_text(encoding="utf-8")
    quoted = " ".join(line[2:] for line in text.splitlines() if line.startswith("> ")).removesuffix("[…]")
    compared(tmp_path, "g80", "gtx480", "--report", "page.html", "--", "examples/transpose.py", "256")
    page = html.unescape(re.sub(r"<[^>]*>", "", (tmp_path / "page.html").read_text(encoding="utf-8")))
    given = page[page.index("gtx480 takes") :].split()[: len(quoted.split())]
    assert agrees(quoted, " ".join(given), CYCLES_TOLERANCE), " ".join(given)


def _plain(text: str) -> str:
    """With one space for any white space."""
    return " ".join(text.split())


@cache
def _code() -> list[str]:
    """Every source of the package, the examples and the tests."""
    places = [path for folder in ("warpwright", "examples", "tests") for path in (ROOT / folder).rglob("*.py")]
    return [_plain(path.read_text(encoding="utf-8")) for path in places]


@pytest.mark.ci
@pytest.mark.parametrize("block", EXCERPTS, ids=_name)
def test_an_excerpt_is_in_the_code(block: Block) -> None:
    assert any(_plain(block.text) in code for code in _code())
