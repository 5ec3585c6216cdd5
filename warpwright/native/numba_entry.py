"""Functions that Python calls and Numba compiles (``by_numba.py``); Numba is loaded on the first call."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any


class NumbaEntry:
    """A function that Python calls, compiled by Numba at its first call."""

    def __init__(self, function: Any, sources: tuple[Path, ...], what: str) -> None:
        self.py_func = function
        self._options = sources, what

    @cached_property
    def _compiled(self) -> Any:
        from warpwright.native import by_numba

        return by_numba.entry(self.py_func, *self._options)

    @property
    def signatures(self) -> Any:
        """What it has been compiled or loaded for."""
        return self._compiled.signatures

    @property
    def stats(self) -> Any:
        """Numba's counts of what came from the disk and what was compiled."""
        return self._compiled.stats

    def __call__(self, *arguments: Any) -> Any:
        return self._compiled(*arguments)


def entry(function: Any, *, sources: tuple[Path, ...] = (), what: str = "") -> NumbaEntry:
    """A function that Python calls, cached on disk with everything it is made of.

    Args:
        sources: files, or folders of them, that determine its code.
        what: named in a line on stderr when it must be compiled; nothing is said without it.
    """
    return NumbaEntry(function, sources, what)
