"""Filtered fetches from images of a graphics driver: nearest, bilinear, trilinear and anisotropic, and gathers.

A fetch is several instructions of the model (:class:`warpwright.isa.r600.items.Filtering`): one that finds the level of detail, one for each bilinear mean, which
is a memory access, and one that writes the result.  An anisotropic fetch repeats its means along the longer gradient.  Weights are single precision; the chips'
own number of bits is not published.
"""

from __future__ import annotations

import struct
from itertools import product

from warpwright.isa.ops import Value
from warpwright.isa.r600.bindings import (
    CLAMP_BORDER,
    CLAMP_LAST,
    MIP_LINEAR,
    MIP_NEAREST,
    MIRROR,
    MIRROR_ONCE_BORDER,
    MIRROR_ONCE_LAST,
    WRAP,
    BoundImage,
    Sampler,
)
from warpwright.isa.r600.element_formats import (
    INTEGER,
    checked,
    element_bytes,
    from_memory,
    load_element,
    selected,
)
from warpwright.isa.r600.meaning import R600Emitter, as_float, register_name, rounded
from warpwright.isa.r600.meaning_bound_image import level_extent, level_texel_address
from warpwright.isa.r600.meaning_memory import put_selected
from warpwright.isa.sass.meaning import UnsupportedInstruction

PLACES = ("x", "y", "z")
GRADIENTS = {"SET_GRADIENTS_H": "H", "SET_GRADIENTS_V": "V"}
TEXELS_OF_GATHER = ((0, 1), (1, 1), (1, 0), (0, 0))
"""The texels of a gather, as steps along x and y, in the order of its results on Cayman."""
CYPRESS_ORDER = (2, 0, 1, 3)
"""Which of them Cypress returns in x, y, z and w."""
HALF, ONE = 0x3F000000, 0x3F800000
LEVEL_STEPS = 256.0
"""A sampler's levels of detail are in this part of one."""
BORDERS = {0: (0, 0, 0, 0), 1: (0, 0, 0, ONE), 2: (ONE, ONE, ONE, ONE)}
"""Components of a border's colour, by its type; 3 is a register's."""


def _single(b: R600Emitter, value: float) -> Value:
    return b.single(int.from_bytes(struct.pack("<f", value), "little"))


def _put(b: R600Emitter, name: str, value: Value) -> None:
    b.set(f"FILTER.{name}", b.bitcast(value, "i32"))


def _get(b: R600Emitter, name: str) -> Value:
    return b.bitcast(b.get(f"FILTER.{name}"), "f32")


def _sum(b: R600Emitter, x: Value, y: Value) -> Value:
    return rounded(b, b.op("fadd", "f32", x, y, attr="rn"))


def _product(b: R600Emitter, x: Value, y: Value) -> Value:
    return rounded(b, b.op("fmul", "f32", x, y, attr="rn"))


def _fma(b: R600Emitter, x: Value, y: Value, z: Value) -> Value:
    return rounded(b, b.op("fma", "f32", x, y, z, attr="rn"))


def _least(b: R600Emitter, x: Value, y: Value) -> Value:
    return b.op("fmin", "f32", x, y, attr="number")


def _most(b: R600Emitter, x: Value, y: Value) -> Value:
    return b.op("fmax", "f32", x, y, attr="number")


def _floor(b: R600Emitter, x: Value) -> Value:
    return b.op("fround", "f32", x, attr="rm")


def _whole(b: R600Emitter, x: Value) -> Value:
    return b.op("f2i", "i32", x, attr=(True, "rz"))


def _real(b: R600Emitter, x: Value) -> Value:
    return b.op("i2f", "f32", x, attr=(True, "rn"))


