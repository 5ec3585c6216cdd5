"""The decorator of this package's compiled functions: Numba, with its cache in the toolchain's cache folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

from warpwright.native.by_numba import PartCompiler
from warpwright.toolchain.cache import default_folder

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """A function that Numba compiles on the first call or loads from its cache; it runs without the interpreter's lock."""
    saved = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(default_folder() / f"graphics-{numba.__version__}")
    try:
        return numba.njit(function, cache=True, nogil=True, error_model="numpy")
    finally:
        numba.config.CACHE_DIR = saved


def compiled_part(function: Function) -> Function:
    """A function that only other compiled functions call: it is optimised and emitted in each of them, but not separately."""
    part: Function = numba.njit(
        function,
        pipeline_class=PartCompiler,
        nogil=True,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
    )
    return part
