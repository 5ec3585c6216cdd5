"""Memory pools, and stream-ordered allocation."""

from __future__ import annotations

from dataclasses import dataclass, field

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.devices import POOLS, READ_AND_WRITE, access_descriptions, located
from warpwright.driver.driver_state import Device, Stream, state
from warpwright.driver.graphs import Node
from warpwright.driver.memory import DEVICE, HOST, MANAGED, allocate, kinds, release
from warpwright.errors import UnsupportedError


@dataclass(eq=False)
class Pool:
    """A memory pool of a device: it frees memory at once, so it reserves no more than is used."""

    device: Device
    kind: str = DEVICE
    """Kind of its memory: device memory, page-locked host memory or managed memory."""
    handle: int = 0
    used: int = 0
    most: int = 0
    attributes: dict[int, int] = field(default_factory=lambda: {1: 1, 2: 1, 3: 1, 4: 0})
    """Reuse policies and release threshold."""
    sizes: dict[int, int] = field(default_factory=dict)
    shareable: int = 0
    """CUmemAllocationHandleType by which the pool may be exported to other processes."""
    file: int = -1
    """The other process's memory, for an imported pool."""
    open_to: set[Device] = field(default_factory=set)
    """Other devices whose kernels may access its memory."""

    def show(self, address: int, other: Device) -> None:
        """Make one of its allocations accessible to another device's kernels."""
        self.device.gpu.memory.show_to(other.gpu.memory, kinds[address][2].allocations[address])

    def let(self, other: Device) -> None:
        """Make the pool's memory, current and future, accessible to another device."""
        self.open_to.add(other)
        for address in self.sizes:
            self.show(address, other)

    def let_no_longer(self, other: Device) -> None:
        """Undo :meth:`let`."""
        self.open_to.discard(other)
        for address in self.sizes:
            self.device.gpu.memory.hide_from(other.gpu.memory, kinds[address][2].allocations[address])


_PAGE_LOCKED, _MANAGED, _ON_DEVICE = 1, 2, 1
"""CUmemAllocationType; CU_MEM_LOCATION_TYPE_DEVICE."""
LOCATIONS, _HANDLE_TYPES = (1, 2, 3, 4), 0xF
"""Existing values of CUmemLocationType and CUmemAllocationHandleType."""
_pools: list[Pool] = []
_default: dict[tuple[Device, str], Pool] = {}
"""Default pools of each device, by the kind of their memory."""
_current: dict[tuple[Device, str], Pool] = {}
"""Pools with which programs replaced them."""


def default_pool(device: Device, kind: str = DEVICE) -> Pool:
    """The device's default pool for a kind of memory."""
    if (device, kind) not in _default:
        add_pool(_default.setdefault((device, kind), Pool(device, kind)))
    return _default[device, kind]


def current_pool(device: Device, kind: str = DEVICE) -> Pool:
    """The pool of a device's stream-ordered allocations."""
    return _current.get((device, kind)) or default_pool(device, kind)


def pool_of(address: int) -> Pool | None:
    """The pool from which an allocation came."""
    return next((p for p in _pools if address in p.sizes), None)


def pool_allocate(pool: Pool, size: int) -> int:
    """Allocate memory from a pool."""
    given = allocate(size, pool.kind, int(pool.kind == MANAGED), device=pool.device)
    for other in pool.open_to:
        pool.show(given, other)
    pool.sizes[given] = size
    pool.used += size
    pool.most = max(pool.most, pool.used)
    return given


def pool_release(address: int) -> None:
    """Return memory to its pool."""
    pool = pool_of(address)
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


@entry("cuDeviceGetDefaultMemPool")
def get_default_pool(place: int, device: int) -> None:
    cmemory.put64(place, default_pool(state().device_of(device)).handle)


@entry("cuDeviceGetMemPool")
def get_pool(place: int, device: int) -> None:
    cmemory.put64(place, current_pool(state().device_of(device)).handle)


@entry("cuDeviceSetMemPool")
def set_pool(device: int, handle: int) -> None:
    _make_current(state().device_of(device), DEVICE, handle)


def _make_current(device: Device, kind: str, handle: int) -> None:
    """Make a pool the one used by a device's stream-ordered allocations."""
    pool = state().handles.get(Pool, handle)
    if (pool.device, pool.kind) != (device, kind):
        raise CudaError(results.INVALID_VALUE)
    _current[device, kind] = pool


