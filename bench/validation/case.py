"""How the cases of the validation set are written: one launch, its inputs from a seed, its reference in NumPy.

A case is `tests.kernels.case.Case`, so everything that runs the corpus runs these as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tests.kernels.case import Argument, Array, Case, Outputs, triple

__all__ = ["Array", "Builder", "Case", "Outputs", "launch", "of_themes"]

SOURCES = Path(__file__).parent
Builder: TypeAlias = Callable[[np.random.Generator], Case]


def launch(
    source: str,
    kernel: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Argument],
    expected: Mapping[int, Array] | None = None,
    folder: Path = SOURCES,
    **more: Any,
) -> Case:
    """A case of ``<folder>/<source>.cu``; ``more`` are further fields of `Case`.  The table gives its name."""
    path = folder / f"{source}.cu"
    contents = {k: np.ascontiguousarray(v) for k, v in (expected or {}).items()}
    return Case(kernel, path, kernel, triple(grid), triple(block), tuple(args), expected=contents, **more)


def of_themes(themes: Iterable[Any]) -> dict[str, Any]:
    """The ``CASES`` of all modules, in their order; a name that stands twice raises ValueError."""
    found: dict[str, Any] = {}
    for theme in themes:
        twice = found.keys() & theme.CASES.keys()
        if twice:
            raise ValueError(f"two cases are called {sorted(twice)[0]}")
        found.update(theme.CASES)
    return found
