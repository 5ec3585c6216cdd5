"""Kernels of a few forms in many shapes: one row per thread, grid-stride loops, one element per thread, sums down columns, permutations, long bodies.

Third-party programs showed that these forms are timed worse than others.  Half of the cases, drawn by name, are to learn from (``learned``); the
others (``held``) are only to check.
"""

from __future__ import annotations

import zlib

from bench.holdout.case import Case, Collection
from bench.shapes import cases

__all__ = ["Case", "case", "held_names", "learned_names"]

SHAPES = Collection(cases)
case = SHAPES.case


def is_held(name: str) -> bool:
    """Whether a case belongs to the half that nothing is learned from."""
    return zlib.crc32(f"held {name}".encode()) & 1 == 1


def learned_names() -> list[str]:
    """The cases to learn from."""
    return [name for name in SHAPES.names() if not is_held(name)]


def held_names() -> list[str]:
    """The cases that are only to check."""
    return [name for name in SHAPES.names() if is_held(name)]
