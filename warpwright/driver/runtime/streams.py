"""Streams, events and graphs of the runtime: the driver's, with a few structures of its own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from warpwright.driver import cmemory, graph_conditions, graph_launches, graph_nodes, graphs, results, streams
from warpwright.driver.calls import ENTRIES
from warpwright.driver.copies import Copy, Side
from warpwright.driver.driver_state import state
from warpwright.driver.graphs import Node
from warpwright.driver.runtime.calls import runtime, same
from warpwright.driver.runtime.memory import copy_3d, described
from warpwright.driver.runtime.registration import function_of, symbol_of


@runtime("cudaStreamCreate")
def stream_create(place: int) -> int | None:
    return streams.create(place, 0)


@runtime("cudaEventCreate")
def event_create(place: int) -> int | None:
    return streams.event_create(place, 0)


@runtime("cudaStreamGetCaptureInfo", versions=("12",))
def capture_info_12(handle: int, status: int, number: int) -> None:
    streams.capture_info(handle, status, number)


@runtime("cudaStreamGetCaptureInfo", versions=("13",))
@runtime("cudaStreamGetCaptureInfo_v3")
def capture_info_13(handle: int, status: int, number: int, graph: int, needs: int, data: int, count: int) -> None:
    streams.capture_info_3(handle, status, number, graph, needs, data, count)


@runtime("cudaStreamUpdateCaptureDependencies", versions=("12",))
def update_12(handle: int, needs: int, count: int, flags: int) -> None:
    streams.update_dependencies(handle, needs, count, flags)


@runtime("cudaStreamUpdateCaptureDependencies", versions=("13",))
@runtime("cudaStreamUpdateCaptureDependencies_v2")
def update_13(handle: int, needs: int, data: int, count: int, flags: int) -> None:
    streams.update_dependencies(handle, needs, count, flags)


# --- graphs ------------------------------------------------------------------------------------------
def kernel_work(pointer: int) -> Node:
    """A launch from cudaKernelNodeParams: the driver's structure, with a host stub instead of the function."""
    raw = bytearray(ctypes.string_at(pointer, 56))
    raw[:8] = function_of(cmemory.get64(pointer)).handle.to_bytes(8, "little")
    copy = ctypes.create_string_buffer(bytes(raw), len(raw))
    return graph_nodes.first_kernel_work(ctypes.addressof(copy))


def _line(target: int, source: int, size: int) -> Copy:
    return Copy(Side(target, size, 1), Side(source, size, 1), size)


def _to_symbol(symbol: int, source: int, size: int, offset: int) -> Copy:
    return _line(symbol_of(symbol)[0] + offset, source, size)


def _from_symbol(target: int, symbol: int, size: int, offset: int) -> Copy:
    return _line(target, symbol_of(symbol)[0] + offset, size)


def _register_kind(make: Callable[..., Node], kind: str, form: str = "") -> None:
    names = (f"cudaGraphAdd{kind}Node", f"cudaGraph{kind}NodeSetParams", f"cudaGraphExec{kind}NodeSetParams")
    graph_nodes.register(runtime, make, *(n + form for n in names))


_register_kind(kernel_work, "Kernel")
_register_kind(copy_3d, "Memcpy")
_register_kind(_line, "Memcpy", "1D")
_register_kind(_to_symbol, "Memcpy", "ToSymbol")
_register_kind(_from_symbol, "Memcpy", "FromSymbol")
graph_nodes.register(
    runtime, graph_nodes.fill_work, "cudaGraphAddMemsetNode", update="cudaGraphExecMemsetNodeSetParams"
)


@runtime("cudaGraphMemcpyNodeGetParams")
def copy_parameters(node: int, place: int) -> int | None:
    work = graphs.vertex(node).work
    if not isinstance(work, Copy):
        return results.INVALID_VALUE
    raw = described(work)
    ctypes.memmove(place, raw, len(raw))
    return None


# cudaGraphNodeParams: the driver's structure except for kernels and copies.
_MAKERS = {**graph_nodes.MAKERS, graphs.KERNEL: kernel_work, graphs.COPY: lambda at: copy_3d(at + 16)}


def add_node(place: int, graph: int, needs: int, count: int, parameters: int) -> None:
    graphs.insert(place, graph, needs, count, graph_nodes.work_of(parameters, _MAKERS))


