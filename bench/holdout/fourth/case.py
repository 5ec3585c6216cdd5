"""How the cases of the fourth hold-out set are written: as the third one's, with sources of their own."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bench.holdout.third.case import Array, Case, Outputs, Rng, Sized, mixed, near, normal, sized
from bench.validation.case import launch as launch_in

__all__ = ["Array", "Case", "Outputs", "Rng", "Sized", "launch", "mixed", "near", "normal", "sized"]

launch = partial(launch_in, folder=Path(__file__).parent)
"""A case of a source of this folder, as ``bench.validation.case.launch`` makes it."""
