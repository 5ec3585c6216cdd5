"""Helpers of the program definitions: inputs with the awkward values in them, and cases of files in this folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.kernels.case import Argument, Array, Case, launch

I8, I16, I32, I64 = np.int8, np.int16, np.int32, np.int64
U8, U16, U32, U64 = np.uint8, np.uint16, np.uint32, np.uint64
F16, F32, F64 = np.float16, np.float32, np.float64

EDGES_32 = (0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x80000001, 0x00FF00FF, 0x01020384, 31, 32, 33)
EDGES_64 = (0, 1, 2, 2**63 - 1, 2**63, 2**64 - 1, 2**63 + 1, 2**32, 2**32 - 1, 63, 64, 65)
EDGES_REAL = (
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    1e-40,
    -1e-42,
    3e38,
    0.49999997,
    8388609.0,
)


def words(rng: np.random.Generator, count: int, columns: int = 3) -> Array:
    """``columns`` rows of ``count`` 32-bit words, edge values first, in different pairings."""
    return _with_edges(rng.integers(0, 2**32, (columns, count), dtype=U32), EDGES_32)


def long_words(rng: np.random.Generator, count: int, columns: int = 3) -> Array:
    """``columns`` rows of ``count`` 64-bit words, edge values first."""
    return _with_edges(rng.integers(0, 2**64, (columns, count), dtype=U64), EDGES_64)


def reals(rng: np.random.Generator, count: int, dtype: Any = F32, columns: int = 3, edges: bool = True) -> Array:
    """``columns`` rows of reals within about ±50 (a few of any magnitude), IEEE's special values first."""
    values = (rng.standard_normal((columns, count)) * 15).astype(dtype)
    with np.errstate(over="ignore"):
        values[:, ::5] *= np.exp2(rng.integers(-12, 12, values[:, ::5].shape)).astype(dtype)
    if not edges:
        return np.clip(values, -50, 50).ravel()
    with np.errstate(over="ignore"):
        return _with_edges(values, EDGES_REAL)


def _with_edges(values: Array, edges: Sequence[float]) -> Array:
    table = np.array(edges, values.dtype)
    for row in range(values.shape[0]):
        # Each row takes them in another stride, so that pairs of edge values meet.
        values[row, : len(edges)] = table[np.arange(len(edges)) * (2 * row + 1) % len(edges)]
    return values.ravel()


def probe(
    source: str, kernel: str, grid: Any, block: Any, args: Sequence[Argument], expected: Any = None, **more: Any
) -> Case:
    """A case of ``tests/programs/<source>``."""
    text = (Path(__file__).parent / source).read_text()
    options = next((line.split(":", 1)[1].split() for line in text.splitlines() if line.startswith("// options:")), [])
    first = next((int(line.split(":")[1]) for line in text.splitlines() if line.startswith("// min_arch:")), 70)
    case = launch(source, kernel, grid, block, args, expected, **{"min_arch": first, "options": tuple(options), **more})
    return replace(case, source=Path(__file__).parent / source)
