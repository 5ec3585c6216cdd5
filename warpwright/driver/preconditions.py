"""Preconditions of calls: pointers that must not be null, a current context, no capture that the call would invalidate.

All of them follow an H200's driver (``bench/driver_codes.py``).  Pointers that are not listed may be null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpwright.driver import results
from warpwright.driver.capture_rules import forbid_unsafe_call
from warpwright.driver.driver_state import in_context, state

_FIRST = """
    cuDeviceGet cuDeviceGetCount cuDeviceGetName cuDeviceTotalMem_v2 cuDeviceGetAttribute cuDeviceGetUuid cuDeviceGetUuid_v2
    cuDeviceGetDefaultMemPool cuDeviceGetMemPool cuDeviceGetPCIBusId cuDevicePrimaryCtxRetain cuDeviceGetP2PAttribute
    cuCtxCreate_v2 cuCtxCreate_v3 cuCtxCreate_v4 cuCtxGetDevice cuCtxGetCurrent cuCtxGetFlags cuCtxGetLimit cuCtxGetCacheConfig
    cuCtxGetSharedMemConfig
    cuMemAlloc_v2 cuMemAllocHost_v2 cuMemHostAlloc cuMemAllocManaged cuMemHostGetDevicePointer_v2 cuMemHostGetFlags cuPointerGetAttribute
    cuMemcpy2D_v2 cuMemcpy2DUnaligned_v2 cuMemcpy2DAsync_v2 cuMemcpy3D_v2 cuMemcpy3DAsync_v2
    cuStreamCreate cuStreamCreateWithPriority cuEventCreate cuThreadExchangeStreamCaptureMode
    cuModuleGetFunction cuModuleGetFunctionCount cuLibraryGetKernel cuLibraryGetKernelCount cuLibraryGetModule
    cuKernelGetFunction cuKernelGetAttribute cuKernelGetName cuFuncGetAttribute cuFuncGetModule cuFuncGetName cuFuncIsLoaded cuLaunchKernelEx
    cuOccupancyMaxActiveBlocksPerMultiprocessor cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyAvailableDynamicSMemPerBlock
    cuGraphCreate cuGraphClone cuGraphInstantiateWithFlags cuGraphAddEmptyNode cuGraphAddChildGraphNode cuGraphAddEventRecordNode
    cuGraphAddEventWaitNode cuGraphAddMemFreeNode cuGraphConditionalHandleCreate cuGraphNodeFindInClone
    cuMemAddressReserve cuMemRetainAllocationHandle cuMemAllocAsync cuMemAllocFromPoolAsync cuMipmappedArrayGetLevel
    cuArrayGetDescriptor_v2 cuArray3DGetDescriptor_v2
"""
_SECOND = """
    cuStreamGetPriority cuStreamGetFlags cuStreamGetCtx cuStreamGetId cuStreamIsCapturing cuCtxGetApiVersion cuCtxGetId cuGraphNodeGetType
    cuStreamEndCapture cuGraphExecGetFlags
"""
REQUIRED: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(_FIRST.split(), (0,)),
    **dict.fromkeys(_SECOND.split(), (1,)),
    "cuDevicePrimaryCtxGetState": (1, 2),
    "cuMemAllocPitch_v2": (0, 1),
    "cuModuleLoad": (0, 1),
    "cuModuleLoadData": (0, 1),
    "cuModuleLoadDataEx": (0, 1),
    "cuModuleLoadFatBinary": (0, 1),
    "cuModuleGetFunction": (0, 2),
    "cuModuleGetGlobal_v2": (3,),
    "cuLinkCreate_v2": (3,),
    "cuLibraryLoadData": (0, 1),
    "cuLibraryLoadFromFile": (0, 1),
    "cuLibraryGetKernel": (0, 2),
    "cuLibraryGetGlobal": (3,),
    "cuGraphAddKernelNode": (0, 4),
    "cuGraphAddKernelNode_v2": (0, 4),
    "cuGraphAddMemcpyNode": (0, 4),
    "cuGraphAddMemsetNode": (0, 4),
    "cuGraphAddHostNode": (0, 4),
    "cuGraphAddMemAllocNode": (0, 4),
    "cuGraphGetNodes": (2,),
    "cuGraphGetRootNodes": (2,),
    "cuGraphGetEdges": (3,),
    "cuGraphGetEdges_v2": (4,),
    "cuMemGetAllocationGranularity": (0, 1),
    "cuMemCreate": (0, 2),
    "cuMemPoolCreate": (0, 1),
    "cuMemPoolGetAttribute": (2,),
    "cuMemPoolSetAttribute": (2,),
    "cuArrayCreate_v2": (0, 1),
    "cuArray3DCreate_v2": (0, 1),
    "cuMipmappedArrayCreate": (0, 1),
    "cuTexObjectCreate": (0, 1, 2),
    "cuSurfObjectCreate": (0, 1),
}
"""Pointers by their positions among a call's arguments."""

