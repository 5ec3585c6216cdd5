"""Memory: device, pitched, managed, page-locked and registered host memory, pools, and what a pointer points to.

Managed memory is device memory: with unified addressing the host reads it at the same address.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from warpwright.driver import c, results
from warpwright.driver.calls import CudaError, entry
from warpwright.driver.devices import PITCH_BYTES
from warpwright.driver.graphs import Node, submit
from warpwright.driver.state import Context, Device, Stream, state
from warpwright.engine.memory import Allocation, DeviceMemory
from warpwright.errors import UnsupportedError

DEVICE, HOST, MANAGED, REGISTERED, GRAPH, IMPORTED = (
    "device memory",
    "page-locked host memory",
    "managed memory",
    "registered host memory",
    "memory of a graph",
    "memory of another process",
)
_MAPPED = 2
"""CU_MEMHOSTALLOC_DEVICEMAP."""
kinds: dict[int, tuple[str, int, Context]] = {}
"""Kind, flags and context of each allocation by its address."""
releasers: dict[str, Callable[[int], None]] = {}
"""What frees an address, by kind, where that is more than giving an allocation back; the modules that make them add theirs."""


def allocate(size: int, kind: str = DEVICE, flags: int = 0, device: Device | None = None) -> int:
    """Address of a new allocation in the current context, or in the primary one of another device.

    Raises:
        CudaError: size 0.
    """
    context = state().context_of(device)
    memory = context.device.gpu.memory
    if size <= 0:
        raise CudaError(results.INVALID_VALUE)
    if size > memory.capacity_bytes:
        raise CudaError(results.OUT_OF_MEMORY)
    allocation = memory.allocate(size, f"{kind} of {size:,} bytes", undefined=kind == DEVICE)
    if kind in (HOST, MANAGED):
        for other in state().others(context.device):
            memory.show_to(other.gpu.memory, allocation)
    context.allocations[allocation.address] = allocation
    kinds[allocation.address] = (kind, flags, context)
    return allocation.address


def device_at(address: int) -> Device:
    """The device whose memory an address lies in; the calling thread's for host memory."""
    s = state()
    if len(s.devices) > 1:
        for device in s.devices:
            if device.gpu.memory.holds(address):
                return device
    return s.device


def memory_of(address: int) -> DeviceMemory:
    """The memory of :func:`device_at`."""
    return device_at(address).gpu.memory


def release(address: int) -> None:
    """Free what :func:`allocate` gave.

    Raises:
        CudaError: CUDA_ERROR_INVALID_VALUE for any other pointer.
    """
    s = state()
    known = kinds.get(address)
    if known is not None and known[0] in releasers:
        releasers[known[0]](address)
        return
    if known is None:
        if s.gpu.checker is not None:
            s.gpu.checker.bad_free(address)
        raise CudaError(results.INVALID_VALUE)
    allocation = known[2].allocations.pop(address, None)
    del kinds[address]
    if allocation is not None and not allocation.freed:
        known[2].device.gpu.memory.free(allocation)


def holder(address: int) -> Allocation | None:
    """The allocation that holds an address, of whichever device."""
    return memory_of(address).find(address)


@entry("cuMemAlloc_v2")
def alloc(place: int, size: int) -> None:
    c.put64(place, allocate(size))


