"""Output of kernels' printf: buffered until the program synchronises, then written to C's standard output.

The C library's buffer is used, so that device and host output keep their order; a Python program's own buffer is
flushed first.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

_waiting = bytearray()
BUFFER_BYTES = 1 << 20
"""The default of cudaLimitPrintfFifoSize: output beyond it before the program synchronises is lost."""


def keep(text: bytes) -> None:
    """Buffer the output of a launch."""
    room = BUFFER_BYTES - len(_waiting)
    _waiting.extend(text[: max(room, 0)])


def flush() -> None:
    """Write the buffered output."""
    if not _waiting:
        return
    text = bytes(_waiting)
    _waiting.clear()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    libc = ctypes.CDLL(None)
    try:
        stream = ctypes.c_void_p.in_dll(libc, "stdout")
    except ValueError:
        os.write(1, text)
        return
    libc.fwrite.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
    libc.fwrite(text, 1, len(text), stream)
    if not embedded():
        libc.fflush(stream)


def embedded() -> bool:
    """Whether this is a native program, in which the driver started Python."""
    return not getattr(sys, "argv", [""])[0:] or sys.argv == [""]
