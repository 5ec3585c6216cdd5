"""Texels for compiled kernels: their addresses, conversion and weighted sums.

Results equal those of ``sampling.py`` bit for bit.  All numbers are int64; ``row`` is the address of an object's row (``table_fields.py``).
"""

from __future__ import annotations

import math

import numpy as np

from warpwright.engine.textures.intrinsics import (
    bits_of,
    part,
    read_64,
    read_s8,
    read_s16,
    read_s32,
    read_u8,
    read_u16,
    read_u32,
    write_32,
)
from warpwright.engine.textures.positions import clip
from warpwright.engine.textures.sampling import GUARD, SRGB, SRGB_GUARD, SRGB_LATE
from warpwright.engine.textures.table import FLOAT, SIGNED, UNSIGNED
from warpwright.engine.textures.table_fields import (
    AS_INTEGER,
    BORDER_ELEMENT,
    CHANNEL_BYTES,
    CHANNELS,
    KIND,
    LEVEL_ADDRESS,
    LEVEL_ROW,
    LEVEL_SLICE,
    SRGB_FLAG,
)

SRGB_BITS = (SRGB.astype(np.uint16).view(np.float16)).astype(np.float32).view(np.uint32).astype(np.int64)
QUAD_BYTES = 72
"""Layout of a square of four texels in the workspace: host addresses (0 for the border), weights, and a mask of the texels that take part."""


@part
def address_of(row: int, level: int, x: int, y: int, z: int) -> int:
    """Device address of an element; ``level`` is the address of the level's fields."""
    element = read_64(row + CHANNEL_BYTES) * read_64(row + CHANNELS)
    return (
        read_64(level + LEVEL_ADDRESS)
        + max(z, 0) * read_64(level + LEVEL_SLICE)
        + max(y, 0) * read_64(level + LEVEL_ROW)
        + max(x, 0) * element
    )


@part
def raw_at(row: int, at: int, channel: int) -> int:
    """One channel of the element at a host address, as an integer of its own size; address 0 stands for the border."""
    if at == 0:
        return read_64(row + BORDER_ELEMENT + 8 * channel)
    size, signed = read_64(row + CHANNEL_BYTES), read_64(row + KIND) == SIGNED
    at = (at & -size) + size * channel
    if size == 4:
        return read_s32(at) if signed else read_u32(at)
    if size == 2:
        return read_s16(at) if signed else read_u16(at)
    return read_s8(at) if signed else read_u8(at)


@part
def widened(half: int) -> int:
    """Bits of the f32 with a half's value."""
    sign, magnitude = (half & 0x8000) << 16, half & 0x7FFF
    if magnitude >= 0x7C00:
        return sign | 0x7F800000 | (magnitude & 0x3FF) << 13
    if magnitude < 0x400:
        return sign | bits_of(np.float32(magnitude) * np.float32(2.0**-24))
    return sign | (magnitude << 13) + (112 << 23)


@part
def plain(row: int, raw: int, channel: int) -> int:
    """Bits of an element as an unfiltered fetch returns them."""
    size, kind = read_64(row + CHANNEL_BYTES), read_64(row + KIND)
    if read_64(row + AS_INTEGER) or (kind == FLOAT and size == 4):
        return raw
    if kind == FLOAT:
        return widened(raw)
    if read_64(row + SRGB_FLAG) and kind == UNSIGNED and size == 1 and channel < 3:
        return SRGB_BITS[raw]
    most = (np.int64(1) << (8 * size - (1 if kind == SIGNED else 0))) - 1
    return bits_of(np.float32(max(np.float64(raw) / np.float64(most), -1.0)))


@part
def put_plain(row: int, at: int, values: int) -> None:
    """Store one lane's texel unfiltered."""
    channels = read_64(row + CHANNELS)
    for channel in range(4):
        found = plain(row, raw_at(row, at, channel), channel) if channel < channels else np.int64(0)
        write_32(values + 128 * channel, found)


@part
def put_nothing(values: int) -> None:
    for channel in range(4):
        write_32(values + 128 * channel, 0)


@part
def integer_sum(row: int, quads: int, count: int, channel: int) -> int:
    size = read_64(row + CHANNEL_BYTES)
    total = np.int64(0)
    for quad in range(quads, quads + count * QUAD_BYTES, QUAD_BYTES):
        for corner in range(0, 32, 8):
            weight = read_64(quad + 32 + corner)
            if weight != 0:
                total += weight * raw_at(row, read_64(quad + corner), channel)
    if read_64(row + KIND) == UNSIGNED:
        value = np.float64(((total * 257 if size == 1 else total) + 128) >> 8) / 65535.0
    elif size == 2:
        value = max(np.float64((total + 128) >> 8) / 32767.0, -1.0)
    else:
        value = max(np.float64(total + ((total + 64 + ((total >> 12) << 4)) >> 7)) / 32767.0, -1.0)
    return bits_of(np.float32(value))


@part
def shifted(x: int, left: int) -> int:
    return x << min(left, 40) if left >= 0 else x >> min(-left, 62)


