"""Nodes of graphs: creation and parameters per kind, and of all kinds through CUgraphNodeParams.

The runtime has the same functions over structures of its own; both are registered by :func:`register`.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from warpwright.driver import cmemory, graphs, results
from warpwright.driver.access_windows import WINDOW, window_of
from warpwright.driver.calls import entry
from warpwright.driver.copies import Copy, Fill, check_device, copy_3d, described
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import state
from warpwright.driver.functions import function
from warpwright.driver.graph_conditions import CONDITIONAL, conditional_work
from warpwright.driver.graph_memory import ALLOCATE, allocation_work
from warpwright.driver.graphs import Empty, Graph, HostCall, Node, Vertex, insert, twin, vertex
from warpwright.driver.launches import Launch, check, gather
from warpwright.driver.memory_operations import MEMORY_OPERATIONS, operations_work
from warpwright.driver.pools import FreeNode
from warpwright.driver.streams import Event, RecordEvent, WaitEvent
from warpwright.driver.updatable_nodes import UPDATABLE, made_updatable

_TYPE_BYTES = 16
"""CUgraphNodeParams: a type, and from this byte on what that kind takes."""
FREE = 11
"""CU_GRAPH_NODE_TYPE_MEM_FREE."""
Maker = Callable[[int], Node]
"""Work from a structure's address, or from the value passed instead of it."""


def _launch_of(handle: int, rest: tuple[int, ...]) -> Launch:
    gx, gy, gz, bx, by, bz, shared, parameters, extra = rest
    target = function(handle)
    made = Launch(target, (gx, gy, gz), (bx, by, bz), shared, gather(target, parameters, extra))
    made.partition = state().current().partition
    check(made)
    return made


def first_kernel_work(pointer: int) -> Launch:
    """A launch from CUDA_KERNEL_NODE_PARAMS_v1."""
    handle, *rest = cmemory.read("Q7IQQ", pointer)
    return _launch_of(handle, tuple(rest))


def kernel_work(pointer: int) -> Launch:
    """A launch from CUDA_KERNEL_NODE_PARAMS, which has a kernel and a context in addition."""
    handle, *rest, kernel, _ = cmemory.read("Q7IQQQQ", pointer)
    return _launch_of(handle or kernel, tuple(rest))


def fill_work(pointer: int) -> Fill:
    """A fill from CUDA_MEMSET_NODE_PARAMS."""
    address, pitch, value, size, width, height = cmemory.read("QQIIQQ", pointer)
    if size not in (1, 2, 4) or not width or not height or address % size or (height > 1 and pitch < width * size):
        raise CudaError(results.INVALID_VALUE)
    check_device(address, pitch * (height - 1) + width * size, graph_memory=True)
    return Fill(address, value, size, width, height, pitch)


def host_work(pointer: int) -> HostCall:
    """A call from CUDA_HOST_NODE_PARAMS."""
    function, data = cmemory.read("QQ", pointer)
    if not function:
        raise CudaError(results.INVALID_VALUE)
    return HostCall(function, data)


def child_work(handle: int) -> Graph:
    """A copy of a graph."""
    return state().handles.get(Graph, handle).copied()


def _event(handle: int) -> Event:
    if not handle:
        raise CudaError(results.INVALID_VALUE)
    return state().handles.get(Event, handle)


def record_work(handle: int) -> RecordEvent:
    """The record of an event."""
    return RecordEvent(_event(handle))


def wait_work(handle: int) -> WaitEvent:
    """The wait for an event."""
    return WaitEvent(_event(handle))


