"""How the cases of the second hold-out set are written: as the first one's, with sources of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.holdout.case import Array, Case, Outputs, Sized, sized
from bench.validation.case import launch as launch_in
from tests.kernels.case import Argument

__all__ = ["Array", "Case", "Outputs", "Rng", "Sized", "launch", "normal", "sized"]

SOURCES = Path(__file__).parent
Rng = np.random.Generator


def launch(
    source: str,
    kernel: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Argument],
    expected: Mapping[int, Array] | None = None,
    **more: Any,
) -> Case:
    """A case of ``bench/holdout/second/<source>.cu``."""
    return launch_in(source, kernel, grid, block, args, expected, folder=SOURCES, **more)


def normal(rng: Rng, shape: Any, dtype: Any = np.float32) -> Array:
    """Normal deviates of a type."""
    return rng.standard_normal(shape, np.float32).astype(dtype)
