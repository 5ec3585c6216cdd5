"""Copies and fills: linear, two- and three-dimensional, between host, device and arrays, in a stream's order."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

from warpwright.driver import activities, cmemory, copy_order, printf_buffer, results, transfers
from warpwright.driver.calls import entry
from warpwright.driver.cuda_arrays import DriverArray
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import Stream, state
from warpwright.driver.graph_memory import reserved_for_graph
from warpwright.driver.graphs import Node, submit
from warpwright.driver.memory import holder, memory_of
from warpwright.driver.pending import finish
from warpwright.engine.allocation import Bytes

BLOCKING = -1
"""Replaces a stream: the default stream, and the host waits."""
_HOST, _DEVICE, _ARRAY, _UNIFIED = 1, 2, 3, 4
"""CUmemorytype."""


@dataclass(slots=True)
class Side:
    """Start address and pitch of rows."""

    address: int
    pitch: int = 0
    height: int = 0
    """Rows of a slice, including padding."""


@contextmanager
def _recorded(work: Node, stream: Stream) -> Iterator[None]:
    """Tell a profiler when a stream's work began and ended; its time is taken within the block."""
    begin = state().begin(stream)
    yield
    activities.done(work, stream, begin, max(begin, stream.ps))


@dataclass(eq=False, slots=True)
class Copy(Node):
    """``width`` bytes of ``height`` rows of ``depth`` slices."""

    target: Side
    source: Side
    width: int
    height: int = 1
    depth: int = 1
    raw: bytes = b""
    """The structure that described it, of the driver or of the runtime."""

    kind = 1

    def returns_when_done(self) -> bool:
        """A copy from or to pageable host memory returns when that memory has been read or written."""
        return holder(self.source.address) is None or holder(self.target.address) is None

    def can_wait(self, stream: Stream) -> bool:
        return not self.returns_when_done()

    def run(self, stream: Stream) -> None:
        self.take_time(stream)
        self.act(stream)

    def take_time(self, stream: Stream) -> bool:
        if self.size:
            with _recorded(self, stream):
                transfers.copy(stream, self.target.address, self.source.address, self.size)
        return True

    @property
    def size(self) -> int:
        """Bytes."""
        return max(self.width, 0) * max(self.height, 0) * max(self.depth, 0)

    def act(self, stream: Stream) -> None:
        with touched_by_driver():
            self._act(stream)

    def _act(self, stream: Stream) -> None:
        width, target, source = self.width, self.target, self.source
        rows, slices = self.height, self.depth
        if not self.size:
            return
        if rows > 1 and target.pitch == width and source.pitch == width and slices == 1:
            width, rows = width * rows, 1
        copy_order.copied(stream, source, target, (width, rows, slices))
        unwritten: list[tuple[int, Bytes]] = []
        for z in range(slices):
            to = target.address + z * target.pitch * target.height
            origin = source.address + z * source.pitch * source.height
            for y in range(rows):
                ctypes.memmove(to + y * target.pitch, origin + y * source.pitch, width)
                copied(to + y * target.pitch, origin + y * source.pitch, width, unwritten)
        watcher = memory_of(source.address).observer
        if unwritten and watcher is not None:
            watcher.read_by_host(unwritten, width * rows * slices)


@dataclass(eq=False, slots=True)
class Fill(Node):
    """``width`` elements of ``size`` bytes in each of ``height`` rows set to a value."""

    address: int
    value: int
    size: int
    width: int
    height: int = 1
    pitch: int = 0

    kind = 2

    def run(self, stream: Stream) -> None:
        self.take_time(stream)
        self.act(stream)

    def take_time(self, stream: Stream) -> bool:
        with _recorded(self, stream):
            transfers.fill(stream, self.address, self.width * self.size * self.height)
        return True

    def act(self, stream: Stream) -> None:
        with touched_by_driver():
            self._act(stream)

    def _act(self, stream: Stream) -> None:
        pattern = (self.value & ((1 << 8 * self.size) - 1)).to_bytes(self.size, "little")
        copy_order.copied(stream, None, Side(self.address, self.pitch), (self.width * self.size, self.height, 1))
        for y in range(self.height):
            at = self.address + y * self.pitch
            written(at, self.width * self.size)
            if len(set(pattern)) == 1:
                ctypes.memset(at, pattern[0], self.width * self.size)
            else:
                whole, end = pattern * min(self.width, 65536), at + self.width * self.size
                for begin in range(at, end, len(whole)):
                    ctypes.memmove(begin, whole, min(len(whole), end - begin))


