"""The functions of ``libdrm_nouveau.so.2`` that make and destroy objects: device, channel, engines, clients."""

from __future__ import annotations

import ctypes
import errno
import os
import time
from pathlib import Path
from typing import Any

from warpwright.chips import load_chip
from warpwright.driver.drm import frames
from warpwright.driver.drm.identity import chip_name
from warpwright.driver.drm.nodes import PCI_DEVICE, PCI_VENDOR
from warpwright.driver.drm.register import entry
from warpwright.driver.drm.structures import Client, Device, Drm, Fifo, Object
from warpwright.driver.process_end import at_end
from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.recording import Recorder
from warpwright.session import session

FIFO_CHANNEL, NOTIFIER = 0x80000001, 0x80000002
DRM_VERSION = 0x01000301
_VENDOR, _DEVICE_ID, _BUS_TYPE, _CHIPSET, _TIMER, _UNITS = 3, 4, 5, 11, 14, 13
"""Parameters of ``nouveau_getparam`` (the kernel's public ``nouveau_drm.h``)."""
_PCI_EXPRESS = 3
_kept: dict[int, Any] = {}
"""Structures to which C code points, by address."""
_devices: list[GraphicsDevice] = []


def keep(structure: Any) -> int:
    """Keep a structure alive for C code; returns its address."""
    address = ctypes.addressof(structure)
    _kept[address] = structure
    return address


def drop(address: int) -> None:
    """Release a structure."""
    _kept.pop(address, None)


def lasting() -> object:
    """What C code may still read after the interpreter has ended: structures and the device's memory."""
    return _kept, _devices


def put(pointer: int, value: int) -> None:
    """Store a pointer."""
    ctypes.c_uint64.from_address(pointer).value = value


def get(pointer: int) -> int:
    """The pointer at an address."""
    return ctypes.c_uint64.from_address(pointer).value


def graphics_device() -> GraphicsDevice:
    """The process's device, made on first use for the chip that the session asks for."""
    if not _devices:
        chip = chip_name()
        _devices.append(GraphicsDevice.of_chip(chip or "g80"))
        path = session.record or os.environ.get("WARPWRIGHT_RECORD")
        timing = session.timing or os.environ.get("WARPWRIGHT_TIMING")
        if timing == "full" or (timing is None and frames.page_wanted()):
            _devices[0].keep_time(load_chip(chip or "g80"))
        frames.watch(_devices[0])
        if path:
            at_end(Recorder(_devices[0], Path(path)).finish)
    return _devices[0]


def used_device() -> GraphicsDevice | None:
    """The process's device, if a program has asked for it."""
    return _devices[0] if _devices else None


@entry("nouveau_drm_new")
def new_drm(descriptor: int, made: int) -> int:
    drm = Drm(fd=descriptor, version=DRM_VERSION, nvif=True)
    put(made, keep(drm))
    return 0


@entry("nouveau_device_new")
def new_device(parent: int, kind: int, data: int, size: int, made: int) -> int:
    simulated = graphics_device()
    memory = simulated.memory
    device = Device(chipset=simulated.chipset, drm_version=DRM_VERSION)
    device.object.parent, device.object.oclass = parent, kind & 0xFFFFFFFF
    device.vram_size = device.vram_limit = memory.local_bytes
    device.gart_size = device.gart_limit = memory.host_bytes
    put(made, keep(device))
    return 0


@entry("nouveau_drm_del", "nouveau_device_del", "nouveau_client_del")
def delete(pointer: int) -> int:
    drop(get(pointer))
    put(pointer, 0)
    return 0


@entry("nouveau_getparam")
def get_parameter(device: int, parameter: int, value: int) -> int:
    simulated = graphics_device()
    known = {
        _VENDOR: PCI_VENDOR,
        _DEVICE_ID: PCI_DEVICE,
        _BUS_TYPE: 2,
        _CHIPSET: simulated.chipset,
        _TIMER: time.monotonic_ns(),
        # A bit for each TPC, and from bit 24 on one for each SM of a TPC.
        _UNITS: (1 << simulated.tpc_count) - 1 | (1 << simulated.sms_per_tpc) - 1 << 24,
    }
    if parameter not in known:
        return -errno.EINVAL
    put(value, known[parameter])
    return 0


@entry("nouveau_setparam")
def set_parameter(device: int, parameter: int, value: int) -> int:
    return -errno.EINVAL


@entry("nouveau_client_new")
def new_client(device: int, made: int) -> int:
    put(made, keep(Client(device=device)))
    return 0


@entry("nouveau_object_new")
def new_object(parent: int, handle: int, kind: int, data: int, length: int, made: int) -> int:
    graphics = graphics_device()
    new = Object(parent=parent, handle=handle, oclass=kind)
    if kind == FIFO_CHANNEL:
        asked = Fifo.from_address(data)
        fifo = Fifo(vram=asked.vram, gart=asked.gart, channel=0)
        new.data, new.length = keep(fifo), ctypes.sizeof(Fifo)
    elif kind != NOTIFIER and not graphics.has_class(kind):
        return -errno.ENODEV
    else:
        graphics.add_object(handle, kind)
    put(made, keep(new))
    return 0


@entry("nouveau_object_del")
def delete_object(pointer: int) -> int:
    address = get(pointer)
    if address:
        graphics = graphics_device()
        old = Object.from_address(address)
        graphics.remove_object(old.handle)
        drop(old.data)
        delete(pointer)
    return 0


@entry("nouveau_object_mthd")
def object_method(pointer: int, method: int, data: int, size: int) -> int:
    """The device's information (method 0): a version byte, then one for the bus, which is PCI Express."""
    if method != 0 or size < 2:
        return -errno.ENODEV
    ctypes.c_uint8.from_address(data + 1).value = _PCI_EXPRESS
    return 0


@entry("nouveau_object_sclass_get")
def get_classes(pointer: int, made: int) -> int:
    """Classes of the device with their versions, as three ints each."""
    classes = graphics_device().classes
    table = (ctypes.c_int32 * (3 * len(classes)))(*(word for kind in classes for word in (kind, -1, -1)))
    put(made, keep(table))
    return len(classes)


@entry("nouveau_object_sclass_put")
def put_classes(pointer: int) -> int:
    return delete(pointer)


@entry("nouveau_object_mclass")
def match_class(pointer: int, wanted: int) -> int:
    """The index of the first wanted class (class, version, pointer; 0 ends the list) that the device has."""
    index = 0
    while kind := ctypes.c_int32.from_address(wanted + 16 * index).value:
        if graphics_device().has_class(kind & 0xFFFFFFFF):
            return index
        index += 1
    return -errno.ENODEV


@entry("nouveau_check_dead_channel")
def check_channel(drm: int, channel: int) -> int:
    return int(graphics_device().is_dead)
