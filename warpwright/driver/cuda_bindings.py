"""Redirects cuda-python's runtime API to Warpwright's libcudart.

``cuda.bindings.runtime`` is linked with NVIDIA's CUDA runtime, which only works with NVIDIA's driver.  Its Cython
modules import the runtime's functions from one of them, which exports each as a capsule with a C pointer
(``__pyx_capi__``; they are looked up when a module that uses them is imported).  When that module has been loaded, the
pointers become those of ``libcudart.so``, whose functions have the same signatures.

Every Python that a program starts runs this file (``site/sitecustomize.py``), even one without this package, so it uses
only the standard library, and imports modules on demand.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

SOURCES = ("cuda.bindings._internal.runtime", "cuda.bindings._bindings.cyruntime")
"""The module with the functions: of cuda-bindings 13, of 12."""


class _Redirecting(Loader):
    """Loads a module with its own loader, and then redirects it."""

    def __init__(self, own: Loader, folder: str) -> None:
        self._own = own
        self._folder = folder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._own.exec_module(module)
        redirect(module, self._folder)


class _Finder(MetaPathFinder):
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in SOURCES:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None and spec.loader is not None:
                spec.loader = _Redirecting(spec.loader, self._folder)
                return spec
        return None


def install(folder: str) -> None:
    """Redirect cuda-bindings once it is imported.

    Args:
        folder: the folder of the drop-in libraries.
    """
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder(folder))


def redirect(module: ModuleType, folder: str) -> None:
    """Replace the functions that a module exports by those of libcudart."""
    import ctypes

    version = 13 if module.__name__ == SOURCES[0] else 12
    library = ctypes.CDLL(f"{folder}/libcudart.so.{version}")
    set_pointer: Any = ctypes.pythonapi.PyCapsule_SetPointer
    set_pointer.argtypes = [ctypes.py_object, ctypes.c_void_p]
    set_pointer.restype = ctypes.c_int
    offered: dict[str, Any] = module.__dict__["__pyx_capi__"]
    for name, capsule in offered.items():
        # Those of graphics systems, and helpers of cuda-bindings itself, are not the runtime's.
        function = getattr(library, name.removeprefix("_"), None)
        if function is not None:
            set_pointer(capsule, ctypes.cast(function, ctypes.c_void_p).value)
