"""Texture sampling in NumPy for the interpreter; results equal an H200's bit for bit.

The mechanism was inferred from an H200's results (``bench/textures``, ``docs/model/textures.md``):

* A coordinate is truncated to 21 fraction bits and scaled; for a filter, half a texel is then subtracted and the position rounded to 8 fraction bits (halves
  up).
* Weights are whole 256ths that add up to 256: those of the second slice or level first, then along x, then along y, each
  rounded; of two parts one rounds halves up and the other down.
* Numbers of 8 and 16 bits are summed as 16-bit integers.  Floats are aligned to the largest exponent that has a weight, truncated with four guard bits, summed
  exactly, and rounded (halves away from zero); a second slice is added in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.textures.srgb import CODES, LATE
from warpwright.engine.textures.table import (
    BORDER,
    CLAMP,
    FLOAT,
    MIRROR,
    SIGNED,
    UNSIGNED,
    WRAP,
    Level,
)

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]
FRACTION = 21
"""Fraction bits of a coordinate and of a position."""
WIDE_BITS = 7
"""Fraction bits that the position keeps in an image so large that a normalised coordinate of 21 bits would leave fewer."""
LARGEST = 2.0**40
GUARD = 4
"""Guard bits below a float's significand that are kept when it is aligned."""


def cut(x: Array, bits: int = FRACTION) -> Integers:
    """Coordinates in units of 1/2**bits, rounded down; NaN and subnormal numbers become 0."""
    value = x.astype(np.float64)
    value = np.where(np.isnan(value) | (np.abs(value) < 2.0**-126), 0.0, value)
    scaled: Integers = np.floor(np.clip(value, -LARGEST, LARGEST) * 2.0**bits).astype(np.int64)
    return scaled


def along(x: Array, size: int, mode: int, normalized: bool) -> Integers:
    """Position along an axis in units of 1/2**21 texel, brought into the image as the addressing mode requires.

    Without normalised coordinates all modes but border clamp (CUDA C++ Programming Guide, "Texture Memory").
    """
    if not normalized:
        return cut(x)
    more = max((size - 1).bit_length() + WIDE_BITS - FRACTION, 0)
    one = 1 << FRACTION + more
    value = np.where(np.isfinite(x), x, 0.0).astype(np.float64)
    if mode == WRAP:
        return (cut(value - np.floor(value), FRACTION + more) & (one - 1)) * size >> more
    if mode == MIRROR:
        return (cut(value - 2.0 * np.floor(value / 2.0), FRACTION + more) & (2 * one - 1)) * size >> more
    return cut(np.clip(x, -LARGEST / size / 4, LARGEST / size / 4), FRACTION + more) * size >> more


def inside(i: Integers, size: int, mode: int, normalized: bool) -> Integers:
    """Texel indices brought into the image; -1 stands for the border."""
    if mode == BORDER:
        return np.where((i >= 0) & (i < size), i, -1)
    if normalized and mode == WRAP:
        return np.mod(i, size)
    if normalized and mode == MIRROR:
        back = np.mod(i, 2 * size)
        return np.where(back < size, back, 2 * size - 1 - back)
    return np.clip(i, 0, size - 1)


def split(u: Integers, size: int, mode: int, normalized: bool, filtered: bool = True) -> tuple[Integers, Integers]:
    """(first texel, weight of the second in 256ths) along an axis; a filter clamps the position, a gather each texel."""
    fixed = (u - (1 << FRACTION - 1) + (1 << FRACTION - 9)) >> (FRACTION - 8)
    if filtered and (mode == CLAMP or (not normalized and mode != BORDER)):
        fixed = np.clip(fixed, 0, (size - 1) << 8)
    return fixed >> 8, fixed & 255


Quad = tuple[Integers, Integers, Array]
"""Weights (4, lanes), texels (4, channels, lanes), and which of the four take part (4, lanes): a weight may be rounded to 0."""


def weights(f: Integers, g: Integers, total: Array | int) -> tuple[Integers, ...]:
    """Weights of (0, 0), (1, 0), (0, 1), (1, 1), which add up to ``total``."""
    right = (f * total + 128) >> 8
    left = total - right
    above, beside = (left * g + 127) >> 8, (right * g + 128) >> 8
    return left - above, right - beside, above, beside