def add_node_2(place: int, graph: int, needs: int, data: int, count: int, parameters: int) -> None:
    add_node(place, graph, needs, count, parameters)


runtime("cudaGraphAddNode", versions=("12",))(add_node)
runtime("cudaGraphAddNode", versions=("13",))(add_node_2)
runtime("cudaGraphAddNode_v2")(add_node_2)


@runtime("cudaGraphNodeSetParams")
def set_node(node: int, parameters: int) -> None:
    graph_nodes.change(graphs.vertex(node), parameters, _MAKERS)


@runtime("cudaGraphExecNodeSetParams")
def update_node(executable: int, node: int, parameters: int) -> None:
    graph_nodes.change(graphs.twin(executable, node), parameters, _MAKERS)


@runtime("cudaGraphConditionalHandleCreate")
def create_condition(place: int, graph: int, default: int, flags: int) -> int | None:
    return graph_conditions.create(place, graph, state().current().handle, default, flags)


@runtime("cudaGraphInstantiate")
def instantiate(place: int, handle: int, flags: int) -> None:
    cmemory.put64(place, graph_launches.instantiate(handle, flags & 0xFFFF_FFFF))


@runtime("cudaGraphExecUpdate")
def update(executable: int, graph: int, info: int) -> int | None:
    outcome, node = graph_launches.take_over(executable, graph)
    cmemory.write("iQQ", info, outcome, node, 0)
    return results.GRAPH_EXEC_UPDATE_FAILURE if outcome else None


def _versions(name: str, plain: str, with_data: str) -> None:
    """A function that has an additional pointer to edge data in CUDA 13."""
    old, new = ENTRIES[plain], ENTRIES[with_data]
    runtime(name, versions=("12",))(lambda *a: old(*a))
    runtime(name, versions=("13",))(lambda *a: new(*a))
    runtime(f"{name}_v2")(lambda *a: new(*a))


for _name in ("AddDependencies", "RemoveDependencies", "GetEdges", "NodeGetDependencies", "NodeGetDependentNodes"):
    _versions(f"cudaGraph{_name}", f"cuGraph{_name}", f"cuGraph{_name}_v2")

