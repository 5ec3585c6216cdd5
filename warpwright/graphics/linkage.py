"""Linkage between stages: which results of a program become which attributes of the next, and their semantics.

For each attribute, a map names the result to take or a constant (0 or 1). The registers SEMANTIC_* name the attributes that fixed-function stages read; the
position is the first four.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.graphics.methods import RegisterEngine
from warpwright.graphics.pushbuffer import CommandError

_ONE_BITS = 0x3F800000
_USE_PROGRAM = 1 << 16


def mapped(
    engine: RegisterEngine, program: str, results: npt.NDArray[np.uint32], constant_bit: int
) -> npt.NDArray[np.uint32]:
    """Attributes of vertices from results (vertices, slots).

    Args:
        program: ``VP`` or ``GP``.
        constant_bit: the lowest entry value that means a constant: 0x40 in the vertex program's map, 0x80 in the geometry program's.
    """
    count = engine.limited(f"{program}_RESULT_MAP_SIZE", 4 * engine.table.counts[f"{program}_RESULT_MAP"])
    out = np.zeros((len(results), max(4, count)), dtype=np.uint32)
    out[:, 3] = _ONE_BITS
    for slot in range(count):
        entry = engine.at(f"{program}_RESULT_MAP", slot >> 2) >> 8 * (slot & 3) & 0xFF
        if entry & constant_bit:
            out[:, slot] = _ONE_BITS if entry & 1 else 0
        elif entry < results.shape[1]:
            out[:, slot] = results[:, entry]
    return out


@dataclass(frozen=True, slots=True)
class Semantics:
    """The attributes that fixed-function stages read; None if a stage does not use one."""

    layer: int | None
    viewport: int | None
    point_size: int | None
    primitive_id: int | None
    front_colour: int
    back_colour: int
    colour_count: int

    @classmethod
    def of(cls, engine: RegisterEngine) -> Semantics:
        colour, size = engine["SEMANTIC_COLOR"], engine["SEMANTIC_PTSZ"]
        identity = engine["SEMANTIC_PRIM_ID"] & 0xFF
        return cls(
            engine["SEMANTIC_LAYER"] & 0xFF if engine["LAYER"] & _USE_PROGRAM else None,
            engine["SEMANTIC_VIEWPORT"] & 0xFF if engine["GP_VIEWPORT_ID_ENABLE"] else None,
            size >> 4 & 0xFF if size & 1 else None,
            identity or None,
            colour & 0xFF,
            colour >> 8 & 0xFF,
            colour >> 16 & 0xFF,
        )


@dataclass(frozen=True, slots=True)
class Interpolants:
    """Inputs of the pixel program, in the order of its slots.

    Attributes:
        position: which of x, y, z and 1/w come first.
        first: attribute of the first other input.
        smooth: number of interpolated inputs; the ``flat`` ones, with the provoking vertex's value, follow.
        linear: for each smooth input, whether it is interpolated without perspective.
    """

    position: tuple[bool, bool, bool, bool]
    first: int
    smooth: int
    flat: int
    linear: npt.NDArray[np.bool_]

    @property
    def slots(self) -> int:
        return sum(self.position) + self.smooth + self.flat

    @classmethod
    def of(cls, engine: RegisterEngine) -> Interpolants:
        word = engine["FP_INTERPOLANT_CTRL"]
        mask, first = word >> 24 & 15, word >> 8 & 0xFF
        count, smooth = word & 0xFF, word >> 16 & 0xFF
        if smooth > count:
            raise CommandError(f"FP_INTERPOLANT_CTRL is {word:#x}: of its {count} attributes {smooth} are interpolated")
        slots = np.arange(first, first + smooth)
        bitmap = np.array([engine.at("NOPERSPECTIVE_BITMAP", i) for i in range(4)])
        linear = bitmap[np.minimum(slots >> 5, 3)] >> (slots & 31) & 1 != 0
        x, y, z, w = (bool(mask >> i & 1) for i in range(4))
        return cls((x, y, z, w), first, smooth, count - smooth, linear)
