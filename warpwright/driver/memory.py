"""Memory: device, pitched, managed, page-locked and registered host memory, and attributes of pointers.

Managed memory is device memory: with unified addressing the host reads it at the same address.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.devices import PITCH_BYTES
from warpwright.driver.driver_state import Context, Device, state
from warpwright.driver.work_order import host_waits_for
from warpwright.engine import abi
from warpwright.engine.allocation import Allocation
from warpwright.engine.device_memory import ALIGNMENT_BYTES, DeviceMemory
from warpwright.errors import UnsupportedError

DEVICE, HOST, MANAGED, REGISTERED, GRAPH, IMPORTED = (
    "device memory",
    "page-locked host memory",
    "managed memory",
    "registered host memory",
    "memory of a graph",
    "memory of another process",
)
_PLACES = {HOST: abi.HOST, MANAGED: abi.MIGRATES}
_PAGE_BYTES, _OWN_PAGES_FROM_BYTES = 2 << 20, 1 << 20
"""Page size of a card, and the allocations that begin at a page (an H200: ``places`` of
``bench/driver_answers.py``)."""
_MAPPED = 2
"""CU_MEMHOSTALLOC_DEVICEMAP."""
_HOST_FLAGS, _REGISTER_FLAGS = 7, 15
"""Every CU_MEMHOSTALLOC_* and CU_MEMHOSTREGISTER_*."""
kinds: dict[int, tuple[str, int, Context]] = {}
"""Kind, flags and context of each allocation by its address."""
releasers: dict[str, Callable[[int], None]] = {}
"""Functions that free an address, by kind, for kinds that need more than freeing an allocation; the modules that create them register theirs."""


def allocate(size: int, kind: str = DEVICE, flags: int = 0, device: Device | None = None) -> int:
    """Address of a new allocation in the current context, or in the primary one of another device.

    Raises:
        CudaError: size 0.
    """
    context = state().context_of(device)
    memory = context.device.gpu.memory
    if size <= 0:
        raise CudaError(results.INVALID_VALUE)
    if size > (memory.span_bytes if kind == MANAGED and state().managed is not None else memory.capacity_bytes):
        raise CudaError(results.OUT_OF_MEMORY)
    name, place = f"{kind} of {size:,} bytes", _PLACES.get(kind, abi.HERE)
    alignment = _PAGE_BYTES if kind == DEVICE and size >= _OWN_PAGES_FROM_BYTES else ALIGNMENT_BYTES
    device_memory = kind == DEVICE
    allocation = memory.allocate(
        size, name, undefined=device_memory, place=place, alignment_bytes=alignment, of_program=device_memory
    )
    if kind == MANAGED:
        memory.manage(allocation)
    if kind in (HOST, MANAGED):
        state().host_memory = True
        for other in state().others(context.device):
            memory.show_to(other.gpu.memory, allocation)
    context.allocations[allocation.address] = allocation
    kinds[allocation.address] = (kind, flags, context)
    return allocation.address


def device_at(address: int) -> Device:
    """The device whose memory contains an address; the calling thread's for host memory."""
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
    """Free an allocation of :func:`allocate`.

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
    """The allocation that contains an address, on any device."""
    return memory_of(address).find(address)


def whole_size(address: int) -> int:
    """Size of the allocation that begins at an address; 0 if none does."""
    found = holder(address)
    return found.size_bytes if found is not None and found.address == address else 0


@entry("cuMemAlloc_v2")
def alloc(place: int, size: int) -> None:
    cmemory.put64(place, allocate(size))


@entry("cuMemAllocPitch_v2")
def alloc_pitch(place: int, pitch_place: int, width: int, height: int, element: int) -> int | None:
    if element not in (4, 8, 16):
        return results.INVALID_VALUE
    pitch = -(-width // PITCH_BYTES) * PITCH_BYTES
    cmemory.put64(place, allocate(pitch * height))
    cmemory.put64(pitch_place, pitch)
    return None


@entry("cuMemFree_v2")
def free(address: int) -> int | None:
    """The address identifies the device, so a thread that has released its context may free it (Numba's ``cuda.close``)."""
    return _free(address, kinds.get(address, ("",))[0] not in (HOST, REGISTERED))


def _free(address: int, known: bool) -> int | None:
    """Free memory after all work of its device; ``known``: whether it is of the kind that the call frees."""
    s = state()
    if s.stack:
        s.current()
    if not address:
        return None
    if not known:
        return results.INVALID_VALUE
    s.host_waits(max(stream.ps for stream in device_at(address).streams))
    host_waits_for(device_at(address).streams)
    release(address)
    return None


@entry("cuMemAllocManaged")
def alloc_managed(place: int, size: int, flags: int) -> int | None:
    if flags not in (1, 2):
        return results.INVALID_VALUE
    cmemory.put64(place, allocate(size, MANAGED, flags))
    return None


@entry("cuMemAllocHost_v2")
def alloc_host(place: int, size: int) -> None:
    host_alloc(place, size, 0)


@entry("cuMemHostAlloc")
def host_alloc(place: int, size: int, flags: int) -> int | None:
    state().current()
    if flags & ~_HOST_FLAGS:
        return results.INVALID_VALUE
    cmemory.put64(place, allocate(size, HOST, flags | _MAPPED) if size else 0)
    return None


@entry("cuMemFreeHost")
def free_host(address: int) -> int | None:
    return _free(address, kinds.get(address, ("",))[0] == HOST)


@entry("cuMemHostRegister_v2", "cuMemHostRegister")
def register(address: int, size: int, flags: int) -> int | None:
    s = state()
    context = s.current()
    if not address or not size or flags & ~_REGISTER_FLAGS or kinds.get(address, ("",))[0] == HOST:
        return results.INVALID_VALUE
    name = f"{REGISTERED} of {size:,} bytes"
    try:
        mapped = [(m, m.map(address, size, name)) for m in (one.gpu.memory for one in s.devices)]
    except ValueError:
        return results.HOST_MEMORY_ALREADY_REGISTERED
    s.host_memory = True
    context.storage[address] = mapped
    kinds[address] = (REGISTERED, flags, context)
    return None


@entry("cuMemHostUnregister")
def unregister(address: int) -> int | None:
    state().check_process()
    known = kinds.get(address)
    if known is None and address and holder(address) is None:
        return results.HOST_MEMORY_NOT_REGISTERED
    if known is None or known[0] != REGISTERED:
        return results.INVALID_VALUE
    del kinds[address]
    for memory, mapped in known[2].storage.pop(address):
        memory.unmap(mapped)
    return None


def _host_memory(address: int) -> Allocation | None:
    """The page-locked or registered allocation that holds an address."""
    found = holder(address)
    return found if found is not None and kinds.get(found.address, ("",))[0] in (HOST, REGISTERED) else None


@entry("cuMemHostGetDevicePointer_v2")
def device_pointer(place: int, address: int, flags: int) -> int | None:
    if flags or _host_memory(address) is None:
        return results.INVALID_VALUE
    cmemory.put64(place, address)
    return None


@entry("cuMemHostGetFlags")
def host_flags(place: int, address: int) -> int | None:
    found = _host_memory(address)
    if found is None:
        return results.INVALID_VALUE
    cmemory.put32(place, kinds[found.address][1])
    return None


@entry("cuMemGetInfo_v2")
def info(free_place: int, total_place: int) -> None:
    s = state()
    s.current()
    cmemory.put64(free_place, s.gpu.memory.free_bytes)
    cmemory.put64(total_place, s.gpu.memory.capacity_bytes)


@entry("cuMemGetAddressRange_v2")
def address_range(base: int, size: int, address: int) -> int | None:
    state().current()
    found = holder(address)
    if found is None:
        return results.NOT_FOUND
    cmemory.put64(base, found.address)
    cmemory.put64(size, found.size_bytes)
    return None


_MEMORY_TYPES = {DEVICE: 2, MANAGED: 2, GRAPH: 2, IMPORTED: 2, HOST: 1, REGISTERED: 1}


def _pointer_attribute(number: int, address: int) -> bytes | None:
    """The bytes of a CUpointer_attribute; None if the pointer is unknown."""
    found = holder(address)
    device = device_at(address)
    kind, _, context = kinds.get(found.address, (DEVICE, 0, device.primary)) if found else ("", 0, device.primary)
    if found is None:
        return None
    values = {
        2: _MEMORY_TYPES[kind].to_bytes(4, "little"),
        **({5: bytes(16)} if kind != HOST else {}),
        8: int(kind == MANAGED).to_bytes(4, "little"),
        9: context.device.ordinal.to_bytes(4, "little"),
        13: (1).to_bytes(4, "little"),
        1: context.handle.to_bytes(8, "little"),
        3: address.to_bytes(8, "little"),
        **({4: address.to_bytes(8, "little")} if kind != DEVICE else {}),
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
        21: bytes(4),
    }
    return values.get(number, b"")


_LAST_POINTER_ATTRIBUTE, _SYNCHRONOUS = 21, 6
_WORDS = frozenset((1, 3, 4, 5, 7, 11, 12, 14, 17, 18, 19, 20))
"""CUpointer_attribute of 64 bits."""
_NO_DEVICE = (-2 & 0xFFFF_FFFF).to_bytes(4, "little")


@entry("cuPointerGetAttribute")
def pointer_attribute(place: int, number: int, address: int) -> int | None:
    state().check_process()
    raw = _pointer_attribute(number, address)
    if raw is None or raw == b"":
        return results.INVALID_VALUE
    ctypes.memmove(place, raw, len(raw))
    return None


@entry("cuPointerGetAttributes")
def pointer_attributes(count: int, numbers: int, places: int, address: int) -> int | None:
    state().check_process()
    if not count or any(not 0 < cmemory.get32(numbers + 4 * i) <= _LAST_POINTER_ATTRIBUTE for i in range(count)):
        return results.INVALID_VALUE
    for i, place in enumerate(cmemory.words64(places, count)):
        number = cmemory.get32(numbers + 4 * i)
        raw = _pointer_attribute(number, address)
        # Unlike the single query, this one returns zeros for an unknown pointer, including its device.
        unknown = _NO_DEVICE if number == 9 else bytes(8 if number in _WORDS else 4)
        raw = raw if raw else unknown
        ctypes.memmove(place, raw, len(raw))
    return None


@entry("cuPointerSetAttribute")
def set_pointer_attribute(value: int, number: int, address: int) -> int | None:
    state().current()
    return None if number == _SYNCHRONOUS and holder(address) else results.INVALID_VALUE


@entry("cuMemGetHandleForAddressRange")
def handle_for_range(*_: Any) -> int:
    raise UnsupportedError("no other device reads the simulated device's memory: handles for DMA are not made")
