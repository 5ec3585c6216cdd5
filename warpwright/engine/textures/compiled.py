"""Textures and surfaces lane by lane in Numba, for compiled kernels: what ``sampling.py`` and ``surfaces.py`` say, bit for bit.

:data:`serve` is what a compiled warp calls.  What is rare (cubes and queries) and what is at fault goes on to Python
(``LAUNCH.texture_rare``), which does it all or tells what is wrong.  All numbers are int64 unless they are called
coordinates; places in memory are host addresses.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from warpwright.engine.abi import LAUNCH, WARP
from warpwright.engine.textures.fields import (
    ADDRESS,
    AS_INTEGER,
    AXES,
    BORDER_ELEMENT,
    CHANNEL_BYTES,
    CHANNELS,
    CUBE,
    HANDLE,
    IS_BUFFER,
    KIND,
    LAYERS,
    LEVEL,
    LEVEL_ADDRESS,
    LEVEL_BYTES,
    LEVEL_ROW,
    LEVEL_SLICE,
    LEVELS,
    LINEAR,
    MIP_LINEAR,
    NORMALIZED,
    PURPOSE,
    ROW_BYTES,
    SRGB_FLAG,
)
from warpwright.engine.textures.machine import (
    bits_of,
    c_function,
    call_texture,
    float_of,
    part,
    read_64,
    read_s8,
    read_s16,
    read_s32,
    read_u8,
    read_u16,
    read_u32,
    workspace,
    write_8,
    write_16,
    write_32,
    write_64,
)
from warpwright.engine.textures.positions import along, clip, inside, level_of, level_of_slopes, split
from warpwright.engine.textures.sampling import (
    FRACTION,
    GUARD,
    SRGB,
    SRGB_GUARD,
    SRGB_LATE,
)
from warpwright.engine.textures.serve import NO_LEVEL
from warpwright.engine.textures.table import (
    FLOAT,
    INDEX_BITS,
    SIGNED,
    SURFACE,
    TEXTURE,
    UNSIGNED,
)
from warpwright.isa import textures as asked

WARP_LAUNCH = WARP["launch"]
ROWS, ROW_COUNT, RARE = LAUNCH["textures"], LAUNCH["texture_count"], LAUNCH["texture_rare"]
HOST_MINUS_DEVICE = LAUNCH["host_minus_device"]
INDEX = (1 << INDEX_BITS) - 1
SHAPE_CUBE, SHAPE_LAYERED = asked.SHAPES.index("CUBE"), asked.SHAPES.index("ARRAY_1D")
SHAPE_1D = asked.SHAPES.index("1D")
SHAPE_AXES = np.array([asked.AXES[shape] for shape in asked.SHAPES])
SHIFTS = {name: sum(list(asked.FIELDS.values())[:n]) for n, name in enumerate(asked.FIELDS)}
AT_SHAPE, AT_LEVEL, AT_COMPONENT, AT_OUTSIDE = SHIFTS["shape"], SHIFTS["level"], SHIFTS["component"], SHIFTS["outside"]
AT_SIZE, AT_OFFSETS = SHIFTS["size"], SHIFTS["offsets"]
FETCH, GATHER, SLOPES, QUERY = asked.FETCH, asked.GATHER, asked.SLOPES, asked.QUERY
LOAD, STORE, STORE_FORMATTED = asked.LOAD, asked.STORE, asked.STORE_FORMATTED
EXPLICIT, SURFACE_CLAMP, TRAP = asked.EXPLICIT, asked.CLAMP, asked.TRAP
SRGB_BITS = (SRGB.astype(np.uint16).view(np.float16)).astype(np.float32).view(np.uint32).astype(np.int64)
QUAD_BYTES = 72
"""Of a square of four texels in the workspace: host addresses (0: border), weights, and a mask of those that take part."""
quads_workspace = workspace(4 * QUAD_BYTES // 8)
GATHERED = (2, 3, 1, 0)


# --- texels ------------------------------------------------------------------------------------------
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
    """One channel of the element at a host address, as an integer of its own size; of the border at 0."""
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
    """Bits of an element as a fetch without a filter gives it."""
    size, kind = read_64(row + CHANNEL_BYTES), read_64(row + KIND)
    if read_64(row + AS_INTEGER) or (kind == FLOAT and size == 4):
        return raw
    if kind == FLOAT:
        return widened(raw)
    if read_64(row + SRGB_FLAG) and kind == UNSIGNED and size == 1 and channel < 3:
        return SRGB_BITS[raw]
    most = (np.int64(1) << (8 * size - (1 if kind == SIGNED else 0))) - 1
    return bits_of(np.float32(max(np.float64(raw) / np.float64(most), -1.0)))


# --- sums --------------------------------------------------------------------------------------------
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
def float_sum(row: int, quads: int, count: int, channel: int, srgb: bool) -> int:
    """As ``sampling.float_sum``; ``srgb``: of codes of eight bits."""
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
    """Filtered results of one lane."""
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


# --- fetches -----------------------------------------------------------------------------------------
@part
def offset_of(packed: int, axis: int, gather: bool) -> int:
    """Texels to add along an axis: four bits each, of a gather six in a byte."""
    bits, step = (6, 8) if gather else (4, 4)
    return (packed << (64 - bits - step * axis)) >> (64 - bits)


@part
def find_quads(
    row: int,
    level: int,
    coordinates: int,
    axes: int,
    layer: int,
    packed: int,
    total: int,
    filtered: bool,
    gather: bool,
    quads: int,
    to_host: int,
) -> int:
    """Write one square of four, or of three axes two; gives the device address of the first texel."""
    normalized = read_64(row + NORMALIZED)
    x0 = x1 = y0 = y1 = f = g = h = np.int64(0)
    z0 = z1 = layer
    for axis in range(axes):
        size, mode = read_64(level + 8 * axis), read_64(row + ADDRESS + 8 * axis)
        u = along(float_of(read_u32(coordinates + 128 * axis)), size, mode, normalized)
        fixed = split(u + (offset_of(packed, axis, gather) << FRACTION), size, mode, normalized, filtered)
        here, there = inside(fixed >> 8, size, mode, normalized), inside((fixed >> 8) + 1, size, mode, normalized)
        if axis == 0:
            x0, x1, f = here, there, fixed & 255
        elif axis == 1:
            y0, y1, g = here, there, fixed & 255
        else:
            z0, z1, h = here, there, fixed & 255
    behind = (h * total + 128) >> 8
    for slice_ in range(2 if axes == 3 else 1):
        quad = quads + QUAD_BYTES * slice_
        share = behind if slice_ else total - behind
        z = z1 if slice_ else z0
        right = (f * share + 128) >> 8
        left = share - right
        above, beside = (left * g + 127) >> 8, (right * g + 128) >> 8
        write_64(quad + 32, left - above)
        write_64(quad + 40, right - beside)
        write_64(quad + 48, above)
        write_64(quad + 56, beside)
        takes_part = 1 | (2 if f else 0) | (4 if g else 0) | (8 if f and g else 0)
        write_64(quad + 64, takes_part if share else 0)
        for corner in range(4):
            x, y = x1 if corner & 1 else x0, y1 if corner >> 1 else y0
            at = np.int64(0) if x < 0 or y < 0 or z < 0 else address_of(row, level, x, y, z) + to_host
            write_64(quad + 8 * corner, at)
    return address_of(row, level, x0, y0, z0)


@part
def nearest(
    row: int, level: int, coordinates: int, axes: int, layer: int, packed: int, to_host: int
) -> tuple[int, int]:
    """Of the nearest texel: host address, 0 for the border, and device address."""
    normalized = read_64(row + NORMALIZED)
    x = y = np.int64(0)
    z = layer
    for axis in range(axes):
        size, mode = read_64(level + 8 * axis), read_64(row + ADDRESS + 8 * axis)
        u = along(float_of(read_u32(coordinates + 128 * axis)), size, mode, normalized)
        i = inside((u >> FRACTION) + offset_of(packed, axis, False), size, mode, normalized)
        if axis == 0:
            x = i
        elif axis == 1:
            y = i
        else:
            z = i
    first = address_of(row, level, x, y, z)
    return (np.int64(0) if x < 0 or y < 0 or z < 0 else first + to_host), first


@part
def sample(
    row: int, coordinates: int, axes: int, layer: int, packed: int, level: float, values: int, to_host: int
) -> int:
    """One lane's sample; gives the first texel's device address."""
    fixed = level_of(row, level)
    if not read_64(row + MIP_LINEAR):
        fixed = (fixed + 128) >> 8 << 8
    number, share = fixed >> 8, fixed & 255
    here = row + LEVEL + LEVEL_BYTES * number
    more = row + LEVEL + LEVEL_BYTES * min(number + 1, read_64(row + LEVELS) - 1)
    quads = quads_workspace()
    if read_64(row + LINEAR):
        first = find_quads(row, here, coordinates, axes, layer, packed, 256 - share, True, False, quads, to_host)
        count = 2 if axes == 3 else 1
        if share:
            find_quads(
                row, more, coordinates, axes, layer, packed, share, True, False, quads + count * QUAD_BYTES, to_host
            )
            count *= 2
        put_sum(row, quads, count, values)
        return first
    at, first = nearest(row, here, coordinates, axes, layer, packed, to_host)
    if not share:
        put_plain(row, at, values)
        return first
    behind, _ = nearest(row, more, coordinates, axes, layer, packed, to_host)
    for n in range(2):
        quad = quads + QUAD_BYTES * n
        for corner in range(4):
            write_64(quad + 8 * corner, behind if n else at)
            write_64(quad + 32 + 8 * corner, 0)
        write_64(quad + 32, share if n else 256 - share)
        write_64(quad + 64, 1)
    put_sum(row, quads, 2, values)
    return first


@part
def put_plain(row: int, at: int, values: int) -> None:
    """One lane's texel, as it is."""
    channels = read_64(row + CHANNELS)
    for channel in range(4):
        found = plain(row, raw_at(row, at, channel), channel) if channel < channels else np.int64(0)
        write_32(values + 128 * channel, found)