def touched_by_driver() -> AbstractContextManager[None]:
    """Within the block, the driver touches managed memory, and not the program."""
    managed = state().managed
    return managed.by_others() if managed is not None and managed.tables else nullcontext()


def written(address: int, size: int) -> None:
    """Notify observers of device memory that the host wrote to it."""
    memory = memory_of(address)
    if memory.observer is not None and memory.find(address) is not None:
        memory.observer.filled(address, size)


def copied(target: int, source: int, size: int, unwritten: list[tuple[int, Bytes]]) -> None:
    """Notify observers of device memory of a copy: bytes that were never written remain undefined in its target.

    Args:
        unwritten: called for a copy to the host of bytes not all of which were written: their address, and which were
        written.
    """
    watcher = memory_of(source).observer
    contents = watcher.contents(source, size) if watcher is not None else None
    if watcher is None or contents is None:
        written(target, size)
        return
    memory = memory_of(target)
    place = memory.find(target)
    if place is None or place.mapped:
        unwritten.append((source, contents))
    elif memory.observer is not None:
        memory.observer.filled(target, size, contents)


def check_device(address: int, size: int, stream: Stream | None = None, graph_memory: bool = False) -> None:
    """Raise CUDA_ERROR_INVALID_VALUE unless an allocation contains the range, or may contain it when the work that
    ``stream`` captures (or a graph) is run."""
    if size <= 0:
        return
    found = holder(address)
    if found is None or address + size > found.end:
        recorded = graph_memory or (stream is not None and stream.capture is not None)
        if recorded and reserved_for_graph(address, size):
            return
        raise CudaError(
            results.INVALID_VALUE,
            f"a copy of {size:,} bytes at {address:#x} leaves device memory"
            + (f" (it begins in {found.name} at {found.address:#x})" if found else ""),
        )


def linear(target: int, source: int, size: int, stream: int, device: tuple[int, ...]) -> None:
    """Copy bytes; ``device`` are the addresses that must be in device memory."""
    blocking = stream == BLOCKING
    if blocking:
        printf_buffer.flush()
        stream = 0
    s = state()
    s.current()
    queue = s.stream(stream)
    for address in device or (a for a in (target, source) if holder(a) is not None):
        check_device(address, size, queue)
    if size and not (target and source):
        raise CudaError(results.INVALID_VALUE)
    if size:
        submit(queue, Copy(Side(target, size, 1), Side(source, size, 1), size))
    if blocking:
        finish(queue)
        copy_order.returned(queue, target, source)


def at_once(copy: Copy) -> None:
    """Copy in the default stream, and wait."""
    state().current()
    queue = state().stream(0)
    submit(queue, copy)
    finish(queue)
    copy_order.returned(queue, copy.target.address, copy.source.address)


@entry("cuMemcpyHtoD_v2")
def host_to_device(target: int, source: int, size: int) -> None:
    linear(target, source, size, BLOCKING, (target,))


@entry("cuMemcpyDtoH_v2")
def device_to_host(target: int, source: int, size: int) -> None:
    linear(target, source, size, BLOCKING, (source,))


@entry("cuMemcpyDtoD_v2")
def device_to_device(target: int, source: int, size: int) -> None:
    linear(target, source, size, BLOCKING, (target, source))


@entry("cuMemcpy")
def unified(target: int, source: int, size: int) -> None:
    linear(target, source, size, BLOCKING, ())


@entry("cuMemcpyHtoDAsync_v2")
def host_to_device_async(target: int, source: int, size: int, stream: int) -> None:
    linear(target, source, size, stream, (target,))


