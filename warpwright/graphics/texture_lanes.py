"""The texture unit for compiled programs; it samples lane by lane, with the level computed from the quad's coordinates.

Samples are defined in OpenGL 3.3, section 3.8.  Positions are rounded to 256ths of a texel and levels truncated to 256ths, the resolution of the chip's
registers; weights are therefore exact, and the rest is computed in double precision.  An anisotropic sample is the mean of up to 16 samples along the
longer axis of the footprint (EXT_texture_filter_anisotropic).  The function is written for Numba (``engine/textures/intrinsics.py``).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numba import types

from warpwright.engine.abi import LAUNCH, WARP
from warpwright.engine.textures.intrinsics import (
    bits_of,
    c_function,
    float_of,
    part,
    read_64,
    read_u32,
    workspace,
    write_32,
    write_64,
)
from warpwright.graphics.texture_fields import (
    BUFFER,
    CLAMP,
    CLAMP_TO_EDGE,
    CUBE,
    FILTERS_PER_CLK,
    LEVEL,
    LEVEL_BYTES,
    LEVELS_AT,
    LINEAR,
    MIP_LINEAR,
    MIP_NONE,
    MIRROR,
    MIRROR_BORDER,
    MIRROR_CLAMP,
    MIRROR_CLAMP_TO_EDGE,
    MOST_NOTED,
    NOTE_COUNT,
    NOTE_LINES_AT,
    NOTE_PLACE,
    NOTE_WORDS,
    NOTES_AT,
    ONE_D,
    ONE_D_ARRAY,
    SAMPLER,
    SAMPLERS,
    SOURCE_ONE_INTEGER,
    TEXTURE,
    THREE_D,
    TWO_D,
    TWO_D_ARRAY,
    TWO_D_SINGLE,
    UNITS,
    WRAP,
)
from warpwright.graphics.texture_texels import (
    BASE,
    INTEGER,
    LAYER_BYTES,
    LIMIT,
    NOTES,
    OFFSET,
    SOURCE_0,
    SRGB,
    column_of,
    linear,
    note,
    row_of,
    texel,
    weighted_byte,
)
from warpwright.isa.nv50 import texture_request
from warpwright.isa.nv50.texture_request import AT, BIAS, FETCH, SIZE
from warpwright.isa.nv50.texture_request import LEVEL as EXPLICIT

AT_ARGUMENTS, AT_DERIVATIVES, AT_X, AT_Y, AT_Z = (AT[n] for n in ("arguments", "derivatives", "x", "y", "z"))
AT_UNIT, AT_SAMPLER = AT["unit"], AT["sampler"]

TYPE, NORMALIZED, LEVELS = TEXTURE["type"], TEXTURE["normalized"], TEXTURE["levels"]
LAYERS, FIXED_DEPTH, SMEAR = TEXTURE["layers"], TEXTURE["fixed_depth"], TEXTURE["smear"]
BYTES, HEADER_ANISOTROPY = TEXTURE["bytes"], TEXTURE["anisotropy"]
WIDTH, HEIGHT, DEPTH = LEVEL["width"], LEVEL["height"], LEVEL["depth"]
WRAP_0, COMPARE, FUNCTION, MAGNIFY = SAMPLER["wrap_0"], SAMPLER["compare"], SAMPLER["function"], SAMPLER["magnify"]
MINIFY, MIP, SAMPLER_BIAS, LEAST = SAMPLER["minify"], SAMPLER["mip"], SAMPLER["bias"], SAMPLER["least"]
MOST, ANISOTROPY, SEAMLESS = SAMPLER["most"], SAMPLER["anisotropy"], SAMPLER["seamless"]
SAMPLES, FILTERS, CYCLES = SAMPLER["samples"], SAMPLER["filters"], SAMPLER["cycles"]
BORDER_0, SRGB_0 = SAMPLER["border_0"], SAMPLER["srgb_0"]
Q_LINES_SHIFT = 32
"""In a quad's record, as read by ``timing/texture_unit.py``: the bit at which the number of lines begins, above the cycles."""
ROW_BYTES = 128
"""Bytes of one argument of all lanes."""
LARGEST = 1.0e9


