"""Driver calls that can observe queued work and therefore run the queue first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import state
from warpwright.driver.pending import queue
from warpwright.driver.queued_work import Item

_KEEPING = """
    LaunchKernel LaunchKernelEx LaunchKernelExC GraphLaunch PushCallConfiguration PopCallConfiguration LaunchHostFunc StreamAddCallback
    MemcpyAsync MemcpyHtoDAsync MemcpyDtoHAsync MemcpyDtoDAsync Memcpy2DAsync Memcpy3DAsync MemcpyPeerAsync
    MemsetAsync Memset2DAsync MemsetD8Async MemsetD16Async MemsetD32Async
    EventCreate EventCreateWithFlags EventRecord EventRecordWithFlags StreamWaitEvent
    StreamCreate StreamCreateWithFlags StreamCreateWithPriority StreamIsCapturing
    StreamWriteValue32 StreamWriteValue64 StreamWaitValue32 StreamWaitValue64 StreamBatchMemOp
    CtxSetCurrent CtxPushCurrent CtxPopCurrent SetDevice Init
    Malloc MallocHost HostAlloc MallocManaged MemAlloc MemAllocHost MemHostAlloc MemAllocManaged MemAllocAsync MallocAsync
    MemPrefetchAsync MemPrefetchBatchAsync MemDiscardBatchAsync MemDiscardAndPrefetchBatchAsync MemAdvise StreamAttachMemAsync
    MemFreeAsync FreeAsync PeekAtLastError FuncSetAttribute FuncSetCacheConfig KernelSetAttribute KernelSetCacheConfig
    ModuleLoad ModuleLoadData ModuleLoadDataEx ModuleLoadFatBinary LibraryLoadData LibraryLoadFromFile LinkCreate LinkAddData LinkAddFile LinkComplete LinkDestroy
    DeviceEnablePeerAccess CtxEnablePeerAccess DriverGetVersion RuntimeGetVersion PointerGetAttribute PointerGetAttributes MemHostGetDevicePointer HostGetDevicePointer
"""
_KEEPING_BEGINNINGS = (
    "CtxGet DeviceGet DeviceCan DevicePrimaryCtxGet GetDevice GetError GetLastError GetProcAddress GetDriverEntryPoint GetExportTable FuncGet "
    "FuncIs KernelGet LibraryGet ModuleGet Occupancy StreamGet GetSymbol GetFuncBySymbol GetKernel Choose"
)
_KEEP, _KEEP_PREFIXES = frozenset(_KEEPING.split()), tuple(_KEEPING_BEGINNINGS.split())


def _stem(name: str) -> str:
    """The name of a call without the parts that distinguish driver from runtime, and versions."""
    stem = name.partition("@")[0].removeprefix("__").removeprefix("cuda").removeprefix("cu")
    for suffix in ("_v2", "_v3", "_v4"):
        stem = stem.removesuffix(suffix)
    return stem


def keeps(name: str) -> bool:
    """Whether a call can neither observe the effects of queued work nor change what it uses."""
    if name.startswith("nvml"):
        return True
    stem = _stem(name)
    return stem in _KEEP or stem.startswith(_KEEP_PREFIXES)


def _awaited(stem: str, arguments: Sequence[Any]) -> list[Item]:
    """The queued work that a call waits for: that of a stream or an event, that of the default stream for a copy or a fill, otherwise that of the current device."""
    try:
        if stem in ("StreamSynchronize", "StreamQuery", "StreamDestroy"):
            return queue.of(state().stream(arguments[0]))
        if stem in ("EventSynchronize", "EventQuery", "EventDestroy"):
            queued = getattr(state().handles.find(arguments[0]), "queued", None)
            return [queued] if queued is not None else []
        if stem.startswith(("Memcpy", "Memset")) and not stem.endswith("Async"):
            return queue.before(state().stream(0))
    except CudaError:  # as the call itself will find
        return []
    device = state().device
    return [item for item in queue.items if item.device is device]


def drained(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A call's function that runs the queue first, unless :func:`keeps` excludes the call."""
    if keeps(name):
        return function
    stem = _stem(name)

    def call(*arguments: Any) -> Any:
        if queue.items:
            queue.drain(_awaited(stem, arguments), asks=stem.endswith("Query"))
        return function(*arguments)

    return call
