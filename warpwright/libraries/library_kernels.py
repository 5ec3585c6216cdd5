"""Kernels of the libraries: CUDA C++ of ``cuda/``, compiled at first use and cached, launched in the order of the caller's stream.

A kernel's name begins with ``warpwright_`` and its module is called ``warpwright's cuBLAS (not NVIDIA's)`` in reports, so that nobody takes its time for NVIDIA's.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

from warpwright.driver.calls import ENTRIES
from warpwright.driver.driver_state import state
from warpwright.driver.functions import LoadedImage
from warpwright.driver.launches import Launch, submit_launch
from warpwright.driver.library_placement import PlacedCode
from warpwright.libraries.calls import LibraryError
from warpwright.library_times import LibraryTime
from warpwright.session import session
from warpwright.toolchain import CompiledModule, compile_source
from warpwright.toolchain.elf_reader import ElfFile

MAX_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""

_INCLUDED = {"structured_sparse_product.cu": ("warpwright.sparsity",)}
"""Packages whose sources a file includes."""


class Code(PlacedCode):
    """One source with its macros, on every device that has used it."""

    def __init__(self, file: str, library: str, defines: Mapping[str, str | int]) -> None:
        super().__init__()
        self._file, self._defines = file, dict(defines)
        self.library = library
        """The library that it stands for: cuBLAS."""

    def digest(self) -> str:
        """Of the machine code for the current device: what a measured time belongs to (:func:`code_digest`)."""
        return code_digest(compiled(self._file, self.library, self._defines, architecture()).cubin)

    def place(self) -> LoadedImage:
        s = state()
        return LoadedImage(compiled(self._file, self.library, self._defines, s.gpu.chip.arch), s.current())


def compiled(file: str, library: str, defines: Mapping[str, str | int], arch: int) -> CompiledModule:
    """A file of ``cuda/`` as machine code."""
    folder = resources.files("warpwright.libraries").joinpath("cuda")
    folders = [folder, *(resources.files(package) for package in _INCLUDED.get(file, ()))]
    return compile_source(
        folder.joinpath(file).read_text(encoding="utf-8"),
        arch,
        defines=defines,
        include_folders=[str(one) for one in folders],
        name=f"warpwright's {library} (not NVIDIA's): {file}",
    )


@cache
def code_digest(cubin: bytes) -> str:
    """Eight hexadecimal digits of a cubin's machine code alone: its other sections name the folder of the sources."""
    sections = sorted(ElfFile(cubin, "cubin").sections, key=lambda section: section.name)
    code = b"".join(section.data for section in sections if section.name.startswith(".text."))
    return hashlib.sha256(code).hexdigest()[:8]


@cache
def _code(file: str, library: str, defines: tuple[tuple[str, str | int], ...]) -> Code:
    return Code(file, library, dict(defines))


def code(file: str, library: str, **defines: str | int) -> Code:
    """The code of a file under some macros."""
    return _code(file, library, tuple(sorted(defines.items())))


def launch(
    kernels: Code,
    name: str,
    grid: Sequence[int],
    block: int,
    stream: int,
    arguments: Sequence[int | float | bytes],
    shared_bytes: int = 0,
    time: LibraryTime | None = None,
) -> None:
    """Launch a kernel in a stream's order.

    Args:
        grid: one to three numbers of blocks.
        arguments: integers, floats, and bytes of structures, in the order of the kernel's parameters.
        time: the ratio of its class under ``--library-model``; without one there was none measured.
    """
    function = kernels.here().function(name)
    parameters = bytearray(function.parameter_bytes)
    for (offset, size), value in zip(function.parameters, arguments, strict=True):
        parameters[offset : offset + size] = _bytes_of(value, size)
    if shared_bytes > function.dynamic_shared_limit:
        function.set_attribute(MAX_DYNAMIC_SHARED, shared_bytes)
    x, y, z = (*grid, 1, 1)[:3]
    made = Launch(function, (x, y, z), (block, 1, 1), shared_bytes, bytes(parameters))
    if session.library_model is not None:
        made.library = time or LibraryTime(kernels.library)
    submit_launch(made, stream)


def _bytes_of(value: int | float | bytes, size: int) -> bytes:
    if isinstance(value, bytes):
        if len(value) != size:
            raise ValueError(f"a parameter of {size} bytes is given {len(value)}")
        return value
    if isinstance(value, float):
        return struct.pack("<f" if size == 4 else "<d", value)
    return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def synchronize(stream: int) -> None:
    """Wait for a stream, for results that a call returns to the host."""
    if ENTRIES["cudaStreamSynchronize"](stream):
        raise LibraryError("execution_failed")


def chip_name() -> str:
    """The current device's chip."""
    return state().gpu.chip.name


def architecture() -> int:
    """The current device's compute capability: 90 for 9.0."""
    return state().gpu.chip.arch


def multiprocessors() -> int:
    """SMs of the current device."""
    return int(state().gpu.chip.sm.sm_count)