@part
def coordinate(values: int, n: int, lane: int) -> float:
    """Argument ``n`` of a lane, clamped to a safe range; NaN becomes 0."""
    value = np.float64(float_of(read_u32(values + ROW_BYTES * n + 4 * lane)))
    return min(max(value, -LARGEST), LARGEST) if value == value else 0.0


@part
def whole(values: int, n: int, lane: int) -> int:
    """Argument ``n`` of a lane as a signed integer."""
    raw = read_u32(values + ROW_BYTES * n + 4 * lane)
    return raw - (1 << 32) if raw >> 31 else raw


@part
def level_at(row: int, n: int) -> int:
    return row + LEVELS_AT + LEVEL_BYTES * n


@part
def axes_of(kind: int) -> int:
    """Number of coordinates of a texture, not counting the layer."""
    if kind in (ONE_D, ONE_D_ARRAY, BUFFER):
        return 1
    return 3 if kind in (THREE_D, CUBE) else 2


# --- cube maps --------------------------------------------------------------------------------------
@part
def face_of(x: float, y: float, z: float) -> int:
    """The face that a direction meets: +x, -x, +y, -y, +z, -z."""
    ax, ay, az = abs(x), abs(y), abs(z)
    if ax >= ay and ax >= az:
        return 0 if x >= 0.0 else 1
    if ay >= az:
        return 2 if y >= 0.0 else 3
    return 4 if z >= 0.0 else 5


@part
def on_face(face: int, x: float, y: float, z: float) -> Any:
    """Position of a direction on a face, 0 to 1 along both axes (OpenGL 3.3, table 3.18)."""
    if face < 2:
        sign = 1.0 if face == 0 else -1.0
        s, t, major = -z * sign, -y, x * sign
    elif face < 4:
        sign = 1.0 if face == 2 else -1.0
        s, t, major = x, z * sign, y * sign
    else:
        sign = 1.0 if face == 4 else -1.0
        s, t, major = x * sign, -y, z * sign
    major = max(major, 1.0e-6)
    return (s / major + 1.0) * 0.5, (t / major + 1.0) * 0.5


@part
def direction(face: int, s: float, t: float, depth: float) -> Any:
    """The direction of a position on a face, from -1 to 1, at distance ``depth``."""
    if face == 0:
        return depth, -t, -s
    if face == 1:
        return -depth, -t, s
    if face == 2:
        return s, depth, t
    if face == 3:
        return s, -depth, -t
    if face == 4:
        return s, -t, depth
    return -s, -t, -depth


@part
def beyond(face: int, i: int, j: int, size: int) -> Any:
    """The face and texel onto which a texel beyond an edge falls; beyond a corner, that of the edge along y."""
    if 0 <= i < size and 0 <= j < size:
        return face, i, j
    if j < 0 or j >= size:
        i = min(max(i, 0), size - 1)
    a, b = 2 * i + 1 - size, 2 * j + 1 - size
    a, b = min(max(a, -size), size), min(max(b, -size), size)
    x, y, z = direction(face, np.float64(a), np.float64(b), np.float64(size - 1))
    found = face_of(x, y, z)
    s, t = on_face(found, x, y, z)
    n, m = math.floor(s * np.float64(size)), math.floor(t * np.float64(size))
    return found, min(max(n, 0), size - 1), min(max(m, 0), size - 1)


# --- along an axis ----------------------------------------------------------------------------------
@part
def brought(u: float, size: int, mode: int, filtered: bool) -> float:
    """A position in texels after the part of the addressing mode that applies before texels are chosen."""
    extent = np.float64(size)
    half = 0.5 if filtered else 0.0
    if mode >= MIRROR_CLAMP_TO_EDGE:
        u = abs(u)
    if mode == WRAP:
        return u - math.floor(u / extent) * extent
    if mode == MIRROR:
        return u - math.floor(u / (2.0 * extent)) * 2.0 * extent
    if mode == CLAMP_TO_EDGE or mode == MIRROR_CLAMP_TO_EDGE:
        return min(max(u, half), extent - half)
    if mode == CLAMP or mode == MIRROR_CLAMP:
        return min(max(u, 0.0), extent if filtered else extent - 1.0e-6)
    return min(max(u, -1.0), extent + 1.0)


