"""The functions of ``libdrm.so.2`` that Mesa's loader calls: one device with a render node."""

from __future__ import annotations

import ctypes
import errno
from functools import cache
from typing import Any

from warpwright.chips import load_chip
from warpwright.driver.drm.identity import Identity, chip_name
from warpwright.driver.drm.radeon.identity import identity_of
from warpwright.driver.drm.register import entry
from warpwright.driver.drm.structures import DrmDevice, PciBus, PciDevice, Version

PCI_VENDOR, PCI_DEVICE = 0x10DE, 0x0191
"""NVIDIA, GeForce 8800 GTX."""
_NOUVEAU = Identity(
    (b"nouveau", b"20120801", b"nVidia Riva/TNT/GeForce/Quadro/Tesla"), (1, 3, 1), PCI_VENDOR, PCI_DEVICE, b"/dev/null"
)
"""All of its calls come to ``libdrm_nouveau.so.2``, so that the file behind the descriptor does not matter."""
_PRIMARY, _RENDER = 0, 2
_CAPABILITIES = {0x5: 3, 0x13: 0, 0x14: 0}
"""DRM_CAP_PRIME (import and export), DRM_CAP_SYNCOBJ, DRM_CAP_SYNCOBJ_TIMELINE."""


@cache
def identity() -> Identity:
    """What the process's device is, by its chip."""
    chip = chip_name()
    generation = load_chip(chip).identity.generation if chip is not None else ""
    if generation:
        return identity_of(generation)
    return _NOUVEAU


class _Description:
    """The structure of the device, with what it points at."""

    def __init__(self) -> None:
        one = identity()
        self.path = ctypes.create_string_buffer(one.node_path)
        path = ctypes.addressof(self.path)
        self.nodes = (ctypes.c_uint64 * 3)(path, 0, path)
        self.bus = PciBus(0, 1, 0, 0)
        self.pci = PciDevice(one.vendor, one.device, one.vendor, one.device, 0xA2)
        address = ctypes.addressof
        available = 1 << _PRIMARY | 1 << _RENDER
        self.device = DrmDevice(address(self.nodes), available, 0, address(self.bus), address(self.pci))


@cache
def _description() -> _Description:
    return _Description()


@cache
def _version() -> tuple[Version, list[Any]]:
    texts = [ctypes.create_string_buffer(t) for t in identity().kernel_driver]
    fields: list[int] = []
    for text in texts:
        fields += [len(text.value), ctypes.addressof(text)]
    return Version(*identity().version, *fields), texts


def _string(text: bytes) -> int:
    """A copy of a string that its receiver frees."""
    duplicate = ctypes.CDLL(None).strdup
    duplicate.restype = ctypes.c_uint64
    return int(duplicate(text))


@entry("drmGetVersion")
def get_version(descriptor: int) -> int:
    return ctypes.addressof(_version()[0])


@entry("drmFreeVersion", "drmFreeDevice", "drmMsg")
def free(pointer: int) -> int:
    """Nothing: the structures stay as long as the process."""
    return 0


@entry("drmFreeDevices")
def free_devices(pointer: int, count: int) -> int:
    return 0


@entry("drmGetDevice2")
def get_device(descriptor: int, flags: int, device: int) -> int:
    ctypes.c_uint64.from_address(device).value = ctypes.addressof(_description().device)
    return 0


@entry("drmGetDeviceFromDevId")
def get_device_from_id(number: int, flags: int, device: int) -> int:
    return get_device(0, flags, device)


@entry("drmGetDevices2")
def get_devices(flags: int, devices: int, room: int) -> int:
    if devices and room > 0:
        get_device(0, flags, devices)
    return 1


@entry("drmDevicesEqual")
def devices_equal(one: int, other: int) -> int:
    return int(bool(one) and bool(other))


@entry("drmGetNodeTypeFromFd")
def get_node_type(descriptor: int) -> int:
    return _RENDER


@entry("drmGetDeviceNameFromFd2", "drmGetRenderDeviceNameFromFd", "drmGetPrimaryDeviceNameFromFd")
def get_device_name(descriptor: int) -> int:
    return _string(identity().node_path)


@entry("drmGetCap")
def get_capability(descriptor: int, capability: int, value: int) -> int:
    if capability not in _CAPABILITIES:
        return -errno.EINVAL
    ctypes.c_uint64.from_address(value).value = _CAPABILITIES[capability]
    return 0


@entry("drmGetMagic")
def get_magic(descriptor: int, magic: int) -> int:
    ctypes.c_uint32.from_address(magic).value = 1
    return 0


@entry("drmAuthMagic")
def authenticate(descriptor: int, magic: int) -> int:
    return 0
