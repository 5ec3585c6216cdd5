"""Graphs: nodes with dependencies, captured from streams or built by hand, instantiated, updated and launched.

Everything that a stream does is a :class:`Node`; :func:`submit` runs it at once, or records it while its stream captures.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from warpwright.driver import c, results
from warpwright.driver.calls import CudaError, entry
from warpwright.driver.state import Stream, state

KERNEL, COPY, FILL, HOST, GRAPH, EMPTY, WAIT_EVENT, RECORD_EVENT = 0, 1, 2, 3, 4, 5, 6, 7
"""CUgraphNodeType."""


class Node:
    """One piece of work."""

    __slots__ = ()
    kind: ClassVar[int] = EMPTY

    def run(self, stream: Stream) -> None:
        """Do it now."""

    def copied(self) -> Node:
        """The same work for a copy of its graph; only nodes that hold graphs differ from one copy to another."""
        return self

    def graphs(self) -> tuple[Graph, ...]:
        """Graphs that belong to the node."""
        return ()


@dataclass(eq=False)
class Vertex:
    """A node in a graph."""

    work: Node
    graph: Graph
    needs: list[Vertex] = field(default_factory=list)
    handle: int = 0
    enabled: bool = True
    attributes: dict[int, bytes] = field(default_factory=dict)

    def release(self) -> None:
        """Forget its handle, and the graphs in it."""
        for graph in self.work.graphs():
            graph.release()
        state().handles.drop(self.handle)

    def replace(self, work: Node) -> None:
        """Take other work; graphs of the old are gone."""
        for graph in self.work.graphs():
            graph.release()
        self.work = work


@dataclass(eq=False)
class Graph(Node):
    """A graph; as a node it is a child graph."""

    handle: int = 0
    vertices: list[Vertex] = field(default_factory=list)
    users: list[Any] = field(default_factory=list)
    conditions: list[Any] = field(default_factory=list)
    """Conditions that were made for it (:mod:`warpwright.driver.graph_conditions`)."""

    kind = GRAPH

    def add(self, work: Node, needs: Iterable[Vertex]) -> Vertex:
        made = Vertex(work, self, list(dict.fromkeys(needs)))
        made.handle = state().handles.add(made)
        self.vertices.append(made)
        return made

    def ordered(self) -> list[Vertex]:
        """Vertices, each behind those that it needs; otherwise in the order of their making.

        Raises:
            CudaError: the graph has a cycle.
        """
        order: list[Vertex] = []
        # No function that calls itself: its closure would keep the vertices until the next garbage collection, and chains are long.
        entered: set[Vertex] = set()
        left: set[Vertex] = set()
        ahead = self.vertices[::-1]
        while ahead:
            vertex = ahead[-1]
            if vertex in left:
                ahead.pop()
            elif vertex in entered:
                ahead.pop()
                left.add(vertex)
                order.append(vertex)
            else:
                entered.add(vertex)
                needed = [v for v in vertex.needs if v not in left]
                if any(v in entered for v in needed):
                    raise CudaError(results.INVALID_VALUE)
                ahead += needed[::-1]
        return order

    def clone(self) -> tuple[Graph, dict[Vertex, Vertex]]:
        """A copy with the vertices of both."""
        copy = new_graph()
        copy.conditions = list(self.conditions)
        twin: dict[Vertex, Vertex] = {}
        for vertex in self.vertices:
            twin[vertex] = copy.add(vertex.work.copied(), ())
            twin[vertex].enabled = vertex.enabled
            twin[vertex].attributes = dict(vertex.attributes)
        for vertex, made in twin.items():
            made.needs = [twin[n] for n in vertex.needs]
        return copy, twin

    def copied(self) -> Graph:
        return self.clone()[0]

    def graphs(self) -> tuple[Graph, ...]:
        return (self,)

    def release(self) -> None:
        """Forget its handle, its nodes' and those of the graphs in them."""
        for vertex in self.vertices:
            vertex.release()
        # Vertices name their graph: what they hold, conditions and memory, is to go now.
        self.vertices, self.conditions = [], []
        state().handles.drop(self.handle)

    def run(self, stream: Stream) -> None:
        """Each vertex starts when those that it needs have ended, so independent ones overlap in simulated time."""
        begin = state().begin(stream)
        ends: dict[Vertex, float] = {}
        lane = Stream(flags=1)
        for vertex in self.ordered():
            lane.seconds = max((ends[n] for n in vertex.needs), default=begin)
            if vertex.enabled:
                vertex.work.run(lane)
            ends[vertex] = lane.seconds
        stream.seconds = max(ends.values(), default=begin)


