"""Device code (modules, libraries on a device) and its functions: attributes, parameters, launch state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from warpwright.chips import OccupancyError, occupancy
from warpwright.driver import cmemory, printf_buffer, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import Context, in_context, state
from warpwright.engine.geometry import Dim3
from warpwright.errors import KernelNotFoundError, UnsupportedError
from warpwright.toolchain import CompiledModule

if TYPE_CHECKING:
    from warpwright.chips import Partition
    from warpwright.engine.access_policy import AccessWindow
    from warpwright.kernel import Kernel, Launcher
    from warpwright.toolchain import Kernel as CubinKernel

DEFAULT_SHARED_BYTES = 48 << 10
"""Shared memory available to a block without opting in (CUDA C++ Programming Guide, 7.x and later)."""
_CLUSTER_WIDTHS = (11, 12, 13)
NON_PORTABLE = 14
PORTABLE_CLUSTER = 8
"""Blocks of the largest cluster that every chip with clusters can run (CUDA C++ Programming Guide, "Thread Block
Clusters")."""
_MAX_DYNAMIC_SHARED, _CARVEOUT = 8, 9
CACHE_CONFIGURATIONS, BANK_SIZES = range(4), range(3)
"""CUfunc_cache and CUsharedconfig."""


class LoadedImage:
    """A module, or a library as it is placed, on a device."""

    of_null: ClassVar[int] = results.INVALID_HANDLE

    def __init__(self, compiled: CompiledModule, context: Context) -> None:
        from warpwright.engine.module import load_module
        from warpwright.kernel import Module

        s = state()
        self.context = context
        self.module = Module(s.gpu, load_module(compiled, s.gpu.memory))
        self.functions: dict[str, Function] = {}
        self.handle = s.handles.add(self)
        self.alive = True
        context.modules.append(self)

    @property
    def compiled(self) -> CompiledModule:
        return self.module._loaded.compiled

    def function(self, name: str) -> Function:
        """A kernel by its symbol.

        Raises:
            CudaError: CUDA_ERROR_NOT_FOUND; CUDA_ERROR_NO_BINARY_FOR_GPU for one that the chip cannot run.
        """
        if name in self.compiled.refused:
            raise CudaError(results.NO_BINARY_FOR_GPU, self.compiled.refused[name])
        if name not in self.compiled.kernels:
            raise CudaError(results.NOT_FOUND if name else results.INVALID_VALUE)
        if name not in self.functions:
            self.functions[name] = Function(self, name)
        return self.functions[name]

    def place(self, name: str) -> tuple[int, int]:
        """Address and size of a global variable."""
        try:
            allocation = self.module._loaded.place(name)
        except KernelNotFoundError:
            raise CudaError(results.NOT_FOUND) from None
        return allocation.address, allocation.size_bytes

    def variable(self, name: str) -> tuple[int, int]:
        """Address and size of a global variable that a program asks for.

        Raises:
            CudaError: CUDA_ERROR_NOT_FOUND; CUDA_ERROR_INVALID_VALUE for the name of a kernel.
        """
        if name in self.compiled.kernels:
            raise CudaError(results.INVALID_VALUE)
        return self.place(name)

    def share(self, name: str, other: LoadedImage) -> None:
        """Share a global variable with the same code on another device: a managed variable, one for both.

        Raises:
            UnsupportedError: if the code refers to the variable's whole section.
        """
        there, here = other.module._loaded, self.module._loaded
        variable = there.place(name)
        if there.memory.find(variable.address) is not variable:
            raise UnsupportedError(
                f"the managed variable {name} would have to be one variable on two devices, and the code addresses it together with "
                "others: allocate it with cudaMallocManaged"
            )
        there.memory.show_to(here.memory, variable)
        seen = here.memory.find(variable.address)
        assert seen is not None
        here.variables[name] = seen

    def unload(self) -> None:
        """Remove it from the device."""
        printf_buffer.flush()
        s = state()
        if not self.alive:
            return
        self.alive = False
        self.module._loaded.unload()
        for function in self.functions.values():
            s.handles.drop(function.handle)
        s.handles.drop(self.handle)
        if self in self.context.modules:
            self.context.modules.remove(self)


class Function:
    """A kernel of a module.  Its code is decoded when it is first launched."""

    def __init__(self, image: LoadedImage, symbol: str) -> None:
        self.image = image
        self.symbol = symbol
        self.handle = state().handles.add(self)
        self.attributes: dict[int, int] = {}
        self.launchers: dict[tuple[Dim3, Dim3, int, Dim3 | None, Partition | None, AccessWindow | None], Launcher] = {}
        self._kernel: Kernel | None = None
        self.parameters = [
            (p.offset_bytes, p.size_bytes) for p in sorted(self.record.parameters, key=lambda p: p.ordinal)
        ]
        self.parameter_bytes = max((offset + size for offset, size in self.parameters), default=0)

    @property
    def record(self) -> CubinKernel:
        return self.image.compiled.kernels[self.symbol]

    @property
    def kernel(self) -> Kernel:
        """The kernel of the engine."""
        if self._kernel is None:
            from warpwright.kernel import Kernel

            self._kernel = Kernel(self.image.module, self.symbol)
        return self._kernel

    @property
    def static_shared_bytes(self) -> int:
        return self.record.shared_static_bytes - self.record.shared_reserved_bytes

    @property
    def dynamic_shared_limit(self) -> int:
        """Maximum dynamic shared memory of a launch."""
        return self.attributes.get(_MAX_DYNAMIC_SHARED, DEFAULT_SHARED_BYTES - self.static_shared_bytes)

    def max_threads(self) -> int:
        """Threads of the largest block whose registers fit an SM."""
        chip = self.image.context.device.gpu.chip
        most = min(self.record.max_threads_per_block, chip.sm.max_threads_per_block)
        while most > 32:
            try:
                occupancy(chip, most, self.record.registers)
            except OccupancyError:
                most = (most - 1) // 32 * 32
            else:
                break
        return most

    @property
    def cluster(self) -> Dim3 | None:
        """Blocks of a cluster, if the kernel or an attribute of the function specifies them."""
        x, y, z = (self.attributes.get(n, 0) for n in _CLUSTER_WIDTHS)
        return (x, y, z) if x and y and z else self.record.cluster

    def attribute(self, number: int) -> int:
        """A CUfunction_attribute.

        Raises:
            CudaError: if there is no such attribute.
        """
        record = self.record
        cluster = self.cluster or (0, 0, 0)
        values = {
            1: self.static_shared_bytes,
            2: sum(len(b) for n, b in record.constant_banks.items() if n == 3),
            3: record.stack_bytes,
            4: record.registers,
            5: self.image.compiled.module.ptx_version,
            6: record.arch,
            7: 0,
            _MAX_DYNAMIC_SHARED: self.dynamic_shared_limit,
            _CARVEOUT: self.attributes.get(_CARVEOUT, -1),
            10: int(record.cluster is not None),
            **dict(zip(_CLUSTER_WIDTHS, cluster, strict=True)),
            NON_PORTABLE: self.attributes.get(NON_PORTABLE, 0),
            15: self.attributes.get(15, 0),
        }
        if number == 0:
            return self.max_threads()
        if number not in values:
            raise CudaError(results.INVALID_VALUE)
        return values[number]

    def set_attribute(self, number: int, value: int) -> None:
        """Change a writable attribute.

        Raises:
            CudaError: if the attribute is read-only, or the value out of range.
        """
        shared = self.image.context.device.gpu.chip.shared.shared_max_per_block_kib * 1024
        if number == _MAX_DYNAMIC_SHARED:
            if not 0 <= value <= shared - self.static_shared_bytes:
                raise CudaError(results.INVALID_VALUE)
        elif number == _CARVEOUT:
            if not -1 <= value <= 100:
                raise CudaError(results.INVALID_VALUE)
        elif number not in (*_CLUSTER_WIDTHS, NON_PORTABLE, 15):
            raise CudaError(results.INVALID_VALUE)
        self.attributes[number] = value


class KernelHandle:
    """A CUkernel: a kernel of code that belongs to no context; each device has its own function."""

    def __init__(self, image: Callable[[], LoadedImage], symbol: str, library: int = 0) -> None:
        self.library = library
        self.handle = state().handles.add(self)
        self._image, self._symbol = image, symbol

    def function(self) -> Function:
        """The function of the calling thread's device."""
        return self._image().function(self._symbol)


def function(handle: int, device: int | None = None) -> Function:
    """The function of a CUfunction, or of a CUkernel on a device: the calling thread's unless one is given."""
    s = state()
    found = s.handles.find(handle)
    if isinstance(found, KernelHandle):
        if device is None or device == s.device.ordinal:
            return found.function()
        with in_context(s.device_of(device).primary):
            return found.function()
    if not isinstance(found, Function):
        raise CudaError(results.INVALID_HANDLE)
    return found


@entry("cuFuncGetAttribute")
def get_attribute(place: int, number: int, handle: int) -> None:
    if state().stack:
        state().current()
    cmemory.put32(place, function(handle).attribute(number) & 0xFFFF_FFFF)


@entry("cuKernelGetAttribute")
def kernel_attribute(place: int, number: int, handle: int, device: int) -> None:
    cmemory.put32(place, function(handle, device).attribute(number) & 0xFFFF_FFFF)


@entry("cuFuncSetAttribute")
def set_attribute(handle: int, number: int, value: int) -> None:
    function(handle).set_attribute(number, value)


@entry("cuKernelSetAttribute")
def set_kernel_attribute(number: int, value: int, handle: int, device: int) -> None:
    function(handle, device).set_attribute(number, value)


@entry("cuFuncSetCacheConfig")
def set_cache_config(handle: int, value: int) -> int | None:
    function(handle)
    return None if value in CACHE_CONFIGURATIONS else results.INVALID_VALUE


@entry("cuFuncSetSharedMemConfig")
def set_bank_size(handle: int, value: int) -> int | None:
    function(handle)
    return None if value in BANK_SIZES else results.INVALID_VALUE


@entry("cuKernelSetCacheConfig")
def set_kernel_cache_config(handle: int, value: int, device: int) -> None:
    function(handle)


@entry("cuFuncGetModule")
def get_module(place: int, handle: int) -> None:
    cmemory.put64(place, function(cmemory.given(handle)).image.handle)


@entry("cuKernelGetLibrary")
def get_library(place: int, handle: int) -> None:
    cmemory.put64(place, state().handles.get(KernelHandle, handle).library)


@entry("cuKernelGetFunction")
def get_function(place: int, handle: int) -> None:
    cmemory.put64(place, function(handle).handle)


@entry("cuFuncGetName", "cuKernelGetName")
def get_name(place: int, handle: int) -> None:
    cmemory.put64(place, cmemory.static_text(function(cmemory.given(handle)).symbol))


@entry("cuFuncGetParamInfo", "cuKernelGetParamInfo")
def parameter(handle: int, index: int, offset: int, size: int) -> int | None:
    found = function(handle).parameters
    if not offset or index >= len(found):
        return results.INVALID_VALUE
    cmemory.put64(offset, found[index][0])
    cmemory.put64(size, found[index][1])
    return None


@entry("cuFuncIsLoaded")
def is_loaded(place: int, handle: int) -> None:
    function(handle)
    cmemory.put32(place, 1)


@entry("cuFuncLoad")
def load(handle: int) -> None:
    # Code is decoded at the first launch anyway, because a kernel that is loaded but never run may contain unsupported instructions.
    function(handle)


@entry("cuFuncSetBlockShape", "cuFuncSetSharedSize", "cuParamSetSize", "cuLaunch", "cuLaunchGrid", "cuLaunchGridAsync")
def ancient(*_: int) -> int:
    return results.NOT_SUPPORTED
