"""Calls of entry points from C: registers Python functions by name and turns their errors into result codes.

A function returns None for success, or a result code; it raises :class:`CudaError` for a result that the caller caused,
and the package's own errors otherwise, which are printed once on standard error and mapped to a code.
"""

from __future__ import annotations

import _thread
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from warpwright.driver import activities, launch_records, results
from warpwright.driver.cuda_error import CudaError, say
from warpwright.driver.entry_points import Record, asks, end_of, plain, prototype, spread, table, waits
from warpwright.driver.error_log import log
from warpwright.driver.failed_calls import TELL_OF_ANOTHER, explain, watched
from warpwright.driver.observing_calls import drained
from warpwright.driver.preconditions import checked
from warpwright.errors import (
    DeadlockError,
    ExecutionError,
    IllegalInstructionError,
    KernelNotFoundError,
    LaunchError,
    MemoryFaultError,
    OutOfMemoryError,
    TimedOutError,
    TrapError,
    UnsupportedError,
    WarpwrightError,
)
from warpwright.session import TIMED_OUT, session
from warpwright.toolchain import ToolchainError

Function = TypeVar("Function", bound=Callable[..., Any])
ENTRIES: dict[str, Callable[..., Any]] = {}
"""Functions by entry point (without the suffix of per-thread variants)."""
SIGNATURES: dict[str, str] = {}
"""Signatures of entry points that differ from the headers' declarations."""
RESULT_TYPES: dict[str, Any] = {}
"""Result types other than int."""
_NOT_SUPPORTED = {"nvml": (3, "NVML_ERROR_NOT_SUPPORTED")}
"""The result of an entry point without a function, for libraries whose results differ from the driver's."""


def entry(*names: str, result: Any = None, record: Record | None = None) -> Callable[[Function], Function]:
    """Register a function for the entry points with these names; with ``record`` it receives the call's arguments as
    one such record."""

    def register(function: Function) -> Function:
        for name in names:
            ENTRIES[name] = function if record is None else spread(function, record)
            if result is not None:
                RESULT_TYPES[name] = result
        return function

    return register


_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (OutOfMemoryError, results.OUT_OF_MEMORY),
    (KernelNotFoundError, results.NOT_FOUND),
    (LaunchError, results.INVALID_VALUE),
    (IllegalInstructionError, results.ILLEGAL_INSTRUCTION),
    (DeadlockError, results.LAUNCH_TIMEOUT),
    (TrapError, results.LAUNCH_FAILED),
    (ExecutionError, results.LAUNCH_FAILED),
    (UnsupportedError, results.NOT_SUPPORTED),
    (ToolchainError, results.INVALID_IMAGE),
    (WarpwrightError, results.UNKNOWN),
)


def code_of(error: BaseException) -> int:
    """The result code of an error of this package."""
    if isinstance(error, CudaError):
        return error.code
    if isinstance(error, MemoryFaultError):
        return results.MISALIGNED_ADDRESS if str(error).startswith("misaligned") else results.ILLEGAL_ADDRESS
    own = getattr(error, "cuda_result", None)
    if isinstance(own, int):
        return own
    return next((code for kind, code in _CODES if isinstance(error, kind)), results.UNKNOWN)


def failed(name: str, error: BaseException) -> int:
    """The result of a call that raised an exception; errors that a user should see are printed."""
    if isinstance(error, CudaError):
        if error.message:
            # Without a device most calls fail, all for one reason.
            say(
                error.message
                if error.code in (results.NO_DEVICE, results.INVALID_DEVICE)
                else f"{name}: {error.message}"
            )
            log.add(error.message)
            explain(name, error.message)
        return error.code
    if isinstance(error, TimedOutError) and os.environ.get(launch_records.DEADLINE):
        # The program is native, or may ignore exceptions: its time limit is over.
        say(f"the time limit has passed in {name}: {error}")
        launch_records.finish()
        os._exit(TIMED_OUT)
    if isinstance(error, KeyboardInterrupt):
        if not sys.orig_argv:
            # A native program, which has loaded Python only for this driver.
            say(f"interrupted in {name}{f': {error}' if str(error) else ''}")
            launch_records.finish(complete=False)
            os._exit(128 + signal.SIGINT)
        # C code between here and the Python program cannot propagate exceptions: raise it again when Python code runs next.
        _thread.interrupt_main()
        return results.LAUNCH_FAILED
    if isinstance(error, ExecutionError):
        launch_records.note_failure(error)
    if isinstance(error, WarpwrightError | ToolchainError):
        say(f"{name}: {error}")
        log.add(str(error))
        explain(name, str(error).splitlines()[0])
    else:
        say(f"{name} failed:\n{''.join(traceback.format_exception(error)).rstrip()}")
    return code_of(error)


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    finalizing = sys.is_finalizing
    # Destructors make calls while the interpreter is shutting down: resources are released with the process, and queries may still be answered.
    may_know, end = asks(name) or waits(name), end_of(name, results.DEINITIALIZED)

    def call(*arguments: Any) -> Any:
        if finalizing():
            try:
                return (function(*arguments) or 0) if may_know else end(arguments)
            except BaseException:  # its modules may have been torn down
                return end(arguments)
        try:
            if activities.recorder is not None:
                return activities.recorder.call(name, function, arguments)
            return function(*arguments) or 0
        except BaseException as error:
            return failed(name, error)

    return call


def _logged(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """A call of the driver or the runtime whose errors are recorded in the error log."""
    if name in TELL_OF_ANOTHER:
        return call

    def logging(*arguments: Any) -> Any:
        code = call(*arguments)
        if code and code != results.NOT_READY and not sys.is_finalizing():
            log.add(f"Returning {code} ({results.driver_name(code) or results.runtime_name(code)}) from {name}")
        return code

    return logging


def _traced(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def shown(*arguments: Any) -> Any:
        outcome = call(*arguments)
        listed = ", ".join(hex(a) if isinstance(a, int) and a > 4096 else str(a) for a in arguments)
        print(f"{name}({listed}) = {outcome}", file=sys.stderr, flush=True)
        return outcome

    return shown


def _missing(name: str, library: str) -> Callable[..., Any]:
    code, said = _NOT_SUPPORTED.get(library, (results.NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"))

    def call(*_: Any) -> int:
        say(f"{name} is not provided: the call returns {said}")
        return code

    return call


def callbacks(library: str) -> Sequence[Any]:
    """One C-callable object for each name of a library's table, in its order."""
    trace = os.environ.get("WARPWRIGHT_TRACE_CALLS", "") not in ("", "0")
    watches = bool(
        {"memcheck", "all"} & set(re.split(r"[\s,]+", session.check or os.environ.get("WARPWRIGHT_CHECK", "")))
    )
    version = library[-2:]
    made: dict[str, Any] = {}
    found = []
    for name, letters in table(library).items():
        base = plain(name)
        if name not in made:
            function = next((ENTRIES[n] for n in (f"{base}@{version}", name, base) if n in ENTRIES), None)
            call = _missing(name, library)
            if function is not None:
                # The runtime's functions look after the queue themselves, and remember what its work raises.
                call = _guarded(base, checked(base, function if library[:7] == "runtime" else drained(base, function)))
            if trace:
                call = _traced(name, call)
            kind = RESULT_TYPES.get(base)
            if kind is None and library != "nvml":
                call = _logged(base, call)
            if watches and kind is None:
                call = watched(base, library, call)
            letters = SIGNATURES.get(base, letters)
            made[name] = prototype(letters, kind)(call) if kind is not None else prototype(letters)(call)
        found.append(made[name])
    return found
