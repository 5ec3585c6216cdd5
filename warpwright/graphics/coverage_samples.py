"""Coverage sampling antialiasing (CSAA): samples for which only coverage is stored, not colour and depth.

A pixel has four or eight full samples, which are those of multisampling, and up to twelve coverage samples. For each pair of a coverage sample and a full
sample that it may belong to, the zeta surface holds a bit that says whether both have the same value. When the surface is resolved, a coverage sample adds its
weight to the first full sample in its list whose bit is set, or to the first in the list if none is. Positions, lists and bits are those of envytools'
documentation of surfaces (docs/hw/memory/g80-surface.rst), found on real chips.

A primitive that is drawn to a full sample sets that sample's bits for the coverage samples that it covers and clears the others. It also clears the bits
between a coverage sample that it covers and full samples that it does not, because their values now differ (the model's rule; the documentation does
not state it: not anchored).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from warpwright.graphics.compiled import compiled
from warpwright.graphics.formats import decode
from warpwright.graphics.rop import Bytes, Integers, Surface, sample_address, sample_column, sample_row
from warpwright.graphics.surface_layout import check, read_elements
from warpwright.graphics.targets import ColourTarget, DepthTarget, Target
from warpwright.graphics.video_memory import VideoMemory

COVERAGE_BYTE = 3
"""The byte of a Z24_C8 element that holds part of its pixel's bits."""


@dataclass(frozen=True, slots=True)
class CoverageMode:
    """A mode of MULTISAMPLE_MODE with coverage samples.

    Attributes:
        full: positions of the full samples, in sixteenths of a pixel.
        places: positions of the coverage samples, which are numbered after the full ones.
        belongs: for each coverage sample, the full samples that it may belong to, the preferred one first.
        holders: the full samples whose elements hold eight bits each.
    """

    name: str
    full: tuple[tuple[int, int], ...]
    places: tuple[tuple[int, int], ...]
    belongs: tuple[tuple[int, ...], ...]
    holders: tuple[int, ...]

    @property
    def samples(self) -> int:
        """Number of samples of a pixel, of both kinds."""
        return len(self.full) + len(self.places)


MODES = {
    8: CoverageMode(
        "MS4_CS4",
        ((6, 2), (14, 6), (2, 10), (10, 14)),
        ((5, 7), (9, 4), (7, 12), (11, 9)),
        ((1, 3, 0, 2), (3, 2, 1, 0), (0, 1, 2, 3), (2, 0, 3, 1)),
        (0, 1),
    ),
    9: CoverageMode(
        "MS4_CS12",
        ((6, 1), (15, 6), (1, 10), (10, 15)),
        (
            *((4, 14), (12, 3), (13, 13), (4, 4), (9, 5), (7, 7)),
            *((11, 8), (3, 8), (8, 12), (2, 2), (5, 11), (14, 9)),
        ),
        (
            *((2, 3), (1, 0), (3, 1), (0, 2), (0, 1, 2), (0, 2, 1, 3)),
            *((1, 3, 0), (2, 0, 3), (3, 2, 1), (0, 2), (2, 3, 0, 1), (1, 3)),
        ),
        (0, 1, 2, 3),
    ),
    10: CoverageMode(
        "MS8_CS8",
        ((1, 3), (6, 4), (3, 15), (4, 11), (12, 1), (14, 7), (8, 8), (15, 13)),
        ((5, 7), (7, 2), (11, 6), (13, 3), (2, 9), (7, 12), (10, 14), (12, 10)),
        (
            *((1, 6, 3, 0), (1, 0, 4, 6), (5, 6, 1, 4), (4, 5, 6, 1)),
            *((3, 0, 2, 1), (3, 2, 6, 7), (7, 3, 2, 6), (5, 6, 7, 3)),
        ),
        (0, 1, 4, 5),
    ),
}
"""Modes by their number in MULTISAMPLE_MODE."""


