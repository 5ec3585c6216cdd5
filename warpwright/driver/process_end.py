"""What must be done when the program of this process ends, whether it is Python or not."""

from __future__ import annotations

import atexit
import ctypes
import sys
from collections.abc import Callable
from typing import Any

_kept: list[Any] = []


def at_end(function: Callable[[], None]) -> None:
    """Call a function when the program ends.

    A program that is not Python ends without telling the interpreter, which the drop-in libraries began in it.  (In one that is, the C library
    would call the function when the interpreter is no more: there, ``atexit`` does.)
    """
    if sys.orig_argv:
        atexit.register(function)
        return
    libc = ctypes.CDLL(None)
    called = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: function())
    _kept.append(called)
    if hasattr(libc, "__cxa_atexit"):
        libc.__cxa_atexit.argtypes = [type(called), ctypes.c_void_p, ctypes.c_void_p]
        libc.__cxa_atexit(called, None, None)
