"""CUDA C++ to PTX for chips of compute capability 1.x and 2.x, which current compilers no longer support.

NVRTC's oldest target is compute_50; a source that it does not accept there (because a kernel uses later features) is compiled for the next target that accepts
it, and kernels that need more than the chip has are refused when they are loaded. The options for sm_1x are nvcc's former defaults: subnormals are flushed, and
division and square roots are approximate.
"""

from __future__ import annotations

import os
from pathlib import Path

from warpwright.toolchain import nvrtc
from warpwright.toolchain.compile import NOTHING, CompiledModule, CompilerInput, source_text
from warpwright.toolchain.compile_errors import CompileError
from warpwright.toolchain.cubin import Module

TARGETS = (50, 60, 70, 80, 90)
FIRST_IEEE = 20
"""The first architecture whose division, square roots and subnormals follow IEEE 754 by default."""
DEFAULTS = {"-ftz": "true", "-prec-div": "false", "-prec-sqrt": "false"}


def compile_to_ptx(
    source: str | bytes | os.PathLike[str],
    arch: int,
    given: CompilerInput = NOTHING,
    *,
    name: str | None = None,
) -> CompiledModule:
    """Compile to a PTX module for a chip of architecture ``arch``; other arguments as for :func:`~warpwright.toolchain.compile.load`.

    Raises:
        CompileError: no target accepts the source; with the messages for the oldest one.
    """
    text, name, folders = source_text(source, name)
    named = {option.partition("=")[0].replace("--", "-", 1) for option in given.options}
    defaults = DEFAULTS if arch < FIRST_IEEE else {}
    mode = [f"{word}={value}" for word, value in defaults.items() if word not in named]
    first: CompileError | None = None
    for target in TARGETS:
        try:
            made = nvrtc.compile_cuda(
                text,
                str(target),
                options=[*mode, *given.options],
                defines=given.defines,
                include_folders=[*folders, *map(Path, given.include_folders)],
                name_expressions=given.name_expressions,
                name=name,
            )
        except CompileError as error:
            first = first or error
            continue
        return CompiledModule(
            Module(name, target, False),
            b"",
            ptx=made.ptx,
            source=text,
            name=name,
            lowered_names=dict(made.lowered_names),
            warnings=made.warnings,
            arch=str(target),
        )
    assert first is not None
    raise first
