"""The pictures of Table 2's modes in the study tesla-antialiasing."""

from __future__ import annotations

import numpy as np
import pytest

from warpwright.studies import tesla_pictures
from warpwright.studies.page import study_page
from warpwright.studies.study import Pictures, Result, Study


@pytest.mark.ci
def test_more_samples_come_closer_to_sixteen_full_ones() -> None:
    found = {what: tesla_pictures.picture(*scene).astype(float) for what, scene in tesla_pictures.MODES.items()}
    assert {image.shape for image in found.values()} == {(512, 512, 4)}
    best = found["supersampling 16x"]
    error = {what: float(np.sqrt(np.square(image - best).mean())) for what, image in found.items()}
    assert error["without"] > error["multisampling 2x"] > error["multisampling 4x"] > error["multisampling 8x"] > 0
    assert error["coverage sampling 16x, 4 stored"] < error["multisampling 4x"]
    assert error["coverage sampling 16x, 8 stored"] < error["multisampling 8x"]


def test_a_page_has_pictures_side_by_side() -> None:
    image = np.full((2, 3, 4), 200, np.uint8)
    shown = Result(pictures=[Pictures("Modes & more", {"one": image, "two": image})])
    page = study_page(Study("made-up", "A paper", "What it shows", lambda step: shown), shown)
    assert page.count('src="data:image/png;base64,') == 2
    assert "<h2>Modes &amp; more</h2>" in page
    assert "img-src data:" in page