# --- cubes ------------------------------------------------------------------------------------------
FACE_AXES = (
    (0, 1.0, 2, -1.0, 1, -1.0),
    (0, -1.0, 2, 1.0, 1, -1.0),
    (1, 1.0, 0, 1.0, 2, 1.0),
    (1, -1.0, 0, 1.0, 2, -1.0),
    (2, 1.0, 0, 1.0, 1, -1.0),
    (2, -1.0, 0, -1.0, 1, -1.0),
)
"""For each face: the axis perpendicular to it and its sign, then the axis and sign of the two coordinates on it (CUDA C++
Programming Guide, "Cubemap Textures")."""


def on_face(vector: Sequence[Array]) -> tuple[Integers, Array, Array]:
    """The face that a direction meets, and the coordinates on it from 0 to 1; among equal components, z takes precedence over y, and y over x."""
    x, y, z = (v.astype(np.float64) for v in vector)
    ax, ay, az = np.abs(x), np.abs(y), np.abs(z)
    major = np.where((az >= ax) & (az >= ay), 2, np.where(ay >= ax, 1, 0))
    largest = np.choose(major, [x, y, z])
    face = major * 2 + np.signbit(largest)
    both = []
    for at in (2, 4):
        axis = np.array([a[at] for a in FACE_AXES])[face].astype(np.int64)
        sign = np.array([a[at + 1] for a in FACE_AXES])[face]
        with np.errstate(all="ignore"):
            both.append(((np.choose(axis, [x, y, z]) * sign / np.abs(largest) + 1) / 2).astype(np.float32))
    return face, both[0], both[1]


def beyond(face: Integers, i: Integers, j: Integers, size: int) -> tuple[Integers, Integers, Integers]:
    """Map a texel beyond an edge to the face and texel that it lies on; texels inside the face are unchanged."""
    over_i, over_j = (i < 0) | (i >= size), (j < 0) | (j >= size)
    a, b = (2 * i + 1 - size).astype(np.int64), (2 * j + 1 - size).astype(np.int64)
    depth = np.where(over_i | over_j, size - 1, size)
    a, b = np.where(over_i, np.sign(a) * size, a), np.where(over_j, np.sign(b) * size, b)
    vector = [np.zeros(len(i), np.float64) for _ in range(3)]
    for number, (axis, sign, axis_i, sign_i, axis_j, sign_j) in enumerate(FACE_AXES):
        here = face == number
        for at, value in ((axis, sign * depth), (axis_i, sign_i * a), (axis_j, sign_j * b)):
            vector[at] = np.where(here, value, vector[at])
    found, s, t = on_face(vector)
    over = over_i | over_j
    return (
        np.where(over, found, face),
        np.where(over, np.clip(np.floor(s * size).astype(np.int64), 0, size - 1), i),
        np.where(over, np.clip(np.floor(t * size).astype(np.int64), 0, size - 1), j),
    )


# --- texels ------------------------------------------------------------------------------------------
class Texels:
    """Reads the elements of an object's levels, as integers of their own size."""

    def __init__(self, row: dict[str, Any], memory: npt.NDArray[np.uint8], base: int) -> None:
        self.row, self.memory, self.base = row, memory, base
        self.size = row["channel_bytes"]
        self.kind = row["kind"]
        self.view = memory[: len(memory) // self.size * self.size].view(
            {UNSIGNED: f"u{self.size}", SIGNED: f"i{self.size}", FLOAT: f"u{self.size}"}[self.kind]
        )

    def address(self, level: Level, x: Integers, y: Integers, z: Integers) -> Integers:
        return (
            level.address
            + np.maximum(z, 0) * level.slice_bytes
            + np.maximum(y, 0) * level.row_bytes
            + np.maximum(x, 0) * (self.size * self.row["channels"])
        )

    def raw(self, level: Level, x: Integers, y: Integers, z: Integers, mask: Array) -> Integers:
        """Shape (4, lanes): channels that the format lacks are 0; a negative index gives the border."""
        border = (x < 0) | (y < 0) | (z < 0)
        read = mask & ~border
        at = np.where(read, self.address(level, x, y, z) - self.base, 0) // self.size
        found = np.zeros((4, len(x)), np.int64)
        for channel in range(4):
            if channel < self.row["channels"]:
                found[channel] = np.where(read, self.view[at + np.where(read, channel, 0)], 0)
                found[channel][border] = self.row["border_element"][channel]
            else:
                found[channel] = 0
        return found


