"""Calls on the structure of graphs: creates, copies and destroys graphs, nodes and edges."""

from __future__ import annotations

from pathlib import Path

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import state
from warpwright.driver.graphs import Graph, Vertex, early_of, new_graph, vertex, vertices, write_edges


@entry("cuGraphCreate")
def create(place: int, flags: int) -> int | None:
    state().check_process()
    if flags or not place:
        return results.INVALID_VALUE
    cmemory.put64(place, new_graph().handle)
    return None


@entry("cuGraphDestroy")
def destroy(handle: int) -> None:
    state().handles.get(Graph, handle).release()


@entry("cuGraphDestroyNode")
def destroy_node(handle: int) -> None:
    gone = vertex(handle)
    if gone.updatable is not None:
        raise CudaError(results.NOT_SUPPORTED)
    gone.graph.vertices.remove(gone)
    for v in gone.graph.vertices:
        if gone in v.needs:
            v.needs.remove(gone)
    gone.release()


@entry("cuGraphClone")
def clone(place: int, handle: int) -> None:
    cmemory.put64(place, state().handles.get(Graph, handle).clone()[0].handle)


def _put_list(place: int, room_place: int, found: list[Vertex]) -> None:
    if place:
        room = cmemory.get64(room_place)
        for i, v in enumerate(found[:room]):
            cmemory.put64(place + 8 * i, v.handle)
        for i in range(len(found), room):
            cmemory.put64(place + 8 * i, 0)
    cmemory.put64(room_place, len(found))


@entry("cuGraphGetNodes")
def get_nodes(handle: int, place: int, count: int) -> None:
    _put_list(place, count, state().handles.get(Graph, handle).vertices)


@entry("cuGraphGetRootNodes")
def get_roots(handle: int, place: int, count: int) -> None:
    _put_list(place, count, [v for v in state().handles.get(Graph, handle).vertices if not v.needs])


def _edges(handle: int, origins: int, targets: int, count: int, data: int = 0) -> None:
    pairs = [(n, v) for v in state().handles.get(Graph, handle).vertices for n in v.needs]
    if origins and targets:
        write_edges(data, pairs[: cmemory.get64(count)])
        for i, (origin, target) in enumerate(pairs[: cmemory.get64(count)]):
            cmemory.put64(origins + 8 * i, origin.handle)
            cmemory.put64(targets + 8 * i, target.handle)
    cmemory.put64(count, len(pairs))


@entry("cuGraphGetEdges")
def get_edges(handle: int, origins: int, targets: int, count: int) -> None:
    _edges(handle, origins, targets, count)


@entry("cuGraphGetEdges_v2")
def get_edges_2(handle: int, origins: int, targets: int, data: int, count: int) -> None:
    _edges(handle, origins, targets, count, data)


@entry("cuGraphNodeGetDependencies")
def dependencies(handle: int, place: int, count: int) -> None:
    _put_list(place, count, vertex(handle).needs)


@entry("cuGraphNodeGetDependencies_v2")
def dependencies_2(handle: int, place: int, data: int, count: int) -> None:
    if place:
        write_edges(data, [(n, vertex(handle)) for n in vertex(handle).needs[: cmemory.get64(count)]])
    _put_list(place, count, vertex(handle).needs)


@entry("cuGraphNodeGetDependentNodes")
def dependents(handle: int, place: int, count: int) -> None:
    one = vertex(handle)
    _put_list(place, count, [v for v in one.graph.vertices if one in v.needs])


@entry("cuGraphNodeGetDependentNodes_v2")
def dependents_2(handle: int, place: int, data: int, count: int) -> None:
    if place:
        one = vertex(handle)
        users = [v for v in one.graph.vertices if one in v.needs]
        write_edges(data, [(one, v) for v in users[: cmemory.get64(count)]])
    dependents(handle, place, count)


def _change_dependencies(handle: int, origins: int, targets: int, count: int, add: bool, data: int = 0) -> None:
    graph = state().handles.get(Graph, handle)
    early = early_of(data, vertices(origins, count))
    for origin, target in zip(vertices(origins, count), vertices(targets, count), strict=True):
        if (
            origin.graph is not graph
            or target.graph is not graph
            or origin is target
            or add == (origin in target.needs)
        ):
            raise CudaError(results.INVALID_VALUE)
        if add:
            target.needs.append(origin)
            target.early |= {origin} & early
        else:
            target.needs.remove(origin)
            target.early.discard(origin)


@entry("cuGraphAddDependencies")
def add_dependencies(handle: int, origins: int, targets: int, count: int) -> None:
    _change_dependencies(handle, origins, targets, count, True)


@entry("cuGraphAddDependencies_v2")
def add_dependencies_2(handle: int, origins: int, targets: int, data: int, count: int) -> None:
    _change_dependencies(handle, origins, targets, count, True, data)


@entry("cuGraphRemoveDependencies")
def remove_dependencies(handle: int, origins: int, targets: int, count: int) -> None:
    _change_dependencies(handle, origins, targets, count, False)


@entry("cuGraphRemoveDependencies_v2")
def remove_dependencies_2(handle: int, origins: int, targets: int, data: int, count: int) -> None:
    _change_dependencies(handle, origins, targets, count, False)


@entry("cuGraphNodeGetType")
def node_type(handle: int, place: int) -> None:
    cmemory.put32(place, vertex(handle).work.kind)


@entry("cuGraphNodeFindInClone")
def find_in_clone(place: int, handle: int, graph: int) -> int | None:
    original = vertex(handle)
    copy = state().handles.get(Graph, graph)
    if copy.original is not original.graph:
        return results.INVALID_VALUE
    index = original.graph.vertices.index(original)
    if index >= len(copy.vertices):
        return results.INVALID_VALUE
    cmemory.put64(place, copy.vertices[index].handle)
    return None


@entry("cuGraphDebugDotPrint")
def dot(handle: int, path: int, flags: int) -> None:
    graph = state().handles.get(Graph, handle)
    number = {v: i for i, v in enumerate(graph.vertices)}
    rows = [f'  n{i} [label="{type(v.work).__name__}"];' for v, i in number.items()]
    rows += [f"  n{number[n]} -> n{i};" for v, i in number.items() for n in v.needs]
    try:
        Path(cmemory.text(path)).write_text("digraph graph_0 {\n" + "\n".join(rows) + "\n}\n", encoding="utf-8")
    except OSError as reason:
        raise CudaError(results.OPERATING_SYSTEM, str(reason)) from None
