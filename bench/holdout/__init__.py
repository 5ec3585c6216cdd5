"""The hold-out set: kernels of other kinds than the model was ever looked at with, measured once, used to calibrate nothing.

In the manner of Rodinia, Parboil, PolyBench, SHOC, Altis and XSBench, of inference and training of language models, of Hopper's own
features.  The table of its first comparison with a card, before any change that it gave cause for, stands in ``docs/validation.md``.
Sources are ``*.cu``; the cases are tables by theme: name → a function that makes the launch and its reference, in two sizes.
"""

from __future__ import annotations

import dataclasses
import zlib

import numpy as np

from bench.holdout import cases_hopper, cases_lookups, cases_models, cases_science
from bench.holdout.case import Case, Sized
from bench.validation.case import of_themes

__all__ = ["Case", "case", "names"]

THEMES = (cases_models, cases_lookups, cases_science, cases_hopper)


def table() -> dict[str, Sized]:
    """Every case by name, in the order of the themes; a name that stands twice raises ValueError."""
    return of_themes(THEMES)


def names() -> list[str]:
    """The names of all cases."""
    return list(table())


def case(name: str, size: str = "full", seed: int = 0) -> Case:
    """One case by name, ``full`` or ``small``; raises KeyError that lists the names there are."""
    entries = table()
    if name not in entries:
        raise KeyError(f"no case named {name!r}; there are: {', '.join(entries)}")
    entry = entries[name]
    extents = entry.small if size == "small" else entry.full
    built = entry.make(np.random.default_rng([seed, zlib.crc32(name.encode())]), **extents)
    return dataclasses.replace(built, name=name)
