"""Output of kernels' printf: buffered until the program synchronises, then written to C's standard output.

C's own buffer is used, so that device and host output keep their order; a Python program's own buffer is emptied first.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

_waiting = bytearray()
BUFFER_BYTES = 1 << 20
"""cudaLimitPrintfFifoSize's default: what is printed beyond it before the program synchronises is lost."""


def keep(text: bytes) -> None:
    """Take what a launch printed."""
    room = BUFFER_BYTES - len(_waiting)
    _waiting.extend(text[: max(room, 0)])


def flush() -> None:
    """Write what was kept."""
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
    """True in a native program, whose Python we started."""
    return not getattr(sys, "argv", [""])[0:] or sys.argv == [""]
