"""The validation set: kernels as users bring them, measured on a real card and used to calibrate nothing.

Sources are ``*.cu``; the cases are tables by theme: name → function that makes the launch and its reference from a random generator.
``bench.corpus_card`` records them on a card (``--set validation``), ``python -m bench.accuracy --set validation`` compares.
"""

from __future__ import annotations

import dataclasses
import zlib

import numpy as np

from bench.validation import cases_dense, cases_irregular, cases_mechanisms, cases_memory, cases_numeric
from bench.validation.case import Builder, Case, of_themes

__all__ = ["Case", "case", "names"]

THEMES = (cases_memory, cases_dense, cases_numeric, cases_irregular, cases_mechanisms)


def table() -> dict[str, Builder]:
    """Every case's builder by name, in the order of the themes; a name that stands twice raises ValueError."""
    return of_themes(THEMES)


def names() -> list[str]:
    """The names of all cases."""
    return list(table())


def case(name: str, seed: int = 0) -> Case:
    """One case by name; raises KeyError that lists the names there are."""
    builders = table()
    if name not in builders:
        raise KeyError(f"no case named {name!r}; there are: {', '.join(builders)}")
    built = builders[name](np.random.default_rng([seed, zlib.crc32(name.encode())]))
    return dataclasses.replace(built, name=name)