SRGB = 8 * np.array(CODES, np.int64)
"""Halves, as their bits."""
SRGB_LATE = np.array([any(first <= code <= last for first, last in LATE) for code in range(256)], np.int64)
SRGB_GUARD = -3
"""Like GUARD, for sRGB: values are aligned with seven fraction bits."""


def plain(row: dict[str, Any], raw: Integers) -> npt.NDArray[np.uint32]:
    """Elements as an unfiltered fetch returns them, in the shape of ``raw``."""
    size, kind = row["channel_bytes"], row["kind"]
    if row["as_integer"]:
        return raw.astype(np.uint32)
    if kind == FLOAT:
        if size == 4:
            return raw.astype(np.uint32)
        return raw.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    most = (1 << 8 * size - (kind == SIGNED)) - 1
    value = np.maximum(raw / most, -1.0)
    if row["srgb"] and kind == UNSIGNED and size == 1:
        value[:3] = SRGB[raw[:3]].astype(np.uint16).view(np.float16)
    return value.astype(np.float32).view(np.uint32)


# --- sums -------------------------------------------------------------------------------------------
def integer_sum(row: dict[str, Any], quads: Sequence[Quad]) -> npt.NDArray[np.uint32]:
    """Weighted sum of normalised integers of 16 or 8 bits."""
    size, kind = row["channel_bytes"], row["kind"]
    total = sum((w[:, None] * t).sum(0) for w, t, _ in quads)
    total = np.asarray(total)
    if kind == UNSIGNED:
        whole = ((total * 257 if size == 1 else total) + 128) >> 8
        value = whole / 65535.0
    elif size == 2:
        value = np.maximum(((total + 128) >> 8) / 32767.0, -1.0)
    else:
        # 15 bits become 16 by repeating the upper ones; three are repeated twice.
        whole = total + ((total + 64 + ((total >> 12) << 4)) >> 7)
        value = np.maximum(whole / 32767.0, -1.0)
    return value.astype(np.float32).view(np.uint32)


def float_sum(
    size: int, quads: Sequence[Quad], guard: int = GUARD, late: Sequence[Integers] = ()
) -> npt.NDArray[np.uint32]:
    """Weighted sum of floats, like ``integer_sum``; ``late`` is added to their exponents before the largest is chosen."""
    bits, bias = (23, 127) if size == 4 else (10, 15)
    special = (1 << (8 * size - 1 - bits)) - 1
    sums, tops = [], []
    lanes = quads[0][0].shape[1]
    nan = np.zeros((4, lanes), np.bool_)
    plus, minus, all_negative = nan.copy(), nan.copy(), ~nan
    for number, (w, t, part) in enumerate(quads):
        exponent = t >> bits & special
        mantissa = t & ((1 << bits) - 1)
        negative = t >> (8 * size - 1) & 1 != 0
        counts = part[:, None] & np.ones_like(t, np.bool_)
        odd = counts & (exponent == special)
        nan |= (odd & (mantissa != 0)).any(0)
        plus |= (odd & (mantissa == 0) & ~negative).any(0)
        minus |= (odd & (mantissa == 0) & negative).any(0)
        # 32-bit subnormal numbers count as 0.
        whole = np.where(exponent > 0, mantissa | 1 << bits, mantissa if size == 2 else 0)
        exponent = np.maximum(exponent, 1)
        top = np.where((w != 0)[:, None] & (whole != 0), exponent + (late[number] if late else 0), 0).max(0)
        all_negative &= (~counts | negative).all(0)
        kept = whole << guard if guard >= 0 else whole >> -guard
        aligned = kept >> np.minimum(np.maximum(top - exponent, 0), 62)
        aligned = np.where(counts, np.where(negative, -aligned, aligned), 0)
        sums.append((w[:, None] * aligned).sum(0))
        tops.append(top)
    total, top = sums[0], tops[0]
    for following, own in zip(sums[1:], tops[1:], strict=True):
        grid = np.maximum(own, top - 2)
        total = shifted(total, top - grid) + shifted(following, own - grid)
        top = grid
    result = rounded(total, top - bias - bits - guard - 8, bits, bias)
    result = np.where((result == 0) & all_negative, 1 << (8 * size - 1), result)
    nan |= plus & minus
    infinity = special << bits
    result = np.where(plus, infinity, np.where(minus, infinity | 1 << (8 * size - 1), result))
    result = np.where(nan, (1 << (8 * size - 1)) - 1, result)
    if size == 4:
        return result.astype(np.uint32)
    wide = result.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    return np.where(nan, np.uint32(0x7FFFE000), wide)