def register(
    name: Callable[[str], Callable[[Any], Any]],
    make: Callable[..., Node],
    add: str = "",
    change: str = "",
    update: str = "",
) -> None:
    """Provide three functions of a kind of nodes, those that have a name.

    Args:
        name: makes a function the entry point of a name.
        make: the work, from the arguments after the node.  What a name's function takes beyond them (a context) is not looked at.
        add: adds a node to a graph.
        change: gives a node of a graph other work.
        update: gives the node's twin in an executable graph other work.
    """
    arguments = len(inspect.signature(make).parameters)

    def add_node(place: int, graph: int, needs: int, count: int, *given: int) -> None:
        insert(place, graph, needs, count, make(*given[:arguments]))

    def change_node(node: int, *given: int) -> None:
        vertex(node).change(make(*given[:arguments]))

    def update_node(executable: int, node: int, *given: int) -> None:
        twin(executable, node).change(make(*given[:arguments]))

    for wanted, provided in ((add, add_node), (change, change_node), (update, update_node)):
        if wanted:
            name(wanted)(provided)


def _register_kind(make: Maker, kind: str, parameters: str = "Params", version: str = "") -> None:
    names = (f"cuGraphAdd{kind}Node", f"cuGraph{kind}NodeSet{parameters}", f"cuGraphExec{kind}NodeSet{parameters}")
    register(entry, make, *(n + version for n in names))


_register_kind(first_kernel_work, "Kernel")
_register_kind(kernel_work, "Kernel", version="_v2")
_register_kind(copy_3d, "Memcpy")
_register_kind(fill_work, "Memset")
_register_kind(host_work, "Host")
_register_kind(record_work, "EventRecord", "Event")
_register_kind(wait_work, "EventWait", "Event")
_register_kind(operations_work, "BatchMemOp")
register(entry, child_work, "cuGraphAddChildGraphNode", update="cuGraphExecChildGraphNodeSetParams")
register(entry, Empty, "cuGraphAddEmptyNode")


# --- what a node has ---------------------------------------------------------------------------------
@entry("cuGraphChildGraphNodeGetGraph")
def child_graph(handle: int, place: int) -> int | None:
    work = vertex(handle).work
    if not isinstance(work, Graph):
        return results.INVALID_VALUE
    cmemory.put64(place, work.handle)
    return None


@entry("cuGraphEventRecordNodeGetEvent", "cuGraphEventWaitNodeGetEvent")
def event_of(handle: int, place: int) -> int | None:
    work = vertex(handle).work
    if not isinstance(work, RecordEvent | WaitEvent):
        return results.INVALID_VALUE
    cmemory.put64(place, work.event.handle)
    return None


def _put_kernel(handle: int, place: int, form: str, *more: int) -> None:
    one = vertex(handle)
    work = one.work
    if not isinstance(work, Launch):
        raise CudaError(results.INVALID_VALUE)
    # Pointers to copies of the parameters, alive as long as the graph.
    raw = ctypes.create_string_buffer(work.parameters, max(len(work.parameters), 1))
    array = (ctypes.c_uint64 * max(len(work.function.parameters), 1))()
    for i, (offset, _) in enumerate(work.function.parameters):
        array[i] = ctypes.addressof(raw) + offset
    one.graph.kept.append((raw, array))
    cmemory.write(
        form, place, work.function.handle, *work.grid, *work.block, work.shared, ctypes.addressof(array), 0, *more
    )


@entry("cuGraphKernelNodeGetParams")
def first_kernel_parameters(handle: int, place: int) -> None:
    _put_kernel(handle, place, "Q7IQQ")


@entry("cuGraphKernelNodeGetParams_v2")
def kernel_parameters(handle: int, place: int) -> None:
    # kern, ctx
    _put_kernel(handle, place, "Q7IQQQQ", 0, 0)


@entry("cuGraphMemcpyNodeGetParams")
def copy_parameters(handle: int, place: int) -> int | None:
    work = vertex(handle).work
    if not isinstance(work, Copy):
        return results.INVALID_VALUE
    raw = described(work)
    ctypes.memmove(place, raw, len(raw))
    return None


@entry("cuGraphMemsetNodeGetParams")
def fill_parameters(handle: int, place: int) -> int | None:
    work = vertex(handle).work
    if not isinstance(work, Fill):
        return results.INVALID_VALUE
    cmemory.write("QQIIQQ", place, work.address, work.pitch, work.value, work.size, work.width, work.height)
    return None


