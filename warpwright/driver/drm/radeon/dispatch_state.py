"""What registers and descriptors of a dispatch say, under the names of AMD's register references for Evergreen and Cayman."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from warpwright.errors import UnsupportedError
from warpwright.isa.r600.bindings import Sampler

PROGRAM_START, PROGRAM_RESOURCES = 0x288D0, 0x288D4
"""SQ_PGM_START_LS and SQ_PGM_RESOURCES_LS: compute programs take the registers of LS."""
THREADS_X = 0x286EC
"""SPI_COMPUTE_NUM_THREAD_X, and after it Y and Z."""
LDS_ALLOCATION = 0x288E8
CONSTANT_SIZES, CONSTANT_ADDRESSES = 0x28FC0, 0x28F40
"""ALU_CONST_BUFFER_SIZE_LS and ALU_CONST_CACHE_LS of 16 buffers."""
FIRST_RESOURCE, FIRST_SAMPLER = 816, 90
"""Numbers of a compute program's first resource and sampler among all."""
TARGET_REGISTERS = tuple(0x28C60 + 0x3C * n for n in range(8)) + tuple(0x28E40 + 0x1C * n for n in range(4))
"""CB_COLOR_BASE of the twelve random access targets."""
PITCH_AT, SLICE_AT, VIEW_AT, INFO_AT, DIMENSIONS_AT = 0x04, 0x08, 0x0C, 0x10, 0x18
"""CB_COLOR_PITCH, SLICE, VIEW, INFO and DIM after it."""
LINE_BYTES = 256
UNSIGNED, SIGNED = 4, 5
"""Number types of integers."""
NUMBER_TYPES = {
    0: (0, False),
    1: (0, True),
    2: (2, False),
    3: (2, True),
    UNSIGNED: (1, False),
    SIGNED: (1, True),
    7: (2, True),
}
"""Number format and sign, as resources have them, of a target's number type; 6 is sRGB."""
TEXTURE, BUFFER = 2, 3
"""Types of a resource."""
LINEAR = (0, 1)
"""Array modes without tiles."""
TILED = "tiled images (of depth, of samples, compressed) are not modelled on Cypress and Cayman"
DIMENSIONS = {0: (1, False), 1: (2, False), 2: (3, False), 3: (2, True), 4: (1, True), 5: (2, True)}
"""Coordinates of a layer, and whether there are layers, by a texture's ``DIM``: 3 is a cube map."""
CUBE = 3
TARGET_DIMENSIONS = {1: (1, False), 2: (1, True), 3: (2, False), 4: (2, True), 5: (3, False)}
"""The same of a target's RESOURCE_TYPE; 0 is a buffer."""


class BufferResource(NamedTuple):
    """A buffer for fetches."""

    address: int
    size: int
    elements: int
    stride_bytes: int
    data_format: int
    number_format: int
    signed: bool
    selects: tuple[int, int, int, int]


class RandomTarget(NamedTuple):
    """A buffer for loads, stores and atomics."""

    address: int
    elements: int
    data_format: int
    number_format: int
    signed: bool


class LinearImage(NamedTuple):
    """An image for fetches or for random accesses."""

    address: int
    extents: tuple[int, int, int]
    """Width, height, and layers or the depth."""
    row_elements: int
    layer_elements: int
    levels: int
    dimensions: int
    layered: bool
    data_format: int
    number_format: int
    signed: bool
    selects: tuple[int, int, int, int]
    first_layer: int
    level_address: int = 0
    """Address of the second level, after which the others follow."""
    cube: bool = False


class ImageLevel(NamedTuple):
    """Where a level of an image is."""

    address: int
    extents: tuple[int, int, int]
    row_elements: int
    layer_elements: int


LEAST_ROW_ELEMENTS, ROW_ALIGNMENT_BYTES = 64, 256
"""Alignment of the rows of levels after the first."""


def _power_of_two(value: int) -> int:
    """The smallest power of two that is not below a value."""
    return 1 << (value - 1).bit_length()