@part
def rounded(total: int, scale: int, bits: int, bias: int) -> int:
    """As ``sampling.rounded``."""
    size = abs(total)
    if size == 0:
        return np.int64(0)
    exponent = max(np.int64(math.frexp(np.float64(size))[1]) - 1 + scale, 1 - bias)
    drop = exponent - bits - scale
    if drop > 60:
        kept = np.int64(0)
    elif drop > 0:
        kept = (size + (np.int64(1) << (drop - 1))) >> drop
    else:
        kept = size << min(-drop, 62)
    if kept >> (bits + 1):
        kept >>= 1
        exponent += 1
    field = ((exponent + bias) << bits | kept & ((np.int64(1) << bits) - 1)) if kept >> bits else kept
    wide = 15 if bits == 10 else 31
    sign = np.int64(1) << wide if total < 0 else np.int64(0)
    return sign | min(field, ((np.int64(1) << (wide - bits)) - 1) << bits)


@part
def aligned_sum(row: int, quad: int, channel: int, own: int, srgb: bool) -> int:
    """The weighted sum of a quad's texels, aligned to its largest exponent ``own``."""
    single = not srgb and read_64(row + CHANNEL_BYTES) == 4
    bits, sign_at = (23, 31) if single else (10, 15)
    guard = SRGB_GUARD if srgb else GUARD
    special = (np.int64(1) << (sign_at - bits)) - 1
    takes_part = read_64(quad + 64)
    added = np.int64(0)
    for corner in range(4):
        weight = read_64(quad + 32 + 8 * corner)
        if weight == 0 or not takes_part >> corner & 1:
            continue
        texel = raw_at(row, read_64(quad + 8 * corner), channel)
        if srgb:
            texel = SRGB[texel & 255]
        exponent, mantissa = texel >> bits & special, texel & ((np.int64(1) << bits) - 1)
        if exponent > 0:
            mantissa |= np.int64(1) << bits
        elif single:
            mantissa = np.int64(0)
        kept = mantissa << guard if guard >= 0 else mantissa >> -guard
        aligned = kept >> clip(own - max(exponent, 1), 0, 62)
        added += weight * (-aligned if texel >> sign_at & 1 else aligned)
    return added


@part
def float_sum(row: int, quads: int, count: int, channel: int, srgb: bool) -> int:
    """As ``sampling.float_sum``; with ``srgb``, the elements are 8-bit codes."""
    single = not srgb and read_64(row + CHANNEL_BYTES) == 4
    bits, bias, sign_at = (23, 127, 31) if single else (10, 15, 15)
    guard = SRGB_GUARD if srgb else GUARD
    special = (np.int64(1) << (sign_at - bits)) - 1
    nan = plus = minus = False
    all_negative = True
    total, top = np.int64(0), np.int64(0)
    for quad in range(quads, quads + count * QUAD_BYTES, QUAD_BYTES):
        takes_part = read_64(quad + 64)
        own = np.int64(0)
        for corner in range(4):
            if read_64(quad + 32 + 8 * corner) == 0 and not takes_part >> corner & 1:
                continue
            texel = raw_at(row, read_64(quad + 8 * corner), channel)
            late = np.int64(0)
            if srgb:
                late, texel = SRGB_LATE[texel & 255], SRGB[texel & 255]
            exponent, mantissa = texel >> bits & special, texel & ((np.int64(1) << bits) - 1)
            negative = texel >> sign_at & 1 != 0
            if takes_part >> corner & 1:
                all_negative = all_negative and negative
                if exponent == special:
                    nan |= mantissa != 0
                    plus |= mantissa == 0 and not negative
                    minus |= mantissa == 0 and negative
            holds = exponent > 0 or (mantissa != 0 and not single)
            if read_64(quad + 32 + 8 * corner) != 0 and holds:
                own = max(own, max(exponent, 1) + late)
        added = aligned_sum(row, quad, channel, own, srgb)
        if quad == quads:
            total, top = added, own
        else:
            grid = max(own, top - 2)
            total = shifted(total, top - grid) + shifted(added, own - grid)
            top = grid
    if nan or (plus and minus):
        return np.int64(0x7FFFFFFF) if single else np.int64(0x7FFFE000)
    sign = np.int64(1) << sign_at
    if plus:
        result = special << bits
    elif minus:
        result = special << bits | sign
    else:
        result = rounded(total, top - bias - bits - guard - 8, bits, bias)
        if result == 0 and all_negative:
            result = sign
    return result if single else widened(result)


@part
def put_sum(row: int, quads: int, count: int, values: int) -> None:
    """Store one lane's filtered results."""
    srgb = read_64(row + SRGB_FLAG) != 0 and read_64(row + CHANNEL_BYTES) == 1
    is_float = read_64(row + KIND) == FLOAT
    channels = read_64(row + CHANNELS)
    for channel in range(4):
        found = np.int64(0)
        if channel < channels:
            if is_float or (srgb and channel < 3):
                found = float_sum(row, quads, count, channel, srgb and not is_float)
            else:
                found = integer_sum(row, quads, count, channel)
        write_32(values + 128 * channel, found)
