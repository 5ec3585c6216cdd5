"""Calls from C: Python functions by the name of their entry point, and what becomes of their errors.

A function returns an int, by the libraries' custom a negative errno for a failure, or a pointer.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from warpwright.driver.cuda_error import say
from warpwright.driver.drm.exports import LIBRARIES, POINTERS, prototype
from warpwright.errors import MemoryFaultError, OutOfMemoryError, WarpwrightError

Function = TypeVar("Function", bound=Callable[..., int])
ENTRIES: dict[str, Callable[..., int]] = {}


def entry(*names: str) -> Callable[[Function], Function]:
    """Make a function the entry point of these names."""

    def register(function: Function) -> Function:
        for name in names:
            ENTRIES[name] = function
        return function

    return register


def _failed(name: str, error: BaseException) -> int:
    """Report an error; Mesa's driver continues, with the errno where it asks for one."""
    if isinstance(error, WarpwrightError):
        say(f"{name}: {error}")
    else:
        say(f"{name} failed:\n{''.join(traceback.format_exception(error)).rstrip()}")
    if name in POINTERS:
        return 0
    if isinstance(error, OutOfMemoryError):
        return -errno.ENOMEM
    return -errno.EFAULT if isinstance(error, MemoryFaultError) else -errno.EINVAL


LATE: dict[str, Callable[..., int]] = {}
"""C functions that answer calls while the interpreter shuts down, by entry point (``late_calls.py``)."""


def _guarded(name: str, function: Callable[..., int] | None) -> Callable[..., int]:
    # The names of modules no longer exist when destructors call at the end.
    late, is_finalizing = LATE, sys.is_finalizing

    def call(*arguments: int) -> int:
        if is_finalizing():
            return late[name](*arguments) if name in late else 0
        if function is None:
            say(f"{name} is not provided: the call fails with ENOSYS")
            return 0 if name in POINTERS else -errno.ENOSYS
        try:
            return function(*arguments)
        except BaseException as error:
            return _failed(name, error)

    return call


def _traced(name: str, call: Callable[..., int]) -> Callable[..., int]:
    def shown(*arguments: int) -> int:
        outcome = call(*arguments)
        listed = ", ".join(hex(a) if a > 4096 else str(a) for a in arguments)
        print(f"{name}({listed}) = {outcome:#x}", file=sys.stderr, flush=True)
        return outcome

    return shown


def callbacks(library: str) -> Sequence[Any]:
    """One C-callable object for each function of a library, in the order of its table."""
    trace = os.environ.get("WARPWRIGHT_TRACE_CALLS", "") not in ("", "0")
    found = []
    for name, letters in LIBRARIES[library].items():
        call = _guarded(name, ENTRIES.get(name))
        if trace:
            call = _traced(name, call)
        found.append(prototype(name, letters)(call))
    return found
