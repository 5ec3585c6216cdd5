"""The virtual-memory API: address ranges, physical memory, and mappings of one to the other.

Physical memory is an anonymous file; mapping it places the file's pages at the addresses, so that memory mapped twice is the
same memory.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.devices import READ_AND_WRITE, access_descriptions, located
from warpwright.driver.driver_state import Device, state
from warpwright.driver.pools import LOCATIONS
from warpwright.engine.abi import HERE, peer_place
from warpwright.engine.allocation import Allocation
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.host_mappings import replace_pages
from warpwright.errors import UnsupportedError

GRANULARITY_BYTES = 2 << 20
_COMPRESSION = 24
"""Offset of the compression type in CUmemAllocationProp, one byte: 1 is CU_MEM_ALLOCATION_COMP_GENERIC."""


@dataclass(eq=False)
class Physical:
    """Memory without an address."""

    file: int
    size: int
    device: Device
    references: int = 1
    properties: bytes = b""


@dataclass(eq=False)
class Range:
    """Reserved addresses in a device's part of the address space."""

    memory: DeviceMemory
    allocation: Allocation
    address: int
    size: int
    mapped: dict[int, tuple[Physical, dict[Device, Allocation], int]] = field(default_factory=dict)
    """By address: the memory, what kernels of each device can access of it (nothing until access is granted), and the size."""


_ranges: list[Range] = []


def _range(address: int, size: int) -> Range:
    for one in _ranges:
        if one.address <= address and address + size <= one.address + one.size:
            return one
    raise CudaError(results.INVALID_VALUE)


def map_pages(address: int, size: int, file: int, offset: int) -> None:
    """Map a file's pages (fresh ones for file -1) at a reserved address."""
    try:
        replace_pages(address, size, file, offset)
    except OSError as refusal:
        raise CudaError(
            results.OUT_OF_MEMORY, f"the host refuses to map {size:,} bytes: {refusal.strerror}"
        ) from refusal


@entry("cuMemGetAllocationGranularity")
def granularity(place: int, properties: int, option: int) -> None:
    state().check_process()
    if option > 1:
        raise CudaError(results.INVALID_VALUE)
    cmemory.put64(place, GRANULARITY_BYTES)


