"""NVML (``libnvidia-ml.so.1``): reports properties of the simulated devices.

cuda-python's ``cuda.core.system`` counts devices and asks for versions here.  Names and structures are those of nvml.h;
features that a simulated card lacks (temperatures, fans, links, partitions) return NVML's "not supported".
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from warpwright.driver import cmemory
from warpwright.driver.calls import Function, entry, failed
from warpwright.driver.devices import attribute, bus_id, bus_numbers, product, uuid
from warpwright.driver.driver_state import DRIVER_VERSION, Device, state

DRIVER_RELEASE = "580.65.06"
"""The driver that CUDA 13.0 came with (CUDA 13.0 release notes, table 3); ``DRIVER_VERSION`` is its CUDA version."""
_BRANCH = "r580_00"
UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE, UNKNOWN = 1, 2, 3, 6, 7, 999
VERSION_MISMATCH = 25
_SENTENCES = {
    0: "Success",
    UNINITIALIZED: "Uninitialized",
    INVALID_ARGUMENT: "Invalid Argument",
    NOT_SUPPORTED: "Not Supported",
    NOT_FOUND: "Not Found",
    INSUFFICIENT_SIZE: "Insufficient Size",
    VERSION_MISMATCH: "Argument version mismatch",
}
_DEVICE = 0x6000
"""The handle of the first device; the others' follow."""
_VENDOR = 0x10DE
_ARCHITECTURES = ((90, 9), (89, 8), (80, 7), (75, 6), (70, 5), (60, 4), (50, 3))
"""Minimum compute capability and NVML_DEVICE_ARCH_*."""
_users = 0
"""Number of initialisations of NVML minus shutdowns."""


