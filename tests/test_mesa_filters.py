"""Filtered textures of GLSL compute shaders on the simulated Cypress and Cayman, through Mesa's ``r600`` driver, compared with NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.glsl_filters import LEVELS, SIZE
from tests.mesa_drivers import needs_mesa, saved_by

pytestmark = needs_mesa("r600")
PROGRAM = Path(__file__).with_name("glsl_filters.py")
CASES = (
    ("hd5870", "off"),
    pytest.param(("hd6970", "off"), marks=pytest.mark.slow),  # as without timing on the other chip, and as with timing
    ("hd6970", "full"),
)
MOST_MEANS = 8


def results(chip: str, timing: str) -> dict[str, Any]:
    return saved_by(PROGRAM, chip, timing)[0]


# --- the same in NumPy ------------------------------------------------------------------------------------------
def neighbours(place: Any, extent: int, repeat: bool, linear: bool = True, offset: int = 0) -> tuple[Any, Any, Any]:
    at = place * extent + offset - 0.5 * linear
    first = np.floor(at)
    numbers = [n % extent if repeat else np.clip(n, 0, extent - 1) for n in (first, first + 1)]
    return numbers[0].astype(int), numbers[1].astype(int), (at - first) * linear


def mean(level: Any, place: Any, repeat: bool = True, linear: bool = True, offset: tuple[int, int] = (0, 0)) -> Any:
    """The mean of the four texels around places, shape (points, 4)."""
    height, width = level.shape[:2]
    left, right, across = neighbours(place[:, 0], width, repeat, linear, offset[0])
    upper, lower, down = neighbours(place[:, 1], height, repeat, linear, offset[1])
    rows = [level[y, left] + (level[y, right] - level[y, left]) * across[:, None] for y in (upper, lower)]
    return rows[0] + (rows[1] - rows[0]) * down[:, None]


def of_detail(levels: list[Any], place: Any, detail: Any, nearest: bool = False) -> Any:
    """Means of the two levels around a level of detail, by its distance."""
    each = np.stack([mean(level, place) for level in levels])
    detail = np.clip(detail, 0, len(levels) - 1)
    if nearest:
        return each[np.floor(detail + 0.5).astype(int), np.arange(len(place))]
    first = np.floor(detail).astype(int)
    fine, coarse = (each[np.minimum(n, len(levels) - 1), np.arange(len(place))] for n in (first, first + 1))
    return fine + (coarse - fine) * (detail - first)[:, None]


def lengths(gradients: Any) -> Any:
    """Lengths of the two gradients in texels."""
    return np.linalg.norm(gradients.reshape(-1, 2, 2) * SIZE, axis=2)


def anisotropic(levels: list[Any], place: Any, gradients: Any) -> Any:
    """The mean of as many places along the longer gradient as it is longer than the other."""
    both = lengths(gradients)
    ratio = np.minimum(both.max(1) / both.min(1), MOST_MEANS)
    detail = np.log2(both.max(1) / ratio)
    longer = gradients.reshape(-1, 2, 2)[np.arange(len(place)), both.argmax(1)]
    count = np.ceil(ratio - 1 / 1024)
    total = np.zeros((len(place), 4))
    for n in range(MOST_MEANS):
        step = (n - (count - 1) / 2) / count
        found = of_detail(levels, place + longer * step[:, None], detail)
        total += np.where((n < count)[:, None], found / count[:, None], 0)
    return total


@pytest.mark.parametrize("case", CASES, ids="-".join)
@pytest.mark.parametrize(
    "name", ["bilinear", "clamped", "offset", "trilinear", "nearest_level", "gradients", "anisotropic"]
)
def test_a_filter_gives_the_mean_of_texels_by_their_distance(name: str, case: tuple[str, str]) -> None:
    found = results(*case)
    levels = [found[f"level{n}"].astype(float) for n in range(LEVELS)]
    given = found[f"{name}_given"].astype(float)
    place, gradients = given[:, 0, :2], given[:, 1]
    wanted = {
        "bilinear": lambda: mean(levels[0], place),
        "clamped": lambda: mean(levels[0], place, repeat=False),
        "offset": lambda: mean(levels[0], place, offset=(3, -2)),
        "trilinear": lambda: of_detail(levels, place, given[:, 0, 2]),
        "nearest_level": lambda: of_detail(levels, place, given[:, 0, 2], nearest=True),
        "gradients": lambda: of_detail(levels, place, np.log2(lengths(gradients).max(1))),
        "anisotropic": lambda: anisotropic(levels, place, gradients),
    }[name]()
    np.testing.assert_allclose(found[f"{name}_seen"], wanted, atol=2e-5)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_an_anisotropic_filter_is_sharper_than_a_trilinear_one(case: tuple[str, str]) -> None:
    """Its level of detail is that of the shorter gradient."""
    found = results(*case)
    gradients = found["gradients_given"].astype(float)[:, 1]
    differs = np.abs(found["gradients_seen"] - found["anisotropic_seen"]).max(1) > 1e-4
    both = lengths(gradients)
    assert differs[(both.max(1) > 2 * both.min(1)) & (both.max(1) > 1)].mean() > 0.9


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_nearest_texel_a_texel_of_a_level_and_a_gather(case: tuple[str, str]) -> None:
    found = results(*case)
    levels = [found[f"level{n}"] for n in range(LEVELS)]
    place = found["nearest_given"][:, 0, :2].astype(float)
    x, y = (np.floor(place * SIZE) % SIZE).astype(int).T
    assert (found["nearest_seen"] == levels[0][y, x]).all()
    given = found["texels_given"][:, 0]
    number = given[:, 2].astype(int)
    x, y = (np.floor(given[:, :2] * np.float32(SIZE)).astype(int) >> number[:, None]).T
    wanted = np.stack([levels[n][row, column] for n, row, column in zip(number, y, x, strict=True)])
    assert (found["texels_seen"] == wanted).all()
    left, right, _ = neighbours(place[:, 0], SIZE[0], True)
    upper, lower, _ = neighbours(place[:, 1], SIZE[1], True)
    corners = ((lower, left), (lower, right), (upper, right), (upper, left))
    assert (found["gather_seen"] == np.stack([levels[0][y, x, 1] for y, x in corners], 1)).all()
