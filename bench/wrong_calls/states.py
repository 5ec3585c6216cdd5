"""Calls without a context, during a stream's capture, and after a fault."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from bench.driver_answers import MIB
from bench.wrong_calls.world import INT, KERNELS, NULL, ROOM, WORD, World, access_of, physical_of, pool_of

WITHOUT: tuple[tuple[str, tuple[Any, ...]], ...] = (
    *((name, (ROOM, 16)) for name in ("cuMemAlloc_v2", "cuMemAllocHost_v2")),
    ("cuMemAllocManaged", (ROOM, 16, 1)), ("cuMemHostAlloc", (ROOM, 16, 0)), ("cuMemFree_v2", (0,)), ("cuMemFreeHost", (0,)),
    ("cuMemGetInfo_v2", (ROOM, ROOM)), ("cuMemGetAddressRange_v2", (ROOM, ROOM, "memory")), ("cuMemHostGetDevicePointer_v2", (ROOM, "host", 0)),
    ("cuMemHostGetFlags", (ROOM, "host")), ("cuMemcpyDtoH_v2", ("plain", "memory", 16)), ("cuMemcpyHtoD_v2", ("memory", "plain", 16)), ("cuMemcpy", ("memory", "host", 16)),
    ("cuMemcpyDtoHAsync_v2", ("plain", "memory", 16, "stream")), ("cuMemcpyDtoHAsync_v2", ("plain", "memory", 16, 0)), ("cuMemsetD8_v2", ("memory", 0, 16)), ("cuMemsetD8Async", ("memory", 0, 16, "stream")),
    ("cuMemHostRegister_v2", ("plain", 4096, 0)), ("cuMemHostUnregister", ("plain",)),
    ("cuPointerGetAttribute", (ROOM, 2, "memory")), ("cuPointerGetAttribute", (ROOM, 2, "plain")), ("cuPointerGetAttribute", (ROOM, 1, "memory")), ("attribute among others", (2, "memory")), ("attribute among others", (2, "plain")),
    ("cuStreamCreate", (ROOM, 0)), ("cuStreamSynchronize", ("stream",)), ("cuStreamQuery", ("stream",)), ("cuStreamQuery", (0,)), ("cuStreamSynchronize", (0,)), ("cuStreamGetFlags", ("stream", ROOM)), ("cuStreamGetCtx", ("stream", ROOM)), ("cuStreamGetCtx", (0, ROOM)),
    ("cuStreamWaitEvent", ("stream", "event", 0)), ("cuStreamIsCapturing", ("stream", ROOM)), ("cuStreamGetPriority", ("stream", ROOM)), ("cuStreamGetId", ("stream", ROOM)),
    ("cuEventCreate", (ROOM, 0)), ("cuEventQuery", ("event",)), ("cuEventRecord", ("event", "stream")), ("cuEventRecord", ("event", 0)), ("cuEventSynchronize", ("event",)), ("cuEventElapsedTime", (ROOM, "event", "event")),
    ("cuModuleLoadData", (ROOM, KERNELS)), ("cuModuleGetFunction", (ROOM, "module", b"store")), ("cuModuleGetGlobal_v2", (ROOM, ROOM, "module", b"table")),
    ("cuLibraryLoadData", (ROOM, KERNELS, 0, 0, 0, 0, 0, 0)), ("cuLibraryGetKernel", (ROOM, "library", b"store")), ("cuLibraryGetModule", (ROOM, "library")), ("cuLibraryGetGlobal", (ROOM, ROOM, "library", b"table")), ("cuLibraryGetKernelCount", (ROOM, "library")),
    ("cuKernelGetFunction", (ROOM, "kernel")), ("cuKernelGetAttribute", (ROOM, 0, "kernel", 0)), ("cuKernelSetAttribute", (8, 4096, "kernel", 0)), ("cuKernelGetParamInfo", ("kernel", 0, ROOM, ROOM)), ("cuKernelGetName", (ROOM, "kernel")),
    ("cuFuncGetAttribute", (ROOM, 0, "store")), ("cuFuncSetAttribute", ("store", 8, 4096)), ("cuFuncGetParamInfo", ("store", 0, ROOM, ROOM)), ("cuFuncGetModule", (ROOM, "store")), ("cuFuncGetName", (ROOM, "store")),
    ("cuLaunchKernel", ("nothing", 1, 1, 1, 32, 1, 1, 0, "stream", 0, 0)), ("cuLaunchKernel", ("nothing", 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)), ("cuLaunchKernel", ("kernel", 1, 1, 1, 32, 1, 1, 0, "stream", 0, 0)), ("cuLaunchHostFunc", ("stream", 0, 0)),
    ("cuOccupancyMaxActiveBlocksPerMultiprocessor", (ROOM, "nothing", 32, 0)), ("cuOccupancyAvailableDynamicSMemPerBlock", (ROOM, "nothing", 1, 32)),
    ("cuGraphCreate", (ROOM, 0)), ("cuGraphInstantiateWithFlags", (ROOM, "graph", 0)), ("cuGraphLaunch", ("executable", "stream")), ("cuGraphLaunch", ("executable", 0)), ("cuGraphAddEmptyNode", (ROOM, "other_graph", 0, 0)), ("cuGraphUpload", ("executable", "stream")), ("cuGraphNodeGetType", ("first", ROOM)),
    ("cuMemCreate", (ROOM, 2 * MIB, physical_of(), 0)), ("cuMemAddressReserve", (ROOM, 2 * MIB, 0, 0, 0)), ("cuMemGetAllocationGranularity", (ROOM, physical_of(), 0)), ("cuMemMap", ("reserved", 2 * MIB, 0, "physical", 0)), ("cuMemSetAccess", ("reserved", 2 * MIB, access_of(), 1)), ("cuMemUnmap", ("reserved", 2 * MIB)),
    ("cuMemAllocAsync", (ROOM, 16, "stream")), ("cuMemAllocAsync", (ROOM, 16, 0)), ("cuMemAllocFromPoolAsync", (ROOM, 16, "pool", "stream")), ("cuMemFreeAsync", (0x1000, "stream")), ("cuMemPoolCreate", (ROOM, pool_of())), ("cuMemPoolGetAttribute", ("pool", 4, ROOM)), ("cuMemPoolTrimTo", ("pool", 0)), ("cuDeviceGetDefaultMemPool", (ROOM, 0)),
    ("cuCtxGetLimit", (ROOM, 0)), ("cuCtxSetLimit", (0, 1024)), ("cuCtxSynchronize", ()), ("cuCtxGetDevice", (ROOM,)), ("cuCtxGetCurrent", (WORD,)), ("cuCtxPopCurrent_v2", (ROOM,)), ("cuCtxGetFlags", (ROOM,)), ("cuCtxGetCacheConfig", (ROOM,)), ("cuCtxGetStreamPriorityRange", (ROOM, ROOM)), ("cuCtxGetApiVersion", (0, ROOM)), ("cuCtxGetId", (0, ROOM)), ("cuCtxSetFlags", (0,)),
    ("cuArrayCreate_v2", (ROOM, struct.pack("<QQII", 16, 0, 0x20, 1))), ("cuArrayGetDescriptor_v2", (ROOM, "array")), ("cuMemAdvise", ("managed", MIB, 1, 0)), ("cuMemPrefetchAsync", ("managed", MIB, 0, "stream")), ("cuMemRangeGetAttribute", (ROOM, 4, 1, "managed", MIB)), ("cuThreadExchangeStreamCaptureMode", (struct.pack("<i", 0),)),
    ("cuIpcGetMemHandle", (ROOM, "memory")), ("cuUserObjectRelease", (0, 1)), ("cuLinkCreate_v2", (0, 0, 0, ROOM)), ("cuCtxResetPersistingL2Cache", ()), ("cuTensorMapEncodeTiled", (NULL, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
)  # fmt: skip
"""Calls without a current context; names refer to the world's objects."""