@part
def put_nothing(values: int) -> None:
    for channel in range(4):
        write_32(values + 128 * channel, 0)


@part
def element(row: int, numbers: int, axes: int, layer: int, packed: int, level: int, values: int, to_host: int) -> int:
    """One lane's texel by integer coordinates."""
    if not 0 <= level < read_64(row + LEVELS):
        put_nothing(values)
        return np.int64(0)
    fields = row + LEVEL + LEVEL_BYTES * level
    x = y = np.int64(0)
    z = layer
    out = False
    for axis in range(axes):
        i = read_s32(numbers + 128 * axis) + offset_of(packed, axis, False)
        out |= i < 0 or i >= read_64(fields + 8 * axis)
        if axis == 0:
            x = i
        elif axis == 1:
            y = i
        else:
            z = i
    if out:
        put_nothing(values)
        return address_of(row, fields, 0, 0, 0)
    first = address_of(row, fields, x, y, z)
    put_plain(row, first + to_host, values)
    return first


@part
def gather(
    row: int, coordinates: int, axes: int, layer: int, packed: int, component: int, values: int, to_host: int
) -> int:
    """One channel of the four texels that a filter would take."""
    quads = quads_workspace()
    first = find_quads(row, row + LEVEL, coordinates, axes, layer, packed, 256, False, True, quads, to_host)
    for n in range(4):
        found = np.int64(0)
        if component < read_64(row + CHANNELS):
            found = plain(row, raw_at(row, read_64(quads + 8 * GATHERED[n]), component), component)
        write_32(values + 128 * n, found)
    return first


