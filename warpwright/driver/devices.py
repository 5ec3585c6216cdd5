"""Devices: names, memory, attributes.  Numbers come from the chip's file; limits that every chip of a compute
capability has come from the CUDA C++ Programming Guide's table of technical specifications."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from typing import Any

from warpwright.chips import Chip
from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import Device, state
from warpwright.engine.access_policy import LARGEST_WINDOW_BYTES

UNIFIED = 1
PITCH_BYTES = 512
_HBM_BITS_PER_CHANNEL = 32


def _arch(at_least: int) -> Callable[[Chip], int]:
    return lambda chip: int(chip.arch >= at_least)


def _memory_clock_khz(chip: Chip) -> int:
    """The memory clock that gives the chip's bandwidth over its bus, at two transfers per cycle."""
    return round(chip.dram.dram_gb_per_s * 1e9 / (_bus_bits(chip) / 8) / 2 / 1e3)


def _bus_bits(chip: Chip) -> int:
    bits = chip.dram.dram_burst_bytes * 8 // 8
    return chip.dram.dram_channel_count * max(bits, _HBM_BITS_PER_CHANNEL)


ATTRIBUTES: dict[int, int | Callable[[Chip], int]] = {
    1: lambda chip: chip.sm.max_threads_per_block,
    2: 1024,
    3: 1024,
    4: 64,
    5: 2**31 - 1,
    6: 65535,
    7: 65535,
    8: 48 << 10,
    9: 64 << 10,
    10: 32,
    11: 2**31 - 1,
    12: lambda chip: chip.sm.registers_per_sm,
    13: lambda chip: round(chip.clocks.sm_clock_mhz * 1000),
    14: PITCH_BYTES,
    15: 1,
    16: lambda chip: chip.sm.sm_count,
    17: 0,
    18: 0,
    19: 1,
    20: 0,
    # Textures: sizes of compute capability 7.0 to 9.0.
    **{21: 131072, 22: 131072, 23: 65536, 24: 16384, 25: 16384, 26: 16384, 27: 32768, 28: 32768, 29: 2048},
    30: PITCH_BYTES,
    31: 1,
    32: 1,
    33: 1,
    34: 0,
    35: 0,
    36: _memory_clock_khz,
    37: _bus_bits,
    38: lambda chip: chip.l2.l2_kib << 10,
    39: lambda chip: chip.sm.max_warps_per_sm * 32,
    40: 3,
    41: UNIFIED,
    **{42: 32768, 43: 2048, 44: 1, 45: 32768, 46: 32768, 47: 8192, 48: 8192, 49: 32768},
    50: 0,
    51: 32,
    **{52: 32768, 53: 32768, 54: 2046, 55: 32768, 56: 131072, 57: 65536, 58: 16384, 59: 16384, 60: 16384},
    **{61: 32768, 62: 2048, 63: 32768, 64: 32768, 65: 2048, 66: 32768, 67: 32768, 68: 2046, 69: 268435456},
    **{70: 131072, 71: 65000, 72: 2097120, 73: 32768, 74: 32768, 77: 32768},
    75: lambda chip: chip.arch // 10,
    76: lambda chip: chip.arch % 10,
    78: 1,
    79: 1,
    80: 1,
    81: lambda chip: chip.shared.shared_carveout_kib[-1] << 10,
    82: lambda chip: chip.sm.registers_per_sm,
    83: 1,
    84: 0,
    85: 0,
    86: 0,
    87: 2,
    88: 0,
    89: 1,
    90: 1,
    91: 1,
    92: 0,
    93: 0,
    94: 0,
    95: 1,
    96: 1,
    97: lambda chip: chip.shared.shared_max_per_block_kib << 10,
    98: 0,
    99: 1,
    100: 0,
    101: 0,
    102: 1,
    103: 1,
    104: 0,
    105: 0,
    106: lambda chip: chip.sm.max_blocks_per_sm,
    107: lambda chip: int(chip.l2.l2_compresses),
    108: lambda chip: chip.l2.l2_set_aside_max_kib << 10,
    109: lambda chip: LARGEST_WINDOW_BYTES if chip.l2.l2_set_aside_max_kib else 0,
    110: 0,
    111: lambda chip: chip.shared.shared_reserved_bytes_per_block,
    112: 0,
    113: 1,
    114: 0,
    115: 1,
    116: 0,
    117: 0,
    118: 0,
    119: 1,
    120: _arch(90),
    121: 0,
    122: 0,
    123: 0,
    124: 0,
    125: 1,
    126: lambda chip: 4 if chip.arch >= 90 else 1,
    127: _arch(90),
    128: 0,
    129: 1,
    130: 0,
    131: -1,
    132: 0,
    133: 0,
    134: 0,
    **dict.fromkeys(range(135, 148), 0),
    142: 1,
    144: 1,
}
"""Value by number of CUdevice_attribute; zero means that the simulated device does not have the feature."""


