"""Graphs: nodes with dependencies, captured from streams or built by hand.

Everything that a stream does is a :class:`Node`; :func:`submit` runs it at once, or records it while its stream captures.
Calls on graphs are in ``graph_shapes`` (nodes and edges), ``graph_nodes`` (nodes of each kind and their parameters),
``graph_memory`` and ``graph_conditions`` (two kinds of nodes with much code), and ``graph_launches`` (executable graphs).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, ClassVar

from warpwright.driver import cmemory, results
from warpwright.driver.capture_rules import forbid_default_stream
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import Stream, picoseconds, state
from warpwright.driver.kernel_groups import watches
from warpwright.driver.pending import concurrent, give, queue
from warpwright.driver.queued_work import Item, Work
from warpwright.driver.updatable_nodes import Updatable
from warpwright.driver.work_order import begin as clock_of
from warpwright.driver.work_order import host_waits_for
from warpwright.engine.work_clocks import Clock, learn, new_queue

KERNEL, COPY, FILL, HOST, GRAPH, EMPTY, WAIT_EVENT, RECORD_EVENT = 0, 1, 2, 3, 4, 5, 6, 7
"""CUgraphNodeType."""
_PLAIN = (KERNEL, COPY, FILL, HOST, EMPTY)
"""Kinds of nodes that take no time and have no effect of their own."""


class _Instant(Work):
    """A node that takes no time."""

    __slots__ = ()

    def run(self, stream: Stream) -> None:
        pass

    def duration(self, stream: Stream) -> int:
        return 0


class Node(Work):
    """One piece of work."""

    __slots__ = ()
    kind: ClassVar[int] = EMPTY

    def copied(self) -> Node:
        """The same work for a copy of its graph; only nodes that contain graphs differ between copies."""
        return self

    def with_attributes_of(self, other: Node) -> Node:
        """The same work with the attributes of other work; only kernels have attributes."""
        return self

    def graphs(self) -> tuple[Graph, ...]:
        """Graphs that belong to the node."""
        return ()

    def device_updates(self) -> Updatable | None:
        """What makes its node in a graph updatable by kernels; None if they cannot change it."""
        return None

    def upload(self, updatable: Updatable, enabled: bool) -> None:
        """Give the device what the host has set for the node."""

    def as_on_device(self, updatable: Updatable) -> tuple[Node, bool]:
        """The work as kernels have changed it, and whether it runs."""
        return self, True


@dataclass(eq=False)
class UserObject:
    """An object of the program that lives as long as it has references."""

    data: int
    destroy: int
    """A function of the program, called with ``data`` when the last reference is released."""
    references: int
    handle: int = 0

    def retain(self, count: int = 1) -> None:
        self.references += count

    def release(self, count: int = 1) -> None:
        self.references -= count
        if self.references <= 0:
            state().handles.drop(self.handle)
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.destroy)(self.data)


@dataclass(eq=False)
class Vertex:
    """A node in a graph."""

    work: Node
    graph: Graph
    needs: list[Vertex] = field(default_factory=list)
    early: set[Vertex] = field(default_factory=set)
    """Kernels among its dependencies that only need to have triggered programmatic completion
    (CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)."""
    handle: int = 0
    enabled: bool = True
    attributes: dict[int, bytes] = field(default_factory=dict)
    updatable: Updatable | None = None
    """None if kernels cannot change it."""

    def current(self) -> tuple[Node, bool]:
        """The work, and whether it runs."""
        return (self.work, self.enabled) if self.updatable is None else self.work.as_on_device(self.updatable)

    def release(self) -> None:
        """Release its handle, and the graphs in it."""
        for graph in self.work.graphs():
            graph.release()
        state().handles.drop(self.handle)

    def replace(self, work: Node) -> None:
        """Replace the work by other work of the same kind; child graphs of the old work are dropped.

        Raises:
            CudaError: the work is of another kind.
        """
        if work.kind != self.work.kind:
            raise CudaError(results.INVALID_VALUE)
        for graph in self.work.graphs():
            graph.release()
        self.work = work

    def change(self, work: Node) -> None:
        """Change the parameters; attributes are kept.

        Raises:
            CudaError: if the work is of another kind.
        """
        self.replace(work.with_attributes_of(self.work))


@dataclass(eq=False)
class Graph(Node):
    """A graph; as a node it is a child graph."""

    handle: int = 0
    vertices: list[Vertex] = field(default_factory=list)
    users: list[UserObject] = field(default_factory=list)
    """User objects that live as long as this graph, once for each reference."""
    kept: list[Any] = field(default_factory=list)
    """Memory that the program has pointers to."""
    conditions: list[Any] = field(default_factory=list)
    """Conditions that were made for it (:mod:`warpwright.driver.graph_conditions`)."""

    kind = GRAPH

    original: Graph | None = None
    """The graph that it was cloned from."""

    def add(self, work: Node, needs: Iterable[Vertex], early: Iterable[Vertex] = ()) -> Vertex:
        made = Vertex(work, self, list(dict.fromkeys(needs)), set(early))
        made.handle = state().handles.add(made)
        made.updatable = work.device_updates()
        self.vertices.append(made)
        return made

    def ordered(self) -> list[Vertex]:
        """Vertices in topological order; otherwise in the order of creation.

        Raises:
            CudaError: the graph has a cycle.
        """
        order: list[Vertex] = []
        # Not a recursive function: its closure would keep the vertices alive until the next garbage collection, and chains are long.
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
        copy.original = self
        for user in self.users:
            user.retain()
            copy.users.append(user)
        twin: dict[Vertex, Vertex] = {}
        for vertex in self.vertices:
            twin[vertex] = copy.add(vertex.work.copied(), ())
            twin[vertex].enabled = vertex.enabled
            twin[vertex].attributes = dict(vertex.attributes)
            twin[vertex].updatable = vertex.updatable
        for vertex, made in twin.items():
            made.needs = [twin[n] for n in vertex.needs]
            made.early = {twin[n] for n in vertex.early}
        return copy, twin

    def copied(self) -> Graph:
        return self.clone()[0]

    def graphs(self) -> tuple[Graph, ...]:
        return (self,)

    def updatable(self) -> Iterator[Vertex]:
        """Vertices, also of the graphs in it, that kernels may change."""
        for one in self.vertices:
            if one.updatable is not None:
                yield one
            for graph in one.work.graphs():
                yield from graph.updatable()

    def release(self) -> None:
        """Release its handle, its nodes' handles and those of the graphs in them."""
        for vertex in self.vertices:
            vertex.release()
        # Vertices refer to their graph; release conditions and memory that they hold now.
        self.vertices, self.conditions = [], []
        while self.users:
            self.users.pop().release()
        state().handles.drop(self.handle)

    def run(self, stream: Stream) -> None:
        """Each vertex starts when its dependencies have ended, so independent ones overlap in simulated time.

        Kernels start one after the other, as they become ready; kernels with predecessors start sooner than launches in
        a stream would (`bench.machine.streams`, graphs).
        """
        begin = beside = free = state().begin(stream)
        launch = stream.device.gpu.chip.launch
        ends: dict[Vertex, int] = {}
        clocks: dict[Vertex, Clock] = {}
        before = clock_of(stream)
        lane = Stream(stream.device, flags=1, graph_in=stream)
        for vertex, ready in self._by_time(begin, ends):
            lane.ps, lane.kernel_ps = ready, -1
            lane.queue = new_queue()
            lane.clock = clocks[vertex] = dict(before)
            for needed in vertex.needs:
                learn(lane.clock, clocks[needed])
            work, enabled = vertex.current()
            if enabled and work.kind == KERNEL and state().timed:
                lane.ps = max(ready, free)
                interval_us = launch.graph_branch_interval_us if vertex.needs else launch.graph_root_interval_us
                free = lane.ps + picoseconds(interval_us * 1e-6)
                _run(work, lane)
                lane.ps -= sooner_ps(stream) if vertex.needs else 0
            elif enabled:
                _run(work, lane)
            ends[vertex] = lane.ps
            beside = max(beside, *(follow(lane) for follow in after_node))
        stream.ps = max(beside, *ends.values())
        for clock in clocks.values():
            learn(stream.clock, clock)

    def queued(self, stream: Stream) -> bool:
        """Queue its nodes individually; returns False if the graph is to run now, as a whole.

        A graph without branches in a program with one stream runs as a whole, and so does one with nodes that read
        their graph's state.
        """
        beside = concurrent(stream.device) or self._branches() or any(v.early for v in self.vertices)
        times = stream.device.gpu.timing == "full" and stream.device.gpu.checker is None
        if (
            self.conditions
            or any(self.updatable())
            or any(v.work.kind not in _PLAIN for v in self.vertices)
            or not (queue.items or (beside and times) or self._polls())
        ):
            return False
        launch = stream.device.gpu.chip.launch
        begin = queue.add(stream, _Instant())
        items: dict[Vertex, Item] = {}
        counts: dict[frozenset[Vertex], int] = {}
        for vertex in self.ordered():
            needs, extra = frozenset(vertex.needs), 0
            kernel = vertex.enabled and vertex.work.kind == KERNEL
            if kernel:
                # Vertices that become ready together begin one after the other.
                interval_us = launch.graph_branch_interval_us if needs else launch.graph_root_interval_us
                extra = counts.get(needs, 0) * picoseconds(interval_us * 1e-6) - (sooner_ps(stream) if needs else 0)
                counts[needs] = counts.get(needs, 0) + 1
            work = vertex.work if vertex.enabled else _Instant()
            after = [items[needed] for needed in vertex.needs] or [begin]
            early = [items[needed] for needed in vertex.early]
            items[vertex] = queue.add(Stream(stream.device, flags=1, graph_in=stream), work, after, extra, early)
        queue.add(stream, _Instant(), list(items.values()))
        return True

    def _polls(self) -> bool:
        """Whether one of its kernels polls memory that another branch may write."""
        return any(v.work.kind == KERNEL and watches(v.work.kernel()) for v in self.vertices)

    def _branches(self) -> bool:
        """Whether two nodes are unordered."""
        users = [needed for v in self.vertices for needed in v.needs]
        roots = sum(not v.needs for v in self.vertices)
        return roots > 1 or any(len(v.needs) > 1 for v in self.vertices) or len(users) > len(set(users))

    def _by_time(self, begin: int, ends: dict[Vertex, int]) -> Iterator[tuple[Vertex, int]]:
        """Vertices in the order in which they become ready, with the time; ``ends`` must contain the end of each vertex
        when the next is requested."""
        order = self.ordered()
        place = {vertex: i for i, vertex in enumerate(order)}
        users: dict[Vertex, list[Vertex]] = {vertex: [] for vertex in order}
        missing = {vertex: len(vertex.needs) for vertex in order}
        for vertex in order:
            for needed in vertex.needs:
                users[needed].append(vertex)
        ready = [(begin, place[vertex]) for vertex in order if not vertex.needs]
        while ready:
            ps, number = heappop(ready)
            vertex = order[number]
            yield vertex, ps
            for user in users[vertex]:
                missing[user] -= 1
                if not missing[user]:
                    heappush(ready, (max(ends[needed] for needed in user.needs), place[user]))


