"""Ordinary CUDA programs as people write them: breadth where the kernel corpus (``tests/kernels``) has depth.

Each case is a launch of a few warps.  Where a program's meaning is a short NumPy expression the reference is computed;
everywhere else it is what a real H200 left in memory for the same inputs (``h200.npz``, written by ``python -m
tests.programs.card``).  Both are independent of the simulator.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.kernels.case import Builder, Case
from tests.programs import (
    cases_classics,
    cases_language,
    cases_library,
    cases_math,
    cases_memory,
    cases_ptx,
    cases_warp,
)

PROGRAMS = Path(__file__).parent
RECORD = PROGRAMS / "h200.npz"
THEMES = (cases_language, cases_math, cases_ptx, cases_warp, cases_memory, cases_library, cases_classics)

__all__ = ["PROGRAMS", "RECORD", "names", "program", "programs"]


def _builders() -> Iterator[tuple[str, Builder]]:
    for theme in THEMES:
        for builder in theme.CASES:
            yield builder.__name__, builder


def names() -> list[str]:
    """The names of all programs, in the order of the themes."""
    return [name for name, _ in _builders()]


@cache
def _recorded() -> dict[str, Any]:
    if not RECORD.exists():
        return {}
    with np.load(RECORD) as data:
        return dict(data)


def _build(name: str, builder: Builder, recorded: bool) -> Case:
    built = builder("small", np.random.default_rng([0, zlib.crc32(name.encode())]))
    if built.name != name:
        raise ValueError(f"program {built.name!r} is built by a function named {name!r}; give both one name")
    if not recorded or built.expected or built.check is not None:
        return built
    stored = {key.rpartition("/")[::2]: value for key, value in _recorded().items()}
    expected = {int(index): value for (case, index), value in stored.items() if case == name}
    return replace(built, expected=expected)


def programs(recorded: bool = True) -> list[Case]:
    """Every program; ``recorded`` fills in what the card left where no reference is computed."""
    return [_build(name, builder, recorded) for name, builder in _builders()]


def program(name: str, recorded: bool = True) -> Case:
    """One program by name; raises KeyError for an unknown one."""
    return _build(name, dict(_builders())[name], recorded)