_BUS, _BOARD_GROUP = 33, 85
_COPY_ENGINES = 40


_OF_COHERENT_HOST = {86: 1, 88: 1, 100: 1, 101: 1}
"""Attributes that are 1 if the processor shares page tables and caches with the devices: native atomics of the host, access to pageable memory, access through
the host's page tables, and the host's direct access to managed memory on devices."""


def _host_is_coherent() -> bool:
    machine = state().machine
    return machine is not None and machine.translation is not None


def attribute(number: int, device: Device) -> int:
    """An attribute of a device.

    Raises:
        CudaError: if there is no such attribute.
    """
    if number not in ATTRIBUTES:
        raise CudaError(results.INVALID_VALUE)
    if number == _COPY_ENGINES and device.mig is not None:
        return device.mig.gpu.profile.copy_engines
    value = _OF_COHERENT_HOST.get(number, ATTRIBUTES[number]) if _host_is_coherent() else ATTRIBUTES[number]
    number_of_its_own = device.index if number in (_BUS, _BOARD_GROUP) else 0
    return (value(device.gpu.chip) if callable(value) else value) + number_of_its_own


def bus_id(device: Device) -> str:
    """Domain, bus, device and function; each device is on a separate bus."""
    return f"0000:{1 + device.index:02X}:00.0"


def bus_numbers(text: str) -> list[int]:
    """Domain, bus, device and function; an omitted domain or function is 0.

    Raises:
        ValueError: if the text is not a bus ID.
    """
    place, _, function = text.partition(".")
    domain, bus, device = (["0", *place.split(":")])[-3:]
    return [int(x, 16) for x in (domain, bus, device, function or "0")]


def uuid(device: Device) -> bytes:
    """Sixteen bytes that are the same for the same chip at the same index."""
    if device.mig is not None:
        return bytes.fromhex(device.mig.uuid.removeprefix("MIG-").replace("-", ""))
    place = f" {device.index}" if device.index else ""
    return hashlib.sha256(f"warpwright {device.gpu.chip.name}{place}".encode()).digest()[:16]


_ON_DEVICE = 1
"""CU_MEM_LOCATION_TYPE_DEVICE."""


def located(place: int) -> Device:
    """The device of a CUmemLocation; the calling thread's for host locations."""
    kind, number = cmemory.read("ii", place)
    return state().device_of(number) if kind == _ON_DEVICE else state().device


READ, READ_AND_WRITE = 1, 3
"""CU_MEM_ACCESS_FLAGS_PROT_*."""


MAPPED = (results.INVALID_VALUE, results.INVALID_VALUE)
POOLS = (results.NOT_SUPPORTED, results.INVALID_DEVICE)
"""Results for mapped memory and for pools: of locations on the host, and of devices that do not exist."""


def access_descriptions(place: int, count: int, refusals: tuple[int, int] = MAPPED) -> list[tuple[Device, int]]:
    """Devices and flags of an array of CUmemAccessDesc; read-only access is not distinguished from read and write access.

    Raises:
        CudaError: there is no entry, an entry names no device, or its flags do not exist.
    """
    found = []
    for at in range(place, place + 12 * count, 12):
        kind, number, flags = cmemory.read("iii", at)
        if flags not in (0, READ, READ_AND_WRITE):
            raise CudaError(results.INVALID_VALUE)
        if kind != _ON_DEVICE or not 0 <= number < len(state().devices):
            raise CudaError(refusals[kind == _ON_DEVICE])
        found.append((located(at), flags))
    if not found:
        raise CudaError(results.INVALID_VALUE)
    return found


@entry("cuDeviceGet")
def get(device: int, ordinal: int) -> None:
    state().device_of(ordinal)
    cmemory.put32(device, ordinal)


@entry("cuDeviceGetCount")
def count(place: int) -> int | None:
    state().check_process()
    if not place:
        return results.INVALID_VALUE
    cmemory.put32(place, len(state().devices))
    return None


