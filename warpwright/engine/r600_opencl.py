"""A module of OpenCL C on Cypress or Cayman.

Kernels are launched like CUDA kernels: a grid of groups and the group's extents.  The argument of a ``__local``
parameter is its size in bytes; the launch's shared memory is the sum of these, each rounded up to 16.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.machine_code_module import MachineCodeModule
from warpwright.engine.module import LoadedKernel
from warpwright.engine.ptx_module import load_ptx, symbols_of
from warpwright.engine.r600_images import ClImage, ClSampler
from warpwright.engine.r600_module import GENERATION_OF
from warpwright.errors import ArgumentError, UnsupportedError
from warpwright.isa.program import Parameter
from warpwright.isa.r600.compiler.from_opencl import (
    LOCAL_ALIGN_BYTES,
    Compiled,
    OpenClParameter,
    OpenClProgram,
    ptx_name,
)
from warpwright.isa.r600.compiler.opencl_images import (
    FIRST_SAMPLER_PARAMETER,
    ImageParameter,
    Texels,
    bindings_of,
    constant_samplers,
    sampler_of,
)
from warpwright.isa.r600.fields import UndefinedWord
from warpwright.isa.r600.load import R600Program, rebound
from warpwright.isa.sass.meaning import UnsupportedInstruction
from warpwright.toolchain import Kernel as CubinKernel
from warpwright.toolchain.compile import DEFAULT_OPENCL_NAME, source_text
from warpwright.toolchain.opencl import compile_opencl

_HEAD = ".version 7.0\n.target sm_50\n.address_size 64\n"
_KERNEL = re.compile(r"\b__kernel\b|\bkernel\s+(__attribute__\s*\(\([^;{]*?\)\)\s*)?void\b")


def is_opencl(source: object) -> bool:
    """Whether a source is OpenCL C: a file that ends in .cl, or a text with a kernel of OpenCL and none of CUDA."""
    if isinstance(source, PathLike) or (isinstance(source, str) and "\n" not in source and source.endswith(".cl")):
        return str(fspath(source)).endswith(".cl")
    return isinstance(source, str) and "__global__" not in source and _KERNEL.search(source) is not None


@dataclass(slots=True)
class R600OpenClModule(MachineCodeModule):
    """OpenCL C on an AMD chip, created by :func:`load_opencl`."""

    program: OpenClProgram | None = None
    ir: dict[str, str] = field(default_factory=dict)
    """LLVM IR of the kernels loaded so far."""
    bound_kernels: dict[tuple[str, str], LoadedKernel] = field(default_factory=dict)
    """Kernels by the images and samplers of their launches, which decide how their fetches convert and filter."""

    @property
    def source(self) -> None:
        """LLVM's R600 back end emits no line information."""
        return

    def make(self, kernel: CubinKernel) -> Compiled:
        """Compile a kernel.

        Raises:
            UnsupportedError: naming what the chip or LLVM's back end has no equivalent of.
        """
        assert self.program is not None
        places = [Parameter(p.ordinal, p.offset_bytes, p.size_bytes) for p in kernel.parameters]
        addresses = symbols_of(self)
        try:
            made = self.program.compile(
                kernel.name, places, {n: addresses[ptx_name(n)] for n in self.program.variables}
            )
        except (UnsupportedInstruction, UndefinedWord) as error:
            raise UnsupportedError(str(error)) from None
        self.ir[kernel.name] = made.ir
        return made

    def bound(
        self, loaded: LoadedKernel, arguments: Sequence[Any], dynamic_shared_bytes: int
    ) -> tuple[LoadedKernel, Sequence[Any]]:
        """The kernel for the images and samplers among a launch's arguments, and the arguments with words in place of these.

        Raises:
            ArgumentError: an argument is no image or sampler, or an image of another type; the launch has less shared memory than its
                ``__local`` arguments take.
        """
        assert self.program is not None
        name = loaded.kernel.name
        listed = self.program.parameters[name]
        if len(arguments) != len(listed):
            return loaded, arguments
        _check_local(name, listed, arguments, dynamic_shared_bytes)
        if all(p.special is None for p in listed):
            return loaded, arguments
        words, samplers = list(arguments), constant_samplers()
        images: dict[ImageParameter, Texels] = {}
        for n, (parameter, placed) in enumerate(zip(listed, loaded.kernel.parameters, strict=True)):
            special = parameter.special
            if isinstance(special, ImageParameter):
                image = self._image(f"argument {n + 1} {parameter.name!r} of {name}", parameter, arguments[n])
                images[special] = image.texels(placed.offset_bytes)
                words[n] = image.record(special.records)
            elif special is not None:
                sampler = _sampler(f"argument {n + 1} {parameter.name!r} of {name}", arguments[n])
                samplers[FIRST_SAMPLER_PARAMETER + special.number] = sampler_of(sampler.value, sampler.mip)
                words[n] = struct.pack("<I", sampler.value)
        bindings = bindings_of(images, samplers)
        key = (name, repr(bindings))
        if key not in self.bound_kernels:
            assert isinstance(loaded.program, R600Program)
            program = rebound(loaded.program, self.machine_code[name], bindings)
            self.bound_kernels[key] = LoadedKernel(loaded.kernel, program, loaded.banks, loaded.data)
        return self.bound_kernels[key], words

    def _image(self, where: str, parameter: OpenClParameter, given: object) -> ClImage:
        """An argument that is to be an image.

        Raises:
            ArgumentError: it is not, or not of the parameter's type, or in another GPU's memory.
        """
        assert isinstance(parameter.special, ImageParameter)
        wanted = parameter.special.kind
        if not isinstance(given, ClImage):
            raise ArgumentError(f"{where} takes an image (gpu.image(...)), not a {type(given).__name__}")
        if given.form.kind != wanted:
            raise ArgumentError(f"{where} takes an {wanted.name}_t, not {given!r}, an {given.form.kind.name}_t")
        if given.memory is not self.memory:
            raise ArgumentError(f"{where}: it is in another GPU's memory; create it with the GPU that runs the kernel")
        return given


