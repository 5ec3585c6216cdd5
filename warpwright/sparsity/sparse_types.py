"""Types of the elements of a product, and their bytes on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Element:
    """A type of element that sparse tensor-core instructions take (PTX ISA, ``mma.sp``)."""

    name: str
    bits: int
    group: int
    """Elements that are kept or set to zero together: pairs of 4-bit integers."""
    groups: int
    """Groups of which half is kept: two of four, of tf32 one of two."""
    low: int = 0
    high: int = 0
    """Range of an integer."""

    @property
    def is_integer(self) -> bool:
        return self.high > 0

    @property
    def run(self) -> int:
        """Consecutive elements of a row among which half is kept."""
        return self.group * self.groups

    def encode(self, values: npt.ArrayLike) -> npt.NDArray[np.uint8]:
        """Bytes [rows, columns * bits / 8] of a matrix of values, floats rounded to the nearest (ties to even).

        Raises:
            ArgumentError: an integer type is given something else, or a value out of its range.
        """
        matrix = np.ascontiguousarray(values)
        if self.is_integer:
            return self._encode_integers(matrix)
        floats = matrix.astype(np.float32)
        if self.name == "f16":
            return floats.astype(np.float16).view(np.uint8)
        words = floats.view(np.uint32)
        dropped = 16 if self.name == "bf16" else 13
        kept = words + np.uint32((1 << (dropped - 1)) - 1) + (words >> np.uint32(dropped) & np.uint32(1))
        # A carry out of the mantissa of a NaN would change its sign or make it a number.
        kept = np.where(np.isnan(floats), words | np.uint32(1 << 22), kept) >> np.uint32(dropped)
        if self.name == "bf16":
            return kept.astype(np.uint16).view(np.uint8)
        return (kept << np.uint32(dropped)).view(np.uint8)

    def _encode_integers(self, matrix: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        if matrix.dtype.kind not in "iu":
            raise ArgumentError(f"elements of type {self.name} are integers, not {matrix.dtype}")
        if matrix.size and (matrix.min() < self.low or matrix.max() > self.high):
            raise ArgumentError(f"elements of type {self.name} are {self.low} to {self.high}")
        if self.bits == 8:
            return matrix.astype(np.int16).astype(np.uint8)
        nibbles = matrix.astype(np.int16).astype(np.uint8) & np.uint8(15)
        return nibbles[:, 0::2] | nibbles[:, 1::2] << np.uint8(4)


ELEMENTS = {
    element.name: element
    for element in (
        Element("f16", 16, 1, 4),
        Element("bf16", 16, 1, 4),
        Element("tf32", 32, 1, 2),
        Element("s8", 8, 1, 4, -128, 127),
        Element("u8", 8, 1, 4, 0, 255),
        Element("s4", 4, 2, 4, -8, 7),
        Element("u4", 4, 2, 4, 0, 15),
    )
}


def element(name: str) -> Element:
    """The element type of a name.

    Raises:
        ArgumentError: there is none of that name.
    """
    if name not in ELEMENTS:
        raise ArgumentError(f"no sparse product takes elements of type {name!r}; the types are {', '.join(ELEMENTS)}")
    return ELEMENTS[name]