@entry("cuMemAddressReserve")
def reserve(place: int, size: int, alignment: int, wanted: int, flags: int) -> int | None:
    s = state()
    s.check_process()
    if not size or size % GRANULARITY_BYTES or flags or alignment & (alignment - 1):
        return results.INVALID_VALUE
    unit = max(alignment, GRANULARITY_BYTES)
    memory = s.gpu.memory
    whole = memory.allocate(size + unit, "reserved addresses")
    memory.hide(whole)
    address = -(-whole.address // unit) * unit
    _ranges.append(Range(memory, whole, address, size))
    cmemory.put64(place, address)
    return None


@entry("cuMemAddressFree")
def address_free(address: int, size: int) -> int | None:
    one = _range(address, size)
    if one.address != address or one.size != size or one.mapped:
        return results.INVALID_VALUE
    one.memory.show(one.allocation)
    one.memory.free(one.allocation)
    _ranges.remove(one)
    return None


@entry("cuMemCreate")
def create(place: int, size: int, properties: int, flags: int) -> int | None:
    s = state()
    s.check_process()
    kind, handle_types, where = cmemory.read("iii", properties)
    if (
        not size
        or size % GRANULARITY_BYTES
        or flags
        or kind not in (1, 2)
        or where not in LOCATIONS
        or handle_types & ~0xF
    ):
        return results.INVALID_VALUE
    raw = bytearray(ctypes.string_at(properties, 32))
    if raw[_COMPRESSION] > 1:
        return results.INVALID_VALUE
    if not located(properties + 8).gpu.chip.l2.l2_compresses:
        raw[_COMPRESSION] = 0
    if cmemory.get32(properties + 4) not in (0, 1):
        raise UnsupportedError("memory is shared as a file (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) or not at all")
    device = located(properties + 8)
    if size > device.gpu.memory.free_bytes:
        return results.OUT_OF_MEMORY
    file = os.memfd_create("warpwright physical memory")
    os.ftruncate(file, size)
    cmemory.put64(place, s.handles.add(Physical(file, size, device, properties=bytes(raw))))
    return None


@entry("cuMemRelease")
def release(handle: int) -> None:
    memory = state().handles.get(Physical, handle)
    state().handles.drop(handle)
    _drop(memory)


def _drop(memory: Physical) -> None:
    memory.references -= 1
    if memory.references == 0:
        os.close(memory.file)


@entry("cuMemMap")
def map_memory(address: int, size: int, offset: int, handle: int, flags: int) -> int | None:
    memory = state().handles.get(Physical, handle)
    if flags or not size or address % GRANULARITY_BYTES:
        return results.INVALID_VALUE
    one = _range(address, size)
    if offset or size != memory.size:
        return results.NOT_SUPPORTED
    if any(a < address + size and address < a + m[2] for a, m in one.mapped.items()):
        return results.INVALID_VALUE
    map_pages(address, size, memory.file, offset)
    memory.references += 1
    one.mapped[address] = (memory, {}, size)
    return None


@entry("cuMemUnmap")
def unmap(address: int, size: int) -> int | None:
    one = _range(address, size)
    touched = {a: m for a, m in one.mapped.items() if a < address + size and address < a + m[2]}
    inside = [a for a, m in touched.items() if address <= a and a + m[2] <= address + size]
    if len(inside) < len(touched):
        return results.INVALID_VALUE
    for at in inside:
        memory, seen, count = one.mapped.pop(at)
        for device, what in seen.items():
            device.gpu.memory.compressible.pop(at, None)
            device.gpu.memory.unmap(what)
        map_pages(at, count, -1, 0)
        _drop(memory)
    return None


@entry("cuMemSetAccess")
def set_access(address: int, size: int, descriptions: int, count: int) -> int | None:
    one = _range(address, size)
    wishes = access_descriptions(descriptions, count)
    covered = sum(
        length for at, (_, _, length) in one.mapped.items() if address <= at and at + length <= address + size
    )
    if covered != size:
        return results.INVALID_VALUE
    for at, (physical, seen, length) in one.mapped.items():
        if address <= at and at + length <= address + size:
            for device, wanted in wishes:
                if wanted and device not in seen:
                    place = HERE if device is physical.device else peer_place(physical.device.index)
                    seen[device] = device.gpu.memory.map(at, length, f"mapped memory of {length:,} bytes", place)
                    if place == HERE and physical.properties[_COMPRESSION]:
                        device.gpu.memory.compress(at, length, device.gpu.chip.l1.l1_line_bytes)
                elif not wanted and device in seen:
                    device.gpu.memory.unmap(seen.pop(device))
    return None


@entry("cuMemGetAccess")
def get_access(place: int, location: int, address: int) -> None:
    device = located(location)
    cmemory.put64(place, 0)
    one = _range(address, 1)
    holding = [m[1] for a, m in one.mapped.items() if a <= address < a + m[2]]
    if not holding:
        raise CudaError(results.INVALID_VALUE)
    cmemory.put64(place, READ_AND_WRITE if device in holding[0] else 0)


@entry("cuMemRetainAllocationHandle")
def retain(place: int, address: int) -> int | None:
    one = _range(address, 1)
    for at, (memory, _, length) in one.mapped.items():
        if at <= address < at + length:
            memory.references += 1
            cmemory.put64(place, state().handles.add(memory))
            return None
    return results.INVALID_VALUE


@entry("cuMemGetAllocationPropertiesFromHandle")
def properties(place: int, handle: int) -> None:
    raw = state().handles.get(Physical, handle).properties
    ctypes.memmove(place, raw, len(raw))
