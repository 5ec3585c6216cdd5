"""Arrays in device memory, which keep their contents between launches, and variables of modules.

Device memory is host memory at another address, so a device array shares its bytes with NumPy without a copy:
``array.numpy()`` and DLPack (as CPU memory) give views, ``__cuda_array_interface__`` gives the device address
for programs that run on the simulated device.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.allocation import Allocation
from warpwright.engine.device_memory import DeviceMemory
from warpwright.errors import ArgumentError, FreedArrayError

Array = npt.NDArray[Any]


class _Window:
    """The owner that NumPy keeps alive for a view of device memory."""

    def __init__(self, owner: DeviceArray | Symbol, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def _view(
    owner: DeviceArray | Symbol, memory: DeviceMemory, address: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> Array:
    """A NumPy array over device bytes, which keeps ``owner`` alive."""
    nbytes = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    interface = {"version": 3, "shape": (nbytes,), "typestr": "|u1", "data": (memory.host_pointer(address), False)}
    raw: npt.NDArray[np.uint8] = np.asarray(_Window(owner, interface))
    return raw.view(dtype).reshape(shape)


class DeviceArray:
    """An array in the memory of a simulated GPU.  Made by ``gpu.array``, ``gpu.empty`` and ``gpu.zeros``.

    As a kernel argument it is passed by address, without a copy.  Its memory is freed by :meth:`free` or when the
    last reference to it (views included) is dropped.
    """

    def __init__(self, memory: DeviceMemory, shape: tuple[int, ...], dtype: np.dtype[Any], name: str = "") -> None:
        if dtype.hasobject:
            raise ArgumentError("an array of Python objects cannot be in device memory")
        if any(size < 0 for size in shape):
            raise ArgumentError(f"an array of shape {shape}: no size may be negative")
        self.shape = shape
        self.dtype = dtype
        self.size = int(np.prod(shape, dtype=np.int64))
        self.nbytes = self.size * dtype.itemsize
        label = f"array {name!r}" if name else f"array {dtype}[{', '.join(map(str, shape))}]"
        self.memory = memory
        self._allocation = memory.allocate(self.nbytes, label, undefined=True, of_program=True)
        self._finalizer = weakref.finalize(self, memory.abandon, self._allocation)
        self._finalizer.atexit = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def freed(self) -> bool:
        return self._allocation.freed

    @property
    def allocation(self) -> Allocation:
        """The allocation of device memory that holds the array."""
        return self._allocation

    def device_address(self) -> int:
        """Device address of the first element.

        Raises:
            FreedArrayError: the array was freed.
        """
        if self._allocation.freed:
            raise FreedArrayError(
                f"{self._allocation.name} was used after it was freed; make a new one with gpu.array(...)"
            )
        return self._allocation.address

    def free(self) -> None:
        """Free the memory at once.  Existing views show what is allocated there next.

        Raises:
            FreedArrayError: the array was already freed.
        """
        self.memory.free(self._allocation)

    def numpy(self) -> Array:
        """Return a NumPy view of the array: no copy is made, and writes change the device memory."""
        # Whoever holds the view may write: whether he does can not be seen.
        if self.memory.observer is not None:
            self.memory.observer.filled(self.device_address(), self.nbytes)
        if self.memory.host_watch is not None:
            self.memory.host_watch(self.device_address(), self.nbytes, True)
        return self._contents()

    def _contents(self) -> Array:
        return _view(self, self.memory, self.device_address(), self.dtype, self.shape)

    def get(self) -> Array:
        """Return a copy as a NumPy array."""
        if self.memory.host_watch is not None:
            self.memory.host_watch(self.device_address(), self.nbytes, True)
        return self._contents().copy()

    def set(self, values: npt.ArrayLike) -> None:
        """Copy host values to the array; they are broadcast to its shape and cast to its dtype.

        Raises:
            ArgumentError: the values cannot be broadcast to the array's shape.
        """
        given = np.asarray(values)
        if self.memory.host_watch is not None:
            self.memory.host_watch(self.device_address(), self.nbytes, False)
        try:
            self.numpy()[...] = given
        except ValueError:
            raise ArgumentError(
                f"{self!r} takes values of shape {self.shape}, or what broadcasts to it, not {given.shape}"
            ) from None

    def __getitem__(self, index: Any) -> Any:
        """A copy on the host of an element or a slice, indexed as in NumPy."""
        if self.memory.host_watch is not None:
            self.memory.host_watch(self.device_address(), self.nbytes, True)
        part = self._contents()[index]
        return part.copy() if isinstance(part, np.ndarray) else part

    def __setitem__(self, index: Any, values: npt.ArrayLike) -> None:
        """Copy host values into an element or a slice, indexed and broadcast as in NumPy."""
        self.numpy()[index] = np.asarray(values)

    def __iter__(self) -> Iterator[Any]:
        """The elements or rows of a copy on the host."""
        return iter(self.get())

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if self.memory.host_watch is not None:
            self.memory.host_watch(self.device_address(), self.nbytes, True)
        view = self._contents() if copy is not False else self.numpy()
        if dtype is not None and np.dtype(dtype) != self.dtype:
            return view.astype(dtype)
        return view if copy is False else view.copy()

    def __dlpack__(self, **options: Any) -> Any:
        """DLPack capsule of the host-visible bytes (device type CPU): no copy."""
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """(kDLCPU, 0): the simulated device's memory is host memory."""
        return (1, 0)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the CUDA array interface, with the device address: for code on the simulated device."""
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "data": (self.device_address(), False),
            "strides": None,
            "stream": None,
        }

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-dimensional device array")
        return self.shape[0]

    def __repr__(self) -> str:
        state = "freed" if self.freed else f"at {self._allocation.address:#x}"
        return f"<device array {self.dtype}[{', '.join(map(str, self.shape))}] {state}>"


class Symbol:
    """A global or ``__constant__`` variable of a module."""

    def __init__(self, memory: DeviceMemory, allocation: Allocation, name: str) -> None:
        self.name = name
        self.nbytes = allocation.size_bytes
        self.memory = memory
        self._allocation = allocation

    def device_address(self) -> int:
        """Device address of the first byte."""
        return self._allocation.address

    def numpy(self, dtype: npt.DTypeLike = np.uint8) -> Array:
        """Return a NumPy view of the variable, of shape (number of elements,): no copy is made, and writes change it."""
        wanted = np.dtype(dtype)
        if self.nbytes % wanted.itemsize:
            raise ArgumentError(f"symbol '{self.name}' has {self.nbytes} bytes: not a whole number of {wanted}")
        return _view(self, self.memory, self._allocation.address, wanted, (self.nbytes // wanted.itemsize,))

    def get(self, dtype: npt.DTypeLike = np.uint8) -> Array:
        """Return a copy of the variable as an array of ``dtype``."""
        return self.numpy(dtype).copy()

    def set(self, values: Any) -> None:
        """Copy a NumPy array, a scalar or bytes to the variable.

        Raises:
            ArgumentError: their size is not that of the variable.
        """
        if isinstance(values, bytes | bytearray | memoryview):
            raw = np.frombuffer(values, dtype=np.uint8)
        else:
            array = np.ascontiguousarray(values)
            if not isinstance(values, np.ndarray | np.generic):
                raise ArgumentError(
                    f"symbol '{self.name}' takes a NumPy array or scalar of {self.nbytes} bytes, "
                    f"with a dtype, not a {type(values).__name__}"
                )
            raw = array.reshape(-1).view(np.uint8)
        if raw.nbytes != self.nbytes:
            raise ArgumentError(f"symbol '{self.name}' has {self.nbytes} bytes, the value {raw.nbytes}")
        self.numpy()[...] = raw

    def __repr__(self) -> str:
        return f"<symbol '{self.name}', {self.nbytes} bytes at {self._allocation.address:#x}>"