@part
def inside(i: int, size: int, mode: int) -> int:
    """A texel's index within the image; -1 for the border."""
    if 0 <= i < size:
        return i
    if mode == WRAP:
        return i % size
    if mode == MIRROR:
        i = i % (2 * size)
        return i if i < size else 2 * size - 1 - i
    if mode == CLAMP_TO_EDGE or mode == MIRROR_CLAMP_TO_EDGE:
        return 0 if i < 0 else size - 1
    if (mode == MIRROR_BORDER or mode == MIRROR_CLAMP) and i < 0:
        return 0
    return np.int64(-1)


# --- comparison, border -----------------------------------------------------------------------------
@part
def border(row: int, sampler: int, n: int) -> float:
    """Component ``n`` of the border's colour."""
    if read_64(row + SMEAR):
        n = 0
    raw = read_64(sampler + BORDER_0 + 8 * n)
    if read_64(row + INTEGER):
        return np.float64(raw)
    if read_64(row + SRGB) and n < 3:
        return linear(np.float64(read_64(sampler + SRGB_0 + 8 * n)) / 255.0)
    return np.float64(float_of(raw))


@part
def holds(function: int, reference: float, depth: float) -> bool:
    """Whether a comparison holds; its bits are less, equal, greater."""
    less, equal, greater = function & 1 != 0, function & 2 != 0, function & 4 != 0
    return (less and reference < depth) or (equal and reference == depth) or (greater and reference > depth)


@part
def compared(row: int, sampler: int, reference: float, a: float, b: float, c: float, d: float) -> Any:
    """Replace the components that come from the texture by 1 or 0, the result of the comparison."""
    first, second = read_64(row + SOURCE_0), read_64(row + SOURCE_0 + 8)
    third, fourth = read_64(row + SOURCE_0 + 16), read_64(row + SOURCE_0 + 24)
    depth = a
    if first < 2 or first >= SOURCE_ONE_INTEGER:
        depth = b if 2 <= second < SOURCE_ONE_INTEGER else c if 2 <= third < SOURCE_ONE_INTEGER else d
    if read_64(row + FIXED_DEPTH):
        reference = min(max(reference, 0.0), 1.0)
    depth = np.float64(np.float32(depth))
    result = 1.0 if holds(read_64(sampler + FUNCTION), reference, depth) else 0.0
    a = result if 2 <= first < SOURCE_ONE_INTEGER else a
    b = result if 2 <= second < SOURCE_ONE_INTEGER else b
    c = result if 2 <= third < SOURCE_ONE_INTEGER else c
    d = result if 2 <= fourth < SOURCE_ONE_INTEGER else d
    return a, b, c, d


# --- one level --------------------------------------------------------------------------------------
@part
def one_texel(row: int, sampler: int, level: int, i: int, j: int, k: int, layer: int, reference: float) -> Any:
    """The texel at the indices that :func:`inside` returned, compared if the sampler compares."""
    if i < 0 or j < 0 or k < 0:
        a, b, c, d = border(row, sampler, 0), border(row, sampler, 1), border(row, sampler, 2), border(row, sampler, 3)
    else:
        a, b, c, d = texel(row, level, i, j, k, layer)
    if read_64(sampler + COMPARE):
        return compared(row, sampler, reference, a, b, c, d)
    return a, b, c, d


@part
def on_cube(row: int, sampler: int, level: int, i: int, j: int, face: int, reference: float) -> Any:
    """A texel of a cube map, at a position that may be beyond an edge."""
    size = read_64(level + WIDTH)
    if read_64(sampler + SEAMLESS):
        face, i, j = beyond(face, i, j, size)
    else:
        i, j = min(max(i, 0), size - 1), min(max(j, 0), size - 1)
    return one_texel(row, sampler, level, i, j, np.int64(0), face, reference)


