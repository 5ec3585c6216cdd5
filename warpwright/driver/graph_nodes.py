"""Nodes of graphs from CUgraphNodeParams, the structure of all kinds of nodes: a type, and from byte 16 on what that kind takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from warpwright.driver import c, graphs, results
from warpwright.driver.calls import CudaError, entry
from warpwright.driver.copies import copy_3d
from warpwright.driver.graph_conditions import CONDITIONAL, conditional_work
from warpwright.driver.graph_memory import ALLOCATE, allocation_work
from warpwright.driver.graphs import Graph, Node, Vertex
from warpwright.driver.memory import FreeNode
from warpwright.driver.state import state
from warpwright.driver.streams import Event, RecordEvent

_TYPE_BYTES = 16
FREE = 11
"""CU_GRAPH_NODE_TYPE_MEM_FREE."""
Maker = Callable[[int], Node]
"""Work from the part of the structure that belongs to its kind."""


def _event(pointer: int) -> Node:
    return RecordEvent(state().handles.get(Event, c.get64(pointer)))


MAKERS: Mapping[int, Maker] = {
    graphs.KERNEL: lambda at: graphs.kernel_work(at, True),
    # flags, reserved, context, then CUDA_MEMCPY3D
    graphs.COPY: lambda at: copy_3d(at + 16),
    graphs.FILL: graphs.fill_work,
    graphs.HOST: lambda at: graphs.HostCall(*c.read("QQ", at)),
    graphs.GRAPH: lambda at: state().handles.get(Graph, c.get64(at)).copied(),
    graphs.EMPTY: lambda at: graphs.Empty(),
    graphs.WAIT_EVENT: _event,
    graphs.RECORD_EVENT: _event,
    ALLOCATE: allocation_work,
    FREE: lambda at: FreeNode(c.get64(at)),
    CONDITIONAL: conditional_work,
}
_FIXED = frozenset((ALLOCATE, FREE, CONDITIONAL))
"""Kinds whose nodes keep what they were made with."""


def work_of(pointer: int, makers: Mapping[int, Maker] = MAKERS) -> Node:
    """The work that a structure describes.

    Raises:
        CudaError: a kind of node that is not provided.
    """
    make = makers.get(c.get32(pointer))
    if make is None:
        raise CudaError(results.NOT_SUPPORTED, f"graph nodes of type {c.get32(pointer)} are not provided")
    return make(pointer + _TYPE_BYTES)


def change(one: Vertex, pointer: int, makers: Mapping[int, Maker] = MAKERS) -> None:
    """Give a node other parameters of its kind."""
    if one.work.kind in _FIXED or c.get32(pointer) != one.work.kind:
        raise CudaError(results.INVALID_VALUE)
    one.replace(work_of(pointer, makers))


@entry("cuGraphAddNode")
def add(place: int, graph: int, needs: int, count: int, parameters: int) -> None:
    graphs._add(place, graph, needs, count, work_of(parameters))


@entry("cuGraphAddNode_v2")
def add_2(place: int, graph: int, needs: int, data: int, count: int, parameters: int) -> None:
    add(place, graph, needs, count, parameters)


@entry("cuGraphNodeSetParams")
def set_parameters(node: int, parameters: int) -> None:
    change(graphs.vertex(node), parameters)


@entry("cuGraphExecNodeSetParams")
def update_parameters(executable: int, node: int, parameters: int) -> None:
    change(graphs._twin(executable, node), parameters)
