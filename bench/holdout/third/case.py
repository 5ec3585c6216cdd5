"""How the cases of the third hold-out set are written: as the first one's, with sources of their own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.holdout.case import Array, Case, Outputs, Sized, near, sized
from bench.validation.case import launch as launch_in

__all__ = ["Array", "Case", "Outputs", "Rng", "Sized", "launch", "mixed", "near", "normal", "sized"]

SOURCES = Path(__file__).parent
Rng = np.random.Generator


launch = partial(launch_in, folder=SOURCES)
"""A case of a source of this folder, as ``bench.validation.case.launch`` makes it."""


def normal(rng: Rng, shape: Any, dtype: Any = np.float32) -> Array:
    """Normal deviates of a type."""
    return rng.standard_normal(shape, np.float32).astype(dtype)


def mixed(x: Array) -> Array:
    """The sources' hash of a word."""
    x = x.astype(np.uint32)
    x = (x ^ x >> np.uint32(16)) * np.uint32(0x7FEB352D)
    x = (x ^ x >> np.uint32(15)) * np.uint32(0x846CA68B)
    return x ^ x >> np.uint32(16)