def shifted(x: Integers, left: Integers) -> Integers:
    """x * 2**left, rounded down."""
    return np.where(left >= 0, x << np.clip(left, 0, 40), x >> np.clip(-left, 0, 62))


def rounded(total: Integers, scale: Integers, bits: int, bias: int) -> Integers:
    """total * 2**scale as a float's bits, halves away from zero."""
    negative, size = total < 0, np.abs(total)
    length = np.frexp(size.astype(np.float64))[1]
    exponent = np.maximum(length - 1 + scale, 1 - bias)
    drop = exponent - bits - scale
    kept = np.where(
        drop > 0,
        (size + (np.int64(1) << np.clip(drop - 1, 0, 61))) >> np.clip(drop, 0, 62),
        size << np.clip(-drop, 0, 62),
    )
    kept = np.where(drop > 60, 0, kept)
    carried = kept >> (bits + 1) != 0
    kept, exponent = np.where(carried, kept >> 1, kept), exponent + carried
    normal = kept >> bits != 0
    sign = np.where(negative, 1 << (16 if bits == 10 else 32) - 1, 0)
    field = np.where(normal, (exponent + bias) << bits | kept & ((1 << bits) - 1), kept)
    most = ((1 << (15 if bits == 10 else 31) - bits) - 1) << bits
    return np.where(size == 0, 0, sign | np.minimum(field, most))


def level_of(row: dict[str, Any], lod: Array) -> Integers:
    """Levels in units of 1/256, truncated towards zero, with the sampler's bias and limits applied."""
    value = np.where(np.isnan(lod), 0.0, lod).astype(np.float64)
    fixed = np.trunc(np.clip(value, -1024.0, 1024.0) * 256).astype(np.int64) + row["bias"]
    limited: Integers = np.clip(np.clip(fixed, row["least"], max(row["most"], row["least"])), 0, row["levels"] - 1 << 8)
    return limited


LOGARITHMS = np.minimum(np.floor(256 * np.log2(1 + (np.arange(256) + 0.5) / 256) + 0.47), 255)
"""Fraction of a level in 256ths, indexed by the eight leading fraction bits of a length's significand, as on an H200."""
LOGARITHMS[0] = 0


SLOPE_BITS = 10
"""Significand bits of the intermediate results between slopes and length."""
LARGER_PART, SMALLER_PART = (1.0, 11 / 16), (11 / 32, 121 / 512)
"""Factors of a step's larger and smaller component: in the length of one step, and in that of two steps combined."""
LARGER_BITS, SMALLER_BITS = (11, 11), (12, 13)
"""Number of bits below the component's exponent to which the product is rounded."""


def on_grid(value: Array, largest: Array, bits: int, half: float = 0.0) -> Array:
    """Truncate a magnitude to this many bits below the power of two above ``largest``; with ``half=0.5``, round it (halves up)."""
    grid = np.ldexp(1.0, np.frexp(largest)[1] - bits)
    return np.floor(value / grid + half) * grid


def short(value: Array) -> Array:
    """Truncate to ten bits."""
    return np.copysign(on_grid(np.abs(value), np.abs(value), SLOPE_BITS), value)


