"""Determines the PyTorch module and operator of each launch, for reports: PyTorch's hooks report them to
:mod:`warpwright.ranges`.

Hooks of all modules open a range for each forward pass; ``torch.autograd.profiler.emit_nvtx`` names every operator, forward and backward, through NVTX, once the program uses its
device. The hooks are set when torch has been imported; nothing is imported that the program does not import itself.

Every Python that a program starts runs this file when a report is made (``site/sitecustomize.py``).
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

PACKAGE = "torch"


class _Preparing(Loader):
    """Loads a package with its own loader, and then sets the hooks."""

    def __init__(self, own: Loader) -> None:
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._own.exec_module(module)
        Origins().hook(module)


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != PACKAGE:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None and spec.loader is not None:
                spec.loader = _Preparing(spec.loader)
                return spec
        return None


def install() -> None:
    """Set the hooks when PyTorch is imported, or at once if it has been."""
    if PACKAGE in sys.modules:
        Origins().hook(sys.modules[PACKAGE])
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _ranges() -> Any:
    """:mod:`warpwright.ranges`, from the package that contains this file."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if root not in sys.path:
        sys.path.append(root)
    import warpwright.ranges

    return warpwright.ranges


class Origins:
    """The hooks, and the modules that they have seen."""

    def __init__(self) -> None:
        self._ranges = _ranges()
        self._records: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        """For each module that was seen or is inside one: its name."""
        self._entered: dict[int, list[Any]] = {}
        """Modules whose forward pass each thread is executing."""
        self._torch: Any = None
        self._names: Any = None
        """What names operators, unless the program's own profiler runs."""

    def hook(self, torch: Any) -> None:
        """Set the hooks."""
        self._torch = torch
        modules = torch.nn.modules.module
        modules.register_module_forward_pre_hook(self._enter)
        modules.register_module_forward_hook(self._leave, always_call=True)
        if torch.cuda.is_initialized():
            self._name_operators()
        else:
            torch.cuda._lazy_call(self._name_operators)

    def _name_operators(self) -> None:
        self._ranges.open_ranges.allocated_bytes = self._torch.cuda.memory_allocated
        self._resume()
        self._yield_to_profilers()
        # PyTorch warns about callbacks that are left when the process ends.
        atexit.register(self._pause)

    def _resume(self) -> None:
        if self._names is None and not self._torch.autograd._profiler_enabled():
            self._names = self._torch.autograd.profiler.emit_nvtx()
            self._names.__enter__()

    def _pause(self) -> None:
        if self._names is not None:
            names, self._names = self._names, None
            names.__exit__(None, None, None)

    def _yield_to_profilers(self) -> None:
        """PyTorch runs one profiler at a time, so operators are not named while the program's own runs."""
        kind = self._torch.autograd.profiler.profile
        for name in ("_prepare_trace", "_start_trace"):
            if hasattr(kind, name):
                setattr(kind, name, self._after(self._pause, getattr(kind, name)))
        kind.__exit__ = self._before(kind.__exit__, self._resume)

    @staticmethod
    def _after(first: Callable[[], None], then: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            first()
            return then(*arguments, **named)

        return call

    @staticmethod
    def _before(first: Callable[..., Any], then: Callable[[], None]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            try:
                return first(*arguments, **named)
            finally:
                then()

        return call

    def _record_of(self, module: Any) -> Any:
        if module not in self._records:
            root = type(module).__name__
            for name, one in module.named_modules():
                size = sum(p.numel() * p.element_size() for p in one.parameters(recurse=False))
                path = f"{root}.{name}" if name else root
                self._records[one] = self._ranges.Module(path, type(one).__name__, size)
        return self._records[module]

    def _enter(self, module: Any, _arguments: Any) -> None:
        if self._torch.compiler.is_compiling():
            return
        record = self._record_of(module)
        self._entered.setdefault(threading.get_ident(), []).append((module, record))
        self._ranges.open_ranges.enter(record)

    def _leave(self, module: Any, _arguments: Any, _result: Any) -> None:
        entered = self._entered.get(threading.get_ident())
        if entered and entered[-1][0] is module:
            self._ranges.open_ranges.leave(entered.pop()[1])
