"""From source to machine code: NVRTC, ptxas, nvJitLink, and cubin readers.

``compile.py`` is the entry point; ``nvrtc.py``, ``ptxas.py`` and ``nvjitlink.py`` call NVIDIA's tools, ``cubin.py``
(with ``elf_reader.py``, ``nvinfo.py``, ``lines.py``, ``callgraph.py``) reads their output, ``relocation.py`` places it,
``cache.py`` keeps results on disk.  Imports nothing of the package but its error classes.
"""

from warpwright.toolchain.cache import DiskCache, cache_key, default_cache
from warpwright.toolchain.compile import (
    CompiledModule,
    CompilerInput,
    architecture,
    compile_source,
    link,
    link_ptx,
    load,
)
from warpwright.toolchain.compile_errors import (
    ArchitectureError,
    CompileError,
    CubinError,
    Diagnostic,
    LinkError,
    MissingToolError,
    SourceNotFoundError,
    ToolchainError,
)
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
from warpwright.toolchain.lines import Line, LineTable
from warpwright.toolchain.nvjitlink import InputKind
from warpwright.toolchain.relocation import Image, code_layout, relocate

__all__ = [
    "ArchitectureError",
    "CompileError",
    "CompiledModule",
    "CompilerInput",
    "CubinError",
    "Diagnostic",
    "DiskCache",
    "Function",
    "Image",
    "InputKind",
    "Kernel",
    "KernelParameter",
    "Line",
    "LineTable",
    "LinkError",
    "MissingToolError",
    "Module",
    "Relocation",
    "SourceNotFoundError",
    "ToolchainError",
    "Variable",
    "architecture",
    "cache_key",
    "check_architecture",
    "code_layout",
    "compile_source",
    "default_cache",
    "link",
    "link_ptx",
    "load",
    "read_cubin",
    "relocate",
]
