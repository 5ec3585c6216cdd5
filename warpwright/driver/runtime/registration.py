"""What nvcc's host code tells the runtime before main: fatbins, kernels by the address of their host stub, variables."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from warpwright.driver import c, results
from warpwright.driver.calls import CudaError, entry
from warpwright.driver.images import read_image
from warpwright.driver.runtime.calls import ensure, runtime
from warpwright.driver.state import Device, state
from warpwright.errors import UnsupportedError

if TYPE_CHECKING:
    from warpwright.driver.functions import Function, KernelHandle
    from warpwright.driver.modules import LoadedImage

INVALID_SYMBOL = 13
"""cudaErrorInvalidSymbol."""


@dataclass(eq=False)
class Fatbin:
    """One translation unit's device code; placed on the device when something of it is used first."""

    wrapper: int
    handle: ctypes.Array[ctypes.c_uint64] = field(default_factory=lambda: (ctypes.c_uint64 * 4)())
    managed: list[tuple[int, str]] = field(default_factory=list)
    _images: dict[Device, LoadedImage] = field(default_factory=dict)

    def image(self) -> LoadedImage:
        """The code on the calling thread's device.

        Raises:
            UnsupportedError: it has managed variables and was used on another device.
        """
        from warpwright.driver.modules import load

        ensure()
        device = state().device
        found = self._images.get(device)
        if found is None or not found.alive:
            if self.managed and any(one.alive for one in self._images.values()):
                raise UnsupportedError(
                    f"the managed variable {self.managed[0][1]} would have to be one variable on two devices: allocate it with cudaMallocManaged"
                )
            found = self._images[device] = load(read_image(self.wrapper), "program")
            for pointer, name in self.managed:
                c.put64(pointer, found.place(name)[0])
        return found


_fatbins: dict[int, Fatbin] = {}
_functions: dict[int, tuple[Fatbin, str]] = {}
_kernels: dict[int, KernelHandle] = {}
"""Handles of functions that were asked for."""
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
    _functions[host] = (_fatbins[handle], c.text(name))
    return 0


@entry("__cudaRegisterVar", result=ctypes.c_uint64)
def register_variable(
    handle: int, host: int, device: int, name: int, external: int, size: int, constant: int, everywhere: int
) -> int:
    _variables[host] = (_fatbins[handle], c.text(name))
    return 0


@entry("__cudaRegisterHostVar", result=ctypes.c_uint64)
def register_host_variable(handle: int, name: int, host: int, size: int) -> int:
    return 0


@entry("__cudaRegisterManagedVar", result=ctypes.c_uint64)
def register_managed(
    handle: int, pointer: int, device: int, name: int, external: int, size: int, constant: int, everywhere: int
) -> int:
    # The program reads the variable through a pointer of its own, which it lets the runtime fill first.
    fatbin = _fatbins[handle]
    fatbin.managed.append((pointer, c.text(name)))
    _variables[pointer] = (fatbin, c.text(name))
    return 0


@entry("__cudaRegisterUnifiedTable", result=ctypes.c_uint64)
def register_table(table: int) -> int:
    return 0


def function_of(host: int) -> Function:
    """The kernel of a host stub, or of a handle that __cudaGetKernel gave.

    Raises:
        CudaError: cudaErrorInvalidDeviceFunction.
    """
    from warpwright.driver.functions import function

    if host not in _functions:
        try:
            return function(host)
        except CudaError:
            raise CudaError(results.INVALID_DEVICE_FUNCTION) from None
    fatbin, name = _functions[host]
    try:
        return fatbin.image().function(name)
    except CudaError as error:
        if error.code == results.NOT_FOUND:
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


@runtime("__cudaGetKernel", "cudaGetKernel", "cudaGetFuncBySymbol")
def get_kernel(place: int, host: int) -> None:
    """A handle that programs keep, whichever device they use it on, and over resets."""
    from warpwright.driver.functions import KernelHandle

    function_of(host)
    if host in _functions and host not in _kernels:
        fatbin, name = _functions[host]
        _kernels[host] = KernelHandle(fatbin.image, name)
    c.put64(place, _kernels[host].handle if host in _functions else host)


@runtime("cudaGetSymbolAddress")
def symbol_address(place: int, host: int) -> None:
    c.put64(place, symbol_of(host)[0])


@runtime("cudaGetSymbolSize")
def symbol_size(place: int, host: int) -> None:
    c.put64(place, symbol_of(host)[1])