def without_context(w: World) -> Iterator[tuple[Any, ...]]:
    w.lib("cuCtxSetCurrent", 0)
    for name, arguments in WITHOUT:
        given = [getattr(w, a) if isinstance(a, str) and a not in (ROOM, WORD, INT) else a for a in arguments]
        yield (
            "named",
            f"no context: {name}{tuple(a if not isinstance(a, bytes) else '...' for a in arguments)}",
            name,
            *given,
        )
        w.lib("cuCtxSetCurrent", 0)


CAPTURED: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("cuStreamSynchronize", ("stream",)), ("cuStreamQuery", ("stream",)), ("cuCtxSynchronize", ()), ("cuMemAlloc_v2", (ROOM, 16)), ("cuMemAllocAsync", (ROOM, 16, "stream")),
    ("cuMemcpyDtoH_v2", ("plain", "memory", 16)), ("cuMemcpyHtoDAsync_v2", ("memory", "plain", 16, "stream")), ("cuMemcpyHtoDAsync_v2", ("memory", "host", 16, 0)), ("cuMemsetD8_v2", ("memory", 0, 16)), ("cuMemsetD8Async", ("memory", 0, 16, 0)),
    ("cuEventRecord", ("event", "stream")), ("cuEventQuery", ("event",)), ("cuEventSynchronize", ("event",)), ("cuEventRecord", ("event", 0)), ("cuEventElapsedTime", (ROOM, "event", "event")), ("cuEventCreate", (ROOM, 0)),
    ("cuLaunchKernel", ("nothing", 1, 1, 1, 32, 1, 1, 0, "stream", 0, 0)), ("cuLaunchKernel", ("nothing", 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)), ("cuLaunchKernel", ("nothing", 0, 1, 1, 32, 1, 1, 0, "stream", 0, 0)),
    ("cuStreamDestroy_v2", (0,)), ("cuStreamCreate", (ROOM, 0)), ("cuStreamBeginCapture_v2", ("stream", 0)), ("cuStreamWaitEvent", ("stream", "untimed", 0)), ("cuStreamWaitEvent", (0, "untimed", 0)), ("cuModuleLoadData", (ROOM, KERNELS)),
    ("cuStreamAddCallback", ("stream", 0, 0, 0)), ("cuGraphLaunch", ("executable", 0)), ("cuGraphLaunch", ("executable", "stream")), ("cuMemFree_v2", (0,)), ("cuStreamSynchronize", (0,)), ("cuStreamQuery", (0,)), ("cuStreamAttachMemAsync", ("stream", "managed", 0, 4)), ("cuCtxGetLimit", (ROOM, 0)), ("cuMemGetInfo_v2", (ROOM, ROOM)),
    ("cuFuncGetAttribute", (ROOM, 0, "store")), ("cuPointerGetAttribute", (ROOM, 2, "memory")), ("cuMemHostAlloc", (ROOM, 16, 0)), ("cuMemPrefetchAsync", ("managed", MIB, 0, "stream")), ("cuStreamWriteValue32_v2", ("stream", "memory", 1, 0)), ("cuMemPoolTrimTo", ("pool", 0)), ("cuStreamGetCaptureInfo_v2", ("stream", INT, 0, 0, 0, 0)), ("cuStreamGetCaptureInfo_v2", (0, INT, 0, 0, 0, 0)), ("cuStreamIsCapturing", (0, INT)), ("cuStreamIsCapturing", ("stream", INT)),
)  # fmt: skip
"""Calls while a stream is captured, in each of the three modes: the call's result, the capture's state after it, and how the capture ends."""


