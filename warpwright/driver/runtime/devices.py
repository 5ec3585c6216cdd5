"""Devices, errors and versions of the runtime."""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from importlib import resources

from warpwright.driver import cmemory, printf_buffer, results
from warpwright.driver.calls import ENTRIES, entry
from warpwright.driver.contexts import empty
from warpwright.driver.devices import attribute, product, uuid
from warpwright.driver.driver_state import DRIVER_VERSION, Device, state
from warpwright.driver.runtime.calls import chosen, last_error, runtime, same


@cache
def _rows(version: str) -> tuple[tuple[str, str, int, str], ...]:
    """Fields of cudaDeviceProp (name, struct code, count, where its value comes from); rows of data/properties.txt."""
    text = resources.files("warpwright.driver").joinpath("data/properties.txt").read_text(encoding="utf-8")
    rows = [line.split() for line in text.splitlines()]
    return tuple((name, code, int(count), value) for name, code, count, kept, value in rows if version in kept)


def _properties(version: str, device: Device) -> bytes:
    values: list[int | bytes] = []
    layout = ""
    for name, code, count, value in _rows(version):
        layout += f"{count}{code}" if code == "s" or count > 1 else code
        if value == "text":
            values += {"name": [product(device).encode()], "uuid": [uuid(device)], "luid": [bytes(8)]}.get(name, [0])
        elif value == "memory":
            values.append(device.gpu.memory.capacity_bytes)
        elif name == "reserved":
            values += [0] * count
        else:
            values += [attribute(int(n), device) for n in value.split(",")]
    return struct.pack(layout, *values)


@runtime("cudaGetDeviceProperties_v2")
def properties_12(place: int, device: int) -> None:
    _put_properties("12", place, device)


@runtime("cudaGetDeviceProperties")
def properties_13(place: int, device: int) -> None:
    _put_properties("13", place, device)


def _put_properties(version: str, place: int, device: int) -> None:
    raw = _properties(version, state().device_of(device))
    ctypes.memmove(place, raw, len(raw))


@runtime("cudaGetDeviceCount")
def count(place: int) -> None:
    cmemory.put32(place, len(state().devices))


@runtime("cudaGetDevice")
def get_device(place: int) -> None:
    cmemory.put32(place, state().device.ordinal)


@runtime("cudaSetDevice")
def set_device(device: int) -> None:
    """Make a device's primary context the calling thread's."""
    primary = state().device_of(device).primary
    chosen.mine()[0] = device
    primary.users = max(primary.users, 1)
    state().stack[-1:] = [primary]


@runtime("cudaInitDevice")
def init_device(device: int, *_: int) -> None:
    state().device_of(device)


@runtime("cudaChooseDevice")
def choose(place: int, wanted: int) -> None:
    cmemory.put32(place, 0)


@runtime(
    "cudaSetValidDevices",
    "cudaSetDeviceFlags",
    "cudaProfilerStart",
    "cudaProfilerStop",
)
def nothing(*_: int) -> None:
    return None


@runtime("cudaGetDeviceFlags")
def flags(place: int) -> None:
    cmemory.put32(place, state().device.primary.flags)


@runtime("cudaDeviceReset", "cudaThreadExit")
def reset() -> None:
    s = state()
    primary = s.device.primary
    empty(primary)
    printf_buffer.flush()
    if primary in s.stack:
        s.stack.remove(primary)


@runtime("cudaDeviceGetStreamPriorityRange")
def priorities(least: int, greatest: int) -> None:
    cmemory.put32(least, 0)
    cmemory.put32(greatest, -5 & 0xFFFF_FFFF)


@runtime("cudaDeviceCanAccessPeer")
def can_access_peer(place: int, device: int, peer: int) -> int | None:
    return ENTRIES["cuDeviceCanAccessPeer"](place, device, peer)


@runtime("cudaDeviceEnablePeerAccess")
def enable_peer(device: int, flags: int) -> int | None:
    if state().device_of(device) is state().device:
        return results.INVALID_DEVICE
    return ENTRIES["cuCtxEnablePeerAccess"](state().device_of(device).primary.handle, flags)