@part
def fetch(row: int, request: int, words: int, to_host: int) -> int:
    """What one lane asks of a texture, whose handle lies at ``words``; gives the first texel's device address."""
    shape, what = request >> AT_SHAPE & 7, request & 15
    explicit = request >> AT_LEVEL & 3 == EXPLICIT
    axes = SHAPE_AXES[shape]
    layered = shape >= SHAPE_LAYERED
    at = words + 128
    number = np.int64(0)
    if layered:
        number = read_u32(at) & 0xFFFF
        at += 128
    layer = clip(number, 0, max(read_64(row + LAYERS), 1) - 1)
    coordinates, rest = at, at + 128 * axes
    packed = np.int64(0)
    if request >> AT_OFFSETS & 1:
        packed = read_s32(rest + (128 if explicit else 0))
    if what == FETCH:
        level = read_s32(rest) if explicit else np.int64(0)
        if layered:
            level = np.int64(-1) if number >= read_64(row + LAYERS) else level
        elif shape == SHAPE_1D and not read_64(row + IS_BUFFER):
            level = np.int64(-1)
        return element(row, coordinates, axes, layer, packed, level, words, to_host)
    if what == GATHER:
        return gather(row, coordinates, axes, layer, packed, request >> AT_COMPONENT & 3, words, to_host)
    detail = NO_LEVEL
    if what == SLOPES:
        detail = level_of_slopes(row, rest, axes)
    elif explicit:
        detail = np.float64(float_of(read_u32(rest)))
    return sample(row, coordinates, axes, layer, packed, detail, words, to_host)


# --- surfaces ----------------------------------------------------------------------------------------
@part
def cut_to_half(bits: int) -> int:
    """Bits of an f32 as a half's, rounded towards zero."""
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
    """One lane's element from its words, one for each channel."""
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
    """The lowest ``size`` bytes of a word, at most four."""
    if size >= 4:
        write_32(to, word)
    elif size == 2:
        write_16(to, word)
    else:
        write_8(to, word)