def captured(w: World) -> Iterator[tuple[Any, ...]]:
    for mode in (0, 1, 2):
        for blocking in (1, 0):
            for name, arguments in CAPTURED:
                if blocking == 0 and 0 not in arguments:
                    continue
                yield "captured", mode, blocking, name, *arguments


AFTER: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("cuStreamSynchronize", ("stream",)), ("cuCtxSynchronize", ()), ("cuStreamQuery", ("stream",)), ("cuMemAlloc_v2", (ROOM, 16)), ("cuMemFree_v2", ("memory",)), ("cuMemFree_v2", (0,)), ("cuMemcpyDtoH_v2", ("plain", "memory", 16)),
    ("cuLaunchKernel", ("nothing", 1, 1, 1, 32, 1, 1, 0, "stream", 0, 0)), ("cuEventQuery", ("event",)), ("cuEventRecord", ("event", "stream")), ("cuEventCreate", (ROOM, 0)), ("cuStreamCreate", (ROOM, 0)), ("cuMemGetInfo_v2", (ROOM, ROOM)), ("cuMemHostAlloc", (ROOM, 16, 0)), ("cuMemFreeHost", ("host",)),
    ("cuCtxGetDevice", (ROOM,)), ("cuCtxGetLimit", (ROOM, 0)), ("cuDeviceGetCount", (ROOM,)), ("cuFuncGetAttribute", (ROOM, 0, "store")), ("cuModuleGetFunction", (ROOM, "module", b"store")), ("cuPointerGetAttribute", (ROOM, 2, "memory")), ("cuGraphCreate", (ROOM, 0)), ("cuGraphLaunch", ("executable", "stream")), ("cuModuleLoadData", (ROOM, KERNELS)),
    ("cuMemAllocAsync", (ROOM, 16, "stream")), ("cuMemsetD8Async", ("memory", 0, 16, "stream")), ("cuCtxGetFlags", (ROOM,)), ("cuCtxGetStreamPriorityRange", (ROOM, ROOM)), ("cuOccupancyMaxActiveBlocksPerMultiprocessor", (ROOM, "nothing", 32, 0)), ("cuMemCreate", (ROOM, 2 * MIB, physical_of(), 0)), ("cuLibraryGetKernel", (ROOM, "library", b"store")),
    ("cuEventDestroy_v2", ("event",)), ("cuModuleUnload", ("module",)), ("cuStreamDestroy_v2", ("stream",)), ("cuDevicePrimaryCtxReset_v2", (0,)), ("cuMemAlloc_v2", (ROOM, 16)),
)  # fmt: skip
"""Calls after a kernel that stopped with a trap."""


def faulted(w: World) -> Iterator[tuple[Any, ...]]:
    stops = w.lib.word("cuModuleGetFunction", w.module, b"stops")
    yield "named", "a trap", "cuLaunchKernel", stops, 1, 1, 1, 1, 1, 1, 0, w.stream, 0, 0
    for n, (name, arguments) in enumerate(AFTER):
        given = [getattr(w, a) if isinstance(a, str) and a not in (ROOM, WORD, INT) else a for a in arguments]
        yield "named", f"behind a trap, {n}: {name}", name, *given
