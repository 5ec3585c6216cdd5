"""Programs for chips that NVRTC does not know: PTX, assembled or compiled kernel by kernel; for AMD's, also OpenCL C and assembly."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from warpwright.chips.chip import GENERATIONS
from warpwright.engine.device_memory import DeviceMemory
from warpwright.errors import UnsupportedError
from warpwright.isa.machine_code import FIRST_FERMI
from warpwright.toolchain.compile import CompilerInput

if TYPE_CHECKING:
    from warpwright.engine.ptx_module import PtxModule


def _early_loaders(arch: int) -> tuple[Callable[..., PtxModule], Callable[..., PtxModule]]:
    """The functions that load PTX text and a compiled module's PTX."""
    if arch in GENERATIONS.values():
        from warpwright.engine.r600_module import R600Module

        return R600Module.of_ptx, R600Module.of_compiled
    if arch < FIRST_FERMI:
        from warpwright.engine.nv50_module import Nv50Module

        return Nv50Module.of_ptx, Nv50Module.of_compiled
    from warpwright.engine.ptx_module import load_compiled, load_ptx

    return load_ptx, load_compiled


def load_early(
    arch: int, memory: DeviceMemory, source: str | bytes | os.PathLike[str], given: CompilerInput, name: str | None
) -> PtxModule:
    """A module for a chip that NVRTC does not know: PTX, assembled kernel by kernel for compute capability 1.x, compiled for AMD's."""
    # Imported for these chips alone: NVRTC and the assemblers are not needed otherwise.
    from warpwright.engine.ptx_module import is_ptx
    from warpwright.toolchain.oldest_target import compile_to_ptx

    if arch in GENERATIONS.values():
        from warpwright.engine.r600_assembly import is_assembly, load_assembly

        if is_assembly(source):
            return load_assembly(str(source), arch, memory, name or "kernel.r600")
        from warpwright.engine.r600_opencl import is_opencl, load_opencl

        if is_opencl(source):
            return load_opencl(
                source,
                arch,
                memory,
                options=given.options,
                defines=given.defines,
                include_folders=given.include_folders,
                name=name,
            )
    load, load_compiled = _early_loaders(arch)
    if is_ptx(source) and not given.name_expressions:
        return load(str(source), arch, memory, name or "kernel.ptx")
    compiled = compile_to_ptx(source, arch, given, name=name)
    if compiled.ptx is None:
        raise UnsupportedError(f"{compiled.name} holds machine code of a later chip; give CUDA C++ or PTX")
    return load_compiled(compiled, arch, memory)
