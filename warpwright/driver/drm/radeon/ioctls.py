"""Answers the calls of the ``radeon`` kernel driver, whose numbers and structures are those of the public ``radeon_drm.h``."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from warpwright.chips import load_chip
from warpwright.driver.drm.identity import chip_name
from warpwright.driver.drm.radeon import dma_ring
from warpwright.driver.drm.radeon.command_processor import CLOCK_HZ, timestamp
from warpwright.driver.drm.radeon.identity import DIES
from warpwright.driver.drm.radeon.radeon_device import RadeonDevice
from warpwright.driver.drm.register import entry

GEM_INFO, GEM_CREATE, GEM_MMAP = 0x1C, 0x1D, 0x1E
SET_DOMAIN, WAIT_IDLE, SUBMIT, INFO, SET_TILING, GET_TILING, BUSY, ADDRESS, OPERATION = (
    0x23,
    0x24,
    *range(0x26, 0x2D),
)
LOCAL_DOMAIN = 4
HOST_BYTES = 512 << 20
"""How much of the host's memory the device maps: the driver's usual aperture."""
COMMANDS, FLAGS = 2, 3
"""Chunks of a submission."""
GRAPHICS_RING, DMA_RING = 0, 2
ADDRESS_START = 0x80_0000
"""Virtual addresses below it are the kernel's."""
MAP = 1
c = ctypes


class Create(c.Structure):
    """``struct drm_radeon_gem_create``."""

    _fields_ = (
        ("size", c.c_uint64),
        ("alignment", c.c_uint64),
        ("handle", c.c_uint32),
        ("initial_domain", c.c_uint32),
        ("flags", c.c_uint32),
    )


class Map(c.Structure):
    """``struct drm_radeon_gem_mmap``."""

    _fields_ = (
        ("handle", c.c_uint32),
        ("pad", c.c_uint32),
        ("offset", c.c_uint64),
        ("size", c.c_uint64),
        ("addr_ptr", c.c_uint64),
    )


class Address(c.Structure):
    """``struct drm_radeon_gem_va``."""

    _fields_ = (
        ("handle", c.c_uint32),
        ("operation", c.c_uint32),
        ("vm_id", c.c_uint32),
        ("flags", c.c_uint32),
        ("offset", c.c_uint64),
    )


class Words(c.Structure):
    """``struct drm_radeon_gem_set_tiling`` and others of three words."""

    _fields_ = (("handle", c.c_uint32), ("second", c.c_uint32), ("third", c.c_uint32))


class Operation(c.Structure):
    """``struct drm_radeon_gem_op``."""

    _fields_ = (("handle", c.c_uint32), ("op", c.c_uint32), ("value", c.c_uint64))


class Submission(c.Structure):
    """``struct drm_radeon_cs``."""

    _fields_ = (
        ("num_chunks", c.c_uint32),
        ("cs_id", c.c_uint32),
        ("chunks", c.c_uint64),
        ("gart_limit", c.c_uint64),
        ("vram_limit", c.c_uint64),
    )


class Chunk(c.Structure):
    """``struct drm_radeon_cs_chunk``."""

    _fields_ = (("chunk_id", c.c_uint32), ("length_dw", c.c_uint32), ("chunk_data", c.c_uint64))


class Info(c.Structure):
    """``struct drm_radeon_info``."""

    _fields_ = (("request", c.c_uint32), ("pad", c.c_uint32), ("value", c.c_uint64))


@cache
def device() -> RadeonDevice:
    """The process's device, made on first use for the chip that the session asks for."""
    return RadeonDevice(chip_name() or "hd6970", HOST_BYTES)


def used_device() -> RadeonDevice | None:
    """The process's device, if a program has asked for it."""
    return device() if device.cache_info().currsize else None


@cache
def _informations() -> dict[int, int]:
    """What ``DRM_RADEON_INFO`` answers, by request."""
    chip = load_chip(chip_name() or "hd6970")
    die = DIES[chip.identity.generation]
    accelerated, tiling, crystal, timestamp_request, engines = 0x05, 0x06, 0x09, 0x11, 0x12
    return {
        0x00: die.pci_device,
        0x01: die.tile_pipes,
        0x02: die.tile_pipes,
        0x03: 1,
        accelerated: 2,
        tiling: die.tiling,
        crystal: CLOCK_HZ // 1000,
        0x0A: die.backends,
        0x0B: die.tile_pipes,
        0x0D: 0x76543210,  # backend of each pipe
        0x0E: ADDRESS_START,
        0x0F: 1 << 16,  # words of a command stream
        0x10: die.tile_pipes,
        timestamp_request: 0,
        engines: die.shader_engines,
        0x13: 1,
        0x1A: int(chip.clocks.sm_clock_mhz * 1000),
        0x1D: 0,
        0x1E: 0,
        0x1F: 0,
        0x20: chip.sm.sm_count,
        0x25: 1,
        0x26: 0,
    }