for _name, _driver in (
    ("cudaStreamCreateWithFlags", "cuStreamCreate"),
    ("cudaStreamCreateWithPriority", "cuStreamCreateWithPriority"),
    ("cudaStreamDestroy", "cuStreamDestroy_v2"),
    ("cudaStreamSynchronize", "cuStreamSynchronize"),
    ("cudaStreamQuery", "cuStreamQuery"),
    ("cudaStreamWaitEvent", "cuStreamWaitEvent"),
    ("cudaStreamAddCallback", "cuStreamAddCallback"),
    ("cudaLaunchHostFunc", "cuLaunchHostFunc"),
    ("cudaStreamGetFlags", "cuStreamGetFlags"),
    ("cudaStreamGetPriority", "cuStreamGetPriority"),
    ("cudaStreamGetId", "cuStreamGetId"),
    ("cudaStreamGetDevice", "cuStreamGetDevice"),
    ("cudaStreamAttachMemAsync", "cuStreamAttachMemAsync"),
    ("cudaStreamGetAttribute", "cuStreamGetAttribute"),
    ("cudaStreamSetAttribute", "cuStreamSetAttribute"),
    ("cudaStreamCopyAttributes", "cuStreamCopyAttributes"),
    ("cudaStreamBeginCapture", "cuStreamBeginCapture_v2"),
    ("cudaStreamBeginCaptureToGraph", "cuStreamBeginCaptureToGraph"),
    ("cudaStreamEndCapture", "cuStreamEndCapture"),
    ("cudaStreamIsCapturing", "cuStreamIsCapturing"),
    ("cudaStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo_v2"),
    ("cudaThreadExchangeStreamCaptureMode", "cuThreadExchangeStreamCaptureMode"),
    ("cudaEventCreateWithFlags", "cuEventCreate"),
    ("cudaEventDestroy", "cuEventDestroy_v2"),
    ("cudaEventRecord", "cuEventRecord"),
    ("cudaEventRecordWithFlags", "cuEventRecordWithFlags"),
    ("cudaEventSynchronize", "cuEventSynchronize"),
    ("cudaEventQuery", "cuEventQuery"),
    ("cudaEventElapsedTime", "cuEventElapsedTime"),
    ("cudaEventElapsedTime_v2", "cuEventElapsedTime"),
    ("cudaGraphCreate", "cuGraphCreate"),
    ("cudaGraphDestroy", "cuGraphDestroy"),
    ("cudaGraphDestroyNode", "cuGraphDestroyNode"),
    ("cudaGraphClone", "cuGraphClone"),
    ("cudaGraphGetNodes", "cuGraphGetNodes"),
    ("cudaGraphGetRootNodes", "cuGraphGetRootNodes"),
    ("cudaGraphNodeGetType", "cuGraphNodeGetType"),
    ("cudaGraphNodeFindInClone", "cuGraphNodeFindInClone"),
    ("cudaGraphAddEmptyNode", "cuGraphAddEmptyNode"),
    ("cudaGraphAddMemAllocNode", "cuGraphAddMemAllocNode"),
    ("cudaGraphAddMemFreeNode", "cuGraphAddMemFreeNode"),
    ("cudaGraphMemAllocNodeGetParams", "cuGraphMemAllocNodeGetParams"),
    ("cudaGraphMemFreeNodeGetParams", "cuGraphMemFreeNodeGetParams"),
    ("cudaGraphAddHostNode", "cuGraphAddHostNode"),
    ("cudaGraphAddChildGraphNode", "cuGraphAddChildGraphNode"),
    ("cudaGraphChildGraphNodeGetGraph", "cuGraphChildGraphNodeGetGraph"),
    ("cudaGraphAddEventRecordNode", "cuGraphAddEventRecordNode"),
    ("cudaGraphAddEventWaitNode", "cuGraphAddEventWaitNode"),
    ("cudaGraphEventRecordNodeGetEvent", "cuGraphEventRecordNodeGetEvent"),
    ("cudaGraphEventRecordNodeSetEvent", "cuGraphEventRecordNodeSetEvent"),
    ("cudaGraphEventWaitNodeGetEvent", "cuGraphEventWaitNodeGetEvent"),
    ("cudaGraphEventWaitNodeSetEvent", "cuGraphEventWaitNodeSetEvent"),
    ("cudaGraphExecEventRecordNodeSetEvent", "cuGraphExecEventRecordNodeSetEvent"),
    ("cudaGraphExecEventWaitNodeSetEvent", "cuGraphExecEventWaitNodeSetEvent"),
    ("cudaGraphKernelNodeSetAttribute", "cuGraphKernelNodeSetAttribute"),
    ("cudaGraphKernelNodeGetAttribute", "cuGraphKernelNodeGetAttribute"),
    ("cudaGraphKernelNodeCopyAttributes", "cuGraphKernelNodeCopyAttributes"),
    ("cudaGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags"),
    ("cudaGraphInstantiateWithParams", "cuGraphInstantiateWithParams"),
    ("cudaGraphLaunch", "cuGraphLaunch"),
    ("cudaGraphUpload", "cuGraphUpload"),
    ("cudaGraphExecDestroy", "cuGraphExecDestroy"),
    ("cudaGraphExecHostNodeSetParams", "cuGraphExecHostNodeSetParams"),
    ("cudaGraphExecChildGraphNodeSetParams", "cuGraphExecChildGraphNodeSetParams"),
    ("cudaGraphExecGetFlags", "cuGraphExecGetFlags"),
    ("cudaGraphHostNodeSetParams", "cuGraphHostNodeSetParams"),
    ("cudaGraphHostNodeGetParams", "cuGraphHostNodeGetParams"),
    ("cudaGraphMemsetNodeSetParams", "cuGraphMemsetNodeSetParams"),
    ("cudaGraphMemsetNodeGetParams", "cuGraphMemsetNodeGetParams"),
    ("cudaGraphKernelNodeGetParams", "cuGraphKernelNodeGetParams"),
    ("cudaGraphNodeSetEnabled", "cuGraphNodeSetEnabled"),
    ("cudaGraphNodeGetEnabled", "cuGraphNodeGetEnabled"),
    ("cudaGraphDebugDotPrint", "cuGraphDebugDotPrint"),
    ("cudaUserObjectCreate", "cuUserObjectCreate"),
    ("cudaUserObjectRetain", "cuUserObjectRetain"),
    ("cudaUserObjectRelease", "cuUserObjectRelease"),
    ("cudaGraphRetainUserObject", "cuGraphRetainUserObject"),
    ("cudaGraphReleaseUserObject", "cuGraphReleaseUserObject"),
):
    same(_name, _driver)