class Fetch:
    """A filtered fetch with its image and sampler."""

    def __init__(self, b: R600Emitter) -> None:
        word, bindings = b.item.fetch, b.images
        assert word is not None
        assert bindings is not None
        self.b, self.word, self.fields, self.name = b, word, word.fields, word.operation.name
        image, sampler = (
            bindings.textures.get(word.fields["resource_id"]),
            bindings.samplers.get(word.fields["sampler_id"]),
        )
        if image is None or sampler is None:
            raise UnsupportedInstruction(
                f"{self.name}: no image, or no sampler, is bound to resource {word.fields['resource_id']}"
            )
        if any(word.fields.get(key) for key in ("src_rel", "dst_rel", "resource_index_mode", "sampler_index_mode")):
            raise UnsupportedInstruction(f"{self.name} with an index has no meaning here")
        self.image: BoundImage = image
        self.sampler: Sampler = sampler
        if image.number_format == INTEGER and (sampler.magnify or sampler.minify) and not self.gathers:
            raise UnsupportedInstruction(f"{self.name}: integers cannot be filtered")
        if image.cube:
            raise UnsupportedInstruction(f"{self.name}: filtered cube maps have no meaning here")

    @property
    def gathers(self) -> bool:
        return self.name == "GATHER4"

    def coordinate(self, axis: str) -> Value:
        """A coordinate of the fetch as f32."""
        select = self.fields[f"src_sel_{axis}"]
        if select >= 4:
            return self.b.single(ONE if select == 5 else 0)
        return as_float(self.b, self.b.get(register_name(self.fields["src_gpr"], "xyzw"[select])))

    def offset(self, axis: str) -> float:
        """Texels to add: fields hold halves of a texel, in five bits with a sign."""
        value = self.fields[f"offset_{axis}"]
        return ((value ^ 16) - 16) / 2


def set_gradients(b: R600Emitter) -> None:
    """Keep a gradient for the next SAMPLE_G."""
    word = b.item.fetch
    assert word is not None
    for axis in PLACES:
        select = word.fields[f"src_sel_{axis}"]
        value = b.get(register_name(word.fields["src_gpr"], "xyzw"[select])) if select < 4 else b.number(0)
        b.set(f"GRADIENT.{GRADIENTS[word.operation.name]}{axis}", value)


# --- level of detail --------------------------------------------------------------------------------------------
def begin(b: R600Emitter) -> None:
    """Find the levels and the number of means of a fetch; clear the sum.

    Raises:
        UnsupportedInstruction: naming what has no meaning here.
    """
    fetch = Fetch(b)
    for axis in PLACES[: fetch.image.dimensions]:
        _put(b, axis, fetch.coordinate(axis))
    if fetch.image.layered:
        _put(b, "layer", fetch.coordinate("z" if fetch.image.dimensions == 2 else "y"))
    for n in range(4):
        b.set(f"FILTER.sum{n}", b.number(0))
    b.set("FILTER.done", b.number(0))
    b.set("FILTER.count", b.number(1))
    if fetch.name == "SAMPLE_G":
        detail = _of_gradients(fetch)
    elif fetch.name == "SAMPLE_L":
        detail = fetch.coordinate("w")
    elif fetch.name in ("SAMPLE_LZ", "GATHER4"):
        detail = b.single(0)
    else:
        raise UnsupportedInstruction(f"{fetch.name} has no meaning in a compute program here")
    _put_levels(fetch, detail)


def _put_levels(fetch: Fetch, detail: Value) -> None:
    """Choose the filter and the levels for a level of detail."""
    b, sampler = fetch.b, fetch.sampler
    detail = _sum(b, detail, _single(b, sampler.bias / LEVEL_STEPS))
    detail = _least(
        b, _most(b, detail, _single(b, sampler.least / LEVEL_STEPS)), _single(b, sampler.most / LEVEL_STEPS)
    )
    magnified = b.fcmp("ole", detail, b.single(0))
    _put(b, "linear", b.select(magnified, b.single(ONE * sampler.magnify), b.single(ONE * sampler.minify)))
    last = fetch.image.levels - 1
    detail = _least(b, _most(b, detail, b.single(0)), _single(b, float(last)))
    share = b.single(0)
    if fetch.gathers or sampler.mip not in (MIP_NEAREST, MIP_LINEAR) or not last:
        whole = b.single(0)
    elif sampler.mip == MIP_NEAREST:
        whole = _floor(b, _sum(b, detail, b.single(HALF)))
    else:
        whole = _floor(b, detail)
        share = _sum(b, detail, b.op("fneg", "f32", whole))
    b.set("FILTER.level", _whole(b, whole))
    _put(b, "share", share)


