"""NVRTC's built-in functions, loaded before NVRTC asks for them.

NVRTC opens ``libnvrtc-builtins.so.13.0`` by its bare name.  CUDA 13's wheels have no search path for it: PyTorch loads it, with all of NVIDIA's libraries, by
its full path, and stops at the first one that does not load, which the wheels' cuBLAS does not beside the drop-in cuBLASLt.  Nothing of the package is imported
here, because a program's Python may not have it (``site/sitecustomize.py``).
"""

import contextlib
import ctypes
import glob
import os
from collections.abc import Iterable

_kept: list[object] = []


def load(path: Iterable[str]) -> None:
    """Load the built-ins of every wheel on an import path."""
    for folder in path:
        for file in sorted(
            glob.glob(os.path.join(glob.escape(folder), "nvidia", "*", "lib", "libnvrtc-builtins.so.*"))
        ):
            # ".alt" is a second build for another C library.
            if ".alt." not in file:
                with contextlib.suppress(OSError):
                    _kept.append(ctypes.CDLL(file))
