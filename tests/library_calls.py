"""The drop-in math libraries as a C program sees them, through ctypes: for their tests."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.driver_library import Driver, attached

Array = NDArray[Any]


class Library(Driver):
    """Calls of a library by name; every call is checked, and what it stores is returned."""

    def raw(self, name: str, *arguments: Any) -> int:
        """The status of a call: integers are 64-bit words, arrays their addresses, other ctypes values as they are."""
        return int(self.library[name](*(_word(a) for a in arguments)))


def _word(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_uint64(value.ctypes.data)
    return ctypes.c_uint64(value & (1 << 64) - 1) if isinstance(value, int | np.integer) else value


class Device:
    """Device memory; a simulated device's addresses are the process's."""

    def __init__(self, cuda: Driver) -> None:
        self.cuda = cuda
        self._held: list[int] = []

    def put(self, array: Array) -> int:
        """A copy of an array as it is in memory."""
        flat = np.ascontiguousarray(array).reshape(-1) if not array.flags.f_contiguous else array.reshape(-1, order="F")
        address = int(self.cuda.word("cuMemAlloc_v2", max(flat.nbytes, 16)))
        self._held.append(address)
        ctypes.memmove(address, flat.ctypes.data, flat.nbytes)
        return address

    def get(self, address: int, type: Any, shape: Sequence[int], order: Any = "F") -> Array:
        """An array from device memory, once the device has done its work."""
        self.cuda("cuCtxSynchronize")
        count = int(np.prod(shape))
        raw = ctypes.string_at(address, count * np.dtype(type).itemsize)
        return np.frombuffer(raw, type).reshape(shape, order=order).copy()

    def free(self) -> None:
        for address in self._held:
            self.cuda("cuMemFree_v2", address)
        self._held.clear()


def values(seed: int, shape: tuple[int, ...], type: Any) -> Array:
    """An array of normally distributed numbers, the first index fastest; complex where its type is."""
    random = np.random.default_rng(seed)
    found = random.standard_normal(shape)
    if np.issubdtype(type, np.complexfloating):
        found = found + 1j * random.standard_normal(shape)
    return np.asfortranarray(found.astype(type))


def scalar(value: complex, type: Any) -> Array:
    """A number in memory, for a call that takes its address; of a real type its real part."""
    return np.array([value if np.issubdtype(type, np.complexfloating) else np.real(value)], type)


@contextmanager
def device() -> Iterator[Device]:
    """The memory of an A100 in this process."""
    with attached() as cuda:
        yield Device(cuda)


def bfloat(array: Array) -> Array:
    """float32 values as the bits of bfloat16, rounded to nearest even."""
    bits = array.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bfloat(bits: Array) -> Array:
    """The float32 values of bits of bfloat16."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
