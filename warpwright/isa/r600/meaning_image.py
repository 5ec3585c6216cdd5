"""Meanings of image reads: a single texel (LD), or the bilinear interpolation of four (SAMPLE_LZ).

An image consists of rows of texels in global memory, with one or four 32-bit channels.  LD returns zeros for texels
outside the image; filtering takes the nearest texel inside.  Coordinates of SAMPLE_LZ are from 0 to 1 over the image.
"""

from __future__ import annotations

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
        put_selected(b, f, texel(b, image, x, y))
    elif name == "SAMPLE_LZ":
        put_selected(b, f, bilinear(b, image, x, y))
    else:
        raise UnsupportedInstruction(f"{name} has no meaning here")


def texel(b: R600Emitter, image: Image, x: Value, y: Value) -> list[Value]:
    """The channels of a texel; zeros outside the image."""
    inside = b.and_(b.icmp("ult", x, b.number(image.width)), b.icmp("ult", y, b.number(image.height)))
    size = 4 * image.channels
    place = b.mul(b.add(b.mul(y, b.number(image.width)), x), b.number(size))
    base = b.op("load_const", "i64", b.const(ENGINE_PARAMETERS_AT + image.parameter_offset), attr=(0, 8))
    at = b.add(base, b.zext(place, "i64"))
    how = Access("global", size)
    if image.channels == 1:
        return [b.op("load", "i32", at, inside, attr=how)]
    words = b.op("load", "i32x4", at, inside, attr=how)
    return [b.op("extract", "i32", words, attr=n) for n in range(4)]


def _position(b: R600Emitter, coordinate: Value, extent: int) -> tuple[list[Value], Value]:
    """The two nearest texels along one axis, and the distance from the first."""
    size = b.op("i2f", "f32", b.number(extent), attr=(False, "rn"))
    place = b.op("fma", "f32", as_float(b, coordinate), size, b.single(0xBF000000), attr="rn")
    whole = b.op("fround", "f32", place, attr="rm")
    weight = rounded(b, b.op("fadd", "f32", place, b.op("fneg", "f32", whole), attr="rn"))
    first = b.op("f2i", "i32", whole, attr=(True, "rz"))
    beside = [first, b.add(first, b.number(1))]
    last = b.number(extent - 1)
    return [b.op("smin", "i32", b.op("smax", "i32", n, b.number(0)), last) for n in beside], weight


def bilinear(b: R600Emitter, image: Image, u: Value, v: Value) -> list[Value]:
    """The interpolation of the four texels around a position."""
    columns, across = _position(b, u, image.width)
    rows, down = _position(b, v, image.height)
    corners = [[texel(b, image, x, y) for x in columns] for y in rows]

    def between(p: Value, q: Value, weight: Value) -> Value:
        apart = rounded(b, b.op("fadd", "f32", q, b.op("fneg", "f32", p), attr="rn"))
        return rounded(b, b.op("fma", "f32", apart, weight, p, attr="rn"))

    found = []
    for channel in range(image.channels):
        values = [[b.bitcast(corner[channel], "f32") for corner in row] for row in corners]
        upper, lower = (between(left, right, across) for left, right in values)
        found.append(b.bitcast(between(upper, lower, down), "i32"))
    return found