@part
def nearest(row: int, sampler: int, level: int, u: float, v: float, w: float, layer: int, reference: float) -> Any:
    """The texel at a position."""
    kind = read_64(row + TYPE)
    axes = axes_of(kind)
    if kind == CUBE:
        return on_cube(row, sampler, level, math.floor(u), math.floor(v), layer, reference)
    size, mode = read_64(level + WIDTH), read_64(sampler + WRAP_0)
    i = inside(math.floor(brought(u, size, mode, False)), size, mode)
    j = k = np.int64(0)
    if axes >= 2:
        size, mode = read_64(level + HEIGHT), read_64(sampler + WRAP_0 + 8)
        j = inside(math.floor(brought(v, size, mode, False)), size, mode)
    if axes == 3:
        size, mode = read_64(level + DEPTH), read_64(sampler + WRAP_0 + 16)
        k = inside(math.floor(brought(w, size, mode, False)), size, mode)
    return one_texel(row, sampler, level, i, j, k, layer, reference)


@part
def fixed(u: float) -> int:
    """Position between the centres of two texels in 256ths."""
    return math.floor((u - 0.5) * 256.0 + 0.5)


@part
def is_quick(row: int, sampler: int) -> bool:
    """Whether :func:`filtered_bytes` can compute a filter."""
    kind = read_64(row + TYPE)
    plain = kind in (TWO_D, TWO_D_ARRAY, TWO_D_SINGLE) and read_64(sampler + COMPARE) == 0
    return plain and read_64(row + BYTES) != 0


@part
def filtered_bytes(row: int, sampler: int, level: int, u: float, v: float, layer: int) -> Any:
    """As :func:`filtered` for two axes and elements of four bytes; returns whether it was done, and the components."""
    mode_x, mode_y = read_64(sampler + WRAP_0), read_64(sampler + WRAP_0 + 8)
    width, height = read_64(level + WIDTH), read_64(level + HEIGHT)
    x, y = fixed(brought(u, width, mode_x, True)), fixed(brought(v, height, mode_y, True))
    i, j = inside(x >> 8, width, mode_x), inside(y >> 8, height, mode_y)
    k, m = inside((x >> 8) + 1, width, mode_x), inside((y >> 8) + 1, height, mode_y)
    if i < 0 or j < 0 or k < 0 or m < 0:
        return False, 0.0, 0.0, 0.0, 0.0
    first = read_64(level + OFFSET) + layer * read_64(row + LAYER_BYTES)
    left, right, above, below = column_of(level, i), column_of(level, k), row_of(level, j), row_of(level, m)
    if first + max(left, right) + max(above, below) + 4 > read_64(row + LIMIT):
        return False, 0.0, 0.0, 0.0, 0.0
    first += read_64(row + BASE)
    upper, lower = first + above, first + below
    notes = read_64(row + NOTES)
    if notes:
        note(notes, upper + left)
        note(notes, upper + right)
        note(notes, lower + left)
        note(notes, lower + right)
    words = (read_u32(upper + left), read_u32(upper + right), read_u32(lower + left), read_u32(lower + right))
    f, g = x & 255, y & 255
    weights = ((256 - f) * (256 - g), f * (256 - g), (256 - f) * g, f * g)
    a, b = weighted_byte(row, 0, words, weights), weighted_byte(row, 1, words, weights)
    return True, a, b, weighted_byte(row, 2, words, weights), weighted_byte(row, 3, words, weights)


