"""Calls that arrive after a Python program's interpreter has ended: machine code that answers them without Python.

A renderer's window or context may be destroyed while the interpreter shuts down, or after it, by destructors of C++ objects; Mesa's driver then submits
its last words, waits for its fence and frees its buffers.  Nobody can read what those words would draw, so they are not executed, except that
reports with a sequence number, which fences are, are written: the driver waits for them in a loop.  Calls that create something fail, and buffers that exist
remain mapped.

The functions here are compiled by ``warpwright.native``; their arguments are those of libdrm_nouveau's.  A 32-bit argument's upper half is undefined.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Sequence
from typing import Any

from warpwright.driver.drm.structures import BufferContext, BufferObject, BufferReference, List, PushBuffer
from warpwright.native import direct
from warpwright.native.intrinsics import call_warp, core, peek, poke, u

_BOUND_CONTEXT, _NOTIFY = PushBuffer.bufctx.offset, PushBuffer.kick_notify.offset
_CURSOR, _END, _BEGUN = PushBuffer.cur.offset, PushBuffer.end.offset, PushBuffer.begun.offset
_FIRST, _LIMIT, _SUBMITS = PushBuffer.first.offset, PushBuffer.limit.offset, PushBuffer.submits.offset
_FROM_DEVICE, _BYTES, _START = PushBuffer.from_device.offset, PushBuffer.memory_bytes.offset, PushBuffer.memory.offset
_MAP, _HOST = BufferObject.map.offset, BufferObject.host.offset
_PENDING, _CURRENT, _SPARE = BufferContext.pending.offset, BufferContext.current.offset, BufferContext.spare.offset
_NEXT, _BIN = List.next.offset, BufferReference.bin.offset
_REPORT = 0x1B00
"""The 3D class's QUERY_ADDRESS_HIGH, after which come the low address, the sequence number and QUERY_GET."""
_WORD, _UPPER = 0xFFFF_FFFF, -0x1_0000_0000
_NO_DEVICE = -errno.ENODEV


@core
def write_reports(pushbuffer: int) -> int:
    """Write the sequence numbers of the reports in the words since the last submission; returns their end."""
    at, end = peek(pushbuffer + _BEGUN), peek(pushbuffer + _CURSOR)
    host, size, start = peek(pushbuffer + _FROM_DEVICE), peek(pushbuffer + _BYTES), peek(pushbuffer + _START)
    while at + 4 <= end:
        header = peek(at) & _WORD
        count, method = (header >> 18) & 0x7FF, header & 0x1FFC
        if header & 0xFFFF_0003 == 0x3_0000:
            count = 1 + (peek(at + 4) & 0xFF_FFFF)
        if header & 0xE003_0003 == 0 and method <= _REPORT and method + 4 * count >= _REPORT + 16:
            report = at + 4 + _REPORT - method
            place = (((peek(report) & 0xFF) << 32) | (peek(report + 4) & _WORD)) + host
            if report + 16 <= end and start <= place and place + 8 <= start + size:
                poke(place, (peek(place) & _UPPER) | (peek(report + 8) & _WORD))
        at += 4 + 4 * count
    poke(pushbuffer + _BEGUN, end)
    return end


@core
def kick(pushbuffer: int, channel: int) -> int:
    """``nouveau_pushbuf_kick``: the driver's callback adds its fence first."""
    if peek(pushbuffer + _SUBMITS) != 0:
        return 0
    poke(pushbuffer + _SUBMITS, 1)
    if peek(pushbuffer + _NOTIFY) != 0:
        call_warp(peek(pushbuffer + _NOTIFY), pushbuffer)
    write_reports(pushbuffer)
    poke(pushbuffer + _CURSOR, peek(pushbuffer + _FIRST))
    poke(pushbuffer + _BEGUN, peek(pushbuffer + _FIRST))
    poke(pushbuffer + _END, peek(pushbuffer + _LIMIT))
    poke(pushbuffer + _SUBMITS, 0)
    return 0


@core
def space(pushbuffer: int, words: int, relocations: int, pushes: int) -> int:
    """``nouveau_pushbuf_space``."""
    if peek(pushbuffer + _CURSOR) + 4 * (words & _WORD) > peek(pushbuffer + _LIMIT):
        kick(pushbuffer, 0)
    return 0