def joined(a: Array, b: Array) -> Array:
    """The sum of two short numbers, itself short; the smaller one is first aligned with one guard bit."""
    largest = np.maximum(np.abs(a), np.abs(b))
    first, second = (np.copysign(on_grid(np.abs(v), largest, SLOPE_BITS + 1), v) for v in (a, b))
    return short(first + second)


def length_of(step: Sequence[Array], diagonal: int) -> Array:
    """Approximate length of a step given by its components; with ``diagonal``, 11/16 of it."""
    *smaller, large = np.sort(np.abs(np.stack(step)), axis=0)
    first = on_grid(large * LARGER_PART[diagonal], large, LARGER_BITS[diagonal], 0.5)
    length = short(first)
    for part in smaller:
        more = on_grid(part * SMALLER_PART[diagonal], part, SMALLER_BITS[diagonal], 0.5)
        length = length + on_grid(more, first, SLOPE_BITS)
    return length


# --- sampling ----------------------------------------------------------------------------------------
class Fetcher:
    """Fetches of one object for some lanes.

    Args:
        row: the object's row of the table, as ``read_row`` returns it.
        memory: the device's memory from address ``base``, as bytes.
        mask: the lanes that fetch.
    """

    def __init__(self, row: dict[str, Any], memory: npt.NDArray[np.uint8], base: int, mask: Array) -> None:
        self.row, self.mask = row, mask
        self.texels = Texels(row, memory, base)
        self.first = np.zeros(len(mask), np.int64)
        """Address of each lane's first texel."""
        self.face = np.zeros(len(mask), np.int64)
        self.offsets = [np.zeros(len(mask), np.int64)] * 3
        """Texels to add along each axis."""

    def layer(self, number: Integers) -> Integers:
        """Slice of a layer's first image."""
        return np.clip(number, 0, max(self.row["layers"], 1) - 1) * (6 if self.row["cube"] else 1)

    def sample(self, coordinates: Sequence[Array], layer: Integers, lod: Array) -> npt.NDArray[np.uint32]:
        """Sample at float coordinates (by axis) and levels; shape (4, lanes)."""
        row = self.row
        coordinates, layer = self.faced(coordinates, layer)
        level = level_of(row, lod)
        if not row["mip_linear"]:
            level = (level + 128) >> 8 << 8
        first, share = level >> 8, level & 255
        result = np.zeros((4, len(self.mask)), np.uint32)
        places = np.zeros(len(self.mask), np.int64)
        for number in np.unique(first[self.mask]):
            lanes = self.mask & (first == number)
            here, more = row["level"][number], row["level"][min(number + 1, row["levels"] - 1)]
            gather = self.quads if row["linear"] else self.singles
            quads = gather(here, coordinates, layer, 256 - share)
            places[lanes] = self.first[lanes]
            if share[lanes].any():
                quads += gather(more, coordinates, layer, share)
            found = self.summed(quads)
            if not row["linear"]:
                found = np.where(share == 0, plain(row, quads[0][1][0]), found)
            result[:, lanes] = found[:, lanes]
        self.first = places
        return result

    def faced(self, coordinates: Sequence[Array], layer: Integers) -> tuple[Sequence[Array], Integers]:
        """Coordinates on the face of a cube (stored in ``self.face``) and the cube's first slice."""
        if not self.row["cube"]:
            return coordinates, layer
        self.face, s, t = on_face(coordinates)
        if not self.row["seamless"]:
            layer = layer + self.face
        return (s, t), layer

    def seamless(self, level: Level, coordinates: Sequence[Array], layer: Integers, total: Array | int) -> list[Quad]:
        """Like ``quads``, with texels of the neighbouring faces.

        At a corner, where only three faces meet, the missing texel's weight goes to the three others.
        """
        size = level.width
        i, f = split(along(coordinates[0], size, CLAMP, True), size, CLAMP, True, False)
        j, g = split(along(coordinates[1], size, CLAMP, True), size, CLAMP, True, False)
        w = np.stack(weights(f, g, total))
        texels = []
        for corner in range(4):
            x, y = i + (corner & 1), j + (corner >> 1)
            missing = ((x < 0) | (x >= size)) & ((y < 0) | (y >= size))
            third = np.where(missing, (2 * w[corner] + 3) // 6, 0)
            w[corner ^ 1] += third
            w[corner ^ 2] += third
            w[corner ^ 3] += np.where(missing, w[corner] - 2 * third, 0)
            w[corner] = np.where(missing, 0, w[corner])
            face, x, y = beyond(self.face, x, y, size)
            if corner == 0:
                self.first = self.texels.address(level, x, y, layer + face)
            texels.append(self.texels.raw(level, x, y, layer + face, self.mask))
        return [(w, np.stack(texels), w != 0)]

    def singles(self, level: Level, coordinates: Sequence[Array], layer: Integers, share: Array | int) -> list[Quad]:
        """Like ``quads``, for the nearest texel only."""
        texels = self.nearest(level, coordinates, layer)
        none = np.zeros_like(texels)
        whole = np.zeros(len(self.mask), np.int64) + share
        zero = np.zeros_like(whole)
        return [
            (
                np.stack([whole, zero, zero, zero]),
                np.stack([texels, none, none, none]),
                np.stack([whole, zero, zero, zero]) != 0,
            )
        ]

    def element(self, numbers: Sequence[Integers], layer: Integers, lod: Integers) -> npt.NDArray[np.uint32]:
        """Elements at integer coordinates of a given level; 0 outside the image and for a level that does not exist."""
        lanes = len(self.mask)
        result = np.zeros((4, lanes), np.uint32)
        exists = self.mask & (lod >= 0) & (lod < self.row["levels"])
        wanted = np.where(exists, lod, 0)
        for number in np.unique(wanted[exists]):
            level = self.row["level"][number]
            index = [np.zeros(lanes, np.int64), np.zeros(lanes, np.int64), layer]
            out = np.zeros(lanes, np.bool_)
            for axis, value in enumerate(numbers):
                index[axis] = value + self.offsets[axis]
            for axis in range(self.row["axes"]):
                out |= (index[axis] < 0) | (index[axis] >= self.sizes(level)[axis])
            index = [np.where(out, 0, one) for one in index]
            here = exists & (wanted == number)
            self.first = np.where(here, self.texels.address(level, *index), self.first)
            found = np.where(out, 0, plain(self.row, self.texels.raw(level, index[0], index[1], index[2], here & ~out)))
            result[:, here] = found[:, here]
        return result

    def query(self, lod: Integers) -> npt.NDArray[np.uint32]:
        """Width, height, depth or layers (for one axis, in place of the height), and number of levels; absent ones are 0, as on an H200."""
        row = self.row
        found = np.zeros((4, len(self.mask)), np.uint32)
        for n, level in enumerate(row["level"]):
            flat = row["layered"] and row["axes"] == 1
            depth = 0 if flat else row["layers"] if row["layered"] else level.depth if row["axes"] == 3 else 0
            height = row["layers"] if flat else 0 if row["buffer"] else level.height
            found[:, np.clip(lod, 0, row["levels"] - 1) == n] = np.array(
                [[level.width], [height], [depth], [row["levels"]]]
            )
        return found

    def level_of_slopes(self, by_x: Sequence[Array], by_y: Sequence[Array]) -> Array:
        """The level, in whole 256ths, at which the longest of four steps is about one texel long.

        The four are the two given steps, and 11/16 of their sum and of their difference, which approximate the ellipse that the two span. The length of a step
        is its larger component plus 11/32 of the smaller. All intermediate results are short; the logarithm uses eight fraction bits.
        """
        level = self.row["level"][0]
        steps = []
        for step in (by_x, by_y):
            scales = [
                self.sizes(level)[axis] if self.row["normalized"] and axis < self.row["axes"] else 1
                for axis in range(len(step))
            ]
            slopes = [np.where(np.isnan(slope), 0.0, slope).astype(np.float64) for slope in step]
            steps.append(
                [short(np.clip(one, -LARGEST, LARGEST) * scale) for one, scale in zip(slopes, scales, strict=True)]
            )
        both = [[joined(a, sign * b) for a, b in zip(*steps, strict=True)] for sign in (1, -1)]
        lengths = [length_of(step, n // 2) for n, step in enumerate((*steps, *both))]
        longest = np.maximum.reduce(lengths)
        significand, exponent = np.frexp(np.clip(longest, 2.0**-30, 2.0**30))
        whole = np.floor((2 * significand - 1) * 256).astype(np.int64)
        return exponent - 1 + LOGARITHMS[whole] / 256.0

    def gather(self, coordinates: Sequence[Array], layer: Integers, component: int) -> npt.NDArray[np.uint32]:
        """One channel of the four texels that a filter would use, in the order (0, 1), (1, 1), (1, 0), (0, 0)."""
        coordinates, layer = self.faced(coordinates, layer)
        _, texels, _ = self.quads(self.row["level"][0], coordinates, layer, 256, False)[0]
        return np.stack([plain(self.row, texels[k])[component] for k in (2, 3, 1, 0)])

    def summed(self, quads: Sequence[Quad]) -> npt.NDArray[np.uint32]:
        if self.row["kind"] == FLOAT:
            return float_sum(self.row["channel_bytes"], quads)
        found = integer_sum(self.row, quads)
        if self.row["srgb"] and self.row["channel_bytes"] == 1:
            linear = [(w, SRGB[t & 255], part) for w, t, part in quads]
            found[:3] = float_sum(2, linear, SRGB_GUARD, [SRGB_LATE[t & 255] for _, t, _ in quads])[:3]
        return found

    def sizes(self, level: Level) -> tuple[int, int, int]:
        return level.width, level.height, level.depth

    def nearest(self, level: Level, coordinates: Sequence[Array], layer: Integers) -> Integers:
        row = self.row
        within = row["cube"] and row["seamless"]
        index = [np.zeros(len(self.mask), np.int64), np.zeros(len(self.mask), np.int64), layer]
        if within:
            index[2] = layer + self.face
        for axis in range(len(coordinates)):
            size, mode = self.sizes(level)[axis], CLAMP if within else row["address"][axis]
            u = along(coordinates[axis], size, mode, bool(row["normalized"]))
            index[axis] = inside((u >> FRACTION) + self.offsets[axis], size, mode, bool(row["normalized"]))
        self.first = self.texels.address(level, *index)
        return self.texels.raw(level, index[0], index[1], index[2], self.mask)

    def quads(
        self, level: Level, coordinates: Sequence[Array], layer: Integers, total: Array | int, filtered: bool = True
    ) -> list[Quad]:
        """Weights and texels of one or two squares of four."""
        row = self.row
        if row["cube"] and row["seamless"]:
            return self.seamless(level, coordinates, layer, total)
        normalized = bool(row["normalized"])
        zero = np.zeros(len(self.mask), np.int64)
        starts, parts = [zero, zero, layer], [zero, zero, zero]
        for axis in range(len(coordinates)):
            size, mode = self.sizes(level)[axis], row["address"][axis]
            u = along(coordinates[axis], size, mode, normalized)
            u = u + (self.offsets[axis] << FRACTION)
            starts[axis], parts[axis] = split(u, size, mode, normalized, filtered)
        places = []
        for axis in range(3):
            if axis < len(coordinates):
                size, mode = self.sizes(level)[axis], row["address"][axis]
                places.append([inside(starts[axis] + n, size, mode, normalized) for n in range(2)])
            else:
                places.append([starts[axis], starts[axis]])
        self.first = self.texels.address(level, places[0][0], places[1][0], places[2][0])
        found = []
        behind = (parts[2] * total + 127) >> 8
        volumes = ((0, total - behind), (1, behind)) if len(coordinates) == 3 else ((0, total),)
        for slice_, share in volumes:
            w = np.stack(weights(parts[0], parts[1], share))
            f, g = parts[0] != 0, parts[1] != 0
            takes_part = np.stack([f | True, f, g, f & g]) & (np.asarray(share) != 0)
            corners = [
                self.texels.raw(level, places[0][dx], places[1][dy], places[2][slice_], self.mask)
                for dy in range(2)
                for dx in range(2)
            ]
            found.append((w, np.stack(corners), takes_part))
        return found
