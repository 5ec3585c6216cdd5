"""The functions of ``libdrm_nouveau.so.2`` for buffers: their memory, and lists of the buffers that a submission uses."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from typing import Any

from warpwright.driver.drm import pushbuffers
from warpwright.driver.drm.objects import drop, get, graphics_device, keep, put
from warpwright.driver.drm.register import entry
from warpwright.driver.drm.structures import BufferContext, BufferObject, BufferReference, List
from warpwright.graphics.video_memory import FIRST_ADDRESS, Buffer

VRAM, GART = 1, 2
_bins: dict[int, list[list[int]]] = {}
"""For each buffer context, the addresses of its references by bin."""
_exported: dict[tuple[int, int], int] = {}
"""Handles of exported buffers by the (device, inode) of the descriptor's file."""


def _describe(device: int, buffer: Buffer, flags: int) -> int:
    described = BufferObject(device=device, handle=buffer.handle, size=buffer.size, flags=flags, offset=buffer.address)
    described.config[0], described.config[1] = buffer.storage_type, buffer.tile_mode
    described.host = graphics_device().memory.host_address + buffer.address - FIRST_ADDRESS
    return keep(described)


def _buffer(pointer: int) -> Buffer:
    return graphics_device().memory.buffers[BufferObject.from_address(pointer).handle]


@entry("nouveau_bo_new")
def new_buffer(device: int, flags: int, align: int, size: int, config: int, made: int) -> int:
    kind, mode = (ctypes.c_uint32 * 2).from_address(config) if config else (0, 0)
    buffer = graphics_device().memory.allocate(size, align, bool(flags & VRAM), kind, mode)
    pointer = _describe(device, buffer, flags)
    _references[pointer] = 1
    put(made, pointer)
    return 0


_references: dict[int, int] = {}
"""Number of pointers that the driver holds to each buffer structure."""


@entry("nouveau_bo_ref")
def reference(pointer: int, held: int) -> int:
    """Make the pointer at ``held`` refer to another buffer or to none; the last reference frees a buffer."""
    old = get(held)
    if pointer:
        _references[pointer] += 1
    put(held, pointer)
    if old:
        _references[old] -= 1
        if not _references[old]:
            _release(old)
    return 0


def _release(pointer: int) -> None:
    del _references[pointer]
    buffer = _buffer(pointer)
    buffer.references -= 1
    if not buffer.references:
        pushbuffers.flush_if_used(pointer)
        graphics_device().free(buffer)
    drop(pointer)


@entry("nouveau_bo_map")
def map_buffer(pointer: int, access: int, client: int) -> int:
    described = BufferObject.from_address(pointer)
    if not described.map:
        described.map = described.host
        graphics_device().host_writes(_buffer(pointer))
    return wait(pointer, access, client)


@entry("nouveau_bo_wait")
def wait(pointer: int, access: int, client: int) -> int:
    """Wait for a buffer: submissions end before their call returns, so only unsubmitted work must be submitted."""
    pushbuffers.flush_if_used(pointer, access)
    return 0


@entry("nouveau_bo_wrap", "nouveau_bo_name_ref")
def open_buffer(device: int, handle: int, made: int) -> int:
    buffer = graphics_device().memory.buffers.get(handle)
    if buffer is None:
        return -errno.ENOENT
    buffer.references += 1
    pointer = _describe(device, buffer, VRAM if buffer.local else GART)
    _references[pointer] = 1
    put(made, pointer)
    return 0


@entry("nouveau_bo_name_get")
def name_buffer(pointer: int, name: int) -> int:
    ctypes.c_uint32.from_address(name).value = BufferObject.from_address(pointer).handle
    return 0


@entry("nouveau_bo_set_prime")
def export_buffer(pointer: int, made: int) -> int:
    """A descriptor that stands for the buffer within this process."""
    descriptor = os.memfd_create("warpwright-buffer")
    status = os.fstat(descriptor)
    os.ftruncate(descriptor, mmap.PAGESIZE)
    _exported[status.st_dev, status.st_ino] = BufferObject.from_address(pointer).handle
    ctypes.c_int32.from_address(made).value = descriptor
    return 0


@entry("nouveau_bo_prime_handle_ref")
def import_buffer(device: int, descriptor: int, made: int) -> int:
    status = os.fstat(descriptor)
    handle = _exported.get((status.st_dev, status.st_ino))
    return -errno.ENOENT if handle is None else open_buffer(device, handle, made)


# --- buffer contexts ----------------------------------------------------------------------------------
def _make_empty(head: int) -> None:
    List.from_address(head).prev = List.from_address(head).next = head


def _append(head: int, node: int) -> None:
    last = List.from_address(head).prev
    List.from_address(node).prev, List.from_address(node).next = last, head
    List.from_address(last).next = List.from_address(head).prev = node


def _remove(node: int) -> None:
    links = List.from_address(node)
    List.from_address(links.prev).next, List.from_address(links.next).prev = links.next, links.prev


_PENDING, _CURRENT, _HEAD = (getattr(BufferContext, name).offset for name in ("pending", "current", "head"))


@entry("nouveau_bufctx_new")
def new_context(client: int, bins: int, made: int) -> int:
    pointer = keep(BufferContext(client=client, spare=keep(BufferReference())))
    for at in (_PENDING, _CURRENT, _HEAD):
        _make_empty(pointer + at)
    _bins[pointer] = [[] for _ in range(bins)]
    put(made, pointer)
    return 0


@entry("nouveau_bufctx_del")
def delete_context(held: int) -> int:
    pointer = get(held)
    if pointer:
        for number in range(len(_bins[pointer])):
            reset_bin(pointer, number)
        del _bins[pointer]
        drop(BufferContext.from_address(pointer).spare)
        drop(pointer)
        put(held, 0)
    return 0


@entry("nouveau_bufctx_refn")
def add_reference(context: int, number: int, buffer: int, flags: int) -> int:
    node = keep(BufferReference(bo=buffer, flags=flags, bin=number))
    _bins[context][number].append(node)
    _append(context + _PENDING, node)
    return node


@entry("nouveau_bufctx_mthd")
def add_method(context: int, number: int, packet: int, buffer: int, data: int, flags: int, vor: int, tor: int) -> int:
    node = add_reference(context, number, buffer, flags)
    added: Any = BufferReference.from_address(node)
    added.packet, added.data, added.vor, added.tor = packet, data & 0xFFFFFFFF, vor, tor
    return node


@entry("nouveau_bufctx_reset")
def reset_bin(context: int, number: int) -> int:
    for node in _bins[context][number]:
        _remove(node)
        drop(node)
    _bins[context][number] = []
    return 0


def used_by(context: int) -> list[tuple[int, int]]:
    """Buffers of a context with their flags, for a submission that has just validated it; all become current."""
    used = []
    for nodes in _bins[context]:
        for node in nodes:
            described = BufferReference.from_address(node)
            used.append((described.bo, described.flags))
    pending, current = List.from_address(context + _PENDING), context + _CURRENT
    while pending.next != context + _PENDING:
        node = pending.next
        _remove(node)
        _append(current, node)
    return used


def make_pending(context: int) -> None:
    """After a submission, mark the context's buffers for validation by the next one."""
    current = List.from_address(context + _CURRENT)
    while current.next != context + _CURRENT:
        node = current.next
        _remove(node)
        _append(context + _PENDING, node)


pushbuffers.contexts = pushbuffers.Contexts(used_by, make_pending)