@core
def data(pushbuffer: int, buffer: int, offset: int, length: int) -> int:
    """``nouveau_pushbuf_data``: another buffer's words follow, which are not read."""
    write_reports(pushbuffer)
    return 0


@core
def bind_context(pushbuffer: int, context: int) -> int:
    """``nouveau_pushbuf_bufctx``."""
    before = peek(pushbuffer + _BOUND_CONTEXT)
    poke(pushbuffer + _BOUND_CONTEXT, context)
    return before


@core
def map_buffer(buffer: int, access: int, client: int) -> int:
    """``nouveau_bo_map``."""
    poke(buffer + _MAP, peek(buffer + _HOST))
    return 0


@core
def refer(buffer: int, held: int) -> int:
    """``nouveau_bo_ref``: no buffer is freed any more."""
    poke(held, buffer)
    return 0


@core
def remove(held: int) -> int:
    """Functions that delete what a pointer refers to."""
    poke(held, 0)
    return 0


@core
def new_reference(context: int, number: int, buffer: int, flags: int) -> int:
    """``nouveau_bufctx_refn`` and ``_mthd``: a reference that is in no list."""
    return peek(context + _SPARE)


@core
def empty_list(head: int, number: int) -> int:
    """Unlink a bin's references from a list."""
    node = peek(head + _NEXT)
    while node != head:
        following = peek(node + _NEXT)
        if peek(node + _BIN) == number:
            previous = peek(node)
            poke(previous + _NEXT, following)
            poke(following, previous)
        node = following
    return 0


@core
def reset_bin(context: int, number: int) -> int:
    """``nouveau_bufctx_reset``."""
    empty_list(context + _PENDING, number & _WORD)
    return empty_list(context + _CURRENT, number & _WORD)


@core
def succeed() -> int:
    """Everything else."""
    return 0


@core
def fail() -> int:
    """Functions that create or look up something."""
    return _NO_DEVICE


@core
def hand_over(table: int, addresses: int, count: int) -> int:
    """Make every entry point of a library call these functions."""
    for n in range(count):
        poke(table + 8 * u(n), peek(addresses + 8 * u(n)))
    return 0


_ANSWERS: dict[str, Any] = {
    "nouveau_pushbuf_kick": kick,
    "nouveau_pushbuf_space": space,
    "nouveau_pushbuf_data": data,
    "nouveau_pushbuf_bufctx": bind_context,
    "nouveau_bo_map": map_buffer,
    "nouveau_bo_ref": refer,
    "nouveau_bufctx_refn": new_reference,
    "nouveau_bufctx_mthd": new_reference,
    "nouveau_bufctx_reset": reset_bin,
    **{f"nouveau_{what}_del": remove for what in ("object", "drm", "device", "client", "bufctx", "pushbuf")},
    **{
        f"nouveau_{what}": fail
        for what in (
            *(
                "object_new",
                "object_mthd",
                "object_sclass_get",
                "object_mclass",
                "drm_new",
                "device_new",
                "device_wrap",
            ),
            *("device_open", "device_open_existing", "getparam", "setparam", "client_new", "bo_new", "bo_wrap"),
            *("bo_name_ref", "bo_name_get", "bo_prime_handle_ref", "bo_set_prime", "bufctx_new", "pushbuf_new"),
        )
    },
}
"""What answers an entry point; the others succeed."""
_entry = direct.Entry(
    hand_over.py_func,  # type: ignore[attr-defined]
    "",
    parts=[succeed, *dict.fromkeys(_ANSWERS.values())],
)


def address(name: str) -> int:
    """The address of the C function that answers an entry point."""
    return _entry.address(_ANSWERS.get(name, succeed))


def hand_over_at_exit(table: Any, names: Sequence[str]) -> None:
    """Make a library's entry points call these functions when the interpreter has ended.

    Args:
        table: the library's table of addresses, an array of ctypes.
        names: its entry points, in the order of the table.
    """
    addresses = (ctypes.c_uint64 * len(names))(*(address(name) for name in names))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(addresses))
    places = ctypes.addressof(table), ctypes.addressof(addresses), len(names)
    ctypes.pythonapi.Py_AtExit(ctypes.c_void_p(direct.bound(_entry.address(hand_over), places)))