def _length(b: R600Emitter, steps: list[Value]) -> Value:
    total = b.single(0)
    for step in steps:
        total = _fma(b, step, step, total)
    return rounded(b, b.op("mufu", "f32", total, attr="sqrt"))


def _of_gradients(fetch: Fetch) -> Value:
    """The level of detail of two gradients; keeps the step between the means of an anisotropic fetch."""
    b, image = fetch.b, fetch.image
    given = {way: [as_float(b, b.get(f"GRADIENT.{way}{axis}")) for axis in PLACES[: image.dimensions]] for way in "HV"}
    sizes = [_real(b, level_extent(b, image, b.number(0), n)) for n in range(image.dimensions)]
    lengths = [_length(b, [_product(b, g, size) for g, size in zip(given[way], sizes, strict=True)]) for way in "HV"]
    longer, shorter = _most(b, *lengths), _least(b, *lengths)
    if fetch.sampler.anisotropy > 1 and image.dimensions == 2:
        most = _single(b, float(fetch.sampler.anisotropy))
        quotient = _product(b, longer, rounded(b, b.op("mufu", "f32", shorter, attr="rcp")))
        # Without a shorter gradient, the quotient is infinite; without any, it is not a number, and one mean is enough.
        ratio = _least(b, _most(b, quotient, b.single(ONE)), most)
        count = b.op("fround", "f32", _sum(b, ratio, _single(b, -1.0 / 1024)), attr="rp")
        count = _most(b, count, b.single(ONE))
        b.set("FILTER.count", _whole(b, count))
        along = b.fcmp("oge", lengths[0], lengths[1])
        each = rounded(b, b.op("mufu", "f32", count, attr="rcp"))
        for n, axis in enumerate(PLACES[:2]):
            _put(b, f"step{axis}", _product(b, b.select(along, given["H"][n], given["V"][n]), each))
        longer = _product(b, longer, rounded(b, b.op("mufu", "f32", ratio, attr="rcp")))
    return rounded(b, b.op("mufu", "f32", longer, attr="lg2"))


# --- means ------------------------------------------------------------------------------------------------------
def add_mean(b: R600Emitter, coarse: bool) -> None:
    """Add the weighted mean around one place of one level; ``coarse``: of the second level, in lanes between two."""
    fetch = Fetch(b)
    image, level = fetch.image, b.get("FILTER.level")
    share, takes_part = _get(b, "share"), None
    if coarse:
        level = b.op("smin", "i32", b.add(level, b.number(1)), b.number(image.levels - 1))
        takes_part = b.fcmp("ogt", share, b.single(0))
    places = [_get(b, axis) for axis in PLACES[: image.dimensions]]
    weight = share if coarse else _sum(b, b.single(ONE), b.op("fneg", "f32", share))
    if fetch.sampler.anisotropy > 1 and fetch.name == "SAMPLE_G" and image.dimensions == 2:
        count = _real(b, b.get("FILTER.count"))
        middle = _product(b, _sum(b, count, _single(b, -1.0)), b.single(HALF))
        number = _sum(b, _real(b, b.get("FILTER.done")), b.op("fneg", "f32", middle))
        places = [_fma(b, number, _get(b, f"step{axis}"), place) for axis, place in zip(PLACES, places, strict=False)]
        weight = _product(b, weight, rounded(b, b.op("mufu", "f32", count, attr="rcp")))
    axes = [_axis(fetch, n, place, level) for n, place in enumerate(places)]
    if fetch.gathers:
        _gather(fetch, axes, level)
        return
    means = _mean(fetch, axes, level, takes_part)
    for n, value in enumerate(means):
        if image.number_format == INTEGER:
            b.set(f"FILTER.sum{n}", value)
        else:
            _put(b, f"sum{n}", _fma(b, b.bitcast(value, "f32"), weight, _get(b, f"sum{n}")))


