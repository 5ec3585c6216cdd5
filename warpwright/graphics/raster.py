"""Rasterisation: primitives in window coordinates become quads of 2 by 2 pixels with a mask of covered samples.

Coordinates are snapped to 1/256 of a pixel, and edges are evaluated in integers: a sample on an edge belongs to the triangle for which that edge is a left or
top edge. G80's snapping is not published; 1/256 is what contemporary APIs require.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.graphics.compiled import compiled, compiled_part

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
SUBPIXELS = 256
SAMPLE_PLACES: dict[int, tuple[tuple[int, int], ...]] = {
    1: ((8, 8),),
    2: ((4, 4), (12, 12)),
    4: ((6, 2), (14, 6), (2, 10), (10, 14)),
    8: ((1, 7), (5, 3), (3, 13), (7, 11), (9, 5), (15, 1), (11, 15), (13, 9)),
}
"""Positions of the samples in a pixel, in sixteenths, by the number of samples; the driver reports these to programs."""
BATCH_QUADS = 1 << 16
"""Number of quads shaded at a time."""


@dataclass(slots=True)
class Quads:
    """Quads in the order of their primitives: the upper left pixel, the primitive, and the samples of the four pixels."""

    x: Integers
    y: Integers
    primitive: Integers
    coverage: npt.NDArray[np.uint32]
    """Bits: sample ``s`` of pixel ``p`` (x first) is bit ``8 * p + s``."""
    shares: Floats | None = None
    """Of primitives that are antialiased one by one (``smooth.py``), the area covered of each pixel: (quads, 4)."""

    def __len__(self) -> int:
        return len(self.x)

    def chosen(self, keep: npt.NDArray[np.bool_]) -> Quads:
        shares = None if self.shares is None else self.shares[keep]
        return Quads(self.x[keep], self.y[keep], self.primitive[keep], self.coverage[keep], shares)


def snap(values: Floats) -> Integers:
    """Round coordinates to the nearest 256th of a pixel."""
    with np.errstate(invalid="ignore"):
        return np.floor(np.nan_to_num(values) * SUBPIXELS + 0.5).astype(np.int64)


def sample_table(count: int) -> Integers:
    """Positions of the samples in 256ths of a pixel: (samples, 2)."""
    return np.array(SAMPLE_PLACES[count], dtype=np.int64) * (SUBPIXELS // 16)


@compiled_part
def _floor_div(a: int, b: int) -> int:
    return a // b


@compiled_part
def _edge_functions(x: Integers, y: Integers, edges: Integers) -> bool:
    """Coefficients of a triangle's three edge functions; a point is inside if ``a * px + b * py + c >= 0`` for all of them. Returns False if the triangle has
    no area."""
    x0, x1, x2, y0, y1, y2 = x[0], x[1], x[2], y[0], y[1], y[2]
    area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
    if area == 0:
        return False
    if area < 0:
        x1, x2, y1, y2 = x2, x1, y2, y1
    for e in range(3):
        if e == 0:
            xa, ya, xb, yb = x0, y0, x1, y1
        elif e == 1:
            xa, ya, xb, yb = x1, y1, x2, y2
        else:
            xa, ya, xb, yb = x2, y2, x0, y0
        dx, dy = xb - xa, yb - ya
        edges[e, 0], edges[e, 1], edges[e, 2] = -dy, dx, dy * xa - dx * ya
        # Points on an edge are inside if it is a left edge (it goes up; y grows downwards) or a top edge.
        if not (dy < 0 or (dy == 0 and dx > 0)):
            edges[e, 2] -= 1
    return True


@compiled_part
def _columns(edges: Integers, best: Integers, row: int, left: int, right: int) -> tuple[int, int]:
    """The first and last quad in a row of quads that no edge function excludes entirely.

    Args:
        best: each edge's function at the most favourable sample of the quad at the origin.
    """
    first, last = left >> 1, right >> 1
    for e in range(3):
        value, step = best[e] + edges[e, 1] * (row << 9), edges[e, 0] << 9
        if step > 0:
            first = max(first, -_floor_div(value, step))
        elif step < 0:
            last = min(last, _floor_div(value, -step))
        elif value < 0:
            last = first - 1
    return first, last


@compiled_part
def _quad_mask(edges: Integers, samples: Integers, qx: int, qy: int, box: tuple[int, int, int, int]) -> int:
    """Covered samples of a quad, within a box of pixels."""
    left, top, right, bottom = box
    mask = 0
    for p in range(4):
        px, py = 2 * qx + (p & 1), 2 * qy + (p >> 1)
        if px < left or px > right or py < top or py > bottom:
            continue
        for s in range(samples.shape[0]):
            sx, sy = (px << 8) + samples[s, 0], (py << 8) + samples[s, 1]
            if (
                edges[0, 0] * sx + edges[0, 1] * sy + edges[0, 2] >= 0
                and edges[1, 0] * sx + edges[1, 1] * sy + edges[1, 2] >= 0
                and edges[2, 0] * sx + edges[2, 1] * sy + edges[2, 2] >= 0
            ):
                mask |= 1 << 8 * p + s
    return mask


@compiled
def raster_triangles(
    x: Integers,
    y: Integers,
    scissors: Integers,
    samples: Integers,
    start: Integers,
    quads: Integers,
    coverage: npt.NDArray[np.uint32],
) -> int:
    """Fill the arrays with the quads of triangles, beginning at ``start`` (triangle, row of quads); returns their number and advances ``start``.

    Args:
        x: (triangles, 3), in 256ths; counterclockwise or clockwise.
        scissors: left, top, right and bottom of each triangle's scissor, in pixels.
        samples: positions in 256ths (samples, 2).
        quads: (room, 3): x, y and triangle.
    """
    room, found = quads.shape[0], 0
    low_x, high_x = samples[:, 0].min(), samples[:, 0].max()
    low_y, high_y = samples[:, 1].min(), samples[:, 1].max()
    edges, best = np.zeros((3, 3), dtype=np.int64), np.zeros(3, dtype=np.int64)
    for t in range(start[0], x.shape[0]):
        first_row, start[1] = start[1], -1
        if not _edge_functions(x[t], y[t], edges):
            continue
        left = max(scissors[t, 0], (x[t].min() - high_x) >> 8)
        right = min(scissors[t, 2] - 1, (x[t].max() - low_x) >> 8)
        top = max(scissors[t, 1], (y[t].min() - high_y) >> 8)
        bottom = min(scissors[t, 3] - 1, (y[t].max() - low_y) >> 8)
        if left > right or top > bottom:
            continue
        for e in range(3):
            far_x = (256 + high_x) if edges[e, 0] > 0 else low_x
            far_y = (256 + high_y) if edges[e, 1] > 0 else low_y
            best[e] = edges[e, 0] * far_x + edges[e, 1] * far_y + edges[e, 2]
        for qy in range(top >> 1 if first_row < 0 else first_row, (bottom >> 1) + 1):
            q_left, q_right = _columns(edges, best, qy, left, right)
            if q_right < q_left:
                continue
            if found + (q_right - q_left + 1) > room:
                start[0], start[1] = t, qy
                return found
            for qx in range(q_left, q_right + 1):
                mask = _quad_mask(edges, samples, qx, qy, (left, top, right, bottom))
                if mask:
                    quads[found, 0], quads[found, 1], quads[found, 2] = 2 * qx, 2 * qy, t
                    coverage[found] = mask
                    found += 1
    start[0] = x.shape[0]
    return found


@compiled
def raster_rectangles(
    edges: Integers,
    scissors: Integers,
    samples: Integers,
    start: Integers,
    quads: Integers,
    coverage: npt.NDArray[np.uint32],
) -> int:
    """As :func:`raster_triangles`, for points, which are rectangles given by left, top, right and bottom in 256ths. A sample on the left or top side is inside;
    one on the right or bottom side is not.
    """
    room, found = quads.shape[0], 0
    for t in range(start[0], edges.shape[0]):
        left, top = max(scissors[t, 0], (edges[t, 0] >> 8) - 1), max(scissors[t, 1], (edges[t, 1] >> 8) - 1)
        right, bottom = min(scissors[t, 2] - 1, edges[t, 2] >> 8), min(scissors[t, 3] - 1, edges[t, 3] >> 8)
        first_row = top >> 1 if start[1] < 0 else start[1]
        start[1] = -1
        if left > right or top > bottom:
            continue
        for qy in range(first_row, (bottom >> 1) + 1):
            if found + (right >> 1) - (left >> 1) + 1 > room:
                start[0], start[1] = t, qy
                return found
            for qx in range(left >> 1, (right >> 1) + 1):
                mask = 0
                for p in range(4):
                    px, py = 2 * qx + (p & 1), 2 * qy + (p >> 1)
                    if px < left or px > right or py < top or py > bottom:
                        continue
                    for s in range(samples.shape[0]):
                        sx, sy = (px << 8) + samples[s, 0], (py << 8) + samples[s, 1]
                        if edges[t, 0] <= sx < edges[t, 2] and edges[t, 1] <= sy < edges[t, 3]:
                            mask |= 1 << 8 * p + s
                if mask:
                    quads[found, 0], quads[found, 1], quads[found, 2] = 2 * qx, 2 * qy, t
                    coverage[found] = mask
                    found += 1
    start[0] = edges.shape[0]
    return found


@compiled_part
def _steps_within(scissor: Integers, across: bool, first: int, step: int) -> tuple[int, int]:
    """The steps of a line, from its first pixel, that are within a scissor; a line may be of any length, so only these are walked."""
    low, high = (scissor[0], scissor[2]) if across else (scissor[1], scissor[3])
    return (low - first, high - first) if step > 0 else (first - high + 1, first - low + 1)


@compiled
def raster_lines(
    ends: Integers,
    widths: Integers,
    stipple: Integers,
    scissors: Integers,
    all_samples: int,
    start: Integers,
    quads: Integers,
    coverage: npt.NDArray[np.uint32],
) -> int:
    """As :func:`raster_triangles`, for lines: x and y of both ends in 256ths, widths in pixels.

    One pixel is drawn per step along the longer axis, if the coordinate of its centre is at or after the first end and before the last (the diamond-exit rule
    except in the pixels of the ends), and ``width`` pixels across.

    Args:
        stipple: the pattern, the factor (0 without a stipple), and then for each line the number of steps before it.
    """
    room, found = quads.shape[0], 0
    for t in range(start[0], ends.shape[0]):
        x0, y0, x1, y1 = ends[t, 0], ends[t, 1], ends[t, 2], ends[t, 3]
        across = abs(x1 - x0) >= abs(y1 - y0)
        m0, m1, n0, n1 = (x0, x1, y0, y1) if across else (y0, y1, x0, x1)
        length = m1 - m0
        first_step = 0 if start[1] < 0 else start[1]
        start[1] = -1
        if length == 0:
            continue
        # Pixels whose centre c = 256 * i + 128 satisfies m0 <= c < m1 (or m1 < c <= m0 backwards).
        if length > 0:
            i0, i1, step = (m0 + 127) >> 8, ((m1 + 127) >> 8) - 1, 1
        else:
            i0, i1, step = (m0 - 128) >> 8, ((m1 - 128) >> 8) + 1, -1
        steps = (i1 - i0) * step + 1
        width = widths[t]
        before, after = _steps_within(scissors[t], across, i0, step)
        for k in range(max(first_step, before), min(steps, after)):
            if found + width > room:
                start[0], start[1] = t, k
                return found
            if stipple[1] > 0:
                bit = (stipple[2 + t] + k) // stipple[1] & 15
                if not stipple[0] >> bit & 1:
                    continue
            i = i0 + k * step
            centre = (i << 8) + 128
            # The minor coordinate there, rounded down to 256ths; one on a pixel's edge counts as a little less (OpenGL 3.3, section 3.5.1).
            step_up = (n1 - n0) * (centre - m0)
            n = n0 + _floor_div(step_up, length)
            if step_up == (n - n0) * length:
                n -= 1
            low = n - (width - 1) * 128 >> 8
            for j in range(low, low + width):
                px, py = (i, j) if across else (j, i)
                if scissors[t, 0] <= px < scissors[t, 2] and scissors[t, 1] <= py < scissors[t, 3]:
                    quads[found, 0], quads[found, 1], quads[found, 2] = px & ~1, py & ~1, t
                    coverage[found] = all_samples << 8 * ((px & 1) + 2 * (py & 1))
                    found += 1
    start[0] = ends.shape[0]
    return found
