"""Meanings of image reads: a single texel (LD), the bilinear interpolation of four (SAMPLE_LZ), or the trilinear one of eight (SAMPLE_L).

An image consists of rows of texels in global memory, with one or four 32-bit channels; levels follow each other, each with half of the texels along both axes.
LD returns zeros for texels outside the image, of level 0; filtering takes the nearest texel inside.  Coordinates of samples are from 0 to 1 over the image; the level
of SAMPLE_L is its fourth coordinate, and is limited to the levels that there are.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from warpwright.isa.ops import Access, Value
from warpwright.isa.r600.launch_words import ENGINE_PARAMETERS_AT
from warpwright.isa.r600.meaning import R600Emitter, as_float, rounded
from warpwright.isa.r600.meaning_memory import put_selected
from warpwright.isa.sass.meaning import UnsupportedInstruction


class Image(NamedTuple):
    """A resource as a program sees it."""

    parameter_offset: int
    """Offset of its address among the kernel's parameters."""
    width: int
    height: int
    channels: int
    """Number of channels, 1 or 4."""
    levels: int = 1


class Level(NamedTuple):
    """A level of an image, which may be another one in each lane."""

    width: Value
    height: Value
    offset: Value
    """Bytes from the image's first texel to the level's."""


def read_image(b: R600Emitter, images: dict[int, Image]) -> None:
    """A texture fetch.

    Raises:
        UnsupportedInstruction: naming what has no meaning here.
    """
    word = b.item.fetch
    assert word is not None
    f, name = word.fields, word.operation.name
    image = images.get(f["resource_id"])
    if image is None:
        raise UnsupportedInstruction(f"{name}: the program was loaded without image {f['resource_id']}")
    x, y = (b.get(f"T{f['src_gpr']}.{'xyzw'[f[f'src_sel_{c}'] & 3]}") for c in "xy")
    if name == "LD":
        put_selected(b, f, texel(b, image, level_at(b, image, 0), x, y))
    elif name == "SAMPLE_LZ":
        put_selected(b, f, [b.bitcast(v, "i32") for v in bilinear(b, image, level_at(b, image, 0), x, y)])
    elif name == "SAMPLE_L":
        w = b.get(f"T{f['src_gpr']}.{'xyzw'[f['src_sel_w'] & 3]}")
        put_selected(b, f, [b.bitcast(v, "i32") for v in trilinear(b, image, x, y, w)])
    else:
        raise UnsupportedInstruction(f"{name} has no meaning here")


def level_at(b: R600Emitter, image: Image, number: int) -> Level:
    """A level by its number."""
    sizes = [(max(image.width >> n, 1), max(image.height >> n, 1)) for n in range(number + 1)]
    offset = 4 * image.channels * sum(width * height for width, height in sizes[:-1])
    width, height = sizes[-1]
    return Level(b.number(width), b.number(height), b.number(offset))


def chosen_level(b: R600Emitter, image: Image, number: Value) -> Level:
    """The level whose number a register holds."""
    found = level_at(b, image, 0)
    for n in range(1, image.levels):
        here = b.icmp("eq", number, b.number(n))
        found = Level(*(b.select(here, own, other) for own, other in zip(level_at(b, image, n), found, strict=True)))
    return found


def texel(b: R600Emitter, image: Image, level: Level, x: Value, y: Value) -> list[Value]:
    """The channels of a texel; zeros outside the image."""
    inside = b.and_(b.icmp("ult", x, level.width), b.icmp("ult", y, level.height))
    size = 4 * image.channels
    place = b.add(b.mul(b.add(b.mul(y, level.width), x), b.number(size)), level.offset)
    base = b.op("load_const", "i64", b.const(ENGINE_PARAMETERS_AT + image.parameter_offset), attr=(0, 8))
    at = b.add(base, b.zext(place, "i64"))
    how = Access("global", size)
    if image.channels == 1:
        return [b.op("load", "i32", at, inside, attr=how)]
    words = b.op("load", "i32x4", at, inside, attr=how)
    return [b.op("extract", "i32", words, attr=n) for n in range(4)]


def _position(b: R600Emitter, coordinate: Value, extent: Value) -> tuple[list[Value], Value]:
    """The two nearest texels along one axis, and the distance from the first."""
    size = b.op("i2f", "f32", extent, attr=(False, "rn"))
    place = b.op("fma", "f32", as_float(b, coordinate), size, b.single(0xBF000000), attr="rn")
    whole = b.op("fround", "f32", place, attr="rm")
    weight = rounded(b, b.op("fadd", "f32", place, b.op("fneg", "f32", whole), attr="rn"))
    first = b.op("f2i", "i32", whole, attr=(True, "rz"))
    beside = [first, b.add(first, b.number(1))]
    last = b.sub(extent, b.number(1))
    return [b.op("smin", "i32", b.op("smax", "i32", n, b.number(0)), last) for n in beside], weight


def between(b: R600Emitter, p: Value, q: Value, weight: Value) -> Value:
    """The value that is a share of the way from one to another."""
    apart = rounded(b, b.op("fadd", "f32", q, b.op("fneg", "f32", p), attr="rn"))
    return rounded(b, b.op("fma", "f32", apart, weight, p, attr="rn"))


def bilinear(b: R600Emitter, image: Image, level: Level, u: Value, v: Value) -> list[Value]:
    """The interpolation of the four texels around a position."""
    columns, across = _position(b, u, level.width)
    rows, down = _position(b, v, level.height)
    corners = [[texel(b, image, level, x, y) for x in columns] for y in rows]
    found = []
    for channel in range(image.channels):
        values = [[b.bitcast(corner[channel], "f32") for corner in row] for row in corners]
        upper, lower = (between(b, left, right, across) for left, right in values)
        found.append(between(b, upper, lower, down))
    return found


def trilinear(b: R600Emitter, image: Image, u: Value, v: Value, lod: Value) -> list[Value]:
    """The interpolation between the two levels around a level of detail."""
    last = b.single(int.from_bytes(struct.pack("<f", image.levels - 1), "little"))
    detail = b.op("fmax", "f32", as_float(b, lod), b.single(0), attr="number")
    detail = b.op("fmin", "f32", detail, last, attr="number")
    whole = b.op("fround", "f32", detail, attr="rm")
    weight = rounded(b, b.op("fadd", "f32", detail, b.op("fneg", "f32", whole), attr="rn"))
    first = b.op("f2i", "i32", whole, attr=(True, "rz"))
    second = b.op("smin", "i32", b.add(first, b.number(1)), b.number(image.levels - 1))
    fine, coarse = (bilinear(b, image, chosen_level(b, image, number), u, v) for number in (first, second))
    return [between(b, p, q, weight) for p, q in zip(fine, coarse, strict=True)]