@part
def filtered(row: int, sampler: int, level: int, u: float, v: float, w: float, layer: int, reference: float) -> Any:
    """The mean of the two, four or eight texels around a position."""
    kind = read_64(row + TYPE)
    axes = axes_of(kind)
    mode_x, mode_y, mode_z = read_64(sampler + WRAP_0), read_64(sampler + WRAP_0 + 8), read_64(sampler + WRAP_0 + 16)
    width, height, depth = read_64(level + WIDTH), read_64(level + HEIGHT), read_64(level + DEPTH)
    cube = kind == CUBE
    x = fixed(u if cube else brought(u, width, mode_x, True))
    y = z = np.int64(0)
    if axes >= 2:
        y = fixed(v if cube else brought(v, height, mode_y, True))
    if axes == 3 and not cube:
        z = fixed(brought(w, depth, mode_z, True))
    a = b = c = d = 0.0
    for corner in range(8):
        right, below, behind = corner & 1, corner >> 1 & 1, corner >> 2
        weight = (x & 255 if right else 256 - (x & 255)) * (y & 255 if below else 256 - (y & 255))
        weight *= z & 255 if behind else 256 - (z & 255)
        if weight == 0:
            continue
        if cube:
            p, q, r, s = on_cube(row, sampler, level, (x >> 8) + right, (y >> 8) + below, layer, reference)
        else:
            i = inside((x >> 8) + right, width, mode_x)
            j = inside((y >> 8) + below, height, mode_y) if axes >= 2 else np.int64(0)
            k = inside((z >> 8) + behind, depth, mode_z) if axes == 3 else np.int64(0)
            p, q, r, s = one_texel(row, sampler, level, i, j, k, layer, reference)
        share = np.float64(weight) / 16777216.0
        a, b, c, d = a + share * p, b + share * q, c + share * r, d + share * s
    return a, b, c, d


@part
def offset(request: int, at: int) -> int:
    """An instruction's offset in texels along an axis."""
    return (request >> at & 15 ^ 8) - 8


# --- levels -----------------------------------------------------------------------------------------
@part
def place(row: int, level: int, where: Any, request: int) -> Any:
    """The position in texels of a level, with the instruction's offsets."""
    s, t, r = where
    x, y, z = offset(request, AT_X), offset(request, AT_Y), offset(request, AT_Z)
    if read_64(row + NORMALIZED):
        s, t, r = (
            s * np.float64(read_64(level + WIDTH)),
            t * np.float64(read_64(level + HEIGHT)),
            r * np.float64(read_64(level + DEPTH)),
        )
    return s + np.float64(x), t + np.float64(y), r + np.float64(z)


@part
def at_level(
    row: int, sampler: int, n: int, linear_filter: bool, where: Any, layer: int, reference: float, request: int
) -> Any:
    """A sample of one level."""
    level = level_at(row, n)
    filters = 2 if linear_filter and axes_of(read_64(row + TYPE)) == 3 and read_64(row + TYPE) != CUBE else 1
    write_64(sampler + FILTERS, read_64(sampler + FILTERS) + filters)
    u, v, w = place(row, level, where, request)
    if linear_filter and is_quick(row, sampler):
        done, a, b, c, d = filtered_bytes(row, sampler, level, u, v, layer)
        if done:
            return a, b, c, d
    if linear_filter and not read_64(row + INTEGER):
        return filtered(row, sampler, level, u, v, w, layer, reference)
    return nearest(row, sampler, level, u, v, w, layer, reference)


@part
def at_lod(row: int, sampler: int, lod: int, where: Any, layer: int, reference: float, request: int) -> Any:
    """A sample at a clamped level in 256ths: magnified, from the nearest level, or from two levels."""
    mip, magnify, minify = read_64(sampler + MIP), read_64(sampler + MAGNIFY), read_64(sampler + MINIFY)
    middle = 128 if magnify == LINEAR and minify != LINEAR and mip != MIP_NONE else 0
    last = read_64(row + LEVELS) - 1
    if lod <= middle or mip == MIP_NONE:
        how = (magnify if lod <= middle else minify) == LINEAR
        return at_level(row, sampler, np.int64(0), how, where, layer, reference, request)
    how = minify == LINEAR
    if mip != MIP_LINEAR:
        # The nearest level; halves round to the larger image.
        return at_level(row, sampler, min((lod + 127) >> 8, last), how, where, layer, reference, request)
    n, share = min(lod >> 8, last), np.float64(lod & 255) / 256.0
    a, b, c, d = at_level(row, sampler, n, how, where, layer, reference, request)
    if n < last and lod & 255:
        e, f, g, h = at_level(row, sampler, n + 1, how, where, layer, reference, request)
        a, b, c, d = a + (e - a) * share, b + (f - b) * share, c + (g - c) * share, d + (h - d) * share
    return a, b, c, d


