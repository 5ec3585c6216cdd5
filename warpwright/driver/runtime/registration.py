"""What nvcc's host code tells the runtime before main: fatbins, kernels by the address of their host stub, variables."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from warpwright.driver import c, results
from warpwright.driver.calls import CudaError, entry
from warpwright.driver.images import read_image
from warpwright.driver.runtime.calls import ensure, runtime

if TYPE_CHECKING:
    from warpwright.driver.functions import Function
    from warpwright.driver.modules import LoadedImage

INVALID_SYMBOL = 13
"""cudaErrorInvalidSymbol."""


@dataclass(eq=False)
class Fatbin:
    """One translation unit's device code; placed on the device when something of it is used first."""

    wrapper: int
    handle: ctypes.Array[ctypes.c_uint64] = field(default_factory=lambda: (ctypes.c_uint64 * 4)())
    managed: list[tuple[int, str]] = field(default_factory=list)
    _image: LoadedImage | None = None

    def image(self) -> LoadedImage:
        from warpwright.driver.modules import load

        ensure()
        if self._image is None or not self._image.alive:
            self._image = load(read_image(self.wrapper), "program")
            for pointer, name in self.managed:
                c.put64(pointer, self._image.place(name)[0])
        return self._image


_fatbins: dict[int, Fatbin] = {}
_functions: dict[int, tuple[Fatbin, str]] = {}
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
    from warpwright.driver.functions import Function
    from warpwright.driver.state import state

    if host not in _functions:
        known = state().handles.find(host)
        if isinstance(known, Function):
            return known
        raise CudaError(results.INVALID_DEVICE_FUNCTION)
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
    c.put64(place, function_of(host).handle)


@runtime("cudaGetSymbolAddress")
def symbol_address(place: int, host: int) -> None:
    c.put64(place, symbol_of(host)[0])


@runtime("cudaGetSymbolSize")
def symbol_size(place: int, host: int) -> None:
    c.put64(place, symbol_of(host)[1])