def _run(work: Node, stream: Stream) -> None:
    if not any(hook(work, stream) for hook in replacing_run):
        work.run(stream)


def sooner_ps(stream: Stream) -> int:
    """How much sooner a graph's kernel starts after another node than a stream's kernel after another kernel."""
    chip = stream.device.gpu.chip
    overhead = chip.launch.launch_overhead_cycles / (chip.clocks.sm_clock_mhz * 1e6)
    return picoseconds(overhead - chip.launch.graph_launch_overhead_us * 1e-6)


def new_graph() -> Graph:
    made = Graph()
    made.handle = state().handles.add(made)
    return made


@dataclass(eq=False)
class Executable:
    """An instantiated graph."""

    graph: Graph
    twins: dict[Vertex, Vertex]
    """The executable's vertex for each vertex of the graph from which it was instantiated."""
    flags: int = 0
    handle: int = 0


replacing_run: list[Callable[[Node, Stream], bool]] = []
"""Hooks that may run a node of a graph that runs as a whole; one that returns True has run the node, and the graph does not."""
after_node: list[Callable[[Stream], int]] = []
"""Hooks after each node that a graph runs as a whole; each is called with the node's stream and returns when what it has begun ends, in picoseconds."""
before_launch: list[Callable[[Graph, int], None]] = []
"""Hooks at the start of a launch of an executable graph; each is called with the graph and its instantiation flags."""


