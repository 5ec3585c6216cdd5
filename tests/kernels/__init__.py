"""The kernel corpus: CUDA sources (``*.cu``) and, by theme, the cases that launch them.

``cases("small")`` are launches of a few warps for the slow interpreter; ``cases("large")`` fill a real chip and
serve timing.  Both are the same kernels with the same reference functions, deterministic from the seed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np

from tests.kernels import (
    cases_control,
    cases_integer,
    cases_math,
    cases_memory,
    cases_science,
    cases_sync,
    cases_tensor,
)
from tests.kernels.case import KERNELS, Builder, Case, Size

__all__ = ["KERNELS", "Case", "Size", "case", "cases", "names"]

THEMES = (cases_memory, cases_sync, cases_math, cases_integer, cases_control, cases_science, cases_tensor)


def _builders() -> Iterator[tuple[str, Builder]]:
    for theme in THEMES:
        for builder in theme.CASES:
            yield builder.__name__, builder


def names() -> list[str]:
    """The names of all cases, in the order of the themes."""
    return [name for name, _ in _builders()]


def _build(name: str, builder: Builder, size: Size, seed: int) -> Case:
    built = builder(size, np.random.default_rng([seed, zlib.crc32(name.encode())]))
    if built.name != name:
        raise ValueError(f"case {built.name!r} is built by a function named {name!r}; give both one name")
    return built


def cases(size: Size, seed: int = 0) -> list[Case]:
    """Every case at one size; ``seed`` chooses the inputs."""
    return [_build(name, builder, size, seed) for name, builder in _builders()]


def case(name: str, size: Size, seed: int = 0) -> Case:
    """One case by name; raises KeyError that lists the names there are."""
    for candidate, builder in _builders():
        if candidate == name:
            return _build(name, builder, size, seed)
    raise KeyError(f"no case named {name!r}; there are: {', '.join(names())}")
