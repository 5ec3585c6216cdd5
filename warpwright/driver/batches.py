"""Batches of copies: several linear copies, or several blocks, in one call and in a stream's order.

Errors, and which copy is reported as the failed one, follow an H200's driver (13.0; the calls of
``bench/driver_answers.py``).
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.copies import Copy, Side, array_of, linear
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import state
from warpwright.driver.graphs import submit
from warpwright.driver.managed import DEVICE, HOST_NUMA_CURRENT, LEGACY_STREAMS

_ATTRIBUTES, _ATTRIBUTES_BYTES = "iiiiiI", 24
"""CUmemcpyAttributes: the order in which the source is read, hints of both places, flags."""
_ORDERS = (1, 2, 3)
"""CUmemcpySrcAccessOrder: of the stream, during the call, any."""
_PREFER_OVERLAP = 1
"""CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE."""
_NONE_ALONE = (1 << 64) - 1
"""Returned instead of the number of a failed copy."""
_OPERATION_BYTES, _SIDE_BYTES = 112, 40
"""CUDA_MEMCPY3D_BATCH_OP, CUmemcpy3DOperand."""
_POINTER, _ARRAY = 1, 2


def _tell(failed: int, number: int) -> None:
    """Store the number of the failed copy, if the call has an argument for it (CUDA 12)."""
    if failed:
        cmemory.put64(failed, number)


def _each(count: int, failed: int, copy: Callable[[int], None]) -> None:
    """Make copies in sequence until one fails; its number is stored."""
    for number in range(count):
        try:
            copy(number)
        except CudaError:
            _tell(failed, number)
            raise


def _is_hint(type: int, ordinal: int) -> bool:
    return 0 <= type <= HOST_NUMA_CURRENT and (type != DEVICE or 0 <= ordinal < len(state().devices))


def _are_attributes(place: int) -> bool:
    order, *hints, flags = cmemory.read(_ATTRIBUTES, place)
    return order in _ORDERS and _is_hint(*hints[:2]) and _is_hint(*hints[2:]) and not flags & ~_PREFER_OVERLAP


MemcpyBatch = namedtuple("MemcpyBatch", "targets sources sizes count attributes firsts kinds failed stream")
"""Arguments of cuMemcpyBatchAsync."""


def _batch(call: MemcpyBatch) -> None:
    """Linear copies; attributes hold from their first copy to that of the next ones.

    Raises:
        CudaError: attributes that do not cover the copies or that do not exist, a copy of nothing, or the legacy default stream.
    """
    state().current()
    if call.stream:
        _tell(call.failed, _NONE_ALONE)
    begins = cmemory.words64(call.firsts, call.kinds) if call.firsts else []
    covered = begins and begins == sorted(set(begins)) and begins[0] == 0 and begins[-1] < call.count
    known = call.attributes and all(_are_attributes(call.attributes + _ATTRIBUTES_BYTES * i) for i in range(call.kinds))
    if call.stream in LEGACY_STREAMS or not call.count or not covered or not known:
        raise CudaError(results.INVALID_VALUE)
    given = [cmemory.words64(place, call.count) for place in (call.targets, call.sources, call.sizes)]

    def copy(number: int) -> None:
        target, source, size = (words[number] for words in given)
        if not size:
            raise CudaError(results.INVALID_VALUE)
        linear(target, source, size, call.stream, ())

    _each(call.count, call.failed, copy)


@entry("cuMemcpyBatchAsync_v2")
def memcpy_batch(
    targets: int, sources: int, sizes: int, count: int, attributes: int, firsts: int, kinds: int, stream: int
) -> None:
    _batch(MemcpyBatch(targets, sources, sizes, count, attributes, firsts, kinds, 0, stream))


entry("cuMemcpyBatchAsync", record=MemcpyBatch)(_batch)


def _element_bytes(place: int) -> int:
    """Bytes per element of one side of a block; 1 for plain pointers."""
    return array_of(cmemory.get64(place + 8)).element_bytes if cmemory.get32(place) == _ARRAY else 1


def _side(place: int, element_bytes: int, extent: tuple[int, int, int]) -> Side:
    """One side of a block.

    Raises:
        CudaError: a kind that does not exist, or rows and slices that the block does not fit into.
    """
    kind = cmemory.get32(place)
    if kind == _ARRAY:
        handle, x, y, z = cmemory.words64(place + 8, 4)
        array = array_of(handle)
        return Side(array.address_of(x * element_bytes, y, z), array.pitch, array.height_rows)
    if kind != _POINTER:
        raise CudaError(results.INVALID_VALUE)
    address, row, height = cmemory.words64(place + 8, 3)
    row, height = row or extent[0], height or extent[1]
    if row < extent[0] or height < extent[1]:
        raise CudaError(results.INVALID_VALUE)
    return Side(address, row * element_bytes, height)


def _fits(place: int, extent: tuple[int, int, int]) -> bool:
    """Whether a block fits in a side that is an array."""
    if cmemory.get32(place) != _ARRAY:
        return True
    handle, *offset = cmemory.words64(place + 8, 4)
    array = array_of(handle)
    sizes = (array.width, max(array.height, 1), max(array.depth, 1))
    return all(at + n <= size for at, n, size in zip(offset, extent, sizes, strict=True))


def _block(place: int) -> Copy:
    """The copy that a CUDA_MEMCPY3D_BATCH_OP describes.

    Raises:
        CudaError: an empty block, an order that does not exist, or a side that does not hold it.
    """
    width, height, depth, order, _ = cmemory.read("QQQiI", place + 2 * _SIDE_BYTES)
    extent = (width, height, depth)
    if not all(extent) or order not in _ORDERS:
        raise CudaError(results.INVALID_VALUE)
    source, target = place, place + _SIDE_BYTES
    element_bytes = max(_element_bytes(source), _element_bytes(target))
    to, origin = (_side(one, element_bytes, extent) for one in (target, source))
    return Copy(to, origin, width * element_bytes, height, depth)


def _blocks(count: int, operations: int, failed: int, flags: int, stream: int) -> None:
    """Blocks, each between memory or arrays.

    Raises:
        CudaError: no blocks, one that cannot be copied, flags, or the legacy default stream.
    """
    state().current()
    if stream:
        _tell(failed, _NONE_ALONE)
    if stream in LEGACY_STREAMS or not count or flags:
        raise CudaError(results.INVALID_VALUE)
    places = [operations + _OPERATION_BYTES * n for n in range(count)]
    blocks: list[Copy] = []
    _each(count, failed, lambda n: blocks.append(_block(places[n])))
    for place, block in zip(places, blocks, strict=True):
        extent = cmemory.words64(place + 2 * _SIDE_BYTES, 3)
        if not all(_fits(place + at, (extent[0], extent[1], extent[2])) for at in (0, _SIDE_BYTES)):
            raise CudaError(results.INVALID_VALUE)
        submit(state().stream(stream), block)


@entry("cuMemcpy3DBatchAsync_v2")
def memcpy_3d_batch(count: int, operations: int, flags: int, stream: int) -> None:
    _blocks(count, operations, 0, flags, stream)


@entry("cuMemcpy3DBatchAsync")
def memcpy_3d_batch_failing(count: int, operations: int, failed: int, flags: int, stream: int) -> None:
    _blocks(count, operations, failed, flags, stream)
