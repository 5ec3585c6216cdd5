"""Surface layouts: where an element of an image is in memory, in rows with a pitch or in blocks of GOBs.

A GOB has 64 bytes by 4 rows; a block has ``1 << height_log2`` GOBs in a column, and ``1 << depth_log2`` slices.  Blocks are ordered first along x, then y, then
z (envytools, "G80 surface formats": the order that programs see through the address space).  The order in
DRAM, which depends on the storage type and spreads load over partitions, is not modelled here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.graphics.compiled import compiled
from warpwright.graphics.video_memory import VideoMemory

GOB_BYTES_X, GOB_ROWS = 64, 4
LARGEST_SURFACE = 8192
"""Most pixels along a side of a surface."""
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of one image of a surface.

    Attributes:
        address: device address of the first element of slice 0.
        pitch: bytes between rows of a linear image; of a tiled one, the bytes of a row of blocks' first rows.
        height_log2: log2 of GOBs in a column of a block; -1 for a linear image.
        depth_log2: log2 of slices in a block.
        rows: rows of the image.
        slices: slices of the image.
    """

    address: int
    pitch: int
    height_log2: int
    depth_log2: int
    rows: int
    slices: int = 1

    @property
    def is_linear(self) -> bool:
        return self.height_log2 < 0

    @property
    def size(self) -> int:
        """Bytes from the image's first byte to its last."""
        if self.is_linear:
            return self.pitch * self.rows * self.slices
        height, depth = GOB_ROWS << self.height_log2, 1 << self.depth_log2
        return self.pitch * (-(-self.rows // height) * height) * (-(-self.slices // depth) * depth)

    def span(self, x_bytes: tuple[int, int], y: tuple[int, int], z: int = 0) -> tuple[int, int]:
        """Offsets of a rectangle's first byte and past its last byte, with the sides given as first and last; for a tiled image, of whole rows of blocks.

        Columns beyond the pitch of a tiled image follow its last column of blocks.
        """
        if self.is_linear:
            ends = (y[0] * self.pitch, y[1] * self.pitch)
            return min(ends) + x_bytes[0], max(ends) + x_bytes[1] + 1
        pitch, height_log2, depth_log2, slab = self.key()
        rows_log2 = height_log2 + 2
        row, first = pitch << rows_log2 << depth_log2, (z >> depth_log2) * slab
        columns = ((x_bytes[1] >> 6) + 1) * (GOB_BYTES_X << rows_log2 << depth_log2)
        return first + (y[0] >> rows_log2) * row, first + (y[1] >> rows_log2) * row + max(row, columns)

    def key(self) -> tuple[int, int, int, int]:
        """Arguments of :func:`byte_offset` in addition to the position: pitch, log2s, and bytes between blocks along z."""
        height, depth = GOB_ROWS << max(0, self.height_log2), 1 << self.depth_log2
        return self.pitch, self.height_log2, self.depth_log2, self.pitch * (-(-self.rows // height) * height) * depth

    def offsets(self, x_bytes: Integers, y: Integers, z: int | Integers = 0) -> Integers:
        """Offsets from the address, for arrays that broadcast against each other."""
        if self.is_linear:
            return y * self.pitch + x_bytes
        pitch, height_log2, depth_log2, slab = self.key()
        rows_log2 = height_log2 + 2
        block = GOB_BYTES_X << rows_log2 << depth_log2
        at = (x_bytes >> 6) * block + (y >> rows_log2) * (pitch << rows_log2 << depth_log2)
        at = at + (np.asarray(z) >> depth_log2) * slab + ((np.asarray(z) & (1 << depth_log2) - 1) << rows_log2 << 6)
        return at + ((y & (1 << rows_log2) - 1) << 6) + (x_bytes & 63)


def tiled(address: int, row_bytes: int, tile_mode: int, rows: int, slices: int = 1) -> Layout:
    """The layout of a tiled image from its register TILE_MODE: bits 4 to 7 are the height, bits 8 to 11 the depth."""
    pitch = -(-row_bytes // GOB_BYTES_X) * GOB_BYTES_X
    return Layout(address, pitch, tile_mode >> 4 & 15, tile_mode >> 8 & 15, rows, slices)


def linear(address: int, pitch: int, rows: int) -> Layout:
    """The layout of rows with a pitch."""
    return Layout(address, pitch, -1, 0, rows)


@compiled
def byte_offset(key: tuple[int, int, int, int], x_bytes: int, y: int, z: int) -> int:
    """Offset of a byte from the image's address, for compiled stages; ``key`` is :meth:`Layout.key`."""
    pitch, height_log2, depth_log2, slab = key
    if height_log2 < 0:
        return y * pitch + x_bytes
    rows_log2 = height_log2 + 2
    at = (x_bytes >> 6) * (64 << rows_log2 << depth_log2) + (y >> rows_log2) * (pitch << rows_log2 << depth_log2)
    at += (z >> depth_log2) * slab + ((z & (1 << depth_log2) - 1) << rows_log2 << 6)
    return at + ((y & (1 << rows_log2) - 1) << 6) + (x_bytes & 63)


Side = tuple[int, int, int, int, int, int, int, int]
"""A side of a copy: the image's offset in memory, x in bytes, y, z, and the layout's key."""


@compiled
def _copy_rows(
    memory: npt.NDArray[np.uint8],
    target: Side,
    source: Side,
    length: int,
    count: int,
) -> None:
    """Copy a rectangle of bytes; a side is (offset in memory, x, y, z, and the key's four)."""
    t_key, s_key = (target[4], target[5], target[6], target[7]), (source[4], source[5], source[6], source[7])
    for y in range(count):
        done = 0
        while done < length:
            # Copy up to the end of a GOB's row on both sides.
            step = length - done
            if t_key[1] >= 0:
                step = min(step, 64 - (target[1] + done & 63))
            if s_key[1] >= 0:
                step = min(step, 64 - (source[1] + done & 63))
            to = target[0] + byte_offset(t_key, target[1] + done, target[2] + y, target[3])
            at = source[0] + byte_offset(s_key, source[1] + done, source[2] + y, source[3])
            memory[to : to + step] = memory[at : at + step]
            done += step


@dataclass(frozen=True, slots=True)
class Place:
    """A corner of a rectangle in an image: x in bytes."""

    layout: Layout
    x_bytes: int
    y: int
    z: int = 0

    def words(self, memory: VideoMemory, length: int, count: int, what: str) -> Side:
        """The side of a copy, after a check that the rectangle is within a buffer."""
        layout = self.layout
        base = check(
            memory, layout, (self.x_bytes, self.x_bytes + length - 1), (self.y, self.y + count - 1), self.z, what
        )
        return base, self.x_bytes, self.y, self.z, *layout.key()


def copy_rectangle(memory: VideoMemory, target: Place, source: Place, length: int, count: int, what: str) -> None:
    """Copy ``count`` rows of ``length`` bytes.

    Raises:
        MemoryFaultError: a side is not within a buffer.
    """
    if length and count:
        to = target.words(memory, length, count, what + " (to)")
        at = source.words(memory, length, count, what + " (from)")
        _copy_rows(memory.bytes, to, at, length, count)


def check(memory: VideoMemory, layout: Layout, x_bytes: tuple[int, int], y: tuple[int, int], z: int, what: str) -> int:
    """Check that a rectangle (first and last inclusive) is in memory; returns the memory offset of the image's address.

    Raises:
        MemoryFaultError: it is not within the buffer of the image's address.
    """
    first, end = layout.span(x_bytes, y, z)
    # A position far outside the image may be an address of another buffer.
    first, end = min(first, 0), max(end, 1)
    return memory.place(layout.address + first, end - first, what) - first


def read_elements(memory: VideoMemory, base: int, offsets: Integers, size: int) -> npt.NDArray[np.uint8]:
    """Read the elements at byte offsets of an image whose offset :func:`check` returned, as bytes in a last axis of ``size``."""
    return memory.bytes[(base + offsets)[..., None] + np.arange(size)]


def write_elements(memory: VideoMemory, base: int, offsets: Integers, elements: npt.NDArray[np.uint8]) -> None:
    """Write elements, whose last axis is their bytes, at byte offsets of an image whose offset :func:`check` returned."""
    memory.bytes[(base + offsets)[..., None] + np.arange(elements.shape[-1])] = elements