def new_graph() -> Graph:
    made = Graph()
    made.handle = state().handles.add(made)
    return made


@dataclass(eq=False)
class Executable:
    """An instantiated graph."""

    graph: Graph
    twins: dict[Vertex, Vertex]
    """The executable's vertex of each vertex of the graph that it was made from."""
    flags: int = 0


before_launch: list[Callable[[Graph, int], None]] = []
"""What a launch of an executable graph begins with, each with the graph and the flags of its instantiation."""


def submit(stream: Stream, work: Node) -> None:
    """Run work in a stream, or record it while the stream captures."""
    if stream.capture is None:
        if stream is state().default_stream:
            _check_legacy()
        work.run(stream)
        return
    if stream.capture_broken:
        raise CudaError(results.STREAM_CAPTURE_INVALIDATED)
    stream.capture_tail = [stream.capture.add(work, stream.capture_tail)]


def _check_legacy() -> None:
    """Work of the default stream would have to wait for streams that only record."""
    for stream in state().streams:
        if stream.capture is not None and stream.blocking and stream is not state().default_stream:
            stream.capture_broken = True
            raise CudaError(results.STREAM_CAPTURE_IMPLICIT)


@dataclass(eq=False)
class HostCall(Node):
    """A function of the program that runs in a stream's order."""

    function: int
    data: int
    kind = HOST

    def run(self, stream: Stream) -> None:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.function)(self.data)


class Empty(Node):
    """Nothing but dependencies."""

    __slots__ = ()


# --- building ----------------------------------------------------------------------------------------
def vertex(handle: int) -> Vertex:
    """The vertex behind a CUgraphNode."""
    return state().handles.get(Vertex, handle)


def _vertices(pointer: int, count: int) -> list[Vertex]:
    return [vertex(h) for h in c.words64(pointer, count)]


def _add(place: int, graph: int, needs: int, count: int, work: Node) -> Vertex:
    made = state().handles.get(Graph, graph).add(work, _vertices(needs, count))
    c.put64(place, made.handle)
    return made


@entry("cuGraphCreate")
def create(place: int, flags: int) -> int | None:
    state().check_process()
    if flags or not place:
        return results.INVALID_VALUE
    c.put64(place, new_graph().handle)
    return None


@entry("cuGraphDestroy")
def destroy(handle: int) -> None:
    state().handles.get(Graph, handle).release()


@entry("cuGraphDestroyNode")
def destroy_node(handle: int) -> None:
    gone = vertex(handle)
    gone.graph.vertices.remove(gone)
    for v in gone.graph.vertices:
        if gone in v.needs:
            v.needs.remove(gone)
    gone.release()


@entry("cuGraphAddEmptyNode")
def add_empty(place: int, graph: int, needs: int, count: int) -> None:
    _add(place, graph, needs, count, Empty())


def kernel_work(pointer: int, second: bool) -> Node:
    """A launch from CUDA_KERNEL_NODE_PARAMS; the second form adds kernel and context."""
    from warpwright.driver.functions import function
    from warpwright.driver.launches import Launch, check, gather

    f = c.read("Q7IQQQQ" if second else "Q7IQQ", pointer)
    handle, gx, gy, gz, bx, by, bz, shared, parameters, extra = f[:10]
    target = function(handle or f[10])
    made = Launch(target, (gx, gy, gz), (bx, by, bz), shared, gather(target, parameters, extra))
    check(made)
    return made


@entry("cuGraphAddKernelNode")
def add_kernel(place: int, graph: int, needs: int, count: int, parameters: int) -> None:
    _add(place, graph, needs, count, kernel_work(parameters, False))