@part
def slopes(row: int, values: int, face: int, first: int, second: int) -> Any:
    """Difference of the coordinates of two lanes, in texels of level 0."""
    kind = read_64(row + TYPE)
    axes, level = axes_of(kind), level_at(row, np.int64(0))
    width, height, depth = read_64(level + WIDTH), read_64(level + HEIGHT), read_64(level + DEPTH)
    scale_x = scale_y = scale_z = 1.0
    if read_64(row + NORMALIZED):
        scale_x, scale_y, scale_z = np.float64(width), np.float64(height), np.float64(depth)
    s = t = r = 0.0
    if kind == CUBE:
        a, b = on_face(face, coordinate(values, 0, first), coordinate(values, 1, first), coordinate(values, 2, first))
        c, d = on_face(
            face, coordinate(values, 0, second), coordinate(values, 1, second), coordinate(values, 2, second)
        )
        return (c - a) * scale_x, (d - b) * scale_y, 0.0
    s = (coordinate(values, 0, second) - coordinate(values, 0, first)) * scale_x
    if axes >= 2:
        t = (coordinate(values, 1, second) - coordinate(values, 1, first)) * scale_y
    if axes == 3:
        r = (coordinate(values, 2, second) - coordinate(values, 2, first)) * scale_z
    return s, t, r


@part
def level_of(length: float) -> float:
    """The level at which a length in texels of level 0 is one texel."""
    return math.log2(length) if length > 1.0e-30 else -100.0


@part
def limited(sampler: int, lod: float) -> int:
    """A level in 256ths with the sampler's bias and limits applied, rounded towards the larger image."""
    value = math.floor(min(max(lod, -64.0), 64.0) * 256.0) + read_64(sampler + SAMPLER_BIAS)
    return min(max(value, read_64(sampler + LEAST)), max(read_64(sampler + MOST), read_64(sampler + LEAST)))


@part
def sample(row: int, sampler: int, request: int, values: int, lane: int) -> Any:
    """A sample of one lane: four components."""
    kind, what = read_64(row + TYPE), request & 7
    axes = axes_of(kind)
    given = axes
    layer, face = np.int64(0), np.int64(0)
    s, t, r = coordinate(values, 0, lane), 0.0, 0.0
    if axes >= 2:
        t = coordinate(values, 1, lane)
    if axes == 3:
        r = coordinate(values, 2, lane)
    if kind == CUBE:
        face = face_of(s, t, r)
        layer = face
        s, t = on_face(face, s, t, r)
        r = 0.0
    if kind in (ONE_D_ARRAY, TWO_D_ARRAY):
        layer = min(max(whole(values, given, lane), 0), read_64(row + LAYERS) - 1)
        given += 1
    reference = 0.0
    if read_64(sampler + COMPARE):
        reference = coordinate(values, given, lane)
        given += 1
    if what == EXPLICIT:
        lod = limited(sampler, coordinate(values, given, lane))
        return at_lod(row, sampler, lod, (s, t, r), layer, reference, request)
    bias = coordinate(values, given, lane) if what == BIAS else 0.0
    if not request >> AT_DERIVATIVES & 1:
        return at_lod(row, sampler, limited(sampler, bias), (s, t, r), layer, reference, request)
    ax, ay, az = slopes(row, values, face, lane & ~1, lane | 1)
    bx, by, bz = slopes(row, values, face, lane & ~2, lane | 2)
    along, down = math.sqrt(ax * ax + ay * ay + az * az), math.sqrt(bx * bx + by * by + bz * bz)
    longer, shorter = max(along, down), min(along, down)
    most = max(read_64(sampler + ANISOTROPY), read_64(row + HEADER_ANISOTROPY))
    if most == 1 or longer <= shorter * 1.0000001 or axes == 3 or longer <= 1.0e-12:
        lod = limited(sampler, level_of(longer) + bias)
        return at_lod(row, sampler, lod, (s, t, r), layer, reference, request)
    ratio = min(longer / max(shorter, longer / 64.0), np.float64(most))
    count = math.ceil(ratio - 1.0e-6)
    lod = limited(sampler, level_of(longer / ratio) + bias)
    if along < down:
        ax, ay = bx, by
    level = level_at(row, np.int64(0))
    if read_64(row + NORMALIZED):
        ax, ay = ax / np.float64(read_64(level + WIDTH)), ay / np.float64(read_64(level + HEIGHT))
    a = b = c = d = 0.0
    for n in range(count):
        step = (np.float64(n) + 0.5) / np.float64(count) - 0.5
        e, f, g, h = at_lod(row, sampler, lod, (s + ax * step, t + ay * step, r), layer, reference, request)
        a, b, c, d = a + e, b + f, c + g, d + h
    total = np.float64(count)
    return a / total, b / total, c / total, d / total