@entry("cuMemcpyDtoHAsync_v2")
def device_to_host_async(target: int, source: int, size: int, stream: int) -> None:
    linear(target, source, size, stream, (source,))


@entry("cuMemcpyDtoDAsync_v2")
def device_to_device_async(target: int, source: int, size: int, stream: int) -> None:
    linear(target, source, size, stream, (target, source))


@entry("cuMemcpyAsync")
def unified_async(target: int, source: int, size: int, stream: int) -> None:
    linear(target, source, size, stream, ())


@entry("cuMemcpyPeer")
def peer(target: int, target_context: int, source: int, source_context: int, size: int) -> None:
    linear(target, source, size, 0, (target, source))


@entry("cuMemcpyPeerAsync")
def peer_async(target: int, target_context: int, source: int, source_context: int, size: int, stream: int) -> None:
    linear(target, source, size, stream, (target, source))


class Place(NamedTuple):
    """One side of a two- or three-dimensional copy, as in its structure: a kind of memory, and x (in bytes), y and z in
    it."""

    kind: int
    host: int
    device: int
    array: int
    pitch: int
    height: int
    x: int
    y: int
    z: int

    @property
    def base(self) -> int:
        """Address of the memory, if it is not an array."""
        return self.host if self.kind == _HOST else self.device


def side(at: Place) -> Side:
    """One side of a two- or three-dimensional copy."""
    if at.kind == _ARRAY:
        found = array_of(at.array)
        return Side(found.address_of(at.x, at.y, at.z), found.pitch, found.height_rows)
    if at.kind not in (_HOST, _DEVICE, _UNIFIED):
        raise CudaError(results.INVALID_VALUE)
    return Side(at.base + at.x + at.y * at.pitch + at.z * at.pitch * at.height, at.pitch, at.height)


def array_of(handle: int) -> DriverArray:
    """The array of a handle."""
    return state().handles.get(DriverArray, handle)


def copy_2d(pointer: int) -> Copy:
    """A copy from a CUDA_MEMCPY2D structure."""
    f = cmemory.read("QQIQQQQQQIQQQQQQ", pointer)
    width, height = f[14], f[15]
    source, target = (Place(f[n + 2], f[n + 3], f[n + 4], f[n + 5], f[n + 6], 0, f[n], f[n + 1], 0) for n in (0, 7))
    for place in (source, target):
        _check_rows(place, width, height)
    return Copy(side(target), side(source), width, height)


def _check_rows(at: Place, width: int, height: int) -> None:
    """Check one side of a two-dimensional copy: it must exist, and its rows (of ``x + width`` bytes) must fit.

    Raises:
        CudaError: otherwise.
    """
    if not width or not height:
        return
    if at.kind == _ARRAY:
        found = array_of(at.array) if at.array else None
        if found is None or at.x + width > found.width * found.element_bytes or at.y + height > max(found.height, 1):
            raise CudaError(results.INVALID_VALUE)
    elif at.kind in (_HOST, _DEVICE, _UNIFIED):
        if not at.base or (at.pitch and at.x + width > at.pitch):
            raise CudaError(results.INVALID_VALUE)
        if at.kind == _DEVICE or holder(at.base) is not None:
            check_device(at.base + at.x + at.y * at.pitch, at.pitch * (height - 1) + width, graph_memory=True)


COPY_3D = "4QIQQQQQQ4QIQQQQQQ3Q"
COPY_3D_BYTES = 200


def copy_3d(pointer: int) -> Copy:
    """A copy from a CUDA_MEMCPY3D structure."""
    f = cmemory.read(COPY_3D, pointer)
    source, target = (Place(*f[n + 4 : n + 8], *f[n + 9 : n + 11], *f[n : n + 3]) for n in (0, 11))
    return Copy(side(target), side(source), f[22], f[23], f[24], ctypes.string_at(pointer, COPY_3D_BYTES))


