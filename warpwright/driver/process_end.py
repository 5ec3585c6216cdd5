"""Actions at the end of this process's program, whether or not it is a Python program."""

from __future__ import annotations

import atexit
import ctypes
import sys
from collections.abc import Callable
from typing import Any

_kept: list[Any] = []


def at_end(function: Callable[[], None]) -> None:
    """Call a function when the program ends.

    A native program ends without notifying the interpreter that the drop-in libraries started in it.  (In a Python
    program, the C library would call the function after the interpreter has shut down, so ``atexit`` is used there.)
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
