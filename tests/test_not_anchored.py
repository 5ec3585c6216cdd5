"""What nobody published or measured of Tesla's graphics is called not anchored in the chip's file, on a frame's page, in each study and in the documentation."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from warpwright.graphics import coverage_samples, fragments, setup, smooth
from warpwright.graphics.timed import tile_compression, zcull
from warpwright.studies import tesla_compute, tesla_graphics, tesla_texture
from warpwright.studies.study import STUDIES
from warpwright.tools.report import frame_page

ROOT = Path(__file__).parents[1]
TOPICS = {"Z-cull": "z-?cull", "compression": "compress", "coverage samples": "coverage", "fixed stages": "fixed.stage"}
STUDIED = ("graphics-peaks", "rasterisation", "antialiasing", "scaling", "balance", "compute")
"""Studies whose cycles depend on all four; the texture study counts filters alone."""


def lines_about(topic: str, text: str) -> list[str]:
    return [line for line in text.splitlines() if re.search(TOPICS[topic], line, re.IGNORECASE)]


@pytest.mark.parametrize("topic", TOPICS)
def test_the_chips_file_says_so(topic: str) -> None:
    whole = (ROOT / "warpwright" / "chips" / "g80.toml").read_text()
    section = whole[whole.index("[graphics]") :]
    # A comment of several lines is one.
    lines = lines_about(topic, re.sub(r"\n# ", " ", section))
    assert any("not anchored" in line for line in lines), lines


@pytest.mark.parametrize("topic", TOPICS)
def test_a_frames_page_and_every_study_say_so(topic: str) -> None:
    note = next(line for line in inspect.getsource(frame_page).splitlines() if "not anchored" in line)
    assert lines_about(topic, note), note
    assert tesla_graphics.NOT_ANCHORED.startswith("Not anchored")
    assert lines_about(topic, tesla_graphics.NOT_ANCHORED)


@pytest.mark.parametrize("name", STUDIED)
def test_studies_end_with_the_remark(name: str) -> None:
    assert tesla_compute.NOT_ANCHORED is tesla_graphics.NOT_ANCHORED
    assert "result.remarks.append(NOT_ANCHORED)" in inspect.getsource(STUDIES[f"tesla-{name}"].run)


def test_the_texture_study_says_what_it_does_not_count() -> None:
    assert "not anchored" in inspect.getsource(tesla_texture)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_documentation_says_so(topic: str) -> None:
    page = (ROOT / "docs" / "model" / "graphics.md").read_text()
    paragraphs = [part.replace("\n", " ") for part in page.split("\n\n") if "not anchored" in part]
    assert any(lines_about(topic, part) for part in paragraphs)


@pytest.mark.parametrize("module", [coverage_samples, fragments, setup, smooth, tile_compression, zcull])
def test_modules_with_rules_of_the_models_own_say_so(module: object) -> None:
    assert "not\nanchored" in inspect.getsource(module) or "not anchored" in inspect.getsource(module)  # type: ignore[arg-type]
