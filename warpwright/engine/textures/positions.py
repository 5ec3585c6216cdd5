"""Compiled code that finds texels, weights and mipmap levels from coordinates and derivatives (``sampling.py`` has the NumPy version)."""

from __future__ import annotations

import math

import numpy as np

from warpwright.engine.textures.intrinsics import float_of, part, read_64, read_u32
from warpwright.engine.textures.sampling import (
    FRACTION,
    LARGER_BITS,
    LARGER_PART,
    LARGEST,
    LOGARITHMS,
    SLOPE_BITS,
    SMALLER_BITS,
    SMALLER_PART,
    WIDE_BITS,
)
from warpwright.engine.textures.table import BORDER, CLAMP, MIRROR, WRAP
from warpwright.engine.textures.table_fields import AXES, BIAS, LEAST, LEVEL, LEVELS, MOST, NORMALIZED


@part
def clip(value: int, least: int, most: int) -> int:
    return min(max(value, least), most)


# --- positions ---------------------------------------------------------------------------------------
@part
def cut(value: float, bits: int) -> int:
    """As ``sampling.cut``; ``value`` in double precision."""
    if math.isnan(value) or abs(value) < 2.0**-126:
        return 0
    return np.int64(math.floor(min(max(value, -LARGEST), LARGEST) * np.float64(np.int64(1) << bits)))


@part
def along(x: float, size: int, mode: int, normalized: int) -> int:
    value = np.float64(x)
    if not normalized:
        return cut(value, FRACTION)
    length = np.int64(0)
    while size > 1 << (FRACTION - WIDE_BITS) and (size - 1) >> length:
        length += 1
    more = max(length + WIDE_BITS - FRACTION, 0)
    one = np.int64(1) << (FRACTION + more)
    if mode == WRAP:
        value = value if math.isfinite(value) else 0.0
        return ((cut(value - np.floor(value), FRACTION + more) & (one - 1)) * size) >> more
    if mode == MIRROR:
        value = value if math.isfinite(value) else 0.0
        return ((cut(value - 2.0 * np.floor(value / 2.0), FRACTION + more) & (2 * one - 1)) * size) >> more
    if not math.isnan(value):
        limit = np.float64(np.float32(LARGEST / size / 4))
        value = min(max(value, -limit), limit)
    return (cut(value, FRACTION + more) * size) >> more


@part
def inside(i: int, size: int, mode: int, normalized: int) -> int:
    if 0 <= i < size:
        return i
    if mode == BORDER:
        return np.int64(-1)
    if normalized and mode == WRAP:
        return i % size
    if normalized and mode == MIRROR:
        back = i % (2 * size)
        return back if back < size else 2 * size - 1 - back
    return clip(i, 0, size - 1)


@part
def split(u: int, size: int, mode: int, normalized: int, filtered: bool) -> int:
    """First texel in 256ths, with the weight of the second in the lowest eight bits."""
    fixed = (u - (1 << (FRACTION - 1)) + (1 << (FRACTION - 9))) >> (FRACTION - 8)
    if filtered and (mode == CLAMP or (not normalized and mode != BORDER)):
        fixed = clip(fixed, 0, (size - 1) << 8)
    return fixed


@part
def level_of(row: int, level: float) -> int:
    value = 0.0 if math.isnan(level) else level
    fixed = np.int64(np.trunc(min(max(value, -1024.0), 1024.0) * 256.0)) + read_64(row + BIAS)
    least = read_64(row + LEAST)
    fixed = clip(fixed, least, max(read_64(row + MOST), least))
    return clip(fixed, 0, (read_64(row + LEVELS) - 1) << 8)


@part
def slope_at(row: int, slopes: int, axis: int, step: int) -> float:
    """Length in texels of one of the two steps along an axis; NaN counts as 0."""
    scale = 1.0
    if read_64(row + NORMALIZED) and axis < read_64(row + AXES):
        scale = np.float64(read_64(row + LEVEL + 8 * axis))
    slope = np.float64(float_of(read_u32(slopes + 128 * (2 * axis + step))))
    return 0.0 if math.isnan(slope) else slope * scale


@part
def on_grid(value: float, largest: float, bits: int, half: float) -> float:
    """As ``sampling.on_grid``."""
    grid = math.ldexp(1.0, math.frexp(largest)[1] - bits)
    return np.floor(value / grid + half) * grid


@part
def short(value: float) -> float:
    return math.copysign(on_grid(abs(value), abs(value), SLOPE_BITS, 0.0), value)


@part
def joined(a: float, b: float) -> float:
    largest = max(abs(a), abs(b))
    first, second = on_grid(abs(a), largest, SLOPE_BITS + 1, 0.0), on_grid(abs(b), largest, SLOPE_BITS + 1, 0.0)
    return short(math.copysign(first, a) + math.copysign(second, b))


@part
def component(row: int, slopes: int, axis: int, way: int) -> float:
    """Length in texels along an axis of a step: one of the two, their sum, or their difference."""
    if way < 2:
        return abs(short(slope_at(row, slopes, axis, way)))
    first, second = short(slope_at(row, slopes, axis, 0)), short(slope_at(row, slopes, axis, 1))
    return abs(joined(first, second if way == 2 else -second))


@part
def level_of_slopes(row: int, slopes: int, axes: int) -> float:
    """The mipmap level for slopes stored as rows of words starting at ``slopes``; NaN if a slope is infinite."""
    longest = 0.0
    for way in range(4):
        diagonal = way // 2
        large, which = 0.0, 0
        for axis in range(axes):
            if math.isinf(slope_at(row, slopes, axis, 0)) or math.isinf(slope_at(row, slopes, axis, 1)):
                return np.nan
            size = component(row, slopes, axis, way)
            if size > large:
                large, which = size, axis
        first = on_grid(large * LARGER_PART[diagonal], large, LARGER_BITS[diagonal], 0.5)
        length = short(first)
        for axis in range(axes):
            if axis != which:
                size = component(row, slopes, axis, way)
                more = on_grid(size * SMALLER_PART[diagonal], size, SMALLER_BITS[diagonal], 0.5)
                length += on_grid(more, first, SLOPE_BITS, 0.0)
        longest = max(longest, length)
    significand, exponent = math.frexp(min(max(longest, 2.0**-30), 2.0**30))
    whole = np.int64(np.floor((2.0 * significand - 1.0) * 256.0))
    return np.float64(exponent - 1) + LOGARITHMS[whole] / 256.0
