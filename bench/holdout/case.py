"""How the cases of the hold-out sets are written: as the validation set's, each in a full and in a small size."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.validation.case import Array, Case, Outputs, of_themes
from bench.validation.case import launch as launch_in

__all__ = ["Array", "Case", "Collection", "Outputs", "Sized", "launch", "near", "sized"]

SOURCES = Path(__file__).parent


@dataclass(frozen=True)
class Sized:
    """A case's function and the extents to call it with."""

    make: Callable[..., Case]
    full: Mapping[str, Any]
    small: Mapping[str, Any]


def sized(make: Callable[..., Case], small: Mapping[str, Any], **full: Any) -> Sized:
    """``full`` is what a card is measured with; ``small`` replaces what the interpreter would run too long on."""
    return Sized(make, full, {**full, **small})


class Collection:
    """One hold-out set: its cases by name, in the order of the modules that hold them (``CASES``)."""

    def __init__(self, *themes: Any) -> None:
        self.entries: dict[str, Sized] = of_themes(themes)

    def names(self) -> list[str]:
        """The names of all cases."""
        return list(self.entries)

    def case(self, name: str, size: str = "full", seed: int = 0) -> Case:
        """One case by name, ``full`` or ``small``; raises KeyError that lists the names there are."""
        if name not in self.entries:
            raise KeyError(f"no case named {name!r}; there are: {', '.join(self.entries)}")
        entry = self.entries[name]
        extents = entry.small if size == "small" else entry.full
        return replace(entry.make(np.random.default_rng([seed, zlib.crc32(name.encode())]), **extents), name=name)


launch = partial(launch_in, folder=SOURCES)
"""A case of a source of this folder, as ``bench.validation.case.launch`` makes it."""


def near(index: int, dtype: Any, want: Array, rtol: float, atol: float) -> Callable[[Outputs], None]:
    """A check of one buffer whose words hold numbers of a type that NumPy has no name for (bf16, fp8)."""

    def check(outputs: Outputs) -> None:
        got = np.asarray(outputs[index]).view(dtype).astype(np.float32)
        np.testing.assert_allclose(got.ravel(), want.ravel(), rtol=rtol, atol=atol, err_msg=f"argument {index}")

    return check
