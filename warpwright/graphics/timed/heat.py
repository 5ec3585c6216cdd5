"""Maps of a frame: how often pixels were shaded, how full their quads were, and which tiles Z-cull rejected."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpwright.graphics.raster import Quads

Counts = npt.NDArray[np.int64]


class HeatMaps:
    """Counts over a target, by square tiles.

    Attributes:
        shaded: pixels that went to pixel programs, by pixel.
        pixels, quads: covered pixels and quads, by tile; four pixels of a quad that are covered are full occupancy.
        culled, tiles: runs of quads that Z-cull rejected, and all, by tile.
    """

    def __init__(self, width: int, height: int, tile: int) -> None:
        self.tile = tile
        self.shaded: Counts = np.zeros((height, width), np.int64)
        shape = (-(-height // tile), -(-width // tile))
        self.pixels: Counts = np.zeros(shape, np.int64)
        self.quads: Counts = np.zeros(shape, np.int64)
        self.culled: Counts = np.zeros(shape, np.int64)
        self.tiles: Counts = np.zeros(shape, np.int64)

    def add_quads(self, quads: Quads) -> None:
        """Quads that went to pixel programs."""
        covered = np.stack([(quads.coverage >> np.uint32(8 * p) & np.uint32(255)) != 0 for p in range(4)], axis=1)
        x, y = quads.x[:, None] + np.array([0, 1, 0, 1]), quads.y[:, None] + np.array([0, 0, 1, 1])
        height, width = self.shaded.shape
        inside = covered & (x < width) & (y < height)
        np.add.at(self.shaded, (y[inside], x[inside]), 1)
        rows, columns = np.minimum(quads.y, height - 1) // self.tile, np.minimum(quads.x, width - 1) // self.tile
        np.add.at(self.pixels, (rows, columns), covered.sum(axis=1))
        np.add.at(self.quads, (rows, columns), 1)

    def add_tiles(self, keys: Counts, culled: Counts) -> None:
        """Runs of quads: row and column of their tiles, and whether they were rejected."""
        rows, columns = keys >> 16 & 0xFFFF, keys & 0xFFFF
        inside = (rows < self.tiles.shape[0]) & (columns < self.tiles.shape[1])
        np.add.at(self.tiles, (rows[inside], columns[inside]), 1)
        np.add.at(self.culled, (rows[inside], columns[inside]), culled[inside])

    @property
    def occupancy(self) -> npt.NDArray[np.float64]:
        """Covered pixels of each quad, of four, by tile."""
        return self.pixels / np.maximum(4 * self.quads, 1)
