"""Clipping of triangles and lines against the view volume and user planes, and the viewport's transform.

Each vertex is represented by its weights of the primitive's original corners, so that all attributes are interpolated afterwards in one matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.graphics.compiled import compiled
from warpwright.graphics.methods import RegisterEngine

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
FARTHEST = float(1 << 19)
"""Window coordinates beyond it, in pixels, are clipped, so that products of differences still fit into 63-bit integers."""
_CLAMP_NEAR, _CLAMP_FAR = 1 << 3, 1 << 4


@dataclass(frozen=True, slots=True)
class Clipped:
    """The primitives that remain after clipping.

    Attributes:
        attributes: rows of vertices; those created by clipping come last.
        vertices: the corners of each primitive, as rows.
        parents: the draw's primitive that each one is part of.
    """

    attributes: Floats
    vertices: Integers
    parents: Integers


@compiled
def _clip_polygons(distances: Floats, weights: Floats, counts: Integers, is_line: bool) -> None:
    """Sutherland and Hodgman's algorithm; ``distances``: (primitives, corners, planes), ``weights``: (primitives, room, corners)."""
    total, corners, planes = distances.shape
    room = weights.shape[1]
    polygon, next_polygon = np.zeros((room, corners)), np.zeros((room, corners))
    for p in range(total):
        n = corners
        polygon[:] = 0.0
        for i in range(corners):
            polygon[i, i] = 1.0
        for plane in range(planes):
            m = 0
            for i in range(n):
                j = i + 1 if i + 1 < n else 0
                if is_line and i == n - 1 and n > 1:
                    # A line has one side: none begins at its last end.
                    d = 0.0
                    for k in range(corners):
                        d += polygon[i, k] * distances[p, k, plane]
                    if d >= 0.0:
                        next_polygon[m] = polygon[i]
                        m += 1
                    break
                d, e = 0.0, 0.0
                for k in range(corners):
                    d += polygon[i, k] * distances[p, k, plane]
                    e += polygon[j, k] * distances[p, k, plane]
                if d >= 0.0:
                    next_polygon[m] = polygon[i]
                    m += 1
                if (d >= 0.0) != (e >= 0.0):
                    t = d / (d - e)
                    for k in range(corners):
                        next_polygon[m, k] = polygon[i, k] + t * (polygon[j, k] - polygon[i, k])
                    m += 1
            n = m
            polygon[:n] = next_polygon[:n]
            if n == 0:
                break
        counts[p] = n
        weights[p, :n] = polygon[:n]


def _planes(engine: RegisterEngine, attributes: Floats, scales: Floats) -> tuple[Floats, list[int]]:
    """Distances of vertices from the planes of the view volume and user planes (vertices, planes), and columns of culling distances."""
    x, y, z, w = attributes[:, 0], attributes[:, 1], attributes[:, 2], attributes[:, 3]
    control = engine["VIEW_VOLUME_CLIP_CTRL"]
    columns = [w - 1e-30]
    if not control & _CLAMP_NEAR:
        columns.append(z if engine["DEPTH_CLIP_NEGATIVE_Z"] else z + w)
    if not control & _CLAMP_FAR:
        columns.append(w - z)
    for value, scale in ((x, scales[0]), (y, scales[1])):
        limit = FARTHEST / max(scale, 1e-6)
        columns += [limit * w - value, limit * w + value]
    first, enabled = engine["SEMANTIC_CLIP"] & 0xFF, engine["CLIP_DISTANCE_ENABLE"]
    number, culling = engine["SEMANTIC_CLIP"] >> 8 & 15, []
    for i in range(min(8, max(number, enabled.bit_length()))):
        if enabled >> i & 1 and first + i < attributes.shape[1]:
            if engine["CLIP_DISTANCE_MODE"] >> 4 * i & 1:
                culling.append(first + i)
            else:
                columns.append(attributes[:, first + i])
    return np.stack(columns, axis=1), culling


def _truths(values: Any) -> npt.NDArray[np.bool_]:
    """An array of truth values; needed because the types of comparisons do not say so."""
    return np.asarray(values)