def levels_of(image: LinearImage, element_bytes: int) -> list[ImageLevel]:
    """The levels of an image: the first as its descriptor says; the others padded to powers of two, one after the other."""
    found = [ImageLevel(image.address, image.extents, image.row_elements, image.layer_elements)]
    alignment = max(LEAST_ROW_ELEMENTS, ROW_ALIGNMENT_BYTES // element_bytes)
    address = image.level_address
    for n in range(1, image.levels):
        sizes = [max(1, size >> n) for size in image.extents[: image.dimensions]] + [1] * (3 - image.dimensions)
        width, height, depth = (_power_of_two(size) for size in sizes)
        row = -(-width // alignment) * alignment
        slices = image.extents[2] + image.first_layer if image.layered else depth
        extents = (sizes[0], sizes[1], image.extents[2] if image.layered else sizes[2])
        found.append(ImageLevel(address, extents, row, row * height))
        address += row * height * slices * element_bytes
    return found


def sampler_state(words: tuple[int, ...]) -> Sampler:
    """A sampler, from its three words (SQ_TEX_SAMPLER)."""
    filters, range_, bias = words
    return Sampler(
        (filters & 7, filters >> 3 & 7, filters >> 6 & 7),
        bool(filters >> 9 & 1),
        bool(filters >> 11 & 1),
        filters >> 15 & 3,
        1 << (filters >> 17 & 7),
        range_ & 0xFFF,
        range_ >> 12 & 0xFFF,
        ((bias & 0x3FFF) ^ 0x2000) - 0x2000,
        filters >> 20 & 3,
    )


def buffer_resource(words: tuple[int, ...]) -> BufferResource:
    """A descriptor of a buffer."""
    form = words[2]
    selects = tuple(words[3] >> 3 + 3 * n & 7 for n in range(4))
    return BufferResource(
        words[0] | (form & 0xFF) << 32,
        words[1] + 1,
        words[4] or 0xFFFFFFFF,
        form >> 8 & 0x7FF,
        form >> 20 & 0x3F,
        form >> 26 & 3,
        bool(form >> 28 & 1),
        selects,  # type: ignore[arg-type]
    )


def texture_resource(words: tuple[int, ...]) -> LinearImage:
    """A descriptor of a texture.

    Raises:
        UnsupportedError: it is tiled, has samples, or begins with another level than its first.
    """
    shape, size, base, second, form, range_, _, kind = words
    if size >> 28 not in LINEAR:
        raise UnsupportedError(TILED)
    if shape & 7 not in DIMENSIONS:
        raise UnsupportedError("textures with samples are not modelled on Cypress and Cayman")
    dimensions, layered = DIMENSIONS[shape & 7]
    first_level, last_level = form >> 28, range_ & 15
    if first_level:
        raise UnsupportedError("textures without their first level are not modelled on Cypress and Cayman")
    pitch, width, height = 8 * ((shape >> 6 & 0xFFF) + 1), (shape >> 18) + 1, (size & 0x3FFF) + 1
    first_layer, last_layer = range_ >> 4 & 0x1FFF, range_ >> 17 & 0x1FFF
    layers = last_layer - first_layer + 1 if layered else (size >> 14 & 0x1FFF) + 1
    return LinearImage(
        base << 8,
        (width, height, layers),
        pitch,
        pitch * height if dimensions > 1 else pitch,
        last_level + 1,
        dimensions,
        layered,
        kind & 0x3F,
        form >> 8 & 3,
        bool(form & 3),
        tuple(form >> 16 + 3 * n & 7 for n in range(4)),  # type: ignore[arg-type]
        first_layer if layered else 0,
        second << 8,
        shape & 7 == CUBE,
    )


@dataclass(frozen=True)
class ComputeState:
    """The state that a dispatch takes.

    Args:
        registers: by byte address.
        resources: words of descriptors, by number.
        samplers: likewise.
    """

    registers: Mapping[int, int]
    resources: Mapping[int, tuple[int, ...]]
    samplers: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def program_address(self) -> int:
        """Virtual address of the program."""
        return self.registers.get(PROGRAM_START, 0) << 8

    @property
    def registers_used(self) -> int:
        """Registers of a thread."""
        return max(1, self.registers.get(PROGRAM_RESOURCES, 1) & 0xFF)

    @property
    def shared_bytes(self) -> int:
        """Bytes of local data share of a group."""
        return 4 * (self.registers.get(LDS_ALLOCATION, 0) & 0x3FFF)

    @property
    def group(self) -> tuple[int, int, int]:
        """Extents of a group."""
        x, y, z = (max(1, self.registers.get(THREADS_X + 4 * n, 1)) for n in range(3))
        return x, y, z

    def constants(self, number: int) -> tuple[int, int]:
        """Virtual address and bytes of a constant buffer."""
        size = self.registers.get(CONSTANT_SIZES + 4 * number, 0)
        return self.registers.get(CONSTANT_ADDRESSES + 4 * number, 0) << 8, LINE_BYTES * size

    def resource(self, number: int) -> tuple[int, ...] | None:
        """Words of a resource; None: nothing is bound."""
        words = self.resources.get(FIRST_RESOURCE + number)
        return words if words is not None and len(words) == 8 and words[7] >> 30 else None

    def sampler(self, number: int) -> Sampler | None:
        """A sampler; None: nothing is bound."""
        words = self.samplers.get(FIRST_SAMPLER + number)
        return sampler_state(words) if words is not None and len(words) == 3 else None

    def target(self, number: int) -> RandomTarget | LinearImage | None:
        """A random access target; None: nothing is bound.

        Raises:
            UnsupportedError: it is a tiled image, has sRGB's numbers, or its channels have another order.
        """
        at = TARGET_REGISTERS[number]
        if at not in self.registers:
            return None
        pitch, slice_, view, info, size = (
            self.registers.get(at + n, 0) for n in (PITCH_AT, SLICE_AT, VIEW_AT, INFO_AT, DIMENSIONS_AT)
        )
        form, kind, resource_type = info >> 2 & 0x3F, info >> 12 & 7, info >> 27 & 7
        if not form:
            return None
        if kind not in NUMBER_TYPES or info >> 15 & 3:
            raise UnsupportedError(
                f"random access target {number}: numbers of type {kind} with channels in order {info >> 15 & 3} are not modelled"
            )
        number_format, signed = NUMBER_TYPES[kind]
        address = self.registers[at] << 8
        if not resource_type:
            return RandomTarget(address, size + 1, form, number_format, signed)
        if info >> 8 & 15 not in LINEAR:
            raise UnsupportedError(f"random access target {number}: {TILED}")
        if resource_type not in TARGET_DIMENSIONS:
            raise UnsupportedError(f"random access target {number}: resources of type {resource_type} are not modelled")
        first, last = view & 0x7FF, view >> 13 & 0x7FF
        return LinearImage(
            address,
            ((size & 0xFFFF) + 1, (size >> 16) + 1, last - first + 1),
            8 * ((pitch & 0x7FF) + 1),
            64 * ((slice_ & 0x3FFFFF) + 1),
            1,
            *TARGET_DIMENSIONS[resource_type],
            form,
            number_format,
            signed,
            (0, 1, 2, 3),
            first,
        )
