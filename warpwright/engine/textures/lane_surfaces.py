"""Surface accesses of one lane in compiled kernels; results equal those of ``surfaces.py`` bit for bit.

All numbers are int64; ``row`` is the address of an object's row (``table_fields.py``).
"""

from __future__ import annotations

import numpy as np

from warpwright.engine.textures.access_words import (
    AT_OUTSIDE,
    AT_SHAPE,
    AT_SIZE,
    LOAD,
    SHAPE_AXES,
    SHAPE_LAYERED,
    STORE,
    STORE_FORMATTED,
    SURFACE_CLAMP,
)
from warpwright.engine.textures.intrinsics import (
    part,
    read_64,
    read_s32,
    read_u8,
    read_u16,
    read_u32,
    write_8,
    write_16,
    write_32,
)
from warpwright.engine.textures.positions import clip
from warpwright.engine.textures.table import FLOAT, SIGNED
from warpwright.engine.textures.table_fields import (
    CHANNEL_BYTES,
    CHANNELS,
    KIND,
    LEVEL,
    LEVEL_ADDRESS,
    LEVEL_ROW,
    LEVEL_SLICE,
)
from warpwright.engine.textures.texels import put_nothing


@part
def cut_to_half(bits: int) -> int:
    """Bits of an f32 converted to a half, rounded towards zero."""
    sign, magnitude = bits >> 16 & 0x8000, bits & 0x7FFFFFFF
    if magnitude > 0x7F800000:
        return np.int64(0x7FFF)
    if magnitude == 0x7F800000:
        return sign | 0x7C00
    if magnitude >= 143 << 23:
        return sign | 0x7BFF
    if magnitude >= 113 << 23:
        return sign | (magnitude >> 13) - (112 << 10)
    exponent = magnitude >> 23
    if exponent < 103:
        return sign
    return sign | (magnitude & 0x7FFFFF | 0x800000) >> (126 - exponent)


@part
def store_formatted(row: int, to: int, data: int) -> None:
    """Store one lane's element, given as one word per channel."""
    size, kind = read_64(row + CHANNEL_BYTES), read_64(row + KIND)
    for channel in range(read_64(row + CHANNELS)):
        word = read_u32(data + 128 * channel)
        if kind == FLOAT:
            word = word if size == 4 else cut_to_half(word)
        elif kind == SIGNED:
            limit = np.int64(1) << (8 * size - 1)
            word = clip(read_s32(data + 128 * channel), -limit, limit - 1)
        else:
            word = min(word, (np.int64(1) << (8 * size)) - 1)
        store_bytes(to + size * channel, word, size)


@part
def store_bytes(to: int, word: int, size: int) -> None:
    """Store the low ``size`` bytes of a word, at most four."""
    if size >= 4:
        write_32(to, word)
    elif size == 2:
        write_16(to, word)
    else:
        write_8(to, word)


@part
def access_surface(row: int, request: int, words: int, to_host: int) -> int:
    """Carry out one lane's access; returns the device address, or 0 if nothing is accessed."""
    what = request & 15
    outside = request >> AT_OUTSIDE & 3
    x, y, z, data = place_of(row, request, words)
    size, most_x, most_y, most_z = limits_of(row, request)
    first = read_64(row + LEVEL + LEVEL_ADDRESS)
    if outside == SURFACE_CLAMP:
        x, y, z = clip(x, 0, most_x) // size * size, clip(y, 0, most_y), clip(z, 0, most_z)
    elif is_outside(x, y, z, most_x, most_y, most_z):
        put_nothing(words)
        return np.int64(0)
    first += z * read_64(row + LEVEL + LEVEL_SLICE) + y * read_64(row + LEVEL + LEVEL_ROW) + x
    host = first + to_host
    if what == STORE_FORMATTED:
        store_formatted(row, host, data)
    elif what == STORE:
        for n in range(max(size // 4, 1)):
            store_bytes(host + 4 * n, read_u32(data + 128 * n), size)
    put_nothing(words)
    if what == LOAD:
        if size == 1:
            write_32(words, read_u8(host))
        elif size == 2:
            write_32(words, read_u16(host))
        else:
            for n in range(size // 4):
                write_32(words + 128 * n, read_u32(host + 4 * n))
    return first


@part
def place_of(row: int, request: int, words: int) -> tuple[int, int, int, int]:
    """Returns the byte offset in the row, the row, the slice, and the location of the words to store."""
    shape = request >> AT_SHAPE & 7
    axes = SHAPE_AXES[shape]
    at = words + 128
    y = z = np.int64(0)
    if shape >= SHAPE_LAYERED:
        z = read_s32(at)
        at += 128
    x = read_s32(at)
    if request & 15 == STORE_FORMATTED:
        x *= read_64(row + CHANNEL_BYTES) * read_64(row + CHANNELS)
    if axes > 1:
        y = read_s32(at + 128)
    if axes > 2:
        z = read_s32(at + 256)
    return x, y, z, at + 128 * axes


@part
def limits_of(row: int, request: int) -> tuple[int, int, int, int]:
    """Returns the number of bytes that a lane accesses, and the last byte, row and slice at which they can begin."""
    item = read_64(row + CHANNEL_BYTES) * read_64(row + CHANNELS)
    size = item if request & 15 == STORE_FORMATTED else request >> AT_SIZE & 31
    return size, read_64(row + LEVEL) * item - size, read_64(row + LEVEL + 8) - 1, read_64(row + LEVEL + 16) - 1


@part
def is_outside(x: int, y: int, z: int, most_x: int, most_y: int, most_z: int) -> bool:
    return x < 0 or x > most_x or y < 0 or y > most_y or z < 0 or z > most_z