@entry("cuGraphHostNodeGetParams")
def host_parameters(handle: int, place: int) -> int | None:
    work = vertex(handle).work
    if not isinstance(work, HostCall):
        return results.INVALID_VALUE
    cmemory.write("QQ", place, work.function, work.data)
    return None


@entry("cuGraphKernelNodeSetAttribute")
def set_node_attribute(handle: int, number: int, value: int) -> None:
    raw = ctypes.string_at(value, 64)
    node = vertex(handle)
    if number == WINDOW and isinstance(node.work, Launch):
        node.work = replace(node.work, window=window_of(raw))
    if number == UPDATABLE:
        node.updatable, raw = made_updatable(node.updatable, raw)
        ctypes.memmove(value, raw, len(raw))
    node.attributes[number] = raw


@entry("cuGraphKernelNodeGetAttribute")
def node_attribute(handle: int, number: int, place: int) -> None:
    ctypes.memmove(place, vertex(handle).attributes.get(number, bytes(64)), 64)


@entry("cuGraphKernelNodeCopyAttributes")
def copy_attributes(target: int, source: int) -> None:
    to, of = vertex(target), vertex(source)
    if to.updatable is not None or of.updatable is not None:
        raise CudaError(results.NOT_SUPPORTED)
    to.attributes = dict(of.attributes)
    to.work = to.work.with_attributes_of(of.work)


# --- nodes of any kind -------------------------------------------------------------------------------
MAKERS: Mapping[int, Maker] = {
    graphs.KERNEL: kernel_work,
    # flags, reserved, context, then CUDA_MEMCPY3D
    graphs.COPY: lambda at: copy_3d(at + 16),
    graphs.FILL: fill_work,
    graphs.HOST: host_work,
    graphs.GRAPH: lambda at: child_work(cmemory.get64(at)),
    graphs.EMPTY: lambda at: Empty(),
    graphs.WAIT_EVENT: lambda at: wait_work(cmemory.get64(at)),
    graphs.RECORD_EVENT: lambda at: record_work(cmemory.get64(at)),
    ALLOCATE: allocation_work,
    FREE: lambda at: FreeNode(cmemory.get64(at)),
    CONDITIONAL: conditional_work,
    MEMORY_OPERATIONS: operations_work,
}
_FIXED = frozenset((ALLOCATE, FREE, CONDITIONAL))
"""Kinds whose nodes keep what they were made with."""


def work_of(pointer: int, makers: Mapping[int, Maker] = MAKERS) -> Node:
    """The work that a structure describes.

    Raises:
        CudaError: a kind of node that is not provided.
    """
    make = makers.get(cmemory.get32(pointer))
    if make is None:
        raise CudaError(results.NOT_SUPPORTED, f"graph nodes of type {cmemory.get32(pointer)} are not provided")
    return make(pointer + _TYPE_BYTES)


def change(one: Vertex, pointer: int, makers: Mapping[int, Maker] = MAKERS) -> None:
    """Give a node other parameters of its kind."""
    # Before the work is made: making an allocation takes addresses.
    if one.work.kind in _FIXED or cmemory.get32(pointer) != one.work.kind:
        raise CudaError(results.INVALID_VALUE)
    one.change(work_of(pointer, makers))


@entry("cuGraphAddNode")
def add(place: int, graph: int, needs: int, count: int, parameters: int) -> None:
    insert(place, graph, needs, count, work_of(parameters))


@entry("cuGraphAddNode_v2")
def add_2(place: int, graph: int, needs: int, data: int, count: int, parameters: int) -> None:
    insert(place, graph, needs, count, work_of(parameters), data)


@entry("cuGraphNodeSetParams")
def set_parameters(node: int, parameters: int) -> None:
    change(vertex(node), parameters)


@entry("cuGraphExecNodeSetParams")
def update_parameters(executable: int, node: int, parameters: int) -> None:
    change(twin(executable, node), parameters)
