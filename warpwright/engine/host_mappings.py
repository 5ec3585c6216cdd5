"""Mappings of the host's address space that serve as device memory, and the addresses of those of several devices.

A mapping is reserved, not committed: a page takes host memory once it is first written.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import sys
from functools import cache

import numpy as np

from warpwright.engine.abi import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from warpwright.engine.allocation import Bytes
from warpwright.errors import OutOfMemoryError

SMALLEST_MAPPING_BYTES = 1 << 26

UNIFIED_BASE = 0x2000_0000_0000
"""Base address for devices with unified addresses: a part of the address space that Linux does not otherwise use
(programs are below 2**46 + 2**44 only at their own low addresses, libraries and stacks near 2**47), the same in every
process, because addresses determine cache sets and memory channels."""
UNIFIED_SPACING_BYTES = 1 << 40
"""Distance between the memories of two devices of one process."""
MOST_DEVICES = 16
"""Maximum number of devices of one process."""
MANAGED_TIMES = 4
"""Of a device's memory, the addresses that it reserves, for managed memory."""
UNIFIED_ROUNDS = 3
"""Number of times that this part has room for so many devices."""
UNIFIED_PLACE_BYTES = 1 << 38
"""Maximum part of its range that a device's memory takes; another memory of the same number, not yet freed, may be next
to it."""

_MAP_FIXED, _MAP_FIXED_NOREPLACE = 0x10, 0x100000
_NO_ACCESS = 0
_READ_AND_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_MAP_NORESERVE = 0x4000 if sys.platform.startswith("linux") else 0


def reserve(wanted_bytes: int) -> mmap.mmap:
    """A zero-filled private mapping of ``wanted_bytes``, or of the largest halving of it that the host grants."""
    size = wanted_bytes
    while True:
        try:
            if sys.platform == "win32":
                return mmap.mmap(-1, size)
            return mmap.mmap(
                -1,
                size,
                flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE,
                prot=_READ_AND_WRITE,
            )
        except (OSError, ValueError, OverflowError) as refusal:
            if size <= SMALLEST_MAPPING_BYTES:
                raise OutOfMemoryError(
                    f"the host refuses to reserve even {size >> 20} MiB of address space for device memory: {refusal}; "
                    "raise its limit (ulimit -v)"
                ) from refusal
            size = max(size // 2 // mmap.PAGESIZE * mmap.PAGESIZE, SMALLEST_MAPPING_BYTES)


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


def replace_pages(
    address: int, size_bytes: int, file: int = -1, offset_bytes: int = 0, *, shared: bool = False
) -> None:
    """Replace the pages at ``address`` by those of a file, which other mappings of it share, or by fresh ones.

    Args:
        shared: fresh pages are shared with processes that are forked later.

    Raises:
        OSError: the host refuses.
    """
    fresh = mmap.MAP_ANONYMOUS if file < 0 else 0
    visible = mmap.MAP_SHARED if shared or file >= 0 else mmap.MAP_PRIVATE
    flags = visible | fresh | _MAP_NORESERVE | _MAP_FIXED
    if _libc().mmap(address, size_bytes, _READ_AND_WRITE, flags, file, offset_bytes) != address:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class PlacedMapping:
    """A private mapping at a chosen address, which Python's mmap does not offer."""

    def __init__(self, address: int, size_bytes: int, protection: int = _READ_AND_WRITE) -> None:
        libc = _libc()
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE | _MAP_FIXED_NOREPLACE
        found = libc.mmap(address, size_bytes, protection, flags, -1, 0)
        if found != address:
            if found not in (None, ctypes.c_void_p(-1).value):
                libc.munmap(found, size_bytes)
            raise OSError(ctypes.get_errno(), f"no room for {size_bytes >> 20} MiB at {address:#x}")
        self._libc, self._address = libc, address
        self.__array_interface__ = {"version": 3, "shape": (size_bytes,), "typestr": "|u1", "data": (address, False)}
        self._size_bytes = size_bytes

    def __len__(self) -> int:
        return self._size_bytes

    def madvise(self, option: int, start: int, length: int) -> None:
        if self._libc.madvise(self._address + start, length, option):
            raise OSError(ctypes.get_errno(), "madvise")

    def __del__(self) -> None:
        if hasattr(self, "_address"):
            self._libc.munmap(self._address, self._size_bytes)


def _reserve_at(address: int, wanted_bytes: int) -> PlacedMapping | None:
    """A mapping at ``address``, smaller if the host grants no more; None if the address range is in use."""
    size = wanted_bytes
    while size >= SMALLEST_MAPPING_BYTES:
        try:
            return PlacedMapping(address, size)
        except (OSError, AttributeError) as refusal:
            if getattr(refusal, "errno", 0) != errno.ENOMEM:
                break
            size = size // 2 // mmap.PAGESIZE * mmap.PAGESIZE
    return None


@cache
def keep_windows_clear() -> list[PlacedMapping]:
    """Reserve the host addresses of the shared and local windows, so that no pointer that a device shares with the host
    is in one.

    An access there would be taken for an access to shared or local memory. Parts that are already mapped are left
    alone.
    """
    end = LOCAL_WINDOW + WINDOW_BYTES
    # In one piece, or around existing mappings.
    for step in (end - SHARED_WINDOW, WINDOW_BYTES) if sys.platform.startswith("linux") else ():
        taken: list[PlacedMapping] = []
        for start in range(SHARED_WINDOW, end, step):
            with contextlib.suppress(OSError, AttributeError):
                taken.append(PlacedMapping(start, step, _NO_ACCESS))
        if taken:
            return taken
    return []


def reserve_unified(ordinal: int, size_bytes: int) -> mmap.mmap | PlacedMapping:
    """A mapping at the first free position for a device of this number, or anywhere if all are taken; larger than the
    device, because managed memory may be."""
    wanted_bytes = max(size_bytes, min(MANAGED_TIMES * size_bytes, UNIFIED_PLACE_BYTES))
    for number in range(UNIFIED_ROUNDS):
        part = UNIFIED_BASE + (number * MOST_DEVICES + ordinal) * UNIFIED_SPACING_BYTES
        for address in range(part, part + UNIFIED_SPACING_BYTES, UNIFIED_PLACE_BYTES):
            found = _reserve_at(address, wanted_bytes)
            if found is not None:
                return found
    return reserve(wanted_bytes)


def bytes_of(mapping: mmap.mmap | PlacedMapping) -> Bytes:
    return np.asarray(mapping) if isinstance(mapping, PlacedMapping) else np.frombuffer(mapping, dtype=np.uint8)


def device_number_at(address: int) -> int | None:
    """The number of the device whose part of the unified address space contains ``address``; None if there is none."""
    part = (address - UNIFIED_BASE) // UNIFIED_SPACING_BYTES
    return part % MOST_DEVICES if 0 <= part < UNIFIED_ROUNDS * MOST_DEVICES else None
