"""Initialisation, versions, error texts, and entry points by name (cuGetProcAddress)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError, say
from warpwright.driver.driver_state import DRIVER_VERSION, state
from warpwright.driver.entry_points import table
from warpwright.toolchain.within import is_within_compiler

_PER_THREAD_FLAG = 2
"""CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM."""
_VERSION_NOT_SUFFICIENT, _SYMBOL_NOT_FOUND = 2, 1
_RUNTIME_TABLE = b"\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9"
"""Identifier of the first private table that a statically linked runtime requests."""
addresses: dict[str, int] = {}
"""Addresses of the library's own entry points; filled when the library is attached."""
on_missing_driver: list[Callable[[], None]] = []
"""Called if a program requests an entry point and the process has loaded only the runtime."""


@entry("cuInit")
def initialise(flags: int) -> int | None:
    if flags:
        return results.INVALID_VALUE
    if is_within_compiler():
        # The process keeps its devices from the first call on, which must be the program's own.
        return None
    s = state()
    if s.initialized and s.process != os.getpid():
        s.check_process()
    if s.no_device:
        raise CudaError(s.no_device_code, s.no_device)
    s.process = os.getpid()
    s.initialized = True
    return None


@entry("cuDriverGetVersion")
def driver_version(version: int) -> int | None:
    if not version:
        return results.INVALID_VALUE
    cmemory.put32(version, DRIVER_VERSION)
    return None


def _put_text(place: int, words: str | None) -> int | None:
    if words is None:
        cmemory.put64(place, 0)
        return results.INVALID_VALUE
    cmemory.put64(place, cmemory.static_text(words))
    return None


@entry("cuGetErrorName")
def error_name(code: int, place: int) -> int | None:
    return _put_text(place, results.driver_name(code))


@entry("cuGetErrorString")
def error_string(code: int, place: int) -> int | None:
    return _put_text(place, results.sentence(code) if results.driver_name(code) else None)


_NEWEST: dict[str, tuple[tuple[int, str], ...]] = {
    # Entry points whose newer version has different arguments: (first version, name), as in the headers' defines.
    "cuCtxCreate": ((2000, "cuCtxCreate_v2"), (11040, "cuCtxCreate_v3"), (12050, "cuCtxCreate_v4")),
    "cuGraphAddKernelNode": ((10000, "cuGraphAddKernelNode"), (12000, "cuGraphAddKernelNode_v2")),
    "cuGraphKernelNodeGetParams": ((10000, "cuGraphKernelNodeGetParams"), (12000, "cuGraphKernelNodeGetParams_v2")),
    "cuGraphKernelNodeSetParams": ((10000, "cuGraphKernelNodeSetParams"), (12000, "cuGraphKernelNodeSetParams_v2")),
    "cuGraphExecKernelNodeSetParams": (
        (10000, "cuGraphExecKernelNodeSetParams"),
        (12000, "cuGraphExecKernelNodeSetParams_v2"),
    ),
    "cuGraphExecUpdate": ((10020, "cuGraphExecUpdate"), (12000, "cuGraphExecUpdate_v2")),
    "cuGraphInstantiate": (
        (10000, "cuGraphInstantiate"),
        (11000, "cuGraphInstantiate_v2"),
        (12000, "cuGraphInstantiateWithFlags"),
    ),
    "cuStreamBeginCapture": ((10000, "cuStreamBeginCapture"), (10010, "cuStreamBeginCapture_v2")),
    "cuStreamGetCaptureInfo": (
        (10010, "cuStreamGetCaptureInfo"),
        (11030, "cuStreamGetCaptureInfo_v2"),
        (12030, "cuStreamGetCaptureInfo_v3"),
    ),
    "cuMemAdvise": ((8000, "cuMemAdvise"), (12020, "cuMemAdvise_v2")),
    "cuMemPrefetchAsync": ((8000, "cuMemPrefetchAsync"), (12020, "cuMemPrefetchAsync_v2")),
    "cuStreamUpdateCaptureDependencies": (
        (11030, "cuStreamUpdateCaptureDependencies"),
        (12030, "cuStreamUpdateCaptureDependencies_v2"),
    ),
    "cuGraphAddNode": ((12020, "cuGraphAddNode"), (12030, "cuGraphAddNode_v2")),
    "cuGraphGetEdges": ((10000, "cuGraphGetEdges"), (12030, "cuGraphGetEdges_v2")),
    "cuGraphAddDependencies": ((10000, "cuGraphAddDependencies"), (12030, "cuGraphAddDependencies_v2")),
    "cuGraphRemoveDependencies": ((10000, "cuGraphRemoveDependencies"), (12030, "cuGraphRemoveDependencies_v2")),
    "cuGraphNodeGetDependencies": ((10000, "cuGraphNodeGetDependencies"), (12030, "cuGraphNodeGetDependencies_v2")),
    "cuGraphNodeGetDependentNodes": (
        (10000, "cuGraphNodeGetDependentNodes"),
        (12030, "cuGraphNodeGetDependentNodes_v2"),
    ),
    "cuEventElapsedTime": ((2000, "cuEventElapsedTime"), (12080, "cuEventElapsedTime_v2")),
    "cuDevicePrimaryCtxRelease": ((7000, "cuDevicePrimaryCtxRelease_v2"),),
    "cuCtxGetDevice": ((2000, "cuCtxGetDevice"), (13000, "cuCtxGetDevice_v2")),
    "cuCtxSynchronize": ((2000, "cuCtxSynchronize"), (13000, "cuCtxSynchronize_v2")),
    "cuStreamGetCtx": ((9020, "cuStreamGetCtx"), (12050, "cuStreamGetCtx_v2")),
    "cuMemcpyBatchAsync": ((12080, "cuMemcpyBatchAsync"), (13000, "cuMemcpyBatchAsync_v2")),
    "cuMemcpy3DBatchAsync": ((12080, "cuMemcpy3DBatchAsync"), (13000, "cuMemcpy3DBatchAsync_v2")),
    "cuGetProcAddress": ((11030, "cuGetProcAddress"), (12000, "cuGetProcAddress_v2")),
    "cuDeviceGetUuid": ((9020, "cuDeviceGetUuid"), (11040, "cuDeviceGetUuid_v2")),
}