IN_CONTEXT = frozenset(
    [
        "cuMemHostGetDevicePointer_v2",
        "cuMemHostGetFlags",
        "cuLibraryGetModule",
        "cuLibraryGetGlobal",
        "cuKernelGetFunction",
        "cuKernelGetParamInfo",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
        "cuOccupancyAvailableDynamicSMemPerBlock",
        "cuGraphInstantiateWithFlags",
        "cuArrayCreate_v2",
        "cuArray3DCreate_v2",
        "cuTensorMapEncodeTiled",
        "cuTensorMapEncodeIm2col",
    ]
)
"""Calls that need a current context without a failed kernel, and do not check it themselves."""
OF_OBJECT: dict[str, int] = {
    **dict.fromkeys(
        [
            "cuStreamSynchronize",
            "cuStreamQuery",
            "cuStreamGetCtx",
            "cuStreamWaitEvent",
            "cuStreamIsCapturing",
            "cuStreamBeginCapture_v2",
            "cuLaunchHostFunc",
            "cuStreamAddCallback",
            "cuEventQuery",
            "cuEventSynchronize",
        ],
        0,
    ),
    **dict.fromkeys(
        [
            "cuModuleGetFunction",
            "cuGraphLaunch",
            "cuEventRecord",
            "cuEventRecordWithFlags",
            "cuMemFreeAsync",
            "cuMemcpy2DAsync_v2",
            "cuMemcpy3DAsync_v2",
        ],
        1,
    ),
    **dict.fromkeys(["cuModuleGetGlobal_v2", "cuMemAllocAsync"], 2),
    **dict.fromkeys(
        [
            "cuMemcpyAsync",
            "cuMemcpyHtoDAsync_v2",
            "cuMemcpyDtoHAsync_v2",
            "cuMemcpyDtoDAsync_v2",
            "cuMemsetD8Async",
            "cuMemsetD16Async",
            "cuMemsetD32Async",
            "cuMemAllocFromPoolAsync",
            "cuMemPrefetchAsync",
        ],
        3,
    ),
    "cuMemPrefetchAsync_v2": 4,
    "cuLaunchKernel": 8,
}
"""Position of a stream, event or module: without a current context, the call applies to that object's context."""
LAST_WORDS = frozenset(("cuEventDestroy_v2", "cuStreamDestroy_v2", "cuModuleUnload"))
"""Calls that do their work, and then report that a kernel failed before."""
UNSAFE = frozenset(
    [
        "cuMemAlloc_v2",
        "cuMemAllocPitch_v2",
        "cuMemAllocHost_v2",
        "cuMemAllocManaged",
        "cuMemHostAlloc",
        "cuMemFree_v2",
        "cuMemFreeHost",
        "cuMemPoolTrimTo",
        "cuEventQuery",
        "cuEventSynchronize",
    ]
)
"""Calls that may wait for other work: they invalidate a capture unless it is relaxed."""


def checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A call's function, preceded by checks of its preconditions."""
    if name in REQUIRED:
        function = _with_pointers(REQUIRED[name], function)
    if name in UNSAFE:
        function = _outside_of_captures(function)
    if name in IN_CONTEXT:
        function = _in_a_context(function)
    if name in OF_OBJECT:
        function = _in_the_context_of(OF_OBJECT[name], function)
    return _telling_of_faults(function) if name in LAST_WORDS else function


def _with_pointers(places: tuple[int, ...], function: Callable[..., Any]) -> Callable[..., Any]:
    refusal = results.INVALID_VALUE

    def call(*arguments: Any) -> Any:
        for place in places:
            if not arguments[place]:
                return refusal
        return function(*arguments)

    return call


def _outside_of_captures(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        forbid_unsafe_call()
        return function(*arguments)

    return call


def _in_a_context(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        state().current()
        return function(*arguments)

    return call


def _in_the_context_of(place: int, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        s = state()
        if s.stack:
            return function(*arguments)
        item = s.handles.find(arguments[place])
        device = getattr(getattr(item, "context", None) or item, "device", None)
        if device is None:
            return function(*arguments)
        with in_context(device.primary):
            return function(*arguments)

    return call


def _telling_of_faults(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        stack = state().stack
        sticky = stack[-1].sticky if stack else results.SUCCESS
        return function(*arguments) or sticky

    return call
