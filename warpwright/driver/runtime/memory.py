"""Memory, copies and fills of the runtime."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections import namedtuple
from collections.abc import Sequence

from warpwright.driver import cmemory, printf_buffer, results
from warpwright.driver.calls import ENTRIES
from warpwright.driver.copies import BLOCKING, Copy, Fill, Side, at_once, check_device, fill, linear
from warpwright.driver.cuda_arrays import DriverArray
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import state
from warpwright.driver.entry_points import Extent, PitchedPointer
from warpwright.driver.graphs import submit
from warpwright.driver.memory import HOST, MANAGED, REGISTERED, allocate, device_at, holder, kinds, release
from warpwright.driver.runtime.calls import runtime, same
from warpwright.driver.runtime.registration import symbol_of

_TO_DEVICE, _FROM_DEVICE, _BETWEEN, _DEFAULT = 1, 2, 3, 4
"""cudaMemcpyKind."""
INVALID_DIRECTION = 21


@runtime("cudaMalloc")
def malloc(place: int, size: int) -> int | None:
    if not place:
        return results.INVALID_VALUE
    cmemory.put64(place, allocate(size) if size else 0)
    return None


@runtime("cudaFree")
def free(address: int) -> None:
    printf_buffer.flush()
    state().current()
    if address:
        release(address)


@runtime("cudaMallocManaged")
def malloc_managed(place: int, size: int, flags: int) -> None:
    cmemory.put64(place, allocate(size, MANAGED, flags or 1))


@runtime("cudaMallocHost")
def malloc_host(place: int, size: int, *_: int) -> None:
    cmemory.put64(place, allocate(size, HOST, 2))


@runtime("cudaHostAlloc")
def host_alloc(place: int, size: int, flags: int) -> None:
    cmemory.put64(place, allocate(size, HOST, flags | 2))


@runtime("cudaFreeHost")
def free_host(address: int) -> int | None:
    if address == 0:
        return None
    return ENTRIES["cuMemFreeHost"](address)


@runtime("cudaMallocPitch")
def malloc_pitch(place: int, pitch: int, width: int, height: int) -> None:
    ENTRIES["cuMemAllocPitch_v2"](place, pitch, width, height, 4)


@runtime("cudaMalloc3D")
def malloc_3d(place: int, extent: Extent) -> None:
    pitch = -(-extent.width // 512) * 512
    address = allocate(pitch * extent.height * extent.depth)
    cmemory.write("QQQQ", place, address, pitch, extent.width, extent.height)


@runtime("cudaPointerGetAttributes")
def pointer_attributes(place: int, address: int) -> None:
    found = holder(address)
    kind = kinds.get(found.address, ("",))[0] if found is not None else ""
    number = 0 if found is None else 3 if kind == MANAGED else 1 if kind in (HOST, REGISTERED) else 2
    host = address if found is None or number != 2 else 0
    owner = kinds[found.address][2].device if found is not None and found.address in kinds else device_at(address)
    cmemory.write(
        "iiQQ", place, number, owner.ordinal if found is not None else -2, address if found is not None else 0, host
    )


# --- copies ------------------------------------------------------------------------------------------
def _sides(target: int, source: int, kind: int) -> tuple[int, ...]:
    """Addresses that must be device memory for a kind of copy."""
    if kind not in (0, 1, 2, 3, 4):
        raise CudaError(INVALID_DIRECTION)
    return {_TO_DEVICE: (target,), _FROM_DEVICE: (source,), _BETWEEN: (target, source)}.get(kind, ())


@runtime("cudaMemcpy")
def memcpy(target: int, source: int, size: int, kind: int) -> None:
    linear(target, source, size, BLOCKING, _sides(target, source, kind))


@runtime("cudaMemcpyAsync")
def memcpy_async(target: int, source: int, size: int, kind: int, stream: int) -> None:
    linear(target, source, size, stream, _sides(target, source, kind))


@runtime("cudaMemcpyPeer")
def memcpy_peer(target: int, to: int, source: int, origin: int, size: int) -> None:
    linear(target, source, size, BLOCKING, (target, source))


@runtime("cudaMemcpyPeerAsync")
def memcpy_peer_async(target: int, to: int, source: int, origin: int, size: int, stream: int) -> None:
    linear(target, source, size, stream, (target, source))


def _symbol(host: int, offset: int, size: int) -> int:
    address, room = symbol_of(host)
    if offset + size > room:
        raise CudaError(results.INVALID_VALUE)
    return address + offset


@runtime("cudaMemcpyToSymbol")
def to_symbol(host: int, source: int, size: int, offset: int, kind: int) -> None:
    linear(_symbol(host, offset, size), source, size, BLOCKING, ())


@runtime("cudaMemcpyToSymbolAsync")
def to_symbol_async(host: int, source: int, size: int, offset: int, kind: int, stream: int) -> None:
    linear(_symbol(host, offset, size), source, size, stream, ())


@runtime("cudaMemcpyFromSymbol")
def from_symbol(target: int, host: int, size: int, offset: int, kind: int) -> None:
    linear(target, _symbol(host, offset, size), size, BLOCKING, ())


@runtime("cudaMemcpyFromSymbolAsync")
def from_symbol_async(target: int, host: int, size: int, offset: int, kind: int, stream: int) -> None:
    linear(target, _symbol(host, offset, size), size, stream, ())


def _rows(target: Side, source: Side, width: int, height: int, stream: int) -> None:
    if stream == BLOCKING:
        printf_buffer.flush()
    state().current()
    if (height > 1 and width > min(target.pitch, source.pitch)) or width < 0:
        raise CudaError(12)
    copy = Copy(target, source, width, height)
    if stream == BLOCKING:
        at_once(copy)
    else:
        submit(state().stream(stream), copy)


@runtime("cudaMemcpy2D")
def memcpy_2d(target: int, pitch: int, source: int, source_pitch: int, width: int, height: int, kind: int) -> None:
    memcpy_2d_async(target, pitch, source, source_pitch, width, height, kind, BLOCKING)


@runtime("cudaMemcpy2DAsync")
def memcpy_2d_async(
    target: int, pitch: int, source: int, source_pitch: int, width: int, height: int, kind: int, stream: int
) -> None:
    for address in _sides(target, source, kind):
        span = (pitch if address == target else source_pitch) * (height - 1) + width
        check_device(address, span, state().stream(max(stream, 0)))
    _rows(Side(target, pitch, 0), Side(source, source_pitch, 0), width, height, stream)


def _array_side(handle: int, x: int, y: int) -> Side:
    one = state().handles.get(DriverArray, handle)
    return Side(one.address_of(x, y, 0), one.pitch, one.height_rows)


@runtime("cudaMemcpy2DToArray")
def to_array_2d(array: int, x: int, y: int, source: int, pitch: int, width: int, height: int, kind: int) -> None:
    _rows(_array_side(array, x, y), Side(source, pitch, 0), width, height, BLOCKING)


To2D = namedtuple("To2D", "array x y source pitch width height kind stream")
"""Arguments of cudaMemcpy2DToArrayAsync."""


@runtime("cudaMemcpy2DToArrayAsync", record=To2D)
def to_array_2d_async(call: To2D) -> None:
    to = _array_side(call.array, call.x, call.y)
    _rows(to, Side(call.source, call.pitch, 0), call.width, call.height, call.stream)


@runtime("cudaMemcpy2DFromArray")
def from_array_2d(target: int, pitch: int, array: int, x: int, y: int, width: int, height: int, kind: int) -> None:
    _rows(Side(target, pitch, 0), _array_side(array, x, y), width, height, BLOCKING)


From2D = namedtuple("From2D", "target pitch array x y width height kind stream")
"""Arguments of cudaMemcpy2DFromArrayAsync."""


@runtime("cudaMemcpy2DFromArrayAsync", record=From2D)
def from_array_2d_async(call: From2D) -> None:
    source = _array_side(call.array, call.x, call.y)
    _rows(Side(call.target, call.pitch, 0), source, call.width, call.height, call.stream)


Between2D = namedtuple("Between2D", "target x y source from_x from_y width height kind")
"""Arguments of cudaMemcpy2DArrayToArray."""


@runtime("cudaMemcpy2DArrayToArray", record=Between2D)
def array_to_array_2d(call: Between2D) -> None:
    to, source = _array_side(call.target, call.x, call.y), _array_side(call.source, call.from_x, call.from_y)
    _rows(to, source, call.width, call.height, BLOCKING)


@runtime("cudaMemcpyToArray")
def to_array(array: int, x: int, y: int, source: int, size: int, kind: int) -> None:
    linear(_array_side(array, x, y).address, source, size, BLOCKING, ())


@runtime("cudaMemcpyToArrayAsync")
def to_array_async(array: int, x: int, y: int, source: int, size: int, kind: int, stream: int) -> None:
    linear(_array_side(array, x, y).address, source, size, stream, ())


@runtime("cudaMemcpyFromArray")
def from_array(target: int, array: int, x: int, y: int, size: int, kind: int) -> None:
    linear(target, _array_side(array, x, y).address, size, BLOCKING, ())


@runtime("cudaMemcpyFromArrayAsync")
def from_array_async(target: int, array: int, x: int, y: int, size: int, kind: int, stream: int) -> None:
    linear(target, _array_side(array, x, y).address, size, stream, ())


@runtime("cudaMemcpyArrayToArray")
def array_to_array(target: int, x: int, y: int, source: int, from_x: int, from_y: int, size: int, kind: int) -> None:
    linear(_array_side(target, x, y).address, _array_side(source, from_x, from_y).address, size, BLOCKING, ())


COPY_3D = "Q3Q4QQ3Q4Q3Qi"
"""cudaMemcpy3DParms: array, position, pointer of source and target; extent, kind."""
_PEER_3D = "Q3Q4Qi4xQ3Q4Qi4x3Q"
"""cudaMemcpy3DPeerParms: with a device after each side, which the addresses imply as well."""


def _block(source: Sequence[int], target: Sequence[int], extent: Sequence[int], raw: bytes = b"") -> Copy:
    """A copy of an extent between two sides (array, position, pointer); with an array, widths and positions count its elements."""
    arrays = [state().handles.get(DriverArray, side[0]) if side[0] else None for side in (target, source)]
    element = next((one.element_bytes for one in reversed(arrays) if one is not None), 1)
    sides: list[Side] = []
    for one, (_, x, y, z, address, pitch, _, rows) in zip(arrays, (target, source), strict=True):
        if one is not None:
            sides.append(Side(one.address_of(x * element, y, z), one.pitch, one.height_rows))
        else:
            sides.append(Side(address + x + y * pitch + z * pitch * rows, pitch, rows))
    width, height, depth = extent
    return Copy(sides[0], sides[1], width * element, height, depth, raw)


def copy_3d(pointer: int) -> Copy:
    """A copy from cudaMemcpy3DParms."""
    f = cmemory.read(COPY_3D, pointer)
    return _block(f[:8], f[8:16], f[16:19], ctypes.string_at(pointer, struct.calcsize(COPY_3D)))


def _peer_copy_3d(pointer: int) -> Copy:
    """A copy from cudaMemcpy3DPeerParms."""
    f = cmemory.read(_PEER_3D, pointer)
    return _block(f[:8], f[9:17], f[18:21])


def described(copy: Copy) -> bytes:
    """The cudaMemcpy3DParms of a copy; a copy that was not described by such a structure gets one with addresses
    only."""
    if len(copy.raw) == struct.calcsize(COPY_3D):
        return copy.raw
    sides = ((0, 0, 0, 0, one.address, one.pitch, one.pitch, max(one.height, 1)) for one in (copy.source, copy.target))
    return struct.pack(COPY_3D, *itertools.chain(*sides), copy.width, copy.height, copy.depth, _DEFAULT)


@runtime("cudaMemcpy3D")
def memcpy_3d(pointer: int) -> None:
    printf_buffer.flush()
    state().current()
    at_once(copy_3d(pointer))


@runtime("cudaMemcpy3DAsync")
def memcpy_3d_async(pointer: int, stream: int) -> None:
    state().current()
    submit(state().stream(stream), copy_3d(pointer))


@runtime("cudaMemcpy3DPeer")
def memcpy_3d_peer(pointer: int) -> None:
    printf_buffer.flush()
    state().current()
    at_once(_peer_copy_3d(pointer))


@runtime("cudaMemcpy3DPeerAsync")
def memcpy_3d_peer_async(pointer: int, stream: int) -> None:
    state().current()
    submit(state().stream(stream), _peer_copy_3d(pointer))


# --- fills -------------------------------------------------------------------------------------------
@runtime("cudaMemset")
def memset(address: int, value: int, size: int) -> None:
    fill(address, value, 1, size, 0)


@runtime("cudaMemsetAsync")
def memset_async(address: int, value: int, size: int, stream: int) -> None:
    fill(address, value, 1, size, stream)


@runtime("cudaMemset2D")
def memset_2d(address: int, pitch: int, value: int, width: int, height: int) -> None:
    fill(address, value, 1, width, 0, height, pitch)


@runtime("cudaMemset2DAsync")
def memset_2d_async(address: int, pitch: int, value: int, width: int, height: int, stream: int) -> None:
    fill(address, value, 1, width, stream, height, pitch)


@runtime("cudaMemset3D")
def memset_3d(where: PitchedPointer, value: int, extent: Extent) -> None:
    memset_3d_async(where, value, extent, 0)


@runtime("cudaMemset3DAsync")
def memset_3d_async(where: PitchedPointer, value: int, extent: Extent, stream: int) -> None:
    state().current()
    for z in range(extent.depth):
        at = where.pointer + z * where.pitch * where.y_size
        submit(state().stream(stream), Fill(at, value, 1, extent.width, extent.height, where.pitch))


for _name, _driver in (
    # CUDA 13 identifies locations by a structure, CUDA 12 by device.
    ("cudaMemAdvise@12", "cuMemAdvise"),
    ("cudaMemAdvise@13", "cuMemAdvise_v2"),
    ("cudaMemAdvise_v2", "cuMemAdvise_v2"),
    ("cudaMemPrefetchAsync@12", "cuMemPrefetchAsync"),
    ("cudaMemPrefetchAsync@13", "cuMemPrefetchAsync_v2"),
    ("cudaMemPrefetchAsync_v2", "cuMemPrefetchAsync_v2"),
    ("cudaMemRangeGetAttribute", "cuMemRangeGetAttribute"),
    ("cudaMemRangeGetAttributes", "cuMemRangeGetAttributes"),
    ("cudaMemPrefetchBatchAsync", "cuMemPrefetchBatchAsync"),
    ("cudaMemDiscardBatchAsync", "cuMemDiscardBatchAsync"),
    ("cudaMemDiscardAndPrefetchBatchAsync", "cuMemDiscardAndPrefetchBatchAsync"),
    ("cudaMemcpyBatchAsync@13", "cuMemcpyBatchAsync_v2"),
    ("cudaMemcpyBatchAsync@12", "cuMemcpyBatchAsync"),
    ("cudaMemcpy3DBatchAsync@13", "cuMemcpy3DBatchAsync_v2"),
    ("cudaMemcpy3DBatchAsync@12", "cuMemcpy3DBatchAsync"),
    ("cudaHostRegister", "cuMemHostRegister_v2"),
    ("cudaHostUnregister", "cuMemHostUnregister"),
    ("cudaHostGetDevicePointer", "cuMemHostGetDevicePointer_v2"),
    ("cudaHostGetFlags", "cuMemHostGetFlags"),
    ("cudaMemGetInfo", "cuMemGetInfo_v2"),
    ("cudaMallocAsync", "cuMemAllocAsync"),
    ("cudaMallocFromPoolAsync", "cuMemAllocFromPoolAsync"),
    ("cudaFreeAsync", "cuMemFreeAsync"),
    ("cudaMemPoolCreate", "cuMemPoolCreate"),
    ("cudaMemPoolDestroy", "cuMemPoolDestroy"),
    ("cudaMemPoolGetAttribute", "cuMemPoolGetAttribute"),
    ("cudaMemPoolSetAttribute", "cuMemPoolSetAttribute"),
    ("cudaMemPoolTrimTo", "cuMemPoolTrimTo"),
    ("cudaMemPoolSetAccess", "cuMemPoolSetAccess"),
    ("cudaMemPoolGetAccess", "cuMemPoolGetAccess"),
    ("cudaDeviceGetDefaultMemPool", "cuDeviceGetDefaultMemPool"),
    ("cudaDeviceGetMemPool", "cuDeviceGetMemPool"),
    ("cudaDeviceSetMemPool", "cuDeviceSetMemPool"),
    ("cudaMemGetDefaultMemPool", "cuMemGetDefaultMemPool"),
    ("cudaMemGetMemPool", "cuMemGetMemPool"),
    ("cudaMemSetMemPool", "cuMemSetMemPool"),
    ("cudaDeviceGetGraphMemAttribute", "cuDeviceGetGraphMemAttribute"),
    ("cudaDeviceSetGraphMemAttribute", "cuDeviceSetGraphMemAttribute"),
    ("cudaDeviceGraphMemTrim", "cuDeviceGraphMemTrim"),
    ("cudaIpcGetMemHandle", "cuIpcGetMemHandle"),
    ("cudaIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"),
    ("cudaIpcCloseMemHandle", "cuIpcCloseMemHandle"),
    ("cudaIpcGetEventHandle", "cuIpcGetEventHandle"),
    ("cudaIpcOpenEventHandle", "cuIpcOpenEventHandle"),
    ("cudaMemPoolExportToShareableHandle", "cuMemPoolExportToShareableHandle"),
    ("cudaMemPoolImportFromShareableHandle", "cuMemPoolImportFromShareableHandle"),
    ("cudaMemPoolExportPointer", "cuMemPoolExportPointer"),
    ("cudaMemPoolImportPointer", "cuMemPoolImportPointer"),
):
    same(_name, _driver)
