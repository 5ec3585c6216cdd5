"""Bulk copies: moves bytes and boxes of tensors between global and shared memory (``isa/bulk.py``), for both engines.

A box is copied row by row in shared memory (innermost dimension, then the next); elements outside of the tensor read as the
map's fill and are not written.  The pitch of swizzled rows is the swizzle's span; the innermost coordinate must be a
multiple of 16 bytes, and stores allow no negative coordinate.  This is the behaviour of an H200
(``tests/bulk_cases.py`` ran on one, all bytes equal).  im2col visits pixels of a bounding box from a given one on,
along the width, then the height, the depth and the images, and adds the offsets to each (PTX ISA, "Tensor tiling
modes"); the first pixel must be inside the bounding box, which must not begin before the tensor for stores.
Interleaved maps: :meth:`TensorMap.unfolded`. Hardware may complete a copy at any time before the mbarrier's phase ends;
here copies complete at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from warpwright.engine import numerics
from warpwright.engine.abi import SHARED_OFFSETS, SHARED_RANK_SHIFT, SHARED_WINDOW, FaultKind
from warpwright.engine.tensor_map import ALIGNMENT_BYTES, ELEMENT_TYPES, TENSOR_MAP_BYTES, TensorMap, decode
from warpwright.isa import bulk
from warpwright.isa import mbarrier as mb
from warpwright.isa.bulk import Bulk

Bytes = npt.NDArray[np.uint8]
LEAST_BYTES = 16
"""Sizes and addresses of copies must be multiples of this many bytes."""
TENSOR_ALIGNMENT_BYTES = 128
FILL_NAN = 0x7FF7
"""The 16-bit pattern of elements outside a tensor if NaN is requested (an H200, f32)."""
TF32 = ("tf32", "tf32.ftz")
"""Types of maps whose loads round floats; neither they nor ``f32.ftz`` flush denormal numbers (an H200's and H100's TMA, ``bench.machine.tensor_map_types``)."""
INTEGERS = {"u32": "u4", "s32": "i4", "u64": "u8", "s64": "i8"}


class BulkFault(Exception):
    """A copy that accesses memory it must not access."""

    def __init__(self, kind: FaultKind, address: int, size: int) -> None:
        super().__init__(f"{kind.name}: {size} bytes at {address:#x}")
        self.kind, self.address, self.bytes = kind, address, size


class Memory(Protocol):
    """The properties of the block that starts a copy."""

    @property
    def rank(self) -> int: ...
    def shared(self, rank: int) -> Bytes:
        """Shared memory of a block of the cluster; raises BulkFault."""

    def view(self, address: int, size: int) -> Bytes:
        """A view of global memory within one allocation; raises BulkFault."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """The traffic of a copy, for the timing model."""

    bytes: int
    """Bytes in shared memory (or prefetched into L2)."""
    address: int
    """Address of the first row in global memory."""
    row_bytes: int
    rows: tuple[tuple[int, int], ...] = ()
    """(count, stride in bytes) of the rows in each further dimension."""
    barrier: int = -1
    """Offset of the mbarrier that is updated, -1 for none."""
    ranks: int = 0
    """Mask of the blocks whose mbarrier is updated."""
    shared: int = -1
    """Position in shared memory, ``offset | bytes << 32``; -1 for none."""
    targets: int = 0
    """Mask of the blocks whose shared memory is written at that position; 0 if the own block's is read."""
    part: bool = False
    """Whether some elements of the box are outside the tensor, or not at their rows' positions (im2col)."""
    source: int = -1
    """Position in the own block's shared memory that is read for another block's."""


def signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def perform(what: Bulk, words: list[int], memory: Memory) -> Transfer:
    """Move the bytes; the caller updates the mbarriers (:func:`tell`).

    Args:
        words: one lane's words, at the positions that ``isa/bulk.py`` names.

    Raises:
        BulkFault: for an address that is misaligned, outside its memory, or of no block.
    """
    if what.rank:
        return _tensor(what, words, memory)
    size = words[bulk.BYTES]
    address = words[bulk.GLOBAL] | words[bulk.GLOBAL + 1] << 32
    if size % LEAST_BYTES or (size and what.direction != "within" and address % LEAST_BYTES):
        raise BulkFault(FaultKind.MISALIGNED, address, LEAST_BYTES)
    if what.direction == "prefetch":
        # It moves no data that code can see: CUB rounds a size up to 16 bytes, past an allocation's end, which an H200 accepts.
        return Transfer(size, address, size)
    if what.direction == "store":
        source = shared_range(memory, words[bulk.SHARED], size)
        combine(global_range(memory, address, size), source, what.operation, what.type)
        return Transfer(size, address, size, shared=shared_place(words[bulk.SHARED], size))
    if what.direction == "load":
        source = global_range(memory, address, size)
    else:
        source = shared_range(memory, words[bulk.SOURCE], size).copy()
    for rank in ranks_of(what, words):
        target = shared_range(memory, words[bulk.SHARED], size, rank)
        combine(target, source, what.operation, what.type)
    barrier, signalled_ranks = signalled(what, words)
    loads = what.direction == "load"
    return Transfer(
        size,
        address if loads else -1,
        size,
        barrier=barrier,
        ranks=signalled_ranks,
        shared=shared_place(words[bulk.SHARED], size),
        targets=sum(1 << n for n in ranks_of(what, words)),
        source=-1 if loads else shared_place(words[bulk.SOURCE], size),
    )


def shared_place(address: int, size: int) -> int:
    """``Transfer.shared`` for bytes at a shared address."""
    return address & SHARED_OFFSETS | size << 32


def ranks_of(what: Bulk, words: list[int]) -> list[int]:
    """Ranks of the blocks that receive a copy."""
    if what.multicast:
        return [n for n in range(16) if words[bulk.RANKS] >> n & 1]
    return [words[bulk.SHARED] >> SHARED_RANK_SHIFT]


def signalled(what: Bulk, words: list[int]) -> tuple[int, int]:
    """(offset of the mbarrier, mask of the blocks whose mbarrier is signalled)."""
    ranks = sum(1 << n for n in ranks_of(what, words))
    if not what.multicast:
        ranks = 1 << (words[bulk.BARRIER] >> SHARED_RANK_SHIFT)
    return words[bulk.BARRIER] & SHARED_OFFSETS, ranks


def tell(transfer: Transfer, memory: Memory) -> None:
    """Signal the mbarriers that the bytes have arrived."""
    if transfer.barrier < 0:
        return
    by = (-transfer.bytes & mb.BYTES_MASK) << mb.OPERAND_BYTES_AT
    for rank in range(16):
        if transfer.ranks >> rank & 1:
            place = shared_range(memory, transfer.barrier, 8, rank, 8).view(np.uint64)
            place[0] = mb.changed(int(place[0]), by)


def global_range(memory: Memory, address: int, size: int) -> Bytes:
    """A part of global memory.

    An empty range may have any address, here and in shared memory: CUB passes the null pointer or a misaligned address
    for one, which an H200 accepts.
    """
    return memory.view(address, size) if size else np.empty(0, np.uint8)


def shared_range(memory: Memory, address: int, size: int, rank: int | None = None, aligned: int = LEAST_BYTES) -> Bytes:
    """Bytes of shared memory; ``rank`` replaces the address's own."""
    offset = address & SHARED_OFFSETS
    chosen = address >> SHARED_RANK_SHIFT if rank is None else rank
    if size and offset % aligned:
        raise BulkFault(FaultKind.MISALIGNED, offset, aligned)
    whole = memory.shared(chosen)
    if offset + size > len(whole):
        raise BulkFault(FaultKind.SHARED_OUT_OF_BOUNDS, SHARED_WINDOW + offset, size)
    return whole[offset : offset + size]


def combine(target: Bytes, source: Bytes, operation: str, type: str) -> None:
    """Copy, or reduce into the target element by element."""
    if not operation:
        target[...] = source
        return
    target[...] = reduced(target, source, operation, type)