def submit(stream: Stream, work: Node) -> None:
    """Run work in a stream or queue it (``pending.py``), or record it while the stream is capturing."""
    if stream.capture is None:
        if stream is stream.device.default_stream:
            forbid_default_stream(stream)
        if not give(stream, work):
            work.run(stream)
            if work.returns_when_done():
                state().host_waits(stream.ps)
        return
    if stream.capture_broken:
        raise CudaError(results.STREAM_CAPTURE_INVALIDATED)
    kernels = [v for v in stream.capture_tail if v.work.kind == KERNEL]
    stream.capture_tail = [stream.capture.add(work, stream.capture_tail, kernels if work.is_dependent() else ())]


@dataclass(eq=False)
class HostCall(Node):
    """A function of the program that runs in a stream's order."""

    function: int
    data: int
    kind = HOST

    def run(self, stream: Stream) -> None:
        host_waits_for([stream])
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.function)(self.data)


class Empty(Node):
    """A node with dependencies only."""

    __slots__ = ()

    def run(self, stream: Stream) -> None:
        pass

    def duration(self, stream: Stream) -> int:
        return 0


def vertex(handle: int) -> Vertex:
    """The vertex of a CUgraphNode."""
    return state().handles.get(Vertex, handle)


def vertices(pointer: int, count: int) -> list[Vertex]:
    """The vertices of an array of CUgraphNode."""
    return [vertex(h) for h in cmemory.words64(pointer, count)]


