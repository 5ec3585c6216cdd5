"""The driver's error log, as programs read it.  Errors follow an H200's driver (13.0)."""

from __future__ import annotations

import ctypes
from pathlib import Path

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.error_log import KEPT_BYTES, log


@entry("cuLogsRegisterCallback")
def register(function: int, data: int, place: int) -> int | None:
    if not function:
        return results.INVALID_VALUE
    cmemory.put64(place, log.tell(function, data))
    return None


@entry("cuLogsUnregisterCallback")
def unregister(number: int) -> int | None:
    return None if log.tell_no_longer(number) else results.INVALID_VALUE


@entry("cuLogsCurrent")
def current(place: int, flags: int) -> int | None:
    if not place:
        return results.INVALID_VALUE
    cmemory.put32(place, log.following)
    return None


def _lines(iterator: int, room: int) -> bytes:
    """Lines from an iterator on, or all lines without one; the iterator advances past them.

    Raises:
        CudaError: if there is no room for a single line.
    """
    found = log.since(cmemory.get32(iterator) if iterator else 0, room)
    if found is None:
        raise CudaError(results.INVALID_VALUE)
    cmemory.put32(iterator, log.following)
    return found


@entry("cuLogsDumpToFile")
def dump_to_file(iterator: int, path: int, flags: int) -> int | None:
    lines = _lines(iterator, KEPT_BYTES)
    try:
        Path(cmemory.text(path)).write_bytes(lines)
    except OSError:
        return results.INVALID_VALUE
    return None


@entry("cuLogsDumpToMemory")
def dump_to_memory(iterator: int, buffer: int, size: int, flags: int) -> int | None:
    if not buffer or not size:
        return results.INVALID_VALUE
    room = cmemory.get64(size)
    cmemory.put64(size, 0)
    lines = _lines(iterator, max(room - 1, 0))
    ctypes.memmove(buffer, lines + b"\0", len(lines) + 1)
    cmemory.put64(size, len(lines))
    return None
