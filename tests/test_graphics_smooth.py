"""Antialiased primitives and alpha to coverage: areas against many samples of each pixel, and the rules that OpenGL sets for alpha to coverage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpwright.graphics.fragments import samples_of_alpha
from warpwright.graphics.raster import Quads
from warpwright.graphics.setup import SetUp
from warpwright.graphics.smooth import is_smooth, outlines, raster_shares

pytestmark = pytest.mark.ci
SIZE = 24


class Registers(dict[str, int]):
    """Registers by name; absent ones are 0."""

    def __missing__(self, name: str) -> int:
        return 0

    def float_at(self, name: str) -> float:
        return float(self[name])


def made_of(corners: Any, sizes: Any = ()) -> SetUp:
    """Primitives with corners (n, corners, 2) in pixels."""
    places = np.rint(np.asarray(corners) * 256).astype(np.int64)
    n, each = places.shape[:2]
    none = np.zeros((n, 3))
    scissors = np.tile(np.array([0, 0, SIZE, SIZE]), (n, 1))
    return SetUp(each, places[:, :, 0], places[:, :, 1], np.zeros((n, 1, 4), np.float32), none, none[:, :2],
                 np.ones(n, bool), np.zeros(n, np.int64), scissors, np.asarray(sizes, float), np.arange(n))  # fmt: skip


def shares_of(registers: Registers, made: SetUp, room: int = 4096) -> Any:
    """Covered areas (primitives, rows, columns), and the masks of covered pixels."""
    found: Any = outlines(registers, made)  # type: ignore[arg-type]
    start, quads = np.array([0, -1]), np.empty((room, 3), np.int64)
    coverage, shares = np.empty(room, np.uint32), np.empty((room, 4))
    image, masks = np.zeros((len(made), SIZE + 1, SIZE + 1)), np.zeros((len(made), SIZE + 1, SIZE + 1), bool)
    while start[0] < len(found.corners):
        count = raster_shares(found.corners, found.primitive, made.scissors, start, quads, coverage, shares)
        for (x, y, t), mask, row in zip(quads[:count].tolist(), coverage[:count].tolist(), shares[:count], strict=True):
            for p in range(4):
                image[t, y + (p >> 1), x + (p & 1)] += row[p]
                masks[t, y + (p >> 1), x + (p & 1)] |= bool(mask >> 8 * p & 1)
    return image[:, :SIZE, :SIZE], masks[:, :SIZE, :SIZE]


def sampled(corners: Any, each: int = 32) -> Any:
    """Shares of the pixels inside a convex polygon, from ``each`` by ``each`` samples."""
    y, x = (np.mgrid[0 : SIZE * each, 0 : SIZE * each] + 0.5) / each
    sides = []
    for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        sides.append((b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0]) >= 0)
    inside = np.all(sides, axis=0) | ~np.any(sides, axis=0)
    return inside.reshape(SIZE, each, SIZE, each).mean(axis=(1, 3))


def test_a_lines_shares_are_those_of_its_rectangle() -> None:
    rng = np.random.default_rng(3)
    ends, width = rng.uniform(3, 21, (6, 2, 2)), 2.5
    ends = np.rint(ends * 256) / 256
    image, masks = shares_of(Registers(LINE_WIDTH=width), made_of(ends), room=40)  # type: ignore[arg-type]
    for line, shares in zip(ends, image, strict=True):
        along = (line[1] - line[0]) / np.hypot(*(line[1] - line[0]))
        across = np.array([-along[1], along[0]]) * width / 2
        rectangle = np.array([line[0] - across, line[1] - across, line[1] + across, line[0] + across])
        assert abs(shares - sampled(rectangle)).max() < 0.02
        assert shares.sum() == pytest.approx(width * np.hypot(*(line[1] - line[0])), rel=1e-5)
    assert ((image > 1e-4) == masks).mean() > 0.999


def test_triangles_that_share_edges_cover_each_pixel_once() -> None:
    square = np.array([[2.25, 3.5], [20.75, 4.25], [19.5, 21.0], [3.0, 20.25]])
    middle = np.array([11.5, 12.25])
    fan = [[middle, square[n], square[(n + 1) % 4]] for n in range(4)]
    image, _ = shares_of(Registers(), made_of(fan))
    assert image.sum(axis=0) == pytest.approx(sampled(square), abs=0.02)
    assert image.sum(axis=0).max() <= 1 + 1e-9


def test_points_have_the_area_of_their_circle() -> None:
    sizes = [1.0, 3.0, 9.5]
    image, _ = shares_of(Registers(), made_of([[[12.3, 11.6]]] * 3, sizes))
    assert image.sum(axis=(1, 2)) == pytest.approx(np.pi / 4 * np.square(sizes), rel=1e-5)
    assert image[2, 11, 12] == pytest.approx(1)


def test_a_stippled_line_consists_of_dashes() -> None:
    """The pattern 0b0101 with factor 2: two pixels drawn, two left out, from the first end; a strip goes on with the pattern."""
    registers = Registers(LINE_WIDTH=1, LINE_STIPPLE_ENABLE=1, LINE_STIPPLE=0x5555 << 8 | 1)
    lines = [[[2.0, 8.5], [13.0, 8.5]], [[13.0, 8.5], [21.0, 8.5]]]
    image, _ = shares_of(registers, made_of(lines))
    row = image[:, 8].sum(axis=0)
    wanted = [1.0 if 2 <= x < 21 and (x - 2) % 4 < 2 else 0.0 for x in range(SIZE)]
    assert row == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("samples", "multisampling", "wanted"), [(1, 0, True), (1, 1, True), (4, 1, False), (4, 0, True)]
)
def test_multisampling_replaces_antialiasing_of_lines(samples: int, multisampling: int, wanted: bool) -> None:
    registers: Any = Registers(LINE_SMOOTH_ENABLE=1, MULTISAMPLE_ENABLE=multisampling)
    assert is_smooth(registers, 2, samples) is wanted
    assert not is_smooth(registers, 3, samples)


# --- alpha to coverage ------------------------------------------------------------------------------
def samples_kept(alphas: Any, samples: int) -> Any:
    """Number of samples that each of a quad's four pixels keeps: (alphas, 4)."""
    n = len(alphas)
    quads = Quads(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.uint32))
    masks = samples_of_alpha(quads, np.repeat(np.float32(alphas)[:, None], 4, axis=1), samples)
    assert (masks < 1 << samples).all()
    return np.array([[int(m).bit_count() for m in row] for row in masks])


@pytest.mark.parametrize("samples", [2, 4, 8])
def test_samples_by_alpha_are_proportional_and_never_fewer_for_more_alpha(samples: int) -> None:
    alphas = np.linspace(-0.1, 1.1, 1201)
    kept = samples_kept(alphas, samples)
    assert (np.diff(kept, axis=0) >= 0).all()
    assert (kept[alphas <= 0] == 0).all()
    assert (kept[alphas >= 1] == samples).all()
    # The mean of a quad has quarters of a sample.
    assert abs(kept.mean(axis=1) / samples - np.clip(alphas, 0, 1)).max() <= 0.125 / samples + 1e-6


@pytest.mark.parametrize("samples", [2, 4, 8])
def test_whole_numbers_of_samples_are_not_dithered(samples: int) -> None:
    kept = samples_kept(np.arange(samples + 1) / samples, samples)
    assert (kept == np.arange(samples + 1)[:, None]).all()


def test_alpha_that_is_no_number_keeps_no_sample() -> None:
    assert (samples_kept([np.nan, -np.inf], 4) == 0).all()