@entry("cuMemAllocPitch_v2")
def alloc_pitch(place: int, pitch_place: int, width: int, height: int, element: int) -> None:
    pitch = -(-width // PITCH_BYTES) * PITCH_BYTES
    c.put64(place, allocate(pitch * height))
    c.put64(pitch_place, pitch)


@entry("cuMemFree_v2")
def free(address: int) -> None:
    state().current()
    if address:
        release(address)


@entry("cuMemAllocManaged")
def alloc_managed(place: int, size: int, flags: int) -> int | None:
    if flags not in (1, 2):
        return results.INVALID_VALUE
    c.put64(place, allocate(size, MANAGED, flags))
    return None


@entry("cuMemAllocHost_v2")
def alloc_host(place: int, size: int) -> None:
    c.put64(place, allocate(size, HOST, _MAPPED))


@entry("cuMemHostAlloc")
def host_alloc(place: int, size: int, flags: int) -> None:
    c.put64(place, allocate(size, HOST, flags | _MAPPED))


@entry("cuMemFreeHost")
def free_host(address: int) -> int | None:
    state().current()
    if kinds.get(address, ("",))[0] != HOST:
        return results.INVALID_VALUE
    release(address)
    return None


@entry("cuMemHostRegister_v2", "cuMemHostRegister")
def register(address: int, size: int, flags: int) -> int | None:
    s = state()
    context = s.current()
    if not address or not size:
        return results.INVALID_VALUE
    name = f"{REGISTERED} of {size:,} bytes"
    try:
        mapped = [(m, m.map(address, size, name)) for m in (one.gpu.memory for one in s.devices)]
    except ValueError:
        return results.HOST_MEMORY_ALREADY_REGISTERED
    context.storage[address] = mapped
    kinds[address] = (REGISTERED, flags, context)
    return None


@entry("cuMemHostUnregister")
def unregister(address: int) -> int | None:
    s = state()
    s.current()
    known = kinds.get(address)
    if known is None or known[0] != REGISTERED:
        return results.HOST_MEMORY_NOT_REGISTERED
    del kinds[address]
    for memory, mapped in known[2].storage.pop(address):
        memory.unmap(mapped)
    return None


@entry("cuMemHostGetDevicePointer_v2")
def device_pointer(place: int, address: int, flags: int) -> int | None:
    if holder(address) is None:
        return results.INVALID_VALUE
    c.put64(place, address)
    return None


@entry("cuMemHostGetFlags")
def host_flags(place: int, address: int) -> int | None:
    found = holder(address)
    if found is None or found.address not in kinds:
        return results.INVALID_VALUE
    c.put32(place, kinds[found.address][1])
    return None


@entry("cuMemGetInfo_v2")
def info(free_place: int, total_place: int) -> None:
    s = state()
    s.current()
    c.put64(free_place, s.gpu.memory.capacity_bytes - s.gpu.memory.used_bytes)
    c.put64(total_place, s.gpu.memory.capacity_bytes)


@entry("cuMemGetAddressRange_v2")
def address_range(base: int, size: int, address: int) -> int | None:
    state().current()
    found = holder(address)
    if found is None:
        return results.NOT_FOUND
    c.put64(base, found.address)
    c.put64(size, found.size_bytes)
    return None


_MEMORY_TYPES = {DEVICE: 2, MANAGED: 2, GRAPH: 2, IMPORTED: 2, HOST: 1, REGISTERED: 1}


def _pointer_attribute(number: int, address: int) -> bytes | None:
    """The bytes of a CUpointer_attribute; None when the pointer is not known."""
    found = holder(address)
    device = device_at(address)
    kind, _, context = kinds.get(found.address, (DEVICE, 0, device.primary)) if found else ("", 0, device.primary)
    if number == 2 and found is not None:
        return _MEMORY_TYPES[kind].to_bytes(4, "little")
    if number == 8:
        return int(kind == MANAGED).to_bytes(4, "little")
    if number == 9:
        return (context.device.ordinal if found else -2 & 0xFFFF_FFFF).to_bytes(4, "little")
    if number == 13:
        return int(found is not None).to_bytes(4, "little")
    if found is None:
        return None
    values = {
        1: context.handle.to_bytes(8, "little"),
        3: address.to_bytes(8, "little"),
        4: address.to_bytes(8, "little"),
        6: (0).to_bytes(4, "little"),
        7: (found.address >> 8).to_bytes(8, "little"),
        10: (0).to_bytes(4, "little"),
        11: found.address.to_bytes(8, "little"),
        12: found.size_bytes.to_bytes(8, "little"),
        14: (0).to_bytes(8, "little"),
        15: (3).to_bytes(4, "little"),
        16: (0).to_bytes(4, "little"),
        17: (0).to_bytes(8, "little"),
        18: found.size_bytes.to_bytes(8, "little"),
        19: found.address.to_bytes(8, "little"),
        20: (found.address >> 8).to_bytes(8, "little"),
    }
    return values.get(number, b"")


@entry("cuPointerGetAttribute")
def pointer_attribute(place: int, number: int, address: int) -> int | None:
    state().current()
    raw = _pointer_attribute(number, address)
    if raw is None or raw == b"":
        return results.INVALID_VALUE
    ctypes.memmove(place, raw, len(raw))
    return None


@entry("cuPointerGetAttributes")
def pointer_attributes(count: int, numbers: int, places: int, address: int) -> None:
    state().current()
    for i, place in enumerate(c.words64(places, count)):
        number = c.get32(numbers + 4 * i)
        raw = _pointer_attribute(number, address)
        # Unlike the single query this one leaves zeros for a pointer that is not known.
        raw = raw if raw else bytes(8 if number in (1, 3, 4, 5, 7, 11, 12, 14, 17, 18, 19, 20) else 4)
        ctypes.memmove(place, raw, len(raw))


@entry("cuPointerSetAttribute")
def set_pointer_attribute(value: int, number: int, address: int) -> int | None:
    state().current()
    return None if holder(address) else results.INVALID_VALUE


@entry("cuMemAdvise", "cuMemAdvise_v2")
def advise(address: int, size: int, advice: int, where: int) -> int | None:
    state().current()
    return None if holder(address) else results.INVALID_VALUE


@entry("cuMemPrefetchAsync")
def prefetch(address: int, size: int, device: int, stream: int) -> int | None:
    state().current()
    state().stream(stream)
    return None if holder(address) else results.INVALID_VALUE


@entry("cuMemPrefetchAsync_v2")
def prefetch_2(address: int, size: int, where: int, flags: int, stream: int) -> int | None:
    return prefetch(address, size, 0, stream)


@entry("cuMemRangeGetAttribute")
def range_attribute(place: int, size: int, number: int, address: int, count: int) -> int | None:
    state().current()
    if holder(address) is None:
        return results.INVALID_VALUE
    # Nothing is recorded of advice: no read duplication, no preferred place.
    c.write("i", place, 0 if number == 1 else -2)
    return None


# --- pools -------------------------------------------------------------------------------------------
@dataclass(eq=False)
class Pool:
    """A memory pool of a device: it gives memory back at once, so it reserves what is used and no more."""

    device: Device
    handle: int = 0
    used: int = 0
    most: int = 0
    attributes: dict[int, int] = field(default_factory=lambda: {1: 1, 2: 1, 3: 1, 4: 0})
    """Reuse policies and release threshold."""
    sizes: dict[int, int] = field(default_factory=dict)
    shareable: int = 0
    """CUmemAllocationHandleType by which other processes may get the pool."""
    file: int = -1
    """The other process's memory, for a pool that was imported."""
    open_to: set[Device] = field(default_factory=set)
    """Other devices whose kernels may reach its memory."""

    def show(self, address: int, other: Device) -> None:
        """Let another device's kernels reach one of its allocations."""
        self.device.gpu.memory.show_to(other.gpu.memory, kinds[address][2].allocations[address])

    def let(self, other: Device) -> None:
        """Give another device access to what is in the pool, now and later."""
        self.open_to.add(other)
        for address in self.sizes:
            self.show(address, other)

    def let_no_longer(self, other: Device) -> None:
        """End what :meth:`let` began."""
        self.open_to.discard(other)
        for address in self.sizes:
            self.device.gpu.memory.hide_from(other.gpu.memory, kinds[address][2].allocations[address])


_pools: list[Pool] = []
_default: dict[Device, Pool] = {}


def default_pool(device: Device) -> Pool:
    """The device's own pool."""
    if device not in _default:
        add_pool(_default.setdefault(device, Pool(device)))
    return _default[device]


def current_pool(device: Device) -> Pool:
    """The pool that a device's allocations in a stream's order come from."""
    return device.pool or default_pool(device)


def _pool_of(address: int) -> Pool | None:
    return next((p for p in _pools if address in p.sizes), None)


def pool_allocate(pool: Pool, size: int, address: int = 0) -> int:
    """Memory from a pool."""
    given = allocate(size, device=pool.device)
    for other in pool.open_to:
        pool.show(given, other)
    pool.sizes[given] = size
    pool.used += size
    pool.most = max(pool.most, pool.used)
    return given


def pool_release(address: int) -> None:
    """Memory back to its pool."""
    pool = _pool_of(address)
    if pool is not None:
        pool.used -= pool.sizes.pop(address)
    release(address)


@dataclass(eq=False, slots=True)
class FreeNode(Node):
    """Memory freed in a stream's order."""

    address: int
    kind = 11

    def run(self, stream: Stream) -> None:
        pool_release(self.address)


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
        from warpwright.driver.graph_memory import AllocationNode, reserve

        node = AllocationNode(reserve(size, pool.device))
        submit(queue, node)
        c.put64(place, node.memory.address)
    else:
        c.put64(place, pool_allocate(pool, size))


@entry("cuMemFreeAsync")
def free_async(address: int, stream: int) -> int | None:
    state().current()
    queue = state().stream(stream)
    # Memory that a graph will allocate may be freed by a graph, which is recorded before there is any.
    if address not in kinds and queue.capture is None:
        return results.INVALID_VALUE
    submit(queue, FreeNode(address))
    return None


@entry("cuDeviceGetDefaultMemPool")
def get_default_pool(place: int, device: int) -> None:
    c.put64(place, default_pool(state().device_of(device)).handle)


@entry("cuDeviceGetMemPool")
def get_pool(place: int, device: int) -> None:
    c.put64(place, current_pool(state().device_of(device)).handle)


@entry("cuDeviceSetMemPool")
def set_pool(device: int, handle: int) -> None:
    one, pool = state().device_of(device), state().handles.get(Pool, handle)
    if pool.device is not one:
        raise CudaError(results.INVALID_VALUE)
    one.pool = pool


_ON_DEVICE = 1
"""CU_MEM_LOCATION_TYPE_DEVICE."""


def located(place: int) -> Device:
    """The device of a CUmemLocation; the calling thread's for places of the host."""
    kind, number = c.read("ii", place)
    return state().device_of(number) if kind == _ON_DEVICE else state().device


@entry("cuMemGetDefaultMemPool")
def get_default_pool_at(place: int, location: int, kind: int) -> None:
    c.put64(place, default_pool(located(location)).handle)


@entry("cuMemGetMemPool")
def get_pool_at(place: int, location: int, kind: int) -> None:
    c.put64(place, current_pool(located(location)).handle)


@entry("cuMemPoolCreate")
def pool_create(place: int, properties: int) -> int | None:
    state().check_process()
    handle_types = c.get32(properties + 4) if properties else 0
    if handle_types not in (0, 1):
        raise UnsupportedError(
            "memory of a pool is shared as a file (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) or not at all"
        )
    device = located(properties + 8) if properties else state().device
    c.put64(place, add_pool(Pool(device, shareable=handle_types)))
    return None


def add_pool(made: Pool) -> int:
    """Handle of a new pool."""
    made.handle = state().handles.add(made)
    _pools.append(made)
    return made.handle


@entry("cuMemPoolDestroy")
def pool_destroy(handle: int) -> None:
    pool = state().handles.get(Pool, handle)
    if pool in _default.values():
        raise CudaError(results.INVALID_VALUE)
    _pools.remove(pool)
    if pool.device.pool is pool:
        pool.device.pool = None
    state().handles.drop(handle)


@entry("cuMemPoolGetAttribute")
def pool_attribute(handle: int, number: int, place: int) -> int | None:
    pool = state().handles.get(Pool, handle)
    values = {**pool.attributes, 5: pool.used, 6: pool.most, 7: pool.used, 8: pool.most}
    if number not in values:
        return results.INVALID_VALUE
    if number <= 3:
        c.put32(place, values[number])
    else:
        c.put64(place, values[number])
    return None


@entry("cuMemPoolSetAttribute")
def set_pool_attribute(handle: int, number: int, place: int) -> int | None:
    pool = state().handles.get(Pool, handle)
    if number in (6, 8):
        pool.most = pool.used
    elif number in pool.attributes:
        pool.attributes[number] = c.get32(place) if number <= 3 else c.get64(place)
    else:
        return results.INVALID_VALUE
    return None


@entry("cuMemPoolTrimTo")
def pool_trim(handle: int, keep: int) -> None:
    state().handles.get(Pool, handle)


@entry("cuMemPoolSetAccess")
def pool_set_access(handle: int, descriptions: int, count: int) -> int | None:
    pool = state().handles.get(Pool, handle)
    for device, flags in access_descriptions(descriptions, count):
        if device is pool.device:
            if flags != READ_AND_WRITE:
                return results.INVALID_VALUE
        elif flags:
            pool.let(device)
        else:
            pool.let_no_longer(device)
    return None


READ_AND_WRITE = 3
"""CU_MEM_ACCESS_FLAGS_PROT_READWRITE."""


def access_descriptions(place: int, count: int) -> list[tuple[Device, int]]:
    """Devices and flags of an array of CUmemAccessDesc; reading alone is not told from reading and writing."""
    return [(located(place + 12 * i), c.get32(place + 12 * i + 8)) for i in range(count)]


@entry("cuMemPoolGetAccess")
def pool_get_access(place: int, handle: int, location: int) -> None:
    pool, device = state().handles.get(Pool, handle), located(location)
    c.put32(place, READ_AND_WRITE if device is pool.device or device in pool.open_to else 0)


@entry("cuMemGetHandleForAddressRange")
def handle_for_range(*_: Any) -> int:
    raise UnsupportedError("no other device reads the simulated device's memory: handles for DMA are not made")
