"""Reads and writes the caller's memory: numbers at pointers, C strings, structures as tuples."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from warpwright.driver import results
from warpwright.driver.cuda_error import CudaError

_UINT32, _UINT64, _INT32 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32


def put32(pointer: int, value: int) -> None:
    """Store an int or unsigned int; nothing for a null pointer."""
    if pointer:
        _UINT32.from_address(pointer).value = value


def put64(pointer: int, value: int) -> None:
    """Store a size, handle or address; nothing for a null pointer."""
    if pointer:
        _UINT64.from_address(pointer).value = value


def put_float(pointer: int, value: float) -> None:
    if pointer:
        ctypes.c_float.from_address(pointer).value = value


def given(pointer: int) -> int:
    """A pointer that must not be null.

    Raises:
        CudaError: CUDA_ERROR_INVALID_VALUE for a null pointer.
    """
    if not pointer:
        raise CudaError(results.INVALID_VALUE)
    return pointer


def get32(pointer: int) -> int:
    """The unsigned int at an address."""
    return _UINT32.from_address(given(pointer)).value


def get64(pointer: int) -> int:
    """The 64-bit word at an address."""
    return _UINT64.from_address(given(pointer)).value


def words64(pointer: int, count: int) -> list[int]:
    """``count`` pointers or sizes of an array."""
    return list((_UINT64 * count).from_address(given(pointer))) if count else []


def read(layout: str, pointer: int) -> tuple[Any, ...]:
    """A structure with native alignment, as :mod:`struct` describes it."""
    return struct.unpack(layout, ctypes.string_at(given(pointer), struct.calcsize(layout)))


def write(layout: str, pointer: int, *values: Any) -> None:
    """Store a structure with native alignment."""
    raw = struct.pack(layout, *values)
    ctypes.memmove(given(pointer), raw, len(raw))


def text(pointer: int) -> str:
    """A C string."""
    return ctypes.string_at(given(pointer)).decode(errors="replace")


def put_text(pointer: int, value: str, room: int) -> None:
    """Store a C string, truncated to ``room`` bytes including its terminator."""
    raw = value.encode()[: max(room - 1, 0)] + b"\0"
    if room > 0:
        ctypes.memmove(given(pointer), raw, len(raw))


_kept: dict[str, Any] = {}


def static_text(value: str) -> int:
    """Address of a C string that lives as long as the process."""
    if value not in _kept:
        _kept[value] = ctypes.create_string_buffer(value.encode())
    return ctypes.addressof(_kept[value])
