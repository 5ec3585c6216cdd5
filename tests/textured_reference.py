"""The scene ``textured`` of ``examples/opengl_scenes.py`` in double precision, by the formulas of OpenGL 3.3: no rounding before the picture's.

Sections 3.6.1 (perspective-correct interpolation), 3.8.10 and 3.8.11 (level from the differences within a quad, trilinear filter; levels are means of two by
two texels).
"""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

EXAMPLE = Path(__file__).parents[1] / "examples" / "opengl_scenes.py"
WIDTH, HEIGHT = 320, 240
EYE = np.array((2.5, 2.2, 4.2))
SKY = np.array((0.35, 0.5, 0.7))
SUN = np.array((0.5, 0.8, 0.35)) / np.linalg.norm((0.5, 0.8, 0.35))


class Triangle:
    """Clip coordinates (3, 4) of the corners, and their world position, normal and texture coordinates (3, 8)."""

    def __init__(self, clip: Any, attributes: Any) -> None:
        self.depths, self.attributes = clip[:, 2], attributes
        self._to_weights = np.linalg.inv(clip[:, [0, 1, 3]].T)

    def weights(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Weights of the corners over w at the centres of pixels, and 1/w."""
        window = np.stack([(x + 0.5) / WIDTH * 2 - 1, (y + 0.5) / HEIGHT * 2 - 1, np.ones(np.shape(x))], axis=-1)
        weights = window @ self._to_weights.T
        return weights, weights.sum(-1)

    def at(self, x: Any, y: Any) -> Any:
        """Attributes at the centres of pixels."""
        weights, inverse = self.weights(x, y)
        return weights / inverse[..., None] @ self.attributes


def triangles(scenes: Any) -> Iterator[Triangle]:
    """The scene's, none of which leaves the view volume through the near plane at a visible pixel."""
    to_clip = scenes.look(EYE, (0.0, 0.4, 0.0)).astype(float) @ scenes.perspective(45, WIDTH / HEIGHT, 0.5, 40).astype(
        float
    )
    boxes = ((0, 0, 0.3), (-2.2, -1.5, 0.9), (1.8, -2.6, 0.1), (-0.5, -5.0, 0.6))
    models = [(scenes.floor(12.0, 12.0), scenes.moved(0, 0, 0))]
    models += [(scenes.box(), scenes.moved(x, 0.6, z, 0.6, turn)) for x, z, turn in boxes]
    for mesh, model in ((m.astype(float), n.astype(float)) for m, n in models):
        place = np.c_[mesh[:, :3], np.ones(len(mesh))] @ model
        attributes = np.c_[place[:, :3], mesh[:, 3:6] @ model[:3, :3], mesh[:, 6:]]
        for first in range(0, len(mesh), 3):
            corners = slice(first, first + 3)
            yield Triangle(place[corners] @ to_clip, attributes[corners])


def levels(texels: Any) -> list[Any]:
    """A mipmap: each texel is the mean of four."""
    found = [texels]
    while len(found[-1]) > 1:
        half = len(found[-1]) // 2
        found.append(found[-1].reshape(half, 2, half, 2, -1).mean(axis=(1, 3)))
    return found


def bilinear(texels: Any, uv: Any) -> Any:
    """Filtered samples of a repeated square image."""
    size = len(texels)
    x, y = uv[:, 0] * size - 0.5, uv[:, 1] * size - 0.5
    i, j = np.floor(x).astype(int), np.floor(y).astype(int)
    f, g = (x - i)[:, None], (y - j)[:, None]
    rows = [(1 - f) * texels[row % size, i % size] + f * texels[row % size, (i + 1) % size] for row in (j, j + 1)]
    return (1 - g) * rows[0] + g * rows[1]


def trilinear(mipmap: list[Any], uv: Any, along_x: Any, along_y: Any) -> Any:
    """Samples at the level that the differences of the coordinates to a pixel's neighbours give."""
    longest = np.maximum(np.linalg.norm(along_x, axis=1), np.linalg.norm(along_y, axis=1)) * len(mipmap[0])
    level = np.clip(np.log2(longest), 0, len(mipmap) - 1)
    lower = np.floor(level).astype(int)
    found = np.zeros((len(uv), mipmap[0].shape[-1]))
    for n in np.unique(lower):
        here, share = lower == n, (level[lower == n] - n)[:, None]
        fine, coarse = (bilinear(mipmap[min(n + k, len(mipmap) - 1)], uv[here]) for k in (0, 1))
        found[here] = fine + (coarse - fine) * share
    return found


def textured() -> Any:
    """The picture: (height, width, 3) of 0 to 255, the lowest row first."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    scenes = SimpleNamespace(**runpy.run_path(str(EXAMPLE)))
    depth, owner = np.full((HEIGHT, WIDTH), np.inf), np.full((HEIGHT, WIDTH), -1)
    listed = list(triangles(scenes))
    for number, triangle in enumerate(listed):
        weights, inverse = triangle.weights(x, y)
        there = weights @ triangle.depths
        nearer = (weights >= 0).all(-1) & (inverse > 0) & (abs(there) <= 1) & (there < depth)
        depth[nearer], owner[nearer] = there[nearer], number
    picture = np.broadcast_to(SKY, (HEIGHT, WIDTH, 3)).copy()
    mipmap = levels(scenes.bricks()[..., :3] / 255.0)
    for number, triangle in enumerate(listed):
        rows, columns = np.nonzero(owner == number)
        place, normal, uv = np.split(triangle.at(columns, rows), [3, 6], axis=1)
        left, lower = columns & ~1, rows & ~1
        along_x = triangle.at(left + 1, rows)[:, 6:] - triangle.at(left, rows)[:, 6:]
        along_y = triangle.at(columns, lower + 1)[:, 6:] - triangle.at(columns, lower)[:, 6:]
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        lit = trilinear(mipmap, uv, along_x, along_y) * (0.35 + 0.65 * np.maximum(normal @ SUN, 0))[:, None]
        fog = np.exp(-0.12 * np.linalg.norm(place - EYE, axis=1))[:, None]
        picture[rows, columns] = SKY * (1 - fog) + lit * fog
    return np.floor(255 * picture + 0.5).astype(int)