def _held_by(kind: int, where: int) -> str:
    """Kind of a pool's memory, by CUmemAllocationType and CUmemLocationType."""
    return MANAGED if kind == _MANAGED else DEVICE if where == _ON_DEVICE else HOST


def _place_of_pools(location: int, kind: int) -> tuple[Device, str]:
    """The device of a location whose pools are requested, and the kind of their memory.

    Raises:
        CudaError: for an unknown location or kind. Managed memory needs no location.
    """
    if kind != _MANAGED and not (kind == _PAGE_LOCKED and cmemory.get32(location)):
        raise CudaError(results.INVALID_VALUE)
    try:
        return located(location), _held_by(kind, cmemory.get32(location))
    except CudaError:
        raise CudaError(results.INVALID_VALUE) from None


@entry("cuMemGetDefaultMemPool")
def get_default_pool_at(place: int, location: int, kind: int) -> None:
    cmemory.put64(place, default_pool(*_place_of_pools(location, kind)).handle)


@entry("cuMemGetMemPool")
def get_pool_at(place: int, location: int, kind: int) -> None:
    cmemory.put64(place, current_pool(*_place_of_pools(location, kind)).handle)


@entry("cuMemSetMemPool")
def set_pool_at(location: int, kind: int, handle: int) -> None:
    _make_current(*_place_of_pools(location, kind), handle)


@entry("cuMemPoolCreate")
def pool_create(place: int, properties: int) -> int | None:
    state().check_process()
    kind, handle_types, where, number = cmemory.read("iiii", properties)
    anywhere = kind == _MANAGED and where == 0
    if kind not in (_PAGE_LOCKED, _MANAGED) or not (where in LOCATIONS or anywhere) or handle_types & ~_HANDLE_TYPES:
        return results.INVALID_VALUE
    if where == _ON_DEVICE and not 0 <= number < len(state().devices):
        return results.INVALID_VALUE
    if handle_types not in (0, 1):
        raise UnsupportedError(
            "memory of a pool is shared as a file (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) or not at all"
        )
    device = located(properties + 8)
    cmemory.put64(place, add_pool(Pool(device, _held_by(kind, where), shareable=handle_types)))
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
    if _current.get((pool.device, pool.kind)) is pool:
        del _current[pool.device, pool.kind]
    state().handles.drop(handle)


@entry("cuMemPoolGetAttribute")
def pool_attribute(handle: int, number: int, place: int) -> int | None:
    pool = state().handles.get(Pool, handle)
    values = {**pool.attributes, 5: pool.used, 6: pool.most, 7: pool.used, 8: pool.most}
    if number not in values:
        return results.INVALID_VALUE
    if number <= 3:
        cmemory.put32(place, values[number])
    else:
        cmemory.put64(place, values[number])
    return None


@entry("cuMemPoolSetAttribute")
def set_pool_attribute(handle: int, number: int, place: int) -> int | None:
    pool = state().handles.get(Pool, handle)
    if number in (6, 8):
        if cmemory.get64(place):
            return results.INVALID_VALUE
        pool.most = pool.used
    elif number in pool.attributes:
        pool.attributes[number] = cmemory.get32(place) if number <= 3 else cmemory.get64(place)
    else:
        return results.INVALID_VALUE
    return None


@entry("cuMemPoolTrimTo")
def pool_trim(handle: int, keep: int) -> None:
    state().handles.get(Pool, handle)


@entry("cuMemPoolSetAccess")
def pool_set_access(handle: int, descriptions: int, count: int) -> int | None:
    pool = state().handles.get(Pool, handle)
    if not count:
        return None
    for device, flags in access_descriptions(descriptions, count, POOLS):
        if device is pool.device:
            # Host memory belongs to no device, and all devices can access it.
            if flags != READ_AND_WRITE and pool.kind == DEVICE:
                return results.NOT_SUPPORTED if flags else results.INVALID_DEVICE
        elif flags:
            if pool.kind == DEVICE and not state().can_access(device, pool.device):
                return results.INVALID_DEVICE
            pool.let(device)
        else:
            pool.let_no_longer(device)
    return None


@entry("cuMemPoolGetAccess")
def pool_get_access(place: int, handle: int, location: int) -> None:
    pool = state().handles.get(Pool, handle)
    kind, number = cmemory.read("ii", location)
    if kind == 1 and not 0 <= number < len(state().devices):
        raise CudaError(results.INVALID_VALUE)
    device = located(location)
    cmemory.put32(place, READ_AND_WRITE if device is pool.device or device in pool.open_to else 0)