@part
def access_surface(row: int, request: int, words: int, to_host: int) -> int:
    """One lane's access; gives the device address."""
    what = request & 15
    outside = request >> AT_OUTSIDE & 3
    x, y, z, data = place_of(row, request, words)
    size, most_x, most_y, most_z = limits_of(row, request)
    first = read_64(row + LEVEL + LEVEL_ADDRESS)
    if outside == SURFACE_CLAMP:
        x, y, z = clip(x, 0, most_x) // size * size, clip(y, 0, most_y), clip(z, 0, most_z)
    elif is_outside(x, y, z, most_x, most_y, most_z):
        put_nothing(words)
        return first
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
    """Byte of the row, row, slice, and where the words to store lie."""
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
    """Bytes of a lane, and the last byte, row and slice where they can begin."""
    item = read_64(row + CHANNEL_BYTES) * read_64(row + CHANNELS)
    size = item if request & 15 == STORE_FORMATTED else request >> AT_SIZE & 31
    return size, read_64(row + LEVEL) * item - size, read_64(row + LEVEL + 8) - 1, read_64(row + LEVEL + 16) - 1


@part
def is_outside(x: int, y: int, z: int, most_x: int, most_y: int, most_z: int) -> bool:
    return x < 0 or x > most_x or y < 0 or y > most_y or z < 0 or z > most_z


# --- a warp ------------------------------------------------------------------------------------------
@part
def row_of(rows: int, count: int, handle: int, purpose: int) -> int:
    """Address of a live object's row, or 0."""
    index = handle & INDEX
    row = rows + ROW_BYTES * index
    if 0 < index < count and read_64(row + HANDLE) == handle and read_64(row + PURPOSE) == purpose:
        return row
    return np.int64(0)


@part
def is_common(row: int, request: int, words: int) -> bool:
    """Whether one lane's access is neither rare nor at fault."""
    shape, what = request >> AT_SHAPE & 7, request & 15
    if what >= LOAD:
        x, y, z, _ = place_of(row, request, words)
        _, most_x, most_y, most_z = limits_of(row, request)
        trapped = request >> AT_OUTSIDE & 3 == TRAP and is_outside(x, y, z, most_x, most_y, most_z)
        return most_x >= 0 and shape != SHAPE_CUBE and not trapped
    if what == QUERY or read_64(row + CUBE) or SHAPE_AXES[shape] != read_64(row + AXES):
        return False
    if what == SLOPES:
        slopes = words + 128 * ((2 if shape >= SHAPE_LAYERED else 1) + SHAPE_AXES[shape])
        return not math.isnan(level_of_slopes(row, slopes, SHAPE_AXES[shape]))
    return True


@part
def serve_lanes(launch: int, lanes: int, request: int, values: int, addresses: int) -> bool:
    """False where Python is to do it: nothing has been stored, and no word has been changed."""
    rows, count, to_host = read_64(launch + ROWS), read_64(launch + ROW_COUNT), read_64(launch + HOST_MINUS_DEVICE)
    what = request & 15
    on_surface = what >= LOAD
    purpose = SURFACE if on_surface else TEXTURE
    every_lane = on_surface or what == SLOPES
    known, row = np.int64(-1), np.int64(0)
    for lane in range(32):
        words = values + 4 * lane
        # Of most accesses the handle alone tells what they are.
        if lanes >> lane & 1 and (every_lane or read_u32(words) != known):
            known = read_u32(words)
            row = row_of(rows, count, known, purpose)
            if row == 0 or not is_common(row, request, words):
                return False
    for lane in range(32):
        words = values + 4 * lane
        first = np.int64(0)
        if lanes >> lane & 1:
            if read_u32(words) != known:
                known = read_u32(words)
                row = row_of(rows, count, known, purpose)
            if on_surface:
                first = access_surface(row, request, words, to_host)
            else:
                first = fetch(row, request, words, to_host)
        else:
            put_nothing(words)
        write_64(addresses + 8 * lane, first)
    return True


@c_function(types.void(types.int64, types.uint32, types.int64, types.int64, types.int64, types.int64))
def serve(warp: Any, lanes: Any, request: Any, values: Any, addresses: Any, instruction: Any) -> None:
    """``LAUNCH.texture`` (``engine/abi.py``)."""
    launch = read_64(warp + WARP_LAUNCH)
    if not serve_lanes(launch, np.int64(lanes), request, values, addresses):
        call_texture(read_64(launch + RARE), warp, np.int64(lanes), request, values, addresses, instruction)