@part
def fetch(row: int, request: int, values: int, lane: int) -> Any:
    """The texel at integer coordinates; 0 outside the image."""
    kind = read_64(row + TYPE)
    axes, given = axes_of(kind), axes_of(kind)
    x, y, z = whole(values, 0, lane) + offset(request, AT_X), np.int64(0), np.int64(0)
    if axes >= 2:
        y = whole(values, 1, lane) + offset(request, AT_Y)
    if axes == 3:
        z = whole(values, 2, lane) + offset(request, AT_Z)
    layer = np.int64(0)
    if kind in (ONE_D_ARRAY, TWO_D_ARRAY):
        layer = whole(values, given, lane)
        given += 1
    n = whole(values, given, lane) if given < request >> AT_ARGUMENTS & 7 else np.int64(0)
    if not 0 <= n < read_64(row + LEVELS) or not 0 <= layer < read_64(row + LAYERS):
        return 0.0, 0.0, 0.0, 0.0
    level = level_at(row, n)
    there = 0 <= x < read_64(level + WIDTH) and 0 <= y < read_64(level + HEIGHT) and 0 <= z < read_64(level + DEPTH)
    if not there:
        return 0.0, 0.0, 0.0, 0.0
    return texel(row, level, x, y, z, layer)


# --- all lanes --------------------------------------------------------------------------------------
MOST_ARGUMENTS = 7
arguments_copy = workspace(MOST_ARGUMENTS * ROW_BYTES // 8)
WARP_LAUNCH, TABLE = WARP["launch"], LAUNCH["textures"]


@part
def put(values: int, lane: int, n: int, value: float, integer: bool) -> None:
    """Store a component of a lane's result."""
    at = values + ROW_BYTES * n + 4 * lane
    if integer:
        write_32(at, np.int64(value))
    else:
        write_32(at, bits_of(np.float32(value)))


@part
def put_size(row: int, values: int, arguments: int, lane: int) -> None:
    """Store width, height, depth or layers, and number of levels, for the requested level."""
    n, kind = whole(arguments, 0, lane), read_64(row + TYPE)
    last = read_64(row + LEVELS) - 1
    level = level_at(row, min(max(n, 0), last))
    there = 0 <= n <= last
    layers = read_64(row + LAYERS)
    height = layers if kind == ONE_D_ARRAY else read_64(level + HEIGHT)
    depth = layers if kind == TWO_D_ARRAY else read_64(level + DEPTH)
    put(values, lane, 0, np.float64(read_64(level + WIDTH) if there else 0), True)
    put(values, lane, 1, np.float64(height if there else 0), True)
    put(values, lane, 2, np.float64(depth if there else 0), True)
    put(values, lane, 3, np.float64(last + 1), True)


@part
def serve_lane(row: int, sampler: int, request: int, values: int, arguments: int, lane: int) -> None:
    """Compute one lane's results; without a texture they are 0, 0, 0, 1."""
    what = request & 7
    if row == 0 or (sampler == 0 and what < FETCH):
        for n in range(4):
            put(values, lane, n, 1.0 if n == 3 else 0.0, False)
        return
    if what == SIZE:
        put_size(row, values, arguments, lane)
        return
    if what == FETCH:
        a, b, c, d = fetch(row, request, arguments, lane)
    else:
        a, b, c, d = sample(row, sampler, request, arguments, lane)
    integer = read_64(row + INTEGER) != 0
    put(values, lane, 0, a, integer)
    put(values, lane, 1, b, integer)
    put(values, lane, 2, c, integer)
    put(values, lane, 3, d, integer)


@part
def cycles_of(filters: int) -> int:
    """Cycles of a quad: one for its addresses, or as many as its filters need."""
    return max(1, (filters + FILTERS_PER_CLK - 1) // FILTERS_PER_CLK)


@part
def count_quad(sampler: int, lanes: int, filters: int) -> None:
    """Count a quad's samples and cycles."""
    samples = (lanes & 1) + (lanes >> 1 & 1) + (lanes >> 2 & 1) + (lanes >> 3 & 1)
    cycles = cycles_of(filters)
    write_64(sampler + SAMPLES, read_64(sampler + SAMPLES) + samples)
    write_64(sampler + CYCLES, read_64(sampler + CYCLES) + cycles)


@part
def begin_record(notes: int) -> int:
    """Address of the record of a warp's quads (``timing/texture_unit.py``); the ring holds far more records than are in flight."""
    place = read_64(notes + 8 * NOTE_PLACE)
    if place + 1 + 8 * (1 + MOST_NOTED) > read_64(notes + 8 * NOTE_WORDS):
        place = np.int64(NOTES_AT)
    write_64(notes + 8 * place, 0)
    write_64(notes + 8 * NOTE_PLACE, place + 1)
    return notes + 8 * place


@part
def record_quad(notes: int, record: int, cycles: int) -> None:
    """Add a quad with the lines noted for it."""
    count = read_64(notes + 8 * NOTE_COUNT)
    place = read_64(notes + 8 * NOTE_PLACE)
    write_64(notes + 8 * place, cycles | count << Q_LINES_SHIFT)
    for n in range(count):
        write_64(notes + 8 * (place + 1 + n), read_64(notes + 8 * (NOTE_LINES_AT + n)))
    write_64(notes + 8 * NOTE_PLACE, place + 1 + count)
    write_64(notes + 8 * NOTE_COUNT, 0)
    write_64(record, read_64(record) + 1)


@part
def serve_lanes(table: int, lanes: int, request: int, values: int, addresses: int) -> None:
    """Replace the arguments of the executing lanes by their results; each lane's entry of ``addresses`` is set to the record's address."""
    row = read_64(table + 8 * (request >> AT_UNIT & 0xFF))
    sampler = read_64(table + 8 * (UNITS + (request >> AT_SAMPLER & 31)))
    # Results overwrite arguments that other lanes of the quad still need.
    arguments = arguments_copy()
    for n in range((request >> AT_ARGUMENTS & 7) * ROW_BYTES // 8):
        write_64(arguments + 8 * n, read_64(values + 8 * n))
    notes = read_64(table + 8 * (UNITS + SAMPLERS))
    record = begin_record(notes) if notes else np.int64(0)
    if notes:
        for lane in range(32):
            write_64(addresses + 8 * lane, record)
    for quad in range(8):
        of_quad = lanes >> 4 * quad & 15
        if of_quad == 0:
            continue
        before = read_64(sampler + FILTERS) if sampler else np.int64(0)
        for lane in range(4 * quad, 4 * quad + 4):
            if lanes >> lane & 1:
                serve_lane(row, sampler, request, values, arguments, lane)
        if sampler:
            count_quad(sampler, of_quad, read_64(sampler + FILTERS) - before)
        if notes:
            record_quad(notes, record, cycles_of(read_64(sampler + FILTERS) - before) if sampler else np.int64(1))


SOURCES = (*sorted(Path(__file__).parent.glob("texture_*.py")), Path(texture_request.__file__))


@c_function(types.void(types.int64, types.uint32, types.int64, types.int64, types.int64, types.int64), SOURCES)
def serve(warp: Any, lanes: Any, request: Any, values: Any, addresses: Any, instruction: Any) -> None:
    """The function ``LAUNCH.texture`` (``engine/abi.py``) of graphics programs."""
    serve_lanes(read_64(read_64(warp + WARP_LAUNCH) + TABLE), np.int64(lanes), request, values, addresses)