def reduced(old: Bytes, by: Bytes, operation: str, type: str) -> Bytes:
    """The result of a reduction, as bytes."""
    if type in INTEGERS:
        x, y = (np.ascontiguousarray(v).view(INTEGERS[type]) for v in (old, by))
        zero, one = x.dtype.type(0), x.dtype.type(1)
        results: dict[str, Callable[[], npt.NDArray[Any]]] = {
            "add": lambda: x + y,
            "min": lambda: np.minimum(x, y),
            "max": lambda: np.maximum(x, y),
            "inc": lambda: np.where(x >= y, zero, x + one),
            "dec": lambda: np.where((x == 0) | (x > y), y, x - one),
            "and": lambda: x & y,
            "or": lambda: x | y,
            "xor": lambda: x ^ y,
        }
        return np.ascontiguousarray(results[operation]()).view(np.uint8)
    kind, flushes = type.removesuffix(".ftz"), type.endswith(".ftz")
    width = {"f16": "u2", "bf16": "u2", "f32": "u4", "f64": "u8"}[kind]
    a, b = (np.ascontiguousarray(v).view(width) for v in (old, by))
    with np.errstate(all="ignore"):
        if flushes:
            a, b = numerics.ftz(kind, a), numerics.ftz(kind, b)
        if operation == "add":
            result = numerics.canonical_nan(kind, numerics.fadd(kind, a, b, "rn"))
        else:
            result = (numerics.fmin if operation == "min" else numerics.fmax)(kind, a, b, "number")
        if flushes:
            result = numerics.ftz(kind, result)
    return np.ascontiguousarray(result).view(np.uint8)


# --- tensors --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Row:
    """Neighbouring elements of a box: their start in global memory, and which of them are inside the tensor."""

    place: int
    """Index of the row in the box."""
    address: int
    """Address of element 0 of the row, whether or not it is inside the tensor."""
    first: int
    """First element, and one past the last, that are inside the tensor."""
    end: int


def _round_to_tf32(bits: npt.NDArray[np.uint32]) -> None:
    """Round floats in place to ten fraction bits, to nearest with ties to even; every NaN becomes the same one."""
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    bits += 0xFFF + (bits >> 13 & 1)
    bits &= 0xFFFFE000
    bits[nan] = 0x7FFFE000


def _tensor(what: Bulk, words: list[int], memory: Memory) -> Transfer:
    at = words[bulk.GLOBAL] | words[bulk.GLOBAL + 1] << 32
    if at % ALIGNMENT_BYTES:
        raise BulkFault(FaultKind.MISALIGNED, at, ALIGNMENT_BYTES)
    tensor = decode(memory.view(at, TENSOR_MAP_BYTES).tobytes())
    start = [signed(w) for w in words[bulk.FIRST_COORDINATE : bulk.FIRST_COORDINATE + what.rank]]
    if tensor.rank != what.rank or (tensor.lower is not None) != what.im2col:
        raise BulkFault(FaultKind.OTHER_TENSOR, at, TENSOR_MAP_BYTES)
    kind = ELEMENT_TYPES[tensor.type]
    pitch = 16 << tensor.swizzle if tensor.swizzle else 0
    if tensor.interleave:
        tensor, start, pitch = tensor.unfolded(), [0, *start], tensor.unit_bytes
    size = tensor.element_bytes
    least = min((*start, *(tensor.lower or ())))
    if start[0] * size % LEAST_BYTES or (what.direction == "store" and least < 0) or not _begins_inside(tensor, start):
        raise BulkFault(FaultKind.TENSOR_COORDINATE, at, TENSOR_MAP_BYTES)
    counts = tensor.counts
    inner, count = counts[0], prod(counts[1:])
    if what.im2col:
        offsets = words[bulk.FIRST_OFFSET : bulk.FIRST_OFFSET + what.rank - 2]
        rows = list(_pixels(tensor, start, offsets))
        shape: tuple[tuple[int, int], ...] = ((count, tensor.strides[0]),)
    else:
        rows = list(_tiles(tensor, start, counts))
        steps = zip(counts[1:], tensor.strides, tensor.steps[1:], strict=True)
        shape = tuple((n, stride * step) for n, stride, step in steps if n > 1)
    line = inner * size
    inside = [row for row in rows if row.end > row.first]
    first = inside[0].address + inside[0].first * size if inside else tensor.address
    partial = what.im2col or any(row.end - row.first < inner for row in rows)
    moved = Transfer(line * count, first, line if inside else 0, shape, part=partial)
    if what.direction == "prefetch":
        return moved
    pitch = pitch or line
    places = _places(words[bulk.SHARED] & SHARED_OFFSETS & 1023, count, line, pitch, tensor.swizzle)
    reach = max(pitch * count, int(places.max()) + 1)  # swizzled units of 16 bytes may end after their box
    place = shared_place(words[bulk.SHARED], reach)
    if what.direction == "store":
        box = shared_range(memory, words[bulk.SHARED], reach, aligned=TENSOR_ALIGNMENT_BYTES)
        lines = box[places]
        for row in inside:
            part = slice(row.first * size, row.end * size)
            target = memory.view(row.address + part.start, part.stop - part.start)
            combine(target, lines[row.place, part], what.operation, kind)
        return replace(moved, shared=place)
    lines = np.zeros((count, line), np.uint8)
    if tensor.fill:
        lines.reshape(-1).view(np.uint16)[...] = FILL_NAN
    for row in inside:
        part = slice(row.first * size, row.end * size)
        lines[row.place, part] = memory.view(row.address + part.start, part.stop - part.start)
    if kind in TF32:
        _round_to_tf32(lines.reshape(-1).view(np.uint32))
    for rank in ranks_of(what, words):
        shared_range(memory, words[bulk.SHARED], reach, rank, TENSOR_ALIGNMENT_BYTES)[places] = lines
    targets = sum(1 << n for n in ranks_of(what, words))
    barrier, signalled_ranks = signalled(what, words)
    return replace(moved, barrier=barrier, ranks=signalled_ranks, shared=place, targets=targets)


