"""Conditional nodes of graphs: bodies that run if, while or according to a value that kernels set.

CUDA C++ Programming Guide, "Conditional Graph Nodes".  A condition belongs to a graph; with the flag for it, each
launch of the graph begins with its default value; otherwise a launch starts with the value that the last one left.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import Stream, state
from warpwright.driver.graphs import Graph, Node, before_launch, new_graph
from warpwright.engine.graph_condition_values import condition, drop_condition, new_condition, set_condition

CONDITIONAL = 13
"""CU_GRAPH_NODE_TYPE_CONDITIONAL."""
IF, WHILE, SWITCH = 0, 1, 2
"""CUgraphConditionalNodeType."""
ASSIGN_DEFAULT = 1
"""CU_GRAPH_COND_ASSIGN_DEFAULT."""


@dataclass(eq=False)
class Condition:
    """A value that kernels set; it lives as long as a graph that names it, or a copy of one."""

    default: int
    flags: int
    handle: int = 0

    def __post_init__(self) -> None:
        self.handle = state().handles.add(weakref.ref(self))
        new_condition(self.handle, self.default)
        weakref.finalize(self, _drop, self.handle)

    def begin(self) -> None:
        """Assign the default, if each launch is to begin with it."""
        if self.flags & ASSIGN_DEFAULT:
            set_condition(self.handle, self.default)


def _drop(handle: int) -> None:
    state().handles.drop(handle)
    drop_condition(handle)


@dataclass(eq=False)
class ConditionalNode(Node):
    """A node with bodies, of which the condition selects one."""

    condition: Condition
    choice: int
    bodies: list[Graph]
    handles: ctypes.Array[ctypes.c_uint64] = field(init=False)
    """The bodies' handles, to which the program receives a pointer."""

    kind = CONDITIONAL

    def __post_init__(self) -> None:
        self.handles = (ctypes.c_uint64 * len(self.bodies))(*(b.handle for b in self.bodies))

    def copied(self) -> ConditionalNode:
        return ConditionalNode(self.condition, self.choice, [b.copied() for b in self.bodies])

    def graphs(self) -> tuple[Graph, ...]:
        return tuple(self.bodies)

    def run(self, stream: Stream) -> None:
        value = condition(self.condition.handle)
        if self.choice == WHILE:
            while condition(self.condition.handle):
                self.bodies[0].run(stream)
            return
        chosen = value if self.choice == SWITCH else int(not value)
        if chosen < len(self.bodies):
            self.bodies[chosen].run(stream)


def _conditions(graph: Graph) -> Iterator[Condition]:
    """Conditions of a graph and of the graphs in it."""
    yield from graph.conditions
    for v in graph.vertices:
        for one in v.work.graphs():
            yield from _conditions(one)


def _assign_defaults(graph: Graph, flags: int) -> None:
    for one in _conditions(graph):
        one.begin()


before_launch.append(_assign_defaults)


@entry("cuGraphConditionalHandleCreate")
def create(place: int, graph: int, context: int, default: int, flags: int) -> int | None:
    if flags & ~ASSIGN_DEFAULT:
        return results.INVALID_VALUE
    if not context:
        return results.INVALID_CONTEXT
    made = Condition(default, flags)
    state().handles.get(Graph, graph).conditions.append(made)
    cmemory.put64(place, made.handle)
    return None


def conditional_work(pointer: int) -> ConditionalNode:
    """A node from CUDA_CONDITIONAL_NODE_PARAMS, which gets the bodies: handle, type, number of bodies, where their handles are."""
    handle, choice, count = cmemory.read("QiI", pointer)
    found = state().handles.find(handle)
    one = found() if isinstance(found, weakref.ref) else None
    most = {IF: 2, WHILE: 1}.get(choice, count)
    if not isinstance(one, Condition) or choice not in (IF, WHILE, SWITCH) or not 1 <= count <= most:
        raise CudaError(results.INVALID_VALUE)
    made = ConditionalNode(one, choice, [new_graph() for _ in range(count)])
    cmemory.put64(pointer + 16, ctypes.addressof(made.handles))
    return made