class Refused(Exception):
    """Ends a call with this NVML result."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def nvml(*names: str) -> Callable[[Function], Function]:
    """Register a function for the NVML entry points with these names."""

    def register(function: Function) -> Function:
        def call(*arguments: Any) -> int:
            if not _users and function is not initialise:
                return UNINITIALIZED
            try:
                return function(*arguments) or 0
            except Refused as refused:
                return refused.code
            except BaseException as error:
                failed(names[0], error)
                return UNKNOWN

        for name in names:
            entry(name)(call)
        return function

    return register


def device_of_handle(handle: int) -> Device:
    devices = state().cards
    if handle in mig_devices:
        return mig_devices[handle]
    if not 0 <= handle - _DEVICE < len(devices):
        raise Refused(INVALID_ARGUMENT)
    return devices[handle - _DEVICE]


def card_handle(ordinal: int) -> int:
    """The handle of a card."""
    return _DEVICE + ordinal


mig_devices: dict[int, Device] = {}
"""Handles of MIG devices, which ``nvml_mig`` gives."""


def _put_text(place: int, room: int, value: str) -> int:
    if room <= len(value):
        return INSUFFICIENT_SIZE
    cmemory.put_text(place, value, room)
    return 0


# --- the library and the system -------------------------------------------------------------------
def initialise(flags: int = 0) -> None:
    global _users
    _users += 1


nvml("nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags")(initialise)


@nvml("nvmlShutdown")
def shutdown() -> None:
    global _users
    _users -= 1


@entry("nvmlErrorString", result=ctypes.c_uint64)
def error_string(code: int) -> int:
    return cmemory.static_text(_SENTENCES.get(code, "Unknown Error"))


@nvml("nvmlSystemGetDriverVersion")
def driver_version(place: int, room: int) -> int:
    return _put_text(place, room, DRIVER_RELEASE)


@nvml("nvmlSystemGetNVMLVersion")
def nvml_version(place: int, room: int) -> int:
    return _put_text(place, room, f"{DRIVER_VERSION // 1000}.{DRIVER_RELEASE}")


@nvml("nvmlSystemGetDriverBranch")
def driver_branch(info: int, room: int) -> int:
    # nvmlSystemDriverBranchInfo_t: a version, then the text.
    return _put_text(info + 4, room, _BRANCH)


@nvml("nvmlSystemGetCudaDriverVersion", "nvmlSystemGetCudaDriverVersion_v2")
def cuda_version(place: int) -> None:
    cmemory.put32(place, DRIVER_VERSION)


@nvml("nvmlSystemGetProcessName")
def process_name(number: int, place: int, room: int) -> int:
    try:
        name = os.readlink(f"/proc/{number}/exe")
    except OSError:
        return NOT_FOUND
    cmemory.put_text(place, name, room)
    return 0


# --- devices --------------------------------------------------------------------------------------
@nvml("nvmlDeviceGetCount", "nvmlDeviceGetCount_v2")
def count(place: int) -> None:
    cmemory.put32(place, len(state().cards))


@nvml("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByIndex_v2")
def by_index(index: int, place: int) -> int:
    if not 0 <= index < len(state().cards):
        return INVALID_ARGUMENT
    cmemory.put64(place, _DEVICE + index)
    return 0


@nvml("nvmlDeviceGetHandleByUUID")
def by_uuid(text: int, place: int) -> int:
    return _found(place, [one for one in state().cards if cmemory.text(text) == uuid_text(one)])


def _found(place: int, devices: list[Device]) -> int:
    for one in devices:
        cmemory.put64(place, _DEVICE + one.index)
    return 0 if devices else NOT_FOUND


@nvml("nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetHandleByPciBusId_v2")
def by_bus_id(text: int, place: int) -> int:
    try:
        wanted = bus_numbers(cmemory.text(text))
    except ValueError:
        return INVALID_ARGUMENT
    return _found(place, [one for one in state().cards if bus_numbers(bus_id(one)) == wanted])


def uuid_text(device: Device) -> str:
    raw = uuid(device).hex()
    if device.mig is not None:
        return device.mig.uuid
    return f"GPU-{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"


@nvml("nvmlDeviceGetName")
def name(handle: int, place: int, room: int) -> int:
    device = device_of_handle(handle)
    return _put_text(place, room, f"NVIDIA {product(device)}")


@nvml("nvmlDeviceGetUUID")
def get_uuid(handle: int, place: int, room: int) -> int:
    device = device_of_handle(handle)
    return _put_text(place, room, uuid_text(device))


@nvml("nvmlDeviceGetIndex", "nvmlDeviceGetMinorNumber")
def index(handle: int, place: int) -> None:
    cmemory.put32(place, device_of_handle(handle).index)


@nvml("nvmlDeviceGetCudaComputeCapability")
def compute_capability(handle: int, major: int, minor: int) -> None:
    device = device_of_handle(handle)
    cmemory.put32(major, attribute(75, device))
    cmemory.put32(minor, attribute(76, device))


@nvml("nvmlDeviceGetArchitecture")
def architecture(handle: int, place: int) -> None:
    device = device_of_handle(handle)
    cmemory.put32(place, next(number for least, number in _ARCHITECTURES if device.gpu.chip.arch >= least))


@nvml("nvmlDeviceGetNumGpuCores")
def cores(handle: int, place: int) -> None:
    device = device_of_handle(handle)
    chip = device.gpu.chip
    lite = 0 if chip.pipes.fma_lite_in_xu else chip.pipes.fma_lite_lanes
    cmemory.put32(place, chip.sm.sm_count * chip.sm.sub_core_count * (chip.pipes.fma_heavy_lanes + lite))


@nvml("nvmlDeviceGetMemoryBusWidth")
def bus_width(handle: int, place: int) -> None:
    device = device_of_handle(handle)
    cmemory.put32(place, attribute(37, device))


@nvml("nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo")
def clock(handle: int, kind: int, place: int) -> int:
    device = device_of_handle(handle)
    graphics, sm, memory = 0, 1, 2
    if kind not in (graphics, sm, memory):
        return NOT_SUPPORTED
    cmemory.put32(place, attribute(36 if kind == memory else 13, device) // 1000)
    return 0


@nvml("nvmlDeviceGetMemoryInfo")
def memory_info(handle: int, place: int) -> None:
    device = device_of_handle(handle)
    memory = device.gpu.memory
    cmemory.write("3Q", place, memory.capacity_bytes, memory.free_bytes, memory.capacity_bytes - memory.free_bytes)


@nvml("nvmlDeviceGetMemoryInfo_v2")
def memory_info_2(handle: int, place: int) -> int:
    device = device_of_handle(handle)
    version = ctypes.c_uint32.from_address(place).value
    if version != 2 << 24 | 40:
        return VERSION_MISMATCH
    memory = device.gpu.memory
    cmemory.write(
        "I4Q", place, version, memory.capacity_bytes, 0, memory.free_bytes, memory.capacity_bytes - memory.free_bytes
    )
    return 0


@nvml("nvmlDeviceGetPciInfo_v3")
def pci_info(handle: int, place: int) -> None:
    device = device_of_handle(handle)
    text = bus_id(device)
    domain, bus, number, _ = bus_numbers(text)
    cmemory.write("16s5I32s", place, text.encode(), domain, bus, number, _VENDOR, 0, f"0000{text}".encode())


def _store_processes(handle: int, room: int, infos: int, form: str, *instances: int) -> int:
    """This process only: a simulated card serves no other."""
    device = device_of_handle(handle)
    given = cmemory.get32(room)
    cmemory.put32(room, 1)
    if given < 1:
        return INSUFFICIENT_SIZE
    cmemory.write(form, infos, os.getpid(), device.gpu.memory.used_bytes, *instances)
    return 0


@nvml("nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3")
def running_processes(handle: int, room: int, infos: int) -> int:
    nowhere = 0xFFFF_FFFF
    return _store_processes(handle, room, infos, "IQII", nowhere, nowhere)


@nvml("nvmlDeviceGetComputeRunningProcesses")
def running_processes_v1(handle: int, room: int, infos: int) -> int:
    # nvmlProcessInfo_v1_t, without MIG instances: PyTorch's out-of-memory error requests it.
    return _store_processes(handle, room, infos, "IQ")