@entry("cuGraphAddKernelNode_v2")
def add_kernel_2(place: int, graph: int, needs: int, count: int, parameters: int) -> None:
    _add(place, graph, needs, count, kernel_work(parameters, True))


@entry("cuGraphAddMemcpyNode")
def add_copy(place: int, graph: int, needs: int, count: int, parameters: int, context: int) -> None:
    from warpwright.driver.copies import copy_3d

    _add(place, graph, needs, count, copy_3d(parameters))


def fill_work(pointer: int) -> Node:
    """A fill from CUDA_MEMSET_NODE_PARAMS."""
    from warpwright.driver.copies import Fill

    address, pitch, value, size, width, height = c.read("QQIIQQ", pointer)
    return Fill(address, value, size, width, height, pitch)


@entry("cuGraphAddMemsetNode")
def add_fill(place: int, graph: int, needs: int, count: int, parameters: int, context: int) -> None:
    _add(place, graph, needs, count, fill_work(parameters))


@entry("cuGraphAddHostNode")
def add_host(place: int, graph: int, needs: int, count: int, parameters: int) -> None:
    _add(place, graph, needs, count, HostCall(*c.read("QQ", parameters)))


@entry("cuGraphAddChildGraphNode")
def add_child(place: int, graph: int, needs: int, count: int, child: int) -> None:
    _add(place, graph, needs, count, state().handles.get(Graph, child).copied())


@entry("cuGraphChildGraphNodeGetGraph")
def child_graph(handle: int, place: int) -> int | None:
    work = vertex(handle).work
    if not isinstance(work, Graph):
        return results.INVALID_VALUE
    c.put64(place, work.handle)
    return None


@entry("cuGraphAddEventRecordNode", "cuGraphAddEventWaitNode")
def add_event(place: int, graph: int, needs: int, count: int, event: int) -> None:
    from warpwright.driver.streams import Event, RecordEvent

    _add(place, graph, needs, count, RecordEvent(state().handles.get(Event, event)))


@entry("cuGraphClone")
def clone(place: int, handle: int) -> None:
    c.put64(place, state().handles.get(Graph, handle).clone()[0].handle)


def _put_list(place: int, room_place: int, found: list[Vertex]) -> None:
    if place:
        room = c.get64(room_place)
        for i, v in enumerate(found[:room]):
            c.put64(place + 8 * i, v.handle)
        for i in range(len(found), room):
            c.put64(place + 8 * i, 0)
    c.put64(room_place, len(found))


@entry("cuGraphGetNodes")
def get_nodes(handle: int, place: int, count: int) -> None:
    _put_list(place, count, state().handles.get(Graph, handle).vertices)


@entry("cuGraphGetRootNodes")
def get_roots(handle: int, place: int, count: int) -> None:
    _put_list(place, count, [v for v in state().handles.get(Graph, handle).vertices if not v.needs])


def _edges(handle: int, origins: int, targets: int, count: int) -> None:
    pairs = [(n, v) for v in state().handles.get(Graph, handle).vertices for n in v.needs]
    if origins and targets:
        for i, (origin, target) in enumerate(pairs[: c.get64(count)]):
            c.put64(origins + 8 * i, origin.handle)
            c.put64(targets + 8 * i, target.handle)
    c.put64(count, len(pairs))


@entry("cuGraphGetEdges")
def get_edges(handle: int, origins: int, targets: int, count: int) -> None:
    _edges(handle, origins, targets, count)


@entry("cuGraphGetEdges_v2")
def get_edges_2(handle: int, origins: int, targets: int, data: int, count: int) -> None:
    _edges(handle, origins, targets, count)


@entry("cuGraphNodeGetDependencies")
def dependencies(handle: int, place: int, count: int) -> None:
    _put_list(place, count, vertex(handle).needs)


@entry("cuGraphNodeGetDependencies_v2")
def dependencies_2(handle: int, place: int, data: int, count: int) -> None:
    _put_list(place, count, vertex(handle).needs)