class _Axis:
    """Two neighbours along an axis: their numbers, the second one's weight, and whether each is inside."""

    def __init__(self, numbers: list[Value], weight: Value, inside: list[Value] | None) -> None:
        self.numbers, self.weight, self.inside = numbers, weight, inside


def _axis(fetch: Fetch, axis: int, place: Value, level: Value) -> _Axis:
    b, mode = fetch.b, fetch.sampler.wraps[axis]
    extent = level_extent(b, fetch.image, level, axis)
    size = _real(b, extent)
    normalised = fetch.fields[f"coord_type_{PLACES[axis]}"]
    if mode == WRAP and normalised:
        place = _sum(b, place, b.op("fneg", "f32", _floor(b, place)))
    elif mode == MIRROR and normalised:
        turns = b.op("fround", "f32", _product(b, place, b.single(HALF)), attr="rn")
        place = b.op("fabs", "f32", _fma(b, turns, _single(b, -2.0), place))
    elif mode in (MIRROR_ONCE_LAST, MIRROR_ONCE_BORDER):
        place = b.op("fabs", "f32", place)
    elif mode not in (CLAMP_LAST, CLAMP_BORDER, WRAP, MIRROR):
        raise UnsupportedInstruction(f"{fetch.name}: addresses that clamp to half of the border have no meaning here")
    linear = _get(b, "linear") if not fetch.gathers else b.single(ONE)
    if normalised:
        place = _product(b, place, size)
    shift = fetch.offset(PLACES[axis])
    at = _fma(b, linear, _single(b, -0.5), _sum(b, place, _single(b, shift)))
    whole = _floor(b, at)
    weight = _product(b, _sum(b, at, b.op("fneg", "f32", whole)), linear)
    first = _whole(b, whole)
    numbers = [first, b.add(first, b.number(1))]
    last = b.sub(extent, b.number(1))
    if mode in (CLAMP_BORDER, MIRROR_ONCE_BORDER):
        return _Axis(numbers, weight, [b.icmp("ult", n, extent) for n in numbers])
    if mode == WRAP:
        # An offset may lead further around than once.
        turned = [_remainder(b, n, extent, bool(shift)) for n in numbers]
        return _Axis(turned, weight, None)
    return _Axis([b.op("smin", "i32", b.op("smax", "i32", n, b.number(0)), last) for n in numbers], weight, None)


def _remainder(b: R600Emitter, number: Value, extent: Value, offset: bool) -> Value:
    """A number from -1 to the extent, brought inside; with an offset, one that may be several extents away."""
    if offset:
        turns = _floor(b, _product(b, _sum(b, _real(b, number), b.single(HALF)), _inverse(b, extent)))
        return b.sub(number, b.mul(_whole(b, turns), extent))
    number = b.select(b.icmp("slt", number, b.number(0)), b.add(number, extent), number)
    return b.select(b.icmp("sge", number, extent), b.sub(number, extent), number)


def _inverse(b: R600Emitter, extent: Value) -> Value:
    return rounded(b, b.op("mufu", "f32", _real(b, extent), attr="rcp"))


