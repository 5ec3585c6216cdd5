"""From source to machine code: NVRTC, nvJitLink, and the reading of cubins.

``compile.py`` is the way in; ``nvrtc.py`` and ``nvjitlink.py`` call NVIDIA's libraries, ``cubin.py`` (with ``elf.py``,
``nvinfo.py``, ``lines.py``) reads what they make, ``relocation.py`` places it, ``cache.py`` keeps results on disk.
Imports nothing of the package but itself.
"""

from warpwright.toolchain.cache import DiskCache, cache_key
from warpwright.toolchain.compile import CompiledModule, architecture, compile_source, link_ptx, load
from warpwright.toolchain.cubin import (
    Function,
    Kernel,
    KernelParameter,
    Module,
    Relocation,
    Variable,
    check_architecture,
    read_cubin,
)
from warpwright.toolchain.errors import (
    ArchitectureError,
    CompileError,
    CubinError,
    Diagnostic,
    LinkError,
    MissingToolError,
    ToolchainError,
)
from warpwright.toolchain.lines import Line, LineTable
from warpwright.toolchain.relocation import Image, code_layout, relocate

__all__ = [
    "ArchitectureError",
    "CompileError",
    "CompiledModule",
    "CubinError",
    "Diagnostic",
    "DiskCache",
    "Function",
    "Image",
    "Kernel",
    "KernelParameter",
    "Line",
    "LineTable",
    "LinkError",
    "MissingToolError",
    "Module",
    "Relocation",
    "ToolchainError",
    "Variable",
    "architecture",
    "cache_key",
    "check_architecture",
    "code_layout",
    "compile_source",
    "link_ptx",
    "load",
    "read_cubin",
    "relocate",
]
