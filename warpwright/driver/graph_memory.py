"""Memory that graphs allocate: its addresses exist from the creation of the node, its memory from launch to free.

A graph's allocation keeps its address over all launches (CUDA C++ Programming Guide, "Graph Memory Nodes"), because
kernels of the graph have it in their arguments.  Between the free and the next launch the range is unmapped.  Freed
memory stays reserved for later launches until it is trimmed.
"""

from __future__ import annotations

import weakref
from collections import defaultdict, deque
from dataclasses import dataclass

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.devices import located
from warpwright.driver.driver_state import Context, Device, Stream, state
from warpwright.driver.graphs import Graph, Node, before_launch, insert, vertex
from warpwright.driver.memory import GRAPH, kinds, releasers
from warpwright.driver.pools import FreeNode
from warpwright.engine.allocation import Allocation

ALLOCATE = 10
"""CU_GRAPH_NODE_TYPE_MEM_ALLOC."""
AUTO_FREE = 1
"""CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH."""


class GraphMemory:
    """One allocation of a graph; its addresses are freed once no graph names them."""

    def __init__(self, device: Device, allocation: Allocation) -> None:
        self.device = device
        self.allocation = allocation
        self.address = allocation.address
        self.size = allocation.size_bytes

    def __del__(self) -> None:
        _unnamed.append((self.device, self.allocation))


_unnamed: deque[tuple[Device, Allocation]] = deque()
"""Addresses whose last graph has been destroyed; the next reservation frees them, because a finalizer may run at any point."""
_reserved: weakref.WeakValueDictionary[int, GraphMemory] = weakref.WeakValueDictionary()
"""All allocations, by address."""
_live: dict[int, GraphMemory] = {}
"""Allocations that a launch made and that have not been freed, by address."""


@dataclass(slots=True)
class Footprint:
    """Bytes of graphs' memory: in use, and reserved for launches since the last trim."""

    used: int = 0
    used_high: int = 0
    reserved: int = 0
    reserved_high: int = 0

    def change(self, size: int) -> None:
        self.used += size
        self.used_high = max(self.used_high, self.used)
        self.reserved = max(self.reserved, self.used)
        self.reserved_high = max(self.reserved_high, self.reserved)


_footprints: defaultdict[Device, Footprint] = defaultdict(Footprint)
_ATTRIBUTES = ("used", "used_high", "reserved", "reserved_high")
"""CUgraphMem_attribute."""


def reserve(size: int, device: Device) -> GraphMemory:
    """Addresses for an allocation of a graph.

    Raises:
        CudaError: for size 0, or more than is available.
    """
    memory = device.gpu.memory
    state().current()
    while _unnamed:
        where, gone = _unnamed.popleft()
        where.gpu.memory.show(gone)
        where.gpu.memory.free(gone)
    if size <= 0:
        raise CudaError(results.INVALID_VALUE)
    if size > memory.capacity_bytes:
        raise CudaError(results.OUT_OF_MEMORY)
    made = memory.allocate(size, f"{GRAPH}, {size:,} bytes")
    memory.hide(made)
    reserved = _reserved[made.address] = GraphMemory(device, made)
    return reserved


def reserved_for_graph(address: int, size: int) -> bool:
    """Whether a range will be mapped once a graph is launched, so that captured work may use it."""
    return any(a <= address and address + size <= a + one.size for a, one in _reserved.items())


@dataclass(eq=False, slots=True)
class AllocationNode(Node):
    """Maps memory at a graph's addresses."""

    memory: GraphMemory
    kind = ALLOCATE

    def run(self, stream: Stream) -> None:
        one = self.memory
        memory = one.device.gpu.memory
        if one.address in _live:
            raise CudaError(
                results.INVALID_VALUE,
                f"a graph allocates {one.size:,} bytes at {one.address:#x}, which an earlier launch allocated and nothing freed",
            )
        memory.show(one.allocation)
        if memory.observer is not None:
            memory.observer.allocated(one.allocation, True)
        _live[one.address] = one
        kinds[one.address] = (GRAPH, 0, state().context_of(one.device))
        _footprints[one.device].change(one.size)


def withdraw(address: int) -> None:
    """Free a graph's allocation: its addresses are unmapped until the next launch."""
    one = _live.pop(address)
    memory = one.device.gpu.memory
    del kinds[address]
    if memory.observer is not None:
        memory.observer.freed(one.allocation)
    memory.hide(one.allocation)
    _footprints[one.device].change(-one.size)


releasers[GRAPH] = withdraw


def withdraw_all(context: Context) -> None:
    """Free what graphs allocated in a context."""
    for address in [a for a in _live if kinds[a][2] is context]:
        withdraw(address)


def _free_the_last_launch(graph: Graph, flags: int) -> None:
    """Free the allocations of the graph's last launch, if the graph was instantiated with that option."""
    if not flags & AUTO_FREE:
        return
    for v in graph.vertices:
        if isinstance(v.work, AllocationNode) and v.work.memory.address in _live:
            withdraw(v.work.memory.address)


before_launch.append(_free_the_last_launch)


def allocation_work(parameters: int) -> Node:
    """A node from CUDA_MEM_ALLOC_NODE_PARAMS: properties (88 bytes), access descriptions, their number, size, address."""
    node = AllocationNode(reserve(cmemory.get64(parameters + 104), located(parameters + 8)))
    cmemory.put64(parameters + 112, node.memory.address)
    return node


@entry("cuGraphAddMemAllocNode")
def add_alloc_node(place: int, graph: int, needs: int, count: int, parameters: int) -> None:
    insert(place, graph, needs, count, allocation_work(parameters))


@entry("cuGraphAddMemFreeNode")
def add_free_node(place: int, graph: int, needs: int, count: int, address: int) -> None:
    if address not in kinds and not reserved_for_graph(address, 1):
        raise CudaError(results.INVALID_VALUE)
    insert(place, graph, needs, count, FreeNode(address))


@entry("cuGraphMemAllocNodeGetParams")
def allocation_parameters(handle: int, place: int) -> int | None:
    work = vertex(handle).work
    if not isinstance(work, AllocationNode):
        return results.INVALID_VALUE
    cmemory.write("88xQQQQ", place, 0, 0, work.memory.size, work.memory.address)
    # allocType pinned, location device.
    cmemory.write("iiii", place, 1, 0, 1, work.memory.device.ordinal)
    return None


@entry("cuGraphMemFreeNodeGetParams")
def free_parameters(handle: int, place: int) -> int | None:
    work = vertex(handle).work
    if not isinstance(work, FreeNode):
        return results.INVALID_VALUE
    cmemory.put64(place, work.address)
    return None


@entry("cuDeviceGetGraphMemAttribute")
def get_attribute(device: int, number: int, place: int) -> int | None:
    footprint = _footprints[state().device_of(device)]
    if not 0 <= number < len(_ATTRIBUTES):
        return results.INVALID_VALUE
    cmemory.put64(place, getattr(footprint, _ATTRIBUTES[number]))
    return None


@entry("cuDeviceSetGraphMemAttribute")
def set_attribute(device: int, number: int, place: int) -> int | None:
    """The high-water marks may be set to zero."""
    footprint = _footprints[state().device_of(device)]
    if cmemory.get64(place):
        return results.INVALID_VALUE
    if number == 1:
        footprint.used_high = footprint.used
    elif number == 3:
        footprint.reserved_high = footprint.reserved
    else:
        return results.INVALID_VALUE
    return None


@entry("cuDeviceGraphMemTrim")
def trim(device: int) -> None:
    footprint = _footprints[state().device_of(device)]
    footprint.reserved = footprint.used
