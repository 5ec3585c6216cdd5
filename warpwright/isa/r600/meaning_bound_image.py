"""Images bound by a graphics driver: bounds tests, addresses of texels, sizes.

Rows are linear. The launch's words hold the number of elements per row and per layer.
"""

from __future__ import annotations

from warpwright.isa.ops import Value
from warpwright.isa.r600.bindings import IMAGE_RECORD_BYTES, BoundImage
from warpwright.isa.r600.launch_words import ENGINE_PARAMETERS_AT
from warpwright.isa.r600.meaning import R600Emitter, launch_bytes

EXTENTS_AT, ROW_AT, LAYER_AT = 8, 20, 24
"""Offsets in a record, after the address: width, height and layers (or depth), elements per row and per layer."""


def axes_of(image: BoundImage) -> list[int]:
    """The coordinates that an image uses; the third selects the layer."""
    return [*range(image.dimensions), *[2] * (image.layered and image.dimensions < 3)]


def inside_image(b: R600Emitter, image: BoundImage, coordinates: list[Value]) -> Value:
    """Whether a texel is inside an image."""
    inside = b.icmp("ult", coordinates[0], launch_bytes(b, image.at + EXTENTS_AT, "i32"))
    for axis in axes_of(image)[1:]:
        extent = launch_bytes(b, image.at + EXTENTS_AT + 4 * axis, "i32")
        inside = b.and_(inside, b.icmp("ult", coordinates[axis], extent))
    return inside


def texel_address(b: R600Emitter, image: BoundImage, coordinates: list[Value], size: int) -> Value:
    """Device address of a texel of ``size`` bytes, valid inside the image."""
    number = coordinates[0]
    for axis in axes_of(image)[1:]:
        pitch = launch_bytes(b, image.at + (ROW_AT if axis == 1 else LAYER_AT), "i32")
        number = b.add(number, b.mul(coordinates[axis], pitch))
    offset = b.zext(number, "i64")
    if size > 1:
        offset = b.shl(offset, b.const(size.bit_length() - 1, "i64"))
    return b.add(launch_bytes(b, image.at, "i64"), offset)


def _level_word(b: R600Emitter, image: BoundImage, level: Value, at: int, type: str = "i32") -> Value:
    """A field of the record of a level whose number is in a register."""
    if image.fixed:
        return _fixed_word(b, image, level, at)
    if image.levels == 1:
        return launch_bytes(b, image.at + at, type)
    place = b.add(b.mul(level, b.number(IMAGE_RECORD_BYTES)), b.number(ENGINE_PARAMETERS_AT + image.at + at))
    return b.op("load_const", type, place, attr=(0, 8 if type == "i64" else 4))


def _fixed_word(b: R600Emitter, image: BoundImage, level: Value, at: int) -> Value:
    """The same of an image of assembly."""

    def chosen(values: list[int]) -> Value:
        found = b.number(values[0])
        for n, value in enumerate(values[1:], 1):
            found = b.select(b.icmp("eq", level, b.number(n)), b.number(value), found)
        return found

    if at == 0:
        base = b.op("load_const", "i64", b.const(ENGINE_PARAMETERS_AT + image.at), attr=(0, 8))
        return b.add(base, b.zext(chosen([one.offset for one in image.fixed]), "i64"))
    if at == EXTENTS_AT + 4:
        return chosen([one.height for one in image.fixed])
    return chosen([one.width for one in image.fixed])


def level_extent(b: R600Emitter, image: BoundImage, level: Value, axis: int) -> Value:
    """Width, height, and depth or number of layers of a level."""
    return _level_word(b, image, level, EXTENTS_AT + 4 * axis)


def inside_level(b: R600Emitter, image: BoundImage, coordinates: list[Value], level: Value) -> Value:
    """Whether a texel is inside a level that the image has."""
    inside = b.icmp("ult", level, b.number(image.levels))
    known = b.select(inside, level, b.number(0))
    for axis in axes_of(image):
        inside = b.and_(inside, b.icmp("ult", coordinates[axis], level_extent(b, image, known, axis)))
    return inside


def level_texel_address(b: R600Emitter, image: BoundImage, coordinates: list[Value], size: int, level: Value) -> Value:
    """Device address of a texel of ``size`` bytes of a level, valid inside it."""
    number = coordinates[0]
    for axis in axes_of(image)[1:]:
        pitch = _level_word(b, image, level, ROW_AT if axis == 1 else LAYER_AT)
        number = b.add(number, b.mul(coordinates[axis], pitch))
    offset = b.zext(number, "i64")
    if size > 1:
        offset = b.shl(offset, b.const(size.bit_length() - 1, "i64"))
    return b.add(_level_word(b, image, level, 0, "i64"), offset)


def image_size(b: R600Emitter, image: BoundImage, level: Value) -> list[Value]:
    """The size of an image's level: its extents, then the number of layers, and the number of levels."""
    sizes = []
    for n, axis in enumerate(axes_of(image)):
        size = launch_bytes(b, image.at + EXTENTS_AT + 4 * axis, "i32")
        if n < image.dimensions and image.levels > 1:
            size = b.op("umax", "i32", b.lshr(size, level), b.number(1))
        sizes.append(size)
    sizes += [b.number(1)] * (3 - len(sizes))
    return [*sizes, b.number(image.levels)]
