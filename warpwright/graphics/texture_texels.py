"""Texels for the compiled texture unit: the location of an element and the value of its bits, in double precision.

Integer elements are whole numbers, which doubles represent exactly. A texel outside the texture's buffer is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpwright.engine.textures.intrinsics import float_of, part, read_64, read_u8, read_u16, read_u32, write_64
from warpwright.graphics.texture_fields import (
    DXN1,
    DXN2,
    DXT1,
    DXT23,
    FLOAT,
    FULL_BYTE,
    LEVEL,
    MOST_NOTED,
    NO_BYTE,
    NOTE_BASE,
    NOTE_COUNT,
    NOTE_LINES_AT,
    NOTE_SHIFT,
    PLAIN,
    SHARED_EXPONENT,
    SINT,
    SNORM,
    SNORM_HALF,
    SOURCE_ONE,
    SOURCE_ONE_INTEGER,
    SOURCE_RED,
    TEXTURE,
    UINT,
    UNORM,
)

BASE, LIMIT, CODING, ELEMENT = TEXTURE["base"], TEXTURE["limit"], TEXTURE["format"], TEXTURE["element_bytes"]
BLOCK, LAYER_BYTES, SRGB, INTEGER = TEXTURE["block_log2"], TEXTURE["layer_bytes"], TEXTURE["srgb"], TEXTURE["integer"]
BYTE_0, NOTES = TEXTURE["byte_0"], TEXTURE["notes"]
TYPE_0, SOURCE_0, WORD_0 = TEXTURE["type_0"], TEXTURE["source_0"], TEXTURE["word_0"]
PITCH, HEIGHT_LOG2, DEPTH_LOG2 = LEVEL["pitch"], LEVEL["height_log2"], LEVEL["depth_log2"]
SLAB, OFFSET = LEVEL["slab"], LEVEL["offset"]
ONE_BITS = float(0x3F800000)


@part
def place_of(row: int, level: int, x: int, y: int, z: int, layer: int) -> int:
    """Offset from the texture's base of the element that holds a texel (envytools, "G80 surface formats")."""
    shift = read_64(row + BLOCK)
    across, down = (x >> shift) * read_64(row + ELEMENT), y >> shift
    pitch, high, deep = read_64(level + PITCH), read_64(level + HEIGHT_LOG2), read_64(level + DEPTH_LOG2)
    at = read_64(level + OFFSET) + layer * read_64(row + LAYER_BYTES)
    if high < 0:
        return at + down * pitch + across
    rows = high + 2
    at += (across >> 6 << 6 << rows << deep) + (down >> rows) * (pitch << rows << deep)
    at += (z >> deep) * read_64(level + SLAB) + ((z & (1 << deep) - 1) << rows << 6)
    return at + ((down & (1 << rows) - 1) << 6) + (across & 63)


@part
def column_of(level: int, x: int) -> int:
    """The part of :func:`place_of` that depends on x, for elements of four bytes."""
    at, high = 4 * x, read_64(level + HEIGHT_LOG2)
    return at if high < 0 else (at >> 6 << 6 << high + 2 << read_64(level + DEPTH_LOG2)) + (at & 63)


@part
def row_of(level: int, y: int) -> int:
    """The part of :func:`place_of` that depends on y, for slice 0."""
    pitch, high = read_64(level + PITCH), read_64(level + HEIGHT_LOG2)
    if high < 0:
        return y * pitch
    rows = high + 2
    return (y >> rows) * (pitch << rows << read_64(level + DEPTH_LOG2)) + ((y & (1 << rows) - 1) << 6)


@part
def weighted_byte(row: int, n: int, words: Any, weights: Any) -> float:
    """Component ``n`` of the mean of four elements of bytes, whose weights are 65536ths."""
    shift = read_64(row + BYTE_0 + 8 * n)
    if shift >= NO_BYTE:
        return 1.0 if shift == FULL_BYTE else 0.0
    a, b, c, d = words
    p, q, r, s = weights
    total = (a >> shift & 255) * p + (b >> shift & 255) * q + (c >> shift & 255) * r + (d >> shift & 255) * s
    return np.float64(total) / 16711680.0


@part
def small_float(raw: int, bits: int) -> float:
    """An unsigned float with 5 bits of exponent and a given number of bits of significand."""
    exponent, fraction = raw >> bits & 31, raw & ((1 << bits) - 1)
    if exponent == 31:
        return np.nan if fraction else np.inf
    if exponent == 0:
        return fraction * 2.0 ** float(-14 - bits)
    return (fraction + (1 << bits)) * 2.0 ** float(exponent - 15 - bits)


@part
def number(raw: int, bits: int, kind: int) -> float:
    """The value of a channel's bits."""
    if kind == FLOAT:
        if bits == 32:
            return np.float64(float_of(raw))
        if bits == 16:
            value = small_float(raw & 0x7FFF, 10)
            return -value if raw >> 15 else value
        return small_float(raw, bits - 5)
    if kind == UINT:
        return np.float64(raw)
    if kind == SNORM or kind == SINT or kind == SNORM_HALF:
        whole = raw - (1 << bits) if raw >> bits - 1 else raw
        return np.float64(whole) if kind == SINT else max(np.float64(whole) / np.float64((1 << bits - 1) - 1), -1.0)
    return np.float64(raw) / np.float64((1 << bits) - 1)


@part
def linear(value: float) -> float:
    """The linear value of an sRGB one, 0 to 1 (IEC 61966-2-1)."""
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


LINEAR = np.array([c / 255.0 / 12.92 if c <= 10 else ((c / 255.0 + 0.055) / 1.055) ** 2.4 for c in range(256)])
"""Linear values of the 8-bit codes."""