@entry("cuGraphNodeGetDependentNodes")
def dependents(handle: int, place: int, count: int) -> None:
    one = vertex(handle)
    _put_list(place, count, [v for v in one.graph.vertices if one in v.needs])


@entry("cuGraphNodeGetDependentNodes_v2")
def dependents_2(handle: int, place: int, data: int, count: int) -> None:
    dependents(handle, place, count)


def _change_dependencies(origins: int, targets: int, count: int, add: bool) -> None:
    for origin, target in zip(_vertices(origins, count), _vertices(targets, count), strict=True):
        if add == (origin in target.needs):
            raise CudaError(results.INVALID_VALUE)
        if add:
            target.needs.append(origin)
        else:
            target.needs.remove(origin)


@entry("cuGraphAddDependencies")
def add_dependencies(handle: int, origins: int, targets: int, count: int) -> None:
    _change_dependencies(origins, targets, count, True)


@entry("cuGraphAddDependencies_v2")
def add_dependencies_2(handle: int, origins: int, targets: int, data: int, count: int) -> None:
    _change_dependencies(origins, targets, count, True)


@entry("cuGraphRemoveDependencies")
def remove_dependencies(handle: int, origins: int, targets: int, count: int) -> None:
    _change_dependencies(origins, targets, count, False)


@entry("cuGraphRemoveDependencies_v2")
def remove_dependencies_2(handle: int, origins: int, targets: int, data: int, count: int) -> None:
    _change_dependencies(origins, targets, count, False)


@entry("cuGraphNodeGetType")
def node_type(handle: int, place: int) -> None:
    c.put32(place, vertex(handle).work.kind)


@entry("cuGraphNodeFindInClone")
def find_in_clone(place: int, handle: int, graph: int) -> int | None:
    original = vertex(handle)
    copy = state().handles.get(Graph, graph)
    index = original.graph.vertices.index(original)
    if index >= len(copy.vertices):
        return results.INVALID_VALUE
    c.put64(place, copy.vertices[index].handle)
    return None


@entry("cuGraphKernelNodeGetParams", "cuGraphKernelNodeGetParams_v2")
def kernel_parameters(handle: int, place: int) -> int | None:
    from warpwright.driver.launches import Launch

    one = vertex(handle)
    if not isinstance(one.work, Launch):
        return results.INVALID_VALUE
    work = one.work
    # Pointers to copies of the parameters, alive as long as the graph.
    raw = ctypes.create_string_buffer(work.parameters, max(len(work.parameters), 1))
    array = (ctypes.c_uint64 * max(len(work.function.parameters), 1))()
    for i, (offset, _) in enumerate(work.function.parameters):
        array[i] = ctypes.addressof(raw) + offset
    one.graph.users.append((raw, array))
    c.write("Q7IQQ", place, work.function.handle, *work.grid, *work.block, work.shared, ctypes.addressof(array), 0)
    return None


@entry("cuGraphKernelNodeSetParams")
def set_kernel_parameters(handle: int, pointer: int) -> None:
    vertex(handle).work = kernel_work(pointer, False)


@entry("cuGraphKernelNodeSetParams_v2")
def set_kernel_parameters_2(handle: int, pointer: int) -> None:
    vertex(handle).work = kernel_work(pointer, True)


@entry("cuGraphMemcpyNodeSetParams")
def set_copy_parameters(handle: int, pointer: int) -> None:
    from warpwright.driver.copies import copy_3d

    vertex(handle).work = copy_3d(pointer)


@entry("cuGraphMemsetNodeSetParams")
def set_fill_parameters(handle: int, pointer: int) -> None:
    vertex(handle).work = fill_work(pointer)


@entry("cuGraphMemsetNodeGetParams")
def fill_parameters(handle: int, place: int) -> int | None:
    from warpwright.driver.copies import Fill

    work = vertex(handle).work
    if not isinstance(work, Fill):
        return results.INVALID_VALUE
    c.write("QQIIQQ", place, work.address, work.pitch, work.value, work.size, work.width, work.height)
    return None


