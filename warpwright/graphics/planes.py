"""Plane equations of attributes and depth, and their values at pixels.

Lindholm et al., "NVIDIA Tesla" (2008): "U(x, y) = (A_U x + B_U y + C_U) / (A_W x + B_W y + C_W)": the numerator is the plane of U/W for an attribute with perspective and of U for one
without; the program divides.  Setup works in double precision, relative to the primitive's first vertex;
the precision of G80's interpolator is not published in full.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpwright.graphics.compiled import compiled

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@compiled
def triangle_planes(x: Integers, y: Integers, values: Floats, planes: Floats) -> None:
    """``values``: (triangles, 3, slots); ``planes``: (triangles, slots, 3): change along x and y per pixel, value at the first vertex."""
    for t in range(values.shape[0]):
        x1, y1 = float(x[t, 1] - x[t, 0]), float(y[t, 1] - y[t, 0])
        x2, y2 = float(x[t, 2] - x[t, 0]), float(y[t, 2] - y[t, 0])
        area = x1 * y2 - x2 * y1
        scale = 256.0 / area if area != 0.0 else 0.0
        for s in range(values.shape[2]):
            u1, u2 = values[t, 1, s] - values[t, 0, s], values[t, 2, s] - values[t, 0, s]
            planes[t, s, 0] = (u1 * y2 - u2 * y1) * scale
            planes[t, s, 1] = (u2 * x1 - u1 * x2) * scale
            planes[t, s, 2] = values[t, 0, s]


@compiled
def line_planes(x: Integers, y: Integers, values: Floats, planes: Floats) -> None:
    """As :func:`triangle_planes`, for lines; values change only along the line."""
    for t in range(values.shape[0]):
        dx, dy = float(x[t, 1] - x[t, 0]), float(y[t, 1] - y[t, 0])
        length = dx * dx + dy * dy
        for s in range(values.shape[2]):
            change = (values[t, 1, s] - values[t, 0, s]) * 256.0 / length if length > 0.0 else 0.0
            planes[t, s, 0], planes[t, s, 1], planes[t, s, 2] = change * dx, change * dy, values[t, 0, s]


@compiled
def sample_depths(
    planes: Floats,
    origins: Integers,
    quads: Integers,
    primitive: Integers,
    samples: Integers,
    limits: Floats,
    out: npt.NDArray[np.float32],
) -> None:
    """Depth at each sample: ``planes`` (primitives, 3); ``limits`` (primitives, 2): the range to which it is clamped; ``out`` (4 * quads, samples)."""
    for q in range(quads.shape[0]):
        t = primitive[q]
        for p in range(4):
            for s in range(samples.shape[0]):
                dx = quads[q, 0] + (p & 1) + (samples[s, 0] - origins[t, 0]) / 256.0
                dy = quads[q, 1] + (p >> 1) + (samples[s, 1] - origins[t, 1]) / 256.0
                z = planes[t, 0] * dx + planes[t, 1] * dy + planes[t, 2]
                out[4 * q + p, s] = min(max(z, limits[t, 0]), limits[t, 1])
