"""NVML's calls about MIG: mode, profiles, placements, GPU and compute instances, MIG devices.

Instances are kept in a file (``system/mig.py``), so that all processes see the same instances.  A handle encodes a
card, an instance and a compute instance; handles of destroyed instances are not found.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from warpwright.chips.mig import (
    PROFILES,
    ComputeProfile,
    MigError,
    Placement,
    Profile,
    compute_profiles,
    has_mig,
)
from warpwright.driver import cmemory
from warpwright.driver.driver_state import Device, state
from warpwright.driver.nvml import (
    INSUFFICIENT_SIZE,
    INVALID_ARGUMENT,
    NOT_FOUND,
    NOT_SUPPORTED,
    VERSION_MISMATCH,
    Refused,
    card_handle,
    device_of_handle,
    mig_devices,
    nvml,
)
from warpwright.driver.visible_devices import MigDevice
from warpwright.system.mig import ComputeInstance, GpuInstance, MigCard, card, changing

_GPU_INSTANCE, _COMPUTE_INSTANCE, _MIG_DEVICE = 0x7000_0000, 0x7100_0000, 0x7200_0000
"""Handles: plus 2^16 for each card, 2^8 for each GPU instance, and the compute instance."""
MOST_MIG_DEVICES = 7
_NAME_BYTES = 96
_SHARED_ENGINES = 0
"""NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, the only one."""
Call = Callable[..., int | None]


def _refusing(call: Call) -> Call:
    """Return NVML's code for errors of the driver's rules."""

    @functools.wraps(call)
    def answer(*arguments: Any) -> int | None:
        try:
            return call(*arguments)
        except MigError as error:
            return error.code

    return answer


def _card(device: Device) -> MigCard:
    chip = device.gpu.chip
    if device.mig is not None or not has_mig(chip):
        raise Refused(NOT_SUPPORTED)
    return card(chip, device.index)


def _handle(kind: int, ordinal: int, gpu: int, compute: int = 0) -> int:
    return kind + (ordinal << 16) + (gpu << 8) + compute


def _parts(handle: int, kind: int) -> tuple[Device, int, int]:
    """Card, GPU instance and compute instance of a handle."""
    value = handle - kind
    cards = state().cards
    if not 0 <= value < len(cards) << 16:
        raise Refused(INVALID_ARGUMENT)
    return cards[value >> 16], value >> 8 & 0xFF, value & 0xFF


def _instance(handle: int) -> tuple[Device, GpuInstance]:
    device, number, _ = _parts(handle, _GPU_INSTANCE)
    return device, _card(device).instance(number)


def _profile(kind: int) -> Profile:
    for one in PROFILES:
        if one.kind == kind:
            return one
    raise Refused(NOT_SUPPORTED)


def _profile_by_id(number: int) -> Profile:
    for one in PROFILES:
        if one.number == number:
            return one
    raise Refused(INVALID_ARGUMENT)


def _compute_profile(instance: GpuInstance, kind: int) -> ComputeProfile:
    for one in compute_profiles(instance.profile):
        if one.kind == kind:
            return one
    raise Refused(NOT_SUPPORTED)


# --- mode -------------------------------------------------------------------------------------------
@nvml("nvmlDeviceGetMigMode")
def get_mode(handle: int, current: int, pending: int) -> None:
    enabled = _card(device_of_handle(handle)).enabled
    cmemory.put32(current, int(enabled))
    cmemory.put32(pending, int(enabled))


@nvml("nvmlDeviceSetMigMode")
@_refusing
def set_mode(handle: int, mode: int, activation: int) -> int:
    device = device_of_handle(handle)
    _card(device)
    if mode not in (0, 1):
        return INVALID_ARGUMENT
    with changing(device.gpu.chip, device.index) as found:
        found.set_enabled(bool(mode))
    cmemory.put32(activation, 0)
    return 0


@nvml("nvmlDeviceGetMaxMigDeviceCount")
def most_devices(handle: int, place: int) -> None:
    device = device_of_handle(handle)
    cmemory.put32(place, MOST_MIG_DEVICES if has_mig(device.gpu.chip) else 0)


# --- GPU instances ------------------------------------------------------------------------------------
def _profile_fields(one: Profile) -> tuple[int, ...]:
    counts = (one.sms, one.copy_engines, one.decoders, 0, one.jpegs, one.flow_engines, one.memory_mib)
    return (one.number, 0, one.compute_slices, one.most, *counts)


@nvml("nvmlDeviceGetGpuInstanceProfileInfo")
def profile_info(handle: int, kind: int, place: int) -> None:
    _card(device_of_handle(handle))
    cmemory.write("10IQ", place, *_profile_fields(_profile(kind)))


@nvml("nvmlDeviceGetGpuInstanceProfileInfoV")
def profile_info_v(handle: int, kind: int, place: int) -> int:
    _card(device_of_handle(handle))
    version = ctypes.c_uint32.from_address(place).value
    if version >> 24 != 2:
        return VERSION_MISMATCH
    one = _profile(kind)
    cmemory.write(f"11I4xQ{_NAME_BYTES}s", place, version, *_profile_fields(one), f"MIG {one.name}".encode())
    return 0


def _put_placements(count: int, places: list[Placement], rows: int) -> int:
    """Store start and size of each; without a destination, only their number."""
    given = cmemory.get32(count) if rows else 0
    cmemory.put32(count, len(places))
    if rows and given < len(places):
        return INSUFFICIENT_SIZE
    for n, one in enumerate(places if rows else []):
        cmemory.write("2I", rows + 8 * n, one.start, one.size)
    return 0


@nvml("nvmlDeviceGetGpuInstancePossiblePlacements", "nvmlDeviceGetGpuInstancePossiblePlacements_v2")
def possible_placements(handle: int, number: int, rows: int, count: int) -> int:
    _card(device_of_handle(handle))
    one = _profile_by_id(number)
    return _put_placements(count, [Placement(start, one.memory_slices) for start in one.starts], rows)


@nvml("nvmlDeviceGetGpuInstanceRemainingCapacity")
def remaining(handle: int, number: int, count: int) -> None:
    found = _card(device_of_handle(handle))
    one = _profile_by_id(number)
    cmemory.put32(count, _more(found, one))


def _more(found: MigCard, profile: Profile) -> int:
    """Number of instances of a profile that could still be created, each at the first free placement."""
    trial = MigCard(found.chip, found.uuid, True, list(found.instances))
    count = 0
    while trial.free(profile):
        trial.create(profile.number)
        count += 1
    return count


def _create(handle: int, number: int, start: int | None, place: int) -> int:
    device = device_of_handle(handle)
    _card(device)
    profile = _profile_by_id(number)
    with changing(device.gpu.chip, device.index) as found:
        made = found.create(profile.number, start)
    cmemory.put64(place, _handle(_GPU_INSTANCE, device.index, made.number))
    return 0


@nvml("nvmlDeviceCreateGpuInstance")
@_refusing
def create(handle: int, number: int, place: int) -> int:
    return _create(handle, number, None, place)


@nvml("nvmlDeviceCreateGpuInstanceWithPlacement")
@_refusing
def create_at(handle: int, number: int, placement: int, place: int) -> int:
    start, size = cmemory.read("2I", placement)
    if size != _profile_by_id(number).memory_slices:
        return INVALID_ARGUMENT
    return _create(handle, number, start, place)


@nvml("nvmlGpuInstanceDestroy")
@_refusing
def destroy(handle: int) -> int:
    device, number, _ = _parts(handle, _GPU_INSTANCE)
    with changing(device.gpu.chip, device.index) as found:
        found.destroy(number)
    return 0


@nvml("nvmlDeviceGetGpuInstances")
def instances(handle: int, number: int, rows: int, count: int) -> None:
    device = device_of_handle(handle)
    profile = _profile_by_id(number)
    found = [one for one in _card(device).instances if one.profile is profile]
    for n, one in enumerate(found):
        cmemory.put64(rows + 8 * n, _handle(_GPU_INSTANCE, device.index, one.number))
    cmemory.put32(count, len(found))


@nvml("nvmlDeviceGetGpuInstanceById")
@_refusing
def instance_by_id(handle: int, number: int, place: int) -> int:
    device = device_of_handle(handle)
    _card(device).instance(number)
    cmemory.put64(place, _handle(_GPU_INSTANCE, device.index, number))
    return 0


@nvml("nvmlGpuInstanceGetInfo")
@_refusing
def instance_info(handle: int, place: int) -> int:
    device, one = _instance(handle)
    placement = one.placement
    cmemory.write(
        "Q4I", place, card_handle(device.index), one.number, one.profile.number, placement.start, placement.size
    )
    return 0


# --- compute instances ----------------------------------------------------------------------------------
@nvml("nvmlGpuInstanceGetComputeInstanceProfileInfo")
@_refusing
def compute_profile_info(handle: int, kind: int, engines: int, place: int) -> int:
    _, one = _instance(handle)
    if engines != _SHARED_ENGINES:
        return NOT_SUPPORTED
    found, whole = _compute_profile(one, kind), one.profile
    counts = (14 * found.slices, whole.copy_engines, whole.decoders, 0, whole.jpegs, whole.flow_engines)
    cmemory.write("9I", place, found.kind, found.slices, len(found.starts), *counts)
    return 0


@nvml("nvmlGpuInstanceGetComputeInstanceRemainingCapacity")
@_refusing
def compute_remaining(handle: int, kind: int, count: int) -> int:
    _, one = _instance(handle)
    cmemory.put32(count, len(one.free_compute(_compute_profile(one, kind))))
    return 0


@nvml("nvmlGpuInstanceGetComputeInstancePossiblePlacements")
@_refusing
def compute_placements(handle: int, kind: int, rows: int, count: int) -> int:
    _, one = _instance(handle)
    found = _compute_profile(one, kind)
    return _put_placements(count, [Placement(start, found.slices) for start in found.starts], rows)


def _create_compute(handle: int, kind: int, start: int | None, place: int) -> int:
    device, number, _ = _parts(handle, _GPU_INSTANCE)
    with changing(device.gpu.chip, device.index) as found:
        instance = found.instance(number)
        made = instance.create_compute(_compute_profile(instance, kind).slices, start)
    cmemory.put64(place, _handle(_COMPUTE_INSTANCE, device.index, number, made.number))
    return 0


@nvml("nvmlGpuInstanceCreateComputeInstance")
@_refusing
def create_compute(handle: int, kind: int, place: int) -> int:
    return _create_compute(handle, kind, None, place)


@nvml("nvmlGpuInstanceCreateComputeInstanceWithPlacement")
@_refusing
def create_compute_at(handle: int, kind: int, placement: int, place: int) -> int:
    return _create_compute(handle, kind, cmemory.read("2I", placement)[0], place)


@nvml("nvmlComputeInstanceDestroy")
@_refusing
def destroy_compute(handle: int) -> int:
    device, number, compute = _parts(handle, _COMPUTE_INSTANCE)
    with changing(device.gpu.chip, device.index) as found:
        found.destroy_compute(number, compute)
    return 0


@nvml("nvmlGpuInstanceGetComputeInstances")
@_refusing
def compute_instances(handle: int, kind: int, rows: int, count: int) -> int:
    device, one = _instance(handle)
    slices = _compute_profile(one, kind).slices
    found = [c for c in one.compute if c.slices == slices]
    for n, c in enumerate(found):
        cmemory.put64(rows + 8 * n, _handle(_COMPUTE_INSTANCE, device.index, one.number, c.number))
    cmemory.put32(count, len(found))
    return 0


@nvml("nvmlGpuInstanceGetComputeInstanceById")
@_refusing
def compute_by_id(handle: int, number: int, place: int) -> int:
    device, one = _instance(handle)
    one.compute_instance(number)
    cmemory.put64(place, _handle(_COMPUTE_INSTANCE, device.index, one.number, number))
    return 0


@nvml("nvmlComputeInstanceGetInfo", "nvmlComputeInstanceGetInfo_v2")
@_refusing
def compute_info(handle: int, place: int) -> int:
    device, number, compute = _parts(handle, _COMPUTE_INSTANCE)
    one = _card(device).instance(number)
    found = one.compute_instance(compute)
    owner = _handle(_GPU_INSTANCE, device.index, number)
    kind = one.compute_profile(found.slices).kind
    cmemory.write("2Q4I", place, card_handle(device.index), owner, compute, kind, found.start, found.slices)
    return 0


# --- MIG devices ------------------------------------------------------------------------------------------
def _mig_handle(device: Device, found: MigCard, gpu: GpuInstance, compute: ComputeInstance) -> int:
    handle = _handle(_MIG_DEVICE, device.index, gpu.number, compute.number)
    mine = state().devices[0]
    made = MigDevice(found, device.index, gpu, compute)
    known = mig_devices.get(handle)
    if known is None or known.mig is None or known.mig.uuid != made.uuid:
        is_mine = mine.mig is not None and mine.mig.uuid == made.uuid
        mig_devices[handle] = mine if is_mine else Device(device.index, device.gpu.chip.name, made)
    return handle


@nvml("nvmlDeviceGetMigDeviceHandleByIndex")
def mig_device_by_index(handle: int, index: int, place: int) -> int:
    device = device_of_handle(handle)
    found = _card(device)
    devices = found.devices()
    if not 0 <= index < MOST_MIG_DEVICES:
        return INVALID_ARGUMENT
    if index >= len(devices):
        return NOT_FOUND
    cmemory.put64(place, _mig_handle(device, found, *devices[index]))
    return 0


@nvml("nvmlDeviceIsMigDeviceHandle")
def is_mig_device(handle: int, place: int) -> None:
    cmemory.put32(place, int(device_of_handle(handle).mig is not None))


def _mig(handle: int) -> MigDevice:
    found = device_of_handle(handle).mig
    if found is None:
        raise Refused(INVALID_ARGUMENT)
    return found


@nvml("nvmlDeviceGetGpuInstanceId")
def gpu_instance_id(handle: int, place: int) -> None:
    cmemory.put32(place, _mig(handle).gpu.number)


@nvml("nvmlDeviceGetComputeInstanceId")
def compute_instance_id(handle: int, place: int) -> None:
    cmemory.put32(place, _mig(handle).compute.number)


@nvml("nvmlDeviceGetDeviceHandleFromMigDeviceHandle")
def parent_of(handle: int, place: int) -> None:
    cmemory.put64(place, card_handle(_mig(handle).ordinal))


@nvml("nvmlDeviceGetAttributes", "nvmlDeviceGetAttributes_v2")
def attributes(handle: int, place: int) -> None:
    found = _mig(handle)
    profile = found.gpu.profile
    engines = (profile.copy_engines, profile.decoders, 0, profile.jpegs, profile.flow_engines)
    slices = (profile.compute_slices, found.compute.slices)
    cmemory.write("8IQ", place, 14 * found.compute.slices, *engines, *slices, profile.memory_mib)