_EDGE_BYTES, _PROGRAMMATIC = 8, 1
"""CUgraphEdgeData: from_port, to_port, type, five reserved bytes; CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC."""
_AT_TRIGGER, _AT_BEGINNING = 1, 2
"""CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, _LAUNCH_ORDER."""


def early_of(data: int, origins: Sequence[Vertex]) -> set[Vertex]:
    """The nodes of edges that wait only until a kernel lets its dependents begin, by an array of CUgraphEdgeData; none without.

    Raises:
        CudaError: a kind or a port of an edge that does not exist, or such an edge from another node than a kernel.
    """
    found: set[Vertex] = set()
    for number, origin in enumerate(origins if data else ()):
        port, to, kind, *reserved = ctypes.string_at(data + _EDGE_BYTES * number, _EDGE_BYTES)
        programmatic = kind == _PROGRAMMATIC and port in (_AT_TRIGGER, _AT_BEGINNING) and origin.work.kind == KERNEL
        if to or any(reserved) or not (programmatic or (kind == port == 0)):
            raise CudaError(results.INVALID_VALUE)
        # A kernel has begun before it triggers its dependents: the later of the two preserves both orders.
        found |= {origin} if programmatic else set()
    return found


def write_edges(data: int, edges: Iterable[tuple[Vertex, Vertex]]) -> None:
    """Fill an array of CUgraphEdgeData, if the caller passed one."""
    for number, (origin, target) in enumerate(edges if data else ()):
        early = origin in target.early
        ctypes.memmove(data + _EDGE_BYTES * number, bytes([early, 0, early, 0, 0, 0, 0, 0]), _EDGE_BYTES)


def insert(place: int, graph: int, needs: int, count: int, work: Node, data: int = 0) -> None:
    """Add work to a graph, after the nodes of an array; the new node's handle goes to ``place``."""
    target, needed = state().handles.get(Graph, graph), vertices(needs, count)
    if len(set(needed)) < count or any(v.graph is not target for v in needed):
        raise CudaError(results.INVALID_VALUE)
    cmemory.put64(place, target.add(work, needed, early_of(data, needed)).handle)


def twin(executable: int, node: int) -> Vertex:
    """An executable graph's vertex for a node of the graph from which it was instantiated.

    Raises:
        CudaError: if it has none.
    """
    found = state().handles.get(Executable, executable).twins.get(vertex(node))
    if found is None:
        raise CudaError(results.INVALID_VALUE)
    return found