@runtime("cudaDeviceDisablePeerAccess")
def disable_peer(device: int) -> int | None:
    return ENTRIES["cuCtxDisablePeerAccess"](state().device_of(device).primary.handle)


@entry("cudaGetLastError")
def get_last_error() -> int:
    return _sticky() or last_error(True)


@entry("cudaPeekAtLastError")
def peek() -> int:
    return _sticky() or last_error(False)


def _sticky() -> int:
    s = state()
    return s.stack[-1].sticky if s.stack else 0


@entry("cudaGetErrorString", result=ctypes.c_uint64)
def error_string(code: int) -> int:
    return cmemory.static_text(results.sentence(code) or "unrecognized error code")


@entry("cudaGetErrorName", result=ctypes.c_uint64)
def error_name(code: int) -> int:
    return cmemory.static_text(results.runtime_name(code) or "unrecognized error code")


@entry("cudaRuntimeGetVersion@12")
def version_12(place: int) -> int:
    cmemory.put32(place, 12090)
    return 0


@entry("cudaRuntimeGetVersion@13")
def version_13(place: int) -> int:
    cmemory.put32(place, 13000)
    return 0


@entry("cudaDriverGetVersion")
def driver_version(place: int) -> int:
    cmemory.put32(place, DRIVER_VERSION)
    return 0


@runtime("cudaDeviceSynchronize", "cudaThreadSynchronize")
def synchronize() -> None:
    from warpwright.driver.contexts import synchronize as of_context

    of_context()


@runtime("cudaGetDriverEntryPoint")
def driver_entry(name: int, place: int, flags: int, status: int) -> int | None:
    return driver_entry_by_version(name, place, DRIVER_VERSION, flags, status)


@runtime("cudaGetDriverEntryPointByVersion")
def driver_entry_by_version(name: int, place: int, version: int, flags: int, status: int) -> int | None:
    from warpwright.driver.process import addresses, get_proc_address_2, on_missing_driver

    if not addresses:
        for load in on_missing_driver:
            load()
    return get_proc_address_2(name, place, version, flags, status)


def register() -> None:
    """Functions that are the driver's."""
    for name, driver in (
        ("cudaDeviceGetAttribute", "cuDeviceGetAttribute"),
        ("cudaDeviceGetLimit", "cuCtxGetLimit"),
        ("cudaDeviceSetLimit", "cuCtxSetLimit"),
        ("cudaCtxResetPersistingL2Cache", "cuCtxResetPersistingL2Cache"),
        ("cudaDeviceGetCacheConfig", "cuCtxGetCacheConfig"),
        ("cudaDeviceSetCacheConfig", "cuCtxSetCacheConfig"),
        # The same by the names that CUDA 12 still has for threads.
        ("cudaThreadGetLimit", "cuCtxGetLimit"),
        ("cudaThreadSetLimit", "cuCtxSetLimit"),
        ("cudaThreadGetCacheConfig", "cuCtxGetCacheConfig"),
        ("cudaThreadSetCacheConfig", "cuCtxSetCacheConfig"),
        ("cudaLogsCurrent", "cuLogsCurrent"),
        ("cudaLogsDumpToFile", "cuLogsDumpToFile"),
        ("cudaLogsDumpToMemory", "cuLogsDumpToMemory"),
        ("cudaLogsRegisterCallback", "cuLogsRegisterCallback"),
        ("cudaLogsUnregisterCallback", "cuLogsUnregisterCallback"),
        ("cudaDeviceGetSharedMemConfig", "cuCtxGetSharedMemConfig"),
        ("cudaDeviceSetSharedMemConfig", "cuCtxSetSharedMemConfig"),
        ("cudaDeviceGetPCIBusId", "cuDeviceGetPCIBusId"),
        ("cudaDeviceGetByPCIBusId", "cuDeviceGetByPCIBusId"),
        ("cudaDeviceGetP2PAttribute", "cuDeviceGetP2PAttribute"),
    ):
        same(name, driver)


register()
