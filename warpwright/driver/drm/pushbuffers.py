"""The functions of ``libdrm_nouveau.so.2`` for pushbuffers: room for words, and submissions.

The driver writes words at ``cur``; a submission (a kick) executes them, with the pieces of other buffers that ``nouveau_pushbuf_data``
put between them, before it returns.  The driver's own callback runs first: it adds a fence in the words kept for that.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable
from dataclasses import dataclass, field

from warpwright.driver.drm import frames
from warpwright.driver.drm.objects import drop, get, graphics_device, keep, put
from warpwright.driver.drm.register import entry
from warpwright.driver.drm.structures import BufferObject, PushBuffer
from warpwright.graphics.video_memory import FIRST_ADDRESS, Buffer

_NO_PREFETCH = 1 << 23
READ, WRITE = 0x100, 0x200
_Notify = ctypes.CFUNCTYPE(None, ctypes.c_uint64)


@dataclass(frozen=True, slots=True)
class Contexts:
    """What this module needs of buffer contexts (``libdrm_buffers.py``, which needs this module for waits)."""

    used_by: Callable[[int], list[tuple[int, int]]]
    make_pending: Callable[[int], None]


contexts = Contexts(lambda context: [], lambda context: None)


@dataclass(slots=True)
class _State:
    """What C code does not see of a pushbuffer."""

    buffer: Buffer
    segments: list[tuple[int, int]] = field(default_factory=list)
    """Device addresses and bytes of what is to be executed."""
    used: dict[int, int] = field(default_factory=dict)
    """Flags of buffers that the words refer to, by pointer."""
    in_kick: bool = False


_states: dict[int, _State] = {}


@entry("nouveau_pushbuf_new")
def new_pushbuffer(client: int, channel: int, count: int, size: int, immediate: int, made: int) -> int:
    memory = graphics_device().memory
    buffer = memory.allocate(size, 4096, local=False)
    graphics_device().host_writes(buffer)
    start = memory.host_address + buffer.address - FIRST_ADDRESS
    pushbuffer = PushBuffer(client=client, channel=channel, cur=start, end=start + size)
    pushbuffer.first = pushbuffer.begun = start
    pushbuffer.limit = start + size
    pushbuffer.memory, pushbuffer.memory_bytes = memory.host_address, memory.local_bytes + memory.host_bytes
    pushbuffer.from_device = memory.host_address - FIRST_ADDRESS
    pointer = keep(pushbuffer)
    _states[pointer] = _State(buffer)
    put(made, pointer)
    return 0


@entry("nouveau_pushbuf_del")
def delete_pushbuffer(held: int) -> int:
    pointer = get(held)
    if pointer:
        graphics_device().free(_states.pop(pointer).buffer)
        drop(pointer)
        put(held, 0)
    return 0


def _keep_room(pushbuffer: PushBuffer, state: _State) -> None:
    """Let the driver's words end where room for the callback's is left."""
    pushbuffer.end = pushbuffer.limit = pushbuffer.first + state.buffer.size - 4 * pushbuffer.rsvd_kick


@entry("nouveau_pushbuf_space")
def make_space(pointer: int, words: int, relocations: int, pushes: int) -> int:
    pushbuffer, state = PushBuffer.from_address(pointer), _states[pointer]
    _keep_room(pushbuffer, state)
    if pushbuffer.cur + 4 * words <= pushbuffer.end:
        return 0
    outcome = kick(pointer, pushbuffer.channel)
    # What the driver writes next may use the buffers that it validated before.
    validate(pointer)
    if pushbuffer.first + 4 * words > pushbuffer.end:
        return -errno.ENOMEM
    return outcome


@entry("nouveau_pushbuf_data")
def add_data(pointer: int, buffer: int, offset: int, length: int) -> int:
    """Close the words so far as a segment, and add a piece of another buffer, if one is given."""
    pushbuffer, state = PushBuffer.from_address(pointer), _states[pointer]
    if pushbuffer.cur > pushbuffer.begun:
        state.segments.append((pushbuffer.begun - pushbuffer.from_device, pushbuffer.cur - pushbuffer.begun))
        pushbuffer.begun = pushbuffer.cur
    if buffer:
        described = BufferObject.from_address(buffer)
        state.segments.append((described.offset + offset, length & (_NO_PREFETCH - 1)))
        state.used[buffer] = state.used.get(buffer, 0) | READ
    return 0


@entry("nouveau_pushbuf_refn")
def add_references(pointer: int, references: int, count: int) -> int:
    used = _states[pointer].used
    for i in range(count):
        buffer, flags = get(references + 16 * i), ctypes.c_uint32.from_address(references + 16 * i + 8).value
        used[buffer] = used.get(buffer, 0) | flags
    return 0


@entry("nouveau_pushbuf_refd")
def references_of(pointer: int, buffer: int) -> int:
    return _states[pointer].used.get(buffer, 0)


@entry("nouveau_pushbuf_validate")
def validate(pointer: int) -> int:
    pushbuffer, state = PushBuffer.from_address(pointer), _states[pointer]
    if pushbuffer.bufctx:
        for buffer, flags in contexts.used_by(pushbuffer.bufctx):
            state.used[buffer] = state.used.get(buffer, 0) | flags
    return 0


@entry("nouveau_pushbuf_bufctx")
def set_context(pointer: int, context: int) -> int:
    pushbuffer = PushBuffer.from_address(pointer)
    before = pushbuffer.bufctx
    pushbuffer.bufctx = context
    return int(before)


@entry("nouveau_pushbuf_kick")
def kick(pointer: int, channel: int) -> int:
    """Execute what was written."""
    pushbuffer, state = PushBuffer.from_address(pointer), _states[pointer]
    if state.in_kick or (pushbuffer.cur == pushbuffer.begun and not state.segments):
        return 0
    state.in_kick = True
    try:
        if pushbuffer.kick_notify:
            _Notify(pushbuffer.kick_notify)(pointer)
        add_data(pointer, 0, 0, 0)
        segments, state.segments = state.segments, []
        state.used = {}
        graphics_device().submit(segments)
    finally:
        frames.after_submission(graphics_device())
        state.in_kick = False
        _keep_room(pushbuffer, state)
        pushbuffer.cur = pushbuffer.begun = pushbuffer.first
        if pushbuffer.bufctx:
            contexts.make_pending(pushbuffer.bufctx)
    return 0


def flush_if_used(buffer: int, access: int = READ | WRITE) -> None:
    """Submit the words that use a buffer: those that write it for a reader, all of them for a writer."""
    wanted = (READ | WRITE) if access & WRITE else WRITE
    if not access & (READ | WRITE):
        return
    for pointer, state in list(_states.items()):
        if state.used.get(buffer, 0) & wanted:
            kick(pointer, PushBuffer.from_address(pointer).channel)