def _information(at: int) -> int:
    asked = Info.from_address(at)
    ring_works, counter = 0x15, 0x11
    if asked.request == ring_works:
        word = c.c_uint32.from_address(asked.value)
        word.value = int(word.value in (GRAPHICS_RING, DMA_RING))
        return 0
    if asked.request == counter:
        c.c_uint64.from_address(asked.value).value = timestamp()
        return 0
    known = _informations()
    if asked.request not in known:
        return -errno.EINVAL
    c.c_uint32.from_address(asked.value).value = known[asked.request]
    return 0


def _memory(at: int) -> int:
    room = device().buffers.room
    (c.c_uint64 * 3).from_address(at)[:] = [room[False], room[True], room[True]]
    return 0


def _create(at: int) -> int:
    asked = Create.from_address(at)
    local = bool(asked.initial_domain & LOCAL_DOMAIN)
    asked.handle = device().allocate(asked.size, asked.alignment, local).handle
    return 0


def _map(at: int) -> int:
    asked = Map.from_address(at)
    asked.addr_ptr = device().buffers.by_handle[asked.handle].offset
    return 0


def _address(at: int) -> int:
    asked = Address.from_address(at)
    buffer = device().buffers.by_handle[asked.handle]
    if asked.operation == MAP:
        device().place(buffer, asked.offset)
    else:
        device().unplace(buffer)
    asked.operation = 0
    return 0


def _submit(at: int) -> int:
    asked = Submission.from_address(at)
    chunks = (c.c_uint64 * asked.num_chunks).from_address(asked.chunks)
    by_id = {chunk.chunk_id: chunk for chunk in map(Chunk.from_address, chunks)}
    words = np.ctypeslib.as_array((c.c_uint32 * by_id[COMMANDS].length_dw).from_address(by_id[COMMANDS].chunk_data))
    ring = GRAPHICS_RING
    if FLAGS in by_id and by_id[FLAGS].length_dw > 1:
        ring = (c.c_uint32 * 2).from_address(by_id[FLAGS].chunk_data)[1]
    if ring == DMA_RING:
        dma_ring.execute(device().buffers, words.tolist())
    else:
        device().submit(words.tolist())
    return 0


def _set_tiling(at: int) -> int:
    asked = Words.from_address(at)
    buffer = device().buffers.by_handle[asked.handle]
    buffer.tiling, buffer.pitch = asked.second, asked.third
    return 0


def _get_tiling(at: int) -> int:
    asked = Words.from_address(at)
    buffer = device().buffers.by_handle[asked.handle]
    asked.second, asked.third = buffer.tiling, buffer.pitch
    return 0


def _operation(at: int) -> int:
    asked = Operation.from_address(at)
    if asked.op:
        return -errno.EINVAL
    asked.value = LOCAL_DOMAIN if device().buffers.by_handle[asked.handle].local else 2
    return 0


def _idle(at: int) -> int:
    """Submissions end before their call does."""
    return 0


_CALLS: dict[int, Callable[[int], int]] = {
    GEM_INFO: _memory,
    GEM_CREATE: _create,
    GEM_MMAP: _map,
    SET_DOMAIN: _idle,
    WAIT_IDLE: _idle,
    SUBMIT: _submit,
    INFO: _information,
    SET_TILING: _set_tiling,
    GET_TILING: _get_tiling,
    BUSY: _idle,
    ADDRESS: _address,
    OPERATION: _operation,
}


@entry("drmCommandWriteRead", "drmCommandWrite", "drmCommandRead")
def command(descriptor: int, number: int, at: int, size: int) -> int:
    """One of the driver's calls, with its structure; memory of the program itself cannot become a buffer."""
    call = _CALLS.get(number)
    return -errno.EINVAL if call is None else call(at)


@entry("drmCloseBufferHandle")
def close_buffer(descriptor: int, handle: int) -> int:
    """Give up one reference to a buffer."""
    device().release(handle)
    return 0


_exported: dict[tuple[int, int], int] = {}
"""Handles of exported buffers by the (device, inode) of the descriptor's file."""


@entry("drmPrimeHandleToFD")
def export_buffer(descriptor: int, handle: int, flags: int, made: int) -> int:
    """A descriptor that stands for the buffer within this process."""
    new = os.memfd_create("warpwright-buffer")
    status = os.fstat(new)
    os.ftruncate(new, mmap.PAGESIZE)
    _exported[status.st_dev, status.st_ino] = handle
    c.c_int32.from_address(made).value = new
    return 0


@entry("drmPrimeFDToHandle")
def import_buffer(descriptor: int, given: int, made: int) -> int:
    """The handle of an exported buffer."""
    status = os.fstat(given)
    handle = _exported.get((status.st_dev, status.st_ino))
    if handle is None or handle not in device().buffers.by_handle:
        return -errno.ENOENT
    device().buffers.by_handle[handle].references += 1
    c.c_uint32.from_address(made).value = handle
    return 0


_GEM_CLOSE = 0x40086409
"""``DRM_IOCTL_GEM_CLOSE``."""


@entry("drmIoctl")
def control(descriptor: int, request: int, at: int) -> int:
    """Of the calls without a function of their own Mesa's driver makes the one that closes a buffer."""
    if request & 0xFFFFFFFF == _GEM_CLOSE:
        return close_buffer(descriptor, c.c_uint32.from_address(at).value)
    c.set_errno(errno.EINVAL)
    return -1


__all__: list[Any] = ["device", "used_device"]
