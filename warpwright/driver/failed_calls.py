"""memcheck's reports of calls that fail, as compute-sanitizer's ``--report-api-errors explicit``.

A call by the program that returns an error is a finding; this applies to the driver's functions and to the runtime's,
but not to calls between them.  Results that are not errors (not ready) and functions that only return an earlier error
are not reported.  A query whose answer is "there is none" (an entry point, a symbol, a current context, an attribute)
is informational, because libraries use such queries to find out, and so is a function attribute that only later drivers
have.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from warpwright.driver import results
from warpwright.driver.driver_state import state

TELL_OF_ANOTHER = ("cudaGetLastError", "cudaPeekAtLastError")
"""Functions that return the error of an earlier call."""
_LAUNCH = "__cudaLaunchKernel"
"""What ``<<<>>>`` of nvcc 13 calls; other functions of this kind are nvcc's own."""
_QUESTION = re.compile(r"Get|Query|CanAccess")
_ANSWERS = frozenset(
    (
        *(results.NOT_INITIALIZED, results.INVALID_CONTEXT, results.NOT_FOUND, results.SYMBOL_NOT_FOUND),
        *(results.NOT_SUPPORTED, results.INVALID_DEVICE_FUNCTION),
    )
)
"""Results that are negative answers to a query."""
_ABOUT_ANYTHING = re.compile(r"Attribute|ProcAddress|DriverEntryPoint|AddressRange")
"""Queries about arbitrary pointers and names: for these, invalid is an answer too."""

_ATTRIBUTE_AT = {"cuFuncSetAttribute": 1, "cuKernelSetAttribute": 0}
FUNCTION_ATTRIBUTES = 16
"""CU_FUNC_ATTRIBUTE_MAX of CUDA 12 and 13.0: later ones are set to find out whether the driver has them (Triton, attribute 17)."""


def watched(name: str, library: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """A call of a library that reports its errors to the checks; ``call`` itself if there is nothing to report."""
    if library == "nvml" or name in TELL_OF_ANOTHER or (name.startswith("__") and name != _LAUNCH):
        return call
    name = name.removeprefix("__")

    def reporting(*arguments: Any) -> Any:
        code = call(*arguments)
        if code and code != results.NOT_READY and not sys.is_finalizing():
            report(name, library, code, arguments)
        return code

    return reporting


_why = threading.local()


def explain(name: str, message: str) -> None:
    """An explanation of a failed call of this thread for the user, before it is reported."""
    _why.of = name, message


def _explanation(name: str) -> str:
    of, message = getattr(_why, "of", ("", ""))
    _why.of = "", ""
    return message if of.removeprefix("__") == name else ""


def is_answer(name: str, code: int, arguments: Sequence[Any] = ()) -> bool:
    """Whether a result is only an answer to the program's query."""
    if name in _ATTRIBUTE_AT and code == results.INVALID_VALUE:
        return len(arguments) > _ATTRIBUTE_AT[name] and int(arguments[_ATTRIBUTE_AT[name]]) >= FUNCTION_ATTRIBUTES
    if not _QUESTION.search(name):
        return False
    return code in _ANSWERS or (code == results.INVALID_VALUE and bool(_ABOUT_ANYTHING.search(name)))


def report(name: str, library: str, code: int, arguments: Sequence[Any] = ()) -> None:
    """Report a failed call to the calling thread's GPU."""
    gpu = state().gpu
    if gpu.checker is None:
        return
    named = results.driver_name(code) if library == "driver" else results.runtime_name(code)
    what = f'Program hit {named or code} (error {code}) due to "{results.sentence(code) or "unknown error"}" on CUDA API call to {name}'
    severity = "info" if is_answer(name, code, arguments) else "error"
    gpu.checker.failed_call(what, severity, _explanation(name))
