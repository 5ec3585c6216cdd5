"""Modules, libraries and the linker: places device code, and finds its functions and variables by name."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, ClassVar

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import state
from warpwright.driver.functions import KernelHandle, LoadedImage
from warpwright.driver.library_placement import PlacedCode
from warpwright.driver.module_images import compile_image, read_image
from warpwright.driver.retargeting import lowered_ptx
from warpwright.errors import UnsupportedError
from warpwright.toolchain import InputKind, LinkError, ToolchainError, link

_INFO_BUFFER, _INFO_BYTES, _ERROR_BUFFER, _ERROR_BYTES = 3, 4, 5, 6
_MAX_REGISTERS, _OPTIONS = 0, 35
"""Numbers of CUjit_option, and how many there are (CUDA 13.0)."""


class JitOptions:
    """The relevant parts of a call's option arrays: logs and the limit of registers."""

    def __init__(self, count: int, keys: int, values: int) -> None:
        self.places: dict[int, int] = {}
        for i in range(count if keys and values else 0):
            key = cmemory.get32(keys + 4 * i)
            if key >= _OPTIONS:
                raise CudaError(results.INVALID_VALUE)
            self.places[key] = values + 8 * i
        self.count = count
        if _MAX_REGISTERS in self.places and not self.value(_MAX_REGISTERS) & 0xFFFF_FFFF:
            raise CudaError(results.INVALID_VALUE)

    def value(self, key: int) -> int:
        return cmemory.get64(self.places[key]) if key in self.places else 0

    def log(self, words: str, error: bool) -> None:
        """Store a log where the caller wants it."""
        buffer, size = (_ERROR_BUFFER, _ERROR_BYTES) if error else (_INFO_BUFFER, _INFO_BYTES)
        room = self.value(size) & 0xFFFF_FFFF
        if self.value(buffer) and room:
            raw = words.encode()[: room - 1]
            ctypes.memmove(self.value(buffer), raw + b"\0", len(raw) + 1)
            cmemory.put64(self.places[size], len(raw) + 1)

    def assembler(self) -> tuple[str, ...]:
        registers = self.value(_MAX_REGISTERS) & 0xFFFF_FFFF
        return (f"-maxrregcount={registers}",) if registers else ()


def load(image: bytes, name: str, options: JitOptions | None = None) -> LoadedImage:
    """Place an image on the device, in the current context."""
    s = state()
    context = s.current()
    try:
        extra = options.assembler() if options is not None else ()
        compiled = compile_image(image, s.gpu.chip.arch, s.gpu.chip.name, name, extra)
    except CudaError as error:
        if options is not None:
            options.log(error.message, True)
        raise
    if options is not None:
        options.log("", False)
        options.log("", True)
    return LoadedImage(compiled, context)


def _read_file(path: int) -> bytes:
    try:
        return Path(cmemory.text(path)).read_bytes()
    except OSError as reason:
        raise CudaError(results.FILE_NOT_FOUND, str(reason)) from None


@entry("cuModuleLoadData")
def module_load_data(place: int, image: int) -> int | None:
    if not image:
        return results.INVALID_VALUE
    cmemory.put64(place, load(read_image(image), "module").handle)
    return None


@entry("cuModuleLoadDataEx")
def module_load_data_ex(place: int, image: int, count: int, keys: int, values: int) -> int | None:
    if not image:
        return results.INVALID_VALUE
    cmemory.put64(place, load(read_image(image), "module", JitOptions(count, keys, values)).handle)
    return None


@entry("cuModuleLoadFatBinary")
def module_load_fatbin(place: int, image: int) -> int | None:
    return module_load_data(place, image)


@entry("cuModuleLoad")
def module_load(place: int, path: int) -> None:
    cmemory.put64(place, load(_read_file(path), Path(cmemory.text(path)).name).handle)


@entry("cuModuleUnload")
def module_unload(handle: int) -> None:
    state().handles.get(LoadedImage, handle).unload()