def clip(engine: RegisterEngine, attributes: Floats, vertices: Integers, scales: Floats, linear: Integers) -> Clipped:
    """Clip points, lines or triangles.

    Args:
        attributes: (vertices, slots); the first four slots are the position.
        vertices: rows of each primitive's corners: one, two or three.
        scales: the largest absolute scale of the viewports along x and y.
        linear: slots that are interpolated without perspective.
    """
    parents = np.arange(len(vertices))
    if not len(vertices):
        return Clipped(attributes, vertices, parents)
    with np.errstate(invalid="ignore", over="ignore"):
        distances, culling = _planes(engine, attributes, scales)
        inside = _truths(distances >= 0.0)
        broken = _truths(np.isnan(attributes[:, :4]).any(axis=1))
        keep = ~broken[vertices].any(axis=1)
        for column in culling:
            outside = _truths(attributes[:, column] < 0.0)
            keep &= ~outside[vertices].all(axis=1)
    corners = _truths(inside[vertices])
    keep &= _truths(corners.any(axis=1)).all(axis=1)
    whole = keep & _truths(corners.all(axis=2)).all(axis=1)
    cut = np.flatnonzero(keep & ~whole)
    if vertices.shape[1] == 1 or not len(cut):
        chosen = whole
        return Clipped(attributes, vertices[chosen], parents[chosen])
    added, pieces, piece_parents = _cut(attributes, distances, vertices, cut, linear)
    kept = np.flatnonzero(whole)
    all_vertices = np.concatenate([vertices[kept], pieces])
    all_parents = np.concatenate([kept, piece_parents])
    order = np.argsort(all_parents, kind="stable")
    return Clipped(np.concatenate([attributes, added]), all_vertices[order], all_parents[order])


def _cut(
    attributes: Floats, distances: Floats, vertices: Integers, cut: Integers, linear: Integers
) -> tuple[Floats, Integers, Integers]:
    """The new vertices, the pieces of the primitives that are cut, and the primitive of each piece."""
    corners = vertices.shape[1]
    active = np.flatnonzero((distances[vertices[cut]] < 0.0).any(axis=(0, 1)))
    chosen = np.ascontiguousarray(distances[vertices[cut]][:, :, active])
    room = corners + len(active) + 2
    weights, counts = np.zeros((len(cut), room, corners)), np.zeros(len(cut), dtype=np.int64)
    _clip_polygons(chosen, weights, counts, corners == 2)
    rows, pieces, parents = [], [], []
    first = len(attributes)
    for p in range(len(cut)):
        n = int(counts[p])
        if n < corners:
            continue
        chosen_rows = attributes[vertices[cut[p]]]
        rows.append(weights[p, :n] @ chosen_rows)
        if len(linear):
            # Attributes without perspective are linear in window space, so a corner's weight is multiplied by its w.
            window = weights[p, :n] * chosen_rows[:, 3]
            with np.errstate(divide="ignore", invalid="ignore"):
                window /= window.sum(axis=1, keepdims=True)
            rows[-1][:, linear] = np.nan_to_num(window) @ chosen_rows[:, linear]
        if corners == 2:
            pieces.append(np.array([[first, first + 1]]))
        else:
            i = np.arange(1, n - 1)
            pieces.append(np.stack([np.full(n - 2, first), first + i, first + i + 1], axis=1))
        parents.append(np.full(len(pieces[-1]), cut[p]))
        first += n
    if not rows:
        return np.zeros((0, attributes.shape[1])), np.zeros((0, corners), dtype=np.int64), np.zeros(0, dtype=np.int64)
    return np.concatenate(rows), np.concatenate(pieces), np.concatenate(parents)


@dataclass(frozen=True, slots=True)
class Windowed:
    """Vertices in window coordinates, for each corner of each primitive: arrays (primitives, corners)."""

    x: Floats
    y: Floats
    z: Floats
    reciprocal_w: Floats


def to_window(engine: RegisterEngine, attributes: Floats, vertices: Integers, viewports: Integers) -> Windowed:
    """Perspective division and the viewport's transform, in single precision.

    Args:
        viewports: the number of each primitive's viewport.
    """
    position = attributes[vertices, :4].astype(np.float32)
    x, y, z, w = (position[..., i] for i in range(4))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        reciprocal = np.float32(1) / w
    if not engine["VIEWPORT_TRANSFORM_EN"]:
        return Windowed(x.astype(np.float64), y.astype(np.float64), z.astype(np.float64), reciprocal.astype(np.float64))
    names = ("VIEWPORT_SCALE_X", "VIEWPORT_SCALE_Y", "VIEWPORT_SCALE_Z")
    moves = ("VIEWPORT_TRANSLATE_X", "VIEWPORT_TRANSLATE_Y", "VIEWPORT_TRANSLATE_Z")
    out = []
    for value, scale, move in zip((x, y, z), names, moves, strict=True):
        scales = np.array([engine.float_at(scale, i) for i in range(16)], dtype=np.float32)[viewports][:, None]
        offsets = np.array([engine.float_at(move, i) for i in range(16)], dtype=np.float32)[viewports][:, None]
        with np.errstate(invalid="ignore", over="ignore"):
            out.append((value * reciprocal * scales + offsets).astype(np.float64))
    return Windowed(out[0], out[1], out[2], reciprocal.astype(np.float64))
