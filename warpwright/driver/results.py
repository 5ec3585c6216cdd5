"""Result codes of the driver (``CUresult``) and of the runtime (``cudaError_t``): one numbering, two sets of names.

The numbers are those of cuda.h and driver_types.h; rows in ``data/results.txt`` hold number, driver's and runtime's name.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

SUCCESS = 0
INVALID_VALUE = 1
OUT_OF_MEMORY = 2
NOT_INITIALIZED = 3
DEINITIALIZED = 4
INVALID_DEVICE_FUNCTION = 98
NO_DEVICE = 100
INVALID_DEVICE = 101
INVALID_IMAGE = 200
INVALID_CONTEXT = 201
NO_BINARY_FOR_GPU = 209
UNSUPPORTED_LIMIT = 215
PEER_ACCESS_UNSUPPORTED = 217
INVALID_PTX = 218
UNSUPPORTED_PTX_VERSION = 222
FILE_NOT_FOUND = 301
SYMBOL_NOT_FOUND = 302
OPERATING_SYSTEM = 304
INVALID_HANDLE = 400
ILLEGAL_STATE = 401
NOT_FOUND = 500
NOT_READY = 600
ILLEGAL_ADDRESS = 700
LAUNCH_OUT_OF_RESOURCES = 701
LAUNCH_TIMEOUT = 702
PEER_ACCESS_ALREADY_ENABLED = 704
PEER_ACCESS_NOT_ENABLED = 705
CONTEXT_IS_DESTROYED = 709
ASSERT = 710
HOST_MEMORY_ALREADY_REGISTERED = 712
HOST_MEMORY_NOT_REGISTERED = 713
ILLEGAL_INSTRUCTION = 715
MISALIGNED_ADDRESS = 716
LAUNCH_FAILED = 719
COOPERATIVE_LAUNCH_TOO_LARGE = 720
NOT_PERMITTED = 800
NOT_SUPPORTED = 801
STREAM_CAPTURE_UNSUPPORTED = 900
STREAM_CAPTURE_INVALIDATED = 901
STREAM_CAPTURE_MERGE = 902
STREAM_CAPTURE_UNMATCHED = 903
STREAM_CAPTURE_ISOLATION = 905
STREAM_CAPTURE_IMPLICIT = 906
GRAPH_EXEC_UPDATE_FAILURE = 910
INVALID_CLUSTER_SIZE = 912
INVALID_RESOURCE_TYPE = 914
INVALID_RESOURCE_CONFIGURATION = 915
UNKNOWN = 999

_SENTENCES = {
    0: "no error",
    1: "invalid argument",
    2: "out of memory",
    3: "initialization error",
    4: "driver shutting down",
    9: "invalid configuration argument",
    13: "invalid device symbol",
    98: "invalid device function",
    100: "no CUDA-capable device is detected",
    101: "invalid device ordinal",
    200: "device kernel image is invalid",
    201: "invalid device context",
    209: "no kernel image is available for execution on the device",
    217: "peer access is not supported between these two devices",
    218: "a PTX JIT compilation failed",
    301: "file not found",
    302: "shared object symbol not found",
    400: "invalid resource handle",
    401: "the operation cannot be performed in the present state",
    500: "named symbol not found",
    600: "device not ready",
    700: "an illegal memory access was encountered",
    701: "too many resources requested for launch",
    702: "the launch timed out and was terminated",
    704: "peer access is already enabled",
    705: "peer access has not been enabled",
    710: "device-side assert triggered",
    712: "part or all of the requested memory range is already mapped",
    713: "pointer does not correspond to a registered memory region",
    715: "an illegal instruction was encountered",
    716: "misaligned address",
    719: "unspecified launch failure",
    720: "too many blocks in cooperative launch",
    800: "operation not permitted",
    801: "operation not supported",
    900: "operation not permitted when stream is capturing",
    901: "operation failed due to a previous error during capture",
    906: "operation would make the legacy stream depend on a capturing blocking stream",
    910: "the graph update was not performed because it included changes which violated constraints specific to "
    "instantiated graph update",
    999: "unknown error",
}
"""Texts of the error-string functions."""

NAMES = {
    value: name
    for name, value in list(globals().items())
    if isinstance(value, int) and name.isupper() and not name.startswith("_")
}


@cache
def _table() -> dict[int, tuple[str, str]]:
    rows = resources.files("warpwright.driver").joinpath("data/results.txt").read_text(encoding="utf-8").splitlines()
    return {int(number): (driver, runtime) for number, driver, runtime in (row.split() for row in rows)}


def driver_name(code: int) -> str | None:
    """``CUDA_ERROR_INVALID_VALUE``; None for a number that the driver does not have."""
    name = _table().get(code, ("-", "-"))[0]
    return None if name == "-" else name


def runtime_name(code: int) -> str | None:
    """``cudaErrorInvalidValue``; None for a number that the runtime does not have."""
    name = _table().get(code, ("-", "-"))[1]
    return None if name == "-" else name


def sentence(code: int) -> str | None:
    """Meaning of an error; None for a number that does not exist."""
    if code not in _table():
        return None
    if code in _SENTENCES:
        return _SENTENCES[code]
    driver = driver_name(code) or runtime_name(code) or ""
    return driver.removeprefix("CUDA_ERROR_").replace("_", " ").lower()
