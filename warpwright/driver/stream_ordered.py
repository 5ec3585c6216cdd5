"""Memory allocated and freed in a stream's order, from a pool or, in a capture, by nodes of the graph."""

from __future__ import annotations

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.driver_state import state
from warpwright.driver.graph_memory import AllocationNode, reserve
from warpwright.driver.graphs import submit
from warpwright.driver.memory import HOST, MANAGED, REGISTERED, kinds
from warpwright.driver.pools import FreeNode, Pool, current_pool, pool_allocate, pool_of


@entry("cuMemAllocAsync")
def alloc_async(place: int, size: int, stream: int) -> None:
    _allocate_in(current_pool(state().stream(stream).device), place, size, stream)


@entry("cuMemAllocFromPoolAsync")
def alloc_from_pool(place: int, size: int, pool: int, stream: int) -> None:
    _allocate_in(state().handles.get(Pool, pool), place, size, stream)


def _allocate_in(pool: Pool, place: int, size: int, stream: int) -> None:
    state().current()
    queue = state().stream(stream)
    if queue.capture is not None:
        if not size:
            cmemory.put64(place, 0)
            return
        node = AllocationNode(reserve(size, pool.device))
        submit(queue, node)
        cmemory.put64(place, node.memory.address)
    else:
        # An allocation of 0 bytes takes no memory, and its address is null.
        cmemory.put64(place, pool_allocate(pool, size) if size else 0)


@entry("cuMemFreeAsync")
def free_async(address: int, stream: int) -> int | None:
    if not address:
        return None
    state().current()
    kind = kinds.get(address, ("",))[0]
    if pool_of(address) is None and kind in (HOST, REGISTERED, MANAGED):
        return results.NOT_SUPPORTED if kind == MANAGED else results.INVALID_VALUE
    queue = state().stream(stream)
    # Memory that a graph will allocate may be freed by a graph, which is recorded before the memory exists.
    if address not in kinds and queue.capture is None:
        return results.INVALID_VALUE
    submit(queue, FreeNode(address))
    return None