def versioned(name: str, version: int, per_thread: bool) -> str | None:
    """The entry point that a plain name denotes in a version of CUDA; None if there is none."""
    names = table("driver")
    chosen = name
    if name in _NEWEST:
        fitting = [full for first, full in _NEWEST[name] if first <= max(version, _NEWEST[name][0][0])]
        chosen = fitting[-1]
    elif f"{name}_v2" in names:
        # All other second versions are as old as 64-bit device pointers (CUDA 3.2 and 4.0).
        chosen = f"{name}_v2"
    if per_thread:
        for suffix in ("_ptsz", "_ptds"):
            if chosen + suffix in names:
                return chosen + suffix
    return chosen if chosen in names else None


_PROCESS_FLAGS = 3
"""CU_GET_PROC_ADDRESS_*."""


def _find(symbol: int, place: int, version: int, flags: int, status: int) -> int | None:
    if not symbol or not place:
        return results.INVALID_VALUE
    if flags & ~_PROCESS_FLAGS:
        return results.INVALID_VALUE
    name = cmemory.text(symbol)
    chosen = versioned(name, version, bool(flags & _PER_THREAD_FLAG))
    cmemory.put64(place, addresses.get(chosen, 0) if chosen else 0)
    cmemory.put32(status, 0 if chosen else _SYMBOL_NOT_FOUND)
    return None


@entry("cuGetProcAddress")
def get_proc_address(symbol: int, place: int, version: int, flags: int) -> int | None:
    return _find(symbol, place, version, flags, 0)


@entry("cuGetProcAddress_v2")
def get_proc_address_2(symbol: int, place: int, version: int, flags: int, status: int) -> int | None:
    return _find(symbol, place, version, flags, status)


@entry("cuGetExportTable")
def export_table(place: int, identity: int) -> int:
    """Private tables of NVIDIA's own libraries: none is imitated."""
    cmemory.put64(place, 0)
    # Others request tables too, and work without them.
    if identity and ctypes.string_at(identity, 16) == _RUNTIME_TABLE:
        say(
            "this program's CUDA runtime is linked into it, and asks for private tables of NVIDIA's driver, which no other "
            "driver has. Build it with 'nvcc -cudart shared', or use a package that loads libcudart.so"
        )
    return results.NOT_FOUND


@entry("cuProfilerStart", "cuProfilerStop", "cuProfilerInitialize")
def profiler(*_: Any) -> None:
    """Nothing to do: every launch is recorded anyway."""
