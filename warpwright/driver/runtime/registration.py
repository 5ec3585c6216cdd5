"""Registration by nvcc's host code before main: fatbins, kernels by the address of their host stub, variables."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import state
from warpwright.driver.library_placement import PlacedCode
from warpwright.driver.module_images import read_image
from warpwright.driver.runtime.calls import ensure, runtime
from warpwright.engine.abi import MIGRATES

if TYPE_CHECKING:
    from warpwright.driver.functions import Function, KernelHandle, LoadedImage

INVALID_SYMBOL = 13
"""cudaErrorInvalidSymbol."""


class Fatbin(PlacedCode):
    """One translation unit's device code."""

    def __init__(self, wrapper: int) -> None:
        super().__init__()
        self.wrapper = wrapper
        self.handle = (ctypes.c_uint64 * 4)()
        self.managed: list[tuple[int, str]] = []
        """Managed variables: address of the program's pointer, and the name."""
        self.failures: dict[str, CudaError] = {}
        """By chip: why the code could not be compiled for it, so that later launches fail at once."""

    def image(self) -> LoadedImage:
        """The code on the calling thread's device."""
        ensure()
        return self.here()

    def place(self) -> LoadedImage:
        from warpwright.driver.modules import OF_CODE, load

        first = next((one for one in self.images.values() if one.alive), None)
        chip = state().gpu.chip.name
        if chip in self.failures:
            raise self.failures[chip]
        try:
            made = load(read_image(self.wrapper), _file_of(self.wrapper))
        except CudaError as error:
            if error.code in OF_CODE:
                self.failures[chip] = error
            raise
        for pointer, name in self.managed:
            if first is None:
                made.module._loaded.place(name).place = MIGRATES
                cmemory.put64(pointer, made.place(name)[0])
            else:
                made.share(name, first)
        return made


def _file_of(address: int) -> str:
    """The name of the program or library mapped at an address."""
    with open("/proc/self/maps", "rb") as maps:
        for line in maps:
            parts = line.decode(errors="replace").rstrip("\n").split(maxsplit=5)
            first, last = (int(bound, 16) for bound in parts[0].split("-"))
            if first <= address < last and len(parts) == 6 and parts[5].startswith("/"):
                return Path(parts[5]).name
    return "program"


_fatbins: dict[int, Fatbin] = {}
_functions: dict[int, tuple[Fatbin, str]] = {}
_kernels: dict[int, KernelHandle] = {}
"""Handles of functions that were requested."""
_variables: dict[int, tuple[Fatbin, str]] = {}


@entry("__cudaRegisterFatBinary", result=ctypes.c_uint64)
def register_fatbin(wrapper: int) -> int:
    made = Fatbin(wrapper)
    place = ctypes.addressof(made.handle)
    _fatbins[place] = made
    return place


@entry("__cudaRegisterFatBinaryEnd", result=ctypes.c_uint64)
def register_end(handle: int) -> int:
    return 0


@entry("__cudaUnregisterFatBinary", result=ctypes.c_uint64)
def unregister(handle: int) -> int:
    _fatbins.pop(handle, None)
    return 0


@entry("__cudaInitModule", result=ctypes.c_uint64)
def init_module(handle: int) -> int:
    if handle in _fatbins:
        _fatbins[handle].image()
    return 1


@entry("__cudaRegisterFunction", result=ctypes.c_uint64)
def register_function(handle: int, host: int, device: int, name: int, limit: int, *places: int) -> int:
    _functions[host] = (_fatbins[handle], cmemory.text(name))
    return 0


@entry("__cudaRegisterVar", result=ctypes.c_uint64)
def register_variable(
    handle: int, host: int, device: int, name: int, external: int, size: int, constant: int, everywhere: int
) -> int:
    _variables[host] = (_fatbins[handle], cmemory.text(name))
    return 0


@entry("__cudaRegisterHostVar", result=ctypes.c_uint64)
def register_host_variable(handle: int, name: int, host: int, size: int) -> int:
    return 0


@entry("__cudaRegisterManagedVar", result=ctypes.c_uint64)
def register_managed(
    handle: int, pointer: int, device: int, name: int, external: int, size: int, constant: int, everywhere: int
) -> int:
    # The program reads the variable through its own pointer, which the runtime must fill first.
    fatbin = _fatbins[handle]
    fatbin.managed.append((pointer, cmemory.text(name)))
    _variables[pointer] = (fatbin, cmemory.text(name))
    return 0


@entry("__cudaRegisterUnifiedTable", result=ctypes.c_uint64)
def register_table(table: int) -> int:
    return 0


def function_of(host: int) -> Function:
    """The kernel for a host stub, or for a handle returned by __cudaGetKernel.

    Raises:
        CudaError: cudaErrorInvalidDeviceFunction; cudaErrorNoKernelImageForDevice and others for errors in the code.
    """
    from warpwright.driver.functions import function

    try:
        if host not in _functions:
            return function(host)
        fatbin, name = _functions[host]
        return fatbin.image().function(name)
    except CudaError as error:
        if error.code in (results.NOT_FOUND, results.INVALID_HANDLE):
            raise CudaError(results.INVALID_DEVICE_FUNCTION) from None
        raise


def symbol_of(host: int) -> tuple[int, int]:
    """Address and size of a device variable, by the address of its host shadow.

    Raises:
        CudaError: cudaErrorInvalidSymbol.
    """
    if host not in _variables:
        raise CudaError(INVALID_SYMBOL)
    fatbin, name = _variables[host]
    return fatbin.image().place(name)


@runtime("__cudaGetKernel")
def get_kernel_of_stub(place: int, host: int) -> None:
    """Called by a host stub before its first launch, once: errors in the code are reported by the launch."""
    cmemory.put64(place, _handle_of(host))


@runtime("cudaGetKernel", "cudaGetFuncBySymbol")
def get_kernel(place: int, host: int) -> None:
    function_of(host)
    cmemory.put64(place, _handle_of(host))


def _handle_of(host: int) -> int:
    """A handle that programs keep for all devices and across resets."""
    from warpwright.driver.functions import KernelHandle

    if host in _functions and host not in _kernels:
        fatbin, name = _functions[host]
        _kernels[host] = KernelHandle(fatbin.image, name)
    return _kernels[host].handle if host in _functions else host


@runtime("cudaGetSymbolAddress")
def symbol_address(place: int, host: int) -> None:
    cmemory.put64(place, symbol_of(host)[0])


@runtime("cudaGetSymbolSize")
def symbol_size(place: int, host: int) -> None:
    cmemory.put64(place, symbol_of(host)[1])