@entry("cuGraphHostNodeSetParams")
def set_host_parameters(handle: int, pointer: int) -> None:
    vertex(handle).work = HostCall(*c.read("QQ", pointer))


@entry("cuGraphHostNodeGetParams")
def host_parameters(handle: int, place: int) -> int | None:
    work = vertex(handle).work
    if not isinstance(work, HostCall):
        return results.INVALID_VALUE
    c.write("QQ", place, work.function, work.data)
    return None


@entry("cuGraphKernelNodeSetAttribute")
def set_node_attribute(handle: int, number: int, value: int) -> None:
    vertex(handle).attributes[number] = ctypes.string_at(value, 64)


@entry("cuGraphKernelNodeGetAttribute")
def node_attribute(handle: int, number: int, place: int) -> None:
    ctypes.memmove(place, vertex(handle).attributes.get(number, bytes(64)), 64)


@entry("cuGraphKernelNodeCopyAttributes")
def copy_attributes(target: int, source: int) -> None:
    vertex(target).attributes = dict(vertex(source).attributes)


# --- executing ---------------------------------------------------------------------------------------
def instantiate(handle: int, flags: int = 0) -> int:
    """Handle of an executable graph."""
    graph = state().handles.get(Graph, handle)
    graph.ordered()
    copy, twins = graph.clone()
    return state().handles.add(Executable(copy, twins, flags))


@entry("cuGraphInstantiateWithFlags")
def instantiate_with_flags(place: int, handle: int, flags: int) -> None:
    state().check_process()
    c.put64(place, instantiate(handle, flags & 0xFFFF_FFFF))


@entry("cuGraphInstantiate", "cuGraphInstantiate_v2")
def instantiate_2(place: int, handle: int, error_node: int, log: int, room: int) -> None:
    c.put64(place, instantiate(handle))
    if log and room:
        c.put_text(log, "", room)


@entry("cuGraphInstantiateWithParams")
def instantiate_with_parameters(place: int, handle: int, parameters: int) -> None:
    c.put64(place, instantiate(handle, c.get64(parameters) & 0xFFFF_FFFF))
    # hErrNode_out, result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS.
    c.put64(parameters + 16, 0)
    c.put32(parameters + 24, 0)


@entry("cuGraphExecGetFlags")
def executable_flags(handle: int, place: int) -> None:
    c.put64(place, state().handles.get(Executable, handle).flags)


@entry("cuGraphExecDestroy")
def executable_destroy(handle: int) -> None:
    state().handles.get(Executable, handle).graph.release()
    state().handles.drop(handle)


@entry("cuGraphUpload")
def upload(handle: int, stream: int) -> None:
    state().handles.get(Executable, handle)


@entry("cuGraphLaunch")
def launch(handle: int, stream: int) -> None:
    s = state()
    s.current()
    executable = s.handles.get(Executable, handle)
    queue = s.stream(stream)
    if queue.capture is not None:
        submit(queue, executable.graph.copied())
    else:
        for prepare in before_launch:
            prepare(executable.graph, executable.flags)
        executable.graph.run(queue)


def _twin(executable: int, node: int) -> Vertex:
    found = state().handles.get(Executable, executable).twins.get(vertex(node))
    if found is None:
        raise CudaError(results.INVALID_VALUE)
    return found


@entry("cuGraphExecKernelNodeSetParams")
def update_kernel(executable: int, node: int, pointer: int) -> None:
    _twin(executable, node).work = kernel_work(pointer, False)


@entry("cuGraphExecKernelNodeSetParams_v2")
def update_kernel_2(executable: int, node: int, pointer: int) -> None:
    _twin(executable, node).work = kernel_work(pointer, True)


@entry("cuGraphExecMemcpyNodeSetParams")
def update_copy(executable: int, node: int, pointer: int, context: int) -> None:
    from warpwright.driver.copies import copy_3d

    _twin(executable, node).work = copy_3d(pointer)


@entry("cuGraphExecMemsetNodeSetParams")
def update_fill(executable: int, node: int, pointer: int, context: int) -> None:
    _twin(executable, node).work = fill_work(pointer)


