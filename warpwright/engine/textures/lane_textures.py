"""Texture fetches of one lane in compiled kernels: texels and weights.

Results equal those of ``sampling.py`` bit for bit. All numbers are int64 unless they are called coordinates; ``row`` is the address of an object's row
(``table_fields.py``), and ``level`` that of a level's fields within it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpwright.engine.textures.access_words import (
    AT_COMPONENT,
    AT_LEVEL,
    AT_OFFSETS,
    AT_SHAPE,
    EXPLICIT,
    FETCH,
    GATHER,
    NO_LEVEL,
    SHAPE_1D,
    SHAPE_AXES,
    SHAPE_LAYERED,
    SLOPES,
)
from warpwright.engine.textures.intrinsics import (
    float_of,
    part,
    read_64,
    read_s32,
    read_u32,
    workspace,
    write_32,
    write_64,
)
from warpwright.engine.textures.positions import along, clip, inside, level_of, level_of_slopes, split
from warpwright.engine.textures.sampling import FRACTION
from warpwright.engine.textures.table_fields import (
    ADDRESS,
    CHANNELS,
    IS_BUFFER,
    LAYERS,
    LEVEL,
    LEVEL_BYTES,
    LEVELS,
    LINEAR,
    MIP_LINEAR,
    NORMALIZED,
)
from warpwright.engine.textures.texels import QUAD_BYTES, address_of, plain, put_nothing, put_plain, put_sum, raw_at

quads_workspace = workspace(4 * QUAD_BYTES // 8)
GATHERED = (2, 3, 1, 0)


@part
def with_axis(axis: int, i: int, x: int, y: int, z: int) -> tuple[int, int, int]:
    """The place with its coordinate along one axis replaced by ``i``."""
    if axis == 0:
        return i, y, z
    if axis == 1:
        return x, i, z
    return x, y, i


@part
def offset_of(packed: int, axis: int, gather: bool) -> int:
    """Texels to add along an axis: a field of four bits per axis, or of six bits in a byte for a gather."""
    bits, step = (6, 8) if gather else (4, 4)
    return (packed << (64 - bits - step * axis)) >> (64 - bits)


class Place(NamedTuple):
    """Where one lane samples: coordinates along the axes, layer, and packed offsets; ``to_host`` is the host address of device address 0."""

    row: int
    coordinates: int
    axes: int
    layer: int
    packed: int
    to_host: int


@part
def find_quads(place: Place, level: int, total: int, filtered: bool, gather: bool, quads: int) -> int:
    """Write one square of four texels, or two of them for three axes; returns the device address of the first texel."""
    row, axes, layer = place.row, place.axes, place.layer
    normalized = read_64(row + NORMALIZED)
    x0 = x1 = y0 = y1 = f = g = h = np.int64(0)
    z0 = z1 = layer
    for axis in range(axes):
        size, mode = read_64(level + 8 * axis), read_64(row + ADDRESS + 8 * axis)
        u = along(float_of(read_u32(place.coordinates + 128 * axis)), size, mode, normalized)
        fixed = split(u + (offset_of(place.packed, axis, gather) << FRACTION), size, mode, normalized, filtered)
        here, there = inside(fixed >> 8, size, mode, normalized), inside((fixed >> 8) + 1, size, mode, normalized)
        x0, y0, z0 = with_axis(axis, here, x0, y0, z0)
        x1, y1, z1 = with_axis(axis, there, x1, y1, z1)
        f, g, h = with_axis(axis, fixed & 255, f, g, h)
    behind = (h * total + 127) >> 8
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
            at = np.int64(0) if x < 0 or y < 0 or z < 0 else address_of(row, level, x, y, z) + place.to_host
            write_64(quad + 8 * corner, at)
    return address_of(row, level, x0, y0, z0)


@part
def nearest(
    row: int, level: int, coordinates: int, axes: int, layer: int, packed: int, to_host: int
) -> tuple[int, int]:
    """Host address of the nearest texel (0 for the border) and its device address."""
    normalized = read_64(row + NORMALIZED)
    x = y = np.int64(0)
    z = layer
    for axis in range(axes):
        size, mode = read_64(level + 8 * axis), read_64(row + ADDRESS + 8 * axis)
        u = along(float_of(read_u32(coordinates + 128 * axis)), size, mode, normalized)
        i = inside((u >> FRACTION) + offset_of(packed, axis, False), size, mode, normalized)
        x, y, z = with_axis(axis, i, x, y, z)
    first = address_of(row, level, x, y, z)
    return (np.int64(0) if x < 0 or y < 0 or z < 0 else first + to_host), first


@part
def sample(
    row: int, coordinates: int, axes: int, layer: int, packed: int, level: float, values: int, to_host: int
) -> int:
    """Take one lane's sample; returns the first texel's device address."""
    fixed = level_of(row, level)
    if not read_64(row + MIP_LINEAR):
        fixed = (fixed + 128) >> 8 << 8
    number, share = fixed >> 8, fixed & 255
    here = row + LEVEL + LEVEL_BYTES * number
    more = row + LEVEL + LEVEL_BYTES * min(number + 1, read_64(row + LEVELS) - 1)
    quads = quads_workspace()
    if read_64(row + LINEAR):
        place = Place(row, coordinates, axes, layer, packed, to_host)
        first = find_quads(place, here, 256 - share, True, False, quads)
        count = 2 if axes == 3 else 1
        if share:
            find_quads(place, more, share, True, False, quads + count * QUAD_BYTES)
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
def element(row: int, numbers: int, axes: int, layer: int, packed: int, level: int, values: int, to_host: int) -> int:
    """Read one lane's texel at integer coordinates."""
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
        x, y, z = with_axis(axis, i, x, y, z)
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
    """Read one channel of the four texels that a filter would use."""
    quads = quads_workspace()
    place = Place(row, coordinates, axes, layer, packed, to_host)
    first = find_quads(place, row + LEVEL, 256, False, True, quads)
    for n in range(4):
        found = np.int64(0)
        if component < read_64(row + CHANNELS):
            found = plain(row, raw_at(row, read_64(quads + 8 * GATHERED[n]), component), component)
        write_32(values + 128 * n, found)
    return first


@part
def fetch(row: int, request: int, words: int, to_host: int) -> int:
    """Carry out one lane's fetch from the texture whose handle is at ``words``; returns the first texel's device address."""
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
