"""Antialiased lines, points and polygons: the fraction of each pixel that a convex polygon covers, by which the fragment's alpha is multiplied.

OpenGL 3.3, sections 3.4 to 3.6 (compatibility profile for points): a line is a rectangle of its width, a point a circle of its diameter, and the
share is the area that the primitive covers of the pixel. The specification lets implementations approximate the area; how G80 does is not published (not
anchored). Here it is exact, except that a circle is a polygon of 32 sides of the same area. With multisampling the state has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.graphics.compiled import compiled, compiled_part
from warpwright.graphics.setup import MOST_PIXELS, SetUp, line_width
from warpwright.graphics.state_3d import State3D
from warpwright.graphics.surface_layout import LARGEST_SURFACE

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_ENABLES = {1: "POINT_SMOOTH_ENABLE", 2: "LINE_SMOOTH_ENABLE", 3: "POLYGON_SMOOTH_ENABLE"}
_SIDES = 32
_LEAST_SHARE = 1.0 / 65536
"""Pixels that are touched by less produce no fragment."""


def is_smooth(engine: State3D, corners: int, samples: int) -> bool:
    """Whether primitives with a number of corners are antialiased one by one."""
    if samples > 1 and engine["MULTISAMPLE_ENABLE"]:
        return False
    return bool(engine[_ENABLES[corners]]) and not (corners == 1 and engine["POINT_SPRITE_ENABLE"])


@dataclass(slots=True)
class Outlines:
    """Convex polygons in pixels, (polygons, corners, 2), and the primitive that each one belongs to."""

    corners: Floats
    primitive: Integers


def outlines(engine: State3D, made: SetUp) -> Outlines:
    """The outlines of primitives; a stippled line has one for each dash."""
    x, y = made.x / 256.0, made.y / 256.0
    if made.corners == 3:
        return Outlines(np.stack([x, y], axis=2), np.arange(len(made)))
    if made.corners == 1:
        angles = 2 * np.pi * np.arange(_SIDES) / _SIDES
        # The radius of a regular polygon that has the circle's area.
        radius = made.sizes / 2 * np.sqrt(2 * np.pi / (_SIDES * np.sin(2 * np.pi / _SIDES)))
        around = np.stack([x + radius[:, None] * np.cos(angles), y + radius[:, None] * np.sin(angles)], axis=2)
        return Outlines(around, np.arange(len(made)))
    return _rectangles(engine, np.stack([x, y], axis=2))


def _rectangles(engine: State3D, ends: Floats) -> Outlines:
    """Rectangles around lines, given by their ends (lines, 2, 2)."""
    width = line_width(engine, 0.0)
    along = ends[:, 1] - ends[:, 0]
    length = np.hypot(along[:, 0], along[:, 1])
    lines, dashes = np.arange(len(ends)), np.stack([np.zeros_like(length), length], axis=1)
    if engine["LINE_STIPPLE_ENABLE"]:
        lines, dashes = _dashes(engine["LINE_STIPPLE"], ends, length)
    unit = along[lines] / np.maximum(length[lines], 1e-9)[:, None]
    across = np.stack([-unit[:, 1], unit[:, 0]], axis=1) * width / 2
    first, last = (ends[lines, 0] + unit * dashes[:, n, None] for n in range(2))
    return Outlines(np.stack([first - across, last - across, last + across, first + across], axis=1), lines)


def _dashes(word: int, ends: Floats, length: Floats) -> tuple[Integers, Floats]:
    """The lines that dashes belong to, and where dashes begin and end on them in pixels: a bit of the pattern stands for a rectangle ``factor`` pixels long."""
    pattern, factor = word >> 8 & 0xFFFF, (word & 0xFF) + 1
    lines, found = [], []
    before = 0.0
    for n, whole in enumerate(length.tolist()):
        follows = n > 0 and bool((ends[n, 0] == ends[n - 1, 1]).all())
        before = before + float(length[n - 1]) if follows else 0.0
        enters, leaves = _visible(ends[n], whole)
        if not enters < leaves:
            continue
        first = int((before + enters) // factor)
        bits = pattern >> (first + np.arange(int((leaves - enters) // factor) + 2) & 15) & 1
        edges = np.diff(np.concatenate([[0], bits, [0]]))
        for a, b in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
            lines.append(n)
            found.append(np.clip([(first + a) * factor - before, (first + b) * factor - before], 0.0, whole))
    return np.array(lines, dtype=np.int64), np.array(found, dtype=np.float64).reshape(-1, 2)


def _visible(ends: Floats, length: float) -> tuple[float, float]:
    """The part of a line, in pixels from its first end, that may be on a surface of the largest size."""
    low, high = 0.0, length
    for start, along in zip(ends[0].tolist(), (ends[1] - ends[0]).tolist(), strict=True):
        edges = (-MOST_PIXELS, LARGEST_SURFACE + MOST_PIXELS)
        if along:
            reached = sorted((edge - start) / along * length for edge in edges)
            low, high = max(low, reached[0]), min(high, reached[1])
        elif not edges[0] <= start <= edges[1]:
            return 0.0, 0.0
    return low, high


@compiled
def _cut(corners: Floats, count: int, axis: int, edge: float, sign: float, kept: Floats) -> int:
    """The part of a convex polygon for which ``sign * (coordinate - edge) >= 0``; returns its number of corners."""
    found = 0
    for n in range(count):
        m = n + 1 if n + 1 < count else 0
        here, there = sign * (corners[n, axis] - edge), sign * (corners[m, axis] - edge)
        if here >= 0.0:
            kept[found, 0], kept[found, 1] = corners[n, 0], corners[n, 1]
            found += 1
        if (here >= 0.0) != (there >= 0.0):
            share = here / (here - there)
            kept[found, 0] = corners[n, 0] + (corners[m, 0] - corners[n, 0]) * share
            kept[found, 1] = corners[n, 1] + (corners[m, 1] - corners[n, 1]) * share
            found += 1
    return found


@compiled_part
def _area(corners: Floats, count: int) -> float:
    """The area of a polygon."""
    twice = 0.0
    for n in range(1, count - 1):
        ax, ay = corners[n, 0] - corners[0, 0], corners[n, 1] - corners[0, 1]
        bx, by = corners[n + 1, 0] - corners[0, 0], corners[n + 1, 1] - corners[0, 1]
        twice += ax * by - bx * ay
    return abs(twice) * 0.5


@compiled_part
def _shares_of_row(band: Floats, count: int, left: int, right: int, scratch: Floats, shares: Floats) -> None:
    """Add to ``shares`` the area of a polygon, one pixel high, in each pixel from ``left`` to ``right``."""
    for x in range(left, right + 1):
        held = _cut(band, count, 0, float(x), 1.0, scratch[0])
        held = _cut(scratch[0], held, 0, float(x + 1), -1.0, scratch[1])
        if held > 2:
            shares[x - left] += _area(scratch[1], held)


@compiled
def raster_shares(
    corners: Floats,
    primitive: Integers,
    scissors: Integers,
    start: Integers,
    quads: Integers,
    coverage: npt.NDArray[np.uint32],
    shares: Floats,
) -> int:
    """As ``raster.raster_triangles``, for convex polygons in pixels, of which the pixels that they touch are covered.

    Args:
        primitive: the primitive of each polygon, whose scissor holds.
        shares: the covered area of the four pixels of each quad: (room, 4).
    """
    room, found = quads.shape[0], 0
    most = corners.shape[1] + 4
    bands, scratch = np.zeros((3, most, 2)), np.zeros((2, most, 2))
    for t in range(start[0], corners.shape[0]):
        first_row, start[1] = start[1], -1
        box, p = scissors[primitive[t]], primitive[t]
        left = max(float(box[0]), np.floor(corners[t, :, 0].min()))
        right = min(float(box[2] - 1), np.ceil(corners[t, :, 0].max()) - 1.0)
        top = max(float(box[1]), np.floor(corners[t, :, 1].min()))
        bottom = min(float(box[3] - 1), np.ceil(corners[t, :, 1].max()) - 1.0)
        if not (left <= right and top <= bottom):
            continue
        low, high = int(left), int(right)
        even, wide = low & ~1, (high | 1) - (low & ~1) + 1
        row_shares = np.zeros((2, wide))
        for qy in range(int(top) >> 1 if first_row < 0 else first_row, (int(bottom) >> 1) + 1):
            if found + wide // 2 > room:
                start[0], start[1] = t, qy
                return found
            row_shares[:] = 0.0
            for n in range(2):
                y = 2 * qy + n
                if top <= y <= bottom:
                    held = _cut(corners[t], corners.shape[1], 1, float(y), 1.0, bands[0])
                    held = _cut(bands[0], held, 1, float(y + 1), -1.0, bands[1])
                    _shares_of_row(bands[1], held, low, high, scratch, row_shares[n, low - even :])
            for qx in range(wide // 2):
                mask = 0
                for n in range(4):
                    share = min(row_shares[n >> 1, 2 * qx + (n & 1)], 1.0)
                    shares[found, n] = share
                    if share >= _LEAST_SHARE:
                        mask |= 1 << 8 * n
                if mask:
                    quads[found, 0], quads[found, 1], quads[found, 2] = even + 2 * qx, 2 * qy, p
                    coverage[found] = mask
                    found += 1
    start[0] = corners.shape[0]
    return found