@lru_cache(64)
def _places(start: int, count: int, line: int, pitch: int, swizzle: int) -> npt.NDArray[np.int64]:
    """The offset of each byte of a box's rows from the box's start, which is ``start`` bytes after a multiple of 1,024.

    Rows are ``pitch`` bytes apart; in rows of 128 bytes, the row's number determines the positions of 16-byte chunks.
    """
    offsets = start + pitch * np.arange(count)[:, None] + np.arange(line)
    places: npt.NDArray[np.int64] = (offsets ^ ((offsets >> 7) & ((1 << swizzle) - 1)) << 4) - start
    return places


def _span(start: int, count: int, size: int) -> tuple[int, int]:
    """The elements of ``start … start + count - 1`` that are inside a dimension of ``size``, counted from ``start``."""
    return max(0, -start), max(0, min(count, size - start))


def _tiles(tensor: TensorMap, start: list[int], counts: tuple[int, ...]) -> Iterator[Row]:
    first, end = _span(start[0], counts[0], tensor.sizes[0])
    base = tensor.address + start[0] * tensor.element_bytes
    outer = [range(n) for n in reversed(counts[1:])]
    for place, index in enumerate(product(*outer)):
        address, inside = base, True
        for n, i in enumerate(reversed(index)):
            position = start[n + 1] + i * tensor.steps[n + 1]
            inside = inside and 0 <= position < tensor.sizes[n + 1]
            address += position * tensor.strides[n]
        yield Row(place, address, first, end if inside else first)


def _begins_inside(tensor: TensorMap, start: list[int]) -> bool:
    """Whether the first pixel of im2col is inside the bounding box."""
    corners = zip(start[1:], tensor.lower or (), tensor.sizes[1:], tensor.upper, strict=False)
    return all(lower <= position < size + upper for position, lower, size, upper in corners)


def _pixels(tensor: TensorMap, start: list[int], offsets: list[int]) -> Iterator[Row]:
    assert tensor.lower is not None
    first, end = _span(start[0], tensor.channels, tensor.sizes[0])
    position = start[1:]
    inner = len(tensor.lower)
    for place in range(tensor.pixels):
        there = [p + (offsets[n] if n < inner else 0) for n, p in enumerate(position)]
        address = tensor.address + start[0] * tensor.element_bytes
        address += sum(p * stride for p, stride in zip(there, tensor.strides, strict=True))
        inside = all(0 <= p < size for p, size in zip(there, tensor.sizes[1:], strict=True))
        yield Row(place, address, first, end if inside else first)
        for n in range(inner):
            position[n] += tensor.steps[n + 1]
            if position[n] <= tensor.sizes[n + 1] - 1 + tensor.upper[n]:
                break
            position[n] = tensor.lower[n]
        else:
            position[-1] += tensor.steps[-1]


def lane_words(words: Any, lane: int) -> list[int]:
    """One lane's words of arrays that are indexed by word."""
    return [int(w[lane]) for w in words]