@entry("cuGraphExecHostNodeSetParams")
def update_host(executable: int, node: int, pointer: int) -> None:
    _twin(executable, node).work = HostCall(*c.read("QQ", pointer))


@entry("cuGraphExecChildGraphNodeSetParams")
def update_child(executable: int, node: int, child: int) -> None:
    _twin(executable, node).replace(state().handles.get(Graph, child).copied())


@entry("cuGraphNodeSetEnabled")
def set_enabled(executable: int, node: int, value: int) -> None:
    _twin(executable, node).enabled = bool(value)


@entry("cuGraphNodeGetEnabled")
def get_enabled(executable: int, node: int, place: int) -> None:
    c.put32(place, int(_twin(executable, node).enabled))


def _update(executable: int, graph: int) -> tuple[int, int]:
    """Take a graph of the same shape over; (CUgraphExecUpdateResult, handle of the node that differs)."""
    target = state().handles.get(Executable, executable)
    given = state().handles.get(Graph, graph)
    old, new = target.graph.vertices, given.vertices
    if len(old) != len(new):
        return 2, 0
    place = {v: i for i, v in enumerate(new)}
    before = {v: i for i, v in enumerate(old)}
    for ours, theirs in zip(old, new, strict=True):
        if ours.work.kind != theirs.work.kind:
            return 3, theirs.handle
        if sorted(before[n] for n in ours.needs) != sorted(place[n] for n in theirs.needs):
            return 2, theirs.handle
    for ours, theirs in zip(old, new, strict=True):
        ours.replace(theirs.work.copied())
    target.twins = {**target.twins, **dict(zip(new, old, strict=True))}
    return 0, 0


@entry("cuGraphExecUpdate")
def update(executable: int, graph: int, node_place: int, result_place: int) -> int | None:
    outcome, node = _update(executable, graph)
    c.put64(node_place, node)
    c.put32(result_place, outcome)
    return results.GRAPH_EXEC_UPDATE_FAILURE if outcome else None


@entry("cuGraphExecUpdate_v2")
def update_2(executable: int, graph: int, info: int) -> int | None:
    outcome, node = _update(executable, graph)
    c.write("iQQ", info, outcome, node, 0)
    return results.GRAPH_EXEC_UPDATE_FAILURE if outcome else None


@entry("cuGraphDebugDotPrint")
def dot(handle: int, path: int, flags: int) -> None:
    graph = state().handles.get(Graph, handle)
    number = {v: i for i, v in enumerate(graph.vertices)}
    rows = [f'  n{i} [label="{type(v.work).__name__}"];' for v, i in number.items()]
    rows += [f"  n{number[n]} -> n{i};" for v, i in number.items() for n in v.needs]
    with open(c.text(path), "w", encoding="utf-8") as file:
        file.write("digraph graph_0 {\n" + "\n".join(rows) + "\n}\n")


# --- user objects ------------------------------------------------------------------------------------
@dataclass(eq=False)
class UserObject:
    """Something of the program that lives as long as it has references."""

    data: int
    destroy: int
    references: int


@entry("cuUserObjectCreate")
def user_object(place: int, data: int, destroy_function: int, references: int, flags: int) -> None:
    c.put64(place, state().handles.add(UserObject(data, destroy_function, references)))


@entry("cuUserObjectRetain")
def user_retain(handle: int, count: int) -> None:
    state().handles.get(UserObject, handle).references += count


@entry("cuUserObjectRelease")
def user_release(handle: int, count: int) -> None:
    one = state().handles.get(UserObject, handle)
    one.references -= count
    if one.references <= 0:
        state().handles.drop(handle)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(one.destroy)(one.data)


@entry("cuGraphRetainUserObject")
def graph_retain(graph: int, handle: int, count: int, flags: int) -> None:
    if not flags & 1:
        user_retain(handle, count)
    state().handles.get(Graph, graph).users.append(handle)


@entry("cuGraphReleaseUserObject")
def graph_release(graph: int, handle: int, count: int) -> None:
    state().handles.get(Graph, graph).users.remove(handle)
    user_release(handle, count)
