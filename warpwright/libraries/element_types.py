"""cudaDataType: the element types that libraries share, with their names in the kernels' sources."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass

from warpwright.libraries.calls import unsupported


@dataclass(frozen=True, slots=True)
class ElementType:
    """A type of matrix elements."""

    name: str
    """In ``cuda/types.cuh``."""
    size_bytes: int
    sum_name: str
    """The type in which kernels compute with it."""


R_32F, R_64F, R_16F, R_8I, C_32F, C_64F, R_32I, R_16BF, R_8F_E4M3, R_8F_E5M2 = 0, 1, 2, 3, 4, 5, 10, 14, 28, 29
TYPES = {
    R_32F: ElementType("float", 4, "float"),
    R_64F: ElementType("double", 8, "double"),
    R_16F: ElementType("half_t", 2, "float"),
    R_16BF: ElementType("bfloat_t", 2, "float"),
    C_32F: ElementType("c64", 8, "c64"),
    C_64F: ElementType("c128", 16, "c128"),
    R_8I: ElementType("signed char", 1, "int"),
    R_32I: ElementType("int", 4, "int"),
    R_8F_E4M3: ElementType("e4m3_t", 1, "float"),
    R_8F_E5M2: ElementType("e5m2_t", 1, "float"),
}
OF_LETTER = {"S": R_32F, "D": R_64F, "C": C_32F, "Z": C_64F, "H": R_16F}
"""Types by the letter in a function's name."""
COMPLEX = (C_32F, C_64F)
"""Types of complex numbers."""
REAL_PART = {C_32F: R_32F, C_64F: R_64F}
"""The type of a complex number's parts."""


def element_type(number: int) -> ElementType:
    """The type of a cudaDataType.

    Raises:
        LibraryError: there are no kernels for it.
    """
    if number not in TYPES:
        raise unsupported(f"elements of cudaDataType {number} are not provided")
    return TYPES[number]


def read_scalar(place: int, type: int) -> complex:
    """The number at a host address."""
    size = element_type(type).size_bytes
    raw = ctypes.string_at(place, size)
    if type == R_16BF:
        return complex(struct.unpack("<f", b"\0\0" + raw)[0])
    if type in COMPLEX:
        return complex(*struct.unpack("<2f" if type == C_32F else "<2d", raw))
    layout = {R_32F: "<f", R_64F: "<d", R_16F: "<e", R_32I: "<i", R_8I: "<b"}
    return complex(struct.unpack(layout[type], raw)[0])
