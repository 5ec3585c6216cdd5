"""Memory traffic of the ROPs: tiles in their caches, and lossless compression of colours and depth.

Lindholm et al.: "The memory controller uses lossless color (up to 8:1) and depth compression (up to 8:1) to reduce bandwidth."  The formats are not published
(not anchored). Here, the size of a tile depends on its contents: colours may be all equal, or equal over the samples of each pixel; depths may form one plane, or one plane per
quarter. A cleared tile takes no memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.graphics.compiled import compiled
from warpwright.graphics.surface_layout import read_elements
from warpwright.graphics.targets import ColourTarget, DepthTarget
from warpwright.graphics.video_memory import VideoMemory

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(slots=True)
class CompressedSurface:
    """A surface's tiles and their sizes in DRAM, in sectors."""

    first: int
    """Index of its first tile among the tiles of all surfaces."""
    across: int
    """Tiles along x."""
    down: int
    whole_sectors: int
    """Sectors of an uncompressed tile."""
    sector: int
    """Sector of the surface's first byte in memory."""


class Surfaces:
    """All surfaces that ROPs have worked on.

    Args:
        side: pixels along a tile; ``most``: the greatest compression ratio; ``kept``: number of tiles in a ROP's cache.
    """

    def __init__(self, side: int, most: int, kept: int, partitions: int, sector_bytes: int) -> None:
        self.side, self.most, self.sector_bytes = side, most, sector_bytes
        self.found: dict[tuple[int, int, int, int], CompressedSurface] = {}
        self.sectors: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        """The sectors of each tile of all surfaces in DRAM."""
        shape = (2, partitions, kept)
        self.cache = (np.full(shape, -1, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64))
        """Tiles in the ROPs' caches, when they were last used, and whether they are dirty; colours, then depth."""

    def of(self, address: int, width: int, height: int, samples: tuple[int, int], size: int) -> CompressedSurface:
        """The surface at a memory offset; width and height are in samples. A new surface is uncompressed."""
        key = (address, width, height, size)
        found = self.found.get(key)
        if found is None:
            across, down = -(-width // samples[0] // self.side), -(-height // samples[1] // self.side)
            whole = max(1, self.side**2 * samples[0] * samples[1] * size // self.sector_bytes)
            found = CompressedSurface(len(self.sectors), across, down, whole, address // self.sector_bytes)
            self.found[key] = found
            self.sectors = np.concatenate([self.sectors, np.full(across * down, whole, np.int64)])
        return found

    def clear(self, surface: CompressedSurface, left: int, top: int, right: int, bottom: int) -> int:
        """Clear the tiles that are entirely within a rectangle of pixels; returns the sectors of the others."""
        x, y = -(-left // self.side), -(-top // self.side)
        end_x = surface.across if right >= surface.across * self.side else right // self.side
        end_y = surface.down if bottom >= surface.down * self.side else bottom // self.side
        tiles = self.sectors[surface.first : surface.first + surface.across * surface.down]
        inside = tiles.reshape(surface.down, surface.across)
        inside[y:end_y, x:end_x] = 0
        touched = (-(-right // self.side) - left // self.side) * (-(-bottom // self.side) - top // self.side)
        return max(0, touched - max(0, end_x - x) * max(0, end_y - y)) * surface.whole_sectors


def _places(
    surface: CompressedSurface, tiles: Integers, samples: tuple[int, int], side: int
) -> tuple[Integers, Integers]:
    """Columns and rows of the samples of tiles: (tiles, side, side, samples)."""
    across, down = samples
    x, y = tiles % surface.across * side, tiles // surface.across * side
    column, row = np.arange(side), np.arange(side)
    s = np.arange(across * down)
    sx, sy = s % across, s // across
    columns = (x[:, None, None, None] + column[None, None, :, None]) * across + sx
    rows = (y[:, None, None, None] + row[None, :, None, None]) * down + sy
    return np.broadcast_arrays(columns, rows)  # type: ignore[return-value]


def _elements(
    memory: VideoMemory,
    target: ColourTarget | DepthTarget,
    surface: CompressedSurface,
    tiles: Integers,
    samples: tuple[int, int],
    side: int,
) -> Bytes:
    """Bytes of the elements of tiles (tiles, side, side, samples, size); beyond the surface, its last row and column are repeated."""
    place, size = target.surface, target.form.size
    columns, rows = _places(surface, tiles, samples, side)
    columns, rows = np.minimum(columns, place.width - 1), np.minimum(rows, place.height - 1)
    base = memory.place(place.layout.address, 1, "compression")
    return read_elements(memory, base, place.layout.offsets(columns * size, rows), size)


def colour_sectors(
    memory: VideoMemory,
    target: ColourTarget,
    surface: CompressedSurface,
    tiles: Integers,
    samples: tuple[int, int],
    side: int,
    most: int,
) -> Integers:
    """Sectors of tiles of colours, by their contents."""
    elements = _elements(memory, target, surface, tiles, samples, side)
    count = samples[0] * samples[1]
    same = (elements == elements[:, :1, :1, :1]).all(axis=(1, 2, 3, 4))
    samples_same = (elements == elements[:, :, :, :1]).all(axis=(1, 2, 3, 4))
    ratio = np.where(same, most, np.where(samples_same, min(count, most), 1))
    return np.maximum(1, surface.whole_sectors // ratio)


def depth_values(target: DepthTarget, elements: Bytes) -> npt.NDArray[np.float64]:
    """Depths of elements as numbers: the format's integers or floats."""
    form = target.form
    raw = np.zeros(elements.shape[:-1], np.uint32)
    for n in range(min(4, form.size)):
        raw |= elements[..., n].astype(np.uint32) << np.uint32(8 * n)
    if form.is_float:
        return raw.view(np.float32).astype(np.float64)
    return (raw >> np.uint32(form.depth_shift) & np.uint32((1 << form.depth_bits) - 1)).astype(np.float64)


def _planar(values: npt.NDArray[np.float64], step: float) -> npt.NDArray[np.bool_]:
    """Which of (n, height, width, samples) are planes for each sample, up to rounding."""
    height, width = values.shape[1:3]
    first = values[:, :1, :1]
    dx = (values[:, :1, -1:] - first) / (width - 1)
    dy = (values[:, -1:, :1] - first) / (height - 1)
    x, y = np.arange(width)[None, None, :, None], np.arange(height)[None, :, None, None]
    return (np.abs(first + dx * x + dy * y - values) <= step).all(axis=(1, 2, 3))


def depth_sectors(values: npt.NDArray[np.float64], surface: CompressedSurface, is_float: bool, most: int) -> Integers:
    """Sectors of tiles of depths (tiles, side, side, samples), by their contents."""
    step = 2.0**-22 if is_float else 1.5
    with np.errstate(invalid="ignore"):
        one = _planar(values, step)
        half = values.shape[1] // 2
        quarters = np.ones(len(values), bool)
        for y in (0, half):
            for x in (0, half):
                quarters &= _planar(values[:, y : y + half, x : x + half], step)
    return np.maximum(1, surface.whole_sectors // np.where(one, most, np.where(quarters, max(1, most // 2), 1)))


def tile_depths(
    memory: VideoMemory,
    target: DepthTarget,
    surface: CompressedSurface,
    tiles: Integers,
    samples: tuple[int, int],
    side: int,
) -> npt.NDArray[np.float64]:
    """Depths of tiles: (tiles, side, side, samples)."""
    return depth_values(target, _elements(memory, target, surface, tiles, samples, side))


@compiled
def pass_cache(
    seen: tuple[Integers, Integers, Integers],
    reads: bool,
    side: int,
    sectors: tuple[Integers, Integers],
    cache: tuple[Integers, Integers, Integers],
    out: Integers,
) -> None:
    """Pass the tiles that runs use through the ROPs' caches, in order, and add what each run reads and writes to ``out`` (runs, 2).

    Args:
        seen: indices of the tiles among those of all surfaces, and for each its run and its partition.
        reads: whether the previous contents are needed.
        side: 0 for colours, 1 for depth.
        sectors: size in DRAM of each tile of all surfaces, before and after.
    """
    tiles, runs, partitions = seen
    old, new = sectors
    held, used, dirty = cache
    clock = used.max() + 1
    for n in range(len(tiles)):
        p, tile, run = partitions[n], tiles[n], runs[n]
        place, oldest = -1, 0
        for way in range(held.shape[2]):
            if held[side, p, way] == tile:
                place = way
                break
            if used[side, p, way] < used[side, p, oldest]:
                oldest = way
        if place < 0:
            place = oldest
            gone = held[side, p, place]
            if gone >= 0 and dirty[side, p, place]:
                out[run, 1] += new[gone]
                old[gone] = new[gone]
            held[side, p, place] = tile
            dirty[side, p, place] = 0
            if reads:
                out[run, 0] += old[tile]
        used[side, p, place] = clock
        clock += 1
        dirty[side, p, place] = 1
