"""Images of modules: identifies cubin, fatbin or PTX at a pointer, and selects the form for the chip.

Machine code for the chip is preferred; otherwise PTX is assembled (``retargeting.py``: also that of newer architectures).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

from warpwright.driver import cmemory, results
from warpwright.driver.cuda_error import CudaError, say
from warpwright.driver.retargeting import advice, assembled
from warpwright.isa.machine_code import FIRST_MAXWELL
from warpwright.session import session
from warpwright.toolchain import (
    ArchitectureError,
    CompiledModule,
    LinkError,
    ToolchainError,
    check_architecture,
    read_cubin,
)
from warpwright.toolchain import load as load_source
from warpwright.toolchain.fatbin import MAGIC as FATBIN_MAGIC
from warpwright.toolchain.fatbin import FatbinEntry, fatbin_bytes, read_fatbin

_WRAPPER_MAGIC = 0x466243B1
"""What nvcc's host code wraps a fatbin in: magic, version, pointer to the container."""
_ELF_MAGIC = 0x464C457F


def read_image(pointer: int) -> bytes:
    """The bytes of an image in memory, whatever its form.

    Raises:
        CudaError: CUDA_ERROR_INVALID_IMAGE.
    """
    magic = cmemory.get32(pointer)
    if magic == _WRAPPER_MAGIC:
        return read_image(cmemory.read("IIQ", pointer)[2])
    if magic == FATBIN_MAGIC:
        return ctypes.string_at(pointer, fatbin_bytes(ctypes.string_at(pointer, 16)))
    if magic == _ELF_MAGIC:
        return ctypes.string_at(pointer, _elf_bytes(ctypes.string_at(pointer, 64)))
    return ctypes.string_at(pointer)


def _elf_bytes(header: bytes) -> int:
    """Size of an ELF file: its program and section headers are its last parts."""
    programs, sections = struct.unpack_from("<QQ", header, 32)
    program_size, program_count, section_size, section_count = struct.unpack_from("<4H", header, 54)
    return max(programs + program_size * program_count, sections + section_size * section_count)


def compile_image(image: bytes, arch: int, chip: str, name: str, options: tuple[str, ...] = ()) -> CompiledModule:
    """Machine code for the chip from an image.

    Raises:
        CudaError: with the driver's result code for the error, and a message.
    """
    if arch < FIRST_MAXWELL:
        raise CudaError(
            results.NO_BINARY_FOR_GPU,
            f"unmodified programs do not run on {chip}, for which there is no compiler of machine code; ww.GPU({chip!r}) runs CUDA C++ and PTX",
        )
    try:
        if image[:4] == b"\x7fELF":
            return load_source(image, arch, name=name, chip=chip)
        if len(image) >= 16 and struct.unpack_from("<I", image)[0] == FATBIN_MAGIC:
            return _from_fatbin(image, arch, chip, name, options)
        text = image.rstrip(b"\0").decode(errors="replace")
        if ".version" not in text:
            raise CudaError(results.INVALID_IMAGE, f"{name} is neither a cubin nor a fatbin nor PTX")
        try:
            return assembled(text, arch, chip, name, options)
        except ArchitectureError:
            raise
        except ToolchainError as error:
            raise CudaError(results.INVALID_PTX, str(error)) from None
    except ArchitectureError as error:
        raise CudaError(results.NO_BINARY_FOR_GPU, str(error)) from None
    except LinkError as error:
        raise CudaError(results.INVALID_PTX, str(error)) from None
    except ToolchainError as error:
        raise CudaError(results.INVALID_IMAGE, str(error)) from None


def _from_fatbin(image: bytes, arch: int, chip: str, name: str, options: tuple[str, ...]) -> CompiledModule:
    entries = list(read_fatbin(image))
    best = None
    for entry in entries:
        if entry.is_ptx or entry.arch // 10 != arch // 10 or entry.arch > arch:
            continue
        if best is None or entry.arch > best.arch:
            best = entry
    if best is not None:
        contents = best.contents()
        module = read_cubin(contents, name)
        check_architecture(module, arch, chip)
        return CompiledModule(module, contents, ptx=_ptx_beside(entries, arch), name=name, arch=str(arch))
    text = _ptx_of(entries, arch)
    if text is None:
        held = ", ".join(sorted({f"sm_{e.arch}" for e in entries}))
        raise CudaError(
            results.NO_BINARY_FOR_GPU,
            f"{name} holds {f'machine code for {held} alone' if held else 'no device code'} and no PTX, and {chip} runs that of "
            f"sm_{arch}: {advice(arch)}",
        )
    return assembled(text, arch, chip, name, options)


def _ptx_beside(entries: Sequence[FatbinEntry], arch: int) -> str | None:
    """The PTX that accompanies the executed machine code; the checks read from it what machine code does not show."""
    if not session.check:
        return None
    try:
        return _ptx_of(entries, arch)
    except ToolchainError as error:
        say(f"volatile accesses of shared memory cannot be told from others: {error}")
        return None


def _ptx_of(entries: Sequence[FatbinEntry], arch: int) -> str | None:
    """The PTX of a fatbin that best suits an architecture: the newest that is not newer, else the oldest."""
    texts = sorted((e for e in entries if e.is_ptx), key=lambda e: (e.arch <= arch, -abs(e.arch - arch)))
    return texts[-1].contents().rstrip(b"\0").decode(errors="replace") if texts else None