def _check_local(name: str, listed: Sequence[OpenClParameter], arguments: Sequence[Any], given_bytes: int) -> None:
    """Compare a launch's shared memory with the sizes that are its ``__local`` arguments.

    Raises:
        ArgumentError: it is smaller than their sum; the last one need not be rounded up.
    """
    sizes = [int(a) for p, a in zip(listed, arguments, strict=True) if p.is_local and isinstance(a, (int, np.integer))]
    needed = sum(size + (-size % LOCAL_ALIGN_BYTES) for size in sizes)
    if sizes and needed - (-sizes[-1] % LOCAL_ALIGN_BYTES) > given_bytes:
        raise ArgumentError(
            f"the __local arguments of {name} take {needed:,} bytes, and the launch has {given_bytes:,} bytes of shared memory: "
            f"launch it with [grid, block, {needed}]"
        )


def _sampler(where: str, given: object) -> ClSampler:
    """An argument that is to be a sampler.

    Raises:
        ArgumentError: it is none.
    """
    if isinstance(given, ClSampler):
        return given
    raise ArgumentError(f"{where} takes a sampler (gpu.sampler(...)), not a {type(given).__name__}")


def load_opencl(
    source: str | bytes | PathLike[str],
    arch: int,
    memory: DeviceMemory,
    *,
    options: Sequence[str] = (),
    defines: Mapping[str, str | int | None] | None = None,
    include_folders: Sequence[str | Path] = (),
    name: str | None = None,
) -> R600OpenClModule:
    """Compile OpenCL C.

    Raises:
        CompileError, MissingToolError: as for :func:`~warpwright.toolchain.opencl.compile_opencl`.
        UnsupportedError: for a parameter of a kernel that the chip has no equivalent of.
    """
    generation = GENERATION_OF[arch]
    if isinstance(source, str) and "\n" not in source and source.endswith(".cl"):
        source = Path(source)
    text, found, folders = source_text(source, name or (DEFAULT_OPENCL_NAME if isinstance(source, str) else None))
    bitcode = compile_opencl(
        text,
        generation,
        options=options,
        defines=defines,
        include_folders=[*folders, *include_folders],
        name=found,
    )
    program = OpenClProgram(bitcode, generation, found)
    module = R600OpenClModule.of(load_ptx(_HEAD + program.declarations, arch, memory, found))
    module.program = program
    return module