def _texel(
    fetch: Fetch, axes: list[_Axis], corner: tuple[int, ...], level: Value, takes_part: Value | None
) -> list[Value]:
    """The channels of a texel, which is the border's colour outside."""
    b, image = fetch.b, fetch.image
    numbers = [axis.numbers[step] for axis, step in zip(axes, corner, strict=True)]
    inside = takes_part
    within = [axis.inside[step] for axis, step in zip(axes, corner, strict=True) if axis.inside is not None]
    here = None
    for one in within:
        here = one if here is None else b.and_(here, one)
    if here is not None:
        inside = here if inside is None else b.and_(inside, here)
    coordinates = [*numbers, *[b.number(0)] * (3 - len(numbers))]
    if image.layered:
        top = b.sub(level_extent(b, image, level, 2), b.number(1))
        layer = b.op("f2i", "i32", _get(b, "layer"), attr=(True, "rn"))
        coordinates[2] = b.op("smin", "i32", b.op("smax", "i32", layer, b.number(0)), top)
    size = element_bytes(checked(image.data_format, fetch.name))
    # A resource that nothing is bound to has no texels.
    bound = b.icmp("ne", level_extent(b, image, level, 0), b.number(0))
    inside = bound if inside is None else b.and_(inside, bound)
    words = load_element(b, level_texel_address(b, image, coordinates, size, level), inside, size)
    values = from_memory(b, words, image.data_format, image.number_format, image.signed)
    if here is not None:
        if fetch.sampler.border not in BORDERS:
            raise UnsupportedInstruction(
                f"{fetch.name}: a border's colour other than black, white and transparent has no meaning here"
            )
        border = BORDERS[fetch.sampler.border]
        values = [b.select(here, value, b.number(border[n])) for n, value in enumerate(values)]
    return selected(b, values, image.selects, image.number_format)


def _mean(fetch: Fetch, axes: list[_Axis], level: Value, takes_part: Value | None) -> list[Value]:
    """The mean of the texels around a place by their distance, one axis after the other."""
    b = fetch.b
    if fetch.image.number_format == INTEGER:
        return _texel(fetch, axes, (0,) * len(axes), level, takes_part)
    corners = list(product((0, 1), repeat=len(axes)))
    found = [_texel(fetch, axes, corner, level, takes_part) for corner in corners]
    for axis in axes:
        # The first half of the corners has the axis' first neighbour, the other half its second.
        half = len(found) // 2
        found = [
            [_between(b, p, q, axis.weight) for p, q in zip(*pair, strict=True)]
            for pair in zip(found[:half], found[half:], strict=True)
        ]
    return found[0]


def _between(b: R600Emitter, p: Value, q: Value, weight: Value) -> Value:
    first, second = b.bitcast(p, "f32"), b.bitcast(q, "f32")
    apart = _sum(b, second, b.op("fneg", "f32", first))
    return b.bitcast(_fma(b, apart, weight, first), "i32")


def _gather(fetch: Fetch, axes: list[_Axis], level: Value) -> None:
    """One channel of each of the four texels."""
    b = fetch.b
    channel = fetch.word.fields["inst_mod"]
    found = [_texel(fetch, axes, corner, level, None)[channel] for corner in TEXELS_OF_GATHER]
    for n, value in enumerate(found):
        b.set(f"FILTER.sum{n}", value)


# --- the end ----------------------------------------------------------------------------------------------------
def next_mean(b: R600Emitter) -> None:
    """Count a mean of an anisotropic fetch; lanes with all of theirs leave the loop."""
    done = b.add(b.get("FILTER.done"), b.number(1))
    b.set("FILTER.done", done)
    b.op("pop", "void", b.icmp("sge", done, b.get("FILTER.count")), attr="brk")


def finish(b: R600Emitter, generation: str) -> None:
    """Write the result to the channels that the fetch selects."""
    fetch = Fetch(b)
    values = [b.get(f"FILTER.sum{n}") for n in range(4)]
    if fetch.gathers and generation == "evergreen":
        values = [values[n] for n in CYPRESS_ORDER]
    put_selected(b, fetch.fields, values)
