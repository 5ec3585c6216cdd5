"""Finds which pages of managed memory the host has touched, without traps.

The pages of a range are those of a file in memory, mapped shared.  Such pages can be taken out of the process's page table without loss (``MADV_DONTNEED``); the
host's next access to one, also from within a system call, brings it back, and ``/proc/self/pagemap`` tells which are back.  On a read, Linux
brings up to 64 KiB around a page back too: the size of the pages that migrate.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from functools import cache

import numpy as np
import numpy.typing as npt

_FIXED, _SHARED, _PRIVATE, _ANONYMOUS, _NORESERVE = 0x10, 0x01, 0x02, 0x20, 0x4000
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_PRESENT_OR_SWAPPED = 62
"""The lowest bit of those of an entry of the page map that tell that a page is there."""


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


def _place(address: int, size_bytes: int, flags: int, file: int) -> None:
    found = _libc().mmap(address, size_bytes, _READ_WRITE, flags | _FIXED | _NORESERVE, file, 0)
    if found != address:
        raise OSError(ctypes.get_errno(), f"mapping {size_bytes:,} bytes at {address:#x}")


@cache
def can_see_touches() -> bool:
    """Whether this host lets a process see which of its pages are present."""
    if not hasattr(os, "memfd_create"):
        return False
    try:
        with mmap.mmap(-1, 2 * mmap.PAGESIZE) as probe:
            probe[0] = 1
            address = ctypes.addressof(ctypes.c_char.from_buffer(probe))
            found = _present(address, 2)
    except (OSError, BufferError):
        return False
    return bool(found[0]) and not found[1]


def _present(address: int, count: int) -> npt.NDArray[np.bool_]:
    """Which of the host's pages from an address on are in the process's page table."""
    with open("/proc/self/pagemap", "rb", buffering=0) as pages:
        pages.seek(address // mmap.PAGESIZE * 8)
        raw = pages.read(8 * count)
    entries = np.frombuffer(raw, np.uint64)
    if len(entries) != count:
        raise OSError(f"/proc/self/pagemap has {len(entries)} of {count} pages at {address:#x}")
    return (entries >> np.uint64(_PRESENT_OR_SWAPPED)).astype(np.bool_)


class HostTouches:
    """A range of fresh memory whose touched pages can be told.

    Args:
        address: a multiple of a page of the host.
        size_bytes: whole pages.

    Raises:
        OSError: the host refuses.
    """

    def __init__(self, address: int, size_bytes: int) -> None:
        self.address, self.size_bytes = address, size_bytes
        file = os.memfd_create("managed memory")
        try:
            os.ftruncate(file, size_bytes)
            _place(address, size_bytes, _SHARED, file)
        finally:
            os.close(file)

    def touched(self, page_bytes: int) -> npt.NDArray[np.bool_]:
        """By page of this size, whether any of its bytes was touched since :meth:`forget`."""
        present = _present(self.address, self.size_bytes // mmap.PAGESIZE)
        each = max(page_bytes // mmap.PAGESIZE, 1)
        return np.logical_or.reduceat(present, np.arange(0, len(present), each))

    def forget(self) -> None:
        """Begin again."""
        if _libc().madvise(self.address, self.size_bytes, mmap.MADV_DONTNEED):
            raise OSError(ctypes.get_errno(), "madvise")

    def end(self) -> None:
        """Leave zeros behind, as fresh private memory."""
        with contextlib.suppress(OSError):
            _place(self.address, self.size_bytes, _PRIVATE | _ANONYMOUS, -1)