@entry("cuDeviceGetName")
def name(place: int, room: int, device: int) -> None:
    cmemory.put_text(place, product(state().device_of(device)), room)


def product(device: Device) -> str:
    """The product name that programs see."""
    name = device.mig.name if device.mig is not None else device.gpu.chip.identity.product
    return f"{name} (simulated)"


@entry("cuDeviceGetUuid", "cuDeviceGetUuid_v2")
def get_uuid(place: int, device: int) -> None:
    ctypes.memmove(place, uuid(state().device_of(device)), 16)


@entry("cuDeviceGetLuid")
def luid(*_: Any) -> int:
    return results.NOT_SUPPORTED


@entry("cuDeviceTotalMem_v2")
def total_memory(place: int, device: int) -> None:
    cmemory.put64(place, state().device_of(device).gpu.memory.capacity_bytes)


@entry("cuDeviceGetAttribute")
def get_attribute(place: int, number: int, device: int) -> None:
    cmemory.put32(place, attribute(number, state().device_of(device)) & 0xFFFF_FFFF)


@entry("cuDeviceComputeCapability")
def compute_capability(major: int, minor: int, device: int) -> None:
    one = state().device_of(device)
    cmemory.put32(major, attribute(75, one))
    cmemory.put32(minor, attribute(76, one))


@entry("cuDeviceGetProperties")
def properties(place: int, device: int) -> None:
    one = state().device_of(device)
    chip = one.gpu.chip
    cmemory.write(
        "i3i3i6i",
        place,
        *(chip.sm.max_threads_per_block, 1024, 1024, 64, 2**31 - 1, 65535, 65535, 48 << 10, 64 << 10, 32),
        *(2**31 - 1, chip.sm.registers_per_sm, attribute(13, one)),
    )


@entry("cuDeviceGetPCIBusId")
def get_bus_id(place: int, room: int, device: int) -> int | None:
    text = bus_id(state().device_of(device))
    if room <= len(text):
        return results.INVALID_VALUE
    cmemory.put_text(place, text, room)
    return None


@entry("cuDeviceGetByPCIBusId")
def by_bus_id(device: int, place: int) -> int | None:
    state().check_process()
    try:
        wanted = bus_numbers(cmemory.text(place))
    except ValueError:
        return results.INVALID_VALUE
    for one in state().devices:
        if bus_numbers(bus_id(one)) == wanted:
            cmemory.put32(device, one.ordinal)
            return None
    return results.INVALID_DEVICE


@entry("cuDeviceCanAccessPeer")
def can_access_peer(place: int, device: int, peer: int) -> None:
    cmemory.put32(place, int(state().can_access(state().device_of(device), state().device_of(peer))))


_RANK, _ACCESS, _ATOMICS, _ARRAYS, _SOME_ATOMICS = range(1, 6)
"""CUdevice_P2PAttribute."""


def _peer_attributes(device: Device, peer: Device) -> dict[int, int]:
    """Rank of the link (0 is the best); whether access, all atomics and arrays are supported, and whether only some
    atomics are."""
    s = state()
    if s.machine is None:
        return {_RANK: 0, _ACCESS: 1, _ATOMICS: 1, _ARRAYS: 1, _SOME_ATOMICS: 0}
    from warpwright.system.routes import performance_rank

    route = s.route(device, peer)
    access = int(route is not None)
    atomics = int(route is not None and route.native_atomics)
    rank = performance_rank(s.machine, device.index, peer.index)
    return {_RANK: rank, _ACCESS: access, _ATOMICS: atomics, _ARRAYS: access, _SOME_ATOMICS: 0}


@entry("cuDeviceGetP2PAttribute")
def peer_attribute(place: int, number: int, device: int, peer: int) -> int | None:
    one, other = state().device_of(device), state().device_of(peer)
    if one is other:
        return results.INVALID_DEVICE
    attributes = _peer_attributes(one, other)
    if number not in attributes:
        return results.INVALID_VALUE
    cmemory.put32(place, attributes[number])
    return None


@entry("cuDeviceGetExecAffinitySupport")
def affinity(place: int, kind: int, device: int) -> None:
    state().device_of(device)
    cmemory.put32(place, 0)


@entry("cuDeviceGetHostAtomicCapabilities", "cuDeviceGetP2PAtomicCapabilities")
def atomic_capabilities(*_: Any) -> int:
    return results.NOT_SUPPORTED
