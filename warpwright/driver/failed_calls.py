"""memcheck's reports of calls that fail, as compute-sanitizer's ``--report-api-errors explicit``.

A call of the program that returns an error is a finding: of the driver's functions and of the runtime's, not of those that these call.  Not reported are
results that are no error (not ready) and the functions that only tell of an earlier one.  A question whose answer is "there is none" (an entry point, a symbol, a
current context, an attribute) is information: libraries ask to find out.  So is an attribute of a function that only later drivers have.
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
"""Results by which a question is answered in the negative."""
_ABOUT_ANYTHING = re.compile(r"Attribute|ProcAddress|DriverEntryPoint|AddressRange")
"""Questions about pointers and names that may be anything: an invalid one is an answer as well."""

_ATTRIBUTE_AT = {"cuFuncSetAttribute": 1, "cuKernelSetAttribute": 0}
FUNCTION_ATTRIBUTES = 16
"""CU_FUNC_ATTRIBUTE_MAX of CUDA 12 and 13.0: later ones are set to find out whether the driver has them (Triton, attribute 17)."""


def watched(name: str, library: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """A call of a library that reports its errors to the checks; ``call`` itself where there are none to report."""
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
    """What a person should know of the failure of a call of this thread, before it is reported."""
    _why.of = name, message


def _explanation(name: str) -> str:
    of, message = getattr(_why, "of", ("", ""))
    _why.of = "", ""
    return message if of.removeprefix("__") == name else ""


def is_answer(name: str, code: int, arguments: Sequence[Any] = ()) -> bool:
    """Whether a result only answers the program's question."""
    if name in _ATTRIBUTE_AT and code == results.INVALID_VALUE:
        return len(arguments) > _ATTRIBUTE_AT[name] and int(arguments[_ATTRIBUTE_AT[name]]) >= FUNCTION_ATTRIBUTES
    if not _QUESTION.search(name):
        return False
    return code in _ANSWERS or (code == results.INVALID_VALUE and bool(_ABOUT_ANYTHING.search(name)))


def report(name: str, library: str, code: int, arguments: Sequence[Any] = ()) -> None:
    """Tell the calling thread's GPU of a call that failed."""
    gpu = state().gpu
    if gpu.checker is None:
        return
    named = results.driver_name(code) if library == "driver" else results.runtime_name(code)
    what = f'Program hit {named or code} (error {code}) due to "{results.sentence(code) or "unknown error"}" on CUDA API call to {name}'
    severity = "info" if is_answer(name, code, arguments) else "error"
    gpu.checker.failed_call(what, severity, _explanation(name))
