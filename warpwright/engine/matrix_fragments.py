"""Fragments: which elements of a matrix product each lane holds, and the meaning of sparse metadata.

Shapes are PTX's (``m16n8k16``).  A sparse shape names the multiple of lanes that holds the metadata, PTX's selector:
``m16n8k32.sp1``; its k is that of B, of which A holds half.  Of every four elements along B's depth, two are selected
by two bits each; for tf32, one of two is selected by four bits (PTX ISA, "Sparse matrix storage").
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

LANES = 32


def elements(names: str) -> tuple[str, str]:
    """Elements of A and of B: ``s8u8`` and ``e4m3e5m2`` name both."""
    pair = len(names) == 8 or (len(names) == 4 and names[0] in "su")
    return (names[: len(names) // 2], names[len(names) // 2 :]) if pair else (names, names)


def rows(shape: str) -> int:
    return int(shape[1:].split("n")[0])


def depth(shape: str) -> int:
    """k."""
    return int(shape.split("k")[1].split(".")[0])


def is_sparse(shape: str) -> bool:
    return ".sp" in shape


def element_bits(shape: str, n_a: int) -> int:
    """Bits of an element of A, of which a lane holds n_a registers."""
    return LANES * 32 * n_a // (rows(shape) * products(shape))


def index_bits(width: int) -> int:
    """Number of metadata bits for each element of ``width`` bits in A."""
    return 4 if width == 32 else 2


def products(shape: str) -> int:
    """Number of elements in a row of A, that is, products per result."""
    return depth(shape) // 2 if is_sparse(shape) else depth(shape)


@cache
def places(shape: str, width: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """(lane, lowest bit) of the metadata of each element [row][element of A], elements being ``width`` bits wide.

    Each lane of a group holds 16 bits of a row, those of row g in the lower half and those of row g + 8 in the upper
    half; with 8-bit elements, lanes hold 32 bits each, alternating between row g and row g + 8.  Found on an H200
    (``bench/data/h200/forms.npz``).
    """
    selector = int(shape.split(".sp")[1])
    bits = index_bits(width)
    row_bits = products(shape) * bits
    found = []
    for row in range(rows(shape)):
        group, upper = row % 8, row // 8
        line = []
        for at in range(0, row_bits, bits):
            if width == 8:
                lane, low = 2 * (selector + at // 32) + upper, at % 32
            else:
                lane, low = selector * (row_bits // 16) + at // 16, at % 16 + 16 * upper
            line.append((4 * group + lane, low))
        found.append(tuple(line))
    return tuple(found)


def position(n: int, index: int, width: int) -> int:
    """Row of B by which the n-th element of a row of A is multiplied."""
    return 2 * n + (index >> 1 & 1) if width == 32 else 4 * (n // 2) + index


def chosen(shape: str, metadata: npt.NDArray[Any], width: int) -> npt.NDArray[np.int64]:
    """Rows of B [rows, products] by the lanes' metadata."""
    result = np.zeros((rows(shape), products(shape)), np.int64)
    mask = (1 << index_bits(width)) - 1
    for row, line in enumerate(places(shape, width)):
        for n, (lane, low) in enumerate(line):
            result[row, n] = position(n, int(metadata[lane]) >> low & mask, width)
    return result
