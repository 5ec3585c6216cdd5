"""Images and samplers among the parameters of OpenCL C's kernels: handles, resources and targets.

A kernel gets a parameter's *handle*, a constant in place of clang's pointer: the offset of the image's record among the launch's words in bits 0 to 15, the number of
its resource in bits 16 to 23, and from bit 24 on the number of its random access target.  A sampler's handle is the sampler itself, or for a parameter the offset
of its word, its number from bit 16 on and ``PARAMETER``.  LLVM folds handles to the constants that its instructions need, once the functions are inlined.

The functions on them are in :mod:`opencl_image_functions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from warpwright.errors import UnsupportedError
from warpwright.isa.r600.bindings import (
    CLAMP_BORDER,
    CLAMP_LAST,
    IMAGE_RECORD_BYTES,
    MIP_NEAREST,
    MIRROR,
    WRAP,
    Bindings,
    BoundImage,
    Resource,
    Sampler,
    Target,
)

WIDTH_AT, HEIGHT_AT, LAYERS_AT, FORMAT_AT = 8, 12, 16, 28
"""Offsets in an image's record; the last word is OpenCL's channel data type, with the channel order from bit 16 on.  The record of a buffer of texels has its size
in bytes and its number of texels, as all buffers."""
LEVELS_AT = IMAGE_RECORD_BYTES + FORMAT_AT
"""The number of levels: the last word of the second level's record."""
MOST_LEVELS = 15
"""Of an image of 16,384 texels."""
MOST_IMAGES, MOST_TARGETS, MOST_SAMPLERS = 128, 8, 16
"""OpenCL's least numbers of a kernel's images that are read, images that are written, and samplers."""
RESOURCE_BIT, TARGET_BIT, SAMPLER_BIT, PARAMETER = 16, 24, 16, 1 << 30
FIRST_SAMPLER_PARAMETER = 10
"""Samplers before it are those of OpenCL C's constants: five modes of addressing, with and without a filter."""
NORMALIZED, LINEAR = 1, 0x20
ADDRESSES = (CLAMP_LAST, CLAMP_LAST, CLAMP_BORDER, WRAP, MIRROR)
"""The chip's mode by OpenCL's: none (any will do), clamp to edge, clamp, repeat, mirrored repeat."""
MOST_DETAIL = 0xFFF
FIRST_BUFFER, FIRST_RETURN = 16, 160
"""Resources of buffers of texels, and of what random accesses to images return.  Lower ones are those of LLVM's back end."""
FIRST_READ = 15
"""The typed store that stands for a read of the first target; those of the next targets have the numbers below it."""
FLOAT_FORMAT, NUMBER, ALL_CHANNELS = 0x23, 2, (0, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class ImageKind:
    """A type of images."""

    dimensions: int
    layered: bool = False
    buffer: bool = False
    """Whether it is a buffer of texels, which fetches from buffers read."""

    @property
    def coordinates(self) -> int:
        """Components of a place, with the layer."""
        return self.dimensions + self.layered

    @property
    def name(self) -> str:
        """Its name in OpenCL C, without ``_t``."""
        return f"image{self.dimensions}d{'_array' * self.layered}{'_buffer' * self.buffer}"


_ALL = (ImageKind(1), ImageKind(1, True), ImageKind(2), ImageKind(2, True), ImageKind(3), ImageKind(1, buffer=True))
KINDS = {kind.name: kind for kind in _ALL}


# --- parameters -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ImageParameter:
    """A kernel's parameter that is an image."""

    kind: ImageKind
    number: int
    """Of its resource."""
    target: int
    """Of its random access target among the kernel's; -1 if the kernel only reads it."""
    reads_target: bool = False
    """Whether the kernel reads what it has written, which takes random accesses."""
    records: int = 1
    """Levels of which the launch's words have a record."""

    def handle(self, offset: int) -> int:
        """The constant that the kernel gets."""
        return offset | self.number << RESOURCE_BIT | max(self.target, 0) << TARGET_BIT


@dataclass(frozen=True, slots=True)
class SamplerParameter:
    """A kernel's parameter that is a sampler."""

    number: int

    def handle(self, offset: int) -> int:
        """The constant that the kernel gets."""
        return offset | (FIRST_SAMPLER_PARAMETER + self.number) << SAMPLER_BIT | PARAMETER


def special_parameters(
    types: list[str], accesses: list[str], where: str, records: int = 1
) -> dict[int, ImageParameter | SamplerParameter]:
    """The images and samplers among a kernel's parameters, by position.

    Args:
        types: names in OpenCL C.
        accesses: ``read_only``, ``write_only``, ``read_write`` or ``none``.
        records: levels that the program may read of an image.

    Raises:
        UnsupportedError: for a type that the texture path does not have here, or too many of them.
    """
    found: dict[int, ImageParameter | SamplerParameter] = {}
    images = targets = samplers = 0
    for n, (type, access) in enumerate(zip(types, accesses, strict=True)):
        if type == "sampler_t":
            found[n] = SamplerParameter(samplers)
            samplers += 1
        elif type.startswith("image"):
            kind = KINDS.get(type.removesuffix("_t"))
            if kind is None:
                raise UnsupportedError(f"{where}: parameter {n + 1}: {type} has no meaning on Cypress and Cayman here")
            writes, both = access != "read_only", access == "read_write"
            found[n] = ImageParameter(kind, images, targets if writes else -1, both, 1 if kind.buffer else records)
            images, targets = images + 1, targets + writes
    if images > MOST_IMAGES or targets > MOST_TARGETS or samplers > MOST_SAMPLERS:
        raise UnsupportedError(
            f"{where}: {images} images, {targets} of them written, and {samplers} samplers: a kernel has at most {MOST_IMAGES}, {MOST_TARGETS} and {MOST_SAMPLERS}"
        )
    return found


def sampler_of(value: int, mip: int = MIP_NEAREST) -> Sampler:
    """The chip's sampler of OpenCL C's, whose number says addresses and filter."""
    linear, wrap = bool(value & LINEAR), ADDRESSES[value >> 1 & 7]
    return Sampler((wrap,) * 3, linear, linear, mip, 1, 0, MOST_DETAIL, 0, 0)


def constant_samplers() -> dict[int, Sampler]:
    """The samplers that a program may name itself, by number."""
    each = [(address, linear) for linear in (0, LINEAR) for address in range(len(ADDRESSES))]
    return {n: sampler_of(address << 1 | linear) for n, (address, linear) in enumerate(each)}


class Texels(NamedTuple):
    """Place and format of an image's texels, as :class:`~warpwright.isa.r600.bindings.BoundImage` has them."""

    at: int
    data_format: int
    number_format: int
    signed: bool
    selects: tuple[int, int, int, int]
    stride_bytes: int
    levels: int = 1


def bindings_of(images: Mapping[ImageParameter, Texels], samplers: Mapping[int, Sampler]) -> Bindings:
    """The bindings of a kernel's images, and its samplers by number."""
    textures, buffers, returns = {}, {}, {}
    targets: dict[int, Target | BoundImage] = {}
    for one, (at, data_format, number_format, signed, selects, stride, levels) in images.items():
        kind, target = one.kind, 1 + one.target
        if kind.buffer:
            buffers[FIRST_BUFFER + one.number] = Resource(at, stride, data_format, number_format, signed, selects)
        else:
            textures[one.number] = BoundImage(
                at, kind.dimensions, kind.layered, data_format, number_format, signed, min(levels, one.records), selects
            )
        if target:
            store = textures.get(one.number)
            targets[target] = store or Target(at, data_format, number_format, signed, selects)
        if one.reads_target:
            returns[FIRST_RETURN + one.target] = target
    return Bindings(resources=buffers, textures=textures, samplers=samplers, targets=targets, returns=returns)


def assumed_bindings(parameters: Mapping[int, ImageParameter | SamplerParameter]) -> Bindings:
    """Bindings of a kernel before a launch: images of four floats, which a launch replaces."""
    assumed = Texels(0, FLOAT_FORMAT, NUMBER, False, ALL_CHANNELS, 16)
    images = {one: assumed for one in parameters.values() if isinstance(one, ImageParameter)}
    numbers = [one.number for one in parameters.values() if isinstance(one, SamplerParameter)]
    return bindings_of(images, constant_samplers() | {FIRST_SAMPLER_PARAMETER + n: sampler_of(0) for n in numbers})