def described(copy: Copy) -> bytes:
    """The CUDA_MEMCPY3D of a copy; a copy that was not described by such a structure gets one with addresses only."""
    if len(copy.raw) == COPY_3D_BYTES:
        return copy.raw
    sides = ((0, 0, 0, 0, _UNIFIED, 0, one.address, 0, 0, one.pitch, one.height) for one in (copy.source, copy.target))
    return struct.pack(COPY_3D, *itertools.chain(*sides), copy.width, copy.height, copy.depth)


@entry("cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2")
def memcpy_2d(pointer: int) -> None:
    state().current()
    at_once(copy_2d(pointer))


@entry("cuMemcpy2DAsync_v2")
def memcpy_2d_async(pointer: int, stream: int) -> None:
    state().current()
    submit(state().stream(stream), copy_2d(pointer))


@entry("cuMemcpy3D_v2", "cuMemcpy3DPeer")
def memcpy_3d(pointer: int) -> None:
    state().current()
    at_once(copy_3d(pointer))


@entry("cuMemcpy3DAsync_v2", "cuMemcpy3DPeerAsync")
def memcpy_3d_async(pointer: int, stream: int) -> None:
    state().current()
    submit(state().stream(stream), copy_3d(pointer))


# --- fills -------------------------------------------------------------------------------------------
def fill(address: int, value: int, size: int, width: int, stream: int, height: int = 1, pitch: int = 0) -> None:
    """Set elements of ``size`` bytes."""
    s = state()
    s.current()
    if width and height:
        if address % size or (height > 1 and (pitch % size or pitch < width * size)):
            raise CudaError(results.INVALID_VALUE)
        check_device(address, pitch * (height - 1) + width * size, s.stream(stream))
        submit(s.stream(stream), Fill(address, value, size, width, height, pitch))


def _fills() -> None:
    """Entry points of the six kinds of fills."""
    for bits in (8, 16, 32):
        size = bits // 8

        def flat(address: int, value: int, count: int, size: int = size) -> None:
            fill(address, value, size, count, 0)

        def flat_async(address: int, value: int, count: int, stream: int, size: int = size) -> None:
            fill(address, value, size, count, stream)

        def rows(address: int, pitch: int, value: int, width: int, height: int, size: int = size) -> None:
            fill(address, value, size, width, 0, height, pitch)

        def rows_async(
            address: int, pitch: int, value: int, width: int, height: int, stream: int, size: int = size
        ) -> None:
            fill(address, value, size, width, stream, height, pitch)

        entry(f"cuMemsetD{bits}_v2")(flat)
        entry(f"cuMemsetD{bits}Async")(flat_async)
        entry(f"cuMemsetD2D{bits}_v2")(rows)
        entry(f"cuMemsetD2D{bits}Async")(rows_async)


_fills()


def _in_array(handle: int, offset: int, size: int) -> int:
    one = state().handles.get(DriverArray, cmemory.given(handle))
    if size and offset + size > one.width * one.element_bytes:
        raise CudaError(results.INVALID_VALUE)
    return one.address + offset


@entry("cuMemcpyHtoA_v2", "cuMemcpyDtoA_v2")
def to_array(array: int, offset: int, source: int, size: int) -> None:
    linear(_in_array(array, offset, size), source, size, 0, ())


@entry("cuMemcpyHtoAAsync_v2")
def to_array_async(array: int, offset: int, source: int, size: int, stream: int) -> None:
    linear(_in_array(array, offset, size), source, size, stream, ())


@entry("cuMemcpyAtoH_v2", "cuMemcpyAtoD_v2")
def from_array(target: int, array: int, offset: int, size: int) -> None:
    linear(target, _in_array(array, offset, size), size, 0, ())


@entry("cuMemcpyAtoHAsync_v2")
def from_array_async(target: int, array: int, offset: int, size: int, stream: int) -> None:
    linear(target, _in_array(array, offset, size), size, stream, ())


@entry("cuMemcpyAtoA_v2")
def between(target: int, target_offset: int, source: int, source_offset: int, size: int) -> None:
    linear(_in_array(target, target_offset, size), _in_array(source, source_offset, size), size, 0, ())