@part
def channel_of(row: int, n: int, element: int) -> float:
    """A channel of an element that is not compressed."""
    where = row + WORD_0 + 24 * n
    bits = read_64(where + 16)
    if bits == 0:
        return 0.0
    size = read_64(row + ELEMENT)
    if size >= 4:
        raw = read_u32(element + 4 * read_64(where))
    elif size == 2:
        raw = read_u16(element)
    else:
        raw = read_u8(element)
    raw = raw >> read_64(where + 8) & ((1 << bits) - 1)
    if n < 3 and bits == 8 and read_64(row + SRGB):
        return LINEAR[raw]
    return number(raw, bits, read_64(row + TYPE_0 + 8 * n))


# --- blocks of 4 x 4 texels -------------------------------------------------------------------------
@part
def expanded(colour: int, n: int) -> float:
    """Red, green or blue of a 5:6:5 colour."""
    if n == 0:
        return np.float64(colour >> 11 & 31) / 31.0
    if n == 1:
        return np.float64(colour >> 5 & 63) / 63.0
    return np.float64(colour & 31) / 31.0


@part
def block_colour(block: int, at: int, n: int, four: bool) -> float:
    """A colour channel of texel ``at`` of a block of two colours; ``four`` means that the block never has transparent black."""
    first, second = read_u16(block), read_u16(block + 2)
    code = read_u32(block + 4) >> 2 * at & 3
    a, b = expanded(first, n), expanded(second, n)
    if code == 0:
        return a
    if code == 1:
        return b
    if four or first > second:
        return (2.0 * a + b) / 3.0 if code == 2 else (a + 2.0 * b) / 3.0
    return (a + b) / 2.0 if code == 2 else 0.0


@part
def block_number(block: int, at: int, kind: int) -> float:
    """Texel ``at`` of a block of two 8-bit numbers and three bits per texel."""
    first, second = read_u8(block), read_u8(block + 1)
    bit = 3 * at
    code = (read_u16(block + 2) | read_u32(block + 4) << 16) >> bit & 7
    a, b = number(first, 8, kind), number(second, 8, kind)
    signed = kind == SNORM
    if code < 2:
        return a if code == 0 else b
    if signed:
        first, second = first - 256 if first > 127 else first, second - 256 if second > 127 else second
    if first > second:
        return (a * np.float64(8 - code) + b * np.float64(code - 1)) / 7.0
    if code < 6:
        return (a * np.float64(6 - code) + b * np.float64(code - 1)) / 5.0
    if code == 6:
        return -1.0 if signed else 0.0
    return 1.0


@part
def block_channel(row: int, coding: int, n: int, block: int, at: int) -> float:
    """A channel of a texel of a compressed block."""
    kind = read_64(row + TYPE_0)
    if coding == DXN1 or coding == DXN2:
        count = 1 if coding == DXN1 else 2
        return block_number(block + 8 * n, at, kind) if n < count else 0.0
    if n < 3:
        value = block_colour(block + (0 if coding == DXT1 else 8), at, n, coding != DXT1)
        return linear(value) if read_64(row + SRGB) else value
    if coding == DXT1:
        transparent = read_u16(block) <= read_u16(block + 2) and read_u32(block + 4) >> 2 * at & 3 == 3
        return 0.0 if transparent else 1.0
    if coding == DXT23:
        return np.float64(read_u32(block + 4 * (at >> 3)) >> 4 * (at & 7) & 15) / 15.0
    return block_number(block, at, UNORM)


@part
def raw_channel(row: int, n: int, element: int, x: int, y: int) -> float:
    """A channel of a texel in the element that holds it."""
    coding = read_64(row + CODING)
    if coding == PLAIN:
        return channel_of(row, n, element)
    if coding == SHARED_EXPONENT:
        word = read_u32(element)
        return np.float64(word >> 9 * n & 511) * 2.0 ** float((word >> 27) - 24) if n < 3 else 0.0
    return block_channel(row, coding, n, element, (y & 3) * 4 + (x & 3))


@part
def note(notes: int, element: int) -> None:
    """Record the line of a texel for the timing model, once per quad."""
    line = (element - read_64(notes + 8 * NOTE_BASE)) >> read_64(notes + 8 * NOTE_SHIFT)
    count = read_64(notes + 8 * NOTE_COUNT)
    first = notes + 8 * NOTE_LINES_AT
    for n in range(count):
        if read_64(first + 8 * n) == line:
            return
    if count < MOST_NOTED:
        write_64(first + 8 * count, line)
        write_64(notes + 8 * NOTE_COUNT, count + 1)


@part
def texel(row: int, level: int, x: int, y: int, z: int, layer: int) -> Any:
    """The four components of a texel as the program sees them."""
    at = place_of(row, level, x, y, z, layer)
    there = at >= 0 and at + read_64(row + ELEMENT) <= read_64(row + LIMIT)
    element = read_64(row + BASE) + at
    if there and read_64(row + NOTES):
        note(read_64(row + NOTES), element)
    first = mapped(row, 0, element, x, y, there)
    second = mapped(row, 1, element, x, y, there)
    third = mapped(row, 2, element, x, y, there)
    return first, second, third, mapped(row, 3, element, x, y, there)


@part
def mapped(row: int, n: int, element: int, x: int, y: int, there: bool) -> float:
    """Component ``n``, taken from the channel or constant that the header selects."""
    source = read_64(row + SOURCE_0 + 8 * n)
    if source == SOURCE_ONE:
        return ONE_BITS if read_64(row + INTEGER) else 1.0
    if source == SOURCE_ONE_INTEGER:
        return 1.0
    if source < SOURCE_RED or not there:
        return 0.0
    return raw_channel(row, source - SOURCE_RED, element, x, y)