@entry("cuModuleGetFunction")
def module_function(place: int, handle: int, name: int) -> None:
    state().current()
    cmemory.put64(place, state().handles.get(LoadedImage, handle).function(cmemory.text(name)).handle)


@entry("cuModuleGetFunctionCount")
def function_count(place: int, handle: int) -> None:
    cmemory.put32(place, len(state().handles.get(LoadedImage, handle).compiled.kernels))


@entry("cuModuleEnumerateFunctions")
def enumerate_functions(place: int, room: int, handle: int) -> None:
    image = state().handles.get(LoadedImage, handle)
    for i, name in enumerate(list(image.compiled.kernels)[:room]):
        cmemory.put64(place + 8 * i, image.function(name).handle)


@entry("cuModuleGetGlobal_v2")
def module_global(place: int, size: int, handle: int, name: int) -> int | None:
    state().current()
    if not (place or size):
        return results.INVALID_VALUE
    address, count = state().handles.get(LoadedImage, handle).variable(cmemory.text(name))
    cmemory.put64(place, address)
    cmemory.put64(size, count)
    return None


@entry("cuModuleGetLoadingMode")
def loading_mode(place: int) -> None:
    # CU_MODULE_LAZY_LOADING: kernels are decoded when they are first used.
    cmemory.put32(place, 2)


@entry("cuModuleGetTexRef", "cuModuleGetSurfRef")
def references(*_: Any) -> int:
    raise UnsupportedError("texture and surface references are not modelled; use texture objects")


# --- libraries --------------------------------------------------------------------------------------
@entry("cuLibraryLoadData")
def library_load_data(
    place: int, image: int, keys: int, values: int, count: int, own_keys: int, own_values: int, own_count: int
) -> int | None:
    if not image:
        return results.INVALID_VALUE
    cmemory.put64(place, Library(read_image(image), "library", JitOptions(count, keys, values)).handle)
    return None


OF_CODE = (results.INVALID_IMAGE, results.NO_BINARY_FOR_GPU, results.INVALID_PTX, results.UNSUPPORTED_PTX_VERSION)
"""Results for code that the chip cannot run."""


class Library(PlacedCode):
    """A library of the program; its options' logs hold the first device's messages."""

    of_null: ClassVar[int] = results.INVALID_HANDLE

    def __init__(self, image: bytes, name: str, options: JitOptions) -> None:
        super().__init__()
        self._image, self._name = image, name
        self._options: JitOptions | None = options
        self._kernels: dict[str, KernelHandle] = {}
        s = state()
        s.check_process()
        try:
            self.here()
        except CudaError as error:
            # A driver loads lazily: errors in the code are reported when one of its kernels is requested.
            if error.code not in OF_CODE:
                raise
        self._options = None
        self.handle = s.handles.add(self)

    def place(self) -> LoadedImage:
        return load(self._image, self._name, self._options)

    def kernel(self, name: str) -> KernelHandle:
        """A kernel by its symbol.

        Raises:
            CudaError: CUDA_ERROR_NOT_FOUND.
        """
        self.here().function(name)
        if name not in self._kernels:
            self._kernels[name] = KernelHandle(self.here, name, self.handle)
        return self._kernels[name]

    def unload(self) -> None:
        for image in self.images.values():
            image.unload()
        for kernel in self._kernels.values():
            state().handles.drop(kernel.handle)
        state().handles.drop(self.handle)


def _library(handle: int) -> Library:
    return state().handles.get(Library, handle)


@entry("cuLibraryLoadFromFile")
def library_load_file(
    place: int, path: int, keys: int, values: int, count: int, own_keys: int, own_values: int, own_count: int
) -> None:
    cmemory.put64(
        place, Library(_read_file(path), Path(cmemory.text(path)).name, JitOptions(count, keys, values)).handle
    )


@entry("cuLibraryUnload")
def library_unload(handle: int) -> None:
    _library(handle).unload()


@entry("cuLibraryGetKernel")
def library_kernel(place: int, handle: int, name: int) -> None:
    cmemory.put64(place, _library(handle).kernel(cmemory.text(name)).handle)


