"""Streams, events and graphs of the runtime: the driver's, with a few other structures."""

from __future__ import annotations

import ctypes

from warpwright.driver import c, graph_conditions, graph_nodes, graphs, results, streams
from warpwright.driver.calls import ENTRIES
from warpwright.driver.copies import Copy, Side
from warpwright.driver.graphs import Node
from warpwright.driver.runtime.calls import runtime, same
from warpwright.driver.runtime.memory import copy_3d
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
    raw[:8] = function_of(c.get64(pointer)).handle.to_bytes(8, "little")
    copy = ctypes.create_string_buffer(bytes(raw), len(raw))
    return graphs.kernel_work(ctypes.addressof(copy), False)


@runtime("cudaGraphAddKernelNode")
def add_kernel(place: int, graph: int, needs: int, count: int, parameters: int) -> None:
    graphs._add(place, graph, needs, count, kernel_work(parameters))


@runtime("cudaGraphKernelNodeSetParams")
def set_kernel(node: int, parameters: int) -> None:
    graphs.vertex(node).work = kernel_work(parameters)


@runtime("cudaGraphExecKernelNodeSetParams")
def update_kernel(executable: int, node: int, parameters: int) -> None:
    graphs._twin(executable, node).work = kernel_work(parameters)


@runtime("cudaGraphAddMemcpyNode")
def add_copy(place: int, graph: int, needs: int, count: int, parameters: int) -> None:
    graphs._add(place, graph, needs, count, copy_3d(parameters))


@runtime("cudaGraphMemcpyNodeSetParams")
def set_copy(node: int, parameters: int) -> None:
    graphs.vertex(node).work = copy_3d(parameters)


@runtime("cudaGraphExecMemcpyNodeSetParams")
def update_copy(executable: int, node: int, parameters: int) -> None:
    graphs._twin(executable, node).work = copy_3d(parameters)


def _line(target: int, source: int, size: int) -> Copy:
    return Copy(Side(target, size, 1), Side(source, size, 1), size)


@runtime("cudaGraphAddMemcpyNode1D")
def add_copy_1d(place: int, graph: int, needs: int, count: int, target: int, source: int, size: int, kind: int) -> None:
    graphs._add(place, graph, needs, count, _line(target, source, size))


@runtime("cudaGraphMemcpyNodeSetParams1D")
def set_copy_1d(node: int, target: int, source: int, size: int, kind: int) -> None:
    graphs.vertex(node).work = _line(target, source, size)


@runtime("cudaGraphExecMemcpyNodeSetParams1D")
def update_copy_1d(executable: int, node: int, target: int, source: int, size: int, kind: int) -> None:
    graphs._twin(executable, node).work = _line(target, source, size)


@runtime("cudaGraphAddMemcpyNodeToSymbol")
def add_copy_to_symbol(
    place: int, graph: int, needs: int, count: int, symbol: int, source: int, size: int, offset: int, kind: int
) -> None:
    graphs._add(place, graph, needs, count, _line(symbol_of(symbol)[0] + offset, source, size))


@runtime("cudaGraphAddMemcpyNodeFromSymbol")
def add_copy_from_symbol(
    place: int, graph: int, needs: int, count: int, target: int, symbol: int, size: int, offset: int, kind: int
) -> None:
    graphs._add(place, graph, needs, count, _line(target, symbol_of(symbol)[0] + offset, size))


@runtime("cudaGraphAddMemsetNode")
def add_fill(place: int, graph: int, needs: int, count: int, parameters: int) -> None:
    graphs._add(place, graph, needs, count, graphs.fill_work(parameters))


@runtime("cudaGraphExecMemsetNodeSetParams")
def update_fill(executable: int, node: int, parameters: int) -> None:
    graphs._twin(executable, node).work = graphs.fill_work(parameters)


# cudaGraphNodeParams: the driver's structure but for kernels and copies.
_MAKERS = {**graph_nodes.MAKERS, graphs.KERNEL: kernel_work, graphs.COPY: lambda at: copy_3d(at + 16)}


def add_node(place: int, graph: int, needs: int, count: int, parameters: int) -> None:
    graphs._add(place, graph, needs, count, graph_nodes.work_of(parameters, _MAKERS))


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
    graph_nodes.change(graphs._twin(executable, node), parameters, _MAKERS)


@runtime("cudaGraphConditionalHandleCreate")
def create_condition(place: int, graph: int, default: int, flags: int) -> int | None:
    return graph_conditions.create(place, graph, 0, default, flags)


@runtime("cudaGraphInstantiate")
def instantiate(place: int, handle: int, flags: int) -> None:
    c.put64(place, graphs.instantiate(handle, flags & 0xFFFF_FFFF))


@runtime("cudaGraphExecUpdate")
def update(executable: int, graph: int, info: int) -> int | None:
    outcome, node = graphs._update(executable, graph)
    c.write("iQQ", info, outcome, node, 0)
    return results.GRAPH_EXEC_UPDATE_FAILURE if outcome else None


def _versions(name: str, plain: str, with_data: str) -> None:
    """A function that got a pointer to edge data in CUDA 13."""
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
