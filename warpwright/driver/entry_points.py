"""The exports of the libraries: name and signature of every entry point of CUDA 12 and 13, and of NVML.

The tables ``data/driver.txt``, ``data/runtime12.txt``, ``data/runtime13.txt`` and ``data/nvml.txt`` are generated from
CUDA's public headers by ``python -m bench.entry_points``, which documents the letters.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import cache
from importlib import resources
from typing import Any, TypeAlias

VARIANTS = ("_ptsz", "_ptds")
"""Suffixes of the entry points used by programs with per-thread default streams."""


_GIVES_BACK = ("Free", "Destroy", "Unload", "Release", "Unregister", "SetCurrent", "Synchronize")


class Ending(Enum):
    """What a call does after the interpreter has shut down."""

    GONE = auto()
    """It returns CUDA_ERROR_DEINITIALIZED."""
    WELL = auto()
    """It returns CUDA_SUCCESS."""
    FIRST = auto()
    """It stores the number of the first device, or no event, and returns success."""
    SECOND = auto()
    """It stores in its second argument that no capture is active, and returns success."""
    INACTIVE = auto()
    """It stores that a context has no flags and is not active, and returns success."""
    TEXT = auto()
    """It returns the address of a text."""


_TEXTS = ("ErrorString", "ErrorName", "StatusString", "StatusName")


def ending(name: str) -> Ending:
    """How a call ends after the interpreter has shut down: PyTorch's destructors select the device of the resources
    that they release, and read errors."""
    # The driver's own functions of such names store the address and return a result.
    if (name.endswith(_TEXTS) and not name.startswith("cuGet")) or name == "ncclGetLastError":
        return Ending.TEXT
    if name == "cudaGetDevice" or "EventCreate" in name:
        return Ending.FIRST
    if "IsCapturing" in name:
        return Ending.SECOND
    if name == "cuDevicePrimaryCtxGetState":
        return Ending.INACTIVE
    return Ending.WELL if gives_back(name) or waits(name) or name == "cudaSetDevice" else Ending.GONE


def gives_back(name: str) -> bool:
    """Whether a call releases a resource, or waits for work that has ended, as destructors do.

    NVIDIA's driver serves such calls until the process runs its exit handlers, after an interpreter has shut down; the
    resources are then released with the process.
    """
    return any(word in name for word in _GIVES_BACK)


_WAITS = ("EventCreate", "EventRecord", "EventQuery", "WaitEvent", "IsCapturing")


def waits(name: str) -> bool:
    """Whether a call is one of those by which destructors learn that streams have finished with memory: PyTorch's allocators record an event in each stream that a
    block was last used in, for pinned memory and after ``record_stream``."""
    return any(word in name for word in _WAITS)


_ASKS = ("Get", "SetCurrent", "PushCurrent", "PopCurrent")


def asks(name: str) -> bool:
    """Whether destructors make this call before they release a resource: it reads a state or selects a context."""
    return any(word in name for word in _ASKS)


CLOSED_TEXT = b"driver shutting down"
"""The text that cudaGetErrorString returns for CUDA_ERROR_DEINITIALIZED."""
_closed_text = ctypes.create_string_buffer(CLOSED_TEXT)


def end_of(name: str, gone: int) -> Callable[[Sequence[Any]], int]:
    """What a call does after the end (:func:`ending`) while the interpreter still ends, as a function of the call's arguments.

    It returns ``gone`` for resources that no longer exist.  The function uses no module-level name, because the
    interpreter tears modules down before the last destructors run.
    """
    how = ending(name)
    result = {Ending.GONE: gone, Ending.TEXT: ctypes.addressof(_closed_text)}.get(how, 0)
    places = {Ending.FIRST: slice(0, 1), Ending.SECOND: slice(1, 2), Ending.INACTIVE: slice(1, 3)}.get(how, slice(0, 0))
    word_at = ctypes.c_uint32.from_address

    def end(arguments: Sequence[Any]) -> int:
        for place in arguments[places]:
            if place:
                word_at(place).value = 0
        return result

    return end


def called_by_destructors(name: str, letters: str) -> bool:
    """Whether destructors make a call: it releases a resource, or queries what that requires, with at most six integer
    arguments, which are passed in registers."""
    return (gives_back(name) or waits(name) or asks(name)) and len(letters) <= 6 and not set(letters) - set("iuQL")


class Dim3(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint32), ("y", ctypes.c_uint32), ("z", ctypes.c_uint32))


class Extent(ctypes.Structure):
    _fields_ = (("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t))


class PitchedPointer(ctypes.Structure):
    _fields_ = (
        ("pointer", ctypes.c_size_t),
        ("pitch", ctypes.c_size_t),
        ("x_size", ctypes.c_size_t),
        ("y_size", ctypes.c_size_t),
    )


class IpcHandle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * 64),)


class UniqueId(ctypes.Structure):
    """NCCL's ncclUniqueId."""

    _fields_ = (("internal", ctypes.c_char * 128),)


_TYPES: dict[str, Any] = {
    "i": ctypes.c_int32,
    "u": ctypes.c_uint32,
    "Q": ctypes.c_uint64,
    "f": ctypes.c_float,
    "d": ctypes.c_double,
    # A structure of eight bytes is passed in a register, like an integer.
    "L": ctypes.c_uint64,
    "D": Dim3,
    "E": Extent,
    "P": PitchedPointer,
    "I": IpcHandle,
    "N": UniqueId,
}


Record: TypeAlias = type[tuple[Any, ...]]
"""A named tuple: the arguments of a call of C, in its order."""


def spread(function: Callable[[Any], Any], record: Record) -> Callable[..., Any]:
    """A function of a call's record as a function of the call's arguments."""
    make: Callable[..., Any] = record
    return lambda *arguments: function(make(*arguments))


@cache
def table(library: str) -> dict[str, str]:
    """Signature by name, in the order of the library's table.

    Args:
        library: ``driver``, ``runtime12``, ``runtime13`` or ``nvml``.
    """
    rows = resources.files("warpwright.driver").joinpath(f"data/{library}.txt").read_text(encoding="utf-8").splitlines()
    return {name: "" if letters == "-" else letters for name, letters in (row.split() for row in rows)}


def plain(name: str) -> str:
    """The name without the suffix of its per-thread variant."""
    for suffix in VARIANTS:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def prototype(letters: str, result: Any = ctypes.c_int32) -> Any:
    """The ctypes type of a callback with this signature."""
    return ctypes.CFUNCTYPE(result, *(_TYPES[letter] for letter in letters))
