"""Warpwright: a GPU simulator that runs CUDA kernels' real machine code and models its cycles.

A kernel, compiled to a chip's machine code, runs in software with the chip's results and the chip's cycles.
The public interface is in ``api.py``.  The packages are ordered chips, toolchain, isa, engine, timing, and none imports
from a later one.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from warpwright.version import __version__

if TYPE_CHECKING:
    from warpwright import graphics, refinement, sparsity
    from warpwright.api import GPU
    from warpwright.arrays import DeviceArray, Symbol
    from warpwright.chips import Chip, ChipError, chip_names, load_chip
    from warpwright.engine.access_policy import AccessProperty, AccessWindow
    from warpwright.errors import (
        ArgumentError,
        DeadlockError,
        ExecutionError,
        FreedArrayError,
        KernelNotFoundError,
        LaunchError,
        MemoryFaultError,
        MemoryOverrunWarning,
        MetricNotFoundError,
        OutOfMemoryError,
        TrapError,
        UnsupportedError,
        WarpwrightError,
    )
    from warpwright.faults import InjectionError, UncorrectableEccError
    from warpwright.gpu_options import GpuOptions
    from warpwright.images import CudaArray, Surface, Texture
    from warpwright.kernel import Kernel, Module
    from warpwright.multi_gpu import System
    from warpwright.run import Run
    from warpwright.sweeps.result import Sweep
    from warpwright.sweeps.specification import SweepError
    from warpwright.sweeps.sweep import sweep
    from warpwright.toolchain import ArchitectureError, CompileError, LinkError, SourceNotFoundError, ToolchainError

_HOMES = {
    "warpwright.engine.access_policy": ("AccessProperty", "AccessWindow"),
    "warpwright.api": ("GPU",),
    "warpwright.arrays": ("DeviceArray", "Symbol"),
    "warpwright.chips": ("Chip", "ChipError", "chip_names", "load_chip"),
    "warpwright.errors": (
        "ArgumentError",
        "DeadlockError",
        "ExecutionError",
        "FreedArrayError",
        "KernelNotFoundError",
        "LaunchError",
        "MemoryFaultError",
        "MemoryOverrunWarning",
        "MetricNotFoundError",
        "OutOfMemoryError",
        "TrapError",
        "UnsupportedError",
        "WarpwrightError",
    ),
    "warpwright.faults": ("InjectionError", "UncorrectableEccError"),
    "warpwright.gpu_options": ("GpuOptions",),
    "warpwright.images": ("CudaArray", "Surface", "Texture"),
    "warpwright.kernel": ("Kernel", "Module"),
    "warpwright.multi_gpu": ("System",),
    "warpwright.run": ("Run",),
    "warpwright.sweeps.result": ("Sweep",),
    "warpwright.sweeps.specification": ("SweepError",),
    "warpwright.sweeps.sweep": ("sweep",),
    "warpwright.tools.debugger.scripted": ("DebugSession", "debug"),
    "warpwright.toolchain": ("ArchitectureError", "CompileError", "LinkError", "SourceNotFoundError", "ToolchainError"),
}
_PACKAGES = ("graphics", "refinement", "sparsity")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "GPU",
    "AccessProperty",
    "AccessWindow",
    "ArchitectureError",
    "ArgumentError",
    "Chip",
    "ChipError",
    "CompileError",
    "CudaArray",
    "DeadlockError",
    "DebugSession",
    "DeviceArray",
    "ExecutionError",
    "FreedArrayError",
    "GpuOptions",
    "InjectionError",
    "Kernel",
    "KernelNotFoundError",
    "LaunchError",
    "LinkError",
    "MemoryFaultError",
    "MemoryOverrunWarning",
    "MetricNotFoundError",
    "Module",
    "OutOfMemoryError",
    "Run",
    "SourceNotFoundError",
    "Surface",
    "Sweep",
    "SweepError",
    "Symbol",
    "System",
    "Texture",
    "ToolchainError",
    "TrapError",
    "UncorrectableEccError",
    "UnsupportedError",
    "WarpwrightError",
    "__version__",
    "chip_names",
    "debug",
    "graphics",
    "load_chip",
    "refinement",
    "sparsity",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first used: ``import warpwright`` alone costs nothing."""
    home = _HOME_OF.get(name)
    if name in _PACKAGES:
        return importlib.import_module(f"warpwright.{name}")
    if home is None:
        raise AttributeError(f"module 'warpwright' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if "WARPWRIGHT_RESULTS" in os.environ:
    # A process that ``warpwright run`` or a test of ``pytest --warpwright`` started, which tells its launches and findings.
    from warpwright.driver import launch_records

    launch_records.obey()
if "WARPWRIGHT_DEBUG" in os.environ:
    # … or ``warpwright debug``.
    from warpwright.tools.debugger import child

    child.obey()