@entry("cuLibraryGetKernelCount")
def kernel_count(place: int, handle: int) -> None:
    cmemory.put32(place, len(_library(handle).here().compiled.kernels))


@entry("cuLibraryEnumerateKernels")
def enumerate_kernels(place: int, room: int, handle: int) -> None:
    library = _library(handle)
    for i, name in enumerate(list(library.here().compiled.kernels)[:room]):
        cmemory.put64(place + 8 * i, library.kernel(name).handle)


@entry("cuLibraryGetModule")
def library_module(place: int, handle: int) -> None:
    cmemory.put64(place, _library(handle).here().handle)


@entry("cuLibraryGetGlobal", "cuLibraryGetManaged")
def library_global(place: int, size: int, handle: int, name: int) -> None:
    address, count = _library(handle).here().variable(cmemory.text(name))
    cmemory.put64(place, address)
    cmemory.put64(size, count)


@entry("cuLibraryGetUnifiedFunction")
def unified_function(*_: Any) -> int:
    # Code here has no such functions.
    return results.INVALID_VALUE


# --- linker -----------------------------------------------------------------------------------------
class Link:
    """Inputs of cuLinkCreate … cuLinkComplete."""

    of_null: ClassVar[int] = results.INVALID_HANDLE

    def __init__(self, options: JitOptions) -> None:
        self.options = options
        self.inputs: list[tuple[InputKind, bytes, str]] = []
        self.cubin: Any = None


_INPUT_KINDS = {
    0: InputKind.CUBIN,
    1: InputKind.PTX,
    2: InputKind.FATBIN,
    3: InputKind.OBJECT,
    4: InputKind.LIBRARY,
    5: InputKind.LTOIR,
}
"""CUjitInputType."""


@entry("cuLinkCreate_v2", "cuLinkCreate")
def link_create(count: int, keys: int, values: int, place: int) -> None:
    state().current()
    cmemory.put64(place, state().handles.add(Link(JitOptions(count, keys, values))))


def _add(handle: int, kind: int, data: bytes, name: str) -> int | None:
    made = state().handles.get(Link, handle)
    if kind not in _INPUT_KINDS:
        return results.INVALID_VALUE
    if _INPUT_KINDS[kind] is InputKind.PTX:
        text = data.rstrip(b"\0").decode(errors="replace")
        data = lowered_ptx(text, state().gpu.chip.arch).encode() + b"\0"
    made.inputs.append((_INPUT_KINDS[kind], data, name))
    return None


@entry("cuLinkAddData_v2", "cuLinkAddData")
def link_add_data(
    handle: int, kind: int, data: int, size: int, name: int, count: int, keys: int, values: int
) -> int | None:
    return _add(handle, kind, ctypes.string_at(data, size), cmemory.text(name) if name else f"input {kind}")


@entry("cuLinkAddFile_v2", "cuLinkAddFile")
def link_add_file(handle: int, kind: int, path: int, count: int, keys: int, values: int) -> int | None:
    return _add(handle, kind, _read_file(path), Path(cmemory.text(path)).name)


@entry("cuLinkComplete")
def link_complete(handle: int, place: int, size: int) -> int | None:
    made = state().handles.get(Link, handle)
    try:
        linked = link(made.inputs, state().gpu.chip.arch, options=made.options.assembler())
    except LinkError as error:
        made.options.log(str(error), True)
        return results.INVALID_PTX
    except ToolchainError as error:
        made.options.log(str(error), True)
        return results.INVALID_IMAGE
    made.cubin = ctypes.create_string_buffer(linked.cubin, len(linked.cubin))
    made.options.log("", False)
    made.options.log("", True)
    cmemory.put64(place, ctypes.addressof(made.cubin))
    cmemory.put64(size, len(linked.cubin))
    return None


@entry("cuLinkDestroy")
def link_destroy(handle: int) -> None:
    state().handles.get(Link, handle)
    state().handles.drop(handle)
