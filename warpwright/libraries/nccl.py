"""NCCL: version and texts. Communicators are not provided: their functions return ncclInvalidUsage and are named on standard error."""

from __future__ import annotations

from warpwright.driver import cmemory
from warpwright.libraries.calls import entry

VERSION = 23007
"""NCCL_VERSION_CODE whose interface the entry points are of: 2.30.7."""
_NAMES = (
    *("no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument"),
    *("invalid usage", "remote process exited or there was a network error", "NCCL operation in progress"),
)


@entry("ncclGetVersion")
def get_version(place: int) -> None:
    cmemory.put32(place, VERSION)


@entry("ncclGetErrorString")
def error_string(result: int) -> int:
    return cmemory.static_text(_NAMES[result] if 0 <= result < len(_NAMES) else "unknown result code")


@entry("ncclGetLastError")
def last_error(communicator: int) -> int:
    return cmemory.static_text("see the message on standard error")
