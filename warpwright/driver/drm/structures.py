"""Structures that the two libraries share with their callers, field by field as in the public headers ``xf86drm.h`` and ``nouveau.h``."""

from __future__ import annotations

import ctypes

c = ctypes
POINTER = ctypes.c_uint64


class Object(c.Structure):
    """``struct nouveau_object``."""

    _fields_ = (
        ("parent", POINTER),
        ("handle", c.c_uint64),
        ("oclass", c.c_uint32),
        ("length", c.c_uint32),
        ("data", POINTER),
    )


class Drm(c.Structure):
    """``struct nouveau_drm``."""

    _fields_ = (("client", Object), ("fd", c.c_int), ("version", c.c_uint32), ("nvif", c.c_bool))


class Device(c.Structure):
    """``struct nouveau_device``."""

    _fields_ = (
        ("object", Object),
        ("fd", c.c_int),
        ("lib_version", c.c_uint32),
        ("drm_version", c.c_uint32),
        ("chipset", c.c_uint32),
        ("vram_size", c.c_uint64),
        ("gart_size", c.c_uint64),
        ("vram_limit", c.c_uint64),
        ("gart_limit", c.c_uint64),
    )


class Client(c.Structure):
    """``struct nouveau_client``."""

    _fields_ = (("device", POINTER), ("id", c.c_int))


class BufferObject(c.Structure):
    """``struct nouveau_bo``; of its configuration the two words that NV50 has."""

    _fields_ = (
        ("device", POINTER),
        ("handle", c.c_uint32),
        ("size", c.c_uint64),
        ("flags", c.c_uint32),
        ("offset", c.c_uint64),
        ("map", POINTER),
        ("config", c.c_uint32 * 8),
        # Not of the public structure: the host address, for calls after Python's end (``late_calls.py``).
        ("host", POINTER),
    )


class List(c.Structure):
    """``struct nouveau_list``."""

    _fields_ = (("prev", POINTER), ("next", POINTER))


class BufferReference(c.Structure):
    """``struct nouveau_bufref``."""

    _fields_ = (
        ("thead", List),
        ("bo", POINTER),
        ("packet", c.c_uint32),
        ("flags", c.c_uint32),
        ("data", c.c_uint32),
        ("vor", c.c_uint32),
        ("tor", c.c_uint32),
        ("priv_data", c.c_uint32),
        ("priv", POINTER),
        # Not of the public structure: the number of its bin.
        ("bin", c.c_uint64),
    )


class BufferContext(c.Structure):
    """``struct nouveau_bufctx``."""

    _fields_ = (
        ("client", POINTER),
        ("head", List),
        ("pending", List),
        ("current", List),
        ("relocs", c.c_int),
        # Not of the public structure: a reference that is in no list.
        ("spare", POINTER),
    )


class PushBuffer(c.Structure):
    """``struct nouveau_pushbuf``."""

    _fields_ = (
        ("client", POINTER),
        ("channel", POINTER),
        ("bufctx", POINTER),
        ("kick_notify", POINTER),
        ("user_priv", POINTER),
        ("rsvd_kick", c.c_uint32),
        ("flags", c.c_uint32),
        ("cur", POINTER),
        ("end", POINTER),
        # Not of the public structure: host addresses of the first word, of the first that is not submitted and of the last room before
        # the callback's; whether it is being submitted; and the device's memory (``late_calls.py``).
        ("first", POINTER),
        ("begun", POINTER),
        ("limit", POINTER),
        ("submits", c.c_uint64),
        ("memory", POINTER),
        ("memory_bytes", c.c_uint64),
        ("from_device", c.c_int64),
    )


class Fifo(c.Structure):
    """``struct nv04_fifo``, which a channel's ``data`` points at."""

    _fields_ = (
        ("object", POINTER),
        ("channel", c.c_uint32),
        ("pushbuf", c.c_uint32),
        ("unused", c.c_uint64 * 3),
        ("vram", c.c_uint32),
        ("gart", c.c_uint32),
        ("notify", c.c_uint32),
    )


class Version(c.Structure):
    """``struct _drmVersion``."""

    _fields_ = (
        ("major", c.c_int),
        ("minor", c.c_int),
        ("patch", c.c_int),
        ("name_length", c.c_int),
        ("name", POINTER),
        ("date_length", c.c_int),
        ("date", POINTER),
        ("description_length", c.c_int),
        ("description", POINTER),
    )


class PciBus(c.Structure):
    """``struct _drmPciBusInfo``."""

    _fields_ = (("domain", c.c_uint16), ("bus", c.c_uint8), ("dev", c.c_uint8), ("func", c.c_uint8))


class PciDevice(c.Structure):
    """``struct _drmPciDeviceInfo``."""

    _fields_ = (
        ("vendor", c.c_uint16),
        ("device", c.c_uint16),
        ("subvendor", c.c_uint16),
        ("subdevice", c.c_uint16),
        ("revision", c.c_uint8),
    )


class DrmDevice(c.Structure):
    """``struct _drmDevice``."""

    _fields_ = (
        ("nodes", POINTER),
        ("available_nodes", c.c_int),
        ("bustype", c.c_int),
        ("businfo", POINTER),
        ("deviceinfo", POINTER),
    )
