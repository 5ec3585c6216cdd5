"""Calls of the libraries' entry points from C: registers Python functions by name and turns their errors into each library's status codes.

A function returns nothing for success, or a status or another result. What is not provided, and what a function refuses with :class:`LibraryError`, is
said on standard error once, with the name of the entry point.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from warpwright.driver.cuda_error import CudaError, say
from warpwright.driver.entry_points import Record, end_of, prototype, spread
from warpwright.driver.runtime.calls import ensure
from warpwright.errors import OutOfMemoryError, UnsupportedError, WarpwrightError
from warpwright.libraries.library_files import table
from warpwright.toolchain import ToolchainError

Function = TypeVar("Function", bound=Callable[..., Any])
_RESULTS: dict[str, Any] = {"i": ctypes.c_int32, "u": ctypes.c_uint32, "Q": ctypes.c_uint64, "": None}


@dataclass(frozen=True, slots=True)
class Statuses:
    """A library's status codes, as its header names them."""

    not_supported: int
    not_supported_name: str
    invalid_value: int
    not_initialized: int
    allocation_failed: int
    execution_failed: int
    internal_error: int


STATUSES = {
    "cublas": Statuses(15, "CUBLAS_STATUS_NOT_SUPPORTED", 7, 1, 3, 13, 14),
    "cublasLt": Statuses(15, "CUBLAS_STATUS_NOT_SUPPORTED", 7, 1, 3, 13, 14),
    "cufft": Statuses(16, "CUFFT_NOT_SUPPORTED", 4, 1, 2, 6, 5),
    "cusparse": Statuses(10, "CUSPARSE_STATUS_NOT_SUPPORTED", 3, 1, 2, 6, 7),
    "cusolver": Statuses(9, "CUSOLVER_STATUS_NOT_SUPPORTED", 3, 1, 2, 6, 7),
    "cudnn": Statuses(3000, "CUDNN_STATUS_NOT_SUPPORTED", 2000, 1001, 4002, 5000, 4000),
    "curand": Statuses(103, "CURAND_STATUS_TYPE_ERROR", 104, 101, 102, 201, 999),
    # NCCL has no status of its own for what is not supported.
    "nccl": Statuses(5, "ncclInvalidUsage", 4, 5, 1, 1, 3),
    "cusparseLt": Statuses(10, "CUSPARSE_STATUS_NOT_SUPPORTED", 3, 1, 2, 6, 7),
    "nvshmem": Statuses(3, "NVSHMEMX_ERROR_NOT_SUPPORTED", 1, 7, 2, 7, 7),
    "cupti": Statuses(27, "CUPTI_ERROR_NOT_SUPPORTED", 1, 15, 8, 999, 999),
    "cufile": Statuses(5008, "CU_FILE_IO_NOT_SUPPORTED", 5022, 5001, 5043, 5011, 5030),
}
_MODULES = {
    "cublas": ("cublas.handles", "cublas.vectors", "cublas.level3", "cublas.batched", "cublas.structured"),
    "cublasLt": ("cublas.handles", "cublas.lt"),
    "cudnn": (
        "cudnn.handles",
        "cudnn.convolutions",
        "cudnn.graph",
        "cudnn.normalization",
        "cudnn.dropout",
        "cudnn.recurrent",
        "cudnn.ctc",
        "cudnn.spatial",
    ),
    "cufft": ("cufft",),
    "cusolver": ("cusolver",),
    "cusparse": ("cusparse",),
    "curand": ("curand",),
    "nccl": ("nccl.communicators", "nccl.collectives"),
    "cusparseLt": ("cusparse_lt",),
    "nvshmem": ("nvshmem",),
    "cupti": ("cupti",),
    "cufile": ("cufile.files", "cufile.parameters"),
}
"""Modules that register a library's functions."""
ENTRIES: dict[str, Callable[..., Any]] = {}
"""Functions by entry point."""


class LibraryError(Exception):
    """A call ends with a status: ``kind`` is a field of :class:`Statuses`."""

    def __init__(self, kind: str, message: str = "") -> None:
        super().__init__(message or kind.replace("_", " "))
        self.kind = kind
        self.message = message


def unsupported(message: str) -> LibraryError:
    """The error for what is not provided."""
    return LibraryError("not_supported", message)


def invalid(message: str = "") -> LibraryError:
    """The error for arguments that the library refuses."""
    return LibraryError("invalid_value", message)


def entry(*names: str, record: Record | None = None) -> Callable[[Function], Function]:
    """Make a function the entry point of these names; with ``record`` it takes the call's arguments as one such record."""

    def register(function: Function) -> Function:
        for name in names:
            ENTRIES[name] = function if record is None else spread(function, record)
        return function

    return register


def _status(library: str, name: str, error: BaseException) -> int:
    """The status of a call that raised; what a person should know is said."""
    codes = STATUSES[library]
    if isinstance(error, LibraryError):
        if error.message:
            say(f"{name}: {error.message}")
        return int(getattr(codes, error.kind))
    if isinstance(error, UnsupportedError):
        say(f"{name}: {error}")
        return codes.not_supported
    if isinstance(error, OutOfMemoryError):
        return codes.allocation_failed
    if isinstance(error, CudaError):
        say(f"{name}: {error}")
        return codes.execution_failed
    if isinstance(error, WarpwrightError | ToolchainError):
        say(f"{name}: {error}")
        return codes.internal_error
    say(f"{name} failed:\n{''.join(traceback.format_exception(error)).rstrip()}")
    return codes.internal_error


def _guarded(library: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    finalizing, end = sys.is_finalizing, end_of(name, STATUSES[library].not_initialized)

    def call(*arguments: Any) -> Any:
        if finalizing():
            return end(arguments)
        try:
            ensure()
            return function(*arguments) or 0
        except BaseException as error:
            return _status(library, name, error)

    return call


def _missing(library: str, name: str) -> Callable[..., Any]:
    codes = STATUSES[library]

    def call(*_: Any) -> int:
        say(f"{name} is not provided: the call returns {codes.not_supported_name}")
        return codes.not_supported

    return call


def callbacks(library: str) -> Sequence[Any]:
    """One C-callable object for each entry point of a library, in the order of its table."""
    from warpwright.driver import register_all

    assert register_all
    for module in _MODULES.get(library, ()):
        importlib.import_module(f"warpwright.libraries.{module}")
    found = []
    for name, (letters, result) in table(library).items():
        function = ENTRIES.get(name)
        call = _guarded(library, name, function) if function is not None else _missing(library, name)
        found.append(prototype(letters, _RESULTS[result])(call))
    return found