@cache
def pairs_of(number: int) -> Integers:
    """The bits of a mode: coverage sample, full sample, the full sample whose element holds the bit, and the bit's position in it.

    Coverage samples are numbered after the full ones, and a coverage sample's bits are in the order of the full samples' numbers.
    """
    mode = MODES[number]
    rows: list[tuple[int, int, int, int]] = []
    for sample, full in enumerate(mode.belongs, len(mode.full)):
        for one in sorted(full):
            bit = len(rows)
            rows.append((sample, one, mode.holders[bit >> 3], bit & 7))
    return np.array(rows, dtype=np.int64)


@compiled
def write_coverage(
    memory: Bytes,
    surface: Surface,
    quads: Integers,
    coverage: npt.NDArray[np.uint32],
    masks: npt.NDArray[np.uint64],
    pairs: Integers,
) -> None:
    """After primitives have been drawn, record which coverage samples have the value of which full samples.

    Args:
        quads: x, y and primitive of each, in order.
        coverage: full samples that are drawn.
        masks: samples of both kinds that the primitive covers: sample ``s`` of pixel ``p`` is bit ``16 * p + s``.
        pairs: of the mode (:func:`pairs_of`).
    """
    for q in range(quads.shape[0]):
        for p in range(4):
            drawn = coverage[q] >> 8 * p & 255
            if not drawn:
                continue
            for n in range(pairs.shape[0]):
                covered = int(masks[q] >> np.uint64(16 * p + pairs[n, 0])) & 1
                if not drawn >> pairs[n, 1] & 1:
                    # A full sample that is covered but failed a test keeps its value, and so does the coverage sample.
                    if not covered or int(masks[q] >> np.uint64(16 * p + pairs[n, 1])) & 1:
                        continue
                    covered = 0
                at = sample_address(surface, quads, q, p, pairs[n, 2])
                if at < 0:
                    continue
                bit = 1 << pairs[n, 3]
                memory[at + COVERAGE_BYTE] = memory[at + COVERAGE_BYTE] & ~bit & 255 | (bit if covered else 0)


def _samples(memory: VideoMemory, target: Target, size: int, pixel: tuple[int, int], sample: int) -> Bytes:
    """Elements of one sample of all pixels: (height, width, size); ``pixel`` is the number of samples along x and y."""
    across, down = pixel
    layout, z = target.layer(0)
    width, height = target.width // across, target.height // down
    columns = np.arange(width) * across + sample_column(sample, across)
    rows = np.arange(height) * down + sample_row(sample, across)
    sides = (0, target.width * size - 1), (0, target.height - 1)
    base = check(memory, layout, *sides, z, "a resolve")
    return read_elements(memory, base, layout.offsets(columns * size, rows[:, None], z), size)


def weights(memory: VideoMemory, depth: DepthTarget, number: int, pixel: tuple[int, int]) -> Integers:
    """Number of samples that have the value of each full sample: (height, width, full samples)."""
    mode, pairs = MODES[number], pairs_of(number)
    held = {s: _samples(memory, depth.surface, depth.form.size, pixel, s)[..., COVERAGE_BYTE] for s in mode.holders}
    bits = {(int(v), int(f)): held[int(h)] >> np.uint8(bit) & 1 for v, f, h, bit in pairs}
    found = np.ones((*next(iter(held.values())).shape, len(mode.full)), dtype=np.int64)
    for sample, full in enumerate(mode.belongs, len(mode.full)):
        belongs = np.full(found.shape[:2], full[0])
        for one in reversed(full):
            belongs = np.where(bits[sample, one] != 0, one, belongs)
        found += belongs[..., None] == np.arange(len(mode.full))
    return found


def resolve(
    memory: VideoMemory, colour: ColourTarget, depth: DepthTarget, number: int, pixel: tuple[int, int]
) -> npt.NDArray[np.float32]:
    """The mean of each pixel's samples, with full samples weighted by the coverage samples that belong to them: (height, width, 4).

    Raises:
        MemoryFaultError: a surface is not in memory.
    """
    weight = weights(memory, depth, number, pixel)
    total = np.zeros((*weight.shape[:2], 4), dtype=np.float32)
    for sample in range(weight.shape[2]):
        elements = _samples(memory, colour.surface, colour.form.size, pixel, sample)
        total += decode(elements, colour.form) * weight[..., sample, None]
    return (total / np.float32(MODES[number].samples)).astype(np.float32)
