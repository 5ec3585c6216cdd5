"""Python blocks of README and docs: each runs alone when it is pasted, and excerpts (``py``) are in the files of this repository."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str


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
            yield Block(str(path.relative_to(ROOT)), page[: found.start()].count("\n") + 2, found[1], text)


BLOCKS = list(blocks())
RUN = [block for block in BLOCKS if block.language == "python"]
EXCERPTS = [block for block in BLOCKS if block.language == "py"]


def _name(block: Block) -> str:
    return f"{block.page}:{block.line}"


def test_blocks_are_found() -> None:
    assert len(RUN) > 20
    assert len(EXCERPTS) > 3


LONG = frozenset(f"docs/howto/{page}.md" for page in ("opengl", "report", "sparsity", "sweeps"))
"""Pages with blocks that take seconds."""


@pytest.mark.parametrize(
    "block", [pytest.param(b, id=_name(b), marks=pytest.mark.ci if b.page in LONG else ()) for b in RUN]
)
def test_a_block_runs_when_it_is_pasted(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    # As in a checkout: one page uses the tests' own microbenchmarks.
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.chdir(tmp_path)
    pasted = tmp_path / "pasted.py"
    pasted.write_text(block.text, encoding="utf-8")
    runpy.run_path(str(pasted), run_name="__main__")


@pytest.mark.parametrize("block", EXCERPTS, ids=_name)
def test_an_excerpt_is_in_the_code(block: Block) -> None:
    def plain(text: str) -> str:
        return re.sub(r"\s+", " ", text).strip()

    places = [path for folder in ("warpwright", "examples", "tests") for path in (ROOT / folder).rglob("*.py")]
    assert any(plain(block.text) in plain(path.read_text(encoding="utf-8")) for path in places)
